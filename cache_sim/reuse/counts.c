/* What reuse.c has counted: by operation, line size, way and bin.
 *
 * Counts are kept as changes from one way size to the next within a track: distances only become smaller, and most are
 * 0 soon, or remain beyond everything. `counts` is open addressing, at most half full; key 0 is empty. What bursts and
 * tracks count of an operation goes to rows of its own first, which are weighted and moved to `counts` before weights
 * change. Accesses in sampled classes are first counted for as long as they are alike (`alike`), which those of a
 * stream are in a block.
 */
#include "samples.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define FAR_WAYS (FT_LAST_WAY - FT_FAR_WAY + 1)
#define EXACT_BINS 8u /* one distance each; above, BINS_PER_OCTAVE */
#define BINS_PER_OCTAVE 4u
#define LEAST_FAR_BYTES (UINT64_C(1) << 17) /* distances below are measured better in bursts */
#define MOST_TIMES 256u /* so that 32 bits hold what is not weighted yet, of */
#define MOST_UNWEIGHTED (1u << 20) /* accesses */
#define RESOLVED (1u << 16) /* in a key: changes for first uses whose distance became known */
#define FIRST (1u << 15)    /* likewise: first uses by the distance that was seen, all or (with RESOLVED) those */

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

void ft_reuse_weight_counts(struct ft_reuse *reuse)
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
    unsigned track, resolved;   /* RESOLVED: those whose distance became known; or 0 */
    struct near_counts *counts; /* NULL: they go to `counts` of the whole at once */
};

/* ---- bursts and tracks -------------------------------------------------------------------------------------------- */

/* An access with these distances, `factor` times, in `counts`, as changes from way to way. */
static void count_changes(struct ft_reuse *reuse, const struct counted *as, unsigned size,
                          const struct distances *found, int64_t factor)
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
    int64_t (*sums)[FT_REUSE_NEAR_BINS] = &reuse->burst.sets[as->resolved > 0][size][first - 1];
    int32_t (*counts)[FT_REUSE_NEAR_BINS] = as->counts ? &as->counts->accesses[size][first - 1] : NULL;
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

/* Bin 0 has no distances to count: it holds an operation's first uses, and how many those that are resolved stand for.
 */
static void count_first_use(struct ft_reuse *reuse, const struct counted *as, unsigned size,
                            const struct distances *found, int64_t times, int64_t resolved)
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

void ft_reuse_count_near(struct ft_reuse *reuse, unsigned track, uint32_t op, uint32_t times, struct distances *near,
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
        ft_reuse_weight_counts(reuse);
}

/* ---- classes ------------------------------------------------------------------------------------------------------ */

static void count_far(struct ft_reuse *reuse, const struct far_counts *alike, unsigned way, unsigned bin,
                      int64_t accesses)
{
    if (reuse->class_shift)
        reuse->groups[alike->group][alike->size][way - FT_FAR_WAY][bin] += (double)accesses;
    count(reuse, alike->op, alike->size, way, bin, accesses);
}

/* Counts accesses that are alike. */
static void settle_far(struct ft_reuse *reuse, struct far_counts *alike)
{
    unsigned before = 0;
    for (unsigned way = FT_FAR_WAY; way <= FT_LAST_WAY; way++) {
        const unsigned bin = alike->bins >> (way - FT_FAR_WAY) * 8 & 0xff;
        if (bin != before && before)
            count_far(reuse, alike, way, before, -alike->accesses);
        if (bin != before && bin)
            count_far(reuse, alike, way, bin, alike->accesses);
        before = bin;
    }
    const unsigned one_set = alike->bins >> FAR_WAYS * 8;
    if (one_set)
        count_far(reuse, alike, FT_REUSE_ONE_SET_FAR, one_set, alike->accesses);
    alike->accesses = 0;
}

void ft_reuse_settle_far(struct ft_reuse *reuse)
{
    for (size_t i = 0; i < ALIKE; i++)
        if (reuse->alike[i].accesses)
            settle_far(reuse, &reuse->alike[i]);
}

void ft_reuse_count_far(struct ft_reuse *reuse, uint32_t op, unsigned group, unsigned size, int64_t times,
                        const struct distances *found)
{
    static_assert(FT_REUSE_BINS <= 256 && FAR_WAYS < 8, "a byte for each way, and for all lines");
    struct far_counts *alike = &reuse->alike[(op * FT_LINE_SIZES + size) % ALIKE];
    uint64_t bins = 0;
    for (unsigned i = 0; i < FAR_WAYS && found->ways[0]; i++)
        bins |= (uint64_t)far_bin(found->ways[i]) << i * 8;
    if (found->one_set >= LEAST_FAR_BYTES >> (FT_LINE_SHIFT + size))
        bins |= (uint64_t)bin_of(found->one_set) << FAR_WAYS * 8;
    if (!bins)
        return;
    if (alike->bins != bins || alike->op != op || alike->group != group || alike->size != size) {
        if (alike->accesses)
            settle_far(reuse, alike);
        *alike = (struct far_counts){bins, op, (uint16_t)group, (uint16_t)size, 0};
    }
    alike->accesses += times * reuse->times * (INT64_C(1) << reuse->class_shift);
}

/* ---- results ------------------------------------------------------------------------------------------------------ */

size_t ft_reuse_finish(struct ft_reuse *reuse)
{
    ft_reuse_weight_counts(reuse);
    ft_reuse_settle_far(reuse);
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
