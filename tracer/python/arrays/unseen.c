/* What is not seen, by the block that called it and its name: counts of array operations, times of compiled functions.
 *
 * The counts lie in the side table itself, so that they are right at any moment, also when the program is killed.
 * `entries` is an open-addressing table; an entry with `counts` NULL is free; entries are never removed; at most half
 * are in use. The GIL guards it.
 */
#include "tracer/python/agent.h"

#include <stdlib.h>
#include <string.h>

struct unseen {
    uint32_t block;
    const char *name;
    struct ft_side_unseen *counts;
    uint64_t slot; /* of `compiled`, below */
};

static inline uint64_t hash_of(const struct unseen *entry)
{
    return ((uintptr_t)entry->name ^ (uint64_t)entry->block << 32) * FT_HASH_FACTOR >> 32;
}

static inline bool is_used(const struct unseen *entry)
{
    return entry->counts;
}

static inline bool is_same(const struct unseen *one, const struct unseen *other)
{
    return one->block == other->block && one->name == other->name;
}

FT_TABLE_TYPE(entries, struct unseen);
FT_TABLE(entries, struct unseen, 256, hash_of, is_used, is_same)

static struct entries entries;

static void fill(void *memory, uint32_t number, void *context)
{
    struct unseen *key = context;
    struct ft_side_unseen *side = memory;
    (void)number;
    side->entry.kind = FT_SIDE_UNSEEN;
    side->block_id = key->block;
    side->name_bytes = (uint32_t)strlen(key->name);
    memcpy(side + 1, key->name, side->name_bytes);
    key->counts = side;
}

void agent_count_unseen(const char *name, uint64_t bytes, bool one_pass)
{
    struct unseen key = {.block = agent_charged_block(), .name = name};
    atomic_fetch_add_explicit(&ft_writer_header()->unseen_calls, 1, memory_order_relaxed);
    if (!entries_make_room(&entries))
        return;
    struct unseen *found = entries_at(&entries, &key);
    if (!found->counts) {
        if (!ft_writer_append(sizeof(struct ft_side_unseen) + strlen(name), NULL, fill, &key))
            return;
        *found = key;
        entries.used++;
    }
    atomic_fetch_add_explicit(&found->counts->calls, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&found->counts->bytes, bytes, memory_order_relaxed);
    if (one_pass) {
        atomic_fetch_add_explicit(&found->counts->one_pass_calls, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&found->counts->one_pass_bytes, bytes, memory_order_relaxed);
    }
}

/* ---- compiled functions ----------------------------------------------------------------------------------------- */

#define N_COMPILED 4096u /* places for pairs of block and function; timings come at most every few microseconds */

static struct ft_side_compiled *compiled[N_COMPILED];
static struct {
    uint32_t block;
    const char *name;
} compiled_keys[N_COMPILED];

static void fill_compiled(void *memory, uint32_t number, void *context)
{
    struct unseen *key = context;
    struct ft_side_compiled *side = memory;
    (void)number;
    side->entry.kind = FT_SIDE_COMPILED;
    side->block_id = key->block;
    side->name_bytes = (uint32_t)strlen(key->name);
    memcpy(side + 1, key->name, side->name_bytes);
    compiled[key->slot] = side;
}

void agent_count_compiled(uint32_t block, const char *name, uint64_t rounds)
{
    struct unseen key = {.block = block, .name = name};
    key.slot = hash_of(&key) & (N_COMPILED - 1);
    for (uint32_t tries = 0; compiled[key.slot]; tries++, key.slot = (key.slot + 1) & (N_COMPILED - 1)) {
        if (compiled_keys[key.slot].block == block && compiled_keys[key.slot].name == name)
            break;
        if (tries == N_COMPILED / 2)
            return;
    }
    if (!compiled[key.slot]) {
        if (!ft_writer_append(sizeof(struct ft_side_compiled) + strlen(name), NULL, fill_compiled, &key))
            return;
        compiled_keys[key.slot].block = block;
        compiled_keys[key.slot].name = name;
    }
    atomic_fetch_add_explicit(&compiled[key.slot]->rounds, rounds, memory_order_relaxed);
}
