/* Exact LRU simulation of a forest of cache levels, a batch at a time and level by level.
 *
 * A batch passes through a whole level before the next level sees anything of it: each level turns a list of touches
 * (accesses that are looked up, one line each) into the shorter list of those that missed, which its children read. This
 * is exact, as no level influences the one above it. Lists have at most LIST_CAPACITY touches; an access of many lines
 * may be spread over several, so what must be remembered of an unfinished access (`access_missed`) lives in the level.
 *
 * Roots see every access, and most accesses touch the line that was touched last in its set. `newest` holds that line for
 * each set, and such accesses, which change nothing, are dropped before the look-up proper, without a branch that a
 * processor could predict wrongly: a list element is always written, and the length grows by 0 or 1.
 *
 * A set is kept in one of three forms, by its number of ways. All use keys (line + 1; 0 marks an empty way), so that
 * zeroed memory is an empty cache and a large cache costs only the sets that are used.
 *
 *   up to 16    `order` holds the way numbers, 4 bits each, most recently used lowest; 0 stands for IDENTITY_ORDER.
 *               `hints` holds 15 bits of a hash of each way's key, 0 if empty, so that one vector comparison finds the
 *               way; `keys` decides. Lines never move between ways.
 *   up to 64    `keys` in order of use, most recent first.
 *   more        a doubly linked list in order of use, and one hash table for the whole level to find a line.
 */
#include "cache.h"

#include "sets.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define BATCH 1024u
#define LIST_CAPACITY (2 * BATCH)
#define FEW_WAYS 16u
#define SCANNED_WAYS 64u
#define IDENTITY_ORDER UINT64_C(0xfedcba9876543210)
#define EVERY_NIBBLE UINT64_C(0x1111111111111111)

#define UNLIKELY(x) __builtin_expect(!!(x), 0)


/* An access, or one line of an access that has several: then JOINED tells that the touch before is of the same access. */
#define JOINED 0x8000u
typedef struct ft_access touch;

struct few {
    uint64_t order;
    uint64_t padding;
    ft_hints hints[]; /* one vector up to 8 ways, else two */
};

struct node {
    uint64_t key;
    uint32_t newer, older; /* in the set's list; node numbers count from 1, 0 is none */
    uint32_t chain;        /* next in the hash bucket */
};

struct list_set {
    uint32_t newest, oldest, used;
};

struct level {
    size_t (*look_up)(struct level *, const touch *, size_t, touch *);
    uint64_t num_sets;
    uint64_t reciprocal; /* see ft_set_of */
    uint64_t *misses;    /* per operation */
    uint64_t *keys;
    char *few;
    struct list_set *sets;
    struct node *nodes;
    uint32_t *buckets;
    uint64_t *newest; /* roots only */
    uint32_t ways;
    uint32_t line_shift;
    uint32_t bucket_shift;
    bool access_missed; /* a line of the access that the list ended with has missed */
    uint32_t depth;
    int64_t first_child, next_sibling;
    bool is_root;
};

struct ft_cache {
    size_t num_levels;
    size_t num_operations; /* with room in `misses` */
    touch (*lists)[LIST_CAPACITY]; /* lists[0] for roots, lists[d + 1] for what missed at depth d */
    struct level levels[];
};

static inline uint64_t set_of(const struct level *level, uint64_t line)
{
    return ft_set_of(line, level->num_sets, level->reciprocal);
}

/* `access_missed`, kept in a register during a list: a touch of the access at hand has missed. */
static inline void hit(const touch *touched, bool *access_missed)
{
    *access_missed = *access_missed && touched->flags & JOINED;
}

/* Counts a miss, once for each access, and appends it to the list of misses. Returns the list's new length. */
static inline size_t miss(const struct level *level, const touch *touched, bool *access_missed, touch *out,
                          size_t length)
{
    bool joined = *access_missed && touched->flags & JOINED;
    out[length] = (touch){touched->address, touched->op, touched->size_bytes, joined ? JOINED : 0};
    level->misses[touched->op] += !joined;
    *access_missed = true;
    return length + 1;
}

/* ---- up to 16 ways ------------------------------------------------------------------------------------------------ */

/* A mask of the nibbles from the lowest to the one that holds `way`: the lowest that is 0 in `order ^ way everywhere`. */
static inline uint64_t nibbles_up_to(uint64_t order, uint64_t way)
{
    uint64_t zero_at_way = order ^ way * EVERY_NIBBLE;
    uint64_t found = (zero_at_way - EVERY_NIBBLE) & ~zero_at_way & EVERY_NIBBLE << 3;
    return found ^ (found - 1);
}

/* `way` comes lowest, and the others of `nibbles` move up. */
static inline uint64_t rotated(uint64_t order, uint64_t way, uint64_t nibbles)
{
    return order ^ ((order ^ (order << 4 | way)) & nibbles);
}

static inline __attribute__((always_inline)) size_t look_up_few(struct level *shared, const touch *touches,
                                                                size_t length, touch *out, unsigned vectors)
{
    const size_t stride = vectors == 1 ? 32 : 64;
    const ft_hints lanes = {0, 1, 2, 3, 4, 5, 6, 7};
    const struct level copy = *shared, *level = &copy; /* no store through `out` can change it */
    const uint32_t ways = level->ways;
    const uint64_t every_way = UINT64_MAX >> (64 - 4 * ways);
    bool access_missed = level->access_missed;
    size_t num_out = 0;
    for (size_t i = 0; i < length; i++) {
        uint64_t line = touches[i].address >> level->line_shift, key = line + 1;
        uint64_t index = set_of(level, line);
        struct few *set = (struct few *)(level->few + index * stride);
        uint64_t *keys = level->keys + index * ways;
        uint16_t hint = ft_hint_of(key);
        ft_hints wanted = (ft_hints){0} + hint;

        uint32_t candidates = ft_lanes_with(set->hints[0], hint);
        if (vectors == 2)
            candidates |= ft_lanes_with(set->hints[1], hint) << FT_HINTS;
        while (UNLIKELY(candidates && keys[__builtin_ctz(candidates)] != key))
            candidates &= candidates - 1;
        uint64_t order = set->order;
        if (UNLIKELY(!order))
            order = IDENTITY_ORDER;
        if (candidates) {
            uint64_t way = (uint64_t)__builtin_ctz(candidates);
            set->order = rotated(order, way, nibbles_up_to(order, way));
            hit(&touches[i], &access_missed);
            continue;
        }
        uint64_t oldest = order >> 4 * (ways - 1) & 15;
        set->order = rotated(order, oldest, every_way);
        keys[oldest] = key;
        for (unsigned v = 0; v < vectors; v++) { /* whole vectors, so that the next look-up can forward from the store */
            ft_hints here = (ft_hints)(lanes == (ft_hints){0} + (uint16_t)(oldest - FT_HINTS * v));
            set->hints[v] = (set->hints[v] & ~here) | (wanted & here);
        }
        num_out = miss(level, &touches[i], &access_missed, out, num_out);
    }
    shared->access_missed = access_missed;
    return num_out;
}

static size_t look_up_8(struct level *level, const touch *touches, size_t length, touch *out)
{
    return look_up_few(level, touches, length, out, 1);
}

static size_t look_up_16(struct level *level, const touch *touches, size_t length, touch *out)
{
    return look_up_few(level, touches, length, out, 2);
}

/* ---- up to 64 ways ------------------------------------------------------------------------------------------------ */

static size_t look_up_scanning(struct level *level, const touch *touches, size_t length, touch *out)
{
    const uint32_t ways = level->ways;
    bool access_missed = level->access_missed;
    size_t num_out = 0;
    for (size_t i = 0; i < length; i++) {
        uint64_t line = touches[i].address >> level->line_shift, key = line + 1;
        uint64_t *keys = level->keys + set_of(level, line) * ways;
        uint64_t moved = key;
        uint32_t way = 0;
        for (; way < ways; way++) {
            uint64_t here = keys[way];
            keys[way] = moved;
            if (here == key)
                break;
            moved = here;
        }
        if (way < ways)
            hit(&touches[i], &access_missed);
        else
            num_out = miss(level, &touches[i], &access_missed, out, num_out);
    }
    level->access_missed = access_missed;
    return num_out;
}

/* ---- more --------------------------------------------------------------------------------------------------------- */

static inline uint32_t *bucket_of(const struct level *level, uint64_t key)
{
    return &level->buckets[key * FT_HASH_FACTOR >> level->bucket_shift];
}

static void unlink_node(struct level *level, struct list_set *set, struct node *node)
{
    *(node->newer ? &level->nodes[node->newer].older : &set->newest) = node->older;
    *(node->older ? &level->nodes[node->older].newer : &set->oldest) = node->newer;
}

static void push_newest(struct level *level, struct list_set *set, uint32_t number)
{
    struct node *node = &level->nodes[number];
    node->newer = 0;
    node->older = set->newest;
    *(set->newest ? &level->nodes[set->newest].newer : &set->oldest) = number;
    set->newest = number;
}

/* A node for a line that is not there: an unused one, or the set's oldest. */
static uint32_t take_node(struct level *level, struct list_set *set, uint64_t set_index)
{
    if (set->used < level->ways)
        return (uint32_t)(set_index * level->ways + ++set->used);
    uint32_t number = set->oldest;
    struct node *node = &level->nodes[number];
    uint32_t *link = bucket_of(level, node->key);
    while (*link != number)
        link = &level->nodes[*link].chain;
    *link = node->chain;
    unlink_node(level, set, node);
    return number;
}

static size_t look_up_list(struct level *level, const touch *touches, size_t length, touch *out)
{
    bool access_missed = level->access_missed;
    size_t num_out = 0;
    for (size_t i = 0; i < length; i++) {
        uint64_t line = touches[i].address >> level->line_shift, key = line + 1;
        uint64_t set_index = set_of(level, line);
        struct list_set *set = &level->sets[set_index];
        uint32_t *bucket = bucket_of(level, key), number = *bucket;
        while (number && level->nodes[number].key != key)
            number = level->nodes[number].chain;
        if (number) {
            unlink_node(level, set, &level->nodes[number]);
            hit(&touches[i], &access_missed);
        } else {
            number = take_node(level, set, set_index);
            level->nodes[number].key = key;
            level->nodes[number].chain = *bucket;
            *bucket = number;
            num_out = miss(level, &touches[i], &access_missed, out, num_out);
        }
        push_newest(level, set, number);
    }
    level->access_missed = access_missed;
    return num_out;
}

/* ---- the forest --------------------------------------------------------------------------------------------------- */

static void pass_down(struct ft_cache *cache, struct level *level, const touch *touches, size_t length)
{
    touch *out = cache->lists[level->depth + 1];
    size_t num_out = level->look_up(level, touches, length, out);
    for (int64_t child = level->first_child; child >= 0 && num_out; child = cache->levels[child].next_sibling)
        pass_down(cache, &cache->levels[child], out, num_out);
}

/* The lines of an access that has several, but for those that were touched last in their set. */
static __attribute__((noinline)) size_t append_lines(struct ft_cache *cache, struct level *root,
                                                     const struct ft_access *access, size_t length)
{
    touch *list = cache->lists[0];
    uint64_t last_byte = access->address + access->size_bytes - 1;
    if (last_byte < access->address)
        last_byte = UINT64_MAX - 1;
    uint16_t joined = 0;
    for (uint64_t line = access->address >> root->line_shift; line <= last_byte >> root->line_shift; line++) {
        uint64_t *newest = &root->newest[set_of(root, line)];
        if (*newest == line + 1)
            continue;
        *newest = line + 1;
        list[length++] = (touch){line << root->line_shift, access->op, access->size_bytes, joined};
        joined = JOINED;
        if (length >= LIST_CAPACITY - BATCH) { /* leave room for one touch for each access to come */
            pass_down(cache, root, list, length);
            length = 0;
        }
    }
    return length;
}

static void feed_root(struct ft_cache *cache, struct level *root, const struct ft_access *batch, size_t num_accesses)
{
    const uint64_t line_bytes = UINT64_C(1) << root->line_shift;
    touch *list = cache->lists[0];
    size_t length = 0;
    for (size_t i = 0; i < num_accesses; i++) {
        uint64_t address = batch[i].address;
        if (UNLIKELY((address & (line_bytes - 1)) + batch[i].size_bytes > line_bytes)) {
            if (!(batch[i].flags & FT_CACHE_KNOWN))
                length = append_lines(cache, root, &batch[i], length);
            continue;
        }
        uint64_t line = address >> root->line_shift;
        uint64_t *newest = &root->newest[set_of(root, line)];
        const uint64_t key = batch[i].flags & FT_CACHE_KNOWN ? *newest : line + 1;
        list[length] = batch[i];
        length += *newest != key;
        *newest = key;
    }
    pass_down(cache, root, list, length);
}

void ft_cache_feed(struct ft_cache *cache, const struct ft_access *batch, size_t length)
{
    for (; length; ) {
        size_t part = length < BATCH ? length : BATCH;
        for (size_t i = 0; i < cache->num_levels; i++)
            if (cache->levels[i].is_root)
                feed_root(cache, &cache->levels[i], batch, part);
        batch += part;
        length -= part;
    }
}

size_t ft_cache_repeatable_lines(const struct ft_cache *cache)
{
    size_t lines = SIZE_MAX;
    for (size_t i = 0; i < cache->num_levels; i++)
        if (cache->levels[i].is_root && cache->levels[i].ways < lines)
            lines = cache->levels[i].ways;
    return lines;
}

unsigned ft_cache_line_shift(const struct ft_cache *cache)
{
    unsigned shift = 63;
    for (size_t i = 0; i < cache->num_levels; i++)
        if (cache->levels[i].is_root && cache->levels[i].line_shift < shift)
            shift = cache->levels[i].line_shift;
    return shift;
}

void ft_cache_set_bits(const struct ft_cache *cache, unsigned *begin, unsigned *end)
{
    *begin = 0;
    *end = 63;
    for (size_t i = 0; i < cache->num_levels; i++) {
        const struct level *level = &cache->levels[i];
        if (!level->is_root)
            continue;
        const unsigned last = level->line_shift + (unsigned)__builtin_ctzll(level->num_sets);
        *begin = level->line_shift > *begin ? level->line_shift : *begin;
        *end = last < *end ? last : *end;
    }
}

/* ---- construction ------------------------------------------------------------------------------------------------- */

static void *zeroed(uint64_t count, uint64_t bytes)
{
    return count > SIZE_MAX / bytes ? NULL : calloc((size_t)count, (size_t)bytes);
}

static bool allocate_list_sets(struct level *level)
{
    uint64_t num_lines = level->num_sets * level->ways;
    if (num_lines >= UINT32_MAX)
        return false;
    unsigned bucket_bits = 64u - (unsigned)__builtin_clzll(num_lines);
    level->bucket_shift = 64 - bucket_bits;
    level->sets = zeroed(level->num_sets, sizeof *level->sets);
    level->nodes = zeroed(num_lines + 1, sizeof *level->nodes);
    level->buckets = zeroed(UINT64_C(1) << bucket_bits, sizeof *level->buckets);
    level->look_up = look_up_list;
    return level->sets && level->nodes && level->buckets;
}

static bool allocate_sets(struct level *level)
{
    if (level->num_sets > UINT64_MAX / level->ways)
        return false;
    if (level->is_root && !(level->newest = zeroed(level->num_sets, sizeof *level->newest)))
        return false;
    if (level->ways > SCANNED_WAYS)
        return allocate_list_sets(level);
    level->look_up = level->ways > FEW_WAYS ? look_up_scanning : level->ways > FT_HINTS ? look_up_16 : look_up_8;
    level->keys = zeroed(level->num_sets * level->ways, sizeof *level->keys);
    if (level->ways <= FEW_WAYS && !(level->few = zeroed(level->num_sets, level->ways > FT_HINTS ? 64 : 32)))
        return false;
    return level->keys;
}

static bool set_up(struct ft_cache *cache, size_t index, const struct ft_geometry *geometry)
{
    struct level *level = &cache->levels[index];
    level->num_sets = geometry->num_sets;
    level->ways = geometry->ways;
    level->line_shift = geometry->line_shift;
    level->reciprocal = ft_reciprocal(geometry->num_sets);
    level->first_child = level->next_sibling = -1;
    level->is_root = geometry->parent < 0;
    if (!level->is_root) {
        struct level *parent = &cache->levels[geometry->parent];
        level->depth = parent->depth + 1;
        level->next_sibling = parent->first_child;
        parent->first_child = (int64_t)index;
    }
    return allocate_sets(level);
}

struct ft_cache *ft_cache_new(const struct ft_geometry *levels, size_t num_levels)
{
    struct ft_cache *cache = calloc(1, sizeof *cache + num_levels * sizeof *cache->levels);
    if (!cache)
        return NULL;
    cache->num_levels = num_levels;
    cache->lists = calloc(FT_MAX_DEPTH + 1, sizeof *cache->lists);
    bool complete = cache->lists;
    for (size_t i = 0; i < num_levels; i++)
        complete = complete && set_up(cache, i, &levels[i]);
    if (complete)
        return cache;
    ft_cache_free(cache);
    return NULL;
}

void ft_cache_free(struct ft_cache *cache)
{
    if (!cache)
        return;
    for (size_t i = 0; i < cache->num_levels; i++) {
        struct level *level = &cache->levels[i];
        free(level->misses);
        free(level->keys);
        free(level->few);
        free(level->sets);
        free(level->nodes);
        free(level->buckets);
        free(level->newest);
    }
    free(cache->lists);
    free(cache);
}

int ft_cache_reserve(struct ft_cache *cache, size_t num_operations)
{
    if (num_operations <= cache->num_operations)
        return 0;
    if (num_operations > SIZE_MAX / sizeof(uint64_t))
        return -1;
    for (size_t i = 0; i < cache->num_levels; i++) {
        uint64_t *misses = realloc(cache->levels[i].misses, num_operations * sizeof *misses);
        if (!misses)
            return -1;
        memset(misses + cache->num_operations, 0, (num_operations - cache->num_operations) * sizeof *misses);
        cache->levels[i].misses = misses;
    }
    cache->num_operations = num_operations;
    return 0;
}

const uint64_t *ft_cache_misses(const struct ft_cache *cache, size_t level)
{
    return cache->levels[level].misses;
}

size_t ft_cache_levels(const struct ft_cache *cache, unsigned *max_depth)
{
    *max_depth = 0;
    for (size_t i = 0; i < cache->num_levels; i++)
        if (cache->levels[i].depth > *max_depth)
            *max_depth = cache->levels[i].depth;
    return cache->num_levels;
}

size_t ft_cache_operations(const struct ft_cache *cache)
{
    return cache->num_operations;
}

void ft_cache_add_misses(struct ft_cache *cache, const uint64_t *misses, size_t num_operations, uint64_t times)
{
    for (size_t i = 0; i < cache->num_levels; i++)
        for (size_t op = 0; op < num_operations; op++)
            cache->levels[i].misses[op] += misses[i * num_operations + op] * times;
}
