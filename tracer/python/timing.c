/* See timing.h. One timing runs at a time: `agent_times`. */
#define _GNU_SOURCE
#include "timing.h"

#include "lines.h"

#include <time.h>

#define N_FIRST 8u          /* executions of a block that are all timed */
#define LARGEST_GAP 128u    /* of two timings, at most so many executions later */
#define WORK_NS 4000u       /* between two timings, about: fifty times what one takes */
#define LONG_NS 20000u      /* a block that takes so long is worth asking for the processor's time */
#define RARE_NS 1000000u    /* a timing stands for no more time than this, if it was long: what is rare must not count often */
#define N_BETWEEN_LINES 64u /* timings from one of the lines that are always the same to the next */

struct agent_times agent_times;

static struct ft_side_timing *timing; /* in the side table; NULL: there is no room */

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec now;
    return clock_gettime(clock, &now) == 0 ? (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec : 0;
}

static uint64_t less(uint64_t from, uint64_t what)
{
    return from > what ? from - what : 0;
}

static void fill(void *memory, uint32_t number, void *context)
{
    (void)number;
    (void)context;
    timing = memory;
    timing->entry.kind = FT_SIDE_TIMING;
}

void timing_init(void)
{
    ft_writer_append(sizeof *timing, NULL, fill, NULL);
}

uint64_t timing_now_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

/* ---- waiting ---------------------------------------------------------------------------------------------------- */

static uint64_t seen_ns, seen_processor_ns; /* what the clocks said when they were last looked at together */

/* For how long this thread had no processor since. */
static uint64_t waited_ns(void)
{
    const uint64_t now_ns = timing_now_ns(), processor_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    const uint64_t waited = less(now_ns - seen_ns, less(processor_ns, seen_processor_ns));
    seen_ns = now_ns;
    seen_processor_ns = processor_ns;
    return waited;
}

/* A timing that has just ended, less all waiting that may have been in it. */
static uint64_t without_waiting(uint64_t taken_ns)
{
    return less(taken_ns, waited_ns());
}

/* ---- the interpreter's speed ------------------------------------------------------------------------------------ */

static void time_lines(void)
{
    waited_ns();
    const uint64_t taken_ns = lines_ns();
    if (taken_ns && taken_ns < LONG_NS) {
        atomic_fetch_add_explicit(&timing->lines, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&timing->lines_ns, taken_ns, memory_order_relaxed);
    }
}

/* ---- how often -------------------------------------------------------------------------------------------------- */

/* Of a linear congruential generator (Knuth, MMIX): so that timings do not fall in step with the program. */
static uint32_t any_below(uint32_t bound)
{
    static uint64_t state = 1;
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((state >> 32) * bound >> 32);
}

static uint64_t mean_ns(const struct ft_side_pyblock *block)
{
    const uint64_t timed = atomic_load_explicit(&block->timed, memory_order_relaxed);
    return timed ? atomic_load_explicit(&block->timed_ns, memory_order_relaxed) / timed : 0;
}

static void set_pace(struct timing_pace *pace, uint64_t mean)
{
    uint32_t gap = 1;
    if (pace->n_first < N_FIRST) {
        pace->n_first++;
    } else {
        const uint64_t wanted = 1 + WORK_NS / (mean + 10);
        gap = wanted > LARGEST_GAP ? LARGEST_GAP : (uint32_t)wanted;
        gap = 1 + gap / 2 + any_below(gap);
    }
    pace->until_timed = pace->stands_for = gap;
}

/* ---- a timing --------------------------------------------------------------------------------------------------- */

static const uint64_t *chunk_end(void)
{
    return agent_thread.cursor ? agent_thread.cursor->end : NULL;
}

void timing_begin(struct timing_pace *pace, struct ft_side_pyblock *block, bool goes_on)
{
    const uint64_t mean = mean_ns(block);
    static uint32_t n_timings;
    if (timing && n_timings++ % N_BETWEEN_LINES == 0)
        time_lines();
    const bool may_be_long = pace->n_first < N_FIRST || mean >= LONG_NS;
    agent_times = (struct agent_times){
        .block = block, .thread = &agent_thread, .stands_for = pace->stands_for, .goes_on = goes_on,
        .chunk_end = chunk_end(),
        .processor_begun_ns = may_be_long ? clock_ns(CLOCK_THREAD_CPUTIME_ID) : 0,
    };
    set_pace(pace, mean);
    agent_times.begun_ns = clock_ns(CLOCK_MONOTONIC); /* last, not to time ourselves */
}

void agent_times_call(void)
{
    agent_times_settle();
    agent_times.call_ns = clock_ns(CLOCK_MONOTONIC);
    agent_times.record_ns = 0;
}

void agent_times_record(void)
{
    agent_times.record_ns = clock_ns(CLOCK_MONOTONIC);
    agent_times.chunk_end = chunk_end();
}

/* A call that was recorded whole is left out. One that was not seen, or only as a pass over its arrays, is not. */
void agent_times_settle(void)
{
    if (agent_times.call_ns && agent_times.record_ns && !agent_thread.unseen)
        agent_times.left_out_ns += agent_times.record_ns - agent_times.call_ns;
    agent_times.call_ns = agent_times.record_ns = 0;
}

void timing_end(void)
{
    uint64_t taken_ns = clock_ns(CLOCK_MONOTONIC) - agent_times.begun_ns, stands_for = agent_times.stands_for;
    struct ft_side_pyblock *block = agent_times.block;
    agent_times_settle();
    agent_times.block = NULL;
    if (agent_times.thread != &agent_thread || agent_times.chunk_end != chunk_end())
        return;
    if (taken_ns >= LONG_NS && agent_times.processor_begun_ns)
        taken_ns = less(clock_ns(CLOCK_THREAD_CPUTIME_ID), agent_times.processor_begun_ns);
    else if (taken_ns >= LONG_NS && (taken_ns = without_waiting(taken_ns)) >= LONG_NS)
        stands_for = stands_for * taken_ns <= RARE_NS ? stands_for : 1 + RARE_NS / taken_ns;
    taken_ns = less(taken_ns, agent_times.left_out_ns);
    if (!agent_times.goes_on)
        atomic_fetch_add_explicit(&block->timed, stands_for, memory_order_relaxed);
    atomic_fetch_add_explicit(&block->timed_ns, stands_for * taken_ns, memory_order_relaxed);
}
