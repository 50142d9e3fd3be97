/* Samples of the program's software-defined events, written into its stream (FT_TAG_EVENTS of stream.h).
 *
 * The engine says where the board of the process is, or may come to be. From then on a thread that has filled a chunk
 * begins the next one with the values that have changed, unless reading them has taken more than one hundredth of the
 * time. On the board it is noted that the process is traced, so that the library keeps the file for the reader.
 */
#ifndef FORETRACE_EVENT_SAMPLES_H
#define FORETRACE_EVENT_SAMPLES_H

#include "stream.h"

#include <stdbool.h>

/* The address, in this process, of memory that may become the board: where it was looked for last, 0 for none. */
extern _Atomic uint64_t ft_expected_board;

/* The process mapped a file, shared: if its name is that of a board, it is expected there. */
void ft_event_samples_mapped(uint64_t address, int file);

/* The board is there. */
void ft_event_samples_found(uint64_t address);

void ft_event_samples_look_again(void);

/* Looks whether an expected board is there by now. */
static inline void ft_event_samples_look(void)
{
    if (__builtin_expect(atomic_load_explicit(&ft_expected_board, memory_order_relaxed) != 0, 0))
        ft_event_samples_look_again();
}

/* A sample, at the beginning of the thread's chunk, if there are events and it is time. It takes less than
 * FT_CHUNK_WORDS - FT_MAX_BULK_WORDS words. */
void ft_event_samples_write(struct ft_cursor *cursor);

/* Whether there are events, and the last sample is a while ago: what writes few and long records may end its chunk
 * then. */
bool ft_event_samples_are_due(void);

/* Nobody reads the stream any more. */
void ft_event_samples_end(void);

/* In a forked process, which has a stream of its own, or none. */
void ft_event_samples_forked(bool is_followed);

#endif
