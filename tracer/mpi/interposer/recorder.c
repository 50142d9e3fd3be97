#define _GNU_SOURCE
#include "recorder.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "foretrace/base/tables.h"

#include "../marks.h"
#include "folding.h"
#include "processor_clock.h"
#include "record_writer.h"
#include "sites.h"

enum state { BEFORE, RECORDING, ENDED };

static struct {
    enum state state;
    bool has_marks;
    int64_t left_ns;  /* when the last call was left */
    int64_t gap_ns;   /* computation since the last call that was recorded */
    int64_t total_ns; /* computation */
    int64_t begun_ns; /* by the clock */
    int64_t recorded; /* number of the call, while in its wrapper; -1: none yet */
    int64_t site;     /* of the call; NO_SITE: not looked for yet */
    const void *returns_to, *frame;
    const char *name;
    int64_t *scratch;
    uint32_t scratch_capacity;
} recorder;
#define NO_SITE (-3)

static __thread int depth;        /* of wrappers */
static __thread bool is_recorded; /* the thread that initialised MPI */
static volatile bool is_changing; /* what is recorded, at the moment */

static void mark(enum ft_mpi_mark what, int64_t number)
{
    if (UNLIKELY(recorder.has_marks))
        syscall(FT_MPI_MARK_CALL, (long)what, (long)number, 0L);
}

#define FT_MPI_ENTER() mark(FT_MPI_MARK_ENTER, 0)
#define FT_MPI_LEAVE(number) \
    ((number) < 0 ? mark(FT_MPI_MARK_LEAVE_ALONE, 0) : mark(FT_MPI_MARK_LEAVE, (number)))

static pthread_mutex_t left_out_lock = PTHREAD_MUTEX_INITIALIZER;
struct ft_left_out_calls ft_left_out_calls;

static void count_left_out(const char *name, const char *why)
{
    struct ft_left_out_calls *calls = &ft_left_out_calls;
    pthread_mutex_lock(&left_out_lock);
    int i = 0;
    while (i < calls->length && (calls->rows[i].why != why || strcmp(calls->rows[i].name, name)))
        i++;
    if (i == calls->length && i < FT_MOST_LEFT_OUT)
        calls->rows[calls->length++] = (struct ft_left_out_call){name, why, 0};
    calls->rows[i < FT_MOST_LEFT_OUT ? i : FT_MOST_LEFT_OUT - 1].times++;
    pthread_mutex_unlock(&left_out_lock);
}

void ft_left_out(const char *name)
{
    count_left_out(name, "");
}

void ft_left_out_because(const char *why)
{
    count_left_out(recorder.name, why);
}

struct search {
    const char *name;
    void *found;
};

static int find_in(struct dl_phdr_info *info, size_t bytes, void *context)
{
    (void)bytes;
    struct search *search = context;
    Dl_info own, other;
    void *handle = *info->dlpi_name ? dlopen(info->dlpi_name, RTLD_LAZY | RTLD_NOLOAD) : NULL;
    if (!handle)
        return 0;
    void *found = dlsym(handle, search->name);
    dlclose(handle);
    if (!found || !dladdr(found, &other) || !dladdr((void *)find_in, &own) || own.dli_fbase == other.dli_fbase)
        return 0;
    search->found = found;
    return 1;
}

void *ft_real(const char *name)
{
    struct search search = {name, dlsym(RTLD_NEXT, name)};
    if (!search.found) /* the program loaded its MPI library for itself */
        dl_iterate_phdr(find_in, &search);
    if (!search.found) {
        fprintf(stderr, "foretrace: error: the program's MPI library has no %s\n", name);
        _exit(72);
    }
    return search.found;
}

bool ft_enter(const char *name, const void *returns_to, const void *frame)
{
    if (recorder.state != RECORDING || depth)
        return false;
    if (UNLIKELY(!is_recorded)) {
        count_left_out(name, "another thread");
        return false;
    }
    depth = 1;
    FT_MPI_ENTER();
    is_changing = true;
    const int64_t now_ns = ft_clock_now_ns(), gap_ns = now_ns - recorder.left_ns;
    recorder.gap_ns += gap_ns;
    recorder.total_ns += gap_ns;
    recorder.recorded = -1;
    recorder.site = NO_SITE;
    recorder.name = name;
    recorder.returns_to = returns_to;
    recorder.frame = frame;
    is_changing = false;
    return true;
}

void ft_leave(void)
{
    depth = 0;
    if (recorder.state == RECORDING)
        recorder.left_ns = ft_clock_now_ns();
    FT_MPI_LEAVE(recorder.recorded);
}

int64_t *ft_scratch(int64_t length)
{
    if (length > UINT32_MAX / 2 ||
        !ft_reserve(&recorder.scratch, &recorder.scratch_capacity, (uint32_t)length, sizeof *recorder.scratch))
        return NULL;
    return recorder.scratch;
}

int64_t ft_bytes(int64_t count, MPI_Datatype type)
{
    int size = 0;
    PMPI_Type_size(type, &size);
    return count * size;
}

static void record(struct ft_call_row *call, const int64_t *slots, int64_t slots_length, const int64_t *counts,
                   int64_t counts_length)
{
    static bool is_full;
    if (recorder.site == NO_SITE)
        recorder.site = ft_site_of(recorder.returns_to, recorder.frame);
    call->site = recorder.site;
    is_changing = true;
    const int64_t number =
        is_full ? -1 : ft_calls_add(call, slots, slots_length, counts, counts_length, recorder.gap_ns);
    if (number < 0 || !ft_fold_append((int32_t)number)) {
        is_full = true; /* what comes later would lack what came before */
        ft_left_out_because("past the limit");
    } else
        recorder.recorded = number;
    recorder.gap_ns = 0;
    is_changing = false;
}

void ft_record(struct ft_call_row *call)
{
    record(call, NULL, 0, NULL, 0);
}

void ft_record_counts(struct ft_call_row *call, const int64_t *counts, int64_t length)
{
    record(call, NULL, 0, counts, length);
}

void ft_record_slots(struct ft_call_row *call, const int64_t *slots, int64_t length)
{
    record(call, slots, length, NULL, 0);
}

void ft_record_request(struct ft_call_row *call, const int64_t *counts, int64_t length, MPI_Request request)
{
    call->request = ft_requests_next_slot();
    record(call, NULL, 0, counts, length);
    if (!ft_requests_open(FT_HANDLE(request), true))
        ft_left_out_because("no memory");
}

static int64_t wall_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

void ft_before(void)
{
    if (recorder.state != BEFORE)
        return;
    recorder.has_marks = getenv("FT_MPI_MARKS") != NULL;
    recorder.recorded = -1;
    FT_MPI_ENTER();
}

static void watch_termination(void);

void ft_begin(void)
{
    if (recorder.state != BEFORE)
        return;
    is_recorded = true;
    if (!ft_writer_begin())
        return;
    ft_communicator_of(MPI_COMM_WORLD);
    watch_termination();
    ft_clock_start();
    recorder.begun_ns = wall_ns();
    mark(FT_MPI_MARK_BEGIN, 0);
    recorder.state = RECORDING;
    recorder.left_ns = ft_clock_now_ns();
}

void ft_end(bool is_complete)
{
    if (recorder.state != RECORDING || is_changing)
        return;
    recorder.state = ENDED;
    ft_writer_write(is_complete, 1e-9 * (double)recorder.total_ns, 1e-9 * (double)(wall_ns() - recorder.begun_ns));
}

/* The launcher ends the program, as when another rank was killed. */
static void on_termination(int number)
{
    ft_end(false);
    signal(number, SIG_DFL);
    raise(number);
}

static void watch_termination(void)
{
    struct sigaction action;
    if (sigaction(SIGTERM, NULL, &action) || action.sa_flags & SA_SIGINFO || action.sa_handler != SIG_DFL)
        return; /* the program handles it */
    memset(&action, 0, sizeof action);
    action.sa_handler = on_termination;
    sigaction(SIGTERM, &action, NULL);
}

/* The program ends without MPI_Finalize. */
__attribute__((destructor)) static void end_of_program(void)
{
    ft_end(false);
}
