/* Finds blocks in bytecode and puts markers into it. See bytecode.h.
 *
 * Bytecode is decoded into `instruction`s, those and the markers are laid out as `item`s, whose jumps refer to items;
 * then items get their addresses and are written, with the table of lines and the table of exceptions.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h> /* for its version */
#include <opcode.h>

#include "bytecode.h"

#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX
#define NO_LINE (-1)
#define NO_FALL INT32_MIN /* nothing falls through to it */

struct place { /* in the source; -1: not known */
    int32_t line, end_line, column, end_column;
};

struct instruction {
    uint8_t opcode, n_caches;
    uint32_t argument;
    uint32_t first_unit; /* with its prefixes */
    uint32_t target;     /* instruction, NONE if it does not jump */
    int32_t fall_line;   /* of the instruction that runs before when this one is fallen into */
    bool is_glued;       /* to the instruction before: nothing comes between */
    bool falls_into_block, is_entered_by_block, is_mixed;
    struct place place;
    uint32_t fall_item, block_item, plain_item;
};

struct item {
    uint8_t opcode, n_caches, n_prefixes;
    uint32_t argument;
    uint32_t target; /* item */
    uint32_t source; /* instruction that it is, or stands before */
    uint32_t address;
};

struct handler {
    uint32_t begin, end, target; /* instructions; `end` may be their number */
    uint32_t depth_and_lasti;
};

struct editor {
    const struct bytecode *source;
    struct instruction *instructions;
    uint32_t n_instructions, n_units;
    uint32_t *at_unit; /* instruction that a unit belongs to */
    struct handler *handlers;
    uint32_t n_handlers;
    struct item *items;
    uint32_t n_items, items_capacity;
    struct marker *markers;
    uint32_t n_markers, markers_capacity;
};

/* Makes room for one more element. */
static bool reserve(void **array, uint32_t *capacity, uint32_t used, size_t element_bytes)
{
    if (used < *capacity)
        return true;
    uint32_t bigger = *capacity ? 2 * *capacity : 64;
    void *grown = realloc(*array, bigger * element_bytes);
    if (!grown)
        return false;
    *array = grown;
    *capacity = bigger;
    return true;
}

/* ---- what instructions do --------------------------------------------------------------------------------------- */

/* 1: jumps forwards, -1: backwards, 0: does not jump */
static int jump_direction(uint8_t opcode)
{
    switch (opcode) {
    case JUMP_BACKWARD:
    case JUMP_BACKWARD_NO_INTERRUPT:
#if PY_VERSION_HEX < 0x030c0000
    case POP_JUMP_BACKWARD_IF_FALSE:
    case POP_JUMP_BACKWARD_IF_NONE:
    case POP_JUMP_BACKWARD_IF_NOT_NONE:
    case POP_JUMP_BACKWARD_IF_TRUE:
#endif
        return -1;
    case FOR_ITER:
    case JUMP_FORWARD:
    case SEND:
#if PY_VERSION_HEX < 0x030c0000
    case JUMP_IF_FALSE_OR_POP:
    case JUMP_IF_TRUE_OR_POP:
    case POP_JUMP_FORWARD_IF_FALSE:
    case POP_JUMP_FORWARD_IF_NONE:
    case POP_JUMP_FORWARD_IF_NOT_NONE:
    case POP_JUMP_FORWARD_IF_TRUE:
#else
    case POP_JUMP_IF_FALSE:
    case POP_JUMP_IF_NONE:
    case POP_JUMP_IF_NOT_NONE:
    case POP_JUMP_IF_TRUE:
#endif
        return 1;
    default: return 0;
    }
}

static bool falls_through(uint8_t opcode)
{
    switch (opcode) {
    case JUMP_BACKWARD:
    case JUMP_BACKWARD_NO_INTERRUPT:
    case JUMP_FORWARD:
    case RAISE_VARARGS:
    case RERAISE:
    case RETURN_VALUE:
#if PY_VERSION_HEX >= 0x030c0000
    case RETURN_CONST:
#endif
        return false;
    default: return true;
    }
}

/* Units behind the target of FOR_ITER that the interpreter skips when the iterator ends. */
static uint32_t n_skipped_at_end(void)
{
    return PY_VERSION_HEX >= 0x030d0000 ? 2 : PY_VERSION_HEX >= 0x030c0000 ? 1 : 0;
}

static uint32_t observer_of(uint8_t opcode)
{
    switch (opcode) {
#if PY_VERSION_HEX >= 0x030c0000
    case BINARY_SLICE: return MARKER_LOAD | MARKER_SLICE;
    case STORE_SLICE: return MARKER_STORE | MARKER_SLICE;
#endif
    case BINARY_SUBSCR: return MARKER_LOAD;
    case STORE_SUBSCR: return MARKER_STORE;
    case DELETE_SUBSCR: return MARKER_DELETE;
    case RETURN_VALUE:
#if PY_VERSION_HEX >= 0x030c0000
    case RETURN_CONST:
#endif
        return MARKER_RETURN;
    default: return 0;
    }
}

static bool is_entry(const struct instruction *instruction)
{
    return instruction->opcode == RESUME && (instruction->argument & 3) == 0;
}

/* ---- decoding --------------------------------------------------------------------------------------------------- */

static bool decode_instructions(struct editor *e)
{
    const uint8_t *code = e->source->code;
    e->n_units = (uint32_t)(e->source->code_bytes / 2);
    e->instructions = calloc(e->n_units + 1, sizeof *e->instructions);
    e->at_unit = calloc(e->n_units + 1, sizeof *e->at_unit);
    if (!e->instructions || !e->at_unit)
        return false;
    for (uint32_t unit = 0; unit < e->n_units;) {
        struct instruction *next = &e->instructions[e->n_instructions];
        *next = (struct instruction){.first_unit = unit, .target = NONE, .fall_item = NONE};
        for (; code[2 * unit] == EXTENDED_ARG && unit + 1 < e->n_units; unit++)
            next->argument = (next->argument | code[2 * unit + 1]) << 8;
        next->opcode = code[2 * unit];
        next->argument |= code[2 * unit + 1];
        for (unit++; unit < e->n_units && code[2 * unit] == CACHE; unit++)
            next->n_caches++;
        for (uint32_t u = next->first_unit; u < unit; u++)
            e->at_unit[u] = e->n_instructions;
        e->n_instructions++;
    }
    e->at_unit[e->n_units] = e->n_instructions;
    return e->n_instructions > 0;
}

static bool resolve_jumps(struct editor *e)
{
    for (uint32_t i = 0; i < e->n_instructions; i++) {
        struct instruction *at = &e->instructions[i];
        int direction = jump_direction(at->opcode);
        uint32_t end = i + 1 < e->n_instructions ? at[1].first_unit : e->n_units;
        int64_t unit = (int64_t)end + direction * (int64_t)at->argument;
        if (!direction)
            continue;
        if (unit < 0 || unit >= e->n_units)
            return false;
        at->target = e->at_unit[unit];
        if (e->instructions[at->target].first_unit != (uint32_t)unit)
            return false;
    }
    return true;
}

/* Variable-length numbers of the line table: six bits a byte, lowest first. */
static const uint8_t *read_varint(const uint8_t *p, const uint8_t *end, uint32_t *value)
{
    uint32_t shift = 0;
    *value = 0;
    do {
        if (p == end || shift > 30)
            return NULL;
        *value |= (uint32_t)(*p & 63) << shift;
        shift += 6;
    } while (*p++ & 64);
    return p;
}

static const uint8_t *read_signed(const uint8_t *p, const uint8_t *end, int32_t *value)
{
    uint32_t bits;
    p = read_varint(p, end, &bits);
    *value = bits & 1 ? -(int32_t)(bits >> 1) : (int32_t)(bits >> 1);
    return p;
}

/* The place an entry of the line table gives, after its first byte; `*line` is carried from entry to entry. */
static const uint8_t *read_place(const uint8_t *p, const uint8_t *end, uint32_t code, int32_t *line,
                                 struct place *place)
{
    int32_t line_delta = 0;
    uint32_t end_delta = 0, column = 0, end_column = 0; /* columns plus 1 */
    if (code == 15) {
        *place = (struct place){NO_LINE, NO_LINE, -1, -1};
        return p;
    }
    if (code == 14) {
        p = read_signed(p, end, &line_delta);
        p = p ? read_varint(p, end, &end_delta) : NULL;
        p = p ? read_varint(p, end, &column) : NULL;
        p = p ? read_varint(p, end, &end_column) : NULL;
    } else if (code == 13) {
        p = read_signed(p, end, &line_delta);
    } else if (code >= 10) {
        line_delta = (int32_t)code - 10;
        column = end - p >= 2 ? p[0] + 1u : 0;
        end_column = end - p >= 2 ? p[1] + 1u : 0;
        p = end - p >= 2 ? p + 2 : NULL;
    } else {
        column = p < end ? code << 3 | (*p >> 4 & 7) : 0;
        end_column = p < end ? column + (*p & 15) + 1 : 0;
        column++;
        p = p < end ? p + 1 : NULL;
    }
    *line += line_delta;
    *place = (struct place){*line, *line + (int32_t)end_delta, (int32_t)column - 1, (int32_t)end_column - 1};
    return p;
}

static bool decode_places(struct editor *e)
{
    const uint8_t *p = e->source->lines, *end = p + e->source->lines_bytes;
    int32_t line = e->source->first_line;
    uint32_t unit = 0;
    for (uint32_t i = 0; i < e->n_instructions; i++)
        e->instructions[i].place = (struct place){NO_LINE, NO_LINE, -1, -1};
    while (p && p < end && unit < e->n_units) {
        uint32_t code = *p >> 3 & 15, length = (*p & 7u) + 1;
        struct place place;
        p = read_place(p + 1, end, code, &line, &place);
        for (; length && unit < e->n_units; length--, unit++)
            if (e->instructions[e->at_unit[unit]].first_unit == unit)
                e->instructions[e->at_unit[unit]].place = place;
    }
    return p != NULL;
}

/* Numbers of the exception table: six bits a byte, highest first. */
static const uint8_t *read_big_varint(const uint8_t *p, const uint8_t *end, uint32_t *value)
{
    *value = 0;
    for (int i = 0; i < 6 && p < end; i++) {
        *value = *value << 6 | (*p & 63);
        if (!(*p++ & 64))
            return p;
    }
    return NULL;
}

static bool decode_handlers(struct editor *e)
{
    const uint8_t *p = e->source->exceptions, *end = p + e->source->exceptions_bytes;
    uint32_t capacity = 0;
    while (p < end) {
        uint32_t begin, length, target, depth;
        p = read_big_varint(p, end, &begin);
        p = p ? read_big_varint(p, end, &length) : NULL;
        p = p ? read_big_varint(p, end, &target) : NULL;
        p = p ? read_big_varint(p, end, &depth) : NULL;
        if (!p || begin > e->n_units || length > e->n_units - begin || target >= e->n_units)
            return false;
        if (!reserve((void **)&e->handlers, &capacity, e->n_handlers, sizeof *e->handlers))
            return false;
        e->handlers[e->n_handlers++] =
            (struct handler){e->at_unit[begin], e->at_unit[begin + length], e->at_unit[target], depth};
    }
    return true;
}

/* ---- blocks ----------------------------------------------------------------------------------------------------- */

static bool starts_block_by_fall(const struct editor *e, uint32_t i)
{
    const struct instruction *at = &e->instructions[i];
    if (at->fall_line == NO_FALL || at->place.line == NO_LINE)
        return false;
    return at->fall_line != at->place.line || (i > 0 && is_entry(&at[-1]));
}

static bool starts_block_by_jump(const struct editor *e, uint32_t from)
{
    const struct instruction *source = &e->instructions[from], *target = &e->instructions[source->target];
    if (target->place.line == NO_LINE)
        return false;
    bool is_backward = source->target <= from && source->opcode != JUMP_BACKWARD_NO_INTERRUPT;
    return is_backward || source->place.line != target->place.line;
}

/* 1: an exception on its way to the handler comes from other lines only, 0: from its line only, -1: from both */
static int starts_block_by_exception(const struct editor *e, const struct handler *handler)
{
    const int32_t line = e->instructions[handler->target].place.line;
    bool same = false, other = false;
    for (uint32_t i = handler->begin; i < handler->end; i++) {
        same |= e->instructions[i].place.line == line;
        other |= e->instructions[i].place.line != line;
    }
    return line == NO_LINE || !other ? 0 : same ? -1 : 1;
}

static void find_falls(struct editor *e)
{
    for (uint32_t i = 0; i < e->n_instructions; i++) {
        struct instruction *at = &e->instructions[i];
        at->fall_line = i > 0 && falls_through(at[-1].opcode) ? at[-1].place.line : NO_FALL;
        at->is_glued = at->opcode == RESUME;
    }
    for (uint32_t i = 0; i < e->n_instructions; i++) { /* an ended FOR_ITER goes on behind its target */
        uint32_t target = e->instructions[i].target, behind = target + n_skipped_at_end();
        if (e->instructions[i].opcode != FOR_ITER || behind == target || behind >= e->n_instructions)
            continue;
        for (uint32_t k = target; k < behind; k++)
            e->instructions[k].is_glued = true;
        e->instructions[behind].fall_line = e->instructions[i].place.line;
    }
}

/* Whether the interpreter can report a line there at all: nothing counts before the function has begun. */
static void find_blocks(struct editor *e)
{
    uint32_t entry = 0;
    while (entry < e->n_instructions && !is_entry(&e->instructions[entry]))
        entry++;
    find_falls(e);
    for (uint32_t i = entry + 1; i < e->n_instructions; i++) {
        struct instruction *at = &e->instructions[i];
        at->falls_into_block = !at->is_glued && starts_block_by_fall(e, i);
        if (at->target != NONE && starts_block_by_jump(e, i))
            e->instructions[at->target].is_entered_by_block = !e->instructions[at->target].is_glued;
    }
    for (uint32_t i = 0; i < e->n_handlers; i++) {
        struct instruction *target = &e->instructions[e->handlers[i].target];
        int starts = starts_block_by_exception(e, &e->handlers[i]);
        target->is_entered_by_block |= starts > 0;
        target->is_mixed |= starts < 0;
    }
    for (uint32_t i = 0; i < e->n_instructions; i++)
        if (e->instructions[i].is_mixed)
            e->instructions[i].falls_into_block = e->instructions[i].is_entered_by_block = false;
}

static bool decode(struct editor *e)
{
    if (!decode_instructions(e) || !resolve_jumps(e) || !decode_places(e) || !decode_handlers(e))
        return false;
    find_blocks(e);
    return true;
}

static void close_editor(struct editor *e)
{
    free(e->instructions);
    free(e->at_unit);
    free(e->handlers);
    free(e->items);
    free(e->markers);
}

bool bytecode_find_starts(const struct bytecode *source, struct bytecode_unit *units)
{
    struct editor e = {.source = source};
    bool done = decode(&e);
    for (uint32_t i = 0; done && i < e.n_instructions; i++) {
        const struct instruction *at = &e.instructions[i],
                                 *target = at->target <= i ? &e.instructions[at->target] : NULL;
        units[at->first_unit].starts_block = at->falls_into_block || at->is_entered_by_block;
        if (target && at->opcode != JUMP_BACKWARD_NO_INTERRUPT && target->place.line == at->place.line)
            units[at->first_unit].same_line_loop = target->first_unit;
    }
    close_editor(&e);
    return done;
}

/* ---- items ------------------------------------------------------------------------------------------------------ */

static uint8_t prefixes_for(uint32_t argument)
{
    return argument > 0xffffff ? 3 : argument > 0xffff ? 2 : argument > 0xff ? 1 : 0;
}

static bool add_item(struct editor *e, uint32_t source, uint8_t opcode, uint32_t argument, uint8_t n_caches)
{
    if (!reserve((void **)&e->items, &e->items_capacity, e->n_items, sizeof *e->items))
        return false;
    e->items[e->n_items++] = (struct item){.opcode = opcode,
                                           .n_caches = n_caches,
                                           .argument = argument,
                                           .n_prefixes = prefixes_for(argument),
                                           .target = NONE,
                                           .source = source};
    return true;
}

/* What hands control to a marker: whether it is true, or its inverse, is its to say. The first is an instruction
 * shorter; where the interpreter tells of branches, it would tell of these. */
static bool add_marker(struct editor *e, uint32_t source, uint32_t kind)
{
    if (!reserve((void **)&e->markers, &e->markers_capacity, e->n_markers, sizeof *e->markers))
        return false;
    const uint32_t constant = e->source->n_constants + e->n_markers;
    e->markers[e->n_markers++] = (struct marker){kind, e->instructions[source].first_unit};
#if PY_VERSION_HEX < 0x030c0000
    return add_item(e, source, LOAD_CONST, constant, 0) && add_item(e, source, POP_JUMP_FORWARD_IF_FALSE, 0, 0);
#else
    return add_item(e, source, LOAD_CONST, constant, 0) && add_item(e, source, UNARY_INVERT, 0, 0) &&
           add_item(e, source, POP_TOP, 0, 0);
#endif
}

/* The markers in front of an instruction; see the picture in the header. */
static bool lay_out_markers(struct editor *e, uint32_t i)
{
    struct instruction *at = &e->instructions[i];
    const struct instruction *before = i ? at - 1 : NULL;
    uint32_t kind = at->falls_into_block ? MARKER_BLOCK : 0, jump = NONE;
    if (before && before->opcode == RESUME)
        kind |= is_entry(before) ? MARKER_ENTRY : MARKER_RESUME;
    at->fall_item = at->block_item = e->n_items;
    if (kind && !add_marker(e, i, kind))
        return false;
    if (at->is_entered_by_block && kind != MARKER_BLOCK) {
        jump = e->n_items;
        if (at->fall_line != NO_FALL && !add_item(e, i, JUMP_FORWARD, 0, 0))
            return false;
        at->block_item = e->n_items;
        if (!add_marker(e, i, MARKER_BLOCK))
            return false;
    }
    at->plain_item = e->n_items;
    if (jump != NONE && at->fall_line != NO_FALL)
        e->items[jump].target = at->plain_item;
    uint32_t observer = observer_of(at->opcode);
    return !observer || add_marker(e, i, observer);
}

/* Whether an item is the instruction that it stands for, not one put in front of it. */
static bool is_own(const struct editor *e, uint32_t item)
{
    return item + 1 == e->n_items || e->items[item + 1].source != e->items[item].source;
}

static bool lay_out(struct editor *e)
{
    for (uint32_t i = 0; i < e->n_instructions; i++) {
        struct instruction *at = &e->instructions[i];
        at->fall_item = at->block_item = at->plain_item = e->n_items;
        if (!at->is_glued && !lay_out_markers(e, i))
            return false;
        if (!add_item(e, i, at->opcode, at->argument, at->n_caches))
            return false;
        if (at->target != NONE)
            e->items[e->n_items - 1].target = at->target; /* an instruction, until all are laid out */
    }
    for (uint32_t k = 0; k < e->n_items; k++) {
        struct item *item = &e->items[k];
        const struct instruction *source = &e->instructions[item->source];
        if (is_own(e, k) && source->target != NONE) {
            const struct instruction *target = &e->instructions[source->target];
            bool starts = target->is_entered_by_block && starts_block_by_jump(e, item->source);
            item->target = starts ? target->block_item : target->plain_item;
        }
    }
    return true;
}

/* ---- addresses -------------------------------------------------------------------------------------------------- */

static uint32_t end_of(const struct item *item)
{
    return item->address + item->n_prefixes + 1u + item->n_caches;
}

/* Gives items their addresses; jumps get longer until all fit. Returns the number of units. */
static uint32_t assign_addresses(struct editor *e)
{
    uint32_t n_units = 0;
    for (bool changed = true; changed;) {
        changed = false;
        n_units = 0;
        for (uint32_t k = 0; k < e->n_items; k++) {
            e->items[k].address = n_units;
            n_units = end_of(&e->items[k]);
        }
        for (uint32_t k = 0; k < e->n_items; k++) {
            struct item *item = &e->items[k];
            if (item->target == NONE)
                continue;
            uint32_t from = end_of(item), to = e->items[item->target].address;
            item->argument = to > from ? to - from : from - to;
            if (prefixes_for(item->argument) > item->n_prefixes) {
                item->n_prefixes = prefixes_for(item->argument);
                changed = true;
            }
        }
    }
    return n_units;
}

static bool write_code(const struct editor *e, uint32_t n_units, struct marked_bytecode *marked)
{
    uint8_t *p = marked->code = calloc(n_units, 2);
    uint32_t *origin = marked->origin = calloc(n_units, sizeof *origin);
    bool *own = marked->is_own = calloc(n_units, sizeof *own);
    if (!p || !origin || !own)
        return false;
    marked->code_bytes = 2 * (size_t)n_units;
    for (uint32_t k = 0; k < e->n_items; k++) {
        const struct item *item = &e->items[k];
        for (int prefix = item->n_prefixes; prefix > 0; prefix--) {
            *p++ = EXTENDED_ARG;
            *p++ = (uint8_t)(item->argument >> 8 * prefix);
        }
        *p++ = item->opcode;
        *p++ = (uint8_t)item->argument;
        p += 2 * item->n_caches;
        for (uint32_t unit = item->address; unit < end_of(item); unit++) {
            *origin++ = e->instructions[item->source].first_unit;
            *own++ = is_own(e, k);
        }
    }
    return true;
}

/* ---- tables ----------------------------------------------------------------------------------------------------- */

static uint8_t *write_varint(uint8_t *p, uint32_t value)
{
    for (; value >= 64; value >>= 6)
        *p++ = (uint8_t)(64 | (value & 63));
    *p++ = (uint8_t)value;
    return p;
}

static uint8_t *write_signed(uint8_t *p, int32_t value)
{
    return write_varint(p, value < 0 ? (uint32_t)-value << 1 | 1 : (uint32_t)value << 1);
}

/* An entry for `length` units, at most 8. */
static uint8_t *write_place(uint8_t *p, uint32_t length, const struct place *place, int32_t *line)
{
    uint32_t code = place->line == NO_LINE ? 15 : place->column < 0 ? 13 : 14;
    *p++ = (uint8_t)(128 | code << 3 | (length - 1));
    if (code == 15)
        return p;
    p = write_signed(p, place->line - *line);
    *line = place->line;
    if (code == 14) {
        p = write_varint(p, (uint32_t)(place->end_line - place->line));
        p = write_varint(p, (uint32_t)(place->column + 1));
        p = write_varint(p, (uint32_t)(place->end_column + 1));
    }
    return p;
}

#define LONGEST_PLACE 25 /* a byte and four numbers of up to six */

static bool write_places(const struct editor *e, struct marked_bytecode *marked)
{
    uint32_t n_units = (uint32_t)(marked->code_bytes / 2);
    uint8_t *p = marked->lines = malloc((size_t)LONGEST_PLACE * (n_units + 1));
    int32_t line = e->source->first_line;
    if (!p)
        return false;
    for (uint32_t unit = 0; unit < n_units;) {
        uint32_t source = marked->origin[unit], length = 0;
        for (; unit < n_units && length < 8 && marked->origin[unit] == source; unit++)
            length++;
        p = write_place(p, length, &e->instructions[e->at_unit[source]].place, &line);
    }
    marked->lines_bytes = (size_t)(p - marked->lines);
    return true;
}

static uint8_t *write_big_varint(uint8_t *p, uint32_t value, uint8_t first)
{
    int shift = 0;
    while (shift < 30 && value >> (shift + 6))
        shift += 6;
    for (; shift >= 0; shift -= 6, first = 0)
        *p++ = (uint8_t)(first | (shift ? 64 : 0) | (value >> shift & 63));
    return p;
}

static bool write_handlers(const struct editor *e, struct marked_bytecode *marked)
{
    uint8_t *p = marked->exceptions = malloc(24 * (size_t)(e->n_handlers + 1));
    if (!p)
        return false;
    for (uint32_t i = 0; i < e->n_handlers; i++) {
        const struct handler *handler = &e->handlers[i];
        const struct instruction *target = &e->instructions[handler->target];
        bool starts = target->is_entered_by_block && starts_block_by_exception(e, handler) > 0;
        uint32_t begin = e->items[e->instructions[handler->begin].fall_item].address;
        uint32_t end = handler->end == e->n_instructions ? (uint32_t)(marked->code_bytes / 2)
                                                         : e->items[e->instructions[handler->end].fall_item].address;
        p = write_big_varint(p, begin, 128);
        p = write_big_varint(p, end - begin, 0);
        p = write_big_varint(p, e->items[starts ? target->block_item : target->plain_item].address, 0);
        p = write_big_varint(p, handler->depth_and_lasti, 0);
    }
    marked->exceptions_bytes = (size_t)(p - marked->exceptions);
    return true;
}

bool bytecode_mark(const struct bytecode *source, struct marked_bytecode *marked)
{
    struct editor e = {.source = source};
    *marked = (struct marked_bytecode){0};
    bool done = decode(&e) && lay_out(&e) && write_code(&e, assign_addresses(&e), marked) && write_places(&e, marked) &&
                write_handlers(&e, marked);
    if (done) {
        marked->markers = e.markers;
        marked->n_markers = e.n_markers;
        e.markers = NULL;
    } else {
        bytecode_release(marked);
    }
    close_editor(&e);
    return done;
}

void bytecode_release(struct marked_bytecode *marked)
{
    free(marked->code);
    free(marked->lines);
    free(marked->exceptions);
    free(marked->origin);
    free(marked->is_own);
    free(marked->markers);
    *marked = (struct marked_bytecode){0};
}
