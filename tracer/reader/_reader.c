/* Python's face of the stream reader. See reader.h. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "tracer/transport/futex.h"
#include "reader.h"
#include "tracer/reader/signals.h"

typedef struct {
    PyObject_HEAD
    Py_buffer memory;
    PyObject *sink; /* the capsule: keeps the simulator alive */
    struct ft_reader *reader;
} StreamReader;

/* Defines a function that gives the rows which `rows` writes, or counts where there is no room, as bytes of uint64.
 * NULL on failure. */
#define ROWS_AS_BYTES(name, type)                                                                                      \
    static PyObject *name(const struct type *source, uint64_t (*rows)(const struct type *, uint64_t *),                \
                          size_t columns)                                                                              \
    {                                                                                                                  \
        PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(rows(source, NULL) * columns * 8));             \
        if (bytes)                                                                                                     \
            rows(source, (uint64_t *)PyBytes_AS_STRING(bytes));                                                        \
        return bytes;                                                                                                  \
    }

ROWS_AS_BYTES(tree_rows, ft_tree)
ROWS_AS_BYTES(flow_rows, ft_flow)
ROWS_AS_BYTES(dependence_rows, ft_dependences)
ROWS_AS_BYTES(edge_rows, ft_reader)

static int stream_reader_init(StreamReader *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"memory", "sink", NULL};
    PyObject *capsule;
    Py_buffer memory;
    if (self->reader) {
        PyErr_SetString(PyExc_RuntimeError, "StreamReader is already initialised");
        return -1;
    }
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "w*O", names, &memory, &capsule))
        return -1;
    const struct ft_sink *sink = PyCapsule_GetPointer(capsule, FT_SINK_CAPSULE);
    if (!sink || !ft_stream_format(memory.buf, (uint64_t)memory.len)) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_ValueError, "memory is too small for a stream");
        PyBuffer_Release(&memory);
        return -1;
    }
    self->memory = memory;
    self->sink = Py_NewRef(capsule);
    self->reader = ft_reader_new(memory.buf, (uint64_t)memory.len, *sink);
    if (!self->reader) {
        PyErr_NoMemory();
        return -1;
    }
    return 0;
}

static void stream_reader_dealloc(StreamReader *self)
{
    ft_reader_free(self->reader);
    if (self->memory.obj)
        PyBuffer_Release(&self->memory);
    Py_XDECREF(self->sink);
    PyTypeObject *type = Py_TYPE(self);
    type->tp_free((PyObject *)self);
    Py_DECREF(type);
}

static PyObject *outcome(StreamReader *self, enum ft_read_status status)
{
    if (status == FT_READ_MEMORY)
        return PyErr_NoMemory();
    if (status == FT_READ_CORRUPT) {
        PyErr_SetString(PyExc_ValueError, self->reader->corrupt);
        return NULL;
    }
    return PyLong_FromLong(status);
}

static PyObject *stream_reader_run(StreamReader *self, PyObject *args)
{
    unsigned int max_chunks, timeout_ms;
    enum ft_read_status status;
    if (!PyArg_ParseTuple(args, "II", &max_chunks, &timeout_ms))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    status = ft_reader_run(self->reader, max_chunks, timeout_ms);
    Py_END_ALLOW_THREADS
    return outcome(self, status);
}

static PyObject *stream_reader_salvage(StreamReader *self, PyObject *Py_UNUSED(ignored))
{
    enum ft_read_status status;
    Py_BEGIN_ALLOW_THREADS
    status = ft_reader_salvage(self->reader);
    Py_END_ALLOW_THREADS
    return outcome(self, status);
}

static PyObject *stream_reader_asked(StreamReader *self, PyObject *Py_UNUSED(ignored))
{
    if (self->reader->asked_operation >= self->reader->n_operations) {
        PyErr_SetString(PyExc_RuntimeError, "no width was asked for");
        return NULL;
    }
    const struct ft_operation *operation = &self->reader->operations[self->reader->asked_operation];
    return Py_BuildValue("II", operation->block_id, operation->slot);
}

static PyObject *stream_reader_mark(StreamReader *self, PyObject *Py_UNUSED(ignored))
{
    return PyLong_FromUnsignedLong(self->reader->mark);
}

static PyObject *stream_reader_set_width(StreamReader *self, PyObject *arguments)
{
    unsigned long bytes;
    int parts = FT_PARTS_ADJACENT;
    if (!PyArg_ParseTuple(arguments, "k|i", &bytes, &parts))
        return NULL;
    if (self->reader->asked_operation >= self->reader->n_operations || bytes > UINT16_MAX) {
        PyErr_SetString(PyExc_ValueError, "no width was asked for, or it is too large");
        return NULL;
    }
    ft_reader_set_width(self->reader, (uint32_t)bytes, (enum ft_parts)parts);
    Py_RETURN_NONE;
}

/* uint64 [blocks]: executions of the blocks with ids 1, 2, ... */
static PyObject *stream_reader_block_executions(StreamReader *self, PyObject *Py_UNUSED(ignored))
{
    const struct ft_reader *reader = self->reader;
    if (!ft_reader_count_paths(self->reader))
        return PyErr_NoMemory();
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)reader->n_blocks * 8);
    if (bytes)
        ft_reader_executions(reader, (uint64_t *)PyBytes_AS_STRING(bytes));
    return bytes;
}

/* uint32 [operations, 3]: block id, slot, array operation id */
static PyObject *stream_reader_operations(StreamReader *self, PyObject *Py_UNUSED(ignored))
{
    const struct ft_reader *reader = self->reader;
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)reader->n_operations * 12);
    if (bytes)
        for (uint32_t i = 0; i < reader->n_operations; i++) {
            uint32_t *row = (uint32_t *)PyBytes_AS_STRING(bytes) + 3 * (size_t)i;
            row[0] = reader->operations[i].block_id;
            row[1] = reader->operations[i].slot;
            row[2] = reader->operations[i].array_id;
        }
    return bytes;
}

/* uint64 [operations]: of indexed operands, the longest range of one execution; 0 for the others */
static PyObject *stream_reader_longest_ranges(StreamReader *self, PyObject *Py_UNUSED(ignored))
{
    const struct ft_reader *reader = self->reader;
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)reader->n_operations * 8);
    if (bytes)
        for (uint32_t i = 0; i < reader->n_operations; i++)
            ((uint64_t *)PyBytes_AS_STRING(bytes))[i] = reader->operations[i].longest_range_bytes;
    return bytes;
}

/* uint64 [arrays, 3]: first operation, executions, points of the array operations with ids 1, 2, ... */
static PyObject *stream_reader_arrays(StreamReader *self, PyObject *Py_UNUSED(ignored))
{
    const struct ft_reader *reader = self->reader;
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)reader->n_arrays * 24);
    if (bytes)
        for (uint32_t i = 0; i < reader->n_arrays; i++) {
            uint64_t *row = (uint64_t *)PyBytes_AS_STRING(bytes) + 3 * (size_t)i;
            row[0] = reader->arrays[i + 1].first_operation;
            row[1] = reader->arrays[i + 1].executions;
            row[2] = reader->arrays[i + 1].points;
        }
    return bytes;
}

/* uint64 [edges, 3] */
static PyObject *stream_reader_edges(StreamReader *self, PyObject *Py_UNUSED(ignored))
{
    if (!ft_reader_count_paths(self->reader))
        return PyErr_NoMemory();
    return edge_rows(self->reader, ft_reader_edges, 3);
}

/* list: of each chunk that was kept as a sample, its number, its thread's cursor, and its words as bytes. */
static PyObject *stream_reader_samples(StreamReader *self, PyObject *Py_UNUSED(ignored))
{
    const struct ft_sample *samples[FT_MAX_SAMPLES + FT_MAX_PHASES];
    const uint32_t n = ft_samples_kept(&self->reader->samples, samples);
    PyObject *list = PyList_New(0);
    for (uint32_t i = 0; list && i < n; i++) {
        const struct ft_sample *sample = samples[i];
        PyObject *row = Py_BuildValue("KIy#", (unsigned long long)sample->number, sample->cursor,
                                      (const char *)sample->words, (Py_ssize_t)sample->n_words * 8);
        if (!row || PyList_Append(list, row) < 0)
            Py_CLEAR(list);
        Py_XDECREF(row);
    }
    return list;
}

/* Says that an execution tree is to be made; to be called before the program starts. */
static PyObject *stream_reader_make_tree(StreamReader *self, PyObject *args)
{
    const char *guest;
    unsigned int max_nodes;
    if (!PyArg_ParseTuple(args, "sI", &guest, &max_nodes))
        return NULL;
    const enum ft_guest kind = strcmp(guest, "x86_64") == 0    ? FT_GUEST_X86_64
                               : strcmp(guest, "aarch64") == 0 ? FT_GUEST_AARCH64
                               : strcmp(guest, "riscv64") == 0 ? FT_GUEST_RISCV64
                                                               : FT_GUEST_NONE;
    if (self->reader->executions)
        return PyErr_Format(PyExc_ValueError, "the program runs already");
    if (!ft_reader_make_tree(self->reader, kind, max_nodes))
        return PyErr_NoMemory();
    Py_RETURN_NONE;
}

/* Says that dependences between iterations are to be looked for; to be called behind make_tree. */
static PyObject *stream_reader_find_dependences(StreamReader *self, PyObject *args)
{
    unsigned long long max_bytes;
    int has_windows = 0;
    if (!PyArg_ParseTuple(args, "K|p", &max_bytes, &has_windows))
        return NULL;
    if (!self->reader->tree || self->reader->executions)
        return PyErr_Format(PyExc_ValueError, "there is no tree, or the program runs already");
    if (!ft_reader_find_dependences(self->reader, max_bytes, has_windows))
        return PyErr_NoMemory();
    Py_RETURN_NONE;
}

/* None, or a dict: uint64 tables of rows and loops (see dependences.h), and the share of the memory that was followed.
 */
static PyObject *stream_reader_dependences(StreamReader *self, PyObject *Py_UNUSED(ignored))
{
    const struct ft_dependences *d = self->reader->all_dependences;
    if (!d)
        Py_RETURN_NONE;
    return Py_BuildValue("{sNsNsdsO}", "rows", dependence_rows(d, ft_dependences_rows, FT_DEPENDENCE_COLUMNS), "loops",
                         dependence_rows(d, ft_dependences_loops, FT_DEPENDENCE_LOOP_COLUMNS), "share",
                         ft_dependences_share(d), "in_windows", self->reader->has_windows ? Py_True : Py_False);
}

/* None, or a dict: uint64 tables of nodes, counts, loops, histograms, threads, edges, stretches and
 * places (see tree.h), and remarks. */
static PyObject *stream_reader_tree(StreamReader *self, PyObject *Py_UNUSED(ignored))
{
    struct ft_tree *tree = self->reader->tree;
    if (!tree)
        Py_RETURN_NONE;
    if (!ft_tree_finish(tree, self->reader->executions))
        return PyErr_NoMemory();
    const struct ft_tree_remarks remarks = ft_tree_remarks(tree);
    return Py_BuildValue(
        "{sNsNsNsNsNsNsNsNsKsKsKsKsKsK}", "nodes", tree_rows(tree, ft_tree_nodes, FT_TREE_NODE_COLUMNS), "counts",
        tree_rows(tree, ft_tree_counts, 3), "loops", tree_rows(tree, ft_tree_loops, FT_TREE_LOOP_COLUMNS), "histograms",
        tree_rows(tree, ft_tree_histograms, 4), "threads", tree_rows(tree, ft_tree_threads, 4), "edges",
        tree_rows(tree, ft_tree_edges, FT_TREE_EDGE_COLUMNS), "stretches", tree_rows(tree, ft_tree_stretches, 4),
        "places", tree_rows(tree, ft_tree_places, 5), "merged_contexts", (unsigned long long)remarks.merged_contexts,
        "unwound", (unsigned long long)remarks.unwound, "resumed", (unsigned long long)remarks.resumed, "signals",
        (unsigned long long)remarks.signals, "overflows", (unsigned long long)remarks.overflows, "unplaced_waits",
        (unsigned long long)remarks.unplaced_waits);
}

typedef const struct ft_tree_works *works_at(const struct ft_reader *reader, uint32_t number);

static const struct ft_tree_works *works_of_sample(const struct ft_reader *reader, uint32_t number)
{
    return &reader->event_samples.sample[number].work;
}

static const struct ft_tree_works *works_of_call(const struct ft_reader *reader, uint32_t number)
{
    return &reader->rank_calls.works[number];
}

/* uint64 [rows, 4]: number of the sample or call, node, block, executions. NULL on failure. */
static PyObject *work_rows(const struct ft_reader *reader, works_at *at, uint32_t numbers)
{
    const struct ft_tree *tree = reader->tree;
    uint64_t rows = 0;
    for (uint32_t i = 0; i < numbers; i++)
        rows += at(reader, i)->number;
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(rows * 4 * sizeof(uint64_t)));
    uint32_t *nodes = tree ? malloc((ft_tree_contexts(tree, NULL) + 1) * sizeof *nodes) : NULL;
    if (!bytes || (tree && !nodes)) {
        Py_XDECREF(bytes);
        free(nodes);
        return PyErr_NoMemory();
    }
    if (tree)
        ft_tree_contexts(tree, nodes);
    uint64_t *out = (uint64_t *)PyBytes_AS_STRING(bytes);
    for (uint32_t i = 0; i < numbers; i++)
        for (uint64_t j = 0; j < at(reader, i)->number; j++, out += 4) {
            const struct ft_tree_work *row = &at(reader, i)->rows[j];
            const uint64_t values[] = {i, nodes[row->context], ft_tree_work_block(tree, row), row->executions};
            memcpy(out, values, sizeof values);
        }
    free(nodes);
    return bytes;
}

/* What ran before each call of a rank, as `work_rows`; after tree(). */
static PyObject *stream_reader_rank_work(StreamReader *self, PyObject *Py_UNUSED(ignored))
{
    return work_rows(self->reader, works_of_call, self->reader->rank_calls.number);
}

/* None, or a dict: of samples of software-defined events uint64 [samples] positions, uint64 [samples, events] values,
 * by event whether they are doubles, and the work. The last sample is one of now. To be called once. */
static PyObject *stream_reader_event_samples(StreamReader *self, PyObject *Py_UNUSED(ignored))
{
    struct ft_reader *reader = self->reader;
    struct ft_event_samples *samples = &reader->event_samples;
    if (!atomic_load(&reader->header->has_events) && !samples->number)
        Py_RETURN_NONE;
    if (samples->number == FT_MOST_EVENT_SAMPLES)
        return PyErr_Format(PyExc_RuntimeError, "the samples were taken before");
    if (!ft_event_samples_finish(samples, reader->executions, reader->tree, &reader->rank_calls))
        return PyErr_NoMemory();
    const Py_ssize_t n = samples->number, events = samples->num_events;
    PyObject *positions = PyBytes_FromStringAndSize(NULL, n * 8),
             *values = PyBytes_FromStringAndSize(NULL, n * events * 8);
    PyObject *are_real = PyBytes_FromStringAndSize((const char *)samples->is_real, events);
    PyObject *are_known = PyBytes_FromStringAndSize(NULL, events);
    PyObject *work =
        positions && values && are_real && are_known ? work_rows(reader, works_of_sample, samples->number) : NULL;
    if (!work) {
        Py_XDECREF(positions);
        Py_XDECREF(values);
        Py_XDECREF(are_real);
        Py_XDECREF(are_known);
        return PyErr_Occurred() ? NULL : PyErr_NoMemory();
    }
    memset(PyBytes_AS_STRING(values), 0, (size_t)(n * events * 8));
    for (Py_ssize_t i = 0; i < n; i++) {
        const struct ft_event_sample *sample = &samples->sample[i];
        memcpy(PyBytes_AS_STRING(positions) + i * 8, &sample->position, 8);
        memcpy(PyBytes_AS_STRING(values) + i * events * 8, sample->values, sample->num_values * 8);
    }
    for (Py_ssize_t i = 0; i < events; i++)
        PyBytes_AS_STRING(are_known)[i] = samples->told_by[i] != 0;
    return Py_BuildValue("{sNsNsNsNsN}", "positions", positions, "values", values, "are_real", are_real, "are_known",
                         are_known, "work", work);
}

/* Says that the data flow is to be followed; after make_tree. */
static PyObject *stream_reader_follow_data(StreamReader *self, PyObject *Py_UNUSED(ignored))
{
    if (!self->reader->tree)
        return PyErr_Format(PyExc_ValueError, "there is no execution tree");
    if (!ft_reader_follow_data(self->reader))
        return PyErr_NoMemory();
    Py_RETURN_NONE;
}

/* Says whose code is where, to the data flow. */
static PyObject *stream_reader_set_owners(StreamReader *self, PyObject *args)
{
    Py_buffer ranges;
    if (!PyArg_ParseTuple(args, "y*", &ranges))
        return NULL;
    const Py_ssize_t number = ranges.len / (Py_ssize_t)sizeof(struct ft_code_range);
    const bool done = number < INT32_MAX && ft_reader_set_owners(self->reader, ranges.buf, (uint32_t)number);
    PyBuffer_Release(&ranges);
    if (!done)
        return PyErr_NoMemory();
    Py_RETURN_NONE;
}

static PyObject *flow_sets(const struct ft_flow *flow)
{
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(ft_flow_sets(flow, NULL) * sizeof(uint32_t)));
    if (bytes)
        ft_flow_sets(flow, (uint32_t *)PyBytes_AS_STRING(bytes));
    return bytes;
}

/* uint32 [places, 2]: node of the tree, and a memory operation of the place. */
static PyObject *flow_places(const struct ft_reader *reader)
{
    const struct ft_flow_places *places = &reader->places;
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)places->num_places * 8);
    uint32_t *nodes = malloc((ft_tree_contexts(reader->tree, NULL) + 1) * sizeof *nodes);
    if (!bytes || !nodes) {
        Py_XDECREF(bytes);
        free(nodes);
        return PyErr_NoMemory();
    }
    ft_tree_contexts(reader->tree, nodes);
    for (uint32_t i = 0; i < places->num_places; i++) {
        uint32_t *row = (uint32_t *)PyBytes_AS_STRING(bytes) + 2 * (size_t)i;
        row[0] = i == FT_FLOW_SYSTEM ? 0 : nodes[places->places[i].context];
        row[1] = places->places[i].operation;
    }
    free(nodes);
    return bytes;
}

/* None, or a dict: tables of places, sets, versions and touched bytes (see flow.h), and figures. */
static PyObject *stream_reader_data_flow(StreamReader *self, PyObject *Py_UNUSED(ignored))
{
    struct ft_reader *reader = self->reader;
    struct ft_flow *flow = reader->flow;
    if (!flow)
        Py_RETURN_NONE;
    if (!ft_reader_tidy_flow(reader))
        return PyErr_NoMemory();
    ft_flow_finish(flow);
    return Py_BuildValue("{sNsNsNsNsNsNsIsOsO}", "places", flow_places(reader), "sets", flow_sets(flow), "versions",
                         flow_rows(flow, ft_flow_versions, FT_FLOW_PARTS + 3), "touched",
                         flow_rows(flow, ft_flow_touched, 5), "left", flow_rows(flow, ft_flow_left, 3), "objects",
                         PyBytes_FromStringAndSize((const char *)(reader->objects + 1),
                                                   (Py_ssize_t)(reader->n_objects * sizeof *reader->objects)),
                         "log_weight", ft_flow_log_weight(flow), "ended", reader->flow_ended ? Py_True : Py_False,
                         "overflowed", reader->flow_overflowed ? Py_True : Py_False);
}

/* tuple: for each thread that wrote, the id of the block that it was in last. */
static PyObject *stream_reader_last_blocks(StreamReader *self, PyObject *Py_UNUSED(ignored))
{
    PyObject *list = PyList_New(0);
    for (uint32_t i = 0; list && i < FT_MAX_CURSORS; i++) {
        uint32_t block_id = self->reader->cursors[i].block_id;
        PyObject *number = block_id ? PyLong_FromUnsignedLong(block_id) : NULL;
        if (block_id && (!number || PyList_Append(list, number) < 0))
            Py_CLEAR(list);
        Py_XDECREF(number);
    }
    PyObject *tuple = list ? PyList_AsTuple(list) : NULL;
    Py_XDECREF(list);
    return tuple;
}

/* The header's figures as a dict. */
static PyObject *stream_reader_header(StreamReader *self, PyObject *Py_UNUSED(ignored))
{
    struct ft_header *h = self->reader->header;
    uint32_t message_bytes = atomic_load(&h->message_bytes);
    if (message_bytes > sizeof h->message)
        message_bytes = sizeof h->message;
    uint64_t departures[FT_NUM_DEPARTURES];
    for (size_t i = 0; i < FT_NUM_DEPARTURES; i++)
        departures[i] = atomic_load(&h->departures[i]);
    return Py_BuildValue(
        "{sOsOsOsOsOsIsIsIsIsIsKsKsKsKsKsKsKsKsKsKsKsKsKsy#sy#sy#}", "attached",
        atomic_load(&h->attached) ? Py_True : Py_False, "finished", atomic_load(&h->finished) ? Py_True : Py_False,
        "replaced", atomic_load(&h->replaced) ? Py_True : Py_False, "has_events",
        atomic_load(&h->has_events) ? Py_True : Py_False, "edges_full", self->reader->edges_full ? Py_True : Py_False,
        "forks", atomic_load(&h->forks), "side_full", atomic_load(&h->side_full), "maps", self->reader->n_maps,
        "threads", atomic_load(&h->threads), "threads_untraced", atomic_load(&h->threads_untraced), "side_offset",
        (unsigned long long)h->side_offset, "side_bytes", (unsigned long long)self->reader->side_read_bytes,
        "guest_base", (unsigned long long)h->guest_base, "unseen_calls",
        (unsigned long long)atomic_load(&h->unseen_calls), "waited_ns", (unsigned long long)h->waited_ns, "children_ns",
        (unsigned long long)h->children_ns, "processor_ns", (unsigned long long)h->processor_ns, "native_threads_ns",
        (unsigned long long)h->native_threads_ns, "native_threads_rounds", (unsigned long long)h->native_threads_rounds,
        "clock_reads", (unsigned long long)atomic_load(&h->clock_reads), "whole_masked_loads",
        (unsigned long long)atomic_load(&h->whole_masked_loads), "executions",
        (unsigned long long)self->reader->executions, "accesses",
        (unsigned long long)(self->reader->accesses + self->reader->batch_length), "departures",
        (const char *)departures, (Py_ssize_t)sizeof departures, "message", h->message, (Py_ssize_t)message_bytes,
        "exception", h->exception, (Py_ssize_t)strnlen(h->exception, sizeof h->exception));
}

/* Says who reads, and which system calls map code; to be called before the program starts. */
static PyObject *stream_reader_expect(StreamReader *self, PyObject *args)
{
    unsigned long long mmap_call, mprotect_call;
    unsigned int pid;
    if (!PyArg_ParseTuple(args, "IKK", &pid, &mmap_call, &mprotect_call))
        return NULL;
    self->reader->header->mmap_call = mmap_call;
    self->reader->header->mprotect_call = mprotect_call;
    atomic_store(&self->reader->header->reader_pid, pid);
    Py_RETURN_NONE;
}

/* Says how many blocks may be described at most; to be called before the program starts. */
static PyObject *stream_reader_limit(StreamReader *self, PyObject *number)
{
    unsigned long max_blocks = PyLong_AsUnsignedLong(number);
    if (PyErr_Occurred())
        return NULL;
    self->reader->header->max_blocks = max_blocks < UINT32_MAX ? (uint32_t)max_blocks : UINT32_MAX;
    Py_RETURN_NONE;
}

/* Says when accesses are to be recorded; to be called before the program starts. */
static PyObject *stream_reader_schedule(StreamReader *self, PyObject *args)
{
    unsigned long long seed;
    unsigned int first, period, warm, measured;
    if (!PyArg_ParseTuple(args, "KIIII", &seed, &first, &period, &warm, &measured))
        return NULL;
    if (period < FT_MIN_PHASE_CHUNKS || warm < FT_MIN_PHASE_CHUNKS || measured < FT_MIN_PHASE_CHUNKS)
        return PyErr_Format(PyExc_ValueError, "phases have at least %u chunks", FT_MIN_PHASE_CHUNKS);
    self->reader->header->schedule = (struct ft_schedule){seed, first, period, warm, measured};
    Py_RETURN_NONE;
}

/* Says when accesses of array operations are to be handed over, of those in the stream; to be called before the program
 * starts. */
static PyObject *stream_reader_sample(StreamReader *self, PyObject *args)
{
    unsigned long long seed;
    unsigned int first, period, warm, measured;
    if (!PyArg_ParseTuple(args, "KIIII", &seed, &first, &period, &warm, &measured))
        return NULL;
    const unsigned int most = UINT32_MAX / FT_CHUNK_WORDS >> FT_MAX_DOUBLINGS;
    if (!first || first > UINT32_MAX / FT_CHUNK_WORDS || !period || period > most || !warm || warm > most ||
        !measured || measured > most)
        return PyErr_Format(PyExc_ValueError, "phases have 1 to %u chunks", most);
    ft_reader_sample(self->reader, (struct ft_schedule){seed, first, period, warm, measured});
    Py_RETURN_NONE;
}

/* Says that children are followed; to be called before the program starts. */
static PyObject *stream_reader_follow(StreamReader *self, PyObject *args)
{
    struct ft_request *request = &self->reader->header->request;
    unsigned long long execve_call;
    unsigned int elf_machine, process, own_fd, exchange_fd;
    if (!PyArg_ParseTuple(args, "KIIII", &execve_call, &elf_machine, &process, &own_fd, &exchange_fd))
        return NULL;
    request->process = process;
    request->own_fd = own_fd;
    request->exchange_fd = exchange_fd;
    request->execve_call = execve_call;
    request->elf_machine = elf_machine;
    atomic_store(&request->follow, 1);
    Py_RETURN_NONE;
}

/* A process that asks for a stream of its own: (pid, kind, command), or None. */
static PyObject *stream_reader_request(StreamReader *self, PyObject *Py_UNUSED(ignored))
{
    struct ft_request *request = &self->reader->header->request;
    if (atomic_load(&request->state) != FT_REQUEST_ASKED)
        Py_RETURN_NONE;
    uint32_t bytes = request->command_bytes;
    return Py_BuildValue("IIy#", atomic_load(&request->pid), request->kind, request->command,
                         (Py_ssize_t)(bytes < sizeof request->command ? bytes : sizeof request->command));
}

/* Answers it: with the descriptor of a stream's memory, or with a negative number. */
static PyObject *stream_reader_answer(StreamReader *self, PyObject *number)
{
    struct ft_request *request = &self->reader->header->request;
    long fd = PyLong_AsLong(number);
    if (PyErr_Occurred())
        return NULL;
    request->fd = (uint32_t)fd;
    atomic_store(&request->state, fd < 0 ? FT_REQUEST_REFUSED : FT_REQUEST_GRANTED);
    ft_futex_wake(&request->state);
    Py_RETURN_NONE;
}

/* Stops reading: the program goes on untraced. */
static PyObject *stream_reader_detach(StreamReader *self, PyObject *Py_UNUSED(ignored))
{
    atomic_store(&self->reader->header->reader_pid, 0);
    Py_RETURN_NONE;
}

/* The layout as this compiler sees it, for the tests that compare it with tracer/reader/side_table.py and write
 * streams. */
static PyObject *layout(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    return Py_BuildValue(
        "{snsnsnsnsnsnsnsnsnsnsnsnsnsnsnsnsnsnsn}", "side_file", sizeof(struct ft_side_file), "side_landing",
        sizeof(struct ft_side_landing), "side_object", sizeof(struct ft_side_object), "side_entry",
        sizeof(struct ft_side_entry), "side_block", sizeof(struct ft_side_block), "side_pyblock",
        sizeof(struct ft_side_pyblock), "side_operation", sizeof(struct ft_side_operation), "side_unseen",
        sizeof(struct ft_side_unseen), "side_linear", sizeof(struct ft_side_linear), "side_compiled",
        sizeof(struct ft_side_compiled), "side_child", sizeof(struct ft_side_child), "operand",
        sizeof(struct ft_operand), "ready_bytes", sizeof(struct ft_ready), "chunk_words", (Py_ssize_t)FT_CHUNK_WORDS,
        "ready_head", offsetof(struct ft_header, ready_head), "ready", offsetof(struct ft_header, ready),
        "side_used_bytes", offsetof(struct ft_header, side_used_bytes), "chunks_offset",
        offsetof(struct ft_header, chunks_offset), "side_offset", offsetof(struct ft_header, side_offset));
}

static PyMethodDef stream_reader_methods[] = {
    {"expect", (PyCFunction)stream_reader_expect, METH_VARARGS, "expect(pid, mmap_call, mprotect_call)"},
    {"run", (PyCFunction)stream_reader_run, METH_VARARGS, "run(max_chunks, timeout_ms) -> status"},
    {"salvage", (PyCFunction)stream_reader_salvage, METH_NOARGS, "salvage() -> status"},
    {"asked", (PyCFunction)stream_reader_asked, METH_NOARGS, "asked() -> (block id, slot)"},
    {"set_width", (PyCFunction)stream_reader_set_width, METH_VARARGS, "set_width(bytes, parts=0)"},
    {"block_executions", (PyCFunction)stream_reader_block_executions, METH_NOARGS, "uint64 [blocks]"},
    {"operations", (PyCFunction)stream_reader_operations, METH_NOARGS, "uint32 [operations, 3]"},
    {"longest_ranges", (PyCFunction)stream_reader_longest_ranges, METH_NOARGS, "uint64 [operations]"},
    {"arrays", (PyCFunction)stream_reader_arrays, METH_NOARGS, "uint64 [arrays, 3]"},
    {"edges", (PyCFunction)stream_reader_edges, METH_NOARGS, "uint64 [edges, 3]"},
    {"last_blocks", (PyCFunction)stream_reader_last_blocks, METH_NOARGS, "ids of the blocks that the threads ran last"},
    {"make_tree", (PyCFunction)stream_reader_make_tree, METH_VARARGS, "make_tree(guest, max_nodes)"},
    {"tree", (PyCFunction)stream_reader_tree, METH_NOARGS, "the execution tree's rows"},
    {"follow_data", (PyCFunction)stream_reader_follow_data, METH_NOARGS, "follow_data(): the data flow, too"},
    {"set_owners", (PyCFunction)stream_reader_set_owners, METH_VARARGS,
     "set_owners(ranges): uint64 first, end, owner of each"},
    {"data_flow", (PyCFunction)stream_reader_data_flow, METH_NOARGS, "the data flow's rows; to be called once"},
    {"find_dependences", (PyCFunction)stream_reader_find_dependences, METH_VARARGS,
     "find_dependences(max_bytes, has_windows=False)"},
    {"dependences", (PyCFunction)stream_reader_dependences, METH_NOARGS, "dependences between iterations"},
    {"rank_work", (PyCFunction)stream_reader_rank_work, METH_NOARGS, "what ran before each call of a rank"},
    {"event_samples", (PyCFunction)stream_reader_event_samples, METH_NOARGS, "samples of software-defined events"},
    {"samples", (PyCFunction)stream_reader_samples, METH_NOARGS, "[(number, cursor, words)]"},
    {"header", (PyCFunction)stream_reader_header, METH_NOARGS, "the header's figures"},
    {"limit", (PyCFunction)stream_reader_limit, METH_O, "limit(max_blocks)"},
    {"schedule", (PyCFunction)stream_reader_schedule, METH_VARARGS,
     "schedule(seed, first_chunks, period_chunks, warm_chunks, measured_chunks)"},
    {"sample", (PyCFunction)stream_reader_sample, METH_VARARGS,
     "sample(seed, first_chunks, period_chunks, warm_chunks, measured_chunks): in bursts of what is in the stream"},
    {"mark", (PyCFunction)stream_reader_mark, METH_NOARGS, "mark() -> the last one read"},
    {"follow", (PyCFunction)stream_reader_follow, METH_VARARGS,
     "follow(execve_call, elf_machine, process, own_fd, exchange_fd)"},
    {"request", (PyCFunction)stream_reader_request, METH_NOARGS, "(pid, kind, command) of who asks for a stream"},
    {"answer", (PyCFunction)stream_reader_answer, METH_O, "answer(fd)"},
    {"detach", (PyCFunction)stream_reader_detach, METH_NOARGS, "stop reading"},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot stream_reader_slots[] = {
    {Py_tp_doc, "Reads an address stream and feeds a simulator."},
    {Py_tp_init, stream_reader_init},
    {Py_tp_dealloc, stream_reader_dealloc},
    {Py_tp_methods, stream_reader_methods},
    {0, NULL},
};

static PyType_Spec stream_reader_spec = {
    .name = "foretrace.tracer.reader._reader.StreamReader",
    .basicsize = sizeof(StreamReader),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = stream_reader_slots,
};

static PyObject *caught(PyObject *bits, int (*ft_catch)(uint64_t signals))
{
    unsigned long long signals = PyLong_AsUnsignedLongLong(bits);
    if (PyErr_Occurred())
        return NULL;
    if (!ft_catch(signals))
        return PyErr_SetFromErrno(PyExc_OSError);
    Py_RETURN_NONE;
}

static PyObject *catch_signals(PyObject *Py_UNUSED(module), PyObject *bits)
{
    return caught(bits, ft_signals_catch);
}

static PyObject *catch_ignored_signals(PyObject *Py_UNUSED(module), PyObject *bits)
{
    return caught(bits, ft_signals_catch_ignored);
}

static PyObject *release_signals(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    ft_signals_release();
    Py_RETURN_NONE;
}

static PyObject *take_signals(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    return PyLong_FromUnsignedLongLong(ft_signals_take());
}

static PyObject *interrupts(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    return PyLong_FromUnsignedLong(ft_signals_interrupts());
}

static PyMethodDef module_methods[] = {
    {"catch_signals", catch_signals, METH_O,
     "catch_signals(bits): note these signals instead of acting on them, but for those that are ignored"},
    {"catch_ignored_signals", catch_ignored_signals, METH_O,
     "catch_ignored_signals(bits): note those of these signals, too, that are ignored"},
    {"release_signals", release_signals, METH_NOARGS, "release_signals(): undo catch_signals"},
    {"take_signals", take_signals, METH_NOARGS, "take_signals() -> bits of those sent to us since the last call"},
    {"interrupts", interrupts, METH_NOARGS, "interrupts() -> how often SIGINT has come since catch_signals"},
    {"layout", layout, METH_NOARGS, "sizes of the structures in stream.h"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "foretrace.tracer.reader._reader",
    .m_size = -1,
    .m_methods = module_methods,
};

PyMODINIT_FUNC PyInit__reader(void)
{
    PyObject *m = PyModule_Create(&module);
    PyObject *type = m ? PyType_FromSpec(&stream_reader_spec) : NULL;
    if (!type || PyModule_AddObjectRef(m, "StreamReader", type) < 0 ||
        PyModule_AddIntConstant(m, "IDLE", FT_READ_IDLE) < 0 ||
        PyModule_AddIntConstant(m, "EXEC", FT_REQUEST_EXEC) < 0 ||
        PyModule_AddIntConstant(m, "MORE", FT_READ_MORE) < 0 ||
        PyModule_AddIntConstant(m, "WIDTH", FT_READ_WIDTH) < 0 ||
        PyModule_AddIntConstant(m, "MARK", FT_READ_MARK) < 0 ||
        PyModule_AddIntConstant(m, "MARK_COUNT", FT_MARK_COUNT) < 0 ||
        PyModule_AddIntConstant(m, "MARK_WARM", FT_MARK_WARM) < 0 ||
        PyModule_AddIntConstant(m, "MARK_MEASURE", FT_MARK_MEASURE) < 0 ||
        PyModule_AddIntConstant(m, "MARK_NEW_CODE", FT_MARK_NEW_CODE) < 0 ||
        PyModule_AddIntConstant(m, "CHUNK_WORDS", FT_CHUNK_WORDS) < 0 ||
        PyModule_AddIntConstant(m, "MAX_RARE_EDGES", FT_MAX_RARE_EDGES) < 0) {
        Py_XDECREF(type);
        Py_XDECREF(m);
        return NULL;
    }
    Py_DECREF(type);
    return m;
}
