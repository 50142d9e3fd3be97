/* See array_walk.h. */
#include "array_walk.h"

void ft_array_walk_begin(struct ft_array_walk *walk, const struct ft_array_run *run)
{
    *walk = (struct ft_array_walk){.run = run, .points_left = ft_array_run_points(run)};
    for (uint32_t j = 0; j < run->num_accesses; j++) {
        const int64_t stride = run->access[j].stride[run->num_dims - 1];
        const uint64_t step = stride < 0 ? -(uint64_t)stride : (uint64_t)stride;
        walk->address[j] = run->access[j].address;
        walk->reciprocal[j] = step && step >> FT_SHORT_STEP_BITS == 0 ? (UINT64_C(1) << 32) / step + 1 : 0;
    }
}

void ft_array_walk_skip(struct ft_array_walk *walk, uint64_t points)
{
    const struct ft_array_run *run = walk->run;
    uint32_t dim = run->num_dims - 1;
    walk->point += points;
    walk->points_left -= points;
    walk->at[dim] += points;
    for (uint32_t j = 0; j < run->num_accesses; j++)
        walk->address[j] += points * (uint64_t)run->access[j].stride[dim];
    for (; walk->at[dim] == run->extent[dim] && dim > 0; dim--) {
        walk->at[dim] = 0;
        walk->at[dim - 1]++;
        for (uint32_t j = 0; j < run->num_accesses; j++)
            walk->address[j] +=
                (uint64_t)run->access[j].stride[dim - 1] - run->extent[dim] * (uint64_t)run->access[j].stride[dim];
    }
}

uint64_t ft_array_walk_stay(const struct ft_array_walk *walk, uint32_t access, unsigned shift, uint64_t points)
{
    const struct ft_array_access *facts = &walk->run->access[access];
    const uint64_t first = walk->address[access], last = first + facts->size_bytes - 1;
    if (facts->is_indexed || (first ^ last) >> shift)
        return 1;
    if (facts->stride[walk->run->num_dims - 1] == 0)
        return points;
    const uint64_t steps = ft_array_walk_steps(walk, access, first, shift);
    return steps + 1 < points ? steps + 1 : points;
}

/* Writes one point's accesses from the next on, up to `room`. */
static size_t write_point(struct ft_array_walk *walk, struct ft_access *out, size_t room)
{
    const struct ft_array_run *run = walk->run;
    size_t length = 0;
    while (walk->next_access < run->num_accesses && length < room) {
        const struct ft_array_access *access = &run->access[walk->next_access];
        out[length++] = (struct ft_access){ft_array_walk_address(walk, walk->next_access), access->op,
                                           access->size_bytes, access->flags};
        walk->next_access++;
    }
    if (walk->next_access == run->num_accesses) {
        walk->next_access = 0;
        ft_array_walk_skip(walk, 1);
    }
    return length;
}

/* Writes whole points of the row at hand. */
static size_t write_row(struct ft_array_walk *walk, struct ft_access *out, size_t room)
{
    const struct ft_array_run *run = walk->run;
    const uint32_t dim = run->num_dims - 1, width = run->num_accesses;
    uint64_t points = run->extent[dim] - walk->at[dim];
    points = points < room / width ? points : room / width;
    for (uint32_t j = 0; j < width; j++) {
        const struct ft_array_access *access = &run->access[j];
        struct ft_access one = {walk->address[j], access->op, access->size_bytes, access->flags};
        const uint64_t *index = run->index + walk->point;
        for (uint64_t i = 0; i < points; i++) {
            if (access->is_indexed)
                one.address = access->address + index[i] * (uint64_t)access->stride[0];
            out[i * width + j] = one;
            one.address += (uint64_t)access->stride[dim];
        }
    }
    if (points)
        ft_array_walk_skip(walk, points);
    return points * width;
}

size_t ft_array_walk_next(struct ft_array_walk *walk, struct ft_access *out, size_t room)
{
    size_t length = 0;
    while (walk->points_left && length < room) {
        const bool whole = walk->next_access == 0 && room - length >= walk->run->num_accesses;
        length += whole ? write_row(walk, out + length, room - length) : write_point(walk, out + length, room - length);
    }
    return length;
}
