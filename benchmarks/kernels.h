/* Micro-benchmark kernels: short loops whose time tells one property of the machine.
 *
 * A kernel gets a `struct ft_work` and does `repeats` rounds of the same work on it. Who calls it takes the time and
 * divides by what ft_kernel.run returns: the number of operations done (accesses, elements, instructions or flops).
 *
 * Invariants, for the caller to keep (ft_kernel_fits checks all but the last two)
 *  - data is aligned to FT_LINE_BYTES; bytes is a positive multiple of the kernel's granule, and a power of two where
 *    the kernel says so.
 *  - index and dense have `elements` elements each, where the kernel uses them.
 *  - every index is below bytes / 8.
 *  - a chase runs over data that ft_link_chain linked, from `state` below bytes.
 *
 * No compiler may optimise a kernel away, vectorise it or hoist work out of its rounds: each value passes through an
 * empty asm statement, and each load or store that counts is volatile.
 */
#ifndef FORETRACE_KERNELS_H
#define FORETRACE_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FT_LINE_BYTES 64u

struct ft_work {
    void *data;
    size_t bytes;
    const uint32_t *index;
    double *dense;
    size_t elements;
    uint64_t repeats;
    uint64_t state; /* chase: offset of the next link; random: the generator's state. Kept from run to run. */
};

struct ft_kernel {
    const char *name;
    uint64_t (*run)(struct ft_work *work);
    size_t granule; /* 0: uses no data */
    bool power_of_two;
    bool indexed; /* uses index and dense */
    bool (*available)(void); /* NULL: everywhere */
};

extern const struct ft_kernel ft_kernels[];
extern const size_t ft_kernel_count;

bool ft_kernel_fits(const struct ft_kernel *kernel, const struct ft_work *work);

/* Links the lines of `data` into one cycle that visits them in the given order. False, with data in an unknown state,
 * if order is no permutation of the lines. `scratch` has one byte a line, all zero. */
bool ft_link_chain(void *data, size_t lines, const uint32_t *order, uint8_t *scratch);

/* Seconds of a clock that only runs forward. */
double ft_now(void);

#endif
