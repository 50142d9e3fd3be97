/* Which memory NumPy's arrays have, and where the program allocated it.
 *
 * All of it comes from one table of functions, NumPy's default handler (NEP 49, NumPy 1.22), whose entries are replaced
 * in place: arrays that are there already are released through it as well, and every thread uses it. The memory that
 * one place of the program allocates is one object of the stream. A place is an instruction of the innermost frame
 * whose code is followed, and no library's; where that frame returns the array at once, it is its caller's instruction.
 *
 * `sites` is an open-addressing table, at most half full, of which nothing is removed. The GIL guards it.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <opcode.h>

#include "numpy.h"
#include "tracer/python/blocks/code.h"
#include "tracer/python/blocks/frames.h"

#include <stdlib.h>
#include <string.h>

#define KIND_ARRAY 4u /* ObjectKind of tracer/signature/data_flow_records.py */
#define MAX_SITES (4 * FT_MAX_OBJECTS) /* a power of two */
#define LEAST_BYTES 64u /* of an array whose place is told; numbers that take part in array operations are arrays, too */
#define MAX_FRAMES 1000u /* that are looked at for one of the program's */
#define DEFAULT_HANDLER 306 /* entries of NumPy's table of functions: the handler, */
#define FEATURE_VERSION 211 /* and the function that says which version of it there is, */
#define LEAST_FEATURES 0xfu /* that of 1.22 */

/* NumPy's PyDataMem_Handler. */
struct handler {
    char name[127];
    uint8_t version;
    struct {
        void *context;
        void *(*malloc)(void *context, size_t size_bytes);
        void *(*calloc)(void *context, size_t number, size_t element_bytes);
        void *(*realloc)(void *context, void *memory, size_t size_bytes);
        void (*free)(void *context, void *memory, size_t size_bytes);
    } allocator;
};

struct site {
    uint32_t code, unit; /* code ids count from 1; 0: free */
    uint32_t object;     /* 0: there is no room */
    bool returns;        /* what is allocated here is the frame's result */
};

static struct handler original;
static struct site sites[MAX_SITES];
static uint32_t num_sites, num_objects, common_object;

/* ---- places ----------------------------------------------------------------------------------------------------- */

/* Where a frame of the program is. */
struct place {
    PyCodeObject *code; /* that runs: the program's own, or that with markers in it */
    struct code_table *table;
    uint32_t at, unit; /* of that code, and of the program's own */
};

/* False if the frame is none of the program's. */
static bool find_place(const _PyInterpreterFrame *frame, struct place *place)
{
    PyObject *code = AGENT_FRAME_CODE(frame);
    if (!code || !PyCode_Check(code))
        return false;
    place->code = (PyCodeObject *)code;
    const struct code_table *table = place->table = code_table_if_any(place->code);
    if (!table || !table->n_units || table->is_library)
        return false;
    const int64_t at = AGENT_FRAME_UNIT(frame) - _PyCode_CODE(place->code);
    if (at < 0 || at >= (table->origin ? table->n_origins : table->n_units))
        return false;
    place->at = (uint32_t)at;
    place->unit = table->origin ? table->origin[at] : place->at;
    return place->unit < table->n_units;
}

/* Lines and columns of the expression there, as in struct ft_side_object; 0 if they are not known. */
static uint32_t extent_of(const struct place *place)
{
    int line, column, end_line, end_column;
    if (!PyCode_Addr2Location(place->code, (int)(2 * place->at), &line, &column, &end_line, &end_column) || line < 0 ||
        column < 0 || end_line < line || end_column < 0 || end_line - line > 0xff || column > 0xfff ||
        end_column > 0xfff)
        return 0;
    return (uint32_t)(end_line - line) << 24 | (uint32_t)column << 12 | (uint32_t)end_column;
}

/* Whether the frame returns what the instruction there leaves: the next one of the program's own, markers apart. */
static bool returns_there(const struct place *place)
{
    PyObject *bytecode = PyCode_GetCode(place->code);
    bool returns = false;
    if (bytecode) {
        const unsigned char *code = (const unsigned char *)PyBytes_AS_STRING(bytecode);
        const uint32_t *origin = place->table->origin;
        const uint32_t end = (uint32_t)(PyBytes_GET_SIZE(bytecode) / 2);
        uint32_t next = place->at + 1;
        while (next < end && (code[2 * next] == CACHE || (origin && origin[next] == place->unit)))
            next++;
        while (origin && next + 1 < end && origin[next + 1] == origin[next])
            next++;
        returns = next < end && code[2 * next] == RETURN_VALUE;
        Py_DECREF(bytecode);
    }
    PyErr_Clear();
    return returns;
}

static void fill_object(void *memory, uint32_t number, void *context)
{
    struct ft_side_object *entry = memory;
    entry->entry.kind = FT_SIDE_OBJECT;
    entry->object_id = number;
    entry->kind = KIND_ARRAY;
    entry->site = *(const uint64_t *)context;
    entry->name_bytes = 0;
}

static uint32_t new_object(uint64_t site)
{
    return num_objects < FT_MAX_OBJECTS
               ? ft_writer_append(sizeof(struct ft_side_object), &num_objects, fill_object, &site)
               : 0;
}

/* The object of arrays whose place is not known, and of small ones. */
static uint32_t object_of_others(void)
{
    if (!common_object)
        common_object = new_object(0);
    return common_object;
}

static struct site *site_at(const struct place *place)
{
    const uint32_t code = place->table->code_id, unit = place->unit;
    const uint64_t hash = ((uint64_t)code << 32 | unit) * UINT64_C(0x9e3779b97f4a7c15) >> 32;
    uint32_t i = (uint32_t)hash % MAX_SITES;
    while (sites[i].code && (sites[i].code != code || sites[i].unit != unit))
        i = (i + 1) % MAX_SITES;
    if (sites[i].code)
        return &sites[i];
    if (2 * num_sites >= MAX_SITES)
        return NULL;
    sites[i] = (struct site){code, unit, 0, returns_there(place)};
    num_sites++;
    return &sites[i];
}

/* The object that memory belongs to which is allocated now; 0 if there is no room. */
static uint32_t object_here(void)
{
    const _PyInterpreterFrame *frame = agent_interpreter_frame();
    struct place place = {0}, found = {0};
    struct site *site = NULL;
    for (uint32_t i = 0; frame && i < MAX_FRAMES; i++, frame = agent_caller(frame)) {
        if (!find_place(frame, &place))
            continue;
        struct site *here = site_at(&place);
        if (!here)
            break;
        site = here;
        found = place;
        if (!site->returns)
            break;
    }
    if (site && !site->object) {
        const uint64_t block = code_block_around(found.code, found.table, found.unit);
        site->object = block ? new_object(block << 32 | extent_of(&found)) : 0;
    }
    return site && site->object ? site->object : object_of_others();
}

/* ---- what is told ----------------------------------------------------------------------------------------------- */

/* Whether this thread's memory is told of: not before it has run anything that is followed. */
static bool is_told(void)
{
    return agent_thread.cursor && ft_writer_header()->follows_memory && PyGILState_Check();
}

static void tell(enum ft_memory kind, uint64_t address, size_t size_bytes, uint32_t object)
{
    if (address > FT_ADDRESS_MASK || size_bytes > FT_ADDRESS_MASK)
        return;
    ft_write_begin(agent_thread.cursor, 2);
    agent_thread.cursor->next[0] = (uint64_t)FT_TAG_MEMORY << FT_TAG_SHIFT | (uint64_t)kind << FT_SIZE_SHIFT | address;
    agent_thread.cursor->next[1] = (uint64_t)object << FT_SIZE_SHIFT | size_bytes;
    agent_thread.cursor->next += 2;
}

static void tell_allocated(const void *memory, size_t size_bytes)
{
    if (!memory || !size_bytes || !is_told())
        return;
    const uint32_t object = size_bytes < LEAST_BYTES ? object_of_others() : object_here();
    if (object)
        tell(FT_MEMORY_ALLOCATED, (uintptr_t)memory, size_bytes, object);
}

static void *hooked_malloc(void *context, size_t size_bytes)
{
    void *memory = original.allocator.malloc(context, size_bytes);
    tell_allocated(memory, size_bytes);
    return memory;
}

static void *hooked_calloc(void *context, size_t number, size_t element_bytes)
{
    void *memory = original.allocator.calloc(context, number, element_bytes);
    tell_allocated(memory, number * element_bytes); /* it would have failed if that were too large */
    return memory;
}

/* The C library copies what moves: it reads as if it came from outside. */
static void *hooked_realloc(void *context, void *memory, size_t size_bytes)
{
    const uint64_t before = (uintptr_t)memory;
    void *result = original.allocator.realloc(context, memory, size_bytes);
    if (result && before && (uintptr_t)result != before && is_told())
        tell(FT_MEMORY_RELEASED, before, 0, 0);
    tell_allocated(result, size_bytes);
    return result;
}

static void hooked_free(void *context, void *memory, size_t size_bytes)
{
    if (memory && size_bytes && is_told())
        tell(FT_MEMORY_RELEASED, (uintptr_t)memory, size_bytes, 0);
    original.allocator.free(context, memory, size_bytes);
}

/* ---- installation ----------------------------------------------------------------------------------------------- */

void allocations_install(PyObject *module)
{
    PyObject *capsule = PyObject_GetAttrString(module, "_ARRAY_API");
    void **table =
        capsule && PyCapsule_CheckExact(capsule) ? PyCapsule_GetPointer(capsule, PyCapsule_GetName(capsule)) : NULL;
    Py_XDECREF(capsule); /* the module keeps it */
    PyErr_Clear();
    unsigned int (*version)(void) = NULL;
    if (table)
        memcpy(&version, &table[FEATURE_VERSION], sizeof version);
    if (!version || version() < LEAST_FEATURES || !table[DEFAULT_HANDLER])
        return;
    PyObject *handler = *(PyObject **)table[DEFAULT_HANDLER];
    struct handler *found =
        handler && PyCapsule_IsValid(handler, "mem_handler") ? PyCapsule_GetPointer(handler, "mem_handler") : NULL;
    if (!found || strcmp(found->name, "default_allocator") != 0 || found->version != 1)
        return;
    original = *found;
    found->allocator.malloc = hooked_malloc;
    found->allocator.calloc = hooked_calloc;
    found->allocator.realloc = hooked_realloc;
    found->allocator.free = hooked_free;
}
