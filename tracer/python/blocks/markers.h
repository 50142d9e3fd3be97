/* Code objects with markers in them. Needs Python.h included first. */
#ifndef FORETRACE_PYAGENT_MARKERS_H
#define FORETRACE_PYAGENT_MARKERS_H

#include "bytecode.h"
#include "code.h"
#include "tracer/python/arrays/hooks.h"

/* A new reference to what is to be executed in place of `code`: its twin with markers, or itself if it cannot have
 * them. */
PyObject *markers_in(PyObject *code);

/* The same for the code of a function. */
PyObject *markers_in_function(PyObject *code);

/* Borrowed: the program's own code object for one that may have markers. */
PyObject *markers_original_of(PyObject *code);

/* Whether a place in code that may have markers is one of theirs, as the program's own code has none there. */
bool markers_are_at(PyObject *code, int lasti);

/* The place in the program's own code that is, or comes next, at one in code that may have markers. */
int markers_original_lasti(PyObject *code, int lasti);

/* Whether subscripts of an object are those of a list: it is one, or of a subclass that does not change them. */
bool list_is_like(PyObject *container);

extern const char LIST_GETITEM[], LIST_SETITEM[];

/* The common case of what follows: one element, named by a plain index. False if it is another. */
static inline bool list_write_element(struct agent_site *site, uint32_t kind, uint32_t block, PyObject *container,
                                      PyObject *key)
{
    PyListObject *list = (PyListObject *)container;
    const bool store = kind == MARKER_STORE;
    int64_t i;
    if (!PyLong_CheckExact(key) || kind == MARKER_DELETE || !agent_small_integer(key, &i))
        return false;
    i += i < 0 ? Py_SIZE(list) : 0;
    if ((uint64_t)i >= (uint64_t)Py_SIZE(list))
        return false;
    agent_write_at_site(site, store ? LIST_SETITEM : LIST_GETITEM, block, list->ob_item + i, sizeof(PyObject *), store);
    return true;
}

/* Writes what a subscript of a list is about to touch, charged to `block`. `kind` is one of enum marker_kind. */
void list_observe(struct agent_site *site, uint32_t kind, uint32_t block, PyObject *container, PyObject *key);

/* Hooks the functions that execute code, so that the program's own is executed with markers (exec.c). */
bool exec_init(void);

/* Puts markers into a function that was made before the agent came. False if it is left as it is: it belongs to the
 * standard library or an installed package, or cannot have markers. */
bool exec_adopt(PyObject *function);

/* In a forked child: the frames that run are its parent's, and of this process once they go on. */
void markers_forked(void);

/* Whether the markers core is in use. */
extern bool markers_in_use;

/* Runs a script as the interpreter's own main program does, but with markers. False: it is left to the interpreter. */
bool exec_script(PyObject *path, int *status);

/* The same of the code behind -c, in UTF-8; without markers where they are not in use. */
bool exec_command(const char *text, int *status);

#endif
