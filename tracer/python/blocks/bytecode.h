/* Bytecode as data: where its blocks start, and how markers get into it. Without Python.h.
 *
 * A block starts at an instruction where a new line begins: one whose line differs from that of the instruction that
 * ran before it, or that is reached by a jump backwards. This is where the interpreter's own tracing reports a line. As
 * it depends on the way there, it is a property of edges: a fall from the instruction before, a jump, an exception. An
 * exception handler that can be reached both from its own line and from others starts no block.
 *
 * A marker is an instruction sequence that hands control to the agent and leaves the stack as it was. Markers are put
 * in front of instructions, so that each edge passes those that are meant for it:
 *
 *      fall ->  [entry of the function, resumption, start of a block]  [jump over the next]
 *      jump that starts a block ->  [start of a block]
 *      other jumps ->  [observer of a subscript, or of a return]  instruction
 *
 * See cpython/InternalDocs (locations.md, exception_handling.md) for the formats of the two tables.
 */
#ifndef FORETRACE_PYAGENT_BYTECODE_H
#define FORETRACE_PYAGENT_BYTECODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BYTECODE_EXTRA_STACK 1 /* what markers put on the stack at most: themselves */

struct bytecode {
    const uint8_t *code; /* pairs of opcode and argument, without what the interpreter has specialised */
    const uint8_t *lines, *exceptions;
    size_t code_bytes, lines_bytes, exceptions_bytes;
    int32_t first_line;
    uint32_t n_constants;
};

enum marker_kind {
    MARKER_ENTRY = 1,   /* the function begins */
    MARKER_RESUME = 2,  /* a generator or coroutine goes on */
    MARKER_BLOCK = 4,   /* a block starts (also together with one of the first two) */
    MARKER_LOAD = 8,    /* of container and key: container[key] is about to be loaded, */
    MARKER_STORE = 16,  /* stored, */
    MARKER_DELETE = 32, /* or deleted */
    MARKER_SLICE = 64,  /* with one of the last three: of container, start and stop of a slice */
    MARKER_RETURN = 128 /* the function is about to return */
};

struct marker {
    uint32_t kind;
    uint32_t unit; /* of the instruction that it stands before, in the original bytecode */
};

/* Bytecode with markers. Marker i is constant n_constants + i. */
struct marked_bytecode {
    uint8_t *code, *lines, *exceptions;
    size_t code_bytes, lines_bytes, exceptions_bytes;
    uint32_t *origin; /* for each unit, the unit of the original that it is, or stands before */
    bool *is_own;     /* whether it is one of the original's, not a marker's */
    struct marker *markers;
    uint32_t n_markers;
};

struct bytecode_unit {
    bool starts_block;       /* a block can start here */
    uint32_t same_line_loop; /* of a jump back to its own line: the unit it goes to */
};

/* Fills in an entry for each unit. False when out of memory or not understood. */
bool bytecode_find_starts(const struct bytecode *source, struct bytecode_unit *units);

/* False when out of memory or not understood. */
bool bytecode_mark(const struct bytecode *source, struct marked_bytecode *marked);

void bytecode_release(struct marked_bytecode *marked);

#endif
