/* Two samples of one stream, for caches whose ways are small and for those whose ways are large.
 *
 * Bursts: all accesses of a short time, from empty lists on, for ways of up to 512 KB and for small fully associative
 * caches (set_order.c, recency.c). A burst sees conflicts as they are, wherever in a set they happen. What it cannot tell
 * is how long ago a line was used that it sees for the first time. For that it has the other sample: a first use in a burst
 * that is sampled there too stands for all of them, and its distance is that one's, divided by the number of sets.
 *
 * Classes: all accesses to some of the 256-byte blocks modulo 1 MB, for ways from 1 MB on and for large fully associative
 * caches. Whole sets of such ways are sampled, so that distances within a set are exact; those among all lines are scaled
 * by the rate (Waldspurger et al., "Efficient MRC Construction with SHARDS", FAST'15).
 *
 * An access sampled at a rate of 1/n counts as n. Rates are chosen before what they are for is seen: from the number of
 * accesses until then, so that short programs are measured exactly and long ones cheaply, and from the work until then,
 * so that no program costs much. Each period of a stream (2^n bursts long) has one burst, somewhere in it. Classes only
 * become fewer, by half each time.
 *
 * Where the program does exactly the same again and again, bursts are as rare as can be: they would see the same. Or its
 * accesses are passed over altogether: then one repetition stands for as many, in classes and in bursts of its own (a
 * replay). A period's burst that would lie in what is passed over is left out; as it may lie anywhere, what the period has
 * besides is still represented as often as it should be, on average.
 *
 * A burst looks at ways below 4 KB and at fully associative caches only every SPARSE-th time: they need most work.
 *
 * Counts are kept as changes from one way size to the next: distances only become smaller, and most are 0 soon, or remain
 * beyond everything. `counts` is open addressing, at most half full; key 0 is empty.
 */
#define _GNU_SOURCE /* memrchr */
#include "reuse.h"

#include "array_walk.h"

#include <stdlib.h>
#include <string.h>

#define MAX_DISTANCE ((UINT64_C(1) << 44) - 1)
#define EXACT_BINS 8u /* one distance each; above, BINS_PER_OCTAVE */
#define BINS_PER_OCTAVE 4u
#define PART 1024u
#define FIT_INTERVAL 16384u /* accesses of a burst */
#define ARRAY_PART 16384u /* accesses of an array operation, of which only some are looked at */
#define LEAST_FAR_BYTES (UINT64_C(1) << 17) /* distances below are measured better in bursts */
#define REPEATING_SHIFT 2u /* smallest burst_shift at which bursts may become rarer where everything repeats */
#define LEAST_REPLAY_BURSTS 8u /* or as many as there is room for */
#define CHEAP_REPLAY_SHIFT 5u  /* the smallest shift in a replay that stands for itself alone; with n times it is log2(n) less, */
#define DEAR_REPLAY_SHIFT 8u   /* so that work grows as all accesses do, and not as those replayed */
#define SPARSE 4u
#define SPARSE_SHIFT 1u
#define MAX_BURSTS_UNWEIGHTED 32u /* so that 32 bits hold what they count */
#define ACCESSES_PER_WORK 32u /* one changed set for so many accesses, for bursts and for classes each */
#define ACCESSES_PER_FAR_WORK 32u
#define FREE_WORK (UINT64_C(1) << 23)
#define FREE_FAR_WORK (UINT64_C(1) << 21)
#define MRU_SETS 128u /* of 32-byte lines in the smallest way that every burst looks at */

#define RESOLVED (1u << 16) /* in a key: changes for first uses whose distance became known */

#define UNLIKELY(x) __builtin_expect(!!(x), 0)

struct bucket {
    uint64_t key; /* 1 + (op << 17 | resolved << 16 | bin << 7 | way << 2 | size) */
    int64_t accesses;
};

/* What bursts count for an operation, before it is weighted; changes from way to way. Ways count from 1 here. */
typedef int32_t near_counts[FT_LINE_SIZES][FT_NEAR_WAYS][FT_REUSE_NEAR_BINS];

/* What one burst counts for all operations; `resolved` are the changes for those first uses whose distance is known. */
struct burst_counts {
    int32_t sets[2][FT_LINE_SIZES][FT_NEAR_WAYS][FT_REUSE_NEAR_BINS];
    int32_t one_set[2][FT_LINE_SIZES][FT_REUSE_BINS];
    int32_t first_uses[FT_LINE_SIZES], resolved_uses[FT_LINE_SIZES];
};

/* The same as shares of the burst's accesses, for distances from each bin's edge on. */
struct burst_misses {
    double sets[FT_LINE_SIZES][FT_NEAR_WAYS][FT_REUSE_NEAR_BINS];
    double one_set[FT_LINE_SIZES][FT_REUSE_BINS];
};

enum phase { BEFORE_BURST, IN_BURST, AFTER_BURST };

/* One line size of an access: its distances by way. */
struct distances {
    uint16_t sets[FT_LAST_WAY + 1];
    uint64_t one_set;
    bool is_new;
};

/* Where the stream stands, kept while another is replayed. */
struct schedule {
    enum phase phase;
    bool all_ways, is_counted;
    uint64_t num_accesses, phase_end, period_end, burst_begin;
    unsigned burst_shift, next_burst_shift;
    int64_t weight, sparse_weight;
};

struct ft_reuse {
    struct ft_reuse_options options;
    struct ft_recency *near_lines, *far_lines;
    struct ft_near *near;
    struct ft_far *far;
    uint64_t num_accesses, random_state;
    /* bursts */
    enum phase phase;
    bool all_ways, is_counted, is_repeating;
    uint64_t phase_end, period_end, burst_begin;
    struct ft_reuse_period next_period, replay_period;
    bool is_replaying;
    unsigned replay_shift;
    int64_t times; /* that each access stands for: 1, or more in a replay */
    struct schedule stream; /* in a replay */
    unsigned burst_shift, next_burst_shift, bursts_unweighted;
    uint64_t num_bursts, burst_accesses, near_work, work_before, work_per_burst;
    int64_t weight, sparse_weight;
    uint64_t most_recent[FT_LINE_SIZES][MRU_SETS]; /* 1 + line, in sets of the first dense way */
    uint16_t present[FT_MAX_BLOCKS + 1];           /* lines of a block that the burst has seen, a bit each */
    uint64_t (*executions)[2];
    near_counts **near_counts;
    size_t num_operations;
    struct burst_counts burst;
    struct burst_misses last_burst;
    struct ft_reuse_variances variances;
    bool has_last[2]; /* a burst before this one, for dense and sparse ways */
    /* classes */
    unsigned class_shift;
    uint64_t far_work;
    uint8_t sampled[FT_NUM_CLASSES];
    ft_reuse_group groups[FT_REUSE_GROUPS];
    /* results */
    struct bucket *counts;
    size_t counts_size, counts_used;
    bool failed;
};

static const uint8_t near_bins[FT_NEAR_DEPTH] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  8,  9,  9,  10, 10, 11,
                                                11, 12, 12, 12, 12, 13, 13, 13, 13, 14, 14, 14, 14, 15, 15};

static inline unsigned near_bin(uint16_t distance)
{
    return distance < FT_NEAR_DEPTH ? near_bins[distance] : FT_REUSE_NEAR_BEYOND;
}

static unsigned bin_of(uint64_t distance)
{
    if (distance < EXACT_BINS)
        return (unsigned)distance;
    if (distance > MAX_DISTANCE)
        return FT_REUSE_BEYOND;
    unsigned exponent = 63u - (unsigned)__builtin_clzll(distance);
    return EXACT_BINS + (exponent - 3) * BINS_PER_OCTAVE + (unsigned)(distance >> (exponent - 2) & 3);
}

static inline unsigned wide_bin(unsigned near_bin)
{
    return near_bin == FT_REUSE_NEAR_BEYOND ? FT_REUSE_BEYOND : near_bin;
}

static inline unsigned far_bin(uint16_t distance)
{
    return distance == FT_BEYOND ? FT_REUSE_BEYOND : bin_of(distance);
}

uint64_t ft_reuse_bin_edge(unsigned bin)
{
    if (bin < EXACT_BINS)
        return bin;
    unsigned exponent = 3 + (bin - EXACT_BINS) / BINS_PER_OCTAVE;
    return (uint64_t)(BINS_PER_OCTAVE + (bin - EXACT_BINS) % BINS_PER_OCTAVE) << (exponent - 2);
}

/* ---- counts ------------------------------------------------------------------------------------------------------- */

static struct bucket *find_bucket(struct bucket *counts, size_t size, uint64_t key)
{
    size_t i = (size_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (size - 1);
    while (counts[i].key && counts[i].key != key)
        i = (i + 1) & (size - 1);
    return &counts[i];
}

static void grow_counts(struct ft_reuse *reuse)
{
    size_t size = reuse->counts_size * 2;
    struct bucket *grown = calloc(size, sizeof *grown);
    if (!grown) {
        reuse->failed = true;
        reuse->counts_used--; /* as long as there is one empty bucket, look-ups end */
        return;
    }
    for (size_t i = 0; i < reuse->counts_size; i++)
        if (reuse->counts[i].key)
            *find_bucket(grown, size, reuse->counts[i].key) = reuse->counts[i];
    free(reuse->counts);
    reuse->counts = grown;
    reuse->counts_size = size;
}

static void count(struct ft_reuse *reuse, uint32_t op, unsigned size, unsigned way, unsigned bin, int64_t accesses)
{
    uint64_t key = 1 + ((uint64_t)op << 17 | (size & RESOLVED) | bin << 7 | way << 2 | (size & 3));
    struct bucket *bucket = find_bucket(reuse->counts, reuse->counts_size, key);
    bucket->accesses += accesses;
    if (bucket->key || reuse->failed)
        return;
    bucket->key = key;
    if (++reuse->counts_used * 2 > reuse->counts_size)
        grow_counts(reuse);
}

/* Ways first .. last of an access get `factor` accesses more. Where `counts` is NULL, it is one of resolved distance. */
static void count_near_sets(struct ft_reuse *reuse, uint32_t op, near_counts *counts, unsigned size, unsigned first,
                            unsigned last, const uint16_t *distances, int32_t factor)
{
    int64_t weight = first < FT_REUSE_DENSE_WAY ? reuse->sparse_weight : reuse->weight;
    unsigned before = 0;
    for (unsigned way = first; way <= last; way++) {
        unsigned bin = near_bin(distances[way]);
        for (int i = 0; i < 2 && bin != before; i++) {
            unsigned changed = i ? bin : before;
            int32_t change = i ? factor : -factor;
            if (!changed)
                continue;
            reuse->burst.sets[!counts][size][way - 1][changed] += change;
            if (counts)
                (*counts)[size][way - 1][changed] += change;
            else
                count(reuse, op, RESOLVED | size, way, wide_bin(changed), change * weight);
        }
        before = bin;
        if (!bin)
            return;
    }
}

/* Of known accesses, or with `factor` -1 and 1 of those whose distance becomes known. */
static void count_near_access(struct ft_reuse *reuse, uint32_t op, near_counts *counts, unsigned size,
                              const struct distances *found, int32_t factor)
{
    count_near_sets(reuse, op, counts, size, FT_REUSE_DENSE_WAY, FT_NEAR_WAYS, found->sets, factor);
    if (!reuse->all_ways)
        return;
    count_near_sets(reuse, op, counts, size, 1, FT_REUSE_DENSE_WAY - 1, found->sets, factor);
    if (found->one_set) {
        unsigned bin = bin_of(found->one_set);
        reuse->burst.one_set[!counts][size][bin] += factor;
        count(reuse, op, (counts ? 0 : RESOLVED) | size, FT_REUSE_ONE_SET_NEAR, bin, factor * reuse->sparse_weight);
    }
}

/* Moves an operation's near counts, weighted, to `counts`. */
static void weight_counts(struct ft_reuse *reuse, uint32_t op, near_counts *counts)
{
    for (unsigned size = 0; size < FT_LINE_SIZES; size++)
        for (unsigned way = 1; way <= FT_NEAR_WAYS; way++)
            for (unsigned bin = 0; bin < FT_REUSE_NEAR_BINS; bin++) {
                int64_t accesses = (*counts)[size][way - 1][bin];
                if (accesses)
                    count(reuse, op, size, way, wide_bin(bin),
                          accesses * (way < FT_REUSE_DENSE_WAY ? reuse->sparse_weight : reuse->weight));
            }
    memset(counts, 0, sizeof *counts);
}

static void weight_near_counts(struct ft_reuse *reuse)
{
    reuse->bursts_unweighted = 0;
    for (size_t op = 0; op < reuse->num_operations; op++)
        if (reuse->near_counts[op])
            weight_counts(reuse, (uint32_t)op, reuse->near_counts[op]);
}

static void count_far(struct ft_reuse *reuse, uint32_t op, unsigned group, unsigned size, unsigned way, unsigned bin,
                      int64_t factor)
{
    const int64_t accesses = factor * reuse->times * (INT64_C(1) << reuse->class_shift);
    if (reuse->class_shift)
        reuse->groups[group][size][way - FT_FAR_WAY][bin] += (double)accesses;
    count(reuse, op, size, way, bin, accesses);
}

static void count_far_access(struct ft_reuse *reuse, uint32_t op, unsigned group, unsigned size, int64_t times,
                             const struct distances *found)
{
    unsigned before = 0;
    for (unsigned way = FT_FAR_WAY; way <= FT_LAST_WAY && found->sets[FT_FAR_WAY]; way++) {
        unsigned bin = far_bin(found->sets[way]);
        if (bin != before && before)
            count_far(reuse, op, group, size, way, before, -times);
        if (bin != before && bin)
            count_far(reuse, op, group, size, way, bin, times);
        before = bin;
    }
    if (found->one_set >= LEAST_FAR_BYTES >> (FT_LINE_SHIFT + size))
        count_far(reuse, op, group, size, FT_REUSE_ONE_SET_FAR, bin_of(found->one_set), times);
}

/* ---- classes ------------------------------------------------------------------------------------------------------ */

static const uint8_t first_bit[FT_LINE_SIZES] = {0, 8, 12, 14};

/* A permutation of classes in no order that a program's strides could agree with. */
static unsigned rank_of(uint64_t block)
{
    unsigned x = (unsigned)block & (FT_NUM_CLASSES - 1);
    x = (x ^ x >> 6) * 2531 & (FT_NUM_CLASSES - 1);
    x = (x ^ x >> 5) * 1945 & (FT_NUM_CLASSES - 1);
    return x ^ x >> 6;
}

static bool is_sampled(uint64_t block, const void *context)
{
    return ((const struct ft_reuse *)context)->sampled[block & (FT_NUM_CLASSES - 1)];
}

static void halve_classes(struct ft_reuse *reuse)
{
    reuse->class_shift++;
    for (unsigned class = 0; class < FT_NUM_CLASSES; class++)
        if (reuse->sampled[class] && rank_of(class) >= FT_NUM_CLASSES >> reuse->class_shift) {
            reuse->sampled[class] = 0;
            ft_far_clear_class(reuse->far, class);
        }
    ft_recency_filter(reuse->far_lines, is_sampled, reuse);
}

/* Whether there are more classes than the accesses until now call for. */
static bool samples_too_many(const struct ft_reuse *reuse)
{
    if (reuse->class_shift == FT_REUSE_MAX_CLASS_SHIFT)
        return false;
    return (reuse->class_shift < reuse->options.class_shift &&
            reuse->num_accesses >> (reuse->class_shift - reuse->options.first_class_shift) >= reuse->options.exact_accesses) ||
           reuse->far_work > FREE_FAR_WORK + reuse->num_accesses / ACCESSES_PER_FAR_WORK;
}

static uint64_t scaled(const struct ft_reuse *reuse, uint64_t distance)
{
    return distance > MAX_DISTANCE >> reuse->class_shift ? FT_NEW_LINE : distance << reuse->class_shift;
}

/* One block of an access. Returns whether it is sampled; then `found` has the distances for each line size. */
static bool touch_far(struct ft_reuse *reuse, uint64_t first_byte, uint64_t last_byte, uint32_t times,
                      struct distances *found)
{
    uint64_t block = first_byte >> FT_BLOCK_SHIFT;
    uint32_t number = 0;
    while (is_sampled(block, reuse) && !(number = ft_recency_block(reuse->far_lines, block))) {
        if (reuse->class_shift == FT_REUSE_MAX_CLASS_SHIFT)
            return false; /* more than 8 GB are in use */
        halve_classes(reuse);
    }
    if (!number)
        return false;
    for (unsigned size = 0; size < FT_LINE_SIZES; size++) {
        unsigned shift = FT_LINE_SHIFT + size, mask = 7u >> size;
        found[size] = (struct distances){{0}, 0, false};
        for (uint64_t line = first_byte >> shift; line <= last_byte >> shift; line++) {
            uint64_t distance = ft_recency_touch(reuse->far_lines, number, size, (unsigned)line & mask);
            if (distance == 0)
                continue; /* the most recent line of all is that of its sets, too */
            bool is_new = distance == FT_NEW_LINE;
            reuse->far_work += times * (1 + ft_far_touch(reuse->far, size, line << shift, is_new, found[size].sets));
            distance = scaled(reuse, distance);
            if (distance > found[size].one_set)
                found[size].one_set = distance;
        }
    }
    return true;
}

/* An access has the distances of its last block: in a stream, that is the one that is new. Returns whether they are
 * known. */
static bool sample_access(struct ft_reuse *reuse, const struct ft_access *access, uint32_t times, struct distances *found)
{
    uint64_t last_byte = access->address + access->size_bytes - 1, block_mask = (UINT64_C(1) << FT_BLOCK_SHIFT) - 1;
    bool known = false;
    for (uint64_t first = access->address;; first = (first | block_mask) + 1) {
        uint64_t last = (first | block_mask) < last_byte ? first | block_mask : last_byte;
        known = touch_far(reuse, first, last, times, found);
        if (last == last_byte)
            break;
    }
    unsigned group = rank_of(last_byte >> FT_BLOCK_SHIFT) % FT_REUSE_GROUPS;
    for (unsigned size = 0; known && size < FT_LINE_SIZES; size++)
        count_far_access(reuse, access->op, group, size, times, &found[size]);
    return known;
}

/* ---- bursts ------------------------------------------------------------------------------------------------------- */

/* The lines of one size of an access, all in one block; in a burst that looks at dense ways only. */
static void touch_dense(struct ft_reuse *reuse, uint32_t number, unsigned size, uint64_t first_line, uint64_t last_line,
                        struct distances *found)
{
    unsigned shift = FT_LINE_SHIFT + size, mask = 7u >> size;
    for (uint64_t line = first_line; line <= last_line; line++) {
        uint64_t *most_recent = &reuse->most_recent[size][line & ((MRU_SETS >> size) - 1)];
        if (*most_recent == line + 1)
            continue;
        *most_recent = line + 1;
        uint16_t bit = (uint16_t)(1u << (first_bit[size] + ((unsigned)line & mask)));
        bool is_new = !(reuse->present[number] & bit);
        reuse->present[number] |= bit;
        found->is_new |= is_new;
        reuse->near_work += ft_near_touch(reuse->near, size, line << shift, number, is_new, FT_REUSE_DENSE_WAY, found->sets);
    }
}

static void touch_all_ways(struct ft_reuse *reuse, uint32_t number, unsigned size, uint64_t first_line,
                           uint64_t last_line, struct distances *found)
{
    unsigned shift = FT_LINE_SHIFT + size, mask = 7u >> size;
    for (uint64_t line = first_line; line <= last_line; line++) {
        size_t known_lines = ft_recency_lines(reuse->near_lines, size);
        uint64_t distance = ft_recency_touch(reuse->near_lines, number, size, (unsigned)line & mask);
        if (distance == 0)
            continue;
        bool is_new = distance == FT_NEW_LINE;
        found->is_new |= is_new;
        reuse->near_work += 2 + ft_near_touch(reuse->near, size, line << shift, number, is_new, 1, found->sets);
        distance = is_new ? known_lines : distance;
        if (distance > found->one_set)
            found->one_set = distance;
    }
}

/* Whether the lines, of all sizes, that an access in one line of 32 bytes touches are the most recent ones of their sets. */
static inline bool repeats(const struct ft_reuse *reuse, uint64_t address)
{
    uint64_t changed = 0;
    for (unsigned size = 0; size < FT_LINE_SIZES; size++) {
        uint64_t line = address >> (FT_LINE_SHIFT + size);
        changed |= reuse->most_recent[size][line & ((MRU_SETS >> size) - 1)] ^ (line + 1);
    }
    return !changed;
}

/* One block of an access. Returns false if there is no room for it. */
static bool touch_near(struct ft_reuse *reuse, uint64_t first_byte, uint64_t last_byte, struct distances *found)
{
    uint32_t number = ft_recency_block(reuse->near_lines, first_byte >> FT_BLOCK_SHIFT);
    if (!number)
        return false;
    for (unsigned size = 0; size < FT_LINE_SIZES; size++) {
        found[size] = (struct distances){{0}, 0, false};
        uint64_t first_line = first_byte >> (FT_LINE_SHIFT + size), last_line = last_byte >> (FT_LINE_SHIFT + size);
        (reuse->all_ways ? touch_all_ways : touch_dense)(reuse, number, size, first_line, last_line, &found[size]);
    }
    return true;
}

/* The distances of a line that is new to the burst, by those on the sampled classes. */
static void resolve(struct distances *near, unsigned size, uint64_t one_set)
{
    if (one_set > near->one_set)
        near->one_set = one_set;
    for (unsigned way = 1; way <= FT_NEAR_WAYS; way++) {
        uint64_t distance = one_set == FT_NEW_LINE ? FT_BEYOND : one_set >> (way + 7 - FT_LINE_SHIFT - size);
        if (distance > near->sets[way])
            near->sets[way] = distance < FT_BEYOND ? (uint16_t)distance : FT_BEYOND;
    }
}

static near_counts *counts_of(struct ft_reuse *reuse, uint32_t op)
{
    near_counts **counts = &reuse->near_counts[op];
    if (!*counts && !(*counts = calloc(1, sizeof **counts)))
        reuse->failed = true;
    return *counts;
}

/* Bin 0 has no distances to count: it holds an operation's first uses, and how many those that are resolved stand for. */
static void count_first_use(struct ft_reuse *reuse, near_counts *counts, unsigned size, int32_t resolved)
{
    reuse->burst.first_uses[size]++;
    reuse->burst.resolved_uses[size] += resolved;
    (*counts)[size][FT_REUSE_DENSE_WAY - 1][0]++;
    (*counts)[size][FT_REUSE_DENSE_WAY][0] += resolved;
    (*counts)[size][0][0] += reuse->all_ways;
    (*counts)[size][1][0] += reuse->all_ways ? resolved : 0;
}

/* `far` is NULL if the access is not in a sampled class. */
static void count_burst_access(struct ft_reuse *reuse, uint32_t op, struct distances *near, const struct distances *far)
{
    bool is_first = reuse->num_bursts == 0;
    near_counts *counts = counts_of(reuse, op);
    int32_t sampled_for = INT32_C(1) << reuse->class_shift;
    for (unsigned size = 0; counts && size < FT_LINE_SIZES; size++) {
        if (near[size].is_new && is_first)
            resolve(&near[size], size, FT_NEW_LINE);
        count_near_access(reuse, op, counts, size, &near[size], 1);
        if (!near[size].is_new || is_first)
            continue;
        count_first_use(reuse, counts, size, far ? sampled_for : 0);
        if (!far)
            continue;
        count_near_access(reuse, op, NULL, size, &near[size], -sampled_for);
        resolve(&near[size], size, far[size].one_set);
        count_near_access(reuse, op, NULL, size, &near[size], sampled_for);
    }
}

static bool burst_access(struct ft_reuse *reuse, const struct ft_access *access)
{
    struct distances near[FT_LINE_SIZES], far[FT_LINE_SIZES];
    uint64_t last_byte = access->address + access->size_bytes - 1, block_mask = (UINT64_C(1) << FT_BLOCK_SHIFT) - 1;
    bool far_known = (is_sampled(access->address >> FT_BLOCK_SHIFT, reuse) ||
                      is_sampled(last_byte >> FT_BLOCK_SHIFT, reuse) || access->size_bytes > block_mask) &&
                     sample_access(reuse, access, 1, far);
    if (!reuse->all_ways && access->address >> FT_LINE_SHIFT == last_byte >> FT_LINE_SHIFT &&
        repeats(reuse, access->address))
        return true;
    for (uint64_t first = access->address;; first = (first | block_mask) + 1) {
        uint64_t last = (first | block_mask) < last_byte ? first | block_mask : last_byte;
        if (!touch_near(reuse, first, last, near))
            return false;
        if (last == last_byte)
            break;
    }
    if (reuse->is_counted)
        count_burst_access(reuse, access->op, near, far_known ? far : NULL);
    return true;
}

static bool reserve_operations(struct ft_reuse *reuse, uint32_t op)
{
    if (op < reuse->num_operations)
        return true;
    size_t before = reuse->num_operations, number = ((size_t)op + 1) * 2;
    void *executions = realloc(reuse->executions, number * sizeof *reuse->executions);
    if (executions)
        reuse->executions = executions;
    void *counts = realloc(reuse->near_counts, number * sizeof *reuse->near_counts);
    if (counts)
        reuse->near_counts = counts;
    if (!executions || !counts)
        return false;
    memset(reuse->executions + before, 0, (number - before) * sizeof *reuse->executions);
    for (size_t i = before; i < number; i++)
        reuse->near_counts[i] = NULL;
    reuse->num_operations = number;
    return true;
}

/* Returns how many of the accesses were looked at: fewer than given when there is no room for more blocks. */
static size_t burst_part(struct ft_reuse *reuse, const struct ft_access *batch, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (!reserve_operations(reuse, batch[i].op)) {
            reuse->failed = true;
            return i;
        }
        if (reuse->is_counted) {
            reuse->executions[batch[i].op][0] += (uint64_t)reuse->weight;
            if (reuse->all_ways)
                reuse->executions[batch[i].op][1] += (uint64_t)reuse->sparse_weight;
        }
        if (!burst_access(reuse, &batch[i]))
            return i + 1;
    }
    return length;
}

/* ---- periods ------------------------------------------------------------------------------------------------------ */

static uint64_t random_below(struct ft_reuse *reuse, uint64_t limit)
{
    uint64_t z = reuse->random_state += UINT64_C(0x9e3779b97f4a7c15); /* splitmix64 */
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (z ^ z >> 31) % limit;
}

static void begin_burst(struct ft_reuse *reuse, uint64_t length)
{
    reuse->phase = IN_BURST;
    reuse->burst_begin = reuse->num_accesses;
    reuse->phase_end = reuse->num_accesses + length;
    reuse->work_before = reuse->near_work;
    ft_near_clear(reuse->near);
    ft_recency_clear(reuse->near_lines);
    memset(reuse->most_recent, 0, sizeof reuse->most_recent);
    memset(reuse->present, 0, sizeof reuse->present);
}

static bool bursts_are_dear(const struct ft_reuse *reuse, uint64_t accesses)
{
    return reuse->near_work > FREE_WORK + accesses / ACCESSES_PER_WORK;
}

/* The rate for the period to come: that of options once there are accesses enough, less where that would be too dear. It
 * rises again only if it may rise much: each change costs time. */
static unsigned next_burst_shift(const struct ft_reuse *reuse, uint64_t accesses)
{
    unsigned shift = 0;
    if (reuse->is_replaying)
        return reuse->replay_shift;
    if (reuse->is_repeating && reuse->options.burst_shift >= REPEATING_SHIFT)
        return FT_REUSE_MAX_BURST_SHIFT;
    while (shift < reuse->options.burst_shift && reuse->options.exact_accesses << shift <= accesses)
        shift++;
    const bool is_dear = bursts_are_dear(reuse, accesses);
    while (shift < FT_REUSE_MAX_BURST_SHIFT && is_dear &&
           reuse->work_per_burst * ACCESSES_PER_WORK > reuse->options.burst_accesses << shift)
        shift++;
    return shift == reuse->burst_shift - 1 ? reuse->burst_shift : shift;
}

/* The stream's own is read by other threads. */
static struct ft_reuse_period *planned_period(struct ft_reuse *reuse)
{
    return reuse->is_replaying ? &reuse->replay_period : &reuse->next_period;
}

static void plan_period(struct ft_reuse *reuse, uint64_t begin)
{
    reuse->next_burst_shift = next_burst_shift(reuse, begin);
    const uint64_t length = reuse->options.burst_accesses << reuse->next_burst_shift;
    const uint64_t burst_begin = begin + random_below(reuse, length - reuse->options.burst_accesses + 1);
    *planned_period(reuse) = (struct ft_reuse_period){
        .burst_begin = burst_begin,
        .burst_end = burst_begin + reuse->options.warm_accesses + reuse->options.burst_accesses,
        .end = begin + length + reuse->options.warm_accesses,
    };
}

static void begin_period(struct ft_reuse *reuse)
{
    const unsigned burst_shift = reuse->burst_shift = reuse->next_burst_shift;
    const unsigned sparse = burst_shift < SPARSE_SHIFT || reuse->is_replaying ? 1 : SPARSE; /* a replay has few bursts */
    int64_t weight = reuse->times << burst_shift, sparse_weight = weight * sparse;
    if (weight != reuse->weight || sparse_weight != reuse->sparse_weight ||
        reuse->bursts_unweighted == MAX_BURSTS_UNWEIGHTED)
        weight_near_counts(reuse);
    reuse->all_ways = reuse->num_bursts % sparse == 0;
    reuse->weight = weight;
    reuse->sparse_weight = sparse_weight;
    reuse->phase = BEFORE_BURST;
    reuse->period_end = planned_period(reuse)->end;
    reuse->phase_end = planned_period(reuse)->burst_begin;
}

static void add_differences(double *variances, double *last, const double *misses, size_t number, double factor)
{
    for (size_t i = 0; i < number; i++) {
        double difference = misses[i] - last[i];
        variances[i] += factor * difference * difference;
        last[i] = misses[i];
    }
}

/* Turns changes by way into shares of the burst's accesses, for distances from each bin's edge on. */
static void sum_burst(const struct burst_counts *burst, double accesses, struct burst_misses *misses)
{
    for (unsigned size = 0; size < FT_LINE_SIZES; size++) {
        double above = 0, known = 1 / accesses;
        double resolved = burst->resolved_uses[size]
                              ? (double)burst->first_uses[size] / burst->resolved_uses[size] / accesses
                              : 0;
        for (unsigned bin = FT_REUSE_BINS; bin-- > 0;)
            misses->one_set[size][bin] = above += burst->one_set[0][size][bin] * known +
                                                  burst->one_set[1][size][bin] * resolved;
        for (unsigned way = 1; way <= FT_NEAR_WAYS; way++) {
            bool is_first = way == 1 || way == FT_REUSE_DENSE_WAY;
            above = 0;
            for (unsigned bin = FT_REUSE_NEAR_BINS; bin-- > 0;) {
                above += burst->sets[0][size][way - 1][bin] * known + burst->sets[1][size][way - 1][bin] * resolved;
                misses->sets[size][way - 1][bin] = above + (is_first ? 0 : misses->sets[size][way - 2][bin]);
            }
        }
    }
}

/* Variance of a sum over periods of which one burst each is known, from the differences of successive ones: Wolter,
 * "Introduction to Variance Estimation", section 8.2, estimator v2. */
static void add_variances(struct ft_reuse *reuse, const struct burst_misses *misses)
{
    double burst = (double)reuse->options.burst_accesses;
    for (unsigned sparse = 0; sparse <= (unsigned)reuse->all_ways; sparse++) {
        double weight = (double)(sparse ? reuse->sparse_weight : reuse->weight);
        double unknown = weight - (double)reuse->times; /* what the burst stands for besides itself and its repetitions */
        double factor = reuse->has_last[sparse] ? 0.5 * weight * unknown * burst * burst : 0;
        unsigned way = sparse ? 1 : FT_REUSE_DENSE_WAY, last_way = sparse ? FT_REUSE_DENSE_WAY - 1 : FT_NEAR_WAYS;
        for (unsigned size = 0; size < FT_LINE_SIZES; size++) {
            add_differences(reuse->variances.sets[size][way - 1], reuse->last_burst.sets[size][way - 1],
                            misses->sets[size][way - 1], (last_way - way + 1) * FT_REUSE_NEAR_BINS, factor);
            if (sparse)
                add_differences(reuse->variances.one_set[size], reuse->last_burst.one_set[size], misses->one_set[size],
                                FT_REUSE_BINS, factor);
        }
        reuse->has_last[sparse] = true;
    }
}

static void end_burst(struct ft_reuse *reuse)
{
    uint64_t length = reuse->num_accesses - reuse->burst_begin, work = reuse->near_work - reuse->work_before;
    bool is_first = reuse->num_bursts == 0;
    if (!is_first) {
        struct burst_misses misses;
        sum_burst(&reuse->burst, (double)length, &misses);
        add_variances(reuse, &misses);
        reuse->work_per_burst = reuse->num_bursts > 1 ? (3 * reuse->work_per_burst + work) / 4 : work;
    }
    memset(&reuse->burst, 0, sizeof reuse->burst);
    reuse->burst_accesses += length;
    reuse->num_bursts++;
    reuse->bursts_unweighted++;
    reuse->phase = AFTER_BURST;
    reuse->phase_end = is_first ? reuse->num_accesses : reuse->period_end;
    plan_period(reuse, reuse->phase_end);
}

/* Classes are looked at when a phase is over, and now and then in a long burst: not where one batch happens to end. */
static void fit_classes(struct ft_reuse *reuse)
{
    while (!reuse->is_replaying && samples_too_many(reuse))
        halve_classes(reuse);
}

static void next_phase(struct ft_reuse *reuse)
{
    fit_classes(reuse);
    if (reuse->phase == BEFORE_BURST) {
        begin_burst(reuse, reuse->options.warm_accesses);
        reuse->is_counted = false;
    } else if (reuse->phase == IN_BURST && !reuse->is_counted) {
        reuse->is_counted = true;
        reuse->burst_begin = reuse->num_accesses;
        reuse->phase_end = reuse->num_accesses + reuse->options.burst_accesses;
    } else if (reuse->phase == IN_BURST)
        end_burst(reuse);
    else
        begin_period(reuse);
}

/* A phase is over with its last access, not with the first behind it: the next burst is then planned. */
static void advance(struct ft_reuse *reuse, uint64_t accesses)
{
    reuse->num_accesses += accesses;
    while (reuse->num_accesses == reuse->phase_end)
        next_phase(reuse);
}

/* ---- accesses ----------------------------------------------------------------------------------------------------- */

/* Writes which accesses may be in sampled classes. Returns how many they are. */
static size_t choose(const struct ft_reuse *reuse, const struct ft_access *batch, size_t length, uint16_t *chosen)
{
    size_t num_chosen = 0;
    for (size_t i = 0; i < length; i++) {
        uint64_t address = batch[i].address;
        bool spans = (address & ((1u << FT_BLOCK_SHIFT) - 1)) + batch[i].size_bytes > 1u << FT_BLOCK_SHIFT;
        chosen[num_chosen] = (uint16_t)i;
        num_chosen += reuse->sampled[address >> FT_BLOCK_SHIFT & (FT_NUM_CLASSES - 1)] | spans;
    }
    return num_chosen;
}

/* Between bursts only those are looked at. */
static void sample_part(struct ft_reuse *reuse, const struct ft_access *batch, size_t length)
{
    uint16_t chosen[PART];
    struct distances found[FT_LINE_SIZES];
    const size_t num_chosen = choose(reuse, batch, length, chosen);
    for (size_t i = 0; i < num_chosen; i++)
        sample_access(reuse, &batch[chosen[i]], 1, found);
}

int ft_reuse_feed(struct ft_reuse *reuse, const struct ft_access *batch, size_t length)
{
    while (length && !reuse->failed) {
        uint64_t left = reuse->phase_end - reuse->num_accesses;
        size_t part = length < PART ? length : PART;
        part = part < left ? part : (size_t)left;
        left = FIT_INTERVAL - reuse->num_accesses % FIT_INTERVAL;
        part = part < left ? part : (size_t)left;
        if (reuse->phase == IN_BURST) {
            size_t done = burst_part(reuse, batch, part);
            if (done < part)
                reuse->phase_end = reuse->num_accesses + done;
            part = done;
        } else {
            sample_part(reuse, batch, part);
        }
        advance(reuse, part);
        if (reuse->phase == IN_BURST && reuse->num_accesses % FIT_INTERVAL == 0)
            fit_classes(reuse);
        batch += part;
        length -= part;
    }
    return reuse->failed ? -1 : 0;
}

/* How many points in a row, of `points` at most, begin before an access that goes `stride` bytes on each time touches a
 * sampled block, if that of the first has its first byte at `address`. Its own block's end may count as one. */
static uint64_t unsampled_points(const struct ft_reuse *reuse, uint64_t address, uint64_t size_bytes, int64_t stride,
                                 uint64_t points)
{
    const uint64_t first = address >> FT_BLOCK_SHIFT, last = (address + size_bytes - 1) >> FT_BLOCK_SHIFT;
    const uint64_t step = stride < 0 ? -(uint64_t)stride : (uint64_t)stride;
    if (first != last || is_sampled(first, reuse))
        return 0;
    if (step == 0)
        return points;
    if (step >> FT_BLOCK_SHIFT)
        return 1;
    const uint64_t blocks = (points * step >> FT_BLOCK_SHIFT) + 1, class = first & (FT_NUM_CLASSES - 1);
    uint64_t bytes; /* that it may go on for */
    if (stride > 0) {
        const uint64_t seen = blocks < FT_NUM_CLASSES - class ? blocks : FT_NUM_CLASSES - class;
        const uint8_t *next = memchr(reuse->sampled + class, 1, seen);
        const uint64_t clear = next ? (uint64_t)(next - (reuse->sampled + class)) : seen;
        bytes = ((first + clear) << FT_BLOCK_SHIFT) - (address + size_bytes);
    } else {
        const uint64_t seen = blocks < class + 1 ? blocks : class + 1;
        const uint8_t *next = memrchr(reuse->sampled + class + 1 - seen, 1, seen);
        const uint64_t clear = next ? (uint64_t)(reuse->sampled + class - next) : seen;
        bytes = address - ((first + 1 - clear) << FT_BLOCK_SHIFT);
    }
    return bytes / step + 1 < points ? bytes / step + 1 : points;
}

/* The same for an indexed access. */
static uint64_t unsampled_indexed(const struct ft_reuse *reuse, const struct ft_array_access *access,
                                  const uint64_t *index, uint64_t points)
{
    for (uint64_t i = 0; i < points; i++) {
        const uint64_t first = access->address + index[i] * (uint64_t)access->stride[0];
        const uint64_t last = first + access->size_bytes - 1;
        if (is_sampled(first >> FT_BLOCK_SHIFT, reuse) | (first >> FT_BLOCK_SHIFT != last >> FT_BLOCK_SHIFT))
            return i;
    }
    return points;
}

/* Points from the one at hand on, in its row, of which no access lies in a sampled block. */
static uint64_t unsampled_stay(const struct ft_reuse *reuse, const struct ft_array_walk *walk, uint64_t points)
{
    const struct ft_array_run *run = walk->run;
    const uint32_t dim = run->num_dims - 1;
    const uint64_t row = run->extent[dim] - walk->at[dim];
    points = points < row ? points : row;
    for (uint32_t j = 0; j < run->num_accesses && points; j++)
        if (!run->access[j].is_indexed)
            points = unsampled_points(reuse, walk->address[j], run->access[j].size_bytes, run->access[j].stride[dim], points);
    for (uint32_t j = 0; j < run->num_accesses && points; j++)
        if (run->access[j].is_indexed)
            points = unsampled_indexed(reuse, &run->access[j], run->index + walk->point, points);
    return points;
}

/* The points from the one at hand on that touch the same lines, of the shortest size: of them only the first is looked at,
 * as of all accesses to the lines used last (see ft_reuse_sample). Returns how many they are, `most` at most. */
static uint64_t sample_point(struct ft_reuse *reuse, struct ft_array_walk *walk, uint64_t most)
{
    struct ft_access batch[FT_ARRAY_ACCESSES];
    const uint64_t stay = ft_array_walk_stay(walk, FT_LINE_SHIFT), points = stay < most ? stay : most;
    for (uint32_t j = 0; j < walk->run->num_accesses; j++) {
        const struct ft_array_access *access = &walk->run->access[j];
        batch[j] = (struct ft_access){ft_array_walk_address(walk, j), access->op, access->size_bytes, access->flags};
    }
    sample_part(reuse, batch, walk->run->num_accesses);
    ft_array_walk_skip(walk, points);
    return points;
}

/* Between bursts, and between two points: goes over whole points, up to `limit` accesses. Those in blocks that are not
 * sampled are passed over. */
static uint64_t sample_points(struct ft_reuse *reuse, struct ft_array_walk *walk, uint64_t limit)
{
    const uint32_t width = walk->run->num_accesses;
    const uint64_t most = limit / width;
    uint64_t points = 0;
    while (walk->points_left && points < most) {
        const uint64_t stay = unsampled_stay(reuse, walk, most - points);
        if (stay)
            ft_array_walk_skip(walk, stay);
        points += stay ? stay : sample_point(reuse, walk, most - points);
    }
    return points * width;
}

void ft_reuse_set_repeating(struct ft_reuse *reuse, bool is_repeating)
{
    reuse->is_repeating = is_repeating;
}

int ft_reuse_feed_array(struct ft_reuse *reuse, const struct ft_array_run *run)
{
    struct ft_array_walk walk;
    struct ft_access batch[PART];
    ft_array_walk_begin(&walk, run);
    while (walk.points_left && !reuse->failed) {
        const uint64_t left = reuse->phase_end - reuse->num_accesses;
        if (reuse->phase == IN_BURST || walk.next_access || left < run->num_accesses) {
            ft_reuse_feed(reuse, batch, ft_array_walk_next(&walk, batch, left < PART ? (size_t)left : PART));
            continue;
        }
        advance(reuse, sample_points(reuse, &walk, left < ARRAY_PART ? left : ARRAY_PART));
    }
    return reuse->failed ? -1 : 0;
}

void ft_reuse_sample(struct ft_reuse *reuse, const struct ft_access *batch, size_t length,
                     const struct ft_repeat *repeats, size_t num_repeats)
{
    const struct ft_repeat *repeat = repeats, *end = repeats + num_repeats;
    struct distances found[FT_LINE_SIZES];
    uint16_t chosen[PART];
    for (size_t begin = 0; begin < length; begin += PART) {
        const size_t part = length - begin < PART ? length - begin : PART;
        const size_t num_chosen = choose(reuse, batch + begin, part, chosen);
        for (size_t i = 0; i < num_chosen; i++) {
            const size_t place = begin + chosen[i];
            while (repeat < end && repeat->end <= place)
                repeat++;
            const uint32_t more = repeat < end && repeat->begin <= place ? repeat->times : 0;
            sample_access(reuse, &batch[place], 1 + more, found);
        }
    }
}

void ft_reuse_sample_array(struct ft_reuse *reuse, const struct ft_array_run *run)
{
    struct ft_array_walk walk;
    ft_array_walk_begin(&walk, run);
    while (walk.points_left)
        sample_points(reuse, &walk, UINT64_MAX);
}

int ft_reuse_end_sample(struct ft_reuse *reuse, uint64_t num_accesses)
{
    advance(reuse, num_accesses);
    return reuse->failed ? -1 : 0;
}

struct ft_reuse_period ft_reuse_next_period(const struct ft_reuse *reuse)
{
    return reuse->next_period;
}

/* ---- passing over ------------------------------------------------------------------------------------------------- */

bool ft_reuse_can_pass(const struct ft_reuse *reuse)
{
    return reuse->phase != IN_BURST && reuse->options.burst_shift >= REPEATING_SHIFT;
}

void ft_reuse_pass(struct ft_reuse *reuse, uint64_t accesses)
{
    while (accesses) {
        const uint64_t left = reuse->phase_end - reuse->num_accesses, part = accesses < left ? accesses : left;
        reuse->num_accesses += part;
        accesses -= part;
        while (reuse->num_accesses == reuse->phase_end) {
            if (reuse->phase == AFTER_BURST) {
                begin_period(reuse);
            } else {
                reuse->phase = AFTER_BURST;
                reuse->phase_end = reuse->period_end;
                plan_period(reuse, reuse->phase_end);
            }
        }
    }
}

/* A replay in bursts that stand for what lies between them. */
static void replay_sampled(struct ft_reuse *reuse, unsigned shift, uint32_t times)
{
    reuse->replay_shift = shift;
    reuse->times = times;
    plan_period(reuse, 0);
    begin_period(reuse);
    advance(reuse, 0);
}

/* A replay in one burst of all accesses, which those of the same before have warmed up for. */
static void replay_whole(struct ft_reuse *reuse)
{
    reuse->weight = reuse->sparse_weight = reuse->times = 0;
    reuse->all_ways = true;
    reuse->is_counted = false;
    begin_burst(reuse, UINT64_MAX);
    reuse->period_end = UINT64_MAX;
}

/* The rate of bursts for a replay: that of options, or a higher one where bursts would be few; but lower if a replay for
 * so few times would be too dear. */
static unsigned replay_shift(const struct ft_reuse *reuse, uint64_t accesses, uint32_t times)
{
    const unsigned once = bursts_are_dear(reuse, reuse->num_accesses) ? DEAR_REPLAY_SHIFT : CHEAP_REPLAY_SHIFT;
    const unsigned log_times = 31u - (unsigned)__builtin_clz(times), least = once > log_times ? once - log_times : 0;
    unsigned shift = reuse->options.burst_shift > least ? reuse->options.burst_shift : least;
    while (shift > least && accesses >> shift < LEAST_REPLAY_BURSTS * reuse->options.burst_accesses)
        shift--;
    return shift;
}

bool ft_reuse_begin_replay(struct ft_reuse *reuse, uint64_t accesses, uint32_t times)
{
    const unsigned shift = replay_shift(reuse, accesses, times);
    const bool is_whole = shift == 0;
    weight_near_counts(reuse);
    reuse->stream = (struct schedule){
        reuse->phase, reuse->all_ways, reuse->is_counted, reuse->num_accesses, reuse->phase_end, reuse->period_end,
        reuse->burst_begin, reuse->burst_shift, reuse->next_burst_shift, reuse->weight, reuse->sparse_weight,
    };
    reuse->is_replaying = true;
    reuse->num_accesses = 0;
    reuse->has_last[0] = reuse->has_last[1] = false;
    if (is_whole)
        replay_whole(reuse);
    else
        replay_sampled(reuse, shift, times);
    return is_whole;
}

void ft_reuse_count_replay(struct ft_reuse *reuse, uint32_t times)
{
    reuse->weight = reuse->sparse_weight = reuse->times = times;
    if (reuse->phase == IN_BURST && !reuse->is_counted) {
        reuse->is_counted = true;
        reuse->num_bursts++;
    } else { /* it had no room for all blocks */
        reuse->phase = AFTER_BURST;
        reuse->phase_end = UINT64_MAX;
    }
}

void ft_reuse_end_replay(struct ft_reuse *reuse)
{
    const struct schedule *stream = &reuse->stream;
    weight_near_counts(reuse);
    memset(&reuse->burst, 0, sizeof reuse->burst);
    reuse->has_last[0] = reuse->has_last[1] = false;
    reuse->is_replaying = false;
    reuse->times = 1;
    reuse->phase = stream->phase;
    reuse->all_ways = stream->all_ways;
    reuse->is_counted = stream->is_counted;
    reuse->num_accesses = stream->num_accesses;
    reuse->phase_end = stream->phase_end;
    reuse->period_end = stream->period_end;
    reuse->burst_begin = stream->burst_begin;
    reuse->burst_shift = stream->burst_shift;
    reuse->next_burst_shift = stream->next_burst_shift;
    reuse->weight = stream->weight;
    reuse->sparse_weight = stream->sparse_weight;
}

/* ---- life and results --------------------------------------------------------------------------------------------- */

struct ft_reuse *ft_reuse_new(const struct ft_reuse_options *options)
{
    struct ft_reuse *reuse = calloc(1, sizeof *reuse);
    if (!reuse)
        return NULL;
    reuse->options = *options;
    reuse->near_lines = ft_recency_new();
    reuse->far_lines = ft_recency_new();
    reuse->near = ft_near_new();
    reuse->far = ft_far_new();
    reuse->counts_size = 4096;
    reuse->counts = calloc(reuse->counts_size, sizeof *reuse->counts);
    if (!reuse->near_lines || !reuse->far_lines || !reuse->near || !reuse->far || !reuse->counts) {
        ft_reuse_free(reuse);
        return NULL;
    }
    for (unsigned class = 0; class < FT_NUM_CLASSES; class++)
        reuse->sampled[class] = rank_of(class) < FT_NUM_CLASSES >> options->first_class_shift;
    reuse->class_shift = options->first_class_shift;
    reuse->all_ways = true;
    reuse->weight = reuse->sparse_weight = reuse->times = 1;
    begin_burst(reuse, options->exact_accesses);
    reuse->next_period = (struct ft_reuse_period){0, options->exact_accesses, options->exact_accesses};
    reuse->is_counted = true;
    return reuse;
}

void ft_reuse_free(struct ft_reuse *reuse)
{
    if (!reuse)
        return;
    ft_recency_free(reuse->near_lines);
    ft_recency_free(reuse->far_lines);
    ft_near_free(reuse->near);
    ft_far_free(reuse->far);
    free(reuse->executions);
    for (size_t op = 0; op < reuse->num_operations; op++)
        free(reuse->near_counts[op]);
    free(reuse->near_counts);
    free(reuse->counts);
    free(reuse);
}

struct ft_reuse_summary ft_reuse_summary(const struct ft_reuse *reuse)
{
    uint64_t in_burst = reuse->phase == IN_BURST ? reuse->num_accesses - reuse->burst_begin : 0;
    return (struct ft_reuse_summary){
        .accesses = reuse->num_accesses,
        .burst_accesses = reuse->burst_accesses + in_burst,
        .bursts = reuse->num_bursts + (in_burst > 0),
        .class_shift = reuse->class_shift,
        .known_blocks = (uint32_t)ft_recency_lines(reuse->far_lines, FT_LINE_SIZES - 1),
    };
}

size_t ft_reuse_operations(const struct ft_reuse *reuse)
{
    return reuse->num_operations;
}

const uint64_t (*ft_reuse_executions(const struct ft_reuse *reuse))[2]
{
    return (const uint64_t(*)[2])reuse->executions;
}

const struct ft_reuse_variances *ft_reuse_variances(const struct ft_reuse *reuse)
{
    return &reuse->variances;
}

const ft_reuse_group *ft_reuse_groups(const struct ft_reuse *reuse)
{
    return reuse->groups;
}

size_t ft_reuse_finish(struct ft_reuse *reuse)
{
    weight_near_counts(reuse);
    return reuse->counts_used;
}

int ft_reuse_next(const struct ft_reuse *reuse, size_t *position, struct ft_reuse_count *result)
{
    while (*position < reuse->counts_size) {
        const struct bucket *bucket = &reuse->counts[(*position)++];
        if (!bucket->key)
            continue;
        uint64_t key = bucket->key - 1;
        *result = (struct ft_reuse_count){(uint32_t)(key >> 17), (uint8_t)(key & 3), (uint8_t)(key >> 2 & 31),
                                          (uint16_t)((key >> 7 & 0x1ff) | (key & RESOLVED ? FT_REUSE_RESOLVED : 0)),
                                          bucket->accesses};
        return 1;
    }
    return 0;
}
