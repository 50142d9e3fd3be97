/* What kind of instruction ends a block of machine code, from its bytes alone. */
#ifndef FORETRACE_ENDINGS_H
#define FORETRACE_ENDINGS_H

#include <stdint.h>

enum ft_guest { FT_GUEST_NONE, FT_GUEST_X86_64, FT_GUEST_AARCH64, FT_GUEST_RISCV64 };

enum ft_ending {
    FT_ENDING_PLAIN, /* goes on behind it: no jump, or one that could not be decoded */
    FT_ENDING_BRANCH,
    FT_ENDING_JUMP,
    FT_ENDING_INDIRECT_JUMP,
    FT_ENDING_CALL,
    FT_ENDING_RETURN,
    FT_ENDING_SYSTEM_CALL,
    FT_ENDING_BYTECODE /* no machine code */
};

/* The kind of the instruction at `address` whose `length` bytes are at `code`. `*target` becomes where a direct jump or
 * call goes to, 0 for others. An instruction that is cut off is plain. */
enum ft_ending ft_ending_of(enum ft_guest guest, const unsigned char *code, uint32_t length, uint64_t address,
                            uint64_t *target);

/* Blocks of procedure linkage tables. */
enum ft_linkage {
    FT_LINKAGE_NONE,
    FT_LINKAGE_STUB, /* jumps to a function whose address the loader has written down: a tail call by definition */
    FT_LINKAGE_LAZY  /* the table's first entry: goes to the loader's resolver, which jumps to the function it has found
                      */
};

/* What a block is whose code ends with an indirect jump, the last `length` of its `bytes` bytes. */
enum ft_linkage ft_linkage_of(enum ft_guest guest, const unsigned char *code, uint32_t bytes, uint32_t length);

#endif
