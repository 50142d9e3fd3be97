/* See threads.h. */
#include "threads.h"

#include "tracer/transport/waits.h"

#include <errno.h>
#include <linux/futex.h>
#include <linux/sched.h>
#include <pthread.h>
#include <string.h>

#define MAX_VCPUS 65536u

static struct numbers {
    int64_t futex, clone, exit, set_tid_address;
    unsigned int child_tid; /* which of clone's arguments says what is cleared at the end */
} numbers;

static uint64_t cleared[MAX_VCPUS]; /* address that the end of each thread clears, 0 for none */

/* A thread that is being created. QEMU up to 8 has it start in the thread that creates it, later ones in its own. */
struct creation {
    uint64_t event, cleared;
    bool is_under_way;
};
static _Thread_local struct creation own_creation;
static struct creation last_creation;
static uint32_t creations; /* under way */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The futex call that a thread is in. */
static _Thread_local struct futex_call {
    uint64_t waits_at, wakes_at, event; /* 0: none */
} own_call;

void ft_threads_begin(const char *target)
{
    const bool is_x86 = strcmp(target, "x86_64") == 0;
    numbers = is_x86 ? (struct numbers){202, 56, 60, 218, 3} : (struct numbers){98, 220, 93, 96, 4};
}

void ft_threads_start(unsigned int vcpu, struct ft_cursor *cursor)
{
    struct creation creation = own_creation;
    pthread_mutex_lock(&lock);
    if (!creation.is_under_way && creations == 1)
        creation = last_creation;
    pthread_mutex_unlock(&lock);
    cleared[vcpu] = creation.cleared;
    ft_write_synchronisation(cursor, FT_SYNC_CREATED, creation.event);
}

static void clone_called(struct ft_cursor *cursor, const uint64_t arguments[6])
{
    const uint64_t flags = arguments[0];
    if (!(flags & CLONE_THREAD))
        return;
    own_creation =
        (struct creation){ft_next_event(cursor), flags & CLONE_CHILD_CLEARTID ? arguments[numbers.child_tid] : 0, true};
    pthread_mutex_lock(&lock);
    last_creation = own_creation;
    creations++;
    pthread_mutex_unlock(&lock);
    ft_write_synchronisation(cursor, FT_SYNC_EVENT, own_creation.event);
}

static void futex_called(struct ft_cursor *cursor, const uint64_t arguments[6])
{
    const uint64_t address = arguments[0];
    own_call = (struct futex_call){0};
    switch (arguments[1] & FUTEX_CMD_MASK) {
    case FUTEX_WAIT:
    case FUTEX_WAIT_BITSET: own_call.waits_at = address; break;
    case FUTEX_WAKE:
    case FUTEX_WAKE_BITSET:
    case FUTEX_WAKE_OP: /* of its two futexes, the first */
    case FUTEX_REQUEUE: /* who is requeued counts as woken by that */
    case FUTEX_CMP_REQUEUE:
        own_call.wakes_at = address;
        own_call.event = ft_waits_post(cursor, address, false);
        break;
    default: break;
    }
}

void ft_threads_call(unsigned int vcpu, struct ft_cursor *cursor, int64_t number, const uint64_t arguments[6])
{
    if (number == numbers.futex)
        futex_called(cursor, arguments);
    else if (number == numbers.clone)
        clone_called(cursor, arguments);
    else if (number == numbers.set_tid_address)
        cleared[vcpu] = arguments[0];
    else if (number == numbers.exit && cleared[vcpu])
        ft_write_synchronisation(cursor, FT_SYNC_EVENT, ft_waits_post(cursor, cleared[vcpu], true));
}

void ft_threads_returned(struct ft_cursor *cursor, int64_t number, int64_t result)
{
    if (number == numbers.clone && own_creation.is_under_way) {
        own_creation = (struct creation){0};
        pthread_mutex_lock(&lock);
        creations--;
        pthread_mutex_unlock(&lock);
    } else if (number == numbers.futex && own_call.waits_at) {
        if (result == 0 || result == -EAGAIN)
            ft_waits_woken(cursor, own_call.waits_at, result == 0);
    } else if (number == numbers.futex && own_call.wakes_at) {
        if (result > 0)
            ft_write_synchronisation(cursor, FT_SYNC_EVENT, own_call.event);
        else
            ft_waits_take_back(own_call.wakes_at, own_call.event);
    }
}
