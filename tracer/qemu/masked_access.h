/* Masked vector loads of x86-64: VMASKMOVPS, VMASKMOVPD, VPMASKMOVD, VPMASKMOVQ.
 *
 * A masked access is one of the lanes that are on. QEMU stores each of these by itself, and the reader joins them; but
 * it loads all lanes and clears the others afterwards. So the mask of a load is read from QEMU's record of the
 * processor (guest_registers.h). Where that has the vector registers depends on its version: it is guessed, and made
 * sure of by loads, behind which a register holds what the memory does in the lanes that the mask had on, and 0 in the
 * others.
 */
#ifndef FORETRACE_MASKED_ACCESS_H
#define FORETRACE_MASKED_ACCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ft_masked {
    uint8_t element_bytes; /* 0: the instruction is none of these */
    uint8_t vector_bytes;
    uint8_t mask, destination; /* registers */
    bool is_followed;          /* ft_masked_ended will be called */
};

/* The masked access of an instruction for QEMU's `target`. */
struct ft_masked ft_masked_of(const char *target, const unsigned char *code, size_t length);

/* Lanes of a masked load: `lanes` by bit, from an address. */
struct ft_masked_lanes {
    uint64_t address;
    uint32_t lanes;
    bool is_whole; /* all of them, as the mask is not known */
};

/* The instruction begins to run; `env` as in guest_registers.h, NULL where it is not known. */
void ft_masked_begins(const struct ft_masked *masked, const void *env);

/* It loaded memory, as QEMU has it. */
struct ft_masked_lanes ft_masked_loads(const struct ft_masked *masked, uint64_t address, uint64_t bytes,
                                       uint64_t guest_base);

/* It has run. What it stands for, if ft_masked_loads had not told. */
struct ft_masked_lanes ft_masked_ended(const struct ft_masked *masked, const void *env);

#endif
