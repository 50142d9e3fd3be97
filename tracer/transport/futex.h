/* Waiting for a word of shared memory to change, and waking who waits for it (futex(2)). Two processes may share it. */
#ifndef FORETRACE_FUTEX_H
#define FORETRACE_FUTEX_H

#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Returns when woken, after `timeout`, at a signal, or at once if the word is not `value` (any more). */
static inline void ft_futex_wait(_Atomic uint32_t *word, uint32_t value, const struct timespec *timeout)
{
    syscall(SYS_futex, word, FUTEX_WAIT, value, timeout, NULL, 0);
}

/* Wakes one that waits. */
static inline void ft_futex_wake(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

#endif
