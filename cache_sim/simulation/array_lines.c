/* See array_lines.h.
 *
 * Within a row each access goes on by one step, so that the point at which it comes to its next line is known. Points
 * at which none does touch the lines of the one before, in the same order: all hit, as they stay in the caches
 * together, and leave each set in the order it had. Of the other points those accesses are left out that go to the line
 * used last in their set. Where some accesses go by an index, or more than stay in the caches together, that is all
 * that is left out.
 */
#include "array_lines.h"

/* How many points an access takes for each line but the first of a row, if they are always as many and it is in one
 * line at each; else 0. */
static uint64_t period_of(const struct ft_array_run *run, const struct ft_array_access *access, unsigned line_shift)
{
    const int64_t stride = access->stride[run->num_dims - 1];
    const uint64_t step = stride < 0 ? -(uint64_t)stride : (uint64_t)stride, in_step = step - 1;
    uint64_t places = access->address;
    for (uint32_t d = 0; d < run->num_dims; d++)
        places |= (uint64_t)access->stride[d];
    const bool divides = step && (step & in_step) == 0 && step >> line_shift == 0;
    return divides && (places & in_step) == 0 && access->size_bytes <= step ? (UINT64_C(1) << line_shift) / step : 0;
}

void ft_array_lines_begin(struct ft_array_lines *lines, const struct ft_array_run *run, struct ft_recent_lines *recent,
                          size_t repeatable_lines)
{
    ft_array_walk_begin(&lines->walk, run);
    lines->is_point_by_point = run->index || run->num_accesses > repeatable_lines;
    for (uint32_t j = 0; j < run->num_accesses; j++) {
        lines->next[j] = lines->line[j] = lines->set[j] = 0;
        lines->period[j] = period_of(run, &run->access[j], recent->line_shift);
        lines->access[j] = (struct ft_access){0, run->access[j].op, run->access[j].size_bytes, run->access[j].flags};
    }
    ft_recent_clear(recent);
    lines->recent = recent;
}

/* At which point of the row an access that comes to another line, at `address`, comes to the one behind that. */
static __attribute__((noinline)) uint64_t next_line(struct ft_array_lines *lines, uint32_t access, uint64_t point,
                                                    uint64_t address)
{
    const struct ft_array_access *facts = &lines->walk.run->access[access];
    const unsigned line_shift = lines->recent->line_shift;
    lines->several[access] = (address ^ (address + facts->size_bytes - 1)) >> line_shift;
    if (lines->several[access])
        return point + 1;
    if (facts->stride[lines->walk.run->num_dims - 1] == 0)
        return UINT64_MAX;
    return point + ft_array_walk_steps(&lines->walk, access, address, line_shift) + 1;
}

/* `width` is the number of accesses at a point, known to the compiler where it is usual. What a row has of each access
 * is kept in registers: a store to `out` might change it, for all that the compiler knows. */
static inline __attribute__((always_inline)) size_t next_of(struct ft_array_lines *lines, struct ft_access *out,
                                                            size_t room, const uint32_t width)
{
    struct ft_array_walk *const walk = &lines->walk;
    struct ft_recent_lines *const recent = lines->recent;
    const struct ft_array_run *const run = walk->run;
    const uint32_t dim = run->num_dims - 1;
    const uint64_t extent = run->extent[dim];
    uint64_t next[FT_ARRAY_ACCESSES], line[FT_ARRAY_ACCESSES], set[FT_ARRAY_ACCESSES];
    size_t length = 0;
    for (uint32_t j = 0; j < width; j++) {
        next[j] = lines->next[j];
        line[j] = lines->line[j];
        set[j] = lines->set[j];
    }
    while (walk->points_left && length + width <= room) {
        uint64_t point = next[0];
        for (uint32_t j = 1; j < width; j++)
            point = next[j] < point ? next[j] : point;
        if (point >= extent) { /* the next row */
            ft_array_walk_skip(walk, extent);
            for (uint32_t j = 0; j < width; j++)
                next[j] = 0;
            continue;
        }
        for (uint32_t j = 0; j < width; j++) {
            const struct ft_array_access *access = &run->access[j];
            if (next[j] != point && recent->lines[set[j]] == line[j])
                continue; /* as before, and no other has come to its set */
            const uint64_t address = walk->address[j] + point * (uint64_t)access->stride[dim];
            if (next[j] == point) {
                line[j] = address >> recent->line_shift;
                set[j] = address >> recent->set_shift & recent->set_mask;
                next[j] = point && lines->period[j] ? point + lines->period[j] : next_line(lines, j, point, address);
            }
            uint64_t *const used = &recent->lines[set[j]];
            out[length] = lines->access[j];
            out[length].address = address;
            if (lines->several[j]) {
                length += ft_recent_use_several(recent, address, address + access->size_bytes - 1);
                continue;
            }
            length += *used != line[j];
            *used = line[j];
        }
    }
    for (uint32_t j = 0; j < width; j++) {
        lines->next[j] = next[j];
        lines->line[j] = line[j];
        lines->set[j] = set[j];
    }
    return length;
}

/* The same of any accesses. At point i of a row, one goes to first + i * step + index[i] * scale. */
static inline __attribute__((always_inline)) size_t next_by_point(struct ft_array_lines *lines, struct ft_access *out,
                                                                  size_t room, const uint32_t width)
{
    static const uint64_t no_index[1] = {0};
    struct ft_array_walk *const walk = &lines->walk;
    const struct ft_array_run *const run = walk->run;
    uint64_t first[FT_ARRAY_ACCESSES], step[FT_ARRAY_ACCESSES], scale[FT_ARRAY_ACCESSES];
    size_t length = 0;
    while (walk->points_left && length + width <= room) {
        const uint64_t row = ft_array_walk_row(walk), most = (room - length) / width, points = row < most ? row : most;
        const uint64_t *const index = run->index ? run->index + walk->point : no_index;
        const uint64_t has_index = run->index != NULL;
        for (uint32_t j = 0; j < width; j++) {
            const struct ft_array_access *access = &run->access[j];
            first[j] = access->is_indexed ? access->address : walk->address[j];
            step[j] = access->is_indexed ? 0 : (uint64_t)access->stride[run->num_dims - 1];
            scale[j] = access->is_indexed ? (uint64_t)access->stride[0] : 0;
        }
        for (uint64_t i = 0; i < points; i++)
            for (uint32_t j = 0; j < width; j++) {
                const uint64_t address = first[j] + i * step[j] + index[i * has_index] * scale[j];
                out[length] = lines->access[j];
                out[length].address = address;
                length += ft_recent_use(lines->recent, address, lines->access[j].size_bytes);
            }
        ft_array_walk_skip(walk, points);
    }
    return length;
}

/* The usual widths are known to the compiler. */
#define WITH_WIDTH(call, lines, out, room)                                                                             \
    ((lines)->walk.run->num_accesses == 1   ? call(lines, out, room, 1)                                                \
     : (lines)->walk.run->num_accesses == 2 ? call(lines, out, room, 2)                                                \
     : (lines)->walk.run->num_accesses == 3 ? call(lines, out, room, 3)                                                \
                                            : call(lines, out, room, (lines)->walk.run->num_accesses))

size_t ft_array_lines_next(struct ft_array_lines *lines, struct ft_access *out, size_t room)
{
    return lines->is_point_by_point ? WITH_WIDTH(next_by_point, lines, out, room)
                                    : WITH_WIDTH(next_of, lines, out, room);
}
