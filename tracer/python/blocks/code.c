/* Code objects and their blocks. See code.h.
 *
 * `facts` tells of each block by id what a resumption of it needs.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <opcode.h>

#include "bytecode.h"
#include "code.h"

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

struct block_fact {
    uint32_t resumption[2]; /* block ids: after a call, and of a generator that goes on; 0: none so far */
    uint32_t code_id, offset_bytes;
    int32_t line;
    struct ft_side_pyblock *entry; /* in the side table */
    bool imports;
};

struct description { /* of a block that is to enter the side table */
    uint32_t code_id, offset_bytes, n_instructions, first_line;
    int32_t line;
    PyObject *file, *name; /* bytes */
    struct ft_side_pyblock *entry;
    bool imports, goes_on;
};

static Py_ssize_t extra_index;
static uint32_t last_block_id, last_code_id;
static struct block_fact *facts;
static uint32_t facts_capacity;

/* ---- code objects ----------------------------------------------------------------------------------------------- */

static void mark_units(struct code_table *table, const unsigned char *bytecode)
{
    for (uint32_t i = 0; i < table->n_units; i++) {
        unsigned char opcode = bytecode[2 * i];
        table->unit[i].line = NO_LINE;
        table->unit[i].is_instruction = opcode != CACHE && opcode != EXTENDED_ARG;
        table->unit[i].imports = opcode == IMPORT_NAME;
        table->unit[i].is_entry = opcode == RESUME && (bytecode[2 * i + 1] & 3) == 0;
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

PyObject *code_file(PyCodeObject *code)
{
    PyObject *file = PyUnicode_EncodeFSDefault(code->co_filename);
    if (!file)
        PyErr_Clear();
    return file;
}

static bool is_library(PyCodeObject *code)
{
    static const char *const packages[] = {"-packages/numpy/", "-packages/scipy/"};
    PyObject *file = code_file(code);
    bool found = false;
    for (size_t i = 0; file && i < sizeof packages / sizeof *packages; i++)
        found = found || strstr(PyBytes_AS_STRING(file), packages[i]);
    Py_XDECREF(file);
    return found;
}

/* Where blocks start. Bytecode that is not understood starts them wherever a line is reported. */
static bool mark_starts(struct code_table *table, PyCodeObject *code, PyObject *bytecode)
{
    struct bytecode_unit *units = calloc(table->n_units, sizeof *units);
    const struct bytecode source = {
        .code = (const uint8_t *)PyBytes_AS_STRING(bytecode),
        .code_bytes = (size_t)PyBytes_GET_SIZE(bytecode),
        .lines = (const uint8_t *)PyBytes_AS_STRING(code->co_linetable),
        .lines_bytes = (size_t)PyBytes_GET_SIZE(code->co_linetable),
        .exceptions = (const uint8_t *)PyBytes_AS_STRING(code->co_exceptiontable),
        .exceptions_bytes = (size_t)PyBytes_GET_SIZE(code->co_exceptiontable),
        .first_line = code->co_firstlineno,
    };
    if (!units)
        return false;
    bool understood = bytecode_find_starts(&source, units);
    for (uint32_t unit = 0; unit < table->n_units; unit++) {
        table->unit[unit].starts_block = !understood || units[unit].starts_block;
        table->unit[unit].same_line_loop = understood ? units[unit].same_line_loop : 0;
    }
    free(units);
    return true;
}

/* The table of what is in a code object, not yet tied to it. */
static struct code_table *new_table(PyCodeObject *code)
{
    PyObject *bytecode = PyCode_GetCode(code);
    if (!bytecode)
        return NULL;
    uint32_t n = (uint32_t)(PyBytes_GET_SIZE(bytecode) / 2);
    struct code_table *table = calloc(1, sizeof *table + n * sizeof *table->unit);
    if (table) {
        table->n_references = 1;
        table->n_units = n;
        mark_units(table, (const unsigned char *)PyBytes_AS_STRING(bytecode));
        table->code_id = last_code_id + 1;
        table->is_library = is_library(code);
        if (!mark_lines(table, (PyObject *)code) || !mark_starts(table, code, bytecode)) {
            free(table);
            table = NULL;
        } else {
            last_code_id++;
        }
    }
    Py_DECREF(bytecode);
    PyErr_Clear();
    return table;
}

/* Of a pair the one that goes first takes its leave of the other. */
static void separate(struct code_table *table)
{
    struct code_table *other;
    if (table->marked && (other = code_table_if_any((PyCodeObject *)table->marked)))
        other->original = NULL;
    if (table->original && (other = code_table_if_any((PyCodeObject *)table->original)))
        other->marked = NULL;
    if (table->holds_marked)
        Py_CLEAR(table->marked);
    if (table->holds_original)
        Py_CLEAR(table->original);
    table->marked = table->original = NULL;
}

void code_release(struct code_table *table)
{
    if (--table->n_references == 0) {
        free(table->origin);
        free(table->is_own);
        free(table);
    }
}

/* A code object goes. */
static void close_table(void *memory)
{
    separate(memory);
    code_release(memory);
}

bool code_init(void)
{
    extra_index = REQUEST_EXTRA(close_table);
    return extra_index >= 0;
}

struct code_table *code_table_if_any(PyCodeObject *code)
{
    void *table = NULL;
    return GET_EXTRA((PyObject *)code, extra_index, &table) == 0 ? table : NULL;
}

static struct code_table *tie(PyCodeObject *code, struct code_table *table)
{
    if (table && SET_EXTRA((PyObject *)code, extra_index, table) != 0) {
        PyErr_Clear();
        free(table);
        return NULL;
    }
    return table;
}

struct code_table *code_table_of(PyCodeObject *code)
{
    struct code_table *table = code_table_if_any(code);
    return table ? table : tie(code, new_table(code));
}

struct code_table *code_add_marked(PyCodeObject *code, PyCodeObject *original, bool holds_original)
{
    struct code_table *table = tie(code, new_table(original));
    if (table) {
        table->original = holds_original ? Py_NewRef(original) : (PyObject *)original;
        table->holds_original = holds_original;
    }
    return table;
}

void code_set_marked(PyCodeObject *original, PyCodeObject *marked, bool holds_marked)
{
    struct code_table *table = code_table_if_any(original);
    if (!table && (table = calloc(1, sizeof *table))) {
        table->n_references = 1;
        table = tie(original, table);
    }
    if (table) {
        table->marked = holds_marked ? Py_NewRef(marked) : (PyObject *)marked;
        table->holds_marked = holds_marked;
    }
}

/* ---- describing blocks ------------------------------------------------------------------------------------------ */

static void fill_block(void *memory, uint32_t number, void *context)
{
    struct description *d = context;
    struct ft_side_pyblock *entry = d->entry = memory;
    entry->entry.kind = FT_SIDE_PYBLOCK;
    entry->block_id = number;
    entry->code_id = d->code_id;
    entry->line = d->line < 0 ? 0 : (uint32_t)d->line;
    entry->first_line = d->first_line;
    entry->offset_bytes = d->offset_bytes;
    entry->n_instructions = d->n_instructions;
    entry->goes_on = d->goes_on;
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
    facts[id] = (struct block_fact){{0, 0}, d->code_id, d->offset_bytes, d->line, d->entry, d->imports};
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
        size_t bytes =
            sizeof(struct ft_side_pyblock) + (size_t)PyBytes_GET_SIZE(d->file) + (size_t)PyBytes_GET_SIZE(d->name);
        id = ft_writer_append(bytes, &last_block_id, fill_block, d);
    } else {
        PyErr_Clear();
    }
    Py_XDECREF(d->file);
    Py_XDECREF(d->name);
    return id && keep_fact(id, d) ? id : 0;
}

uint32_t code_block_at(PyCodeObject *code, struct code_table *table, uint32_t unit)
{
    if (table->unit[unit].block)
        return table->unit[unit].block;
    struct description d = {.code_id = table->code_id, .offset_bytes = 2 * unit, .line = table->unit[unit].line};
    for (uint32_t i = unit; i < table->n_units && table->unit[i].line == d.line; i++) {
        d.n_instructions += table->unit[i].is_instruction;
        d.imports |= table->unit[i].imports;
    }
    return table->unit[unit].block = describe(code, &d);
}

uint32_t code_entry_block(PyCodeObject *code, struct code_table *table, uint32_t unit)
{
    if (table->entry_block)
        return table->entry_block;
    struct description d = {.code_id = table->code_id, .line = code->co_firstlineno};
    for (uint32_t i = 0; i <= unit; i++)
        d.n_instructions += table->unit[i].is_instruction;
    return table->entry_block = describe(code, &d);
}

uint32_t code_block_around(PyCodeObject *code, struct code_table *table, uint32_t unit)
{
    uint32_t first = unit;
    for (;; first--) {
        if (table->unit[first].block)
            return table->unit[first].block;
        if (first == 0 || table->unit[first - 1].line != table->unit[unit].line || table->unit[first - 1].is_entry)
            return code_block_at(code, table, first);
    }
}

uint32_t code_resumption_of(PyCodeObject *code, const struct code_table *table, uint32_t block, bool goes_on)
{
    if (!block || facts[block].code_id != table->code_id)
        return 0;
    if (!facts[block].resumption[goes_on]) {
        struct description d = {.code_id = table->code_id,
                                .offset_bytes = facts[block].offset_bytes,
                                .line = facts[block].line,
                                .goes_on = goes_on};
        uint32_t id = describe(code, &d);
        facts[block].resumption[goes_on] = id;
    }
    return facts[block].resumption[goes_on];
}

uint32_t code_known_resumption(uint32_t block)
{
    return block ? facts[block].resumption[0] : 0;
}

struct ft_side_pyblock *code_timed_block(uint32_t block)
{
    return facts[block].imports ? NULL : facts[block].entry;
}
