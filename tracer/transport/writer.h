/* The writing side of the address stream: what the QEMU plugin and the Python agent share. See stream.h.
 *
 * Each thread of the traced program has a cursor, which lies in the shared memory so that its words can be read even
 * when the program is killed. A thread that is not traced (the reader died, this is a forked child, or there are more
 * threads than cursors) has a private cursor over scratch memory instead: the fast path never has to ask.
 */
#ifndef FORETRACE_WRITER_H
#define FORETRACE_WRITER_H

#include "stream.h"

#include <stdbool.h>
#include <stddef.h>

/* Maps the shared memory behind `fd`, checks it, closes `fd`. False, with nothing mapped, if it is not a stream. */
bool ft_writer_attach(int fd);

/* Where a program that another process started asks for a stream: in that of this process, which the reader has open.
 */
struct ft_door {
    uint32_t reader_pid, fd;
    enum ft_request_kind kind;
};

/* The same of a program that a followed process started, with these words (NULL at their end). False if it gets no
 * stream. */
bool ft_writer_attach_through(const struct ft_door *door, const char *program, char *const *words);

struct ft_header *ft_writer_header(void);

/* Whether the children that this thread forks go on untraced, also where children are followed. */
void ft_writer_fork_alone(bool is_alone);

/* Counts a child process that goes on untraced. Those of fork() are counted already. */
void ft_writer_child_begins(void);

/* How often this thread has called fork(). */
uint32_t ft_writer_forks(void);

/* The cursor of a new thread, with room for at least FT_MAX_BULK_WORDS. Never NULL while attached, but for ENOMEM. */
struct ft_cursor *ft_writer_open(void);

/* A cursor whose words nobody reads, for what is not to be traced. NULL for ENOMEM. */
struct ft_cursor *ft_writer_scratch(void);

/* Publishes what the thread wrote and gives its cursor an empty chunk, waiting for one if need be. */
void ft_writer_flush(struct ft_cursor *cursor);

/* How long this thread has waited for the reader so far. */
uint64_t ft_writer_waited_ns(void);

/* Has `written` called, without the writer's lock, whenever a thread has filled a chunk and got another one. */
void ft_writer_watch(void (*written)(void));

/* Puts a mark behind what was published. If no other thread can be writing, what all threads wrote can be published
 * before it. */
void ft_writer_mark(enum ft_mark mark, bool publish_all);

/* Publishes what the thread wrote and gives up its cursor, which is not to be used again. */
void ft_writer_close(struct ft_cursor *cursor);

/* Publishes what every thread wrote and says that the program came to its end. No other thread may be writing. */
void ft_writer_finish(void);

/* Says that later blocks are not in the stream, and why. */
void ft_writer_is_full(enum ft_full what);

/* Appends an entry to the side table, under the writer's lock: `fill` writes it (into zeroed memory) and may number it
 * from `*counter`, which is advanced only if the entry fits. Returns the number, counted from 1, or 0 if the table is
 * full. `counter` may be NULL. */
uint32_t ft_writer_append(size_t bytes, uint32_t *counter, void (*fill)(void *entry, uint32_t number, void *context),
                          void *context);

/* Appends one word. */
static inline void ft_write(struct ft_cursor *cursor, uint64_t word)
{
    uint64_t *next = cursor->next;
    *next++ = word;
    cursor->next = next;
    if (__builtin_expect(next == cursor->end, 0))
        ft_writer_flush(cursor);
}

/* The next event of a thread, 0 if that is not traced. */
static inline uint64_t ft_next_event(struct ft_cursor *cursor)
{
    const uint64_t count = ++cursor->num_events & ((UINT32_C(1) << FT_EVENT_SHIFT) - 1);
    return cursor->thread ? (uint64_t)cursor->thread << FT_EVENT_SHIFT | count : 0;
}

static inline void ft_write_synchronisation(struct ft_cursor *cursor, enum ft_synchronisation kind, uint64_t event)
{
    if (event)
        ft_write(cursor, (uint64_t)FT_TAG_SYNCHRONISATION << FT_TAG_SHIFT | (uint64_t)kind << FT_SIZE_SHIFT | event);
}

/* Makes room for `words` (at most FT_MAX_BULK_WORDS) that must not be split, to be written through cursor->next.
 * At least one word stays free, so the chunk need not be checked for its end again. */
static inline void ft_write_begin(struct ft_cursor *cursor, size_t words)
{
    if ((size_t)(cursor->end - cursor->next) <= words)
        ft_writer_flush(cursor);
}

#endif
