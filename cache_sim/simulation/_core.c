/* Python binding of the simulators: one type, Simulator, that feeds each batch to all of them.
 *
 * Arrays cross as buffers in and as bytes out, in native byte order; simulator.py gives them names and types. The lock
 * makes a batch and a query of results exclude each other: batches come without the GIL, from another thread or through
 * the capsule. Nobody waits for it while holding the GIL.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "access.h"
#include "cache.h"
#include "cache_sim/memory/memory_feed.h"
#include "cache_sim/reuse/reuse.h"
#include "simulation.h"
#include "statistics.h"

#include <assert.h>
#include <stdbool.h>

#define BATCH 1024u

typedef struct {
    PyObject_HEAD
    struct ft_sink sink;
    struct ft_statistics *statistics;
    struct ft_cache *cache;
    struct ft_reuse *reuse;           /* NULL if no distances are wanted */
    struct ft_simulation *simulation; /* owns the three */
    struct ft_memory_feed *memory;    /* NULL if no memory system is simulated */
    size_t num_systems;
    size_t num_levels;
    PyThread_type_lock lock;
    bool failed; /* memory ran out during a batch */
} Simulator;

/* A batch without its fetches, which only memory systems know of. Returns 0, or -1 when memory ran out. */
static int feed_data(struct ft_simulation *simulation, const struct ft_access *batch, size_t length)
{
    struct ft_access data[BATCH];
    int failed = 0;
    for (size_t begin = 0, num_data = 0; begin < length && !failed; begin += BATCH, num_data = 0) {
        for (size_t i = begin; i < length && i < begin + BATCH; i++)
            if (!(batch[i].flags & FT_ACCESS_FETCH))
                data[num_data++] = batch[i];
        failed = ft_simulation_feed(simulation, data, num_data);
    }
    return failed;
}

/* Needs no GIL, nor do the others that a sink has. */
static int feed(void *simulator, const struct ft_access *batch, size_t length)
{
    Simulator *self = simulator;
    PyThread_acquire_lock(self->lock, WAIT_LOCK);
    int failed = self->failed || (self->sink.wants_fetches ? feed_data(self->simulation, batch, length)
                                                           : ft_simulation_feed(self->simulation, batch, length));
    if (self->memory && !failed)
        ft_memory_feed_batch(self->memory, batch, length);
    self->failed = failed;
    PyThread_release_lock(self->lock);
    return failed ? -1 : 0;
}

static int feed_runs(void *simulator, const struct ft_run *runs, size_t number)
{
    Simulator *self = simulator;
    PyThread_acquire_lock(self->lock, WAIT_LOCK);
    self->failed = self->failed || ft_simulation_feed_runs(self->simulation, runs, number);
    for (size_t i = 0; self->memory && i < number; i++)
        ft_memory_feed_run(self->memory, &runs[i]);
    PyThread_release_lock(self->lock);
    return self->failed ? -1 : 0;
}

static int feed_array(void *simulator, const struct ft_array_run *run)
{
    Simulator *self = simulator;
    PyThread_acquire_lock(self->lock, WAIT_LOCK);
    self->failed = self->failed || ft_simulation_feed_array(self->simulation, run);
    PyThread_release_lock(self->lock);
    return self->failed ? -1 : 0;
}

static int set_thread(void *simulator, uint32_t thread)
{
    Simulator *self = simulator;
    PyThread_acquire_lock(self->lock, WAIT_LOCK);
    ft_memory_feed_set_thread(self->memory, thread);
    PyThread_release_lock(self->lock);
    return 0;
}

/* False, with MemoryError set, if the results are unusable. Otherwise the lock is held. */
static bool lock_results(Simulator *self)
{
    Py_BEGIN_ALLOW_THREADS
    PyThread_acquire_lock(self->lock, WAIT_LOCK);
    self->failed = self->failed || ft_simulation_drain(self->simulation);
    self->failed = self->failed || (self->memory && ft_memory_feed_drain(self->memory));
    Py_END_ALLOW_THREADS
    if (!self->failed)
        return true;
    PyThread_release_lock(self->lock);
    PyErr_NoMemory();
    return false;
}

/* ---- life --------------------------------------------------------------------------------------------------------- */

static void simulator_dealloc(PyObject *object)
{
    Simulator *self = (Simulator *)object;
    PyTypeObject *type = Py_TYPE(object);
    ft_simulation_free(self->simulation);
    ft_memory_feed_free(self->memory);
    if (self->lock)
        PyThread_free_lock(self->lock);
    type->tp_free(object);
    Py_DECREF(type);
}

static bool read_geometry(PyObject *item, size_t index, struct ft_geometry *geometry)
{
    unsigned long long num_sets;
    unsigned int ways, line_shift;
    Py_ssize_t parent;
    if (!PyTuple_Check(item) || !PyArg_ParseTuple(item, "KIIn", &num_sets, &ways, &line_shift, &parent)) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "a level must be a tuple (num_sets, ways, line_shift, parent)");
        return false;
    }
    bool sane = num_sets && ways && line_shift < 32 && parent >= -1 && parent < (Py_ssize_t)index &&
                (parent < 0 || line_shift >= geometry[parent - (Py_ssize_t)index].line_shift);
    if (!sane)
        PyErr_Format(PyExc_ValueError, "level %zu is not a cache level", index);
    *geometry = (struct ft_geometry){num_sets, ways, line_shift, parent};
    return sane;
}

/* A new array, NULL with an exception set if the list is unfit. */
static struct ft_geometry *read_levels(PyObject *levels, size_t *num_levels)
{
    *num_levels = (size_t)PyList_GET_SIZE(levels);
    struct ft_geometry *geometry = PyMem_Calloc(*num_levels + 1, sizeof *geometry);
    size_t *depth = PyMem_Calloc(*num_levels + 1, sizeof *depth);
    bool good = geometry && depth;
    if (!good)
        PyErr_NoMemory();
    for (size_t i = 0; good && i < *num_levels; i++) {
        good = read_geometry(PyList_GET_ITEM(levels, (Py_ssize_t)i), i, &geometry[i]);
        depth[i] = good && geometry[i].parent >= 0 ? depth[geometry[i].parent] + 1 : 1;
        if (good && depth[i] > FT_MAX_DEPTH) {
            PyErr_Format(PyExc_ValueError, "more than %u levels in a hierarchy", FT_MAX_DEPTH);
            good = false;
        }
    }
    PyMem_Free(depth);
    if (good)
        return geometry;
    PyMem_Free(geometry);
    return NULL;
}

static bool read_part(PyObject *item, struct ft_level_plan *plan)
{
    unsigned long long num_sets;
    unsigned int ways, shift, replacement, inclusion, prefetch, degree, victim_lines;
    int through, no_allocate, shared;
    if (!PyTuple_Check(item) ||
        !PyArg_ParseTuple(item, "KIIIIIIIppp", &num_sets, &ways, &shift, &replacement, &inclusion, &prefetch, &degree,
                          &victim_lines, &through, &no_allocate, &shared)) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "a part of a memory system must be a tuple of 11");
        return false;
    }
    *plan = (struct ft_level_plan){num_sets, ways,         shift,   replacement, inclusion, prefetch,
                                   degree,   victim_lines, through, no_allocate, shared};
    if (num_sets && ways && shift < 32 && replacement < FT_NUM_REPLACEMENTS && inclusion < FT_NUM_INCLUSIONS &&
        prefetch < FT_NUM_PREFETCHES && (replacement != FT_PLRU || (ways <= FT_TREE_WAYS && !(ways & (ways - 1)))))
        return true;
    PyErr_SetString(PyExc_ValueError, "a part of a memory system is out of range");
    return false;
}

static bool read_plan(PyObject *item, struct ft_system_plan *plan)
{
    unsigned int num_levels, num_tlbs, num_cores;
    int has_instruction_cache;
    unsigned long long seed;
    PyObject *parts;
    if (!PyTuple_Check(item) || !PyArg_ParseTuple(item, "IpIIKO!", &num_levels, &has_instruction_cache, &num_tlbs,
                                                  &num_cores, &seed, &PyList_Type, &parts)) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "a memory system must be a tuple of 6");
        return false;
    }
    *plan = (struct ft_system_plan){.num_levels = num_levels,
                                    .num_tlbs = num_tlbs,
                                    .num_cores = num_cores,
                                    .has_instruction_cache = has_instruction_cache,
                                    .seed = seed};
    if (num_levels == 0 || num_levels > FT_MAX_LEVELS || num_tlbs > FT_MAX_TLBS || num_cores == 0 ||
        PyList_GET_SIZE(parts) != (Py_ssize_t)(num_levels + plan->has_instruction_cache + num_tlbs)) {
        PyErr_SetString(PyExc_ValueError, "a memory system has an impossible number of parts");
        return false;
    }
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(parts); i++)
        if (!read_part(PyList_GET_ITEM(parts, i), &plan->parts[i]))
            return false;
    return true;
}

/* Sets up the memory systems that are asked for, and has the sink ask for what they need. */
static bool add_systems(Simulator *self, PyObject *systems)
{
    self->num_systems = (size_t)PyList_GET_SIZE(systems);
    if (self->num_systems == 0)
        return true;
    self->sink.feed_array = NULL;
    struct ft_system_plan *plans = PyMem_Calloc(self->num_systems, sizeof *plans);
    bool good = plans;
    if (!good)
        PyErr_NoMemory();
    for (size_t i = 0; good && i < self->num_systems; i++) {
        good = read_plan(PyList_GET_ITEM(systems, (Py_ssize_t)i), &plans[i]);
        self->sink.wants_fetches |= plans[i].has_instruction_cache;
        if (plans[i].num_cores > 1)
            self->sink.set_thread = set_thread;
    }
    if (good && !(self->memory = ft_memory_feed_new(plans, self->num_systems))) {
        PyErr_NoMemory();
        good = false;
    }
    PyMem_Free(plans);
    return good;
}

static bool read_reuse_options(PyObject *item, struct ft_reuse_options *options)
{
    unsigned first_class_shift, class_shift, burst_shift;
    unsigned long long burst, warm, exact;
    if (!PyTuple_Check(item) ||
        !PyArg_ParseTuple(item, "IIIKKK", &first_class_shift, &class_shift, &burst_shift, &burst, &warm, &exact)) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "reuse must be a tuple of six numbers, or None");
        return false;
    }
    *options = (struct ft_reuse_options){first_class_shift, class_shift, burst_shift, burst, warm, exact};
    if (first_class_shift <= class_shift && class_shift <= FT_REUSE_MAX_CLASS_SHIFT &&
        burst_shift <= FT_REUSE_MAX_BURST_SHIFT && burst && burst < UINT64_C(1) << 32 && warm < UINT64_C(1) << 32 &&
        exact)
        return true;
    PyErr_SetString(PyExc_ValueError, "reuse has a number out of range");
    return false;
}

PyDoc_STRVAR(
    simulator_doc,
    "Simulator(levels, systems, reuse)\n--\n\n"
    "levels: list of (num_sets, ways, line_shift, index of the parent or -1), parents first.\n"
    "systems: list of (number of levels, has instruction cache, number of TLBs, cores, seed, parts); a part is\n"
    "(num_sets, ways, shift, replacement, inclusion, prefetch, degree, victim lines, is write-through,\n"
    "does not allocate, is shared), with numbers as in memory_system.h.\n"
    "reuse: the fields of struct ft_reuse_options, or None for no reuse distances.");

static PyObject *simulator_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"levels", "systems", "reuse", NULL};
    PyObject *levels, *systems, *reuse;
    struct ft_reuse_options options;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O!O", names, &PyList_Type, &levels, &PyList_Type, &systems,
                                     &reuse) ||
        (reuse != Py_None && !read_reuse_options(reuse, &options)))
        return NULL;
    Simulator *self = (Simulator *)type->tp_alloc(type, 0);
    if (!self)
        return NULL;
    struct ft_geometry *geometry = read_levels(levels, &self->num_levels);
    if (geometry) {
        self->sink =
            (struct ft_sink){.simulator = self, .feed = feed, .feed_runs = feed_runs, .feed_array = feed_array};
        self->lock = PyThread_allocate_lock();
        self->statistics = ft_statistics_new();
        self->cache = ft_cache_new(geometry, self->num_levels);
        self->reuse = reuse == Py_None ? NULL : ft_reuse_new(&options);
        PyMem_Free(geometry);
        bool complete = self->lock && self->statistics && self->cache && (self->reuse || reuse == Py_None);
        self->simulation = ft_simulation_new(self->statistics, self->cache, self->reuse);
        if (!complete || !self->simulation)
            PyErr_NoMemory();
        else if (add_systems(self, systems))
            return (PyObject *)self;
    }
    Py_DECREF(self);
    return NULL;
}

/* ---- feeding ------------------------------------------------------------------------------------------------------ */

static void release_simulator(PyObject *capsule)
{
    Py_XDECREF((PyObject *)PyCapsule_GetContext(capsule));
}

static PyObject *get_sink(PyObject *object, void *Py_UNUSED(closure))
{
    Simulator *self = (Simulator *)object;
    PyObject *capsule = PyCapsule_New(&self->sink, FT_SINK_CAPSULE, release_simulator);
    if (capsule)
        PyCapsule_SetContext(capsule, Py_NewRef(object)); /* cannot fail: the capsule is valid */
    return capsule;
}

/* One operation's loads or stores: iterations of a loop with a single access, whose words are the addresses. */
static bool feed_operation(Simulator *self, const uint64_t *addresses, size_t length, const struct ft_access *first)
{
    const struct ft_run_access access = {.op = first->op, .size_bytes = first->size_bytes, .flags = first->flags};
    const struct ft_iteration iteration = {.accesses = &access,
                                           .address_mask = UINT64_MAX,
                                           .num_accesses = 1,
                                           .num_words = 1,
                                           .max_op = first->op,
                                           .has_distinct_ops = true};
    for (size_t done = 0, part; done < length; done += part) {
        part = length - done < BATCH ? length - done : BATCH;
        const struct ft_run run = {&iteration, addresses + done, part};
        if (feed_runs(self, &run, 1))
            return false;
    }
    return true;
}

/* `step` is 1, or 0 where a column has one value for all. */
static bool feed_columns(Simulator *self, const Py_buffer columns[4], const size_t step[4])
{
    const uint64_t *addresses = columns[0].buf;
    const uint16_t *sizes = columns[1].buf;
    const uint32_t *operations = columns[2].buf;
    const uint8_t *flags = columns[3].buf;
    size_t length = (size_t)columns[0].len / sizeof *addresses;
    struct ft_access batch[BATCH];
    if (length && !(step[1] | step[2] | step[3]) && !(*flags & FT_ACCESS_FETCH))
        return feed_operation(self, addresses, length,
                              &(struct ft_access){0, *operations, *sizes, *flags & FT_ACCESS_STORE});
    for (size_t done = 0, part; done < length; done += part) {
        part = length - done < BATCH ? length - done : BATCH;
        for (size_t i = 0, at = done; i < part; i++, at++)
            batch[i] = (struct ft_access){addresses[at], operations[at * step[2]], sizes[at * step[1]],
                                          flags[at * step[3]] & (FT_ACCESS_STORE | FT_ACCESS_FETCH)};
        if (feed(self, batch, part))
            return false;
    }
    return true;
}

PyDoc_STRVAR(feed_doc,
             "feed(addresses, sizes_bytes, operations, flags)\n--\n\n"
             "Contiguous uint64, uint16, uint32 and uint8 buffers of one length, or, but for the first, with one\n"
             "value for all. Flags: 1 a store, 2 a fetch of a block's code, which only a simulator with an\n"
             "instruction cache may be fed.");

static PyObject *simulator_feed(PyObject *object, PyObject *args)
{
    Simulator *self = (Simulator *)object;
    static const Py_ssize_t item_bytes[4] = {8, 2, 4, 1};
    Py_buffer columns[4] = {{0}, {0}, {0}, {0}};
    if (!PyArg_ParseTuple(args, "y*y*y*y*", &columns[0], &columns[1], &columns[2], &columns[3]))
        return NULL;
    size_t step[4] = {1, 1, 1, 1};
    bool fed = false, fits = columns[0].len % item_bytes[0] == 0;
    for (int i = 1; i < 4; i++) {
        step[i] = columns[i].len != item_bytes[i];
        fits = fits && (!step[i] || columns[i].len == columns[0].len / item_bytes[0] * item_bytes[i]);
    }
    if (!fits) {
        PyErr_SetString(PyExc_ValueError, "addresses, sizes, operations and flags differ in length");
    } else {
        Py_BEGIN_ALLOW_THREADS
        fed = feed_columns(self, columns, step);
        Py_END_ALLOW_THREADS
        if (!fed)
            PyErr_NoMemory();
    }
    for (int i = 0; i < 4; i++)
        PyBuffer_Release(&columns[i]);
    return fed ? Py_NewRef(Py_None) : NULL;
}

/* ---- results ------------------------------------------------------------------------------------------------------ */

static PyObject *get_num_operations(PyObject *object, void *Py_UNUSED(closure))
{
    Simulator *self = (Simulator *)object;
    if (!lock_results(self))
        return NULL;
    size_t number = ft_statistics_operations(self->statistics);
    PyThread_release_lock(self->lock);
    return PyLong_FromSize_t(number);
}

PyDoc_STRVAR(statistics_doc, "statistics()\n--\n\n"
                             "uint64 [operations, 9]: executions, total_bytes, size_bytes, first, last_exclusive, "
                             "repeated, unit_stride, strided, irregular.");

static PyObject *simulator_statistics(PyObject *object, PyObject *Py_UNUSED(args))
{
    static_assert(sizeof(struct ft_operation) == 9 * sizeof(uint64_t), "simulator.py reads 9 columns");
    Simulator *self = (Simulator *)object;
    if (!lock_results(self))
        return NULL;
    size_t number = ft_statistics_operations(self->statistics);
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(number * sizeof(struct ft_operation)));
    for (size_t op = 0; bytes && op < number; op++) {
        struct ft_operation total = ft_statistics_of(self->statistics, op);
        memcpy(PyBytes_AS_STRING(bytes) + op * sizeof total, &total, sizeof total);
    }
    PyThread_release_lock(self->lock);
    return bytes;
}

PyDoc_STRVAR(misses_doc, "misses(level)\n--\n\nuint64 [operations].");

static PyObject *simulator_misses(PyObject *object, PyObject *argument)
{
    Simulator *self = (Simulator *)object;
    size_t level = PyLong_AsSize_t(argument);
    if (level == (size_t)-1 && PyErr_Occurred())
        return NULL;
    if (level >= self->num_levels)
        return PyErr_Format(PyExc_IndexError, "no level %zu", level);
    if (!lock_results(self))
        return NULL;
    size_t number = ft_statistics_operations(self->statistics);
    PyObject *bytes = PyBytes_FromStringAndSize((const char *)ft_cache_misses(self->cache, level),
                                                (Py_ssize_t)(number * sizeof(uint64_t)));
    PyThread_release_lock(self->lock);
    return bytes;
}

PyDoc_STRVAR(memory_counts_doc, "memory_counts(system, of_fetches)\n--\n\n"
                                "uint64 [operations or blocks, parts, 9], in the order of enum ft_event.");

static PyObject *simulator_memory_counts(PyObject *object, PyObject *args)
{
    Simulator *self = (Simulator *)object;
    Py_ssize_t index;
    int of_fetches;
    if (!PyArg_ParseTuple(args, "np", &index, &of_fetches))
        return NULL;
    if (index < 0 || (size_t)index >= self->num_systems)
        return PyErr_Format(PyExc_IndexError, "no memory system %zd", index);
    if (!lock_results(self))
        return NULL;
    const struct ft_memory_system *system = ft_memory_feed_system(self->memory, (size_t)index);
    size_t num_rows, row_bytes = ft_memory_system_parts(system) * FT_NUM_EVENTS * sizeof(uint64_t);
    const uint64_t *counts = ft_memory_system_counts(system, of_fetches, &num_rows);
    PyObject *bytes = PyBytes_FromStringAndSize((const char *)counts, (Py_ssize_t)(num_rows * row_bytes));
    PyThread_release_lock(self->lock);
    return bytes;
}

PyDoc_STRVAR(set_thread_doc, "set_thread(thread)\n--\n\nWho makes the accesses that are fed from now on.");

static PyObject *simulator_set_thread(PyObject *object, PyObject *number)
{
    Simulator *self = (Simulator *)object;
    unsigned long thread = PyLong_AsUnsignedLong(number);
    if (PyErr_Occurred())
        return NULL;
    if (self->memory) {
        Py_BEGIN_ALLOW_THREADS
        set_thread(self, (uint32_t)thread);
        Py_END_ALLOW_THREADS
    }
    Py_RETURN_NONE;
}

static PyObject *reuse_counts(struct ft_reuse *reuse)
{
    PyObject *bytes =
        PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(ft_reuse_finish(reuse) * sizeof(struct ft_reuse_count)));
    if (!bytes)
        return NULL;
    struct ft_reuse_count count;
    char *next = PyBytes_AS_STRING(bytes);
    for (size_t position = 0; ft_reuse_next(reuse, &position, &count); next += sizeof count)
        memcpy(next, &count, sizeof count);
    return bytes;
}

PyDoc_STRVAR(reuse_doc,
             "reuse()\n--\n\n"
             "None, or the fields of struct ft_reuse_summary and, as bytes: records of struct ft_reuse_count in no\n"
             "order; records of struct ft_reuse_operation; struct ft_reuse_variances; ft_reuse_groups.");

static PyObject *simulator_reuse(PyObject *object, PyObject *Py_UNUSED(args))
{
    Simulator *self = (Simulator *)object;
    if (!self->reuse)
        Py_RETURN_NONE;
    if (!lock_results(self))
        return NULL;
    struct ft_reuse_summary all = ft_reuse_summary(self->reuse);
    PyObject *counts = reuse_counts(self->reuse), *result = NULL;
    const void *sampled = ft_reuse_sampled(self->reuse);
    if (counts)
        result = Py_BuildValue(
            "KKKIIKKNy#y#y#", (unsigned long long)all.accesses, (unsigned long long)all.burst_accesses,
            (unsigned long long)all.bursts, (unsigned)all.class_shift, (unsigned)all.known_blocks,
            (unsigned long long)all.middle_accesses, (unsigned long long)all.large_accesses, counts,
            sampled ? (const char *)sampled : "",
            (Py_ssize_t)(ft_reuse_operations(self->reuse) * sizeof(struct ft_reuse_operation)),
            (const char *)ft_reuse_variances(self->reuse), (Py_ssize_t)sizeof(struct ft_reuse_variances),
            (const char *)ft_reuse_groups(self->reuse), (Py_ssize_t)(FT_REUSE_GROUPS * sizeof(ft_reuse_group)));
    PyThread_release_lock(self->lock);
    return result;
}

PyDoc_STRVAR(bin_edges_doc,
             "reuse_bin_edges()\n--\n\nLower edge of each bin in lines; inf for the last, beyond all others.");

static PyObject *reuse_bin_edges(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(args))
{
    PyObject *edges = PyTuple_New(FT_REUSE_BINS);
    for (unsigned bin = 0; edges && bin < FT_REUSE_BINS; bin++) {
        PyObject *edge = PyFloat_FromDouble(bin == FT_REUSE_BEYOND ? Py_HUGE_VAL : (double)ft_reuse_bin_edge(bin));
        if (edge)
            PyTuple_SET_ITEM(edges, (Py_ssize_t)bin, edge);
        else
            Py_CLEAR(edges);
    }
    return edges;
}

/* ---- module ------------------------------------------------------------------------------------------------------- */

PyDoc_STRVAR(reserve_doc, "reserve(num_operations)\n--\n\nMakes operations up to a number known, fed or not.");

static PyObject *simulator_reserve(PyObject *object, PyObject *number)
{
    Simulator *self = (Simulator *)object;
    size_t num_operations = PyLong_AsSize_t(number);
    if (PyErr_Occurred() || !lock_results(self))
        return NULL;
    bool failed =
        ft_statistics_reserve(self->statistics, num_operations) || ft_cache_reserve(self->cache, num_operations);
    PyThread_release_lock(self->lock);
    if (failed)
        return PyErr_NoMemory();
    Py_RETURN_NONE;
}

static PyMethodDef simulator_methods[] = {
    {"feed", simulator_feed, METH_VARARGS, feed_doc},
    {"reserve", simulator_reserve, METH_O, reserve_doc},
    {"statistics", simulator_statistics, METH_NOARGS, statistics_doc},
    {"misses", simulator_misses, METH_O, misses_doc},
    {"set_thread", simulator_set_thread, METH_O, set_thread_doc},
    {"memory_counts", simulator_memory_counts, METH_VARARGS, memory_counts_doc},
    {"reuse", simulator_reuse, METH_NOARGS, reuse_doc},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef simulator_getset[] = {
    {"sink", get_sink, NULL, "A new capsule with the simulator's struct ft_sink; it keeps the simulator alive.", NULL},
    {"num_operations", get_num_operations, NULL, "One more than the largest operation fed.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot simulator_slots[] = {
    {Py_tp_doc, (void *)simulator_doc}, {Py_tp_new, simulator_new},       {Py_tp_dealloc, simulator_dealloc},
    {Py_tp_methods, simulator_methods}, {Py_tp_getset, simulator_getset}, {0, NULL},
};

static PyType_Spec simulator_spec = {
    .name = "foretrace.cache_sim.simulation._core.Simulator",
    .basicsize = sizeof(Simulator),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = simulator_slots,
};

static int module_exec(PyObject *module)
{
    PyObject *type = PyType_FromModuleAndSpec(module, &simulator_spec, NULL);
    int failed = !type || PyModule_AddType(module, (PyTypeObject *)type) < 0;
    Py_XDECREF(type);
    return failed ? -1 : 0;
}

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, module_exec}, {0, NULL}};

static PyMethodDef module_methods[] = {
    {"reuse_bin_edges", reuse_bin_edges, METH_NOARGS, bin_edges_doc},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module_def = {
    PyModuleDef_HEAD_INIT,
    .m_name = "foretrace.cache_sim.simulation._core",
    .m_doc = "The cache simulators in C.",
    .m_methods = module_methods,
    .m_slots = module_slots,
};

PyMODINIT_FUNC PyInit__core(void)
{
    return PyModuleDef_Init(&module_def);
}
