/* Python's face of the event loop. See engine.h. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <math.h>
#include <structmember.h>

#include "engine.h"

enum {
    OPERATIONS,
    STARTS,
    CLASSES,
    USES,
    RESOURCES,
    OBJECTS,
    CORES,
    CONDITIONS,
    POINTS,
    MESSAGES,
    COMMUNICATORS,
    MEMBERS,
    COLLECTIVES,
    COUNTS,
    SLOT_LISTS,
    REGIMES,
    NETWORK,
    N_BUFFERS
};

struct engine_object {
    PyObject_HEAD
    Py_buffer given[N_BUFFERS];
    struct ft_engine engine;
};

static const char *wrong_operation(const struct ft_engine *e, const struct ft_operation *op)
{
    const int64_t limits[FT_NUM_CODES] = {[FT_END] = INT32_MAX,
                                          [FT_CALL] = INT32_MAX,
                                          [FT_SLEEP] = INT32_MAX,
                                          [FT_RUN] = (int64_t)e->n_classes,
                                          [FT_LOOP] = (int64_t)e->n_operations,
                                          [FT_NEXT] = (int64_t)e->n_operations,
                                          [FT_JUMP] = (int64_t)e->n_operations,
                                          [FT_BARRIER] = (int64_t)e->n_objects,
                                          [FT_LOCK] = (int64_t)e->n_objects,
                                          [FT_UNLOCK] = (int64_t)e->n_objects,
                                          [FT_POST] = (int64_t)e->n_objects,
                                          [FT_WAIT] = (int64_t)e->n_objects,
                                          [FT_BROADCAST] = (int64_t)e->n_objects,
                                          [FT_SEND] = (int64_t)e->n_messages,
                                          [FT_RECEIVE] = (int64_t)e->n_messages,
                                          [FT_AWAIT] = INT32_MAX,
                                          [FT_COLLECTIVE] = (int64_t)e->n_collectives,
                                          [FT_USE] = (int64_t)e->n_objects,
                                          [FT_SPAWN] = (int64_t)e->n_entities,
                                          [FT_JOIN] = (int64_t)e->n_entities};
    if (op->code < 0 || op->code >= FT_NUM_CODES)
        return "an operation has no such code";
    if (op->a < 0 || op->a >= limits[op->code])
        return "an operation refers to what does not exist";
    const bool of_request = op->code == FT_SEND || op->code == FT_RECEIVE || op->code == FT_COLLECTIVE;
    if (op->b < 0 || (op->b > FT_REGISTERS && !of_request))
        return "an operation names no such register";
    if (op->label < 0 || (size_t)op->label >= e->n_labels)
        return "an operation has no such label";
    if (!isfinite(op->x) || op->x < 0)
        return "a time is negative or not finite";
    if ((op->code == FT_POST || op->code == FT_WAIT) && (op->n < 0 || op->n > INT32_MAX))
        return "units posted or waited for are negative or too many";
    if (op->code == FT_AWAIT && op->n >= 0 && (size_t)op->a + (size_t)op->n > e->n_slot_lists)
        return "requests are awaited that are not listed";
    return NULL;
}

/* Loops must be closed in their program; a jump may leave none. */
static const char *wrong_loops(const struct ft_engine *e)
{
    int64_t depth = 0;
    for (size_t i = 0; i < e->n_operations; i++) {
        const struct ft_operation *op = &e->operations[i];
        depth += op->code == FT_LOOP ? 1 : op->code == FT_NEXT ? -1 : 0;
        if (depth < 0 || (op->code == FT_END && depth != 0))
            return "a loop ends that did not begin, or does not end";
        if (op->code == FT_LOOP && ((size_t)op->a <= i || e->operations[op->a - 1].code != FT_NEXT ||
                                    e->operations[op->a - 1].a != (int32_t)i + 1))
            return "a loop and its end do not belong together";
    }
    const bool ends = e->n_operations && e->operations[e->n_operations - 1].code == FT_END;
    return depth || !ends ? "the last program does not end" : NULL;
}

static const char *wrong_class(const struct ft_engine *e, const struct ft_class *one, size_t n_uses,
                               size_t n_conditions)
{
    if (one->cores < -1 || one->cores >= (int32_t)e->n_core_groups || one->cache < -1 ||
        one->cache >= (int32_t)e->n_caches)
        return "a class has no such cores or cache";
    if (one->conditions < 1 || one->first_condition < 0 ||
        (size_t)one->first_condition + (size_t)one->conditions > n_conditions)
        return "a class has no conditions";
    if (one->uses < 0 || one->first_use < 0 || (size_t)one->first_use + (size_t)one->uses > n_uses)
        return "a class uses what is not listed";
    for (int32_t u = 0; u < one->uses; u++)
        for (int32_t other = 0; other < u; other++)
            if (e->uses[one->first_use + u] == e->uses[one->first_use + other])
                return "a class uses a resource twice";
    for (int32_t i = 0; i < one->conditions; i++) {
        const double *row = &e->conditions[2 * (one->first_condition + i)];
        if (!(row[0] > 0) || !isfinite(row[0]) || !(row[1] >= 0) || !isfinite(row[1]))
            return "a speed is not positive, or a demand is negative";
    }
    return NULL;
}

/* Links of the network's topology, at most INT32_MAX + 1. */
static int64_t links_of(const struct ft_network *net)
{
    const int64_t nodes = net->nodes, most = INT64_C(1) << 31;
    if (net->topology == FT_CROSSBAR)
        return 2 * nodes + (net->has_backbone != 0);
    if (net->topology == FT_TORUS)
        return 2 * nodes * net->dimensions;
    int64_t links = 0, below = 1, switches = 1;
    for (int32_t l = 0; l < net->dimensions; l++) {
        const double added = (double)(2 * (nodes / below)) * (double)switches * net->up[l] * net->parallel[l];
        if (links + added >= (double)most || (double)switches * net->up[l] >= (double)most)
            return most;
        links += (int64_t)added;
        below *= net->dimension[l];
        switches *= net->up[l];
    }
    return links;
}

static const char *wrong_network(const struct ft_engine *e)
{
    const struct ft_network *net = &e->network;
    const double positive[] = {net->link_bytes_per_s, net->own_bytes_per_s},
                 times[] = {net->link_latency_s, net->backbone_latency_s, net->own_latency_s,
                            net->eager_below,    net->detached_below,     net->envelope_bytes,
                            net->window_bytes,   net->weight_bytes,       net->back_share};
    if (net->topology < FT_CROSSBAR || net->topology > FT_FAT_TREE)
        return "there is no such topology";
    for (size_t i = 0; i < sizeof positive / sizeof *positive; i++)
        if (!(positive[i] > 0) || !isfinite(positive[i]))
            return "a bandwidth of the network is not positive";
    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        if (!(times[i] >= 0) || !isfinite(times[i]))
            return "a figure of the network is negative or not finite";
    if (net->nodes < 1 || net->first_link < 0 || net->dimensions < 0 || net->dimensions > FT_MAX_DIMENSIONS ||
        net->n_regimes < 0 || net->n_own_regimes < -1)
        return "a number of the network is out of range";
    for (int32_t d = 0; d < net->dimensions; d++)
        if (net->dimension[d] < 1 || net->up[d] < 1 || net->parallel[d] < 1)
            return "a dimension of the network is not positive";
    int64_t leaves = 1;
    for (int32_t d = 0; d < net->dimensions; d++)
        leaves = leaves > INT32_MAX ? leaves : leaves * net->dimension[d];
    if (net->topology != FT_CROSSBAR && leaves != net->nodes)
        return "the dimensions of the network do not make its nodes";
    if (net->topology != FT_CROSSBAR && net->dimensions < 1)
        return "the network has no dimensions";
    const size_t n_regimes = (size_t)net->n_regimes + (size_t)(net->n_own_regimes < 0 ? 0 : net->n_own_regimes);
    if (n_regimes > e->n_regimes)
        return "the network has no such regimes";
    for (size_t i = 0; i < n_regimes; i++)
        if (!(e->regimes[i].above_bytes >= 0) || !(e->regimes[i].latency_factor >= 0) ||
            !isfinite(e->regimes[i].latency_factor) || !(e->regimes[i].bandwidth_factor > 0) ||
            !isfinite(e->regimes[i].bandwidth_factor) || !isfinite(e->regimes[i].latency_s))
            return "a factor of the network is out of range";
    if (net->has_backbone && !(net->backbone_bytes_per_s > 0))
        return "a bandwidth of the network is not positive";
    return links_of(net) != net->links || (size_t)net->first_link + (size_t)net->links > e->n_resources
               ? "the network has links that are no resources"
               : NULL;
}

/* What messages refer to, and entities' places in the network. */
static const char *wrong_messages(const struct ft_engine *e, const struct ft_entity_start *starts)
{
    for (size_t i = 0; i < e->n_messages; i++)
        if (e->messages[i].peer < FT_ANY || e->messages[i].peer >= (int32_t)e->n_entities ||
            e->messages[i].communicator < 0)
            return "a message has no such partner or communicator";
    for (size_t i = 0; i < e->n_operations; i++)
        if (e->operations[i].code == FT_SEND && e->messages[e->operations[i].a].peer < 0)
            return "a message is sent to nobody";
    for (size_t i = 0; i < e->n_operations; i++) {
        const struct ft_operation *op = &e->operations[i];
        if (op->code != FT_COLLECTIVE || op->b == 0)
            continue;
        if (op->n < 1 || (size_t)op->n > e->n_operations - i)
            return "a request is for no collective";
        for (int64_t k = 1; k < op->n; k++)
            if (op[k].code != FT_COLLECTIVE ||
                e->collectives[op[k].a].communicator != e->collectives[op->a].communicator)
                return "a request is for collectives of several communicators";
    }
    for (size_t i = 0; i < e->n_communicators; i++)
        if (e->communicators[i].first_member < 0 || e->communicators[i].members < 1 ||
            (size_t)e->communicators[i].first_member + (size_t)e->communicators[i].members > e->n_members)
            return "a communicator has no members";
    for (size_t i = 0; i < e->n_members; i++)
        if (e->members[i] < 0 || e->members[i] >= (int32_t)e->n_entities)
            return "a communicator has no such member";
    for (size_t i = 0; i < e->n_slot_lists; i++)
        if (e->slot_lists[i] < 0)
            return "a request is awaited that is none";
    for (size_t i = 0; i < e->n_counts; i++)
        if (!(e->counts[i] >= 0) || !isfinite(e->counts[i]))
            return "a size is negative or not finite";
    for (size_t i = 0; i < e->n_collectives; i++) {
        const struct ft_collective *its = &e->collectives[i];
        if (its->algorithm < 0 || its->algorithm >= FT_NUM_ALGORITHMS || its->communicator < 0 ||
            (size_t)its->communicator >= e->n_communicators)
            return "a collective has no such algorithm or communicator";
        const int64_t ranks = e->communicators[its->communicator].members;
        if (its->root < 0 || its->root >= ranks || (its->algorithm == FT_EXCLUSIVE_OR && (ranks & (ranks - 1))))
            return "a collective has no such root, or too odd a number of ranks";
        if (its->first_count >= 0 &&
            its->first_count + (its->counts == FT_COUNTS_OF_PAIRS ? ranks * ranks : ranks) > (int64_t)e->n_counts)
            return "a collective has no such counts";
    }
    for (size_t i = 0; i < e->n_entities; i++)
        if (starts[i].node < 0 || starts[i].node >= e->network.nodes || starts[i].first_slot < 0 ||
            starts[i].slots < 0 || starts[i].first_slot > INT32_MAX / 2 || starts[i].slots > INT32_MAX / 2)
            return "an entity has no such node or requests";
    return wrong_network(e);
}

static const char *wrong(const struct ft_engine *e, const struct ft_entity_start *starts, size_t n_uses,
                         size_t n_conditions, size_t n_points)
{
    const char *found = NULL;
    for (size_t i = 0; i < n_uses; i++)
        if (e->uses[i] < 0 || e->uses[i] >= (int32_t)e->n_resources)
            return "a class uses no such resource";
    for (size_t i = 0; i < e->n_operations && !found; i++)
        found = wrong_operation(e, &e->operations[i]);
    for (size_t i = 0; i < e->n_classes && !found; i++)
        found = wrong_class(e, &e->classes[i], n_uses, n_conditions);
    for (size_t i = 0; i < e->n_entities && !found; i++)
        if (starts[i].first_operation < 0 || (size_t)starts[i].first_operation >= e->n_operations ||
            starts[i].job < 0 || (size_t)starts[i].job >= e->n_jobs)
            found = "an entity has no such program or job";
    for (size_t i = 0; i < e->n_resources && !found; i++)
        if (e->resources[i].first_point < 0 || e->resources[i].points < 1 ||
            (size_t)e->resources[i].first_point + (size_t)e->resources[i].points > n_points)
            found = "a resource has no capacity";
    for (size_t i = 0; i < n_points && !found; i++)
        if (!(e->points[i] > 0))
            found = "a capacity is not positive";
    for (size_t i = 0; i < e->n_core_groups && !found; i++)
        if (!(e->cores[i] > 0))
            found = "a group of cores has none";
    const double wakings[] = {e->transfer_s, e->wake_latency_s, e->wake_call_s};
    for (size_t i = 0; i < sizeof wakings / sizeof *wakings && !found; i++)
        if (!isfinite(wakings[i]) || wakings[i] < 0)
            found = "a time of waking is negative or not finite";
    for (size_t i = 0; i < e->n_objects && !found; i++)
        if (e->objects[i].units < 1 || e->objects[i].count < 0)
            found = "an object has no units";
    for (size_t i = 0; i < e->n_operations && !found; i++)
        if (e->operations[i].code >= FT_SEND && e->network.nodes < 1)
            found = "there is no network for messages";
    if (e->network.nodes > 0 && !found)
        found = wrong_messages(e, starts);
    return found ? found : e->n_entities == 0 || e->n_labels == 0 ? "there are no entities or labels" : wrong_loops(e);
}

static int engine_init(PyObject *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"operations",    "starts",         "classes",       "uses",        "resources",
                            "objects",       "cores",          "conditions",    "points",      "messages",
                            "communicators", "members",        "collectives",   "counts",      "slot_lists",
                            "regimes",       "network",        "labels",        "path_labels", "path_bins",
                            "caches",        "jobs",           "most_segments", "most_events", "folding",
                            "transfer_s",    "wake_latency_s", "wake_call_s",   NULL};
    static const size_t sizes[N_BUFFERS] = {
        [OPERATIONS] = sizeof(struct ft_operation),
        [STARTS] = sizeof(struct ft_entity_start),
        [CLASSES] = sizeof(struct ft_class),
        [USES] = sizeof(int32_t),
        [RESOURCES] = sizeof(struct ft_resource),
        [OBJECTS] = sizeof(struct ft_object),
        [CORES] = sizeof(double),
        [CONDITIONS] = 2 * sizeof(double),
        [POINTS] = sizeof(double),
        [MESSAGES] = sizeof(struct ft_message),
        [COMMUNICATORS] = sizeof(struct ft_communicator),
        [MEMBERS] = sizeof(int32_t),
        [COLLECTIVES] = sizeof(struct ft_collective),
        [COUNTS] = sizeof(double),
        [SLOT_LISTS] = sizeof(int32_t),
        [REGIMES] = sizeof(struct ft_regime),
        [NETWORK] = sizeof(struct ft_network),
    };
    struct engine_object *object = (struct engine_object *)self;
    struct ft_engine *e = &object->engine;
    Py_buffer *b = object->given;
    Py_ssize_t labels, path_labels, path_bins, caches, jobs, most_segments;
    long long most_events;
    int folding;
    double transfer_s, wake_latency_s, wake_call_s;
    if (b[0].obj) {
        PyErr_SetString(PyExc_ValueError, "made already");
        return -1;
    }
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "y*y*y*y*y*y*y*y*y*y*y*y*y*y*y*y*y*nnnnnnLpddd", names, &b[0],
                                     &b[1], &b[2], &b[3], &b[4], &b[5], &b[6], &b[7], &b[8], &b[9], &b[10], &b[11],
                                     &b[12], &b[13], &b[14], &b[15], &b[16], &labels, &path_labels, &path_bins, &caches,
                                     &jobs, &most_segments, &most_events, &folding, &transfer_s, &wake_latency_s,
                                     &wake_call_s)) {
        memset(b, 0, sizeof object->given); /* given back by the parser */
        return -1;
    }
    size_t n[N_BUFFERS];
    const char *found = NULL;
    for (int i = 0; i < N_BUFFERS; i++) {
        n[i] = (size_t)b[i].len / sizes[i];
        if ((size_t)b[i].len % sizes[i] || n[i] > INT32_MAX / 4)
            found = "an array is no whole number of records, or too long";
    }
    if (labels < 1 || path_labels < 1 || path_labels > labels || path_bins < 0 || path_bins > 1 << 16 || caches < 0 ||
        jobs < 1 || most_segments < 0)
        found = "a number is out of range";
    *e = (struct ft_engine){.operations = b[OPERATIONS].buf,
                            .classes = b[CLASSES].buf,
                            .uses = b[USES].buf,
                            .resources = b[RESOURCES].buf,
                            .objects = b[OBJECTS].buf,
                            .cores = b[CORES].buf,
                            .conditions = b[CONDITIONS].buf,
                            .points = b[POINTS].buf,
                            .messages = b[MESSAGES].buf,
                            .communicators = b[COMMUNICATORS].buf,
                            .members = b[MEMBERS].buf,
                            .collectives = b[COLLECTIVES].buf,
                            .counts = b[COUNTS].buf,
                            .slot_lists = b[SLOT_LISTS].buf,
                            .regimes = b[REGIMES].buf,
                            .n_regimes = n[REGIMES],
                            .n_messages = n[MESSAGES],
                            .n_communicators = n[COMMUNICATORS],
                            .n_members = n[MEMBERS],
                            .n_collectives = n[COLLECTIVES],
                            .n_counts = n[COUNTS],
                            .n_slot_lists = n[SLOT_LISTS],
                            .n_operations = n[OPERATIONS],
                            .n_entities = n[STARTS],
                            .n_classes = n[CLASSES],
                            .n_resources = n[RESOURCES],
                            .n_objects = n[OBJECTS],
                            .n_core_groups = n[CORES],
                            .n_labels = (size_t)labels,
                            .n_path_labels = (size_t)path_labels,
                            .n_path_bins = (size_t)path_bins,
                            .n_caches = (size_t)caches,
                            .n_jobs = (size_t)jobs,
                            .most_segments = (size_t)most_segments,
                            .most_events = most_events,
                            .folding = folding,
                            .transfer_s = transfer_s,
                            .wake_latency_s = wake_latency_s,
                            .wake_call_s = wake_call_s,
                            .called = -1,
                            .stale = true};
    if (n[NETWORK] == 1)
        memcpy(&e->network, b[NETWORK].buf, sizeof e->network);
    else if (n[NETWORK])
        found = "there is more than one network";
    if (!found)
        found = wrong(e, b[STARTS].buf, n[USES], n[CONDITIONS], n[POINTS]);
    if (found) {
        PyErr_SetString(PyExc_ValueError, found);
        return -1;
    }
    if (!ft_engine_start(e, b[STARTS].buf)) {
        PyErr_NoMemory();
        return -1;
    }
    return 0;
}

static void engine_dealloc(PyObject *self)
{
    struct engine_object *object = (struct engine_object *)self;
    ft_engine_free(&object->engine);
    for (int i = 0; i < N_BUFFERS; i++)
        if (object->given[i].obj)
            PyBuffer_Release(&object->given[i]);
    Py_TYPE(self)->tp_free(self);
}

static struct ft_engine *started(PyObject *self)
{
    struct ft_engine *e = &((struct engine_object *)self)->engine;
    if (e->sums)
        return e;
    PyErr_SetString(PyExc_ValueError, "not made");
    return NULL;
}

static PyObject *advance(PyObject *self, PyObject *argument)
{
    struct ft_engine *e = started(self);
    const double until = PyFloat_AsDouble(argument);
    if (!e || PyErr_Occurred())
        return NULL;
    if (isnan(until) || until < e->now) {
        PyErr_SetString(PyExc_ValueError, "time does not go back");
        return NULL;
    }
    enum ft_status status;
    Py_BEGIN_ALLOW_THREADS
    status = ft_engine_advance(e, until);
    Py_END_ALLOW_THREADS
    return status == FT_NO_MEMORY ? PyErr_NoMemory() : PyLong_FromLong(status);
}

static PyObject *resume(PyObject *self, PyObject *args)
{
    struct ft_engine *e = started(self);
    int entity, pc;
    double registers[FT_REGISTERS];
    if (!e ||
        !PyArg_ParseTuple(args, "ii(dddd)", &entity, &pc, &registers[0], &registers[1], &registers[2], &registers[3]))
        return NULL;
    bool good = entity >= 0 && (size_t)entity < e->n_entities;
    for (int i = 0; i < FT_REGISTERS; i++)
        good &= isfinite(registers[i]) && registers[i] >= 0;
    if (good && ft_engine_resume(e, entity, pc, registers))
        Py_RETURN_NONE;
    PyErr_SetString(PyExc_ValueError, "no entity waits for that, or a time is not one");
    return NULL;
}

static PyObject *next_event(PyObject *self, PyObject *Py_UNUSED(argument))
{
    struct ft_engine *e = started(self);
    return e ? PyFloat_FromDouble(ft_engine_next(e)) : NULL;
}

static PyObject *doubles(const double *from, size_t n)
{
    return PyBytes_FromStringAndSize((const char *)from, (Py_ssize_t)(n * sizeof *from));
}

static PyObject *sums(PyObject *self, PyObject *Py_UNUSED(argument))
{
    struct ft_engine *e = started(self);
    if (!e)
        return NULL;
    ft_settle_all(e);
    return Py_BuildValue("(NNNNNNNN)", doubles(e->of_entities, e->n_entities * FT_NUM_KINDS),
                         doubles(e->of_late, e->n_entities * FT_PER_LATE),
                         doubles(e->of_labels, e->n_labels * FT_PER_LABEL),
                         doubles(e->of_resources, e->n_resources * FT_PER_RESOURCE),
                         doubles(e->of_cores, e->n_core_groups), doubles(e->of_objects, e->n_objects * FT_PER_OBJECT),
                         doubles(e->of_paths, e->n_entities * e->n_path), doubles(e->of_work, FT_WORK));
}

/* (from, to of each pair of entities between which there were messages; messages and bytes of what is left out, and of
 * each pair), as bytes. */
static PyObject *pairs(PyObject *self, PyObject *Py_UNUSED(argument))
{
    struct ft_engine *e = started(self);
    if (!e)
        return NULL;
    PyObject *ends = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(e->n_pairs * 2 * sizeof(int32_t)));
    if (!ends)
        return NULL;
    int32_t *to = (int32_t *)(void *)PyBytes_AS_STRING(ends);
    for (uint32_t i = 0; i < e->n_pairs; i++) {
        *to++ = e->pair_list[i].from;
        *to++ = e->pair_list[i].to;
    }
    return Py_BuildValue("(NN)", ends, doubles(e->of_pairs, e->pair_room ? 2 * ((size_t)e->n_pairs + 1) : 0));
}

static PyObject *segments(PyObject *self, PyObject *Py_UNUSED(argument))
{
    struct ft_engine *e = started(self);
    if (!e)
        return NULL;
    return PyBytes_FromStringAndSize((const char *)e->segments, (Py_ssize_t)(e->n_segments * sizeof *e->segments));
}

/* (place, kind, object or entity waited for, owner of the object, its count, end, operation that it is at) of an entity. */
static PyObject *entity_state(PyObject *self, PyObject *argument)
{
    struct ft_engine *e = started(self);
    const Py_ssize_t number = PyNumber_AsSsize_t(argument, PyExc_IndexError);
    if (!e || (number == -1 && PyErr_Occurred()))
        return NULL;
    if (number < 0 || (size_t)number >= e->n_entities) {
        PyErr_SetString(PyExc_IndexError, "no such entity");
        return NULL;
    }
    const struct ft_entity *one = &e->entities[number];
    const bool at_object = one->place == FT_QUEUED && one->object >= 0 && one->kind != FT_AT_JOIN;
    const struct ft_object_state none = {0, -1, -1, -1, 0, false},
                                 *object = at_object ? &e->objects_now[one->object] : &none;
    return Py_BuildValue("(iiiiidi)", one->place, one->kind, one->label, object->owner, object->count, one->end,
                         one->place == FT_QUEUED && one->step < 0 ? one->pc - 1 : one->pc);
}

/* Whether its owner waits for a request, or for the collective that does. */
static bool is_waited_for(const struct ft_engine *e, const struct ft_request *one)
{
    if (!one->is_collective && one->task >= 0)
        one = &e->requests[e->tasks[one->task].request];
    return one->is_awaited || one->is_candidate;
}

/* [(is a send, partner, tag, communicator, bytes, label)] of the requests that an entity waits for, those of collectives
 * that it waits for included. */
static PyObject *pending(PyObject *self, PyObject *argument)
{
    const struct ft_engine *e = started(self);
    const Py_ssize_t number = PyNumber_AsSsize_t(argument, PyExc_IndexError);
    if (!e || (number == -1 && PyErr_Occurred()))
        return NULL;
    PyObject *all = PyList_New(0);
    for (uint32_t i = 0; all && i < e->n_requests; i++) {
        const struct ft_request *one = &e->requests[i];
        if (!one->is_used || one->owner != number || one->is_done || one->is_collective || !is_waited_for(e, one))
            continue;
        const int32_t label = one->task < 0 ? e->entities[number].label : e->operations[e->tasks[one->task].pc].label;
        PyObject *item = Py_BuildValue("(Niiidi)", PyBool_FromLong(one->is_send), one->peer, one->tag,
                                       one->communicator, one->bytes, label);
        if (!item || PyList_Append(all, item) < 0)
            Py_CLEAR(all);
        Py_XDECREF(item);
    }
    return all;
}

/* (sender, its operation, bytes, receiver, its operation, bytes that it has room for) of a message that is too long. */
static PyObject *truncation(PyObject *self, PyObject *Py_UNUSED(argument))
{
    const struct ft_engine *e = started(self);
    if (!e)
        return NULL;
    if (e->cut_send < 0) {
        PyErr_SetString(PyExc_ValueError, "no message is too long");
        return NULL;
    }
    const struct ft_request *send = &e->requests[e->cut_send], *receive = &e->requests[e->cut_receive];
    return Py_BuildValue("(iidiid)", send->owner, send->pc - 1, send->bytes, receive->owner, receive->pc - 1,
                         receive->bytes);
}

/* (messages that nobody received, requests that nobody waited for) so far. */
static PyObject *leftovers(PyObject *self, PyObject *Py_UNUSED(argument))
{
    const struct ft_engine *e = started(self);
    if (!e)
        return NULL;
    Py_ssize_t messages = 0, requests = 0;
    for (size_t i = 0; i < e->n_entities; i++) {
        const struct ft_entity *one = &e->entities[i];
        for (int32_t r = one->arrived; r >= 0; r = e->requests[r].next)
            messages++;
        for (int32_t k = 0; k < one->slots; k++)
            requests += e->slots[one->first_slot + k] != -1;
    }
    return Py_BuildValue("(nn)", messages, requests);
}

/* (entity, operation, entity, operation) of members of a communicator that take part in different collectives. */
static PyObject *disagreement(PyObject *self, PyObject *Py_UNUSED(argument))
{
    const struct ft_engine *e = started(self);
    if (!e)
        return NULL;
    if (e->other < 0) {
        PyErr_SetString(PyExc_ValueError, "nobody disagrees");
        return NULL;
    }
    return Py_BuildValue("(iiii)", e->called, e->entities[e->called].pc, e->other, e->other_operation);
}

static PyObject *max_min(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer counts, asked, penalties, ties, weights, capacity;
    if (!PyArg_ParseTuple(args, "y*y*y*y*y*y*", &counts, &asked, &penalties, &ties, &weights, &capacity))
        return NULL;
    const size_t n = (size_t)counts.len / sizeof(int32_t), resources = (size_t)capacity.len / sizeof(double),
                 n_ties = (size_t)weights.len / sizeof(double);
    const int32_t (*tie)[2] = ties.buf; /* consumer, resource: consumers in order */
    struct ft_consumer *consumers = calloc(n + 1, sizeof *consumers);
    struct ft_tie *own = calloc(n_ties + 1, sizeof *own);
    PyObject *given = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(n * sizeof(double)));
    bool good = (size_t)asked.len == n * sizeof(double) && (size_t)penalties.len == n * sizeof(double) &&
                (size_t)ties.len == n_ties * sizeof *tie;
    if (consumers && own && given) {
        for (size_t i = 0; good && i < n; i++) {
            consumers[i].n = ((const int32_t *)counts.buf)[i];
            consumers[i].asked = ((const double *)asked.buf)[i];
            consumers[i].penalty = ((const double *)penalties.buf)[i];
        }
        for (size_t t = 0; good && t < n_ties; t++) {
            good = tie[t][0] >= 0 && (size_t)tie[t][0] < n && tie[t][1] >= 0 && (size_t)tie[t][1] < resources &&
                   (t == 0 || tie[t][0] >= tie[t - 1][0]);
            own[t] = (struct ft_tie){tie[t][1], -1, ((const double *)weights.buf)[t]};
            if (good && consumers[tie[t][0]].n_ties++ == 0)
                consumers[tie[t][0]].ties = &own[t];
        }
        if (!good)
            PyErr_SetString(PyExc_ValueError, "the arrays do not fit together");
        else if (!ft_max_min(consumers, n, capacity.buf, resources, (double *)(void *)PyBytes_AS_STRING(given)))
            PyErr_NoMemory();
    } else {
        PyErr_NoMemory();
    }
    if (PyErr_Occurred())
        Py_CLEAR(given);
    free(consumers);
    free(own);
    Py_buffer *all[] = {&counts, &asked, &penalties, &ties, &weights, &capacity};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        PyBuffer_Release(all[i]);
    return given;
}

static PyMethodDef methods[] = {
    {"advance", advance, METH_O, "advance(until): go on until then, a call, or the end; returns a status"},
    {"resume", resume, METH_VARARGS, "resume(entity, operation, registers): let an entity go on that called"},
    {"next", next_event, METH_NOARGS, "next(): when something happens next"},
    {"sums", sums, METH_NOARGS,
     "sums(): what was summed up, as bytes: entities, lateness, labels, resources, cores, objects, paths, work"},
    {"pairs", pairs, METH_NOARGS,
     "pairs(): (from, to of each pair with messages; messages and bytes of what is left out, then of each), as bytes"},
    {"segments", segments, METH_NOARGS, "segments(): the timeline, as bytes"},
    {"entity", entity_state, METH_O, "entity(number): (place, kind, waits for, owner, count, end, operation)"},
    {"truncation", truncation, METH_NOARGS,
     "truncation(): (sender, operation, bytes, receiver, operation, bytes of room) of a message that is too long"},
    {"leftovers", leftovers, METH_NOARGS,
     "leftovers(): (messages that nobody received, requests that nobody waited for)"},
    {"disagreement", disagreement, METH_NOARGS,
     "disagreement(): (entity, operation, entity, operation) of two that take part in different collectives"},
    {"pending", pending, METH_O,
     "pending(entity): [(is a send, partner, tag, communicator, bytes, label)] of the requests that it waits for"},
    {NULL, NULL, 0, NULL},
};

#define OF(type, name, member) {name, type, offsetof(struct engine_object, engine) + offsetof(struct ft_engine, member), READONLY, NULL}
static PyMemberDef members[] = {
    OF(T_DOUBLE, "now", now),
    OF(T_INT, "called", called),
    OF(T_LONGLONG, "call", call),
    OF(T_LONGLONG, "segments_left_out", segments_left_out),
    OF(T_LONGLONG, "events", events),
    OF(T_LONGLONG, "periods_folded", periods_folded),
    OF(T_LONGLONG, "periods_estimated", periods_estimated),
    OF(T_DOUBLE, "estimated_s", estimated_s),
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, "Entities that go through programs and share resources."},
    {Py_tp_init, engine_init},
    {Py_tp_new, PyType_GenericNew},
    {Py_tp_dealloc, engine_dealloc},
    {Py_tp_methods, methods},
    {Py_tp_members, members},
    {0, NULL},
};
static PyType_Spec spec = {"foretrace.replay.engine._engine.Engine", sizeof(struct engine_object), 0,
                           Py_TPFLAGS_DEFAULT, slots};

static PyMethodDef functions[] = {
    {"max_min", max_min, METH_VARARGS, "max_min(counts, asked, penalties, ties, weights, capacity): rates, as bytes"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_engine", "The event loop of the replay in C.", -1, functions, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__engine(void);
PyMODINIT_FUNC PyInit__engine(void)
{
    static const struct {
        const char *name;
        long value;
    } constants[] = {
#define C(name) {#name, FT_##name}
        C(END),         C(RUN),          C(LOOP),        C(NEXT),
        C(BARRIER),     C(LOCK),         C(UNLOCK),      C(POST),
        C(WAIT),        C(BROADCAST),    C(SPAWN),       C(JOIN),
        C(SLEEP),       C(USE),          C(CALL),        C(JUMP),
        C(SEND),        C(RECEIVE),      C(AWAIT),       C(COLLECTIVE),
        C(RAN),         C(DEVICE),       C(SLEPT),       C(AT_BARRIER),
        C(AT_LOCK),     C(AT_WAIT),      C(AT_JOIN),     C(AT_QUEUE),
        C(AT_CALL),     C(AT_PARTNER),   C(AT_TRANSFER), C(FOLDED),
        C(NUM_KINDS),   C(READY),        C(RUNNING),     C(TIMED),
        C(QUEUED),      C(CALLING),      C(UNBORN),      C(DONE),
        C(FINISHED),    C(PAUSED),       C(CALLED),      C(DEADLOCK),
        C(NOT_OWNED),   C(TOO_DEEP),     C(NO_MEMBER),   C(DISAGREE),
        C(TRUNCATED),   C(REQUEST_OPEN), C(NO_REQUEST),  C(TOO_MANY),
        C(MAX_NESTING), C(REGISTERS),    C(COUNTS_FROM), C(COUNTS_OF_PAIRS),
        C(COUNTS_TO),   C(CROSSBAR),     C(TORUS),       C(FAT_TREE)};
    PyObject *made = PyModule_Create(&module);
    PyObject *type = made ? PyType_FromSpec(&spec) : NULL;
    bool good = type && PyModule_AddObjectRef(made, "Engine", type) == 0;
    for (size_t i = 0; good && i < sizeof constants / sizeof *constants; i++)
        good = PyModule_AddIntConstant(made, constants[i].name, constants[i].value) == 0;
    const long sizes[] = {sizeof(struct ft_operation), sizeof(struct ft_entity_start), sizeof(struct ft_class),
                          sizeof(struct ft_resource),  sizeof(struct ft_object),       sizeof(struct ft_segment)};
    static const char *const names[] = {"OPERATION_BYTES", "START_BYTES",  "CLASS_BYTES",
                                        "RESOURCE_BYTES",  "OBJECT_BYTES", "SEGMENT_BYTES"};
    for (size_t i = 0; good && i < sizeof sizes / sizeof *sizes; i++)
        good = PyModule_AddIntConstant(made, names[i], sizes[i]) == 0;
    Py_XDECREF(type);
    if (!good)
        Py_CLEAR(made);
    return made;
}
