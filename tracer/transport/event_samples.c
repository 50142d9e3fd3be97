/* See event_samples.h. */
#define _GNU_SOURCE
#include "event_samples.h"

#include "board_values.h"
#include "writer.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MOST_CHANGES 1900u              /* in a record; others come in the next one */
#define FIRST_NS UINT64_C(1000000)      /* that samples may take from the beginning, */
#define SHARE UINT64_C(100)             /* and of the time after: one part in so many */
#define DUE_NS UINT64_C(2000000)        /* after the sample before */

_Atomic uint64_t ft_expected_board;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all that follows */
static struct ft_board_values *board;
static _Atomic uint64_t board_address; /* 0: there is none */
static atomic_bool is_over;
static _Atomic uint64_t last_ns; /* when a sample was written, or was to be */
static uint64_t begun_ns, spent_ns, num_samples;
static uint32_t next_event;
static struct {
    uint64_t bits;
    bool is_known;
} last[FT_MAX_SAMPLED_EVENTS]; /* in the stream, by event */

static uint64_t ns_of(clockid_t clock)
{
    struct timespec now;
    return clock_gettime(clock, &now) == 0 ? (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec : 0;
}

static uint64_t now_ns(void)
{
    return ns_of(CLOCK_MONOTONIC);
}

/* What the thread ran: a sample during which others had the core costs no more. */
static uint64_t own_ns(void)
{
    return ns_of(CLOCK_THREAD_CPUTIME_ID);
}

/* With the lock. */
static void forget(void)
{
    ft_board_values_free(board);
    board = NULL;
    atomic_store(&board_address, 0);
    memset(last, 0, sizeof last);
    spent_ns = num_samples = next_event = 0;
}

void ft_event_samples_mapped(uint64_t address, int file)
{
    char link[64], path[4096];
    unsigned user, process;
    int end = 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    const ssize_t length = readlink(link, path, sizeof path - 1);
    path[length > 0 ? length : 0] = 0;
    const char *name = strrchr(path, '/');
    if (!atomic_load(&is_over) && name && sscanf(name, "/foretrace-events-%u-%u%n", &user, &process, &end) == 2 &&
        !name[end] && process == (unsigned)getpid())
        atomic_store(&ft_expected_board, address);
}

void ft_event_samples_found(uint64_t address)
{
    if (atomic_load(&is_over))
        return;
    pthread_mutex_lock(&lock);
    forget();
    board = ft_board_values_new(address, ft_writer_header()->guest_base);
    begun_ns = now_ns();
    if (board) {
        ft_board_trace(address, true);
        atomic_store(&board_address, address);
        atomic_store(&ft_writer_header()->has_events, 1);
    }
    pthread_mutex_unlock(&lock);
}

void ft_event_samples_look_again(void)
{
    uint64_t address = atomic_load(&ft_expected_board);
    if (address && ft_board_is_at(address) && atomic_compare_exchange_strong(&ft_expected_board, &address, 0))
        ft_event_samples_found(address);
}

/* Values that have changed, from `to` on: two words each. */
static uint32_t write_changes(uint64_t *to)
{
    const struct ft_event_value *values;
    const uint32_t num_events = ft_board_values_read(board, &values);
    uint32_t num_changes = 0;
    for (uint32_t i = 0; i < num_events && num_changes < MOST_CHANGES; i++, next_event++) {
        const struct ft_event_value *value = &values[next_event % num_events];
        if (!value->is_known || (last[value->number].is_known && last[value->number].bits == value->bits))
            continue;
        last[value->number].bits = value->bits;
        last[value->number].is_known = true;
        to[2 * num_changes] = value->number | (value->is_real ? FT_EVENT_REAL : 0);
        to[2 * num_changes++ + 1] = value->bits;
    }
    return num_changes;
}

bool ft_event_samples_are_due(void)
{
    return atomic_load_explicit(&board_address, memory_order_relaxed) &&
           now_ns() - atomic_load_explicit(&last_ns, memory_order_relaxed) >= DUE_NS;
}

void ft_event_samples_write(struct ft_cursor *cursor)
{
    ft_event_samples_look();
    if (!atomic_load_explicit(&board_address, memory_order_relaxed) || pthread_mutex_trylock(&lock) != 0)
        return;
    const uint64_t now = now_ns();
    atomic_store_explicit(&last_ns, now, memory_order_relaxed);
    if (board && spent_ns <= FIRST_NS + (now - begun_ns) / SHARE) {
        const uint64_t before_ns = own_ns(), length = 2 + 2 * (uint64_t)write_changes(cursor->next + 2);
        cursor->next[0] = (uint64_t)FT_TAG_EVENTS << FT_TAG_SHIFT | length << 32;
        cursor->next[1] = ++num_samples;
        cursor->next += length;
        spent_ns += own_ns() - before_ns;
    }
    pthread_mutex_unlock(&lock);
}

void ft_event_samples_end(void)
{
    atomic_store(&is_over, true);
    const uint64_t address = atomic_exchange(&board_address, 0);
    if (address)
        ft_board_trace(address, false);
}

/* The library may have made the board of the forked process already, or be about to: then the memory is the parent's.
 */
void ft_event_samples_forked(bool is_followed)
{
    const uint64_t address = atomic_load(&board_address);
    pthread_mutex_init(&lock, NULL);
    forget();
    atomic_store(&is_over, !is_followed);
    atomic_store(&ft_expected_board, is_followed ? address : 0);
    if (!is_followed && address)
        ft_board_trace(address, false);
    ft_event_samples_look();
}
