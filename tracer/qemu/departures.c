/* See departures.h.
 *
 * Invariants: `shared_areas` is only touched under the plugin's lock, while code is translated. The engine's limit of
 * address space is lowered from ft_departures_call to ft_departures_returned of one thread, and by one thread at a time
 * (`refusing`).
 */
#define _GNU_SOURCE
#include "departures.h"

#include "tracer/transport/writer.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif
#define MAP_LOW 0x40u /* MAP_32BIT, of x86 alone */
#define LEAST_LARGE_BYTES (UINT64_C(1) << 30)
#define ROOM_BYTES (UINT64_C(1) << 28) /* that is left to the engine while a large mapping is refused */
#define PATH_BYTES 32u
#define MAX_AREAS 4096u

static struct numbers {
    int64_t mmap, mremap, munmap, brk, open, openat, prlimit64, setrlimit, clone, vfork, execve, exit, exit_group;
} numbers;
static bool is_x86;

static uint64_t most_bytes;
static _Atomic uint64_t mapped_bytes;             /* by system calls of the program, and not unmapped */
static _Atomic uint64_t limit_bytes = UINT64_MAX; /* of address space, that the program set itself */
static _Atomic uint64_t heap_end;
static _Atomic uint64_t *failed_starts; /* of programs, by children of vfork; memory shared with them */
static pid_t owner;                     /* the process that tells of them: forked ones share the count */
static atomic_bool memory_was_opened;

static pthread_mutex_t refusing = PTHREAD_MUTEX_INITIALIZER;
static struct rlimit own_limit; /* of the engine */

static struct area {
    uint64_t first, end;
} *shared_areas;
static size_t num_areas;
static bool all_is_shared; /* more areas than there is room for */

/* The system call that a thread is in. */
static _Thread_local struct call {
    uint64_t arguments[6];
    bool is_refused, is_vfork;
} call;
static _Thread_local bool is_vfork_child, start_failed;

static void count(enum ft_departure departure, uint64_t number)
{
    atomic_fetch_add(&ft_writer_header()->departures[departure], number);
}

bool ft_departures_begin(const char *target, uint64_t bytes)
{
    is_x86 = strcmp(target, "x86_64") == 0;
    numbers = is_x86 ? (struct numbers){9, 25, 11, 12, 2, 257, 302, 160, 56, 58, 59, 60, 231}
                     : (struct numbers){222, 216, 215, 214, -1, 56, 261, 164, 220, -1, 221, 93, 94};
    most_bytes = bytes;
    owner = getpid();
    failed_starts = mmap(NULL, sizeof *failed_starts, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    shared_areas = calloc(MAX_AREAS, sizeof *shared_areas);
    return failed_starts != MAP_FAILED && shared_areas;
}

/* Reads memory of the program; false if it is not there. */
static bool read_memory(uint64_t address, void *out, size_t length)
{
    const struct iovec own = {out, length},
                       there = {(void *)(uintptr_t)(address + ft_writer_header()->guest_base), length};
    return address && process_vm_readv(getpid(), &own, 1, &there, 1, 0) == (ssize_t)length;
}

/* ---- refusing ------------------------------------------------------------------------------------------------------ */

static uint64_t engine_bytes(void)
{
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (file) {
        if (fscanf(file, "%lu", &pages) != 1)
            pages = 0;
        fclose(file);
    }
    return (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Has the system refuse the call that the thread is about to make. */
static void refuse(uint64_t room_bytes)
{
    pthread_mutex_lock(&refusing);
    if (getrlimit(RLIMIT_AS, &own_limit) == 0) {
        struct rlimit lowered = own_limit;
        const uint64_t bytes = room_bytes ? engine_bytes() + room_bytes : 0;
        lowered.rlim_cur = bytes < lowered.rlim_cur ? bytes : lowered.rlim_cur;
        call.is_refused = setrlimit(RLIMIT_AS, &lowered) == 0;
    }
    if (!call.is_refused)
        pthread_mutex_unlock(&refusing);
}

static void stop_refusing(void)
{
    setrlimit(RLIMIT_AS, &own_limit);
    call.is_refused = false;
    pthread_mutex_unlock(&refusing);
}

/* Whether anything is mapped within a range of the program's addresses: mincore fails where a page is not mapped. */
static bool is_taken(uint64_t address, uint64_t length)
{
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    unsigned char resident[256];
    for (uint64_t at = 0; at < length && length < LEAST_LARGE_BYTES;) { /* a larger range is asked for as one */
        const uint64_t pages = (length - at + page - 1) / page,
                       step = pages < sizeof resident ? pages : sizeof resident;
        for (uint64_t i = 0; i < step; i++)
            if (mincore((void *)(uintptr_t)(address + ft_writer_header()->guest_base + at + i * page), page,
                        resident) == 0)
                return true;
        at += step * page;
    }
    return false;
}

/* The program wants that much more address space. */
static void grows(uint64_t bytes)
{
    const uint64_t so_far = atomic_load(&mapped_bytes);
    if (bytes >= LEAST_LARGE_BYTES && most_bytes && (bytes > most_bytes || so_far > most_bytes - bytes)) {
        count(FT_DEPARTURE_REFUSED, bytes);
        refuse(ROOM_BYTES);
    } else if (bytes > atomic_load(&limit_bytes) || so_far > atomic_load(&limit_bytes) - bytes) {
        refuse(0);
    }
}

static void mmap_called(const uint64_t *arguments)
{
    const uint64_t address = arguments[0], length = arguments[1], flags = arguments[3];
    if (is_x86 && flags & MAP_LOW && !(flags & MAP_FIXED))
        count(FT_DEPARTURE_LOW, 1);
    if ((flags & MAP_FIXED_NOREPLACE) == MAP_FIXED_NOREPLACE && !(flags & MAP_FIXED) && is_taken(address, length)) {
        count(FT_DEPARTURE_NOREPLACE, 1);
        refuse(0);
    } else if (!(flags & MAP_FIXED)) {
        grows(length);
    } else if (length >= LEAST_LARGE_BYTES && !is_taken(address, (uint64_t)sysconf(_SC_PAGESIZE))) {
        grows(length); /* not within what is mapped */
    }
}

static void limited(uint64_t resource, uint64_t address)
{
    struct {
        uint64_t current, most;
    } limit;
    if (!read_memory(address, &limit, sizeof limit))
        return;
    if (resource == RLIMIT_AS)
        atomic_store(&limit_bytes, limit.current);
    else if (resource == RLIMIT_DATA || resource == RLIMIT_STACK)
        count(FT_DEPARTURE_LIMIT, 1);
}

static void opened(uint64_t path)
{
    char name[PATH_BYTES] = "", own[PATH_BYTES];
    const size_t first = 4096 - path % 4096 < sizeof name - 1 ? 4096 - path % 4096 : sizeof name - 1;
    if (!read_memory(path, name, 6) || strncmp(name, "/proc/", 6) != 0)
        return;
    if (!read_memory(path, name, first) || !memchr(name, 0, sizeof name - 1))
        (void)!read_memory(path, name, sizeof name - 1);
    snprintf(own, sizeof own, "/proc/%d/", getpid());
    const char *file = strncmp(name, "/proc/self/", 11) == 0  ? name + 11
                       : strncmp(name, own, strlen(own)) == 0 ? name + strlen(own)
                                                              : "";
    if (strcmp(file, "maps") == 0)
        count(FT_DEPARTURE_MAPS, 1);
    else if (strcmp(file, "mem") == 0)
        atomic_store(&memory_was_opened, true);
}

void ft_departures_call(int64_t number, const uint64_t arguments[6])
{
    memcpy(call.arguments, arguments, sizeof call.arguments);
    call.is_vfork = number == numbers.vfork || (number == numbers.clone && arguments[0] & CLONE_VFORK);
    if (number == numbers.mmap)
        mmap_called(arguments);
    else if (number == numbers.mremap && arguments[2] > arguments[1])
        grows(arguments[2] - arguments[1]);
    else if (number == numbers.brk && atomic_load(&heap_end) && arguments[0] > atomic_load(&heap_end))
        grows(arguments[0] - atomic_load(&heap_end));
    else if (number == numbers.open || number == numbers.openat)
        opened(arguments[number == numbers.openat]);
    else if (number == numbers.setrlimit)
        limited(arguments[0], arguments[1]);
    else if (number == numbers.prlimit64 && (arguments[0] == 0 || arguments[0] == (uint64_t)getpid()) && arguments[2])
        limited(arguments[1], arguments[2]);
    else if ((number == numbers.exit || number == numbers.exit_group) && is_vfork_child && start_failed)
        atomic_fetch_add(failed_starts, 1);
}

/* ---- after calls --------------------------------------------------------------------------------------------------- */

static void less_mapped(uint64_t bytes)
{
    uint64_t before = atomic_load(&mapped_bytes);
    while (!atomic_compare_exchange_weak(&mapped_bytes, &before, before > bytes ? before - bytes : 0))
        ;
}

static void tell_failed_starts(void)
{
    if (getpid() == owner)
        atomic_store(&ft_writer_header()->departures[FT_DEPARTURE_START], atomic_load(failed_starts));
}

void ft_departures_returned(int64_t number, int64_t result)
{
    const uint64_t *arguments = call.arguments;
    const bool has_failed = result < 0 && result > -4096;
    if (call.is_refused)
        stop_refusing();
    tell_failed_starts();
    if (call.is_vfork && result == 0) {
        is_vfork_child = true;
        start_failed = false;
    }
    call.is_vfork = false;
    if (number == numbers.execve)
        start_failed = true; /* it has come back */
    if (has_failed)
        return;
    if (number == numbers.mmap) {
        if (!(arguments[3] & MAP_FIXED))
            atomic_fetch_add(&mapped_bytes, arguments[1]);
    } else if (number == numbers.munmap) {
        less_mapped(arguments[1]);
    } else if (number == numbers.mremap) {
        if (arguments[2] > arguments[1])
            atomic_fetch_add(&mapped_bytes, arguments[2] - arguments[1]);
        else
            less_mapped(arguments[1] - arguments[2]);
    } else if (number == numbers.brk) {
        const uint64_t before = atomic_exchange(&heap_end, (uint64_t)result);
        if (before && (uint64_t)result > before)
            atomic_fetch_add(&mapped_bytes, (uint64_t)result - before);
    }
}

void ft_departures_end(void)
{
    tell_failed_starts();
}

/* ---- code that changes unnoticed ------------------------------------------------------------------------------------- */

void ft_departures_mapped(const char *maps, size_t length)
{
    const char *end = maps + length;
    num_areas = 0;
    all_is_shared = false;
    for (const char *line = maps; line < end;) {
        unsigned long first, last;
        char may[5];
        const char *next = memchr(line, '\n', (size_t)(end - line));
        if (!next)
            break;
        if (sscanf(line, "%lx-%lx %4s", &first, &last, may) == 3 && may[3] == 's') {
            if (num_areas < MAX_AREAS)
                shared_areas[num_areas++] = (struct area){first, last};
            else
                all_is_shared = true;
        }
        line = next + 1;
    }
}

bool ft_departures_may_be_stale(uint64_t address)
{
    if (all_is_shared || atomic_load(&memory_was_opened))
        return true;
    for (size_t i = 0; i < num_areas; i++)
        if (address >= shared_areas[i].first && address < shared_areas[i].end)
            return true;
    return false;
}

void ft_departures_stale(void)
{
    count(FT_DEPARTURE_STALE, 1);
}
