/* See waiting.h. What remains of the wall-clock time when processor time and the time in a run queue are taken away.
 * With several threads at once that is too little: it is meant for programs whose threads take turns. */
#define _GNU_SOURCE
#include "waiting.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define LEAST_SHARE 20 /* of the processor time, for a thread to count */

static uint64_t begun_ns, begun_processor_ns, begun_ready_ns;

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec now;
    return clock_gettime(clock, &now) == 0 ? (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec : 0;
}

/* Of a thread: how long it ran, and how long it was ready without a processor. */
struct thread_times {
    uint64_t ran_ns, ready_ns;
};

/* The first two numbers of schedstat (Linux, Documentation/scheduler/sched-stats.rst). False if they are not there. */
static bool times_of_thread(const char *thread, struct thread_times *times)
{
    char path[64], text[96];
    snprintf(path, sizeof path, "/proc/self/task/%.20s/schedstat", thread);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t length = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    if (length <= 0)
        return false;
    text[length] = '\0';
    char *second, *end;
    times->ran_ns = strtoull(text, &second, 10);
    times->ready_ns = strtoull(second, &end, 10);
    return end != second;
}

/* For how long the threads that live have been ready without a processor. Those that hardly ran are left out: an
 * engine's own, which wait while the program's do. */
static uint64_t ready_ns(void)
{
    const uint64_t least_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID) / LEAST_SHARE;
    uint64_t sum_ns = 0;
    bool is_known = true;
    DIR *threads = opendir("/proc/self/task");
    if (!threads)
        return FT_WAITING_UNKNOWN;
    for (const struct dirent *entry; is_known && (entry = readdir(threads));) {
        struct thread_times times;
        if (entry->d_name[0] == '.')
            continue;
        is_known = times_of_thread(entry->d_name, &times);
        if (is_known && times.ran_ns >= least_ns)
            sum_ns += times.ready_ns;
    }
    closedir(threads);
    return is_known ? sum_ns : FT_WAITING_UNKNOWN;
}

void ft_waiting_begin(void)
{
    begun_ready_ns = ready_ns();
    begun_processor_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    begun_ns = clock_ns(CLOCK_MONOTONIC);
}

uint64_t ft_waiting_processor_ns(void)
{
    return clock_ns(CLOCK_PROCESS_CPUTIME_ID) - begun_processor_ns;
}

uint64_t ft_waiting_ns(uint64_t reader_ns)
{
    const uint64_t wall_ns = clock_ns(CLOCK_MONOTONIC) - begun_ns;
    const uint64_t processor_ns = ft_waiting_processor_ns();
    const uint64_t ready = ready_ns();
    if (ready == FT_WAITING_UNKNOWN || begun_ready_ns == FT_WAITING_UNKNOWN)
        return FT_WAITING_UNKNOWN;
    const uint64_t known_ns = processor_ns + reader_ns + (ready > begun_ready_ns ? ready - begun_ready_ns : 0);
    return wall_ns > known_ns ? wall_ns - known_ns : 0;
}

uint64_t ft_waiting_children_ns(void)
{
    struct rusage usage;
    if (getrusage(RUSAGE_CHILDREN, &usage) != 0)
        return 0;
    const uint64_t s = (uint64_t)usage.ru_utime.tv_sec + (uint64_t)usage.ru_stime.tv_sec;
    const uint64_t us = (uint64_t)usage.ru_utime.tv_usec + (uint64_t)usage.ru_stime.tv_usec;
    return s * UINT64_C(1000000000) + us * 1000;
}
