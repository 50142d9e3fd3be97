/* Code objects with markers in them. Needs Python.h included first. */
#ifndef FORETRACE_PYAGENT_MARKERS_H
#define FORETRACE_PYAGENT_MARKERS_H

#include "code.h"

/* A new reference to what is to be executed in place of `code`: its twin with markers, or itself if it cannot have them. */
PyObject *markers_in(PyObject *code);

/* Borrowed: the program's own code object for one that may have markers. */
PyObject *markers_original_of(PyObject *code);

/* Whether subscripts of an object are those of a list: it is one, or of a subclass that does not change them. */
bool list_is_like(PyObject *container);

/* Writes what a subscript of a list is about to touch, charged to `block`. `kind` is one of enum marker_kind. */
void list_observe(struct agent_site *site, uint32_t kind, uint32_t block, PyObject *container, PyObject *key);

/* Hooks the functions that execute code, so that the program's own is executed with markers (pyagent_exec.c). */
bool exec_init(void);

/* Whether the markers core is in use. */
extern bool markers_in_use;

/* Runs a script as the interpreter's own main program does, but with markers. False: it is left to the interpreter. */
bool exec_script(PyObject *path, int *status);

#endif
