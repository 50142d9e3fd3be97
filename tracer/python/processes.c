/* Counts child processes that begin without fork(), which the writer counts: the C library starts those of posix_spawn()
 * and system() in ways of its own, and the interpreter those of `subprocess` and `multiprocessing` mostly by vfork().
 *
 * The functions of the interpreter that do so are replaced. Each keeps its original in one of the pointers below.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "tracer/python/arrays/hooks.h"
#include "processes.h"

#include <string.h>

#define FAST_KW (METH_FASTCALL | METH_KEYWORDS)
#define AS(type, function) ((type)(void (*)(void))(function))

typedef PyObject *(*fast_function)(PyObject *, PyObject *const *, Py_ssize_t);
typedef PyObject *(*fast_kw_function)(PyObject *, PyObject *const *, Py_ssize_t, PyObject *);

static PyCFunction fork_exec, fork_exec_fast, spawn, spawnp, run_command;

/* Counts the child that a call has begun, unless the call failed. */
static PyObject *begun(PyObject *result)
{
    if (result)
        ft_writer_child_begins();
    return result;
}

/* Where it may not use vfork(), fork_exec() forks, and the child has been counted. */
static PyObject *begun_once(PyObject *result, uint32_t forks)
{
    return ft_writer_forks() == forks ? begun(result) : result;
}

static PyObject *hooked_fork_exec(PyObject *self, PyObject *args)
{
    uint32_t forks = ft_writer_forks();
    return begun_once(fork_exec(self, args), forks);
}

static PyObject *hooked_fork_exec_fast(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    uint32_t forks = ft_writer_forks();
    return begun_once(AS(fast_function, fork_exec_fast)(self, args, n), forks);
}

static PyObject *hooked_spawn(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    return begun(AS(fast_kw_function, spawn)(self, args, n, names));
}

static PyObject *hooked_spawnp(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    return begun(AS(fast_kw_function, spawnp)(self, args, n, names));
}

static PyObject *hooked_command(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    return begun(AS(fast_kw_function, run_command)(self, args, n, names));
}

void processes_module_loaded(PyObject *module, const char *name)
{
    if (strcmp(name, "posix") == 0 && !spawn) {
        spawn = agent_replace_in(module, "posix_spawn", FAST_KW, AS(PyCFunction, hooked_spawn));
        spawnp = agent_replace_in(module, "posix_spawnp", FAST_KW, AS(PyCFunction, hooked_spawnp));
        run_command = agent_replace_in(module, "system", FAST_KW, AS(PyCFunction, hooked_command));
    } else if (strcmp(name, "_posixsubprocess") == 0 && !fork_exec && !fork_exec_fast) {
        fork_exec = agent_replace_in(module, "fork_exec", METH_VARARGS, hooked_fork_exec);
        fork_exec_fast = agent_replace_in(module, "fork_exec", METH_FASTCALL, AS(PyCFunction, hooked_fork_exec_fast));
    }
}
