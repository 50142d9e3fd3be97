/* How the threads of a traced binary wait for one another, told by their system calls: clone, exit and futex.
 *
 * Not told: a lock that was free and a thread that had ended when it was joined (no system call), clone3 (which QEMU
 * does not know, so that the C library does without), futexes that inherit priorities, and futexes of several
 * processes.
 */
#ifndef FORETRACE_QEMU_THREADS_H
#define FORETRACE_QEMU_THREADS_H

#include "tracer/transport/writer.h"

/* Numbers of system calls on an architecture, as QEMU names it. */
void ft_threads_begin(const char *target);

/* A thread has got its cursor. */
void ft_threads_start(unsigned int vcpu, struct ft_cursor *cursor);

/* Before and after a system call. */
void ft_threads_call(unsigned int vcpu, struct ft_cursor *cursor, int64_t number, const uint64_t arguments[6]);
void ft_threads_returned(struct ft_cursor *cursor, int64_t number, int64_t result);

#endif
