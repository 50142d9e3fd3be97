/* Keys of subscripts, and the walks they lead to. Needs Python.h included first.
 *
 * A key is parsed into a `selection`: a part of the array that strides describe (integers and slices), and index arrays
 * that are broadcast together ("fancy" in NumPy's source). NumPy walks the fancy dimensions outside and the strided
 * ones inside, wherever they stand in the result (multiarray/mapping.c); so does a `walk`.
 */
#ifndef FORETRACE_PYAGENT_KEY_H
#define FORETRACE_PYAGENT_KEY_H

#include "numpy.h"

#define KEY_MAX_FANCY 5 /* index arrays of one key; with the array, its store and a value they are the operands */

/* An index array. */
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

struct selection {
    const struct np_array *array;
    int axis;     /* the next one that a key item is for */
    int64_t base; /* byte offset of the strided part */
    uint32_t n_strided, n_fancy;
    int64_t extent[AGENT_MAX_DIMS], stride[AGENT_MAX_DIMS]; /* of the strided part */
    struct fancy_array fancy[KEY_MAX_FANCY];
    const struct np_array *mask[KEY_MAX_FANCY]; /* beside `fancy`: the mask it was made from */
    uint32_t fancy_nd;
    int64_t fancy_shape[AGENT_MAX_DIMS];
    bool loaded;                            /* an integer of the key is a NumPy scalar: it comes out of an array */
    bool any_fancy, after_gap, consecutive; /* whether the fancy dimensions stay in place in the result */
    uint32_t n_before;                      /* strided dimensions before them */
};

/* False if the key has something in it that is not understood. To be released in any case. */
bool key_parse(struct selection *selection, const struct np_array *array, PyObject *key);

void key_release(struct selection *selection);

/* Whether an item is an integer, one that takes no Python code to find out. */
bool key_is_integer(PyObject *item);

bool key_integer(PyObject *item, int64_t *value);

/* Starts the walk over a bulk's dimensions: `strides` are those of the strided part, NULL for none. */
void walk_start(struct walk *walk, const struct agent_bulk *bulk, const int64_t *strides,
                const struct fancy_array *arrays, uint32_t n_arrays);

#endif
