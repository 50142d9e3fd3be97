/* Child processes of a Python program: they are counted and, where children are followed, get the agent. Needs Python.h
 * included first. */
#ifndef FORETRACE_PYAGENT_PROCESSES_H
#define FORETRACE_PYAGENT_PROCESSES_H

#include <stdbool.h>

/* Finds the stream that main.py was told of: `stream` is a descriptor, or says where to ask for one. `bootstrap`,
 * `agent` and `core` are for the children that this process starts. `words` is the program's command line. False
 * without an exception set if there is no stream to be had. */
bool processes_attach(const char *stream, PyObject *bootstrap, PyObject *agent, const char *core, PyObject *words);

/* To be called once by the program's first thread, before it runs. */
void processes_begin(void);

/* To be called of every extension module, once it is loaded. */
void processes_module_loaded(PyObject *module, const char *name);

#endif
