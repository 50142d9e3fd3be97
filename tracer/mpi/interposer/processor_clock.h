/* Processor time of the calling thread, mostly without a system call.
 *
 * As long as a thread is not switched out, its processor time runs with the monotonic clock, which the vDSO tells in
 * tens of nanoseconds. The kernel clears the pointer to a restartable sequence (rseq(2)) of a thread that it switches
 * out, moves or interrupts by a signal outside of that sequence. So a pointer to an empty sequence, still there behind
 * a reading of the clock, proves that the thread ran without a break since the last system call for its processor time.
 * That call is made again whenever the pointer is gone, and once a millisecond. Where the kernel or the C library has
 * no such sequences, each reading is a system call. */
#ifndef FORETRACE_MPI_PROCESSOR_CLOCK_H
#define FORETRACE_MPI_PROCESSOR_CLOCK_H

#include <stdint.h>

/* To be called once by the thread that will read the clock. */
void ft_clock_start(void);

/* Nanoseconds; never less than in an earlier call. */
int64_t ft_clock_now_ns(void);

#endif
