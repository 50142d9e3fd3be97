/* The accesses of an array operation, one after the other, or as many at once as stay where they are. */
#ifndef FORETRACE_ARRAY_WALK_H
#define FORETRACE_ARRAY_WALK_H

#include "access.h"

#define FT_SHORT_STEP_BITS 16u /* in as many a reciprocal is exact */

/* Where a walk stands: before access `next_access` of a point. */
struct ft_array_walk {
    const struct ft_array_run *run;
    uint64_t points_left;
    uint64_t point;
    uint32_t next_access;
    uint64_t at[FT_ARRAY_DIMS];
    uint64_t address[FT_ARRAY_ACCESSES]; /* of the point at hand; not of indexed accesses */
    uint64_t
        reciprocal[FT_ARRAY_ACCESSES]; /* 2^32 divided by its step in a row, rounded up; 0 for no step, or a long one */
};

void ft_array_walk_begin(struct ft_array_walk *walk, const struct ft_array_run *run);

/* Writes the next accesses, up to `room`. Returns how many; 0 at the end. */
size_t ft_array_walk_next(struct ft_array_walk *walk, struct ft_access *out, size_t room);

/* The number of points from the one at hand on, `points` at most, which are in its row, at which an access touches the
 * same block of 2^shift bytes, and not two: 1 at least, and for indexed accesses. Shifts are below 32. */
uint64_t ft_array_walk_stay(const struct ft_array_walk *walk, uint32_t access, unsigned shift, uint64_t points);

/* The points from the one at hand on that are in its row. */
static inline uint64_t ft_array_walk_row(const struct ft_array_walk *walk)
{
    const uint32_t dim = walk->run->num_dims - 1;
    return walk->run->extent[dim] - walk->at[dim];
}

/* How many steps, which are not 0, an access goes on in a row from `first` until it leaves a block of 2^shift bytes, in
 * which all of it is. */
static inline uint64_t ft_array_walk_steps(const struct ft_array_walk *walk, uint32_t access, uint64_t first,
                                           unsigned shift)
{
    const struct ft_array_access *facts = &walk->run->access[access];
    const int64_t stride = facts->stride[walk->run->num_dims - 1];
    const uint64_t step = stride < 0 ? -(uint64_t)stride : (uint64_t)stride;
    const uint64_t mask = (UINT64_C(1) << shift) - 1;
    const uint64_t room_bytes = stride < 0 ? first & mask : mask - ((first + facts->size_bytes - 1) & mask);
    return (room_bytes | step) >> FT_SHORT_STEP_BITS ? room_bytes / step : room_bytes * walk->reciprocal[access] >> 32;
}

/* Passes over so many points of the row at hand. */
void ft_array_walk_skip(struct ft_array_walk *walk, uint64_t points);

static inline uint64_t ft_array_walk_address(const struct ft_array_walk *walk, uint32_t access)
{
    const struct ft_array_access *facts = &walk->run->access[access];
    return facts->is_indexed ? facts->address + walk->run->index[walk->point] * (uint64_t)facts->stride[0]
                             : walk->address[access];
}

#endif
