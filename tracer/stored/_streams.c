/* Python's face of stored streams and foreign traces. See foreign.h and stored.h. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "foreign.h"
#include "stored.h"

#include <stdlib.h>

/* A capsule with a struct ft_sink, or None for no sink. False with an exception set. */
static bool read_sink(PyObject *capsule, struct ft_sink *sink)
{
    *sink = (struct ft_sink){0};
    if (capsule == Py_None)
        return true;
    const struct ft_sink *given = PyCapsule_GetPointer(capsule, FT_SINK_CAPSULE);
    if (given)
        *sink = *given;
    return given != NULL;
}

/* ValueError(problem, offset) */
static PyObject *damaged(const char *problem, uint64_t offset)
{
    PyObject *arguments = Py_BuildValue("(sK)", problem, (unsigned long long)offset);
    if (arguments)
        PyErr_SetObject(PyExc_ValueError, arguments);
    Py_XDECREF(arguments);
    return NULL;
}

static void free_object(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    type->tp_free(self);
    Py_DECREF(type);
}

/* ---- foreign traces ----------------------------------------------------------------------------------------------- */

typedef struct {
    PyObject_HEAD
    PyObject *sink; /* the capsule: keeps the simulator alive */
    struct ft_foreign *foreign;
} ForeignReader;

PyDoc_STRVAR(foreign_doc, "ForeignReader(format, assumed_bytes, sink)\n--\n\n"
                          "format: LACKEY, DIN, DRMEMTRACE or CHAMPSIM. sink: a capsule or None.");

static PyObject *foreign_new(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(kwargs))
{
    int format;
    unsigned int assumed_bytes;
    PyObject *capsule;
    struct ft_sink sink;
    if (!PyArg_ParseTuple(args, "iIO", &format, &assumed_bytes, &capsule) || !read_sink(capsule, &sink))
        return NULL;
    if (format < FT_LACKEY || format > FT_CHAMPSIM || !assumed_bytes || assumed_bytes & (assumed_bytes - 1) ||
        assumed_bytes > FT_FOREIGN_MAX_ASSUMED_BYTES)
        return PyErr_Format(PyExc_ValueError, "format or assumed_bytes is out of range");
    ForeignReader *self = (ForeignReader *)type->tp_alloc(type, 0);
    if (!self)
        return NULL;
    self->sink = Py_NewRef(capsule);
    self->foreign = ft_foreign_new((enum ft_foreign_format)format, assumed_bytes, sink);
    if (self->foreign)
        return (PyObject *)self;
    Py_DECREF(self);
    return PyErr_NoMemory();
}

static void foreign_dealloc(PyObject *object)
{
    ForeignReader *self = (ForeignReader *)object;
    ft_foreign_free(self->foreign);
    Py_XDECREF(self->sink);
    free_object(object);
}

static PyObject *foreign_outcome(ForeignReader *self, enum ft_foreign_status status)
{
    if (status == FT_FOREIGN_MEMORY)
        return PyErr_NoMemory();
    if (status == FT_FOREIGN_DAMAGED)
        return damaged(self->foreign->problem, self->foreign->problem_offset);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(foreign_feed_doc, "feed(data)\n--\n\nRaises ValueError(problem, byte offset).");

static PyObject *foreign_feed(PyObject *object, PyObject *args)
{
    ForeignReader *self = (ForeignReader *)object;
    enum ft_foreign_status status;
    Py_buffer data;
    if (!PyArg_ParseTuple(args, "y*", &data))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    status = ft_foreign_feed(self->foreign, data.buf, (size_t)data.len);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&data);
    return foreign_outcome(self, status);
}

PyDoc_STRVAR(foreign_finish_doc, "finish()\n--\n\nThe trace has ended. Raises ValueError(problem, byte offset).");

static PyObject *foreign_finish(PyObject *object, PyObject *Py_UNUSED(args))
{
    ForeignReader *self = (ForeignReader *)object;
    enum ft_foreign_status status;
    Py_BEGIN_ALLOW_THREADS
    status = ft_foreign_finish(self->foreign);
    Py_END_ALLOW_THREADS
    return foreign_outcome(self, status);
}

PyDoc_STRVAR(foreign_counts_doc, "counts()\n--\n\nstruct ft_foreign_counts as a dict.");

static PyObject *foreign_counts(PyObject *object, PyObject *Py_UNUSED(args))
{
    static const char *const names[] = {
        "records", "instructions", "loads",         "stores",  "modifies", "assumed_sizes", "unsized", "prefetches",
        "flushes", "skipped",      "first_skipped", "threads", "merged",   "file_type",     "ended",
    };
    _Static_assert(sizeof names / sizeof *names == sizeof(struct ft_foreign_counts) / sizeof(uint64_t), "a name each");
    const uint64_t *counts = (const uint64_t *)&((ForeignReader *)object)->foreign->counts;
    PyObject *dict = PyDict_New();
    for (size_t i = 0; dict && i < sizeof names / sizeof *names; i++) {
        PyObject *count = PyLong_FromUnsignedLongLong(counts[i]);
        if (!count || PyDict_SetItemString(dict, names[i], count))
            Py_CLEAR(dict);
        Py_XDECREF(count);
    }
    return dict;
}

PyDoc_STRVAR(foreign_operations_doc, "operations()\n--\n\n"
                                     "Of the memory operations: (uint64 [operations] instruction addresses,\n"
                                     "uint8 [operations] 1 for stores).");

static PyObject *foreign_operations(PyObject *object, PyObject *Py_UNUSED(args))
{
    const struct ft_foreign_ids *ids = &((ForeignReader *)object)->foreign->operations;
    return Py_BuildValue("y#y#", ids->pc ? (const char *)ids->pc : "", (Py_ssize_t)(ids->number * sizeof(uint64_t)),
                         ids->kind ? (const char *)ids->kind : "", (Py_ssize_t)ids->number);
}

static PyMethodDef foreign_methods[] = {
    {"feed", foreign_feed, METH_VARARGS, foreign_feed_doc},
    {"finish", foreign_finish, METH_NOARGS, foreign_finish_doc},
    {"counts", foreign_counts, METH_NOARGS, foreign_counts_doc},
    {"operations", foreign_operations, METH_NOARGS, foreign_operations_doc},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot foreign_slots[] = {
    {Py_tp_doc, (void *)foreign_doc},
    {Py_tp_new, foreign_new},
    {Py_tp_dealloc, foreign_dealloc},
    {Py_tp_methods, foreign_methods},
    {0, NULL},
};

/* ---- writers ------------------------------------------------------------------------------------------------------ */

typedef struct {
    PyObject_HEAD
    PyObject *next; /* capsule or None */
    struct ft_writer *writer;
    struct ft_sink sink;
} Writer;

PyDoc_STRVAR(writer_doc,
             "Writer(din, next, fetches)\n--\n\n"
             "A sink that writes din, or frames of our own format, and passes what it is fed on to `next`.");

static PyObject *writer_new(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(kwargs))
{
    int din, fetches;
    PyObject *capsule;
    struct ft_sink next;
    if (!PyArg_ParseTuple(args, "pOp", &din, &capsule, &fetches) || !read_sink(capsule, &next))
        return NULL;
    Writer *self = (Writer *)type->tp_alloc(type, 0);
    if (!self)
        return NULL;
    self->next = Py_NewRef(capsule);
    self->writer = din ? ft_din_writer_new(next, fetches) : ft_frame_writer_new(next, fetches);
    if (self->writer) {
        self->sink = ft_writer_sink(self->writer);
        return (PyObject *)self;
    }
    Py_DECREF(self);
    return PyErr_NoMemory();
}

static void writer_dealloc(PyObject *object)
{
    Writer *self = (Writer *)object;
    ft_writer_free(self->writer);
    Py_XDECREF(self->next);
    free_object(object);
}

static void release_writer(PyObject *capsule)
{
    Py_XDECREF((PyObject *)PyCapsule_GetContext(capsule));
}

static PyObject *writer_sink(PyObject *object, void *Py_UNUSED(closure))
{
    PyObject *capsule = PyCapsule_New(&((Writer *)object)->sink, FT_SINK_CAPSULE, release_writer);
    if (capsule)
        PyCapsule_SetContext(capsule, Py_NewRef(object)); /* cannot fail: the capsule is valid */
    return capsule;
}

PyDoc_STRVAR(writer_take_doc, "take(timeout_ms)\n--\n\n"
                              "The next block, None if none came in time, b'' once there are no more.");

static PyObject *writer_take(PyObject *object, PyObject *timeout)
{
    struct ft_block_queue *queue = ft_writer_queue(((Writer *)object)->writer);
    struct ft_block_bytes block;
    bool found, closed;
    unsigned long timeout_ms = PyLong_AsUnsignedLong(timeout);
    if (PyErr_Occurred())
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    found = ft_block_queue_take(queue, (unsigned)timeout_ms, &block, &closed);
    Py_END_ALLOW_THREADS
    if (found) {
        PyObject *bytes = PyBytes_FromStringAndSize((const char *)block.data, (Py_ssize_t)block.length);
        free(block.data);
        return bytes;
    }
    if (closed)
        return PyBytes_FromStringAndSize(NULL, 0);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(writer_refuse_doc, "refuse()\n--\n\nNo more blocks will be taken: what comes is dropped, and passed on.");

static PyObject *writer_refuse(PyObject *object, PyObject *Py_UNUSED(args))
{
    ft_block_queue_refuse(ft_writer_queue(((Writer *)object)->writer));
    Py_RETURN_NONE;
}

PyDoc_STRVAR(writer_finish_doc,
             "finish()\n--\n\nQueues what is left; the blocks end there. Returns the number of accesses.\n"
             "Raises MemoryError if some are missing. Nobody may feed the sink any more.");

static PyObject *writer_finish(PyObject *object, PyObject *Py_UNUSED(args))
{
    struct ft_writer *writer = ((Writer *)object)->writer;
    Py_BEGIN_ALLOW_THREADS
    ft_writer_finish(writer);
    Py_END_ALLOW_THREADS
    if (ft_writer_failed(writer))
        return PyErr_NoMemory();
    return PyLong_FromUnsignedLongLong(ft_writer_accesses(writer));
}

static PyMethodDef writer_methods[] = {
    {"take", writer_take, METH_O, writer_take_doc},
    {"refuse", writer_refuse, METH_NOARGS, writer_refuse_doc},
    {"finish", writer_finish, METH_NOARGS, writer_finish_doc},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef writer_getset[] = {
    {"sink", writer_sink, NULL, "A new capsule with the writer's struct ft_sink; it keeps the writer alive.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot writer_slots[] = {
    {Py_tp_doc, (void *)writer_doc}, {Py_tp_new, writer_new},       {Py_tp_dealloc, writer_dealloc},
    {Py_tp_methods, writer_methods}, {Py_tp_getset, writer_getset}, {0, NULL},
};

/* ---- frames ------------------------------------------------------------------------------------------------------- */

typedef struct {
    PyObject_HEAD
    PyObject *sink;
    struct ft_frame_reader *reader;
} FrameReader;

PyDoc_STRVAR(frame_doc, "FrameReader(sink)\n--\n\nReads inflated frames and feeds their accesses to `sink`.");

static PyObject *frame_new(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(kwargs))
{
    PyObject *capsule;
    struct ft_sink sink;
    if (!PyArg_ParseTuple(args, "O", &capsule) || !read_sink(capsule, &sink))
        return NULL;
    FrameReader *self = (FrameReader *)type->tp_alloc(type, 0);
    if (!self)
        return NULL;
    self->sink = Py_NewRef(capsule);
    self->reader = ft_frame_reader_new(sink);
    if (self->reader)
        return (PyObject *)self;
    Py_DECREF(self);
    return PyErr_NoMemory();
}

static void frame_dealloc(PyObject *object)
{
    FrameReader *self = (FrameReader *)object;
    ft_frame_reader_free(self->reader);
    Py_XDECREF(self->sink);
    free_object(object);
}

static PyObject *frame_failure(FrameReader *self)
{
    if (!self->reader->problem)
        return PyErr_NoMemory();
    PyErr_SetString(PyExc_ValueError, self->reader->problem);
    return NULL;
}

PyDoc_STRVAR(frame_begin_doc, "begin(frame)\n--\n\nRaises ValueError(problem).");

static PyObject *frame_begin(PyObject *object, PyObject *args)
{
    FrameReader *self = (FrameReader *)object;
    Py_buffer frame;
    if (!PyArg_ParseTuple(args, "y*", &frame))
        return NULL;
    bool begun = ft_frame_reader_begin(self->reader, frame.buf, (size_t)frame.len);
    PyBuffer_Release(&frame);
    return begun ? Py_NewRef(Py_None) : frame_failure(self);
}

PyDoc_STRVAR(frame_step_doc,
             "step(max_accesses)\n--\n\n"
             "Feeds up to so many accesses of the frame; True if there are more. Raises ValueError(problem).");

static PyObject *frame_step(PyObject *object, PyObject *number)
{
    FrameReader *self = (FrameReader *)object;
    int more;
    unsigned long max_accesses = PyLong_AsUnsignedLong(number);
    if (PyErr_Occurred())
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    more = ft_frame_reader_step(self->reader, (uint32_t)max_accesses);
    Py_END_ALLOW_THREADS
    return more < 0 ? frame_failure(self) : PyBool_FromLong(more);
}

PyDoc_STRVAR(frame_counts_doc, "counts()\n--\n\n(loads, stores, fetches, operations) of the frames so far.");

static PyObject *frame_counts(PyObject *object, PyObject *Py_UNUSED(args))
{
    const struct ft_frame_reader *reader = ((FrameReader *)object)->reader;
    return Py_BuildValue("KKKI", (unsigned long long)reader->loads, (unsigned long long)reader->stores,
                         (unsigned long long)reader->fetches, reader->num_operations);
}

static PyMethodDef frame_methods[] = {
    {"begin", frame_begin, METH_VARARGS, frame_begin_doc},
    {"step", frame_step, METH_O, frame_step_doc},
    {"counts", frame_counts, METH_NOARGS, frame_counts_doc},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot frame_slots[] = {
    {Py_tp_doc, (void *)frame_doc},
    {Py_tp_new, frame_new},
    {Py_tp_dealloc, frame_dealloc},
    {Py_tp_methods, frame_methods},
    {0, NULL},
};

/* ---- module ------------------------------------------------------------------------------------------------------- */

static PyType_Spec specs[] = {
    {.name = "foretrace.tracer._streams.ForeignReader",
     .basicsize = sizeof(ForeignReader),
     .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
     .slots = foreign_slots},
    {.name = "foretrace.tracer._streams.Writer",
     .basicsize = sizeof(Writer),
     .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
     .slots = writer_slots},
    {.name = "foretrace.tracer._streams.FrameReader",
     .basicsize = sizeof(FrameReader),
     .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
     .slots = frame_slots},
};

static int module_exec(PyObject *module)
{
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        PyObject *type = PyType_FromModuleAndSpec(module, &specs[i], NULL);
        int failed = !type || PyModule_AddType(module, (PyTypeObject *)type) < 0;
        Py_XDECREF(type);
        if (failed)
            return -1;
    }
    return PyModule_AddIntConstant(module, "LACKEY", FT_LACKEY) || PyModule_AddIntConstant(module, "DIN", FT_DIN) ||
                   PyModule_AddIntConstant(module, "DRMEMTRACE", FT_DRMEMTRACE) ||
                   PyModule_AddIntConstant(module, "CHAMPSIM", FT_CHAMPSIM)
               ? -1
               : 0;
}

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, module_exec}, {0, NULL}};

static struct PyModuleDef module_def = {
    PyModuleDef_HEAD_INIT,
    .m_name = "foretrace.tracer._streams",
    .m_doc = "Reads foreign traces and stored streams, and writes stored streams.",
    .m_slots = module_slots,
};

PyMODINIT_FUNC PyInit__streams(void)
{
    return PyModuleDef_Init(&module_def);
}
