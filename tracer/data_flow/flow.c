/* Follows the bytes of memory blocks. See flow.h. */
#include "flow.h"

#include "states.h"

#include <stdlib.h>
#include <string.h>

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)
#define OFFSET_MASK (FT_FLOW_BLOCK_BYTES - 1)
#define LARGEST_SHIFT 3 /* of an entry's length in bytes */
#define HOT_FACTOR 16u  /* a block is hot that has as many times the accesses of others */
#define MAX_HOT_SHARE 16u /* one in so many of the blocks at most */
#define FILTER_BITS (1u << 15)

struct entry {
    uint32_t state, touched;
};

struct ft_flow_block {
    uint64_t number;
    struct entry *entries;
    uint64_t accesses;
    uint8_t shift, part, log_weight;
    bool stays; /* whatever its hash */
};

struct ft_flow {
    struct ft_flow_states states;
    struct ft_flow_block **slots; /* by hash: open addressing */
    uint32_t num_slots, num_blocks, max_blocks;
    uint32_t log_weight, epoch;
    uint64_t hot[FILTER_BITS / 64]; /* by hash: whether a block may stay */
};

static inline uint32_t hash_of(uint64_t number)
{
    return (uint32_t)((number * UINT64_C(0x9e3779b97f4a7c15)) >> 32);
}

static inline bool is_sampled(const struct ft_flow *flow, uint32_t hash)
{
    return (uint64_t)hash << flow->log_weight <= UINT32_MAX;
}

static inline bool may_be_hot(const struct ft_flow *flow, uint32_t hash)
{
    return flow->hot[hash % FILTER_BITS / 64] >> (hash % 64) & 1;
}

struct ft_flow *ft_flow_new(uint32_t max_blocks, uint32_t max_sets)
{
    struct ft_flow *flow = calloc(1, sizeof *flow);
    if (!flow)
        return NULL;
    flow->max_blocks = max_blocks;
    flow->num_slots = 64;
    while (flow->num_slots < 4 * max_blocks)
        flow->num_slots *= 2;
    flow->slots = calloc(flow->num_slots, sizeof(struct ft_flow_block *));
    if (!flow->slots || !ft_flow_states_init(&flow->states, max_sets)) {
        ft_flow_free(flow);
        return NULL;
    }
    return flow;
}

static void free_block(struct ft_flow_block *block)
{
    free(block->entries);
    free(block);
}

void ft_flow_free(struct ft_flow *flow)
{
    if (!flow)
        return;
    for (uint32_t i = 0; i < flow->num_slots && flow->slots; i++)
        if (flow->slots[i])
            free_block(flow->slots[i]);
    free(flow->slots);
    ft_flow_states_free(&flow->states);
    free(flow);
}

uint32_t ft_flow_epoch(const struct ft_flow *flow)
{
    return flow->epoch;
}

uint32_t ft_flow_log_weight(const struct ft_flow *flow)
{
    return flow->log_weight;
}

/* ---- blocks -------------------------------------------------------------------------------------------------------- */

static struct ft_flow_block **slot_of(const struct ft_flow *flow, uint64_t number)
{
    uint32_t i = hash_of(number) * UINT32_C(0x85ebca6b) >> 7;
    while (flow->slots[i & (flow->num_slots - 1)] && flow->slots[i & (flow->num_slots - 1)]->number != number)
        i++;
    return &flow->slots[i & (flow->num_slots - 1)];
}

/* Follows half as many blocks: those whose hash is low, and those that are accessed far more often than others. */
static bool halve(struct ft_flow *flow)
{
    struct ft_flow_block **before = flow->slots;
    uint64_t accesses = 0;
    uint32_t may_stay = flow->max_blocks / MAX_HOT_SHARE;
    flow->slots = calloc(flow->num_slots, sizeof(struct ft_flow_block *));
    if (!flow->slots) {
        flow->slots = before;
        return false;
    }
    for (uint32_t i = 0; i < flow->num_slots; i++) {
        accesses += before[i] && !before[i]->stays ? before[i]->accesses : 0;
        may_stay -= may_stay && before[i] && before[i]->stays;
    }
    const uint64_t is_hot = accesses / (flow->num_blocks ? flow->num_blocks : 1) * HOT_FACTOR;
    flow->log_weight++;
    flow->epoch++;
    flow->num_blocks = 0;
    for (uint32_t i = 0; i < flow->num_slots; i++) {
        struct ft_flow_block *block = before[i];
        if (!block)
            continue;
        const uint32_t hash = hash_of(block->number);
        if (!block->stays && may_stay && block->accesses > is_hot) {
            block->stays = true;
            may_stay--;
            flow->hot[hash % FILTER_BITS / 64] |= UINT64_C(1) << (hash % 64);
        }
        if (!block->stays && !is_sampled(flow, hash)) {
            free_block(block);
            continue;
        }
        if (!block->stays) {
            block->log_weight = (uint8_t)flow->log_weight;
            block->part = (uint8_t)(1 + hash % FT_FLOW_GROUPS);
        }
        *slot_of(flow, block->number) = block;
        flow->num_blocks++;
    }
    free(before);
    return true;
}

/* The block of a number that is followed from now on, if it is to be. */
static bool add_block(struct ft_flow *flow, uint64_t number, struct ft_flow_block **found)
{
    *found = NULL;
    while (flow->num_blocks >= flow->max_blocks)
        if (!halve(flow))
            return false;
    const uint32_t hash = hash_of(number);
    if (!is_sampled(flow, hash))
        return true;
    struct ft_flow_block *block = malloc(sizeof *block);
    struct entry *entries = calloc(FT_FLOW_BLOCK_BYTES >> LARGEST_SHIFT, sizeof *entries);
    if (!block || !entries) {
        free(block);
        free(entries);
        return false;
    }
    *block = (struct ft_flow_block){.number = number, .entries = entries, .shift = LARGEST_SHIFT,
                                    .log_weight = (uint8_t)flow->log_weight};
    block->part = flow->log_weight ? (uint8_t)(1 + hash % FT_FLOW_GROUPS) : 0;
    *slot_of(flow, number) = *found = block;
    flow->num_blocks++;
    return true;
}

/* Points a hint to a block. False when memory ran out. */
static __attribute__((noinline)) bool aim(struct ft_flow *flow, struct ft_flow_hint *hint, uint64_t number)
{
    const uint32_t hash = hash_of(number);
    struct ft_flow_block *block = NULL;
    if (is_sampled(flow, hash) || may_be_hot(flow, hash)) {
        block = *slot_of(flow, number);
        if (!block && !add_block(flow, number, &block))
            return false;
    }
    *hint = (struct ft_flow_hint){number + 1, block};
    return true;
}

/* Makes the entries of a block shorter. */
static bool refine(struct ft_flow_block *block, uint8_t shift)
{
    const uint32_t number = FT_FLOW_BLOCK_BYTES >> shift, copies = block->shift - shift;
    struct entry *entries = malloc(number * sizeof *entries);
    if (!entries)
        return false;
    for (uint32_t i = 0; i < number; i++)
        entries[i] = block->entries[i >> copies];
    free(block->entries);
    block->entries = entries;
    block->shift = shift;
    return true;
}

/* ---- accesses ------------------------------------------------------------------------------------------------------- */

static inline bool touch(struct ft_flow_states *s, struct entry *entry, uint32_t place)
{
    entry->touched = ft_flow_union(s, entry->touched, place);
    return entry->touched != FT_FLOW_NONE;
}

static inline bool load(struct ft_flow_states *s, struct entry *entry, uint32_t place)
{
    const uint32_t state = ft_flow_read(s, entry->state, place);
    if (LIKELY(state == entry->state))
        return true;
    entry->state = state;
    return state != FT_FLOW_NONE && touch(s, entry, place);
}

static inline bool store(struct ft_flow_states *s, struct entry *entry, uint32_t place, uint32_t part, uint64_t bytes)
{
    const uint32_t before = entry->state, state = ft_flow_written(s, place);
    if (UNLIKELY(state == FT_FLOW_NONE))
        return false;
    s->bytes[before][part] += bytes;
    entry->state = state;
    return LIKELY(s->states[before].writer == place) || touch(s, entry, place);
}

/* Accesses bytes of one block. */
static inline bool apply(struct ft_flow *flow, struct ft_flow_block *block, uint32_t offset, uint32_t size_bytes,
                         uint32_t place, bool is_store)
{
    const uint32_t odd = (offset | size_bytes) & ((1u << block->shift) - 1);
    if (UNLIKELY(odd) && !refine(block, (uint8_t)__builtin_ctz(odd)))
        return false;
    struct entry *entry = block->entries + (offset >> block->shift);
    const struct entry *const end = entry + (size_bytes >> block->shift);
    bool done = true;
    block->accesses++;
    if (is_store) {
        const uint64_t bytes = (uint64_t)1 << (block->shift + block->log_weight);
        for (; entry < end && done; entry++)
            done = store(&flow->states, entry, place, block->part, bytes);
    } else {
        for (; entry < end && done; entry++)
            done = load(&flow->states, entry, place);
    }
    return done;
}

/* The same of bytes that may be in several blocks. */
static bool apply_all(struct ft_flow *flow, struct ft_flow_hint *hint, uint32_t place, uint64_t address, uint64_t size_bytes,
                      bool is_store)
{
    while (size_bytes > 0) {
        const uint64_t number = address >> FT_FLOW_BLOCK_SHIFT, offset = address & OFFSET_MASK;
        const uint64_t here = size_bytes < FT_FLOW_BLOCK_BYTES - offset ? size_bytes : FT_FLOW_BLOCK_BYTES - offset;
        const uint32_t epoch = flow->epoch;
        if (hint->number != number + 1 && !aim(flow, hint, number))
            return false;
        if (hint->block && !apply(flow, hint->block, (uint32_t)offset, (uint32_t)here, place, is_store))
            return false;
        if (epoch != flow->epoch)
            hint->number = 0;
        address += here;
        size_bytes -= here;
    }
    return true;
}

bool ft_flow_access(struct ft_flow *flow, struct ft_flow_hint *hint, uint32_t place, uint64_t address, uint32_t size_bytes,
                    bool is_store)
{
    return apply_all(flow, hint, place, address, size_bytes, is_store);
}

bool ft_flow_run(struct ft_flow *flow, struct ft_flow_slot *slots, uint32_t num_slots, const uint64_t *words, uint32_t num_words,
                 uint64_t address_mask, uint64_t iterations)
{
    for (uint64_t i = 0; i < iterations; i++, words += num_words)
        for (struct ft_flow_slot *slot = slots; slot < slots + num_slots; slot++) {
            const uint64_t address = words[slot->word] & address_mask, offset = address & OFFSET_MASK;
            const bool is_known = slot->hint.number == (address >> FT_FLOW_BLOCK_SHIFT) + 1;
            if (LIKELY(is_known && offset + slot->size_bytes <= FT_FLOW_BLOCK_BYTES)) {
                if (slot->hint.block && !apply(flow, slot->hint.block, (uint32_t)offset, slot->size_bytes, slot->place,
                                               slot->is_store))
                    return false;
                continue;
            }
            const uint32_t epoch = flow->epoch;
            if (!apply_all(flow, &slot->hint, slot->place, address, slot->size_bytes, slot->is_store))
                return false;
            for (uint32_t j = 0; j < num_slots && UNLIKELY(epoch != flow->epoch); j++)
                slots[j].hint = (struct ft_flow_hint){0};
        }
    return true;
}

/* ---- array operations ------------------------------------------------------------------------------------------------ */

/* A place that reads or writes bytes of one operand. */
struct walker {
    struct ft_flow *flow;
    const struct ft_array_run *run;
    const struct ft_array_access *access;
    struct ft_flow_hint hint;
    uint32_t place;
    bool is_store;
};

static bool walk_gathered(struct walker *w)
{
    const uint64_t points = ft_array_run_points(w->run);
    for (uint64_t i = 0; i < points; i++) {
        const uint64_t address = w->access->address + w->run->index[i] * (uint64_t)w->access->stride[0];
        if (!apply_all(w->flow, &w->hint, w->place, address, w->access->size_bytes, w->is_store))
            return false;
    }
    return true;
}

/* `count` elements, `stride` bytes apart. Those in blocks that are not followed are passed over. */
static bool walk_row(struct walker *w, uint64_t address, int64_t stride, uint64_t count)
{
    const uint32_t size = w->access->size_bytes;
    if (stride < 0) {
        address += (uint64_t)stride * (count - 1);
        stride = -stride;
    }
    if ((uint64_t)stride <= size)
        return apply_all(w->flow, &w->hint, w->place, address, (count - 1) * (uint64_t)stride + size, w->is_store);
    while (count > 0) {
        if (!apply_all(w->flow, &w->hint, w->place, address, size, w->is_store))
            return false;
        uint64_t steps = 1;
        if (w->hint.number && !w->hint.block) {
            const uint64_t left = FT_FLOW_BLOCK_BYTES - (address & OFFSET_MASK);
            if (left >= size)
                steps = (left - size) / (uint64_t)stride + 1;
        }
        steps = steps < count ? steps : count;
        address += steps * (uint64_t)stride;
        count -= steps;
    }
    return true;
}

/* All points of the dimensions that move an operand. */
static bool walk_operand(struct walker *w)
{
    uint64_t extent[FT_ARRAY_DIMS], at[FT_ARRAY_DIMS] = {0}, address = w->access->address;
    int64_t stride[FT_ARRAY_DIMS];
    uint32_t dims = 0;
    if (w->access->is_indexed)
        return walk_gathered(w);
    for (uint32_t d = 0; d < w->run->num_dims; d++) {
        const uint64_t count = w->run->extent[d];
        const int64_t step = w->access->stride[d];
        if (step == 0 || count == 1)
            continue;
        if (dims && stride[dims - 1] == step * (int64_t)count) { /* it goes on where the row before ends */
            extent[dims - 1] *= count;
            stride[dims - 1] = step;
            continue;
        }
        extent[dims] = count;
        stride[dims++] = step;
    }
    if (dims == 0)
        return apply_all(w->flow, &w->hint, w->place, address, w->access->size_bytes, w->is_store);
    for (;;) {
        if (!walk_row(w, address, stride[dims - 1], extent[dims - 1]))
            return false;
        uint32_t d = dims - 1;
        for (; d > 0; d--) {
            address += (uint64_t)stride[d - 1];
            if (++at[d - 1] < extent[d - 1])
                break;
            address -= (uint64_t)stride[d - 1] * extent[d - 1];
            at[d - 1] = 0;
        }
        if (d == 0)
            return true;
    }
}

bool ft_flow_array(struct ft_flow *flow, uint32_t place, const struct ft_array_run *run)
{
    for (int is_store = 0; is_store < 2; is_store++)
        for (uint32_t i = 0; i < run->num_accesses; i++) {
            const struct ft_array_access *access = &run->access[i];
            struct walker w = {.flow = flow, .run = run, .access = access, .place = place, .is_store = is_store};
            if (is_store == ((access->flags & FT_ACCESS_STORE) != 0) && !walk_operand(&w))
                return false;
        }
    return true;
}

/* ---- rows ------------------------------------------------------------------------------------------------------------ */

void ft_flow_finish(struct ft_flow *flow)
{
    for (uint32_t i = 0; i < flow->num_slots; i++) {
        const struct ft_flow_block *block = flow->slots[i];
        for (uint32_t j = 0; block && j < FT_FLOW_BLOCK_BYTES >> block->shift; j++)
            flow->states.bytes[block->entries[j].state][block->part] += UINT64_C(1) << (block->shift + block->log_weight);
    }
}


uint64_t ft_flow_sets(const struct ft_flow *flow, uint32_t *out)
{
    const struct ft_flow_states *s = &flow->states;
    uint64_t words = 0;
    for (uint32_t i = 0; i < s->num_sets; i++) {
        uint32_t length = i == FT_FLOW_MERGED ? 0 : s->sets[i].length;
        for (uint32_t place = 0; i == FT_FLOW_MERGED && place < s->merged_capacity; place++) {
            length += s->is_merged[place];
            if (out && s->is_merged[place])
                out[words + length] = place;
        }
        if (out)
            out[words] = length;
        if (out && i != FT_FLOW_MERGED)
            memcpy(out + words + 1, s->members + s->sets[i].first, length * sizeof *out);
        words += 1 + length;
    }
    return words;
}

uint64_t ft_flow_versions(const struct ft_flow *flow, uint64_t *out)
{
    const struct ft_flow_states *s = &flow->states;
    uint64_t rows = 0;
    for (uint32_t i = 1; i < s->num_states; i++) { /* 0: nobody wrote or read it */
        uint64_t bytes = 0;
        for (uint32_t part = 0; part < FT_FLOW_PARTS; part++)
            bytes += s->bytes[i][part];
        if (!bytes)
            continue;
        rows++;
        if (out) {
            *out++ = s->states[i].writer;
            *out++ = s->states[i].set;
            memcpy(out, s->bytes[i], sizeof s->bytes[i]);
            out += FT_FLOW_PARTS;
        }
    }
    return rows;
}

uint64_t ft_flow_touched(const struct ft_flow *flow, uint64_t *out)
{
    uint64_t rows = 0;
    for (uint32_t i = 0; i < flow->num_slots; i++) {
        const struct ft_flow_block *block = flow->slots[i];
        const uint32_t number = block ? FT_FLOW_BLOCK_BYTES >> block->shift : 0;
        for (uint32_t j = 0, end; j < number; j = end) {
            for (end = j + 1; end < number && block->entries[end].touched == block->entries[j].touched; end++)
                ;
            if (!block->entries[j].touched)
                continue;
            rows++;
            if (out) {
                *out++ = (block->number << FT_FLOW_BLOCK_SHIFT) + ((uint64_t)j << block->shift);
                *out++ = (uint64_t)(end - j) << block->shift;
                *out++ = block->entries[j].touched;
                *out++ = UINT64_C(1) << block->log_weight;
            }
        }
    }
    return rows;
}
