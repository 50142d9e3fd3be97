/* Hooks NumPy: the type slots of ndarray, the vectorcall of every ufunc, and the method tables.
 *
 * `ufuncs` maps each hooked ufunc to its full name: open addressing, at most half full, entries are never removed (the
 * table keeps the ufuncs alive). All ufuncs have one vectorcall function, NumPy's own.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "waits.h"
#include "buffers.h"
#include "numpy.h"
#include "tracer/python/extensions/extensions.h"
#include "tracer/python/processes.h"

#include <stdlib.h>
#include <string.h>

#define MAX_ARRAYS_OF_CALL 64 /* that are counted of a list of arrays */

struct ufunc_entry {
    PyObject *ufunc;
    const char *name[NP_N_METHODS]; /* NULL until first asked for, but for the first */
    struct np_cost cost;
};

struct np_state np;

static inline uint64_t hash_of(const struct ufunc_entry *entry)
{
    return ft_hash_pointer(entry->ufunc);
}

static inline bool is_used(const struct ufunc_entry *entry)
{
    return entry->ufunc;
}

static inline bool is_same(const struct ufunc_entry *one, const struct ufunc_entry *other)
{
    return one->ufunc == other->ufunc;
}

FT_TABLE_TYPE(ufuncs, struct ufunc_entry);
FT_TABLE(ufuncs, struct ufunc_entry, 1024, hash_of, is_used, is_same)

static struct ufuncs ufuncs;

static vectorcallfunc original_vectorcall;
static binaryfunc original_subscript;
static objobjargproc original_assign;
static ssizeargfunc original_item;
static ssizeobjargproc original_assign_item;

int64_t np_load_integer(const char *at, int64_t item_bytes, char kind)
{
    union {
        int8_t i1;
        int16_t i2;
        int32_t i4;
        int64_t i8;
        uint8_t u1;
        uint16_t u2;
        uint32_t u4;
    } value = {.i8 = 0};
    memcpy(&value, at, (size_t)item_bytes);
    bool is_signed = kind == 'i';
    switch (item_bytes) {
    case 1: return is_signed ? (int64_t)value.i1 : (int64_t)value.u1;
    case 2: return is_signed ? (int64_t)value.i2 : (int64_t)value.u2;
    case 4: return is_signed ? (int64_t)value.i4 : (int64_t)value.u4;
    default: return value.i8;
    }
}

static uint64_t array_bytes(PyObject *object)
{
    const struct np_array *array = np_as_array(object);
    uint64_t bytes = array ? (uint64_t)(np_size(array) * np_item_bytes(array)) : 0;
    bool sequence = object && (PyTuple_CheckExact(object) || PyList_CheckExact(object));
    for (Py_ssize_t i = 0; sequence && i < PySequence_Fast_GET_SIZE(object) && i < MAX_ARRAYS_OF_CALL; i++) {
        const struct np_array *item = np_as_array(PySequence_Fast_GET_ITEM(object, i));
        bytes += item ? (uint64_t)(np_size(item) * np_item_bytes(item)) : 0;
    }
    return bytes;
}

uint64_t np_call_bytes(const struct agent_call *call)
{
    PyObject *name, *value;
    uint64_t bytes = array_bytes(call->self) + (call->result != call->self ? array_bytes(call->result) : 0);
    Py_ssize_t n = call->n_args + (call->kwnames ? PyTuple_GET_SIZE(call->kwnames) : 0);
    for (Py_ssize_t i = 0; i < n; i++)
        bytes += call->args[i] != call->result ? array_bytes(call->args[i]) : 0;
    for (Py_ssize_t at = 0; call->kwargs && PyDict_Next(call->kwargs, &at, &name, &value);)
        bytes += value != call->result ? array_bytes(value) : 0;
    return bytes;
}

/* Nothing is missed of a call without arrays: it has converted Python's objects. A subscript has its array besides. */
void np_count_unseen(const struct agent_call *call)
{
    uint64_t bytes = np_call_bytes(call);
    if (bytes || call->name == NP_GETITEM || call->name == NP_SETITEM)
        agent_count_unseen(call->name, bytes, agent_thread.wrote);
}

/* ---- ufuncs ----------------------------------------------------------------------------------------------------- */

static void record_ufunc_call(struct agent_call *call)
{
    struct np_cost cost;
    agent_record_begin();
    np_ufunc_call(call);
    if (agent_thread.unseen && (call->name = np_ufunc_name(call->self, NP_CALL, &cost)))
        np_count_unseen(call);
    agent_record_end();
}

static PyObject *hooked_vectorcall(PyObject *ufunc, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    const void *outer = agent_hook_begin();
    PyObject *result = original_vectorcall(ufunc, args, nargsf, kwnames);
    if (agent_hook_end(outer) && result) {
        struct agent_call call = {
            .self = ufunc, .args = args, .n_args = PyVectorcall_NARGS(nargsf), .kwnames = kwnames, .result = result};
        record_ufunc_call(&call);
    }
    return result;
}

static vectorcallfunc *vectorcall_of(PyObject *ufunc)
{
    Py_ssize_t offset = Py_TYPE(ufunc)->tp_vectorcall_offset;
    return offset > 0 ? (vectorcallfunc *)((char *)ufunc + offset) : NULL;
}

char *np_full_name(const char *module, const char *name)
{
    const char *cut = strstr(module, "._");
    size_t length = strncmp(module, "numpy.", 6) == 0 && strstr(module, "_multiarray_umath") ? 5
                    : cut                                                                    ? (size_t)(cut - module)
                                                                                             : strlen(module);
    char *text = malloc(length + strlen(name) + 2);
    if (text) {
        memcpy(text, module, length);
        text[length] = '.';
        strcpy(text + length + 1, name);
    }
    return text;
}

static struct np_cost cost_of(const char *name)
{
    static const struct {
        const char *name;
        struct np_cost cost;
    } costs[] = {
        {"add", {1, 2, false}},     {"subtract", {1, 2, false}},     {"multiply", {1, 6, false}},
        {"divide", {1, 10, false}}, {"square", {1, 6, false}},       {"reciprocal", {1, 10, false}},
        {"sqrt", {1, 0, false}},    {"floor_divide", {1, 0, false}}, {"remainder", {1, 0, false}},
        {"fmod", {1, 0, false}},
    };
    for (size_t i = 0; i < sizeof costs / sizeof *costs; i++)
        if (strcmp(costs[i].name, name) == 0)
            return costs[i].cost;
    return (struct np_cost){0, 0, false};
}

const char *np_ufunc_name(PyObject *ufunc, enum np_method method, struct np_cost *cost)
{
    static const char *const suffix[] = {"", ".reduce", ".accumulate", ".reduceat", ".outer", ".at"};
    struct ufunc_entry *entry = ufuncs.used ? ufuncs_at(&ufuncs, &(struct ufunc_entry){.ufunc = ufunc}) : NULL;
    if (!entry || !entry->ufunc)
        return NULL;
    if (!entry->name[method]) {
        char *text = malloc(strlen(entry->name[NP_CALL]) + strlen(suffix[method]) + 1);
        if (!text)
            return NULL;
        entry->name[method] = strcat(strcpy(text, entry->name[NP_CALL]), suffix[method]);
    }
    *cost = entry->cost;
    return entry->name[method];
}

static bool is_generalised(PyObject *ufunc)
{
    PyObject *signature = PyObject_GetAttrString(ufunc, "signature");
    bool generalised = signature && signature != Py_None;
    Py_XDECREF(signature);
    PyErr_Clear();
    return generalised;
}

static void hook_ufunc(PyObject *ufunc, const char *module, const char *name)
{
    vectorcallfunc *function = vectorcall_of(ufunc);
    if (!function || *function == hooked_vectorcall)
        return;
    if (!original_vectorcall)
        original_vectorcall = *function;
    if (*function != original_vectorcall || !ufuncs_make_room(&ufuncs))
        return;
    struct ufunc_entry *entry = ufuncs_at(&ufuncs, &(struct ufunc_entry){.ufunc = ufunc});
    entry->name[NP_CALL] = np_full_name(module, name);
    if (!entry->name[NP_CALL])
        return;
    entry->cost = cost_of(name);
    entry->cost.generalised = is_generalised(ufunc);
    entry->ufunc = Py_NewRef(ufunc);
    ufuncs.used++;
    *function = hooked_vectorcall;
}

static void hook_ufuncs_of(PyObject *module, const char *module_name)
{
    PyObject *key, *value, *dict = PyModule_GetDict(module);
    for (Py_ssize_t at = 0; PyDict_Next(dict, &at, &key, &value);) {
        if (!Py_IS_TYPE(value, np.ufunc))
            continue;
        PyObject *own = PyObject_GetAttrString(value, "__name__");
        const char *name = own && PyUnicode_Check(own) ? PyUnicode_AsUTF8(own) : NULL;
        if (name)
            hook_ufunc(value, module_name, name);
        Py_XDECREF(own);
    }
    PyErr_Clear();
}

/* ---- type slots ------------------------------------------------------------------------------------------------- */

static PyObject *hooked_subscript(PyObject *self, PyObject *key)
{
    if (agent_take_site(self) && !agent_thread.site)
        return original_subscript(self, key);
    const void *outer = agent_hook_begin();
    PyObject *result = original_subscript(self, key);
    if (agent_hook_end(outer) && result) {
        agent_record_begin();
        np_get(self, key, result);
        np_record_end(&(struct agent_call){.name = NP_GETITEM, .args = &key, .n_args = 1, .result = result});
    }
    return result;
}

/* Built-in functions take an array's elements one by one. Nothing is timed here: that would take longer than they do.
 */
static PyObject *hooked_item(PyObject *self, Py_ssize_t i)
{
    PyObject *result = original_item(self, i);
    if (result && !agent_hook_running()) {
        const struct np_array *array = (const struct np_array *)self;
        if (i < 0 && array->nd == 1)
            i += array->dimensions[0];
        if (array->nd == 1 && !np_is_array(result))
            agent_write_access(NP_GETITEM, array->data, i * array->strides[0], np_item_bytes(array), false, false);
    }
    return result;
}

static void record_assign(PyObject *self, PyObject *key, PyObject *value)
{
    PyObject *args[] = {key, value};
    agent_record_begin();
    np_set(self, key, value);
    np_record_end(&(struct agent_call){.name = NP_SETITEM, .args = args, .n_args = 2});
}

static int hooked_assign(PyObject *self, PyObject *key, PyObject *value)
{
    struct agent_site *const site = agent_thread.site;
    const uint32_t block = agent_thread.site_block;
    const char *const element = agent_thread.element;
    const int64_t bytes = agent_take_site(self) ? agent_thread.element_bytes : 0;
    if (bytes && (agent_is_number(value) || (value && !np_is_array(value)))) {
        int stored = original_assign(self, key, value);
        if (stored == 0)
            agent_write_at_site(site, NP_SETITEM, block, element, bytes, true);
        return stored;
    }
    const void *outer = agent_hook_begin();
    int status = original_assign(self, key, value);
    if (agent_hook_end(outer) && status == 0 && value)
        record_assign(self, key, value);
    return status;
}

static int hooked_assign_item(PyObject *self, Py_ssize_t i, PyObject *value)
{
    const void *outer = agent_hook_begin();
    int status = original_assign_item(self, i, value);
    if (agent_hook_end(outer) && status == 0 && value) {
        PyObject *key = PyLong_FromSsize_t(i);
        if (key)
            record_assign(self, key, value);
        else
            PyErr_Clear();
        Py_XDECREF(key);
    }
    return status;
}

/* What may point at each slot's function: the type itself, its subclasses, and the wrapper that is the type's method.
 */
static void hook_slots(PyTypeObject *type)
{
    PyMappingMethods *mapping = type->tp_as_mapping;
    PySequenceMethods *sequence = type->tp_as_sequence;
    if (mapping && mapping->mp_subscript == original_subscript)
        mapping->mp_subscript = hooked_subscript;
    if (mapping && mapping->mp_ass_subscript == original_assign)
        mapping->mp_ass_subscript = hooked_assign;
    if (sequence && sequence->sq_item == original_item)
        sequence->sq_item = hooked_item;
    if (sequence && sequence->sq_ass_item == original_assign_item)
        sequence->sq_ass_item = hooked_assign_item;
    PyObject *subclasses = PyObject_CallMethod((PyObject *)type, "__subclasses__", NULL);
    for (Py_ssize_t i = 0; subclasses && i < PyList_GET_SIZE(subclasses); i++)
        if (PyType_Check(PyList_GET_ITEM(subclasses, i)))
            hook_slots((PyTypeObject *)PyList_GET_ITEM(subclasses, i));
    Py_XDECREF(subclasses);
    PyErr_Clear();
}

static void hook_wrapper(const char *name)
{
    PyObject *wrapper = PyDict_GetItemString(np.array->tp_dict, name);
    if (!wrapper || !Py_IS_TYPE(wrapper, &PyWrapperDescr_Type))
        return;
    PyWrapperDescrObject *descriptor = (PyWrapperDescrObject *)wrapper;
    if (descriptor->d_wrapped == (void *)original_subscript)
        descriptor->d_wrapped = (void *)hooked_subscript;
    else if (descriptor->d_wrapped == (void *)original_assign)
        descriptor->d_wrapped = (void *)hooked_assign;
    else if (descriptor->d_wrapped == (void *)original_item)
        descriptor->d_wrapped = (void *)hooked_item;
    else if (descriptor->d_wrapped == (void *)original_assign_item)
        descriptor->d_wrapped = (void *)hooked_assign_item;
}

static bool hook_array_type(void)
{
    PyMappingMethods *mapping = np.array->tp_as_mapping;
    PySequenceMethods *sequence = np.array->tp_as_sequence;
    if (!mapping || !sequence || !mapping->mp_subscript || !mapping->mp_ass_subscript || !sequence->sq_item ||
        !sequence->sq_ass_item)
        return false;
    original_subscript = mapping->mp_subscript;
    original_assign = mapping->mp_ass_subscript;
    original_item = sequence->sq_item;
    original_assign_item = sequence->sq_ass_item;
    hook_slots(np.array);
    hook_wrapper("__getitem__");
    hook_wrapper("__setitem__");
    return true;
}

/* ---- installation ----------------------------------------------------------------------------------------------- */

/* Whether our picture of an array is NumPy's: `array` is int16 [3, 5], and the buffer protocol tells its truth. */
static bool layout_agrees(PyObject *object)
{
    Py_buffer truth;
    if (!np_is_array(object) || PyObject_GetBuffer(object, &truth, PyBUF_FULL_RO) != 0)
        return false;
    const struct np_array *array = (const struct np_array *)object;
    bool agrees = array->data == truth.buf && array->nd == 2 && truth.ndim == 2 && array->dtype &&
                  array->dimensions[0] == truth.shape[0] && array->dimensions[1] == truth.shape[1] &&
                  array->strides[0] == truth.strides[0] && array->strides[1] == truth.strides[1] &&
                  array->dtype->kind == 'i' && np_item_bytes(array) == truth.itemsize && truth.itemsize == 2 &&
                  (array->flags & 0xff) == NP_C_CONTIGUOUS + 4; /* NPY_ARRAY_OWNDATA */
    PyBuffer_Release(&truth);
    return agrees;
}

static bool check_layout(PyObject *module)
{
    bool agrees = false;
    PyObject *array = PyObject_CallMethod(module, "empty", "(ii)s", 3, 5, "i2");
    np.version_1 = strncmp(PyModule_GetName(module), "numpy.core.", 11) == 0;
    agrees = array && layout_agrees(array);
    if (array && !agrees && np.version_1) { /* NumPy 2 under an old name */
        np.version_1 = false;
        agrees = layout_agrees(array);
    }
    Py_XDECREF(array);
    PyObject *add = PyObject_GetAttrString(module, "add");
    const struct np_ufunc *ufunc = (const struct np_ufunc *)add;
    agrees = agrees && add && Py_IS_TYPE(add, np.ufunc) && ufunc->nin == 2 && ufunc->nout == 1 && ufunc->nargs == 3;
    Py_XDECREF(add);
    PyErr_Clear();
    return agrees;
}

static PyTypeObject *type_named(PyObject *module, const char *name)
{
    PyObject *type = PyObject_GetAttrString(module, name);
    if (type && !PyType_Check(type))
        Py_CLEAR(type);
    PyErr_Clear();
    return (PyTypeObject *)type; /* kept for good */
}

/* numpy.generic is not in the module: it is what the scalar types have in common. */
static PyTypeObject *scalar_base(PyObject *module)
{
    PyObject *dtype = PyObject_CallMethod(module, "dtype", "s", "i2");
    PyTypeObject *type = dtype ? ((struct np_dtype *)dtype)->scalar_type : NULL;
    while (type && type->tp_base && type->tp_base != &PyBaseObject_Type)
        type = type->tp_base;
    Py_XDECREF(dtype);
    PyErr_Clear();
    return type;
}

static void install_numpy(PyObject *module)
{
    np.array = type_named(module, "ndarray");
    PyObject *add = PyObject_GetAttrString(module, "add");
    np.ufunc = add ? Py_TYPE(add) : NULL; /* the module gets its name "ufunc" only later */
    Py_XDECREF(add);
    np.as_array = PyObject_GetAttrString(module, "asarray");
    np.array_ufunc = np.array ? PyDict_GetItemString(np.array->tp_dict, "__array_ufunc__") : NULL;
    bool known = np.array && np.ufunc && np.as_array && np.array_ufunc && check_layout(module);
    np.scalar = known ? scalar_base(module) : NULL;
    PyErr_Clear();
    if (!np.scalar || !hook_array_type()) {
        np.ufunc = NULL;
        agent_count_unseen("numpy (of a layout that is not known)", 0, false);
        return;
    }
    np_install_methods(module);
    allocations_install(module);
    PyObject *array = PyObject_CallMethod(module, "empty", "(ii)s", 3, 5, "i2");
    if (array)
        flat_install(array);
    Py_XDECREF(array);
    PyErr_Clear();
}

void agent_module_loaded(PyObject *module)
{
    waits_module_loaded(module);
    const char *name = PyModule_Check(module) ? PyModule_GetName(module) : NULL;
    if (!name) {
        PyErr_Clear();
        return;
    }
    buffers_module_loaded(module, name);
    processes_module_loaded(module, name);
    if (!np.array &&
        (strcmp(name, "numpy._core._multiarray_umath") == 0 || strcmp(name, "numpy.core._multiarray_umath") == 0))
        install_numpy(module);
    if (np.ufunc)
        hook_ufuncs_of(module, name);
    cython_install(module, name);
    if (strcmp(name, "scipy.sparse._sparsetools") == 0)
        sparse_install(module);
    other_install(module, name);
    extensions_module_loaded(module, name);
}
