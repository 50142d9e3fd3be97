/* What each thread counts and records, in its own lane of the board: no thread writes what another one does. */
#ifndef FORETRACE_LANES_H
#define FORETRACE_LANES_H

#include "tracer/events/board.h"

#define MOST_COUNTERS (MOST_BLOCKS * COUNTERS_A_BLOCK)
#define MOST_RECORDERS (MOST_BLOCKS * RECORDERS_A_BLOCK)

/* Adds to this thread's part of a counter. False: no memory. */
bool lanes_add(struct board *board, uint32_t slot, int64_t increment);

/* A counter's sum over all threads. */
int64_t lanes_sum(struct board *board, uint32_t slot);

/* Keeps a value of a recorder in this thread's lane. False: no memory. */
bool lanes_record(struct board *board, struct board_event *recorder, const void *value);

/* Takes memory for a counter's, or a recorder's first, values in this thread's lane and in those of threads to come, so
 * that counting does not. */
void lanes_expect(struct board *board, const struct board_event *event);

/* Calls `take` for each run of a recorder's values that lie one after the other. */
void lanes_values(struct board *board, const struct board_event *recorder,
                  void (*take)(const char *values, size_t size_bytes, void *context), void *context);

/* In a forked process: the lanes of threads that it does not have are free. */
void lanes_fork(struct board *board);

#endif
