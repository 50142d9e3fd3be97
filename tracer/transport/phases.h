/* When a stream's accesses are recorded, and when they are only counted: bursts in a long run.
 *
 * After a first part that is recorded whole, time is measured between bursts. Each period of it has one burst, at a
 * random place: no rhythm of the program's can keep step with that. A burst goes on for some time to warm caches up,
 * and for some to measure. Code that has been in no burst gets one soon, as long as these are few: one that is not due
 * costs a credit, and each that is due gives one. The longer a run, the longer its bursts: they reach farther beyond
 * what caches hold at their beginning.
 *
 * The unit of time is the user's: chunks of the stream (tracer/qemu/bursts.c) or accesses (tracer/reader/skipping.c).
 * tests/helpers/burst_schedule_reference.py is the twin.
 */
#ifndef FORETRACE_PHASES_H
#define FORETRACE_PHASES_H

#include "stream.h"

#include <stdbool.h>

#define FT_FIRST_CREDITS 8u
#define FT_MAX_CREDITS 16u
#define FT_BURSTS_OF_LENGTH 16u /* then bursts and periods are twice as long */
#define FT_MAX_DOUBLINGS 5u

struct ft_phases {
    enum ft_mark phase;
    uint64_t left; /* of the phase */
    struct ft_schedule lengths;
    uint64_t least_gap, early_burst;
    uint64_t gap;            /* how long the gap is that it is in */
    uint64_t rest_of_period; /* that is to come, between bursts, when its burst is over */
    uint64_t rest_of_gap;    /* that a burst for new code interrupted; 0: none did */
    uint64_t random_state;
    uint32_t credits, doublings;
    uint32_t bursts_of_length; /* due ones, since bursts are as long as they are */
};

static inline struct ft_phases ft_phases_begin(struct ft_schedule lengths, uint64_t least_gap)
{
    return (struct ft_phases){.phase = FT_MARK_MEASURE,
                              .left = lengths.first_chunks,
                              .lengths = lengths,
                              .least_gap = least_gap,
                              .early_burst = lengths.measured_chunks,
                              .random_state = lengths.seed,
                              .credits = FT_FIRST_CREDITS};
}

/* SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014). */
static inline uint64_t ft_phases_random_below(struct ft_phases *phases, uint64_t bound)
{
    uint64_t z = phases->random_state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (z ^ (z >> 31)) % bound;
}

static inline void ft_phases_pass(struct ft_phases *phases, uint64_t time)
{
    phases->left -= time < phases->left ? time : phases->left;
}

/* The phase to be in now, by the clock and by whether there is code that no burst has seen. */
static inline enum ft_mark ft_phases_next(const struct ft_phases *phases, bool new_code)
{
    if (phases->phase == FT_MARK_COUNT && phases->left > 0)
        return new_code && phases->credits > 0 && phases->gap - phases->left >= phases->least_gap ? FT_MARK_NEW_CODE
                                                                                                  : FT_MARK_COUNT;
    if (phases->left > 0)
        return phases->phase;
    return phases->phase == FT_MARK_COUNT  ? FT_MARK_WARM
           : phases->phase == FT_MARK_WARM ? FT_MARK_MEASURE
                                           : FT_MARK_COUNT;
}

static inline void ft_phases_grow(struct ft_phases *phases)
{
    if (phases->bursts_of_length < FT_BURSTS_OF_LENGTH || phases->doublings == FT_MAX_DOUBLINGS)
        return;
    phases->bursts_of_length = 0;
    phases->doublings++;
    phases->lengths.warm_chunks *= 2;
    phases->lengths.measured_chunks *= 2;
    phases->lengths.period_chunks *= 2;
}

static inline void ft_phases_begin_gap(struct ft_phases *phases)
{
    if (phases->rest_of_gap == 0) {
        const uint64_t before_burst = ft_phases_random_below(phases, phases->lengths.period_chunks);
        phases->rest_of_gap = phases->rest_of_period + before_burst + phases->least_gap;
        phases->rest_of_period = phases->lengths.period_chunks - before_burst;
    }
    phases->gap = phases->left = phases->rest_of_gap;
    phases->rest_of_gap = 0;
}

/* `next` is another phase than that it is in. */
static inline void ft_phases_enter(struct ft_phases *phases, enum ft_mark next)
{
    const enum ft_mark before = phases->phase;
    phases->phase = next;
    if (next == FT_MARK_COUNT) {
        if (before == FT_MARK_MEASURE)
            ft_phases_grow(phases);
        ft_phases_begin_gap(phases);
    } else if (next == FT_MARK_NEW_CODE) {
        phases->credits--;
        phases->rest_of_gap = phases->left;
        phases->left = phases->early_burst;
    } else if (next == FT_MARK_WARM) {
        phases->credits += before == FT_MARK_COUNT && phases->credits < FT_MAX_CREDITS;
        phases->bursts_of_length += before == FT_MARK_COUNT;
        phases->left = phases->lengths.warm_chunks;
    } else {
        phases->left = phases->lengths.measured_chunks;
    }
}

#endif
