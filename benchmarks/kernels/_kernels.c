/* Binding of the micro-benchmark kernels (kernels.h): foretrace.benchmarks.kernels._kernels. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "kernels.h"
#include "together.h"
#include "turns.h"

#include <errno.h>
#include <string.h>

static const struct ft_kernel *find_kernel(const char *name)
{
    const struct ft_kernel *kernel;
    for (size_t i = 0; (kernel = ft_kernel_at(i)); i++) {
        if (!strcmp(kernel->name, name))
            return kernel;
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

/* What a kernel works on, and the buffers that must live as long. */
struct job {
    struct ft_work work;
    Py_buffer data, index, dense;
};

static void release_job(struct job *job)
{
    PyBuffer_Release(&job->data);
    PyBuffer_Release(&job->index);
    PyBuffer_Release(&job->dense);
}

static bool fill_job(struct job *job, const struct ft_kernel *kernel, PyObject *data, PyObject *index, PyObject *dense)
{
    const Py_ssize_t item = kernel->element_bytes ? kernel->element_bytes : 1;
    if (!get_buffer(data, &job->data, PyBUF_WRITABLE, 1, "data") ||
        !get_buffer(index, &job->index, PyBUF_SIMPLE, 4, "index") ||
        !get_buffer(dense, &job->dense, PyBUF_WRITABLE, item, "dense"))
        return false;
    if (job->index.len / 4 > job->dense.len / item && kernel->element_bytes) {
        PyErr_SetString(PyExc_ValueError, "dense is shorter than index");
        return false;
    }
    job->work.data = job->data.buf;
    job->work.bytes = (size_t)job->data.len;
    job->work.index = job->index.buf;
    job->work.elements = (size_t)job->index.len / 4;
    job->work.dense = job->dense.buf;
    if (ft_kernel_fits(kernel, &job->work))
        return true;
    PyErr_Format(PyExc_ValueError, "kernel %s cannot run on this: see kernels.h", kernel->name);
    return false;
}

PyDoc_STRVAR(run_doc, "run(kernel, *, repeats=1, data=None, stride=0, index=None, dense=None, state=0)\n--\n\n"
                      "Run a kernel. Returns (seconds, operations, state).\n\n"
                      "Every index must be within data, and a chase needs data that link_chain linked.");

static PyObject *run(PyObject *self, PyObject *args, PyObject *kwargs)
{
    (void)self;
    static char *names[] = {"kernel", "repeats", "data", "stride", "index", "dense", "state", NULL};
    const char *name;
    unsigned long long repeats = 1, state = 0, stride = 0;
    PyObject *data = Py_None, *index = Py_None, *dense = Py_None, *result = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "s|$KOKOOK", names, &name, &repeats, &data, &stride, &index, &dense,
                                     &state))
        return NULL;
    const struct ft_kernel *kernel = find_kernel(name);
    if (!kernel)
        return NULL;
    struct job job = {.work = {.repeats = repeats, .state = state, .stride = stride}};
    if (fill_job(&job, kernel, data, index, dense)) {
        double begin, end;
        uint64_t operations;
        Py_BEGIN_ALLOW_THREADS
        begin = ft_now();
        operations = kernel->run(&job.work);
        end = ft_now();
        Py_END_ALLOW_THREADS
        result = Py_BuildValue("dKK", end - begin, (unsigned long long)operations, (unsigned long long)job.work.state);
    }
    release_job(&job);
    return result;
}

/* ---- several threads -------------------------------------------------------------------------------------------- */

#define MAX_THREADS 1024
#define MAX_CPUS 1024 /* of a cpu_set_t */

static bool fill_jobs(struct job *jobs, int *cpus, const struct ft_kernel *kernel, PyObject *works, Py_ssize_t count)
{
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *data, *index, *dense;
        unsigned long long state;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(works, i), "iOOOK;a work is (cpu, data, index, dense, state)", &cpus[i],
                              &data, &index, &dense, &state))
            return false;
        jobs[i].work.state = state;
        if (!fill_job(&jobs[i], kernel, data, index, dense))
            return false;
    }
    return true;
}

static PyObject *together(const struct ft_kernel *kernel, struct job *jobs, const int *cpus, Py_ssize_t count)
{
    struct ft_work works[MAX_THREADS];
    uint64_t operations[MAX_THREADS], total = 0;
    double seconds = 0;
    int error;
    for (Py_ssize_t i = 0; i < count; i++)
        works[i] = jobs[i].work;
    Py_BEGIN_ALLOW_THREADS
    error = ft_run_together(kernel, works, cpus, (size_t)count, operations, &seconds);
    Py_END_ALLOW_THREADS
    if (error) {
        errno = error;
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    PyObject *states = PyTuple_New(count);
    for (Py_ssize_t i = 0; states && i < count; i++) {
        total += operations[i];
        PyObject *state = PyLong_FromUnsignedLongLong(works[i].state);
        if (state)
            PyTuple_SET_ITEM(states, i, state);
        else
            Py_CLEAR(states);
    }
    return states ? Py_BuildValue("dKN", seconds, (unsigned long long)total, states) : NULL;
}

PyDoc_STRVAR(
    run_together_doc,
    "run_together(kernel, repeats, works)\n--\n\n"
    "Run a kernel on several threads at once, one for each work (cpu, data, index, dense, state); cpu -1: anywhere.\n"
    "Returns (seconds, operations of all, states). Raises OSError if the system refuses a thread.");

static PyObject *run_together(PyObject *self, PyObject *args)
{
    (void)self;
    const char *name;
    unsigned long long repeats;
    PyObject *works, *result = NULL;
    if (!PyArg_ParseTuple(args, "sKO!", &name, &repeats, &PyTuple_Type, &works))
        return NULL;
    const struct ft_kernel *kernel = find_kernel(name);
    if (!kernel)
        return NULL;
    const Py_ssize_t count = PyTuple_GET_SIZE(works);
    if (!count || count > MAX_THREADS)
        return PyErr_Format(PyExc_ValueError, "%zd works, must be 1 to %d", count, MAX_THREADS);
    int cpus[MAX_THREADS];
    struct job *jobs = PyMem_Calloc((size_t)count, sizeof *jobs);
    if (!jobs)
        return PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < count; i++)
        jobs[i].work.repeats = repeats;
    if (fill_jobs(jobs, cpus, kernel, works, count))
        result = together(kernel, jobs, cpus, count);
    for (Py_ssize_t i = 0; i < count; i++)
        release_job(&jobs[i]);
    PyMem_Free(jobs);
    return result;
}

PyDoc_STRVAR(
    take_turns_doc,
    "take_turns(cpus, repeats, work_s, sleeps, /)\n--\n\n"
    "Two threads on two cores pass a turn 2 x repeats times; who waits spins, or sleeps. Returns (seconds without\n"
    "the work, those of the calls that wake). Raises OSError where the system has no such call.");

static PyObject *take_turns(PyObject *self, PyObject *args)
{
    (void)self;
    int cpus[2], sleeps, error;
    unsigned long long repeats;
    double work_s;
    struct ft_turns found;
    if (!PyArg_ParseTuple(args, "(ii)Kdp", &cpus[0], &cpus[1], &repeats, &work_s, &sleeps))
        return NULL;
    if (cpus[0] < 0 || cpus[0] >= MAX_CPUS || cpus[1] < 0 || cpus[1] >= MAX_CPUS || cpus[0] == cpus[1])
        return PyErr_Format(PyExc_ValueError, "cpus %d and %d, must be two below %d", cpus[0], cpus[1], MAX_CPUS);
    if (!(work_s >= 0) || work_s > 1)
        return PyErr_Format(PyExc_ValueError, "work_s must be from 0 to 1");
    Py_BEGIN_ALLOW_THREADS
    error = ft_take_turns(cpus, repeats, work_s, sleeps, &found);
    Py_END_ALLOW_THREADS
    if (error) {
        errno = error;
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    return Py_BuildValue("dd", found.seconds, found.calls_s);
}

PyDoc_STRVAR(link_chain_doc, "link_chain(data, order)\n--\n\n"
                             "Link lines (64 bytes) of data into one cycle, in the order (uint32) given.");

static PyObject *link_chain(PyObject *self, PyObject *args)
{
    (void)self;
    Py_buffer data, order;
    if (!PyArg_ParseTuple(args, "w*y*", &data, &order))
        return NULL;
    const size_t lines = (size_t)data.len / FT_LINE_BYTES;
    uint8_t *scratch = PyMem_Calloc(lines ? lines : 1, 1);
    bool linked = false;
    if (!scratch)
        PyErr_NoMemory();
    else if (data.len % FT_LINE_BYTES || order.len % 4 ||
             !ft_link_chain(data.buf, lines, order.buf, (size_t)order.len / 4, scratch))
        PyErr_SetString(PyExc_ValueError, "order is not one of distinct lines of data");
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
    const struct ft_kernel *kernel;
    for (size_t i = 0; names && (kernel = ft_kernel_at(i)); i++) {
        if (kernel->available && !kernel->available())
            continue;
        PyObject *name = PyUnicode_FromString(kernel->name);
        if (!name || PyList_Append(names, name))
            Py_CLEAR(names);
        Py_XDECREF(name);
    }
    return names;
}

static PyMethodDef methods[] = {
    {"run", (PyCFunction)(void (*)(void))run, METH_VARARGS | METH_KEYWORDS, run_doc},
    {"run_together", run_together, METH_VARARGS, run_together_doc},
    {"take_turns", take_turns, METH_VARARGS, take_turns_doc},
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
        PyModule_AddStringConstant(self, "COMPILER_FLAGS", FT_COMPILER_FLAGS) ||
        PyModule_AddIntConstant(self, "LINE_BYTES", FT_LINE_BYTES)) {
        Py_DECREF(self);
        return NULL;
    }
    return self;
}
