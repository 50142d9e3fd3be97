/* Counts what routines of linear algebra work on: products, factorisations, solvers, eigenvalues.
 *
 * BLAS and LAPACK touch memory in blocks that depend on the library; what they compute follows from the shapes of their
 * operands. So a call is one pass over its arrays in the stream, and its shapes in the side table, where calls of the
 * same shapes at the same place are counted together. Places with many shapes (a loop over growing vectors) have them
 * rounded.
 *
 * `entries` is an open-addressing table from place, name and shapes to the count; an entry with `counts` NULL is free;
 * entries are never removed; at most half are in use. `names` maps functions of f2py to their names likewise, and keeps
 * them alive. The GIL guards both.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "numpy.h"
#include "tracer/python/native_threads.h"

#include <stdlib.h>
#include <string.h>

#define EXACT_SHAPES 256u    /* of all places, before shapes are rounded: to 5 bits, at most 1.6 % off */
#define ROUNDED_BITS 5
#define MAX_SHAPES (1u << 16) /* beyond them calls count as unseen */

struct key {
    const char *name;
    uint32_t block, site, item_bytes, symmetric;
    uint32_t kind, padding;
    uint64_t shape[6], batch;
};

struct entry {
    struct key key;
    struct ft_side_linear *counts;
};

/* ---- the table -------------------------------------------------------------------------------------------------- */

static uint64_t hash_of(const struct entry *entry)
{
    uint64_t words[sizeof entry->key / sizeof(uint64_t)], hash = 0;
    memcpy(words, &entry->key, sizeof words);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        hash = (hash ^ words[i]) * FT_HASH_FACTOR;
        hash ^= hash >> 32;
    }
    return hash;
}

static inline bool is_used(const struct entry *entry)
{
    return entry->counts;
}

static inline bool is_same(const struct entry *one, const struct entry *other)
{
    return memcmp(&one->key, &other->key, sizeof one->key) == 0;
}

FT_TABLE_TYPE(entries, struct entry);
FT_TABLE(entries, struct entry, 256, hash_of, is_used, is_same)

static struct entries entries;

static void fill(void *memory, uint32_t number, void *context)
{
    struct entry *entry = context;
    struct ft_side_linear *side = memory;
    (void)number;
    side->entry.kind = FT_SIDE_LINEAR;
    side->block_id = entry->key.block;
    side->site = entry->key.site;
    side->name_bytes = (uint32_t)strlen(entry->key.name);
    side->item_bytes = entry->key.item_bytes;
    side->kind = entry->key.kind;
    side->symmetric = entry->key.symmetric;
    memcpy(side->shape, entry->key.shape, sizeof side->shape);
    side->batch = entry->key.batch;
    memcpy(side + 1, entry->key.name, side->name_bytes);
    entry->counts = side;
}

static uint64_t round_bits(uint64_t value)
{
    const int bits = value ? 64 - __builtin_clzll(value) : 0, drop = bits - ROUNDED_BITS;
    return drop <= 0 ? value : ((value + (UINT64_C(1) << (drop - 1))) >> drop) << drop;
}

/* False if there is no room for its shapes. */
static bool count(struct key *key)
{
    key->block = agent_charged_block(); /* before the site, which goes by it */
    key->site = agent_charged_site();
    struct entry added = {.key = *key};
    if (!entries_make_room(&entries))
        return false;
    struct entry *found = entries_at(&entries, &added);
    if (!found->counts && entries.used >= EXACT_SHAPES) {
        for (size_t i = 0; i < sizeof key->shape / sizeof *key->shape; i++)
            key->shape[i] = round_bits(key->shape[i]);
        key->batch = round_bits(key->batch);
        added.key = *key;
        found = entries_at(&entries, &added);
    }
    if (!found->counts) {
        if (entries.used >= MAX_SHAPES ||
            !ft_writer_append(sizeof(struct ft_side_linear) + strlen(key->name), NULL, fill, &added))
            return false;
        *found = added;
        entries.used++;
    }
    atomic_fetch_add_explicit(&found->counts->calls, 1, memory_order_relaxed);
    native_threads_note(true); /* the call may have started some */
    return true;
}

/* ---- elements --------------------------------------------------------------------------------------------------- */

/* The kind and size that a routine computes with: complex if any array is, of double precision if one is or holds
 * integers beside floating point. */
static void add_elements(struct key *key, const struct np_array *array)
{
    const char kind = array->dtype->kind;
    const bool is_complex = kind == 'c', is_float = kind == 'f' || is_complex;
    const uint32_t bytes = (uint32_t)np_item_bytes(array), was_complex = key->kind == 'c';
    const uint32_t had = key->kind == 'f' || was_complex ? key->item_bytes >> was_complex : key->kind ? 8 : 0;
    const uint32_t has = is_float ? bytes >> is_complex : 8, most = had > has ? had : has;
    if (!is_float && key->kind != 'f' && !was_complex) {
        key->kind = (unsigned char)kind;
        key->item_bytes = key->item_bytes > bytes ? key->item_bytes : bytes;
        return;
    }
    key->kind = is_complex || was_complex ? 'c' : 'f';
    key->item_bytes = most << (key->kind == 'c');
}

static bool is_floating(const struct np_array *array)
{
    return array && (array->dtype->kind == 'f' || array->dtype->kind == 'c');
}

/* ---- products --------------------------------------------------------------------------------------------------- */

/* Whether a matrix is the other's transpose, in the same memory. */
static bool are_transposed(const struct np_array *a, const struct np_array *b)
{
    return a->nd == 2 && b->nd == 2 && a->data == b->data && a->dimensions[0] == b->dimensions[1] &&
           a->dimensions[1] == b->dimensions[0] && a->strides[0] == b->strides[1] && a->strides[1] == b->strides[0];
}

void linear_product(const char *name, const struct np_array *a, const struct np_array *b,
                    const struct np_product_shape *shape)
{
    struct key key = {.name = name, .batch = (uint64_t)shape->batch};
    key.shape[0] = key.shape[4] = (uint64_t)shape->rows;
    key.shape[1] = key.shape[2] = (uint64_t)shape->summed;
    key.shape[3] = key.shape[5] = (uint64_t)shape->columns;
    key.symmetric = are_transposed(a, b);
    add_elements(&key, a);
    add_elements(&key, b);
    if (!count(&key))
        agent_unseen();
}

/* ---- LAPACK ----------------------------------------------------------------------------------------------------- */

static const char *const lapack[] = {
    /* without the letter of their type */
    "gemm",  "symm",  "hemm",  "syrk",  "herk",  "trmm",  "trsm",  "gemv",  "dot",   "dotu",  "dotc",  "gesv",  "getrf",
    "getrs", "getri", "posv",  "potrf", "potrs", "potri", "trtrs", "sytrf", "hetrf", "geqrf", "geqp3", "gerqf", "orgqr",
    "ungqr", "orgrq", "ungrq", "ormqr", "unmqr", "syev",  "syevd", "syevr", "syevx", "heev",  "heevd", "heevr", "heevx",
    "geev",  "gees",  "gehrd", "orghr", "unghr", "gesdd", "gesvd", "gels",  "gelsd", "gelss", "gelsy",
};

static const char *const routines[] = {
    "numpy.linalg.cholesky_lo",   "numpy.linalg.cholesky_up", "numpy.linalg.det",      "numpy.linalg.slogdet",
    "numpy.linalg.eig",           "numpy.linalg.eigvals",     "numpy.linalg.eigh_lo",  "numpy.linalg.eigh_up",
    "numpy.linalg.eigvalsh_lo",   "numpy.linalg.eigvalsh_up", "numpy.linalg.inv",      "numpy.linalg.lstsq",
    "numpy.linalg.qr_complete",   "numpy.linalg.qr_reduced",  "numpy.linalg.qr_r_raw", "numpy.linalg.qr_r_raw_m",
    "numpy.linalg.qr_r_raw_n",    "numpy.linalg.solve",       "numpy.linalg.solve1",   "numpy.linalg.svd",
    "numpy.linalg.svd_f",         "numpy.linalg.svd_s",       "numpy.linalg.svd_m",    "numpy.linalg.svd_n",
    "numpy.linalg.svd_m_f",       "numpy.linalg.svd_n_f",     "numpy.linalg.svd_m_s",  "numpy.linalg.svd_n_s",
    "numpy.linalg.lstsq_m",       "numpy.linalg.lstsq_n",     "scipy.linalg._solve",   "scipy.linalg._inv",
    "scipy.linalg.lu_dispatcher",
};

static bool is_one_of(const char *name, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

#define IS_ONE_OF(name, names) is_one_of(name, names, sizeof(names) / sizeof *(names))

static bool is_known(const char *name)
{
    static const char numpy[] = "numpy.linalg.", scipy[] = "scipy.linalg.";
    const size_t length = sizeof scipy - 1;
    if (strncmp(name, numpy, sizeof numpy - 1) != 0 && strncmp(name, scipy, length) != 0)
        return false;
    return IS_ONE_OF(name, routines) ||
           (*name == 's' && name[length] && strchr("sdcz", name[length]) && IS_ONE_OF(name + length + 1, lapack));
}

static void set_shape(uint64_t *shape, const struct np_array *array)
{
    shape[0] = array->nd == 0 ? 1 : (uint64_t)array->dimensions[array->nd < 2 ? 0 : array->nd - 2];
    shape[1] = array->nd < 2 ? 0 : (uint64_t)array->dimensions[array->nd - 1];
}

struct operands {
    const struct np_array *array[2];
    int n;
};

static void add_operand(struct operands *operands, PyObject *object)
{
    const struct np_array *array = np_as_array(object);
    if (array && operands->n < 2 && array->dtype->kind != 'O' && (operands->n || array->nd) &&
        (is_floating(array) || operands->n == 0))
        operands->array[operands->n++] = array;
}

bool linear_call(const char *name, PyObject *const *args, Py_ssize_t n_args, PyObject *kwargs, PyObject *const *results,
                 Py_ssize_t n_results)
{
    struct operands operands = {.n = 0};
    struct key key = {.name = name, .batch = 1};
    PyObject *keyword, *value;
    if (!name || !is_known(name))
        return false;
    for (Py_ssize_t i = 0; i < n_args; i++)
        add_operand(&operands, args[i]);
    for (Py_ssize_t at = 0; kwargs && PyDict_Next(kwargs, &at, &keyword, &value);)
        add_operand(&operands, value);
    if (operands.n == 0)
        return false;
    int64_t largest = -1;
    for (int i = 0; i < operands.n; i++) {
        set_shape(&key.shape[2 * i], operands.array[i]);
        add_elements(&key, operands.array[i]);
    }
    for (Py_ssize_t i = 0; i < n_results; i++) {
        const struct np_array *array = np_as_array(results[i]);
        if (is_floating(array) && np_size(array) > largest) {
            largest = np_size(array);
            set_shape(&key.shape[4], array);
        }
    }
    for (int d = 0; d < operands.array[0]->nd - 2; d++)
        key.batch *= (uint64_t)operands.array[0]->dimensions[d];
    if (key.kind != 'f' && key.kind != 'c') { /* cast to double precision first */
        key.kind = 'f';
        key.item_bytes = 8;
    }
    if (!count(&key))
        return false;
    np_one_pass(name, args, n_args, NULL);
    for (Py_ssize_t at = 0; kwargs && PyDict_Next(kwargs, &at, &keyword, &value);)
        np_one_pass(name, &value, 1, NULL);
    for (Py_ssize_t i = 0; i < n_results; i++)
        np_one_pass(name, NULL, 0, results[i]);
    return true;
}

/* ---- einsum ----------------------------------------------------------------------------------------------------- */

#define N_LETTERS 128

/* Adds what a term of subscripts ("ij", "...k") says of an array's extents; false if they do not fit. */
static bool add_term(const char **text, const struct np_array *array, int64_t *extent, int64_t *ellipsis)
{
    int n = 0, before = -1;
    char letters[AGENT_MAX_DIMS];
    for (; **text && **text != ',' && **text != '-'; ++*text) {
        if (**text == '.') {
            if (before < 0)
                before = n;
        } else if (**text != ' ') {
            if (n == AGENT_MAX_DIMS || (unsigned char)**text >= N_LETTERS)
                return false;
            letters[n++] = **text;
        }
    }
    if (before < 0 ? n != array->nd : n > array->nd)
        return false;
    int64_t others = 1;
    for (int d = 0; d < array->nd; d++) {
        const int after = d - (array->nd - n);
        const int letter = before < 0 || d < before ? d : after >= before ? after : -1;
        int64_t *to = letter < 0 ? &others : &extent[(unsigned char)letters[letter]];
        if (letter < 0)
            *to *= array->dimensions[d];
        else if (array->dimensions[d] > *to)
            *to = array->dimensions[d];
    }
    if (others > *ellipsis)
        *ellipsis = others;
    return true;
}

bool linear_einsum(const struct agent_call *call)
{
    struct key key = {.name = call->name, .batch = 1};
    int64_t extent[N_LETTERS] = {0}, points = 1;
    const char *text = call->n_args > 1 && PyUnicode_Check(call->args[0]) ? PyUnicode_AsUTF8(call->args[0]) : NULL;
    PyErr_Clear();
    if (!text)
        return false;
    for (Py_ssize_t i = 1; i < call->n_args; i++) {
        const struct np_array *array = np_as_array(call->args[i]);
        if (!array || np_is_object(array) || !add_term(&text, array, extent, &points))
            return false;
        if (*text == ',')
            text++;
        add_elements(&key, array);
    }
    for (int letter = 0; letter < N_LETTERS; letter++)
        points *= extent[letter] ? extent[letter] : 1;
    key.shape[0] = (uint64_t)points;
    key.shape[2] = (uint64_t)(call->n_args - 1);
    const struct np_array *result = np_as_array(call->result);
    if (call->n_args == 2 && result && result->data == ((struct np_array *)call->args[1])->data)
        return true; /* a view */
    key.shape[4] = result ? (uint64_t)np_size(result) : 1;
    if (!count(&key))
        return false;
    np_one_pass(call->name, call->args, call->n_args, call->result);
    return true;
}

/* ---- names of f2py's functions ---------------------------------------------------------------------------------- */

#define N_NAMES 4096u /* half of them in use, at most: LAPACK has 1,300 */

static struct {
    PyObject *function;
    const char *name;
} names[N_NAMES];
static unsigned n_names;

/* "dgetrf" of "function dgetrf". */
static char *read_name(PyObject *function)
{
    PyObject *object = PyObject_GetAttrString(function, "__name__");
    const char *text = object && PyUnicode_Check(object) ? PyUnicode_AsUTF8(object) : NULL;
    const char *space = text ? strrchr(text, ' ') : NULL;
    char *name = text ? np_full_name("scipy.linalg", space ? space + 1 : text) : NULL;
    Py_XDECREF(object);
    PyErr_Clear();
    return name;
}

const char *linear_fortran_name(PyObject *function)
{
    size_t slot = ft_hash_pointer(function) & (N_NAMES - 1);
    while (names[slot].function && names[slot].function != function)
        slot = (slot + 1) & (N_NAMES - 1);
    if (!names[slot].function) {
        if (2 * n_names >= N_NAMES)
            return NULL;
        names[slot].name = read_name(function);
        names[slot].function = Py_NewRef(function);
        n_names++;
    }
    return names[slot].name;
}
