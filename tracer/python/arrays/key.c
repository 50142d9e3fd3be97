/* Parsing keys, and walking what they select. See key.h. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "key.h"

#include <stdlib.h>
#include <string.h>

/* ---- walks ------------------------------------------------------------------------------------------------------ */

static inline int64_t fancy_offset(const struct fancy_array *array, const char *at)
{
    int64_t value = np_load_integer(at, array->item_bytes, array->kind);
    return (value < 0 ? value + array->extent : value) * array->scale;
}

/* One contiguous array of 64-bit indices. */
static void next_run(struct agent_index *index, int64_t *offsets, int64_t count)
{
    struct walk *walk = (struct walk *)index;
    const struct fancy_array *array = walk->array;
    const int64_t *values = (const int64_t *)array->data + walk->at[0];
    for (int64_t i = 0; i < count; i++)
        offsets[i] = (values[i] < 0 ? values[i] + array->extent : values[i]) * array->scale;
    walk->at[0] += count;
}

/* The same where 32 bits can hold them: the common case. Both loops are plain enough to be vectorised. */
static void next_of_64_bits(struct agent_index *index, int32_t *restrict numbers, int64_t count)
{
    struct walk *walk = (struct walk *)index;
    const int64_t *restrict values = (const int64_t *)walk->array->data + walk->at[0];
    const int32_t extent = (int32_t)walk->array->extent;
    for (int64_t i = 0; i < count; i++) {
        const int32_t value = (int32_t)values[i];
        numbers[i] = value + (value >> 31 & extent);
    }
    walk->at[0] += count;
}

static void next_of_32_bits(struct agent_index *index, int32_t *restrict numbers, int64_t count)
{
    struct walk *walk = (struct walk *)index;
    const int32_t *restrict values = (const int32_t *)walk->array->data + walk->at[0];
    const int32_t extent = (int32_t)walk->array->extent;
    for (int64_t i = 0; i < count; i++)
        numbers[i] = values[i] + (values[i] >> 31 & extent);
    walk->at[0] += count;
}

static void next_offsets(struct agent_index *index, int64_t *offsets, int64_t count)
{
    struct walk *walk = (struct walk *)index;
    for (int64_t i = 0; i < count; i++) {
        int64_t offset = 0;
        for (uint32_t d = 0; d < walk->n_dims; d++)
            offset += walk->at[d] * walk->stride[d];
        for (uint32_t k = 0; k < walk->n_arrays; k++) {
            const char *at = walk->array[k].data;
            for (uint32_t d = 0; d < walk->n_dims; d++)
                at += walk->at[d] * walk->array[k].stride[d];
            offset += fancy_offset(&walk->array[k], at);
        }
        offsets[i] = offset;
        for (uint32_t d = walk->n_dims; d-- > 0 && ++walk->at[d] == walk->extent[d];)
            walk->at[d] = 0;
    }
}

void walk_start(struct walk *walk, const struct agent_bulk *bulk, const int64_t *strides,
                const struct fancy_array *arrays, uint32_t n_arrays)
{
    const int64_t bytes = n_arrays == 1 ? arrays[0].item_bytes : 0;
    bool run = (bytes == 8 || (bytes == 4 && arrays[0].kind == 'i')) && (uintptr_t)arrays[0].data % 8 == 0;
    int64_t expected = bytes;
    walk->n_dims = bulk->n_dims;
    walk->n_arrays = n_arrays;
    walk->array = arrays;
    for (uint32_t d = bulk->n_dims; d-- > 0;) {
        walk->extent[d] = bulk->extent[d];
        walk->at[d] = 0;
        walk->stride[d] = strides ? strides[d] : 0;
        run = run && walk->stride[d] == 0 && (bulk->extent[d] == 1 || arrays[0].stride[d] == expected);
        expected *= bulk->extent[d];
    }
    walk->index = (struct agent_index){.next = run && bytes == 8 ? next_run : next_offsets};
    if (run && arrays[0].extent > 0 && arrays[0].extent <= INT32_MAX)
        walk->index = (struct agent_index){.next_narrow = bytes == 8 ? next_of_64_bits : next_of_32_bits,
                                           .scale = arrays[0].scale};
}

/* ---- keys ------------------------------------------------------------------------------------------------------- */

bool key_is_integer(PyObject *item)
{
    if (PyLong_Check(item))
        return !PyBool_Check(item);
    if (np_is_array(item))
        return ((struct np_array *)item)->nd == 0 && np_is_integer((struct np_array *)item);
    return PyType_IsSubtype(Py_TYPE(item), np.scalar) && PyIndex_Check(item);
}

bool key_integer(PyObject *item, int64_t *value)
{
    *value = PyNumber_AsSsize_t(item, PyExc_IndexError);
    if (*value == -1 && PyErr_Occurred()) {
        PyErr_Clear();
        return false;
    }
    return true;
}

static bool add_strided(struct selection *s, int64_t extent, int64_t stride)
{
    if (s->n_strided == AGENT_MAX_DIMS)
        return false;
    s->extent[s->n_strided] = extent;
    s->stride[s->n_strided++] = stride;
    s->after_gap = s->any_fancy;
    return true;
}

/* An item takes part in the fancy dimensions: remembers where they stand. */
static void note_fancy(struct selection *s)
{
    if (!s->any_fancy)
        s->n_before = s->n_strided;
    else if (s->after_gap)
        s->consecutive = false;
    s->any_fancy = true;
}

static bool add_integer(struct selection *s, PyObject *item)
{
    int64_t value;
    if (s->axis >= s->array->nd || !key_integer(item, &value))
        return false;
    note_fancy(s);
    s->loaded |= !PyLong_Check(item);
    value += value < 0 ? s->array->dimensions[s->axis] : 0;
    s->base += value * s->array->strides[s->axis++];
    return true;
}

/* Slices of integers only: others would run Python code. */
static bool add_slice(struct selection *s, PyObject *item)
{
    const PySliceObject *slice = (const PySliceObject *)item;
    PyObject *parts[] = {slice->start, slice->stop, slice->step};
    for (int i = 0; i < 3; i++)
        if (parts[i] != Py_None && !key_is_integer(parts[i]))
            return false;
    Py_ssize_t start, stop, step;
    if (s->axis >= s->array->nd || PySlice_Unpack(item, &start, &stop, &step) < 0) {
        PyErr_Clear();
        return false;
    }
    Py_ssize_t extent = PySlice_AdjustIndices(s->array->dimensions[s->axis], &start, &stop, step);
    int64_t stride = s->array->strides[s->axis++];
    s->base += extent ? start * stride : 0;
    return add_strided(s, extent, step * stride);
}

static bool add_whole(struct selection *s)
{
    int axis = s->axis++;
    return add_strided(s, s->array->dimensions[axis], s->array->strides[axis]);
}

static bool broadcast_fancy(struct selection *s, const struct fancy_array *fancy)
{
    uint32_t nd = (uint32_t)fancy->nd > s->fancy_nd ? (uint32_t)fancy->nd : s->fancy_nd;
    if (nd > AGENT_MAX_DIMS)
        return false;
    for (uint32_t d = 0; d < nd; d++) { /* from the innermost outwards */
        int64_t own = d < (uint32_t)fancy->nd ? fancy->shape[fancy->nd - 1 - (int)d] : 1;
        int64_t have = d < s->fancy_nd ? s->fancy_shape[AGENT_MAX_DIMS - 1 - d] : 1;
        if (own != have && own != 1 && have != 1)
            return false;
        s->fancy_shape[AGENT_MAX_DIMS - 1 - d] = have == 1 ? own : have; /* kept right-aligned until parsed */
    }
    s->fancy_nd = nd;
    return true;
}

static bool add_indices(struct selection *s, const struct np_array *indices, PyObject *owned)
{
    struct fancy_array *fancy = &s->fancy[s->n_fancy];
    if (s->n_fancy == KEY_MAX_FANCY || s->axis >= s->array->nd || indices->nd > AGENT_MAX_DIMS ||
        !np_is_integer(indices))
        return false;
    *fancy = (struct fancy_array){.array = indices,
                                  .owned = owned,
                                  .data = indices->data,
                                  .nd = indices->nd,
                                  .item_bytes = np_item_bytes(indices),
                                  .kind = indices->dtype->kind,
                                  .extent = s->array->dimensions[s->axis],
                                  .scale = s->array->strides[s->axis]};
    for (int d = 0; d < indices->nd; d++)
        fancy->shape[d] = indices->dimensions[d];
    s->mask[s->n_fancy++] = NULL;
    s->axis++;
    note_fancy(s);
    return broadcast_fancy(s, fancy);
}

/* Byte offsets of what a mask selects from the axes it covers. */
static int64_t *mask_offsets(const struct np_array *mask, const Py_ssize_t *strides, int64_t *n_selected)
{
    int64_t size = np_size(mask), n = 0, at[AGENT_MAX_DIMS] = {0};
    int64_t *offsets = malloc((size_t)(size ? size : 1) * sizeof *offsets);
    for (int64_t i = 0; offsets && i < size; i++) {
        int64_t offset = 0;
        const char *element = mask->data;
        for (int d = 0; d < mask->nd; d++) {
            element += at[d] * mask->strides[d];
            offset += at[d] * strides[d];
        }
        if (*element)
            offsets[n++] = offset;
        for (int d = mask->nd; d-- > 0 && ++at[d] == mask->dimensions[d];)
            at[d] = 0;
    }
    *n_selected = n;
    return offsets;
}

static bool add_mask(struct selection *s, const struct np_array *mask)
{
    struct fancy_array *fancy = &s->fancy[s->n_fancy];
    if (s->n_fancy == KEY_MAX_FANCY || mask->nd == 0 || mask->nd > AGENT_MAX_DIMS || s->axis + mask->nd > s->array->nd)
        return false;
    *fancy = (struct fancy_array){.item_bytes = sizeof(int64_t), .kind = 'i', .scale = 1, .nd = 1};
    fancy->owned_offsets = mask_offsets(mask, s->array->strides + s->axis, &fancy->shape[0]);
    fancy->data = (const char *)fancy->owned_offsets;
    s->mask[s->n_fancy++] = mask;
    s->axis += mask->nd;
    note_fancy(s);
    return fancy->owned_offsets && broadcast_fancy(s, fancy);
}

/* A list of plain integers: NumPy makes an array of it, and so do we. */
static bool add_list(struct selection *s, PyObject *list)
{
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); i++)
        if (!PyLong_CheckExact(PyList_GET_ITEM(list, i)))
            return false;
    const void *outer = agent_hook_begin(); /* our own array is nobody's access */
    PyObject *indices = PyList_GET_SIZE(list) ? PyObject_CallOneArg(np.as_array, list) : NULL;
    agent_hook_end(outer);
    if (indices && np_is_array(indices) && add_indices(s, (struct np_array *)indices, indices))
        return true;
    if (!s->n_fancy || s->fancy[s->n_fancy - 1].owned != indices)
        Py_XDECREF(indices);
    PyErr_Clear();
    return false;
}

static bool add_item(struct selection *s, PyObject *item)
{
    if (PySlice_Check(item))
        return add_slice(s, item);
    if (item == Py_None)
        return add_strided(s, 1, 0);
    if (key_is_integer(item))
        return add_integer(s, item);
    if (PyList_CheckExact(item))
        return add_list(s, item);
    if (!np_is_array(item))
        return false;
    const struct np_array *array = (const struct np_array *)item;
    return array->dtype->kind == 'b' ? add_mask(s, array) : add_indices(s, array, NULL);
}

/* How many axes an item is for. */
static int axes_of(PyObject *item)
{
    if (item == Py_None || item == Py_Ellipsis)
        return 0;
    return np_is_array(item) && ((struct np_array *)item)->dtype->kind == 'b' ? ((struct np_array *)item)->nd : 1;
}

static bool add_ellipsis(struct selection *s, PyObject *const *items, Py_ssize_t n)
{
    int axes = 0;
    for (Py_ssize_t i = 0; i < n; i++)
        axes += axes_of(items[i]);
    s->after_gap = s->any_fancy;
    for (int left = s->array->nd - axes; left > 0; left--)
        if (!add_whole(s))
            return false;
    return true;
}

/* Strides of index arrays by fancy dimension, now that these are known. */
static void finish_fancy(struct selection *s)
{
    memmove(s->fancy_shape, s->fancy_shape + AGENT_MAX_DIMS - s->fancy_nd, s->fancy_nd * sizeof *s->fancy_shape);
    for (uint32_t k = 0; k < s->n_fancy; k++) {
        struct fancy_array *fancy = &s->fancy[k];
        int missing = (int)s->fancy_nd - fancy->nd;
        for (int d = 0; d < fancy->nd; d++) {
            int64_t stride = fancy->array ? fancy->array->strides[d] : (int64_t)sizeof(int64_t);
            fancy->stride[missing + d] = fancy->shape[d] == 1 ? 0 : stride;
        }
    }
}

bool key_parse(struct selection *s, const struct np_array *array, PyObject *key)
{
    s->array = array;
    s->axis = 0;
    s->base = 0;
    s->n_strided = s->n_fancy = s->n_before = s->fancy_nd = 0;
    s->any_fancy = s->after_gap = s->loaded = false;
    s->consecutive = true;
    if (array->nd > AGENT_MAX_DIMS)
        return false;
    bool is_tuple = PyTuple_CheckExact(key), ellipsis = false;
    PyObject *const *items = is_tuple ? &PyTuple_GET_ITEM(key, 0) : &key;
    Py_ssize_t n = is_tuple ? PyTuple_GET_SIZE(key) : 1;
    for (Py_ssize_t i = 0; i < n; i++) {
        bool understood = items[i] == Py_Ellipsis ? !ellipsis && add_ellipsis(s, items, n) : add_item(s, items[i]);
        if (!understood)
            return false;
        ellipsis |= items[i] == Py_Ellipsis;
    }
    while (s->axis < array->nd)
        if (!add_whole(s))
            return false;
    finish_fancy(s);
    return s->fancy_nd + s->n_strided <= AGENT_MAX_DIMS;
}

void key_release(struct selection *s)
{
    for (uint32_t k = 0; k < s->n_fancy; k++) {
        Py_XDECREF(s->fancy[k].owned);
        free(s->fancy[k].owned_offsets);
    }
}
