/* What a ufunc touches, called or through one of its methods.
 *
 * Each element of each operand counts once, at the operand's own size: the buffers through which NumPy casts are not
 * seen. Dimensions run in the order of NumPy's iterator. A reduction over the innermost dimension holds its sum in a
 * register, so that its output is loaded and stored once per inner loop; over another dimension, at every point.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "numpy.h"

#include <string.h>

static bool is_float(char kind)
{
    return kind == 'f' || kind == 'c';
}

static void set_cost(struct agent_bulk *bulk, struct np_cost cost, char kind)
{
    bulk->flops = kind == 'c' ? cost.complex_ : kind == 'f' ? cost.real : 0;
    bulk->int_ops = !is_float(kind);
}

/* Whether a subclass of ndarray has an __array_ufunc__ of its own, which then did the work. */
static bool overrides(PyObject *object)
{
    if (!np_is_array(object) || Py_IS_TYPE(object, np.array))
        return false;
    PyObject *mro = Py_TYPE(object)->tp_mro;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(mro); i++) {
        PyTypeObject *type = (PyTypeObject *)PyTuple_GET_ITEM(mro, i);
        PyObject *found = type->tp_dict ? PyDict_GetItemString(type->tp_dict, "__array_ufunc__") : NULL;
        if (found)
            return found != np.array_ufunc;
    }
    return false;
}

static bool is_scalar(PyObject *object)
{
    return PyType_IsSubtype(Py_TYPE(object), np.scalar) || PyLong_Check(object) || PyFloat_Check(object) ||
           PyComplex_Check(object);
}

/* ---- calls ------------------------------------------------------------------------------------------------------ */

struct operands {
    PyObject *const *inputs;
    PyObject *const *outputs;
    Py_ssize_t n_inputs, n_outputs;
    const struct np_array *shape; /* an operand of the shape that all have, NULL if none is an array */
    char kind;                    /* of the computation */
};

/* False if there is nothing to record, or another did the work. Sets `object` if there are arrays of objects. */
static bool sort_operands(const struct agent_call *call, struct operands *o, bool *objects)
{
    o->inputs = call->args;
    o->n_inputs = ((struct np_ufunc *)call->self)->nin;
    if (call->n_args < o->n_inputs)
        return false;
    bool is_tuple = PyTuple_CheckExact(call->result);
    o->outputs = is_tuple ? &PyTuple_GET_ITEM(call->result, 0) : &call->result;
    o->n_outputs = is_tuple ? PyTuple_GET_SIZE(call->result) : 1;
    o->shape = NULL;
    o->kind = 'i';
    *objects = false;
    for (Py_ssize_t i = 0; i < o->n_inputs + o->n_outputs; i++) {
        bool is_input = i < o->n_inputs;
        PyObject *object = is_input ? o->inputs[i] : o->outputs[i - o->n_inputs];
        if (np_is_array(object)) {
            const struct np_array *array = (const struct np_array *)object;
            o->shape = array; /* the last output wins */
            *objects |= np_is_object(array);
            if (is_float(array->dtype->kind) && o->kind != 'c')
                o->kind = array->dtype->kind;
            if (overrides(object))
                return false;
        } else if (!is_input && !is_scalar(object)) {
            return false;
        }
    }
    return o->shape != NULL;
}

/* A generalised ufunc: one pass over each operand is all that is known, beside the shapes of linear algebra. */
static void generalised_call(const char *name, const struct operands *o)
{
    static const char *const products[] = {"numpy.matmul", "numpy.vecdot", "numpy.matvec", "numpy.vecmat"};
    for (size_t i = 0; i < sizeof products / sizeof *products; i++)
        if (strcmp(name, products[i]) == 0 && np_is_array(o->inputs[0]) && np_is_array(o->inputs[1])) {
            np_product(name, (struct np_array *)o->inputs[0], (struct np_array *)o->inputs[1], o->outputs[0]);
            return;
        }
    if (linear_call(name, o->inputs, o->n_inputs, NULL, o->outputs, o->n_outputs))
        return;
    np_one_pass(name, o->inputs, o->n_inputs, o->outputs[0]);
    for (Py_ssize_t i = 1; i < o->n_outputs; i++)
        if (np_is_array(o->outputs[i]))
            np_copy(name, (struct np_array *)o->outputs[i], NULL);
    agent_unseen();
}

/* Whether an array is one run of `size` elements in C order, as `shape` is. */
static bool is_run_like(const struct np_array *array, const struct np_array *shape)
{
    if (!(array->flags & NP_C_CONTIGUOUS) || array->nd != shape->nd)
        return false;
    for (int d = 0; d < array->nd; d++)
        if (array->dimensions[d] != shape->dimensions[d])
            return false;
    return true;
}

static void add_run(struct agent_bulk *bulk, const struct np_array *array, bool store)
{
    struct agent_operand *operand = &bulk->operand[bulk->n_operands++];
    const int64_t bytes = np_item_bytes(array);
    operand->base = (uintptr_t)array->data;
    operand->size_bytes = bytes > UINT16_MAX ? UINT16_MAX : (uint16_t)bytes;
    operand->store = store;
    operand->indexed = operand->is_index = false;
    operand->kind = np_kind(array);
    operand->stride[0] = bytes;
}

/* The common call, recorded at once: one result, and arrays that are runs of its shape, beside Python's
 * numbers. False if it is another. */
static bool runs_call(const char *name, struct np_cost cost, const struct agent_call *call)
{
    const struct np_ufunc *ufunc = (struct np_ufunc *)call->self;
    const struct np_array *result = (const struct np_array *)call->result;
    struct agent_bulk bulk;
    char kind = 'i';
    if (!Py_IS_TYPE(call->result, np.array) || ufunc->nin >= (int)FT_MAX_OPERANDS || ufunc->nout != 1 ||
        call->n_args < ufunc->nin || cost.generalised || !is_run_like(result, result) || np_is_object(result))
        return false;
    bulk.n_operands = 0;
    for (int i = 0; i <= ufunc->nin; i++) {
        PyObject *object = i < ufunc->nin ? call->args[i] : call->result;
        const struct np_array *array = (const struct np_array *)object;
        if (PyFloat_CheckExact(object) || PyLong_CheckExact(object))
            continue;
        if (!Py_IS_TYPE(object, np.array) || !is_run_like(array, result) || np_is_object(array))
            return false;
        if (is_float(array->dtype->kind) && kind != 'c')
            kind = array->dtype->kind;
        add_run(&bulk, array, i == ufunc->nin);
    }
    if (call->kwnames && np_is_array(agent_argument(call, -1, "where")))
        return false;
    bulk.name = name;
    bulk.continued = false;
    bulk.n_dims = 1;
    bulk.extent[0] = np_size(result);
    set_cost(&bulk, cost, kind);
    agent_bulk_write(&bulk, NULL);
    return true;
}

static bool elementwise_call(const char *name, struct np_cost cost, const struct agent_call *call,
                             const struct operands *o)
{
    struct agent_bulk bulk;
    PyObject *where = agent_argument(call, -1, "where");
    if (o->n_inputs + o->n_outputs + 1 > (Py_ssize_t)FT_MAX_OPERANDS)
        return false;
    if (!np_bulk_begin(&bulk, name, o->shape))
        return false;
    set_cost(&bulk, cost, o->kind);
    bool fits = true;
    for (Py_ssize_t i = 0; i < o->n_inputs; i++)
        if (np_is_array(o->inputs[i]))
            fits = fits && np_bulk_add(&bulk, (struct np_array *)o->inputs[i], false);
    if (np_is_array(where))
        fits = fits && np_bulk_add(&bulk, (struct np_array *)where, false);
    for (Py_ssize_t i = 0; i < o->n_outputs; i++)
        if (np_is_array(o->outputs[i]))
            fits = fits && np_bulk_add(&bulk, (struct np_array *)o->outputs[i], true);
    if (!fits)
        return false;
    agent_bulk_order(&bulk);
    agent_bulk_write(&bulk, NULL);
    return !np_is_array(where); /* not every element was touched */
}

void np_ufunc_call(const struct agent_call *call)
{
    struct operands o;
    struct np_cost cost;
    bool objects;
    const char *name = np_ufunc_name(call->self, NP_CALL, &cost);
    if (!name || runs_call(name, cost, call) || !sort_operands(call, &o, &objects))
        return;
    if (objects)
        agent_unseen();
    else if (cost.generalised)
        generalised_call(name, &o);
    else if (!elementwise_call(name, cost, call, &o))
        agent_unseen();
}

/* ---- reductions ------------------------------------------------------------------------------------------------- */

/* The array that a method of a ufunc works on. NULL, counted if need be, if it cannot be recorded. */
static const struct np_array *method_array(const struct agent_call *call, enum np_method method, const char **name,
                                           struct np_cost *cost)
{
    PyObject *object = agent_argument(call, 0, "array");
    const struct np_array *array = np_as_array(object);
    *name = np_ufunc_name(call->self, method, cost);
    if (array && overrides(object))
        return NULL;
    if (!array || !*name || np_is_object(array) || array->nd > AGENT_MAX_DIMS) {
        agent_unseen();
        return NULL;
    }
    return array;
}

static bool mark_axis(PyObject *axis, int nd, bool *reduced)
{
    long value = PyLong_Check(axis) ? PyLong_AsLong(axis) : nd;
    if (value == -1 && PyErr_Occurred())
        PyErr_Clear();
    value += value < 0 ? nd : 0;
    if (value < 0 || value >= nd)
        return false;
    reduced[value] = true;
    return true;
}

/* Which axes a reduction is over: axis=0 by default, None for all. */
static bool reduced_axes(PyObject *axis, int nd, bool *reduced)
{
    memset(reduced, axis == Py_None, (size_t)nd * sizeof *reduced);
    if (axis == Py_None || nd == 0)
        return true;
    if (!axis) {
        reduced[0] = true;
        return true;
    }
    if (!PyTuple_Check(axis))
        return mark_axis(axis, nd, reduced);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(axis); i++)
        if (!mark_axis(PyTuple_GET_ITEM(axis, i), nd, reduced))
            return false;
    return true;
}

/* Strides of a reduction's result by the dimensions of what is reduced. */
static bool output_strides(const struct np_array *array, const struct np_array *result, const bool *reduced,
                           int64_t *strides)
{
    int kept = 0, n_kept = 0;
    for (int d = 0; d < array->nd; d++)
        n_kept += !reduced[d];
    bool keepdims = result->nd == array->nd;
    if (!keepdims && result->nd != n_kept)
        return false;
    for (int d = 0; d < array->nd; d++) {
        strides[d] = reduced[d] ? 0 : result->strides[keepdims ? d : kept];
        kept += !reduced[d];
    }
    return true;
}

static void reduce(const char *name, struct np_cost cost, const struct np_array *array, const struct np_array *result,
                   const int64_t *strides)
{
    struct agent_bulk bulk;
    np_bulk_begin(&bulk, name, array);
    set_cost(&bulk, cost, array->dtype->kind);
    np_bulk_add(&bulk, array, false);
    if (result) {
        agent_bulk_add(&bulk, result->data, strides, np_item_bytes(result), false)->kind = np_kind(result);
        agent_bulk_add(&bulk, result->data, strides, np_item_bytes(result), true)->kind = np_kind(result);
    }
    agent_bulk_order(&bulk);
    agent_bulk_coalesce(&bulk);
    if (!result || bulk.operand[1].stride[bulk.n_dims - 1] != 0) {
        agent_bulk_write(&bulk, NULL);
        return;
    }
    struct agent_bulk outer = bulk;
    bulk.n_operands = 1;
    agent_bulk_write(&bulk, NULL);
    outer.operand[0] = outer.operand[1];
    outer.operand[1] = outer.operand[2];
    outer.n_operands = 2;
    outer.flops = outer.int_ops = 0;
    if (outer.n_dims > 1)
        outer.n_dims--;
    else
        outer.extent[0] = 1;
    agent_bulk_write(&outer, NULL);
}

void np_ufunc_reduce(const struct agent_call *call)
{
    const char *name;
    struct np_cost cost;
    bool reduced[AGENT_MAX_DIMS];
    int64_t strides[AGENT_MAX_DIMS];
    const struct np_array *array = method_array(call, NP_REDUCE, &name, &cost), *result = np_as_array(call->result);
    if (!array)
        return;
    if (!reduced_axes(agent_argument(call, 1, "axis"), array->nd, reduced) ||
        (result && !output_strides(array, result, reduced, strides))) {
        agent_unseen();
        return;
    }
    reduce(name, cost, array, result, strides);
    if (np_is_array(agent_argument(call, 6, "where")))
        agent_unseen();
}

/* accumulate(array, axis=0): along the axis, which is the inner loop, result[i] = result[i-1] op array[i]. */
void np_ufunc_accumulate(const struct agent_call *call)
{
    const char *name;
    struct np_cost cost;
    bool along[AGENT_MAX_DIMS];
    const struct np_array *array = method_array(call, NP_ACCUMULATE, &name, &cost), *result = np_as_array(call->result);
    PyObject *axis = agent_argument(call, 1, "axis");
    if (!array)
        return;
    if (!result || array->nd == 0 || result->nd != array->nd || axis == Py_None ||
        !reduced_axes(axis, array->nd, along)) {
        agent_unseen();
        return;
    }
    struct agent_bulk first, rest;
    int64_t extents[AGENT_MAX_DIMS], from[AGENT_MAX_DIMS], to[AGENT_MAX_DIMS];
    int n = 0, last = array->nd - 1;
    for (int d = 0; d < array->nd; d++) {
        int place = along[d] ? last : n++;
        extents[place] = array->dimensions[d];
        from[place] = array->strides[d];
        to[place] = result->strides[d];
    }
    agent_bulk_begin(&first, name, (uint32_t)last, extents);
    agent_bulk_add(&first, array->data, from, np_item_bytes(array), false)->kind = np_kind(array);
    agent_bulk_add(&first, result->data, to, np_item_bytes(result), true)->kind = np_kind(result);
    agent_bulk_write(&first, NULL);
    extents[last]--;
    agent_bulk_begin(&rest, name, (uint32_t)array->nd, extents);
    set_cost(&rest, cost, result->dtype->kind);
    agent_bulk_add(&rest, result->data, to, np_item_bytes(result), false)->kind = np_kind(result);
    agent_bulk_add(&rest, array->data + from[last], from, np_item_bytes(array), false)->kind = np_kind(array);
    agent_bulk_add(&rest, result->data + to[last], to, np_item_bytes(result), true)->kind = np_kind(result);
    agent_bulk_write(&rest, NULL);
}

/* The least of a vector of indices that do not go down, -1 if they do. */
static int64_t first_of_rising(const struct np_array *indices)
{
    int64_t last = -1, first = -1;
    for (int64_t i = 0; i < indices->dimensions[0]; i++) {
        int64_t index =
            np_load_integer(indices->data + i * indices->strides[0], np_item_bytes(indices), indices->dtype->kind);
        if (index < last)
            return -1;
        first = i == 0 ? index : first;
        last = index;
    }
    return first;
}

/* reduceat(array, indices, axis=0): each index starts a sum. Rising indices pass over a vector once, from the first on,
 * and are read thrice: to be checked, and as the beginning and the end of a sum. */
void np_ufunc_reduceat(const struct agent_call *call)
{
    const char *name;
    struct np_cost cost;
    const struct np_array *array = method_array(call, NP_REDUCEAT, &name, &cost), *result = np_as_array(call->result);
    const struct np_array *indices = np_as_array(agent_argument(call, 1, "indices"));
    struct agent_bulk bulk;
    if (!array)
        return;
    int64_t first = array->nd == 1 && indices && indices->nd == 1 && np_is_integer(indices) && result
                        ? first_of_rising(indices)
                        : -1;
    if (first < 0 || first >= array->dimensions[0]) {
        PyObject *inputs[] = {(PyObject *)array, agent_argument(call, 1, "indices")};
        np_one_pass(name, inputs, 2, (PyObject *)result);
        agent_unseen(); /* indices that go down make sums of one element */
        return;
    }
    const int64_t n_sums = indices->dimensions[0], n_summed = array->dimensions[0] - first;
    np_read(name, indices);
    agent_bulk_begin(&bulk, name, 1, &n_sums);
    for (int i = 0; i < 2; i++)
        agent_bulk_add(&bulk, indices->data, indices->strides, np_item_bytes(indices), false);
    agent_bulk_add(&bulk, result->data, result->strides, np_item_bytes(result), true);
    agent_bulk_write(&bulk, NULL);
    agent_bulk_begin(&bulk, name, 1, &n_summed);
    set_cost(&bulk, cost, array->dtype->kind);
    agent_bulk_add(&bulk, array->data + first * array->strides[0], array->strides, np_item_bytes(array), false);
    agent_bulk_write(&bulk, NULL);
}

void np_ufunc_outer(const struct agent_call *call)
{
    struct np_cost cost;
    const char *name = np_ufunc_name(call->self, NP_OUTER, &cost);
    const struct np_array *a = np_as_array(agent_argument(call, 0, "A")),
                          *b = np_as_array(agent_argument(call, 1, "B"));
    const struct np_array *result = np_as_array(call->result);
    struct agent_bulk bulk;
    int64_t strides[AGENT_MAX_DIMS] = {0};
    if (!name || !a || !b || !result || result->nd != a->nd + b->nd || np_is_object(result) ||
        !np_bulk_begin(&bulk, name, result)) {
        agent_unseen();
        return;
    }
    set_cost(&bulk, cost, result->dtype->kind);
    for (int d = 0; d < a->nd; d++)
        strides[d] = a->strides[d];
    agent_bulk_add(&bulk, a->data, strides, np_item_bytes(a), false);
    np_bulk_add(&bulk, b, false);
    np_bulk_add(&bulk, result, true);
    agent_bulk_order(&bulk);
    agent_bulk_write(&bulk, NULL);
}

/* Whether values are of the array's own type, so that no cast comes between them. */
static bool is_of_type(const struct np_array *array, PyObject *value)
{
    const struct np_array *values = np_as_array(value);
    const char kind = array->dtype->kind;
    if (values)
        return values->dtype->kind == kind && np_item_bytes(values) == np_item_bytes(array);
    return kind == 'f' ? PyFloat_CheckExact(value) && np_item_bytes(array) == sizeof(double)
                       : kind == 'i' && PyLong_CheckExact(value) && np_item_bytes(array) == sizeof(int64_t);
}

/* What NumPy has a fast loop for: elements of a vector by one vector of indices, and values of their type. */
static bool is_fast_at(const struct np_array *array, const struct agent_call *call)
{
    const struct np_array *index = np_as_array(call->args[1]);
    return array->nd == 1 && index && index->nd == 1 && np_is_integer(index) &&
           (call->n_args < 3 || is_of_type(array, call->args[2]));
}

void np_ufunc_at(const struct agent_call *call)
{
    static const char slow_name[] = "numpy.ufunc.at (timed)";
    struct np_cost cost;
    const char *name = np_ufunc_name(call->self, NP_AT, &cost);
    const struct np_array *array = call->n_args > 0 ? np_as_array(call->args[0]) : NULL;
    const struct np_array *values = call->n_args > 2 ? np_as_array(call->args[2]) : NULL;
    if (array && overrides((PyObject *)array))
        return;
    if (!name || !array || call->n_args < 2 || np_is_object(array)) {
        agent_unseen();
        return;
    }
    char kind = array->dtype->kind;
    uint32_t flops = kind == 'c' ? cost.complex_ : kind == 'f' ? cost.real : 0;
    const bool is_fast = is_fast_at(array, call);
    if (!np_update_at(is_fast ? name : slow_name, array, call->args[1], values, flops, !is_float(kind)))
        agent_unseen();
    if (!is_fast)
        agent_keep_time();
}
