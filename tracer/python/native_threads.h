/* Processor time of native threads: those that compiled code starts, whose work is in no block and no array operation.
 *
 * It is the processor time of the process less that of
 *  - threads that run Python, from their first traced block on;
 *  - threads that NumPy and SciPy start for linear algebra, whose work follows from the recorded calls. (OpenBLAS starts
 *    them as it is loaded, or after a fork at its first large call; they spin for a while whenever they run out of work.)
 *
 * All but native_threads_end_python needs the GIL.
 */
#ifndef FORETRACE_PYAGENT_NATIVE_THREADS_H
#define FORETRACE_PYAGENT_NATIVE_THREADS_H

#include <stdbool.h>
#include <stdint.h>

/* Processor time counts from now on; the calling thread runs Python. False when out of memory. */
bool native_threads_init(void);

/* The calling thread begins to run Python; it ends. Each may be called again. */
void native_threads_begin_python(void);
void native_threads_end_python(void);

/* Notes which threads there are. Those started since the last note belong to linear algebra if `of_linear_algebra`.
 * Costs a system call where their number has not changed. */
void native_threads_note(bool of_linear_algebra);

/* In a forked child, which has one thread: its time counts from now on. */
void native_threads_forked(void);

/* Since native_threads_init. */
uint64_t native_threads_ns(void);

/* Since it was called last: to be charged to who let them run. All that was charged is the other's. */
uint64_t native_threads_new_ns(void);
uint64_t native_threads_charged_ns(void);

#endif
