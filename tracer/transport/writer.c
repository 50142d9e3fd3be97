/* The writing side of the address stream. See writer.h and stream.h.
 *
 * State of the process: where the shared memory lies, a lock for the queues and the side table, and whether this
 * process goes on alone, without a reader. Once alone, always alone: cursors then wrap around in the chunk they have.
 *
 * A forked child maps other memory over the shared one, at the same address: every pointer into it stays good. If the
 * reader follows children, it is a stream of the child's own, which begins with a copy of its parent's side table; else
 * it is private, with the cursors as they were, and nothing the child writes reaches the reader.
 */
#define _GNU_SOURCE
#include "writer.h"

#include "tracer/transport/children.h"
#include "event_samples.h"
#include "futex.h"
#include "waiting.h"
#include "waits.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define WAIT_NS 50000000L
#define NO_CHUNK UINT32_MAX

static struct ft_header *header;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool alone;
static void (*chunk_written)(void);
static _Thread_local uint32_t own_forks;
static _Thread_local bool forks_alone;

static struct ft_header header_at_fork;
static struct ft_cursor cursors_at_fork[FT_MAX_CURSORS];
static uint64_t side_bytes_at_fork;

static struct ft_cursor *cursor_table(void)
{
    return (struct ft_cursor *)((unsigned char *)header + header->cursors_offset);
}

static uint64_t *chunk_memory(uint32_t chunk)
{
    return (uint64_t *)((unsigned char *)header + header->chunks_offset) + (size_t)chunk * FT_CHUNK_WORDS;
}

static void fork_prepare(void)
{
    pthread_mutex_lock(&lock);
    memcpy(&header_at_fork, header, sizeof header_at_fork);
    memcpy(cursors_at_fork, cursor_table(), sizeof cursors_at_fork);
    side_bytes_at_fork = atomic_load(&header->side_used_bytes);
}

void ft_writer_child_begins(void)
{
    atomic_fetch_add(&header->forks, 1);
}

uint32_t ft_writer_forks(void)
{
    return own_forks;
}

void ft_writer_fork_alone(bool is_alone)
{
    forks_alone = is_alone;
}

static void fork_parent(void)
{
    own_forks++;
    ft_writer_child_begins();
    pthread_mutex_unlock(&lock);
}

static void go_on_alone(void)
{
    if (mmap(header, header_at_fork.total_bytes, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
        abort(); /* going on would write into the parent's trace */
    memcpy(header, &header_at_fork, sizeof header_at_fork);
    memcpy(cursor_table(), cursors_at_fork, sizeof cursors_at_fork);
    atomic_store(&header->request.follow, 0);
    atomic_store(&alone, true);
}

static bool plausible(const struct ft_header *h, uint64_t file_bytes)
{
    return h->magic == FT_STREAM_MAGIC && h->version == FT_STREAM_VERSION && h->header_bytes == sizeof *h &&
           h->total_bytes == file_bytes && h->side_offset < file_bytes &&
           h->side_capacity_bytes == file_bytes - h->side_offset;
}

/* NULL if it is not a stream. */
static struct ft_header *map_stream(int fd)
{
    struct stat status;
    if (fstat(fd, &status) != 0 || (uint64_t)status.st_size < sizeof(struct ft_header))
        return NULL;
    void *memory = mmap(NULL, (size_t)status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        return NULL;
    if (plausible(memory, (uint64_t)status.st_size))
        return memory;
    munmap(memory, (size_t)status.st_size);
    return NULL;
}

static void use_chunk(struct ft_cursor *cursor, uint32_t chunk);

/* What the entries of a side table count so far is the parent's. */
static void forget_counts(unsigned char *table, uint64_t bytes)
{
    for (uint64_t at = 0; at + sizeof(struct ft_side_entry) <= bytes;) {
        const struct ft_side_entry *entry = (const void *)(table + at);
        const uint64_t length = entry->bytes;
        if (length < sizeof *entry || length > bytes - at)
            return;
        if (entry->kind == FT_SIDE_PYBLOCK) {
            struct ft_side_pyblock *block = (void *)(table + at);
            memset((unsigned char *)block + offsetof(struct ft_side_pyblock, timed), 0,
                   sizeof *block - offsetof(struct ft_side_pyblock, timed));
        } else if (entry->kind == FT_SIDE_UNSEEN) {
            struct ft_side_unseen *unseen = (void *)(table + at);
            memset((unsigned char *)unseen + offsetof(struct ft_side_unseen, calls), 0,
                   sizeof *unseen - offsetof(struct ft_side_unseen, calls));
        } else if (entry->kind == FT_SIDE_LINEAR) {
            atomic_store(&((struct ft_side_linear *)(void *)(table + at))->calls, 0);
        } else if (entry->kind == FT_SIDE_OPERATION) {
            struct ft_side_operation *operation = (void *)(table + at);
            atomic_store(&operation->rounds, 0);
            atomic_store(&operation->faults, 0);
            atomic_store(&operation->kept_calls, 0);
        } else if (entry->kind == FT_SIDE_COMPILED) {
            atomic_store(&((struct ft_side_compiled *)(void *)(table + at))->rounds, 0);
        } else if (entry->kind == FT_SIDE_CHILD) {
            ((struct ft_side_child *)(void *)(table + at))->pid = 0;
        }
        at += length;
    }
}

/* Goes on in a stream of its own. Of the threads only the one that forked is left, but which that is nobody says: all
 * cursors get the chunks that are reserved for them, and the others' stay empty. */
static bool go_on_followed(int fd)
{
    const struct ft_header *old = &header_at_fork;
    struct ft_header *own = map_stream(fd);
    if (!own)
        return false;
    if (own->total_bytes != old->total_bytes || own->side_offset != old->side_offset) {
        munmap(own, own->total_bytes);
        return false;
    }
    memcpy((unsigned char *)own + own->side_offset, (unsigned char *)header + old->side_offset, side_bytes_at_fork);
    forget_counts((unsigned char *)own + own->side_offset, side_bytes_at_fork);
    atomic_store(&own->side_used_bytes, side_bytes_at_fork);
    own->guest_base = old->guest_base;
    atomic_store(&own->threads, 1);
    if (mremap(own, old->total_bytes, old->total_bytes, MREMAP_MAYMOVE | MREMAP_FIXED, header) == MAP_FAILED) {
        munmap(own, old->total_bytes);
        return false;
    }
    for (uint32_t i = 0; i < FT_MAX_CURSORS; i++) {
        struct ft_cursor *cursor = cursor_table() + i;
        if (!atomic_load(&cursors_at_fork[i].in_use))
            continue;
        *cursor = cursors_at_fork[i];
        cursor->used_before = 1;
        cursor->thread = 1;
        cursor->num_events = 0;
        cursor->sequence = 0;
        use_chunk(cursor, FT_SHARED_CHUNKS + i);
    }
    ft_waiting_begin();
    ft_waits_forget();
    atomic_store(&header->attached, 1);
    return true;
}

static void fork_child(void)
{
    int fd = atomic_load(&alone) || forks_alone ? -1 : ft_children_ask(header);
    if (fd < 0 || !go_on_followed(fd))
        go_on_alone();
    ft_event_samples_forked(!atomic_load(&alone));
    if (fd >= 0)
        close(fd);
    pthread_mutex_unlock(&lock);
}

bool ft_writer_attach(int fd)
{
    struct ft_header *memory = map_stream(fd);
    if (!memory)
        return false;
    if (pthread_atfork(fork_prepare, fork_parent, fork_child) != 0) {
        munmap(memory, memory->total_bytes);
        return false;
    }
    close(fd);
    header = memory;
    ft_waiting_begin();
    atomic_store(&header->attached, 1);
    return true;
}

bool ft_writer_attach_through(const struct ft_door *door, const char *program, char *const *words)
{
    const int fd = ft_children_open(door->reader_pid, door->fd);
    struct ft_header *of_parent = fd < 0 ? NULL : map_stream(fd);
    if (fd >= 0)
        close(fd);
    if (!of_parent)
        return false;
    const int own = ft_children_ask_as(of_parent, door->kind, program, words);
    munmap(of_parent, of_parent->total_bytes);
    const bool attached = own >= 0 && ft_writer_attach(own);
    if (own >= 0 && !attached)
        close(own);
    return attached;
}

struct ft_header *ft_writer_header(void)
{
    return header;
}

/* This and the next two with the lock held. */
static void enqueue(struct ft_ready entry)
{
    uint32_t head = atomic_load(&header->ready_head);
    header->ready[head % FT_QUEUE_SLOTS] = entry;
    atomic_store(&header->ready_head, head + 1);
    if (atomic_load(&header->reader_waits))
        ft_futex_wake(&header->ready_head);
}

static void publish(struct ft_cursor *cursor)
{
    uint32_t words = (uint32_t)(cursor->next - cursor->begin);
    cursor->left_words = (uint32_t)(cursor->end - cursor->next);
    enqueue(
        (struct ft_ready){cursor->chunk, words, (uint32_t)(cursor - cursor_table()), cursor->sequence, cursor->thread});
}

static _Thread_local uint64_t waited_ns __attribute__((tls_model("initial-exec")));

uint64_t ft_writer_waited_ns(void)
{
    return waited_ns;
}

static uint64_t now_ns(void)
{
    struct timespec now;
    return clock_gettime(CLOCK_MONOTONIC, &now) == 0
               ? (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec
               : 0;
}

static uint32_t take_free_chunk(void)
{
    const struct timespec timeout = {0, WAIT_NS};
    for (;;) {
        uint32_t tail = atomic_load(&header->free_tail);
        uint32_t head = atomic_load(&header->free_head);
        if (head != tail) {
            uint32_t chunk = header->free[tail % FT_QUEUE_SLOTS];
            atomic_store(&header->free_tail, tail + 1);
            return chunk;
        }
        if (!ft_reader_lives(header))
            return NO_CHUNK;
        const uint64_t begun_ns = now_ns();
        atomic_store(&header->writer_waits, 1);
        ft_futex_wait(&header->free_head, head, &timeout);
        atomic_store(&header->writer_waits, 0);
        waited_ns += now_ns() - begun_ns;
        atomic_fetch_add(&header->reader_wait_ns, now_ns() - begun_ns);
    }
}

static void use_chunk(struct ft_cursor *cursor, uint32_t chunk)
{
    cursor->chunk = chunk;
    cursor->begin = chunk_memory(chunk);
    cursor->next = cursor->begin;
    cursor->end = cursor->begin + FT_CHUNK_WORDS;
    atomic_signal_fence(memory_order_seq_cst);
    cursor->sequence++; /* last: a program killed before this has nothing in the new chunk */
}

/* Publishes what the thread wrote. With the lock held. */
static void replace_chunk(struct ft_cursor *cursor)
{
    publish(cursor);
    uint32_t chunk = take_free_chunk();
    if (chunk == NO_CHUNK) {
        atomic_store(&alone, true);
        cursor->next = cursor->begin;
    } else {
        use_chunk(cursor, chunk);
    }
}

struct ft_cursor *ft_writer_scratch(void)
{
    struct ft_cursor *cursor = calloc(1, sizeof *cursor + FT_CHUNK_WORDS * sizeof(uint64_t));
    if (!cursor)
        return NULL;
    cursor->chunk = NO_CHUNK;
    cursor->begin = (uint64_t *)(cursor + 1);
    cursor->next = cursor->begin;
    cursor->end = cursor->begin + FT_CHUNK_WORDS;
    return cursor;
}

/* A cursor of the table with a chunk, or NULL if all are in use. With the lock held. */
static struct ft_cursor *claim_cursor(void)
{
    struct ft_cursor *table = cursor_table();
    for (uint32_t i = 0; i < FT_MAX_CURSORS; i++) {
        struct ft_cursor *cursor = table + i;
        if (atomic_load(&cursor->in_use))
            continue;
        uint32_t chunk = cursor->used_before ? take_free_chunk() : FT_SHARED_CHUNKS + i;
        if (chunk == NO_CHUNK)
            return NULL;
        cursor->used_before = 1;
        cursor->thread = atomic_load(&header->threads) + 1;
        cursor->num_events = 0;
        use_chunk(cursor, chunk);
        atomic_store(&cursor->in_use, 1);
        return cursor;
    }
    return NULL;
}

struct ft_cursor *ft_writer_open(void)
{
    struct ft_cursor *cursor = NULL;
    pthread_mutex_lock(&lock);
    if (!atomic_load(&alone) && atomic_load(&header->threads) < FT_MAX_THREADS)
        cursor = claim_cursor();
    atomic_fetch_add(cursor ? &header->threads : &header->threads_untraced, 1);
    pthread_mutex_unlock(&lock);
    return cursor ? cursor : ft_writer_scratch();
}

void ft_writer_flush(struct ft_cursor *cursor)
{
    if (cursor->chunk == NO_CHUNK || atomic_load(&alone)) {
        cursor->next = cursor->begin;
        return;
    }
    pthread_mutex_lock(&lock);
    replace_chunk(cursor);
    pthread_mutex_unlock(&lock);
    if (atomic_load(&alone))
        ft_event_samples_end();
    else
        ft_event_samples_write(cursor);
    if (chunk_written)
        chunk_written();
}

void ft_writer_watch(void (*written)(void))
{
    chunk_written = written;
}

void ft_writer_mark(enum ft_mark mark, bool publish_all)
{
    struct ft_cursor *table = cursor_table();
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; publish_all && i < FT_MAX_CURSORS && !atomic_load(&alone); i++)
        if (atomic_load(&table[i].in_use) && table[i].next != table[i].begin)
            replace_chunk(table + i);
    if (!atomic_load(&alone))
        enqueue((struct ft_ready){.chunk = FT_MARK, .words = mark});
    pthread_mutex_unlock(&lock);
}

void ft_writer_close(struct ft_cursor *cursor)
{
    if (cursor->chunk == NO_CHUNK) {
        free(cursor);
        return;
    }
    pthread_mutex_lock(&lock);
    if (!atomic_load(&alone)) {
        publish(cursor);
        atomic_store(&cursor->in_use, 0);
    }
    pthread_mutex_unlock(&lock);
}

void ft_writer_finish(void)
{
    struct ft_cursor *table = cursor_table();
    pthread_mutex_lock(&lock);
    if (!atomic_load(&alone)) {
        for (uint32_t i = 0; i < FT_MAX_CURSORS; i++)
            if (atomic_load(&table[i].in_use)) {
                publish(table + i);
                atomic_store(&table[i].in_use, 0);
            }
        atomic_store(&alone, true); /* whatever still runs goes on untraced */
        header->waited_ns = ft_waiting_ns(atomic_load(&header->reader_wait_ns));
        header->processor_ns = ft_waiting_processor_ns();
        header->children_ns = ft_waiting_children_ns();
        atomic_store(&header->finished, 1);
    }
    pthread_mutex_unlock(&lock);
}

void ft_writer_is_full(enum ft_full what)
{
    uint32_t nothing = 0;
    atomic_compare_exchange_strong(&header->side_full, &nothing, (uint32_t)what);
}

uint32_t ft_writer_append(size_t bytes, uint32_t *counter, void (*fill)(void *entry, uint32_t number, void *context),
                          void *context)
{
    uint32_t number = 0;
    bytes = (bytes + 7) & ~(size_t)7;
    pthread_mutex_lock(&lock);
    uint64_t used = atomic_load(&header->side_used_bytes);
    if (bytes > UINT32_MAX || bytes > header->side_capacity_bytes - used) {
        ft_writer_is_full(FT_FULL_BYTES);
    } else {
        unsigned char *entry = (unsigned char *)header + header->side_offset + used;
        number = counter ? *counter + 1 : 1;
        fill(entry, number, context);
        ((struct ft_side_entry *)entry)->bytes = (uint32_t)bytes;
        if (counter)
            *counter = number;
        atomic_store(&header->side_used_bytes, used + bytes);
    }
    pthread_mutex_unlock(&lock);
    return number;
}
