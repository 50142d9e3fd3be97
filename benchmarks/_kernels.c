/* Binding of the micro-benchmark kernels (kernels.h): foretrace.benchmarks._kernels. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "kernels.h"

#include <string.h>

static const struct ft_kernel *find_kernel(const char *name)
{
    for (size_t i = 0; i < ft_kernel_count; i++) {
        if (!strcmp(ft_kernels[i].name, name))
            return &ft_kernels[i];
    }
    PyErr_Format(PyExc_ValueError, "there is no kernel %s", name);
    return NULL;
}

/* A contiguous buffer, or none if object is None. Its items have `item` bytes. */
static bool get_buffer(PyObject *object, Py_buffer *view, int flags, Py_ssize_t item, const char *what)
{
    if (object == Py_None)
        return true;
    if (PyObject_GetBuffer(object, view, flags))
        return false;
    if (view->len % item == 0)
        return true;
    PyErr_Format(PyExc_ValueError, "%s has %zd bytes, must be a multiple of %zd", what, view->len, item);
    return false;
}

static PyObject *run_kernel(const struct ft_kernel *kernel, struct ft_work *work)
{
    if (!ft_kernel_fits(kernel, work)) {
        PyErr_Format(PyExc_ValueError, "kernel %s cannot run on this: see kernels.h", kernel->name);
        return NULL;
    }
    double begin, end;
    uint64_t operations;
    Py_BEGIN_ALLOW_THREADS
    begin = ft_now();
    operations = kernel->run(work);
    end = ft_now();
    Py_END_ALLOW_THREADS
    return Py_BuildValue("dKK", end - begin, (unsigned long long)operations, (unsigned long long)work->state);
}

PyDoc_STRVAR(run_doc, "run(kernel, *, repeats=1, data=None, index=None, dense=None, state=0)\n--\n\n"
                      "Run a kernel. Returns (seconds, operations, state).\n\n"
                      "Every index must be below len(data) / 8, and a chase needs data that link_chain linked.");

static PyObject *run(PyObject *self, PyObject *args, PyObject *kwargs)
{
    (void)self;
    static char *names[] = {"kernel", "repeats", "data", "index", "dense", "state", NULL};
    const char *name;
    unsigned long long repeats = 1, state = 0;
    PyObject *data = Py_None, *index = Py_None, *dense = Py_None, *result = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "s|$KOOOK", names, &name, &repeats, &data, &index, &dense, &state))
        return NULL;
    const struct ft_kernel *kernel = find_kernel(name);
    if (!kernel)
        return NULL;
    Py_buffer d = {0}, i = {0}, b = {0};
    if (get_buffer(data, &d, PyBUF_WRITABLE, 1, "data") && get_buffer(index, &i, PyBUF_SIMPLE, 4, "index") &&
        get_buffer(dense, &b, PyBUF_WRITABLE, 8, "dense")) {
        struct ft_work work = {d.buf, (size_t)d.len, i.buf, b.buf, (size_t)i.len / 4, repeats, state};
        if (i.len / 4 > b.len / 8)
            PyErr_SetString(PyExc_ValueError, "dense is shorter than index");
        else
            result = run_kernel(kernel, &work);
    }
    PyBuffer_Release(&d);
    PyBuffer_Release(&i);
    PyBuffer_Release(&b);
    return result;
}

PyDoc_STRVAR(link_chain_doc, "link_chain(data, order)\n--\n\n"
                             "Link the 64-byte lines of data into one cycle, in the order (uint32) given.");

static PyObject *link_chain(PyObject *self, PyObject *args)
{
    (void)self;
    Py_buffer data, order;
    if (!PyArg_ParseTuple(args, "w*y*", &data, &order))
        return NULL;
    const size_t lines = (size_t)order.len / 4;
    uint8_t *scratch = PyMem_Calloc(lines ? lines : 1, 1);
    bool linked = false;
    if (!scratch)
        PyErr_NoMemory();
    else if ((size_t)data.len != lines * FT_LINE_BYTES || order.len % 4 ||
             !ft_link_chain(data.buf, lines, order.buf, scratch))
        PyErr_SetString(PyExc_ValueError, "order is not a permutation of the lines of data");
    else
        linked = true;
    PyMem_Free(scratch);
    PyBuffer_Release(&data);
    PyBuffer_Release(&order);
    return linked ? Py_NewRef(Py_None) : NULL;
}

PyDoc_STRVAR(available_doc, "available()\n--\n\nNames of the kernels that this machine can run.");

static PyObject *available(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    PyObject *names = PyList_New(0);
    for (size_t i = 0; names && i < ft_kernel_count; i++) {
        if (ft_kernels[i].available && !ft_kernels[i].available())
            continue;
        PyObject *name = PyUnicode_FromString(ft_kernels[i].name);
        if (!name || PyList_Append(names, name))
            Py_CLEAR(names);
        Py_XDECREF(name);
    }
    return names;
}

static PyMethodDef methods[] = {
    {"run", (PyCFunction)(void (*)(void))run, METH_VARARGS | METH_KEYWORDS, run_doc},
    {"link_chain", link_chain, METH_VARARGS, link_chain_doc},
    {"available", available, METH_NOARGS, available_doc},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_kernels", "Micro-benchmark kernels.", 0, methods, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__kernels(void)
{
    PyObject *self = PyModule_Create(&module);
    if (!self)
        return NULL;
#ifdef __clang__
    const char *compiler = "clang " __clang_version__;
#else
    const char *compiler = "gcc " __VERSION__;
#endif
    if (PyModule_AddStringConstant(self, "COMPILER", compiler) ||
        PyModule_AddIntConstant(self, "LINE_BYTES", FT_LINE_BYTES)) {
        Py_DECREF(self);
        return NULL;
    }
    return self;
}
