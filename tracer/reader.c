/* The reading side of the address stream. See reader.h. */
#define _GNU_SOURCE
#include "reader.h"

#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define FIRST_CHUNK_ALIGN UINT64_C(4096)
#define MAX_BLOCKS (1u << 26)
#define MAX_POINTS (UINT64_C(1) << 48)

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
    for (uint32_t i = 0; i <= reader->n_blocks && reader->blocks; i++)
        free(reader->blocks[i].operation);
    free(reader->blocks);
    free(reader->operations);
    free(reader->arrays);
    free(reader->edges);
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
    reader->blocks[id].n_slots = (uint32_t)n_slots;
    return FT_READ_IDLE;
}

/* Where a block's code lies. `lengths_bytes` is what there is of the entry behind its fixed part. */
static void locate_code(struct ft_block *block, const struct ft_side_block *facts, uint32_t lengths_bytes)
{
    const unsigned char *lengths = (const unsigned char *)(facts + 1);
    uint64_t code_bytes = 0;
    for (uint32_t i = 0; i < facts->n_instructions && i < lengths_bytes; i++)
        code_bytes += lengths[i];
    block->address = facts->address;
    block->code_bytes = code_bytes < UINT16_MAX ? (uint32_t)code_bytes : UINT16_MAX;
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
            locate_code(&reader->blocks[block->block_id], block, bytes - (uint32_t)sizeof *block);
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
    uint64_t points;
};

/* Takes a record of `length` words apart. False if it does not add up. */
static bool parse_bulk(const uint64_t *words, uint32_t length, const struct ft_array *array, struct bulk *bulk)
{
    if (length < 2)
        return false;
    uint32_t n = words[1] & 0xff, dims = words[1] >> 8 & 0xff, payload = words[1] >> 16 & 0xffff;
    if (n != array->facts.n_operands || dims == 0 || dims > FT_MAX_DIMS ||
        UINT64_C(2) + dims + (uint64_t)n * (1 + dims) + payload != length)
        return false;
    bulk->n_operands = n;
    bulk->n_dims = dims;
    bulk->points = 1;
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
        if (operand->indexed && payload != bulk->points)
            return false;
    }
    bulk->index = p;
    return true;
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

/* Where the indexed operands of one execution lie, which may take several records. */
static void measure_ranges(struct ft_reader *reader, const struct bulk *bulk, bool continued)
{
    for (uint32_t i = 0; i < bulk->n_operands; i++) {
        const struct bulk_operand *operand = &bulk->operand[i];
        struct ft_operation *operation = &reader->operations[operand->operation];
        if (!operand->indexed)
            continue;
        uint64_t first = continued ? operation->first : UINT64_MAX, last = continued ? operation->last_exclusive : 0;
        for (uint64_t point = 0; point < bulk->points; point++) {
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
    if (id == 0 || id > reader->n_arrays || !parse_bulk(words, *length, &reader->arrays[id], &bulk))
        return corrupt(reader, "an array record does not add up");
    const bool continued = words[1] & FT_BULK_CONTINUED;
    measure_ranges(reader, &bulk, continued);
    reader->arrays[id].executions += !continued;
    reader->arrays[id].points += bulk.points;
    return walk_bulk(reader, &bulk);
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

/* Enters a block. */
static enum ft_read_status read_block(struct ft_reader *reader, struct ft_reader_cursor *cursor, uint64_t word)
{
    uint32_t id = (uint32_t)word;
    if (UNLIKELY(id > reader->n_blocks)) {
        enum ft_read_status status = read_side_table(reader);
        if (status != FT_READ_IDLE)
            return status;
    }
    if (UNLIKELY(id == 0 || id > reader->n_blocks))
        return corrupt(reader, "a block runs that was never described");
    if (LIKELY(cursor->block_id) && UNLIKELY(!count_edge(reader, cursor->block_id, id, 1)))
        return FT_READ_MEMORY;
    cursor->block_id = id;
    reader->blocks[id].executions++;
    if (UNLIKELY(reader->batch_length > FT_BATCH / 2) && !feed_batch(reader))
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

/* ---- runs ------------------------------------------------------------------------------------------------------- */

/* Words that must repeat for a run to be worth it. */
#define MIN_RUN_WORDS 32u

/* How many further times the `period` words before `begin` come again, in all but their addresses. */
static uint32_t count_repeats(const uint64_t *begin, const uint64_t *end, uint32_t period)
{
    uint32_t repeats = 0;
    for (const uint64_t *word = begin; end - word >= (ptrdiff_t)period; word += period, repeats++) {
        uint64_t differs = word[0] ^ word[-(ptrdiff_t)period];
        for (uint32_t i = 1; i < period; i++)
            differs |= (word[i] ^ word[(ptrdiff_t)i - (ptrdiff_t)period]) >> FT_SIZE_SHIFT;
        if (differs)
            break;
    }
    return repeats;
}

/* The accesses of one iteration, from its `length` words. Their number, or 0 if they cannot be a run. */
static size_t describe_iteration(struct ft_reader *reader, const struct ft_block *block, const uint64_t *words,
                                 uint32_t length)
{
    struct ft_run_access *accesses = reader->run_accesses;
    size_t n = 0;
    uint32_t last_tag = 0;
    for (uint32_t i = 0; i < length; i++) {
        uint32_t tag = (uint32_t)(words[i] >> FT_TAG_SHIFT), size = 1u << (words[i] >> FT_SIZE_SHIFT & 7);
        if (tag == 0 || tag > block->n_slots || n == FT_RUN_ACCESSES)
            return 0;
        uint32_t operation = block->operation[tag - 1];
        if (operation == FT_NO_OPERATION)
            return 0;
        if (tag == last_tag) {
            uint32_t width = reader->operations[operation].width_bytes;
            if (width == 0)
                return 0; /* to be asked for, should these be parts of one access */
            if (accesses[n - 1].size_bytes + size <= width) {
                accesses[n - 1].size_bytes = (uint16_t)(accesses[n - 1].size_bytes + size);
                continue;
            }
        }
        accesses[n++] = (struct ft_run_access){operation, i, (uint16_t)size, (tag - 1) & 1 ? FT_ACCESS_STORE : 0};
        last_tag = tag;
    }
    return n;
}

/* At a block word that repeats the last one: if what follows are many iterations of a loop of one block, hands them to
 * the simulator as a whole. `*length` is the number of words used, 0 if they are to be read one by one. */
static enum ft_read_status read_run(struct ft_reader *reader, struct ft_reader_cursor *cursor, const uint64_t *words,
                                    uint32_t position, uint32_t *length)
{
    const uint32_t period = position - reader->header_position;
    const uint32_t repeats = count_repeats(words + position, words + reader->chunk.words, period);
    struct ft_block *block = &reader->blocks[cursor->block_id];
    size_t n = 0;
    *length = 0;
    if (repeats * period >= MIN_RUN_WORDS)
        n = describe_iteration(reader, block, words + reader->header_position + 1, period - 1);
    if (n == 0 && period > 1) {
        reader->no_run_before = position + repeats * period;
        return FT_READ_IDLE;
    }
    if (!count_edge(reader, cursor->block_id, cursor->block_id, repeats) || !feed_batch(reader))
        return FT_READ_MEMORY;
    block->executions += repeats;
    *length = repeats * period;
    reader->header_position += *length;
    cursor->last_tag = 0; /* what follows is not joined to the run's last access */
    reader->accesses += n * repeats;
    const struct ft_run run = {words + position + 1, FT_ADDRESS_MASK, period, repeats, n, reader->run_accesses};
    return n == 0 || reader->sink.feed_run(reader->sink.simulator, &run) == 0 ? FT_READ_IDLE : FT_READ_MEMORY;
}

/* A block word: a run of its block, or one execution. */
static inline enum ft_read_status read_header(struct ft_reader *reader, struct ft_reader_cursor *cursor,
                                              const uint64_t *words, uint32_t position, uint32_t *length)
{
    if (reader->header_position < position && words[reader->header_position] == words[position] &&
        position >= reader->no_run_before && !reader->sink.wants_fetches) {
        enum ft_read_status status = read_run(reader, cursor, words, position, length);
        if (*length || status != FT_READ_IDLE)
            return status;
    }
    *length = 1;
    reader->header_position = position;
    cursor->last_tag = 0;
    return read_block(reader, cursor, words[position]);
}

/* The common case of what follows in read_words, with its state in registers: from `position` on, words that ask for
 * nothing new (block, edge and operation are known, no run begins, no parts are joined, the batch has room). Returns the
 * position of the first word of another kind, or the end. */
static uint32_t read_plain(struct ft_reader *reader, struct ft_reader_cursor *cursor, const uint64_t *words,
                           uint32_t position)
{
    const uint32_t end = reader->chunk.words, n_blocks = reader->n_blocks, no_run_before = reader->no_run_before;
    struct ft_block *const blocks = reader->blocks, *block = blocks ? &blocks[cursor->block_id] : NULL;
    struct ft_access *const batch = reader->batch;
    uint32_t length = reader->batch_length, last_tag = cursor->last_tag, header = reader->header_position;
    if (cursor->block_id == 0 || header >= end || reader->sink.wants_fetches)
        return position;
    const uint32_t *operations = block->operation;
    uint32_t n_slots = operations ? block->n_slots : 0;
    for (; position < end && length < FT_BATCH; position++) {
        const uint64_t word = words[position];
        const uint32_t tag = (uint32_t)(word >> FT_TAG_SHIFT);
        if (tag) {
            if (UNLIKELY(tag > n_slots || tag == last_tag || operations[tag - 1] == FT_NO_OPERATION))
                break;
            batch[length++] = (struct ft_access){word & FT_ADDRESS_MASK, operations[tag - 1],
                                                 (uint16_t)(1u << (word >> FT_SIZE_SHIFT & 7)),
                                                 (tag - 1) & 1 ? FT_ACCESS_STORE : 0};
        } else {
            const uint32_t id = (uint32_t)word;
            const uint32_t side = block->successor[1] == id;
            if (UNLIKELY(id == 0 || id > n_blocks || block->successor[side] != id || length > FT_BATCH / 2 ||
                         (words[header] == word && position >= no_run_before)))
                break;
            block->successor_count[side]++;
            block = &blocks[id];
            block->executions++;
            operations = block->operation;
            n_slots = operations ? block->n_slots : 0;
            header = position;
        }
        last_tag = tag;
    }
    reader->batch_length = length;
    reader->header_position = header;
    cursor->block_id = (uint32_t)(block - blocks);
    cursor->last_tag = last_tag;
    return position;
}

/* Reads the chunk in hand from where it stopped. */
static enum ft_read_status read_words(struct ft_reader *reader)
{
    const struct ft_ready chunk = reader->chunk;
    const uint64_t *words = (const uint64_t *)((const unsigned char *)reader->header + reader->header->chunks_offset) +
                            (size_t)chunk.chunk * FT_CHUNK_WORDS;
    struct ft_reader_cursor *cursor = &reader->cursors[chunk.cursor];
    uint32_t position = reader->position;
    enum ft_read_status status = FT_READ_IDLE;

    while ((position = read_plain(reader, cursor, words, position)) < chunk.words) {
        uint32_t tag = (uint32_t)(words[position] >> FT_TAG_SHIFT), length = 1;
        if (tag == 0) {
            status = read_header(reader, cursor, words, position, &length);
        } else if (UNLIKELY(tag == FT_TAG_BULK)) {
            status = read_bulk(reader, words + position, chunk.words - position, &length);
            cursor->last_tag = 0;
        } else if (tag == FT_TAG_ELEMENT) {
            length = 2;
            status = read_element(reader, words + position, chunk.words - position);
            cursor->last_tag = 0;
        } else {
            status = read_access(reader, cursor, words[position], tag);
            if (LIKELY(status == FT_READ_IDLE))
                cursor->last_tag = tag;
        }
        if (UNLIKELY(status != FT_READ_IDLE))
            break;
        position += length;
    }
    reader->words += position - reader->position;
    reader->position = position;
    return status;
}

/* ---- chunks ----------------------------------------------------------------------------------------------------- */

static void futex(_Atomic uint32_t *word, int operation, uint32_t value, const struct timespec *timeout)
{
    syscall(SYS_futex, word, operation, value, timeout, NULL, 0);
}

static enum ft_read_status take_chunk(struct ft_reader *reader, struct ft_ready chunk)
{
    if (chunk.chunk >= FT_MAX_CHUNKS || chunk.words > FT_CHUNK_WORDS || chunk.cursor >= FT_MAX_CURSORS)
        return corrupt(reader, "a chunk's number or length is impossible");
    reader->chunk = chunk;
    reader->position = 0;
    reader->in_chunk = true;
    reader->header_position = FT_CHUNK_WORDS;
    reader->no_run_before = 0;
    reader->cursors[chunk.cursor].sequence = chunk.sequence;
    if (!reader->sink.set_thread || chunk.cursor == reader->thread)
        return FT_READ_IDLE;
    reader->thread = chunk.cursor;
    bool told = feed_batch(reader) && reader->sink.set_thread(reader->sink.simulator, chunk.cursor) == 0;
    return told ? FT_READ_IDLE : FT_READ_MEMORY;
}

static void release_chunk(struct ft_reader *reader)
{
    struct ft_header *h = reader->header;
    uint32_t head = atomic_load(&h->free_head);
    h->free[head % FT_QUEUE_SLOTS] = reader->chunk.chunk;
    atomic_store(&h->free_head, head + 1);
    if (atomic_load(&h->writer_waits))
        futex(&h->free_head, FUTEX_WAKE, 1, NULL);
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
        futex(&h->ready_head, FUTEX_WAIT, head, &timeout);
        atomic_store(&h->reader_waits, 0);
        head = atomic_load(&h->ready_head);
    }
    if (head == tail)
        return FT_READ_IDLE;
    if (head - tail > FT_QUEUE_SLOTS)
        return corrupt(reader, "the queue of chunks is longer than it can be");
    struct ft_ready chunk = h->ready[tail % FT_QUEUE_SLOTS];
    atomic_store(&h->ready_tail, tail + 1);
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
