/* Array operations, between bursts: what is followed of them is found without looking at each access. */
#define _GNU_SOURCE /* memrchr */
#include "samples.h"

#include "cache_sim/simulation/array_walk.h"

#include <string.h>

#define INDICES_AT_ONCE 8u

/* How many points in a row, of `points` at most, begin before an access that goes `stride` bytes on each time touches a
 * followed block, if that of the first has its first byte at `address`. Its own block's end may count as one. */
static uint64_t unfollowed_points(const struct ft_reuse *reuse, uint64_t address, uint64_t size_bytes, int64_t stride,
                                  uint64_t points)
{
    const uint64_t first = address >> FT_BLOCK_SHIFT;
    const uint64_t step = stride < 0 ? -(uint64_t)stride : (uint64_t)stride;
    if (may_be_followed(reuse->is_followed, address, size_bytes))
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

/* Whether an indexed access is never in two blocks. */
static bool is_in_blocks(const struct ft_array_access *access)
{
    const uint64_t size = access->size_bytes;
    return (size & (size - 1)) == 0 && size >> FT_BLOCK_SHIFT == 0 &&
           ((access->address | (uint64_t)access->stride[0]) & (size - 1)) == 0;
}

/* The same for an indexed access. */
static uint64_t unfollowed_indexed(const struct ft_reuse *reuse, const struct ft_array_access *access,
                                   const uint64_t *index, uint64_t points)
{
    uint64_t i = 0;
    for (; is_in_blocks(access) && i + INDICES_AT_ONCE <= points; i += INDICES_AT_ONCE) {
        unsigned any = 0;
        for (uint64_t j = i; j < i + INDICES_AT_ONCE; j++)
            any |= reuse->is_followed[(access->address + index[j] * (uint64_t)access->stride[0]) >> FT_BLOCK_SHIFT &
                                      (FT_NUM_CLASSES - 1)];
        if (any)
            break;
    }
    for (; i < points; i++) {
        const uint64_t address = access->address + index[i] * (uint64_t)access->stride[0];
        if (may_be_followed(reuse->is_followed, address, access->size_bytes))
            return i;
    }
    return points;
}

/* Points from the one at hand on, `points` at most and of its row, at which each access is as followed as at this one:
 * none of them is, or those that are touch the same lines, of the shortest size. `any` says whether there are such.
 * Until point clear[j] of the walk access j is known not to be. */
static uint64_t alike_points(const struct ft_reuse *reuse, const struct ft_array_walk *walk, uint64_t points,
                             uint64_t *clear, bool *any)
{
    const struct ft_array_run *run = walk->run;
    const uint32_t dim = run->num_dims - 1;
    const uint64_t row = ft_array_walk_row(walk);
    *any = false;
    points = points < row ? points : row;
    for (uint32_t j = 0; j < run->num_accesses; j++) {
        const struct ft_array_access *access = &run->access[j];
        if (clear[j] <= walk->point)
            clear[j] = walk->point +
                       (access->is_indexed
                            ? unfollowed_indexed(reuse, access, run->index + walk->point, row)
                            : unfollowed_points(reuse, walk->address[j], access->size_bytes, access->stride[dim], row));
        const uint64_t unfollowed = clear[j] - walk->point;
        *any |= unfollowed == 0;
        if (unfollowed == 0)
            points = ft_array_walk_stay(walk, j, FT_LINE_SHIFT, points);
        else if (unfollowed < points)
            points = unfollowed;
    }
    return points;
}

/* Whether two accesses go to different lines that may share a set: of all ways that tracks follow, or of larger ones.
 */
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

/* Looks at accesses, `times` times, but for those to the line looked at last, which change nothing. */
static void look_at(struct ft_reuse *reuse, const struct ft_access *batch, size_t length, uint32_t times,
                    uint64_t *last_line)
{
    struct distances found[FT_LINE_SIZES];
    for (size_t i = 0; i < length; i++) {
        if (!uses_line_again(&batch[i], last_line))
            ft_reuse_look_at(reuse, &batch[i], times, false, found);
    }
}

/* The followed accesses of the point at hand, which stand for those of so many points from there on. Of these the first
 * is looked at, and if some share a set, the second for all behind it: they do what it does. */
static void look_at_points(struct ft_reuse *reuse, const struct ft_array_walk *walk, uint64_t points,
                           uint64_t *last_line)
{
    struct ft_access batch[FT_ARRAY_ACCESSES];
    size_t length = 0;
    for (uint32_t j = 0; j < walk->run->num_accesses; j++) {
        const struct ft_array_access *access = &walk->run->access[j];
        const uint64_t address = ft_array_walk_address(walk, j);
        batch[length] = (struct ft_access){address, access->op, access->size_bytes, access->flags};
        length += may_be_followed(reuse->is_followed, address, access->size_bytes);
    }
    look_at(reuse, batch, length, 1, last_line);
    if (points > 1 && length > 1 && share_sets(batch, length))
        look_at(reuse, batch, length, (uint32_t)points - 1, last_line);
}

/* Between bursts, and between two points: goes over whole points, up to `limit` accesses. */
static uint64_t sample_points(struct ft_reuse *reuse, struct ft_array_walk *walk, uint64_t limit)
{
    const uint32_t width = walk->run->num_accesses;
    const uint64_t most = limit / width;
    uint64_t points = 0, last_line = 0, clear[FT_ARRAY_ACCESSES] = {0}; /* what is followed may have changed */
    while (walk->points_left && points < most) {
        const uint64_t left = most - points < UINT32_MAX ? most - points : UINT32_MAX;
        bool any;
        const uint64_t alike = alike_points(reuse, walk, left, clear, &any);
        if (any && !reuse->failed)
            look_at_points(reuse, walk, alike, &last_line);
        ft_array_walk_skip(walk, alike);
        points += alike;
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
            const uint64_t most =
                reuse->phase == IN_BURST ? PART : run->num_accesses - walk.next_access; /* of the point */
            ft_reuse_feed(reuse, batch, ft_array_walk_next(&walk, batch, (size_t)(left < most ? left : most)));
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
    while (walk.points_left && !reuse->failed)
        sample_points(reuse, &walk, UINT64_MAX);
}
