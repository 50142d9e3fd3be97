/* See repeats.h.
 *
 * A set of an LRU cache that has just seen a sequence of accesses holds the lines of that sequence in the order of
 * their last use, and behind them, if there is room, others in the order they had. Seeing the same sequence again
 * changes nothing about that: it ends in the state it began with, and misses the same each further time. So does the
 * next level, from the second time on at which it is asked the same. Hence, when a sequence comes back to back for the
 * (n+2)nd time, n being the deepest level's depth from 0, its misses are those of every repetition to come, which need
 * no simulation as long as they are the same access by access. When one is not, the part of it that was passed over is
 * made up for.
 *
 * The same is true of the order of use that reuse distances are measured in, which has no end: from its second time on,
 * a sequence has the same distances each time. Reuse is therefore passed by, too, from one end of the sequence on, and
 * then fed one repetition that stands for all that it missed, and what came since.
 *
 * Neither depends on what the caches hold: with one ft_repeats for the cache and one for reuse, each decides the same.
 *
 * `log` holds what was fed, as items of several words, as far as it may help to tell what comes: an array operation
 * that was seen before makes a candidate, the sequence from behind it up to now. Only what comes after that counts as a
 * repetition. Sequences without array operations are not looked at: too long an interval without one, and all is
 * forgotten.
 *
 *   an item: word 0 is its length in words, and HAS_INDEX, or IS_ACCESS; then struct ft_access, or the operation's
 *   dimensions and accesses (see encode), and the index.
 *
 * Invariants: log[begin .. end) are the items of the candidate, `cursor` is where the next one to compare lies; there
 * is no candidate if end is 0. While `is_skipping`, the cache is in the state of each of the candidate's ends, `passed`
 * whole repetitions are missing from what it has counted, and so is log[begin .. cursor). While `is_passing_reuse`,
 * reuse is in that state as well, and misses `passed_by_reuse` repetitions and log[begin .. cursor) but for their
 * number of accesses.
 */
#include "repeats.h"

#include "array_lines.h"
#include "array_streams.h"

#include <stdlib.h>
#include <string.h>

#define MAX_LOG_WORDS (UINT64_C(1) << 23)
#define MAX_ACCESSES_BETWEEN 1024u
#define PLACES 4096u /* a power of two */
#define BATCH 1024u
#define IS_ACCESS (UINT64_C(1) << 63)
#define HAS_INDEX (UINT64_C(1) << 62)
#define LENGTH UINT64_C(0xffffffff)
#define ACCESS_WORDS 3u
#define MAX_ITEM_WORDS (2 + FT_ARRAY_DIMS + FT_ARRAY_ACCESSES * (2 + FT_ARRAY_DIMS)) /* without its index */
#define COPY_COST 4u /* accesses must be simulated for each counter copied, or copying would take the time won */

/* Where an array operation was seen last. */
struct place {
    uint64_t hash;
    size_t position;
    uint32_t epoch;
};

struct ft_repeats {
    struct ft_cache *cache; /* or NULL */
    struct ft_reuse *reuse; /* or NULL */
    size_t num_levels, repeatable_lines;
    size_t operations; /* may come */
    unsigned max_depth;
    struct ft_recent_lines recent; /* of the array operation at hand */

    uint64_t *log;
    size_t used, capacity;
    struct place places[PLACES];
    uint32_t epoch; /* of the places that are valid */
    bool is_active;
    size_t accesses_between;

    size_t begin, end, cursor;
    uint64_t repetitions, accesses; /* whole ones, and what they have been of */
    bool is_measuring, is_skipping;
    uint64_t passed;
    bool is_passing_reuse;
    uint32_t passed_by_reuse;
    uint64_t
        *misses; /* of the cache, by level and operation: at the measured repetition's beginning, then what it added */
    size_t num_operations, misses_capacity;
};

struct ft_repeats *ft_repeats_new(const struct ft_cache *shape, struct ft_cache *cache, struct ft_reuse *reuse)
{
    struct ft_repeats *repeats = calloc(1, sizeof *repeats);
    if (!repeats)
        return NULL;
    repeats->cache = cache;
    repeats->reuse = reuse;
    repeats->num_levels = ft_cache_levels(shape, &repeats->max_depth);
    repeats->repeatable_lines = ft_cache_repeatable_lines(shape);
    unsigned set_shift, end;
    ft_cache_set_bits(shape, &set_shift, &end);
    ft_recent_init(&repeats->recent, ft_cache_line_shift(shape), set_shift, end);
    repeats->epoch = 1;
    return repeats;
}

void ft_repeats_free(struct ft_repeats *repeats)
{
    if (!repeats)
        return;
    free(repeats->log);
    free(repeats->misses);
    free(repeats);
}

int ft_repeats_reserve(struct ft_repeats *repeats, size_t num_operations)
{
    repeats->operations = num_operations > repeats->operations ? num_operations : repeats->operations;
    if (repeats->cache && ft_cache_reserve(repeats->cache, num_operations))
        return -1;
    return repeats->reuse ? ft_reuse_reserve(repeats->reuse, num_operations) : 0;
}

/* ---- simulating --------------------------------------------------------------------------------------------------- */

/* Only what may change anything. */
static void simulate_points(struct ft_repeats *repeats, const struct ft_array_run *run,
                            void feed(struct ft_cache *, const struct ft_access *, size_t))
{
    struct ft_access batch[BATCH];
    struct ft_array_lines lines;
    size_t length;
    ft_array_lines_begin(&lines, run, &repeats->recent, repeats->repeatable_lines);
    while ((length = ft_array_lines_next(&lines, batch, BATCH)))
        feed(repeats->cache, batch, length);
}

static void simulate_accesses(struct ft_repeats *repeats, const struct ft_access *batch, size_t length)
{
    if (repeats->cache)
        ft_cache_feed(repeats->cache, batch, length);
}

static void simulate_array(struct ft_repeats *repeats, const struct ft_array_run *run)
{
    struct ft_array_stream stream;
    if (!repeats->cache)
        return;
    if (!ft_array_stream_of(&stream, run, repeats->cache)) {
        simulate_points(repeats, run, ft_cache_feed);
        return;
    }
    const uint64_t points = run->extent[0];
    const struct ft_array_run first = ft_array_part(run, 0, stream.first),
                              last = ft_array_part(run, points - stream.first, points);
    simulate_points(repeats, &first, ft_cache_feed);
    ft_array_stream_feed(&stream, run, repeats->cache);
    simulate_points(repeats, &last, ft_cache_feed_counted);
}

/* ---- items -------------------------------------------------------------------------------------------------------- */

/* Writes an array operation without its index. Returns the words it takes with it. */
static size_t encode(const struct ft_array_run *run, uint64_t *words, size_t *without_index)
{
    size_t n = 1;
    words[n++] = (uint64_t)run->num_dims << 32 | run->num_accesses;
    for (uint32_t d = 0; d < run->num_dims; d++)
        words[n++] = run->extent[d];
    for (uint32_t j = 0; j < run->num_accesses; j++) {
        const struct ft_array_access *access = &run->access[j];
        words[n++] = access->address;
        words[n++] = (uint64_t)access->is_indexed << 56 | (uint64_t)access->flags << 48 |
                     (uint64_t)access->size_bytes << 32 | access->op;
        for (uint32_t d = 0; d < run->num_dims; d++)
            words[n++] = (uint64_t)access->stride[d];
    }
    *without_index = n;
    n += run->index ? ft_array_run_points(run) : 0;
    words[0] = n | (run->index ? HAS_INDEX : 0);
    return n;
}

static void decode(const uint64_t *words, struct ft_array_run *run)
{
    const bool has_index = words[0] & HAS_INDEX;
    *run = (struct ft_array_run){.num_dims = (uint32_t)(words[1] >> 32), .num_accesses = (uint32_t)words[1]};
    words += 2;
    for (uint32_t d = 0; d < run->num_dims; d++)
        run->extent[d] = *words++;
    for (uint32_t j = 0; j < run->num_accesses; j++) {
        struct ft_array_access *access = &run->access[j];
        access->address = *words++;
        access->op = (uint32_t)*words;
        access->size_bytes = (uint16_t)(*words >> 32);
        access->flags = (uint8_t)(*words >> 48);
        access->is_indexed = *words++ >> 56;
        for (uint32_t d = 0; d < run->num_dims; d++)
            access->stride[d] = (int64_t)*words++;
    }
    run->index = has_index ? words : NULL;
}

struct item {
    bool is_access;
    struct ft_access access;
    struct ft_array_run run;
};

/* Returns where the next item is. */
static size_t read_item(const struct ft_repeats *repeats, size_t at, struct item *item)
{
    const uint64_t *words = repeats->log + at;
    item->is_access = *words & IS_ACCESS;
    if (item->is_access)
        memcpy(&item->access, words + 1, sizeof item->access);
    else
        decode(words, &item->run);
    return at + (*words & LENGTH);
}

static void simulate_items(struct ft_repeats *repeats, size_t begin, size_t end)
{
    struct item item;
    for (size_t at = begin; at < end;) {
        at = read_item(repeats, at, &item);
        if (item.is_access)
            simulate_accesses(repeats, &item.access, 1);
        else
            simulate_array(repeats, &item.run);
    }
}

/* The items once more for reuse alone: fed, or what is left of a repetition sampled. */
static void reuse_items(const struct ft_repeats *repeats, size_t begin, size_t end, bool is_fed)
{
    struct item item;
    for (size_t at = begin; at < end;) {
        at = read_item(repeats, at, &item);
        if (item.is_access && is_fed)
            ft_reuse_feed(repeats->reuse, &item.access, 1);
        else if (item.is_access)
            ft_reuse_sample(repeats->reuse, &item.access, 1, NULL, 0);
        else if (is_fed)
            ft_reuse_feed_array(repeats->reuse, &item.run);
        else
            ft_reuse_sample_array(repeats->reuse, &item.run);
    }
}

/* ---- the log ------------------------------------------------------------------------------------------------------ */

static void forget(struct ft_repeats *repeats)
{
    repeats->used = repeats->end = 0;
    repeats->is_measuring = false;
    repeats->epoch++;
}

/* Room for so many words at the end of the log, whose old contents may move; NULL if there is none. */
static uint64_t *make_room(struct ft_repeats *repeats, size_t words)
{
    if (repeats->used + words > repeats->capacity) {
        size_t capacity = repeats->capacity ? 2 * repeats->capacity : UINT64_C(1) << 14;
        while (capacity < repeats->used + words)
            capacity *= 2;
        uint64_t *grown = capacity <= MAX_LOG_WORDS ? realloc(repeats->log, capacity * sizeof *grown) : NULL;
        if (!grown)
            return NULL;
        repeats->log = grown;
        repeats->capacity = capacity;
    }
    return repeats->log + repeats->used;
}

/* Appends an item. Without a candidate, what is too old to be kept is forgotten to make room; with one, what does not
 * fit is missing from the log, which only makes it a worse guess. Returns whether it is in. */
static bool append(struct ft_repeats *repeats, const uint64_t *head, size_t head_words, const uint64_t *index,
                   size_t words)
{
    uint64_t *to = make_room(repeats, words);
    if (!to && !repeats->end) {
        forget(repeats);
        to = make_room(repeats, words);
    }
    if (!to)
        return false;
    memcpy(to, head, head_words * sizeof *to);
    if (index)
        memcpy(to + head_words, index, (words - head_words) * sizeof *to);
    repeats->used += words;
    return true;
}

static void append_access(struct ft_repeats *repeats, const struct ft_access *access)
{
    uint64_t item[ACCESS_WORDS] = {ACCESS_WORDS | IS_ACCESS};
    _Static_assert(sizeof *access == sizeof item - sizeof *item, "an access is two words");
    memcpy(item + 1, access, sizeof *access);
    append(repeats, item, ACCESS_WORDS, NULL, ACCESS_WORDS);
}

static bool is_at(const struct ft_repeats *repeats, size_t position, const uint64_t *head, size_t head_words,
                  const uint64_t *index, size_t words)
{
    const uint64_t *item = repeats->log + position;
    return item[0] == head[0] && memcmp(item, head, head_words * sizeof *head) == 0 &&
           (!index || memcmp(item + head_words, index, (words - head_words) * sizeof *head) == 0);
}

static uint64_t hash_of(const uint64_t *words, size_t n)
{
    uint64_t hash = n;
    for (size_t i = 0; i < n; i++) {
        hash = (hash ^ words[i]) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 32;
    }
    return hash;
}

/* ---- candidates --------------------------------------------------------------------------------------------------- */

static void settle_reuse(struct ft_repeats *repeats)
{
    if (!repeats->is_passing_reuse)
        return;
    repeats->is_passing_reuse = false;
    if (repeats->passed_by_reuse) {
        const uint64_t accesses = repeats->accesses / repeats->repetitions;
        const bool is_twice = ft_reuse_begin_replay(repeats->reuse, accesses, repeats->passed_by_reuse);
        reuse_items(repeats, repeats->begin, repeats->end, true);
        if (is_twice) {
            ft_reuse_count_replay(repeats->reuse, repeats->passed_by_reuse);
            reuse_items(repeats, repeats->begin, repeats->end, true);
        }
        ft_reuse_end_replay(repeats->reuse);
    }
    reuse_items(repeats, repeats->begin, repeats->cursor, false);
}

void ft_repeats_settle(struct ft_repeats *repeats)
{
    repeats->is_measuring = false;
    if (!repeats->is_skipping)
        return;
    settle_reuse(repeats);
    repeats->is_skipping = false;
    if (repeats->cache)
        ft_cache_add_misses(repeats->cache, repeats->misses, repeats->num_operations, repeats->passed);
    simulate_items(repeats, repeats->begin, repeats->cursor);
}

/* What was expected has not come. */
static void drop_candidate(struct ft_repeats *repeats)
{
    const bool is_logged = !repeats->is_skipping;
    const size_t words = repeats->cursor - repeats->begin;
    ft_repeats_settle(repeats);
    if (!is_logged && make_room(repeats, words)) {
        memcpy(repeats->log + repeats->used, repeats->log + repeats->begin, words * sizeof *repeats->log);
        repeats->used += words;
    }
    repeats->end = 0;
}

/* Copies what the cache has counted; false when memory ran out. */
static bool begin_measuring(struct ft_repeats *repeats)
{
    const size_t n = repeats->cache ? repeats->operations : 0, needed = n * repeats->num_levels;
    if (needed > repeats->misses_capacity) {
        uint64_t *grown = realloc(repeats->misses, needed * sizeof *grown);
        if (!grown)
            return false;
        repeats->misses = grown;
        repeats->misses_capacity = needed;
    }
    repeats->num_operations = n;
    for (size_t level = 0; n && level < repeats->num_levels; level++)
        memcpy(repeats->misses + level * n, ft_cache_misses(repeats->cache, level), n * sizeof *repeats->misses);
    return true;
}

static void end_measuring(struct ft_repeats *repeats)
{
    const size_t n = repeats->num_operations;
    for (size_t level = 0; level < repeats->num_levels; level++)
        for (size_t op = 0; op < n; op++)
            repeats->misses[level * n + op] =
                ft_cache_misses(repeats->cache, level)[op] - repeats->misses[level * n + op];
}

/* Goes over what has come as expected: `accesses` accesses, in `words` words of the log. */
static void advance(struct ft_repeats *repeats, size_t words, uint64_t accesses)
{
    repeats->accesses += accesses;
    repeats->cursor += words;
    if (repeats->cursor < repeats->end)
        return;
    repeats->cursor = repeats->begin;
    repeats->repetitions++;
    if (repeats->is_passing_reuse && ++repeats->passed_by_reuse == UINT32_MAX)
        settle_reuse(repeats);
    if (repeats->is_skipping) {
        repeats->passed++;
    } else if (repeats->is_measuring) {
        end_measuring(repeats);
        repeats->is_skipping = true;
        repeats->passed = 0;
    } else if (repeats->repetitions > repeats->max_depth &&
               repeats->accesses / COPY_COST >= repeats->operations * repeats->num_levels) {
        repeats->is_measuring = begin_measuring(repeats);
    }
}

/* ---- feeding ------------------------------------------------------------------------------------------------------ */

/* Whether reuse need not see what has come as expected, `accesses` accesses from the cursor on. */
static bool pass_reuse(struct ft_repeats *repeats, uint64_t accesses)
{
    if (!repeats->is_skipping)
        return false;
    if (!repeats->is_passing_reuse && repeats->cursor == repeats->begin && ft_reuse_can_pass(repeats->reuse)) {
        repeats->is_passing_reuse = true;
        repeats->passed_by_reuse = 0;
    }
    if (repeats->is_passing_reuse)
        ft_reuse_pass(repeats->reuse, accesses);
    return repeats->is_passing_reuse;
}

static void feed_cache_array(struct ft_repeats *repeats, const struct ft_array_run *run, bool *is_passing_reuse)
{
    const uint64_t accesses = ft_array_run_points(run) * run->num_accesses;
    uint64_t head[MAX_ITEM_WORDS];
    size_t head_words;
    *is_passing_reuse = false;
    if (repeats->num_levels == 0)
        return;
    const size_t words = encode(run, head, &head_words);
    const bool expected = repeats->end && is_at(repeats, repeats->cursor, head, head_words, run->index, words);
    repeats->is_active = true;
    repeats->accesses_between = 0;
    if (repeats->end && !expected)
        drop_candidate(repeats);
    if (!repeats->is_skipping) {
        simulate_array(repeats, run);
        const uint64_t hash = hash_of(head, head_words);
        struct place *place = &repeats->places[hash % PLACES];
        const struct place before = *place;
        if (append(repeats, head, head_words, run->index, words))
            *place = (struct place){hash, repeats->used - words, repeats->epoch};
        if (!repeats->end && before.hash == hash && before.epoch == repeats->epoch && place->epoch == before.epoch &&
            is_at(repeats, before.position, head, head_words, run->index, words)) {
            repeats->begin = repeats->cursor = before.position + words;
            repeats->end = repeats->used;
            repeats->repetitions = repeats->accesses = 0;
        }
    }
    *is_passing_reuse = repeats->reuse && expected && pass_reuse(repeats, accesses);
    if (expected)
        advance(repeats, words, accesses);
}

int ft_repeats_feed_array(struct ft_repeats *repeats, const struct ft_array_run *run)
{
    bool is_passing_reuse;
    feed_cache_array(repeats, run, &is_passing_reuse);
    if (!repeats->reuse)
        return 0;
    ft_reuse_set_repeating(repeats->reuse, repeats->is_skipping);
    return is_passing_reuse ? 0 : ft_reuse_feed_array(repeats->reuse, run);
}

/* How many of the accesses are those that are expected, up to the end of a repetition. */
static size_t count_expected(const struct ft_repeats *repeats, const struct ft_access *batch, size_t length)
{
    const uint64_t *item = repeats->log + repeats->cursor, *end = repeats->log + repeats->end;
    size_t n = 0;
    for (; n < length && item < end; n++, item += ACCESS_WORDS)
        if (*item != (ACCESS_WORDS | IS_ACCESS) || memcmp(item + 1, &batch[n], sizeof *batch) != 0)
            break;
    return n;
}

/* Where array operations are about. */
static int feed_active(struct ft_repeats *repeats, const struct ft_access *batch, size_t length, struct ft_reuse *reuse)
{
    while (length) {
        const size_t expected = repeats->end ? count_expected(repeats, batch, length) : 0;
        if (repeats->end && !expected)
            drop_candidate(repeats);
        const size_t part = expected ? expected : length;
        if (!repeats->is_skipping) {
            simulate_accesses(repeats, batch, part);
            for (size_t i = 0; i < part; i++)
                append_access(repeats, &batch[i]);
        }
        const bool is_passing_reuse = reuse && expected && pass_reuse(repeats, expected);
        if (expected)
            advance(repeats, expected * ACCESS_WORDS, expected);
        if (reuse && !is_passing_reuse && ft_reuse_feed(reuse, batch, part))
            return -1;
        batch += part;
        length -= part;
    }
    return 0;
}

static int feed(struct ft_repeats *repeats, const struct ft_access *batch, size_t length, struct ft_reuse *reuse)
{
    repeats->accesses_between += length;
    if (repeats->is_active && repeats->accesses_between > MAX_ACCESSES_BETWEEN) {
        ft_repeats_settle(repeats);
        forget(repeats);
        repeats->is_active = false;
    }
    if (repeats->is_active)
        return feed_active(repeats, batch, length, reuse);
    simulate_accesses(repeats, batch, length);
    return reuse ? ft_reuse_feed(reuse, batch, length) : 0;
}

int ft_repeats_feed(struct ft_repeats *repeats, const struct ft_access *batch, size_t length)
{
    return feed(repeats, batch, length, repeats->reuse);
}

void ft_repeats_feed_cache(struct ft_repeats *repeats, const struct ft_access *batch, size_t length)
{
    settle_reuse(repeats);
    feed(repeats, batch, length, NULL);
}
