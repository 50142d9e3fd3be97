/* Counts calls of Cython functions that work on arrays, such as those of numpy.random.
 *
 * What they do with their arrays cannot be seen: a call that is given or returns an array counts as unseen, and of its
 * result each element is stored once. NumPy 1's random generators are of an older Cython, whose methods are built-in
 * ones. `functions` maps each hooked function to its own vectorcall and name: open addressing, at most half full;
 * entries are never removed (the table keeps the functions alive).
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "numpy.h"

#include <stdlib.h>
#include <string.h>

struct function {
    PyObject *object;
    vectorcallfunc original;
    const char *name;
};

static inline uint64_t hash_of(const struct function *function)
{
    return ft_hash_pointer(function->object);
}

static inline bool is_used(const struct function *function)
{
    return function->object;
}

static inline bool is_same(const struct function *one, const struct function *other)
{
    return one->object == other->object;
}

FT_TABLE_TYPE(functions, struct function);
FT_TABLE(functions, struct function, 1024, hash_of, is_used, is_same)

static struct functions functions;

static void note_call(const char *name, PyObject *const *args, Py_ssize_t n, PyObject *result, bool one_pass)
{
    bool arrays = np_is_array(result);
    for (Py_ssize_t i = 0; i < n && !arrays; i++)
        arrays = np_is_array(args[i]);
    if (!arrays)
        return;
    struct agent_call call = {.name = name, .args = args, .n_args = n, .result = result};
    agent_record_begin();
    if (!linear_call(name, args, n, NULL, &result, 1)) {
        agent_unseen();
        if (one_pass)
            np_one_pass(name, NULL, 0, result);
    }
    np_record_end(&call);
}

static PyObject *hooked_call(PyObject *object, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    const struct function *function = functions_at(&functions, &(struct function){.object = object});
    const char *name = function->name; /* the table can move meanwhile */
    if (agent_hook_running())
        return function->original(object, args, nargsf, kwnames);
    const struct agent_named named = agent_named_begin(name);
    PyObject *result = function->original(object, args, nargsf, kwnames);
    const bool outermost = agent_hook_end(named.outer);
    if (outermost && result)
        note_call(name, args, PyVectorcall_NARGS(nargsf) + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0), result,
                  !Py_IS_TYPE(object, np.ufunc));
    agent_named_end(&named, outermost);
    return result;
}

/* "numpy.random.Generator.random" for Generator.random of numpy.random._generator, also where another module has it. */
static char *name_of(PyObject *object, const char *module)
{
    PyObject *qualified = PyObject_GetAttrString(object, "__qualname__");
    PyObject *home = PyObject_GetAttrString(object, "__module__");
    PyErr_Clear();
    if (home && PyUnicode_Check(home) && PyUnicode_AsUTF8(home))
        module = PyUnicode_AsUTF8(home);
    const char *own = qualified && PyUnicode_Check(qualified) ? PyUnicode_AsUTF8(qualified) : NULL;
    const char *private = strstr(module, "._");
    size_t length = private ? (size_t)(private - module) : strlen(module);
    char *name = own ? malloc(length + strlen(own) + 2) : NULL;
    if (name) {
        memcpy(name, module, length);
        name[length] = '.';
        strcpy(name + length + 1, own);
    }
    Py_XDECREF(qualified);
    Py_XDECREF(home);
    PyErr_Clear();
    return name;
}

/* Whether an object is of this type, of whichever version of Cython. */
static bool is_of(PyObject *object, const char *suffix)
{
    const char *name = Py_TYPE(object)->tp_name;
    size_t length = strlen(name), suffix_length = strlen(suffix);
    return length >= suffix_length && strcmp(name + length - suffix_length, suffix) == 0;
}

bool cython_hook_object(PyObject *object, char *name)
{
    Py_ssize_t offset = Py_TYPE(object)->tp_vectorcall_offset;
    vectorcallfunc *function = offset > 0 ? (vectorcallfunc *)((char *)object + offset) : NULL;
    if (!name || !function || !*function || *function == hooked_call || !functions_make_room(&functions))
        return false;
    const struct function added = {Py_NewRef(object), *function, name};
    *functions_at(&functions, &added) = added;
    functions.used++;
    *function = hooked_call;
    return true;
}

static void hook(PyObject *object, const char *module)
{
    char *name = name_of(object, module);
    if (!cython_hook_object(object, name))
        free(name);
}

static void note_method(const struct agent_call *call)
{
    note_call(call->name, call->args, call->n_args, call->result, true);
}

static void hook_method(PyObject *method, const char *module)
{
    char *name = name_of(method, module);
    if (name && agent_hook_callable(method, name, note_method) != AGENT_HOOKED)
        free(name);
}

/* A function, or the one in a static or class method: a reference of its own. NULL if it has none. */
static PyObject *inner_of(PyObject *value)
{
    if (!Py_IS_TYPE(value, &PyStaticMethod_Type) && !Py_IS_TYPE(value, &PyClassMethod_Type))
        return Py_NewRef(value);
    PyObject *function = PyObject_GetAttrString(value, "__func__");
    PyErr_Clear();
    return function;
}

static void hook_dict(PyObject *dict, const char *module, bool with_types)
{
    PyObject *key, *value;
    for (Py_ssize_t at = 0; PyDict_Next(dict, &at, &key, &value);) {
        PyObject *function = inner_of(value);
        if (function && is_of(function, "fused_cython_function")) /* one for each type of its arguments */
            other_hook_called(Py_TYPE(function), NULL);
        else if (function && is_of(function, "cython_function_or_method"))
            hook(function, module);
        else if (!with_types && Py_IS_TYPE(value, &PyMethodDescr_Type) && strncmp(module, "numpy.random.", 13) == 0)
            hook_method(value, module);
        else if (with_types && PyType_Check(value) && ((PyTypeObject *)value)->tp_dict)
            hook_dict(((PyTypeObject *)value)->tp_dict, module, false);
        Py_XDECREF(function);
    }
}

void cython_install(PyObject *module, const char *name)
{
    hook_dict(PyModule_GetDict(module), name, true);
}
