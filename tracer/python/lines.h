/* How fast the interpreter is just now: see lines.c. */
#ifndef FORETRACE_PYAGENT_LINES_H
#define FORETRACE_PYAGENT_LINES_H

#include <stdbool.h>
#include <stdint.h>

/* False, with no exception set, if there is no way to tell. */
bool lines_init(void);

/* Nanoseconds that the lines take. 0: not now. */
uint64_t lines_ns(void);

#endif
