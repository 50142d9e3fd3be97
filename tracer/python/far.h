/* What processes wait for one another at: pipes, connections and multiprocessing's semaphores. Needs Python.h included
 * first. */
#ifndef FORETRACE_PYAGENT_FAR_H
#define FORETRACE_PYAGENT_FAR_H

#include "tracer/python/agent.h"

enum far_kind { FAR_END, FAR_STREAM, FAR_SEMAPHORE }; /* of objects (exchange.h) */

/* Where this thread is, as others are told (stream.h, FT_FAR_); 0 where it is not traced. `far_root`: not where in the
 * thread. */
uint64_t far_here(void);

/* The same; of a thread of a library, such as the one that feeds a queue of `multiprocessing`, the place it acts for.
 */
uint64_t far_behalf(void);

/* This thread may go on by what was done on behalf of that place. Returns whether that was in another process. */
bool far_woken(uint64_t place);
uint64_t far_root(void);

/* This thread has waited, in that way, for what happened there. */
void far_write(enum ft_synchronisation kind, uint64_t place);

/* To be called of every extension module, once it is loaded, where children are followed. */
void far_module_loaded(PyObject *module, const char *name);

#endif
