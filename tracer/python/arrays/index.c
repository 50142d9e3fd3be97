/* What indexing touches: a[i], a[i, j], a[1:n], a[index], a[mask], a[...] = v, ufunc.at, take, put, bincount.
 *
 * NumPy reads an index array a second time, to check it before anything is written, in an assignment and in ufunc.at,
 * and in a subscript with more than one index array (PyArray_MapIterCheckIndices, mapiter_trivial_set). A boolean mask
 * is read once to count and once to select (count_boolean_trues, array_boolean_subscript).
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "key.h"

#include <string.h>

#define MASK_CHUNK 2048

const char NP_GETITEM[] = "numpy.ndarray.__getitem__", NP_SETITEM[] = "numpy.ndarray.__setitem__";
static const char GET_CHECK[] = "numpy.ndarray.__getitem__ (index check)";
static const char SET_CHECK[] = "numpy.ndarray.__setitem__ (index check)";
static const char GET_MASK[] = "numpy.ndarray.__getitem__ (mask)", SET_MASK[] = "numpy.ndarray.__setitem__ (mask)";
static const char GET_PICKED[] = "numpy.ndarray.__getitem__ (picked)";
static const char SET_PICKED[] = "numpy.ndarray.__setitem__ (picked)";
static const char AT_CHECK[] = "numpy.ufunc.at (index check)";
static const char BINCOUNT_CHECK[] = "numpy.bincount (index check)";

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

/* The passes over masks and, if `of_all`, index arrays that come before the elements. */
static void write_checks(const struct selection *s, const char *check, bool of_all)
{
    for (uint32_t k = 0; k < s->n_fancy; k++) {
        if (s->mask[k]) {
            np_read(check, s->mask[k]);
            np_read(check, s->mask[k]);
        } else if (of_all) {
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
    walk_start(&walk, &bulk, strides, s->fancy, s->n_fancy);
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
    int64_t n, taken;
    int32_t numbers[MASK_CHUNK + 1]; /* of elements */
};

static void next_chosen(struct agent_index *index, int32_t *numbers, int64_t count)
{
    struct chosen *chosen = (struct chosen *)index;
    memcpy(numbers, chosen->numbers + chosen->taken, (size_t)count * sizeof *numbers);
    chosen->taken += count;
}

/* The elements of a mask's chunk that are set, or not set, as numbers of elements that lie `scale` bytes apart. */
static void choose(struct chosen *chosen, const char *mask, int64_t mask_stride, int64_t count, bool set, int64_t scale)
{
    chosen->index = (struct agent_index){.next_narrow = next_chosen, .scale = scale};
    chosen->n = chosen->taken = 0;
    for (int64_t i = 0; i < count; i++) { /* nobody can guess what is set */
        chosen->numbers[chosen->n] = (int32_t)i;
        chosen->n += (mask[i * mask_stride] != 0) == set;
    }
}

struct masked {
    const char *name, *mask_name; /* of the elements, and of the mask */
    int64_t item_bytes, other_bytes, other_stride;
    const char *other; /* where the values come from or go to; NULL: nowhere */
    bool store, continued;
};

/* One chunk: reads `count` elements of the mask, then touches those chosen. */
static void write_masked_chunk(struct masked *m, const char *mask, int64_t mask_stride, const char *data,
                               int64_t stride, int64_t count)
{
    struct chosen chosen;
    struct agent_bulk bulk;
    agent_bulk_begin(&bulk, m->mask_name, 1, &count);
    bulk.continued = true;                                           /* of the counting pass */
    agent_bulk_add(&bulk, mask, &mask_stride, 1, false)->kind = 'b'; /* as the counting pass has it */
    agent_bulk_write(&bulk, NULL);
    choose(&chosen, mask, mask_stride, count, true, stride);
    const int64_t n = chosen.n;
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

/* All of one shape, contiguous in the same order: points count along memory. */
static bool same_layout(const struct np_array *a, const struct np_array *b)
{
    int both = a->flags & b->flags & (NP_C_CONTIGUOUS | NP_F_CONTIGUOUS);
    for (int d = 0; a->nd == b->nd && d < a->nd; d++)
        if (a->dimensions[d] != b->dimensions[d])
            return false;
    return a->nd == b->nd && both;
}

bool np_masked_copy(const char *name, const struct np_array *to, const struct np_array *from,
                    const struct np_array *mask)
{
    const int64_t size = np_size(to), bytes = np_item_bytes(to), one = 1;
    if (mask->dtype->kind != 'b' || !same_layout(to, mask) ||
        (from && (!same_layout(to, from) || np_item_bytes(from) != bytes)))
        return false;
    bool continued = false;
    for (int64_t done = 0; done < size; done += MASK_CHUNK) {
        int64_t count = size - done < MASK_CHUNK ? size - done : MASK_CHUNK;
        struct chosen chosen;
        struct agent_bulk bulk;
        agent_bulk_begin(&bulk, name, 1, &count);
        bulk.continued = done > 0;
        agent_bulk_add(&bulk, mask->data + done, &one, 1, false);
        agent_bulk_write(&bulk, NULL);
        choose(&chosen, mask->data + done, 1, count, true, bytes);
        agent_bulk_begin(&bulk, name, 1, &chosen.n);
        bulk.continued = continued;
        if (from)
            agent_bulk_add_indexed(&bulk, from->data + done * bytes, bytes, false);
        agent_bulk_add_indexed(&bulk, to->data + done * bytes, bytes, true);
        agent_bulk_write(&bulk, &chosen.index);
        continued |= chosen.n > 0;
    }
    return true;
}

bool np_where(const char *name, const struct np_array *mask, const struct np_array *if_true,
              const struct np_array *if_false, const struct np_array *result)
{
    const struct np_array *from[] = {if_false, if_true};
    const int64_t size = np_size(mask), one = 1, bytes = np_item_bytes(result);
    bool continued[] = {false, false};
    if (mask->dtype->kind != 'b' || !same_layout(mask, result))
        return false;
    for (int k = 0; k < 2; k++)
        if (from[k] && !same_layout(mask, from[k]))
            return false;
    for (int64_t done = 0; done < size; done += MASK_CHUNK) {
        int64_t count = size - done < MASK_CHUNK ? size - done : MASK_CHUNK;
        struct agent_bulk bulk;
        agent_bulk_begin(&bulk, name, 1, &count);
        bulk.continued = done > 0;
        agent_bulk_add(&bulk, mask->data + done, &one, 1, false);
        agent_bulk_add(&bulk, result->data + done * bytes, &bytes, bytes, true);
        agent_bulk_write(&bulk, NULL);
        for (int k = 1; k >= 0; k--) {
            if (!from[k])
                continue;
            const int64_t item_bytes = np_item_bytes(from[k]);
            struct chosen chosen;
            choose(&chosen, mask->data + done, 1, count, k, item_bytes);
            agent_bulk_begin(&bulk, name, 1, &chosen.n);
            bulk.continued = continued[k];
            agent_bulk_add_indexed(&bulk, from[k]->data + done * item_bytes, item_bytes, false);
            agent_bulk_write(&bulk, &chosen.index);
            continued[k] |= chosen.n > 0;
        }
    }
    return true;
}

bool np_select_flat(const char *name, const struct np_array *array, const struct np_array *mask,
                    const struct np_array *other, bool store)
{
    if (mask->dtype->kind != 'b' || mask->nd == 0 || !same_layout(mask, array) || !(mask->flags & NP_C_CONTIGUOUS) ||
        (other && other->nd != 1))
        return false;
    struct masked m = {.name = name, .mask_name = name, .item_bytes = np_item_bytes(array), .store = store};
    if (other) {
        m.other = other->data;
        m.other_bytes = np_item_bytes(other);
        m.other_stride = other->strides[0];
    }
    write_masked(&m, mask, array);
    return true;
}

/* ---- subscripts ------------------------------------------------------------------------------------------------- */

/* a[i] of a vector. */
static void write_element(const struct np_array *array, PyObject *key, bool store)
{
    int64_t i;
    if (!key_integer(key, &i))
        return;
    i += i < 0 ? array->dimensions[0] : 0;
    agent_write_access(store ? NP_SETITEM : NP_GETITEM, array->data, i * array->strides[0], np_item_bytes(array), store,
                       !PyLong_Check(key));
}

static void get_selection(const struct np_array *array, PyObject *key, const struct np_array *result)
{
    struct selection s;
    if (!key_parse(&s, array, key)) {
        agent_unseen();
    } else if (s.n_fancy == 0) {
        if (!result && s.n_strided == 0 && array->dtype->kind != 'V') /* a structure's scalar is a view of it */
            agent_write_access(NP_GETITEM, array->data, s.base, np_item_bytes(array), false, s.loaded);
    } else if (result) {
        write_checks(&s, GET_CHECK, s.n_fancy > 1);
        if (!write_fancy(&s, NP_GETITEM, ACTION_GET, result, 0, 0))
            agent_unseen();
    } else {
        agent_unseen();
    }
    key_release(&s);
}

void np_get(PyObject *self, PyObject *key, PyObject *result_object)
{
    const struct np_array *array = (const struct np_array *)self, *result = np_as_array(result_object);
    const struct np_array *mask;
    if (array->nd == 1 && !result && array->dtype->kind != 'V' && key_is_integer(key)) {
        write_element(array, key, false);
    } else if (PyLong_CheckExact(key) || PySlice_Check(key) || key == Py_None || key == Py_Ellipsis ||
               PyUnicode_Check(key)) {
        return; /* a view */
    } else if (result && (mask = own_mask(array, key))) {
        struct masked m = {.name = GET_PICKED,
                           .mask_name = GET_MASK,
                           .item_bytes = np_item_bytes(array),
                           .other = result->data,
                           .other_bytes = np_item_bytes(array),
                           .other_stride = np_item_bytes(array)};
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
    bool understood = key_parse(&s, array, key);
    if (understood && s.n_fancy == 0) {
        understood = set_strided(&s, value);
    } else if (understood) {
        write_checks(&s, SET_CHECK, true);
        understood = write_fancy(&s, NP_SETITEM, ACTION_SET, value, 0, 0);
    }
    if (!understood)
        agent_unseen();
    key_release(&s);
}

void np_set(PyObject *self, PyObject *key, PyObject *value_object)
{
    const struct np_array *array = (const struct np_array *)self, *value = np_as_array(value_object);
    const struct np_array *mask;
    if (array->nd == 1 && array->dtype->kind != 'V' && key_is_integer(key)) {
        write_element(array, key, true);
    } else if (array->dtype->kind == 'V' || PyUnicode_Check(key)) {
        agent_unseen();
    } else if ((mask = own_mask(array, key)) && (!value || value->nd <= 1)) {
        struct masked m = {
            .name = SET_PICKED, .mask_name = SET_MASK, .item_bytes = np_item_bytes(array), .store = true};
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
    bool understood = key_parse(&s, array, key) && s.n_fancy > 0;
    if (understood) {
        write_checks(&s, AT_CHECK, true);
        understood = write_fancy(&s, name, ACTION_UPDATE, values, flops, int_ops);
    }
    key_release(&s);
    return understood;
}

/* ---- take, put, bincount ---------------------------------------------------------------------------------------- */

static bool raises(PyObject *mode)
{
    return !mode || mode == Py_None || (PyUnicode_Check(mode) && PyUnicode_CompareWithASCIIString(mode, "raise") == 0);
}

/* The axis that a take is along, -1 if the array is taken as flat. False if it is not understood. */
static bool take_axis(const struct agent_call *call, const struct np_array *array, int64_t *axis)
{
    PyObject *object = agent_argument(call, 1, "axis");
    *axis = -1;
    if (!object || object == Py_None)
        return array->flags & NP_C_CONTIGUOUS;
    if (!key_is_integer(object) || !key_integer(object, axis))
        return false;
    *axis += *axis < 0 ? array->nd : 0;
    return *axis >= 0 && *axis < array->nd;
}

/* a.take(indices, axis=None, out=None, mode="raise"): in C order, the axis replaced by the indices' shape. */
static bool take(const struct agent_call *call, const struct np_array *array)
{
    const struct np_array *result = np_as_array(call->result), *index = np_as_array(agent_argument(call, 0, "indices"));
    struct agent_bulk bulk, outer;
    struct walk walk;
    int64_t axis, n_inner = 1, strides[2 * AGENT_MAX_DIMS] = {0};
    if (!index || !result || !np_is_integer(index) || !raises(agent_argument(call, 3, "mode")) ||
        !take_axis(call, array, &axis) || !np_bulk_begin(&bulk, call->name, result) ||
        result->nd != (axis < 0 ? 0 : array->nd - 1) + index->nd)
        return false;
    struct fancy_array fancy = {.data = index->data,
                                .item_bytes = np_item_bytes(index),
                                .kind = index->dtype->kind,
                                .scale = axis < 0 ? np_item_bytes(array) : array->strides[axis],
                                .extent = axis < 0 ? np_size(array) : array->dimensions[axis]};
    for (int d = 0; axis >= 0 && d < array->nd; d++) {
        if (d != axis)
            strides[d < axis ? d : d + index->nd - 1] = array->strides[d];
        n_inner *= d > axis ? array->dimensions[d] : 1;
    }
    axis = axis < 0 ? 0 : axis;
    for (int d = 0; d < index->nd; d++)
        fancy.stride[axis + d] = index->strides[d];
    walk_start(&walk, &bulk, strides, &fancy, 1);
    agent_bulk_begin(&outer, call->name, (uint32_t)(axis + index->nd), bulk.extent);
    agent_bulk_add(n_inner == 1 ? &bulk : &outer, fancy.data, fancy.stride, fancy.item_bytes, false)->is_index = true;
    agent_bulk_write(&outer, NULL);
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
    struct fancy_array fancy = {.data = index->data,
                                .item_bytes = np_item_bytes(index),
                                .kind = index->dtype->kind,
                                .extent = np_size(array),
                                .scale = np_item_bytes(array)};
    for (int d = 0; d < index->nd; d++)
        fancy.stride[d] = index->strides[d];
    walk_start(&walk, &bulk, NULL, &fancy, 1);
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
    struct fancy_array fancy = {.data = x->data,
                                .stride = {x->strides[0]},
                                .item_bytes = np_item_bytes(x),
                                .kind = x->dtype->kind,
                                .extent = np_size(result),
                                .scale = np_item_bytes(result)};
    bulk.flops = weights != NULL;
    bulk.int_ops = weights == NULL;
    walk_start(&walk, &bulk, NULL, &fancy, 1);
    agent_bulk_add(&bulk, fancy.data, fancy.stride, fancy.item_bytes, false)->is_index = true;
    agent_bulk_add_indexed(&bulk, result->data, np_item_bytes(result), false);
    if (weights)
        np_bulk_add(&bulk, weights, false);
    agent_bulk_add_indexed(&bulk, result->data, np_item_bytes(result), true);
    agent_bulk_write(&bulk, &walk.index);
}
