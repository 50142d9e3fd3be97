/* See distances.h. Places are in hash tables, open addressing: one of cells, which are as large as the narrowest part,
 * and one of lines. */
#include "distances.h"

#include <stdlib.h>

#define LINE_SHIFT 6u

struct place {
    uint64_t number;
    int64_t touched, stored; /* times, counted from 1; 0: never */
};

struct places {
    struct place *slots;
    unsigned shift; /* 64 - log2 of the number of slots */
};

/* Room for `number` places. */
static bool make_room(struct places *places, size_t number)
{
    unsigned log = 4;
    while ((size_t)1 << log < 2 * number)
        log++;
    places->shift = 64 - log;
    places->slots = calloc((size_t)1 << log, sizeof *places->slots);
    return places->slots;
}

static struct place *find(const struct places *places, uint64_t number)
{
    const size_t last = ((size_t)1 << (64 - places->shift)) - 1;
    size_t slot = number * UINT64_C(0x9e3779b97f4a7c15) >> places->shift;
    while (places->slots[slot].touched && places->slots[slot].number != number)
        slot = (slot + 1) & last;
    places->slots[slot].number = number;
    return &places->slots[slot];
}

/* From one time to another, as far as it can be told. */
static uint16_t distance(int64_t from, int64_t to)
{
    return from && to - from <= UINT16_MAX ? (uint16_t)(to - from) : 0;
}

static void note_line(const struct places *lines, uint64_t address, int64_t time, uint16_t *result)
{
    struct place *line = find(lines, address >> LINE_SHIFT);
    *result = distance(line->touched, time);
    line->touched = time;
}

static void note_cells(const struct places *cells, uint64_t first, uint64_t last, int64_t time, bool is_store,
                       uint16_t *result)
{
    for (uint64_t number = first; number <= last; number++) {
        struct place *cell = find(cells, number);
        if (cell->touched == time)
            continue;
        const uint16_t ago = distance(cell->stored, time);
        if (ago && (*result == 0 || ago < *result))
            *result = ago;
        cell->touched = time;
        if (is_store)
            cell->stored = time;
    }
}

static unsigned narrowest_shift(const struct ft_parts *parts)
{
    unsigned narrowest = FT_MAX_PART_BYTES, shift = 0;
    for (size_t i = 0; i < parts->number; i++)
        narrowest = parts->bytes[i] < narrowest ? parts->bytes[i] : narrowest;
    while (narrowest >> (shift + 1))
        shift++;
    return shift;
}

static uint64_t last_cell(const struct ft_parts *parts, size_t i, unsigned shift)
{
    return (parts->addresses[i] + parts->bytes[i] - 1) >> shift;
}

bool ft_distances(const struct ft_parts *parts, uint16_t *stores, uint16_t *lines)
{
    const unsigned shift = narrowest_shift(parts);
    struct places cells = {0}, touched = {0};
    size_t num_cells = 0;
    for (size_t i = 0; i < parts->number; i++)
        num_cells += (size_t)(last_cell(parts, i, shift) - (parts->addresses[i] >> shift) + 1);
    const bool done = make_room(&cells, num_cells) && make_room(&touched, parts->number);
    for (size_t i = 0; i < parts->number && done; i++) {
        const uint64_t address = parts->addresses[i];
        const int64_t time = parts->times[i];
        if (i == 0 || time != parts->times[i - 1])
            note_line(&touched, address, time + 1, &lines[time]);
        note_cells(&cells, address >> shift, last_cell(parts, i, shift), time + 1, parts->is_store[i], &stores[time]);
    }
    free(cells.slots);
    free(touched.slots);
    return done;
}
