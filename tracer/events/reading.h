/* Values of events, as PAPI reads them. With the lock of the registry. */
#ifndef FORETRACE_READING_H
#define FORETRACE_READING_H

#include "tracer/events/registry.h"

/* An event's value: a number, the bits of a double, or a pointer to memory that the caller frees.
 *
 * `at_start` is what to take off where the event counts from a start (PAPI_SDE_DELTA).
 */
int reading_value(struct board *board, struct local_event *entry, long long at_start, long long *value);

/* The value to take off from now on. */
int reading_start(struct board *board, struct local_event *entry, long long *at_start);

/* A copy of all values of a recorder, which the caller frees. NULL: no memory. */
char *reading_values(struct board *board, const struct board_event *recorder, size_t *num_values);

/* Sets the value of a variable or a created counter. */
int reading_write(struct board *board, struct local_event *entry, long long value);

#endif
