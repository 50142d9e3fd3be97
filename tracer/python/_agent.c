/* The agent's extension module: attaches the stream and runs the program as the interpreter itself would.
 *
 * The program's first frame must have nothing of ours above it: the thread's chain of frames is cut, and the bootstrap
 * never runs again. Everything else is done by the functions that the interpreter's own main program calls
 * (Modules/main.c: pymain_run_file, pymain_run_module, Py_RunMain).
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "tracer/python/blocks/blocks.h"
#include "tracer/python/blocks/frames.h"
#include "tracer/python/blocks/lines.h"
#include "tracer/python/blocks/markers.h"
#include "tracer/python/boards.h"
#include "tracer/python/extensions/extensions.h"
#include "tracer/python/native_threads.h"
#include "tracer/python/processes.h"
#include "tracer/python/arrays/numpy.h"
#include "tracer/python/blocks/timing.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Extension modules that were there before us. */
static void look_at_loaded_modules(void)
{
    PyObject *modules = PySequence_List(PyImport_GetModuleDict());
    for (Py_ssize_t i = 0; modules && i < PyList_GET_SIZE(modules); i++) {
        PyObject *module = PyDict_GetItemWithError(PyImport_GetModuleDict(), PyList_GET_ITEM(modules, i));
        if (module)
            agent_module_loaded(module);
    }
    Py_XDECREF(modules);
    PyErr_Clear();
}

/* attach(stream, core, bootstrap, agent, words): finds the stream, and prepares tracing by the core of that name; see
 * processes_attach. */
static PyObject *attach(PyObject *Py_UNUSED(module), PyObject *args)
{
    const char *stream, *name;
    PyObject *bootstrap = Py_None, *path = Py_None, *words = Py_None;
    if (!PyArg_ParseTuple(args, "ss|OOO", &stream, &name, &bootstrap, &path, &words))
        return NULL;
    if (ft_writer_header()) {
        PyErr_SetString(PyExc_RuntimeError, "this interpreter is being traced already");
        return NULL;
    }
    const struct agent_core *core = strcmp(name, "settrace") == 0 ? &agent_settrace_core : &agent_markers_core;
    if (!processes_attach(stream, bootstrap, path, name, words)) {
        PyErr_Format(PyExc_OSError, "%s is no address stream of this version", stream);
        return NULL;
    }
    boards_init();
    timing_init();
    if (atexit(agent_finish) != 0 || !native_threads_init() || !agent_blocks_init(core) || !agent_hooks_init())
        return PyErr_Occurred() ? NULL : PyErr_NoMemory();
    look_at_loaded_modules();
    extensions_init();
    Py_RETURN_NONE;
}

/* importable(path): whether it is a directory or an archive, which the interpreter runs as a package. */
static PyObject *importable(PyObject *Py_UNUSED(module), PyObject *path)
{
    PyObject *importer = PyImport_GetImporter(path);
    if (!importer)
        return NULL;
    bool found = importer != Py_None;
    Py_DECREF(importer);
    return PyBool_FromLong(found);
}

/* What a fresh interpreter has as __main__ (Python/pylifecycle.c: add_main_module). */
static bool fresh_main_module(void)
{
    PyObject *module = PyModule_New("__main__");
    PyObject *builtins = PyImport_ImportModule("builtins");
    PyObject *importlib = PyImport_ImportModule("_frozen_importlib");
    PyObject *loader = importlib ? PyObject_GetAttrString(importlib, "BuiltinImporter") : NULL;
    PyObject *annotations = PyDict_New();
    bool made = module && builtins && loader && annotations &&
                PyObject_SetAttrString(module, "__annotations__", annotations) == 0 &&
                PyObject_SetAttrString(module, "__builtins__", builtins) == 0 &&
                PyObject_SetAttrString(module, "__loader__", loader) == 0 &&
                PyDict_SetItemString(PyImport_GetModuleDict(), "__main__", module) == 0;
    Py_XDECREF(module);
    Py_XDECREF(builtins);
    Py_XDECREF(importlib);
    Py_XDECREF(loader);
    Py_XDECREF(annotations);
    return made;
}

/* How a program ended that has not exited by itself. */
enum ending { ENDED, FAILED, INTERRUPTED };

/* Notes which exception ended the program: the interpreter has reported it, and keeps its type. */
static void note_exception(void)
{
    struct ft_header *header = ft_writer_header();
    PyObject *type = PySys_GetObject("last_type"); /* borrowed */
    if (type && PyType_Check(type))
        snprintf(header->exception, sizeof header->exception, "%s", ((PyTypeObject *)type)->tp_name);
}

/* Reports the exception that ended the program; for SystemExit, exits. */
static enum ending report_exception(void)
{
    bool interrupted = PyErr_ExceptionMatches(PyExc_KeyboardInterrupt);
    timing_stop();
    PyErr_Print();
    note_exception();
    return interrupted ? INTERRUPTED : FAILED;
}

/* The ending of a script whose exception, if any, has been reported. */
static enum ending script_ending(int status)
{
    if (status == 0)
        return ENDED;
    note_exception();
    return PySys_GetObject("last_type") == PyExc_KeyboardInterrupt ? INTERRUPTED : FAILED;
}

static enum ending run_file(PyObject *name)
{
    PyObject *path;
    int status;
    if (markers_in_use && exec_script(name, &status))
        return script_ending(status);
    if (!PyUnicode_FSConverter(name, &path))
        return report_exception();
    FILE *file = fopen(PyBytes_AS_STRING(path), "rbe");
    if (!file)
        PyErr_SetFromErrnoWithFilenameObject(PyExc_OSError, name);
    PyCompilerFlags flags = {.cf_flags = 0, .cf_feature_version = PY_MINOR_VERSION};
    status = file ? PyRun_AnyFileExFlags(file, PyBytes_AS_STRING(path), 1, &flags) : 0;
    Py_DECREF(path);
    if (!file)
        return report_exception();
    return script_ending(status);
}

static enum ending run_module(PyObject *name, PyObject *set_argv0)
{
    PyObject *runpy = PyImport_ImportModule("runpy");
    PyObject *function = runpy ? PyObject_GetAttrString(runpy, "_run_module_as_main") : NULL;
    PyObject *result = function ? PyObject_CallFunctionObjArgs(function, name, set_argv0, NULL) : NULL;
    Py_XDECREF(runpy);
    Py_XDECREF(function);
    if (!result)
        return report_exception();
    Py_DECREF(result);
    return ENDED;
}

/* Modules/main.c: pymain_run_command */
static enum ending run_code(PyObject *source)
{
    PyObject *line = PyUnicode_FromFormat("%U\n", source);
    PyObject *text = line ? PyUnicode_AsUTF8String(line) : NULL;
    Py_XDECREF(line);
    if (!text)
        return report_exception();
    int status;
    PyCompilerFlags flags = {.cf_flags = PyCF_IGNORE_COOKIE, .cf_feature_version = PY_MINOR_VERSION};
    if (!exec_command(PyBytes_AS_STRING(text), &status))
        status = PyRun_SimpleStringFlags(PyBytes_AS_STRING(text), &flags);
    Py_DECREF(text);
    return script_ending(status);
}

/* What the interpreter does after an interrupt that nobody caught: it dies of the signal. */
static void die_of_interrupt(void)
{
    Py_FinalizeEx();
    agent_finish();
    signal(SIGINT, SIG_DFL);
    kill(getpid(), SIGINT);
    exit(128 + SIGINT);
}

/* What the program is; see main.py. */
enum kind { SCRIPT, MODULE, CODE };

/* run(name, kind, set_argv0): does not return. */
static PyObject *run(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *name, *set_argv0;
    int kind;
    if (!PyArg_ParseTuple(args, "UiO!", &name, &kind, &PyBool_Type, &set_argv0) || !fresh_main_module())
        return NULL;
    AGENT_CURRENT_FRAME(PyThreadState_Get()) = NULL;
    agent_trace_thread();
    processes_begin();
    enum ending ending = kind == MODULE ? run_module(name, set_argv0) : kind == CODE ? run_code(name) : run_file(name);
    timing_stop();
    if (ending == INTERRUPTED)
        die_of_interrupt();
    Py_Exit(ending == FAILED);
}

/* adopt(function): see exec_adopt. */
static PyObject *adopt(PyObject *Py_UNUSED(module), PyObject *function)
{
    return PyBool_FromLong(PyFunction_Check(function) && exec_adopt(function));
}

/* call(function): calls it as if it were the program, with no frame above its own, and ends the stream. */
static PyObject *call(PyObject *Py_UNUSED(module), PyObject *function)
{
    PyThreadState *thread = PyThreadState_Get();
    struct _PyInterpreterFrame *above = AGENT_CURRENT_FRAME(thread);
    AGENT_CURRENT_FRAME(thread) = NULL;
    agent_trace_thread();
    PyObject *result = PyObject_CallNoArgs(function);
    timing_stop();
    AGENT_CURRENT_FRAME(thread) = above;
    PyEval_SetTrace(NULL, NULL);
    agent_finish();
    return result;
}

/* lines_round_ns(): see lines.h. */
static PyObject *time_lines(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    return PyFloat_FromDouble(lines_init() ? lines_round_ns() : 0);
}

static PyMethodDef methods[] = {
    {"attach", attach, METH_VARARGS, "attach(stream, core, bootstrap, agent, words): write to a stream"},
    {"importable", importable, METH_O, "importable(path) -> whether it is a directory or an archive"},
    {"run", run, METH_VARARGS, "run(name, kind, set_argv0): run the program and exit as it does"},
    {"adopt", adopt, METH_O, "adopt(function) -> whether it has markers now; for functions made before attach()"},
    {"call", call, METH_O, "call(function) -> its result; it is the program, and the stream ends with it"},
    {"lines_round_ns", time_lines, METH_NOARGS,
     "lines_round_ns() -> nanoseconds of lines that are always the same; 0: not now"},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {{0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_agent",
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__agent(void)
{
    return PyModuleDef_Init(&definition);
}
