/* Array operations, between bursts: what is followed of them is found without looking at each access. */
#define _GNU_SOURCE /* memrchr */
#include "reuse_samples.h"

#include "array_walk.h"

#include <string.h>

/* How many points in a row, of `points` at most, begin before an access that goes `stride` bytes on each time touches a
 * followed block, if that of the first has its first byte at `address`. Its own block's end may count as one. */
static uint64_t unfollowed_points(const struct ft_reuse *reuse, uint64_t address, uint64_t size_bytes, int64_t stride,
                                 uint64_t points)
{
    const uint64_t first = address >> FT_BLOCK_SHIFT, last = (address + size_bytes - 1) >> FT_BLOCK_SHIFT;
    const uint64_t step = stride < 0 ? -(uint64_t)stride : (uint64_t)stride;
    if (first != last || reuse->is_followed[first & (FT_NUM_CLASSES - 1)])
        return 0;
    if (step == 0)
        return points;
    if (step >> FT_BLOCK_SHIFT)
        return 1;
    const uint64_t blocks = (points * step >> FT_BLOCK_SHIFT) + 1, class = first & (FT_NUM_CLASSES - 1);
    uint64_t bytes; /* that it may go on for */
    if (stride > 0) {
        const uint64_t seen = blocks < FT_NUM_CLASSES - class ? blocks : FT_NUM_CLASSES - class;
        const uint8_t *next = memchr(reuse->is_followed + class, 1, seen);
        const uint64_t clear = next ? (uint64_t)(next - (reuse->is_followed + class)) : seen;
        bytes = ((first + clear) << FT_BLOCK_SHIFT) - (address + size_bytes);
    } else {
        const uint64_t seen = blocks < class + 1 ? blocks : class + 1;
        const uint8_t *next = memrchr(reuse->is_followed + class + 1 - seen, 1, seen);
        const uint64_t clear = next ? (uint64_t)(reuse->is_followed + class - next) : seen;
        bytes = address - ((first + 1 - clear) << FT_BLOCK_SHIFT);
    }
    return bytes / step + 1 < points ? bytes / step + 1 : points;
}

/* The same for an indexed access. */
static uint64_t unfollowed_indexed(const struct ft_reuse *reuse, const struct ft_array_access *access,
                                  const uint64_t *index, uint64_t points)
{
    for (uint64_t i = 0; i < points; i++) {
        const uint64_t first = access->address + index[i] * (uint64_t)access->stride[0];
        const uint64_t last = first + access->size_bytes - 1;
        if (reuse->is_followed[first >> FT_BLOCK_SHIFT & (FT_NUM_CLASSES - 1)] |
            (first >> FT_BLOCK_SHIFT != last >> FT_BLOCK_SHIFT))
            return i;
    }
    return points;
}

/* Points from the one at hand on, in its row, of which no access lies in a sampled block. */
static uint64_t unfollowed_stay(const struct ft_reuse *reuse, const struct ft_array_walk *walk, uint64_t points)
{
    const struct ft_array_run *run = walk->run;
    const uint32_t dim = run->num_dims - 1;
    const uint64_t row = run->extent[dim] - walk->at[dim];
    points = points < row ? points : row;
    for (uint32_t j = 0; j < run->num_accesses && points; j++)
        if (!run->access[j].is_indexed)
            points = unfollowed_points(reuse, walk->address[j], run->access[j].size_bytes, run->access[j].stride[dim], points);
    for (uint32_t j = 0; j < run->num_accesses && points; j++)
        if (run->access[j].is_indexed)
            points = unfollowed_indexed(reuse, &run->access[j], run->index + walk->point, points);
    return points;
}

/* Whether two accesses go to different lines that may share a set: of all ways that tracks follow, or of larger ones. */
static bool share_sets(const struct ft_access *batch, size_t length)
{
    const uint64_t set_mask = ((UINT64_C(1) << FT_REUSE_SET_END) - 1) >> FT_BLOCK_SHIFT;
    uint64_t lines[FT_REUSE_SETS] = {0};
    for (size_t i = 0; i < length; i++) {
        const uint64_t last_byte = batch[i].address + batch[i].size_bytes - 1;
        for (uint64_t line = batch[i].address >> FT_LINE_SHIFT; line <= last_byte >> FT_LINE_SHIFT; line++) {
            uint64_t *used = &lines[line >> (FT_BLOCK_SHIFT - FT_LINE_SHIFT) & set_mask];
            if (*used && *used != line + 1)
                return true;
            *used = line + 1;
        }
    }
    return false;
}

/* The points from the one at hand on that touch the same lines, of the shortest size: of them only the first is looked at,
 * as of all accesses to the lines used last (see ft_reuse_sample). If some share a set, the second one, too: those behind
 * do what it does. Returns how many points they are, `most` at most. */
static uint64_t sample_point(struct ft_reuse *reuse, struct ft_array_walk *walk, uint64_t most)
{
    struct ft_access batch[FT_ARRAY_ACCESSES];
    struct distances found[FT_LINE_SIZES];
    const uint32_t width = walk->run->num_accesses;
    uint64_t points = ft_array_walk_stay(walk, FT_LINE_SHIFT);
    points = points < most ? points : most;
    points = points < UINT32_MAX ? points : UINT32_MAX;
    for (uint32_t j = 0; j < width; j++) {
        const struct ft_array_access *access = &walk->run->access[j];
        batch[j] = (struct ft_access){ft_array_walk_address(walk, j), access->op, access->size_bytes, access->flags};
    }
    ft_reuse_sample_part(reuse, batch, width);
    const bool again = points > 1 && share_sets(batch, width);
    for (uint32_t j = 0; again && j < width; j++)
        ft_reuse_look_at(reuse, &batch[j], (uint32_t)(points - 1), false, found);
    ft_array_walk_skip(walk, points);
    return points;
}

/* Between bursts, and between two points: goes over whole points, up to `limit` accesses. Those in blocks that are not
 * sampled are passed over. */
static uint64_t sample_points(struct ft_reuse *reuse, struct ft_array_walk *walk, uint64_t limit)
{
    const uint32_t width = walk->run->num_accesses;
    const uint64_t most = limit / width;
    uint64_t points = 0;
    while (walk->points_left && points < most) {
        const uint64_t stay = unfollowed_stay(reuse, walk, most - points);
        if (stay)
            ft_array_walk_skip(walk, stay);
        points += stay ? stay : sample_point(reuse, walk, most - points);
    }
    return points * width;
}

int ft_reuse_feed_array(struct ft_reuse *reuse, const struct ft_array_run *run)
{
    struct ft_array_walk walk;
    struct ft_access batch[PART];
    for (uint32_t j = 0; j < run->num_accesses; j++)
        reuse->operations[run->access[j].op].is_of_array = true;
    ft_array_walk_begin(&walk, run);
    while (walk.points_left && !reuse->failed) {
        const uint64_t to_end = reuse->phase_end - reuse->num_accesses;
        const uint64_t to_part = FT_REUSE_INTERVAL - reuse->num_accesses % FT_REUSE_INTERVAL;
        const uint64_t left = to_end < to_part ? to_end : to_part;
        if (reuse->phase == IN_BURST || walk.next_access || left < run->num_accesses) {
            ft_reuse_feed(reuse, batch, ft_array_walk_next(&walk, batch, left < PART ? (size_t)left : PART));
            continue;
        }
        ft_reuse_advance(reuse, sample_points(reuse, &walk, left));
    }
    return reuse->failed ? -1 : 0;
}

void ft_reuse_sample_array(struct ft_reuse *reuse, const struct ft_array_run *run)
{
    struct ft_array_walk walk;
    ft_array_walk_begin(&walk, run);
    for (uint32_t j = 0; j < run->num_accesses; j++)
        reuse->operations[run->access[j].op].is_of_array = true;
    while (walk.points_left)
        sample_points(reuse, &walk, UINT64_MAX);
}
