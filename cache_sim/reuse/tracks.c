/* Tracks: see reuse.c. Lines of bursts are kept in the same way, in a track of their own that has one residue. */
#include "samples.h"

#include <string.h>

#define LEAST_SHIFT 1u /* after the exact beginning */
#define NESTED_SHIFT 4u /* as long as so many residues are followed, they stay, or some of them */
#define NEXT_RESIDUE 39u /* odd, about 64 divided by the golden ratio: those of a few windows are spread, and their lowest bits */
#define LEAST_WINDOW (UINT64_C(1) << 14)
#define LONG_SHIFT 2u /* in very long programs, rates of tracks are lower by this */
#define MOST_EXTRA 2u
#define ACCESSES_PER_WORK 64u /* one line used in bursts and tracks for so many accesses */
#define FREE_WORK (UINT64_C(1) << 24)

/* A window is so much of what was before it. Few lines fill caches of middle ways, so that theirs may be short. */
static const uint8_t window_shift[NUM_TRACKS] = {0, 6, 3};

/* ---- accesses ----------------------------------------------------------------------------------------------------- */

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
static void touch_one_set(struct ft_reuse *reuse, uint32_t number, unsigned size, uint64_t first_byte,
                          uint64_t last_byte, struct distances *found)
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

bool ft_reuse_follow_access(struct ft_reuse *reuse, unsigned track, const struct ft_access *access, uint32_t times,
                            bool is_counted, bool leaves, const struct distances *far)
{
    const uint64_t last_byte = access->address + access->size_bytes - 1,
                   block_mask = (UINT64_C(1) << FT_BLOCK_SHIFT) - 1;
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
        ft_reuse_count_near(reuse, track, access->op, times, near, far);
    return true;
}

/* ---- variances ---------------------------------------------------------------------------------------------------- */

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
        const double known = 1 / accesses,
                     resolved = resolved_uses ? (double)uses / (double)resolved_uses / accesses : 0;
        double above = 0;
        for (unsigned bin = FT_REUSE_BINS; track == SMALL && bin-- > 0;)
            misses->one_set[size][bin] = above +=
                (double)burst->one_set[0][size][bin] * known + (double)burst->one_set[1][size][bin] * resolved;
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

/* Variance of a sum of which samples are known that stand for `accesses` each, at a rate of 1 / weight: from the
 * differences of successive ones, Wolter, "Introduction to Variance Estimation", section 8.2, estimator v2. Of tracks,
 * that is more than it should be: what changes with time is a difference, too, though no time may be missing. Counting
 * begins anew. */
void ft_reuse_end_window(struct ft_reuse *reuse, unsigned name, double accesses)
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

/* ---- windows ------------------------------------------------------------------------------------------------------ */

unsigned ft_reuse_rate_shift(const struct ft_reuse *reuse, uint64_t accesses, unsigned shift)
{
    unsigned now = 0;
    while (now < shift && reuse->options.exact_accesses << 2 * now <= accesses)
        now++;
    return !now ? 0 : now + LEAST_SHIFT < shift ? now + LEAST_SHIFT : shift;
}

unsigned ft_reuse_num_followed(const struct track *track)
{
    const unsigned residues = ft_near_residues(track->near);
    return residues >> track->shift ? residues >> track->shift : 1;
}

unsigned ft_reuse_num_windows(const struct track *track)
{
    return (ft_reuse_num_followed(track) << track->shift) / ft_near_residues(track->near);
}

void ft_reuse_follow(struct ft_reuse *reuse, unsigned name, bool is_on)
{
    const struct track *track = &reuse->tracks[name];
    const unsigned residues = ft_near_residues(track->near);
    for (unsigned j = 0; j < ft_reuse_num_followed(track); j++)
        for (unsigned class = track->order[(track->first + j) & (residues - 1)]; class < FT_NUM_CLASSES;
             class += residues) {
            reuse->followed[class] = (uint8_t)((reuse->followed[class] & ~BIT_OF(name)) | (is_on ? BIT_OF(name) : 0));
            reuse->is_followed[class] = reuse->followed[class] > 0;
        }
}

/* Goes on to other residues, and chooses whether to follow them now: in one of so many windows that the rate is right.
 */
static void move_track(struct ft_reuse *reuse, struct track *track, unsigned shift)
{
    const unsigned residues = ft_near_residues(track->near), before = ft_reuse_num_followed(track);
    const bool is_new_rate = shift != track->shift;
    if (is_new_rate)
        ft_reuse_weight_counts(reuse);
    track->shift = shift;
    track->weight = INT64_C(1) << shift;
    if (track->windows_left == 0 || is_new_rate) {
        track->windows_left = ft_reuse_num_windows(track);
        track->on_in = (uint32_t)ft_reuse_random_below(reuse, track->windows_left);
    }
    track->is_on = --track->windows_left == track->on_in;
    if (track->is_complete && shift < NESTED_SHIFT && ft_reuse_num_followed(track) <= before)
        return; /* some of those followed until now */
    track->is_complete = false;
    track->first = (track->first + before) & (residues - 1);
    for (unsigned j = 0; track->is_on && j < ft_reuse_num_followed(track); j++)
        ft_near_clear(track->near, track->order[(track->first + j) & (residues - 1)]);
}

static void end_window(struct ft_reuse *reuse, unsigned name)
{
    struct track *track = &reuse->tracks[name];
    const uint64_t accesses = (reuse->num_accesses - track->begin) * ft_reuse_num_windows(track);
    track->accesses += accesses;
    ft_reuse_end_window(reuse, name, (double)accesses);
}

bool ft_reuse_is_dear(const struct ft_reuse *reuse)
{
    return reuse->near_work > FREE_WORK + reuse->num_accesses / ACCESSES_PER_WORK;
}

void ft_reuse_begin_window(struct ft_reuse *reuse, unsigned name)
{
    const uint64_t now = reuse->num_accesses, budget = FREE_WORK + now / ACCESSES_PER_WORK;
    struct track *track = &reuse->tracks[name];
    if (track->is_on)
        end_window(reuse, name);
    if (name == LARGE && reuse->near_work > budget && reuse->extra < MOST_EXTRA)
        reuse->extra++;
    else if (name == LARGE && reuse->near_work < budget / 2 && reuse->extra)
        reuse->extra--;
    ft_reuse_follow(reuse, name, false);
    const unsigned shift = ft_reuse_rate_shift(reuse, now, reuse->options.class_shift + LONG_SHIFT);
    move_track(reuse, track, shift + (name == MIDDLE) + reuse->extra);
    ft_reuse_follow(reuse, name, track->is_on);
    track->begin = now;
    const uint64_t length = (now >> window_shift[name]) / ft_reuse_num_windows(track);
    track->end = now + (length < LEAST_WINDOW ? LEAST_WINDOW : length);
}

bool ft_reuse_begin_track(struct ft_reuse *reuse, unsigned name)
{
    struct track *track = &reuse->tracks[name];
    track->near = ft_near_new(first_way_of[name], first_way_of[name + 1] - 1u);
    if (!track->near)
        return false;
    track->weight = 1;
    track->end = reuse->options.exact_accesses;
    track->is_on = track->is_complete = true;
    const unsigned residues = ft_near_residues(track->near), first = (unsigned)ft_reuse_random_below(reuse, residues);
    for (unsigned i = 0; i < residues; i++)
        track->order[i] = (uint16_t)((first + i * NEXT_RESIDUE) & (residues - 1));
    return true;
}
