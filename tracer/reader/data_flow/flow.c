/* Follows the bytes of memory blocks. See flow.h. */
#include "flow.h"

#include "cache_sim/simulation/lanes.h"
#include "ranges.h"
#include "states.h"

#include <stdlib.h>
#include <string.h>

#define OFFSET_MASK (FT_FLOW_BLOCK_BYTES - 1)
#define LARGEST_SHIFT 3 /* of an entry's length in bytes */
#define HOT_FACTOR 16u  /* a block is hot that has as many times the accesses of others */
#define HOT_BYTES 8192u /* around the hottest block */
#define FREE_ACCESSES (UINT64_C(1) << 20) /* are followed before any sampling */
#define LEAST_SKIPPED 64u /* behind these: accesses for each one that is followed, without those of hot blocks */
#define WINDOW_ACCESSES (UINT64_C(1) << 18) /* the share is checked this often */
#define FEW_WORDS 16u    /* taken apart at once */
#define PIECE_WORDS 128u /* looked at before those of a run are taken apart */

struct entry {
    uint32_t state, touched;
};

struct ft_flow_block {
    uint64_t number;
    struct entry *entries;
    uint64_t accesses;
    uint8_t shift, part, log_weight;
    bool is_hot;
    struct entry long_entries[FT_FLOW_BLOCK_BYTES >> LARGEST_SHIFT]; /* until there are shorter ones */
};

struct slot {
    uint64_t number; /* plus 1; 0: free */
    struct ft_flow_block *block;
};

/* What places touched of an object whose memory belongs to another one by now. */
struct left {
    uint32_t object, set;
    uint64_t bytes;
};

struct ft_flow {
    struct ft_flow_states states;
    struct ft_flow_ranges objects;
    struct ft_flow_pairs left_numbers; /* by object and set */
    struct left *left;
    uint32_t num_left, left_capacity;
    struct slot *slots; /* by hash: open addressing */
    uint32_t num_slots, num_blocks, max_blocks;
    uint32_t log_weight, last_hash, epoch; /* blocks up to that hash are followed */
    uint64_t accesses, followed;           /* since the last look; the latter without those of hot blocks */
    uint64_t free_left;                    /* accesses that may be followed in any case */
    uint64_t hot_from, hot_bytes;          /* addresses whose blocks are all followed */
};

/* Fibonacci hashing (Knuth, The Art of Computer Programming, volume 3, section 6.4), whose high bits tell whether a
 * block is followed. */
static inline uint32_t hash_of(uint64_t number)
{
    return (uint32_t)number * UINT32_C(0x9e3779b1);
}

/* From a hash, a number whose low bits are good, too. */
static inline uint32_t spread(uint32_t hash)
{
    return hash ^ hash >> 15;
}

static inline bool is_hot(const struct ft_flow *flow, uint64_t number)
{
    return (number << FT_FLOW_BLOCK_SHIFT) - flow->hot_from < flow->hot_bytes;
}

static inline bool is_followed(const struct ft_flow *flow, uint64_t number)
{
    return hash_of(number) <= flow->last_hash || is_hot(flow, number);
}

struct ft_flow *ft_flow_new(uint32_t max_blocks, uint32_t max_sets)
{
    struct ft_flow *flow = calloc(1, sizeof *flow);
    if (!flow)
        return NULL;
    flow->max_blocks = max_blocks;
    flow->free_left = FREE_ACCESSES;
    flow->last_hash = UINT32_MAX;
    flow->num_slots = 64;
    while (flow->num_slots < 2 * max_blocks)
        flow->num_slots *= 2;
    flow->slots = calloc(flow->num_slots, sizeof *flow->slots);
    if (!flow->slots || !ft_flow_states_init(&flow->states, max_sets)) {
        ft_flow_free(flow);
        return NULL;
    }
    return flow;
}

static void free_block(struct ft_flow_block *block)
{
    if (block->entries != block->long_entries)
        free(block->entries);
    free(block);
}

void ft_flow_free(struct ft_flow *flow)
{
    if (!flow)
        return;
    for (uint32_t i = 0; i < flow->num_slots && flow->slots; i++)
        if (flow->slots[i].number)
            free_block(flow->slots[i].block);
    free(flow->slots);
    free(flow->left);
    ft_flow_pairs_free(&flow->left_numbers);
    ft_flow_ranges_free(&flow->objects);
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

/* Where a block is, or would be. */
static inline struct slot *slot_of(const struct ft_flow *flow, uint64_t number)
{
    uint32_t hash = spread(hash_of(number));
    struct slot *slot = &flow->slots[hash & (flow->num_slots - 1)];
    while (slot->number && slot->number != number + 1)
        slot = &flow->slots[++hash & (flow->num_slots - 1)];
    return slot;
}

/* What lies around the hottest block, if that is hot, is followed to the end: before any block has been dropped. */
static void find_hot(struct ft_flow *flow)
{
    const struct ft_flow_block *hottest = NULL;
    uint64_t accesses = 0;
    for (uint32_t i = 0; i < flow->num_slots; i++) {
        const struct ft_flow_block *block = flow->slots[i].block;
        accesses += block ? block->accesses : 0;
        if (block && (!hottest || block->accesses > hottest->accesses))
            hottest = block;
    }
    if (!hottest || hottest->accesses <= accesses / flow->num_blocks * HOT_FACTOR)
        return;
    const uint64_t address = hottest->number << FT_FLOW_BLOCK_SHIFT;
    flow->hot_from = address > HOT_BYTES / 2 ? address - HOT_BYTES / 2 : 0;
    flow->hot_bytes = HOT_BYTES;
}

/* How a block is counted that is followed from now on. */
static void weigh(const struct ft_flow *flow, struct ft_flow_block *block)
{
    block->is_hot = is_hot(flow, block->number);
    block->log_weight = block->is_hot ? 0 : (uint8_t)flow->log_weight;
    block->part = block->log_weight ? (uint8_t)(1 + spread(hash_of(block->number)) / 8 % FT_FLOW_GROUPS) : 0;
}

/* Follows half as many blocks: those whose hash is low, and hot ones. */
static bool halve(struct ft_flow *flow)
{
    struct slot *const before = flow->slots;
    if (flow->log_weight == 0)
        find_hot(flow);
    flow->slots = calloc(flow->num_slots, sizeof *flow->slots);
    if (!flow->slots) {
        flow->slots = before;
        return false;
    }
    flow->log_weight++;
    flow->last_hash /= 2;
    flow->epoch++;
    flow->num_blocks = 0;
    for (uint32_t i = 0; i < flow->num_slots; i++) {
        if (!before[i].number)
            continue;
        struct ft_flow_block *const block = before[i].block;
        if (!is_followed(flow, block->number)) {
            free_block(block);
            continue;
        }
        weigh(flow, block);
        *slot_of(flow, block->number) = before[i];
        flow->num_blocks++;
    }
    free(before);
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
    if (block->entries != block->long_entries)
        free(block->entries);
    block->entries = entries;
    block->shift = shift;
    return true;
}

/* ---- objects -------------------------------------------------------------------------------------------------------- */

/* The entries of bytes [from, to) of a block: their number, the first one being `*entry`. 0 when memory ran out. */
static uint32_t entries_of(struct ft_flow_block *block, uint32_t from, uint32_t to, struct entry **entry)
{
    const uint32_t odd = (from | to) & ((1u << block->shift) - 1);
    if (odd && !refine(block, (uint8_t)__builtin_ctz(odd)))
        return 0;
    *entry = block->entries + (from >> block->shift);
    return (to - from) >> block->shift;
}

static bool leave(struct ft_flow *flow, uint32_t object, uint32_t set, uint64_t bytes)
{
    uint32_t number = ft_flow_pairs_find(&flow->left_numbers, object, set);
    if (number == FT_FLOW_NONE) {
        number = flow->num_left;
        if (!ft_reserve(&flow->left, &flow->left_capacity, number, sizeof *flow->left) ||
            !ft_flow_pairs_put(&flow->left_numbers, object, set, number))
            return false;
        flow->left[number] = (struct left){object, set, 0};
        flow->num_left++;
    }
    flow->left[number].bytes += bytes;
    return true;
}

/* Gives bytes [from, to) of a block to an object. */
static bool give(struct ft_flow *flow, struct ft_flow_block *block, uint32_t from, uint32_t to, uint32_t object)
{
    struct entry *entry = NULL;
    const uint32_t number = entries_of(block, from, to, &entry);
    for (uint32_t i = 0; i < number; i++, entry++) {
        const uint32_t before = flow->states.states[entry->state].object;
        if (before == object)
            continue;
        const uint32_t writer = flow->states.states[entry->state].writer;
        uint32_t kept = flow->states.states[entry->state].set; /* who wrote and read the version that stays */
        if (writer != FT_FLOW_OUTSIDE)
            kept = ft_flow_union(&flow->states, kept, writer);
        if (entry->touched && entry->touched != kept &&
            !leave(flow, before, entry->touched, UINT64_C(1) << (block->shift + block->log_weight)))
            return false;
        entry->touched = kept;
        entry->state = ft_flow_moved(&flow->states, entry->state, object);
        if (entry->state == FT_FLOW_NONE || entry->touched == FT_FLOW_NONE)
            return false;
    }
    return number;
}

/* Ends the versions of bytes [from, to) of a block. */
static bool end_versions(struct ft_flow *flow, struct ft_flow_block *block, uint32_t from, uint32_t to)
{
    struct entry *entry = NULL;
    const uint32_t number = entries_of(block, from, to, &entry);
    for (uint32_t i = 0; i < number; i++, entry++) {
        flow->states.bytes[entry->state][block->part] += UINT64_C(1) << (block->shift + block->log_weight);
        entry->state = ft_flow_untouched(&flow->states, flow->states.states[entry->state].object);
        if (entry->state == FT_FLOW_NONE)
            return false;
    }
    return number;
}

/* Gives a new block's bytes to the objects that they belong to. */
static bool give_all(struct ft_flow *flow, struct ft_flow_block *block)
{
    const uint64_t begin = block->number << FT_FLOW_BLOCK_SHIFT, end = begin + FT_FLOW_BLOCK_BYTES;
    for (uint64_t at = begin; at < end;) {
        const struct ft_flow_range *range = ft_flow_ranges_at(&flow->objects, at);
        if (!range || range->first >= end)
            return true;
        const uint64_t from = range->first > at ? range->first : at, to = range->end < end ? range->end : end;
        if (!give(flow, block, (uint32_t)(from - begin), (uint32_t)(to - begin), range->object))
            return false;
        at = to;
    }
    return true;
}

/* Follows a block from now on, if it is to be. */
static bool add_block(struct ft_flow *flow, uint64_t number, struct ft_flow_block **found)
{
    *found = NULL;
    while (flow->num_blocks >= flow->max_blocks && is_followed(flow, number) && flow->last_hash)
        if (!halve(flow))
            return false;
    if (!is_followed(flow, number))
        return true;
    struct ft_flow_block *block = calloc(1, sizeof *block);
    if (!block)
        return false;
    block->number = number;
    block->entries = block->long_entries;
    block->shift = LARGEST_SHIFT;
    weigh(flow, block);
    *slot_of(flow, number) = (struct slot){number + 1, block};
    *found = block;
    flow->num_blocks++;
    return !flow->objects.num_ranges || give_all(flow, block);
}

/* Points a hint to a block. False when memory ran out. */
static bool aim(struct ft_flow *flow, struct ft_flow_hint *hint, uint64_t number)
{
    struct ft_flow_block *block = NULL;
    if (is_followed(flow, number)) {
        block = slot_of(flow, number)->block;
        if (UNLIKELY(!block) && !add_block(flow, number, &block))
            return false;
    }
    *hint = (struct ft_flow_hint){number + 1, block};
    return true;
}

/* Counts accesses, and follows fewer blocks where following takes too long. */
static bool pass(struct ft_flow *flow, uint64_t accesses)
{
    flow->accesses += accesses;
    if (LIKELY(flow->accesses < WINDOW_ACCESSES))
        return true;
    const bool is_free = flow->followed<flow->free_left, is_slow = flow->followed> flow->accesses / LEAST_SKIPPED;
    flow->free_left -= is_free ? flow->followed : flow->free_left;
    flow->accesses = flow->followed = 0;
    return is_free || !is_slow || !flow->num_blocks || !flow->last_hash || halve(flow);
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
    const uint32_t before = entry->state, state = ft_flow_written(s, before, place);
    if (state == before)
        return true; /* its own version goes on */
    if (UNLIKELY(state == FT_FLOW_NONE))
        return false;
    s->bytes[before][part] += bytes;
    entry->state = state;
    return LIKELY(s->states[before].writer == place) || touch(s, entry, place);
}

static inline bool is_like(const struct entry *one, const struct entry *other)
{
    return one->state == other->state && one->touched == other->touched;
}

/* Accesses bytes of one block. */
static inline bool apply(struct ft_flow *flow, struct ft_flow_block *block, uint32_t offset, uint32_t size_bytes,
                         uint32_t place, bool is_store)
{
    const uint32_t odd = (offset | size_bytes) & ((1u << block->shift) - 1);
    if (UNLIKELY(odd) && !refine(block, (uint8_t)__builtin_ctz(odd)))
        return false;
    struct entry *entry = block->entries + (offset >> block->shift), *next;
    struct entry *const end = entry + (size_bytes >> block->shift);
    block->accesses++;
    flow->followed += !block->is_hot;
    for (; entry < end; entry = next) { /* those that are alike become alike */
        const struct entry before = *entry;
        struct entry after = before;
        for (next = entry + 1; next < end && is_like(next, &before); next++)
            ;
        const uint64_t bytes = (uint64_t)(next - entry) << (block->shift + block->log_weight);
        if (!(is_store ? store(&flow->states, &after, place, block->part, bytes) : load(&flow->states, &after, place)))
            return false;
        if (is_like(&after, &before))
            continue;
        for (struct entry *each = entry; each < next; each++)
            *each = after;
    }
    return true;
}

/* The same of bytes that may be in several blocks. */
static bool apply_all(struct ft_flow *flow, struct ft_flow_hint *hint, uint32_t place, uint64_t address,
                      uint64_t size_bytes, bool is_store)
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

bool ft_flow_bytes(struct ft_flow *flow, uint32_t place, uint64_t first, uint64_t length_bytes, bool is_store)
{
    struct ft_flow_hint hint = {0};
    return pass(flow, length_bytes / 8 + 1) && apply_all(flow, &hint, place, first, length_bytes, is_store);
}

/* Bytes of [first, end) that are in a block: given to an object, or else their versions end. */
static bool change_block(struct ft_flow *flow, struct ft_flow_block *block, uint64_t first, uint64_t end,
                         uint32_t object)
{
    const uint64_t begin = block->number << FT_FLOW_BLOCK_SHIFT;
    const uint64_t from = first > begin ? first - begin : 0;
    const uint64_t to = end - begin < FT_FLOW_BLOCK_BYTES ? end - begin : FT_FLOW_BLOCK_BYTES;
    return object ? give(flow, block, (uint32_t)from, (uint32_t)to, object)
                  : end_versions(flow, block, (uint32_t)from, (uint32_t)to);
}

/* The same of all blocks. */
static bool change(struct ft_flow *flow, uint64_t first, uint64_t end, uint32_t object)
{
    const uint64_t first_block = first >> FT_FLOW_BLOCK_SHIFT, last_block = (end - 1) >> FT_FLOW_BLOCK_SHIFT;
    if (last_block - first_block < flow->num_slots) {
        for (uint64_t number = first_block; number <= last_block; number++) {
            struct ft_flow_block *block = is_followed(flow, number) ? slot_of(flow, number)->block : NULL;
            if (block && !change_block(flow, block, first, end, object))
                return false;
        }
        return true;
    }
    for (uint32_t i = 0; i < flow->num_slots; i++) {
        struct ft_flow_block *block = flow->slots[i].block;
        if (block && block->number >= first_block && block->number <= last_block &&
            !change_block(flow, block, first, end, object))
            return false;
    }
    return true;
}

bool ft_flow_allocate(struct ft_flow *flow, uint64_t first, uint64_t length_bytes, uint32_t object)
{
    const uint64_t end = first + length_bytes;
    return end <= first || (ft_flow_ranges_set(&flow->objects, first, end, object) && change(flow, first, end, object));
}

uint64_t ft_flow_allocated_bytes(const struct ft_flow *flow, uint64_t first)
{
    const struct ft_flow_range *range = ft_flow_ranges_at(&flow->objects, first);
    return range && range->first == first ? range->end - first : 0;
}

bool ft_flow_release(struct ft_flow *flow, uint64_t first, uint64_t length_bytes)
{
    return first + length_bytes <= first || change(flow, first, first + length_bytes, 0);
}

bool ft_flow_access(struct ft_flow *flow, struct ft_flow_hint *hint, uint32_t place, uint64_t address,
                    uint32_t size_bytes, bool is_store)
{
    const uint32_t epoch = flow->epoch;
    if (!pass(flow, 1))
        return false;
    if (UNLIKELY(epoch != flow->epoch)) /* its block may be gone */
        *hint = (struct ft_flow_hint){0};
    return apply_all(flow, hint, place, address, size_bytes, is_store);
}

/* An access to a block that the slot's hint is not for, or to several. */
static __attribute__((noinline)) bool run_other(struct ft_flow *flow, struct ft_flow_slot *slots, uint32_t num_slots,
                                                struct ft_flow_slot *slot, uint64_t address)
{
    const uint32_t epoch = flow->epoch;
    if (!apply_all(flow, &slot->hint, slot->place, address, slot->size_bytes, slot->is_store))
        return false;
    for (uint32_t j = 0; j < num_slots && UNLIKELY(epoch != flow->epoch); j++)
        slots[j].hint = (struct ft_flow_hint){0};
    return true;
}

/* One access, by the slot's hint if that is for it. */
static inline bool run_access(struct ft_flow *flow, struct ft_flow_slot *slots, uint32_t num_slots,
                              struct ft_flow_slot *slot, uint64_t address)
{
    const uint64_t offset = address & OFFSET_MASK;
    const bool is_known = slot->hint.number == (address >> FT_FLOW_BLOCK_SHIFT) + 1;
    if (UNLIKELY(!is_known || offset + slot->size_bytes > FT_FLOW_BLOCK_BYTES))
        return run_other(flow, slots, num_slots, slot, address);
    struct ft_flow_block *const block = slot->hint.block;
    return !block || apply(flow, block, (uint32_t)offset, slot->size_bytes, slot->place, slot->is_store);
}

/* Whether some of the addresses in words may be of a block that is followed, or accesses of up to `most_bytes` there go
 * on in another block. */
FT_FOR_WIDE_PROCESSORS static bool may_matter(const struct ft_flow *flow, const uint64_t *words, uint64_t num_words,
                                              uint64_t address_mask, uint32_t most_bytes)
{
    const uint32_t last_hash = flow->last_hash, last_offset = FT_FLOW_BLOCK_BYTES - most_bytes;
    const uint64_t hot_from = flow->hot_from & ~(uint64_t)OFFSET_MASK, hot_bytes = flow->hot_bytes;
    uint64_t any = 0;
    for (uint64_t i = 0; i < num_words; i++) {
        const uint64_t address = words[i] & address_mask;
        const uint32_t hash = hash_of(address >> FT_FLOW_BLOCK_SHIFT), offset = (uint32_t)address & OFFSET_MASK;
        any |= (uint64_t)((hash <= last_hash) | (offset > last_offset)) | (address - hot_from < hot_bytes);
    }
    return any;
}

/* The accesses of some iterations, as far as they matter. */
static bool run_some(struct ft_flow *flow, struct ft_flow_slot *slots, uint32_t num_slots, const uint64_t *words,
                     uint32_t num_words, uint64_t address_mask, uint64_t iterations)
{
    for (uint64_t i = 0; i < iterations; i++, words += num_words)
        for (struct ft_flow_slot *slot = slots; slot < slots + num_slots; slot++) {
            const uint64_t address = words[slot->word] & address_mask, offset = address & OFFSET_MASK;
            if (LIKELY(flow->log_weight) && !is_followed(flow, address >> FT_FLOW_BLOCK_SHIFT) &&
                offset + slot->size_bytes <= FT_FLOW_BLOCK_BYTES)
                continue;
            if (UNLIKELY(!run_access(flow, slots, num_slots, slot, address)))
                return false;
        }
    return true;
}

bool ft_flow_run(struct ft_flow *flow, struct ft_flow_slot *slots, uint32_t num_slots, const uint64_t *words,
                 uint32_t num_words, uint64_t address_mask, uint64_t iterations)
{
    const uint32_t before = flow->epoch;
    uint32_t most_bytes = 0;
    if (!pass(flow, iterations * num_slots))
        return false;
    for (uint32_t j = 0; j < num_slots; j++) {
        most_bytes = slots[j].size_bytes > most_bytes ? slots[j].size_bytes : most_bytes;
        if (UNLIKELY(before != flow->epoch))
            slots[j].hint = (struct ft_flow_hint){0};
    }
    if (!flow->log_weight || most_bytes > FT_FLOW_BLOCK_BYTES || iterations * num_words < FEW_WORDS)
        return run_some(flow, slots, num_slots, words, num_words, address_mask, iterations);
    const uint64_t step = num_words < PIECE_WORDS ? PIECE_WORDS / num_words : 1;
    for (uint64_t i = 0, now; i < iterations; i += now, words += now * num_words) {
        now = iterations - i < step ? iterations - i : step;
        if (may_matter(flow, words, now * num_words, address_mask, most_bytes) &&
            !run_some(flow, slots, num_slots, words, num_words, address_mask, now))
            return false;
    }
    return true;
}

/* ---- marks --------------------------------------------------------------------------------------------------------- */

FT_FOR_WIDE_PROCESSORS static void mark_all(const struct ft_flow *flow, const uint64_t *words, uint32_t num_words,
                                            uint64_t address_mask, uint8_t *marks)
{
    const uint32_t last_hash = flow->last_hash, last_offset = FT_FLOW_BLOCK_BYTES - FT_FLOW_MARKED_BYTES;
    const uint64_t hot_from = flow->hot_from & ~(uint64_t)OFFSET_MASK, hot_bytes = flow->hot_bytes;
    for (uint32_t i = 0; i < num_words; i++) {
        const uint64_t address = words[i] & address_mask;
        const uint32_t hash = hash_of(address >> FT_FLOW_BLOCK_SHIFT), offset = (uint32_t)address & OFFSET_MASK;
        marks[i] = (uint8_t)((hash <= last_hash) | (offset > last_offset) | (address - hot_from < hot_bytes));
    }
}

/* Counts what was passed over. */
static bool pass_marked(struct ft_flow *flow, struct ft_flow_marks *marks, uint64_t accesses)
{
    accesses += marks->passed;
    marks->passed = 0;
    return pass(flow, accesses);
}

bool ft_flow_mark(struct ft_flow *flow, struct ft_flow_marks *marks, const uint64_t *words, uint32_t num_words,
                  uint64_t address_mask)
{
    if (!pass_marked(flow, marks, 0))
        return false;
    marks->are_known = flow->log_weight && num_words <= FT_FLOW_MARKED_WORDS;
    marks->words = words;
    if (marks->are_known)
        mark_all(flow, words, num_words, address_mask, marks->bytes);
    return true;
}

/* The marks of the next eight words, one a byte, of which `number` are of interest. */
static inline uint64_t marks_at(const uint8_t *marks, uint64_t number)
{
    uint64_t found = 0;
    memcpy(&found, marks, sizeof found);
    return number < 8 ? found & ((UINT64_C(1) << 8 * number) - 1) : found;
}

bool ft_flow_run_marked(struct ft_flow *flow, struct ft_flow_marks *marks, struct ft_flow_slot *slots,
                        uint32_t num_slots, const uint16_t *slot_of_word, const uint64_t *words, uint32_t num_words,
                        uint64_t address_mask, uint64_t iterations)
{
    const uint32_t before = flow->epoch;
    const uint8_t *const marked = marks->bytes + (words - marks->words);
    const uint64_t number = iterations * num_words;
    const struct ft_flow_slot *last =
        NULL; /* done in the iteration at hand: an access has a mark for each of its parts */
    uint64_t begin = 0;
    if (!pass_marked(flow, marks, iterations * num_slots))
        return false;
    for (uint32_t j = 0; j < num_slots && UNLIKELY(before != flow->epoch); j++)
        slots[j].hint = (struct ft_flow_hint){0};
    for (uint64_t first = 0; first < number; first += 8)
        for (uint64_t left = marks_at(marked + first, number - first); left; left &= left - 1) {
            const uint64_t i = first + (uint64_t)__builtin_ctzll(left) / 8;
            if (UNLIKELY(i - begin >= num_words)) {
                begin = i - i % num_words;
                last = NULL;
            }
            const uint32_t name = slot_of_word[i - begin];
            if (name == FT_FLOW_NO_SLOT || &slots[name] == last)
                continue;
            struct ft_flow_slot *const slot = &slots[name];
            last = slot;
            const uint64_t address = words[begin + slot->word] & address_mask;
            const bool fits = (address & OFFSET_MASK) + slot->size_bytes <= FT_FLOW_BLOCK_BYTES;
            if (fits && !is_followed(flow, address >> FT_FLOW_BLOCK_SHIFT))
                continue;
            if (UNLIKELY(!run_access(flow, slots, num_slots, slot, address)))
                return false;
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
    if (!pass(flow, ft_array_run_points(run) * run->num_accesses))
        return false;
    for (int is_store = 0; is_store < 2; is_store++)
        for (uint32_t i = 0; i < run->num_accesses; i++) {
            const struct ft_array_access *access = &run->access[i];
            struct walker w = {.flow = flow, .run = run, .access = access, .place = place, .is_store = is_store};
            if (is_store == ((access->flags & FT_ACCESS_STORE) != 0) && !walk_operand(&w))
                return false;
        }
    return true;
}

/* ---- tidying ---------------------------------------------------------------------------------------------------------- */

bool ft_flow_has_many_sets(const struct ft_flow *flow)
{
    return ft_flow_states_have_grown(&flow->states);
}

/* Brings all that is used into new tables. */
static bool bring_over(struct ft_flow *flow, const struct ft_flow_states *before, const uint32_t *place_of,
                       uint32_t *set_map, uint32_t *state_map)
{
    struct ft_flow_states *s = &flow->states;
    for (uint32_t i = 0; i < before->num_states; i++) {
        uint64_t bytes = 0;
        for (uint32_t part = 0; part < FT_FLOW_PARTS; part++)
            bytes |= before->bytes[i][part];
        if (bytes && ft_flow_state_again(s, before, place_of, set_map, state_map, i) == FT_FLOW_NONE)
            return false;
    }
    for (uint32_t i = 0; i < flow->num_slots; i++) {
        const struct ft_flow_block *block = flow->slots[i].block;
        for (uint32_t j = 0; block && j < FT_FLOW_BLOCK_BYTES >> block->shift; j++) {
            struct entry *entry = &block->entries[j];
            entry->state = ft_flow_state_again(s, before, place_of, set_map, state_map, entry->state);
            entry->touched = ft_flow_set_again(s, before, place_of, set_map, entry->touched);
            if (entry->state == FT_FLOW_NONE || entry->touched == FT_FLOW_NONE)
                return false;
        }
    }
    return true;
}

/* The same of what objects left behind. */
static bool bring_left_over(struct ft_flow *flow, const struct ft_flow_states *before, const uint32_t *place_of,
                            uint32_t *set_map)
{
    struct left *const left = flow->left;
    const uint32_t number = flow->num_left;
    bool done = true;
    ft_flow_pairs_free(&flow->left_numbers);
    flow->left_numbers = (struct ft_flow_pairs){0};
    flow->left = NULL;
    flow->num_left = flow->left_capacity = 0;
    for (uint32_t i = 0; i < number && done; i++) {
        const uint32_t set = ft_flow_set_again(&flow->states, before, place_of, set_map, left[i].set);
        done = set != FT_FLOW_NONE && leave(flow, left[i].object, set, left[i].bytes);
    }
    free(left);
    return done;
}

bool ft_flow_tidy(struct ft_flow *flow, const uint32_t *place_of)
{
    struct ft_flow_states before;
    uint32_t *set_map = calloc(flow->states.num_sets, sizeof *set_map);
    uint32_t *state_map = calloc(flow->states.num_states, sizeof *state_map);
    bool done = set_map && state_map;
    if (done) {
        done = ft_flow_states_renew(&flow->states, &before) &&
               bring_over(flow, &before, place_of, set_map, state_map) &&
               bring_left_over(flow, &before, place_of, set_map);
        ft_flow_states_free(&before);
    }
    ft_flow_states_are_tidy(&flow->states);
    free(set_map);
    free(state_map);
    return done;
}

/* ---- rows ------------------------------------------------------------------------------------------------------------ */

void ft_flow_finish(struct ft_flow *flow)
{
    for (uint32_t i = 0; i < flow->num_slots; i++) {
        const struct ft_flow_block *block = flow->slots[i].block;
        for (uint32_t j = 0; block && j < FT_FLOW_BLOCK_BYTES >> block->shift; j++)
            flow->states.bytes[block->entries[j].state][block->part] += UINT64_C(1)
                                                                        << (block->shift + block->log_weight);
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
    for (uint32_t i = 0; i < s->num_states; i++) {
        uint64_t bytes = 0;
        if (s->states[i].writer == FT_FLOW_OUTSIDE && !s->states[i].set)
            continue; /* nobody wrote or read it */
        for (uint32_t part = 0; part < FT_FLOW_PARTS; part++)
            bytes += s->bytes[i][part];
        if (!bytes)
            continue;
        rows++;
        if (out) {
            *out++ = s->states[i].writer;
            *out++ = s->states[i].object;
            *out++ = s->states[i].set;
            memcpy(out, s->bytes[i], sizeof s->bytes[i]);
            out += FT_FLOW_PARTS;
        }
    }
    return rows;
}

static uint32_t object_of(const struct ft_flow *flow, const struct entry *entry)
{
    return flow->states.states[entry->state].object;
}

uint64_t ft_flow_touched(const struct ft_flow *flow, uint64_t *out)
{
    uint64_t rows = 0;
    for (uint32_t i = 0; i < flow->num_slots; i++) {
        const struct ft_flow_block *block = flow->slots[i].block;
        const uint32_t number = block ? FT_FLOW_BLOCK_BYTES >> block->shift : 0;
        for (uint32_t j = 0, end; j < number; j = end) {
            const struct entry *entry = &block->entries[j];
            const uint32_t object = object_of(flow, entry);
            for (end = j + 1; end < number && block->entries[end].touched == entry->touched &&
                              object_of(flow, &block->entries[end]) == object;
                 end++)
                ;
            if (!entry->touched)
                continue;
            rows++;
            if (out) {
                *out++ = (block->number << FT_FLOW_BLOCK_SHIFT) + ((uint64_t)j << block->shift);
                *out++ = (uint64_t)(end - j) << block->shift;
                *out++ = entry->touched;
                *out++ = UINT64_C(1) << block->log_weight;
                *out++ = object;
            }
        }
    }
    return rows;
}

uint64_t ft_flow_left(const struct ft_flow *flow, uint64_t *out)
{
    for (uint32_t i = 0; i < flow->num_left && out; i++) {
        *out++ = flow->left[i].object;
        *out++ = flow->left[i].set;
        *out++ = flow->left[i].bytes;
    }
    return flow->num_left;
}
