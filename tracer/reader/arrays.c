/* Records of array operations: hands them over as they are, or access by access. See parts.h. */
#include "parts.h"

#include <assert.h>
#include <string.h>

#define MAX_POINTS (UINT64_C(1) << 48)
#define FIRST_POINTS FT_CHUNK_WORDS /* that are handed over of an operation which is first seen between bursts */
#define MIN_HANDED_POINTS 8u /* of an operation that is handed over as one */

struct bulk_operand {
    uint64_t base;
    int64_t stride[FT_MAX_DIMS];
    uint32_t operation;
    uint16_t size_bytes;
    bool store, indexed;
};

struct bulk {
    uint32_t n_operands, n_dims;
    uint64_t extent[FT_MAX_DIMS];
    struct bulk_operand operand[FT_MAX_OPERANDS];
    const uint64_t *index;
    int64_t least_index, largest_index;
    uint64_t points;
};

static void find_extremes(struct bulk *bulk, uint64_t n)
{
    int64_t least = INT64_MAX, largest = INT64_MIN;
    for (uint64_t i = 0; i < n; i++) {
        const int64_t index = (int64_t)bulk->index[i];
        least = index < least ? index : least;
        largest = index > largest ? index : largest;
    }
    bulk->least_index = least;
    bulk->largest_index = largest;
}

/* The same of 32-bit indices, which take half as long. */
FT_FOR_WIDE_PROCESSORS static void find_narrow_extremes(struct bulk *bulk, const int32_t *index, uint64_t n)
{
    int32_t least = INT32_MAX, largest = INT32_MIN;
    for (uint64_t i = 0; i < n; i++) {
        least = index[i] < least ? index[i] : least;
        largest = index[i] > largest ? index[i] : largest;
    }
    bulk->least_index = least;
    bulk->largest_index = largest;
}

/* The payload of 32-bit indices, widened. */
FT_FOR_WIDE_PROCESSORS static const uint64_t *widened(uint64_t *restrict out, const int32_t *restrict narrow,
                                                      uint64_t points)
{
    for (uint64_t i = 0; i < points; i++)
        out[i] = (uint64_t)(int64_t)narrow[i];
    return out;
}

/* Takes a record of `length` words apart. False if it does not add up. */
static bool parse_bulk(struct ft_reader *reader, const uint64_t *words, uint32_t length, const struct ft_array *array,
                       struct bulk *bulk)
{
    if (length < 2)
        return false;
    const bool narrow = words[1] & FT_BULK_NARROW;
    uint32_t n = words[1] & 0xff, dims = words[1] >> 8 & 0xff, payload = words[1] >> 16 & 0xffff;
    if (n != array->facts.n_operands || dims == 0 || dims > FT_MAX_DIMS ||
        UINT64_C(2) + dims + (uint64_t)n * (1 + dims) + payload != length)
        return false;
    bulk->n_operands = n;
    bulk->n_dims = dims;
    bulk->points = 1;
    bool indexed = false;
    const uint64_t *p = words + 2;
    for (uint32_t d = 0; d < dims; d++) {
        bulk->extent[d] = *p++;
        if (bulk->extent[d] == 0 || bulk->extent[d] > MAX_POINTS / bulk->points)
            return false;
        bulk->points *= bulk->extent[d];
    }
    for (uint32_t i = 0; i < n; i++) {
        struct bulk_operand *operand = &bulk->operand[i];
        const struct ft_operand *facts = &array->facts.operands[i];
        *operand = (struct bulk_operand){.base = *p++,
                                         .operation = array->first_operation + i,
                                         .size_bytes = facts->size_bytes,
                                         .store = facts->is_store,
                                         .indexed = facts->is_indexed};
        for (uint32_t d = 0; d < dims; d++)
            operand->stride[d] = (int64_t)*p++;
        if (operand->indexed && payload != (narrow ? bulk->points / 2 + bulk->points % 2 : bulk->points))
            return false;
        indexed |= operand->indexed;
    }
    if (indexed && narrow) {
        bulk->index = widened(reader->index, (const int32_t *)p, bulk->points);
        find_narrow_extremes(bulk, (const int32_t *)p, bulk->points);
    } else {
        bulk->index = p;
        find_extremes(bulk, indexed ? bulk->points : 0);
    }
    return true;
}

__extension__ typedef __int128 int128;

/* The bytes that an operand touches, without regard to where addresses wrap. */
struct span {
    int128 first, last_exclusive;
};

static struct span span_of(const struct bulk *bulk, const struct bulk_operand *operand)
{
    int128 first = operand->base, last = first;
    for (uint32_t d = 0; d < bulk->n_dims && !operand->indexed; d++) {
        const int128 way = (int128)operand->stride[d] * (int128)(bulk->extent[d] - 1);
        *(way < 0 ? &first : &last) += way;
    }
    if (operand->indexed) {
        const int128 to_least = (int128)bulk->least_index * operand->stride[0];
        const int128 to_largest = (int128)bulk->largest_index * operand->stride[0];
        first += to_least < to_largest ? to_least : to_largest;
        last += to_least < to_largest ? to_largest : to_least;
    }
    return (struct span){first, last + operand->size_bytes};
}

static bool wraps(struct span span)
{
    return span.first < 0 || span.last_exclusive > (int128)FT_ADDRESS_MASK;
}

/* Where the indexed operands of one execution lie, which may take several records. */
static void measure_ranges(struct ft_reader *reader, const struct bulk *bulk, bool continued)
{
    for (uint32_t i = 0; i < bulk->n_operands; i++) {
        const struct bulk_operand *operand = &bulk->operand[i];
        struct ft_operation *operation = &reader->operations[operand->operation];
        if (!operand->indexed)
            continue;
        uint64_t first = continued ? operation->first : UINT64_MAX, last = continued ? operation->last_exclusive : 0;
        const struct span span = span_of(bulk, operand);
        if (!wraps(span)) {
            first = (uint64_t)span.first < first ? (uint64_t)span.first : first;
            last = (uint64_t)span.last_exclusive > last ? (uint64_t)span.last_exclusive : last;
        }
        for (uint64_t point = 0; point < bulk->points && wraps(span); point++) {
            uint64_t address = (operand->base + bulk->index[point] * (uint64_t)operand->stride[0]) & FT_ADDRESS_MASK;
            first = address < first ? address : first;
            last = address + operand->size_bytes > last ? address + operand->size_bytes : last;
        }
        operation->first = first;
        operation->last_exclusive = last;
        if (last - first > operation->longest_range_bytes)
            operation->longest_range_bytes = last - first;
    }
}

/* The same as an array run, which it may be too large for. */
static struct ft_array_run run_of(const struct bulk *bulk)
{
    static_assert(FT_MAX_DIMS <= FT_ARRAY_DIMS && FT_MAX_OPERANDS <= FT_ARRAY_ACCESSES, "a record is one array run");
    struct ft_array_run run = {.num_dims = bulk->n_dims, .num_accesses = bulk->n_operands};
    memcpy(run.extent, bulk->extent, bulk->n_dims * sizeof *run.extent);
    for (uint32_t i = 0; i < bulk->n_operands; i++) {
        const struct bulk_operand *operand = &bulk->operand[i];
        run.access[i] = (struct ft_array_access){.address = operand->base,
                                                 .op = operand->operation,
                                                 .size_bytes = operand->size_bytes,
                                                 .flags = operand->store ? FT_ACCESS_STORE : 0,
                                                 .is_indexed = operand->indexed};
        memcpy(run.access[i].stride, operand->stride, bulk->n_dims * sizeof *operand->stride);
        if (operand->indexed)
            run.index = bulk->index;
    }
    return run;
}

static bool any_wraps(const struct bulk *bulk)
{
    bool any = false;
    for (uint32_t i = 0; i < bulk->n_operands; i++)
        any |= wraps(span_of(bulk, &bulk->operand[i]));
    return any;
}

/* Whether an array operation can be handed over as one, and is worth it. */
static bool is_handed(const struct ft_reader *reader, const struct bulk *bulk)
{
    static_assert(2 * FT_MAX_BULK_WORDS <= FT_ARRAY_RUN_INDEX, "so is its index");
    if (!reader->sink.feed_array || reader->dependences || bulk->points < MIN_HANDED_POINTS ||
        bulk->points > FT_ARRAY_RUN_POINTS || any_wraps(bulk))
        return false;
    bool indexed = false;
    for (uint32_t i = 0; i < bulk->n_operands; i++)
        indexed |= bulk->operand[i].indexed;
    return !indexed || bulk->points <= FT_ARRAY_RUN_INDEX;
}

static enum ft_read_status walk_bulk(struct ft_reader *reader, const struct bulk *bulk)
{
    uint64_t at[FT_MAX_DIMS] = {0}, offset[FT_MAX_OPERANDS] = {0};
    const uint32_t inner = bulk->n_dims - 1;
    for (uint64_t point = 0; point < bulk->points; point++) {
        if (UNLIKELY(reader->dependences) && !ft_dependences_point(reader->dependences))
            return FT_READ_MEMORY;
        for (uint32_t i = 0; i < bulk->n_operands; i++) {
            const struct bulk_operand *operand = &bulk->operand[i];
            uint64_t address = operand->indexed ? operand->base + bulk->index[point] * (uint64_t)operand->stride[0]
                                                : operand->base + offset[i];
            if (UNLIKELY(reader->dependences) &&
                !ft_dependences_access(reader->dependences, address & FT_ADDRESS_MASK, operand->operation,
                                       operand->size_bytes, operand->store, 0))
                return FT_READ_MEMORY;
            if (!ft_reader_emit(reader, address & FT_ADDRESS_MASK, operand->operation, operand->size_bytes,
                                operand->store))
                return FT_READ_MEMORY;
            offset[i] += (uint64_t)operand->stride[inner];
        }
        if (++at[inner] < bulk->extent[inner])
            continue;
        for (uint32_t d = inner; at[d] == bulk->extent[d] && d > 0; d--) {
            at[d] = 0;
            at[d - 1]++;
            for (uint32_t i = 0; i < bulk->n_operands; i++)
                offset[i] +=
                    (uint64_t)bulk->operand[i].stride[d - 1] - bulk->extent[d] * (uint64_t)bulk->operand[i].stride[d];
        }
    }
    return FT_READ_IDLE;
}

static enum ft_read_status feed_bulk(struct ft_reader *reader, const struct bulk *bulk)
{
    const bool handed = is_handed(reader, bulk), follows = ft_reader_follows(reader);
    if (!handed && !follows)
        return walk_bulk(reader, bulk);
    const struct ft_array_run run = run_of(bulk);
    if (follows && !any_wraps(bulk) && !ft_reader_flow_array(reader, &run))
        return FT_READ_MEMORY;
    if (!handed)
        return walk_bulk(reader, bulk);
    reader->accesses += bulk->points * bulk->n_operands;
    return ft_reader_feed_batch(reader) && reader->sink.feed_array(reader->sink.simulator, &run) == 0 ? FT_READ_IDLE
                                                                                                      : FT_READ_MEMORY;
}

/* `count` steps of the outermost dimension, from step `begin` on; that dimension is left out where it is one. */
static struct bulk part_of(const struct bulk *bulk, uint64_t begin, uint64_t count)
{
    struct bulk part = *bulk;
    const uint32_t left_out = count == 1 && bulk->n_dims > 1;
    part.n_dims -= left_out;
    part.points = bulk->points / bulk->extent[0] * count;
    part.extent[0] = count;
    memmove(part.extent, part.extent + left_out, part.n_dims * sizeof *part.extent);
    for (uint32_t i = 0; i < part.n_operands; i++) {
        struct bulk_operand *operand = &part.operand[i];
        operand->base += begin * (uint64_t)operand->stride[0];
        memmove(operand->stride, operand->stride + left_out, part.n_dims * sizeof *operand->stride);
    }
    return part;
}

/* In parts that can be handed over, if it is too large as a whole. */
static enum ft_read_status feed_parts(struct ft_reader *reader, const struct bulk *bulk)
{
    const uint64_t most = FT_ARRAY_RUN_POINTS / (bulk->points / bulk->extent[0]), step = most ? most : 1;
    enum ft_read_status status = FT_READ_IDLE;
    if (bulk->points <= FT_ARRAY_RUN_POINTS)
        return feed_bulk(reader, bulk);
    for (uint64_t begin = 0; begin < bulk->extent[0] && status == FT_READ_IDLE; begin += step) {
        const uint64_t left = bulk->extent[0] - begin;
        const struct bulk part = part_of(bulk, begin, left < step ? left : step);
        status = feed_parts(reader, &part);
    }
    return status;
}

/* From point `begin` on, `most` points or, where these are no whole steps of a dimension, fewer; one at least. */
static struct bulk part_from(struct bulk part, uint64_t begin, uint64_t most)
{
    for (;;) {
        const uint64_t inner = part.points / part.extent[0], step = begin / inner, left = part.extent[0] - step;
        if (begin % inner == 0 && most >= inner)
            return part_of(&part, step, most / inner < left ? most / inner : left);
        part = part_of(&part, step, 1);
        begin %= inner;
    }
}

/* Where the reader makes bursts: what the phase has room for, until a phase ends (FT_READ_MARK) or the record does. An
 * operation with indices is not divided: its record is short. */
static enum ft_read_status feed_sampled(struct ft_reader *reader, struct ft_array *array, const struct bulk *bulk)
{
    bool indexed = false;
    for (uint32_t i = 0; i < bulk->n_operands; i++)
        indexed |= bulk->operand[i].indexed;
    while (reader->points_done < bulk->points) {
        if (ft_reader_phase_ends(reader))
            return ft_reader_feed_batch(reader) ? FT_READ_MARK : FT_READ_MEMORY;
        const bool was_fed = array->was_fed, skips = ft_reader_skips_array(reader, array);
        uint64_t most = (reader->phases.left + bulk->n_operands - 1) / bulk->n_operands;
        if (ft_reader_skips(reader) && !was_fed && most > FIRST_POINTS)
            most = FIRST_POINTS;
        const struct bulk part = indexed ? *bulk : part_from(*bulk, reader->points_done, most);
        const enum ft_read_status status = skips ? FT_READ_IDLE : feed_parts(reader, &part);
        if (status != FT_READ_IDLE)
            return status;
        reader->seen += part.points * part.n_operands;
        reader->points_done += part.points;
    }
    reader->points_done = 0;
    return FT_READ_IDLE;
}

enum ft_read_status ft_reader_read_bulk(struct ft_reader *reader, const uint64_t *words, uint32_t left,
                                        uint32_t *length)
{
    uint32_t id = (uint32_t)words[0];
    *length = words[0] >> 32 & 0x7ffff;
    if (*length > left)
        return ft_reader_corrupt(reader, "an array record crosses the end of its chunk");
    if (id > reader->n_arrays) {
        enum ft_read_status status = ft_reader_read_side_table(reader);
        if (status != FT_READ_IDLE)
            return status;
    }
    struct bulk bulk;
    if (id == 0 || id > reader->n_arrays || !parse_bulk(reader, words, *length, &reader->arrays[id], &bulk))
        return ft_reader_corrupt(reader, "an array record does not add up");
    const bool continued = words[1] & FT_BULK_CONTINUED;
    if (reader->points_done == 0) {
        if (ft_reader_phase_ends(reader))
            return ft_reader_feed_batch(reader) ? FT_READ_MARK : FT_READ_MEMORY;
        measure_ranges(reader, &bulk, continued);
        reader->arrays[id].executions += !continued;
        reader->arrays[id].points += bulk.points;
        if (reader->dependences && !ft_dependences_array(reader->dependences, id, continued))
            return FT_READ_MEMORY;
    }
    return reader->samples_itself ? feed_sampled(reader, &reader->arrays[id], &bulk) : feed_parts(reader, &bulk);
}

struct ft_array *ft_reader_element_of(struct ft_reader *reader, uint64_t word)
{
    const uint32_t id = (uint32_t)word;
    struct ft_array *array = id && id <= reader->n_arrays ? &reader->arrays[id] : NULL;
    if (!array || array->facts.n_operands != 1)
        return NULL;
    const struct ft_operand *operand = &array->facts.operands[0];
    struct ft_operation *operation = &reader->operations[array->first_operation];
    if (operand->is_indexed && operation->longest_range_bytes < operand->size_bytes)
        operation->longest_range_bytes = operand->size_bytes;
    return array;
}

enum ft_read_status ft_reader_read_element(struct ft_reader *reader, const uint64_t *words, uint32_t left)
{
    if (left < 2)
        return ft_reader_corrupt(reader, "an array record crosses the end of its chunk");
    if ((uint32_t)words[0] > reader->n_arrays) {
        enum ft_read_status status = ft_reader_read_side_table(reader);
        if (status != FT_READ_IDLE)
            return status;
    }
    struct ft_array *array = ft_reader_element_of(reader, words[0]);
    if (!array)
        return ft_reader_corrupt(reader, "an array record does not add up");
    const struct ft_operand *operand = &array->facts.operands[0];
    array->executions++;
    array->points++;
    reader->seen++;
    if (ft_reader_skips_array(reader, array))
        return FT_READ_IDLE;
    const uint64_t address = words[1] & FT_ADDRESS_MASK;
    if (reader->dependences && !ft_dependences_access(reader->dependences, address, array->first_operation,
                                                      operand->size_bytes, operand->is_store, 0))
        return FT_READ_MEMORY;
    if (ft_reader_follows(reader) &&
        !ft_reader_flow_access(reader, address, array->first_operation, operand->size_bytes, operand->is_store))
        return FT_READ_MEMORY;
    bool fed = ft_reader_emit(reader, address, array->first_operation, operand->size_bytes, operand->is_store);
    return fed ? FT_READ_IDLE : FT_READ_MEMORY;
}
