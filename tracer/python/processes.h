/* Child processes of a Python program. Needs Python.h included first. */
#ifndef FORETRACE_PYAGENT_PROCESSES_H
#define FORETRACE_PYAGENT_PROCESSES_H

/* To be called of every extension module, once it is loaded. */
void processes_module_loaded(PyObject *module, const char *name);

#endif
