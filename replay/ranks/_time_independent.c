/* Reads time-independent traces (SimGrid, docs: "SMPI trace replay"): one action a line, "rank action arguments". Sizes
 * become bytes; wait and waitall refer to the numbers of requests, the lowest that are free. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "foretrace/base/tables.h"
#include "tracer/mpi/kinds.h"

enum { NOTHING = FT_NUM_CALL_KINDS, INIT, END, SPLIT, COPY };

/* peer: partner, or root. request: 0 for a call that waits, else 1, 2, ... amount: flops, or seconds. first_count: of
 * the counts of a collective by rank; -1: none. */
struct action {
    int32_t kind, peer, tag, request, line, first_count, communicator, second_tag;
    double bytes, amount;
};

/* Arguments: t partner, g tag, s size, S a size that is not needed, f flops or seconds, c sizes of all ranks, C sizes
 * of all ranks that are not needed, r root, y a datatype, x anything. Behind '|' they may be missing. */
static const struct {
    const char *name;
    int kind;
    const char *arguments;
} actions[] = {
    {"compute", FT_CALL_COMPUTE, "f"},
    {"sleep", FT_CALL_SLEEP, "f"},
    {"send", FT_CALL_SEND, "tgs|y"},
    {"isend", FT_CALL_ISEND, "tgs|y"},
    {"recv", FT_CALL_RECEIVE, "tg|sy"},
    {"irecv", FT_CALL_IRECEIVE, "tg|sy"},
    {"wait", FT_CALL_WAIT, "ttg"},
    {"test", FT_CALL_TEST, "ttg"},
    {"waitall", FT_CALL_WAIT_ALL, "|x"},
    {"sendrecv", FT_CALL_EXCHANGE, "stSt|yx"},
    {"barrier", FT_CALL_BARRIER, "|xx"},
    {"bcast", FT_CALL_BCAST, "s|ry"},
    {"reduce", FT_CALL_REDUCE, "sf|ry"},
    {"allreduce", FT_CALL_ALLREDUCE, "sf|y"},
    {"alltoall", FT_CALL_ALLTOALL, "sS|yx"},
    {"alltoallv", FT_CALL_ALLTOALLV, "ScSC|yx"},
    {"gather", FT_CALL_GATHER, "sS|ryx"},
    {"scatter", FT_CALL_SCATTER, "sS|ryx"},
    {"gatherv", FT_CALL_GATHERV, "sc|ryx"},
    {"scatterv", FT_CALL_SCATTERV, "cs|ryx"},
    {"allgather", FT_CALL_ALLGATHER, "sS|yx"},
    {"allgatherv", FT_CALL_ALLGATHERV, "sc|yx"},
    {"reducescatter", FT_CALL_REDUCE_SCATTER, "cf|y"},
    {"scan", FT_CALL_SCAN, "sf|y"},
    {"exscan", FT_CALL_EXSCAN, "sf|y"},
    {"init", INIT, "|x"},
    {"finalize", END, "|x"},
    {"comm_size", NOTHING, "|x"},
    {"comm_split", SPLIT, "|xxxx"},
    {"comm_dup", COPY, "|xx"},
    {"location", NOTHING, "|xx"},
};

/* Bytes of datatypes by number. */
static const int8_t sizes[] = {8, 4,  1, 2,  8,  4, 1,  8,  1, 1,  2,  4,  8,  8,  16, 4, 1,  1,  2, 4,
                               8, 1,  2, 4,  8,  8, 16, 32, 8, 8,  8,  16, 16, 8,  8,  8, 16, 16, 4, 4,
                               8, 16, 8, 16, 16, 4, 2,  4,  8, 16, 32, 1,  8,  16, 32, 0, 0,  1,  8, 8};
enum { BYTE = 6, DOUBLE = 0 };
static const double MOST = 1e18; /* bytes, flops or seconds */

struct open { /* a request of a rank */
    int32_t from, to, tag, request;
};

struct rank {
    struct action *actions;
    struct open *opened;
    int32_t *unused; /* numbers of requests up to `highest` that none has: a heap */
    uint32_t n, room, n_opened, opened_room, n_unused, unused_room;
    int32_t highest, slots, datatype;
    bool has_lines, began, ended;
};

struct reader {
    struct rank *ranks;
    double *counts;
    uint32_t n_counts, counts_room;
    int32_t n_ranks;
    int64_t splits, copies; /* of communicators, which are not followed */
    int64_t n_actions, most_actions;
    char problem[160];
    Py_ssize_t line;
};

static bool fails(struct reader *r, const char *what, const char *word, size_t length)
{
    const size_t said = (size_t)snprintf(r->problem, sizeof r->problem, "%s", what);
    size_t shown = length < 40 ? length : 40;
    shown = shown < sizeof r->problem - 1 - said ? shown : sizeof r->problem - 1 - said;
    for (size_t i = 0; i < shown; i++)
        r->problem[said + i] = word[i] >= ' ' && word[i] <= '~' ? word[i] : '?';
    r->problem[said + shown] = 0;
    return false;
}

/* The lowest number that no request has: the root of a heap of those given back, or the next. */
static int32_t take_number(struct rank *own)
{
    if (own->n_unused == 0)
        return ++own->highest;
    const int32_t lowest = own->unused[0], last = own->unused[--own->n_unused];
    uint32_t at = 0;
    for (uint32_t child; (child = 2 * at + 1) < own->n_unused; at = child) {
        child += child + 1 < own->n_unused && own->unused[child + 1] < own->unused[child];
        if (last <= own->unused[child])
            break;
        own->unused[at] = own->unused[child];
    }
    own->unused[at] = last;
    return lowest;
}

static bool give_back_number(struct rank *own, int32_t number)
{
    if (!ft_reserve(&own->unused, &own->unused_room, own->n_unused, sizeof *own->unused))
        return false;
    uint32_t at = own->n_unused++;
    for (; at > 0 && own->unused[(at - 1) / 2] > number; at = (at - 1) / 2)
        own->unused[at] = own->unused[(at - 1) / 2];
    own->unused[at] = number;
    return true;
}

static bool open_request(struct rank *own, struct action *a, int32_t from, int32_t to)
{
    if (!ft_reserve(&own->opened, &own->opened_room, own->n_opened, sizeof *own->opened))
        return false;
    a->request = take_number(own);
    own->slots = own->slots > a->request ? own->slots : a->request;
    own->opened[own->n_opened++] = (struct open){from, to, a->tag, a->request};
    return true;
}

/* The request that a wait is for; 0 where the trace has none, as a test found it done. */
static int32_t close_request(struct rank *own, int32_t from, int32_t to, int32_t tag)
{
    for (uint32_t i = 0; i < own->n_opened; i++) {
        const struct open one = own->opened[i];
        if (one.from != from || one.to != to || one.tag != tag)
            continue;
        memmove(&own->opened[i], &own->opened[i + 1], (own->n_opened - i - 1) * sizeof one);
        own->n_opened--;
        return give_back_number(own, one.request) ? one.request : -1;
    }
    return 0;
}

static const char *next_word(const char **at, const char *end, size_t *length)
{
    const char *p = *at;
    while (p < end && (*p == ' ' || *p == '\t' || *p == '\r'))
        p++;
    const char *word = p;
    while (p < end && *p != ' ' && *p != '\t' && *p != '\r')
        p++;
    *length = (size_t)(p - word);
    *at = p;
    return *length ? word : NULL;
}

/* A number that is not too long to be one; digits alone are read fast. */
static bool number_of(const char *word, size_t length, double *value)
{
    uint64_t whole = 0;
    size_t i = 0;
    const bool negative = length > 1 && word[0] == '-';
    for (i = negative; i < length && i < 18 && word[i] >= '0' && word[i] <= '9'; i++)
        whole = 10 * whole + (uint64_t)(word[i] - '0');
    if (i == length && length > 0) {
        *value = negative ? -(double)whole : (double)whole;
        return true;
    }
    char text[64], *last;
    if (length >= sizeof text)
        return false;
    memcpy(text, word, length);
    text[length] = 0;
    *value = PyOS_string_to_double(text, &last, NULL);
    if (PyErr_Occurred())
        PyErr_Clear();
    return last == text + length && isfinite(*value);
}

static bool integer(struct reader *r, const char *word, size_t length, int32_t *value)
{
    double number;
    if (!number_of(word, length, &number) || number != floor(number) || fabs(number) > INT32_MAX)
        return fails(r, "not a whole number: ", word, length);
    *value = (int32_t)number;
    return true;
}

static bool rank_number(struct reader *r, const char *word, size_t length, bool may_be_any, int32_t *value)
{
    if (!integer(r, word, length, value))
        return false;
    if (may_be_any && (*value == -1 || *value == -555)) { /* MPI_ANY_SOURCE of SimGrid */
        *value = -1;
        return true;
    }
    return (*value >= 0 && *value < r->n_ranks) || fails(r, "there is no rank ", word, length);
}

static bool size(struct reader *r, const char *word, size_t length, double *value)
{
    if (!number_of(word, length, value))
        return fails(r, "not a number: ", word, length);
    if (!(*value >= 0))
        return fails(r, "a negative size or time: ", word, length);
    return *value <= MOST || fails(r, "a size or time that is too large: ", word, length);
}

static bool read_counts(struct reader *r, const char **at, const char *end, bool kept, struct action *a)
{
    if (kept)
        a->first_count = (int32_t)r->n_counts;
    for (int32_t i = 0; i < r->n_ranks; i++) {
        size_t length;
        const char *word = next_word(at, end, &length);
        double value;
        if (!word)
            return fails(r, "there are fewer sizes than ranks", "", 0);
        if (!size(r, word, length, &value))
            return false;
        if (!kept)
            continue;
        if (r->n_counts > INT32_MAX - 1 || !ft_reserve(&r->counts, &r->counts_room, r->n_counts, sizeof *r->counts))
            return fails(r, "no memory for sizes", "", 0);
        r->counts[r->n_counts++] = value;
    }
    return true;
}

static bool read_arguments(struct reader *r, struct rank *own, int32_t self, const char *arguments, const char *at,
                           const char *end, struct action *a)
{
    int32_t partners[2] = {-1, -1}, datatype = own->datatype;
    int n_partners = 0;
    bool may_be_missing = false, sized = false;
    size_t length;
    a->bytes = -1;
    for (const char *p = arguments; *p; p++) {
        if (*p == '|') {
            may_be_missing = true;
            continue;
        }
        if (*p == 'c' || *p == 'C') {
            if (!read_counts(r, &at, end, *p == 'c', a))
                return false;
            continue;
        }
        const char *word = next_word(&at, end, &length);
        if (!word) {
            if (may_be_missing)
                break;
            return fails(r, "too few arguments", "", 0);
        }
        double unused;
        int32_t number;
        bool good = true;
        switch (*p) {
        case 't':
            good = rank_number(r, word, length,
                               a->kind == FT_CALL_RECEIVE || a->kind == FT_CALL_IRECEIVE || a->kind == FT_CALL_WAIT ||
                                   a->kind == FT_CALL_TEST,
                               &partners[n_partners++]);
            break;
        case 'r': good = rank_number(r, word, length, false, &a->peer); break;
        case 'g': good = integer(r, word, length, &a->tag); break;
        case 's':
            if (a->kind == FT_CALL_RECEIVE || a->kind == FT_CALL_IRECEIVE) { /* -1: as many as come */
                good = number_of(word, length, &a->bytes) || fails(r, "not a number: ", word, length);
                good = good && (a->bytes == -1 || size(r, word, length, &a->bytes));
            } else {
                good = size(r, word, length, &a->bytes);
            }
            sized = true;
            break;
        case 'S': good = number_of(word, length, &unused) || fails(r, "not a number: ", word, length); break;
        case 'f': good = size(r, word, length, &a->amount); break;
        case 'y':
            good = integer(r, word, length, &number);
            if (good && (number < 0 || (size_t)number >= sizeof sizes))
                return fails(r, "there is no datatype ", word, length);
            datatype = number;
            break;
        default: break;
        }
        if (!good)
            return false;
    }
    if (next_word(&at, end, &length))
        return fails(r, "too many arguments", "", 0);
    if (sized && a->bytes > 0)
        a->bytes *= sizes[datatype];
    if (a->first_count >= 0)
        for (uint32_t i = (uint32_t)a->first_count; i < r->n_counts; i++)
            r->counts[i] *= sizes[datatype];
    if (a->tag < 0)
        a->tag = -1; /* MPI_ANY_TAG */
    switch (a->kind) {
    case FT_CALL_SEND:
    case FT_CALL_RECEIVE: a->peer = partners[0]; break;
    case FT_CALL_ISEND:
    case FT_CALL_IRECEIVE:
        a->peer = partners[0];
        return open_request(own, a, a->kind == FT_CALL_ISEND ? self : a->peer,
                            a->kind == FT_CALL_ISEND ? a->peer : self) ||
               fails(r, "no memory for requests", "", 0);
    case FT_CALL_EXCHANGE:
        a->peer = partners[0];
        a->request = partners[1] + 1; /* whom it receives from */
        break;
    case FT_CALL_WAIT:
        a->request = close_request(own, partners[0], partners[1], a->tag);
        return a->request >= 0 || fails(r, "no memory for requests", "", 0);
    case FT_CALL_WAIT_ALL:
        own->n_opened = own->n_unused = 0;
        own->highest = 0;
        break;
    default: break;
    }
    return true;
}

static bool read_line(struct reader *r, const char *at, const char *end)
{
    size_t length;
    int32_t self;
    const char *word = next_word(&at, end, &length);
    if (!word || *word == '#')
        return true;
    if (!rank_number(r, word, length, false, &self))
        return false;
    struct rank *own = &r->ranks[self];
    own->has_lines = true;
    word = next_word(&at, end, &length);
    if (!word)
        return fails(r, "there is no action", "", 0);
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++) {
        if (strlen(actions[i].name) != length || memcmp(actions[i].name, word, length) != 0)
            continue;
        struct action a = {.kind = actions[i].kind, .first_count = -1, .line = (int32_t)r->line};
        if (a.kind == INIT) {
            own->datatype = next_word(&at, end, &length) ? DOUBLE : BYTE;
            own->began = true;
            return true;
        }
        if (a.kind >= NOTHING) {
            own->ended |= a.kind == END;
            r->splits += a.kind == SPLIT;
            r->copies += a.kind == COPY;
            return true;
        }
        if (r->n_actions++ >= r->most_actions)
            return fails(r, "there are more actions than can be replayed", "", 0);
        if (!ft_reserve(&own->actions, &own->room, own->n, sizeof a))
            return fails(r, "no memory for actions", "", 0);
        if (!read_arguments(r, own, self, actions[i].arguments, at, end, &a))
            return false;
        own->actions[own->n++] = a;
        return true;
    }
    return fails(r, "there is no action ", word, length);
}

static bool read_text(struct reader *r, const char *text, size_t bytes)
{
    for (const char *at = text, *last = text + bytes; at < last;) {
        const char *end = memchr(at, '\n', (size_t)(last - at));
        end = end ? end : last;
        if (r->line++ >= INT32_MAX)
            return fails(r, "there are more lines than can be numbered", "", 0);
        if (!read_line(r, at, end))
            return false;
        at = end + 1;
    }
    return true;
}

struct reader_object {
    PyObject_HEAD
    struct reader reader;
};

static int reader_init(PyObject *self, PyObject *args, PyObject *Py_UNUSED(keywords))
{
    struct reader *r = &((struct reader_object *)self)->reader;
    int ranks;
    long long most_actions;
    if (!PyArg_ParseTuple(args, "iL", &ranks, &most_actions))
        return -1;
    if (ranks < 1 || r->ranks) {
        PyErr_SetString(PyExc_ValueError, "no ranks");
        return -1;
    }
    r->ranks = calloc((size_t)ranks, sizeof *r->ranks);
    if (!r->ranks) {
        PyErr_NoMemory();
        return -1;
    }
    r->n_ranks = ranks;
    r->most_actions = most_actions;
    for (int i = 0; i < ranks; i++)
        r->ranks[i].datatype = BYTE;
    return 0;
}

static void reader_dealloc(PyObject *self)
{
    struct reader *r = &((struct reader_object *)self)->reader;
    for (int32_t i = 0; i < r->n_ranks; i++) {
        free(r->ranks[i].actions);
        free(r->ranks[i].opened);
        free(r->ranks[i].unused);
    }
    free(r->ranks);
    free(r->counts);
    PyTypeObject *type = Py_TYPE(self);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *reader_read(PyObject *self, PyObject *argument)
{
    struct reader *r = &((struct reader_object *)self)->reader;
    Py_buffer text;
    if (PyObject_GetBuffer(argument, &text, PyBUF_SIMPLE) < 0)
        return NULL;
    const bool good = r->ranks && read_text(r, text.buf, (size_t)text.len);
    PyBuffer_Release(&text);
    if (good)
        Py_RETURN_NONE;
    return Py_BuildValue("(ns)", r->line, r->problem);
}

static PyObject *reader_lines(PyObject *self, PyObject *Py_UNUSED(argument))
{
    return PyLong_FromSsize_t(((const struct reader_object *)self)->reader.line);
}

static PyObject *reader_actions(PyObject *self, PyObject *Py_UNUSED(argument))
{
    const struct reader *r = &((struct reader_object *)self)->reader;
    size_t n = 0;
    for (int32_t i = 0; i < r->n_ranks; i++)
        n += r->ranks[i].n;
    PyObject *all = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(n * sizeof(struct action)));
    PyObject *numbers = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)((size_t)r->n_ranks * 4 * sizeof(int64_t)));
    PyObject *counts =
        PyBytes_FromStringAndSize((const char *)r->counts, (Py_ssize_t)(r->n_counts * sizeof *r->counts));
    if (!all || !numbers || !counts) {
        Py_XDECREF(all);
        Py_XDECREF(numbers);
        Py_XDECREF(counts);
        return NULL;
    }
    char *to = PyBytes_AS_STRING(all);
    int64_t *number = (int64_t *)(void *)PyBytes_AS_STRING(numbers);
    for (int32_t i = 0; i < r->n_ranks; i++) {
        if (r->ranks[i].n)
            memcpy(to, r->ranks[i].actions, r->ranks[i].n * sizeof(struct action));
        to += r->ranks[i].n * sizeof(struct action);
        *number++ = r->ranks[i].n;
        *number++ = r->ranks[i].slots;
        *number++ = r->ranks[i].has_lines;
        *number++ = r->ranks[i].began && !r->ranks[i].ended;
    }
    return Py_BuildValue("(NNNLL)", all, numbers, counts, (long long)r->splits, (long long)r->copies);
}

static PyMethodDef methods[] = {
    {"read", reader_read, METH_O,
     "read(text): add the actions of its lines, numbered on from those before; None, or (line, what is wrong with it)"},
    {"lines", reader_lines, METH_NOARGS, "lines(): number of lines so far"},
    {"actions", reader_actions, METH_NOARGS,
     "actions(): (actions of all ranks, (actions, requests, whether there are lines, whether it began and did not "
     "end)\n"
     "of each, sizes), as bytes, then the splits and copies of communicators"},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, "Reads time-independent traces."},
    {Py_tp_init, reader_init},
    {Py_tp_new, PyType_GenericNew},
    {Py_tp_dealloc, reader_dealloc},
    {Py_tp_methods, methods},
    {0, NULL},
};
static PyType_Spec spec = {"foretrace.replay.ranks._time_independent.Reader", sizeof(struct reader_object), 0,
                           Py_TPFLAGS_DEFAULT, slots};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_time_independent", "Time-independent traces.", -1, NULL, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__time_independent(void);
PyMODINIT_FUNC PyInit__time_independent(void)
{
    PyObject *made = PyModule_Create(&module);
    PyObject *type = made ? PyType_FromSpec(&spec) : NULL;
    if (!type || PyModule_AddObjectRef(made, "Reader", type) < 0)
        Py_CLEAR(made);
    Py_XDECREF(type);
    return made;
}
