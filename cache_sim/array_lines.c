/* See array_lines.h.
 *
 * Within a row each access goes on by one step, so that the point at which it comes to its next line is known. Points at which none
 * does touch the lines of the one before, in the same order: all hit, as they stay in the caches together, and leave each set in
 * the order it had. Of the other points those accesses are left out that go to the line used last in their set.
 */
#include "array_lines.h"

void ft_array_lines_begin(struct ft_array_lines *lines, const struct ft_array_run *run, struct ft_recent_lines *recent)
{
    ft_array_walk_begin(&lines->walk, run);
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

size_t ft_array_lines_next(struct ft_array_lines *lines, struct ft_access *out, size_t room)
{
    switch (lines->walk.run->num_accesses) {
    case 1:
        return next_of(lines, out, room, 1);
    case 2:
        return next_of(lines, out, room, 2);
    case 3:
        return next_of(lines, out, room, 3);
    default:
        return next_of(lines, out, room, lines->walk.run->num_accesses);
    }
}
