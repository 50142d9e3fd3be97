/* Which block of bytecode runs: a C trace function that writes a word for each.
 *
 * A block is the run of bytecode from where a line event falls to where the next line starts. Besides those, there is
 *  - for each code object an entry block, from its first instruction to the one that starts the function: it is
 *    written at each call;
 *  - for each block a resumption without instructions, written when a call it made returns (or, in a generator, when it
 *    goes on after a yield): so the stream says where control goes on, and no instruction counts twice.
 * Both share their code id with the function's other blocks; a resumption also the offset of the block it resumes.
 *
 * Each code object seen has a `code_table`, kept as its "extra" and freed with it. `facts` tells of each block by id
 * what a resumption of it needs. The thread's stack of frames pairs calls with returns: a return that matches no frame
 * (a frame that ran before tracing began, or was left by a stack switch) leaves the stack as far as it is known.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <frameobject.h>
#include <opcode.h>

#include "pyagent_blocks.h"
#include "pyagent_frames.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#if PY_VERSION_HEX >= 0x030c0000
#define REQUEST_EXTRA PyUnstable_Eval_RequestCodeExtraIndex
#define GET_EXTRA PyUnstable_Code_GetExtra
#define SET_EXTRA PyUnstable_Code_SetExtra
#else
#define REQUEST_EXTRA _PyEval_RequestCodeExtraIndex
#define GET_EXTRA _PyCode_GetExtra
#define SET_EXTRA _PyCode_SetExtra
#endif

#define NO_LINE (-1)

struct unit { /* two bytes of bytecode */
    int32_t line;
    uint32_t block; /* of a line event that falls here; 0: none so far */
    bool is_instruction; /* not a cache or a prefix */
    bool is_start;       /* where a function starts: tracing reports the call here */
};

struct code_table {
    uint32_t code_id;
    uint32_t entry_block;
    uint32_t n_units;
    bool is_library; /* NumPy's or SciPy's: array operations in it are charged to its caller */
    struct unit unit[];
};

struct block_fact {
    uint32_t resumption; /* block id, 0: none so far */
    uint32_t code_id, offset_bytes;
    int32_t line;
};

struct description { /* of a block that is to enter the side table */
    uint32_t code_id, offset_bytes, n_instructions, first_line;
    int32_t line;
    PyObject *file, *name; /* bytes */
};

_Thread_local struct agent_thread agent_thread __attribute__((tls_model("initial-exec"), visibility("hidden")));

static Py_ssize_t extra_index;
static pthread_key_t thread_end;
static uint32_t last_block_id, last_code_id;
static struct block_fact *facts;
static uint32_t facts_capacity;

const void *agent_current_frame(void)
{
    return agent_interpreter_frame();
}

/* ---- threads ---------------------------------------------------------------------------------------------------- */

static void close_thread(void *cursor)
{
    ft_writer_close(cursor);
}

struct ft_cursor *agent_open_cursor(void)
{
    agent_thread.cursor = ft_writer_open();
    if (agent_thread.cursor)
        pthread_setspecific(thread_end, agent_thread.cursor);
    return agent_thread.cursor;
}

static void write_block(uint32_t id)
{
    struct ft_cursor *cursor = agent_cursor();
    if (cursor && id)
        ft_write(cursor, id);
}

/* ---- code objects ----------------------------------------------------------------------------------------------- */

static void mark_units(struct code_table *table, const unsigned char *bytecode)
{
    for (uint32_t i = 0; i < table->n_units; i++) {
        unsigned char opcode = bytecode[2 * i];
        table->unit[i].line = NO_LINE;
        table->unit[i].is_instruction = opcode != CACHE && opcode != EXTENDED_ARG;
        table->unit[i].is_start = opcode == RESUME && (bytecode[2 * i + 1] & 3) == 0;
    }
}

/* Takes in co_lines(): (begin, end, line or None). */
static bool mark_lines(struct code_table *table, PyObject *code)
{
    PyObject *lines = PyObject_CallMethod(code, "co_lines", NULL);
    PyObject *entry;
    while (lines && (entry = PyIter_Next(lines))) {
        Py_ssize_t begin = PyLong_AsSsize_t(PyTuple_GET_ITEM(entry, 0));
        Py_ssize_t end = PyLong_AsSsize_t(PyTuple_GET_ITEM(entry, 1));
        PyObject *line = PyTuple_GET_ITEM(entry, 2);
        for (Py_ssize_t i = begin / 2; i < end / 2 && i < (Py_ssize_t)table->n_units; i++)
            table->unit[i].line = line == Py_None ? NO_LINE : (int32_t)PyLong_AsLong(line);
        Py_DECREF(entry);
    }
    Py_XDECREF(lines);
    return lines && !PyErr_Occurred();
}

static bool is_library(PyCodeObject *code)
{
    static const char *const packages[] = {"-packages/numpy/", "-packages/scipy/"};
    const char *file = PyUnicode_AsUTF8(code->co_filename);
    if (!file)
        PyErr_Clear();
    for (size_t i = 0; file && i < sizeof packages / sizeof *packages; i++)
        if (strstr(file, packages[i]))
            return true;
    return false;
}

static struct code_table *new_table(PyCodeObject *code)
{
    PyObject *bytecode = PyCode_GetCode(code);
    if (!bytecode)
        return NULL;
    uint32_t n = (uint32_t)(PyBytes_GET_SIZE(bytecode) / 2);
    struct code_table *table = calloc(1, sizeof *table + n * sizeof *table->unit);
    if (table) {
        table->n_units = n;
        mark_units(table, (const unsigned char *)PyBytes_AS_STRING(bytecode));
        table->code_id = last_code_id + 1;
        table->is_library = is_library(code);
        if (!mark_lines(table, (PyObject *)code) || SET_EXTRA((PyObject *)code, extra_index, table) != 0) {
            free(table);
            table = NULL;
        } else {
            last_code_id++;
        }
    }
    Py_DECREF(bytecode);
    return table;
}

/* The table of a code object, or NULL with no exception set. */
static struct code_table *table_of(PyCodeObject *code)
{
    void *table = NULL;
    if (GET_EXTRA((PyObject *)code, extra_index, &table) == 0 && table)
        return table;
    table = new_table(code);
    if (!table)
        PyErr_Clear();
    return table;
}

/* ---- describing blocks ------------------------------------------------------------------------------------------ */

static void fill_block(void *memory, uint32_t number, void *context)
{
    const struct description *d = context;
    struct ft_side_pyblock *entry = memory;
    entry->entry.kind = FT_SIDE_PYBLOCK;
    entry->block_id = number;
    entry->code_id = d->code_id;
    entry->line = d->line < 0 ? 0 : (uint32_t)d->line;
    entry->first_line = d->first_line;
    entry->offset_bytes = d->offset_bytes;
    entry->n_instructions = d->n_instructions;
    entry->file_bytes = (uint32_t)PyBytes_GET_SIZE(d->file);
    entry->name_bytes = (uint32_t)PyBytes_GET_SIZE(d->name);
    memcpy(entry + 1, PyBytes_AS_STRING(d->file), entry->file_bytes);
    memcpy((char *)(entry + 1) + entry->file_bytes, PyBytes_AS_STRING(d->name), entry->name_bytes);
}

static bool keep_fact(uint32_t id, const struct description *d)
{
    if (id >= facts_capacity) {
        uint32_t capacity = facts_capacity ? 2 * facts_capacity : 4096;
        while (capacity <= id)
            capacity *= 2;
        struct block_fact *grown = realloc(facts, capacity * sizeof *facts);
        if (!grown)
            return false;
        facts = grown;
        facts_capacity = capacity;
    }
    facts[id] = (struct block_fact){0, d->code_id, d->offset_bytes, d->line};
    return true;
}

/* Gives a block its id; 0 if there is no room. */
static uint32_t describe(PyCodeObject *code, struct description *d)
{
    uint32_t id = 0;
    d->file = PyUnicode_AsEncodedString(code->co_filename, "utf-8", "surrogateescape");
    d->name = PyUnicode_AsEncodedString(code->co_qualname, "utf-8", "surrogateescape");
    d->first_line = code->co_firstlineno < 0 ? 0 : (uint32_t)code->co_firstlineno;
    if (d->file && d->name) {
        size_t bytes = sizeof(struct ft_side_pyblock) + (size_t)PyBytes_GET_SIZE(d->file) +
                       (size_t)PyBytes_GET_SIZE(d->name);
        id = ft_writer_append(bytes, &last_block_id, fill_block, d);
    } else {
        PyErr_Clear();
    }
    Py_XDECREF(d->file);
    Py_XDECREF(d->name);
    return id && keep_fact(id, d) ? id : 0;
}

static uint32_t block_at(PyCodeObject *code, struct code_table *table, uint32_t unit)
{
    if (table->unit[unit].block)
        return table->unit[unit].block;
    struct description d = {.code_id = table->code_id, .offset_bytes = 2 * unit, .line = table->unit[unit].line};
    for (uint32_t i = unit; i < table->n_units && table->unit[i].line == d.line; i++)
        d.n_instructions += table->unit[i].is_instruction;
    return table->unit[unit].block = describe(code, &d);
}

static uint32_t entry_block(PyCodeObject *code, struct code_table *table, uint32_t unit)
{
    if (table->entry_block)
        return table->entry_block;
    struct description d = {.code_id = table->code_id, .line = code->co_firstlineno};
    for (uint32_t i = 0; i <= unit; i++)
        d.n_instructions += table->unit[i].is_instruction;
    return table->entry_block = describe(code, &d);
}

/* The block that a frame stopped at `unit` is in, as far as the place alone tells: the last one of this line that
 * starts at or before it. */
static uint32_t block_around(PyCodeObject *code, struct code_table *table, uint32_t unit)
{
    uint32_t first = unit;
    for (;; first--) {
        if (table->unit[first].block)
            return table->unit[first].block;
        if (first == 0 || table->unit[first - 1].line != table->unit[unit].line || table->unit[first - 1].is_start)
            return block_at(code, table, first);
    }
}

static uint32_t resumption_of(PyCodeObject *code, const struct code_table *table, uint32_t block)
{
    if (!block || facts[block].code_id != table->code_id)
        return 0;
    if (!facts[block].resumption) {
        struct description d = {.code_id = table->code_id, .offset_bytes = facts[block].offset_bytes,
                                .line = facts[block].line};
        uint32_t id = describe(code, &d);
        facts[block].resumption = id;
    }
    return facts[block].resumption;
}

static bool unit_of(PyFrameObject *frame, const struct code_table *table, uint32_t *unit)
{
    int last = PyFrame_GetLasti(frame);
    *unit = (uint32_t)last / 2;
    return last >= 0 && *unit < table->n_units;
}

/* Works out from the frames alone what the thread's stack tells while we trace. */
static uint32_t charged_by_frames(void)
{
    PyFrameObject *frame = (PyFrameObject *)Py_XNewRef(PyEval_GetFrame());
    uint32_t id = 0;
    bool found = false;
    while (frame && !found) {
        PyCodeObject *code = PyFrame_GetCode(frame);
        struct code_table *table = table_of(code);
        PyFrameObject *back = PyFrame_GetBack(frame);
        uint32_t unit;
        if (table && unit_of(frame, table, &unit) && (!id || !table->is_library))
            id = block_around(code, table, unit);
        found = table && !table->is_library;
        Py_DECREF(code);
        Py_DECREF(frame);
        frame = back;
    }
    Py_XDECREF(frame);
    return id;
}

uint32_t agent_charged_block(void)
{
    return agent_thread.charged ? agent_thread.charged : charged_by_frames();
}

uint32_t agent_charged_site(void)
{
    int last = agent_thread.charged_frame ? PyFrame_GetLasti(agent_thread.charged_frame) : 0;
    return last < 0 ? 0 : (uint32_t)last;
}

/* ---- events ----------------------------------------------------------------------------------------------------- */

/* The innermost frame is now in `block`. */
static void enter_block(struct agent_frame *top, const struct code_table *table, uint32_t block)
{
    top->block = block;
    if (!table->is_library || !top->charged) {
        top->charged = block;
        top->charged_frame = top->frame;
    }
    agent_thread.charged = top->charged;
    agent_thread.charged_frame = top->charged_frame;
}

/* Drops frames from the top until `n` are left. */
static void drop_frames(uint32_t n)
{
    struct agent_thread *t = &agent_thread;
    while (t->n_frames > n) {
        struct agent_frame *top = &t->frames[--t->n_frames];
        Py_DECREF((PyObject *)top->frame);
    }
    t->charged = n ? t->frames[n - 1].charged : 0;
    t->charged_frame = n ? t->frames[n - 1].charged_frame : NULL;
}

static void push_frame(PyFrameObject *frame, const struct code_table *table, uint32_t block)
{
    struct agent_thread *t = &agent_thread;
    if (t->n_frames == t->frames_capacity) {
        uint32_t capacity = t->frames_capacity ? 2 * t->frames_capacity : 64;
        struct agent_frame *grown = realloc(t->frames, capacity * sizeof *grown);
        if (!grown)
            return;
        t->frames = grown;
        t->frames_capacity = capacity;
    }
    struct agent_frame *top = &t->frames[t->n_frames];
    *top = (struct agent_frame){.frame = Py_NewRef(frame)};
    if (t->n_frames) {
        top->charged = top[-1].charged;
        top->charged_frame = top[-1].charged_frame;
    }
    t->n_frames++;
    enter_block(top, table, block);
}

static void on_line(PyFrameObject *frame, PyCodeObject *code, struct code_table *table)
{
    struct agent_thread *t = &agent_thread;
    uint32_t unit;
    if (!unit_of(frame, table, &unit))
        return;
    uint32_t id = table->unit[unit].block;
    if (__builtin_expect(!id, 0))
        id = block_at(code, table, unit);
    if (t->n_frames)
        enter_block(&t->frames[t->n_frames - 1], table, id);
    else
        t->charged = id;
    write_block(id);
}

static void on_call(PyFrameObject *frame, PyCodeObject *code, struct code_table *table)
{
    uint32_t unit, id;
    if (!unit_of(frame, table, &unit))
        unit = 0;
    if (unit == 0 || table->unit[unit].is_start) {
        id = entry_block(code, table, unit);
        push_frame(frame, table, id);
        write_block(id);
    } else {
        id = block_around(code, table, unit);
        push_frame(frame, table, id);
        write_block(resumption_of(code, table, id));
    }
}

static void resume_caller(PyFrameObject *callee, uint32_t block)
{
    PyFrameObject *frame = PyFrame_GetBack(callee);
    if (!frame)
        return;
    PyCodeObject *code = PyFrame_GetCode(frame);
    struct code_table *table = table_of(code);
    if (table)
        write_block(resumption_of(code, table, block));
    Py_DECREF(code);
    Py_DECREF(frame);
}

static void on_return(PyFrameObject *frame)
{
    struct agent_thread *t = &agent_thread;
    uint32_t n = t->n_frames;
    while (n && t->frames[n - 1].frame != frame)
        n--;
    if (!n)
        return;
    drop_frames(n - 1);
    if (n > 1)
        resume_caller(frame, t->frames[n - 2].block);
}

static int on_event(PyObject *Py_UNUSED(self), PyFrameObject *frame, int what, PyObject *Py_UNUSED(argument))
{
    if (what != PyTrace_LINE && what != PyTrace_CALL && what != PyTrace_RETURN)
        return 0;
    PyCodeObject *code = PyFrame_GetCode(frame);
    struct code_table *table = table_of(code);
    if (table) {
        if (what == PyTrace_LINE)
            on_line(frame, code, table);
        else if (what == PyTrace_CALL)
            on_call(frame, code, table);
        else
            on_return(frame);
    }
    Py_DECREF(code);
    return 0;
}

bool agent_blocks_init(void)
{
    extra_index = REQUEST_EXTRA(free);
    if (extra_index < 0 || pthread_key_create(&thread_end, close_thread) != 0) {
        PyErr_SetString(PyExc_RuntimeError, "the interpreter has no room for a tracer");
        return false;
    }
    return true;
}

void agent_trace_thread(void)
{
    PyEval_SetTrace(on_event, NULL);
}

void agent_leave_blocks(void)
{
    drop_frames(0);
}
