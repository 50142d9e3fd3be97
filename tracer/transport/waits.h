/* Who woke whom: the last event at each place where threads wait (a futex's address, a lock's). Places are told apart
 * by a table of fixed size: where two of them have the same slot, what was known of the first one is forgotten, and an
 * edge is lost.
 */
#ifndef FORETRACE_WAITS_H
#define FORETRACE_WAITS_H

#include "writer.h"

/* The thread is about to wake what waits at `place`; or, `ends`, its end does. Returns the event. */
uint64_t ft_waits_post(struct ft_cursor *cursor, uint64_t place, bool ends);

/* Nothing was woken by that event. */
void ft_waits_take_back(uint64_t place, uint64_t event);

/* The thread has waited at `place`, and was woken there; or, not `was_woken`, what it was to wait for had just
 * happened: then it waited only if that was a thread's end. Writes by what, if it is known. */
void ft_waits_woken(struct ft_cursor *cursor, uint64_t place, bool was_woken);

/* The event that woke what waited at `place` last, 0 if it is not known. */
uint64_t ft_waits_last(uint64_t place, bool *ends);

/* In a forked child, which has one thread: what was known is of its parent's. */
void ft_waits_forget(void);

#endif
