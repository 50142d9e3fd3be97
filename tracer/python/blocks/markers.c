/* The `markers` core: objects among a code object's constants that write a word each time the bytecode passes them.
 *
 * A thread's stack holds the marked frames that run, innermost last. Only beginnings are seen: an entry or resumption
 * pushes its frame. That a frame has ended shows when another one goes on: a marker of the frame below finds it on top
 * (`find_frame`) and drops it, and only then does the word follow that says where control went on. So exceptions,
 * closed generators and whatever else leaves a frame need no care of their own. Frames are compared by address and
 * code: an address is used again only by a frame that begins, which its entry tells.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <opcode.h>

#include "blocks.h"
#include "tracer/python/arrays/buffers.h"
#include "bytecode.h"
#include "frames.h"
#include "markers.h"
#include "tracer/python/arrays/numpy.h"
#include "timing.h"

#include <stdlib.h>

typedef struct {
    PyObject_HEAD
    struct code_table *table;
    const PyObject *code; /* that it is in, to be compared only */
    uint32_t kind;        /* of enum marker_kind */
    bool is_slice;
    uint32_t unit;  /* of the original's bytecode */
    uint32_t place; /* among its frame's variables and stack, where it is when it runs; 0: not known yet */
    uint32_t block; /* that starts here; 0: not known yet */
    struct timing_pace pace;
    struct agent_site site;
} Marker;

struct marked_frame {
    const _PyInterpreterFrame *frame;
    const PyObject *code;
    struct code_table *table;
    uint32_t block; /* it is in */
    bool is_generator;
};

/* Generators and coroutines that have left the stack: an exception that is thrown into one passes no resumption. Where
 * two share a place here, the later stays, and a step of the other's, from where it stood to its handler, is not told.
 */
#define N_SUSPENDED 1024u
static struct marked_frame suspended[N_SUSPENDED];

struct marked_thread {
    struct marked_frame *frames;
    uint32_t n_frames, capacity;
};

static _Thread_local struct marked_thread marked_thread __attribute__((tls_model("initial-exec")));
#define MAX_IMPORT_DEPTH 100 /* frames that are looked at for one of the import system's */
static PyObject *import_file; /* where the code of the import system says it is */

static PyTypeObject *marker_type, *block_marker_type, *subscript_marker_type, *return_marker_type;
bool markers_in_use;

/* ---- the stack of frames ---------------------------------------------------------------------------------------- */

static struct marked_frame *suspended_place(const _PyInterpreterFrame *frame)
{
    return &suspended[((uintptr_t)frame >> 5) % N_SUSPENDED];
}

static void drop_frames(uint32_t n)
{
    struct marked_thread *t = &marked_thread;
    while (t->n_frames > n) {
        const struct marked_frame *top = &t->frames[--t->n_frames];
        if (top->is_generator)
            *suspended_place(top->frame) = *top;
    }
}

static bool is_of(const struct marked_frame *entry, const _PyInterpreterFrame *frame)
{
    return entry->frame == frame && entry->code == AGENT_FRAME_CODE(frame);
}

/* Drops the frames above `frame`, or above the innermost of its callers that is marked. Returns how many there were. */
static uint32_t find_frame(const _PyInterpreterFrame *frame)
{
    struct marked_thread *t = &marked_thread;
    const uint32_t before = t->n_frames;
    if (before > 1 && frame && is_of(&t->frames[before - 2], frame)) { /* a call has returned */
        drop_frames(before - 1);
        return 1;
    }
    for (; frame; frame = frame->previous) {
        PyObject *code = AGENT_FRAME_CODE(frame);
        struct code_table *table = PyCode_Check(code) ? code_table_if_any((PyCodeObject *)code) : NULL;
        if (!table || !table->origin)
            continue;
        for (uint32_t n = t->n_frames; n > 0; n--)
            if (is_of(&t->frames[n - 1], frame)) {
                drop_frames(n);
                return before - n;
            }
    }
    drop_frames(0);
    return before;
}

void markers_forked(void)
{
    marked_thread.n_frames = 0;
}

static PyCodeObject *names_of(const struct marked_frame *entry)
{
    return (PyCodeObject *)entry->code;
}

static void write_resumption_of(const struct marked_frame *entry, bool goes_on)
{
    agent_write_block(code_resumption_of(names_of(entry), entry->table, entry->block, goes_on));
}

/* Where control has gone on after frames were dropped: each went back to the one below it. Of those between, the code
 * may be gone: their resumptions are written where they have an id. */
static void write_returns(uint32_t dropped)
{
    const struct marked_thread *t = &marked_thread;
    const uint32_t n = t->n_frames;
    for (uint32_t i = n + dropped; dropped > 0 && i > n + 1; i--)
        agent_write_block(code_known_resumption(t->frames[i - 2].block));
    if (dropped > 0 && n > 0)
        write_resumption_of(&t->frames[n - 1], false);
}

static struct marked_frame *push_frame(const _PyInterpreterFrame *frame, struct code_table *table)
{
    struct marked_thread *t = &marked_thread;
    if (t->n_frames == t->capacity) {
        uint32_t capacity = t->capacity ? 2 * t->capacity : 64;
        struct marked_frame *grown = realloc(t->frames, capacity * sizeof *grown);
        if (!grown)
            return NULL;
        t->frames = grown;
        t->capacity = capacity;
    }
    const int generator = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR;
    PyCodeObject *code = (PyCodeObject *)AGENT_FRAME_CODE(frame);
    t->frames[t->n_frames] = (struct marked_frame){frame, (PyObject *)code, table, 0, code->co_flags & generator};
    return &t->frames[t->n_frames++];
}

/* A frame goes on without a resumption. */
static struct marked_frame *thrown_into(const _PyInterpreterFrame *frame, struct code_table *table)
{
    const struct marked_frame *before = suspended_place(frame);
    struct marked_frame *top = push_frame(frame, table);
    if (top && is_of(before, frame)) {
        top->block = before->block;
        write_resumption_of(top, true);
    }
    return top;
}

/* The entry of a frame that runs but need not be on top, or anywhere: it may go on after others, or after `throw`. */
static struct marked_frame *running_frame(const _PyInterpreterFrame *frame, struct code_table *table)
{
    struct marked_thread *t = &marked_thread;
    struct marked_frame *top = t->n_frames ? &t->frames[t->n_frames - 1] : NULL;
    if (__builtin_expect(top && top->frame == frame, 1))
        return top;
    write_returns(find_frame(frame));
    top = t->n_frames ? &t->frames[t->n_frames - 1] : NULL;
    return top && is_of(top, frame) ? top : thrown_into(frame, table);
}

/* A frame begins, or goes on. */
static struct marked_frame *begun_frame(const _PyInterpreterFrame *frame, struct code_table *table)
{
    struct marked_thread *t = &marked_thread;
    const _PyInterpreterFrame *caller = agent_caller(frame);
    bool is_caller_on_top = caller && t->n_frames && is_of(&t->frames[t->n_frames - 1], caller);
    if (!is_caller_on_top)
        write_returns(find_frame(caller));
    return push_frame(frame, table);
}

/* ---- markers ---------------------------------------------------------------------------------------------------- */

/* The slot that markers run in: see add_marker in bytecode.c. */
#if PY_VERSION_HEX < 0x030c0000
#define MARKER_SLOT Py_nb_bool
typedef int marker_result;
static marker_result go_on(void)
{
    return true;
}
static marker_result raise_it(void)
{
    return -1;
}
#else
#define MARKER_SLOT Py_nb_invert
typedef PyObject *marker_result;
static marker_result go_on(void)
{
    return Py_NewRef(Py_None);
}
static marker_result raise_it(void)
{
    return NULL;
}
#endif

static void begin(const Marker *marker, struct marked_frame *top)
{
    PyCodeObject *code = names_of(top);
    if (marker->kind & MARKER_ENTRY) {
        top->block = code_entry_block(code, marker->table, marker->unit - 1); /* of RESUME, just before */
        agent_write_block(top->block);
    } else {
        top->block = code_block_around(code, marker->table, marker->unit - 1);
        agent_write_block(code_resumption_of(code, marker->table, top->block, true));
    }
}

/* Whether a module is being loaded, which is no part of a program's times. */
static bool is_importing(const _PyInterpreterFrame *frame)
{
    for (int depth = 0; frame && depth < MAX_IMPORT_DEPTH; depth++, frame = frame->previous) {
        PyObject *code = AGENT_FRAME_CODE(frame);
        if (code && PyCode_Check(code) && ((PyCodeObject *)code)->co_filename == import_file)
            return true;
    }
    return false;
}

/* Ends the timing that runs, unless the block loads a module, as library functions do that import late. What it does
 * behind that is its own. */
static __attribute__((noinline)) void end_timing(const _PyInterpreterFrame *frame, bool enters)
{
    if (enters || agent_thread.times->imports) {
        const uint64_t now_ns = timing_now_ns();
        agent_thread.times->imports = is_importing(frame);
        if (!agent_thread.times->imports)
            timing_end_at(now_ns);
    } else {
        timing_end();
    }
}

/* False, with an exception set, if the program is to go on with that. */
static bool begin_timing(Marker *marker, uint32_t block, uint32_t before, bool goes_on)
{
    struct ft_side_pyblock *entry = code_timed_block(block);
    if (agent_thread.times) { /* of the block that imports */
        marker->pace.until_timed = 1;
        return true;
    }
    if (entry && !is_importing(agent_interpreter_frame()))
        return timing_begin(&marker->pace, entry, before ? code_timed_block(before) : NULL, goes_on);
    timing_put_off(&marker->pace);
    return true;
}

static marker_result run_marker(PyObject *self)
{
    Marker *marker = (Marker *)self;
    const _PyInterpreterFrame *frame = agent_interpreter_frame();
    struct marked_frame *top;
    if (AGENT_FRAME_CODE(frame) != marker->code) /* a program asks it something: markers are among its constants */
        return go_on();
    if (__builtin_expect(agent_thread.times != NULL, 0))
        end_timing(frame, marker->kind & (MARKER_ENTRY | MARKER_RESUME));
    if (marker->kind & (MARKER_ENTRY | MARKER_RESUME)) {
        top = begun_frame(frame, marker->table);
        if (top)
            begin(marker, top);
    } else {
        top = running_frame(frame, marker->table);
    }
    const uint32_t before = top ? top->block : 0;
    if (top && marker->kind & MARKER_BLOCK) {
        uint32_t id = marker->table->unit[marker->unit].block;
        if (__builtin_expect(!id, 0))
            id = code_block_at(names_of(top), marker->table, marker->unit);
        top->block = id;
        agent_write_block(id);
    }
    if (top && top->block && timing_is_due(&marker->pace) &&
        !begin_timing(marker, top->block, before, !(marker->kind & (MARKER_ENTRY | MARKER_BLOCK))))
        return raise_it();
    return go_on();
}

/* Of those that do no more than start a block: for the most part in the frame that is on top. */
static marker_result run_block_marker(PyObject *self)
{
    Marker *marker = (Marker *)self;
    const struct marked_thread *t = &marked_thread;
    struct ft_cursor *cursor = agent_thread.cursor;
    if (__builtin_expect(agent_thread.times != NULL, 0))
        end_timing(agent_interpreter_frame(), false);
    if (__builtin_expect(marker->block && t->n_frames && cursor, 1)) {
        struct marked_frame *top = &t->frames[t->n_frames - 1];
        const _PyInterpreterFrame *frame = agent_interpreter_frame();
        if (__builtin_expect(top->frame == frame && AGENT_FRAME_CODE(frame) == marker->code, 1)) {
            const uint32_t before = top->block;
            top->block = marker->block;
            ft_write(cursor, FT_ENTRY | marker->block);
            if (timing_is_due(&marker->pace) && !begin_timing(marker, marker->block, before, false))
                return raise_it();
            return go_on();
        }
    }
    const marker_result result = run_marker(self);
    marker->block = marker->table->unit[marker->unit].block;
    return result;
}

/* What the program does next, until another marker runs, is the caller's. */
static marker_result run_return_marker(PyObject *self)
{
    const Marker *marker = (Marker *)self;
    const struct marked_thread *t = &marked_thread;
    if (__builtin_expect(!agent_thread.times, 1))
        return go_on();
    const _PyInterpreterFrame *frame = agent_interpreter_frame();
    if (AGENT_FRAME_CODE(frame) != marker->code || (agent_thread.times->imports && is_importing(frame)))
        return go_on();
    uint32_t n = t->n_frames;
    while (n && !is_of(&t->frames[n - 1], frame))
        n--;
    const uint32_t below = n > 1 ? t->frames[n - 2].block : 0;
    const void *caller = agent_caller(frame);
    timing_return(below ? code_timed_block(below) : NULL,
                  agent_thread.hook_frame == caller || (caller && agent_thread.named_frame == caller));
    return go_on();
}

/* Where a marker is on the stack of the frame that runs it, which is as deep there each time. NULL if it is not there.
 */
static PyObject **place_of(Marker *marker, _PyInterpreterFrame *frame)
{
    PyObject **variables = frame->localsplus;
    const PyCodeObject *code = (PyCodeObject *)AGENT_FRAME_CODE(frame);
    if ((const PyObject *)code != marker->code)
        return NULL;
    if (__builtin_expect(marker->place && variables[marker->place] == (PyObject *)marker, 1))
        return variables + marker->place;
    for (int i = code->co_nlocalsplus; i < code->co_nlocalsplus + code->co_stacksize; i++)
        if (variables[i] == (PyObject *)marker) {
            marker->place = (uint32_t)i;
            return variables + i;
        }
    return NULL;
}

/* The element of a container of numbers that a plain key names. False if it is another case. */
static inline bool find_element(PyObject *container, PyObject *key, struct buffer_element *element)
{
    const struct np_array *array = (const struct np_array *)container;
    int64_t offset;
    if (!Py_IS_TYPE(container, np.array))
        return buffer_element(container, key, element);
    if (!np_element_offset(array, key, &offset))
        return false;
    *element = (struct buffer_element){array->data + offset, np_item_bytes(array), NP_GETITEM};
    return true;
}

/* A subscript of an array or buffer is about to happen. Most loads are written here; others, and stores, when they
 * happen. */
static void observe_array(Marker *marker, uint32_t block, PyObject *container, PyObject *key)
{
    struct buffer_element element;
    agent_thread.subscripted = container;
    agent_thread.site = &marker->site;
    agent_thread.site_block = block;
    agent_thread.element_bytes = 0;
    if (marker->kind == MARKER_DELETE || !find_element(container, key, &element))
        return;
    if (marker->kind == MARKER_STORE) {
        agent_thread.element = element.address;
        agent_thread.element_bytes = element.item_bytes;
    } else if (agent_write_at_site(&marker->site, element.load, block, element.address, element.item_bytes, false)) {
        agent_thread.site = NULL;
    }
}

/* A subscript is about to happen, of whatever. */
static __attribute__((noinline)) void observe_subscript(Marker *marker, uint32_t block, PyObject *container,
                                                        PyObject *key)
{
    if (buffer_is_hooked(Py_TYPE(container)))
        observe_array(marker, block, container, key);
    else if (list_is_like(container) && !list_write_element(&marker->site, marker->kind, block, container, key))
        list_observe(&marker->site, marker->kind, block, container, key);
}

/* Of container and key, or container and what a slice is of, which are below it on the stack. */
static __attribute__((noinline)) void run_any_subscript_marker(Marker *marker)
{
    _PyInterpreterFrame *frame = agent_interpreter_frame();
    PyObject **place = place_of(marker, frame), *key;
    const struct marked_frame *top = place ? running_frame(frame, marker->table) : NULL;
    if (top && !marker->is_slice) {
        observe_subscript(marker, top->block, place[-2], place[-1]);
    } else if (top) {
        if ((key = PySlice_New(place[-2], place[-1], NULL)))
            observe_subscript(marker, top->block, place[-3], key);
        else
            PyErr_Clear();
        Py_XDECREF(key);
    }
}

/* Mostly of an element of a list, and in the frame that is on top. */
static marker_result run_subscript_marker(PyObject *self)
{
    Marker *marker = (Marker *)self;
    const struct marked_thread *t = &marked_thread;
    _PyInterpreterFrame *frame = agent_interpreter_frame();
    if (__builtin_expect(marker->place && !marker->is_slice && t->n_frames && AGENT_FRAME_CODE(frame) == marker->code,
                         1)) {
        const struct marked_frame *top = &t->frames[t->n_frames - 1];
        PyObject **place = frame->localsplus + marker->place;
        if (__builtin_expect(top->frame == frame && *place == self, 1)) {
            if (!PyList_CheckExact(place[-2]) ||
                !list_write_element(&marker->site, marker->kind, top->block, place[-2], place[-1]))
                observe_subscript(marker, top->block, place[-2], place[-1]);
            return go_on();
        }
    }
    run_any_subscript_marker(marker);
    return go_on();
}

static void marker_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    code_release(((Marker *)self)->table);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyTypeObject *new_marker_type(const char *name, marker_result (*run)(PyObject *self))
{
    PyType_Slot slots[] = {{MARKER_SLOT, (void *)run}, {Py_tp_dealloc, (void *)marker_dealloc}, {0, NULL}};
    PyType_Spec spec = {
        .name = name,
        .basicsize = sizeof(Marker),
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
        .slots = slots,
    };
    return (PyTypeObject *)PyType_FromSpec(&spec);
}

static PyObject *new_marker(struct code_table *table, const PyObject *code, const struct marker *from)
{
    const uint32_t subscripts = MARKER_LOAD | MARKER_STORE | MARKER_DELETE;
    Marker *marker = PyObject_New(Marker, from->kind == MARKER_BLOCK   ? block_marker_type
                                          : from->kind & subscripts    ? subscript_marker_type
                                          : from->kind & MARKER_RETURN ? return_marker_type
                                                                       : marker_type);
    if (marker) {
        marker->table = table;
        marker->code = code;
        marker->kind = from->kind & ~(uint32_t)MARKER_SLICE;
        marker->is_slice = from->kind & MARKER_SLICE;
        marker->unit = from->unit;
        marker->place = 0;
        marker->block = 0;
        marker->pace = (struct timing_pace)TIMING_PACE;
        marker->site = (struct agent_site){.offset_bytes = 2 * from->unit};
        table->n_references++;
    }
    return (PyObject *)marker;
}

/* ---- putting them in -------------------------------------------------------------------------------------------- */

static PyObject *marked_code(PyCodeObject *code, bool is_function);

/* The constants, with functions' code marked, and room for markers: NULL until they are made. */
static PyObject *marked_constants(PyCodeObject *code, uint32_t n_markers)
{
    Py_ssize_t n = PyTuple_GET_SIZE(code->co_consts);
    PyObject *constants = PyTuple_New(n + n_markers);
    for (Py_ssize_t i = 0; constants && i < n; i++) {
        PyObject *constant = PyTuple_GET_ITEM(code->co_consts, i);
        PyTuple_SET_ITEM(constants, i,
                         PyCode_Check(constant) ? marked_code((PyCodeObject *)constant, true) : Py_NewRef(constant));
    }
    for (uint32_t i = 0; constants && i < n_markers; i++)
        PyTuple_SET_ITEM(constants, n + i, Py_NewRef(Py_None));
    return constants;
}

static PyObject *replaced(PyCodeObject *code, const struct marked_bytecode *marked)
{
    PyObject *constants = marked_constants(code, marked->n_markers), *result = NULL;
    PyObject *method = PyObject_GetAttrString((PyObject *)code, "replace"), *none = PyTuple_New(0);
    PyObject *fields =
        constants && method && none
            ? Py_BuildValue("{s:y#,s:y#,s:y#,s:O,s:i}", "co_code", marked->code, (Py_ssize_t)marked->code_bytes,
                            "co_linetable", marked->lines, (Py_ssize_t)marked->lines_bytes, "co_exceptiontable",
                            marked->exceptions, (Py_ssize_t)marked->exceptions_bytes, "co_consts", constants,
                            "co_stacksize", code->co_stacksize + BYTECODE_EXTRA_STACK)
            : NULL;
    if (fields)
        result = PyObject_Call(method, none, fields);
    Py_XDECREF(constants);
    Py_XDECREF(method);
    Py_XDECREF(none);
    Py_XDECREF(fields);
    return result;
}

/* Gives the twin its table and its markers, which are the last of its constants. */
static bool complete(PyCodeObject *twin, PyCodeObject *code, struct marked_bytecode *marked, bool is_function)
{
    struct code_table *table = code_add_marked(twin, code, is_function);
    Py_ssize_t first = PyTuple_GET_SIZE(twin->co_consts) - marked->n_markers;
    if (!table)
        return false;
    for (uint32_t i = 0; i < marked->n_markers; i++) {
        PyObject *marker = new_marker(table, (PyObject *)twin, &marked->markers[i]);
        PyObject **place = &PyTuple_GET_ITEM(twin->co_consts, first + i);
        if (!marker)
            return false;
        Py_SETREF(*place, marker);
    }
    table->n_origins = (uint32_t)(marked->code_bytes / 2);
    table->origin = marked->origin;
    marked->origin = NULL;
    table->is_own = marked->is_own;
    marked->is_own = NULL;
    code_set_marked(code, twin, !is_function);
    return true;
}

/* Always a code object: `code` itself where something is in the way. */
static PyObject *marked_code(PyCodeObject *code, bool is_function)
{
    struct code_table *table = code_table_if_any(code);
    struct marked_bytecode marked;
    PyObject *bytecode, *twin = NULL;
    if (table && (table->marked || table->origin))
        return Py_NewRef(table->marked ? table->marked : (PyObject *)code);
    if (!(bytecode = PyCode_GetCode(code))) {
        PyErr_Clear();
        return Py_NewRef(code);
    }
    const struct bytecode source = {
        .code = (const uint8_t *)PyBytes_AS_STRING(bytecode),
        .code_bytes = (size_t)PyBytes_GET_SIZE(bytecode),
        .lines = (const uint8_t *)PyBytes_AS_STRING(code->co_linetable),
        .lines_bytes = (size_t)PyBytes_GET_SIZE(code->co_linetable),
        .exceptions = (const uint8_t *)PyBytes_AS_STRING(code->co_exceptiontable),
        .exceptions_bytes = (size_t)PyBytes_GET_SIZE(code->co_exceptiontable),
        .first_line = code->co_firstlineno,
        .n_constants = (uint32_t)PyTuple_GET_SIZE(code->co_consts),
    };
    if (bytecode_mark(&source, &marked)) {
        twin = replaced(code, &marked);
        if (twin && !complete((PyCodeObject *)twin, code, &marked, is_function))
            Py_CLEAR(twin);
        bytecode_release(&marked);
    }
    Py_DECREF(bytecode);
    PyErr_Clear();
    return twin ? twin : Py_NewRef(code);
}

PyObject *markers_in(PyObject *code)
{
    return marked_code((PyCodeObject *)code, false);
}

PyObject *markers_in_function(PyObject *code)
{
    return marked_code((PyCodeObject *)code, true);
}

PyObject *markers_original_of(PyObject *code)
{
    struct code_table *table = code_table_if_any((PyCodeObject *)code);
    return table && table->original ? table->original : code;
}

bool markers_are_at(PyObject *code, int lasti)
{
    const struct code_table *table = code_table_if_any((PyCodeObject *)code);
    return table && table->origin && lasti >= 0 && (uint32_t)lasti / 2 < table->n_origins && !table->is_own[lasti / 2];
}

/* EXTENDED_ARG in front of an instruction: the original may have another number of them. */
static uint32_t n_prefixes(const uint8_t *code, uint32_t unit)
{
    uint32_t n = 0;
    while (code[2 * (unit + n)] == EXTENDED_ARG)
        n++;
    return n;
}

int markers_original_lasti(PyObject *code, int lasti)
{
    const struct code_table *table = code_table_if_any((PyCodeObject *)code);
    const uint32_t unit = (uint32_t)lasti / 2;
    if (!table || !table->original || lasti < 0 || unit >= table->n_origins)
        return lasti;
    uint32_t original = table->origin[unit], first = unit;
    PyObject *bytecode = table->is_own[unit] ? PyCode_GetCode((PyCodeObject *)code) : NULL;
    PyObject *before = bytecode ? PyCode_GetCode((PyCodeObject *)table->original) : NULL;
    while (before && first > 0 && table->is_own[first - 1] && table->origin[first - 1] == original)
        first--;
    if (before) {
        const uint32_t at = first + n_prefixes((const uint8_t *)PyBytes_AS_STRING(bytecode), first);
        if (unit >= at) /* a call stands at its last cache */
            original += n_prefixes((const uint8_t *)PyBytes_AS_STRING(before), original) + (unit - at);
    }
    Py_XDECREF(bytecode);
    Py_XDECREF(before);
    PyErr_Clear();
    return (int)(2 * original);
}

/* ---- the core --------------------------------------------------------------------------------------------------- */

static uint32_t charged_block(void)
{
    struct marked_thread *t = &marked_thread;
    const _PyInterpreterFrame *frame = agent_interpreter_frame();
    if (!frame)
        return 0;
    if (!(t->n_frames && is_of(&t->frames[t->n_frames - 1], frame)))
        write_returns(find_frame(frame));
    return t->n_frames ? t->frames[t->n_frames - 1].block : 0;
}

/* To be called after charged_block. */
static uint32_t charged_site(void)
{
    const struct marked_thread *t = &marked_thread;
    if (!t->n_frames)
        return 0;
    const struct marked_frame *top = &t->frames[t->n_frames - 1];
    int64_t unit = AGENT_FRAME_UNIT(top->frame) - _PyCode_CODE((PyCodeObject *)top->code);
    return unit < 0 || unit >= top->table->n_origins ? 0 : 2 * top->table->origin[unit];
}

static bool find_import_system(void)
{
    PyObject *module = PyImport_ImportModule("_frozen_importlib");
    PyObject *function = module ? PyObject_GetAttrString(module, "_find_and_load") : NULL;
    PyObject *code = function ? PyObject_GetAttrString(function, "__code__") : NULL;
    import_file = code ? PyObject_GetAttrString(code, "co_filename") : NULL; /* kept for good */
    Py_XDECREF(module);
    Py_XDECREF(function);
    Py_XDECREF(code);
    return import_file != NULL;
}

static bool init(void)
{
    if (!find_import_system())
        return false;
    marker_type = new_marker_type("foretrace.marker", run_marker);
    block_marker_type = new_marker_type("foretrace.block_marker", run_block_marker);
    subscript_marker_type = new_marker_type("foretrace.subscript_marker", run_subscript_marker);
    return_marker_type = new_marker_type("foretrace.return_marker", run_return_marker);
    markers_in_use = marker_type && block_marker_type && subscript_marker_type && return_marker_type && exec_init();
    return markers_in_use;
}

/* Markers run in any thread. */
static void trace_thread(void)
{
}

static bool leave_blocks(void)
{
    return false;
}

static void end_thread(void)
{
    free(marked_thread.frames);
    marked_thread = (struct marked_thread){0};
}

const struct agent_core agent_markers_core = {init,       trace_thread,  leave_blocks,
                                              end_thread, charged_block, charged_site};
