/* Replacing what method tables point at. Needs Python.h included first. */
#ifndef FORETRACE_PYAGENT_HOOKS_H
#define FORETRACE_PYAGENT_HOOKS_H

#include "tracer/python/agent.h"

/* A hooked call that has succeeded. Keywords come as names for the values behind `args`, or as a dict. */
struct agent_call {
    const char *name;
    PyObject *self;
    PyObject *const *args;
    Py_ssize_t n_args;
    PyObject *kwnames;
    PyObject *kwargs;
    PyObject *result;
};

/* Writes what a call has touched. Raises nothing, calls no Python code. */
typedef void (*agent_template)(const struct agent_call *call);

enum agent_hooked { AGENT_HOOKED = 1, AGENT_HOOKED_BEFORE, AGENT_NOT_BUILT_IN, AGENT_NO_ROOM };

/* Hooks a built-in function or method; keeps `name` if that is what happened. */
enum agent_hooked agent_hook_callable(PyObject *callable, const char *name, agent_template template);

/* The value of an integer that is small enough for the quick way; false if it is not. */
static inline bool agent_small_integer(PyObject *integer, int64_t *value)
{
#if PY_VERSION_HEX >= 0x030c0000
    if (!PyUnstable_Long_IsCompact((PyLongObject *)integer))
        return false;
    *value = PyUnstable_Long_CompactValue((PyLongObject *)integer);
#else
    Py_ssize_t n = Py_SIZE(integer);
    if (n < -1 || n > 1)
        return false;
    *value = n * (int64_t)((PyLongObject *)integer)->ob_digit[0];
#endif
    return true;
}

/* Whether the subscript of a container that runs was begun by bytecode whose place is known: agent_thread.site. */
static inline bool agent_take_site(const void *container)
{
    bool known = agent_thread.subscripted == container;
    agent_thread.subscripted = NULL;
    return known;
}

/* Whether a value is a number of Python's own: no code of the program's runs where it is stored. */
static inline bool agent_is_number(PyObject *value)
{
    return value && (PyFloat_CheckExact(value) || PyLong_CheckExact(value));
}

/* Replaces the function of module.name, if that is a built-in one with these flags. Returns what it was, or NULL. */
PyCFunction agent_replace_in(PyObject *module, const char *name, int flags, PyCFunction function);
PyCFunction agent_replace(const char *module, const char *name, int flags, PyCFunction function);

/* A call's argument, by position or keyword; NULL if it was not given. */
PyObject *agent_argument(const struct agent_call *call, Py_ssize_t position, const char *keyword);

/* Installs the hooks on the interpreter itself: threads, exit, foreign tracers, loading of extension modules. */
bool agent_hooks_init(void);

#endif
