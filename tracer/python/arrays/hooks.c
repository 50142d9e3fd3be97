/* Replaces the functions that entries of method tables point at, in place.
 *
 * An entry's replacement gets no context of its own, so there is a table of small functions for each calling
 * convention, made by macros: function k calls what `hooks[k]` holds. An entry that is hooked stays hooked.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "tracer/python/blocks/blocks.h"
#include "buffers.h"
#include "tracer/python/exchange.h"
#include "tracer/python/far.h"
#include "hooks.h"
#include "numpy.h"
#include "tracer/python/blocks/markers.h"
#include "tracer/python/blocks/timing.h"
#include "tracer/python/native_threads.h"
#include "waits.h"

#include <string.h>

#define N_SLOTS 512
#define NOINLINE __attribute__((noinline)) /* or there would be a copy in each trampoline */

struct hook {
    PyCFunction original;
    agent_template template;
    const char *name;
};

static struct hook fast_hooks[N_SLOTS], fast_kw_hooks[N_SLOTS], var_hooks[N_SLOTS], var_kw_hooks[N_SLOTS];
static unsigned n_fast, n_fast_kw, n_var, n_var_kw;

/* Function types without casts that the compiler warns of. */
typedef PyObject *(*fast_function)(PyObject *, PyObject *const *, Py_ssize_t);
typedef PyObject *(*fast_kw_function)(PyObject *, PyObject *const *, Py_ssize_t, PyObject *);
typedef PyObject *(*var_kw_function)(PyObject *, PyObject *, PyObject *);
#define AS(type, function) ((type)(void (*)(void))(function))

/* ---- trampolines ------------------------------------------------------------------------------------------------ */

static inline void leave(const struct hook *hook, struct agent_call *call, const struct agent_named *named)
{
    const bool outermost = agent_hook_end(named->outer);
    if (outermost && call->result) {
        call->name = hook->name;
        agent_record_begin();
        hook->template(call);
        np_record_end(call);
    }
    agent_named_end(named, outermost);
}

static NOINLINE PyObject *call_fast(const struct hook *hook, PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    struct agent_call call = {.self = self, .args = args, .n_args = n};
    const struct agent_named named = agent_named_begin(hook->name);
    call.result = AS(fast_function, hook->original)(self, args, n);
    leave(hook, &call, &named);
    return call.result;
}

static NOINLINE PyObject *call_fast_kw(const struct hook *hook, PyObject *self, PyObject *const *args, Py_ssize_t n,
                                       PyObject *kwnames)
{
    struct agent_call call = {.self = self, .args = args, .n_args = n, .kwnames = kwnames};
    const struct agent_named named = agent_named_begin(hook->name);
    call.result = AS(fast_kw_function, hook->original)(self, args, n, kwnames);
    leave(hook, &call, &named);
    return call.result;
}

static void unpack(struct agent_call *call, PyObject *const *args)
{
    if (*args && PyTuple_Check(*args)) { /* not for METH_NOARGS and METH_O */
        call->args = &PyTuple_GET_ITEM(*args, 0);
        call->n_args = PyTuple_GET_SIZE(*args);
    } else {
        call->args = args;
        call->n_args = *args != NULL;
    }
}

static NOINLINE PyObject *call_var(const struct hook *hook, PyObject *self, PyObject *args)
{
    struct agent_call call = {.self = self};
    unpack(&call, &args);
    const struct agent_named named = agent_named_begin(hook->name);
    call.result = hook->original(self, args);
    leave(hook, &call, &named);
    return call.result;
}

static NOINLINE PyObject *call_var_kw(const struct hook *hook, PyObject *self, PyObject *args, PyObject *kwargs)
{
    struct agent_call call = {.self = self, .kwargs = kwargs};
    unpack(&call, &args);
    const struct agent_named named = agent_named_begin(hook->name);
    call.result = AS(var_kw_function, hook->original)(self, args, kwargs);
    leave(hook, &call, &named);
    return call.result;
}

#define EIGHT(M, n) M(0##n##0) M(0##n##1) M(0##n##2) M(0##n##3) M(0##n##4) M(0##n##5) M(0##n##6) M(0##n##7)
#define SIXTY_FOUR(M, n) \
    EIGHT(M, n##0) EIGHT(M, n##1) EIGHT(M, n##2) EIGHT(M, n##3) EIGHT(M, n##4) EIGHT(M, n##5) EIGHT(M, n##6) EIGHT(M, n##7)
#define ALL_SLOTS(M) \
    SIXTY_FOUR(M, 0) SIXTY_FOUR(M, 1) SIXTY_FOUR(M, 2) SIXTY_FOUR(M, 3) \
    SIXTY_FOUR(M, 4) SIXTY_FOUR(M, 5) SIXTY_FOUR(M, 6) SIXTY_FOUR(M, 7)

#define TRAMPOLINES(k) \
    static PyObject *fast_##k(PyObject *self, PyObject *const *args, Py_ssize_t n) \
    { return call_fast(&fast_hooks[k], self, args, n); } \
    static PyObject *fast_kw_##k(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names) \
    { return call_fast_kw(&fast_kw_hooks[k], self, args, n, names); } \
    static PyObject *var_##k(PyObject *self, PyObject *args) \
    { return call_var(&var_hooks[k], self, args); } \
    static PyObject *var_kw_##k(PyObject *self, PyObject *args, PyObject *kwargs) \
    { return call_var_kw(&var_kw_hooks[k], self, args, kwargs); }

ALL_SLOTS(TRAMPOLINES)

#define FAST(k) AS(PyCFunction, fast_##k),
#define FAST_KW(k) AS(PyCFunction, fast_kw_##k),
#define VAR(k) var_##k,
#define VAR_KW(k) AS(PyCFunction, var_kw_##k),

static const PyCFunction fast_functions[N_SLOTS] = {ALL_SLOTS(FAST)};
static const PyCFunction fast_kw_functions[N_SLOTS] = {ALL_SLOTS(FAST_KW)};
static const PyCFunction var_functions[N_SLOTS] = {ALL_SLOTS(VAR)};
static const PyCFunction var_kw_functions[N_SLOTS] = {ALL_SLOTS(VAR_KW)};

/* ---- hooking ---------------------------------------------------------------------------------------------------- */

static PyMethodDef *method_def(PyObject *callable)
{
    if (PyCFunction_Check(callable))
        return ((PyCFunctionObject *)callable)->m_ml;
    if (Py_IS_TYPE(callable, &PyMethodDescr_Type))
        return ((PyMethodDescrObject *)callable)->d_method;
    return NULL;
}

static enum agent_hooked install(PyMethodDef *def, struct hook hook, struct hook *hooks, const PyCFunction *functions,
                                 unsigned *used)
{
    for (unsigned k = 0; k < *used; k++)
        if (functions[k] == def->ml_meth)
            return AGENT_HOOKED_BEFORE; /* perhaps under another name */
    if (*used == N_SLOTS)
        return AGENT_NO_ROOM;
    hooks[*used] = hook;
    def->ml_meth = functions[(*used)++];
    return AGENT_HOOKED;
}

enum agent_hooked agent_hook_callable(PyObject *callable, const char *name, agent_template template)
{
    PyMethodDef *def = callable ? method_def(callable) : NULL;
    if (!def)
        return AGENT_NOT_BUILT_IN;
    struct hook hook = {def->ml_meth, template, name};
    switch (def->ml_flags & ~(METH_CLASS | METH_STATIC | METH_COEXIST)) {
    case METH_FASTCALL: return install(def, hook, fast_hooks, fast_functions, &n_fast);
    case METH_FASTCALL | METH_KEYWORDS: return install(def, hook, fast_kw_hooks, fast_kw_functions, &n_fast_kw);
    case METH_VARARGS:
    case METH_O:
    case METH_NOARGS: return install(def, hook, var_hooks, var_functions, &n_var);
    case METH_VARARGS | METH_KEYWORDS: return install(def, hook, var_kw_hooks, var_kw_functions, &n_var_kw);
    default: return AGENT_NOT_BUILT_IN;
    }
}

PyObject *agent_argument(const struct agent_call *call, Py_ssize_t position, const char *keyword)
{
    if (position >= 0 && position < call->n_args)
        return call->args[position];
    if (call->kwnames)
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(call->kwnames); i++)
            if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(call->kwnames, i), keyword) == 0)
                return call->args[call->n_args + i];
    return call->kwargs ? PyDict_GetItemString(call->kwargs, keyword) : NULL;
}

/* ---- the interpreter's own functions ---------------------------------------------------------------------------- */

static PyCFunction original_settrace, original_settrace_all, original_exec_dynamic, original_exec_builtin;
static fast_kw_function original_exit;
static fast_function original_create_dynamic;
static PyCFunction original_start, original_start_joinable;

static Py_tracefunc original_trace_function;

/* Tells the program's trace function of its own opcodes, not of those of markers. */
static int trace_own(PyObject *function, PyFrameObject *frame, int what, PyObject *argument)
{
    if (what == PyTrace_OPCODE) {
        PyCodeObject *code = PyFrame_GetCode(frame);
        const bool is_marker = markers_are_at((PyObject *)code, PyFrame_GetLasti(frame));
        Py_DECREF(code);
        if (is_marker)
            return 0;
    }
    return original_trace_function(function, frame, what, argument);
}

/* Puts ourselves in front of the function that calls a thread's trace function, which has just been set. */
static void filter_opcodes(PyThreadState *thread)
{
    if (markers_in_use && thread->c_traceobj && thread->c_tracefunc && thread->c_tracefunc != trace_own) {
        original_trace_function = thread->c_tracefunc;
        thread->c_tracefunc = trace_own;
    }
}

/* Another tracer takes the place of ours; when it goes, ours returns. */
static PyObject *after_settrace(PyObject *result, PyObject *function)
{
    if (result && function == Py_None) {
        agent_trace_thread();
    } else if (result && agent_leave_blocks()) {
        agent_count_unseen("sys.settrace", 0, false);
    }
    return result;
}

static PyObject *hooked_settrace(PyObject *self, PyObject *function)
{
    PyObject *result = original_settrace(self, function);
    filter_opcodes(PyThreadState_Get());
    return after_settrace(result, function);
}

static PyObject *hooked_settrace_all(PyObject *self, PyObject *function)
{
    PyObject *result = original_settrace_all(self, function);
    PyThreadState *thread = result ? PyInterpreterState_ThreadHead(PyInterpreterState_Get()) : NULL;
    for (; thread; thread = PyThreadState_Next(thread))
        filter_opcodes(thread);
    return after_settrace(result, function);
}

/* os._exit: the last moment to say that this end is an orderly one. */
static PyObject *hooked_exit(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    timing_stop();
    if (n == 1 && !kwnames && PyLong_CheckExact(args[0]))
        agent_finish();
    return original_exit(self, args, n, kwnames);
}

static bool is_of_linear_algebra(PyObject *spec)
{
    PyObject *name = PyObject_GetAttrString(spec, "name");
    const char *text = name && PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : NULL;
    const bool result = text && (strncmp(text, "numpy.", 6) == 0 || strncmp(text, "scipy.", 6) == 0);
    Py_XDECREF(name);
    PyErr_Clear();
    return result;
}

/* Loads a module's library, which may start threads. */
static PyObject *hooked_create_dynamic(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    const bool of_linear_algebra = n > 0 && is_of_linear_algebra(args[0]);
    native_threads_note(false);
    PyObject *module = original_create_dynamic(self, args, n);
    native_threads_note(of_linear_algebra);
    return module;
}

static PyObject *hooked_exec_dynamic(PyObject *self, PyObject *module)
{
    PyObject *result = original_exec_dynamic(self, module);
    if (result)
        agent_module_loaded(module);
    return result;
}

static PyObject *hooked_exec_builtin(PyObject *self, PyObject *module)
{
    PyObject *result = original_exec_builtin(self, module);
    if (result)
        agent_module_loaded(module);
    return result;
}

/* The function that a new thread runs: the program's, traced. It shows itself as that. */
typedef struct {
    PyObject_HEAD
    PyObject *function;
    uint64_t event, ends_at, behalf; /* see struct agent_thread */
} ThreadStart;

static PyObject *thread_start_call(ThreadStart *self, PyObject *args, PyObject *kwargs)
{
    agent_thread.created = self->event;
    agent_thread.ends_at = self->ends_at;
    agent_thread.behalf = self->behalf;
    agent_trace_thread();
    if (agent_thread.behalf) /* it may never come to code that is traced; it runs Python all the same */
        native_threads_begin_python();
    PyObject *result = PyObject_Call(self->function, args, kwargs);
    waits_thread_ends();
    if (agent_thread.behalf && !agent_thread.cursor)
        native_threads_end_python();
    return result;
}

static PyObject *thread_start_repr(ThreadStart *self)
{
    return PyObject_Repr(self->function);
}

static void thread_start_dealloc(ThreadStart *self)
{
    PyTypeObject *type = Py_TYPE(self);
    Py_XDECREF(self->function);
    type->tp_free((PyObject *)self);
    Py_DECREF(type);
}

static PyType_Slot thread_start_slots[] = {
    {Py_tp_call, thread_start_call},
    {Py_tp_repr, thread_start_repr},
    {Py_tp_dealloc, thread_start_dealloc},
    {0, NULL},
};

static PyType_Spec thread_start_spec = {
    .name = "builtins.function",
    .basicsize = sizeof(ThreadStart),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = thread_start_slots,
};

static PyTypeObject *thread_start_type;

/* A copy of `args` with its first item, the thread's function, wrapped; `args` itself if there is none. What waits for
 * the thread's end waits for `handle`, if there is one. */
static PyObject *wrap_function(PyObject *args, PyObject *handle)
{
    if (PyTuple_GET_SIZE(args) == 0 || !PyCallable_Check(PyTuple_GET_ITEM(args, 0)))
        return Py_NewRef(args);
    PyObject *copy = PyTuple_New(PyTuple_GET_SIZE(args));
    ThreadStart *start = copy ? PyObject_New(ThreadStart, thread_start_type) : NULL;
    if (!start) {
        Py_XDECREF(copy);
        return NULL;
    }
    start->function = Py_NewRef(PyTuple_GET_ITEM(args, 0));
    start->event = waits_create();
    start->ends_at = (uintptr_t)handle;
    start->behalf = exchange_is_there() ? far_behalf() : 0;
    PyTuple_SET_ITEM(copy, 0, (PyObject *)start);
    for (Py_ssize_t i = 1; i < PyTuple_GET_SIZE(args); i++)
        PyTuple_SET_ITEM(copy, i, Py_NewRef(PyTuple_GET_ITEM(args, i)));
    return copy;
}

static PyObject *hooked_start(PyObject *self, PyObject *args)
{
    PyObject *wrapped = wrap_function(args, NULL);
    PyObject *result = wrapped ? original_start(self, wrapped) : NULL;
    Py_XDECREF(wrapped);
    return result;
}

/* start_joinable_thread(function, handle=None, daemon=True), of CPython 3.13. */
static PyObject *hooked_start_joinable(PyObject *self, PyObject *args, PyObject *kwargs)
{
    PyObject *handle = PyTuple_GET_SIZE(args) > 1 ? PyTuple_GET_ITEM(args, 1)
                       : kwargs                   ? PyDict_GetItemString(kwargs, "handle")
                                                  : NULL;
    PyObject *wrapped = wrap_function(args, handle);
    PyObject *result = wrapped ? AS(var_kw_function, original_start_joinable)(self, wrapped, kwargs) : NULL;
    Py_XDECREF(wrapped);
    return result;
}

PyCFunction agent_replace_in(PyObject *module, const char *name, int flags, PyCFunction function)
{
    PyObject *callable = PyObject_GetAttrString(module, name);
    PyMethodDef *def = callable ? method_def(callable) : NULL;
    PyCFunction original = NULL;
    if (def && def->ml_flags == flags && def->ml_meth != function) {
        original = def->ml_meth;
        def->ml_meth = function;
    }
    Py_XDECREF(callable);
    PyErr_Clear();
    return original;
}

PyCFunction agent_replace(const char *module, const char *name, int flags, PyCFunction function)
{
    PyObject *m = PyImport_ImportModule(module);
    PyCFunction original = m ? agent_replace_in(m, name, flags, function) : NULL;
    Py_XDECREF(m);
    PyErr_Clear();
    return original;
}

bool agent_hooks_init(void)
{
    thread_start_type = (PyTypeObject *)PyType_FromSpec(&thread_start_spec);
    if (!thread_start_type)
        return false;
    original_settrace = agent_replace("sys", "settrace", METH_O, hooked_settrace);
    original_settrace_all = agent_replace("sys", "_settraceallthreads", METH_O, hooked_settrace_all);
    original_exit = AS(fast_kw_function,
                       agent_replace("posix", "_exit", METH_FASTCALL | METH_KEYWORDS, AS(PyCFunction, hooked_exit)));
    original_start = agent_replace("_thread", "start_new_thread", METH_VARARGS, hooked_start);
    agent_replace("_thread", "start_new", METH_VARARGS, hooked_start); /* the same function's old name */
    original_start_joinable = agent_replace("_thread", "start_joinable_thread", METH_VARARGS | METH_KEYWORDS,
                                            AS(PyCFunction, hooked_start_joinable));
    original_exec_builtin = agent_replace("_imp", "exec_builtin", METH_O, hooked_exec_builtin);
    buffers_init();
    waits_init();
    original_create_dynamic = AS(
        fast_function, agent_replace("_imp", "create_dynamic", METH_FASTCALL, AS(PyCFunction, hooked_create_dynamic)));
    original_exec_dynamic = agent_replace("_imp", "exec_dynamic", METH_O, hooked_exec_dynamic);
    return true;
}
