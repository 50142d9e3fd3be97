/* One word says whose turn it is; it has a cache line of its own. */
#define _GNU_SOURCE

#include "turns.h"

#include <errno.h>

#ifdef __linux__

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kernels.h"

enum { FIRST, SECOND, NOBODY, CANCELLED };

struct shared {
    _Alignas(2 * FT_LINE_BYTES) _Atomic uint32_t turn;
    _Alignas(2 * FT_LINE_BYTES) atomic_int ready;
    uint64_t repeats;
    double work_s;
    bool sleeps;
};

struct player {
    struct shared *shared;
    uint32_t number;
    int cpu;
    double worked_s, calls_s, end;
    pthread_t thread;
};

enum { SPINS = 1 << 16 }; /* after which a thread yields: the one that it waits for may want its core */

/* False if there is nothing to wait for. Before the first turn threads yield: who starts them may want their core. */
static bool wait_for_turn(struct shared *shared, uint32_t number)
{
    uint32_t turn;
    for (int spins = 1; (turn = atomic_load(&shared->turn)) != number; spins++) {
        if (turn == CANCELLED)
            return false;
        if (turn == NOBODY || spins % SPINS == 0)
            sched_yield();
        else if (shared->sleeps)
            (void)syscall(SYS_futex, &shared->turn, FUTEX_WAIT_PRIVATE, turn, NULL, NULL, 0);
    }
    return true;
}

static void work(struct player *player, double seconds)
{
    const double begin = ft_now();
    double now = begin;
    while (now - begin < seconds)
        now = ft_now();
    player->worked_s += now - begin;
}

static void *play(void *argument)
{
    struct player *player = argument;
    struct shared *shared = player->shared;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(player->cpu, &set);
    (void)pthread_setaffinity_np(pthread_self(), sizeof set, &set); /* not allowed to: then anywhere */
    atomic_fetch_add(&shared->ready, 1);
    for (uint64_t i = 0; i < shared->repeats && wait_for_turn(shared, player->number); i++) {
        if (shared->work_s > 0)
            work(player, shared->work_s);
        atomic_store(&shared->turn, 1 - player->number);
        if (shared->sleeps) {
            const double begin = ft_now();
            (void)syscall(SYS_futex, &shared->turn, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
            player->calls_s += ft_now() - begin;
        }
    }
    player->end = ft_now();
    return NULL;
}

int ft_take_turns(const int cpus[2], uint64_t repeats, double work_s, bool sleeps, struct ft_turns *found)
{
    struct shared shared = {.turn = NOBODY, .repeats = repeats, .work_s = work_s, .sleeps = sleeps};
    struct player players[2] = {{.shared = &shared, .number = FIRST, .cpu = cpus[0]},
                                {.shared = &shared, .number = SECOND, .cpu = cpus[1]}};
    int started = 0, error = 0;
    while (started < 2 && !(error = pthread_create(&players[started].thread, NULL, play, &players[started])))
        started++;
    while (!error && atomic_load(&shared.ready) < 2)
        sched_yield();
    const double begin = ft_now();
    atomic_store(&shared.turn, error ? CANCELLED : FIRST);
    for (int i = 0; i < started; i++)
        pthread_join(players[i].thread, NULL);
    const double end = players[0].end > players[1].end ? players[0].end : players[1].end;
    *found = (struct ft_turns){end - begin - players[0].worked_s - players[1].worked_s,
                               players[0].calls_s + players[1].calls_s};
    return error;
}

#else

int ft_take_turns(const int cpus[2], uint64_t repeats, double work_s, bool sleeps, struct ft_turns *found)
{
    (void)cpus, (void)repeats, (void)work_s, (void)sleeps;
    *found = (struct ft_turns){0, 0};
    return ENOSYS;
}

#endif
