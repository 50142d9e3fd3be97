/* Tells what memory is: what the program allocates, releases, and has the system read and write (FT_TAG_MEMORY of
 * stream.h).
 *
 * The C library's allocator and C++'s `new` are known by the names in symbol tables. Where one of them begins, its
 * arguments and where it returns to are read from the registers; where it has returned, its result (guest_registers.h).
 * All that is allocated from one place is one object. Of calls within such a call, the outermost counts. Variables of
 * 64 bytes and more are objects by their names. Memory that no such function returned is known by system calls alone:
 * brk, mmap, munmap, mremap.
 *
 * Not seen: a call whose return address is the beginning of a block that ran before the first such call.
 */
#ifndef FORETRACE_ALLOCATIONS_H
#define FORETRACE_ALLOCATIONS_H

#include "qemu_api.h"
#include "tracer/transport/writer.h"

/* `cursors` are those of the virtual processors. */
void ft_allocations_begin(const char *target, struct ft_cursor *const *cursors);

/* A block is translated, and will run: `bytes` is its address in this process. One call at a time. */
void ft_allocations_translate(struct qemu_plugin_tb *tb, uint64_t address, const void *bytes);

/* Code was mapped. */
void ft_allocations_forget_mappings(void);

/* Before and after a system call. */
void ft_allocations_call(unsigned int vcpu, int64_t number, const uint64_t arguments[6]);
void ft_allocations_returned(unsigned int vcpu, int64_t number, int64_t result);

#endif
