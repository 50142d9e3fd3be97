/* What binary searches touch: searchsorted, which digitize and histograms with uneven bins come down to.
 *
 * The search is run again (npy_binsearch in NumPy's binsearch.cpp): keys that rise go on from where the last one ended.
 * The keys of a chunk are recorded, then the elements that they were compared with. NumPy 2.5 searches in another way:
 * there, and for arrays of other kinds, a search counts as unseen.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "numpy.h"

#include <stdlib.h>
#include <string.h>

static const char SEARCH[] = "numpy.ndarray.searchsorted (timed)"; /* by how well branches are foreseen */

#define MAX_PROBES 4096 /* of a chunk: a key takes at most 63 */

struct probes {
    struct agent_index index;
    int64_t offsets[MAX_PROBES];
    int64_t n, taken;
};

static void next_probes(struct agent_index *index, int64_t *offsets, int64_t count)
{
    struct probes *probes = (struct probes *)index;
    memcpy(offsets, probes->offsets + probes->taken, (size_t)count * sizeof *offsets);
    probes->taken += count;
}

/* An element as a double, in which all 53-bit numbers compare as they are. Not a number comes last. */
static double number_at(const struct np_array *array, int64_t i)
{
    const char *at = array->data + i * array->strides[0];
    float single;
    double value;
    if (array->dtype->kind != 'f')
        return (double)np_load_integer(at, np_item_bytes(array), array->dtype->kind);
    if (np_item_bytes(array) == 4) {
        memcpy(&single, at, sizeof single);
        return single;
    }
    memcpy(&value, at, sizeof value);
    return value;
}

/* Whether this NumPy's search is the one that is known here: that of all versions before 2.5. */
static bool is_known_search(void)
{
    static int known = -1;
    if (known < 0) {
        PyObject *version = PyImport_ImportModule("numpy.version");
        PyObject *text = version ? PyObject_GetAttrString(version, "version") : NULL;
        const char *numbers = text && PyUnicode_Check(text) ? PyUnicode_AsUTF8(text) : NULL;
        char *end = NULL;
        long major = numbers ? strtol(numbers, &end, 10) : 0,
             minor = end && *end == '.' ? strtol(end + 1, NULL, 10) : 0;
        known = major == 1 || (major == 2 && minor < 5);
        Py_XDECREF(text);
        Py_XDECREF(version);
        PyErr_Clear();
    }
    return known;
}

static bool is_number(const struct np_array *array)
{
    int64_t bytes = np_item_bytes(array);
    return array->nd == 1 && array->dtype->byteorder != '>' &&
           (np_is_integer(array) ? bytes <= 8 : array->dtype->kind == 'f' && (bytes == 4 || bytes == 8));
}

static bool less(double a, double b)
{
    return a < b || (b != b && a == a);
}

struct search {
    const struct np_array *array, *keys;
    bool right;
    int64_t low, high;
    double last_key;
};

/* Searches for key `k`, noting the elements that it is compared with. */
static void search_key(struct search *s, int64_t k, struct probes *probes)
{
    const int64_t n = s->array->dimensions[0];
    const double key = number_at(s->keys, k);
    if (s->right ? !less(key, s->last_key) : less(s->last_key, key)) {
        s->high = n;
    } else {
        s->low = 0;
        s->high = s->high < n ? s->high + 1 : n;
    }
    s->last_key = key;
    while (s->low < s->high) {
        const int64_t middle = s->low + ((s->high - s->low) >> 1);
        const double element = number_at(s->array, middle);
        probes->offsets[probes->n++] = middle * s->array->strides[0];
        if (s->right ? !less(key, element) : less(element, key))
            s->low = middle + 1;
        else
            s->high = middle;
    }
}

static void write_keys(const struct search *s, const struct np_array *result, int64_t from, int64_t count)
{
    struct agent_bulk bulk;
    agent_bulk_begin(&bulk, SEARCH, 1, &count);
    bulk.continued = from > 0;
    agent_bulk_add(&bulk, s->keys->data + from * s->keys->strides[0], s->keys->strides, np_item_bytes(s->keys), false);
    agent_bulk_add(&bulk, result->data + from * result->strides[0], result->strides, np_item_bytes(result), true);
    agent_bulk_write(&bulk, NULL);
}

static void search(struct search *s, const struct np_array *result)
{
    const int64_t n_keys = s->keys->dimensions[0];
    bool continued = false;
    for (int64_t from = 0, k = 0; from < n_keys; from = k) {
        struct probes probes = {.index = {.next = next_probes}};
        struct agent_bulk bulk;
        while (k < n_keys && probes.n <= MAX_PROBES - 64)
            search_key(s, k++, &probes);
        write_keys(s, result, from, k - from);
        agent_bulk_begin(&bulk, SEARCH, 1, &probes.n);
        bulk.continued = continued;
        bulk.int_ops = 1;
        agent_bulk_add_indexed(&bulk, s->array->data, np_item_bytes(s->array), false);
        agent_bulk_write(&bulk, &probes.index);
        continued |= probes.n > 0;
    }
}

/* a.searchsorted(v, side="left", sorter=None) */
void np_searchsorted(const struct agent_call *call)
{
    const struct np_array *array = np_as_array(call->self), *keys = np_as_array(agent_argument(call, 0, "v"));
    const struct np_array *result = np_as_array(call->result);
    PyObject *side = agent_argument(call, 1, "side"), *sorter = agent_argument(call, 2, "sorter");
    bool one_type =
        array && keys && array->dtype->kind == keys->dtype->kind && np_item_bytes(array) == np_item_bytes(keys);
    if (one_type && result && result->nd == 1 && is_number(array) && is_number(keys) && keys->dimensions[0] > 0 &&
        (!sorter || sorter == Py_None) && (!side || PyUnicode_Check(side)) && is_known_search()) {
        struct search s = {.array = array,
                           .keys = keys,
                           .high = array->dimensions[0],
                           .last_key = number_at(keys, 0),
                           .right = side && PyUnicode_READ_CHAR(side, 0) == 'r'};
        search(&s, result);
        agent_keep_time();
        return;
    }
    np_one_pass(call->name, &call->self, 1, NULL);
    np_one_pass(call->name, call->args, call->n_args, call->result);
    agent_unseen();
}
