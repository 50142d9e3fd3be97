/* See array_streams.h.
 *
 * Each access of a stream comes to one line after the other, and to no line of another access, unless it goes where
 * that goes. Once each set has been given as many lines as it has ways, nothing is left of what the cache held before:
 * from there on every line misses. (A level is given all lines where they all miss the one above it.) And what the
 * cache holds in the end are the lines that came last. So there is nothing to find out between a beginning and an end
 * that both fill all levels; and the caches that are asked first, which are smaller, need see no more than what fills
 * them.
 */
#include "array_streams.h"

static uint64_t step_of(const struct ft_array_access *access)
{
    return access->stride[0] < 0 ? -(uint64_t)access->stride[0] : (uint64_t)access->stride[0];
}

static uint64_t line_at(const struct ft_array_access *access, uint64_t point, unsigned line_shift)
{
    return (access->address + point * (uint64_t)access->stride[0]) >> line_shift;
}

/* Whether an access goes from line to line, and is never in two. */
static bool keeps_to_lines(const struct ft_array_access *access, unsigned line_shift)
{
    const uint64_t step = step_of(access), size = access->size_bytes;
    return step > 0 && step >> line_shift == 0 && (size & (size - 1)) == 0 && size >> line_shift == 0 &&
           ((access->address | step) & (size - 1)) == 0;
}

static bool goes_along_with(const struct ft_array_access *a, const struct ft_array_access *b)
{
    return a->address == b->address && a->stride[0] == b->stride[0] && a->size_bytes == b->size_bytes;
}

/* Whether an access goes where one before it goes. */
static bool is_second(const struct ft_array_run *run, uint32_t access)
{
    for (uint32_t j = 0; j < access; j++)
        if (goes_along_with(&run->access[j], &run->access[access]))
            return true;
    return false;
}

static bool meet(const struct ft_array_run *run, const struct ft_array_access *a, const struct ft_array_access *b,
                 unsigned line_shift)
{
    const uint64_t first_a = line_at(a, 0, line_shift), last_a = line_at(a, run->extent[0] - 1, line_shift);
    const uint64_t first_b = line_at(b, 0, line_shift), last_b = line_at(b, run->extent[0] - 1, line_shift);
    const bool is_a_below = (first_a > last_a ? first_a : last_a) < (first_b < last_b ? first_b : last_b);
    const bool is_b_below = (first_b > last_b ? first_b : last_b) < (first_a < last_a ? first_a : last_a);
    return !is_a_below && !is_b_below;
}

/* The points that fill caches down to a depth, in which some line is besides others. */
static uint64_t points_to_fill(const struct ft_array_run *run, const struct ft_cache *cache, unsigned depth)
{
    uint64_t step = 0;
    for (uint32_t j = 0; j < run->num_accesses; j++)
        step += is_second(run, j) ? 0 : step_of(&run->access[j]);
    return ft_cache_fill_bytes(cache, run->num_accesses, depth) / step + 1;
}

bool ft_array_stream_of(struct ft_array_stream *stream, const struct ft_array_run *run, const struct ft_cache *cache)
{
    const unsigned line_shift = ft_cache_line_shift(cache);
    const uint64_t line_points = UINT64_C(1) << line_shift;
    unsigned depth;
    ft_cache_levels(cache, &depth);
    if (run->num_dims != 1 || run->index || run->num_accesses > ft_cache_repeatable_lines(cache) ||
        ft_cache_fill_bytes(cache, 1, 0) == 0)
        return false;
    for (uint32_t j = 0; j < run->num_accesses; j++)
        if (!keeps_to_lines(&run->access[j], line_shift))
            return false;
    const uint64_t first = points_to_fill(run, cache, 0), all = points_to_fill(run, cache, depth);
    if (run->extent[0] <= 2 * first + line_points) /* some line is in the middle alone */
        return false;
    for (uint32_t j = 1; j < run->num_accesses; j++)
        for (uint32_t i = 0; i < j; i++)
            if (!goes_along_with(&run->access[i], &run->access[j]) &&
                meet(run, &run->access[i], &run->access[j], line_shift))
                return false;
    *stream = (struct ft_array_stream){.first = first, .begin = run->extent[0], .end = run->extent[0]};
    if (run->extent[0] > 2 * all + line_points) {
        stream->begin = all;
        stream->end = run->extent[0] - all;
    }
    return true;
}

/* How many points from this one on an access stays in its line. */
static uint64_t points_in_line(const struct ft_array_access *access, uint64_t point, unsigned line_shift)
{
    const uint64_t mask = (UINT64_C(1) << line_shift) - 1,
                   address = access->address + point * (uint64_t)access->stride[0];
    const uint64_t room_bytes =
        access->stride[0] < 0 ? address & mask : mask - ((address + access->size_bytes - 1) & mask);
    return room_bytes / step_of(access) + 1;
}

/* Lines that are come to at points begin .. end-1, all of which miss: with those that are in use before, or without. */
static void feed_lines(const struct ft_array_run *run, struct ft_cache *cache, uint64_t begin, uint64_t end,
                       bool with_those_before)
{
    const unsigned line_shift = ft_cache_line_shift(cache);
    const uint64_t line_bytes = UINT64_C(1) << line_shift;
    struct ft_access batch[FT_CACHE_BATCH];
    uint64_t next[FT_ARRAY_ACCESSES], period[FT_ARRAY_ACCESSES]; /* of points; 0: lines have not all as many */
    size_t length = 0;
    for (uint32_t j = 0; j < run->num_accesses; j++) {
        const struct ft_array_access *access = &run->access[j];
        const bool is_in_line =
            !with_those_before && line_at(access, begin - 1, line_shift) == line_at(access, begin, line_shift);
        next[j] = is_second(run, j) ? UINT64_MAX
                  : is_in_line      ? begin + points_in_line(access, begin, line_shift)
                                    : begin;
        period[j] = line_bytes % step_of(access) ? 0 : line_bytes / step_of(access);
    }
    for (;;) {
        uint64_t point = UINT64_MAX;
        for (uint32_t j = 0; j < run->num_accesses; j++)
            point = next[j] < point ? next[j] : point;
        if (point >= end || length > FT_CACHE_BATCH - FT_ARRAY_ACCESSES) {
            ft_cache_feed_missing(cache, batch, length);
            length = 0;
        }
        if (point >= end)
            return;
        for (uint32_t j = 0; j < run->num_accesses; j++) {
            const struct ft_array_access *access = &run->access[j];
            if (next[j] != point)
                continue;
            batch[length++] = (struct ft_access){access->address + point * (uint64_t)access->stride[0], access->op,
                                                 access->size_bytes, 0};
            next[j] += point > begin && period[j] ? period[j] : points_in_line(access, point, line_shift);
        }
    }
}

/* Counts misses everywhere: lines that are in use before or behind these points are counted there. */
static void count_lines(const struct ft_array_run *run, struct ft_cache *cache, uint64_t begin, uint64_t end)
{
    const unsigned line_shift = ft_cache_line_shift(cache);
    for (uint32_t j = 0; j < run->num_accesses; j++) {
        const uint64_t before = line_at(&run->access[j], begin - 1, line_shift),
                       after = line_at(&run->access[j], end, line_shift);
        if (!is_second(run, j))
            ft_cache_count_misses(cache, run->access[j].op, (after > before ? after - before : before - after) - 1);
    }
}

void ft_array_stream_feed(const struct ft_array_stream *stream, const struct ft_array_run *run, struct ft_cache *cache)
{
    feed_lines(run, cache, stream->first, stream->begin, false);
    if (stream->begin == stream->end)
        return;
    count_lines(run, cache, stream->begin, stream->end);
    feed_lines(run, cache, stream->end, run->extent[0], true);
}

struct ft_array_run ft_array_part(const struct ft_array_run *run, uint64_t begin, uint64_t end)
{
    struct ft_array_run part = *run;
    part.extent[0] = end - begin;
    for (uint32_t j = 0; j < run->num_accesses; j++)
        part.access[j].address += begin * (uint64_t)run->access[j].stride[0];
    return part;
}
