/* Three samples of one stream, for caches whose ways are small, larger, and large.
 *
 * Bursts: all accesses of a short time, for ways below 4 KB and for small fully associative caches. They see all sets, for a
 * small part of the time.
 *
 * Tracks: all accesses to some residues (set_order.h), for ways of 4 and 8 KB (MIDDLE) and of 16 to 512 KB (LARGE). They see
 * conflicts as they are, some of the sets all the time; which ones changes from window to window, in an order that meets
 * all equally often. A window lasts for a share of the accesses until then (`window_shift`): long enough to see most lines
 * again, short enough to come to many residues. In very long programs a track is not followed in each of the windows.
 *
 * Which sets have the lines that are used most is chance, but how many accesses miss a direct-mapped cache of 4 KB (`leaving`)
 * is known of all operations. What tracks found is scaled by that: the accesses of theirs that miss it stand for all that do.
 *
 * What bursts and tracks cannot tell is how long ago a line was used that they see for the first time. For that they have
 * the third sample: a first use that is sampled there too stands for all of them that looked like it (FIRST), and its
 * distance is that one's, divided by the number of sets.
 *
 * Classes: all accesses to some of the 256-byte blocks modulo 1 MB, for ways from 1 MB on and for large fully associative
 * caches. Whole sets of such ways are sampled, so that distances within a set are exact; those among all lines are scaled
 * by the rate (Waldspurger et al., "Efficient MRC Construction with SHARDS", FAST'15).
 *
 * An access sampled at a rate of 1/n counts as n. Rates are chosen before what they are for is seen: from the number of
 * accesses until then, so that short programs are measured exactly and long ones cheaply, and from the work until then,
 * so that no program costs much. Each period of a stream (2^n bursts long) has one burst, somewhere in it; windows begin and
 * end at multiples of FT_REUSE_INTERVAL. Classes only become fewer, by half each time.
 *
 * Where the program does exactly the same again and again, bursts are as rare as can be: they would see the same. Or its
 * accesses are passed over altogether: then one repetition stands for as many, in classes, tracks and bursts of its own (a
 * replay). A period's burst that would lie in what is passed over is left out; as it may lie anywhere, what the period has
 * besides is still represented as often as it should be, on average.
 *
 * Counts are kept as changes from one way size to the next within a track: distances only become smaller, and most are 0
 * soon, or remain beyond everything. `counts` is open addressing, at most half full; key 0 is empty.
 */
#define _GNU_SOURCE /* memrchr */
#include "reuse.h"

#include "array_walk.h"
#include "recent_lines.h"

#include <stdlib.h>
#include <string.h>

#define MAX_DISTANCE ((UINT64_C(1) << 44) - 1)
#define EXACT_BINS 8u /* one distance each; above, BINS_PER_OCTAVE */
#define BINS_PER_OCTAVE 4u
#define PART 1024u
#define LEAST_FAR_BYTES (UINT64_C(1) << 17) /* distances below are measured better in bursts */
#define REPEATING_SHIFT 5u /* smallest burst_shift at which bursts may become rarer where everything repeats */
#define LEAST_REPLAY_BURSTS 8u /* or as many as there is room for */
#define CHEAP_REPLAY_SHIFT 5u  /* the smallest shift in a replay that stands for itself alone; with n times it is log2(n) less, */
#define DEAR_REPLAY_SHIFT 8u   /* so that work grows as all accesses do, and not as those replayed */
#define MAPPED_LINES 64u /* of a direct-mapped cache as large as the smallest way of a track */
#define MAPPED_LINE_SHIFT 6u
#define LEAST_SHIFT 1u /* after the exact beginning */
#define BURST_SHIFT 2u /* bursts are rarer than what tracks follow */
#define NESTED_SHIFT 4u /* as long as so many residues are followed, they stay, or some of them */
#define NEXT_RESIDUE 39u /* odd, about 64 divided by the golden ratio: those of a few windows are spread, and their lowest bits */
#define LEAST_WINDOW (UINT64_C(1) << 14)
#define LONG_SHIFT 2u /* in very long programs, rates of tracks are lower by this */
#define MOST_TIMES 256u /* so that 32 bits hold what is not weighted yet, of */
#define MOST_UNWEIGHTED (1u << 20) /* accesses */
#define MOST_EXTRA 2u
#define ACCESSES_PER_WORK 64u /* one line used in bursts and tracks for so many accesses */
#define FREE_WORK (UINT64_C(1) << 24)
#define ACCESSES_PER_FAR_WORK 32u
#define FREE_FAR_WORK (UINT64_C(1) << 21)

#define RESOLVED (1u << 16) /* in a key: changes for first uses whose distance became known */
#define FIRST (1u << 15)    /* likewise: first uses by the distance that was seen, all or (with RESOLVED) those */

#define UNLIKELY(x) __builtin_expect(!!(x), 0)

struct bucket {
    uint64_t key; /* 1 + (op << 17 | resolved << 16 | bin << 7 | way << 2 | size) */
    int64_t accesses;
};

/* What is counted of an operation before it is weighted. Ways count from 1 here. */
struct near_counts {
    uint32_t op, is_changed; /* since they were weighted */
    int32_t accesses[FT_LINE_SIZES][FT_NEAR_WAYS][FT_REUSE_NEAR_BINS];
};

/* What bursts and tracks follow; the last way of each, and which bit of `followed` stands for it. */
enum { SMALL, MIDDLE, LARGE, NUM_TRACKS };
static const uint8_t first_way_of[NUM_TRACKS + 1] = {1, FT_REUSE_MIDDLE_WAY, FT_REUSE_LARGE_WAY, FT_NEAR_WAYS + 1};
/* A window is so much of what was before it. Few lines fill caches of middle ways, so that theirs may be short. */
static const uint8_t window_shift[NUM_TRACKS] = {0, 6, 3};
#define FAR_BIT 1u
#define BIT_OF(track) (1u << (track))

/* What one burst or window counts for all operations; `resolved` are the changes for those first uses whose distance is known. */
struct burst_counts {
    int64_t sets[2][FT_LINE_SIZES][FT_NEAR_WAYS][FT_REUSE_NEAR_BINS];
    int64_t one_set[2][FT_LINE_SIZES][FT_REUSE_BINS];
    int64_t first_uses[NUM_TRACKS][FT_LINE_SIZES], resolved_uses[NUM_TRACKS][FT_LINE_SIZES];
};

/* How many of all accesses these stand for, as shares of them, for distances from each bin's edge on. */
struct burst_misses {
    double sets[FT_LINE_SIZES][FT_NEAR_WAYS][FT_REUSE_NEAR_BINS];
    double one_set[FT_LINE_SIZES][FT_REUSE_BINS];
};

enum phase { BEFORE_BURST, IN_BURST, AFTER_BURST };

/* One line size of an access: its distances by way, from the first one of a track on. */
struct distances {
    uint16_t ways[8];
    uint64_t one_set;
    bool is_new, changes;
};

struct track {
    struct ft_near *near;
    int64_t weight;
    unsigned shift;          /* it is followed at a rate of 2^-shift */
    uint16_t order[FT_NUM_CLASSES >> 6]; /* of the residues */
    unsigned first;          /* place in `order` of the first one followed; the others come next */
    uint64_t begin, end;          /* of the window */
    uint64_t accesses;            /* that those until then stand for */
    uint32_t windows_left, on_in; /* windows of which it is followed in one */
    bool is_on;
    bool is_complete;        /* has been followed where it is since the first access: what is new is so in the program */
    bool has_last;           /* a burst or window before this one */
};

/* Where the stream stands, kept while another is replayed. */
struct schedule {
    enum phase phase;
    bool is_counted;
    uint64_t num_accesses, phase_end, period_end, burst_begin;
    unsigned next_burst_shift;
    struct track tracks[NUM_TRACKS];
};

struct ft_reuse {
    struct ft_reuse_options options;
    struct ft_recency *near_lines, *far_lines;
    struct ft_far *far;
    uint64_t num_accesses, random_state;
    uint8_t followed[FT_NUM_CLASSES]; /* by block: FAR_BIT, and those of tracks */
    uint8_t is_followed[FT_NUM_CLASSES]; /* 0 or 1 */
    struct track tracks[NUM_TRACKS];
    uint64_t near_work;
    unsigned extra; /* rates are lower by 2^extra than they should be, as work was dear */
    /* bursts */
    enum phase phase;
    bool is_counted, is_repeating;
    uint64_t phase_end, period_end, burst_begin;
    struct ft_reuse_period next_period, replay_period;
    bool is_replaying;
    unsigned replay_shift;
    int64_t times; /* that each access stands for: 1, or more in a replay */
    struct schedule stream; /* in a replay */
    unsigned next_burst_shift;
    uint64_t num_bursts, burst_accesses;
    uint64_t mapped[MAPPED_LINES];
    uint64_t last_line; /* 1 + the line of 32 bytes that was used last in a burst */
    struct ft_recent_lines recent;
    struct ft_reuse_operation *operations;
    struct near_counts **near_counts; /* by operation, NULL where there are none */
    size_t num_operations, num_unweighted;
    struct burst_counts burst;
    struct burst_misses last_burst;
    struct ft_reuse_variances variances;
    /* classes */
    unsigned class_shift;
    uint64_t far_work;
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
    uint64_t key = 1 + ((uint64_t)op << 17 | (size & (RESOLVED | FIRST)) | bin << 7 | way << 2 | (size & 3));
    struct bucket *bucket = find_bucket(reuse->counts, reuse->counts_size, key);
    bucket->accesses += accesses;
    if (bucket->key || reuse->failed)
        return;
    bucket->key = key;
    if (++reuse->counts_used * 2 > reuse->counts_size)
        grow_counts(reuse);
}

static void weight_counts(struct ft_reuse *reuse, struct near_counts *counts)
{
    for (unsigned size = 0; size < FT_LINE_SIZES; size++)
        for (unsigned track = SMALL; track < NUM_TRACKS; track++)
            for (unsigned way = first_way_of[track]; way < first_way_of[track + 1]; way++)
                for (unsigned bin = 0; bin < FT_REUSE_NEAR_BINS; bin++) {
                    int64_t change = counts->accesses[size][way - 1][bin];
                    if (bin && way > first_way_of[track])
                        change -= counts->accesses[size][way - 2][bin];
                    if (change)
                        count(reuse, counts->op, size, way, wide_bin(bin), change * reuse->tracks[track].weight);
                }
    memset(counts->accesses, 0, sizeof counts->accesses);
    counts->is_changed = false;
}

/* Moves what operations have to `counts`, weighted: before weights change. */
static void weight_near_counts(struct ft_reuse *reuse)
{
    reuse->num_unweighted = 0;
    for (size_t op = 0; op < reuse->num_operations; op++)
        if (reuse->near_counts[op] && reuse->near_counts[op]->is_changed)
            weight_counts(reuse, reuse->near_counts[op]);
}

static struct near_counts *near_counts_of(struct ft_reuse *reuse, uint32_t op)
{
    struct near_counts *counts = reuse->near_counts[op];
    if (!counts && !(counts = reuse->near_counts[op] = calloc(1, sizeof *counts))) {
        reuse->failed = true;
        return NULL;
    }
    counts->op = op;
    counts->is_changed = true;
    return counts;
}

/* Where accesses are counted. */
struct counted {
    uint32_t op;
    unsigned track, resolved; /* RESOLVED: those whose distance became known; or 0 */
    struct near_counts *counts; /* NULL: they go to `counts` of the whole at once */
};

/* An access with these distances, `factor` times, in `counts`, as changes from way to way. */
static void count_changes(struct ft_reuse *reuse, const struct counted *as, unsigned size, const struct distances *found,
                          int64_t factor)
{
    const unsigned first = first_way_of[as->track], num_ways = first_way_of[as->track + 1] - first;
    const int64_t weighted = factor * reuse->tracks[as->track].weight;
    for (unsigned i = 0, before = 0; i < num_ways; i++) {
        const unsigned bin = near_bin(found->ways[i]);
        if (bin != before && before)
            count(reuse, as->op, as->resolved | size, first + i, wide_bin(before), -weighted);
        if (bin != before && bin)
            count(reuse, as->op, as->resolved | size, first + i, wide_bin(bin), weighted);
        before = bin;
    }
}

static inline void count_near_access(struct ft_reuse *reuse, const struct counted *as, unsigned size,
                                     const struct distances *found, int64_t factor)
{
    const unsigned first = first_way_of[as->track], num_ways = first_way_of[as->track + 1] - first;
    int64_t(*sums)[FT_REUSE_NEAR_BINS] = &reuse->burst.sets[as->resolved > 0][size][first - 1];
    int32_t(*counts)[FT_REUSE_NEAR_BINS] = as->counts ? &as->counts->accesses[size][first - 1] : NULL;
    for (unsigned i = 0; i < num_ways && found->ways[i]; i++) {
        const unsigned bin = near_bin(found->ways[i]);
        sums[i][bin] += factor;
        if (counts)
            counts[i][bin] += (int32_t)factor;
    }
    if (!counts)
        count_changes(reuse, as, size, found, factor);
    if (as->track == SMALL && found->one_set) {
        const unsigned bin = bin_of(found->one_set);
        reuse->burst.one_set[as->resolved > 0][size][bin] += factor;
        count(reuse, as->op, as->resolved | size, FT_REUSE_ONE_SET_NEAR, bin, factor * reuse->tracks[SMALL].weight);
    }
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
    for (unsigned way = FT_FAR_WAY; way <= FT_LAST_WAY && found->ways[0]; way++) {
        unsigned bin = far_bin(found->ways[way - FT_FAR_WAY]);
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

/* A permutation of classes, of which the first are sampled, in no order that a program's strides could agree with. Of the first
 * 2^n, n at most 6, each has other n lowest bits, so that residues of tracks have equally many of them; and of the first 64, each
 * has other upper six bits. */
static unsigned rank_of(uint64_t block)
{
    const unsigned low = (unsigned)block & 63u, high = (unsigned)block >> 6 & 63u;
    unsigned first = (low ^ low << 2) * 45u, upper = low; /* the first keeps what the lowest bits tell apart */
    first += first * first | 5u;
    upper = ((upper ^ upper >> 2) * 59u) & 63u;
    upper = ((upper ^ upper >> 3) * 33u) & 63u;
    return (first & 63u) | (((upper ^ upper >> 2 ^ high) * 43u) & 63u) << 6;
}

/* Of the sampled classes, each group has equally many, some of all residues. */
static unsigned group_of(uint64_t block)
{
    const unsigned rank = rank_of(block);
    return (rank + (rank >> 3) * 3) % FT_REUSE_GROUPS;
}

static bool is_sampled(uint64_t block, const void *context)
{
    return ((const struct ft_reuse *)context)->followed[block & (FT_NUM_CLASSES - 1)] & FAR_BIT;
}

static void halve_classes(struct ft_reuse *reuse)
{
    reuse->class_shift++;
    for (unsigned class = 0; class < FT_NUM_CLASSES; class++)
        if (is_sampled(class, reuse) && rank_of(class) >= FT_NUM_CLASSES >> reuse->class_shift) {
            reuse->followed[class] &= (uint8_t)~FAR_BIT;
            reuse->is_followed[class] = reuse->followed[class] > 0;
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
        found[size] = (struct distances){{0}, 0, false, false};
        for (uint64_t line = first_byte >> shift; line <= last_byte >> shift; line++) {
            uint64_t distance = ft_recency_touch(reuse->far_lines, number, size, (unsigned)line & mask);
            if (distance == 0)
                continue; /* the most recent line of all is that of its sets, too */
            bool is_new = distance == FT_NEW_LINE;
            reuse->far_work += times * (1 + ft_far_touch(reuse->far, size, line << shift, is_new, found[size].ways));
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
    unsigned group = group_of(last_byte >> FT_BLOCK_SHIFT);
    for (unsigned size = 0; known && size < FT_LINE_SIZES; size++)
        count_far_access(reuse, access->op, group, size, times, &found[size]);
    return known;
}

/* ---- bursts and tracks -------------------------------------------------------------------------------------------- */

/* The lines of one size of an access, all in one block. */
static inline void touch_near(struct ft_reuse *reuse, struct ft_near *near, struct ft_near_block block, unsigned size,
                              unsigned first_byte, unsigned last_byte, bool is_counted, struct distances *found)
{
    for (unsigned part = first_byte >> (FT_LINE_SHIFT + size); part <= last_byte >> (FT_LINE_SHIFT + size); part++) {
        const enum ft_near_use use = ft_near_touch(near, block, size, part, is_counted ? found->ways : NULL);
        found->is_new |= use == FT_NEAR_NEW;
        found->changes |= use != FT_NEAR_SAME;
        reuse->near_work += use != FT_NEAR_SAME;
    }
}

/* Distances among all lines, in a burst. */
static void touch_one_set(struct ft_reuse *reuse, uint32_t number, unsigned size, uint64_t first_byte, uint64_t last_byte,
                          struct distances *found)
{
    const unsigned shift = FT_LINE_SHIFT + size, mask = 7u >> size;
    for (uint64_t line = first_byte >> shift; line <= last_byte >> shift; line++) {
        const size_t known_lines = ft_recency_lines(reuse->near_lines, size);
        const uint64_t distance = ft_recency_touch(reuse->near_lines, number, size, (unsigned)line & mask);
        const uint64_t least = distance == FT_NEW_LINE ? known_lines : distance;
        found->is_new |= distance == FT_NEW_LINE;
        found->changes |= distance > 0;
        if (least > found->one_set)
            found->one_set = least;
    }
}

/* One block of an access. Returns false if there is no room for it. */
static bool touch_block(struct ft_reuse *reuse, unsigned track, uint64_t first_byte, uint64_t last_byte,
                        bool is_counted, struct distances *found)
{
    const uint64_t block_mask = (UINT64_C(1) << FT_BLOCK_SHIFT) - 1;
    struct ft_near *near = reuse->tracks[track].near;
    const struct ft_near_block block = ft_near_find(near, first_byte >> FT_BLOCK_SHIFT);
    uint32_t number = 0;
    if (track == SMALL && !(number = ft_recency_block(reuse->near_lines, first_byte >> FT_BLOCK_SHIFT)))
        return false;
    for (unsigned size = 0; size < FT_LINE_SIZES; size++) {
        found[size] = (struct distances){{0}, 0, false, false};
        if (track == SMALL)
            touch_one_set(reuse, number, size, first_byte, last_byte, &found[size]);
        touch_near(reuse, near, block, size, first_byte & block_mask, last_byte & block_mask, is_counted, &found[size]);
    }
    return true;
}

/* The distances of a line that is seen for the first time, by those on the sampled classes. */
static void resolve(struct distances *near, unsigned track, unsigned size, uint64_t one_set)
{
    if (one_set > near->one_set)
        near->one_set = one_set;
    for (unsigned way = first_way_of[track]; way < first_way_of[track + 1]; way++) {
        const uint64_t distance = one_set == FT_NEW_LINE ? FT_BEYOND : one_set >> (way + 7 - FT_LINE_SHIFT - size);
        uint16_t *known = &near->ways[way - first_way_of[track]];
        if (distance > *known)
            *known = distance < FT_BEYOND ? (uint16_t)distance : FT_BEYOND;
    }
}

static void count_distances(struct ft_reuse *reuse, const struct counted *as, unsigned kind, unsigned size,
                            const struct distances *found, int64_t factor)
{
    const struct counted of_kind = {as->op, as->track, kind, NULL};
    count_changes(reuse, &of_kind, size, found, factor);
    if (as->track == SMALL && found->one_set)
        count(reuse, as->op, kind | size, FT_REUSE_ONE_SET_NEAR, bin_of(found->one_set),
              factor * reuse->tracks[SMALL].weight);
}

/* Bin 0 has no distances to count: it holds an operation's first uses, and how many those that are resolved stand for. */
static void count_first_use(struct ft_reuse *reuse, const struct counted *as, unsigned size, const struct distances *found,
                            int64_t times, int64_t resolved)
{
    const unsigned way = first_way_of[as->track];
    const int64_t weight = reuse->tracks[as->track].weight;
    count_distances(reuse, as, FIRST, size, found, times);
    if (resolved)
        count_distances(reuse, as, FIRST | RESOLVED, size, found, resolved);
    reuse->burst.first_uses[as->track][size] += times;
    reuse->burst.resolved_uses[as->track][size] += resolved;
    if (as->counts)
        as->counts->accesses[size][way - 1][0] += (int32_t)times;
    else
        count(reuse, as->op, size, way, 0, times * weight);
    if (resolved)
        count(reuse, as->op, size, way + 1, 0, resolved * weight);
}

/* `far` is NULL if the access is not in a sampled class. */
static void count_access(struct ft_reuse *reuse, unsigned track, uint32_t op, uint32_t times, struct distances *near,
                         const struct distances *far)
{
    const int64_t sampled_for = (int64_t)times << reuse->class_shift;
    const struct counted as = {op, track, 0, times <= MOST_TIMES ? near_counts_of(reuse, op) : NULL};
    const struct counted as_resolved = {op, track, RESOLVED, NULL};
    for (unsigned size = 0; size < FT_LINE_SIZES; size++) {
        if (!near[size].changes)
            continue;
        const bool is_resolved = near[size].is_new && reuse->tracks[track].is_complete;
        if (is_resolved)
            resolve(&near[size], track, size, FT_NEW_LINE);
        count_near_access(reuse, &as, size, &near[size], times);
        if (!near[size].is_new || is_resolved)
            continue;
        count_first_use(reuse, &as, size, &near[size], times, far ? sampled_for : 0);
        if (!far)
            continue;
        count_near_access(reuse, &as_resolved, size, &near[size], -sampled_for);
        resolve(&near[size], track, size, far[size].one_set);
        count_near_access(reuse, &as_resolved, size, &near[size], sampled_for);
    }
    if (++reuse->num_unweighted == MOST_UNWEIGHTED)
        weight_near_counts(reuse);
}

/* An access as a track sees it: it has the distances of its last block. Returns false if there was no room. */
static bool follow_access(struct ft_reuse *reuse, unsigned track, const struct ft_access *access, uint32_t times,
                          bool is_counted, bool leaves, const struct distances *far)
{
    const uint64_t last_byte = access->address + access->size_bytes - 1, block_mask = (UINT64_C(1) << FT_BLOCK_SHIFT) - 1;
    struct distances near[FT_LINE_SIZES];
    bool is_seen = false;
    for (uint64_t first = access->address;; first = (first | block_mask) + 1) {
        const uint64_t last = (first | block_mask) < last_byte ? first | block_mask : last_byte;
        is_seen = track == SMALL || reuse->followed[first >> FT_BLOCK_SHIFT & (FT_NUM_CLASSES - 1)] & BIT_OF(track);
        if (is_seen && !touch_block(reuse, track, first, last, is_counted, near))
            return false;
        if (last == last_byte)
            break;
    }
    if (is_seen && leaves && track != SMALL)
        reuse->operations[access->op].followed[track - MIDDLE] += (uint64_t)reuse->tracks[track].weight * times;
    if (is_seen && is_counted)
        count_access(reuse, track, access->op, times, near, far);
    return true;
}

/* Whether an access goes to a line other than the last one that was used in its set of a direct-mapped cache. */
static inline bool leaves_line(struct ft_reuse *reuse, uint64_t address)
{
    const uint64_t line = address >> MAPPED_LINE_SHIFT;
    uint64_t *last = &reuse->mapped[line & (MAPPED_LINES - 1)];
    const bool leaves = *last != line;
    *last = line;
    return leaves;
}

/* An access in a block that is followed, that leaves a line or not. Returns whether `far` has its distances. */
static bool look_at(struct ft_reuse *reuse, const struct ft_access *access, uint32_t times, bool leaves,
                    struct distances *far)
{
    const uint64_t last_byte = access->address + access->size_bytes - 1;
    const bool spans = (access->address ^ last_byte) >> FT_BLOCK_SHIFT;
    const unsigned followed =
        spans ? UINT8_MAX : reuse->followed[access->address >> FT_BLOCK_SHIFT & (FT_NUM_CLASSES - 1)];
    const bool is_far = followed & FAR_BIT && sample_access(reuse, access, times, far);
    for (unsigned track = MIDDLE; track <= LARGE; track++)
        if (followed & BIT_OF(track))
            follow_access(reuse, track, access, times, reuse->times > 0, leaves, is_far ? far : NULL);
    return is_far;
}

/* Returns how many of the accesses were looked at: fewer than given when there is no room for more blocks. */
static size_t burst_part(struct ft_reuse *reuse, const struct ft_access *batch, size_t length)
{
    const bool is_exact = reuse->num_bursts == 0;
    struct distances far[FT_LINE_SIZES];
    for (size_t i = 0; i < length; i++) {
        const struct ft_access *access = &batch[i];
        const uint64_t line = access->address >> FT_LINE_SHIFT;
        const bool is_one = (access->address + access->size_bytes - 1) >> FT_LINE_SHIFT == line;
        struct ft_reuse_operation *operation = &reuse->operations[access->op];
        if (reuse->is_counted)
            operation->in_bursts += (uint64_t)reuse->tracks[SMALL].weight;
        const bool changes = ft_recent_use(&reuse->recent, access->address, access->size_bytes);
        const bool leaves = leaves_line(reuse, access->address);
        operation->leaving += leaves ? (uint64_t)reuse->times : 0;
        const bool is_far = (changes || is_exact) && look_at(reuse, access, 1, leaves, far);
        if (is_one && line + 1 == reuse->last_line)
            continue;
        reuse->last_line = is_one ? line + 1 : 0;
        if (!follow_access(reuse, SMALL, access, 1, reuse->is_counted, leaves, is_far ? far : NULL))
            return i + 1;
    }
    return length;
}

/* ---- windows ------------------------------------------------------------------------------------------------------ */

static uint64_t random_below(struct ft_reuse *reuse, uint64_t limit)
{
    uint64_t z = reuse->random_state += UINT64_C(0x9e3779b97f4a7c15); /* splitmix64 */
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (z ^ z >> 31) % limit;
}

static void add_differences(double *variances, double *last, const double *misses, size_t number, double factor)
{
    for (size_t i = 0; i < number; i++) {
        double difference = misses[i] - last[i];
        variances[i] += factor * difference * difference;
        last[i] = misses[i];
    }
}

/* Turns changes by way into shares of `accesses` accesses, for distances from each bin's edge on. */
static void sum_counts(const struct burst_counts *burst, unsigned track, double accesses, struct burst_misses *misses)
{
    const unsigned first = first_way_of[track];
    for (unsigned size = 0; size < FT_LINE_SIZES; size++) {
        const int64_t uses = burst->first_uses[track][size], resolved_uses = burst->resolved_uses[track][size];
        const double known = 1 / accesses, resolved = resolved_uses ? (double)uses / (double)resolved_uses / accesses : 0;
        double above = 0;
        for (unsigned bin = FT_REUSE_BINS; track == SMALL && bin-- > 0;)
            misses->one_set[size][bin] = above += (double)burst->one_set[0][size][bin] * known +
                                                  (double)burst->one_set[1][size][bin] * resolved;
        for (unsigned way = first; way < first_way_of[track + 1]; way++) {
            above = 0;
            for (unsigned bin = FT_REUSE_NEAR_BINS; bin-- > 0;) {
                above += (double)burst->sets[0][size][way - 1][bin] * known +
                         (double)burst->sets[1][size][way - 1][bin] * resolved;
                misses->sets[size][way - 1][bin] = above;
            }
        }
    }
}

/* Variance of a sum of which samples are known that stand for `accesses` each, at a rate of 1 / weight: from the differences
 * of successive ones, Wolter, "Introduction to Variance Estimation", section 8.2, estimator v2. Of tracks, that is more than
 * it should be: what changes with time is a difference, too, though no time may be missing. Counting begins anew. */
static void end_sample(struct ft_reuse *reuse, unsigned name, double accesses)
{
    struct track *track = &reuse->tracks[name];
    const unsigned first = first_way_of[name], num_ways = first_way_of[name + 1] - first;
    const double weight = (double)track->weight;
    const double unknown = 1 - (double)reuse->times / weight; /* besides itself and its repetitions */
    const double factor = track->has_last ? 0.5 * unknown * accesses * accesses : 0;
    struct burst_misses misses;
    sum_counts(&reuse->burst, name, accesses / weight, &misses);
    for (unsigned size = 0; size < FT_LINE_SIZES; size++) {
        add_differences(reuse->variances.sets[size][first - 1], reuse->last_burst.sets[size][first - 1],
                        misses.sets[size][first - 1], num_ways * FT_REUSE_NEAR_BINS, factor);
        if (name == SMALL)
            add_differences(reuse->variances.one_set[size], reuse->last_burst.one_set[size], misses.one_set[size],
                            FT_REUSE_BINS, factor);
        for (unsigned resolved = 0; resolved < 2; resolved++)
            memset(reuse->burst.sets[resolved][size][first - 1], 0, num_ways * sizeof **reuse->burst.sets[resolved]);
        reuse->burst.first_uses[name][size] = reuse->burst.resolved_uses[name][size] = 0;
    }
    if (name == SMALL)
        memset(reuse->burst.one_set, 0, sizeof reuse->burst.one_set);
    track->has_last = true;
}

/* The rate of bursts and tracks, as a power of 1/2, if it is to be 2^-shift in a long program. The number of accesses looked
 * at grows with the square root of all: what error they leave depends on how many there are, not on their share. */
static unsigned rate_shift(const struct ft_reuse *reuse, unsigned shift)
{
    unsigned now = 0;
    while (now < shift && reuse->options.exact_accesses << 2 * now <= reuse->num_accesses)
        now++;
    return !now ? 0 : now + LEAST_SHIFT < shift ? now + LEAST_SHIFT : shift;
}

static unsigned num_followed(const struct track *track)
{
    const unsigned residues = ft_near_residues(track->near);
    return residues >> track->shift ? residues >> track->shift : 1;
}

/* Of how many windows a track is followed in one. */
static unsigned num_windows(const struct track *track)
{
    return (num_followed(track) << track->shift) / ft_near_residues(track->near);
}

/* Begins or ends to follow a track's residues. */
static void follow(struct ft_reuse *reuse, unsigned name, bool is_on)
{
    const struct track *track = &reuse->tracks[name];
    const unsigned residues = ft_near_residues(track->near);
    for (unsigned j = 0; j < num_followed(track); j++)
        for (unsigned class = track->order[(track->first + j) & (residues - 1)]; class < FT_NUM_CLASSES; class += residues) {
            reuse->followed[class] = (uint8_t)((reuse->followed[class] & ~BIT_OF(name)) | (is_on ? BIT_OF(name) : 0));
            reuse->is_followed[class] = reuse->followed[class] > 0;
        }
}

/* Goes on to other residues, and chooses whether to follow them now: in one of so many windows that the rate is right. */
static void move_track(struct ft_reuse *reuse, struct track *track, unsigned shift)
{
    const unsigned residues = ft_near_residues(track->near), before = num_followed(track);
    const bool is_new_rate = shift != track->shift;
    if (is_new_rate)
        weight_near_counts(reuse);
    track->shift = shift;
    track->weight = INT64_C(1) << shift;
    if (track->windows_left == 0 || is_new_rate) {
        track->windows_left = num_windows(track);
        track->on_in = (uint32_t)random_below(reuse, track->windows_left);
    }
    track->is_on = --track->windows_left == track->on_in;
    if (track->is_complete && shift < NESTED_SHIFT && num_followed(track) <= before)
        return; /* some of those followed until now */
    track->is_complete = false;
    track->first = (track->first + before) & (residues - 1);
    for (unsigned j = 0; track->is_on && j < num_followed(track); j++)
        ft_near_clear(track->near, track->order[(track->first + j) & (residues - 1)]);
}

static void end_window(struct ft_reuse *reuse, unsigned name)
{
    struct track *track = &reuse->tracks[name];
    const uint64_t accesses = (reuse->num_accesses - track->begin) * num_windows(track);
    track->accesses += accesses;
    end_sample(reuse, name, (double)accesses);
}

static void begin_window(struct ft_reuse *reuse, unsigned name)
{
    const uint64_t now = reuse->num_accesses, budget = FREE_WORK + now / ACCESSES_PER_WORK;
    struct track *track = &reuse->tracks[name];
    if (track->is_on)
        end_window(reuse, name);
    if (name == LARGE && reuse->near_work > budget && reuse->extra < MOST_EXTRA)
        reuse->extra++;
    else if (name == LARGE && reuse->near_work < budget / 2 && reuse->extra)
        reuse->extra--;
    follow(reuse, name, false);
    move_track(reuse, track, rate_shift(reuse, reuse->options.class_shift + LONG_SHIFT) + (name == MIDDLE) + reuse->extra);
    follow(reuse, name, track->is_on);
    track->begin = now;
    const uint64_t length = (now >> window_shift[name]) / num_windows(track);
    track->end = now + (length < LEAST_WINDOW ? LEAST_WINDOW : length);
}

/* ---- periods ------------------------------------------------------------------------------------------------------ */

static void begin_burst(struct ft_reuse *reuse, uint64_t length)
{
    reuse->phase = IN_BURST;
    reuse->burst_begin = reuse->num_accesses;
    reuse->phase_end = reuse->num_accesses + length;
    ft_near_clear(reuse->tracks[SMALL].near, 0);
    ft_recency_clear(reuse->near_lines);
    ft_recent_clear(&reuse->recent);
    reuse->last_line = 0;
}

static bool is_dear(const struct ft_reuse *reuse)
{
    return reuse->near_work > FREE_WORK + reuse->num_accesses / ACCESSES_PER_WORK;
}

/* The rate for the period to come. */
static unsigned next_burst_shift(const struct ft_reuse *reuse)
{
    if (reuse->is_replaying)
        return reuse->replay_shift;
    if (reuse->is_repeating && reuse->options.burst_shift >= REPEATING_SHIFT)
        return FT_REUSE_MAX_BURST_SHIFT;
    const unsigned rate = rate_shift(reuse, reuse->options.burst_shift), shift = rate ? rate + BURST_SHIFT : 0;
    return shift < FT_REUSE_MAX_BURST_SHIFT ? shift : FT_REUSE_MAX_BURST_SHIFT;
}

/* The stream's own is read by other threads. */
static struct ft_reuse_period *planned_period(struct ft_reuse *reuse)
{
    return reuse->is_replaying ? &reuse->replay_period : &reuse->next_period;
}

static void plan_period(struct ft_reuse *reuse, uint64_t begin)
{
    reuse->next_burst_shift = next_burst_shift(reuse);
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
    const int64_t weight = reuse->times << reuse->next_burst_shift;
    if (weight != reuse->tracks[SMALL].weight)
        weight_near_counts(reuse);
    reuse->tracks[SMALL].weight = weight;
    reuse->phase = BEFORE_BURST;
    reuse->period_end = planned_period(reuse)->end;
    reuse->phase_end = planned_period(reuse)->burst_begin;
}

static void end_burst(struct ft_reuse *reuse)
{
    const uint64_t length = reuse->num_accesses - reuse->burst_begin;
    const bool is_first = reuse->num_bursts == 0;
    if (!is_first)
        end_sample(reuse, SMALL, (double)length * (double)reuse->tracks[SMALL].weight);
    reuse->tracks[SMALL].is_complete = false;
    reuse->burst_accesses += length;
    reuse->num_bursts++;
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
    for (unsigned name = MIDDLE; name <= LARGE && reuse->num_accesses % FT_REUSE_INTERVAL == 0; name++)
        if (reuse->num_accesses >= reuse->tracks[name].end)
            begin_window(reuse, name);
}

/* ---- accesses ----------------------------------------------------------------------------------------------------- */

/* Writes which accesses may be in blocks that are followed, and counts all. Returns how many they are. */
static size_t choose(struct ft_reuse *reuse, const struct ft_access *batch, size_t length, uint16_t *chosen, bool *leaves)
{
    struct ft_reuse_operation *operations = reuse->operations;
    const uint64_t times = (uint64_t)reuse->times;
    size_t num_chosen = 0;
    for (size_t i = 0; i < length; i++) {
        const uint64_t address = batch[i].address;
        const bool spans = (address & ((1u << FT_BLOCK_SHIFT) - 1)) + batch[i].size_bytes > 1u << FT_BLOCK_SHIFT;
        chosen[num_chosen] = (uint16_t)i;
        num_chosen += reuse->is_followed[address >> FT_BLOCK_SHIFT & (FT_NUM_CLASSES - 1)] | spans;
        leaves[i] = leaves_line(reuse, address);
        operations[batch[i].op].leaving += leaves[i] ? times : 0;
    }
    return num_chosen;
}

/* Between bursts only those in blocks that are followed are looked at. */
static void sample_part(struct ft_reuse *reuse, const struct ft_access *batch, size_t length)
{
    uint16_t chosen[PART];
    bool leaves[PART];
    struct distances found[FT_LINE_SIZES];
    const size_t num_chosen = choose(reuse, batch, length, chosen, leaves);
    for (size_t i = 0; i < num_chosen && !reuse->failed; i++)
        look_at(reuse, &batch[chosen[i]], 1, leaves[chosen[i]], found);
}

int ft_reuse_feed(struct ft_reuse *reuse, const struct ft_access *batch, size_t length)
{
    while (length && !reuse->failed) {
        uint64_t left = reuse->phase_end - reuse->num_accesses;
        size_t part = length < PART ? length : PART;
        part = part < left ? part : (size_t)left;
        left = FT_REUSE_INTERVAL - reuse->num_accesses % FT_REUSE_INTERVAL;
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
        if (reuse->phase == IN_BURST && reuse->num_accesses % FT_REUSE_INTERVAL == 0)
            fit_classes(reuse);
        batch += part;
        length -= part;
    }
    return reuse->failed ? -1 : 0;
}

/* How many points in a row, of `points` at most, begin before an access that goes `stride` bytes on each time touches a
 * followed block, if that of the first has its first byte at `address`. Its own block's end may count as one. */
static uint64_t unfollowed_points(const struct ft_reuse *reuse, uint64_t address, uint64_t size_bytes, int64_t stride,
                                 uint64_t points)
{
    const uint64_t first = address >> FT_BLOCK_SHIFT, last = (address + size_bytes - 1) >> FT_BLOCK_SHIFT;
    const uint64_t step = stride < 0 ? -(uint64_t)stride : (uint64_t)stride;
    if (first != last || reuse->is_followed[first & (FT_NUM_CLASSES - 1)])
        return 0;
    if (step == 0)
        return points;
    if (step >> FT_BLOCK_SHIFT)
        return 1;
    const uint64_t blocks = (points * step >> FT_BLOCK_SHIFT) + 1, class = first & (FT_NUM_CLASSES - 1);
    uint64_t bytes; /* that it may go on for */
    if (stride > 0) {
        const uint64_t seen = blocks < FT_NUM_CLASSES - class ? blocks : FT_NUM_CLASSES - class;
        const uint8_t *next = memchr(reuse->is_followed + class, 1, seen);
        const uint64_t clear = next ? (uint64_t)(next - (reuse->is_followed + class)) : seen;
        bytes = ((first + clear) << FT_BLOCK_SHIFT) - (address + size_bytes);
    } else {
        const uint64_t seen = blocks < class + 1 ? blocks : class + 1;
        const uint8_t *next = memrchr(reuse->is_followed + class + 1 - seen, 1, seen);
        const uint64_t clear = next ? (uint64_t)(reuse->is_followed + class - next) : seen;
        bytes = address - ((first + 1 - clear) << FT_BLOCK_SHIFT);
    }
    return bytes / step + 1 < points ? bytes / step + 1 : points;
}

/* The same for an indexed access. */
static uint64_t unfollowed_indexed(const struct ft_reuse *reuse, const struct ft_array_access *access,
                                  const uint64_t *index, uint64_t points)
{
    for (uint64_t i = 0; i < points; i++) {
        const uint64_t first = access->address + index[i] * (uint64_t)access->stride[0];
        const uint64_t last = first + access->size_bytes - 1;
        if (reuse->is_followed[first >> FT_BLOCK_SHIFT & (FT_NUM_CLASSES - 1)] |
            (first >> FT_BLOCK_SHIFT != last >> FT_BLOCK_SHIFT))
            return i;
    }
    return points;
}

/* Points from the one at hand on, in its row, of which no access lies in a sampled block. */
static uint64_t unfollowed_stay(const struct ft_reuse *reuse, const struct ft_array_walk *walk, uint64_t points)
{
    const struct ft_array_run *run = walk->run;
    const uint32_t dim = run->num_dims - 1;
    const uint64_t row = run->extent[dim] - walk->at[dim];
    points = points < row ? points : row;
    for (uint32_t j = 0; j < run->num_accesses && points; j++)
        if (!run->access[j].is_indexed)
            points = unfollowed_points(reuse, walk->address[j], run->access[j].size_bytes, run->access[j].stride[dim], points);
    for (uint32_t j = 0; j < run->num_accesses && points; j++)
        if (run->access[j].is_indexed)
            points = unfollowed_indexed(reuse, &run->access[j], run->index + walk->point, points);
    return points;
}

/* Whether two accesses go to different lines that may share a set: of all ways that tracks follow, or of larger ones. */
static bool share_sets(const struct ft_access *batch, size_t length)
{
    const uint64_t set_mask = ((UINT64_C(1) << FT_REUSE_SET_END) - 1) >> FT_BLOCK_SHIFT;
    uint64_t lines[FT_REUSE_SETS] = {0};
    for (size_t i = 0; i < length; i++) {
        const uint64_t last_byte = batch[i].address + batch[i].size_bytes - 1;
        for (uint64_t line = batch[i].address >> FT_LINE_SHIFT; line <= last_byte >> FT_LINE_SHIFT; line++) {
            uint64_t *used = &lines[line >> (FT_BLOCK_SHIFT - FT_LINE_SHIFT) & set_mask];
            if (*used && *used != line + 1)
                return true;
            *used = line + 1;
        }
    }
    return false;
}

/* The points from the one at hand on that touch the same lines, of the shortest size: of them only the first is looked at,
 * as of all accesses to the lines used last (see ft_reuse_sample). If some share a set, the second one, too: those behind
 * do what it does. Returns how many points they are, `most` at most. */
static uint64_t sample_point(struct ft_reuse *reuse, struct ft_array_walk *walk, uint64_t most)
{
    struct ft_access batch[FT_ARRAY_ACCESSES];
    struct distances found[FT_LINE_SIZES];
    const uint32_t width = walk->run->num_accesses;
    uint64_t points = ft_array_walk_stay(walk, FT_LINE_SHIFT);
    points = points < most ? points : most;
    points = points < UINT32_MAX ? points : UINT32_MAX;
    for (uint32_t j = 0; j < width; j++) {
        const struct ft_array_access *access = &walk->run->access[j];
        batch[j] = (struct ft_access){ft_array_walk_address(walk, j), access->op, access->size_bytes, access->flags};
    }
    sample_part(reuse, batch, width);
    const bool again = points > 1 && share_sets(batch, width);
    for (uint32_t j = 0; again && j < width; j++)
        look_at(reuse, &batch[j], (uint32_t)(points - 1), false, found);
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
        const uint64_t stay = unfollowed_stay(reuse, walk, most - points);
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
    for (uint32_t j = 0; j < run->num_accesses; j++)
        reuse->operations[run->access[j].op].is_of_array = true;
    ft_array_walk_begin(&walk, run);
    while (walk.points_left && !reuse->failed) {
        const uint64_t to_end = reuse->phase_end - reuse->num_accesses;
        const uint64_t to_part = FT_REUSE_INTERVAL - reuse->num_accesses % FT_REUSE_INTERVAL;
        const uint64_t left = to_end < to_part ? to_end : to_part;
        if (reuse->phase == IN_BURST || walk.next_access || left < run->num_accesses) {
            ft_reuse_feed(reuse, batch, ft_array_walk_next(&walk, batch, left < PART ? (size_t)left : PART));
            continue;
        }
        advance(reuse, sample_points(reuse, &walk, left));
    }
    return reuse->failed ? -1 : 0;
}

/* Those of a part of a batch that happened more often leave their lines each time. */
static void count_repeats(struct ft_reuse *reuse, const struct ft_access *batch, size_t begin, size_t length,
                          const bool *leaves, const struct ft_repeat **repeat, const struct ft_repeat *end)
{
    for (; *repeat < end && (*repeat)->begin < begin + length; ++*repeat) {
        const size_t first = (*repeat)->begin > begin ? (*repeat)->begin - begin : 0;
        const size_t last = (*repeat)->end - begin < length ? (*repeat)->end - begin : length;
        for (size_t i = first; i < last && (*repeat)->times; i++)
            reuse->operations[batch[begin + i].op].leaving += leaves[i] ? (*repeat)->times : 0;
        if ((*repeat)->end > begin + length)
            break;
    }
}

void ft_reuse_sample(struct ft_reuse *reuse, const struct ft_access *batch, size_t length,
                     const struct ft_repeat *repeats, size_t num_repeats)
{
    const struct ft_repeat *repeat = repeats, *unseen = repeats, *end = repeats + num_repeats;
    struct distances found[FT_LINE_SIZES];
    uint16_t chosen[PART];
    bool leaves[PART];
    for (size_t begin = 0; begin < length; begin += PART) {
        const size_t part = length - begin < PART ? length - begin : PART;
        const size_t num_chosen = choose(reuse, batch + begin, part, chosen, leaves);
        count_repeats(reuse, batch, begin, part, leaves, &unseen, end);
        for (size_t i = 0; i < num_chosen && !reuse->failed; i++) {
            const size_t place = begin + chosen[i];
            while (repeat < end && repeat->end <= place)
                repeat++;
            const uint32_t more = repeat < end && repeat->begin <= place ? repeat->times : 0;
            look_at(reuse, &batch[place], 1 + more, leaves[chosen[i]], found);
        }
    }
}

void ft_reuse_sample_array(struct ft_reuse *reuse, const struct ft_array_run *run)
{
    struct ft_array_walk walk;
    ft_array_walk_begin(&walk, run);
    for (uint32_t j = 0; j < run->num_accesses; j++)
        reuse->operations[run->access[j].op].is_of_array = true;
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
static void replay_sampled(struct ft_reuse *reuse)
{
    plan_period(reuse, 0);
    begin_period(reuse);
    advance(reuse, 0);
}

/* A replay in one burst of all accesses, which those of the same before have warmed up for. */
static void replay_whole(struct ft_reuse *reuse)
{
    reuse->tracks[SMALL].weight = 0;
    reuse->is_counted = false;
    begin_burst(reuse, UINT64_MAX);
    reuse->period_end = UINT64_MAX;
}

/* The rate for a replay: that of options, or a higher one where bursts would be few; but lower if a replay for so few times
 * would be too dear. */
static unsigned replay_shift(const struct ft_reuse *reuse, uint64_t accesses, uint32_t times)
{
    const unsigned once = is_dear(reuse) ? DEAR_REPLAY_SHIFT : CHEAP_REPLAY_SHIFT;
    const unsigned log_times = 31u - (unsigned)__builtin_clz(times), least = once > log_times ? once - log_times : 0;
    unsigned shift = reuse->options.burst_shift > least ? reuse->options.burst_shift : least;
    while (shift > least && accesses >> shift < LEAST_REPLAY_BURSTS * reuse->options.burst_accesses)
        shift--;
    return shift;
}

/* In a replay, a track follows as many residues as its rate says, always. What was passed over is then represented, whether
 * it was followed or not. */
static void begin_track_replay(struct ft_reuse *reuse, unsigned name, uint64_t passed)
{
    struct track *track = &reuse->tracks[name];
    const unsigned residues = ft_near_residues(track->near), most = (unsigned)__builtin_ctz(residues);
    const uint64_t before = reuse->num_accesses - track->begin > passed ? reuse->num_accesses - track->begin - passed : 0;
    track->accesses += passed + (track->is_on ? before * num_windows(track) : 0);
    track->begin = reuse->num_accesses;
    track->has_last = false;
    follow(reuse, name, false);
    reuse->stream.tracks[name] = *track;
    track->shift = reuse->replay_shift < most ? reuse->replay_shift : most;
    track->weight = reuse->times << track->shift;
    track->is_on = true;
    track->is_complete = false;
    track->end = UINT64_MAX;
    for (unsigned j = 0; j < num_followed(track); j++)
        ft_near_clear(track->near, track->order[(track->first + j) & (residues - 1)]);
    follow(reuse, name, true);
}

bool ft_reuse_begin_replay(struct ft_reuse *reuse, uint64_t accesses, uint32_t times)
{
    reuse->replay_shift = replay_shift(reuse, accesses, times);
    const bool is_whole = reuse->replay_shift == 0;
    weight_near_counts(reuse);
    reuse->stream.phase = reuse->phase;
    reuse->stream.is_counted = reuse->is_counted;
    reuse->stream.num_accesses = reuse->num_accesses;
    reuse->stream.phase_end = reuse->phase_end;
    reuse->stream.period_end = reuse->period_end;
    reuse->stream.burst_begin = reuse->burst_begin;
    reuse->stream.next_burst_shift = reuse->next_burst_shift;
    reuse->stream.tracks[SMALL] = reuse->tracks[SMALL];
    reuse->times = is_whole ? 0 : times;
    for (unsigned name = MIDDLE; name <= LARGE; name++)
        begin_track_replay(reuse, name, accesses * times);
    reuse->is_replaying = true;
    reuse->num_accesses = 0;
    reuse->tracks[SMALL].has_last = false;
    if (is_whole)
        replay_whole(reuse);
    else
        replay_sampled(reuse);
    return is_whole;
}

void ft_reuse_count_replay(struct ft_reuse *reuse, uint32_t times)
{
    reuse->times = times;
    for (unsigned name = SMALL; name < NUM_TRACKS; name++)
        reuse->tracks[name].weight = times;
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
    for (unsigned name = SMALL; name < NUM_TRACKS; name++) {
        if (name != SMALL)
            follow(reuse, name, false);
        reuse->tracks[name] = stream->tracks[name];
        reuse->tracks[name].has_last = false;
        if (name != SMALL)
            follow(reuse, name, reuse->tracks[name].is_on);
    }
    reuse->is_replaying = false;
    reuse->times = 1;
    reuse->phase = stream->phase;
    reuse->is_counted = stream->is_counted;
    reuse->num_accesses = stream->num_accesses;
    reuse->phase_end = stream->phase_end;
    reuse->period_end = stream->period_end;
    reuse->burst_begin = stream->burst_begin;
    reuse->next_burst_shift = stream->next_burst_shift;
}

/* ---- life and results --------------------------------------------------------------------------------------------- */

static bool begin_track(struct ft_reuse *reuse, unsigned name)
{
    struct track *track = &reuse->tracks[name];
    track->near = ft_near_new(first_way_of[name], first_way_of[name + 1] - 1u);
    if (!track->near)
        return false;
    track->weight = 1;
    track->end = reuse->options.exact_accesses;
    track->is_on = track->is_complete = true;
    const unsigned residues = ft_near_residues(track->near), first = (unsigned)random_below(reuse, residues);
    for (unsigned i = 0; i < residues; i++)
        track->order[i] = (uint16_t)((first + i * NEXT_RESIDUE) & (residues - 1));
    return true;
}

struct ft_reuse *ft_reuse_new(const struct ft_reuse_options *options)
{
    struct ft_reuse *reuse = calloc(1, sizeof *reuse);
    if (!reuse)
        return NULL;
    reuse->options = *options;
    reuse->near_lines = ft_recency_new();
    reuse->far_lines = ft_recency_new();
    reuse->far = ft_far_new();
    reuse->counts_size = 4096;
    reuse->counts = calloc(reuse->counts_size, sizeof *reuse->counts);
    bool good = reuse->near_lines && reuse->far_lines && reuse->far && reuse->counts;
    for (unsigned name = SMALL; good && name < NUM_TRACKS; name++)
        good = begin_track(reuse, name);
    if (!good) {
        ft_reuse_free(reuse);
        return NULL;
    }
    for (unsigned class = 0; class < FT_NUM_CLASSES; class++)
        reuse->followed[class] = rank_of(class) < FT_NUM_CLASSES >> options->first_class_shift ? FAR_BIT : 0;
    reuse->class_shift = options->first_class_shift;
    reuse->times = 1;
    follow(reuse, MIDDLE, true);
    follow(reuse, LARGE, true);
    ft_recent_init(&reuse->recent, FT_LINE_SHIFT, FT_BLOCK_SHIFT, FT_BLOCK_SHIFT + FT_REUSE_MIDDLE_WAY - 1);
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
    for (unsigned name = SMALL; name < NUM_TRACKS; name++)
        ft_near_free(reuse->tracks[name].near);
    ft_far_free(reuse->far);
    free(reuse->operations);
    for (size_t op = 0; op < reuse->num_operations; op++)
        free(reuse->near_counts[op]);
    free(reuse->near_counts);
    free(reuse->counts);
    free(reuse);
}

struct ft_reuse_summary ft_reuse_summary(const struct ft_reuse *reuse)
{
    uint64_t followed[NUM_TRACKS];
    for (unsigned name = SMALL; name < NUM_TRACKS; name++) {
        const struct track *track = &reuse->tracks[name];
        followed[name] = track->accesses;
        if (track->is_on)
            followed[name] += (reuse->num_accesses - track->begin) * num_windows(track);
    }
    uint64_t in_burst = reuse->phase == IN_BURST ? reuse->num_accesses - reuse->burst_begin : 0;
    return (struct ft_reuse_summary){
        .accesses = reuse->num_accesses,
        .burst_accesses = reuse->burst_accesses + in_burst,
        .bursts = reuse->num_bursts + (in_burst > 0),
        .class_shift = reuse->class_shift,
        .middle_accesses = followed[MIDDLE],
        .large_accesses = followed[LARGE],
        .known_blocks = (uint32_t)ft_recency_lines(reuse->far_lines, FT_LINE_SIZES - 1),
    };
}

int ft_reuse_reserve(struct ft_reuse *reuse, size_t num_operations)
{
    if (num_operations <= reuse->num_operations)
        return 0;
    const size_t before = reuse->num_operations, number = num_operations * 2;
    struct ft_reuse_operation *operations = realloc(reuse->operations, number * sizeof *operations);
    if (operations)
        reuse->operations = operations;
    struct near_counts **counts = realloc(reuse->near_counts, number * sizeof *counts);
    if (counts)
        reuse->near_counts = counts;
    if (!operations || !counts)
        return -1;
    memset(operations + before, 0, (number - before) * sizeof *operations);
    for (size_t op = before; op < number; op++)
        counts[op] = NULL;
    reuse->num_operations = number;
    return 0;
}

size_t ft_reuse_operations(const struct ft_reuse *reuse)
{
    return reuse->num_operations;
}

const struct ft_reuse_operation *ft_reuse_sampled(const struct ft_reuse *reuse)
{
    return reuse->operations;
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
