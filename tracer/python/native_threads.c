/* See native_threads.h. `python` holds the threads that run Python; of those that have ended, `ended_ns` is the sum.
 * `noted` holds the kernel's ids of all threads at the last note. `lock` guards `python` and `ended_ns`: threads end
 * without the GIL.
 */
#define _GNU_SOURCE
#include "native_threads.h"

#include <dirent.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

#define TASKS "/proc/self/task" /* a directory for each thread: two links more than threads (Linux, fs/proc/base.c) */
#define LEAST_NS 100000u        /* less is none: the clocks of threads and process are not read at the same time */
#define MAX_NOTED 1024u         /* threads beyond them count as native */

struct python_thread {
    clockid_t clock;
    uint64_t begun_ns; /* by it, when the thread began to run Python */
    struct python_thread *next;
};

struct noted_thread {
    int id;
    bool of_linear_algebra, is_there; /* belongs to it; was there at the last note */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct python_thread *python;
static uint64_t begun_ns, ended_ns;
static uint64_t charged_ns; /* of native threads' time: what lines have been charged, under the GIL */
static _Thread_local struct python_thread *own __attribute__((tls_model("initial-exec")));

static struct noted_thread noted[MAX_NOTED];
static uint32_t n_noted;
static nlink_t links; /* of TASKS at the last note; 0: never */

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec now;
    return clock_gettime(clock, &now) == 0 ? (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec : 0;
}

static uint64_t less(uint64_t from, uint64_t what)
{
    return from > what ? from - what : 0;
}

/* The clock of a thread's processor time, by the kernel's id (include/linux/posix-timers_types.h: the id's complement,
 * then three bits: of a thread, by the scheduler). */
static clockid_t clock_of(int id)
{
    return (clockid_t)(~(unsigned)id << 3 | 6u);
}

static void take_lock(void)
{
    pthread_mutex_lock(&lock);
}

static void give_lock(void)
{
    pthread_mutex_unlock(&lock);
}

bool native_threads_init(void)
{
    if (pthread_atfork(take_lock, give_lock, give_lock) != 0)
        return false;
    native_threads_begin_python();
    native_threads_note(false);
    begun_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    if (own)
        own->begun_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    return true;
}

void native_threads_forked(void)
{
    struct python_thread *next;
    for (struct python_thread *thread = python; thread; thread = next) {
        next = thread->next;
        if (thread != own)
            free(thread);
    }
    python = own;
    if (own) {
        own->next = NULL;
        own->begun_ns = pthread_getcpuclockid(pthread_self(), &own->clock) == 0 ? clock_ns(CLOCK_THREAD_CPUTIME_ID) : 0;
    }
    n_noted = 0;
    links = 0;
    ended_ns = charged_ns = 0;
    native_threads_note(false);
    begun_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

void native_threads_begin_python(void)
{
    struct python_thread *thread = own ? NULL : malloc(sizeof *thread);
    if (!thread || pthread_getcpuclockid(pthread_self(), &thread->clock) != 0) {
        free(thread);
        return;
    }
    thread->begun_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    own = thread;
    take_lock();
    thread->next = python;
    python = thread;
    give_lock();
}

void native_threads_end_python(void)
{
    if (!own)
        return;
    take_lock();
    struct python_thread **place = &python;
    while (*place && *place != own)
        place = &(*place)->next;
    if (*place)
        *place = own->next;
    ended_ns += less(clock_ns(CLOCK_THREAD_CPUTIME_ID), own->begun_ns);
    give_lock();
    free(own);
    own = NULL;
}

/* Finds or adds the thread among those noted. */
static void note_thread(int id, bool of_linear_algebra)
{
    uint32_t i = 0;
    while (i < n_noted && noted[i].id != id)
        i++;
    if (i == MAX_NOTED)
        return;
    if (i == n_noted)
        noted[n_noted++] = (struct noted_thread){.id = id, .of_linear_algebra = of_linear_algebra};
    noted[i].is_there = true;
}

void native_threads_note(bool of_linear_algebra)
{
    struct stat status;
    DIR *tasks;
    if (stat(TASKS, &status) != 0 || status.st_nlink == links || !(tasks = opendir(TASKS)))
        return;
    links = status.st_nlink;
    for (uint32_t i = 0; i < n_noted; i++)
        noted[i].is_there = false;
    for (const struct dirent *entry; (entry = readdir(tasks));)
        if (entry->d_name[0] != '.')
            note_thread(atoi(entry->d_name), of_linear_algebra);
    closedir(tasks);
    uint32_t n_kept = 0; /* ids are used again: those of ended threads are forgotten */
    for (uint32_t i = 0; i < n_noted; i++)
        if (noted[i].is_there)
            noted[n_kept++] = noted[i];
    n_noted = n_kept;
}

static bool runs_python(int id)
{
    const struct python_thread *thread = python;
    while (thread && thread->clock != clock_of(id))
        thread = thread->next;
    return thread != NULL;
}

uint64_t native_threads_ns(void)
{
    uint64_t known_ns = 0;
    take_lock();
    for (const struct python_thread *thread = python; thread; thread = thread->next)
        known_ns += less(clock_ns(thread->clock), thread->begun_ns);
    for (uint32_t i = 0; i < n_noted; i++)
        if (noted[i].of_linear_algebra && !runs_python(noted[i].id))
            known_ns += clock_ns(clock_of(noted[i].id));
    known_ns += ended_ns;
    give_lock();
    const uint64_t native_ns = less(less(clock_ns(CLOCK_PROCESS_CPUTIME_ID), begun_ns), known_ns);
    return native_ns < LEAST_NS ? 0 : native_ns;
}

uint64_t native_threads_new_ns(void)
{
    const uint64_t new_ns = less(native_threads_ns(), charged_ns);
    if (new_ns < LEAST_NS)
        return 0;
    charged_ns += new_ns;
    return new_ns;
}

uint64_t native_threads_charged_ns(void)
{
    return charged_ns;
}
