/* Micro-benchmark kernels: short loops whose time tells one property of the machine.
 *
 * A kernel gets a `struct ft_work` and does `repeats` rounds of the same work on it. Who calls it takes the time and
 * divides by what ft_kernel.run returns: the number of operations done (accesses, elements, instructions or flops).
 *
 * Invariants, for the caller to keep (ft_kernel_fits checks all but the last two)
 *  - data is aligned to FT_LINE_BYTES; bytes is a positive multiple of the kernel's granule, and a power of two where
 *    the kernel says so. A strided kernel's stride is a positive multiple of 8 bytes, and bytes one of 16 strides.
 *  - index and dense have `elements` elements each, where the kernel uses them.
 *  - every index is below bytes / the kernel's element_bytes.
 *  - a chase runs over data that ft_link_chain linked, from `state` below bytes, a line that was linked; a window over data
 *    whose halves it linked alike.
 *
 * No compiler may optimise a kernel away, vectorise it or hoist work out of its rounds: each value passes through an
 * empty asm statement, and each load or store that counts is volatile. Only gather, scatter and update are compiled as
 * those of a program are: a vectorised one would be what programs get.
 */
#ifndef FORETRACE_KERNELS_H
#define FORETRACE_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FT_LINE_BYTES 64u
#define FT_CHUNK 1024u /* elements that a round of gather, scatter or update takes at most */

struct ft_work {
    void *data;
    size_t bytes;
    size_t stride; /* bytes from one access to the next, of the strided kernels */
    const uint32_t *index;
    void *dense;
    size_t elements;
    uint64_t repeats;
    uint64_t state; /* chase: offset of the next link; random: the generator's state; indexed: the next element. Kept
                     * from run to run. */
};

struct ft_kernel {
    const char *name;
    uint64_t (*run)(struct ft_work *work);
    size_t granule; /* 0: uses no data */
    bool power_of_two;
    bool strided;
    unsigned element_bytes;  /* of data and dense, where the kernel uses an index; 0: it does not */
    bool (*available)(void); /* NULL: everywhere */
};

/* The kernel of a number, in the order of all; NULL after the last. */
const struct ft_kernel *ft_kernel_at(size_t number);

bool ft_kernel_fits(const struct ft_kernel *kernel, const struct ft_work *work);

/* Links some lines of `data`, which has `lines`, into one cycle that visits the `links` of `order` as given. False,
 * with data in an unknown state, if a line is none of data's or comes twice. `scratch` has one byte a line, all zero.
 */
bool ft_link_chain(void *data, size_t lines, const uint32_t *order, size_t links, uint8_t *scratch);

/* Seconds of a clock that only runs forward. */
double ft_now(void);

/* ---- where the kernels are: each array ends with a kernel without a name ------------------------------------------- */

extern const struct ft_kernel ft_memory_kernels[];  /* loads, stores, copies, chains, gather and scatter */
extern const struct ft_kernel ft_window_kernels[];  /* two chains with instructions between their loads */
extern const struct ft_kernel ft_core_kernels[];    /* integers, branches, issue, forwarding */
extern const struct ft_kernel ft_code_kernels[];    /* much code */
extern const struct ft_kernel ft_fp_kernels[];      /* arithmetic by element and width, floating-point and vector */
extern const struct ft_kernel ft_special_kernels[]; /* AES, SHA, CRC and others that only some processors have */

#endif
