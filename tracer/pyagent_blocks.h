/* Which block of bytecode runs: the trace function of the Python agent. Needs Python.h included first. */
#ifndef FORETRACE_PYAGENT_BLOCKS_H
#define FORETRACE_PYAGENT_BLOCKS_H

#include "pyagent.h"

/* Prepares tracing. False with an exception set on failure. */
bool agent_blocks_init(void);

/* Traces the current thread from its next frame on. */
void agent_trace_thread(void);

/* Forgets the block of the current thread: someone else traces now. */
void agent_leave_blocks(void);

#endif
