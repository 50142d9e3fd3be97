/* Counts calls, with arrays, of compiled functions that have no template.
 *
 * Built-in functions of NumPy, SciPy and whatever other extension module is loaded are hooked when their module is,
 * unless they have a template, are known to touch no elements, or are the interpreter's own. A call that is given or
 * returns an array counts as unseen; of NumPy's and SciPy's functions it is recorded as one pass over each array.
 * Linear algebra is counted by its shapes instead (linear.c). Functions that f2py made (BLAS, LAPACK, FITPACK) are
 * objects of a type that each module has for itself: `fortran_types` keeps its tp_call. Numba's are objects of one
 * type, `called_types` likewise.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "numpy.h"

#include <stdlib.h>
#include <string.h>

#define MAX_FORTRAN_TYPES 64

static const char UNHOOKED[] = "(compiled functions beyond those that can be hooked)";
static const char FORTRAN[] = "(functions made by f2py)";

/* They look at what an array is, make a view of it, or leave the work to hooked functions. */
static const char *const no_elements[] = {
    "numpy._get_implementing_args",
    "numpy._discover_array_parameters",
    "numpy._reconstruct",
    "numpy.add_docstring",
    "numpy.can_cast",
    "numpy.empty",
    "numpy.empty_like",
    "numpy.from_dlpack",
    "numpy.frombuffer",
    "numpy.frompyfunc",
    "numpy.implement_array_function",
    "numpy.may_share_memory",
    "numpy.min_scalar_type",
    "numpy.nested_iters",
    "numpy.normalize_axis_index",
    "numpy.promote_types",
    "numpy.result_type",
    "numpy.shares_memory",
    "numpy.zeros",
    "numpy.get_handler_name",
    "numpy.get_handler_version",
    "numpy.ndarray.__array_finalize__",
    "numpy.ndarray.__array_function__",
    "numpy.ndarray.__array_namespace__",
    "numpy.ndarray.__array_prepare__",
    "numpy.ndarray.__array_ufunc__",
    "numpy.ndarray.__array_wrap__",
    "numpy.ndarray.__class_getitem__",
    "numpy.ndarray.__dlpack__",
    "numpy.ndarray.__dlpack_device__",
    "numpy.ndarray.__sizeof__",
    "numpy.ndarray.all",
    "numpy.ndarray.any",
    "numpy.ndarray.clip",
    "numpy.ndarray.conj",
    "numpy.ndarray.conjugate",
    "numpy.ndarray.cumprod",
    "numpy.ndarray.cumsum",
    "numpy.ndarray.diagonal",
    "numpy.ndarray.dump",
    "numpy.ndarray.dumps",
    "numpy.ndarray.getfield",
    "numpy.ndarray.max",
    "numpy.ndarray.mean",
    "numpy.ndarray.min",
    "numpy.ndarray.newbyteorder",
    "numpy.ndarray.prod",
    "numpy.ndarray.ptp",
    "numpy.ndarray.round",
    "numpy.ndarray.setflags",
    "numpy.ndarray.squeeze",
    "numpy.ndarray.std",
    "numpy.ndarray.sum",
    "numpy.ndarray.swapaxes",
    "numpy.ndarray.to_device",
    "numpy.ndarray.transpose",
    "numpy.ndarray.var",
    "numpy.ndarray.view",
    "numpy.ufunc._get_strided_loop",
    "numpy.ufunc._resolve_dtypes_and_context",
    "numpy.ufunc.resolve_dtypes",
};

static bool touches_no_elements(const char *name)
{
    for (size_t i = 0; i < sizeof no_elements / sizeof *no_elements; i++)
        if (strcmp(no_elements[i], name) == 0)
            return true;
    return false;
}

static bool is_prefix(const char *prefix, const char *text)
{
    return strncmp(prefix, text, strlen(prefix)) == 0;
}

/* ---- built-in functions and methods ----------------------------------------------------------------------------- */

static bool linear_algebra(const char *name, const struct agent_call *call)
{
    const bool is_tuple = call->result && PyTuple_CheckExact(call->result);
    return linear_call(name, call->args, call->n_args, call->kwargs,
                       is_tuple ? &PyTuple_GET_ITEM(call->result, 0) : &call->result,
                       is_tuple ? PyTuple_GET_SIZE(call->result) : 1);
}

/* A ufunc that a compiled function has made of the program's code, as numba does: "numba.norm". */
static void hook_made_ufunc(const struct agent_call *call)
{
    if (!np.ufunc || !call->result || !Py_IS_TYPE(call->result, np.ufunc) || is_prefix("numpy.", call->name))
        return;
    PyObject *own = PyObject_GetAttrString(call->result, "__name__");
    const char *text = own && PyUnicode_Check(own) ? PyUnicode_AsUTF8(own) : NULL;
    const size_t length = strcspn(call->name, ".");
    char *name = text ? malloc(length + strlen(text) + 2) : NULL;
    if (name) {
        memcpy(name, call->name, length);
        strcpy(strcpy(name + length, ".") + 1, text);
        if (!cython_hook_object(call->result, name))
            free(name);
    }
    Py_XDECREF(own);
    PyErr_Clear();
}

static void other_call(const struct agent_call *call)
{
    hook_made_ufunc(call);
    if (np_call_bytes(call) == 0 || linear_algebra(call->name, call))
        return;
    agent_unseen();
    if (!is_prefix("numpy.", call->name) && !is_prefix("scipy.", call->name))
        return;
    PyObject *output = np_is_array(call->result) && call->result != call->self ? call->result : NULL;
    np_one_pass(call->name, &call->self, call->self != NULL, NULL);
    np_one_pass(call->name, call->args, call->n_args, output);
}

static void hook_other(PyObject *callable, const char *prefix, const char *name)
{
    char *full = np_full_name(prefix, name);
    if (!full || touches_no_elements(full)) {
        free(full);
        return;
    }
    switch (agent_hook_callable(callable, full, other_call)) {
    case AGENT_HOOKED: return; /* the hook has the name */
    case AGENT_NO_ROOM: agent_count_unseen(UNHOOKED, 0, false); break;
    default: break;
    }
    free(full);
}

/* Whether a function that a module has in its dictionary comes from another package: it is hooked there, or not to be.
 */
static bool is_imported(PyObject *callable, const char *module)
{
    PyObject *own = PyCFunction_Check(callable) ? ((PyCFunctionObject *)callable)->m_module : NULL;
    const char *name = own && PyUnicode_Check(own) ? PyUnicode_AsUTF8(own) : NULL;
    const char *end = strchr(module, '.');
    size_t length = end ? (size_t)(end - module) : strlen(module);
    return name && (strncmp(name, module, length) != 0 || (name[length] != '.' && name[length] != 0));
}

/* The extension module that a function was made in: one that imports it has it, too. */
static const char *home_of(PyObject *callable, const char *module)
{
    PyObject *own = PyCFunction_Check(callable) ? ((PyCFunctionObject *)callable)->m_self : NULL;
    const char *name = own && PyModule_Check(own) ? PyModule_GetName(own) : NULL;
    PyErr_Clear();
    return name && strchr(name, '.') ? name : module;
}

static void hook_all(PyObject *dict, const char *prefix, PyTypeObject *kind)
{
    PyObject *key, *value;
    for (Py_ssize_t at = 0; PyDict_Next(dict, &at, &key, &value);) {
        const char *name = Py_IS_TYPE(value, kind) && PyUnicode_Check(key) ? PyUnicode_AsUTF8(key) : NULL;
        if (name && !is_imported(value, prefix))
            hook_other(value, home_of(value, prefix), name);
    }
    PyErr_Clear();
}

void other_install_methods(PyTypeObject *type, const char *name)
{
    hook_all(type->tp_dict, name, &PyMethodDescr_Type);
}

/* ---- f2py's functions ------------------------------------------------------------------------------------------- */

static struct fortran_type {
    PyTypeObject *type;
    ternaryfunc original;
} fortran_types[MAX_FORTRAN_TYPES];

/* Whether a call of LAPACK only asks how much room the routine wants to work in. */
static bool asks_for_room(PyObject *kwargs)
{
    PyObject *room = kwargs ? PyDict_GetItemString(kwargs, "lwork") : NULL;
    int64_t value;
    return room && PyLong_CheckExact(room) && agent_small_integer(room, &value) && value == -1;
}

static PyObject *hooked_fortran_call(PyObject *self, PyObject *args, PyObject *kwargs)
{
    ternaryfunc original = NULL;
    for (size_t i = 0; i < MAX_FORTRAN_TYPES && !original; i++)
        if (fortran_types[i].type == Py_TYPE(self))
            original = fortran_types[i].original;
    const struct agent_named named = agent_named_begin(FORTRAN);
    PyObject *result = original(self, args, kwargs);
    const bool outermost = agent_hook_end(named.outer);
    if (outermost && result && !asks_for_room(kwargs)) {
        struct agent_call call = {.name = FORTRAN,
                                  .args = &PyTuple_GET_ITEM(args, 0),
                                  .n_args = PyTuple_GET_SIZE(args),
                                  .kwargs = kwargs,
                                  .result = result};
        agent_record_begin();
        if (!linear_algebra(linear_fortran_name(self), &call) && np_call_bytes(&call)) {
            agent_unseen();
            np_one_pass(FORTRAN, call.args, call.n_args, call.result);
        }
        np_record_end(&call);
    }
    agent_named_end(&named, outermost);
    return result;
}

static void hook_fortran(PyObject *dict)
{
    PyObject *key, *value;
    for (Py_ssize_t at = 0; PyDict_Next(dict, &at, &key, &value);) {
        PyTypeObject *type = Py_TYPE(value);
        if (strcmp(type->tp_name, "fortran") != 0 || !type->tp_call || type->tp_call == hooked_fortran_call)
            continue;
        for (size_t i = 0; i < MAX_FORTRAN_TYPES; i++)
            if (!fortran_types[i].type) {
                fortran_types[i] = (struct fortran_type){type, type->tp_call};
                type->tp_call = hooked_fortran_call;
                break;
            }
        if (type->tp_call != hooked_fortran_call)
            agent_count_unseen(UNHOOKED, 0, false);
        return;
    }
}

/* ---- objects that are called: numba's functions, Cython's templates----------------------------------------------------- */

#define MAX_CALLED_TYPES 16

static struct called_type {
    PyTypeObject *type;
    ternaryfunc original;
    const char *name; /* NULL: each object's module */
} called_types[MAX_CALLED_TYPES];

static const struct called_type *called_type_of(PyTypeObject *type)
{
    for (; type; type = type->tp_base)
        for (size_t i = 0; i < MAX_CALLED_TYPES && called_types[i].type; i++)
            if (called_types[i].type == type)
                return &called_types[i];
    return NULL;
}

/* "numba: gather" for what wraps a function, "sklearn.cluster.lloyd" for that of sklearn.cluster._k_means. Interned for
 * good, as names are told apart by address. */
static const char *name_of_called(const struct called_type *called, PyObject *self)
{
    PyObject *own = PyObject_GetAttrString(self, "__qualname__");
    PyObject *module = called->name ? NULL : PyObject_GetAttrString(self, "__module__"), *full = NULL;
    const char *package = module && PyUnicode_Check(module) ? PyUnicode_AsUTF8(module) : NULL;
    const char *function = own && PyUnicode_Check(own) ? PyUnicode_AsUTF8(own) : NULL, *name = NULL;
    char *text = package && function ? np_full_name(package, function) : NULL;
    PyErr_Clear();
    if (text)
        full = PyUnicode_FromString(text);
    else if (called->name && function)
        full = PyUnicode_FromFormat("%s: %s", called->name, function);
    free(text);
    if (full) {
        PyUnicode_InternInPlace(&full);
        name = PyUnicode_AsUTF8(full); /* the reference is kept */
    }
    Py_XDECREF(own);
    Py_XDECREF(module);
    PyErr_Clear();
    return name ? name : called->name ? called->name : "(compiled function)";
}

static PyObject *hooked_object_call(PyObject *self, PyObject *args, PyObject *kwargs)
{
    const struct called_type *called = called_type_of(Py_TYPE(self));
    if (agent_hook_running())
        return called->original(self, args, kwargs);
    struct agent_call call = {.name = name_of_called(called, self),
                              .self = self,
                              .args = &PyTuple_GET_ITEM(args, 0),
                              .n_args = PyTuple_GET_SIZE(args),
                              .kwargs = kwargs};
    const struct agent_named named = agent_named_begin(call.name);
    call.result = called->original(self, args, kwargs);
    const bool outermost = agent_hook_end(named.outer);
    if (outermost && call.result) {
        agent_record_begin();
        if (np_call_bytes(&call))
            agent_unseen();
        np_record_end(&call);
    }
    agent_named_end(&named, outermost);
    return call.result;
}

void other_hook_called(PyTypeObject *type, const char *name)
{
    PyObject *wrapper = type->tp_dict ? PyDict_GetItemString(type->tp_dict, "__call__") : NULL;
    if (!type->tp_call || type->tp_call == hooked_object_call || !wrapper ||
        !Py_IS_TYPE(wrapper, &PyWrapperDescr_Type) || PyType_HasFeature(type, Py_TPFLAGS_HAVE_VECTORCALL) ||
        ((PyWrapperDescrObject *)wrapper)->d_wrapped != (void *)type->tp_call)
        return;
    for (size_t i = 0; i < MAX_CALLED_TYPES; i++)
        if (!called_types[i].type) {
            called_types[i] = (struct called_type){(PyTypeObject *)Py_NewRef(type), type->tp_call, name};
            type->tp_call = hooked_object_call;
            ((PyWrapperDescrObject *)wrapper)->d_wrapped = (void *)hooked_object_call;
            return;
        }
}

/* ---- modules ---------------------------------------------------------------------------------------------------- */

/* Whether a module is the interpreter's own, or one that only passes calls on. */
static bool is_out_of_scope(const char *module)
{
    PyObject *own = PySys_GetObject("stdlib_module_names");
    const char *end = strchr(module, '.');
    PyObject *top = PyUnicode_FromStringAndSize(module, end ? end - module : (Py_ssize_t)strlen(module));
    bool out = strcmp(module, "scipy._lib._uarray._uarray") == 0 ||
               (own && top && PyAnySet_Check(own) && PySet_Contains(own, top) == 1);
    Py_XDECREF(top);
    PyErr_Clear();
    return out;
}

void other_install(PyObject *module, const char *name)
{
    if (is_out_of_scope(name))
        return;
    hook_all(PyModule_GetDict(module), name, &PyCFunction_Type);
    hook_fortran(PyModule_GetDict(module));
    if (strcmp(name, "numba._dispatcher") == 0 || strcmp(name, "_dispatcher") == 0) {
        PyObject *type = PyDict_GetItemString(PyModule_GetDict(module), "Dispatcher");
        if (type && PyType_Check(type))
            other_hook_called((PyTypeObject *)type, "numba");
    }
}
