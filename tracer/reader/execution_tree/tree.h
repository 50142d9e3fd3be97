/* The execution tree of a traced program, built while its stream is read: which calls and loops ran inside which, how
 * often, and how often each block ran in each.
 *
 * A node is a function in its calling context. It counts the executions of the function's blocks, and the entries of
 * its loops. Loops are no nodes here: they follow from the function's blocks when the tree is handed over.
 *
 * The machine wakes at calls, returns, and entries of loops. In between, an execution of a block follows one of the
 * edges known of the block before, and adds to one counter. How often a loop's entry iterated is what its header's
 * counter has gone up by at the next entry, so that back edges and exits cost nothing.
 *
 * Which blocks are of a function, and which loops they make, is learnt as they run: a function is what is called, an
 * edge that is new may close a loop, and then all loops of its function are found again (forest.c). A loop that is
 * found at its first back edge has had one iteration in each entry until then, so no iteration is lost.
 *
 * Invariants
 *  - A function's first block has the local number 0. Local numbers never change; loops keep theirs (slots) by header.
 *  - An edge's action is that of the function's loops as they are.
 *  - The counters of a node have room for all local blocks of its function while it is a thread's current one.
 *  - All nodes above a thread's current one are on its stack, but for the thread's root.
 */
#ifndef FORETRACE_TREE_H
#define FORETRACE_TREE_H

#include "endings.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ft_tree;

/* NULL when out of memory. At most `max_nodes` contexts are kept apart. */
struct ft_tree *ft_tree_new(enum ft_guest guest, uint32_t max_nodes);
void ft_tree_free(struct ft_tree *tree);

/* Whether the program is one of Python: then all its blocks are bytecode, and none of another program's are. */
bool ft_tree_is_python(const struct ft_tree *tree);

/* Describes block `id` (1, 2, ...): `n` instructions of `lengths` bytes each, which are at `code`, `bytes` in all.
 * False when memory ran out. */
bool ft_tree_add_block(struct ft_tree *tree, uint32_t id, uint64_t address, const unsigned char *lengths, uint32_t n,
                       const unsigned char *code, uint32_t bytes);

/* An exception that leaves the call which returns to `behind` continues at `pad`, in the function that calls. False
 * when memory ran out. */
bool ft_tree_add_landing(struct ft_tree *tree, uint64_t behind, uint64_t pad);

/* The same of a block of bytecode: `code_id` is its function's, and `offset_bytes` where in that it begins, 0 for the
 * function's first. One without instructions says that the block there goes on: after a call has returned, or
 * (`goes_on`) after its function, a generator, was left for a while. */
bool ft_tree_add_bytecode(struct ft_tree *tree, uint32_t id, uint32_t code_id, uint32_t offset_bytes,
                          uint32_t n_instructions, bool goes_on);

/* Says that what runs from now on is of thread `number` (1, 2, ...), at a position of the program. False when memory
 * ran out. */
bool ft_tree_switch(struct ft_tree *tree, uint32_t number, uint64_t position);

/* One execution of a block by that thread. */
bool ft_tree_step(struct ft_tree *tree, uint32_t id);

/* Blocks that run one after the other again and again, and what the tree remembers of them: where `number` of them were
 * followed without waking, the local blocks that they are of a function while that has a version. */
struct ft_tree_path {
    uint32_t *ids, *locals; /* ids as ft_tree_canonical has them */
    uint32_t number, function, version;
    uint32_t *distinct, *weights; /* local blocks among all `number` of them, each once, and how often they are there */
    uint32_t num_distinct;
    uint32_t *contexts; /* of the blocks when they were followed last, where they differ */
    uint32_t context;   /* of all of them; FT_TREE_MIXED where they differ */
};
#define FT_TREE_MIXED UINT32_MAX

/* The first `number` blocks of a path one after the other, up to `times` times: as often as they are in the same
 * contexts, which the path then says. Returns how often; 0 when memory ran out. */
uint64_t ft_tree_follow(struct ft_tree *tree, struct ft_tree_path *path, uint32_t number, uint64_t times);

/* The first `number` blocks of a path one after the other, all of them `times` times. */
bool ft_tree_steps(struct ft_tree *tree, struct ft_tree_path *path, uint32_t number, uint64_t times);

/* The context that a thread stands in, and the local number of its block there. A context keeps its number, also when
 * it is merged into another one. */
uint32_t ft_tree_context(const struct ft_tree *tree, uint32_t *local);

/* How many contexts there have been, and, if `out` is not NULL, which node each one is. */
uint64_t ft_tree_contexts(const struct ft_tree *tree, uint32_t *out);

/* Where the function of a context begins, 0 for a thread's root; and the context that called it, which has a lower
 * number. FT_TREE_MIXED: none. */
uint64_t ft_tree_caller(const struct ft_tree *tree, uint32_t context, uint32_t *caller);

/* The innermost loop, as far as is known, around the code at an address in a local block of a context's function. 0:
 * none. */
uint32_t ft_tree_loop_at(const struct ft_tree *tree, uint32_t context, uint32_t local, uint64_t address);

/* Goes up when that may change. */
uint64_t ft_tree_loops_known(const struct ft_tree *tree);

/* The block that stands for one and all that are the same code. */
uint32_t ft_tree_canonical(const struct ft_tree *tree, uint32_t id);

/* The thread at hand came to an event, or waited for one, of a kind of enum ft_synchronisation (stream.h). False when
 * memory ran out. */
bool ft_tree_wait(struct ft_tree *tree, uint32_t kind, uint64_t event);

/* Ends what is still open, once, before the rows are taken. `position` is the program's last. */
bool ft_tree_finish(struct ft_tree *tree, uint64_t position);

/* ---- work.c: what ran meanwhile ---- */

/* Executions of a local block in a context. */
struct ft_tree_work {
    uint32_t context, local;
    uint64_t executions;
};

struct ft_tree_works {
    struct ft_tree_work *rows; /* by context and local block, rising */
    uint64_t number;
};

/* What ran since the last call. `works->rows` is to be freed. False when memory ran out. */
bool ft_tree_work(struct ft_tree *tree, struct ft_tree_works *works);

/* Adds what ran before to what ran after it, and frees that. False when memory ran out. */
bool ft_tree_join_works(struct ft_tree_works *before, struct ft_tree_works *after);

/* The block of a row. */
uint32_t ft_tree_work_block(const struct ft_tree *tree, const struct ft_tree_work *row);

/* ---- place.c: where the program stands, for who follows the tree while it is built ---- */

struct ft_tree_place {
    uint64_t node;              /* its rank, which it keeps when contexts are merged */
    uint32_t thread, depth;     /* frames below the one at hand */
    uint32_t function, version; /* which changes with the function's loops */
    uint32_t local;             /* the block that ran last, as the function numbers them */
};

/* Of the thread that ran last, once it has run. */
void ft_tree_stands_at(const struct ft_tree *tree, struct ft_tree_place *place);

/* How many frames are below the one that it stands in. */
uint32_t ft_tree_depth(const struct ft_tree *tree);

/* Where the frame with `depth` others below it stands: at a call, or it is the one at hand. False if there is none. */
bool ft_tree_stands_in(const struct ft_tree *tree, uint32_t depth, struct ft_tree_place *place);

/* How often the header of a loop has run in the context of that frame. */
uint64_t ft_tree_iterations(const struct ft_tree *tree, uint32_t depth, uint32_t slot);

/* The beginning of a block, up to where a shorter block of the engine with the same end begins. */
struct ft_tree_part {
    uint32_t slot;         /* the innermost loop around it; UINT32_MAX for none */
    uint32_t instructions; /* from here to the block's end */
    uint32_t next;         /* the shorter block, or UINT32_MAX */
    bool is_header;        /* it begins an iteration of that loop */
};

struct ft_tree_part ft_tree_part(const struct ft_tree *tree, uint32_t function, uint32_t local);

/* A loop of a function. `headers` are the local blocks that run its header, maybe behind their own beginning, as long
 * as the version stays. */
struct ft_tree_loop_place {
    uint32_t parent, header, block; /* the slot around it or UINT32_MAX; its header, and that one's block */
    const uint32_t *headers;
    uint32_t num_headers;
};

struct ft_tree_loop_place ft_tree_loop_place(const struct ft_tree *tree, uint32_t function, uint32_t slot);

/* The block that a function begins with; 0 for none. */
uint32_t ft_tree_function_block(const struct ft_tree *tree, uint32_t function);

/* ---- rows.c: tables of numbers. Each returns how many rows there are, and writes them if `out` is not
 * NULL. ---- */

#define FT_TREE_NODE_COLUMNS 10
/* per node: parent (or UINT64_MAX), block its function begins with (0: a thread's root), block that calls it (0: none),
 * kind (enum ft_tree_call), entries, recursive entries, depth, rank (in the order of first runs), thread, is merged */
uint64_t ft_tree_nodes(const struct ft_tree *tree, uint64_t *out);

/* per node and block: node, block, executions */
uint64_t ft_tree_counts(const struct ft_tree *tree, uint64_t *out);

#define FT_TREE_LOOP_COLUMNS 8
/* per node and loop: node, block of the header, entries, iterations, least, most, rank, is estimated */
uint64_t ft_tree_loops(const struct ft_tree *tree, uint64_t *out);

/* per node, loop and bucket: node, block of the header, bucket, entries */
uint64_t ft_tree_histograms(const struct ft_tree *tree, uint64_t *out);

/* per thread: number, root, first and last position */
uint64_t ft_tree_threads(const struct ft_tree *tree, uint64_t *out);

#define FT_TREE_EDGE_COLUMNS 8
/* per kind of waiting (enum ft_synchronisation) and places of both threads, in the order in which they first occurred:
 * kind; thread, node (or UINT64_MAX) and block (0: none) that others waited for; the same of the one that waited;
 * count. Where others waited for another process, the node is UINT64_MAX - 1, the thread's number has that of the
 * process above its 14 bits, and the block is one of that process */
uint64_t ft_tree_edges(const struct ft_tree *tree, uint64_t *out);

/* per node, loop and stretch of its entries, in order: node, block of the header, entries, iterations */
uint64_t ft_tree_stretches(const struct ft_tree *tree, uint64_t *out);

/* per node, loop and place of its entries in the iterations of the loop around it, in order: node, block of the header,
 * iterations of that loop, entries, iterations */
uint64_t ft_tree_places(const struct ft_tree *tree, uint64_t *out);

struct ft_tree_remarks {
    uint64_t merged_contexts; /* contexts given up */
    uint64_t unwound;         /* jumps out of several calls: longjmp, exceptions */
    uint64_t resumed;         /* jumps into the middle of functions that nothing called: coroutines, contexts */
    uint64_t signals;         /* handlers of signals that ran */
    uint64_t overflows;       /* stacks that became too deep to follow */
    uint64_t unplaced_waits;  /* whose places were too many to tell apart */
};

struct ft_tree_remarks ft_tree_remarks(const struct ft_tree *tree);

#endif
