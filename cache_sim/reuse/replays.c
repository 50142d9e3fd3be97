/* What is passed over, and replays that make up for it: see reuse.c. */
#include "samples.h"

#include <string.h>

#define LEAST_REPLAY_BURSTS 8u /* or as many as there is room for */
#define CHEAP_REPLAY_SHIFT 5u  /* the smallest shift in a replay that stands for itself alone; with n times it is log2(n) less, */
#define DEAR_REPLAY_SHIFT 8u   /* so that work grows as all accesses do, and not as those replayed */

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
                ft_reuse_begin_period(reuse);
            } else {
                reuse->phase = AFTER_BURST;
                reuse->phase_end = reuse->period_end;
                ft_reuse_plan_periods(reuse);
            }
        }
    }
}

/* A replay in bursts that stand for what lies between them. */
static void replay_sampled(struct ft_reuse *reuse)
{
    ft_reuse_begin_period(reuse);
    ft_reuse_advance(reuse, 0);
}

/* A replay in one burst of all accesses, which those of the same before have warmed up for. */
static void replay_whole(struct ft_reuse *reuse)
{
    reuse->tracks[SMALL].weight = 0;
    reuse->is_counted = false;
    ft_reuse_begin_burst(reuse, UINT64_MAX);
    reuse->period_end = UINT64_MAX;
}

/* The rate for a replay: that of options, or a higher one where bursts would be few; but lower if a replay for so few
 * times would be too dear. */
static unsigned replay_shift(const struct ft_reuse *reuse, uint64_t accesses, uint32_t times)
{
    const unsigned once = ft_reuse_is_dear(reuse) ? DEAR_REPLAY_SHIFT : CHEAP_REPLAY_SHIFT;
    const unsigned log_times = 31u - (unsigned)__builtin_clz(times), least = once > log_times ? once - log_times : 0;
    unsigned shift = reuse->options.burst_shift > least ? reuse->options.burst_shift : least;
    while (shift > least && accesses >> shift < LEAST_REPLAY_BURSTS * reuse->options.burst_accesses)
        shift--;
    return shift;
}

/* In a replay, a track follows as many residues as its rate says, always. What was passed over is then represented,
 * whether it was followed or not. */
static void begin_track_replay(struct ft_reuse *reuse, unsigned name, uint64_t passed)
{
    struct track *track = &reuse->tracks[name];
    const unsigned residues = ft_near_residues(track->near), most = (unsigned)__builtin_ctz(residues);
    const uint64_t before =
        reuse->num_accesses - track->begin > passed ? reuse->num_accesses - track->begin - passed : 0;
    track->accesses += passed + (track->is_on ? before * ft_reuse_num_windows(track) : 0);
    track->begin = reuse->num_accesses;
    track->has_last = false;
    ft_reuse_follow(reuse, name, false);
    reuse->stream.tracks[name] = *track;
    track->shift = reuse->replay_shift < most ? reuse->replay_shift : most;
    track->weight = reuse->times << track->shift;
    track->is_on = true;
    track->is_complete = false;
    track->end = UINT64_MAX;
    for (unsigned j = 0; j < ft_reuse_num_followed(track); j++)
        ft_near_clear(track->near, track->order[(track->first + j) & (residues - 1)]);
    ft_reuse_follow(reuse, name, true);
}

bool ft_reuse_begin_replay(struct ft_reuse *reuse, uint64_t accesses, uint32_t times)
{
    reuse->replay_shift = replay_shift(reuse, accesses, times);
    const bool is_whole = reuse->replay_shift == 0;
    ft_reuse_weight_counts(reuse);
    reuse->stream.phase = reuse->phase;
    reuse->stream.is_counted = reuse->is_counted;
    reuse->stream.num_accesses = reuse->num_accesses;
    reuse->stream.phase_end = reuse->phase_end;
    reuse->stream.period_end = reuse->period_end;
    reuse->stream.burst_begin = reuse->burst_begin;
    reuse->stream.tracks[SMALL] = reuse->tracks[SMALL];
    reuse->times = is_whole ? 0 : times;
    for (unsigned name = MIDDLE; name <= LARGE; name++)
        begin_track_replay(reuse, name, accesses * times);
    reuse->is_replaying = true;
    reuse->replay_periods.num_begun = reuse->replay_periods.num_planned = 0;
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
        ft_reuse_begin_counting(reuse);
        reuse->num_bursts++;
    } else { /* it had no room for all blocks */
        reuse->phase = AFTER_BURST;
        reuse->phase_end = UINT64_MAX;
    }
}

void ft_reuse_end_replay(struct ft_reuse *reuse)
{
    const struct schedule *stream = &reuse->stream;
    ft_reuse_weight_counts(reuse);
    memset(&reuse->burst, 0, sizeof reuse->burst);
    for (unsigned name = SMALL; name < NUM_TRACKS; name++) {
        if (name != SMALL)
            ft_reuse_follow(reuse, name, false);
        reuse->tracks[name] = stream->tracks[name];
        reuse->tracks[name].has_last = false;
        if (name != SMALL)
            ft_reuse_follow(reuse, name, reuse->tracks[name].is_on);
    }
    reuse->is_replaying = false;
    reuse->times = 1;
    reuse->phase = stream->phase;
    reuse->is_counted = stream->is_counted;
    reuse->num_accesses = stream->num_accesses;
    reuse->phase_end = stream->phase_end;
    reuse->period_end = stream->period_end;
    reuse->burst_begin = stream->burst_begin;
}
