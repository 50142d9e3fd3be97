/* What the parts for SciPy's sparse functions share. Needs Python.h included first. */
#ifndef FORETRACE_PYAGENT_SPARSE_H
#define FORETRACE_PYAGENT_SPARSE_H

#include "numpy.h"

/* Nonzeros in a record: what is touched together in time stands together in the stream. */
#define SPARSE_CHUNK_NONZEROS 2048

bool sparse_integer_argument(PyObject *object, int64_t *value);

static inline int64_t sparse_integer_at(const struct np_array *array, int64_t i)
{
    return np_load_integer(array->data + i * np_item_bytes(array), np_item_bytes(array), array->dtype->kind);
}

/* The template of a function of scipy.sparse._sparsetools other than the products of CSR and CSC; NULL if there is
 * none. (conversions.c) */
agent_template sparse_conversion(const char *name);

#endif
