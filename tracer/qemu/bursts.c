/* See bursts.h. A burst that is not due costs one `credit`, and each that is due gives one.
 *
 * Invariant: `phase` and what describes it only change under `lock`; from when a reset is asked for until it has come,
 * `changing` is set and nobody else changes them. */
#include "bursts.h"

#include "tracer/transport/writer.h"

#include <pthread.h>

#define FIRST_CREDITS 8u
#define MAX_CREDITS 16u
#define BURSTS_OF_LENGTH 16u /* then bursts and periods are twice as long */
#define MAX_DOUBLINGS 5u

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct ft_schedule schedule;
static void (*ask_for_reset)(void);
static enum ft_mark phase = FT_MARK_MEASURE, next_phase;
static bool changing;
static uint64_t chunks_left, chunks_of_gap;
static uint64_t rest_of_period; /* chunks between bursts that this period still has when its burst is over */
static uint64_t rest_of_gap;    /* that a burst for new code interrupted; 0: none did */
static uint64_t random_state;
static uint32_t early_chunks; /* of a burst for new code */
static uint32_t credits = FIRST_CREDITS;
static uint32_t bursts_of_length; /* due ones, since bursts are as long as they are */
static atomic_bool new_code, has_threads;

/* SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014). */
static uint64_t random_below(uint64_t bound)
{
    uint64_t z = random_state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (z ^ (z >> 31)) % bound;
}

/* The longer a run, the longer its bursts: they reach farther beyond what caches hold at their beginning. */
static void grow(void)
{
    static uint32_t doublings;
    if (bursts_of_length < BURSTS_OF_LENGTH || doublings == MAX_DOUBLINGS)
        return;
    bursts_of_length = 0;
    doublings++;
    schedule.warm_chunks *= 2;
    schedule.measured_chunks *= 2;
    schedule.period_chunks *= 2;
}

static void begin_gap(void)
{
    if (rest_of_gap == 0) {
        const uint64_t before_burst = random_below(schedule.period_chunks);
        rest_of_gap = rest_of_period + before_burst + FT_MIN_PHASE_CHUNKS;
        rest_of_period = schedule.period_chunks - before_burst;
    }
    chunks_of_gap = chunks_left = rest_of_gap;
    rest_of_gap = 0;
}

static void enter(enum ft_mark entered)
{
    phase = entered;
    if (entered == FT_MARK_COUNT)
        begin_gap();
    else if (entered == FT_MARK_NEW_CODE)
        chunks_left = early_chunks;
    else
        chunks_left = entered == FT_MARK_WARM ? schedule.warm_chunks : schedule.measured_chunks;
}

/* Whether a burst for new code can begin in this gap. */
static bool begins_early(void)
{
    if (!atomic_load(&new_code) || credits == 0 || chunks_of_gap - chunks_left < FT_MIN_PHASE_CHUNKS)
        return false;
    credits--;
    return true;
}

/* From the second thread on, all is recorded. */
static enum ft_mark phase_with_threads(void)
{
    if (phase == FT_MARK_COUNT || phase == FT_MARK_NEW_CODE)
        return FT_MARK_WARM;
    return phase == FT_MARK_WARM && chunks_left == 0 ? FT_MARK_MEASURE : phase;
}

static enum ft_mark phase_to_come(void)
{
    if (atomic_load(&has_threads))
        return phase_with_threads();
    if (phase == FT_MARK_COUNT && chunks_left > 0)
        return begins_early() ? FT_MARK_NEW_CODE : FT_MARK_COUNT;
    if (chunks_left > 0)
        return phase;
    return phase == FT_MARK_COUNT ? FT_MARK_WARM : phase == FT_MARK_WARM ? FT_MARK_MEASURE : FT_MARK_COUNT;
}

static void chunk_written(void)
{
    bool asks = false;
    pthread_mutex_lock(&lock);
    if (!changing) {
        chunks_left -= chunks_left > 0;
        next_phase = phase_to_come();
        if (phase != next_phase && phase != FT_MARK_COUNT && next_phase != FT_MARK_COUNT) {
            enter(next_phase);
            ft_writer_mark(next_phase, false);
        } else {
            asks = changing = next_phase != phase;
        }
    }
    pthread_mutex_unlock(&lock);
    if (asks)
        ask_for_reset();
}

void ft_bursts_change(void)
{
    pthread_mutex_lock(&lock);
    if (next_phase == FT_MARK_NEW_CODE) {
        rest_of_gap = chunks_left;
    } else if (next_phase == FT_MARK_WARM) {
        credits += credits < MAX_CREDITS;
        bursts_of_length++;
    } else if (phase == FT_MARK_MEASURE) {
        grow();
    }
    enter(next_phase);
    atomic_store(&new_code, false);
    changing = false;
    ft_writer_mark(phase, true);
    pthread_mutex_unlock(&lock);
}

bool ft_bursts_record(void)
{
    return phase != FT_MARK_COUNT;
}

void ft_bursts_new_code(void)
{
    atomic_store(&new_code, true);
}

void ft_bursts_thread_starts(void)
{
    atomic_store(&has_threads, true);
}

/* A forked child, which may have a stream of its own, goes on where its parent was. */
static void fork_prepare(void)
{
    pthread_mutex_lock(&lock);
}

static void fork_parent(void)
{
    pthread_mutex_unlock(&lock);
}

static void fork_child(void)
{
    ft_writer_mark(phase, false);
    pthread_mutex_unlock(&lock);
}

void ft_bursts_begin(const struct ft_schedule *wanted, void (*reset)(void))
{
    if (wanted->first_chunks == 0)
        return;
    schedule = *wanted;
    random_state = schedule.seed;
    early_chunks = schedule.measured_chunks;
    ask_for_reset = reset;
    chunks_left = schedule.first_chunks;
    pthread_atfork(fork_prepare, fork_parent, fork_child);
    ft_writer_watch(chunk_written);
}
