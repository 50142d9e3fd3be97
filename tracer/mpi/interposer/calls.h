/* The calls of a rank, each kind of call once: what it says, how often it happened, and the computation before it. */
#ifndef FORETRACE_MPI_CALLS_H
#define FORETRACE_MPI_CALLS_H

#include <stdbool.h>
#include <stdint.h>

#include "record_file.h"

#define FT_MOST_CALLS (1 << 18) /* kinds of calls */
#define FT_RISES_BEFORE 32      /* in a row, before rising tags are recorded as one */

/* What was recorded so far, for the writer. */
struct ft_calls {
    struct ft_call_row *rows;
    int64_t length;
    int64_t *slots, *counts;
    int64_t slots_length, counts_length;
    struct ft_rising_row *rising;
    int64_t rising_length;
};
extern struct ft_calls ft_calls;

/* Record a call; `times` and the seconds of the row are ignored. `slots` and `counts` are kept once for all calls that
 * have the same. Returns its number, or -1 when there is no room for more kinds of calls. */
int64_t ft_calls_add(const struct ft_call_row *said, const int64_t *slots, int64_t slots_length, const int64_t *counts,
                     int64_t counts_length, int64_t compute_ns);

#endif
