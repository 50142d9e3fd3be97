/* Exact LRU simulation of a forest of cache levels, a batch at a time and level by level.
 *
 * A batch passes through a whole level before the next level sees anything of it: each level turns a list of touches
 * (accesses that are looked up, one line each) into the shorter list of those that missed, which its children read.
 * This is exact, as no level influences the one above it. Lists have at most LIST_CAPACITY touches; an access of many
 * lines may be spread over several, so what must be remembered of an unfinished access (`missed`) lives in the level.
 *
 * Roots see every access, and many touch the line that was touched last in its set. `newest` holds that line for each
 * set, and such accesses, which change nothing, are dropped before the look-up proper, without a branch that a
 * processor could predict wrongly: a list element is always written, and the length grows by 0 or 1. Where a row is
 * searched and moved at once, that costs no more than finding this out, and accesses are looked up as they are.
 *
 * All use keys (line + 1; 0 marks an empty way), so that zeroed memory is an empty cache and a large cache costs only
 * the sets that are used. A set of up to 64 ways is a row of keys: in one of up to 16, where the processor can, they
 * are in order of use, and are searched and moved at once (wide_sets.h); they are short ones (line / sets + 1) until a
 * line comes that needs more than 32 bits. In other rows keys stay where they are, and each way has an age
 * (aged_sets.h). A set of more ways is a doubly linked list in order of use, with one hash table for the whole level to
 * find a line.
 */
#include "foretrace/base/tables.h"
#include "cache.h"

#include "aged_sets.h"
#include "sets.h"
#include "wide_sets.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define LIST_CAPACITY (2 * FT_CACHE_BATCH)
#define LINE_OF_HOST 64u
#define FETCHED_AHEAD 32u

/* An access, or one line of an access that has several: then JOINED tells that the touch before is of the same access.
 */
#define JOINED 0x8000u
typedef struct ft_access touch;

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
    void (*feed)(struct ft_cache *, struct level *, const struct ft_access *, size_t); /* roots only */
    uint64_t num_sets;
    uint64_t reciprocal; /* see ft_set_of */
    uint64_t *misses;    /* per operation */
    uint64_t *keys;      /* aligned, in `key_memory` */
    void *key_memory;
    uint8_t *ages; /* aligned, in `age_memory` */
    void *age_memory;
    struct list_set *sets;
    struct node *nodes;
    uint32_t *buckets;
    uint64_t *newest; /* of roots, but for rows that are moved at once */
    uint32_t ways;
    uint32_t row_keys; /* in `keys`, of a set */
    uint32_t set_bits; /* if num_sets is a power of two */
    bool has_short_keys;
    uint32_t line_shift;
    uint32_t bucket_shift;
    uint16_t missed; /* JOINED if a line of the access that the list ended with has missed, else 0 */
    uint32_t depth;
    int64_t first_child, next_sibling;
    bool is_root;
};

struct ft_cache {
    size_t num_levels;
    size_t num_operations;         /* with room in `misses` */
    uint64_t *uncounted;           /* in place of a root's misses that are counted already */
    touch (*lists)[LIST_CAPACITY]; /* lists[0] for roots, lists[d + 1] for what missed at depth d */
    struct level levels[];
};

static inline uint64_t set_of(const struct level *level, uint64_t line)
{
    return ft_set_of(line, level->num_sets, level->reciprocal);
}

/* `missed` is kept in a register during a list: JOINED if a touch of the access at hand has missed, else 0. */
static inline void hit(const touch *touched, uint16_t *missed)
{
    *missed &= touched->flags;
}

/* Counts a miss, once for each access, and appends it to the list of misses. Returns the list's new length. */
static inline size_t miss(const struct level *level, const touch *touched, uint16_t *missed, touch *out, size_t length)
{
    const uint16_t joined = touched->flags & *missed;
    out[length] = *touched;
    out[length].flags = joined;
    level->misses[touched->op] += joined == 0;
    *missed = JOINED;
    return length + 1;
}

/* ---- up to 16 ways, on some processors ---------------------------------------------------------------------------- */

#ifdef FT_HAS_WIDE_SETS
FT_WIDE static inline __attribute__((always_inline)) size_t look_up_rows(struct level *shared, const touch *touches,
                                                                         size_t length, touch *out, unsigned vectors)
{
    const struct level copy = *shared, *level = &copy;
    const uint32_t last_ways = level->ways - FT_ROW_KEYS * (vectors - 1);
    const __m256i lanes = _mm256_load_si256((const __m256i *)ft_row_lanes[(1u << last_ways) - 1]);
    uint16_t missed = level->missed;
    size_t num_out = 0;
    for (size_t i = 0; i < length; i++) {
        const uint64_t line = touches[i].address >> level->line_shift;
        if (ft_row_use(level->keys + set_of(level, line) * FT_ROW_KEYS * vectors, line + 1, lanes, vectors))
            hit(&touches[i], &missed);
        else
            num_out = miss(level, &touches[i], &missed, out, num_out);
    }
    shared->missed = missed;
    return num_out;
}

/* Keys that `keys` has room for twice: as short ones, and as they are. */
static inline uint32_t *short_row(const struct level *level, uint64_t set, unsigned vectors)
{
    return (uint32_t *)level->keys + set * FT_SHORT_KEYS * vectors;
}

static inline uint64_t place_of(const struct level *level, uint64_t line, uint64_t *tag)
{
    return ft_set_and_tag_of(line, level->num_sets, level->reciprocal, level->set_bits, tag);
}

static void use_long_keys(struct level *level);

/* Fetches the row that is looked up some touches after the one at hand: rows of a large level are in no near cache. */
static inline void fetch_ahead(const struct level *level, const touch *touches, size_t i, size_t length,
                               unsigned vectors)
{
    const size_t ahead = i + FETCHED_AHEAD < length ? i + FETCHED_AHEAD : i;
    const uint64_t set = set_of(level, touches[ahead].address >> level->line_shift);
    __builtin_prefetch(short_row(level, set, vectors), 1);
}

/* A copy of a level for a loop, which no store can change; with `has_power_sets` the compiler knows that these are a
 * power of two. */
static inline __attribute__((always_inline)) struct level copy_of(const struct level *level, bool has_power_sets)
{
    struct level copy = *level;
    copy.reciprocal = has_power_sets ? 0 : copy.reciprocal;
    return copy;
}

FT_WIDE static inline __attribute__((always_inline)) size_t look_up_short_rows_of(struct level *shared,
                                                                                  const touch *touches, size_t length,
                                                                                  touch *out, unsigned vectors,
                                                                                  bool has_power_sets)
{
    const struct level copy = copy_of(shared, has_power_sets), *level = &copy;
    const uint32_t last_ways = (1u << (level->ways - FT_SHORT_KEYS * (vectors - 1))) - 1;
    uint16_t missed = level->missed;
    size_t num_out = 0;
    for (size_t i = 0; i < length; i++) {
        uint64_t tag;
        const uint64_t set = place_of(level, touches[i].address >> level->line_shift, &tag);
        fetch_ahead(level, touches, i, length, vectors);
        if (UNLIKELY(tag >= UINT32_MAX)) {
            shared->missed = missed;
            use_long_keys(shared);
            return num_out + shared->look_up(shared, touches + i, length - i, out + num_out);
        }
        if (ft_short_row_use(short_row(level, set, vectors), (uint32_t)tag + 1, last_ways, vectors))
            hit(&touches[i], &missed);
        else
            num_out = miss(level, &touches[i], &missed, out, num_out);
    }
    shared->missed = missed;
    return num_out;
}

FT_WIDE static inline __attribute__((always_inline)) size_t look_up_short_rows(struct level *level,
                                                                               const touch *touches, size_t length,
                                                                               touch *out, unsigned vectors)
{
    return level->reciprocal ? look_up_short_rows_of(level, touches, length, out, vectors, false)
                             : look_up_short_rows_of(level, touches, length, out, vectors, true);
}

#define LOOK_UP_ROWS(kind, vectors)                                                                                    \
    FT_WIDE static size_t look_up_##kind##_##vectors(struct level *level, const touch *touches, size_t length,         \
                                                     touch *out)                                                       \
    {                                                                                                                  \
        return look_up_##kind(level, touches, length, out, vectors);                                                   \
    }
LOOK_UP_ROWS(rows, 1)
LOOK_UP_ROWS(rows, 2)
LOOK_UP_ROWS(rows, 3)
LOOK_UP_ROWS(rows, 4)
LOOK_UP_ROWS(short_rows, 1)
LOOK_UP_ROWS(short_rows, 2)
#endif

/* ---- up to 64 ways ------------------------------------------------------------------------------------------------ */

FT_FOR_WIDE_PROCESSORS static size_t look_up_aged(struct level *shared, const touch *touches, size_t length, touch *out)
{
    const struct level copy = *shared, *level = &copy; /* no store can change it */
    const uint32_t row_ages = ft_aged_ages(level->ways);
    uint16_t missed = level->missed;
    size_t num_out = 0;
    for (size_t i = 0; i < length; i++) {
        const uint64_t line = touches[i].address >> level->line_shift, set = set_of(level, line);
        if (ft_aged_use(level->keys + set * level->row_keys, level->ages + set * row_ages, level->ways, line + 1))
            hit(&touches[i], &missed);
        else
            num_out = miss(level, &touches[i], &missed, out, num_out);
    }
    shared->missed = missed;
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
    uint16_t missed = level->missed;
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
            hit(&touches[i], &missed);
        } else {
            number = take_node(level, set, set_index);
            level->nodes[number].key = key;
            level->nodes[number].chain = *bucket;
            *bucket = number;
            num_out = miss(level, &touches[i], &missed, out, num_out);
        }
        push_newest(level, set, number);
    }
    level->missed = missed;
    return num_out;
}

/* ---- the forest --------------------------------------------------------------------------------------------------- */

static void pass_on(struct ft_cache *cache, const struct level *level, const touch *missed, size_t length);

static void pass_down(struct ft_cache *cache, struct level *level, const touch *touches, size_t length)
{
    touch *out = cache->lists[level->depth + 1];
    pass_on(cache, level, out, level->look_up(level, touches, length, out));
}

static void pass_on(struct ft_cache *cache, const struct level *level, const touch *missed, size_t length)
{
    for (int64_t child = level->first_child; child >= 0 && length; child = cache->levels[child].next_sibling)
        pass_down(cache, &cache->levels[child], missed, length);
}

/* ---- roots -------------------------------------------------------------------------------------------------------- */

static uint64_t last_byte_of(const struct ft_access *access)
{
    const uint64_t last_byte = access->address + access->size_bytes - 1;
    return last_byte < access->address ? UINT64_MAX - 1 : last_byte;
}

#ifdef FT_HAS_WIDE_SETS
#define LINES_AT_ONCE 64u

/* Looks up the lines of an access that has several. Returns how many misses there are to pass on then, FT_CACHE_BATCH
 * at most. */
static __attribute__((noinline)) size_t feed_lines(struct ft_cache *cache, struct level *root,
                                                   const struct ft_access *access, size_t num_out)
{
    touch lines[LINES_AT_ONCE], *out = cache->lists[1];
    const uint64_t last = last_byte_of(access) >> root->line_shift;
    uint16_t joined = 0;
    for (uint64_t line = access->address >> root->line_shift; line <= last;) {
        size_t length = 0;
        for (; line <= last && length < LINES_AT_ONCE; line++, joined = JOINED)
            lines[length++] = (touch){line << root->line_shift, access->op, access->size_bytes, joined};
        if (num_out + length > FT_CACHE_BATCH) {
            pass_on(cache, root, out, num_out);
            num_out = 0;
        }
        num_out += root->look_up(root, lines, length, out + num_out);
    }
    return num_out;
}

/* As `hit` and `miss`, of an access that has a single line: without a branch, which a processor could often not
 * predict. */
static inline size_t looked_up(const struct level *root, const struct ft_access *access, bool is_there, touch *out,
                               size_t length)
{
    root->misses[access->op] += !is_there;
    out[length] = *access;
    out[length].flags = 0;
    return length + !is_there;
}

FT_WIDE static inline __attribute__((always_inline)) void feed_rows(struct ft_cache *cache, struct level *shared,
                                                                    const struct ft_access *batch, size_t num_accesses,
                                                                    unsigned vectors)
{
    const struct level copy = *shared, *root = &copy;
    const uint32_t last_ways = root->ways - FT_ROW_KEYS * (vectors - 1);
    const __m256i lanes = _mm256_load_si256((const __m256i *)ft_row_lanes[(1u << last_ways) - 1]);
    touch *const out = cache->lists[1];
    size_t num_out = 0;
    for (size_t i = 0; i < num_accesses; i++) {
        const uint64_t address = batch[i].address, line = address >> root->line_shift;
        if (batch[i].flags & FT_CACHE_KNOWN)
            continue;
        if (UNLIKELY((address ^ (address + batch[i].size_bytes - 1)) >> root->line_shift)) {
            num_out = feed_lines(cache, shared, &batch[i], num_out);
            continue;
        }
        const bool is_there =
            ft_row_use(root->keys + set_of(root, line) * FT_ROW_KEYS * vectors, line + 1, lanes, vectors);
        num_out = looked_up(root, &batch[i], is_there, out, num_out);
    }
    pass_on(cache, shared, out, num_out);
}

FT_WIDE static inline __attribute__((always_inline)) void
feed_short_rows_of(struct ft_cache *cache, struct level *shared, const struct ft_access *batch, size_t num_accesses,
                   unsigned vectors, bool has_power_sets)
{
    const struct level copy = copy_of(shared, has_power_sets), *root = &copy;
    const uint32_t last_ways = (1u << (root->ways - FT_SHORT_KEYS * (vectors - 1))) - 1;
    touch *const out = cache->lists[1];
    size_t num_out = 0, i = 0;
    for (; i < num_accesses; i++) {
        const uint64_t address = batch[i].address;
        uint64_t tag;
        const uint64_t set = place_of(root, address >> root->line_shift, &tag);
        if (batch[i].flags & FT_CACHE_KNOWN)
            continue;
        if (UNLIKELY((address ^ (address + batch[i].size_bytes - 1)) >> root->line_shift || tag >= UINT32_MAX)) {
            num_out = feed_lines(cache, shared, &batch[i], num_out);
            if (shared->has_short_keys)
                continue;
            i++;
            break;
        }
        const bool is_there = ft_short_row_use(short_row(root, set, vectors), (uint32_t)tag + 1, last_ways, vectors);
        num_out = looked_up(root, &batch[i], is_there, out, num_out);
    }
    pass_on(cache, shared, out, num_out);
    if (UNLIKELY(i < num_accesses))
        shared->feed(cache, shared, batch + i, num_accesses - i);
}

FT_WIDE static inline __attribute__((always_inline)) void feed_short_rows(struct ft_cache *cache, struct level *root,
                                                                          const struct ft_access *batch,
                                                                          size_t num_accesses, unsigned vectors)
{
    if (root->reciprocal)
        feed_short_rows_of(cache, root, batch, num_accesses, vectors, false);
    else
        feed_short_rows_of(cache, root, batch, num_accesses, vectors, true);
}

#define FEED_ROWS(kind, vectors)                                                                                       \
    FT_WIDE static void feed_##kind##_##vectors(struct ft_cache *cache, struct level *root,                            \
                                                const struct ft_access *batch, size_t num_accesses)                    \
    {                                                                                                                  \
        feed_##kind(cache, root, batch, num_accesses, vectors);                                                        \
    }
FEED_ROWS(rows, 1)
FEED_ROWS(rows, 2)
FEED_ROWS(rows, 3)
FEED_ROWS(rows, 4)
FEED_ROWS(short_rows, 1)
FEED_ROWS(short_rows, 2)

/* How a level of up to 16 ways is looked up. */
static void choose_wide_rows(struct level *level, bool has_short_keys)
{
    static const struct {
        size_t (*look_up)(struct level *, const touch *, size_t, touch *);
        void (*feed)(struct ft_cache *, struct level *, const struct ft_access *, size_t);
    } ways_of_use[][FT_MOST_VECTORS] = {
        {{look_up_rows_1, feed_rows_1},
         {look_up_rows_2, feed_rows_2},
         {look_up_rows_3, feed_rows_3},
         {look_up_rows_4, feed_rows_4}},
        {{look_up_short_rows_1, feed_short_rows_1}, {look_up_short_rows_2, feed_short_rows_2}},
    };
    const uint32_t in_vector = has_short_keys ? FT_SHORT_KEYS : FT_ROW_KEYS;
    const uint32_t vectors = (level->ways + in_vector - 1) / in_vector;
    level->look_up = ways_of_use[has_short_keys][vectors - 1].look_up;
    level->feed = ways_of_use[has_short_keys][vectors - 1].feed;
    level->has_short_keys = has_short_keys;
}

/* Replaces the short keys of a level, from the last set on: rows become longer, or remain so long. Sets that were never
 * used stay untouched memory where they can. */
static void use_long_keys(struct level *level)
{
    const uint32_t vectors = (level->ways + FT_SHORT_KEYS - 1) / FT_SHORT_KEYS;
    for (uint64_t set = level->num_sets; set-- > 0;) {
        const uint32_t *row = short_row(level, set, vectors);
        uint64_t keys[FT_MOST_VECTORS * FT_ROW_KEYS] = {0}, *to = level->keys + set * level->row_keys, used = 0;
        for (uint32_t way = 0; way < level->ways; way++)
            keys[way] = row[way] ? ((row[way] - UINT64_C(1)) * level->num_sets + set) + 1 : 0;
        for (uint32_t i = 0; i < level->row_keys; i++)
            used |= keys[i] | to[i];
        if (used)
            memcpy(to, keys, level->row_keys * sizeof *to);
    }
    choose_wide_rows(level, false);
}
#endif

/* The lines of an access that has several, but for those that were touched last in their set. */
static __attribute__((noinline)) size_t append_lines(struct ft_cache *cache, struct level *root,
                                                     const struct ft_access *access, size_t length)
{
    touch *list = cache->lists[0];
    const uint64_t last = last_byte_of(access) >> root->line_shift;
    uint16_t joined = 0;
    for (uint64_t line = access->address >> root->line_shift; line <= last; line++) {
        uint64_t *newest = &root->newest[set_of(root, line)];
        if (*newest == line + 1)
            continue;
        *newest = line + 1;
        list[length++] = (touch){line << root->line_shift, access->op, access->size_bytes, joined};
        joined = JOINED;
        if (length >= LIST_CAPACITY - FT_CACHE_BATCH) { /* leave room for one touch for each access to come */
            pass_down(cache, root, list, length);
            length = 0;
        }
    }
    return length;
}

static void feed_root(struct ft_cache *cache, struct level *shared, const struct ft_access *batch, size_t num_accesses)
{
    const struct level copy = *shared, *root = &copy; /* no store can change it */
    const uint64_t line_bytes = UINT64_C(1) << root->line_shift;
    touch *list = cache->lists[0];
    size_t length = 0;
    for (size_t i = 0; i < num_accesses; i++) {
        uint64_t address = batch[i].address;
        if (UNLIKELY((address & (line_bytes - 1)) + batch[i].size_bytes > line_bytes)) {
            if (!(batch[i].flags & FT_CACHE_KNOWN))
                length = append_lines(cache, shared, &batch[i], length);
            continue;
        }
        uint64_t line = address >> root->line_shift;
        uint64_t *newest = &root->newest[set_of(root, line)];
        const uint64_t key = batch[i].flags & FT_CACHE_KNOWN ? *newest : line + 1;
        list[length] = batch[i];
        length += *newest != key;
        *newest = key;
    }
    pass_down(cache, shared, list, length);
}

void ft_cache_feed(struct ft_cache *cache, const struct ft_access *batch, size_t length)
{
    for (; length;) {
        size_t part = length < FT_CACHE_BATCH ? length : FT_CACHE_BATCH;
        for (size_t i = 0; i < cache->num_levels; i++)
            if (cache->levels[i].is_root)
                cache->levels[i].feed(cache, &cache->levels[i], batch, part);
        batch += part;
        length -= part;
    }
}

void ft_cache_feed_missing(struct ft_cache *cache, const struct ft_access *batch, size_t length)
{
    for (size_t i = 0; i < cache->num_levels; i++) {
        const struct level *level = &cache->levels[i];
        if (!level->is_root)
            continue;
        for (size_t j = 0; j < length; j++)
            level->misses[batch[j].op]++;
        pass_on(cache, level, batch, length);
    }
}

void ft_cache_feed_counted(struct ft_cache *cache, const struct ft_access *batch, size_t length)
{
    for (size_t i = 0; i < cache->num_levels; i++) {
        struct level *root = &cache->levels[i];
        uint64_t *const misses = root->misses;
        const int64_t first_child = root->first_child;
        if (!root->is_root)
            continue;
        root->misses = cache->uncounted;
        root->first_child = -1;
        for (size_t begin = 0; begin < length; begin += FT_CACHE_BATCH)
            root->feed(cache, root, batch + begin, length - begin < FT_CACHE_BATCH ? length - begin : FT_CACHE_BATCH);
        root->misses = misses;
        root->first_child = first_child;
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

static bool holds_together(const struct level *level, const uint64_t *addresses, size_t number)
{
    for (size_t i = 0; i < number; i++) {
        const uint64_t set = ft_set_of(addresses[i] >> level->line_shift, level->num_sets, level->reciprocal);
        size_t lines = 1;
        for (size_t j = 0; j < i; j++)
            lines += ft_set_of(addresses[j] >> level->line_shift, level->num_sets, level->reciprocal) == set;
        if (lines > level->ways)
            return false;
    }
    return true;
}

bool ft_cache_holds_together(const struct ft_cache *cache, const uint64_t *addresses, size_t number)
{
    for (size_t i = 0; i < cache->num_levels; i++)
        if (cache->levels[i].is_root && cache->levels[i].ways < number &&
            !holds_together(&cache->levels[i], addresses, number))
            return false;
    return true;
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

/* Zeroed bytes that begin where a line of the host does; *memory is what to free, or NULL. */
static void *aligned_zeroed(uint64_t bytes, void **memory)
{
    *memory = zeroed(bytes + LINE_OF_HOST - 1, 1);
    return (void *)(((uintptr_t)*memory + LINE_OF_HOST - 1) & ~(uintptr_t)(LINE_OF_HOST - 1));
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

/* Chooses how a level of up to 64 ways is looked up. */
static void choose_rows(struct level *level)
{
    level->look_up = look_up_aged;
    level->row_keys = ft_aged_keys(level->ways);
#ifdef FT_HAS_WIDE_SETS
    const bool is_wide = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2");
    if (level->ways <= FT_MOST_VECTORS * FT_ROW_KEYS && is_wide) {
        choose_wide_rows(level, true);
        level->row_keys = (level->ways + FT_ROW_KEYS - 1) / FT_ROW_KEYS * FT_ROW_KEYS;
    }
#endif
}

static bool allocate_sets(struct level *level)
{
    if (level->num_sets > UINT64_MAX / level->ways)
        return false;
    level->feed = feed_root;
    if (level->ways <= FT_AGED_WAYS)
        choose_rows(level);
    if (level->is_root && level->feed == feed_root && !(level->newest = zeroed(level->num_sets, sizeof *level->newest)))
        return false;
    if (level->ways > FT_AGED_WAYS)
        return allocate_list_sets(level);
    if (level->num_sets > (UINT64_MAX - LINE_OF_HOST) / level->row_keys / sizeof *level->keys)
        return false;
    level->keys = aligned_zeroed(level->num_sets * level->row_keys * sizeof *level->keys, &level->key_memory);
    if (level->look_up == look_up_aged)
        level->ages = aligned_zeroed(level->num_sets * ft_aged_ages(level->ways), &level->age_memory);
    return level->key_memory && (level->age_memory || level->look_up != look_up_aged);
}

static bool set_up(struct ft_cache *cache, size_t index, const struct ft_geometry *geometry)
{
    struct level *level = &cache->levels[index];
    level->num_sets = geometry->num_sets;
    level->ways = geometry->ways;
    level->line_shift = geometry->line_shift;
    level->reciprocal = ft_reciprocal(geometry->num_sets);
    level->set_bits = (uint32_t)__builtin_ctzll(geometry->num_sets);
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
        free(level->key_memory);
        free(level->age_memory);
        free(level->sets);
        free(level->nodes);
        free(level->buckets);
        free(level->newest);
    }
    free(cache->uncounted);
    free(cache->lists);
    free(cache);
}

int ft_cache_reserve(struct ft_cache *cache, size_t num_operations)
{
    if (num_operations <= cache->num_operations)
        return 0;
    if (num_operations > SIZE_MAX / sizeof(uint64_t))
        return -1;
    uint64_t *uncounted = realloc(cache->uncounted, num_operations * sizeof *uncounted);
    if (!uncounted)
        return -1;
    cache->uncounted = uncounted;
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

/* Streams begin and end anywhere in a round of the sets: each may fill a way less than its length tells. */
uint64_t ft_cache_fill_bytes(const struct ft_cache *cache, uint64_t num_streams, unsigned depth)
{
    uint64_t at_depth[FT_MAX_DEPTH] = {0}, bytes = 0;
    for (size_t i = 0; i < cache->num_levels; i++) {
        const struct level *level = &cache->levels[i];
        const uint64_t filled = level->num_sets * (level->ways + num_streams) << level->line_shift;
        if (level->line_shift != cache->levels[0].line_shift)
            return 0;
        if (filled > at_depth[level->depth])
            at_depth[level->depth] = filled;
    }
    for (unsigned above = 0; above <= depth; above++)
        bytes += at_depth[above];
    return bytes;
}

void ft_cache_count_misses(struct ft_cache *cache, uint32_t op, uint64_t number)
{
    for (size_t i = 0; i < cache->num_levels; i++)
        cache->levels[i].misses[op] += number;
}

void ft_cache_add_misses(struct ft_cache *cache, const uint64_t *misses, size_t num_operations, uint64_t times)
{
    for (size_t i = 0; i < cache->num_levels; i++)
        for (size_t op = 0; op < num_operations; op++)
            cache->levels[i].misses[op] += misses[i * num_operations + op] * times;
}
