/* What SciPy's sparse matrix products touch.
 *
 * A product of a CSR matrix walks its rows: for each the row pointer and the row's sum, for each nonzero of the row its
 * column index, its value and the element of x in that column. For CSC, rows and columns change places, and it is the
 * result that is gathered and scattered (scipy/sparse/sparsetools/csr.h, csc.h). Rows are recorded in chunks: first
 * what is touched once for each row of the chunk, then its nonzeros. Conversions and the products of other formats are
 * in conversions.c; the rest of SciPy's sparse functions are one pass over each array and count as unseen.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "sparse.h"

#include <stdlib.h>
#include <string.h>

/* pointers [n_major + 1], indices and values [nonzeros], x and y. */
struct product {
    const char *name;
    const struct np_array *pointers, *indices, *values, *x, *y;
    int64_t n_major, n_vectors;
    bool by_column; /* CSC */
    bool continued_major, continued_minor;
};

struct column_index {
    struct agent_index index;
    const struct np_array *indices;
    int64_t at, n_vectors, vector, scale;
};

static inline int64_t integer_at(const struct np_array *array, int64_t i)
{
    const int64_t stride = array->strides[0];
    if (array->dtype->kind == 'i' && (uintptr_t)array->data % 8 == 0) { /* what SciPy makes */
        if (stride == 4 && np_item_bytes(array) == 4)
            return ((const int32_t *)array->data)[i];
        if (stride == 8 && np_item_bytes(array) == 8)
            return ((const int64_t *)array->data)[i];
    }
    return np_load_integer(array->data + i * array->strides[0], np_item_bytes(array), array->dtype->kind);
}

/* One vector, and SciPy's usual indices. */
static void next_narrow_columns(struct agent_index *index, int32_t *numbers, int64_t count)
{
    struct column_index *columns = (struct column_index *)index;
    memcpy(numbers, columns->indices->data + columns->at * 4, (size_t)count * 4);
    columns->at += count;
}

static void next_columns(struct agent_index *index, int64_t *offsets, int64_t count)
{
    struct column_index *columns = (struct column_index *)index;
    for (int64_t i = 0; i < count; i++) {
        offsets[i] =
            (integer_at(columns->indices, columns->at) * columns->n_vectors + columns->vector) * columns->scale;
        if (++columns->vector == columns->n_vectors) {
            columns->vector = 0;
            columns->at++;
        }
    }
}

static const char *element(const struct np_array *array, int64_t i)
{
    return array->data + i * array->strides[0];
}

static struct agent_operand *add_run(struct agent_bulk *bulk, const struct np_array *array, int64_t from, bool store)
{
    const int64_t strides[] = {array->strides[0], 0};
    return agent_bulk_add(bulk, element(array, from), strides, np_item_bytes(array), store);
}

static uint32_t flops_of(const struct np_array *values)
{
    return values->dtype->kind == 'f' ? 2 : values->dtype->kind == 'c' ? 8 : 0;
}

/* What is touched once for each of `count` rows. */
static void write_major(struct product *p, int64_t from, int64_t count)
{
    struct agent_bulk bulk;
    agent_bulk_begin(&bulk, p->name, 1, &count);
    bulk.continued = p->continued_major;
    add_run(&bulk, p->pointers, from, false);
    add_run(&bulk, p->pointers, from + 1, false);
    if (p->n_vectors == 1)
        add_run(&bulk, p->by_column ? p->x : p->y, from, false);
    if (p->n_vectors == 1 && !p->by_column)
        add_run(&bulk, p->y, from, true);
    agent_bulk_write(&bulk, NULL);
    p->continued_major = true;
}

static void add_gathered(struct agent_bulk *bulk, const struct product *p)
{
    const struct np_array *target = p->by_column ? p->y : p->x;
    agent_bulk_add_indexed(bulk, target->data, np_item_bytes(target), false);
    if (p->by_column)
        agent_bulk_add_indexed(bulk, target->data, np_item_bytes(target), true);
}

static struct column_index columns_from(const struct product *p, int64_t from)
{
    const struct np_array *target = p->by_column ? p->y : p->x;
    const bool narrow = p->n_vectors == 1 && np_item_bytes(p->indices) == 4 && p->indices->dtype->kind == 'i' &&
                        p->indices->strides[0] == 4;
    struct column_index columns = {.indices = p->indices,
                                   .at = from,
                                   .n_vectors = p->n_vectors,
                                   .scale = target->strides[0],
                                   .index = {.scale = target->strides[0]}};
    if (narrow)
        columns.index.next_narrow = next_narrow_columns;
    else
        columns.index.next = next_columns;
    return columns;
}

static void write_nonzeros(struct product *p, int64_t from, int64_t count)
{
    struct agent_bulk bulk;
    struct column_index columns = columns_from(p, from);
    agent_bulk_begin(&bulk, p->name, 1, &count);
    bulk.continued = p->continued_minor;
    bulk.flops = flops_of(p->values);
    bulk.int_ops = bulk.flops ? 0 : 2;
    add_run(&bulk, p->indices, from, false)->is_index = true;
    add_run(&bulk, p->values, from, false);
    add_gathered(&bulk, p);
    agent_bulk_write(&bulk, &columns.index);
    p->continued_minor |= count > 0;
}

/* One row times several vectors, which lie side by side in x and y. */
static void write_row_of_vectors(struct product *p, int64_t row, int64_t from, int64_t count)
{
    const struct np_array *other = p->by_column ? p->x : p->y;
    const int64_t extents[] = {count, p->n_vectors}, strides[] = {0, other->strides[0]};
    struct agent_bulk bulk;
    struct column_index columns = columns_from(p, from);
    agent_bulk_begin(&bulk, p->name, 1, &count);
    bulk.continued = p->continued_minor;
    add_run(&bulk, p->indices, from, false)->is_index = true;
    add_run(&bulk, p->values, from, false);
    agent_bulk_write(&bulk, NULL);
    agent_bulk_begin(&bulk, p->name, 2, extents);
    bulk.continued = p->continued_minor;
    bulk.flops = flops_of(p->values);
    bulk.int_ops = bulk.flops ? 0 : 2;
    add_gathered(&bulk, p);
    agent_bulk_add(&bulk, element(other, row * p->n_vectors), strides, np_item_bytes(other), false);
    if (!p->by_column)
        agent_bulk_add(&bulk, element(other, row * p->n_vectors), strides, np_item_bytes(other), true);
    agent_bulk_write(&bulk, &columns.index);
    p->continued_minor |= count > 0;
}

/* The end of the chunk of rows that begins at `first`: as many as have few enough nonzeros together, or one. */
static int64_t chunk_end(const struct product *p, int64_t first)
{
    const int64_t last = integer_at(p->pointers, first) + SPARSE_CHUNK_NONZEROS;
    int64_t good = first + 1, bad = p->n_vectors == 1 ? p->n_major + 1 : good + 1; /* pointers do not go down */
    while (bad - good > 1) {
        const int64_t middle = good + (bad - good) / 2;
        *(integer_at(p->pointers, middle) <= last ? &good : &bad) = middle;
    }
    return good;
}

static void write_product(struct product *p)
{
    int64_t row = 0;
    while (row < p->n_major) {
        const int64_t first = row, from = integer_at(p->pointers, row);
        row = chunk_end(p, first);
        const int64_t to = integer_at(p->pointers, row);
        write_major(p, first, row - first);
        if (p->n_vectors == 1)
            write_nonzeros(p, from, to - from);
        else
            write_row_of_vectors(p, first, from, to - from);
    }
}

bool sparse_integer_argument(PyObject *object, int64_t *value)
{
    *value = PyIndex_Check(object) ? PyNumber_AsSsize_t(object, PyExc_OverflowError) : -1;
    PyErr_Clear();
    return *value >= 0;
}

static bool never_goes_down(const struct np_array *array, int64_t n)
{
    bool down = false;
    if (array->dtype->kind == 'i' && np_item_bytes(array) == 4 && array->strides[0] == 4 &&
        (uintptr_t)array->data % 4 == 0) {
        const int32_t *values = (const int32_t *)array->data;
        for (int64_t i = 1; i < n; i++) /* plain enough to be vectorised */
            down |= values[i] < values[i - 1];
        return !down;
    }
    for (int64_t i = 1; i < n; i++)
        down |= integer_at(array, i) < integer_at(array, i - 1);
    return !down;
}

/* Whether the arrays can be what SciPy took them for: everything that is going to be read lies in them. */
static bool plausible(const struct product *p)
{
    const struct np_array *vectors[] = {p->pointers, p->indices, p->values, p->x, p->y};
    for (int i = 0; i < 5; i++)
        if (!vectors[i] || vectors[i]->nd != 1 || np_is_object(vectors[i]))
            return false;
    if (!np_is_integer(p->pointers) || !np_is_integer(p->indices) || p->pointers->dimensions[0] < p->n_major + 1)
        return false;
    int64_t limit = p->indices->dimensions[0];
    limit = p->values->dimensions[0] < limit ? p->values->dimensions[0] : limit;
    return integer_at(p->pointers, 0) >= 0 && integer_at(p->pointers, p->n_major) <= limit &&
           never_goes_down(p->pointers, p->n_major + 1);
}

/* csr_matvec and csc_matvec(n_row, n_col, Ap, Aj, Ax, Xx, Yx); csr_matvecs and csc_matvecs with n_vecs in third place.
 */
static void product_function(const struct agent_call *call)
{
    bool several = call->name[strlen(call->name) - 1] == 's';
    struct product p = {.name = call->name, .n_vectors = 1, .by_column = strstr(call->name, ".csc_") != NULL};
    int64_t n_row, n_column;
    PyObject *const *arrays = call->args + 2 + several;
    if (call->n_args != 7 + several || !sparse_integer_argument(call->args[0], &n_row) ||
        !sparse_integer_argument(call->args[1], &n_column) ||
        (several && !sparse_integer_argument(call->args[2], &p.n_vectors))) {
        agent_unseen();
        return;
    }
    p.n_major = p.by_column ? n_column : n_row;
    p.pointers = np_as_array(arrays[0]);
    p.indices = np_as_array(arrays[1]);
    p.values = np_as_array(arrays[2]);
    p.x = np_as_array(arrays[3]);
    p.y = np_as_array(arrays[4]);
    if (plausible(&p))
        write_product(&p);
    else
        agent_unseen();
}

static void other_function(const struct agent_call *call)
{
    np_one_pass(call->name, call->args, call->n_args, NULL);
    agent_unseen();
}

void sparse_install(PyObject *module)
{
    static const char prefix[] = "scipy.sparse.";
    PyObject *key, *value, *dict = PyModule_GetDict(module);
    for (Py_ssize_t at = 0; PyDict_Next(dict, &at, &key, &value);) {
        const char *name = PyCFunction_Check(value) ? PyUnicode_AsUTF8(key) : NULL;
        char *full = name ? malloc(sizeof prefix + strlen(name)) : NULL;
        if (!full)
            continue;
        strcat(strcpy(full, prefix), name);
        bool product = strcmp(name, "csr_matvec") == 0 || strcmp(name, "csr_matvecs") == 0 ||
                       strcmp(name, "csc_matvec") == 0 || strcmp(name, "csc_matvecs") == 0;
        agent_template conversion = sparse_conversion(name);
        agent_template template = product ? product_function : conversion ? conversion : other_function;
        if (agent_hook_callable(value, full, template) != AGENT_HOOKED)
            free(full);
    }
    PyErr_Clear();
}
