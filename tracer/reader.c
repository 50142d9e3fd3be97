/* The reading side of the address stream. See reader.h. */
#define _GNU_SOURCE
#include "reader.h"

#include "futex.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_CHUNK_ALIGN UINT64_C(4096)
#define MAX_BLOCKS (1u << 26)
#define MAX_POINTS (UINT64_C(1) << 48)
#define MIN_HANDED_POINTS 8u /* of an array operation that is handed over as one */
#define CHUNKS_TO_WAKE_FOR (FT_SHARED_CHUNKS / 4)

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

/* ---- set-up ----------------------------------------------------------------------------------------------------- */

bool ft_stream_format(void *memory, uint64_t memory_bytes)
{
    struct ft_header *h = memory;
    const uint64_t cursors = (sizeof *h + 63) & ~UINT64_C(63);
    const uint64_t chunks =
        (cursors + FT_MAX_CURSORS * sizeof(struct ft_cursor) + FIRST_CHUNK_ALIGN - 1) & ~(FIRST_CHUNK_ALIGN - 1);
    const uint64_t side = chunks + (uint64_t)FT_MAX_CHUNKS * FT_CHUNK_WORDS * sizeof(uint64_t);
    if (memory_bytes <= side)
        return false;
    h->magic = FT_STREAM_MAGIC;
    h->version = FT_STREAM_VERSION;
    h->header_bytes = sizeof *h;
    h->total_bytes = memory_bytes;
    h->cursors_offset = cursors;
    h->chunks_offset = chunks;
    h->side_offset = side;
    h->side_capacity_bytes = memory_bytes - side;
    for (uint32_t i = 0; i < FT_SHARED_CHUNKS; i++)
        h->free[i] = i;
    atomic_store(&h->free_head, FT_SHARED_CHUNKS);
    return true;
}

struct ft_reader *ft_reader_new(void *memory, uint64_t memory_bytes, struct ft_sink sink)
{
    struct ft_reader *reader = calloc(1, sizeof *reader);
    if (!reader)
        return NULL;
    reader->header = memory;
    reader->memory_bytes = memory_bytes;
    reader->sink = sink;
    return reader;
}

void ft_reader_free(struct ft_reader *reader)
{
    if (!reader)
        return;
    for (uint32_t i = 0; i <= reader->n_blocks && reader->blocks; i++) {
        free(reader->blocks[i].operation);
        if (reader->blocks[i].path)
            ft_path_free(reader->blocks[i].path);
    }
    free(reader->blocks);
    free(reader->operations);
    free(reader->arrays);
    free(reader->edges);
    ft_samples_free(&reader->samples);
    free(reader);
}

static enum ft_read_status corrupt(struct ft_reader *reader, const char *what)
{
    reader->corrupt = what;
    return FT_READ_CORRUPT;
}

/* Makes room for entry `index` in an array of zeroed elements. */
static bool reserve(void **array, uint32_t *capacity, uint32_t index, size_t element_bytes)
{
    if (index < *capacity)
        return true;
    uint32_t bigger = *capacity ? *capacity : 1024;
    while (bigger <= index)
        bigger *= 2;
    unsigned char *grown = realloc(*array, bigger * element_bytes);
    if (!grown)
        return false;
    memset(grown + *capacity * element_bytes, 0, (bigger - *capacity) * element_bytes);
    *array = grown;
    *capacity = bigger;
    return true;
}

/* ---- side table ------------------------------------------------------------------------------------------------- */

static enum ft_read_status add_block(struct ft_reader *reader, uint32_t id, uint64_t n_slots)
{
    if (id != reader->n_blocks + 1 || id >= MAX_BLOCKS || n_slots > FT_TAG_MAX)
        return corrupt(reader, "a block is numbered out of order");
    if (!reserve((void **)&reader->blocks, &reader->blocks_capacity, id, sizeof *reader->blocks))
        return FT_READ_MEMORY;
    reader->n_blocks = id;
    reader->blocks[id].n_slots = (uint16_t)n_slots;
    return FT_READ_IDLE;
}

/* What the side table says of a block of machine code. `lengths_bytes` is what there is of the entry behind its fixed
 * part. */
static void describe_code(struct ft_block *block, const struct ft_side_block *facts, uint32_t lengths_bytes)
{
    const unsigned char *lengths = (const unsigned char *)(facts + 1);
    uint64_t code_bytes = 0;
    for (uint32_t i = 0; i < facts->n_instructions && i < lengths_bytes; i++)
        code_bytes += lengths[i];
    block->address = facts->address;
    block->code_bytes = code_bytes < UINT16_MAX ? (uint16_t)code_bytes : UINT16_MAX;
    block->first_access = facts->first_access <= INT16_MAX ? (uint16_t)facts->first_access : 0;
}

static enum ft_read_status add_operation(struct ft_reader *reader, uint32_t block_id, uint32_t slot, uint32_t array_id,
                                         uint32_t *operation)
{
    uint32_t id = reader->n_operations;
    if (id == FT_NO_OPERATION - 1)
        return FT_READ_MEMORY;
    if (!reserve((void **)&reader->operations, &reader->operations_capacity, id, sizeof *reader->operations))
        return FT_READ_MEMORY;
    reader->operations[id] = (struct ft_operation){.block_id = block_id, .slot = slot, .array_id = array_id};
    reader->n_operations = id + 1;
    *operation = id;
    return FT_READ_IDLE;
}

static enum ft_read_status add_array(struct ft_reader *reader, const struct ft_side_operation *facts)
{
    uint32_t id = facts->operation_id;
    if (id != reader->n_arrays + 1 || facts->n_operands == 0 || facts->n_operands > FT_MAX_OPERANDS ||
        facts->block_id > reader->n_blocks)
        return corrupt(reader, "an array operation is described wrongly");
    for (uint32_t i = 0; i < facts->n_operands; i++)
        if (facts->operands[i].size_bytes == 0)
            return corrupt(reader, "an array operand has no size");
    if (!reserve((void **)&reader->arrays, &reader->arrays_capacity, id, sizeof *reader->arrays))
        return FT_READ_MEMORY;
    struct ft_array *array = &reader->arrays[id];
    array->facts = *facts;
    for (uint32_t i = 0; i < facts->n_operands; i++) {
        uint32_t operation;
        enum ft_read_status status = add_operation(reader, facts->block_id, i, id, &operation);
        if (status != FT_READ_IDLE)
            return status;
        if (i == 0)
            array->first_operation = operation;
    }
    reader->n_arrays = id;
    return FT_READ_IDLE;
}

static enum ft_read_status read_side_entry(struct ft_reader *reader, const unsigned char *entry, uint32_t bytes)
{
    uint32_t kind = ((const struct ft_side_entry *)entry)->kind;
    if (kind == FT_SIDE_BLOCK && bytes >= sizeof(struct ft_side_block)) {
        const struct ft_side_block *block = (const struct ft_side_block *)entry;
        enum ft_read_status status = add_block(reader, block->block_id, UINT64_C(2) * block->n_instructions);
        if (status == FT_READ_IDLE)
            describe_code(&reader->blocks[block->block_id], block, bytes - (uint32_t)sizeof *block);
        return status;
    }
    if (kind == FT_SIDE_PYBLOCK && bytes >= sizeof(struct ft_side_pyblock))
        return add_block(reader, ((const struct ft_side_pyblock *)entry)->block_id, 0);
    if (kind == FT_SIDE_OPERATION && bytes >= sizeof(struct ft_side_operation))
        return add_array(reader, (const struct ft_side_operation *)entry);
    if (kind == FT_SIDE_UNSEEN && bytes >= sizeof(struct ft_side_unseen))
        return FT_READ_IDLE;
    return kind == FT_SIDE_MAPS ? FT_READ_IDLE : corrupt(reader, "the side table has an unknown entry");
}

/* Takes in all side table entries that are complete. */
static enum ft_read_status read_side_table(struct ft_reader *reader)
{
    const struct ft_header *h = reader->header;
    uint64_t used = atomic_load(&h->side_used_bytes);
    const uint64_t offset = h->side_offset;
    if (offset > reader->memory_bytes || used > reader->memory_bytes - offset)
        return corrupt(reader, "the side table ends outside the memory");
    const unsigned char *side = (const unsigned char *)h + offset;
    while (reader->side_read_bytes < used) {
        const unsigned char *entry = side + reader->side_read_bytes;
        uint64_t left = used - reader->side_read_bytes;
        uint32_t bytes = left >= sizeof(struct ft_side_entry) ? ((const struct ft_side_entry *)entry)->bytes : 0;
        if (bytes < sizeof(struct ft_side_entry) || bytes % 8 || bytes > left)
            return corrupt(reader, "a side table entry has an impossible length");
        enum ft_read_status status = read_side_entry(reader, entry, bytes);
        if (status != FT_READ_IDLE)
            return status;
        reader->side_read_bytes += bytes;
    }
    return FT_READ_IDLE;
}

/* ---- edges ------------------------------------------------------------------------------------------------------ */

static uint64_t edge_slot(const struct ft_edge *edges, uint64_t capacity, uint64_t key)
{
    uint64_t slot = (key * UINT64_C(0x9e3779b97f4a7c15)) >> 20 & (capacity - 1);
    while (edges[slot].key && edges[slot].key != key)
        slot = (slot + 1) & (capacity - 1);
    return slot;
}

static bool grow_edges(struct ft_reader *reader)
{
    uint64_t capacity = reader->edges_capacity ? 2 * reader->edges_capacity : 4096;
    struct ft_edge *edges = calloc(capacity, sizeof *edges);
    if (!edges)
        return false;
    for (uint64_t i = 0; i < reader->edges_capacity; i++)
        if (reader->edges[i].key)
            edges[edge_slot(edges, capacity, reader->edges[i].key)] = reader->edges[i];
    free(reader->edges);
    reader->edges = edges;
    reader->edges_capacity = capacity;
    return true;
}

static bool count_rare_edge(struct ft_reader *reader, uint32_t from, uint32_t to, uint64_t times)
{
    if (2 * (reader->n_edges + 1) > reader->edges_capacity && !grow_edges(reader))
        return false;
    uint64_t key = (uint64_t)from << 32 | to;
    struct ft_edge *edge = &reader->edges[edge_slot(reader->edges, reader->edges_capacity, key)];
    if (!edge->key) {
        if (reader->n_edges >= FT_MAX_RARE_EDGES) {
            reader->edges_full = true;
            return true;
        }
        edge->key = key;
        reader->n_edges++;
    }
    edge->count += times;
    return true;
}

static inline bool count_edge(struct ft_reader *reader, uint32_t from, uint32_t to, uint64_t times)
{
    struct ft_block *block = &reader->blocks[from];
    for (int i = 0; i < 2; i++) {
        if (LIKELY(block->successor[i] == to)) {
            block->successor_count[i] += times;
            return true;
        }
        if (!block->successor[i]) {
            block->successor[i] = to;
            block->successor_count[i] = times;
            return true;
        }
    }
    return count_rare_edge(reader, from, to, times);
}

/* One more execution of a block behind one of `before`. Which of its two usual ones it is takes no branch. */
static inline bool count_next(struct ft_reader *reader, struct ft_block *before, uint32_t id)
{
    const uint32_t side = before->successor[1] == id;
    if (UNLIKELY(before->successor[side] != id))
        return count_edge(reader, (uint32_t)(before - reader->blocks), id, 1);
    before->successor_count[side]++;
    return true;
}

/* Counts the edges along a path as often as it was taken, and begins anew with that. False when memory ran out. */
static bool count_path(struct ft_reader *reader, struct ft_path *path, uint32_t num_steps)
{
    uint64_t reached = 0;
    for (uint32_t i = num_steps; i-- > 0;) {
        if (reached && !count_edge(reader, path->steps[i].block_id, path->steps[i + 1].block_id, reached))
            return false;
        reached += path->steps[i].taken;
        path->steps[i].taken = 0;
    }
    return true;
}

/* The same for those below it. */
static bool count_longer_paths(struct ft_reader *reader, struct ft_path *path)
{
    bool done = true;
    for (uint32_t i = 0; i < FT_PATH_WAYS && path->ways[i].longer && done; i++) {
        struct ft_path *longer = path->ways[i].longer;
        done = count_path(reader, longer, longer->num_steps) && count_longer_paths(reader, longer);
    }
    return done;
}

bool ft_reader_count_paths(struct ft_reader *reader)
{
    bool done = true;
    for (uint32_t id = 1; id <= reader->n_blocks && done; id++)
        if (reader->blocks[id].path)
            done = count_path(reader, reader->blocks[id].path, reader->blocks[id].path->num_steps) &&
                   count_longer_paths(reader, reader->blocks[id].path);
    return done;
}

void ft_reader_executions(const struct ft_reader *reader, uint64_t *out)
{
    for (uint32_t id = 1; id <= reader->n_blocks; id++)
        out[id - 1] = reader->blocks[id].starts;
    for (uint32_t id = 1; id <= reader->n_blocks; id++)
        for (int i = 0; i < 2; i++)
            if (reader->blocks[id].successor[i])
                out[reader->blocks[id].successor[i] - 1] += reader->blocks[id].successor_count[i];
    for (uint64_t i = 0; i < reader->edges_capacity; i++)
        if (reader->edges[i].key)
            out[(reader->edges[i].key & UINT32_MAX) - 1] += reader->edges[i].count;
}

uint64_t ft_reader_edges(const struct ft_reader *reader, uint64_t *out)
{
    uint64_t n = 0;
    for (uint32_t id = 1; id <= reader->n_blocks; id++)
        for (int i = 0; i < 2; i++)
            if (reader->blocks[id].successor[i]) {
                if (out) {
                    out[3 * n] = id;
                    out[3 * n + 1] = reader->blocks[id].successor[i];
                    out[3 * n + 2] = reader->blocks[id].successor_count[i];
                }
                n++;
            }
    for (uint64_t i = 0; i < reader->edges_capacity; i++)
        if (reader->edges[i].key) {
            if (out) {
                out[3 * n] = reader->edges[i].key >> 32;
                out[3 * n + 1] = reader->edges[i].key & UINT32_MAX;
                out[3 * n + 2] = reader->edges[i].count;
            }
            n++;
        }
    return n;
}

/* ---- accesses --------------------------------------------------------------------------------------------------- */

static bool feed_batch(struct ft_reader *reader)
{
    uint32_t length = reader->batch_length;
    reader->batch_length = 0;
    reader->accesses += length;
    return length == 0 || reader->sink.feed(reader->sink.simulator, reader->batch, length) == 0;
}

/* The last access may be part of one of which there is more to come. */
static bool feed_but_last(struct ft_reader *reader)
{
    if (reader->batch_length == 0)
        return true;
    const struct ft_access last = reader->batch[--reader->batch_length];
    const bool fed = feed_batch(reader);
    reader->batch[reader->batch_length++] = last;
    return fed;
}

/* False when memory ran out. */
static inline bool emit(struct ft_reader *reader, uint64_t address, uint32_t operation, uint32_t size, bool store)
{
    if (UNLIKELY(reader->batch_length == FT_BATCH) && !feed_batch(reader))
        return false;
    reader->batch[reader->batch_length++] =
        (struct ft_access){address, operation, (uint16_t)size, store ? FT_ACCESS_STORE : 0};
    return true;
}

static enum ft_read_status first_access(struct ft_reader *reader, struct ft_block *block, uint32_t block_id,
                                        uint32_t slot, uint32_t *operation)
{
    if (slot >= block->n_slots)
        return corrupt(reader, "an access belongs to no instruction of its block");
    if (!block->operation) {
        block->operation = malloc(block->n_slots * sizeof *block->operation);
        if (!block->operation)
            return FT_READ_MEMORY;
        memset(block->operation, 0xff, block->n_slots * sizeof *block->operation);
    }
    *operation = block->operation[slot];
    if (*operation != FT_NO_OPERATION)
        return FT_READ_IDLE;
    enum ft_read_status status = add_operation(reader, block_id, slot, 0, operation);
    if (status == FT_READ_IDLE)
        block->operation[slot] = *operation;
    return status;
}

/* ---- array operations ------------------------------------------------------------------------------------------- */

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
static void find_narrow_extremes(struct bulk *bulk, const int32_t *index, uint64_t n)
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
static const uint64_t *widened(uint64_t *out, const uint64_t *payload, uint64_t points)
{
    const int32_t *narrow = (const int32_t *)payload;
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
        *operand = (struct bulk_operand){.base = *p++, .operation = array->first_operation + i,
                                         .size_bytes = facts->size_bytes, .store = facts->is_store,
                                         .indexed = facts->is_indexed};
        for (uint32_t d = 0; d < dims; d++)
            operand->stride[d] = (int64_t)*p++;
        if (operand->indexed && payload != (narrow ? bulk->points / 2 + bulk->points % 2 : bulk->points))
            return false;
        indexed |= operand->indexed;
    }
    if (indexed && narrow) {
        bulk->index = widened(reader->index, p, bulk->points);
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

/* Hands an array operation over as one, if it is worth it and can be said so. `*handed` tells. */
static enum ft_read_status hand_bulk(struct ft_reader *reader, const struct bulk *bulk, bool *handed)
{
    const struct ft_sink *sink = &reader->sink;
    static_assert(FT_MAX_DIMS <= FT_ARRAY_DIMS && FT_MAX_OPERANDS <= FT_ARRAY_ACCESSES, "a record is one array run");
    static_assert(2 * FT_MAX_BULK_WORDS <= FT_ARRAY_RUN_INDEX, "so is its index");
    struct ft_array_run run = {.num_dims = bulk->n_dims, .num_accesses = bulk->n_operands};
    *handed = false;
    if (!sink->feed_array || bulk->points < MIN_HANDED_POINTS || bulk->points > FT_ARRAY_RUN_POINTS)
        return FT_READ_IDLE;
    memcpy(run.extent, bulk->extent, bulk->n_dims * sizeof *run.extent);
    for (uint32_t i = 0; i < bulk->n_operands; i++) {
        const struct bulk_operand *operand = &bulk->operand[i];
        if (wraps(span_of(bulk, operand)) || (operand->indexed && bulk->points > FT_ARRAY_RUN_INDEX))
            return FT_READ_IDLE;
        run.access[i] = (struct ft_array_access){.address = operand->base, .op = operand->operation,
                                                 .size_bytes = operand->size_bytes,
                                                 .flags = operand->store ? FT_ACCESS_STORE : 0,
                                                 .is_indexed = operand->indexed};
        memcpy(run.access[i].stride, operand->stride, bulk->n_dims * sizeof *operand->stride);
        if (operand->indexed)
            run.index = bulk->index;
    }
    *handed = true;
    reader->accesses += bulk->points * bulk->n_operands;
    return feed_batch(reader) && sink->feed_array(sink->simulator, &run) == 0 ? FT_READ_IDLE : FT_READ_MEMORY;
}

static enum ft_read_status walk_bulk(struct ft_reader *reader, const struct bulk *bulk)
{
    uint64_t at[FT_MAX_DIMS] = {0}, offset[FT_MAX_OPERANDS] = {0};
    const uint32_t inner = bulk->n_dims - 1;
    for (uint64_t point = 0; point < bulk->points; point++) {
        for (uint32_t i = 0; i < bulk->n_operands; i++) {
            const struct bulk_operand *operand = &bulk->operand[i];
            uint64_t address = operand->indexed ? operand->base + bulk->index[point] * (uint64_t)operand->stride[0]
                                                : operand->base + offset[i];
            if (!emit(reader, address & FT_ADDRESS_MASK, operand->operation, operand->size_bytes, operand->store))
                return FT_READ_MEMORY;
            offset[i] += (uint64_t)operand->stride[inner];
        }
        if (++at[inner] < bulk->extent[inner])
            continue;
        for (uint32_t d = inner; at[d] == bulk->extent[d] && d > 0; d--) {
            at[d] = 0;
            at[d - 1]++;
            for (uint32_t i = 0; i < bulk->n_operands; i++)
                offset[i] += (uint64_t)bulk->operand[i].stride[d - 1] -
                             bulk->extent[d] * (uint64_t)bulk->operand[i].stride[d];
        }
    }
    return FT_READ_IDLE;
}

static enum ft_read_status read_bulk(struct ft_reader *reader, const uint64_t *words, uint32_t left, uint32_t *length)
{
    uint32_t id = (uint32_t)words[0];
    *length = words[0] >> 32 & 0x7ffff;
    if (*length > left)
        return corrupt(reader, "an array record crosses the end of its chunk");
    if (id > reader->n_arrays) {
        enum ft_read_status status = read_side_table(reader);
        if (status != FT_READ_IDLE)
            return status;
    }
    struct bulk bulk;
    if (id == 0 || id > reader->n_arrays || !parse_bulk(reader, words, *length, &reader->arrays[id], &bulk))
        return corrupt(reader, "an array record does not add up");
    const bool continued = words[1] & FT_BULK_CONTINUED;
    measure_ranges(reader, &bulk, continued);
    reader->arrays[id].executions += !continued;
    reader->arrays[id].points += bulk.points;
    bool handed;
    enum ft_read_status status = hand_bulk(reader, &bulk, &handed);
    return handed ? status : walk_bulk(reader, &bulk);
}

/* One access by an array operation of one operand. */
static enum ft_read_status read_element(struct ft_reader *reader, const uint64_t *words, uint32_t left)
{
    uint32_t id = (uint32_t)words[0];
    if (left < 2)
        return corrupt(reader, "an array record crosses the end of its chunk");
    if (id > reader->n_arrays) {
        enum ft_read_status status = read_side_table(reader);
        if (status != FT_READ_IDLE)
            return status;
    }
    if (id == 0 || id > reader->n_arrays || reader->arrays[id].facts.n_operands != 1)
        return corrupt(reader, "an array record does not add up");
    struct ft_array *array = &reader->arrays[id];
    const struct ft_operand *operand = &array->facts.operands[0];
    struct ft_operation *operation = &reader->operations[array->first_operation];
    array->executions++;
    array->points++;
    if (operand->is_indexed && operation->longest_range_bytes < operand->size_bytes)
        operation->longest_range_bytes = operand->size_bytes;
    bool fed = emit(reader, words[1] & FT_ADDRESS_MASK, array->first_operation, operand->size_bytes, operand->is_store);
    return fed ? FT_READ_IDLE : FT_READ_MEMORY;
}

/* ---- words ------------------------------------------------------------------------------------------------------ */

/* The batch has room. Fetches are not among the accesses counted. */
static void emit_fetch(struct ft_reader *reader, uint32_t block_id)
{
    const struct ft_block *block = &reader->blocks[block_id];
    reader->batch[reader->batch_length++] =
        (struct ft_access){block->address & FT_ADDRESS_MASK, block_id, (uint16_t)block->code_bytes, FT_ACCESS_FETCH};
    reader->accesses--;
}

static inline uint32_t entered_block(uint64_t entry)
{
    const uint32_t id = entry >> FT_SIZE_SHIFT & FT_MAX_SHORT_ID;
    return id ? id : (uint32_t)entry;
}

static inline bool brings_access(uint64_t entry)
{
    return entry >> FT_SIZE_SHIFT & FT_MAX_SHORT_ID;
}

/* One more execution of a block, after the one that `cursor` is in. */
static bool enter_block(struct ft_reader *reader, struct ft_reader_cursor *cursor, uint32_t id)
{
    const uint32_t from = cursor->block_id;
    cursor->block_id = id;
    reader->executions++;
    if (LIKELY(from))
        return count_edge(reader, from, id, 1);
    reader->blocks[id].starts++;
    return true;
}

/* An entry word, but for the access that it may bring along. */
static enum ft_read_status read_entry(struct ft_reader *reader, struct ft_reader_cursor *cursor, uint64_t word)
{
    uint32_t id = entered_block(word);
    if (UNLIKELY(id > reader->n_blocks)) {
        enum ft_read_status status = read_side_table(reader);
        if (status != FT_READ_IDLE)
            return status;
    }
    if (UNLIKELY(id == 0 || id > reader->n_blocks))
        return corrupt(reader, "a block runs that was never described");
    if (UNLIKELY(reader->batch_length > FT_BATCH / 2) && !feed_batch(reader))
        return FT_READ_MEMORY;
    if (UNLIKELY(!enter_block(reader, cursor, id)))
        return FT_READ_MEMORY;
    if (UNLIKELY(reader->sink.wants_fetches) && reader->blocks[id].code_bytes)
        emit_fetch(reader, id);
    return FT_READ_IDLE;
}

/* A further access by the operation of the last one, right behind it. The engine reports wide accesses in parts: those
 * of one access are joined again, as far as the instruction's width goes. Returns true if it was joined. */
static bool join(struct ft_reader *reader, uint64_t address, uint32_t size, uint32_t operation, bool *ask)
{
    struct ft_access *last = reader->batch_length ? &reader->batch[reader->batch_length - 1] : NULL;
    if (!last || last->op != operation || last->address + last->size_bytes != address)
        return false;
    uint32_t width = reader->operations[operation].width_bytes;
    if (width == 0) {
        *ask = true;
        return false;
    }
    if (last->size_bytes + size > width)
        return false;
    last->size_bytes = (uint16_t)(last->size_bytes + size);
    return true;
}

/* One access of the block the thread is in. */
static inline enum ft_read_status read_access(struct ft_reader *reader, const struct ft_reader_cursor *cursor,
                                              uint64_t word, uint32_t tag)
{
    const uint32_t slot = tag - 1, size = 1u << (word >> FT_SIZE_SHIFT & 7);
    const uint64_t address = word & FT_ADDRESS_MASK;
    uint32_t operation = FT_NO_OPERATION;
    if (UNLIKELY(cursor->block_id == 0))
        return corrupt(reader, "an access comes before any block");
    struct ft_block *block = &reader->blocks[cursor->block_id];
    if (LIKELY(block->operation && slot < block->n_slots))
        operation = block->operation[slot];
    if (UNLIKELY(operation == FT_NO_OPERATION)) {
        enum ft_read_status status = first_access(reader, block, cursor->block_id, slot, &operation);
        if (status != FT_READ_IDLE)
            return status;
    }
    if (UNLIKELY(tag == cursor->last_tag)) {
        bool ask = false;
        if (join(reader, address, size, operation, &ask))
            return FT_READ_IDLE;
        if (ask) {
            reader->asked_operation = operation;
            return FT_READ_WIDTH;
        }
    }
    return emit(reader, address, operation, size, slot & 1) ? FT_READ_IDLE : FT_READ_MEMORY;
}

/* ---- paths ------------------------------------------------------------------------------------------------------ */

#define MAX_LEARNT_WORDS 96u /* of a path of several executions */
#define MAX_PATH_BYTES (UINT64_C(64) << 20) /* of all: beyond, a path is one execution */
#define MAX_LENGTHENED_WORDS 32u /* of a path below another */
#define MAX_TREE_PATHS 128u
#define MAX_LONGER_PATH_BYTES (MAX_PATH_BYTES / 2) /* of all: beyond, none is put below another */
#define FIRST_PATIENCE 16u /* see struct ft_path */
#define MAX_PATIENCE (1u << 20)
#define MAX_RUNS 256u /* handed over at once: one execution adds two at most */

static_assert(FT_PATH_WORDS <= FT_RUN_ACCESSES, "an execution is not too long");

/* The access word that an entry word stands for, too. */
static inline uint64_t first_access_word(const struct ft_block *block, uint64_t entry)
{
    return (uint64_t)block->first_access << FT_SIZE_SHIFT | (entry & FT_ADDRESS_MASK);
}

/* Adds the access of word number `i` of an execution, which `word` tells, to a path; or joins it to the one of the word
 * before. */
static bool add_to_path(struct ft_reader *reader, const struct ft_block *block, struct ft_path *path, uint32_t i,
                        uint64_t word, uint64_t word_before)
{
    const uint32_t tag = (uint32_t)(word >> FT_TAG_SHIFT), size = 1u << (word >> FT_SIZE_SHIFT & 7);
    if (tag == 0 || tag > block->n_slots || !block->operation || block->operation[tag - 1] == FT_NO_OPERATION)
        return false;
    const uint32_t operation = block->operation[tag - 1];
    const uint32_t width = reader->operations[operation].width_bytes;
    if (tag == word_before >> FT_TAG_SHIFT) {
        struct ft_run_access *last = &path->accesses[path->num_accesses - 1];
        const uint32_t before_bytes = 1u << (word_before >> FT_SIZE_SHIFT & 7);
        if (width == 0)
            return false; /* to be asked for, should these be parts of one access */
        if (last->size_bytes + size <= width) {
            path->joins[path->num_joins++] = (struct ft_path_join){i, before_bytes};
            last->size_bytes = (uint16_t)(last->size_bytes + size);
            return ((word ^ (word_before + before_bytes)) & FT_ADDRESS_MASK) == 0;
        }
    }
    path->accesses[path->num_accesses++] =
        (struct ft_run_access){operation, (uint16_t)size, (tag - 1) & 1 ? FT_ACCESS_STORE : 0, i};
    return true;
}

static bool is_on_path(const struct ft_path *path, uint32_t block_id)
{
    for (uint32_t i = 0; i < path->num_steps; i++)
        if (path->steps[i].block_id == block_id)
            return true;
    return false;
}

/* Adds the execution in `words`, from number `begin` on, as the same words of a path. False if it cannot be on one. */
static bool add_execution(struct ft_reader *reader, struct ft_path *path, const uint64_t *words, uint32_t begin,
                          uint32_t end)
{
    const uint32_t id = entered_block(words[begin]), first = path->num_accesses;
    const struct ft_block *block = &reader->blocks[id];
    if (id == 0 || id > reader->n_blocks)
        return false;
    uint64_t before = 0;
    for (uint32_t i = begin; i < end; i++) {
        const bool has_access = i > begin || brings_access(words[i]);
        const uint64_t word = i > begin ? words[i] : first_access_word(block, words[i]);
        path->words[i] = words[i];
        path->compared[i] = has_access ? ~FT_ADDRESS_MASK : UINT64_MAX;
        if (has_access && !add_to_path(reader, block, path, i, word, before))
            return false;
        before = has_access ? word : 0;
    }
    const struct ft_iteration *last = path->num_steps ? &path->steps[path->num_steps - 1].iteration : NULL;
    uint32_t max_op = last ? last->max_op : 0;
    bool has_distinct_ops = (!last || last->has_distinct_ops) && !is_on_path(path, id);
    for (uint32_t j = first; j < path->num_accesses; j++) {
        max_op = path->accesses[j].op > max_op ? path->accesses[j].op : max_op;
        has_distinct_ops &= j == first || path->accesses[j].op > path->accesses[j - 1].op; /* they are numbered in order */
    }
    const struct ft_iteration iteration = {.address_mask = FT_ADDRESS_MASK, .num_accesses = path->num_accesses,
                                           .num_words = end, .max_op = max_op, .has_distinct_ops = has_distinct_ops};
    path->steps[path->num_steps] = (struct ft_path_step){id, path->num_steps + 1, iteration, 0};
    path->num_steps++;
    return true;
}

/* A path being made. */
struct draft {
    struct ft_path path;
    uint64_t words[FT_PATH_WORDS], compared[FT_PATH_WORDS];
    struct ft_run_access accesses[FT_PATH_WORDS];
    struct ft_path_join joins[FT_PATH_WORDS];
    struct ft_path_step steps[FT_PATH_EXECUTIONS];
};

/* Makes a path of what comes, from an entry word on and in `left` words: of `num_steps` executions, if they can be on one; for
 * 0 of as many as there are up to where a block comes again. */
static void draft_path(struct ft_reader *reader, struct draft *draft, const uint64_t *words, uint32_t left, uint32_t num_steps)
{
    const uint32_t usual = reader->path_bytes < MAX_PATH_BYTES ? FT_PATH_EXECUTIONS : 1;
    const uint32_t max_steps = num_steps ? num_steps : usual;
    struct ft_path *path = &draft->path;
    *path = (struct ft_path){.words = draft->words, .compared = draft->compared, .accesses = draft->accesses,
                             .joins = draft->joins, .steps = draft->steps};
    for (uint32_t begin = 0, end; path->num_steps < max_steps; begin = end) {
        for (end = begin + 1; end < left && !(words[end] & FT_ENTRY); end++)
            ;
        const struct ft_path so_far = *path;
        const bool comes_again = !num_steps && is_on_path(path, entered_block(words[begin]));
        if (end >= left || end > (begin ? MAX_LEARNT_WORDS : FT_PATH_WORDS) || comes_again ||
            !add_execution(reader, path, words, begin, end)) {
            *path = so_far;
            break;
        }
        path->num_words = end;
    }
}

/* Counts a path, and those below it, for the last time. False when memory ran out. */
static bool give_up_path(struct ft_reader *reader, struct ft_path *path)
{
    if (!count_path(reader, path, path->num_steps) || !count_longer_paths(reader, path))
        return false;
    reader->path_bytes -= ft_path_free(path);
    return true;
}

/* Makes what comes, from an entry word on and in `left` words, the path of its block. Leaves the one there is if it is as
 * long. */
static enum ft_read_status learn_path(struct ft_reader *reader, const uint64_t *words, uint32_t left)
{
    struct draft draft;
    draft_path(reader, &draft, words, left, 0);
    if (draft.path.num_steps == 0)
        return FT_READ_IDLE;
    struct ft_block *block = &reader->blocks[draft.path.steps[0].block_id];
    struct ft_path *old = block->path;
    if (old && draft.path.num_steps <= old->num_steps && ft_path_match_some(old, words, left))
        return FT_READ_IDLE;
    draft.path.patience = old ? old->patience : FIRST_PATIENCE;
    draft.path.countdown = FIRST_PATIENCE;
    struct ft_path *learnt = ft_path_new(&draft.path);
    if (!learnt)
        return FT_READ_MEMORY;
    reader->path_bytes += learnt->bytes;
    block->path = learnt;
    return !old || give_up_path(reader, old) ? FT_READ_IDLE : FT_READ_MEMORY;
}

/* How many executions there are on a path and the one that comes behind it, in `left` words. 0 if these are not on it, or are
 * on it again and again, or if there is none behind it. */
static uint32_t num_steps_of_both(const struct ft_reader *reader, const struct ft_path *path, const uint64_t *words,
                                  uint32_t left)
{
    if (!ft_path_is_on(path, words, left))
        return 0;
    const uint64_t *const behind = words + path->num_words;
    const uint32_t id = entered_block(*behind);
    const struct ft_path *next = id <= reader->n_blocks ? reader->blocks[id].path : NULL;
    const struct ft_path_step *step = next ? ft_path_match(next, behind, left - path->num_words) : NULL;
    const bool fits = step && path->num_words + step->iteration.num_words <= MAX_LENGTHENED_WORDS &&
                      path->num_steps + step->number <= FT_PATH_EXECUTIONS;
    return fits && !ft_path_is_on(path, behind, left - path->num_words) ? path->num_steps + step->number : 0;
}

/* Puts a longer path below one that `words` begin with, of both that and the one that comes behind it. */
static enum ft_read_status lengthen_path(struct ft_reader *reader, struct ft_path *path, const uint64_t *words, uint32_t left)
{
    struct draft draft;
    struct ft_path_way *way = path->ways;
    while (way < path->ways + FT_PATH_WAYS && way->longer)
        way++;
    const uint32_t num_steps = num_steps_of_both(reader, path, words, left);
    const struct ft_path *tree = reader->blocks[path->steps[0].block_id].path;
    if (way == path->ways + FT_PATH_WAYS || reader->path_bytes > MAX_LONGER_PATH_BYTES || num_steps == 0 ||
        ft_path_tree_size(tree) >= MAX_TREE_PATHS)
        return FT_READ_IDLE;
    draft_path(reader, &draft, words, left, num_steps);
    if (draft.path.num_steps < num_steps || draft.path.num_joins)
        return FT_READ_IDLE;
    draft.path.patience = draft.path.countdown = FIRST_PATIENCE;
    struct ft_path *longer = ft_path_new(&draft.path);
    if (!longer)
        return FT_READ_MEMORY;
    ft_path_add(path, way, longer);
    reader->path_bytes += longer->bytes;
    return FT_READ_IDLE;
}

/* Leaves nothing below a path. */
static bool give_up_longer_paths(struct ft_reader *reader, struct ft_path *path)
{
    bool done = true;
    for (uint32_t i = 0; i < FT_PATH_WAYS && path->ways[i].longer && done; i++) {
        done = give_up_path(reader, path->ways[i].longer);
        path->ways[i] = (struct ft_path_way){0, UINT64_MAX, NULL};
    }
    return done;
}

/* Where the path is kept that has `path` right below it, in the tree in `*kept`. NULL if there is none. */
static struct ft_path **path_above(struct ft_path **kept, const struct ft_path *path)
{
    struct ft_path **found = NULL;
    for (uint32_t i = 0; i < FT_PATH_WAYS && (*kept)->ways[i].longer && !found; i++)
        found = (*kept)->ways[i].longer == path ? kept : path_above(&(*kept)->ways[i].longer, path);
    return found;
}

/* Puts a path in the place of the one above it if that mostly goes on as it. False when memory ran out. */
static bool replace_path_above(struct ft_reader *reader, struct ft_path *path)
{
    struct ft_path **kept = path_above(&reader->blocks[path->steps[0].block_id].path, path);
    if (!kept || ft_path_taken(path) < ft_path_taken(*kept) / 4 * 3)
        return true;
    struct ft_path *above = *kept;
    uint32_t last = 0;
    for (uint32_t i = 0; i < FT_PATH_WAYS && above->ways[i].longer; i++)
        last = i;
    for (uint32_t i = 0; i <= last; i++)
        if (above->ways[i].longer == path)
            above->ways[i] = above->ways[last];
    above->ways[last] = (struct ft_path_way){0, UINT64_MAX, NULL};
    *kept = path;
    return give_up_path(reader, above);
}

/* Makes a path better that was taken once more, at `words`: shorter if it is mostly left before its end, or else longer. It
 * may be another one then. */
static enum ft_read_status improve_path(struct ft_reader *reader, struct ft_path *path, const uint64_t *words,
                                        uint32_t left)
{
    struct ft_block *block = &reader->blocks[path->steps[0].block_id];
    const uint32_t num_steps = path->num_steps;
    const bool is_first = block->path == path;
    path->patience *= path->patience < MAX_PATIENCE ? 2 : 1;
    path->countdown = path->patience;
    if (ft_path_cut(path))
        return count_path(reader, path, num_steps) && give_up_longer_paths(reader, path) ? FT_READ_IDLE : FT_READ_MEMORY;
    enum ft_read_status status = is_first && !path->was_cut ? learn_path(reader, words, left) : FT_READ_IDLE;
    if (status != FT_READ_IDLE || (is_first && block->path != path))
        return status;
    return replace_path_above(reader, path) ? lengthen_path(reader, path, words, left) : FT_READ_MEMORY;
}

/* At an entry word that begins no path: it may from now on. An execution that keeps changing is looked at ever more seldom. */
static enum ft_read_status learn_here(struct ft_reader *reader, const uint64_t *words, uint32_t left)
{
    const uint32_t id = entered_block(*words);
    if (id == 0 || id > reader->n_blocks)
        return FT_READ_IDLE;
    struct ft_block *block = &reader->blocks[id];
    block->misfits += block->misfits < UINT16_MAX;
    return block->misfits & (block->misfits - 1) ? FT_READ_IDLE : learn_path(reader, words, left);
}

/* For a sink that takes accesses only. */
static bool feed_one_by_one(struct ft_reader *reader, const struct ft_run *run)
{
    const struct ft_iteration *iteration = run->iteration;
    const uint64_t *words = run->words;
    for (size_t i = 0; i < run->iterations; i++, words += iteration->num_words) {
        if (reader->batch_length + iteration->num_accesses > FT_BATCH && !feed_batch(reader))
            return false;
        for (uint32_t j = 0; j < iteration->num_accesses; j++)
            reader->batch[reader->batch_length++] = ft_run_access_at(iteration, words, j);
    }
    return true;
}

static bool feed_runs(struct ft_reader *reader, const struct ft_run *runs, size_t number)
{
    if (!reader->sink.feed_runs) {
        bool done = true;
        for (size_t i = 0; i < number && done; i++)
            done = feed_one_by_one(reader, &runs[i]);
        return done;
    }
    if (reader->batch_length && !feed_batch(reader))
        return false;
    for (size_t i = 0; i < number; i++)
        reader->accesses += runs[i].iterations * runs[i].iteration->num_accesses;
    return number == 0 || reader->sink.feed_runs(reader->sink.simulator, runs, number) == 0;
}

/* Adds iterations of a path to the runs before, of which those of `*last` come right before. Returns the next one. */
static inline struct ft_run *add_run(struct ft_run *run, const struct ft_path_step **last, const struct ft_path_step *step,
                                     const uint64_t *words, uint32_t times)
{
    const bool has_accesses = step->iteration.num_accesses;
    if (step == *last)
        run[-1].iterations += times;
    else if (has_accesses)
        *run++ = (struct ft_run){&step->iteration, words, times};
    *last = has_accesses ? step : NULL;
    return run;
}

/* The common case of what follows in read_words: from an entry word at `position` on, executions that are on paths. Goes to
 * the first that is not, or may not be over with this chunk. */
FT_FOR_WIDE_PROCESSORS static enum ft_read_status read_paths(struct ft_reader *reader, struct ft_reader_cursor *cursor,
                                                             const uint64_t *words, uint32_t *position)
{
    struct ft_run runs[MAX_RUNS], *run = runs; /* the next one */
    const struct ft_path_step *last = NULL; /* whose iterations the one before is of */
    struct ft_block *const blocks = reader->blocks, *before = blocks + cursor->block_id;
    const uint32_t end = reader->chunk.words, n_blocks = reader->n_blocks;
    uint32_t at = *position;
    enum ft_read_status status = FT_READ_IDLE;
    if (cursor->block_id == 0)
        return FT_READ_IDLE;
    while (at < end && status == FT_READ_IDLE) {
        const uint32_t id = entered_block(words[at]);
        struct ft_path *path = id <= n_blocks ? blocks[id].path : NULL;
        struct ft_path_step *step = path ? ft_path_match(path, words + at, end - at) : NULL;
        if (UNLIKELY(!step))
            break;
        if (!count_next(reader, before, id))
            return FT_READ_MEMORY;
        const uint32_t num_words = step->iteration.num_words;
        uint32_t here = at, times = 1;
        at += num_words;
        if (step->number == path->num_steps) {
            times += ft_path_repeats(path, words + at, end - at);
            at = here + times * num_words;
            if (times > 1 && !count_edge(reader, step->block_id, id, times - 1))
                return FT_READ_MEMORY;
            struct ft_path *const longest =
                path->ways->longer ? ft_path_longest(path, words + at - num_words, end - at + num_words) : path;
            if (longest != path) { /* it has the last iteration */
                reader->executions += (uint64_t)(times - 1) * step->number;
                step->taken += times - 1;
                if (times > 1)
                    run = add_run(run, &last, step, words + here, times - 1);
                path = longest;
                step = &path->steps[path->num_steps - 1];
                here = at - num_words;
                at = here + path->num_words;
                times = 1;
            }
        }
        before = blocks + step->block_id;
        step->taken += times;
        reader->executions += (uint64_t)times * step->number;
        path->countdown -= times < path->countdown ? times : path->countdown;
        run = add_run(run, &last, step, words + here, times);
        if (UNLIKELY(run >= runs + MAX_RUNS - 1 || path->countdown == 0)) {
            if (!feed_runs(reader, runs, (size_t)(run - runs)))
                return FT_READ_MEMORY;
            run = runs;
            last = NULL;
            if (path->countdown == 0) {
                here = at - step->iteration.num_words;
                status = improve_path(reader, path, words + here, end - here);
            }
        }
    }
    cursor->block_id = (uint32_t)(before - blocks);
    cursor->last_tag = 0;
    *position = at;
    return feed_runs(reader, runs, (size_t)(run - runs)) ? status : FT_READ_MEMORY;
}

/* The same between bursts, where most executions have no accesses. */
static enum ft_read_status read_counted(struct ft_reader *reader, struct ft_reader_cursor *cursor,
                                        const uint64_t *words, uint32_t *position)
{
    struct ft_block *const blocks = reader->blocks, *before = blocks + cursor->block_id;
    const uint64_t bare_entry = FT_ENTRY >> FT_SIZE_SHIFT, n_blocks = reader->n_blocks;
    uint32_t i = *position;
    if (cursor->block_id == 0)
        return FT_READ_IDLE;
    for (; i + 1 < reader->chunk.words; i++) {
        const uint32_t id = (uint32_t)words[i];
        if (words[i] >> FT_SIZE_SHIFT != bare_entry || !(words[i + 1] & FT_ENTRY) || UNLIKELY(id - 1u >= n_blocks))
            break;
        if (!count_next(reader, before, id))
            return FT_READ_MEMORY;
        before = blocks + id;
    }
    reader->executions += i - *position;
    cursor->block_id = (uint32_t)(before - blocks);
    cursor->last_tag = 0;
    *position = i;
    return FT_READ_IDLE;
}

/* ---- any word --------------------------------------------------------------------------------------------------- */

static enum ft_read_status read_tagged(struct ft_reader *reader, struct ft_reader_cursor *cursor, uint64_t word)
{
    const uint32_t tag = (uint32_t)(word >> FT_TAG_SHIFT);
    enum ft_read_status status = read_access(reader, cursor, word, tag);
    if (LIKELY(status == FT_READ_IDLE))
        cursor->last_tag = tag;
    return status;
}

/* At an entry word: reads executions on known paths, then enters the block of the first other one. `*position` moves
 * behind what was read. */
static enum ft_read_status read_executions(struct ft_reader *reader, struct ft_reader_cursor *cursor,
                                           const uint64_t *words, uint32_t *position)
{
    enum ft_read_status status = FT_READ_IDLE;
    if (status == FT_READ_IDLE && reader->mark == FT_MARK_COUNT && !reader->sink.wants_fetches)
        status = read_counted(reader, cursor, words, position);
    if (status == FT_READ_IDLE && !reader->sink.wants_fetches)
        status = read_paths(reader, cursor, words, position);
    if (status == FT_READ_IDLE && *position < reader->chunk.words && !reader->sink.wants_fetches)
        status = learn_here(reader, words + *position, reader->chunk.words - *position);
    if (status != FT_READ_IDLE || *position == reader->chunk.words)
        return status;
    const uint64_t entry = words[*position];
    cursor->last_tag = 0;
    status = read_entry(reader, cursor, entry);
    if (status != FT_READ_IDLE)
        return status;
    (*position)++;
    if (!brings_access(entry))
        return FT_READ_IDLE;
    const struct ft_block *block = &reader->blocks[cursor->block_id];
    return block->first_access ? read_tagged(reader, cursor, first_access_word(block, entry))
                               : corrupt(reader, "a block brings an access that it should not have");
}

static const uint64_t *chunk_words(const struct ft_reader *reader, uint32_t chunk)
{
    return (const uint64_t *)((const unsigned char *)reader->header + reader->header->chunks_offset) +
           (size_t)chunk * FT_CHUNK_WORDS;
}

/* Reads the chunk in hand from where it stopped. */
static enum ft_read_status read_words(struct ft_reader *reader)
{
    const struct ft_ready chunk = reader->chunk;
    const uint64_t *words = chunk_words(reader, chunk.chunk);
    struct ft_reader_cursor *cursor = &reader->cursors[chunk.cursor];
    enum ft_read_status status = FT_READ_IDLE;

    while (reader->position < chunk.words && status == FT_READ_IDLE) {
        const uint64_t word = words[reader->position];
        uint32_t length = 1;
        if (word & FT_ENTRY) {
            status = read_executions(reader, cursor, words, &reader->position);
            continue;
        }
        if (UNLIKELY(word >> FT_TAG_SHIFT > FT_TAG_MAX)) {
            const uint32_t left = chunk.words - reader->position;
            length = 2;
            status = word >> FT_TAG_SHIFT == FT_TAG_BULK ? read_bulk(reader, words + reader->position, left, &length)
                                                         : read_element(reader, words + reader->position, left);
            cursor->last_tag = 0;
        } else {
            status = read_tagged(reader, cursor, word);
        }
        if (LIKELY(status == FT_READ_IDLE))
            reader->position += length;
    }
    return status;
}

/* ---- chunks ----------------------------------------------------------------------------------------------------- */

static enum ft_read_status take_chunk(struct ft_reader *reader, struct ft_ready chunk)
{
    if (chunk.chunk >= FT_MAX_CHUNKS || chunk.words > FT_CHUNK_WORDS || chunk.cursor >= FT_MAX_CURSORS)
        return corrupt(reader, "a chunk's number or length is impossible");
    reader->chunk = chunk;
    reader->position = 0;
    reader->in_chunk = true;
    if (reader->mark != FT_MARK_COUNT && /* samples have accesses */
        !ft_samples_offer(&reader->samples, chunk_words(reader, chunk.chunk), chunk.words, chunk.cursor))
        return FT_READ_MEMORY;
    reader->cursors[chunk.cursor].sequence = chunk.sequence;
    if (!reader->sink.set_thread || chunk.cursor == reader->thread)
        return FT_READ_IDLE;
    reader->thread = chunk.cursor;
    bool told = feed_batch(reader) && reader->sink.set_thread(reader->sink.simulator, chunk.cursor) == 0;
    return told ? FT_READ_IDLE : FT_READ_MEMORY;
}

/* A writer that waits is woken for several chunks at once, or when there is nothing else to read. */
static bool enough_to_wake(const struct ft_header *h)
{
    return atomic_load(&h->free_head) - atomic_load(&h->free_tail) >= CHUNKS_TO_WAKE_FOR ||
           atomic_load(&h->ready_head) == atomic_load(&h->ready_tail);
}

static void release_chunk(struct ft_reader *reader)
{
    struct ft_header *h = reader->header;
    uint32_t head = atomic_load(&h->free_head);
    h->free[head % FT_QUEUE_SLOTS] = reader->chunk.chunk;
    atomic_store(&h->free_head, head + 1);
    if (atomic_load(&h->writer_waits) && enough_to_wake(h))
        ft_futex_wake(&h->free_head);
    reader->in_chunk = false;
}

/* Waits for a chunk. FT_READ_MORE: there is one, `reader->chunk`. */
static enum ft_read_status next_chunk(struct ft_reader *reader, uint32_t timeout_ms)
{
    struct ft_header *h = reader->header;
    const struct timespec timeout = {timeout_ms / 1000, (long)(timeout_ms % 1000) * 1000000L};
    uint32_t tail = atomic_load(&h->ready_tail);
    uint32_t head = atomic_load(&h->ready_head);
    if (head == tail && timeout_ms) {
        atomic_store(&h->reader_waits, 1);
        ft_futex_wait(&h->ready_head, head, &timeout);
        atomic_store(&h->reader_waits, 0);
        head = atomic_load(&h->ready_head);
    }
    if (head == tail)
        return FT_READ_IDLE;
    if (head - tail > FT_QUEUE_SLOTS)
        return corrupt(reader, "the queue of chunks is longer than it can be");
    struct ft_ready chunk = h->ready[tail % FT_QUEUE_SLOTS];
    atomic_store(&h->ready_tail, tail + 1);
    if (chunk.chunk == FT_MARK) {
        reader->mark = chunk.words;
        reader->samples.seen += FT_BURST_CHUNKS; /* the next does not follow on the last one */
        return feed_but_last(reader) ? FT_READ_MARK : FT_READ_MEMORY;
    }
    enum ft_read_status status = take_chunk(reader, chunk);
    return status == FT_READ_IDLE ? FT_READ_MORE : status;
}

enum ft_read_status ft_reader_run(struct ft_reader *reader, uint32_t max_chunks, uint32_t timeout_ms)
{
    for (uint32_t n = 0; n < max_chunks; n++) {
        if (!reader->in_chunk) {
            enum ft_read_status status = next_chunk(reader, n == 0 ? timeout_ms : 0);
            if (status != FT_READ_MORE)
                return status;
        }
        enum ft_read_status status = read_words(reader);
        if (status != FT_READ_IDLE)
            return status;
        release_chunk(reader);
    }
    return FT_READ_MORE;
}

void ft_reader_set_width(struct ft_reader *reader, uint32_t width_bytes)
{
    /* A width below one part says that the parts are accesses of their own. */
    reader->operations[reader->asked_operation].width_bytes = width_bytes ? width_bytes : 1;
}

/* What cursor `i` had written but not published. */
static enum ft_read_status salvage_cursor(struct ft_reader *reader, uint32_t i)
{
    const struct ft_header *h = reader->header;
    const struct ft_cursor *cursor = (const struct ft_cursor *)((const unsigned char *)h + h->cursors_offset) + i;
    uint64_t bytes = (uint64_t)(uintptr_t)cursor->next - (uint64_t)(uintptr_t)cursor->begin;
    if (!atomic_load(&cursor->in_use) || cursor->sequence == reader->cursors[i].sequence)
        return FT_READ_IDLE;
    if (bytes % sizeof(uint64_t) || bytes / sizeof(uint64_t) > FT_CHUNK_WORDS)
        return corrupt(reader, "a cursor stands outside its chunk");
    return take_chunk(reader, (struct ft_ready){cursor->chunk, (uint32_t)(bytes / sizeof(uint64_t)), i,
                                                cursor->sequence});
}

enum ft_read_status ft_reader_salvage(struct ft_reader *reader)
{
    enum ft_read_status status;
    while ((status = ft_reader_run(reader, UINT32_MAX, 0)) == FT_READ_MORE)
        ;
    for (uint32_t i = 0; i < FT_MAX_CURSORS && status == FT_READ_IDLE; i++) {
        status = salvage_cursor(reader, i);
        if (status == FT_READ_IDLE && reader->in_chunk) {
            status = read_words(reader);
            reader->in_chunk = status == FT_READ_WIDTH;
        }
    }
    if (status == FT_READ_IDLE)
        status = read_side_table(reader);
    if (status == FT_READ_IDLE && !feed_batch(reader))
        status = FT_READ_MEMORY;
    return status;
}
