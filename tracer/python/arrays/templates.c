/* What NumPy's other functions and methods touch: copies, fills, searches, products; and the table of them all.
 *
 * A template says "one pass" where an operation reads its inputs and writes its output in an order or number of its own
 * (sorting, searching): each array once, and the call is counted as unseen. Matrix products are an exception: BLAS
 * blocks them so that one pass over each factor is what they cost below the caches; the result is cleared, then loaded
 * and stored for each block of terms. Their flops are exact.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "numpy.h"

#include <string.h>

/* ---- building blocks -------------------------------------------------------------------------------------------- */

bool np_bulk_begin(struct agent_bulk *bulk, const char *name, const struct np_array *shape)
{
    int64_t extents[AGENT_MAX_DIMS];
    if (shape->nd > AGENT_MAX_DIMS)
        return false;
    for (int d = 0; d < shape->nd; d++)
        extents[d] = shape->dimensions[d];
    agent_bulk_begin(bulk, name, (uint32_t)shape->nd, extents);
    return true;
}

bool np_bulk_add(struct agent_bulk *bulk, const struct np_array *array, bool store)
{
    int64_t strides[AGENT_MAX_DIMS] = {0};
    int missing = (int)bulk->n_dims - array->nd;
    for (int d = 0; d < array->nd; d++) {
        int at = d + missing;
        if (array->dimensions[d] == 1)
            continue;
        if (at < 0 || array->dimensions[d] != bulk->extent[at])
            return false;
        strides[at] = array->strides[d];
    }
    agent_bulk_add(bulk, array->data, strides, np_item_bytes(array), store)->kind = np_kind(array);
    return true;
}

void np_copy(const char *name, const struct np_array *to, const struct np_array *from)
{
    struct agent_bulk bulk;
    if (!np_bulk_begin(&bulk, name, to) || (from && !np_bulk_add(&bulk, from, false))) {
        agent_unseen();
        return;
    }
    np_bulk_add(&bulk, to, true);
    agent_bulk_order(&bulk);
    agent_bulk_write(&bulk, NULL);
}

void np_read(const char *name, const struct np_array *array)
{
    struct agent_bulk bulk;
    if (!np_bulk_begin(&bulk, name, array)) {
        agent_unseen();
        return;
    }
    np_bulk_add(&bulk, array, false);
    agent_bulk_order(&bulk);
    agent_bulk_write(&bulk, NULL);
}

void np_one_pass(const char *name, PyObject *const *inputs, Py_ssize_t n_inputs, PyObject *output)
{
    for (Py_ssize_t i = 0; i < n_inputs; i++)
        if (np_is_array(inputs[i]))
            np_read(name, (struct np_array *)inputs[i]);
    if (np_is_array(output))
        np_copy(name, (struct np_array *)output, NULL);
}

/* BLAS sums this many terms at a time into each element of a product (OpenBLAS: DGEMM_DEFAULT_Q of Haswell). */
#define PRODUCT_BLOCK 256

/* ---- products --------------------------------------------------------------------------------------------------- */

static void set_product_cost(struct agent_bulk *bulk, char kind, int64_t terms)
{
    bulk->flops = (uint32_t)(terms * (kind == 'f' ? 2 : kind == 'c' ? 8 : 0));
    bulk->int_ops = (uint32_t)(kind == 'f' || kind == 'c' ? 0 : terms * 2);
}

/* What a product does to its result once it is cleared. */
static void add_product_terms(const char *name, const struct np_array *result, int64_t summed)
{
    struct agent_bulk bulk;
    for (int64_t done = 0; done < summed; done += PRODUCT_BLOCK) {
        np_bulk_begin(&bulk, name, result);
        np_bulk_add(&bulk, result, false);
        np_bulk_add(&bulk, result, true);
        agent_bulk_order(&bulk);
        bulk.continued = done > 0;
        agent_bulk_write(&bulk, NULL);
    }
}

/* A vector times a vector or a matrix, whose sums run over a's last axis and b's last but one (or only). */
static bool vector_product(const char *name, const struct np_array *a, const struct np_array *b,
                           const struct np_array *result)
{
    struct agent_bulk bulk;
    int64_t extents[2], a_strides[2] = {0}, b_strides[2] = {0};
    uint32_t nd = a->nd + b->nd == 2 ? 1 : 2;
    if (a->nd < 1 || b->nd < 1 || a->nd + b->nd > 3)
        return false;
    const struct np_array *matrix = a->nd == 2 ? a : b; /* or, of two vectors, either */
    for (uint32_t d = 0; d < nd; d++)
        extents[d] = matrix->dimensions[d];
    memcpy(a_strides, a->strides, (size_t)a->nd * sizeof *a_strides);
    if (b->nd == (int)nd)
        memcpy(b_strides, b->strides, nd * sizeof *b_strides);
    else
        b_strides[1] = b->strides[0];
    agent_bulk_begin(&bulk, name, nd, extents);
    set_product_cost(&bulk, a->dtype->kind, 1);
    agent_bulk_add(&bulk, a->data, a_strides, np_item_bytes(a), false);
    agent_bulk_add(&bulk, b->data, b_strides, np_item_bytes(b), false);
    agent_bulk_order(&bulk);
    agent_bulk_write(&bulk, NULL);
    if (result) {
        np_copy(name, result, NULL);
        add_product_terms(name, result, 1);
    }
    return true;
}

/* Extent of an array's dimension, counted from the last (1); 1 where it has no such dimension. */
static int64_t extent_from_last(const struct np_array *array, int d)
{
    return array->nd >= d ? array->dimensions[array->nd - d] : 1;
}

static int64_t stacked(const struct np_array *array, int core_dims)
{
    int64_t batch = 1;
    for (int d = 0; d < array->nd - core_dims; d++)
        batch *= array->dimensions[d];
    return batch;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* What BLAS is asked for. NumPy's dot of arrays of more dimensions takes each element of the result by itself. */
static struct np_product_shape product_shape(const char *name, const struct np_array *a, const struct np_array *b,
                                             const struct np_array *result)
{
    const int64_t summed = extent_from_last(a, 1), size = result ? np_size(result) : 1;
    const char *own = strrchr(name, '.') + 1;
    const bool by_element = strcmp(own, "dot") == 0 && (a->nd > 2 || b->nd > 2);
    if (by_element || strcmp(own, "vecdot") == 0)
        return (struct np_product_shape){1, summed, 1, size};
    if (strcmp(own, "matvec") == 0)
        return (struct np_product_shape){extent_from_last(a, 2), summed, 1, larger(stacked(a, 2), stacked(b, 1))};
    if (strcmp(own, "vecmat") == 0)
        return (struct np_product_shape){1, summed, extent_from_last(b, 1), larger(stacked(a, 1), stacked(b, 2))};
    return (struct np_product_shape){extent_from_last(a, 2), summed, b->nd < 2 ? 1 : extent_from_last(b, 1),
                                     larger(stacked(a, 2), stacked(b, 2))};
}

void np_product(const char *name, const struct np_array *a, const struct np_array *b, PyObject *result_object)
{
    const struct np_array *result = np_as_array(result_object);
    struct agent_bulk bulk;
    if (np_is_object(a) || np_is_object(b) || a->nd == 0 || b->nd == 0) {
        agent_unseen();
        return;
    }
    const struct np_product_shape shape = product_shape(name, a, b, result);
    linear_product(name, a, b, &shape);
    if (vector_product(name, a, b, result))
        return;
    np_read(name, a);
    np_read(name, b);
    if (!result || !np_bulk_begin(&bulk, name, result)) {
        agent_unseen();
        return;
    }
    const int64_t summed = a->dimensions[a->nd - 1];
    set_product_cost(&bulk, result->dtype->kind, summed);
    np_bulk_add(&bulk, result, true);
    agent_bulk_order(&bulk);
    agent_bulk_write(&bulk, NULL);
    add_product_terms(name, result, summed);
}

static void product_of(const struct agent_call *call, PyObject *a, PyObject *b)
{
    if (np_is_array(a) && np_is_array(b))
        np_product(call->name, (struct np_array *)a, (struct np_array *)b, call->result);
    else
        agent_unseen();
}

static void dot_function(const struct agent_call *call)
{
    product_of(call, agent_argument(call, 0, "a"), agent_argument(call, 1, "b"));
}

static void dot_method(const struct agent_call *call)
{
    product_of(call, call->self, agent_argument(call, 0, "b"));
}

/* inner(a, b) and vdot(a, b): of vectors, the same as dot; of matrices, inner is the product with b's transpose, and
 * vdot that of both as vectors. */
static void inner_function(const struct agent_call *call)
{
    const struct np_array *a = np_as_array(agent_argument(call, 0, "a")),
                          *b = np_as_array(agent_argument(call, 1, "b"));
    const struct np_array *result = np_as_array(call->result);
    if (a && b && a->nd == 1 && b->nd == 1) {
        np_product(call->name, a, b, call->result);
        return;
    }
    np_one_pass(call->name, call->args, call->n_args, call->result);
    if (!a || !b || np_is_object(a) || np_is_object(b) || a->nd == 0 || b->nd == 0) {
        agent_unseen();
        return;
    }
    struct np_product_shape shape = {1, np_size(a), 1, 1};
    if (result && a->nd <= 2 && b->nd <= 2)
        shape = (struct np_product_shape){extent_from_last(a, 2), extent_from_last(a, 1), extent_from_last(b, 2), 1};
    else if (result)
        shape = (struct np_product_shape){1, extent_from_last(a, 1), 1, np_size(result)};
    linear_product(call->name, a, b, &shape);
}

static void einsum_function(const struct agent_call *call)
{
    if (linear_einsum(call))
        return;
    np_one_pass(call->name, call->args, call->n_args, call->result);
    agent_unseen();
}

/* ---- copies ----------------------------------------------------------------------------------------------------- */

/* A copy whose result is one-dimensional, in C order. */
static void copy_flat(const char *name, const struct np_array *to, const struct np_array *from)
{
    struct agent_bulk bulk;
    int64_t strides[AGENT_MAX_DIMS], stride = np_item_bytes(to);
    if (!np_bulk_begin(&bulk, name, from)) {
        agent_unseen();
        return;
    }
    for (int d = from->nd; d-- > 0;) {
        strides[d] = stride;
        stride *= from->dimensions[d];
    }
    np_bulk_add(&bulk, from, false);
    agent_bulk_add(&bulk, to->data, from->nd ? strides : NULL, np_item_bytes(to), true);
    agent_bulk_order(&bulk);
    agent_bulk_write(&bulk, NULL);
}

static bool is_c_order(PyObject *order)
{
    return !order || order == Py_None || (PyUnicode_Check(order) && PyUnicode_CompareWithASCIIString(order, "C") == 0);
}

/* Methods that return a copy of their array, or the array itself, or a view. */
static void copy_method(const struct agent_call *call)
{
    const struct np_array *from = np_as_array(call->self), *to = np_as_array(call->result);
    if (!from || !to || to->data == from->data)
        return;
    if (to->nd == from->nd)
        np_copy(call->name, to, from);
    else if (is_c_order(agent_argument(call, 0, "order")))
        copy_flat(call->name, to, from);
    else
        np_one_pass(call->name, &call->self, 1, call->result);
}

/* byteswap(inplace=False) */
static void byteswap_method(const struct agent_call *call)
{
    const struct np_array *array = (const struct np_array *)call->self;
    if (call->result == call->self)
        np_copy(call->name, array, array);
    else
        copy_method(call);
}

#define NP_OWNS_DATA 0x0004

/* array(object), asarray(object) and their like. */
static void array_function(const struct agent_call *call)
{
    PyObject *object = call->n_args ? call->args[0] : NULL;
    const struct np_array *from = np_as_array(object), *to = np_as_array(call->result);
    if (!to || !(to->flags & NP_OWNS_DATA) || (from && to->data == from->data))
        return;
    np_copy(call->name, to, from);
}

static void fill_result(const struct agent_call *call)
{
    if (np_is_array(call->result))
        np_copy(call->name, (struct np_array *)call->result, NULL);
}

static void fill_method(const struct agent_call *call)
{
    np_copy(call->name, (struct np_array *)call->self, NULL);
}

/* copyto(dst, src, casting="same_kind", where=True) */
static void copyto_function(const struct agent_call *call)
{
    const struct np_array *to = np_as_array(agent_argument(call, 0, "dst"));
    const struct np_array *from = np_as_array(agent_argument(call, 1, "src"));
    const struct np_array *where = np_as_array(agent_argument(call, 3, "where"));
    if (!to || (where && np_masked_copy(call->name, to, from, where)))
        return;
    if (where) {
        np_read(call->name, where);
        agent_unseen(); /* which elements it let through */
    }
    np_copy(call->name, to, from);
}

/* putmask(a, mask, values) */
static void putmask_function(const struct agent_call *call)
{
    const struct np_array *to = np_as_array(agent_argument(call, 0, "a"));
    const struct np_array *mask = np_as_array(agent_argument(call, 1, "mask"));
    const struct np_array *values = np_as_array(agent_argument(call, 2, "values"));
    if (to && mask && (!values || np_size(values) == 1 || np_size(values) == np_size(to)) &&
        np_masked_copy(call->name, to, values && np_size(values) == 1 ? NULL : values, mask))
        return;
    np_one_pass(call->name, call->args, call->n_args, call->args[0]);
    agent_unseen();
}

/* The array that has the part of `whole` from `start` along `axis`, as large as `part`. */
static struct np_array part_of(const struct np_array *whole, const struct np_array *part, int axis, int64_t start)
{
    struct np_array view = *whole;
    view.dimensions = part->dimensions;
    view.data += start * whole->strides[axis];
    return view;
}

/* concatenate(arrays, axis=0, out=None) */
static void concatenate_function(const struct agent_call *call)
{
    const struct np_array *to = np_as_array(call->result);
    PyObject *arrays = agent_argument(call, 0, "arrays"), *axis_object = agent_argument(call, 1, "axis");
    bool flat = axis_object == Py_None;
    long axis = axis_object && PyLong_Check(axis_object) ? PyLong_AsLong(axis_object) : 0;
    if (!to || !arrays || !(PyTuple_CheckExact(arrays) || PyList_CheckExact(arrays)) || flat ||
        (axis += axis < 0 ? to->nd : 0) < 0 || axis >= to->nd) {
        PyErr_Clear();
        fill_result(call);
        agent_unseen();
        return;
    }
    int64_t start = 0;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(arrays); i++) {
        const struct np_array *from = np_as_array(PySequence_Fast_GET_ITEM(arrays, i));
        if (!from || from->nd != to->nd) {
            agent_unseen();
            return;
        }
        struct np_array part = part_of(to, from, (int)axis, start);
        np_copy(call->name, &part, from);
        start += from->dimensions[axis];
    }
}

/* ---- searches and the rest -------------------------------------------------------------------------------------- */

/* Reads its array once; writes its result, if that is an array, once. */
static void read_method(const struct agent_call *call)
{
    if (np_is_array(call->self))
        np_read(call->name, (struct np_array *)call->self);
    fill_result(call);
}

static void read_function(const struct agent_call *call)
{
    if (call->n_args && np_is_array(call->args[0]))
        np_read(call->name, (struct np_array *)call->args[0]);
    fill_result(call);
}

/* _monotonicity(x): reads on while x rises or falls, which it does to the end unless the answer is 0. */
static void monotonicity_function(const struct agent_call *call)
{
    read_function(call);
    if (call->result && PyLong_Check(call->result) && PyLong_AsLong(call->result) == 0)
        agent_unseen();
}

/* Counts, then collects: a tuple of index arrays. */
static void collect_nonzero(const char *name, const struct np_array *array, PyObject *result)
{
    np_read(name, array);
    np_read(name, array);
    for (Py_ssize_t i = 0; PyTuple_CheckExact(result) && i < PyTuple_GET_SIZE(result); i++)
        if (np_is_array(PyTuple_GET_ITEM(result, i)))
            np_copy(name, (struct np_array *)PyTuple_GET_ITEM(result, i), NULL);
}

static void nonzero_method(const struct agent_call *call)
{
    collect_nonzero(call->name, (struct np_array *)call->self, call->result);
}

/* where(condition[, x, y]) */
static void where_function(const struct agent_call *call)
{
    const struct np_array *result = np_as_array(call->result),
                          *mask = np_as_array(agent_argument(call, 0, "condition"));
    struct agent_bulk bulk;
    if (call->n_args == 1 && mask) {
        collect_nonzero(call->name, mask, call->result);
        return;
    }
    if (call->n_args == 3 && result && mask &&
        np_where(call->name, mask, np_as_array(call->args[1]), np_as_array(call->args[2]), result))
        return;
    agent_unseen(); /* of other layouts, x and y are taken to be read everywhere */
    bool fits = call->n_args == 3 && result && np_bulk_begin(&bulk, call->name, result);
    for (Py_ssize_t i = 0; fits && i < 3; i++)
        if (np_is_array(call->args[i]))
            fits = np_bulk_add(&bulk, (struct np_array *)call->args[i], false);
    if (!fits || !np_bulk_add(&bulk, result, true))
        return;
    agent_bulk_order(&bulk);
    agent_bulk_write(&bulk, NULL);
}

/* _place(array, mask, values): values[0], values[1], ... where the mask is set */
static void place_function(const struct agent_call *call)
{
    const struct np_array *array = np_as_array(agent_argument(call, 0, "arr"));
    const struct np_array *mask = np_as_array(agent_argument(call, 1, "mask"));
    const struct np_array *values = np_as_array(agent_argument(call, 2, "vals"));
    if (array && mask && values && values->nd == 1 && np_size(values) >= np_size(array) &&
        np_select_flat(call->name, array, mask, values, true))
        return;
    np_one_pass(call->name, call->args, call->n_args, array ? (PyObject *)array : NULL);
    agent_unseen(); /* fewer values start again, which depends on how often the mask is set */
}

/* a.compress(condition, axis=None, out=None) of a vector: counts, then collects. */
static void compress_method(const struct agent_call *call)
{
    const struct np_array *array = np_as_array(call->self), *result = np_as_array(call->result);
    const struct np_array *mask = np_as_array(agent_argument(call, 0, "condition"));
    if (array && mask && result && array->nd == 1 && mask->nd == 1 && mask->dimensions[0] == array->dimensions[0] &&
        mask->dtype->kind == 'b') {
        np_read(call->name, mask);
        if (np_select_flat(call->name, array, mask, result, false))
            return;
    }
    np_one_pass(call->name, &call->self, 1, NULL);
    np_one_pass(call->name, call->args, call->n_args, call->result);
    agent_unseen();
}

/* a.repeat(repeats, axis=None): each element of the flat array is read for each of its copies, which follow each other.
 */
static void repeat_method(const struct agent_call *call)
{
    const struct np_array *array = np_as_array(call->self), *result = np_as_array(call->result);
    PyObject *axis = agent_argument(call, 1, "axis");
    np_one_pass(call->name, call->args, call->n_args, NULL);
    if (array && result && (array->nd == 1 || ((!axis || axis == Py_None) && array->flags & NP_C_CONTIGUOUS)))
        np_one_pass(call->name, &call->self, 1, call->result);
    else
        agent_unseen();
}

/* A plain number among the arguments, or what it is by default. */
static bool integer_argument(const struct agent_call *call, Py_ssize_t position, const char *keyword, int64_t *value)
{
    PyObject *object = agent_argument(call, position, keyword);
    return !object || (PyLong_CheckExact(object) && agent_small_integer(object, value));
}

/* trace(offset=0, axis1=0, axis2=1): of a matrix, one diagonal is read. */
static void trace_method(const struct agent_call *call)
{
    const struct np_array *array = (const struct np_array *)call->self;
    int64_t offset = 0, axis1 = 0, axis2 = 1;
    struct agent_bulk bulk;
    if (array->nd != 2 || !integer_argument(call, 0, "offset", &offset) ||
        !integer_argument(call, 1, "axis1", &axis1) || !integer_argument(call, 2, "axis2", &axis2) || axis1 != 0 ||
        axis2 != 1) {
        np_one_pass(call->name, &call->self, 1, call->result);
        agent_unseen();
        return;
    }
    const int64_t rows = array->dimensions[0] + (offset < 0 ? offset : 0);
    const int64_t columns = array->dimensions[1] - (offset > 0 ? offset : 0), n = rows < columns ? rows : columns;
    const int64_t stride = array->strides[0] + array->strides[1];
    const char *first = array->data + (offset < 0 ? -offset * array->strides[0] : offset * array->strides[1]);
    agent_bulk_begin(&bulk, call->name, 1, &n);
    agent_bulk_add(&bulk, first, &stride, np_item_bytes(array), false)->kind = np_kind(array);
    agent_bulk_write(&bulk, NULL);
}

/* a.item(), a.item(i), a.item(i, j, ...) */
static void item_method(const struct agent_call *call)
{
    const struct np_array *array = (const struct np_array *)call->self;
    int64_t offset = 0, flat = 0;
    if (call->n_args > 1 && call->n_args != array->nd) {
        agent_unseen();
        return;
    }
    for (Py_ssize_t i = 0; i < call->n_args; i++) {
        int64_t extent = call->n_args == 1 ? np_size(array) : array->dimensions[i];
        if (!PyLong_CheckExact(call->args[i])) {
            agent_unseen();
            return;
        }
        flat = PyLong_AsSsize_t(call->args[i]);
        flat += flat < 0 ? extent : 0;
        offset += call->n_args > 1 ? flat * array->strides[i] : 0;
    }
    offset = call->n_args == 1 ? np_flat_offset(array, flat) : offset;
    agent_write_access(call->name, array->data, offset, np_item_bytes(array), false, false);
}

static void one_pass_method(const struct agent_call *call)
{
    np_one_pass(call->name, &call->self, 1, NULL);
    np_one_pass(call->name, call->args, call->n_args, call->result);
    agent_unseen();
}

static void one_pass_in_place(const struct agent_call *call)
{
    np_one_pass(call->name, &call->self, 1, call->self);
    agent_unseen();
}

static void one_pass_function(const struct agent_call *call)
{
    np_one_pass(call->name, call->args, call->n_args, call->result);
    agent_unseen();
}

/* ---- the table -------------------------------------------------------------------------------------------------- */

struct entry {
    const char *name;
    agent_template template;
};

static const struct entry array_methods[] = {
    {"numpy.ndarray.argmax", read_method},
    {"numpy.ndarray.argmin", read_method},
    {"numpy.ndarray.argpartition", one_pass_method},
    {"numpy.ndarray.argsort", one_pass_method},
    {"numpy.ndarray.astype", copy_method},
    {"numpy.ndarray.byteswap", byteswap_method},
    {"numpy.ndarray.choose", one_pass_method},
    {"numpy.ndarray.compress", compress_method},
    {"numpy.ndarray.copy", copy_method},
    {"numpy.ndarray.__copy__", copy_method},
    {"numpy.ndarray.dot", dot_method},
    {"numpy.ndarray.fill", fill_method},
    {"numpy.ndarray.flatten", copy_method},
    {"numpy.ndarray.item", item_method},
    {"numpy.ndarray.nonzero", nonzero_method},
    {"numpy.ndarray.partition", one_pass_in_place},
    {"numpy.ndarray.put", np_put},
    {"numpy.ndarray.ravel", copy_method},
    {"numpy.ndarray.repeat", repeat_method},
    {"numpy.ndarray.reshape", copy_method},
    {"numpy.ndarray.searchsorted", np_searchsorted},
    {"numpy.ndarray.sort", one_pass_in_place},
    {"numpy.ndarray.take", np_take},
    {"numpy.ndarray.tobytes", read_method},
    {"numpy.ndarray.tolist", read_method},
    {"numpy.ndarray.trace", trace_method},
    {"numpy.ndarray.__array__", copy_method},
    {"numpy.ndarray.__deepcopy__", copy_method},
    {"numpy.ndarray.__complex__", item_method},
    {"numpy.ndarray.__format__", read_method},
    {"numpy.ndarray.__reduce__", read_method},
    {"numpy.ndarray.__reduce_ex__", read_method},
    {"numpy.ndarray.__setstate__", fill_method},
    {"numpy.ndarray.tofile", read_method},
    {"numpy.ndarray.tostring", read_method},
};

static const struct entry ufunc_methods[] = {
    {"numpy.ufunc.accumulate", np_ufunc_accumulate}, {"numpy.ufunc.at", np_ufunc_at},
    {"numpy.ufunc.outer", np_ufunc_outer},           {"numpy.ufunc.reduce", np_ufunc_reduce},
    {"numpy.ufunc.reduceat", np_ufunc_reduceat},
};

static const struct entry functions[] = {
    {"numpy.arange", fill_result},
    {"numpy.array", array_function},
    {"numpy.asanyarray", array_function},
    {"numpy.asarray", array_function},
    {"numpy.ascontiguousarray", array_function},
    {"numpy.asfortranarray", array_function},
    {"numpy.bincount", np_bincount},
    {"numpy.c_einsum", einsum_function},
    {"numpy.concatenate", concatenate_function},
    {"numpy.copyto", copyto_function},
    {"numpy.correlate", one_pass_function},
    {"numpy.count_nonzero", read_function},
    {"numpy.dot", dot_function},
    {"numpy.fromiter", fill_result},
    {"numpy.inner", inner_function},
    {"numpy.interp", one_pass_function},
    {"numpy.lexsort", one_pass_function},
    {"numpy.packbits", one_pass_function},
    {"numpy.putmask", putmask_function},
    {"numpy.unpackbits", one_pass_function},
    {"numpy._place", place_function},
    {"numpy.vdot", inner_function},
    {"numpy.where", where_function},
    {"numpy._monotonicity", monotonicity_function},
    {"numpy.fromfile", fill_result},
};

static void install(PyObject *namespace, const struct entry *entries, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        PyObject *callable = PyDict_GetItemString(namespace, strrchr(entries[i].name, '.') + 1);
        if (callable)
            agent_hook_callable(callable, entries[i].name, entries[i].template);
    }
}

#define INSTALL(namespace, entries) install(namespace, entries, sizeof(entries) / sizeof *(entries))

void np_install_methods(PyObject *module)
{
    INSTALL(np.array->tp_dict, array_methods);
    INSTALL(np.ufunc->tp_dict, ufunc_methods);
    INSTALL(PyModule_GetDict(module), functions);
    other_install_methods(np.array, "numpy.ndarray");
    other_install_methods(np.ufunc, "numpy.ufunc");
}
