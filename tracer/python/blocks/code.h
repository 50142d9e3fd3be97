/* Code objects and the blocks in them, as the stream knows them. Needs Python.h included first.
 *
 * A block is the run of bytecode from where a line begins (see bytecode.h) to where the next line starts. Besides
 * those, there is
 *  - for each code object an entry block, from its first instruction to the one that starts the function: it is
 *    written at each call;
 *  - for each block a resumption without instructions, written when a call it made returns (or, in a generator, when it
 *    goes on after a yield): so the stream says where control goes on, and no instruction counts twice.
 * Both share their code id with the function's other blocks; a resumption also the offset of the block it resumes.
 */
#ifndef FORETRACE_PYAGENT_CODE_H
#define FORETRACE_PYAGENT_CODE_H

#include "tracer/python/agent.h"

struct code_unit {       /* two bytes of bytecode */
    int32_t line;        /* -1: none */
    uint32_t block;      /* that starts here; 0: none so far */
    bool is_instruction; /* not a cache or a prefix */
    bool is_entry;       /* where a function starts: tracing reports the call here */
    bool starts_block;   /* a block can start here */
    bool imports;
    uint32_t same_line_loop; /* of a jump back to its own line: the unit it goes to; 0: no such jump */
};

/* What is known of a code object: kept as its "extra", freed with it and with the last of its markers.
 *
 * Of code with markers in it, `original` is the program's own code object, and `unit` tells of that. The other way
 * round, a program's code object has its `marked` twin, or NULL, and no units. Of such a pair one holds the other: code
 * that is executed by itself (a module) its twin, and the twin of a function, which lives on in that, the original. */
struct code_table {
    uint32_t n_references;
    uint32_t code_id;
    uint32_t entry_block;
    bool is_library; /* NumPy's or SciPy's: array operations in it are charged to its caller */
    bool holds_marked, holds_original;
    PyObject *marked, *original;
    uint32_t *origin; /* of code with markers: the original's unit for each of its units, */
    bool *is_own;     /* and whether that is one of the original's, not a marker's */
    uint32_t n_origins;
    uint32_t n_units;
    struct code_unit unit[];
};

bool code_init(void);

/* The name of the file that code is from, as bytes: it need not be UTF-8. NULL with no exception set. */
PyObject *code_file(PyCodeObject *code);

/* The table of a code object, or NULL with no exception set. */
struct code_table *code_table_of(PyCodeObject *code);

/* The same where there is one already. */
struct code_table *code_table_if_any(PyCodeObject *code);

/* Makes the table of `code` with markers in it, from `original`. NULL with no exception set. */
struct code_table *code_add_marked(PyCodeObject *code, PyCodeObject *original, bool holds_original);

/* Remembers the twin of a program's code object. */
void code_set_marked(PyCodeObject *original, PyCodeObject *marked, bool holds_marked);

void code_release(struct code_table *table);

/* Ids of blocks, described in the side table on first use; 0 if there is no room. `code` says whose names they get. */
uint32_t code_block_at(PyCodeObject *code, struct code_table *table, uint32_t unit);
uint32_t code_entry_block(PyCodeObject *code, struct code_table *table, uint32_t unit);
uint32_t code_resumption_of(PyCodeObject *code, const struct code_table *table, uint32_t block, bool goes_on);

/* That after a call, if it has an id; else 0. */
uint32_t code_known_resumption(uint32_t block);

/* What the side table holds of a block; NULL if it is not to be timed, as it imports: loading modules is no part of a
 * program's times. */
struct ft_side_pyblock *code_timed_block(uint32_t block);

/* The block that a frame stopped at `unit` is in, as far as the place alone tells: the last one of this line that
 * starts at or before it. */
uint32_t code_block_around(PyCodeObject *code, struct code_table *table, uint32_t unit);

#endif
