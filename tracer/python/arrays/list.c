/* What subscripts of lists touch: the slots, which hold references, not the objects referred to.
 *
 * The markers core shows a subscript before it happens, so it is for us to know whether it will succeed. Keys that only
 * Python code could tell the meaning of (objects with an __index__ of their own) are counted as unseen.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "tracer/python/blocks/bytecode.h"
#include "key.h"
#include "tracer/python/blocks/markers.h"

#define SLOT_BYTES ((int64_t)sizeof(PyObject *))

const char LIST_GETITEM[] = "list.__getitem__", LIST_SETITEM[] = "list.__setitem__";
static const char DELETE[] = "list.__delitem__";

static const char *name_of(uint32_t kind)
{
    return kind == MARKER_LOAD ? LIST_GETITEM : kind == MARKER_STORE ? LIST_SETITEM : DELETE;
}

/* Whether a type finds the method that lists have under a name (slots do not tell: a subclass looks __getitem__ up). */
static bool has_list_method(PyTypeObject *type, PyObject *name)
{
    return name && _PyType_Lookup(type, name) == _PyType_Lookup(&PyList_Type, name);
}

bool list_is_like(PyObject *container)
{
    static PyObject *get, *set;
    if (PyList_CheckExact(container))
        return true;
    if (!PyList_Check(container))
        return false;
    if (!set) {
        get = PyUnicode_InternFromString("__getitem__");
        set = PyUnicode_InternFromString("__setitem__");
        PyErr_Clear();
    }
    return has_list_method(Py_TYPE(container), get) && has_list_method(Py_TYPE(container), set);
}

/* A run of slots. */
static void write_run(const char *name, PyObject *const *first, Py_ssize_t step, Py_ssize_t n, bool store)
{
    struct agent_bulk bulk;
    const int64_t extent = n, stride = step * SLOT_BYTES;
    agent_bulk_begin(&bulk, name, 1, &extent);
    agent_bulk_add(&bulk, first, &stride, SLOT_BYTES, store);
    agent_bulk_write(&bulk, NULL);
}

/* The slots behind those deleted move down. */
static void write_move(PyObject *const *items, Py_ssize_t n, Py_ssize_t deleted, Py_ssize_t begin)
{
    struct agent_bulk bulk;
    const int64_t extent = n - begin - deleted, stride = SLOT_BYTES;
    agent_bulk_begin(&bulk, DELETE, 1, &extent);
    agent_bulk_add(&bulk, items + begin + deleted, &stride, SLOT_BYTES, false);
    agent_bulk_add(&bulk, items + begin, &stride, SLOT_BYTES, true);
    agent_bulk_write(&bulk, NULL);
}

static bool is_plain(PyObject *part)
{
    return part == Py_None || PyLong_Check(part);
}

static void observe_slice(PyListObject *list, PyObject *key, uint32_t kind)
{
    const PySliceObject *slice = (const PySliceObject *)key;
    Py_ssize_t begin, end, step;
    if (!is_plain(slice->start) || !is_plain(slice->stop) || !is_plain(slice->step)) {
        agent_count_unseen(name_of(kind), 0, false);
        return;
    }
    if (PySlice_Unpack(key, &begin, &end, &step) < 0) {
        PyErr_Clear(); /* it will be raised again */
        return;
    }
    Py_ssize_t n = PySlice_AdjustIndices(Py_SIZE(list), &begin, &end, step);
    if (kind != MARKER_DELETE)
        write_run(name_of(kind), list->ob_item + begin, step, n, kind == MARKER_STORE);
    else if (n > 0 && step == 1)
        write_move(list->ob_item, Py_SIZE(list), n, begin);
    else if (n > 0)
        agent_count_unseen(DELETE, (uint64_t)(Py_SIZE(list) - begin) * sizeof(PyObject *), false);
}

/* The index that a key means; false if it means none, or is no plain integer. */
static inline bool index_of(PyObject *key, Py_ssize_t length, int64_t *index)
{
    if (!PyLong_Check(key) && !(np.array && key_is_integer(key)))
        return false;
    if (!key_integer(key, index))
        return false;
    *index += *index < 0 ? length : 0;
    return *index >= 0 && *index < length;
}

void list_observe(struct agent_site *site, uint32_t kind, uint32_t block, PyObject *container, PyObject *key)
{
    PyListObject *list = (PyListObject *)container;
    int64_t i;
    if (PySlice_Check(key)) {
        observe_slice(list, key, kind);
    } else if (index_of(key, Py_SIZE(list), &i)) {
        uint32_t id = kind == MARKER_DELETE ? 0
                                            : agent_site_operation(site, name_of(kind), block, SLOT_BYTES,
                                                                   kind == MARKER_STORE, !PyLong_Check(key));
        if (id)
            agent_write_element(id, list->ob_item + i);
        else if (kind == MARKER_DELETE)
            write_move(list->ob_item, Py_SIZE(list), 1, i);
    } else if (!PyLong_Check(key) && PyIndex_Check(key) && !(np.array && key_is_integer(key))) {
        agent_count_unseen(name_of(kind), sizeof(PyObject *), false);
    }
}
