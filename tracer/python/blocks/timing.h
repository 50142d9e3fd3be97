/* Times some of the executions of blocks while the program runs: what the interpreter takes for them, and what it
 * calls.
 *
 * That is in no stream: the bytes that a dictionary, a sort or a regular expression touch are not seen, nor what they
 * compute. A timing begins when a block's marker has run and ends when the thread's next marker does, in any code; what
 * takes 2 us and more behind a return is the caller's. Each thread times itself. So it holds what the block calls of
 * compiled code, and of Python code without markers; what functions with markers take is theirs. Compiled functions
 * that are hooked and not seen are charged by name as well. The times of all executions add up to that of the program.
 * Left out are
 *  - array operations that are in the stream in full: their time follows from what they touch;
 *  - the time for which another thread ran, or this one waited for the reader;
 *  - the time for which a thread slept, where a block is known to take long;
 *  - what reading the clock takes;
 *  - the interpreter's end, with that of all modules, once the program's last line has run.
 *
 * How fast the interpreter is meanwhile, on a machine that others use as well, the process that simulates caches not
 * least, some lines tell that are always the same (lines.c).
 *
 * Times go to the block's entry in the side table. Everything here needs the GIL.
 */
#ifndef FORETRACE_PYAGENT_TIMING_H
#define FORETRACE_PYAGENT_TIMING_H

#include "tracer/python/agent.h"

/* How often the executions that pass a marker are timed: the first few, then one of many, fewer of shorter blocks. */
struct timing_pace {
    uint32_t until_timed; /* executions until the next timing, that included */
    uint32_t stands_for;  /* executions that the timing will stand for: those since the last one */
    uint32_t n_first;     /* how many were timed at the beginning */
};

#define TIMING_PACE {.until_timed = 1, .stands_for = 1}

void timing_init(void);

/* Begins a timing of `block`, whose execution has just begun, or goes on after a yield. `before` is the block that its
 * frame was in until now, or NULL. False, with an exception set, if the handler of a signal has raised it meanwhile. */
bool timing_begin(struct timing_pace *pace, struct ft_side_pyblock *block, struct ft_side_pyblock *before,
                  bool goes_on);

uint64_t timing_now_ns(void);

/* A processor time in millionths of a round, at the interpreter's last known speed; 0 where nothing is timed. */
uint64_t timing_rounds_of(uint64_t ns);

/* All time of native threads, charged to lines or not, in millionths of a round. */
uint64_t timing_native_rounds(void);

/* Has the next execution timed in place of this one, of which nothing is to be counted. */
void timing_put_off(struct timing_pace *pace);

/* While a timing of this thread runs: the frame that is timed returns to that of the block `to` (NULL: not known),
 * through a hooked function if `in_hook`. What takes long until the next marker is that block's. */
void timing_return(struct ft_side_pyblock *to, bool in_hook);

/* Frees what is kept for the thread that ends. Without the GIL. */
void timing_end_thread(void);

/* In a forked child, which has one thread: the timing that runs is the parent's. */
void timing_forked(void);

/* Ends the timing that runs in this thread, or has it end at a time that is past. */
void timing_end(void);
void timing_end_at(uint64_t now_ns);

/* To be called first thing by whatever ends an execution. */
static inline void timing_stop(void)
{
    if (__builtin_expect(agent_thread.times != NULL, 0))
        timing_end();
}

/* Whether the execution that begins is to be timed. */
static inline bool timing_is_due(struct timing_pace *pace)
{
    return __builtin_expect(--pace->until_timed == 0, 0);
}

#endif
