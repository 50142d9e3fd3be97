/* Which object each address belongs to: ranges of addresses, in order.
 *
 * Ranges lie in pieces of at most FT_FLOW_PIECE, pieces by address, so that one is found by two binary searches and
 * added by moving few others. Ranges do not overlap. A range stays until another one is set over it.
 */
#ifndef FORETRACE_FLOW_RANGES_H
#define FORETRACE_FLOW_RANGES_H

#include <stdbool.h>
#include <stdint.h>

#define FT_FLOW_PIECE 256u
#define FT_FLOW_MAX_RANGES (1u << 22) /* beyond, no more are added */

struct ft_flow_range {
    uint64_t first, end; /* addresses [first, end) */
    uint32_t object;
};

struct ft_flow_piece {
    struct ft_flow_range *ranges; /* room for FT_FLOW_PIECE */
    uint64_t first;               /* of the first of them */
    uint32_t length;              /* at least 1 */
};

struct ft_flow_ranges {
    struct ft_flow_piece *pieces;
    uint32_t num_pieces, capacity, num_ranges;
};

/* Gives [first, end) to an object. False when memory ran out. */
bool ft_flow_ranges_set(struct ft_flow_ranges *r, uint64_t first, uint64_t end, uint32_t object);

/* The range that an address lies in, or else the next one; NULL behind the last. */
const struct ft_flow_range *ft_flow_ranges_at(const struct ft_flow_ranges *r, uint64_t address);

void ft_flow_ranges_free(struct ft_flow_ranges *r);

#endif
