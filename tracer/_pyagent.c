/* The agent's extension module: attaches the stream and runs the program as the interpreter itself would.
 *
 * The program's first frame must have nothing of ours above it. So while it runs, the thread's chain of frames is cut:
 * the bootstrap's frame is put back when the program has ended. Everything else is done by the functions that the
 * interpreter's own main program calls (Modules/main.c: pymain_run_file, pymain_run_module).
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "pyagent_blocks.h"
#include "pyagent_numpy.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#if PY_VERSION_HEX >= 0x030d0000
#define CURRENT_FRAME(thread) ((thread)->current_frame)
#else
#define CURRENT_FRAME(thread) ((thread)->cframe->current_frame)
#endif

static void finish(void)
{
    ft_writer_finish();
}

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

/* attach(fd, codes): finds the stream behind fd; the codes are the bootstrap's own, which are not traced. */
static PyObject *attach(PyObject *Py_UNUSED(module), PyObject *args)
{
    int fd;
    PyObject *codes;
    if (!PyArg_ParseTuple(args, "iO!", &fd, &PyTuple_Type, &codes))
        return NULL;
    if (!ft_writer_attach(fd)) {
        PyErr_Format(PyExc_OSError, "file descriptor %d is no address stream of this version", fd);
        return NULL;
    }
    if (atexit(finish) != 0 || !agent_blocks_init(codes) || !agent_hooks_init())
        return PyErr_Occurred() ? NULL : PyErr_NoMemory();
    look_at_loaded_modules();
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

static int run_file(const char *path)
{
    FILE *file = fopen(path, "rbe");
    if (!file) {
        PyErr_SetFromErrnoWithFilename(PyExc_OSError, path);
        return -1;
    }
    PyCompilerFlags flags = {.cf_flags = 0, .cf_feature_version = PY_MINOR_VERSION};
    return PyRun_AnyFileExFlags(file, path, 1, &flags) != 0; /* reports and, for SystemExit, exits itself */
}

static int run_module(PyObject *name, PyObject *set_argv0)
{
    PyObject *runpy = PyImport_ImportModule("runpy");
    PyObject *run = runpy ? PyObject_GetAttrString(runpy, "_run_module_as_main") : NULL;
    PyObject *result = run ? PyObject_CallFunctionObjArgs(run, name, set_argv0, NULL) : NULL;
    Py_XDECREF(runpy);
    Py_XDECREF(run);
    if (!result)
        PyErr_Print(); /* for SystemExit, exits itself */
    Py_XDECREF(result);
    return !result;
}

/* run(name, is_module, set_argv0) -> 0, or 1 if the program ended with an exception that has been reported. */
static PyObject *run(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *name, *path = NULL, *set_argv0;
    int is_module, status;
    if (!PyArg_ParseTuple(args, "UpO!", &name, &is_module, &PyBool_Type, &set_argv0) ||
        (!is_module && !PyUnicode_FSConverter(name, &path)) || !fresh_main_module()) {
        Py_XDECREF(path);
        return NULL;
    }
    PyThreadState *thread = PyThreadState_Get();
    struct _PyInterpreterFrame *ours = CURRENT_FRAME(thread);
    CURRENT_FRAME(thread) = NULL;
    agent_trace_thread();
    status = is_module ? run_module(name, set_argv0) : run_file(PyBytes_AS_STRING(path));
    CURRENT_FRAME(thread) = ours;
    Py_XDECREF(path);
    return status < 0 ? NULL : PyLong_FromLong(status);
}

static PyMethodDef methods[] = {
    {"attach", attach, METH_VARARGS, "attach(fd, codes): write to the stream behind fd"},
    {"importable", importable, METH_O, "importable(path) -> whether it is a directory or an archive"},
    {"run", run, METH_VARARGS, "run(name, is_module, set_argv0) -> 0, or 1 after an exception"},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {{0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "_pyagent", .m_methods = methods, .m_slots = slots,
};

PyMODINIT_FUNC PyInit__pyagent(void)
{
    return PyModuleDef_Init(&definition);
}
