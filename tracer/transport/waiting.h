/* How long this process has waited: for devices, timers, locks, other processes. */
#ifndef FORETRACE_WAITING_H
#define FORETRACE_WAITING_H

#include <stdint.h>

#define FT_WAITING_UNKNOWN UINT64_MAX

/* From now on. */
void ft_waiting_begin(void);

/* Since then: wall-clock time in which no thread of the process ran, was ready to run, or waited for the reader
 * (`reader_ns`). FT_WAITING_UNKNOWN if the system does not say how long threads were ready. */
uint64_t ft_waiting_ns(uint64_t reader_ns);

/* Processor time since then. */
uint64_t ft_waiting_processor_ns(void);

/* Processor time of child processes that have ended and were waited for. */
uint64_t ft_waiting_children_ns(void);

#endif
