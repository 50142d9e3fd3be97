/* Blocks of 256 bytes are numbered as they come; a hash table finds a block's number. A block holds a slot for each of
 * the lines in it, of each size. Slots number the touches of one line size, and a bit is set in `marked` for those that
 * are the latest of their line. A distance is the number of marks above the line's slot: bits of a word, counts of the
 * words in its group, counts of the groups. When slots run out, the marked ones are renumbered from 0, in order.
 *
 * Invariants
 *  - words[i] is the number of bits in marked[i], groups[i] the sum over its GROUP words; all marks are below `next_slot`.
 *  - blocks[0 .. num_blocks) are the known blocks, in no order. A slot is 0 for a line that was never touched, else one
 *    more than its marked slot.
 *  - `index` is open addressing without deletions (it is rebuilt when blocks are dropped), at most half full. 0 is empty,
 *    n is blocks[n - 1].
 */
#include "foretrace/base/tables.h"
#include "recency.h"

#include "cache_sim/simulation/lanes.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define INDEX_BITS 16u
#define INDEX_SIZE (1u << INDEX_BITS)
#define NUM_SLOTS (1u << 19)
#define NUM_WORDS (NUM_SLOTS / 64)
#define GROUP 64u
#define NUM_GROUPS (NUM_WORDS / GROUP)

struct block {
    uint64_t block;
    uint32_t slots[FT_LINES_OF_BLOCK];
};

struct order {
    uint32_t next_slot;
    uint32_t num_lines;
    uint64_t marked[NUM_WORDS];
    uint8_t words[NUM_WORDS];
    uint16_t groups[NUM_GROUPS];
};

struct ft_recency {
    uint32_t num_blocks;
    struct order orders[FT_LINE_SIZES];
    uint32_t index[INDEX_SIZE];
    struct block blocks[FT_MAX_BLOCKS];
};

static const uint8_t first_slot[FT_LINE_SIZES + 1] = {0, 8, 12, 14, 15};

/* ---- order of use ------------------------------------------------------------------------------------------------- */

static inline void set_mark(struct order *order, uint32_t slot)
{
    order->marked[slot / 64] |= UINT64_C(1) << slot % 64;
    order->words[slot / 64]++;
    order->groups[slot / 64 / GROUP]++;
}

static inline void clear_mark(struct order *order, uint32_t slot)
{
    order->marked[slot / 64] &= ~(UINT64_C(1) << slot % 64);
    order->words[slot / 64]--;
    order->groups[slot / 64 / GROUP]--;
}

FT_INLINE uint64_t marks_above(const struct order *order, uint32_t slot)
{
    uint32_t word = slot / 64, group = word / GROUP;
    uint32_t last_word = order->next_slot / 64, last_group = last_word / GROUP;
    uint32_t marks = (uint32_t)__builtin_popcountll(order->marked[word] >> slot % 64 >> 1);
    uint32_t end = group == last_group ? last_word + 1 : (group + 1) * GROUP;
    for (uint32_t i = word + 1; i < end; i++)
        marks += order->words[i];
    for (uint32_t i = group + 1; i <= last_group; i++)
        marks += order->groups[i];
    return marks;
}

static void clear_order(struct order *order)
{
    size_t words = (order->next_slot + 63) / 64;
    memset(order->marked, 0, words * sizeof *order->marked);
    memset(order->words, 0, words * sizeof *order->words);
    memset(order->groups, 0, sizeof order->groups);
    order->next_slot = 0;
}

/* Renumbers the slots of known blocks from 0. Lines that are no longer known must have lost their marks. */
static void renumber_slots(struct ft_recency *recency, unsigned size)
{
    static_assert(FT_MAX_BLOCKS * 8 <= NUM_SLOTS / 2 && FT_MAX_BLOCKS <= INDEX_SIZE / 2, "there is always room");
    struct order *order = &recency->orders[size];
    uint32_t below[NUM_WORDS], marks = 0;
    for (size_t i = 0; i < NUM_WORDS; i++) {
        below[i] = marks;
        marks += order->words[i];
    }
    for (size_t i = 0; i < recency->num_blocks; i++)
        for (unsigned part = first_slot[size]; part < first_slot[size + 1]; part++) {
            uint32_t *slot = &recency->blocks[i].slots[part];
            if (!*slot)
                continue;
            uint32_t word = (*slot - 1) / 64;
            uint64_t lower = order->marked[word] & ((UINT64_C(1) << (*slot - 1) % 64) - 1);
            *slot = 1 + below[word] + (uint32_t)__builtin_popcountll(lower);
        }
    clear_order(order);
    for (uint32_t slot = 0; slot < marks; slot++)
        set_mark(order, slot);
    order->next_slot = marks;
}

FT_FOR_WIDE_PROCESSORS uint64_t ft_recency_touch(struct ft_recency *recency, uint32_t number, unsigned size,
                                                 unsigned part)
{
    struct order *order = &recency->orders[size];
    uint32_t *slot = &recency->blocks[number - 1].slots[first_slot[size] + part];
    if (*slot && *slot == order->next_slot)
        return 0;
    uint64_t distance = FT_NEW_LINE;
    if (*slot) {
        distance = marks_above(order, *slot - 1);
        clear_mark(order, *slot - 1);
    } else {
        order->num_lines++;
    }
    set_mark(order, order->next_slot);
    *slot = ++order->next_slot;
    if (UNLIKELY(order->next_slot == NUM_SLOTS))
        renumber_slots(recency, size);
    return distance;
}

/* ---- blocks ------------------------------------------------------------------------------------------------------- */

static inline size_t first_place(uint64_t block)
{
    return (size_t)(block * UINT64_C(0x9e3779b97f4a7c15) >> (64 - INDEX_BITS));
}

void ft_recency_fetch_place(const struct ft_recency *recency, uint64_t block)
{
    __builtin_prefetch(&recency->index[first_place(block)]);
}

void ft_recency_fetch_block(const struct ft_recency *recency, uint64_t block)
{
    const uint32_t number = recency->index[first_place(block)];
    __builtin_prefetch(&recency->blocks[number ? number - 1 : 0], 1);
}

static uint32_t *find_block(struct ft_recency *recency, uint64_t block)
{
    size_t i = first_place(block);
    while (recency->index[i] && recency->blocks[recency->index[i] - 1].block != block)
        i = (i + 1) & (INDEX_SIZE - 1);
    return &recency->index[i];
}

uint32_t ft_recency_block(struct ft_recency *recency, uint64_t block)
{
    uint32_t *number = find_block(recency, block);
    if (*number || recency->num_blocks == FT_MAX_BLOCKS)
        return *number;
    recency->blocks[recency->num_blocks++] = (struct block){block, {0}};
    return *number = recency->num_blocks;
}

void ft_recency_clear(struct ft_recency *recency)
{
    if (recency->num_blocks)
        memset(recency->index, 0, sizeof recency->index);
    recency->num_blocks = 0;
    for (unsigned size = 0; size < FT_LINE_SIZES; size++) {
        clear_order(&recency->orders[size]);
        recency->orders[size].num_lines = 0;
    }
}

static void forget_lines(struct ft_recency *recency, const struct block *block)
{
    for (unsigned size = 0; size < FT_LINE_SIZES; size++)
        for (unsigned part = first_slot[size]; part < first_slot[size + 1]; part++)
            if (block->slots[part]) {
                clear_mark(&recency->orders[size], block->slots[part] - 1);
                recency->orders[size].num_lines--;
            }
}

void ft_recency_filter(struct ft_recency *recency, bool (*kept)(uint64_t block, const void *context),
                       const void *context)
{
    uint32_t num_blocks = recency->num_blocks;
    memset(recency->index, 0, sizeof recency->index);
    recency->num_blocks = 0;
    for (size_t i = 0; i < num_blocks; i++) {
        struct block block = recency->blocks[i];
        if (!kept(block.block, context)) {
            forget_lines(recency, &block);
            continue;
        }
        recency->blocks[recency->num_blocks++] = block;
        *find_block(recency, block.block) = recency->num_blocks;
    }
}

size_t ft_recency_lines(const struct ft_recency *recency, unsigned size)
{
    return recency->orders[size].num_lines;
}

/* ---- life --------------------------------------------------------------------------------------------------------- */

struct ft_recency *ft_recency_new(void)
{
    return calloc(1, sizeof(struct ft_recency));
}

void ft_recency_free(struct ft_recency *recency)
{
    free(recency);
}
