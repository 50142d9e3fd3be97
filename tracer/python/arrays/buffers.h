/* The type slots of array.array, bytearray and memoryview. Needs Python.h included first. */
#ifndef FORETRACE_PYAGENT_BUFFERS_H
#define FORETRACE_PYAGENT_BUFFERS_H

#include "hooks.h"

/* Hooks bytearray and memoryview, which are always there. */
void buffers_init(void);

/* Hooks array.array, of the module `array` that has just been loaded. */
void buffers_module_loaded(PyObject *module, const char *name);

/* Whether a type's subscripts are hooked, here or in numpy.c, so that they see agent_thread.site. */
bool buffer_is_hooked(PyTypeObject *type);

struct buffer_element {
    const char *address;
    int64_t item_bytes;
    const char *load; /* the operation's name */
};

/* The element of a container of numbers that a key names, if it is there and the key is Python's own integer: loading
 * it cannot fail. False if it is another case, or another container. */
bool buffer_element(PyObject *container, PyObject *key, struct buffer_element *element);

#endif
