/* Two threads that take turns, each on a core of its own: what it takes until one that waits goes on. */
#ifndef FORETRACE_TURNS_H
#define FORETRACE_TURNS_H

#include <stdbool.h>
#include <stdint.h>

struct ft_turns {
    double seconds; /* from the first turn to the last, without the work in them */
    double calls_s; /* of these, in the calls that wake the other thread */
};

/* Passes the turn 2 x repeats times. A thread works `work_s` in its turn; meanwhile the other one spins on the word
 * that says whose turn it is, or sleeps in a futex system call if `sleeps`. 0, or an error number: ENOSYS where there
 * are no futexes. */
int ft_take_turns(const int cpus[2], uint64_t repeats, double work_s, bool sleeps, struct ft_turns *found);

#endif
