/* The interpreter's own frames, as far as the agent looks into them. Needs Python.h included first.
 *
 * Their layout is fixed within a minor version of Python, which the agent is built for.
 */
#ifndef FORETRACE_PYAGENT_FRAMES_H
#define FORETRACE_PYAGENT_FRAMES_H

#define Py_BUILD_CORE 1 /* for this one header */
#include <internal/pycore_frame.h>
#undef Py_BUILD_CORE

#if PY_VERSION_HEX >= 0x030d0000
#define AGENT_CURRENT_FRAME(thread) ((thread)->current_frame)
#define AGENT_FRAME_CODE(frame) ((frame)->f_executable)
#define AGENT_FRAME_UNIT(frame) ((frame)->instr_ptr)
static inline PyThreadState *agent_thread_state(void)
{
    return PyThreadState_GetUnchecked();
}
#else
#define AGENT_CURRENT_FRAME(thread) ((thread)->cframe->current_frame)
#define AGENT_FRAME_CODE(frame) ((PyObject *)(frame)->f_code)
#define AGENT_FRAME_UNIT(frame) ((frame)->prev_instr)
#if PY_VERSION_HEX < 0x030c0000
#define Py_BUILD_CORE 1
#undef _PyGC_FINALIZED /* pycore_gc.h defines it again */
#include <internal/pycore_runtime.h>
#undef Py_BUILD_CORE
static inline PyThreadState *agent_thread_state(void) /* what _PyThreadState_UncheckedGet does, without a call */
{
    return (PyThreadState *)_Py_atomic_load_relaxed(&_PyRuntime.gilstate.tstate_current);
}
#else
static inline PyThreadState *agent_thread_state(void)
{
    return _PyThreadState_UncheckedGet();
}
#endif
#endif

/* The Python frame that called; frames of the interpreter itself lie between where C code has called Python. */
static inline const _PyInterpreterFrame *agent_caller(const _PyInterpreterFrame *frame)
{
    frame = frame->previous;
#if PY_VERSION_HEX >= 0x030c0000
    while (frame && frame->owner == FRAME_OWNED_BY_CSTACK)
        frame = frame->previous;
#endif
    return frame;
}

static inline _PyInterpreterFrame *agent_interpreter_frame(void)
{
    PyThreadState *thread = agent_thread_state();
    return thread ? AGENT_CURRENT_FRAME(thread) : NULL;
}

#endif
