/* See bursts.h.
 *
 * Invariant: `phases` and `next_phase` only change under `lock`; from when a reset is asked for until it has come,
 * `changing` is set and nobody else changes them. */
#include "bursts.h"

#include "tracer/transport/phases.h"
#include "tracer/transport/writer.h"

#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct ft_phases phases; /* in chunks of the stream */
static void (*ask_for_reset)(void);
static enum ft_mark next_phase;
static bool changing;
static atomic_bool new_code, has_threads;

/* From the second thread on, all is recorded. */
static enum ft_mark phase_with_threads(void)
{
    if (phases.phase == FT_MARK_COUNT || phases.phase == FT_MARK_NEW_CODE)
        return FT_MARK_WARM;
    return phases.phase == FT_MARK_WARM && phases.left == 0 ? FT_MARK_MEASURE : phases.phase;
}

static void chunk_written(void)
{
    bool asks = false;
    pthread_mutex_lock(&lock);
    if (!changing) {
        ft_phases_pass(&phases, 1);
        next_phase = atomic_load(&has_threads) ? phase_with_threads() : ft_phases_next(&phases, atomic_load(&new_code));
        if (phases.phase != next_phase && phases.phase != FT_MARK_COUNT && next_phase != FT_MARK_COUNT) {
            ft_phases_enter(&phases, next_phase);
            ft_writer_mark(next_phase, false);
        } else {
            asks = changing = next_phase != phases.phase;
        }
    }
    pthread_mutex_unlock(&lock);
    if (asks)
        ask_for_reset();
}

void ft_bursts_change(void)
{
    pthread_mutex_lock(&lock);
    ft_phases_enter(&phases, next_phase);
    atomic_store(&new_code, false);
    changing = false;
    ft_writer_mark(phases.phase, true);
    pthread_mutex_unlock(&lock);
}

bool ft_bursts_record(void)
{
    return phases.phase != FT_MARK_COUNT;
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
    ft_writer_mark(phases.phase, false);
    pthread_mutex_unlock(&lock);
}

void ft_bursts_begin(const struct ft_schedule *wanted, void (*reset)(void))
{
    if (wanted->first_chunks == 0)
        return;
    phases = ft_phases_begin(*wanted, FT_MIN_PHASE_CHUNKS);
    ask_for_reset = reset;
    pthread_atfork(fork_prepare, fork_parent, fork_child);
    ft_writer_watch(chunk_written);
}
