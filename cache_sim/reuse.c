/* SHARDS: Waldspurger et al., "Efficient MRC Construction with SHARDS", FAST'15.
 *
 * A line is sampled if a hash of its address is at most `limit`, so all or none of its accesses are. The distance among
 * sampled lines, divided by the rate, estimates the distance among all lines. The rate only falls, always by half (so that
 * an access sampled at rate 2^-s stands for exactly 2^s accesses, and is counted as such):
 *  - on a fixed schedule from 1 to the wanted rate, so that short programs are measured exactly and long ones cheaply.
 *    The schedule looks at nothing but the number of accesses: a rule that looked at the cost would drop hot lines.
 *  - when more than MAX_LINES lines are tracked (section 3.2 of the paper, with halves for steps).
 * Lines above the new limit are forgotten. The order of those that stay, and so their distances, is not disturbed.
 *
 * Each tracked line has a slot: slots number the sampled accesses, and a bit is set in `marked` for those that are the
 * latest of their line. A distance is the number of marks above the line's slot: bits of a word, counts of the words in its
 * group, counts of the groups. When slots run out, the marked ones are renumbered from 0, in order.
 *
 * Invariants
 *  - words[i] is the number of bits in marked[i], groups[i] the sum over its GROUP words; all marks are below `next_slot`.
 *  - entries[0 .. num_lines) are the tracked lines, in no order; each has its own marked slot and is in `index`.
 *  - `index` is open addressing without deletions (it is rebuilt when the limit falls), at most half full. 0 is empty, n
 *    is entries[n - 1]. `histogram` likewise; key 0 is empty.
 */
#include "reuse.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define BATCH 1024u
#define MAX_LINES (1u << 16)
#define INDEX_BITS 17u
#define INDEX_SIZE (1u << INDEX_BITS)
#define NUM_SLOTS (4 * MAX_LINES)
#define NUM_WORDS (NUM_SLOTS / 64)
#define GROUP 64u
#define NUM_GROUPS (NUM_WORDS / GROUP)
#define ACCESSES_AT_FULL_RATE (UINT64_C(1) << 20)
#define MAX_DISTANCE ((UINT64_C(1) << 44) - 1)
#define EXACT_BINS 8u /* one distance each; above, BINS_PER_OCTAVE */
#define BINS_PER_OCTAVE 4u

#define UNLIKELY(x) __builtin_expect(!!(x), 0)

/* An access, or one line of an access that has several: then UNCOUNTED marks all but the last. */
#define UNCOUNTED 0x8000u
typedef struct ft_access sample;

struct entry {
    uint64_t line;
    uint64_t slot;
};

struct bucket {
    uint64_t key; /* 1 + op * 256 + bin */
    uint64_t accesses;
};

struct ft_reuse {
    uint64_t limit;
    unsigned line_shift;
    unsigned rate_shift;
    unsigned wanted_rate_shift;
    uint64_t num_accesses;
    size_t num_lines;
    uint64_t next_slot;
    uint64_t marked[NUM_WORDS];
    uint8_t words[NUM_WORDS];
    uint16_t groups[NUM_GROUPS];
    struct entry entries[MAX_LINES];
    uint32_t index[INDEX_SIZE];
    struct bucket *histogram;
    size_t histogram_size, histogram_used;
    sample samples[2 * BATCH];
};

/* Multiples of the golden ratio, modulo 1, as 64-bit fixed point. They spread consecutive lines (and rows and columns of
 * arrays) more evenly than chance would: of 512 lines in a row 32 are sampled at 1/16, give or take 1, where a hash that
 * looks random gives 32 +- 5. Lines in no order are sampled as by chance. */
static inline uint64_t hash(uint64_t line)
{
    return line * UINT64_C(0x9e3779b97f4a7c15);
}

static unsigned bin_of(uint64_t distance)
{
    if (distance < EXACT_BINS)
        return (unsigned)distance;
    if (distance > MAX_DISTANCE)
        distance = MAX_DISTANCE;
    unsigned exponent = 63u - (unsigned)__builtin_clzll(distance);
    return EXACT_BINS + (exponent - 3) * BINS_PER_OCTAVE + (unsigned)(distance >> (exponent - 2) & 3);
}

uint64_t ft_reuse_bin_edge(unsigned bin)
{
    if (bin < EXACT_BINS)
        return bin;
    unsigned exponent = 3 + (bin - EXACT_BINS) / BINS_PER_OCTAVE;
    return (uint64_t)(BINS_PER_OCTAVE + (bin - EXACT_BINS) % BINS_PER_OCTAVE) << (exponent - 2);
}

/* ---- histogram ---------------------------------------------------------------------------------------------------- */

static struct bucket *find_bucket(struct bucket *histogram, size_t size, uint64_t key)
{
    size_t i = (size_t)(hash(key) >> 32) & (size - 1);
    while (histogram[i].key && histogram[i].key != key)
        i = (i + 1) & (size - 1);
    return &histogram[i];
}

static int grow_histogram(struct ft_reuse *reuse)
{
    size_t size = reuse->histogram_size * 2;
    struct bucket *grown = calloc(size, sizeof *grown);
    if (!grown)
        return -1;
    for (size_t i = 0; i < reuse->histogram_size; i++)
        if (reuse->histogram[i].key)
            *find_bucket(grown, size, reuse->histogram[i].key) = reuse->histogram[i];
    free(reuse->histogram);
    reuse->histogram = grown;
    reuse->histogram_size = size;
    return 0;
}

static int count(struct ft_reuse *reuse, const sample *taken, unsigned bin)
{
    if (taken->flags & UNCOUNTED)
        return 0;
    uint64_t key = 1 + ((uint64_t)taken->op << 8 | bin);
    struct bucket *bucket = find_bucket(reuse->histogram, reuse->histogram_size, key);
    bucket->accesses += UINT64_C(1) << reuse->rate_shift;
    if (bucket->key)
        return 0;
    bucket->key = key;
    reuse->histogram_used++;
    return reuse->histogram_used * 2 > reuse->histogram_size ? grow_histogram(reuse) : 0;
}

/* ---- order of use ------------------------------------------------------------------------------------------------- */

static void set_mark(struct ft_reuse *reuse, uint64_t slot)
{
    reuse->marked[slot / 64] |= UINT64_C(1) << slot % 64;
    reuse->words[slot / 64]++;
    reuse->groups[slot / 64 / GROUP]++;
}

static void clear_mark(struct ft_reuse *reuse, uint64_t slot)
{
    reuse->marked[slot / 64] &= ~(UINT64_C(1) << slot % 64);
    reuse->words[slot / 64]--;
    reuse->groups[slot / 64 / GROUP]--;
}

static uint64_t marks_above(const struct ft_reuse *reuse, uint64_t slot)
{
    size_t word = slot / 64, group = word / GROUP;
    size_t last_word = reuse->next_slot / 64, last_group = last_word / GROUP;
    uint64_t marks = (uint64_t)__builtin_popcountll(reuse->marked[word] >> slot % 64 >> 1);
    size_t end = group == last_group ? last_word + 1 : (group + 1) * GROUP;
    for (size_t i = word + 1; i < end; i++)
        marks += reuse->words[i];
    for (size_t i = group + 1; i <= last_group; i++)
        marks += reuse->groups[i];
    return marks;
}

/* Renumbers the slots of tracked lines from 0. Lines that are no longer tracked must have lost their marks. */
static void renumber_slots(struct ft_reuse *reuse)
{
    static_assert(MAX_LINES <= NUM_SLOTS / 2 && MAX_LINES <= INDEX_SIZE / 2, "there is always room");
    uint32_t below[NUM_WORDS], marks = 0;
    for (size_t i = 0; i < NUM_WORDS; i++) {
        below[i] = marks;
        marks += reuse->words[i];
    }
    for (size_t i = 0; i < reuse->num_lines; i++) {
        uint64_t slot = reuse->entries[i].slot;
        uint64_t lower = reuse->marked[slot / 64] & ((UINT64_C(1) << slot % 64) - 1);
        reuse->entries[i].slot = below[slot / 64] + (uint64_t)__builtin_popcountll(lower);
    }
    memset(reuse->marked, 0, sizeof reuse->marked);
    memset(reuse->words, 0, sizeof reuse->words);
    memset(reuse->groups, 0, sizeof reuse->groups);
    for (uint64_t slot = 0; slot < marks; slot++)
        set_mark(reuse, slot);
    reuse->next_slot = marks;
}

/* ---- tracked lines ------------------------------------------------------------------------------------------------ */

static uint32_t *find_line(struct ft_reuse *reuse, uint64_t line, uint64_t line_hash)
{
    size_t i = (size_t)(line_hash << reuse->rate_shift >> (64 - INDEX_BITS)); /* the bits above are 0 */
    while (reuse->index[i] && reuse->entries[reuse->index[i] - 1].line != line)
        i = (i + 1) & (INDEX_SIZE - 1);
    return &reuse->index[i];
}

static void halve_rate(struct ft_reuse *reuse)
{
    reuse->rate_shift++;
    reuse->limit >>= 1;
    memset(reuse->index, 0, sizeof reuse->index);
    size_t kept = 0;
    for (size_t i = 0; i < reuse->num_lines; i++) {
        struct entry entry = reuse->entries[i];
        uint64_t line_hash = hash(entry.line);
        if (line_hash > reuse->limit) {
            clear_mark(reuse, entry.slot);
            continue;
        }
        reuse->entries[kept++] = entry;
        *find_line(reuse, entry.line, line_hash) = (uint32_t)kept;
    }
    reuse->num_lines = kept;
}

static int touch(struct ft_reuse *reuse, const sample *taken)
{
    uint64_t line = taken->address >> reuse->line_shift, line_hash = hash(line);
    if (UNLIKELY(line_hash > reuse->limit)) /* the limit fell after the sample was taken */
        return 0;
    uint32_t *number = find_line(reuse, line, line_hash);
    unsigned bin = FT_REUSE_FIRST_TOUCH;
    if (*number) {
        struct entry *entry = &reuse->entries[*number - 1];
        if (entry->slot == reuse->next_slot - 1)
            return count(reuse, taken, 0);
        bin = bin_of(marks_above(reuse, entry->slot) << reuse->rate_shift);
        clear_mark(reuse, entry->slot);
        entry->slot = reuse->next_slot;
    } else {
        while (reuse->num_lines == MAX_LINES) {
            if (reuse->rate_shift == FT_REUSE_MAX_RATE_SHIFT) /* only addresses chosen for their hash come here */
                return 0;
            halve_rate(reuse);
            if (line_hash > reuse->limit)
                return 0;
            number = find_line(reuse, line, line_hash);
        }
        reuse->entries[reuse->num_lines++] = (struct entry){line, reuse->next_slot};
        *number = (uint32_t)reuse->num_lines;
    }
    set_mark(reuse, reuse->next_slot++);
    if (reuse->next_slot == NUM_SLOTS)
        renumber_slots(reuse);
    return count(reuse, taken, bin);
}

static int touch_all(struct ft_reuse *reuse, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (touch(reuse, &reuse->samples[i]))
            return -1;
    return 0;
}

/* ---- accesses ----------------------------------------------------------------------------------------------------- */

/* All lines of an access are touched, in ascending order; the last one's distance is counted, as in a stream it is the
 * line that is new. Returns the new number of samples waiting, or -1 when memory ran out. */
static __attribute__((noinline)) ptrdiff_t sample_lines(struct ft_reuse *reuse, const struct ft_access *access,
                                                        size_t length)
{
    uint64_t last_byte = access->address + access->size_bytes - 1;
    if (last_byte < access->address)
        last_byte = UINT64_MAX - 1;
    uint64_t last_line = last_byte >> reuse->line_shift;
    for (uint64_t line = access->address >> reuse->line_shift; line <= last_line; line++) {
        if (hash(line) > reuse->limit)
            continue;
        uint16_t flags = line < last_line ? UNCOUNTED : 0;
        reuse->samples[length++] = (sample){line << reuse->line_shift, access->op, access->size_bytes, flags};
        if (length >= BATCH) { /* leave room for one sample for each access to come */
            if (touch_all(reuse, length))
                return -1;
            length = 0;
        }
    }
    return (ptrdiff_t)length;
}

static int feed_part(struct ft_reuse *reuse, const struct ft_access *batch, size_t num_accesses)
{
    const uint64_t line_bytes = UINT64_C(1) << reuse->line_shift, limit = reuse->limit;
    ptrdiff_t length = 0;
    for (size_t i = 0; i < num_accesses; i++) {
        uint64_t address = batch[i].address;
        if (UNLIKELY((address & (line_bytes - 1)) + batch[i].size_bytes > line_bytes)) {
            length = sample_lines(reuse, &batch[i], (size_t)length);
            if (length < 0)
                return -1;
            continue;
        }
        uint64_t line = address >> reuse->line_shift;
        reuse->samples[length] = batch[i];
        length += hash(line) <= limit;
    }
    return touch_all(reuse, (size_t)length);
}

int ft_reuse_feed(struct ft_reuse *reuse, const struct ft_access *batch, size_t length)
{
    while (length) {
        size_t part = length < BATCH ? length : BATCH;
        if (feed_part(reuse, batch, part))
            return -1;
        reuse->num_accesses += part;
        if (reuse->rate_shift < reuse->wanted_rate_shift &&
            reuse->num_accesses >> reuse->rate_shift >= ACCESSES_AT_FULL_RATE)
            halve_rate(reuse);
        batch += part;
        length -= part;
    }
    return 0;
}

/* ---- life and results --------------------------------------------------------------------------------------------- */

struct ft_reuse *ft_reuse_new(unsigned line_shift, unsigned rate_shift)
{
    struct ft_reuse *reuse = calloc(1, sizeof *reuse);
    if (!reuse)
        return NULL;
    reuse->limit = UINT64_MAX;
    reuse->line_shift = line_shift;
    reuse->wanted_rate_shift = rate_shift;
    reuse->histogram_size = 1024;
    reuse->histogram = calloc(reuse->histogram_size, sizeof *reuse->histogram);
    if (!reuse->histogram) {
        free(reuse);
        return NULL;
    }
    return reuse;
}

void ft_reuse_free(struct ft_reuse *reuse)
{
    if (!reuse)
        return;
    free(reuse->histogram);
    free(reuse);
}

unsigned ft_reuse_rate_shift(const struct ft_reuse *reuse)
{
    return reuse->rate_shift;
}

size_t ft_reuse_sampled_lines(const struct ft_reuse *reuse)
{
    return reuse->num_lines;
}

size_t ft_reuse_num_counts(const struct ft_reuse *reuse)
{
    return reuse->histogram_used;
}

int ft_reuse_next(const struct ft_reuse *reuse, size_t *position, struct ft_reuse_count *count)
{
    while (*position < reuse->histogram_size) {
        const struct bucket *bucket = &reuse->histogram[(*position)++];
        if (bucket->key) {
            count->op = (uint32_t)((bucket->key - 1) >> 8);
            count->bin = (uint32_t)((bucket->key - 1) & 0xff);
            count->accesses = bucket->accesses;
            return 1;
        }
    }
    return 0;
}
