/* Calls into types of extension modules, and into modules of the standard library that compute: what Python can call of
 * them is hooked, and what takes longer than bytecode is charged by name, as compiled code whose accesses are not seen.
 *
 *   types.c         finds types and functions, and hooks their methods, properties and slots
 *   trampolines.c   what a hook runs
 *
 * Left out are NumPy's own types, which arrays/ has, and what frees an object: Cython compares that slot.
 */
#ifndef FORETRACE_PYAGENT_EXTENSIONS_H
#define FORETRACE_PYAGENT_EXTENSIONS_H

#include "tracer/python/arrays/hooks.h"

/* Conventions by which Python calls C. Each has its own trampolines. */
enum extension_convention {
    EXTENSION_FAST,      /* PyObject *(self, arguments, n) */
    EXTENSION_FAST_KW,   /* PyObject *(self, arguments, n, names); also the vectorcall of a type */
    EXTENSION_METHOD,    /* PyObject *(self, defining class, arguments, n, names) */
    EXTENSION_UNARY,     /* PyObject *(self) */
    EXTENSION_BINARY,    /* PyObject *(self, other); also methods with a tuple, one argument or none */
    EXTENSION_TERNARY,   /* PyObject *(self, other, third) */
    EXTENSION_INDEX,     /* PyObject *(self, index) */
    EXTENSION_COMPARE,   /* PyObject *(self, other, operation) */
    EXTENSION_INQUIRY,   /* int (self) */
    EXTENSION_CONTAINS,  /* int (self, other) */
    EXTENSION_SET,       /* int (self, key or arguments, value or names) */
    EXTENSION_SET_INDEX, /* int (self, index, value) */
    EXTENSION_SIZE,      /* Py_ssize_t (self) */
    N_EXTENSION_CONVENTIONS
};

typedef void (*extension_function)(void);

/* A new hook: a function that calls `original` and charges its time to `name`, which is kept. NULL if there is no room.
 * `has_own_name`: an object that is called may have a better one. */
extension_function extension_new_hook(enum extension_convention convention, extension_function original,
                                      const char *name, bool has_own_name);

/* A call into compiled code: what that calls of compiled code itself is part of it. */
struct extension_call {
    const void *outer_frame;
    const char *outer_name;
    uint32_t outer_stands_for;
    bool is_charged, outer_runs;
};

/* Bracket a call that is charged to `name`. */
void extension_call_begin(struct extension_call *call, const char *name);
void extension_call_end(const struct extension_call *call);

/* Looks at a module's functions and, once extensions_init has been called, for types that are new. */
void extensions_module_loaded(PyObject *module, const char *name);

/* Looks at all types that there are. */
void extensions_init(void);

#endif
