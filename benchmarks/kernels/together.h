/* One kernel on several cores at once: a thread for each piece of work, released together. */
#ifndef FORETRACE_TOGETHER_H
#define FORETRACE_TOGETHER_H

#include "kernels.h"

/* Runs the kernel on works[0..count), each on a thread of its own; on the core cpus[i], or wherever the system puts it
 * if that is negative. All begin when the last is ready. *seconds: from then until the last has finished;
 * operations[i]: what thread i did. 0, or the error number of the thread that could not be started, and nothing was
 * run. */
int ft_run_together(const struct ft_kernel *kernel, struct ft_work *works, const int *cpus, size_t count,
                    uint64_t *operations, double *seconds);

#endif
