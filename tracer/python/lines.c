/* Lines of Python that are always the same, run in the middle of a traced program: they tell how fast its interpreter is
 * just then, which others on the machine slow down.
 *
 * Nobody may notice. The lines are in a row, and the instruction is taken out that begins a function, so that the
 * interpreter comes past no place where it looks for signals, or for another thread that waits: it has no other reason to
 * do something else. Nothing is made that the garbage collector counts, and where the program watches calls, none is made.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <opcode.h>

#include "frames.h"
#include "lines.h"
#include "timing.h"

#include <string.h>

#define FIVE_LINES " x = values[3]\n y = x * 0.5 + total\n if y > 1e6:\n  y = 0.0\n total = y\n"
#define TWENTY_LINES FIVE_LINES FIVE_LINES FIVE_LINES FIVE_LINES

#define N_WARM 6

static const char source[] = "def lines(values, total):\n" TWENTY_LINES TWENTY_LINES;

static PyObject *function, *values, *total;

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
    values = Py_BuildValue("[dddd]", 0.25, 0.75, 0.5, 1.5);
    total = PyFloat_FromDouble(0.0);
    if (!code || !values || !total || PyObject_SetAttrString(function, "__code__", code) != 0)
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

static bool run(void)
{
    PyObject *const arguments[] = {values, total};
    PyObject *result = PyObject_Vectorcall(function, arguments, 2, NULL);
    if (!result)
        PyErr_Clear(); /* too many calls are under way */
    Py_XDECREF(result);
    return result != NULL;
}

uint64_t lines_ns(void)
{
    if (!function || is_watched())
        return 0;
    for (int i = 0; i < N_WARM; i++) /* caches and predicted jumps, as a program has of what it does often */
        if (!run())
            return 0;
    const uint64_t begun = timing_now_ns();
    return run() ? timing_now_ns() - begun : 0;
}
