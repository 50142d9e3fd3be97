/* Where code is executed, the program's own is replaced by its twin with markers.
 *
 * Whatever Python code begins in (a module that is imported, a script, a string) goes through the built-in functions
 * exec and eval, or through the interpreter's main program. Functions come out of marked code marked. What belongs to
 * the standard library or an installed package, or is made by them from text, is left alone, unless it is the main
 * program.
 *
 * To the program a function's __code__ is its own code object: compilers of bytecode (numba) and picklers (cloudpickle)
 * read that.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <frameobject.h>

#include "tracer/python/arrays/hooks.h"
#include "markers.h"
#include "timing.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

typedef PyObject *(*fast_function)(PyObject *, PyObject *const *, Py_ssize_t);
typedef PyObject *(*fast_kw_function)(PyObject *, PyObject *const *, Py_ssize_t, PyObject *);
#define AS(type, function) ((type)(void (*)(void))(function))

/* exec and eval: by keyword in some versions of Python, not in others. */
struct executor {
    PyCFunction original;
    int start; /* Py_file_input or Py_eval_input */
    bool takes_keywords;
};

static struct executor exec_function = {NULL, Py_file_input, true}, eval_function = {NULL, Py_eval_input, true};
static getter original_get_code;
static setter original_set_code;
static char *library_directory; /* the standard library's, with a slash at its end */

/* ---- whose code it is ------------------------------------------------------------------------------------------- */

static bool is_installed_file(PyObject *name)
{
    PyObject *encoded = name && PyUnicode_Check(name) ? PyUnicode_EncodeFSDefault(name) : NULL;
    if (!encoded) {
        PyErr_Clear();
        return false;
    }
    const char *file = PyBytes_AS_STRING(encoded);
    bool is = strncmp(file, "<frozen ", 8) == 0 || strstr(file, "/site-packages/") || strstr(file, "/dist-packages/") ||
              (library_directory && strncmp(file, library_directory, strlen(library_directory)) == 0);
    Py_DECREF(encoded);
    return is;
}

/* Whether a library made the code from text: the methods of data classes, of named tuples, of attrs. What it does is
 * charged to the line that calls it. */
static bool is_generated(PyCodeObject *code)
{
    const char *file = PyUnicode_AsUTF8(code->co_filename);
    PyErr_Clear();
    if (!file || (strcmp(file, "<string>") != 0 && strncmp(file, "<attrs generated", 16) != 0))
        return false;
    PyObject *globals = PyEval_GetGlobals(); /* of who calls exec or eval */
    return globals && is_installed_file(PyDict_GetItemString(globals, "__file__"));
}

static bool is_of_dataclasses(void)
{
    PyObject *globals = PyEval_GetGlobals(), *name = globals ? PyDict_GetItemString(globals, "__name__") : NULL;
    return name && PyUnicode_Check(name) && PyUnicode_CompareWithASCIIString(name, "dataclasses") == 0;
}

static bool is_main(PyObject *globals)
{
    PyObject *name = globals && PyDict_Check(globals) ? PyDict_GetItemString(globals, "__name__") : NULL;
    return name && PyUnicode_Check(name) && PyUnicode_CompareWithASCIIString(name, "__main__") == 0;
}

static PyObject *to_execute(PyObject *code, PyObject *globals)
{
    PyCodeObject *own = (PyCodeObject *)code;
    const bool is_library = is_installed_file(own->co_filename) || is_generated(own);
    return is_library && (!is_main(globals) || is_of_dataclasses()) ? Py_NewRef(code) : markers_in(code);
}

/* ---- exec and eval ---------------------------------------------------------------------------------------------- */

/* Compiles a string as exec and eval do. NULL, with no exception set, if it cannot be: they say best what is wrong. */
static PyObject *compiled(PyObject *source, int start)
{
    PyCompilerFlags flags = {.cf_flags = PyCF_SOURCE_IS_UTF8, .cf_feature_version = PY_MINOR_VERSION};
    Py_ssize_t bytes = 0;
    const char *text = NULL;
    if (PyUnicode_CheckExact(source)) {
        text = PyUnicode_AsUTF8AndSize(source, &bytes);
        flags.cf_flags |= PyCF_IGNORE_COOKIE;
    } else if (PyBytes_CheckExact(source)) {
        text = PyBytes_AS_STRING(source);
        bytes = PyBytes_GET_SIZE(source);
    }
    PyErr_Clear();
    if (!text || strlen(text) != (size_t)bytes)
        return NULL;
    while (start == Py_eval_input && (*text == ' ' || *text == '\t'))
        text++;
    PyEval_MergeCompilerFlags(&flags);
    PyObject *code = Py_CompileStringExFlags(text, "<string>", start, &flags, -1);
    PyErr_Clear();
    return code;
}

/* What to execute in place of the first argument. A new reference. */
static PyObject *replacement(const struct executor *executor, PyObject *const *args, Py_ssize_t n, bool plain)
{
    PyObject *globals = n > 1 && args[1] != Py_None ? args[1] : PyEval_GetGlobals();
    if (PyCode_Check(args[0]))
        return to_execute(args[0], globals);
    PyObject *code = plain ? compiled(args[0], executor->start) : NULL;
    if (!code)
        return Py_NewRef(args[0]);
    PyObject *marked = to_execute(code, globals);
    Py_DECREF(code);
    return marked;
}

static PyObject *call_original(const struct executor *executor, PyObject *self, PyObject *const *args, Py_ssize_t n,
                               PyObject *kwnames)
{
    return executor->takes_keywords ? AS(fast_kw_function, executor->original)(self, args, n, kwnames)
                                    : AS(fast_function, executor->original)(self, args, n);
}

#define MAX_ARGUMENTS 8

static PyObject *execute(const struct executor *executor, PyObject *self, PyObject *const *args, Py_ssize_t n,
                         PyObject *kwnames)
{
    PyObject *copy[MAX_ARGUMENTS];
    Py_ssize_t all = n + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0);
    if (n < 1 || all > MAX_ARGUMENTS)
        return call_original(executor, self, args, n, kwnames);
    memcpy(copy, args, (size_t)all * sizeof *copy);
    copy[0] = replacement(executor, args, n, !kwnames);
    PyObject *result = call_original(executor, self, copy, n, kwnames);
    Py_DECREF(copy[0]);
    return result;
}

static PyObject *hooked_exec(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    return execute(&exec_function, self, args, n, kwnames);
}

static PyObject *hooked_eval(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    return execute(&eval_function, self, args, n, kwnames);
}

static PyObject *hooked_eval_plain(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    return execute(&eval_function, self, args, n, NULL);
}

static void hook_executors(void)
{
    const int fast_kw = METH_FASTCALL | METH_KEYWORDS;
    exec_function.original = agent_replace("builtins", "exec", fast_kw, AS(PyCFunction, hooked_exec));
    eval_function.original = agent_replace("builtins", "eval", fast_kw, AS(PyCFunction, hooked_eval));
    if (!eval_function.original) {
        eval_function.takes_keywords = false;
        eval_function.original = agent_replace("builtins", "eval", METH_FASTCALL, AS(PyCFunction, hooked_eval_plain));
    }
}

/* ---- __code__ --------------------------------------------------------------------------------------------------- */

static PyObject *get_code(PyObject *function, void *closure)
{
    PyObject *code = original_get_code(function, closure);
    if (!code || !PyCode_Check(code))
        return code;
    PyObject *original = Py_NewRef(markers_original_of(code));
    Py_DECREF(code);
    return original;
}

static int set_code(PyObject *function, PyObject *code, void *closure)
{
    struct code_table *table = code && PyCode_Check(code) ? code_table_if_any((PyCodeObject *)code) : NULL;
    return original_set_code(function, table && table->marked ? table->marked : code, closure);
}

static void hook_code_attribute(void)
{
    PyObject *descriptor = PyObject_GetAttrString((PyObject *)&PyFunction_Type, "__code__");
    if (descriptor && Py_IS_TYPE(descriptor, &PyGetSetDescr_Type)) {
        PyGetSetDef *attribute = ((PyGetSetDescrObject *)descriptor)->d_getset;
        original_get_code = attribute->get;
        original_set_code = attribute->set;
        attribute->get = get_code;
        attribute->set = set_code;
    }
    Py_XDECREF(descriptor);
    PyErr_Clear();
}

/* ---- frames ------------------------------------------------------------------------------------------------------- */

/* Views of frames, generators and tracebacks on their code, and on their place in it. Attributes are replaced in their
 * types' dictionaries: which of them are members, and which properties, depends on the version of Python. */
static PyObject *original_attribute(PyObject *self, void *closure);
static PyObject *get_code_of(PyObject *self, void *closure);
static PyObject *get_frame_lasti(PyObject *self, void *closure);
static PyObject *get_traceback_lasti(PyObject *self, void *closure);

static struct frame_attribute {
    PyTypeObject *type;
    PyGetSetDef shown;
    PyObject *original; /* the descriptor */
} frame_attributes[] = {
    {&PyFrame_Type, {.name = "f_code", .get = get_code_of}, NULL},
    {&PyGen_Type, {.name = "gi_code", .get = get_code_of}, NULL},
    {&PyCoro_Type, {.name = "cr_code", .get = get_code_of}, NULL},
    {&PyAsyncGen_Type, {.name = "ag_code", .get = get_code_of}, NULL},
    {&PyFrame_Type, {.name = "f_lasti", .get = get_frame_lasti}, NULL},
    {&PyTraceBack_Type, {.name = "tb_lasti", .get = get_traceback_lasti}, NULL},
};

static PyObject *original_attribute(PyObject *self, void *closure)
{
    PyObject *original = ((const struct frame_attribute *)closure)->original;
    return Py_TYPE(original)->tp_descr_get(original, self, (PyObject *)Py_TYPE(self));
}

static PyObject *get_code_of(PyObject *self, void *closure)
{
    PyObject *code = original_attribute(self, closure);
    if (!code || !PyCode_Check(code))
        return code;
    PyObject *original = Py_NewRef(markers_original_of(code));
    Py_DECREF(code);
    return original;
}

/* The program's own place for one in a frame's code. */
static PyObject *own_place(PyFrameObject *frame, PyObject *lasti)
{
    if (!lasti)
        return NULL;
    PyCodeObject *code = PyFrame_GetCode(frame);
    const int own = markers_original_lasti((PyObject *)code, (int)PyLong_AsLong(lasti));
    Py_DECREF(code);
    Py_DECREF(lasti);
    return PyLong_FromLong(own);
}

static PyObject *get_frame_lasti(PyObject *self, void *closure)
{
    return own_place((PyFrameObject *)self, original_attribute(self, closure));
}

static PyObject *get_traceback_lasti(PyObject *self, void *closure)
{
    return own_place(((PyTracebackObject *)self)->tb_frame, original_attribute(self, closure));
}

static void hook_frame_attributes(void)
{
    for (size_t i = 0; i < sizeof frame_attributes / sizeof *frame_attributes; i++) {
        struct frame_attribute *at = &frame_attributes[i];
        PyObject *original = PyDict_GetItemString(at->type->tp_dict, at->shown.name);
        at->shown.closure = at;
        PyObject *descriptor = original ? PyDescr_NewGetSet(at->type, &at->shown) : NULL;
        at->original = Py_XNewRef(original);
        if (descriptor && PyDict_SetItemString(at->type->tp_dict, at->shown.name, descriptor) == 0)
            PyType_Modified(at->type);
        Py_XDECREF(descriptor);
    }
    PyErr_Clear();
}

/* ---- functions that are there already ---------------------------------------------------------------------------- */

/* As `is_generated`, of a function: its globals are those of the class it was made for. */
static bool is_generated_function(PyCodeObject *code, PyObject *globals)
{
    const char *file = PyUnicode_AsUTF8(code->co_filename);
    const char *name = file ? PyUnicode_AsUTF8(code->co_qualname) : NULL;
    PyErr_Clear();
    if (!file || !name || strncmp(file, "<attrs generated", 16) == 0)
        return true;
    return strcmp(file, "<string>") == 0 &&
           (strncmp(name, "__create_fn__.", 14) == 0 || is_installed_file(PyDict_GetItemString(globals, "__file__")));
}

bool exec_adopt(PyObject *function)
{
    PyObject *code = PyFunction_GetCode(function), *globals = PyFunction_GetGlobals(function);
    PyCodeObject *own = (PyCodeObject *)code;
    if (!markers_in_use || !original_set_code || is_installed_file(own->co_filename) ||
        is_generated_function(own, globals))
        return false;
    PyObject *marked = markers_in_function(code);
    const bool done = marked != code && original_set_code(function, marked, NULL) == 0;
    Py_DECREF(marked);
    PyErr_Clear();
    return done;
}

/* ---- the main program ------------------------------------------------------------------------------------------- */

/* A regular file's contents; NULL with no exception set if it cannot be read. */
static char *read_file(PyObject *path)
{
    PyObject *name;
    struct stat status;
    char *text = NULL;
    if (!PyUnicode_FSConverter(path, &name)) {
        PyErr_Clear();
        return NULL;
    }
    FILE *file = fopen(PyBytes_AS_STRING(name), "rbe");
    Py_DECREF(name);
    if (file && fstat(fileno(file), &status) == 0 && S_ISREG(status.st_mode) &&
        (text = PyMem_Malloc((size_t)status.st_size + 1))) {
        size_t bytes = fread(text, 1, (size_t)status.st_size, file);
        text[bytes] = '\0';
        if (strlen(text) != (size_t)status.st_size) { /* cut short, or compiled already */
            PyMem_Free(text);
            text = NULL;
        }
    }
    if (file)
        fclose(file);
    return text;
}

static PyObject *compiled_script(PyObject *path)
{
    PyCompilerFlags flags = {.cf_flags = 0, .cf_feature_version = PY_MINOR_VERSION};
    char *text = read_file(path);
    PyObject *code = text ? Py_CompileStringObject(text, path, Py_file_input, &flags, -1) : NULL;
    PyMem_Free(text);
    PyErr_Clear();
    if (!code)
        return NULL;
    PyObject *marked = markers_in_function(code); /* which keeps the original */
    Py_DECREF(code);
    return marked;
}

/* Python/pythonrun.c: set_main_loader */
static bool set_loader(PyObject *globals, PyObject *path)
{
    PyObject *importlib = PyImport_ImportModule("_frozen_importlib_external");
    PyObject *type = importlib ? PyObject_GetAttrString(importlib, "SourceFileLoader") : NULL;
    PyObject *loader = type ? PyObject_CallFunction(type, "sO", "__main__", path) : NULL;
    bool done = loader && PyDict_SetItemString(globals, "__loader__", loader) == 0;
    Py_XDECREF(importlib);
    Py_XDECREF(type);
    Py_XDECREF(loader);
    return done;
}

static void flush(const char *name)
{
    PyObject *file = PySys_GetObject(name);
#if PY_VERSION_HEX >= 0x030c0000
    PyObject *exception = PyErr_GetRaisedException();
#else
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
#endif
    PyObject *result = file ? PyObject_CallMethod(file, "flush", NULL) : NULL;
    Py_XDECREF(result);
    PyErr_Clear();
#if PY_VERSION_HEX >= 0x030c0000
    PyErr_SetRaisedException(exception);
#else
    PyErr_Restore(type, value, traceback);
#endif
}

/* Runs the main program's code, of which it takes the reference, and reports its exception. */
static int evaluate(PyObject *code, PyObject *globals, bool is_file)
{
    PyObject *result = PyEval_EvalCode(code, globals, globals);
    if (is_file) { /* as the interpreter does behind files, not behind strings */
        flush("stderr");
        flush("stdout");
    }
    timing_stop(); /* what follows is the interpreter's end, and that of all modules */
    Py_DECREF(code);
    if (!result)
        PyErr_Print();
    int status = result ? 0 : -1;
    Py_XDECREF(result);
    return status;
}

/* From 3.13 on, tracebacks show the lines of code behind -c (Python/pythonrun.c: run_mod). */
static bool show_lines(const char *text)
{
#if PY_VERSION_HEX >= 0x030d0000
    PyObject *linecache = PyImport_ImportModule("linecache");
    PyObject *done =
        linecache ? PyObject_CallMethod(linecache, "_register_code", "sss", "<string>", text, "<string>") : NULL;
    Py_XDECREF(linecache);
    Py_XDECREF(done);
    return done != NULL;
#else
    return text != NULL;
#endif
}

/* Python/pythonrun.c: PyRun_SimpleStringFlags */
bool exec_command(const char *text, int *status)
{
    PyCompilerFlags flags = {.cf_flags = PyCF_IGNORE_COOKIE, .cf_feature_version = PY_MINOR_VERSION};
    PyObject *code = Py_CompileStringExFlags(text, "<string>", Py_file_input, &flags, -1);
    PyObject *marked = !code ? NULL : markers_in_use ? markers_in_function(code) : Py_NewRef(code);
    PyObject *main_module = marked && show_lines(text) ? PyImport_AddModule("__main__") : NULL;
    PyErr_Clear();
    Py_XDECREF(code);
    if (!main_module) {
        Py_XDECREF(marked);
        return false;
    }
    *status = evaluate(marked, PyModule_GetDict(main_module), false);
    return true;
}

/* Python/pythonrun.c: _PyRun_SimpleFile */
bool exec_script(PyObject *path, int *status)
{
    PyObject *code = compiled_script(path), *main_module = PyImport_AddModule("__main__");
    PyObject *globals = main_module ? PyModule_GetDict(main_module) : NULL;
    if (!code || !globals || PyDict_SetItemString(globals, "__file__", path) != 0 ||
        PyDict_SetItemString(globals, "__cached__", Py_None) != 0 || !set_loader(globals, path)) {
        PyErr_Clear();
        Py_XDECREF(code);
        return false;
    }
    Py_INCREF(globals);
    *status = evaluate(code, globals, true);
    if (PyDict_DelItemString(globals, "__file__") != 0)
        PyErr_Clear();
    if (PyDict_DelItemString(globals, "__cached__") != 0)
        PyErr_Clear();
    Py_DECREF(globals);
    return true;
}

bool exec_init(void)
{
    PyObject *directory = PySys_GetObject("_stdlib_dir");
    PyObject *name = directory && PyUnicode_Check(directory) ? PyUnicode_EncodeFSDefault(directory) : NULL;
    PyErr_Clear();
    if (name && (library_directory = PyMem_Malloc((size_t)PyBytes_GET_SIZE(name) + 2)))
        strcat(strcpy(library_directory, PyBytes_AS_STRING(name)), "/");
    Py_XDECREF(name);
    hook_executors();
    hook_code_attribute();
    hook_frame_attributes();
    return true;
}
