#define _GNU_SOURCE
#include "tracer/events/board.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST_BYTES (UINT64_C(16) << 30)
#define LEAST_BYTES (UINT64_C(1) << 20)
#define PAGE_BYTES 4096
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

__attribute__((visibility("default"))) struct board *foretrace_events_board;
static int file = -1; /* of the board; -1: it is private */
static char path[4096];

/* The agent of a traced Python program has this function; statically linked programs have neither. */
#pragma weak dlsym
static void (*board_made)(struct board *board);

/* ---- the file ----------------------------------------------------------------------------------------------------- */

/* A file of this name is there. It is of a process of this number that is no more, or of the program that this process
 * ran before: if that was traced, the reader may not have opened it yet, and finds it under the other name. */
static void put_aside(void)
{
    struct board old = {.traced_process = 0};
    char replaced[sizeof path + sizeof BOARD_REPLACED];
    const int found = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    const bool is_traced = found >= 0 && pread(found, &old, sizeof old, 0) == sizeof old &&
                           atomic_load(&old.traced_process) == (uint32_t)getpid();
    if (found >= 0)
        close(found);
    snprintf(replaced, sizeof replaced, "%s" BOARD_REPLACED, path);
    if (!is_traced || rename(path, replaced) != 0)
        unlink(path);
}

/* A new file for this process, of that size, without a signal if that is more than is allowed. -1: there can be none.
 */
static int make_file(uint64_t size_bytes)
{
    const char *directory = getenv("FORETRACE_EVENTS_DIRECTORY");
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < size_bytes)
        return -1;
    const int length = snprintf(path, sizeof path, "%s/foretrace-events-%u-%d", directory ? directory : "/dev/shm",
                                (unsigned)geteuid(), (int)getpid());
    if (length < 0 || (size_t)length >= sizeof path)
        return -1;
    const int flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    int made = open(path, flags, 0600);
    if (made < 0 && errno == EEXIST) {
        put_aside();
        made = open(path, flags, 0600);
    }
    if (made >= 0 && ftruncate(made, (off_t)size_bytes) != 0) {
        close(made);
        unlink(path);
        made = -1;
    }
    if (made < 0)
        path[0] = 0;
    return made;
}

static struct board *mapped(void *at, uint64_t size_bytes, int of)
{
    const int flags = MAP_NORESERVE | (at ? MAP_FIXED : 0) | (of < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED);
    void *memory = mmap(at, size_bytes, PROT_READ | PROT_WRITE, flags, of, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

/* At most a sixteenth of the addresses that the process may have: they are the program's. */
static uint64_t most_bytes(void)
{
    struct rlimit limit;
    uint64_t most = MOST_BYTES;
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        while (most > LEAST_BYTES && most > limit.rlim_cur / 16)
            most >>= 1;
    return most;
}

/* Field 22 of /proc/self/stat (proc(5)). The name in field 2 may have spaces and brackets. */
static uint64_t start_ticks(void)
{
    char text[1024];
    unsigned long long ticks;
    const int stat = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    const ssize_t length = stat < 0 ? -1 : read(stat, text, sizeof text - 1);
    if (stat >= 0)
        close(stat);
    text[length < 0 ? 0 : length] = 0;
    const char *at = strrchr(text, ')');
    for (int field = 2; at && field < 22; field++)
        at = strchr(at + 1, ' ');
    return at && sscanf(at, "%llu", &ticks) == 1 ? ticks : 0;
}

static void name_process(struct board *board)
{
    board->process = (uint32_t)getpid();
    board->start_ticks = start_ticks();
}

static struct board *make_board(void)
{
    for (uint64_t size_bytes = most_bytes(); size_bytes >= LEAST_BYTES; size_bytes >>= 1) {
        file = make_file(size_bytes);
        struct board *board = mapped(NULL, size_bytes, file);
        if (board && board_prepare(board, board, sizeof *board)) {
            memcpy(board->magic, BOARD_MAGIC, sizeof board->magic);
            board->version = BOARD_VERSION;
            name_process(board);
            board->size_bytes = size_bytes;
            atomic_store(&board->used_bytes, sizeof *board);
            return board;
        }
        if (board)
            munmap(board, size_bytes);
        board_end(board);
    }
    return NULL;
}

struct board *board_get(void)
{
    if (foretrace_events_board)
        return foretrace_events_board;
    struct board *board = foretrace_events_board = make_board();
    if (board && file >= 0 && dlsym &&
        (board_made = (void (*)(struct board *))dlsym(RTLD_DEFAULT, "foretrace_board_made")))
        board_made(board);
    return board;
}

bool board_is_kept(const struct board *board)
{
    return getenv("FORETRACE_EVENTS_KEEP") || atomic_load(&board->traced_process) == (uint32_t)getpid();
}

void board_end(struct board *board)
{
    (void)board;
    if (file >= 0)
        close(file);
    if (path[0])
        unlink(path);
    file = -1;
    path[0] = 0;
}

/* ---- memory ------------------------------------------------------------------------------------------------------- */

static uint64_t rounded_up(uint64_t value, uint64_t to)
{
    return (value + to - 1) & ~(to - 1);
}

void *board_reserve(struct board *board, size_t size_bytes, size_t alignment)
{
    uint64_t used = atomic_load(&board->used_bytes), from;
    do {
        from = rounded_up(used, alignment);
        if (size_bytes > board->size_bytes || from > board->size_bytes - size_bytes)
            return NULL;
    } while (!atomic_compare_exchange_weak(&board->used_bytes, &used, from + size_bytes));
    return board_at(board, from);
}

bool board_prepare(struct board *board, void *from, size_t size_bytes)
{
    char *const first = (char *)((uintptr_t)from & ~(uintptr_t)(PAGE_BYTES - 1));
    const size_t length = rounded_up((uint64_t)((char *)from + size_bytes - first), PAGE_BYTES);
    if (madvise(first, length, MADV_POPULATE_WRITE) == 0)
        return true;
    if (file >= 0 && errno == EINVAL &&
        posix_fallocate(file, first - (char *)board, (off_t)length) == 0) /* older Linux */
        return true;
    if (file < 0)
        return errno == EINVAL;
    /* The file system is full: private pages take the place of the file's, and the process alone reads them. They must
     * not cover what is in the file already. */
    unsigned char is_there;
    for (char *page = first; page < first + length; page += PAGE_BYTES) {
        if (mincore(page, PAGE_BYTES, &is_there) == 0 && is_there & 1)
            continue;
        if (!mapped(page, PAGE_BYTES, -1))
            return false;
        atomic_fetch_add(&board->num_private_bytes_lost, PAGE_BYTES);
    }
    return true;
}

void *board_allocate(struct board *board, size_t size_bytes)
{
    void *memory = board_reserve(board, size_bytes, 16);
    return memory && board_prepare(board, memory, size_bytes) ? memory : NULL;
}

board_offset board_text(struct board *board, const char *text)
{
    const size_t size_bytes = strlen(text) + 1;
    char *copy = board_allocate(board, size_bytes);
    if (copy)
        memcpy(copy, text, size_bytes);
    return board_offset_of(board, copy);
}

/* ---- fork --------------------------------------------------------------------------------------------------------- */

/* Copies what is in the pages of one file to another. */
static bool copy_file(int from, int to, uint64_t size_bytes)
{
    off_t first = 0, hole;
    while ((first = lseek(from, first, SEEK_DATA)) >= 0 && (uint64_t)first < size_bytes) {
        hole = lseek(from, first, SEEK_HOLE);
        for (off_t at = first; at < hole;) {
            off_t in = at, out = at;
            const ssize_t copied = copy_file_range(from, &in, to, &out, (size_t)(hole - at), 0);
            if (copied > 0) {
                at += copied;
                continue;
            }
            char page[PAGE_BYTES];
            const ssize_t got = pread(from, page, sizeof page, at);
            if (got <= 0 || pwrite(to, page, (size_t)got, at) != got)
                return false;
            at += got;
        }
        first = hole;
    }
    return first < 0 ? errno == ENXIO : true;
}

void board_fork(struct board *board)
{
    if (!board || file < 0)
        return; /* private memory is the child's own already */
    const int of_parent = file;
    const uint64_t size_bytes = board->size_bytes;
    path[0] = 0;
    file = make_file(size_bytes);
    const bool is_kept = file >= 0 && copy_file(of_parent, file, size_bytes) && mapped(board, size_bytes, file);
    if (!is_kept) {
        /* The parent's pages, each until it is written here: what the parent counts meanwhile may be seen. */
        board_end(board);
        mmap(board, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, of_parent, 0);
    }
    close(of_parent);
    name_process(board);
    if (is_kept && board_made)
        board_made(board);
}
