/* See array_lines.h.
 *
 * Within a row each access goes on by one step, so that the point at which it comes to its next line is known. Points at which none
 * does touch the lines of the one before, in the same order: all hit, as they stay in the caches together, and leave each set in
 * the order it had. Of the other points those accesses are left out that go to the line used last in their set. Where some accesses
 * go by an index, or more than stay in the caches together, that is all that is left out.
 */
#include "array_lines.h"

void ft_array_lines_begin(struct ft_array_lines *lines, const struct ft_array_run *run, struct ft_recent_lines *recent,
                          size_t repeatable_lines)
{
    ft_array_walk_begin(&lines->walk, run);
    lines->is_point_by_point = run->index || run->num_accesses > repeatable_lines;
    for (uint32_t j = 0; j < run->num_accesses; j++)
        lines->next[j] = 0;
    ft_recent_clear(recent);
    lines->recent = recent;
}

/* An access comes to another line, at `address`. */
static inline void enter_line(struct ft_array_lines *lines, uint32_t access, uint64_t address)
{
    const struct ft_array_access *facts = &lines->walk.run->access[access];
    const struct ft_recent_lines *recent = lines->recent;
    const int64_t stride = facts->stride[lines->walk.run->num_dims - 1];
    const uint64_t last = address + facts->size_bytes - 1;
    lines->line[access] = address >> recent->line_shift;
    lines->set[access] = address >> recent->set_shift & recent->set_mask;
    lines->several[access] = (address ^ last) >> recent->line_shift;
    if (lines->several[access])
        lines->next[access]++;
    else if (stride)
        lines->next[access] += ft_array_walk_steps(&lines->walk, access, address, recent->line_shift) + 1;
    else
        lines->next[access] = UINT64_MAX;
}

/* `width` is the number of accesses at a point, known to the compiler where it is usual. */
static inline __attribute__((always_inline)) size_t next_of(struct ft_array_lines *lines, struct ft_access *out, size_t room,
                                                            const uint32_t width)
{
    struct ft_array_walk *const walk = &lines->walk;
    const struct ft_array_run *const run = walk->run;
    const uint32_t dim = run->num_dims - 1;
    size_t length = 0;
    while (walk->points_left && length + width <= room) {
        uint64_t point = lines->next[0];
        for (uint32_t j = 1; j < width; j++)
            point = lines->next[j] < point ? lines->next[j] : point;
        if (point >= run->extent[dim]) { /* the next row */
            ft_array_walk_skip(walk, run->extent[dim]);
            for (uint32_t j = 0; j < width; j++)
                lines->next[j] = 0;
            continue;
        }
        for (uint32_t j = 0; j < width; j++) {
            const struct ft_array_access *access = &run->access[j];
            const uint64_t address = walk->address[j] + point * (uint64_t)access->stride[dim];
            if (lines->next[j] == point)
                enter_line(lines, j, address);
            uint64_t *const used = &lines->recent->lines[lines->set[j]];
            out[length] = (struct ft_access){address, access->op, access->size_bytes, access->flags};
            if (lines->several[j]) {
                length += ft_recent_use_several(lines->recent, address, address + access->size_bytes - 1);
                continue;
            }
            length += *used != lines->line[j];
            *used = lines->line[j];
        }
    }
    return length;
}

/* The same of any accesses. At point i of a row, one goes to first + i * step + index[i] * scale. */
static inline __attribute__((always_inline)) size_t next_by_point(struct ft_array_lines *lines, struct ft_access *out, size_t room,
                                                                  const uint32_t width)
{
    static const uint64_t no_index[1] = {0};
    struct ft_array_walk *const walk = &lines->walk;
    const struct ft_array_run *const run = walk->run;
    struct {
        struct ft_access first;
        uint64_t step, scale;
    } access[FT_ARRAY_ACCESSES];
    size_t length = 0;
    while (walk->points_left && length + width <= room) {
        const uint64_t row = ft_array_walk_row(walk), most = (room - length) / width, points = row < most ? row : most;
        const uint64_t *const index = run->index ? run->index + walk->point : no_index;
        const uint64_t has_index = run->index != NULL;
        for (uint32_t j = 0; j < width; j++) {
            const struct ft_array_access *facts = &run->access[j];
            access[j].first = (struct ft_access){facts->is_indexed ? facts->address : walk->address[j], facts->op,
                                                 facts->size_bytes, facts->flags};
            access[j].step = facts->is_indexed ? 0 : (uint64_t)facts->stride[run->num_dims - 1];
            access[j].scale = facts->is_indexed ? (uint64_t)facts->stride[0] : 0;
        }
        for (uint64_t i = 0; i < points; i++)
            for (uint32_t j = 0; j < width; j++) {
                out[length] = access[j].first;
                out[length].address += i * access[j].step + index[i * has_index] * access[j].scale;
                length += ft_recent_use(lines->recent, out[length].address, access[j].first.size_bytes);
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
    return lines->is_point_by_point ? WITH_WIDTH(next_by_point, lines, out, room) : WITH_WIDTH(next_of, lines, out, room);
}
