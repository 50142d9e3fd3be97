/* The `settrace` core: a C trace function that writes a word for each block.
 *
 * The thread's stack of frames pairs calls with returns: a return that matches no frame (a frame that ran before
 * tracing began, or was left by a stack switch) leaves the stack as far as it is known.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <frameobject.h>

#include "blocks.h"
#include "code.h"

#include <stdlib.h>

static bool unit_of(PyFrameObject *frame, const struct code_table *table, uint32_t *unit)
{
    int last = PyFrame_GetLasti(frame);
    *unit = (uint32_t)last / 2;
    return last >= 0 && *unit < table->n_units;
}

/* Works out from the frames alone what the thread's stack tells while we trace. */
static uint32_t charged_by_frames(void)
{
    PyFrameObject *frame = (PyFrameObject *)Py_XNewRef(PyEval_GetFrame());
    uint32_t id = 0;
    bool found = false;
    while (frame && !found) {
        PyCodeObject *code = PyFrame_GetCode(frame);
        struct code_table *table = code_table_of(code);
        PyFrameObject *back = PyFrame_GetBack(frame);
        uint32_t unit;
        if (table && unit_of(frame, table, &unit) && (!id || !table->is_library))
            id = code_block_around(code, table, unit);
        found = table && !table->is_library;
        Py_DECREF(code);
        Py_DECREF(frame);
        frame = back;
    }
    Py_XDECREF(frame);
    return id;
}

static uint32_t charged_block(void)
{
    return agent_thread.charged ? agent_thread.charged : charged_by_frames();
}

static uint32_t charged_site(void)
{
    int last = agent_thread.charged_frame ? PyFrame_GetLasti(agent_thread.charged_frame) : 0;
    return last < 0 ? 0 : (uint32_t)last;
}

/* ---- events ----------------------------------------------------------------------------------------------------- */

/* The innermost frame is now in `block`. */
static void enter_block(struct agent_frame *top, const struct code_table *table, uint32_t block)
{
    top->block = block;
    if (!table->is_library || !top->charged) {
        top->charged = block;
        top->charged_frame = top->frame;
    }
    agent_thread.charged = top->charged;
    agent_thread.charged_frame = top->charged_frame;
}

/* Drops frames from the top until `n` are left. */
static void drop_frames(uint32_t n)
{
    struct agent_thread *t = &agent_thread;
    while (t->n_frames > n) {
        struct agent_frame *top = &t->frames[--t->n_frames];
        Py_DECREF((PyObject *)top->frame);
    }
    t->charged = n ? t->frames[n - 1].charged : 0;
    t->charged_frame = n ? t->frames[n - 1].charged_frame : NULL;
}

static void push_frame(PyFrameObject *frame, const struct code_table *table, uint32_t block)
{
    struct agent_thread *t = &agent_thread;
    if (t->n_frames == t->frames_capacity) {
        uint32_t capacity = t->frames_capacity ? 2 * t->frames_capacity : 64;
        struct agent_frame *grown = realloc(t->frames, capacity * sizeof *grown);
        if (!grown)
            return;
        t->frames = grown;
        t->frames_capacity = capacity;
    }
    struct agent_frame *top = &t->frames[t->n_frames];
    *top = (struct agent_frame){.frame = Py_NewRef(frame)};
    if (t->n_frames) {
        top->charged = top[-1].charged;
        top->charged_frame = top[-1].charged_frame;
    }
    t->n_frames++;
    enter_block(top, table, block);
}

/* Python 3.13 reports a jump back to its own line where the jump stands, not where it goes to; the line of that jump
 * may have been reported there just before. */
static uint32_t reported_unit(const struct code_table *table, uint32_t unit)
{
    const struct agent_thread *t = &agent_thread;
    const struct code_unit *at = &table->unit[unit];
    bool is_jump = at->same_line_loop &&
                   (!at->starts_block || (at->block && t->n_frames && t->frames[t->n_frames - 1].block == at->block));
    return is_jump ? at->same_line_loop : unit;
}

static void on_line(PyFrameObject *frame, PyCodeObject *code, struct code_table *table)
{
    struct agent_thread *t = &agent_thread;
    uint32_t unit;
    if (!unit_of(frame, table, &unit))
        return;
    if (PY_VERSION_HEX >= 0x030d0000)
        unit = reported_unit(table, unit);
    if (!table->unit[unit].starts_block)
        return;
    uint32_t id = table->unit[unit].block;
    if (__builtin_expect(!id, 0))
        id = code_block_at(code, table, unit);
    if (t->n_frames)
        enter_block(&t->frames[t->n_frames - 1], table, id);
    else
        t->charged = id;
    agent_write_block(id);
}

static void on_call(PyFrameObject *frame, PyCodeObject *code, struct code_table *table)
{
    uint32_t unit, id;
    if (!unit_of(frame, table, &unit))
        unit = 0;
    if (unit == 0 || table->unit[unit].is_entry) {
        id = code_entry_block(code, table, unit);
        push_frame(frame, table, id);
        agent_write_block(id);
    } else {
        id = code_block_around(code, table, unit);
        push_frame(frame, table, id);
        agent_write_block(code_resumption_of(code, table, id, true));
    }
}

static void resume_caller(PyFrameObject *callee, uint32_t block)
{
    PyFrameObject *frame = PyFrame_GetBack(callee);
    if (!frame)
        return;
    PyCodeObject *code = PyFrame_GetCode(frame);
    struct code_table *table = code_table_of(code);
    if (table)
        agent_write_block(code_resumption_of(code, table, block, false));
    Py_DECREF(code);
    Py_DECREF(frame);
}

static void on_return(PyFrameObject *frame)
{
    struct agent_thread *t = &agent_thread;
    uint32_t n = t->n_frames;
    while (n && t->frames[n - 1].frame != frame)
        n--;
    if (!n)
        return;
    drop_frames(n - 1);
    if (n > 1)
        resume_caller(frame, t->frames[n - 2].block);
}

static int on_event(PyObject *Py_UNUSED(self), PyFrameObject *frame, int what, PyObject *Py_UNUSED(argument))
{
    if (what != PyTrace_LINE && what != PyTrace_CALL && what != PyTrace_RETURN)
        return 0;
    PyCodeObject *code = PyFrame_GetCode(frame);
    struct code_table *table = code_table_of(code);
    if (table) {
        if (what == PyTrace_LINE)
            on_line(frame, code, table);
        else if (what == PyTrace_CALL)
            on_call(frame, code, table);
        else
            on_return(frame);
    }
    Py_DECREF(code);
    return 0;
}

static bool init(void)
{
    return true;
}

static void trace_thread(void)
{
    PyEval_SetTrace(on_event, NULL);
}

static bool leave_blocks(void)
{
    drop_frames(0);
    return true;
}

/* The thread's frames are gone, and with them our references. */
static void end_thread(void)
{
    free(agent_thread.frames);
    agent_thread.frames = NULL;
    agent_thread.n_frames = agent_thread.frames_capacity = 0;
}

const struct agent_core agent_settrace_core = {init,       trace_thread,  leave_blocks,
                                               end_thread, charged_block, charged_site};
