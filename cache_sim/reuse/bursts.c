/* Bursts, and the periods that they are in: see reuse.c. */
#include "samples.h"

#define BURST_SHIFT 2u /* bursts are rarer than what tracks follow */

/* The error that bursts are to leave, a ratio to the accesses, for caches of so many bytes; larger ones are told by
 * others. */
#define WANTED_ERROR 0.015
#define SMALLEST_CACHE (UINT64_C(1) << 12)
#define LARGEST_CACHE (UINT64_C(1) << 19)
#define BURSTS_BEFORE_MORE 48u  /* from so many on their error is known well enough to have more of them, */
#define BURSTS_BEFORE_FEWER 64u /* or fewer: */
#define MOST_MORE 3u  /* 2^MOST_MORE times as many, */
#define MOST_FEWER 2u /* or 2^-MOST_FEWER */

/* ---- warming up --------------------------------------------------------------------------------------------------- */

#define SEEN_PLACES (2 * WARMING_LINES)

/* Whether a line was not seen yet: it is from now on. */
static inline bool is_unseen(uint64_t *seen, uint64_t line)
{
    size_t i = (size_t)(line * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (SEEN_PLACES - 1);
    while (seen[i] && seen[i] != line + 1)
        i = (i + 1) & (SEEN_PLACES - 1);
    const bool is_new = !seen[i];
    seen[i] = line + 1;
    return is_new;
}

/* Uses the lines that are to warm up. What is counted later depends on the order of their last uses alone: each is used
 * once, in that. Returns false if there is no room for one. */
static bool use_warming_lines(struct ft_reuse *reuse)
{
    uint64_t seen[SEEN_PLACES] = {0}, *const lines = reuse->warming;
    const size_t end = reuse->num_warming;
    size_t begin = end;
    bool has_room = true;
    for (size_t i = end; i > 0; i--)
        if (is_unseen(seen, lines[i - 1]))
            lines[--begin] = lines[i - 1];
    for (size_t i = begin; i < end && has_room; i++) {
        const struct ft_access access = {lines[i] << FT_LINE_SHIFT, 0, 1, 0};
        has_room = ft_reuse_follow_access(reuse, SMALL, &access, 1, false, false, NULL);
    }
    reuse->num_warming = 0;
    return has_room;
}

/* An access before those that are counted. Returns false if there is no room for it. */
static bool warm_up(struct ft_reuse *reuse, const struct ft_access *access)
{
    const uint64_t last = (access->address + access->size_bytes - 1) >> FT_LINE_SHIFT;
    bool has_room = true;
    for (uint64_t line = access->address >> FT_LINE_SHIFT; line <= last && has_room; line++) {
        reuse->warming[reuse->num_warming++] = line;
        if (reuse->num_warming == WARMING_LINES)
            has_room = use_warming_lines(reuse);
    }
    return has_room;
}

void ft_reuse_begin_counting(struct ft_reuse *reuse)
{
    use_warming_lines(reuse);
    reuse->is_counted = true;
}

/* ---- accesses ----------------------------------------------------------------------------------------------------- */

size_t ft_reuse_burst(struct ft_reuse *reuse, const struct ft_access *batch, size_t length)
{
    const bool is_exact = reuse->num_bursts == 0;
    struct distances far[FT_LINE_SIZES];
    for (size_t i = 0; i < length; i++) {
        const struct ft_access *access = &batch[i];
        struct ft_reuse_operation *operation = &reuse->operations[access->op];
        if (reuse->is_counted)
            operation->in_bursts += (uint64_t)reuse->tracks[SMALL].weight;
        const bool changes = ft_recent_use(&reuse->recent, access->address, access->size_bytes);
        const bool leaves = leaves_line(reuse->mapped, access->address);
        operation->leaving += leaves ? (uint64_t)reuse->times : 0;
        const bool is_far = (changes || is_exact) && ft_reuse_look_at(reuse, access, 1, leaves, far);
        if (uses_line_again(access, &reuse->last_line))
            continue;
        if (!(reuse->is_counted ? ft_reuse_follow_access(reuse, SMALL, access, 1, true, leaves, is_far ? far : NULL)
                                : warm_up(reuse, access)))
            return i + 1;
    }
    return length;
}

/* ---- periods ------------------------------------------------------------------------------------------------------ */

void ft_reuse_begin_burst(struct ft_reuse *reuse, uint64_t length)
{
    reuse->phase = IN_BURST;
    reuse->burst_begin = reuse->num_accesses;
    reuse->phase_end = reuse->num_accesses + length;
    ft_near_clear(reuse->tracks[SMALL].near, 0);
    ft_recency_clear(reuse->near_lines);
    ft_recent_clear(&reuse->recent);
    reuse->last_line = 0;
    reuse->num_warming = 0;
}

/* Whether a distance of a bin's edge, in lines of 2^line_shift bytes (or ways of as many), is one of the caches above.
 */
static bool is_wanted(unsigned bin, unsigned line_shift)
{
    const uint64_t bytes = ft_reuse_bin_edge(bin) << line_shift;
    return bytes >= SMALLEST_CACHE && bytes <= LARGEST_CACHE;
}

/* The largest variance of what bursts tell of such caches, of ratios to the accesses. */
static double burst_variance(const struct ft_reuse *reuse)
{
    double most = 0;
    for (unsigned size = 0; size < FT_LINE_SIZES; size++) {
        const double *one_set = reuse->variances.one_set[size];
        for (unsigned bin = 0; bin < FT_REUSE_BEYOND; bin++)
            if (one_set[bin] > most && is_wanted(bin, FT_LINE_SHIFT + size))
                most = one_set[bin];
        for (unsigned way = first_way_of[SMALL]; way < first_way_of[MIDDLE]; way++)
            for (unsigned bin = 0; bin < FT_REUSE_NEAR_BEYOND; bin++)
                if (reuse->variances.sets[size][way - 1][bin] > most && is_wanted(bin, way + 7))
                    most = reuse->variances.sets[size][way - 1][bin];
    }
    return most / ((double)reuse->num_accesses * (double)reuse->num_accesses);
}

/* A burst sees one moment, in which a cache may miss all or nothing: how many it takes is told by how much they differ.
 * An error is halved by four times as many. The rate is chosen before what it is for is seen. */
static unsigned fit_to_error(const struct ft_reuse *reuse, unsigned shift)
{
    const double ratio = burst_variance(reuse) / (WANTED_ERROR * WANTED_ERROR);
    unsigned more = 0, fewer = 0;
    while (more < MOST_MORE && more < shift && reuse->num_bursts >= BURSTS_BEFORE_MORE && ratio >= 2u << more)
        more++;
    while (fewer < MOST_FEWER && reuse->num_bursts >= BURSTS_BEFORE_FEWER && ratio * (2u << fewer) < 1)
        fewer++;
    return shift - more + fewer;
}

/* The rate for a period. */
static unsigned burst_shift(const struct ft_reuse *reuse, uint64_t begin)
{
    if (reuse->is_replaying)
        return reuse->replay_shift;
    const unsigned rate = ft_reuse_rate_shift(reuse, begin, reuse->options.burst_shift);
    const unsigned usual = rate ? rate + BURST_SHIFT : 0;
    const unsigned shift = usual < FT_REUSE_MAX_BURST_SHIFT ? usual : FT_REUSE_MAX_BURST_SHIFT;
    const unsigned fitted = shift ? fit_to_error(reuse, shift) : 0;
    if (reuse->is_repeating && reuse->options.burst_shift >= REPEATING_SHIFT && fitted < FT_REUSE_MAX_BURST_SHIFT)
        return FT_REUSE_MAX_BURST_SHIFT;
    return fitted;
}

static struct periods *periods_of(struct ft_reuse *reuse)
{
    return reuse->is_replaying ? &reuse->replay_periods : &reuse->periods;
}

static void plan_period(struct ft_reuse *reuse)
{
    struct periods *periods = periods_of(reuse);
    const unsigned number = periods->num_planned++;
    const uint64_t begin = number ? periods->planned[(number - 1) % PLANNED_PERIODS].end : 0;
    const unsigned shift = burst_shift(reuse, begin);
    const uint64_t length = reuse->options.burst_accesses << shift;
    const uint64_t burst_begin = begin + ft_reuse_random_below(reuse, length - reuse->options.burst_accesses + 1);
    periods->shifts[number % PLANNED_PERIODS] = shift;
    periods->planned[number % PLANNED_PERIODS] = (struct ft_reuse_period){
        .burst_begin = burst_begin,
        .burst_end = burst_begin + reuse->options.warm_accesses + reuse->options.burst_accesses,
        .end = begin + length + reuse->options.warm_accesses,
    };
}

void ft_reuse_plan_periods(struct ft_reuse *reuse)
{
    const struct periods *periods = periods_of(reuse);
    while (periods->num_planned < periods->num_begun + 2)
        plan_period(reuse);
}

void ft_reuse_begin_period(struct ft_reuse *reuse)
{
    struct periods *periods = periods_of(reuse);
    if (periods->num_begun == periods->num_planned)
        plan_period(reuse);
    const unsigned place = periods->num_begun++ % PLANNED_PERIODS;
    const int64_t weight = reuse->times << periods->shifts[place];
    if (weight != reuse->tracks[SMALL].weight)
        ft_reuse_weight_counts(reuse);
    reuse->tracks[SMALL].weight = weight;
    reuse->phase = BEFORE_BURST;
    reuse->period_end = periods->planned[place].end;
    reuse->phase_end = periods->planned[place].burst_begin;
}

static void end_burst(struct ft_reuse *reuse)
{
    const uint64_t length = reuse->num_accesses - reuse->burst_begin;
    const bool is_first = reuse->num_bursts == 0;
    if (is_first) /* it may be over early */
        reuse->period_end = reuse->periods.planned[0].end = reuse->num_accesses;
    else
        ft_reuse_end_window(reuse, SMALL, (double)length * (double)reuse->tracks[SMALL].weight);
    reuse->tracks[SMALL].is_complete = false;
    reuse->burst_accesses += length;
    reuse->num_bursts++;
    reuse->phase = AFTER_BURST;
    reuse->phase_end = reuse->period_end;
    ft_reuse_plan_periods(reuse);
}

void ft_reuse_next_phase(struct ft_reuse *reuse)
{
    ft_reuse_fit_classes(reuse);
    if (reuse->phase == BEFORE_BURST) {
        ft_reuse_begin_burst(reuse, reuse->options.warm_accesses);
        reuse->is_counted = false;
    } else if (reuse->phase == IN_BURST && !reuse->is_counted) {
        ft_reuse_begin_counting(reuse);
        reuse->burst_begin = reuse->num_accesses;
        reuse->phase_end = reuse->num_accesses + reuse->options.burst_accesses;
    } else if (reuse->phase == IN_BURST)
        end_burst(reuse);
    else
        ft_reuse_begin_period(reuse);
}
