/* Per operation, its last addresses in `pending`, and what is known of those before them in `totals`.
 *
 * Accesses are looked at FT_LANES at once: what one is depends only on its address and on the two before it.
 */
#include "foretrace/base/tables.h"
#include "statistics.h"

#include "lanes.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define MIN_CAPACITY 1024u

#define SIGN (UINT64_C(1) << 63) /* a number without it is smaller than one with it, where numbers are compared as signed */

struct totals {
    uint64_t lowest[FT_LANES], highest[FT_LANES]; /* addresses ^ SIGN */
    uint64_t repeated[FT_LANES], unit[FT_LANES], strided[FT_LANES];
    uint64_t settled; /* accesses that these are of: all but the first, those of other sizes than the last, and the
                         pending */
    uint64_t other_patterns[FT_NUM_PATTERNS]; /* of those whose size was not that of the one before */
    uint64_t first, last_exclusive;           /* of accesses of former sizes */
    uint64_t other_bytes;                     /* what all bytes are beyond executions * last size, modulo 2^64 */
    uint64_t largest_bytes;
};

struct ft_statistics {
    struct ft_pending *pending;
    struct totals *totals;
    size_t num_operations, capacity;
};

struct ft_statistics *ft_statistics_new(void)
{
    return calloc(1, sizeof(struct ft_statistics));
}

void ft_statistics_free(struct ft_statistics *statistics)
{
    if (!statistics)
        return;
    free(statistics->pending);
    free(statistics->totals);
    free(statistics);
}

/* Replaces *array by a larger one whose added part is zero. */
static int grow(void **array, size_t old_count, size_t new_count, size_t bytes)
{
    void *grown = new_count > SIZE_MAX / bytes ? NULL : aligned_alloc(64, (new_count * bytes + 63) / 64 * 64);
    if (!grown)
        return -1;
    if (*array)
        memcpy(grown, *array, old_count * bytes);
    memset((char *)grown + old_count * bytes, 0, (new_count - old_count) * bytes);
    free(*array);
    *array = grown;
    return 0;
}

static int make_room(struct ft_statistics *statistics, size_t num_operations)
{
    size_t old = statistics->capacity, capacity = old * 2 > MIN_CAPACITY ? old * 2 : MIN_CAPACITY;
    if (capacity < num_operations)
        capacity = num_operations;
    void *pending = statistics->pending, *totals = statistics->totals;
    int failed = grow(&pending, old, capacity, sizeof(struct ft_pending));
    statistics->pending = pending;
    failed = failed || grow(&totals, old, capacity, sizeof(struct totals));
    statistics->totals = totals;
    if (failed)
        return -1;
    statistics->capacity = capacity;
    return 0;
}

struct ft_pending *ft_statistics_prepare(struct ft_statistics *statistics, size_t capacity)
{
    return capacity > statistics->capacity && make_room(statistics, capacity) ? NULL : statistics->pending;
}

int ft_statistics_reserve(struct ft_statistics *statistics, size_t num_operations)
{
    if (num_operations > statistics->capacity && make_room(statistics, num_operations))
        return -1;
    if (num_operations > statistics->num_operations)
        statistics->num_operations = num_operations;
    return 0;
}

/* ---- accesses ----------------------------------------------------------------------------------------------------- */

/* Looks at `number` addresses from `addresses[2]` on. Where a comparison holds, all bits are set, which is -1. */
FT_INLINE void look_at(struct totals *totals, const uint64_t *addresses, uint32_t number, uint64_t size)
{
    const ft_lanes zero = {0}, order = {0, 1, 2, 3}, up = zero + size, down = zero - size;
    ft_lanes lowest = FT_LANES_AT(totals->lowest), highest = FT_LANES_AT(totals->highest);
    ft_lanes repeated = zero, unit = zero, strided = zero;
    for (uint32_t i = 0; i < number; i += FT_LANES) {
        const ft_lanes here = FT_LANES_AT(addresses + 2 + i), before = FT_LANES_AT(addresses + 1 + i);
        const ft_lanes step = here - before, last_step = before - FT_LANES_AT(addresses + i), compared = here ^ SIGN;
        const ft_lanes counts = number % FT_LANES ? (ft_lanes)(order < zero + (number - i)) : ~zero;
        const ft_lanes repeats = (ft_lanes)(step == zero) & counts,
                       next = (ft_lanes)((step == up) | (step == down)) & counts;
        const ft_lanes lower = (ft_lanes)((ft_signed_lanes)compared < (ft_signed_lanes)lowest) & counts;
        const ft_lanes higher = (ft_lanes)((ft_signed_lanes)compared > (ft_signed_lanes)highest) & counts;
        repeated -= repeats;
        unit -= next;
        strided -= (ft_lanes)(step == last_step) & counts & ~(repeats | next);
        lowest = (compared & lower) | (lowest & ~lower);
        highest = (compared & higher) | (highest & ~higher);
    }
    *(ft_lanes *)totals->lowest = lowest;
    *(ft_lanes *)totals->highest = highest;
    *(ft_lanes *)totals->repeated += repeated;
    *(ft_lanes *)totals->unit += unit;
    *(ft_lanes *)totals->strided += strided;
    totals->settled += number;
}

FT_FOR_WIDE_PROCESSORS static void look_at_some(struct totals *totals, const uint64_t *addresses, uint32_t number,
                                                uint64_t size)
{
    look_at(totals, addresses, number, size);
}

FT_FOR_WIDE_PROCESSORS static void look_at_all(struct totals *totals, uint64_t *addresses, uint64_t size)
{
    look_at(totals, addresses, FT_PENDING, size);
    addresses[0] = addresses[FT_PENDING];
    addresses[1] = addresses[FT_PENDING + 1];
}

void ft_statistics_settle_full(struct ft_statistics *statistics, uint32_t op)
{
    struct ft_pending *pending = &statistics->pending[op];
    look_at_all(&statistics->totals[op], pending->addresses, pending->size_bytes);
    pending->number = 0;
}

/* Looks at an operation's pending accesses. */
static void settle(struct ft_statistics *statistics, uint32_t op)
{
    struct ft_pending *pending = &statistics->pending[op];
    if (pending->number == 0)
        return;
    look_at_some(&statistics->totals[op], pending->addresses, pending->number, pending->size_bytes);
    memmove(pending->addresses, pending->addresses + pending->number, 2 * sizeof *pending->addresses);
    pending->number = 0;
}

static uint64_t executions_of(const struct ft_statistics *statistics, size_t op)
{
    const struct ft_pending *pending = &statistics->pending[op];
    const struct totals *totals = &statistics->totals[op];
    uint64_t executions = (pending->size_bytes > 0) + pending->number + totals->settled;
    for (unsigned pattern = 0; pattern < FT_NUM_PATTERNS; pattern++)
        executions += totals->other_patterns[pattern];
    return executions;
}

static void set_range(struct totals *totals, uint64_t address)
{
    for (unsigned lane = 0; lane < FT_LANES; lane++)
        totals->lowest[lane] = totals->highest[lane] = address ^ SIGN;
}

static void add_to_range(struct totals *totals, uint64_t address)
{
    if (address < (totals->lowest[0] ^ SIGN))
        totals->lowest[0] = address ^ SIGN;
    if (address > (totals->highest[0] ^ SIGN))
        totals->highest[0] = address ^ SIGN;
}

/* Adds the range of the accesses of the last size to that of former ones. */
static void add_range(struct totals *totals, uint64_t size_bytes)
{
    for (unsigned lane = 0; lane < FT_LANES; lane++) {
        const uint64_t begin = totals->lowest[lane] ^ SIGN, end = (totals->highest[lane] ^ SIGN) + size_bytes;
        totals->first = begin < totals->first ? begin : totals->first;
        totals->last_exclusive = end > totals->last_exclusive ? end : totals->last_exclusive;
    }
}

static enum ft_pattern pattern_of(uint64_t step, uint64_t last_step, uint64_t up_bytes, uint64_t down_bytes)
{
    if (step == 0)
        return FT_REPEATED;
    if (step == up_bytes || step == -down_bytes)
        return FT_UNIT_STRIDE;
    return step == last_step ? FT_STRIDED : FT_IRREGULAR;
}

void ft_statistics_count_other(struct ft_statistics *statistics, uint32_t op, uint64_t address, uint32_t size_bytes)
{
    struct ft_pending *pending = &statistics->pending[op];
    struct totals *totals = &statistics->totals[op];
    const uint32_t last_bytes = pending->size_bytes;
    uint64_t *last = pending->addresses;
    if (op >= statistics->num_operations)
        statistics->num_operations = (size_t)op + 1;
    if (last_bytes == 0) {
        totals->first = last[0] = last[1] = address;
    } else {
        settle(statistics, op);
        totals->other_bytes += executions_of(statistics, op) * ((uint64_t)last_bytes - size_bytes);
        totals->other_patterns[pattern_of(address - last[1], last[1] - last[0], last_bytes, size_bytes)]++;
        add_range(totals, last_bytes);
        last[0] = last[1];
        last[1] = address;
    }
    set_range(totals, address);
    pending->size_bytes = size_bytes;
    totals->largest_bytes = size_bytes > totals->largest_bytes ? size_bytes : totals->largest_bytes;
}

/* ---- many accesses ------------------------------------------------------------------------------------------------ */

static inline void count(struct ft_statistics *statistics, uint32_t op, uint64_t address, uint32_t size_bytes)
{
    ft_statistics_count(statistics, &statistics->pending[op], op, address, size_bytes);
}

/* `number` accesses of the size of the one before, each as much further on as that was. */
static void count_steps(struct ft_statistics *statistics, uint32_t op, uint64_t number)
{
    struct ft_pending *pending = &statistics->pending[op];
    struct totals *totals = &statistics->totals[op];
    settle(statistics, op);
    uint64_t *last = pending->addresses;
    const uint64_t step = last[1] - last[0], end = last[1] + step * number;
    const enum ft_pattern pattern = pattern_of(step, step, pending->size_bytes, pending->size_bytes);
    *(pattern == FT_REPEATED ? totals->repeated : pattern == FT_UNIT_STRIDE ? totals->unit : totals->strided) += number;
    totals->settled += number;
    add_to_range(totals, end);
    last[0] = end - step;
    last[1] = end;
}

/* Whether addresses in words[0], words[num_words], ... each are as much further on as the last one was. */
static bool keeps_step(const struct ft_pending *pending, const uint64_t *words, const struct ft_iteration *iteration,
                       size_t number)
{
    const uint64_t mask = iteration->address_mask, *last = pending->addresses + pending->number;
    const uint64_t step = last[1] - last[0];
    uint64_t differs = (words[0] & mask) ^ (last[1] + step);
    for (size_t i = 1; i < number; i++)
        differs |= ((words[i * iteration->num_words] & mask) - (words[(i - 1) * iteration->num_words] & mask)) ^ step;
    return differs == 0;
}

/* Whether each word goes on by one step from iteration to iteration: its second differences are 0. */
FT_FOR_WIDE_PROCESSORS static bool all_keep_step(const uint64_t *words, size_t num_words, size_t iterations)
{
    const size_t length = iterations > 2 ? (iterations - 2) * num_words : 0;
    ft_lanes differ = {0};
    size_t i = 0;
    for (; i + FT_LANES <= length; i += FT_LANES) {
        const ft_lanes middle = FT_LANES_AT(words + i + num_words);
        differ |= (FT_LANES_AT(words + i + 2 * num_words) - middle) ^ (middle - FT_LANES_AT(words + i));
    }
    uint64_t rest = differ[0] | differ[1] | differ[2] | differ[3];
    for (; i < length; i++)
        rest |= words[i + 2 * num_words] - 2 * words[i + num_words] + words[i];
    return rest == 0;
}

static void count_in_order(struct ft_statistics *statistics, const struct ft_run *run)
{
    const struct ft_iteration *iteration = run->iteration;
    const uint64_t *words = run->words;
    for (size_t i = 0; i < run->iterations; i++, words += iteration->num_words)
        for (size_t j = 0; j < iteration->num_accesses; j++) {
            const struct ft_access access = ft_run_access_at(iteration, words, j);
            count(statistics, access.op, access.address, access.size_bytes);
        }
}

int ft_statistics_feed_run(struct ft_statistics *statistics, const struct ft_run *run)
{
    const struct ft_iteration *iteration = run->iteration;
    const uint64_t mask = iteration->address_mask;
    const size_t num_words = iteration->num_words, iterations = run->iterations;
    if (!ft_statistics_prepare(statistics, (size_t)iteration->max_op + 1))
        return -1;
    if (!iteration->has_distinct_ops) { /* what one of an operation's accesses is depends on the other before it */
        count_in_order(statistics, run);
        return 0;
    }
    const bool all_keep = all_keep_step(run->words, num_words, iterations);
    bool is_steady = true;
    for (size_t j = 0; j < iteration->num_accesses; j++) {
        const struct ft_run_access *access = &iteration->accesses[j];
        const uint64_t *words = run->words + access->word;
        size_t i = 0;
        for (; i < 2 && i < iterations; i++)
            count(statistics, access->op, words[i * num_words] & mask, access->size_bytes);
        const uint64_t *rest = words + i * num_words;
        if (i < iterations &&
            (all_keep || keeps_step(&statistics->pending[access->op], rest, iteration, iterations - i))) {
            count_steps(statistics, access->op, iterations - i);
            continue;
        }
        is_steady &= i == iterations;
        for (; i < iterations; i++)
            count(statistics, access->op, words[i * num_words] & mask, access->size_bytes);
    }
    return is_steady;
}

/* `length` accesses, each `stride` bytes further on than the one before. */
static void count_row(struct ft_statistics *statistics, const struct ft_array_access *access, uint64_t address,
                      int64_t stride, uint64_t length)
{
    for (uint64_t i = 0; i < 2 && i < length; i++, address += (uint64_t)stride)
        count(statistics, access->op, address, access->size_bytes);
    if (length > 2)
        count_steps(statistics, access->op, length - 2);
}

#define EXPLICIT_BLOCKS 3u /* from the third on, each begins where and as the one before has ended */

/* The accesses of dimensions `dim` and up, from `address` on. Of many blocks along a dimension, those behind the third
 * change the patterns as the third does. The range is left to the caller. */
static void count_block(struct ft_statistics *statistics, const struct ft_array_run *run,
                        const struct ft_array_access *access, uint32_t dim, uint64_t address)
{
    const uint64_t extent = run->extent[dim], stride = (uint64_t)access->stride[dim];
    struct totals *totals = &statistics->totals[access->op], before = {0};
    if (dim == run->num_dims - 1) {
        count_row(statistics, access, address, access->stride[dim], extent);
        return;
    }
    for (uint64_t i = 0; i < extent && i < EXPLICIT_BLOCKS; i++, address += stride) {
        settle(statistics, access->op);
        before = *totals;
        count_block(statistics, run, access, dim + 1, address);
    }
    if (extent <= EXPLICIT_BLOCKS)
        return;
    settle(statistics, access->op);
    const uint64_t more = extent - EXPLICIT_BLOCKS;
    for (unsigned lane = 0; lane < FT_LANES; lane++) {
        totals->repeated[lane] += (totals->repeated[lane] - before.repeated[lane]) * more;
        totals->unit[lane] += (totals->unit[lane] - before.unit[lane]) * more;
        totals->strided[lane] += (totals->strided[lane] - before.strided[lane]) * more;
    }
    totals->settled += (totals->settled - before.settled) * more;
    for (unsigned i = 0; i < 2; i++)
        statistics->pending[access->op].addresses[i] += more * stride;
}

static void count_rows(struct ft_statistics *statistics, const struct ft_array_run *run,
                       const struct ft_array_access *access)
{
    uint64_t lowest = access->address, highest = access->address;
    for (uint32_t d = 0; d < run->num_dims; d++) {
        const uint64_t way = (run->extent[d] - 1) * (uint64_t)access->stride[d];
        *(access->stride[d] < 0 ? &lowest : &highest) += way;
    }
    count_block(statistics, run, access, 0, access->address);
    add_to_range(&statistics->totals[access->op], lowest);
    add_to_range(&statistics->totals[access->op], highest);
}

#define AT_ONCE 256u /* a multiple of FT_LANES */

/* The accesses at an index. */
static void count_indexed(struct ft_statistics *statistics, const struct ft_array_run *run,
                          const struct ft_array_access *access)
{
    const uint64_t points = ft_array_run_points(run), base = access->address, scale = (uint64_t)access->stride[0];
    struct ft_pending *pending = &statistics->pending[access->op];
    uint64_t addresses[2 + AT_ONCE];
    count(statistics, access->op, base + run->index[0] * scale,
          access->size_bytes); /* it may be the first of its size */
    settle(statistics, access->op);
    memcpy(addresses, pending->addresses, 2 * sizeof *addresses);
    for (uint64_t done = 1, part; done < points; done += part) {
        part = points - done < AT_ONCE ? points - done : AT_ONCE;
        for (uint64_t i = 0; i < part; i++)
            addresses[2 + i] = base + run->index[done + i] * scale;
        look_at_some(&statistics->totals[access->op], addresses, (uint32_t)part, access->size_bytes);
        memcpy(addresses, (uint64_t[]){addresses[part], addresses[part + 1]}, 2 * sizeof *addresses);
    }
    memcpy(pending->addresses, addresses, 2 * sizeof *addresses);
}

int ft_statistics_feed_array(struct ft_statistics *statistics, const struct ft_array_run *run)
{
    uint32_t capacity = 0;
    for (uint32_t j = 0; j < run->num_accesses; j++)
        capacity = run->access[j].op >= capacity ? run->access[j].op + 1 : capacity;
    if (!ft_statistics_prepare(statistics, capacity) && capacity)
        return -1;
    for (uint32_t j = 0; j < run->num_accesses; j++) {
        const struct ft_array_access *access = &run->access[j];
        if (access->is_indexed)
            count_indexed(statistics, run, access);
        else
            count_rows(statistics, run, access);
    }
    return 0;
}

/* ---- results ------------------------------------------------------------------------------------------------------ */

size_t ft_statistics_operations(const struct ft_statistics *statistics)
{
    return statistics->num_operations;
}

struct ft_operation ft_statistics_of(struct ft_statistics *statistics, size_t op)
{
    const uint32_t size_bytes = statistics->pending[op].size_bytes;
    if (size_bytes == 0)
        return (struct ft_operation){0};
    settle(statistics, (uint32_t)op);
    struct totals totals = statistics->totals[op];
    add_range(&totals, size_bytes);
    struct ft_operation total = {.executions = executions_of(statistics, op),
                                 .size_bytes = totals.largest_bytes,
                                 .first = totals.first,
                                 .last_exclusive = totals.last_exclusive};
    total.total_bytes = total.executions * size_bytes + totals.other_bytes;
    memcpy(total.patterns, totals.other_patterns, sizeof total.patterns);
    total.patterns[FT_IRREGULAR] += totals.settled;
    for (unsigned lane = 0; lane < FT_LANES; lane++) {
        const uint64_t regular[] = {totals.repeated[lane], totals.unit[lane], totals.strided[lane]};
        for (unsigned pattern = 0; pattern < FT_IRREGULAR; pattern++) {
            total.patterns[pattern] += regular[pattern];
            total.patterns[FT_IRREGULAR] -= regular[pattern];
        }
    }
    return total;
}
