/* Which block of bytecode runs: the two cores that can tell, and threads. Needs Python.h included first.
 *
 *   settrace  a trace function (settrace.c): every code object, NumPy's and the standard library's included
 *   markers   instructions put into the program's bytecode (markers.c): the program's own code only, several times
 *             cheaper; it sees lists, too
 */
#ifndef FORETRACE_PYAGENT_BLOCKS_H
#define FORETRACE_PYAGENT_BLOCKS_H

#include "tracer/python/agent.h"

struct agent_core {
    bool (*init)(void);              /* false with an exception set on failure */
    void (*trace_thread)(void);      /* traces the current thread from its next frame on */
    bool (*leave_blocks)(void);      /* another trace function has taken over; whether blocks go unseen now */
    void (*end_thread)(void);        /* the current thread ends: frees what is kept for it */
    uint32_t (*charged_block)(void); /* see agent_charged_block, agent_charged_site */
    uint32_t (*charged_site)(void);
};

extern const struct agent_core agent_settrace_core, agent_markers_core;

/* Prepares tracing by a core. False with an exception set on failure. */
bool agent_blocks_init(const struct agent_core *core);

/* See struct agent_core. */
void agent_trace_thread(void);
bool agent_leave_blocks(void);

/* The program has come to an orderly end: ends the timing that runs, and the stream. Later calls do nothing. */
void agent_finish(void);

/* Writes a block's word; none for id 0. */
static inline void agent_write_block(uint32_t id)
{
    struct ft_cursor *cursor = agent_cursor();
    if (cursor && id)
        ft_write(cursor, FT_ENTRY | id);
}

#endif
