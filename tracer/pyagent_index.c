/* What indexing touches: a[i], a[i, j], a[1:n], a[index], a[mask], a[...] = v, take, put, ufunc.at, bincount.
 *
 * A key is parsed into a `selection`: a part of the array that strides describe (integers and slices), and index arrays
 * that are broadcast together ("fancy" in NumPy's source). NumPy walks the fancy dimensions outside and the strided ones
 * inside, wherever they stand in the result (multiarray/mapping.c); so do the records here.
 *
 * NumPy reads an index array a second time, to check it before anything is written, in an assignment and in ufunc.at,
 * and in a subscript with more than one index array (PyArray_MapIterCheckIndices, mapiter_trivial_set). A boolean mask
 * is read once to count and once to select (count_boolean_trues, array_boolean_subscript).
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "pyagent_numpy.h"

#include <stdlib.h>
#include <string.h>

#define MAX_FANCY 5 /* index arrays of one key; with the array, its store and a value they are the operands */
#define MASK_CHUNK 2048

const char NP_GETITEM[] = "numpy.ndarray.__getitem__", NP_SETITEM[] = "numpy.ndarray.__setitem__";
static const char GET_CHECK[] = "numpy.ndarray.__getitem__ (index check)";
static const char SET_CHECK[] = "numpy.ndarray.__setitem__ (index check)";
static const char GET_MASK[] = "numpy.ndarray.__getitem__ (mask)", SET_MASK[] = "numpy.ndarray.__setitem__ (mask)";
static const char AT_CHECK[] = "numpy.ufunc.at (index check)";
static const char BINCOUNT_CHECK[] = "numpy.bincount (index check)";

/* ---- index sources ---------------------------------------------------------------------------------------------- */

struct fancy_array {
    const struct np_array *array; /* NULL for what a mask selects: `data` then has byte offsets */
    PyObject *owned;              /* to be released: our own array of a list's indices */
    int64_t *owned_offsets;
    const char *data;
    int64_t stride[AGENT_MAX_DIMS]; /* by dimension of the walk */
    int64_t item_bytes;
    char kind;
    int64_t extent; /* negative indices count from here */
    int64_t scale;
    int nd;
    int64_t shape[AGENT_MAX_DIMS];
};

/* The walk that gives the byte offset of each point of an indexed operand. */
struct walk {
    struct agent_index index;
    uint32_t n_dims, n_arrays;
    int64_t extent[AGENT_MAX_DIMS], at[AGENT_MAX_DIMS];
    int64_t stride[AGENT_MAX_DIMS]; /* of the strided part */
    const struct fancy_array *array;
};

static inline int64_t fancy_offset(const struct fancy_array *array, const char *at)
{
    int64_t value = np_load_integer(at, array->item_bytes, array->kind);
    return (value < 0 ? value + array->extent : value) * array->scale;
}

/* One contiguous array of 64-bit indices: the common case. */
static void next_run(struct agent_index *index, int64_t *offsets, int64_t count)
{
    struct walk *walk = (struct walk *)index;
    const struct fancy_array *array = walk->array;
    const int64_t *values = (const int64_t *)array->data + walk->at[0];
    for (int64_t i = 0; i < count; i++)
        offsets[i] = (values[i] < 0 ? values[i] + array->extent : values[i]) * array->scale;
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

static void start_walk(struct walk *walk, const struct agent_bulk *bulk, const int64_t *strides,
                       const struct fancy_array *arrays, uint32_t n_arrays)
{
    bool run = n_arrays == 1 && arrays[0].item_bytes == 8 && (uintptr_t)arrays[0].data % 8 == 0;
    int64_t expected = 8;
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
    walk->index.next = run ? next_run : next_offsets;
}

/* ---- keys ------------------------------------------------------------------------------------------------------- */

struct selection {
    const struct np_array *array;
    int axis;     /* the next one that a key item is for */
    int64_t base; /* byte offset of the strided part */
    uint32_t n_strided, n_fancy;
    int64_t extent[AGENT_MAX_DIMS], stride[AGENT_MAX_DIMS]; /* of the strided part */
    struct fancy_array fancy[MAX_FANCY];
    const struct np_array *mask[MAX_FANCY]; /* beside `fancy`: the mask it was made from */
    uint32_t fancy_nd;
    int64_t fancy_shape[AGENT_MAX_DIMS];
    bool loaded; /* an integer of the key is a NumPy scalar: it comes out of an array */
    bool any_fancy, after_gap, consecutive; /* whether the fancy dimensions stay in place in the result */
    uint32_t n_before;                      /* strided dimensions before them */
};

static bool is_integer(PyObject *item)
{
    if (PyLong_Check(item))
        return !PyBool_Check(item);
    if (np_is_array(item))
        return ((struct np_array *)item)->nd == 0 && np_is_integer((struct np_array *)item);
    return PyType_IsSubtype(Py_TYPE(item), np.scalar) && PyIndex_Check(item);
}

static bool integer_of(PyObject *item, int64_t *value)
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
    if (s->axis >= s->array->nd || !integer_of(item, &value))
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
        if (parts[i] != Py_None && !is_integer(parts[i]))
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
    if (s->n_fancy == MAX_FANCY || s->axis >= s->array->nd || indices->nd > AGENT_MAX_DIMS || !np_is_integer(indices))
        return false;
    *fancy = (struct fancy_array){.array = indices, .owned = owned, .data = indices->data, .nd = indices->nd,
                                  .item_bytes = np_item_bytes(indices), .kind = indices->dtype->kind,
                                  .extent = s->array->dimensions[s->axis], .scale = s->array->strides[s->axis]};
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
    if (s->n_fancy == MAX_FANCY || mask->nd == 0 || mask->nd > AGENT_MAX_DIMS || s->axis + mask->nd > s->array->nd)
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
    agent_thread.hook_depth++; /* our own array is nobody's access */
    PyObject *indices = PyList_GET_SIZE(list) ? PyObject_CallOneArg(np.as_array, list) : NULL;
    agent_thread.hook_depth--;
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
    if (is_integer(item))
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

/* False if the key has something in it that is not understood. To be released in any case. */
static bool parse(struct selection *s, const struct np_array *array, PyObject *key)
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

static void release(struct selection *s)
{
    for (uint32_t k = 0; k < s->n_fancy; k++) {
        Py_XDECREF(s->fancy[k].owned);
        free(s->fancy[k].owned_offsets);
    }
}

/* ---- fancy indexing --------------------------------------------------------------------------------------------- */

/* Strides of an array that has, or is broadcast to, the result's shape, by dimension of the walk (fancy, then strided).
 * False if the shapes do not go together. */
static bool result_strides(const struct selection *s, const struct np_array *array, int64_t *strides)
{
    uint32_t before = s->consecutive ? s->n_before : 0, nd = s->fancy_nd + s->n_strided;
    int extra = array->nd - (int)nd;
    for (int d = 0; d < extra; d++)
        if (array->dimensions[d] != 1)
            return false;
    for (uint32_t w = 0; w < nd; w++) {
        bool is_fancy = w < s->fancy_nd;
        uint32_t strided = w - s->fancy_nd;
        uint32_t place = is_fancy ? before + w : strided < before ? strided : s->fancy_nd + strided;
        int64_t extent = is_fancy ? s->fancy_shape[w] : s->extent[strided];
        int d = (int)place + extra;
        if (d >= 0 && array->dimensions[d] != extent && array->dimensions[d] != 1)
            return false;
        strides[w] = d < 0 || array->dimensions[d] == 1 ? 0 : array->strides[d];
    }
    return true;
}

static void start_bulk(struct agent_bulk *bulk, const struct selection *s, const char *name, bool with_strided)
{
    int64_t extents[2 * AGENT_MAX_DIMS];
    memcpy(extents, s->fancy_shape, s->fancy_nd * sizeof *extents);
    memcpy(extents + s->fancy_nd, s->extent, s->n_strided * sizeof *extents);
    agent_bulk_begin(bulk, name, s->fancy_nd + (with_strided ? s->n_strided : 0), extents);
}

static void add_index_operands(struct agent_bulk *bulk, const struct selection *s)
{
    for (uint32_t k = 0; k < s->n_fancy; k++)
        if (!s->mask[k])
            agent_bulk_add(bulk, s->fancy[k].data, s->fancy[k].stride, s->fancy[k].item_bytes, false)->is_index = true;
}

/* The passes over masks and index arrays that come before the elements. */
static void write_checks(const struct selection *s, const char *check, const char *mask)
{
    for (uint32_t k = 0; k < s->n_fancy; k++) {
        if (s->mask[k]) {
            np_read(mask, s->mask[k]);
            np_read(mask, s->mask[k]);
        } else if (check) {
            np_read(check, s->fancy[k].array);
        }
    }
}

/* What happens at each point to the selected element, `other` being what it is copied to, from, or combined with. */
enum action { ACTION_GET, ACTION_SET, ACTION_UPDATE };

/* False if the other array does not have the result's shape. */
static bool write_fancy(const struct selection *s, const char *name, enum action action, const struct np_array *other,
                        uint32_t flops, uint32_t int_ops)
{
    struct agent_bulk bulk;
    struct walk walk;
    int64_t strides[2 * AGENT_MAX_DIMS] = {0}, other_strides[2 * AGENT_MAX_DIMS];
    int64_t n_inner = 1, item_bytes = np_item_bytes(s->array);
    const char *base = s->array->data + s->base;
    if (other && !result_strides(s, other, other_strides))
        return false;
    for (uint32_t d = 0; d < s->n_strided; d++) {
        strides[s->fancy_nd + d] = s->stride[d];
        n_inner *= s->extent[d];
    }
    if (n_inner > 1) {
        start_bulk(&bulk, s, name, false);
        add_index_operands(&bulk, s);
        agent_bulk_write(&bulk, NULL);
    }
    start_bulk(&bulk, s, name, true);
    bulk.flops = flops;
    bulk.int_ops = int_ops;
    start_walk(&walk, &bulk, strides, s->fancy, s->n_fancy);
    if (n_inner == 1)
        add_index_operands(&bulk, s);
    if (action != ACTION_SET)
        agent_bulk_add_indexed(&bulk, base, item_bytes, false);
    if (other)
        agent_bulk_add(&bulk, other->data, other_strides, np_item_bytes(other), action == ACTION_GET);
    if (action != ACTION_GET)
        agent_bulk_add_indexed(&bulk, base, item_bytes, true);
    agent_bulk_write(&bulk, &walk.index);
    return true;
}

/* ---- masks of the array's own shape ----------------------------------------------------------------------------- */

struct chosen {
    struct agent_index index;
    int64_t offsets[MASK_CHUNK];
    int64_t taken;
};

static void next_chosen(struct agent_index *index, int64_t *offsets, int64_t count)
{
    struct chosen *chosen = (struct chosen *)index;
    memcpy(offsets, chosen->offsets + chosen->taken, (size_t)count * sizeof *offsets);
    chosen->taken += count;
}

struct masked {
    const char *name;
    int64_t item_bytes, other_bytes, other_stride;
    const char *other; /* where the values come from or go to; NULL: nowhere */
    bool store, continued;
};

/* One chunk: reads `count` elements of the mask, then touches those chosen. */
static void write_masked_chunk(struct masked *m, const char *mask, int64_t mask_stride, const char *data,
                               int64_t stride, int64_t count)
{
    struct chosen chosen = {.index = {next_chosen}};
    struct agent_bulk bulk;
    int64_t n = 0;
    agent_bulk_begin(&bulk, m->store ? SET_MASK : GET_MASK, 1, &count);
    bulk.continued = true; /* of the counting pass */
    agent_bulk_add(&bulk, mask, &mask_stride, 1, false);
    agent_bulk_write(&bulk, NULL);
    for (int64_t i = 0; i < count; i++)
        if (mask[i * mask_stride])
            chosen.offsets[n++] = i * stride;
    agent_bulk_begin(&bulk, m->name, 1, &n);
    bulk.continued = m->continued;
    if (m->store && m->other)
        agent_bulk_add(&bulk, m->other, &m->other_stride, m->other_bytes, false);
    agent_bulk_add_indexed(&bulk, data, m->item_bytes, m->store);
    if (!m->store && m->other)
        agent_bulk_add(&bulk, m->other, &m->other_stride, m->other_bytes, true);
    agent_bulk_write(&bulk, &chosen.index);
    m->continued = m->continued || n > 0;
    if (m->other)
        m->other += n * m->other_stride;
}

/* Walks mask and array together in C order. */
static void write_masked(struct masked *m, const struct np_array *mask, const struct np_array *array)
{
    int64_t at[AGENT_MAX_DIMS] = {0};
    int outer = array->nd - 1;
    int64_t inner = array->dimensions[outer];
    while (outer > 0 && mask->strides[outer - 1] == mask->strides[array->nd - 1] * inner &&
           array->strides[outer - 1] == array->strides[array->nd - 1] * inner)
        inner *= array->dimensions[--outer];
    for (int64_t left = np_size(array); left > 0; left -= inner) {
        const char *mask_at = mask->data, *data = array->data;
        for (int d = 0; d < outer; d++) {
            mask_at += at[d] * mask->strides[d];
            data += at[d] * array->strides[d];
        }
        int64_t mask_stride = mask->strides[array->nd - 1], stride = array->strides[array->nd - 1];
        for (int64_t done = 0; done < inner; done += MASK_CHUNK)
            write_masked_chunk(m, mask_at + done * mask_stride, mask_stride, data + done * stride, stride,
                               inner - done < MASK_CHUNK ? inner - done : MASK_CHUNK);
        for (int d = outer; d-- > 0 && ++at[d] == array->dimensions[d];)
            at[d] = 0;
    }
}

/* Whether the key is a mask of the array's shape, which NumPy treats apart. */
static const struct np_array *own_mask(const struct np_array *array, PyObject *key)
{
    const struct np_array *mask = np_as_array(key);
    if (!mask || mask->dtype->kind != 'b' || mask->nd != array->nd || mask->nd == 0 || mask->nd > AGENT_MAX_DIMS)
        return NULL;
    for (int d = 0; d < mask->nd; d++)
        if (mask->dimensions[d] != array->dimensions[d])
            return NULL;
    return mask;
}

/* ---- subscripts ------------------------------------------------------------------------------------------------- */

/* a[i] of a vector. */
static void write_element(const struct np_array *array, PyObject *key, bool store)
{
    int64_t i;
    if (!integer_of(key, &i))
        return;
    i += i < 0 ? array->dimensions[0] : 0;
    agent_write_access(store ? NP_SETITEM : NP_GETITEM, array->data, i * array->strides[0], np_item_bytes(array), store,
                       !PyLong_Check(key));
}

static void get_selection(const struct np_array *array, PyObject *key, const struct np_array *result)
{
    struct selection s;
    if (!parse(&s, array, key)) {
        agent_unseen();
    } else if (s.n_fancy == 0) {
        if (!result && s.n_strided == 0 && array->dtype->kind != 'V') /* a structure's scalar is a view of it */
            agent_write_access(NP_GETITEM, array->data, s.base, np_item_bytes(array), false, s.loaded);
    } else if (result) {
        write_checks(&s, s.n_fancy > 1 ? GET_CHECK : NULL, GET_MASK);
        if (!write_fancy(&s, NP_GETITEM, ACTION_GET, result, 0, 0))
            agent_unseen();
    } else {
        agent_unseen();
    }
    release(&s);
}

void np_get(PyObject *self, PyObject *key, PyObject *result_object)
{
    const struct np_array *array = (const struct np_array *)self, *result = np_as_array(result_object);
    const struct np_array *mask;
    if (array->nd == 1 && !result && array->dtype->kind != 'V' && is_integer(key)) {
        write_element(array, key, false);
    } else if (PyLong_CheckExact(key) || PySlice_Check(key) || key == Py_None || key == Py_Ellipsis ||
               PyUnicode_Check(key)) {
        return; /* a view */
    } else if (result && (mask = own_mask(array, key))) {
        struct masked m = {.name = NP_GETITEM, .item_bytes = np_item_bytes(array), .other = result->data,
                           .other_bytes = np_item_bytes(array), .other_stride = np_item_bytes(array)};
        np_read(GET_MASK, mask);
        write_masked(&m, mask, array);
    } else {
        get_selection(array, key, result);
    }
}

/* a[strided part] = value */
static bool set_strided(const struct selection *s, const struct np_array *value)
{
    struct agent_bulk bulk;
    int64_t strides[2 * AGENT_MAX_DIMS];
    if (value && !result_strides(s, value, strides))
        return false;
    if (s->n_strided == 0 && !value) {
        agent_write_access(NP_SETITEM, s->array->data, s->base, np_item_bytes(s->array), true, s->loaded);
        return true;
    }
    agent_bulk_begin(&bulk, NP_SETITEM, s->n_strided, s->extent);
    if (value)
        agent_bulk_add(&bulk, value->data, strides, np_item_bytes(value), false);
    agent_bulk_add(&bulk, s->array->data + s->base, s->stride, np_item_bytes(s->array), true);
    agent_bulk_order(&bulk);
    agent_bulk_write(&bulk, NULL);
    return true;
}

static void set_selection(const struct np_array *array, PyObject *key, const struct np_array *value)
{
    struct selection s;
    bool understood = parse(&s, array, key);
    if (understood && s.n_fancy == 0) {
        understood = set_strided(&s, value);
    } else if (understood) {
        write_checks(&s, SET_CHECK, SET_MASK);
        understood = write_fancy(&s, NP_SETITEM, ACTION_SET, value, 0, 0);
    }
    if (!understood)
        agent_unseen();
    release(&s);
}

void np_set(PyObject *self, PyObject *key, PyObject *value_object)
{
    const struct np_array *array = (const struct np_array *)self, *value = np_as_array(value_object);
    const struct np_array *mask;
    if (array->nd == 1 && array->dtype->kind != 'V' && is_integer(key)) {
        write_element(array, key, true);
    } else if (array->dtype->kind == 'V' || PyUnicode_Check(key)) {
        agent_unseen();
    } else if ((mask = own_mask(array, key)) && (!value || value->nd <= 1)) {
        struct masked m = {.name = NP_SETITEM, .item_bytes = np_item_bytes(array), .store = true};
        if (value && value->nd == 1) {
            m.other = value->data;
            m.other_bytes = np_item_bytes(value);
            m.other_stride = value->dimensions[0] == 1 ? 0 : value->strides[0];
        }
        np_read(SET_MASK, mask);
        write_masked(&m, mask, array);
    } else {
        set_selection(array, key, value);
    }
}

/* ufunc.at(array, key[, values]) */
bool np_update_at(const char *name, const struct np_array *array, PyObject *key, const struct np_array *values,
                  uint32_t flops, uint32_t int_ops)
{
    struct selection s;
    bool understood = parse(&s, array, key) && s.n_fancy > 0;
    if (understood) {
        write_checks(&s, AT_CHECK, AT_CHECK);
        understood = write_fancy(&s, name, ACTION_UPDATE, values, flops, int_ops);
    }
    release(&s);
    return understood;
}

/* ---- take, put, bincount ---------------------------------------------------------------------------------------- */

static bool raises(PyObject *mode)
{
    return !mode || mode == Py_None || (PyUnicode_Check(mode) && PyUnicode_CompareWithASCIIString(mode, "raise") == 0);
}

/* a.take(indices, axis=None, out=None, mode="raise"): in C order, the axis replaced by the indices' shape. */
static bool take(const struct agent_call *call, const struct np_array *array)
{
    PyObject *indices = agent_argument(call, 0, "indices"), *axis_object = agent_argument(call, 1, "axis");
    const struct np_array *result = np_as_array(call->result), *index = np_as_array(indices);
    int64_t axis = 0, strides[2 * AGENT_MAX_DIMS] = {0};
    struct fancy_array fancy = {.scale = np_item_bytes(array), .extent = np_size(array)};
    bool flat = !axis_object || axis_object == Py_None;
    if (!index || !result || !np_is_integer(index) || !raises(agent_argument(call, 3, "mode")) ||
        (!flat && (!is_integer(axis_object) || !integer_of(axis_object, &axis))) ||
        (flat && !(array->flags & NP_C_CONTIGUOUS)) || result->nd > AGENT_MAX_DIMS)
        return false;
    axis += axis < 0 ? array->nd : 0;
    int nd = flat ? 1 : array->nd, added = index->nd - 1;
    if (axis < 0 || axis >= nd || result->nd != nd + added)
        return false;
    fancy.data = index->data;
    fancy.item_bytes = np_item_bytes(index);
    fancy.kind = index->dtype->kind;
    int64_t n_inner = 1;
    for (int d = 0; d < index->nd; d++)
        fancy.stride[axis + d] = index->strides[d];
    for (int d = 0; !flat && d < nd; d++) {
        if (d != axis)
            strides[d < axis ? d : d + added] = array->strides[d];
        n_inner *= d > axis ? array->dimensions[d] : 1;
    }
    if (!flat) {
        fancy.scale = array->strides[axis];
        fancy.extent = array->dimensions[axis];
    }
    struct agent_bulk bulk;
    struct walk walk;
    if (!np_bulk_begin(&bulk, call->name, result))
        return false;
    start_walk(&walk, &bulk, strides, &fancy, 1);
    if (n_inner == 1) {
        agent_bulk_add(&bulk, fancy.data, fancy.stride, fancy.item_bytes, false)->is_index = true;
    } else {
        struct agent_bulk outer;
        agent_bulk_begin(&outer, call->name, (uint32_t)(axis + index->nd), bulk.extent);
        agent_bulk_add(&outer, fancy.data, fancy.stride, fancy.item_bytes, false)->is_index = true;
        agent_bulk_write(&outer, NULL);
    }
    agent_bulk_add_indexed(&bulk, array->data, np_item_bytes(array), false);
    np_bulk_add(&bulk, result, true);
    agent_bulk_write(&bulk, &walk.index);
    return true;
}

void np_take(const struct agent_call *call)
{
    const struct np_array *array = np_as_array(call->self);
    if (!array || !take(call, array))
        agent_unseen();
}

/* a.put(indices, values, mode="raise"): a.flat[indices] = values */
void np_put(const struct agent_call *call)
{
    const struct np_array *array = np_as_array(call->self), *index = np_as_array(agent_argument(call, 0, "indices"));
    const struct np_array *values = np_as_array(agent_argument(call, 1, "values"));
    struct agent_bulk bulk;
    struct walk walk;
    if (!array || !index || !np_is_integer(index) || !raises(agent_argument(call, 2, "mode")) ||
        !(array->flags & NP_C_CONTIGUOUS) || (values && values->nd > 0 && np_size(values) != np_size(index)) ||
        !np_bulk_begin(&bulk, call->name, index)) {
        agent_unseen();
        return;
    }
    struct fancy_array fancy = {.data = index->data, .item_bytes = np_item_bytes(index), .kind = index->dtype->kind,
                                .extent = np_size(array), .scale = np_item_bytes(array)};
    for (int d = 0; d < index->nd; d++)
        fancy.stride[d] = index->strides[d];
    start_walk(&walk, &bulk, NULL, &fancy, 1);
    agent_bulk_add(&bulk, fancy.data, fancy.stride, fancy.item_bytes, false)->is_index = true;
    if (values && values->nd == index->nd)
        np_bulk_add(&bulk, values, false);
    agent_bulk_add_indexed(&bulk, array->data, np_item_bytes(array), true);
    agent_bulk_write(&bulk, &walk.index);
}

/* bincount(x, weights=None, minlength=0): finds the extremes of x, then counts. */
void np_bincount(const struct agent_call *call)
{
    const struct np_array *x = np_as_array(agent_argument(call, 0, "x")), *result = np_as_array(call->result);
    const struct np_array *weights = np_as_array(agent_argument(call, 1, "weights"));
    struct agent_bulk bulk;
    struct walk walk;
    if (!x || x->nd != 1 || !np_is_integer(x) || !result || !np_bulk_begin(&bulk, call->name, x)) {
        agent_unseen();
        return;
    }
    np_read(BINCOUNT_CHECK, x);
    struct fancy_array fancy = {.data = x->data, .stride = {x->strides[0]}, .item_bytes = np_item_bytes(x),
                                .kind = x->dtype->kind, .scale = np_item_bytes(result)};
    bulk.flops = weights != NULL;
    bulk.int_ops = weights == NULL;
    start_walk(&walk, &bulk, NULL, &fancy, 1);
    agent_bulk_add(&bulk, fancy.data, fancy.stride, fancy.item_bytes, false)->is_index = true;
    agent_bulk_add_indexed(&bulk, result->data, np_item_bytes(result), false);
    if (weights)
        np_bulk_add(&bulk, weights, false);
    agent_bulk_add_indexed(&bulk, result->data, np_item_bytes(result), true);
    agent_bulk_write(&bulk, &walk.index);
}
