/* Lines of Python that are always the same, run in the middle of a traced program: they tell how fast its interpreter
 * is just then, which others on the machine slow down.
 *
 * Nobody may notice. The lines are in a row, and the instruction is taken out that begins a function, so that the
 * interpreter comes past no place where it looks for another thread that waits: it has no other reason to do something
 * else. Nothing is made that the garbage collector counts, and where the program watches calls, none is made. Only
 * signals are looked for, by arithmetic on large numbers: what the program's handler raises then is raised where the
 * program is.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <opcode.h>

#include "frames.h"
#include "lines.h"
#include "timing.h"

#include <string.h>

#define TEN_LINES \
    " n = values[k]\n m = (n * 7919 + k) % 1009\n x = x * 0.5 + y\n if m > 504:\n  y = 0.125\n counts[name] = m\n" \
    " word = name + suffix\n if word in counts:\n  first, second = pair\n" \
    " text = f'{n}:{(m * 6364136223846793005 + second) % 18446744073709551557 + first}'\n"
#define N_ARGUMENTS 8
#define ARGUMENTS "values, counts, pair, name, suffix, k, x, y"

/* Caches and predicted jumps are to be as a program has them of what it does often: with fewer, the lines took half as
 * long again in the middle of a program as by themselves. */
#define N_WARM 4
#define N_TIMED 6

static const char source[] = "def lines(" ARGUMENTS "):\n" TEN_LINES TEN_LINES;

static PyObject *function, *arguments; /* a tuple */

/* The code of a function that begins with nothing in place of RESUME. */
static PyObject *without_beginning(PyObject *code)
{
    PyObject *bytecode = PyObject_GetAttrString(code, "co_code"), *copy = NULL, *result = NULL;
    if (bytecode && (copy = PyBytes_FromStringAndSize(PyBytes_AS_STRING(bytecode), PyBytes_GET_SIZE(bytecode)))) {
        char *at = PyBytes_AS_STRING(copy), *end = at + PyBytes_GET_SIZE(copy);
        while (at < end && (unsigned char)*at != RESUME)
            at += 2;
        if (at < end) {
            at[0] = NOP;
            at[1] = 0;
            PyObject *replace = PyObject_GetAttrString(code, "replace"), *none = PyTuple_New(0);
            PyObject *fields = Py_BuildValue("{s:O}", "co_code", copy);
            result = replace && none && fields ? PyObject_Call(replace, none, fields) : NULL;
            Py_XDECREF(replace);
            Py_XDECREF(none);
            Py_XDECREF(fields);
        }
    }
    Py_XDECREF(bytecode);
    Py_XDECREF(copy);
    return result;
}

bool lines_init(void)
{
    PyObject *names = PyDict_New(), *code = NULL, *made = NULL;
    if (function)
        return true;
    if (names && PyDict_SetItemString(names, "__builtins__", Py_None) == 0)
        made = PyRun_String(source, Py_file_input, names, names);
    function = made ? Py_XNewRef(PyDict_GetItemString(names, "lines")) : NULL;
    code = function ? without_beginning(PyFunction_GET_CODE(function)) : NULL;
    arguments = Py_BuildValue("([iiii]{s:i,s:i,s:i}(ii)ssidd)", 1, 2, 3, 5, "alpha", 1, "beta", 2, "alphabet", 3, 1, 2,
                              "alpha", "bet", 3, 0.25, 0.25);
    if (!code || !arguments || PyObject_SetAttrString(function, "__code__", code) != 0)
        Py_CLEAR(function);
    Py_XDECREF(names);
    Py_XDECREF(made);
    Py_XDECREF(code);
    PyErr_Clear();
    return function != NULL;
}

static bool is_watched(void)
{
#if PY_VERSION_HEX < 0x030c0000
    const PyThreadState *thread = agent_thread_state();
    return !thread || thread->cframe->use_tracing;
#else
    return false; /* what is watched is replaced where a function begins: see above */
#endif
}

/* 1; 0 if the lines were not to be run just now; -1, with an exception set, if a signal's handler has raised it. */
static int run(void)
{
    PyObject *result = PyObject_Vectorcall(function, &PyTuple_GET_ITEM(arguments, 0), N_ARGUMENTS, NULL);
    if (!result && !PyErr_ExceptionMatches(PyExc_RecursionError) && !PyErr_ExceptionMatches(PyExc_MemoryError))
        return -1;
    if (!result)
        PyErr_Clear();
    Py_XDECREF(result);
    return result != NULL;
}

static int run_often(int times)
{
    int done = 1;
    for (int i = 0; i < times && done == 1; i++)
        done = run();
    return done;
}

double lines_round_ns(void)
{
    int done = function && !is_watched() ? run_often(N_WARM) : 0;
    const uint64_t begun = timing_now_ns();
    if (done == 1)
        done = run_often(N_TIMED);
    return done == 1 ? (double)(timing_now_ns() - begun) / N_TIMED : done;
}
