/* Bulk records of the Python agent: from an array operation's operands to words of the stream.
 *
 * `operations` is an open-addressing table from (block, name, shape of the operands) to the operation's id in the side
 * table. An entry with id 0 is free; entries are never removed; at most half are in use. The GIL guards it.
 */
#include "tracer/python/agent.h"
#include "tracer/transport/event_samples.h"

#include <stdlib.h>
#include <string.h>

struct operation {
    uint32_t id;
    struct ft_side_operation *entry; /* in the side table */
    uint32_t block, site;
    const char *name;
    uint32_t flops, int_ops, n_operands;
    struct ft_operand operands[FT_MAX_OPERANDS];
};

static uint32_t last_operation_id;

/* ---- operation ids ---------------------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * FT_HASH_FACTOR;
    return hash ^ hash >> 32;
}

static uint64_t hash_of(const struct operation *key)
{
    uint64_t hash = mix((uintptr_t)key->name, (uint64_t)key->block << 32 | key->site);
    hash = mix(hash, (uint64_t)key->int_ops << 32 | key->flops);
    for (uint32_t i = 0; i < key->n_operands; i++)
        hash = mix(hash, (uint64_t)key->operands[i].kind << 24 | (uint64_t)key->operands[i].size_bytes << 3 |
                             key->operands[i].is_store << 2 | key->operands[i].is_indexed << 1 |
                             key->operands[i].is_index);
    return hash;
}

static bool same(const struct operation *a, const struct operation *b)
{
    return a->block == b->block && a->site == b->site && a->name == b->name && a->flops == b->flops &&
           a->int_ops == b->int_ops && a->n_operands == b->n_operands &&
           memcmp(a->operands, b->operands, a->n_operands * sizeof *a->operands) == 0;
}

static inline bool is_used(const struct operation *operation)
{
    return operation->id;
}

FT_TABLE_TYPE(operations, struct operation);
FT_TABLE(operations, struct operation, 1024, hash_of, is_used, same)

static struct operations operations;

static void fill_operation(void *memory, uint32_t number, void *context)
{
    struct operation *key = context;
    struct ft_side_operation *entry = key->entry = memory;
    entry->entry.kind = FT_SIDE_OPERATION;
    entry->operation_id = number;
    entry->block_id = key->block;
    entry->site = key->site;
    entry->n_operands = key->n_operands;
    entry->name_bytes = (uint32_t)strlen(key->name);
    entry->flops_per_point = key->flops;
    entry->int_ops_per_point = key->int_ops;
    memcpy(entry->operands, key->operands, sizeof entry->operands);
    memcpy(entry + 1, key->name, entry->name_bytes);
}

/* The id of an operation, described in the side table on first use; 0 if that is full. */
static uint32_t operation_id(struct operation *key)
{
    if (!operations_make_room(&operations))
        return 0;
    struct operation *found = operations_at(&operations, key);
    if (found->id) {
        key->entry = found->entry;
        return key->id = found->id;
    }
    key->id =
        ft_writer_append(sizeof(struct ft_side_operation) + strlen(key->name), &last_operation_id, fill_operation, key);
    if (key->id) {
        *found = *key;
        operations.used++;
    }
    return key->id;
}

/* The ids of operations that were written lately: a bulk's operands in few words, 32 bits for each. */
#define N_RECENT_BULKS 256u

struct bulk_shape {
    uint32_t block, site, flops, int_ops;
    const char *name;
    uint64_t operands[FT_MAX_OPERANDS / 2];
    uint32_t n_operands;
};

static struct {
    struct bulk_shape shape;
    uint32_t id; /* 0: free */
    struct ft_side_operation *entry;
} recent_bulks[N_RECENT_BULKS];

static void shape_of(const struct agent_bulk *bulk, uint32_t block, struct bulk_shape *shape)
{
    *shape = (struct bulk_shape){.block = block,
                                 .site = agent_charged_site(),
                                 .flops = bulk->flops,
                                 .int_ops = bulk->int_ops,
                                 .name = bulk->name,
                                 .n_operands = bulk->n_operands};
    for (uint32_t i = 0; i < bulk->n_operands; i++) {
        const struct agent_operand *o = &bulk->operand[i];
        shape->operands[i / 2] = shape->operands[i / 2] << 32 | (uint64_t)o->kind << 24 | (uint64_t)o->size_bytes << 3 |
                                 (uint64_t)o->store << 2 | (uint64_t)o->indexed << 1 | o->is_index;
    }
}

static bool same_shape(const struct bulk_shape *a, const struct bulk_shape *b)
{
    uint64_t differ = 0;
    for (uint32_t i = 0; i < FT_MAX_OPERANDS / 2; i++)
        differ |= a->operands[i] ^ b->operands[i];
    return a->block == b->block && a->site == b->site && a->name == b->name && a->n_operands == b->n_operands &&
           a->flops == b->flops && a->int_ops == b->int_ops && !differ;
}

static struct operation described_operation(const struct agent_bulk *bulk, const struct bulk_shape *shape)
{
    struct operation key = {.block = shape->block,
                            .site = shape->site,
                            .name = bulk->name,
                            .flops = bulk->flops,
                            .int_ops = bulk->int_ops,
                            .n_operands = bulk->n_operands};
    for (uint32_t i = 0; i < bulk->n_operands; i++)
        key.operands[i] = (struct ft_operand){.size_bytes = bulk->operand[i].size_bytes,
                                              .is_store = bulk->operand[i].store,
                                              .is_indexed = bulk->operand[i].indexed,
                                              .is_index = bulk->operand[i].is_index,
                                              .kind = bulk->operand[i].kind};
    operation_id(&key);
    return key;
}

static uint32_t bulk_operation_id(const struct agent_bulk *bulk)
{
    const uint32_t block = agent_charged_block(); /* before the site, which goes by it */
    struct bulk_shape shape;
    if (!block)
        return 0;
    shape_of(bulk, block, &shape);
    const uint64_t hash = mix(mix((uintptr_t)shape.name, (uint64_t)block << 32 | shape.site), shape.operands[0]);
    const uint32_t place = (uint32_t)hash % N_RECENT_BULKS;
    if (!recent_bulks[place].id || !same_shape(&recent_bulks[place].shape, &shape)) {
        const struct operation described = described_operation(bulk, &shape);
        if (!described.id)
            return 0;
        recent_bulks[place].shape = shape;
        recent_bulks[place].id = described.id;
        recent_bulks[place].entry = described.entry;
    }
    agent_thread.operation = recent_bulks[place].entry;
    return recent_bulks[place].id;
}

/* ---- building --------------------------------------------------------------------------------------------------- */

void agent_bulk_begin(struct agent_bulk *bulk, const char *name, uint32_t n_dims, const int64_t *extents)
{
    bulk->name = name;
    bulk->flops = bulk->int_ops = 0;
    bulk->n_operands = 0;
    bulk->continued = false;
    bulk->n_dims = n_dims ? n_dims : 1;
    bulk->extent[0] = 1;
    for (uint32_t d = 0; d < n_dims; d++)
        bulk->extent[d] = extents[d];
}

struct agent_operand *agent_bulk_add(struct agent_bulk *bulk, const void *base, const int64_t *strides,
                                     int64_t size_bytes, bool store)
{
    struct agent_operand *operand = &bulk->operand[bulk->n_operands++];
    operand->base = (uintptr_t)base;
    operand->size_bytes = size_bytes > UINT16_MAX ? UINT16_MAX : (uint16_t)size_bytes;
    operand->store = store;
    operand->indexed = operand->is_index = false;
    operand->kind = 0;
    for (uint32_t d = 0; d < bulk->n_dims; d++)
        operand->stride[d] = strides ? strides[d] : 0;
    return operand;
}

void agent_bulk_add_indexed(struct agent_bulk *bulk, const void *base, int64_t size_bytes, bool store)
{
    agent_bulk_add(bulk, base, NULL, size_bytes, store)->indexed = true;
}

/* Whether the iterator puts dimension `outer` inside dimension `inner`, which follows it in C order (NumPy's
 * npyiter_find_best_axis_ordering): operands vote in turn, and where they disagree C order stands. */
static bool out_of_order(const struct agent_bulk *bulk, uint32_t outer, uint32_t inner)
{
    bool swap = false, ambiguous = true;
    for (uint32_t i = 0; i < bulk->n_operands; i++) {
        int64_t a = bulk->operand[i].stride[outer], b = bulk->operand[i].stride[inner];
        if (a == 0 || b == 0)
            continue;
        if (llabs(b) <= llabs(a))
            swap = false;
        else if (ambiguous)
            swap = true;
        ambiguous = false;
    }
    return swap;
}

static void swap_dims(struct agent_bulk *bulk, uint32_t a, uint32_t b)
{
    int64_t extent = bulk->extent[a];
    bulk->extent[a] = bulk->extent[b];
    bulk->extent[b] = extent;
    for (uint32_t i = 0; i < bulk->n_operands; i++) {
        int64_t *stride = bulk->operand[i].stride, kept = stride[a];
        stride[a] = stride[b];
        stride[b] = kept;
    }
}

/* Turns a dimension round if no operand goes up it and one goes down. */
static void flip_dim(struct agent_bulk *bulk, uint32_t dim)
{
    bool down = false;
    for (uint32_t i = 0; i < bulk->n_operands; i++) {
        if (bulk->operand[i].stride[dim] > 0)
            return;
        down |= bulk->operand[i].stride[dim] < 0;
    }
    for (uint32_t i = 0; down && i < bulk->n_operands; i++) {
        struct agent_operand *operand = &bulk->operand[i];
        operand->base += (uint64_t)(operand->stride[dim] * (bulk->extent[dim] - 1));
        operand->stride[dim] = -operand->stride[dim];
    }
}

void agent_bulk_order(struct agent_bulk *bulk)
{
    for (uint32_t d = 0; d < bulk->n_dims; d++)
        if (bulk->extent[d] == 0)
            return;
    for (uint32_t d = 0; d < bulk->n_dims; d++)
        flip_dim(bulk, d);
    for (uint32_t d = 1; d < bulk->n_dims; d++)
        for (uint32_t at = d; at > 0 && out_of_order(bulk, at - 1, at); at--)
            swap_dims(bulk, at - 1, at);
}

/* ---- coalescing ------------------------------------------------------------------------------------------------- */

static bool mergeable(const struct agent_bulk *bulk, uint32_t outer, uint32_t inner)
{
    for (uint32_t i = 0; i < bulk->n_operands; i++) {
        const struct agent_operand *operand = &bulk->operand[i];
        if (!operand->indexed && operand->stride[outer] != operand->stride[inner] * bulk->extent[inner])
            return false;
    }
    return true;
}

static void copy_dim(struct agent_bulk *bulk, uint32_t to, uint32_t from)
{
    bulk->extent[to] = bulk->extent[from];
    for (uint32_t i = 0; i < bulk->n_operands; i++)
        bulk->operand[i].stride[to] = bulk->operand[i].stride[from];
}

void agent_bulk_coalesce(struct agent_bulk *bulk)
{
    uint32_t kept = 0;
    for (uint32_t d = 0; d < bulk->n_dims; d++) {
        if (bulk->extent[d] == 1)
            continue;
        if (kept && mergeable(bulk, kept - 1, d)) {
            int64_t extent = bulk->extent[kept - 1] * bulk->extent[d];
            copy_dim(bulk, kept - 1, d);
            bulk->extent[kept - 1] = extent;
        } else {
            copy_dim(bulk, kept++, d);
        }
    }
    if (kept == 0) {
        bulk->extent[0] = 1;
        for (uint32_t i = 0; i < bulk->n_operands; i++)
            bulk->operand[i].stride[0] = 0;
        kept = 1;
    }
    bulk->n_dims = kept;
}

/* ---- writing ---------------------------------------------------------------------------------------------------- */

static size_t head_words(const struct agent_bulk *bulk, uint32_t n_dims)
{
    return 2 + n_dims + (size_t)bulk->n_operands * (1 + n_dims);
}

static int64_t points_from(const struct agent_bulk *bulk, uint32_t dim)
{
    int64_t points = 1;
    for (uint32_t d = dim; d < bulk->n_dims; d++)
        points *= bulk->extent[d];
    return points;
}

/* Writes one record: dimensions `dim` and up, the first of them cut to `extent`. */
static void write_record(struct agent_bulk *bulk, uint32_t id, uint32_t dim, int64_t extent, const uint64_t *bases,
                         struct agent_index *index)
{
    const uint32_t dims = bulk->n_dims - dim;
    const int64_t points = index ? extent * points_from(bulk, dim + 1) : 0;
    const bool narrow = index && index->next_narrow;
    const int64_t payload = narrow ? (points + 1) / 2 : points;
    const size_t words = head_words(bulk, dims) + (size_t)payload;
    struct ft_cursor *cursor = agent_cursor();
    if (!cursor)
        return;
    if (ft_event_samples_are_due())
        ft_writer_flush(cursor);
    ft_write_begin(cursor, words);
    uint64_t *p = cursor->next;
    *p++ = (uint64_t)FT_TAG_BULK << FT_TAG_SHIFT | (uint64_t)words << 32 | id;
    *p++ = (bulk->continued ? FT_BULK_CONTINUED : 0) | (narrow ? FT_BULK_NARROW : 0) | (uint64_t)payload << 16 |
           dims << 8 | bulk->n_operands;
    *p++ = (uint64_t)extent;
    for (uint32_t d = dim + 1; d < bulk->n_dims; d++)
        *p++ = (uint64_t)bulk->extent[d];
    for (uint32_t i = 0; i < bulk->n_operands; i++) {
        const struct agent_operand *operand = &bulk->operand[i];
        *p++ = bases[i];
        for (uint32_t d = dim; d < bulk->n_dims; d++)
            *p++ = !operand->indexed ? (uint64_t)operand->stride[d] : d > dim ? 0 : narrow ? (uint64_t)index->scale : 1;
    }
    if (narrow && payload) {
        p[payload - 1] = 0; /* of which half may not be used */
        index->next_narrow(index, (int32_t *)p, points);
    } else if (payload) {
        index->next(index, (int64_t *)p, points);
    }
    cursor->next = p + payload;
    bulk->continued = true;
    agent_thread.wrote = true;
}

/* Writes dimensions `dim` and up with their index, split so that each record's payload fits. */
static void write_split(struct agent_bulk *bulk, uint32_t id, uint32_t dim, uint64_t *bases, struct agent_index *index)
{
    const int64_t indices_per_word = index->next_narrow ? 2 : 1;
    const int64_t room = (int64_t)(FT_MAX_BULK_WORDS - head_words(bulk, bulk->n_dims - dim)) * indices_per_word;
    const int64_t inner = points_from(bulk, dim + 1), extent = bulk->extent[dim];
    const int64_t step = extent * inner <= room ? extent : inner > room ? 1 : room / inner;
    uint64_t at[FT_MAX_OPERANDS];
    memcpy(at, bases, bulk->n_operands * sizeof *at);
    for (int64_t done = 0; done < extent; done += step) {
        int64_t part = extent - done < step ? extent - done : step;
        if (inner > room)
            write_split(bulk, id, dim + 1, at, index);
        else
            write_record(bulk, id, dim, part, at, index);
        for (uint32_t i = 0; i < bulk->n_operands; i++)
            if (!bulk->operand[i].indexed)
                at[i] += (uint64_t)(bulk->operand[i].stride[dim] * part);
    }
}

void agent_bulk_write(struct agent_bulk *bulk, struct agent_index *index)
{
    for (uint32_t d = 0; d < bulk->n_dims; d++)
        if (bulk->extent[d] <= 0)
            return;
    for (uint32_t i = 0; i < bulk->n_operands; i++)
        if (bulk->operand[i].size_bytes == 0)
            return;
    if (bulk->n_operands == 0)
        return;
    if (bulk->n_dims > 1 || bulk->extent[0] == 1)
        agent_bulk_coalesce(bulk);
    uint32_t id = bulk->n_dims <= FT_MAX_DIMS ? bulk_operation_id(bulk) : 0;
    if (!id) {
        agent_unseen();
        return;
    }
    uint64_t bases[FT_MAX_OPERANDS];
    for (uint32_t i = 0; i < bulk->n_operands; i++)
        bases[i] = bulk->operand[i].base;
    if (index)
        write_split(bulk, id, 0, bases, index);
    else
        write_record(bulk, id, 0, bulk->extent[0], bases, NULL);
    agent_thread.timed_points += (uint64_t)points_from(bulk, 0);
}

/* ---- single accesses -------------------------------------------------------------------------------------------- */

#define N_RECENT 1024u

/* The operation of an access that was written lately, by its place. */
static struct operation *recent_operation(uint32_t block, uint32_t site)
{
    static struct operation recent[N_RECENT];
    return &recent[(block * 7 + site / 2) % N_RECENT];
}

uint32_t agent_element_operation(const char *name, uint32_t block, uint32_t site, int64_t size_bytes, bool store,
                                 bool indexed)
{
    const struct ft_operand operand = {.size_bytes = size_bytes > UINT16_MAX ? UINT16_MAX : (uint16_t)size_bytes,
                                       .is_store = store,
                                       .is_indexed = indexed};
    struct operation *recent = recent_operation(block, site);
    if (recent->id && recent->block == block && recent->site == site && recent->name == name &&
        memcmp(&recent->operands[0], &operand, sizeof operand) == 0)
        return recent->id;
    struct operation key = {.block = block, .site = site, .name = name, .n_operands = 1, .operands = {operand}};
    if (block && size_bytes && operation_id(&key))
        *recent = key;
    return key.id;
}

void agent_write_access(const char *name, const void *base, int64_t offset, int64_t size_bytes, bool store,
                        bool indexed)
{
    const uint32_t block = agent_charged_block();
    const uint32_t id = agent_element_operation(name, block, agent_charged_site(), size_bytes, store, indexed);
    if (id) {
        agent_write_element(id, (const char *)base + offset);
        agent_thread.wrote = true;
        agent_keep_time(); /* it is part of its line */
    } else if (size_bytes) {
        agent_unseen();
    }
}
