/* How fast the interpreter is just now: see lines.c. */
#ifndef FORETRACE_PYAGENT_LINES_H
#define FORETRACE_PYAGENT_LINES_H

#include <stdbool.h>

/* False, with no exception set, if there is no way to tell. */
bool lines_init(void);

/* Nanoseconds that a round takes: all the lines once. 0: not now. Less: the handler of a signal has raised an
 * exception. */
double lines_round_ns(void);

#endif
