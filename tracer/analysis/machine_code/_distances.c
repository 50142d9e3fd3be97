/* Python's face of distances along paths. See distances.h. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "distances.h"

enum { ADDRESSES, BYTES, IS_STORE, TIMES, STORES, LINES, N_BUFFERS };

/* All that the core indexes with. */
static const char *check(const struct ft_parts *parts, size_t num_times)
{
    for (size_t i = 0; i < parts->number; i++) {
        if (parts->bytes[i] == 0 || parts->bytes[i] > FT_MAX_PART_BYTES ||
            parts->addresses[i] > UINT64_MAX - FT_MAX_PART_BYTES)
            return "a part of an access has an impossible size or address";
        if (parts->times[i] < (i ? parts->times[i - 1] : 0) || (uint64_t)parts->times[i] >= num_times)
            return "the times of accesses are not in order, or beyond the last one";
    }
    return NULL;
}

static PyObject *distances(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer b[N_BUFFERS];
    if (!PyArg_ParseTuple(args, "y*y*y*y*w*w*", &b[0], &b[1], &b[2], &b[3], &b[4], &b[5]))
        return NULL;
    const struct ft_parts parts = {b[ADDRESSES].buf, b[BYTES].buf, b[IS_STORE].buf, b[TIMES].buf, (size_t)b[BYTES].len};
    const Py_ssize_t number = b[BYTES].len;
    const char *wrong = NULL;
    bool done = true;
    if (b[IS_STORE].len != number || b[ADDRESSES].len != 8 * number || b[TIMES].len != 8 * number ||
        b[STORES].len % 2 || b[STORES].len != b[LINES].len)
        wrong = "the arrays do not fit together";
    if (!wrong)
        wrong = check(&parts, (size_t)b[STORES].len / 2);
    if (!wrong) {
        Py_BEGIN_ALLOW_THREADS
        done = ft_distances(&parts, b[STORES].buf, b[LINES].buf);
        Py_END_ALLOW_THREADS
    }
    for (int i = 0; i < N_BUFFERS; i++)
        PyBuffer_Release(&b[i]);
    if (wrong) {
        PyErr_SetString(PyExc_ValueError, wrong);
        return NULL;
    }
    if (!done)
        return PyErr_NoMemory();
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"distances", distances, METH_VARARGS, "distances(addresses, bytes, is_store, times, stores, lines)"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "foretrace.tracer.analysis.machine_code._distances",
    .m_size = -1,
    .m_methods = methods,
};

PyMODINIT_FUNC PyInit__distances(void)
{
    return PyModule_Create(&module);
}
