/* The type slots of array.array, bytearray and memoryview. Needs Python.h included first. */
#ifndef FORETRACE_PYAGENT_BUFFERS_H
#define FORETRACE_PYAGENT_BUFFERS_H

#include "hooks.h"

/* Hooks bytearray and memoryview, which are always there. */
void buffers_init(void);

/* Hooks array.array, of the module `array` that has just been loaded. */
void buffers_module_loaded(PyObject *module, const char *name);

/* Whether a type's subscripts are hooked, here or in pyagent_numpy.c, so that they see agent_thread.site. */
bool buffer_is_hooked(PyTypeObject *type);

#endif
