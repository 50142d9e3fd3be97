/* Hooks what reads single elements past a subscript: `array.flat`, and an array of one element taken as a number.
 *
 * The place of an iterator is at the beginning of NumPy's structure; its array is asked for by attribute.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "key.h"

struct np_flat {
    PyObject_HEAD
    int last_dim;
    Py_ssize_t index, n_elements;
};

static const char FLAT_NEXT[] = "numpy.flatiter.__next__", FLAT_GET[] = "numpy.flatiter.__getitem__";
static const char FLAT_SET[] = "numpy.flatiter.__setitem__", NUMBER[] = "numpy.ndarray.__float__";

static iternextfunc original_next;
static binaryfunc original_get;
static objobjargproc original_set;
static inquiry original_bool;
static unaryfunc original_int, original_float, original_index;

int64_t np_flat_offset(const struct np_array *array, int64_t i)
{
    int64_t offset = 0;
    for (int d = array->nd; d-- > 0;) {
        offset += i % array->dimensions[d] * array->strides[d];
        i /= array->dimensions[d];
    }
    return offset;
}

/* The array of an iterator, with a reference; NULL if there is none. */
static PyObject *base_of(PyObject *flat)
{
    PyObject *base = PyObject_GetAttrString(flat, "base");
    if (!base || !np_is_array(base))
        Py_CLEAR(base);
    PyErr_Clear();
    return base;
}

static PyObject *hooked_next(PyObject *self)
{
    int64_t i = ((struct np_flat *)self)->index;
    PyObject *result = original_next(self), *base = result ? base_of(self) : NULL;
    if (base) {
        const struct np_array *array = (const struct np_array *)base;
        agent_write_access(FLAT_NEXT, array->data, np_flat_offset(array, i), np_item_bytes(array), false, false);
        Py_DECREF(base);
    }
    return result;
}

/* The elements that a key picks: `count` of them, `step` apart. False if it picks others. */
static bool picked(PyObject *key, int64_t size, int64_t *first, int64_t *step, int64_t *count)
{
    Py_ssize_t start, stop, by;
    *count = *step = 1;
    if (key_is_integer(key) && key_integer(key, first)) {
        *first += *first < 0 ? size : 0;
        return true;
    }
    if (!PySlice_Check(key) || PySlice_Unpack(key, &start, &stop, &by) != 0) {
        PyErr_Clear();
        return false;
    }
    *count = PySlice_AdjustIndices((Py_ssize_t)size, &start, &stop, by);
    *first = start;
    *step = by;
    return true;
}

/* `other` is what the elements are copied to or from, NULL if that is no array. */
static void record_flat(const char *name, PyObject *flat, PyObject *key, const struct np_array *other, bool store)
{
    PyObject *base = base_of(flat);
    const struct np_array *array = (const struct np_array *)base;
    int64_t first, step, count;
    struct agent_bulk bulk;
    if (!base || !picked(key, np_size(array), &first, &step, &count) ||
        (count > 1 && !(array->flags & NP_C_CONTIGUOUS) && array->nd > 1)) {
        agent_unseen();
    } else if (count > 0) {
        int64_t element = array->nd ? array->strides[array->nd - 1] : 0;
        const int64_t stride = step * element, other_stride = other && other->nd == 1 ? other->strides[0] : 0;
        agent_bulk_begin(&bulk, name, 1, &count);
        if (store && other)
            agent_bulk_add(&bulk, other->data, &other_stride, np_item_bytes(other), false);
        agent_bulk_add(&bulk, array->data + np_flat_offset(array, first), &stride, np_item_bytes(array), store);
        if (!store && other)
            agent_bulk_add(&bulk, other->data, &other_stride, np_item_bytes(other), true);
        agent_bulk_write(&bulk, NULL);
    }
    Py_XDECREF(base);
}

static PyObject *hooked_get(PyObject *self, PyObject *key)
{
    const void *outer = agent_hook_begin();
    PyObject *result = original_get(self, key);
    if (agent_hook_end(outer) && result) {
        agent_record_begin();
        record_flat(FLAT_GET, self, key, np_as_array(result), false);
        np_record_end(&(struct agent_call){.name = FLAT_GET, .args = &key, .n_args = 1, .result = result});
    }
    return result;
}

static int hooked_set(PyObject *self, PyObject *key, PyObject *value)
{
    const void *outer = agent_hook_begin();
    int status = original_set(self, key, value);
    if (agent_hook_end(outer) && status == 0 && value) {
        PyObject *args[] = {key, value};
        const struct np_array *from = np_as_array(value);
        agent_record_begin();
        if (from && from->nd > 1)
            agent_unseen(); /* it is repeated, in an order of its own */
        else
            record_flat(FLAT_SET, self, key, from, true);
        np_record_end(&(struct agent_call){.name = FLAT_SET, .args = args, .n_args = 2});
    }
    return status;
}

/* ---- numbers ---------------------------------------------------------------------------------------------------- */

static void record_number(PyObject *self, bool done)
{
    const struct np_array *array = (const struct np_array *)self;
    if (done && np_size(array) == 1)
        agent_write_access(NUMBER, array->data, 0, np_item_bytes(array), false, false);
}

static int hooked_bool(PyObject *self)
{
    const void *outer = agent_hook_begin();
    int result = original_bool(self);
    if (agent_hook_end(outer))
        record_number(self, result >= 0);
    return result;
}

#define NUMBER_SLOT(kind) \
    static PyObject *hooked_##kind(PyObject *self) \
    { \
        const void *outer = agent_hook_begin(); \
        PyObject *result = original_##kind(self); \
        if (agent_hook_end(outer)) \
            record_number(self, result != NULL); \
        return result; \
    }

NUMBER_SLOT(int)
NUMBER_SLOT(float)
NUMBER_SLOT(index)

/* ---- installation ----------------------------------------------------------------------------------------------- */

/* Sends a slot's method in Python, `type.name`, the same way as the slot. */
#define REWRAP(type, name, original, hooked) rewrap(type, name, (void *)(original), (void *)(hooked))

static void rewrap(PyTypeObject *type, const char *name, void *original, void *hooked)
{
    PyObject *wrapper = PyDict_GetItemString(type->tp_dict, name);
    if (wrapper && Py_IS_TYPE(wrapper, &PyWrapperDescr_Type) &&
        ((PyWrapperDescrObject *)wrapper)->d_wrapped == original)
        ((PyWrapperDescrObject *)wrapper)->d_wrapped = hooked;
}

static void hook_numbers(PyNumberMethods *number)
{
    if (!number || !number->nb_bool || !number->nb_int || !number->nb_float || !number->nb_index)
        return;
    original_bool = number->nb_bool;
    original_int = number->nb_int;
    original_float = number->nb_float;
    original_index = number->nb_index;
    number->nb_bool = hooked_bool;
    number->nb_int = hooked_int;
    number->nb_float = hooked_float;
    number->nb_index = hooked_index;
    REWRAP(np.array, "__bool__", original_bool, hooked_bool);
    REWRAP(np.array, "__int__", original_int, hooked_int);
    REWRAP(np.array, "__float__", original_float, hooked_float);
    REWRAP(np.array, "__index__", original_index, hooked_index);
}

void flat_install(PyObject *some_array)
{
    PyObject *flat = PyObject_GetAttrString(some_array, "flat");
    PyTypeObject *type = flat ? Py_TYPE(flat) : NULL;
    PyMappingMethods *mapping = type ? type->tp_as_mapping : NULL;
    const struct np_flat *fields = (const struct np_flat *)flat;
    bool known = mapping && mapping->mp_subscript && mapping->mp_ass_subscript && type->tp_iternext &&
                 type->tp_basicsize > (Py_ssize_t)sizeof *fields && fields->index == 0 &&
                 fields->n_elements == np_size((struct np_array *)some_array) &&
                 fields->last_dim == ((struct np_array *)some_array)->nd - 1;
    if (known && mapping->mp_subscript != hooked_get) {
        original_get = mapping->mp_subscript;
        original_set = mapping->mp_ass_subscript;
        original_next = type->tp_iternext;
        mapping->mp_subscript = hooked_get;
        mapping->mp_ass_subscript = hooked_set;
        type->tp_iternext = hooked_next;
        REWRAP(type, "__getitem__", original_get, hooked_get);
        REWRAP(type, "__setitem__", original_set, hooked_set);
        REWRAP(type, "__next__", original_next, hooked_next);
        hook_numbers(np.array->tp_as_number);
    }
    Py_XDECREF(flat);
    PyErr_Clear();
}
