/* Subscripts of array.array, bytearray and memoryview, caught in the types' slots.
 *
 * All three are one piece of memory to be walked with a stride, so one description serves: a `view`. Elements of a
 * memoryview with more than one dimension go by a tuple of integers, as in NumPy.
 *
 * The slots of a type, those that subclasses have inherited and those that the type's methods wrap point at the same
 * function; each type keeps its originals in a `hooked_type`.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "buffers.h"
#include "key.h"

#include <string.h>

#define MAX_TYPES 8 /* a fresh import of `array` (in another interpreter, or after it was deleted) has a type of its own */

struct view {
    char *data;
    int nd;
    int64_t item_bytes;
    const Py_ssize_t *shape, *strides; /* strides may be NULL: contiguous, one dimension */
    Py_ssize_t length;                 /* where shape is NULL */
};

struct array_object { /* Modules/arraymodule.c: arrayobject */
    PyObject_VAR_HEAD
    char *items;
    Py_ssize_t allocated;
    const struct {
        char typecode;
        int item_bytes;
    } *description;
};

struct hooked_type {
    PyTypeObject *type;
    bool (*look)(PyObject *object, struct view *view);
    const char *load, *store;
    binaryfunc subscript;
    objobjargproc assign;
    ssizeargfunc item;
    ssizeobjargproc assign_item;
};

static struct hooked_type hooked[MAX_TYPES];
static unsigned n_hooked;

static const struct hooked_type *recent = hooked; /* what was asked for last: mostly what will be next */

static __attribute__((noinline)) const struct hooked_type *find_hook(PyTypeObject *type)
{
    for (unsigned k = 0; k < n_hooked; k++)
        if (type == hooked[k].type)
            return recent = &hooked[k];
    for (unsigned k = 0; k < n_hooked; k++)
        if (PyType_IsSubtype(type, hooked[k].type))
            return &hooked[k];
    return NULL;
}

static inline const struct hooked_type *hook_of(PyObject *self)
{
    return Py_IS_TYPE(self, recent->type) ? recent : find_hook(Py_TYPE(self));
}

/* ---- what lies behind an object --------------------------------------------------------------------------------- */

static bool look_at_bytearray(PyObject *object, struct view *view)
{
    *view = (struct view){
        .data = PyByteArray_AS_STRING(object), .nd = 1, .item_bytes = 1, .length = PyByteArray_GET_SIZE(object)};
    return true;
}

static bool look_at_array(PyObject *object, struct view *view)
{
    const struct array_object *array = (const struct array_object *)object;
    *view = (struct view){
        .data = array->items, .nd = 1, .item_bytes = array->description->item_bytes, .length = Py_SIZE(object)};
    return true;
}

static bool look_at_memoryview(PyObject *object, struct view *view)
{
    const Py_buffer *buffer = PyMemoryView_GET_BUFFER(object);
    *view = (struct view){.data = buffer->buf,
                          .nd = buffer->ndim,
                          .item_bytes = buffer->itemsize,
                          .shape = buffer->shape,
                          .strides = buffer->strides};
    return buffer->shape && buffer->strides && !buffer->suboffsets;
}

static int64_t extent_of(const struct view *view, int d)
{
    return view->shape ? view->shape[d] : view->length;
}

static int64_t stride_of(const struct view *view, int d)
{
    return view->strides ? view->strides[d] : view->item_bytes;
}

/* ---- what a subscript has touched ------------------------------------------------------------------------------- */

static bool add_index(const struct view *view, int d, PyObject *key, int64_t *offset, bool *loaded)
{
    int64_t i;
    if (PyLong_CheckExact(key) ? !agent_small_integer(key, &i)
                               : !PyLong_Check(key) && !(np.array && key_is_integer(key)))
        return false;
    if (!PyLong_CheckExact(key) && !key_integer(key, &i))
        return false;
    *loaded |= !PyLong_Check(key);
    *offset += (i < 0 ? i + extent_of(view, d) : i) * stride_of(view, d);
    return true;
}

/* Whether a key names one element. */
static bool element_offset(const struct view *view, PyObject *key, int64_t *offset, bool *loaded)
{
    *offset = 0;
    *loaded = false;
    if (view->nd == 1 && !PyTuple_Check(key))
        return add_index(view, 0, key, offset, loaded);
    if (!PyTuple_Check(key) || PyTuple_GET_SIZE(key) != view->nd)
        return false;
    for (int d = 0; d < view->nd; d++)
        if (!add_index(view, d, PyTuple_GET_ITEM(key, d), offset, loaded))
            return false;
    return true;
}

static void write_slice(const char *name, const struct view *view, PyObject *key, bool store)
{
    Py_ssize_t begin, end, step;
    if (PySlice_Unpack(key, &begin, &end, &step) < 0) {
        PyErr_Clear();
        return;
    }
    struct agent_bulk bulk;
    const int64_t extent = PySlice_AdjustIndices(extent_of(view, 0), &begin, &end, step);
    const int64_t stride = step * stride_of(view, 0);
    agent_bulk_begin(&bulk, name, 1, &extent);
    agent_bulk_add(&bulk, view->data + begin * stride_of(view, 0), &stride, view->item_bytes, store);
    agent_bulk_write(&bulk, NULL);
}

/* A subscript has succeeded. A slice of a memoryview is a view, which touches nothing. */
static void record(const struct hooked_type *hook, PyObject *self, PyObject *key, bool store, bool has_site)
{
    const char *name = store ? hook->store : hook->load;
    struct view view;
    int64_t offset;
    bool loaded;
    if (!hook->look(self, &view))
        agent_count_unseen(name, 0, false);
    else if (element_offset(&view, key, &offset, &loaded)) {
        uint32_t id = has_site ? agent_site_operation(agent_thread.site, name, agent_thread.site_block, view.item_bytes,
                                                      store, loaded)
                               : 0;
        if (id)
            agent_write_element(id, view.data + offset);
        else
            agent_write_access(name, view.data, offset, view.item_bytes, store, loaded);
    } else if (!PySlice_Check(key) || view.nd != 1)
        agent_count_unseen(name, 0, false);
    else if (store || hook->look != look_at_memoryview)
        write_slice(name, &view, key, store);
}

/* ---- elements named by an integer ------------------------------------------------------------------------------- */

/* Typecodes and formats of numbers in the machine's own layout, which can all be loaded. */
static bool is_number(char code)
{
    static const bool numbers[128] = {['b'] = true, ['B'] = true, ['h'] = true, ['H'] = true,
                                      ['i'] = true, ['I'] = true, ['l'] = true, ['L'] = true,
                                      ['q'] = true, ['Q'] = true, ['f'] = true, ['d'] = true};
    return numbers[code & 127];
}

static inline bool element_of_memoryview(const PyMemoryViewObject *object, int64_t i, struct buffer_element *element)
{
    const Py_buffer *buffer = &object->view;
    const char *format = buffer->format;
    if (buffer->ndim != 1 || !buffer->shape || !buffer->strides || buffer->suboffsets ||
        object->flags & _Py_MEMORYVIEW_RELEASED || object->mbuf->flags & _Py_MANAGED_BUFFER_RELEASED ||
        (format && (!is_number(format[0]) || format[1])))
        return false;
    i += i < 0 ? buffer->shape[0] : 0;
    *element = (struct buffer_element){(char *)buffer->buf + i * buffer->strides[0], buffer->itemsize, NULL};
    return (uint64_t)i < (uint64_t)buffer->shape[0];
}

bool buffer_element(PyObject *object, PyObject *key, struct buffer_element *element)
{
    const struct hooked_type *hook = hook_of(object);
    int64_t i;
    if (!hook || !PyLong_CheckExact(key) || !agent_small_integer(key, &i))
        return false;
    if (hook->look == look_at_memoryview) {
        if (!element_of_memoryview((PyMemoryViewObject *)object, i, element))
            return false;
    } else {
        const struct array_object *array = (const struct array_object *)object;
        const bool is_bytes = hook->look == look_at_bytearray;
        const int64_t item_bytes = is_bytes ? 1 : array->description->item_bytes;
        const char *items = is_bytes ? PyByteArray_AS_STRING(object) : array->items;
        i += i < 0 ? Py_SIZE(object) : 0;
        if ((uint64_t)i >= (uint64_t)Py_SIZE(object) || (!is_bytes && !is_number(array->description->typecode)))
            return false;
        *element = (struct buffer_element){items + i * item_bytes, item_bytes, NULL};
    }
    element->load = hook->load;
    return true;
}

/* ---- slots ------------------------------------------------------------------------------------------------------ */

static PyObject *hooked_subscript(PyObject *self, PyObject *key)
{
    const struct hooked_type *hook = hook_of(self); /* no other type has these slots */
    bool has_site = agent_take_site(self);
    struct agent_site *site = agent_thread.site;
    if (has_site && !site)
        return hook->subscript(self, key);
    const uint32_t block = agent_thread.site_block;
    PyObject *result = hook->subscript(self, key);
    if (result) {
        agent_thread.site = site;
        agent_thread.site_block = block;
        record(hook, self, key, false, has_site);
    }
    return result;
}

/* The value may have Python code to run before it is stored, and the place be another then. */
static int hooked_assign(PyObject *self, PyObject *key, PyObject *value)
{
    const struct hooked_type *hook = hook_of(self);
    bool has_site = agent_take_site(self);
    struct agent_site *site = agent_thread.site;
    const uint32_t block = agent_thread.site_block;
    const int64_t bytes = has_site && agent_is_number(value) ? agent_thread.element_bytes : 0;
    if (bytes) {
        int stored = hook->assign(self, key, value);
        if (stored == 0)
            agent_write_at_site(site, hook->store, block, agent_thread.element, bytes, true);
        return stored;
    }
    int status = hook->assign(self, key, value);
    if (status == 0 && value) {
        agent_thread.site = site;
        agent_thread.site_block = block;
        record(hook, self, key, true, has_site);
    } else if (status == 0) {
        agent_count_unseen(hook->store, 0, false);
    }
    return status;
}

/* By position: iteration, and callers in C. */
static void record_item(const struct hooked_type *hook, PyObject *self, Py_ssize_t i, bool store)
{
    struct view view;
    if (hook->look(self, &view) && view.nd == 1)
        agent_write_access(store ? hook->store : hook->load, view.data, i * stride_of(&view, 0), view.item_bytes, store,
                           false);
}

static PyObject *hooked_item(PyObject *self, Py_ssize_t i)
{
    const struct hooked_type *hook = hook_of(self);
    PyObject *result = hook->item(self, i);
    if (result)
        record_item(hook, self, i, false);
    return result;
}

static int hooked_assign_item(PyObject *self, Py_ssize_t i, PyObject *value)
{
    const struct hooked_type *hook = hook_of(self);
    int status = hook->assign_item(self, i, value);
    if (status == 0 && value)
        record_item(hook, self, i, true);
    return status;
}

/* ---- installation ----------------------------------------------------------------------------------------------- */

static void hook_slots(PyTypeObject *type, const struct hooked_type *hook)
{
    PyMappingMethods *mapping = type->tp_as_mapping;
    PySequenceMethods *sequence = type->tp_as_sequence;
    if (mapping && mapping->mp_subscript == hook->subscript)
        mapping->mp_subscript = hooked_subscript;
    if (mapping && mapping->mp_ass_subscript == hook->assign)
        mapping->mp_ass_subscript = hooked_assign;
    if (sequence && hook->item && sequence->sq_item == hook->item)
        sequence->sq_item = hooked_item;
    if (sequence && hook->assign_item && sequence->sq_ass_item == hook->assign_item)
        sequence->sq_ass_item = hooked_assign_item;
    PyObject *subclasses = PyObject_CallMethod((PyObject *)type, "__subclasses__", NULL);
    for (Py_ssize_t i = 0; subclasses && i < PyList_GET_SIZE(subclasses); i++)
        if (PyType_Check(PyList_GET_ITEM(subclasses, i)))
            hook_slots((PyTypeObject *)PyList_GET_ITEM(subclasses, i), hook);
    Py_XDECREF(subclasses);
    PyErr_Clear();
}

/* The type's method as Python code sees it, which has the slot's function for itself. */
static void hook_wrapper(const struct hooked_type *hook, const char *name)
{
    PyObject *wrapper = PyObject_GetAttrString((PyObject *)hook->type, name);
    PyErr_Clear();
    if (wrapper && Py_IS_TYPE(wrapper, &PyWrapperDescr_Type)) {
        void **wrapped = &((PyWrapperDescrObject *)wrapper)->d_wrapped;
        if (*wrapped == (void *)hook->subscript)
            *wrapped = (void *)hooked_subscript;
        else if (*wrapped == (void *)hook->assign)
            *wrapped = (void *)hooked_assign;
    }
    Py_XDECREF(wrapper);
}

static void hook_type(PyTypeObject *type, bool (*look)(PyObject *, struct view *), const char *load, const char *store)
{
    PyMappingMethods *mapping = type->tp_as_mapping;
    PySequenceMethods *sequence = type->tp_as_sequence;
    if (n_hooked == MAX_TYPES || !mapping || !mapping->mp_subscript || !mapping->mp_ass_subscript)
        return;
    hooked[n_hooked] = (struct hooked_type){type,
                                            look,
                                            load,
                                            store,
                                            mapping->mp_subscript,
                                            mapping->mp_ass_subscript,
                                            sequence ? sequence->sq_item : NULL,
                                            sequence ? sequence->sq_ass_item : NULL};
    const struct hooked_type *hook = &hooked[n_hooked++];
    hook_slots(type, hook);
    hook_wrapper(hook, "__getitem__");
    hook_wrapper(hook, "__setitem__");
}

bool buffer_is_hooked(PyTypeObject *type)
{
    if (type == recent->type || type == np.array)
        return true;
    for (unsigned k = 0; k < n_hooked; k++)
        if (type == hooked[k].type)
            return true;
    return false;
}

/* Whether our picture of an array is the interpreter's: the buffer protocol tells its truth. */
static bool layout_agrees(PyObject *type)
{
    PyObject *array = PyObject_CallFunction(type, "s(ii)", "h", 1, 2);
    Py_buffer truth;
    struct view view;
    if (!array || PyObject_GetBuffer(array, &truth, PyBUF_FULL_RO) != 0) {
        Py_XDECREF(array);
        return false;
    }
    look_at_array(array, &view);
    bool agrees = view.data == truth.buf && view.length == 2 && view.item_bytes == 2;
    PyBuffer_Release(&truth);
    Py_DECREF(array);
    return agrees;
}

void buffers_module_loaded(PyObject *module, const char *name)
{
    if (strcmp(name, "array") != 0)
        return;
    PyObject *type = PyObject_GetAttrString(module, "array"); /* kept for good */
    if (type && PyType_Check(type) && !buffer_is_hooked((PyTypeObject *)type) && layout_agrees(type))
        hook_type((PyTypeObject *)type, look_at_array, "array.array.__getitem__", "array.array.__setitem__");
    PyErr_Clear();
}

void buffers_init(void)
{
    hook_type(&PyByteArray_Type, look_at_bytearray, "bytearray.__getitem__", "bytearray.__setitem__");
    hook_type(&PyMemoryView_Type, look_at_memoryview, "memoryview.__getitem__", "memoryview.__setitem__");
}
