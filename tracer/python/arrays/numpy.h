/* NumPy's objects as far as the agent looks into them. Needs Python.h included first.
 *
 * The agent is built without NumPy's headers. The structures below mirror the beginning of NumPy's own, which its
 * binary interface keeps; before any hook is installed they are compared with what NumPy itself says of an array.
 */
#ifndef FORETRACE_PYAGENT_NUMPY_H
#define FORETRACE_PYAGENT_NUMPY_H

#include "hooks.h"

#define NP_C_CONTIGUOUS 0x0001
#define NP_F_CONTIGUOUS 0x0002

extern const char NP_GETITEM[], NP_SETITEM[];

struct np_dtype {
    PyObject_HEAD
    PyTypeObject *scalar_type;
    char kind, type, byteorder, former_flags;
    int type_num;
    union {
        struct {
            int item_bytes;
        } v1; /* NumPy 1 */
        struct {
            uint64_t flags;
            Py_ssize_t item_bytes;
        } v2; /* NumPy 2 */
    } tail;
};

struct np_array {
    PyObject_HEAD
    char *data;
    int nd;
    Py_ssize_t *dimensions;
    Py_ssize_t *strides;
    PyObject *base;
    struct np_dtype *dtype;
    int flags;
};

struct np_ufunc {
    PyObject_HEAD
    int nin, nout, nargs;
};

/* What is known of NumPy once it is loaded. */
struct np_state {
    PyTypeObject *array, *ufunc, *scalar; /* numpy.ndarray, numpy.ufunc, numpy.generic */
    PyObject *as_array;                   /* numpy.asarray's C function */
    PyObject *array_ufunc;                /* ndarray.__array_ufunc__ */
    bool version_1;
};

extern struct np_state np;

/* Looks at an extension module that has just been loaded, and hooks what is in it. */
void agent_module_loaded(PyObject *module);

static inline bool np_is_array(PyObject *object)
{
    return object && (Py_IS_TYPE(object, np.array) || PyType_IsSubtype(Py_TYPE(object), np.array));
}

static inline struct np_array *np_as_array(PyObject *object)
{
    return np_is_array(object) ? (struct np_array *)object : NULL;
}

static inline int64_t np_item_bytes(const struct np_array *array)
{
    return np.version_1 ? array->dtype->tail.v1.item_bytes : array->dtype->tail.v2.item_bytes;
}

static inline int64_t np_size(const struct np_array *array)
{
    int64_t size = 1;
    for (int d = 0; d < array->nd; d++)
        size *= array->dimensions[d];
    return size;
}

static inline bool np_is_integer(const struct np_array *array)
{
    return (array->dtype->kind == 'i' || array->dtype->kind == 'u') && array->dtype->byteorder != '>';
}

/* The kind of its elements; 0 where they are of another byte order than the machine's. */
static inline char np_kind(const struct np_array *array)
{
    return array->dtype->byteorder == '>' ? 0 : array->dtype->kind;
}

static inline bool np_is_object(const struct np_array *array)
{
    return array->dtype->kind == 'O';
}

/* Adds the offset along dimension `d` that an integer of Python's own means. False if it is none, or none that is
 * there. */
static inline bool np_add_offset(const struct np_array *array, Py_ssize_t d, PyObject *key, int64_t *offset)
{
    int64_t i;
    if (!PyLong_CheckExact(key) || !agent_small_integer(key, &i))
        return false;
    i += i < 0 ? array->dimensions[d] : 0;
    *offset += i * array->strides[d];
    return (uint64_t)i < (uint64_t)array->dimensions[d];
}

/* Whether a key of Python's own integers names one element of numbers, and that is there: the common case, which calls
 * nothing of ours. */
static inline bool np_element_offset(const struct np_array *array, PyObject *key, int64_t *offset)
{
    *offset = 0;
    if (array->dtype->kind == 'V' || array->dtype->kind == 'O')
        return false;
    if (array->nd == 1 && np_add_offset(array, 0, key, offset))
        return true;
    bool is_one = PyTuple_CheckExact(key) && PyTuple_GET_SIZE(key) == array->nd;
    *offset = 0;
    for (Py_ssize_t d = 0; is_one && d < array->nd; d++)
        is_one = np_add_offset(array, d, PyTuple_GET_ITEM(key, d), offset);
    return is_one;
}

/* An integer of the given size and kind, wherever it lies. */
int64_t np_load_integer(const char *at, int64_t item_bytes, char kind);

/* Floating-point operations of a ufunc on one element, by the kind of its operands. Functions such as exp or sin count
 * as none: how many they take is their implementation's affair. */
struct np_cost {
    uint8_t real, complex_;
    bool generalised; /* it has a signature: it works on more than single elements */
};

enum np_method { NP_CALL, NP_REDUCE, NP_ACCUMULATE, NP_REDUCEAT, NP_OUTER, NP_AT, NP_N_METHODS };

/* What a hooked ufunc is called ("numpy.add.reduce") and costs; NULL if it is not hooked. */
const char *np_ufunc_name(PyObject *ufunc, enum np_method method, struct np_cost *cost);

/* "numpy.add" for what lives in one of NumPy's own modules, "scipy.special.gamma" for SciPy's. To be freed. */
char *np_full_name(const char *module, const char *name);

/* Bytes of one pass over the arrays that a call was given and has returned. */
uint64_t np_call_bytes(const struct agent_call *call);

void np_count_unseen(const struct agent_call *call);

/* Ends what agent_record_begin began: counts the call if it was not seen. */
static inline void np_record_end(const struct agent_call *call)
{
    if (agent_thread.unseen)
        np_count_unseen(call);
    agent_record_end();
}

/* ---- templates (templates.c, ufunc.c, index.c) ------------------------------------------- */

/* Starts a bulk over an array's own shape; false if that is too deep. */
bool np_bulk_begin(struct agent_bulk *bulk, const char *name, const struct np_array *shape);

/* Adds an array, broadcast to the bulk's shape; false if it does not fit. */
bool np_bulk_add(struct agent_bulk *bulk, const struct np_array *array, bool store);

/* One pass over each input and the output: what is known of operations that touch them in ways of their own. */
void np_one_pass(const char *name, PyObject *const *inputs, Py_ssize_t n_inputs, PyObject *output);

/* Stores to every element of an array, and loads of what is copied there (NULL: no array). */
void np_copy(const char *name, const struct np_array *to, const struct np_array *from);

/* Loads of every element of an array. */
void np_read(const char *name, const struct np_array *array);

/* A matrix product of any kind: `summed` elements go into each element of the result. */
void np_product(const char *name, const struct np_array *a, const struct np_array *b, PyObject *result);

void np_ufunc_call(const struct agent_call *call);
void np_ufunc_reduce(const struct agent_call *call);
void np_ufunc_accumulate(const struct agent_call *call);
void np_ufunc_reduceat(const struct agent_call *call);
void np_ufunc_outer(const struct agent_call *call);
void np_ufunc_at(const struct agent_call *call);

/* Hooks the method tables of ndarray, ufunc and NumPy's core module. */
void np_install_methods(PyObject *module);

void np_get(PyObject *self, PyObject *key, PyObject *result);
void np_set(PyObject *self, PyObject *key, PyObject *value);
bool np_update_at(const char *name, const struct np_array *array, PyObject *key, const struct np_array *values,
                  uint32_t flops, uint32_t int_ops);
/* Copies elements where a boolean mask says so, walking all in C order; `from` may be NULL. False if their shapes and
 * layouts differ. */
bool np_masked_copy(const char *name, const struct np_array *to, const struct np_array *from,
                    const struct np_array *mask);

/* where(mask, if_true, if_false): each element is read of one of the two, either of which may be NULL. */
bool np_where(const char *name, const struct np_array *mask, const struct np_array *if_true,
              const struct np_array *if_false, const struct np_array *result);

/* Copies between the elements that a mask picks, in C order, and consecutive ones of a vector. */
bool np_select_flat(const char *name, const struct np_array *array, const struct np_array *mask,
                    const struct np_array *other, bool store);

void np_take(const struct agent_call *call);
void np_put(const struct agent_call *call);
void np_searchsorted(const struct agent_call *call);
void np_bincount(const struct agent_call *call);

/* ---- memory of arrays (allocations.c) ------------------------------------------------------------------------------ */

/* Has NumPy tell what memory its arrays have. */
void allocations_install(PyObject *module);

/* ---- SciPy (sparse.c) ------------------------------------------------------------------------------------ */

void sparse_install(PyObject *module);

/* ---- array.flat (flat.c) --------------------------------------------------------------------------------- */

void flat_install(PyObject *some_array);

/* Where element `i` of an array lies, counted in C order. */
int64_t np_flat_offset(const struct np_array *array, int64_t i);

/* ---- linear algebra (linear.c) ----------------------------------------------------------------------------------- */

/* A product of any kind as rows x `summed` times `summed` x columns, `batch` times. */
struct np_product_shape {
    int64_t rows, summed, columns, batch;
};

/* Counts a call of a product of `a` and `b`. */
void linear_product(const char *name, const struct np_array *a, const struct np_array *b,
                    const struct np_product_shape *shape);

/* Counts a call of a routine by the shapes of its first two arrays of floating point and of its largest result, and
 * records one pass over its arrays. False, with nothing done, if the routine is none that is known. */
bool linear_call(const char *name, PyObject *const *args, Py_ssize_t n_args, PyObject *kwargs, PyObject *const *results,
                 Py_ssize_t n_results);

/* Counts a call of einsum. False if its work cannot be told. */
bool linear_einsum(const struct agent_call *call);

/* The name that a function made by f2py is recorded by: "scipy.linalg.dgetrf". NULL if it is not known. */
const char *linear_fortran_name(PyObject *function);

/* ---- other compiled functions (other.c) ------------------------------------------------------------------ */

void other_install(PyObject *module, const char *name);
void other_install_methods(PyTypeObject *type, const char *name);

/* Hooks the calls of a type's objects; `name` stands for all their modules, or is NULL. */
void other_hook_called(PyTypeObject *type, const char *name);

/* ---- Cython (cython.c) ----------------------------------------------------------------------------------- */

void cython_install(PyObject *module, const char *name);

/* Hooks an object that is called by its own vectorcall. False if it has none, or is hooked; else `name` is kept. */
bool cython_hook_object(PyObject *object, char *name);

#endif
