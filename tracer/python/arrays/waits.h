/* How threads of a Python program wait for one another. Needs Python.h included first. */
#ifndef FORETRACE_PYAGENT_WAITS_H
#define FORETRACE_PYAGENT_WAITS_H

#include "tracer/python/agent.h"

/* Hooks locks, and the ends of threads. */
void waits_init(void);

/* The same of extension modules that are loaded later. */
void waits_module_loaded(PyObject *module);

/* This thread is about to create another one. Returns the event. */
uint64_t waits_create(void);

/* This thread's function has returned. */
void waits_thread_ends(void);

#endif
