/* The choice of the core, and threads. See blocks.h. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "blocks.h"
#include "code.h"
#include "frames.h"
#include "timing.h"
#include "tracer/python/native_threads.h"

#include <pthread.h>

_Thread_local struct agent_thread agent_thread __attribute__((tls_model("initial-exec"), visibility("hidden")));

static const struct agent_core *core;
static pthread_key_t thread_end;

static void close_thread(void *cursor)
{
    core->end_thread();
    timing_end_thread();
    native_threads_end_python();
    ft_writer_close(cursor);
}

struct ft_cursor *agent_open_cursor(void)
{
    agent_thread.cursor = ft_writer_open();
    if (agent_thread.cursor) {
        pthread_setspecific(thread_end, agent_thread.cursor);
        ft_write_synchronisation(agent_thread.cursor, FT_SYNC_CREATED, agent_thread.created);
        native_threads_begin_python();
    }
    return agent_thread.cursor;
}

const void *agent_current_frame(void)
{
    return agent_interpreter_frame();
}

uint32_t agent_charged_block(void)
{
    return core->charged_block();
}

uint32_t agent_charged_site(void)
{
    return core->charged_site();
}

bool agent_blocks_init(const struct agent_core *chosen)
{
    core = chosen;
    if (!code_init() || pthread_key_create(&thread_end, close_thread) != 0) {
        PyErr_SetString(PyExc_RuntimeError, "the interpreter has no room for a tracer");
        return false;
    }
    return core->init();
}

void agent_trace_thread(void)
{
    core->trace_thread();
}

bool agent_leave_blocks(void)
{
    return core->leave_blocks();
}

void agent_finish(void)
{
    struct ft_header *header = ft_writer_header();
    timing_stop();
    if (!atomic_load(&header->finished)) {
        header->native_threads_ns = native_threads_ns();
        header->native_threads_rounds = timing_native_rounds();
    }
    ft_writer_finish();
}
