/* Numbers by pairs of numbers: open addressing. */
#ifndef FORETRACE_FLOW_PAIRS_H
#define FORETRACE_FLOW_PAIRS_H

#include "foretrace/base/tables.h"

#define FT_FLOW_NONE UINT32_MAX

struct ft_flow_pair {
    uint64_t key; /* the pair, plus 1; 0: free */
    uint32_t value;
};

FT_TABLE_TYPE(ft_flow_pairs, struct ft_flow_pair);

/* FT_FLOW_NONE if there is none. No pair is (UINT32_MAX, UINT32_MAX). */
uint32_t ft_flow_pairs_find(const struct ft_flow_pairs *pairs, uint32_t a, uint32_t b);

/* Adds a pair, or gives it another number. False when memory ran out. */
bool ft_flow_pairs_put(struct ft_flow_pairs *pairs, uint32_t a, uint32_t b, uint32_t value);

void ft_flow_pairs_free(struct ft_flow_pairs *pairs);

/* The finalizer of MurmurHash3. */
static inline uint64_t ft_flow_mixed(uint64_t x)
{
    x = (x ^ x >> 33) * UINT64_C(0xff51afd7ed558ccd);
    x = (x ^ x >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
    return x ^ x >> 33;
}

#endif
