/* See timing.h. In a thread one timing runs at a time, `agent_thread.times`; its memory is the thread's. */
#define _GNU_SOURCE
#include "timing.h"

#include "lines.h"
#include "tracer/python/native_threads.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#define N_FIRST 8u          /* executions of a block that are all timed */
#define LARGEST_GAP 128u    /* of two timings, at most so many executions later */
#define WORK_NS 4000u       /* between two timings, about: fifty times what one takes, */
#define LONG_WORK_NS 150000u /* and where that asks the kernel, too */
#define LONG_NS 20000u      /* a block that takes so long is worth asking for the processor's time */
#define ASKING_NS 3000u    /* asking the kernel takes no longer */
#define AT_ONCE_NS 10000u   /* a thread that waits does so for longer */
#define VERY_LONG_NS 3000000u /* an execution that takes so long counts for itself */
#define FEW_WORDS 1024        /* of the stream, more than between two timings, in so long a time: nothing else can have taken it, */
#define POINT_NS 20           /* nor can array operations of few points; one takes less than this */
#define REST_NS 2000u        /* behind a return: what takes so long is the caller's, not how the function ends */
#define RETURN_ROUNDS 0.0075  /* what a marker before a return takes: some 0.2 lines */
#define RARE_NS 1000000u    /* a timing stands for no more time than this, if it was long: what is rare must not count often */
#define ROUND_EVERY_NS 2000000u /* a round of the lines that are always the same: ten microseconds, with all before it */
#define N_ROUNDS 5              /* whose median tells the speed */
#define N_FIRST_ROUNDS 20       /* until the interpreter has specialised their bytecode */
#define N_READINGS 16           /* of the clock, one after the other, with each round */

#define BYTECODE_NS 200u        /* a call that takes no longer is what bytecode takes as well */
#define N_NAMED 64u             /* calls of extension types that are all timed, in one timing; then ever fewer */
#define MOST_NAMED_GAP 64u      /* largest sampling interval, in calls */

#define NATIVE_NS 100000u       /* who lets native threads run waits for them so long */

static const char NATIVE_THREADS[] = "native threads";

#define MAX_COMPILED 64 /* names in one timing; what others take stays with the interpreter */

#define MAX_ARRAYS 256  /* operations in one timing; calls of others stay with their block */

struct compiled_time { /* in a compiled function whose accesses are not seen */
    const char *name;
    uint64_t ns;
};

/* What a thread keeps. */
struct thread_times {
    struct agent_times times;                    /* agent_thread.times, while it runs */
    struct compiled_time compiled[MAX_COMPILED]; /* of that timing */
    struct array_time {                          /* of that timing: time in recorded array operations */
        struct ft_side_operation *operation;
        uint64_t ns, processor_ns, faults;
    } arrays[MAX_ARRAYS];
    bool last_known; /* when and where the last timing ended */
    const uint64_t *last_words, *last_chunk_end;
    uint64_t last_ns;
    uint64_t seen_ns, seen_processor_ns; /* what the clocks said when they were last looked at together */
};

static _Thread_local struct thread_times *own __attribute__((tls_model("initial-exec"))); /* NULL: nothing yet */
static int64_t native_rounds;              /* that lines were charged for native threads */
static const struct thread_times *running; /* whose thread began a timing last */

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec now;
    return clock_gettime(clock, &now) == 0 ? (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec : 0;
}

static uint64_t less(uint64_t from, uint64_t what)
{
    return from > what ? from - what : 0;
}

uint64_t timing_now_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

/* ---- waiting ---------------------------------------------------------------------------------------------------- */

/* For how long this thread had no processor since the clocks were last looked at together. */
static uint64_t waited_ns(void)
{
    const uint64_t now_ns = timing_now_ns(), processor_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    const uint64_t waited = less(now_ns - own->seen_ns, less(processor_ns, own->seen_processor_ns));
    own->seen_ns = now_ns;
    own->seen_processor_ns = processor_ns;
    return waited;
}

/* Whether the thread has memory to time itself. */
static bool is_thread_known(void)
{
    if (!own && (own = calloc(1, sizeof *own)))
        waited_ns();
    return own != NULL;
}

void timing_end_thread(void)
{
    free(own);
    own = NULL;
    agent_thread.times = NULL;
}

void timing_forked(void)
{
    native_rounds = 0;
    agent_thread.times = NULL;
    running = own;
    if (own) {
        own->last_known = false;
        waited_ns();
    }
}

/* A timing that has just ended, less all waiting that may have been in it. */
static uint64_t without_waiting(uint64_t taken_ns)
{
    return less(taken_ns, waited_ns());
}

/* ---- the interpreter's speed ------------------------------------------------------------------------------------ */

static double rounds_ns[N_ROUNDS], readings_ns[N_ROUNDS]; /* the last ones, in no order */
static double round_ns;                                   /* the median; 0: not known, and nothing is timed */
static double reading_ns;      /* what reading the clock takes, likewise: a machine's, of which lines tell nothing */
static uint64_t round_seen_ns; /* when the last round was */

static double median(const double *values)
{
    double sorted[N_ROUNDS];
    for (int i = 0; i < N_ROUNDS; i++) {
        int at = i;
        for (; at > 0 && sorted[at - 1] > values[i]; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = values[i];
    }
    return sorted[N_ROUNDS / 2];
}

static double time_reading(void)
{
    const uint64_t begun_ns = timing_now_ns();
    uint64_t now_ns = begun_ns;
    for (int i = 0; i < N_READINGS; i++)
        now_ns = timing_now_ns();
    return (double)(now_ns - begun_ns) / N_READINGS;
}

/* False, with an exception set, if the handler of a signal has raised it meanwhile. */
static bool time_round(uint64_t now_ns)
{
    static unsigned next;
    const double taken_ns = lines_round_ns();
    round_seen_ns = now_ns;
    waited_ns(); /* so that it tells of the last few milliseconds when it is asked next */
    native_threads_note(false);
    if (taken_ns > 0) {
        readings_ns[next % N_ROUNDS] = time_reading();
        rounds_ns[next++ % N_ROUNDS] = taken_ns;
        round_ns = median(rounds_ns);
        reading_ns = median(readings_ns);
    }
    return taken_ns >= 0;
}

void timing_init(void)
{
    for (int i = 0; i < N_FIRST_ROUNDS && is_thread_known() && lines_init() && time_round(timing_now_ns()); i++)
        ;
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
    const int64_t rounds = atomic_load_explicit(&block->timed_rounds, memory_order_relaxed) +
                           (int64_t)atomic_load_explicit(&block->long_rounds, memory_order_relaxed);
    return timed && rounds > 0 ? (uint64_t)((double)rounds * 1e-6 * round_ns / (double)timed) : 0;
}

/* Whether another thread ran since this one began a timing last. Then it has waited for the interpreter. */
static bool has_come_back(void)
{
    const bool is_back = running != own;
    running = own;
    return is_back;
}

/* Asking costs as much as some short operations, and slows down those right behind it: only where each execution is
 * long. */
static bool asks_kernel(const struct ft_side_pyblock *block, uint64_t mean)
{
    return mean + block->array_ns >= LONG_NS;
}

static void set_pace(struct timing_pace *pace, const struct ft_side_pyblock *block, uint64_t mean)
{
    uint32_t gap = 1;
    if (pace->n_first < N_FIRST) {
        pace->n_first++;
    } else {
        const uint64_t wanted =
            1 + (asks_kernel(block, mean) ? LONG_WORK_NS / (mean + block->array_ns) : WORK_NS / (mean + 10));
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

static int64_t in_rounds(double ns)
{
    return (int64_t)(ns / round_ns * 1e6);
}

uint64_t timing_rounds_of(uint64_t ns)
{
    return round_ns > 0 ? (uint64_t)in_rounds((double)ns) : 0;
}

static uint64_t minor_faults(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_THREAD, &usage) == 0 ? (uint64_t)usage.ru_minflt : 0;
}

void timing_put_off(struct timing_pace *pace)
{
    pace->until_timed = 1;
    if (own)
        own->last_known = false;
}

/* New rounds, whose median is that of now. */
static void time_rounds(bool *is_raised)
{
    for (int i = 0; i < N_ROUNDS && !*is_raised; i++)
        *is_raised = !time_round(timing_now_ns());
}

/* The rounds of an execution that took very long, by the speed after it. Before it the reader may have been busy, with
 * what the program had written, on the same core; in so long an execution nothing was, nor is now. */
static uint64_t very_long_rounds(uint64_t taken_ns, bool *is_raised)
{
    time_rounds(is_raised);
    return (uint64_t)((double)taken_ns / round_ns * 1e6 + 0.5);
}

static struct long_execution {     /* one that took very long, counted by the speed before it */
    struct ft_side_pyblock *block; /* NULL: none */
    double own_ns;
    uint64_t rounds;
    double share; /* of what compiled functions took, that is counted */
    struct compiled_time compiled[MAX_COMPILED];
    uint32_t n_compiled;
    double round_ns; /* the speed it was counted by */
} judged;            /* the last one, of any thread */

/* Judges it by the speed now that it has just ended. */
static void judge_again(bool *is_raised)
{
    const struct long_execution was = judged;
    judged.block = NULL;
    time_rounds(is_raised); /* another thread may run meanwhile */
    const uint64_t rounds = (uint64_t)in_rounds(was.own_ns);
    atomic_fetch_add_explicit(&was.block->long_rounds, rounds - was.rounds, memory_order_relaxed);
    for (uint32_t i = 0; i < was.n_compiled; i++) {
        const double ns = was.share * (double)was.compiled[i].ns;
        agent_count_compiled(was.block->block_id, was.compiled[i].name,
                             (uint64_t)in_rounds(ns) - (uint64_t)(int64_t)(ns / was.round_ns * 1e6));
    }
}

/* What came into the stream since the last timing: much less than a chunk, as timings are no further apart. */
static uint64_t words_since(const struct ft_cursor *cursor)
{
    if (cursor->end == own->last_chunk_end)
        return (uint64_t)(cursor->next - own->last_words);
    return (uint64_t)(own->last_chunk_end - own->last_words) - cursor->left_words + FT_CHUNK_WORDS -
           (uint64_t)(cursor->end - cursor->next);
}

/* What took very long since the last timing, if hardly anything came into the stream meanwhile: that which the frame's
 * last block called, after it had called back for the last time. A sort is such, which asks for keys first. */
static void count_very_long(struct ft_side_pyblock *before, uint64_t now_ns, bool *is_raised)
{
    const struct ft_cursor *cursor = agent_thread.cursor;
    if (!before || !cursor || !own->last_known)
        return;
    if (now_ns - own->last_ns < VERY_LONG_NS || words_since(cursor) > FEW_WORDS)
        return;
    const uint64_t taken_ns = less(without_waiting(now_ns - own->last_ns), agent_thread.timed_points * POINT_NS);
    if (taken_ns >= VERY_LONG_NS)
        atomic_fetch_add_explicit(&before->long_rounds, very_long_rounds(taken_ns, is_raised), memory_order_relaxed);
}

bool timing_begin(struct timing_pace *pace, struct ft_side_pyblock *block, struct ft_side_pyblock *before, bool goes_on)
{
    const uint64_t mean = mean_ns(block), now_ns = timing_now_ns();
    bool is_raised = false;
    if (!is_thread_known()) {
        timing_put_off(pace);
        return true;
    }
    if (judged.block)
        judge_again(&is_raised);
    if (round_ns > 0 && !is_raised)
        count_very_long(before, now_ns, &is_raised);
    if (!is_raised && now_ns - round_seen_ns > ROUND_EVERY_NS)
        is_raised = !time_round(now_ns);
    if (is_raised) {
        timing_put_off(pace);
        return false;
    }
    if (round_ns <= 0)
        return true;
    /* A short execution that lets go of the interpreter waits for it then. That is told from what the clocks said when
     * the thread had last come back. */
    const bool is_back = has_come_back(), may_be_long = is_back || pace->n_first < N_FIRST || asks_kernel(block, mean);
    if (is_back)
        waited_ns();
    struct agent_times *t = agent_thread.times = &own->times;
    *t = (struct agent_times){
        .block = block,
        .stands_for = pace->stands_for,
        .goes_on = goes_on,
        .is_short = pace->n_first >= N_FIRST && mean < REST_NS,
        .reader_ns = ft_writer_waited_ns(),
        .asked_faults = may_be_long ? minor_faults() : 0,
    };
    t->processor_begun_ns = may_be_long ? clock_ns(CLOCK_THREAD_CPUTIME_ID) : 0;
    set_pace(pace, block, mean);
    t->asked_processor_ns = t->processor_begun_ns;
    t->begun_ns = t->asked_ns = clock_ns(CLOCK_MONOTONIC); /* last, not to time ourselves */
    return true;
}

/* Looks at the clocks, and returns when. The kernel is asked only where executions may take long, and not twice in a
 * short time: between two looks that follow each other at once the thread ran. What asking takes ends at `looked_ns`;
 * the thread may have had to wait meanwhile, which its processor's time does not hold. */
static uint64_t look(struct agent_times *t)
{
    const uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);
    t->asking_ns = 0;
    if (!t->processor_begun_ns || now_ns - t->asked_ns < AT_ONCE_NS) {
        t->looked_ns = now_ns;
        t->looked_processor_ns = t->asked_processor_ns + (now_ns - t->asked_ns);
        return now_ns;
    }
    t->asked_faults = minor_faults();
    t->asked_processor_ns = t->looked_processor_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    t->asked_ns = t->looked_ns = clock_ns(CLOCK_MONOTONIC);
    t->asking_ns = t->looked_ns - now_ns < ASKING_NS ? t->looked_ns - now_ns : ASKING_NS;
    return now_ns;
}

void agent_times_call(void)
{
    struct agent_times *t = agent_thread.times;
    const uint64_t now_ns = look(t);
    t->left_out_ns += t->looked_ns - now_ns;
    t->left_out_processor_ns += t->asking_ns;
    t->call_ns = t->looked_ns;
    t->call_processor_ns = t->looked_processor_ns;
    t->call_faults = t->asked_faults;
    t->is_recorded = false;
    t->n_readings++;
}

/* Charges what the named function took until then, but for calls in it that were recorded whole. */
static void settle_named(uint64_t until_ns)
{
    struct agent_times *t = agent_thread.times;
    if (!t->named_ns)
        return;
    uint64_t ns = less(less(until_ns, t->named_ns), t->left_out_ns - t->named_left_out_ns);
    if (t->named_stands_for) {
        ns = less(ns, (uint64_t)reading_ns);
        t->named_ns = 0;
        if (ns < BYTECODE_NS)
            return;
        ns *= t->named_stands_for;
    }
    uint32_t at = t->first_compiled;
    while (at < t->n_compiled && own->compiled[at].name != agent_thread.hook_name)
        at++;
    if (at == t->n_compiled && at < MAX_COMPILED) {
        own->compiled[at].name = agent_thread.hook_name;
        own->compiled[at].ns = 0;
        t->n_compiled++;
    }
    if (at < MAX_COMPILED)
        own->compiled[at].ns += ns;
    t->named_ns = 0;
}

void agent_times_named_begin(const char *name)
{
    struct agent_times *t = agent_thread.times;
    settle_named(t->call_ns);
    agent_thread.hook_name = name;
    t->named_ns = t->call_ns;
    t->named_stands_for = 0;
    t->named_left_out_ns = t->left_out_ns;
}

void agent_times_named_end(const char *outer_name, bool outer_runs)
{
    struct agent_times *t = agent_thread.times;
    const bool is_seen = t->is_recorded && !agent_thread.unseen;
    const uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);
    if (!is_seen)
        settle_named(now_ns);
    agent_thread.hook_name = outer_name;
    t->named_ns = outer_name && outer_runs ? now_ns : 0;
    t->named_stands_for = 0;
    t->named_left_out_ns = t->left_out_ns;
    t->n_readings++;
}

bool agent_times_compiled_begin(const char *name, bool *outer_runs, uint32_t *outer_stands_for)
{
    struct agent_times *t = agent_thread.times;
    if (t->until_named) {
        t->until_named--;
        return false;
    }
    const uint32_t wanted = t->n_named++ / N_NAMED, gap = wanted < MOST_NAMED_GAP ? wanted : MOST_NAMED_GAP;
    const uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);
    *outer_runs = t->named_ns != 0;
    *outer_stands_for = t->named_stands_for;
    t->call_ns = 0; /* an array operation that runs has called back */
    settle_named(now_ns);
    agent_thread.hook_name = name;
    t->until_named = gap ? any_below(2 * gap + 1) : 0; /* `gap` on average */
    t->named_stands_for = 1 + gap;
    t->named_ns = now_ns;
    t->named_left_out_ns = t->left_out_ns;
    t->n_readings++;
    return true;
}

void agent_times_compiled_end(bool outer_runs, uint32_t outer_stands_for)
{
    struct agent_times *t = agent_thread.times;
    const uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);
    settle_named(now_ns);
    t->named_ns = outer_runs ? now_ns : 0;
    t->named_stands_for = outer_stands_for;
    t->named_left_out_ns = t->left_out_ns;
    t->is_recorded = false;
    t->n_readings++;
}

void agent_times_return(void)
{
    struct agent_times *t = agent_thread.times;
    t->returned_ns = look(t);
    t->return_processor_ns = t->looked_processor_ns;
    t->return_reader_ns = ft_writer_waited_ns();
}

/* Charges the operation that was written last with a call. False if there is no room. */
static bool charge_array(uint64_t ns, uint64_t processor_ns, uint64_t faults)
{
    struct agent_times *t = agent_thread.times;
    uint32_t at = 0;
    while (at < t->n_arrays && own->arrays[at].operation != agent_thread.operation)
        at++;
    if (at == MAX_ARRAYS)
        return false;
    struct array_time *array = &own->arrays[at];
    if (at == t->n_arrays) {
        t->n_arrays++;
        *array = (struct array_time){.operation = agent_thread.operation};
    }
    array->ns += less(ns, (uint64_t)reading_ns);
    array->processor_ns += less(processor_ns, (uint64_t)reading_ns);
    array->faults += faults;
    return true;
}

/* Recording is left out, and so is a call that was recorded whole. One that was not seen, or only as a pass over its
 * arrays, is charged by name, or else left out if there is such a pass; one that has called back stays with the block.
 */
void agent_times_recorded(void)
{
    struct agent_times *t = agent_thread.times;
    const uint64_t call_ns = less(t->returned_ns, t->call_ns);
    const uint64_t processor_ns = less(t->return_processor_ns, t->call_processor_ns);
    const bool is_charged_by_name = agent_thread.unseen && agent_thread.hook_name;
    const bool is_whole = t->call_ns && agent_thread.operation && !is_charged_by_name && !agent_thread.timed &&
                          charge_array(call_ns, processor_ns, t->asked_faults - t->call_faults);
    if (is_whole) {
        t->left_out_ns += call_ns;
        t->left_out_processor_ns += processor_ns;
    } else {
        t->n_readings++;
        if (agent_thread.operation)
            atomic_fetch_add_explicit(&agent_thread.operation->kept_calls, 1, memory_order_relaxed);
    }
    look(t);
    t->left_out_ns += less(t->looked_ns - t->returned_ns, ft_writer_waited_ns() - t->return_reader_ns);
    t->left_out_processor_ns += less(t->looked_processor_ns, t->return_processor_ns);
    t->is_recorded = agent_thread.wrote;
    t->call_ns = 0;
}

/* Adds what of a block's own time compiled functions took: their `share` of it is returned. That was read off the
 * clock, the own time may be without waiting. */
static double count_compiled(const struct ft_side_pyblock *block, uint32_t first, uint32_t end, double own_ns,
                             uint64_t stands_for)
{
    double all_ns = 0;
    for (uint32_t i = first; i < end; i++)
        all_ns += (double)own->compiled[i].ns;
    const double share = own_ns <= 0 ? 0 : all_ns > own_ns ? own_ns / all_ns : 1;
    for (uint32_t i = first; i < end; i++) {
        const int64_t rounds = in_rounds((double)stands_for * share * (double)own->compiled[i].ns);
        if (rounds > 0)
            agent_count_compiled(block->block_id, own->compiled[i].name, (uint64_t)rounds);
    }
    return share;
}

/* Adds time to a block, and what of it compiled functions took. What took very long is judged again, see `judged`. */
static void add_rounds(struct ft_side_pyblock *block, uint32_t first, uint32_t end, double own_ns, uint64_t stands_for)
{
    const bool is_very_long = own_ns >= VERY_LONG_NS;
    const double share = count_compiled(block, first, end, own_ns, is_very_long ? 1 : stands_for);
    if (is_very_long) {
        judged.block = block;
        judged.own_ns = own_ns;
        judged.rounds = (uint64_t)in_rounds(own_ns);
        judged.share = share;
        judged.round_ns = round_ns;
        judged.n_compiled = end - first;
        memcpy(judged.compiled, own->compiled + first, (end - first) * sizeof *own->compiled);
        atomic_fetch_add_explicit(&block->long_rounds, judged.rounds, memory_order_relaxed);
    } else
        atomic_fetch_add_explicit(&block->timed_rounds, in_rounds((double)stands_for * own_ns), memory_order_relaxed);
}

/* Of what a timing took, without what was left out, the part behind its frame's return: 0 if that is too short to tell.
 */
static double share_of_rest(uint64_t now_ns)
{
    const struct agent_times *t = agent_thread.times;
    if (!t->returned_to || (!t->in_hook && now_ns - t->frame_end_ns < REST_NS))
        return 0;
    const double all = (double)less(now_ns - t->begun_ns, t->left_out_ns);
    const double rest = (double)less(now_ns - t->frame_end_ns, t->left_out_ns - t->frame_left_out_ns);
    return all > 0 && rest < all ? rest / all : all > 0;
}

/* Adds to array operations what their calls took. */
static void count_arrays(const struct agent_times *t, uint64_t stands_for, double share_that_ran,
                         bool is_processor_time)
{
    for (uint32_t i = 0; i < t->n_arrays; i++) {
        const struct array_time *array = &own->arrays[i];
        const double ns = is_processor_time ? (double)array->processor_ns : share_that_ran * (double)array->ns;
        const uint64_t rounds = (uint64_t)in_rounds((double)stands_for * ns);
        atomic_fetch_add_explicit(&array->operation->rounds, rounds, memory_order_relaxed);
        atomic_fetch_add_explicit(&array->operation->faults, stands_for * array->faults, memory_order_relaxed);
    }
}

/* Adds to blocks what their timing found: `taken_ns` without what was left out, less what reading the clock took, which
 * can be more than the clock's next tick tells. Runs no Python: the interpreter may have ended. */
static void count(const struct agent_times *t, uint64_t taken_ns, uint64_t left_out_ns, uint64_t stands_for,
                  double share_of_rest)
{
    struct ft_side_pyblock *block = t->block;
    const uint32_t end = t->n_compiled, first = share_of_rest > 0 ? t->first_compiled : end;
    const double own_ns = (1 - share_of_rest) * (double)taken_ns - (1 + t->n_readings) * reading_ns -
                          t->n_returns * RETURN_ROUNDS * round_ns;
    if (!t->goes_on)
        atomic_fetch_add_explicit(&block->timed, stands_for, memory_order_relaxed);
    add_rounds(block, 0, first, own_ns, stands_for);
    if (share_of_rest > 0)
        add_rounds(t->returned_to, first, end, share_of_rest * (double)taken_ns, stands_for);
    atomic_fetch_add_explicit(&block->array_rounds, (uint64_t)in_rounds((double)stands_for * (double)left_out_ns),
                              memory_order_relaxed);
    block->array_ns -= block->array_ns / 4; /* a single one that took long, for whatever reason, is forgotten */
    if (t->left_out_ns > block->array_ns)
        block->array_ns = t->left_out_ns;
}

/* Charges the line that was timed with what native threads have done since a line was last: it started them, or waited
 * for them. All that runs so long is timed, or nearly so. */
static void charge_native_threads(const struct ft_side_pyblock *block)
{
    const uint64_t ns = native_threads_new_ns();
    const int64_t rounds = round_ns > 0 ? in_rounds((double)ns) : 0;
    if (rounds > 0) {
        agent_count_compiled(block->block_id, NATIVE_THREADS, (uint64_t)rounds);
        native_rounds += rounds;
    }
}

uint64_t timing_native_rounds(void)
{
    const uint64_t ns = native_threads_ns(), charged_ns = native_threads_charged_ns();
    return (uint64_t)native_rounds + timing_rounds_of(less(ns, charged_ns));
}

static void note_end(uint64_t now_ns)
{
    const struct ft_cursor *cursor = agent_thread.cursor;
    own->last_known = cursor != NULL;
    own->last_words = cursor ? cursor->next : NULL;
    own->last_chunk_end = chunk_end();
    own->last_ns = now_ns;
    agent_thread.timed_points = 0;
}

void timing_end(void)
{
    timing_end_at(clock_ns(CLOCK_MONOTONIC));
}

void timing_end_at(uint64_t now_ns)
{
    const struct agent_times *t = agent_thread.times;
    uint64_t stands_for = t->stands_for;
    bool is_processor_time = false;
    double share_that_ran = 1;
    settle_named(now_ns);
    const double rest = share_of_rest(now_ns);
    agent_thread.times = NULL;
    note_end(now_ns);
    uint64_t taken_ns = less(now_ns - t->begun_ns, ft_writer_waited_ns() - t->reader_ns);
    uint64_t left_out_ns = t->left_out_ns;
    if (taken_ns >= LONG_NS && t->processor_begun_ns) {
        taken_ns = less(clock_ns(CLOCK_THREAD_CPUTIME_ID), t->processor_begun_ns);
        left_out_ns = t->left_out_processor_ns; /* without waiting for the reader, too */
        is_processor_time = true;
    } else if (taken_ns >= LONG_NS) { /* where in it the thread waited is not known */
        const uint64_t all_ns = taken_ns;
        taken_ns = without_waiting(taken_ns);
        share_that_ran = (double)taken_ns / (double)all_ns;
        left_out_ns = (uint64_t)(share_that_ran * (double)left_out_ns);
        if (taken_ns >= LONG_NS && taken_ns < VERY_LONG_NS)
            stands_for = stands_for * taken_ns <= RARE_NS ? stands_for : 1 + RARE_NS / taken_ns;
    }
    count(t, less(taken_ns, left_out_ns), left_out_ns, stands_for, rest);
    count_arrays(t, stands_for, share_that_ran, is_processor_time);
    if (now_ns - t->begun_ns >= NATIVE_NS)
        charge_native_threads(rest > 0.5 ? t->returned_to : t->block);
}

/* Goes on with another block, for as many executions as the timing before stood for. */
static void begin_again(struct ft_side_pyblock *block)
{
    struct agent_times *t = agent_thread.times = &own->times;
    *t = (struct agent_times){
        .block = block,
        .stands_for = t->stands_for,
        .goes_on = true,
        .reader_ns = ft_writer_waited_ns(),
        .processor_begun_ns = t->processor_begun_ns ? clock_ns(CLOCK_THREAD_CPUTIME_ID) : 0,
        .asked_faults = t->asked_faults,
    };
    t->asked_processor_ns = t->processor_begun_ns;
    t->begun_ns = t->asked_ns = clock_ns(CLOCK_MONOTONIC);
}

/* What follows is noted, and split off when the timing ends: to end it here and begin another would disturb what is
 * short. */
void timing_return(struct ft_side_pyblock *to, bool in_hook)
{
    struct agent_times *t = agent_thread.times;
    t->n_returns++;
    if (!to || (to == t->block && !t->returned_to) || (t->is_short && !in_hook))
        return;
    const uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);
    if (t->returned_to && (t->in_hook || now_ns - t->frame_end_ns >= REST_NS)) {
        timing_end();
        begin_again(to);
    } else {
        settle_named(now_ns);
        t->returned_to = to;
        t->frame_end_ns = now_ns;
        t->frame_left_out_ns = t->left_out_ns;
        t->first_compiled = t->n_compiled;
        t->n_readings++;
    }
    t->in_hook = in_hook;
    t->named_ns = in_hook && agent_thread.hook_name ? now_ns : 0;
    t->named_stands_for = agent_thread.named_frame ? 1 : 0;
    t->named_left_out_ns = t->left_out_ns;
}
