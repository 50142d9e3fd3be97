/* Reuse distances by spatial sampling: how many distinct lines were touched since a line was touched last. See reuse.c. */
#ifndef FORETRACE_REUSE_H
#define FORETRACE_REUSE_H

#include "access.h"

#define FT_REUSE_MAX_RATE_SHIFT 32u
#define FT_REUSE_BINS 173u /* the last for first touches */
#define FT_REUSE_FIRST_TOUCH (FT_REUSE_BINS - 1)

struct ft_reuse;

struct ft_reuse_count {
    uint32_t op;
    uint32_t bin;
    uint64_t accesses; /* that the sampled ones stand for */
};

/* Samples lines of 2^line_shift bytes, in the end at a rate of at most 2^-rate_shift. NULL when memory ran out. */
struct ft_reuse *ft_reuse_new(unsigned line_shift, unsigned rate_shift);
void ft_reuse_free(struct ft_reuse *reuse);

/* Returns 0, or -1 when memory ran out. */
int ft_reuse_feed(struct ft_reuse *reuse, const struct ft_access *batch, size_t length);

/* The rate now is 2^-rate_shift. */
unsigned ft_reuse_rate_shift(const struct ft_reuse *reuse);
size_t ft_reuse_sampled_lines(const struct ft_reuse *reuse);

/* Smallest distance of a bin, in lines; not for FT_REUSE_FIRST_TOUCH. */
uint64_t ft_reuse_bin_edge(unsigned bin);

size_t ft_reuse_num_counts(const struct ft_reuse *reuse);

/* Non-empty histogram entries, in no order; *position starts at 0. Returns 0 when there are no more. */
int ft_reuse_next(const struct ft_reuse *reuse, size_t *position, struct ft_reuse_count *count);

#endif
