/* What the parts of the execution tree have of one another. See tree.h. */
#ifndef FORETRACE_EXECUTION_TREE_PARTS_H
#define FORETRACE_EXECUTION_TREE_PARTS_H

#include "tree.h"

#include "foretrace/base/tables.h"

#define FT_NONE UINT32_MAX
#define FT_BUCKETS 64u
#define FT_CALLS UINT32_MAX /* the action of a call */

/* ---- table.c: numbers by pairs of numbers ------------------------------------------------------------------- */

struct ft_table_entry {
    uint64_t a, b; /* both 0: free */
    uint32_t value;
};

FT_TABLE_TYPE(ft_table, struct ft_table_entry);

/* FT_NONE if there is none. */
uint32_t ft_table_find(const struct ft_table *table, uint64_t a, uint64_t b);
bool ft_table_put(struct ft_table *table, uint64_t a, uint64_t b, uint32_t value);

/* ---- blocks and functions: functions.c ------------------------------------------------------------------------ */

struct ft_code {
    uint64_t address, end, last; /* of its last instruction */
    uint64_t target;             /* of a direct jump or call; 0 for others */
    uint64_t hash;
    uint32_t canonical; /* the first block that is the same code */
    uint32_t entered;   /* the function that it is the first block of, FT_NONE */
    uint32_t function;  /* that it was first found in, FT_NONE */
    uint8_t ending;
    uint8_t linkage;  /* of enum ft_linkage */
    uint8_t bytecode; /* of enum ft_bytecode */
    uint32_t instructions;
    uint32_t code_id; /* of bytecode: its function's */
    uint32_t own;     /* of bytecode without instructions: the block that goes on */
};

enum ft_bytecode { FT_BYTECODE_NONE, FT_BYTECODE_BLOCK, FT_BYTECODE_ENTRY, FT_BYTECODE_RETURNED, FT_BYTECODE_GOES_ON };

struct ft_successor {
    uint32_t id, local, action; /* block; 0: free */
};

struct ft_local {
    struct ft_successor successor[2]; /* of a call the called functions' first blocks */
    struct ft_successor behind;       /* of a call: where it returns to */
    uint32_t id;
    uint32_t next; /* the local block that this one goes on as, where an engine's blocks overlap; FT_NONE */
    uint32_t last; /* the end of that chain */
    uint32_t loop; /* the innermost, FT_NONE */
};

struct ft_tree_edge {
    uint32_t from, to, id, action;
};

struct ft_tree_loop {
    uint32_t header, parent, depth;  /* parent: a slot or FT_NONE */
    uint32_t first_cover, num_cover; /* in the function's cover: the local blocks that run the header */
    bool alive, is_estimated;
};

struct ft_function {
    uint32_t entry;     /* block */
    uint64_t low, high; /* addresses of its blocks */
    struct ft_local *locals;
    uint32_t num_locals, locals_capacity;
    struct ft_tree_edge *edges;
    uint32_t num_edges, edges_capacity;
    struct ft_tree_loop *loops; /* by slot */
    uint32_t num_loops, loops_capacity;
    uint32_t *cover;
    uint32_t cover_capacity;
    uint32_t *actions; /* lists of loops (slots), each with its length before it; an action is where its list begins, 0:
                          none */
    uint32_t num_actions, actions_capacity;
    uint32_t entry_action; /* of being called */
    uint32_t version;      /* changes with the loops */
    uint32_t nodes;        /* the first of its nodes, FT_NONE */
    bool resolves;         /* the loader's resolver: its indirect jumps are tail calls of what it has found */
};

/* The function that begins with a block; FT_NONE when memory ran out. */
uint32_t ft_function_of(struct ft_tree *tree, uint32_t id);

/* A block's local number; FT_NONE if the function has no such block. */
uint32_t ft_local_find(const struct ft_tree *tree, uint32_t function, uint32_t id);

/* The same, adding it. `*is_end` says that it is new, and that no edge leaves it: none that overlaps it was known.
 * FT_NONE when memory ran out. */
uint32_t ft_local_of(struct ft_tree *tree, uint32_t function, uint32_t id, bool *is_end);

/* The number of the edge between two blocks of a function; it is added, and loops are found again, if it is new.
 * FT_NONE when memory ran out. */
uint32_t ft_edge_of(struct ft_tree *tree, uint32_t function, uint32_t from, uint32_t id);

/* ---- forest.c ------------------------------------------------------------------------------------------------- */

/* Finds the loops of a function. False when memory ran out. */
bool ft_forest_build(struct ft_tree *tree, uint32_t function);

/* The action of going from a local block (FT_NONE: from outside) to another: the loops that are entered so. */
bool ft_forest_action(struct ft_tree *tree, struct ft_function *function, uint32_t from, uint32_t to, uint32_t *action);

/* Whether an edge between two blocks that were known may change the loops. */
bool ft_forest_changes(struct ft_tree *tree, struct ft_function *function, uint32_t from, uint32_t to);

/* ---- waits.c --------------------------------------------------------------------------------------------------- */

struct ft_waits; /* NULL until a thread waits */

/* Ends what is still open: events that were waited for, and never came. False when memory ran out. */
bool ft_waits_finish(struct ft_tree *tree);
void ft_waits_free(struct ft_waits *waits);

/* Nodes got new numbers (FT_NONE: given up). False when memory ran out. */
bool ft_waits_renumber(struct ft_tree *tree, const uint32_t *number);

/* ---- nodes.c -------------------------------------------------------------------------------------------------- */

enum ft_tree_call { FT_CALL, FT_TAIL_CALL, FT_SIGNAL, FT_BASE };

#define FT_STRETCHES 32u

/* Entries of a loop by iterations; in order: stretches of 2^shift entries each, the last of what there is; and by
 * place: the iteration of the loop around it in which an entry was, in places of 2^place_shift iterations each. */
struct ft_distribution {
    uint64_t buckets[FT_BUCKETS];
    uint64_t recorded;                /* entries in stretches */
    uint64_t stretches[FT_STRETCHES]; /* iterations */
    struct ft_place {
        uint64_t entries, iterations;
    } places[FT_STRETCHES];
    uint32_t shift, place_shift;
    bool is_ordered; /* false where contexts were merged: stretches mean nothing then */
};

struct ft_loop_state {
    uint64_t entries, rank;
    uint64_t recorded, iterations, least, most; /* of the entries in the distribution */
    uint64_t start;                             /* executions of the header before the last entry */
    uint64_t place;                       /* the iteration of the loop around it that the last entry is in, from 0 */
    struct ft_distribution *distribution; /* NULL while all entries are alike */
    bool pending;                         /* the last entry is not in the distribution yet */
};

struct ft_node {
    uint32_t parent, function, site; /* FT_NONE; site: a block, 0 for none */
    uint32_t thread;                 /* its root's number */
    uint32_t next;                   /* of the function's nodes */
    uint32_t context;                /* its number, which never changes */
    uint32_t depth, most_depth;
    uint8_t call;
    bool is_merged;
    uint64_t entries, recursive_entries, rank;
    uint64_t *counts; /* by local block */
    uint32_t counts_capacity;
    uint64_t *told; /* those of them that ft_tree_work has told; NULL: none */
    uint32_t told_capacity;
    struct ft_loop_state *loops; /* by slot */
    uint32_t loops_capacity;
    /* The child called last. */
    uint64_t last_site;
    uint32_t last_function, last_child;
};

struct ft_node *ft_node_at(const struct ft_tree *tree, uint32_t node);

/* The node of a function called below another one, from `site` (an address, and the block). `*folds` says that it is an
 * ancestor, or the node itself. FT_NONE when memory ran out. */
uint32_t ft_child_of(struct ft_tree *tree, uint32_t node, uint64_t site, uint32_t site_block, uint32_t function,
                     enum ft_tree_call call, bool *folds);

/* Makes room for all blocks of a node's function. */
bool ft_node_fit(struct ft_tree *tree, uint32_t node);
bool ft_node_fit_loops(struct ft_tree *tree, struct ft_node *node);

/* The same of what was told of them: work.c. */
bool ft_node_fit_told(struct ft_tree *tree, uint32_t node);

/* Executions of a loop's header in a node. */
uint64_t ft_header_count(const struct ft_function *function, const struct ft_node *node, uint32_t slot);

/* Enters the last entry of a loop into its distribution. False when memory ran out. */
bool ft_loop_close(const struct ft_function *function, const struct ft_node *node, uint32_t slot);

/* Gives it a distribution, if it has none. False when memory ran out. */
bool ft_loop_distribute(struct ft_loop_state *state);

/* The iteration of the loop around a loop, in the same function, that is in hand; 0 if there is none around it. */
uint64_t ft_loop_place(const struct ft_function *function, const struct ft_node *node, uint32_t slot);

/* Adds entries at a place; those of another distribution. */
void ft_places_add(struct ft_distribution *distribution, uint64_t place, struct ft_place more);
void ft_places_join(struct ft_distribution *to, const struct ft_distribution *from);

/* `times` entries with so many iterations each. */
bool ft_loop_record(struct ft_loop_state *state, uint64_t iterations, uint64_t times);

void ft_node_free(struct ft_node *node);

/* What is known of a context for good: its function, the context that called it (FT_NONE of a root), which has a lower
 * number, and the context that it was merged into, or itself. */
struct ft_tree_context {
    uint32_t function, caller, into;
};

/* merging.c: gives up about half of the contexts. Numbers of nodes change. False when memory ran out. */
bool ft_nodes_merge(struct ft_tree *tree);

/* A root for a thread. */
uint32_t ft_root_new(struct ft_tree *tree, uint32_t thread);

/* ---- the machine: tree.c -------------------------------------------------------------------------------------- */

struct ft_frame {
    uint64_t behind;        /* address to return to; 0: none */
    uint32_t node, current; /* where the caller stands */
    uint32_t saved;         /* open loops that were put aside before */
    uint8_t call;
    bool folds, restores;
};

struct ft_saved_loop {
    uint32_t node, slot;
    uint64_t iterations, place;
};

struct ft_tree_thread {
    uint32_t number, root;
    uint64_t first, last;
    uint32_t node, function, current; /* node FT_NONE: it has not run yet */
    struct ft_local *locals;
    uint64_t *counts;
    struct ft_frame *frames;
    uint32_t num_frames, frames_capacity;
    struct ft_saved_loop *saved;
    uint32_t num_saved, saved_capacity;
};

/* Calls a function, whose block is to be run or stood at. */
bool ft_thread_push(struct ft_tree *tree, struct ft_tree_thread *t, uint32_t function, enum ft_tree_call kind,
                    uint64_t behind);

/* Stands in a function below the thread's root, with nothing on the stack. */
bool ft_thread_begin(struct ft_tree *tree, struct ft_tree_thread *t, uint32_t function);

/* Runs a block of the function at hand: its first one, or another. */
bool ft_thread_run(struct ft_tree *tree, struct ft_tree_thread *t, uint32_t id);

/* Goes to a block of the function at hand by an edge. */
bool ft_thread_follow(struct ft_tree *tree, struct ft_tree_thread *t, uint32_t id);

/* Stands at a block of the function at hand, which has run before. */
bool ft_thread_stand_at(struct ft_tree *tree, struct ft_tree_thread *t, uint32_t id);

bool ft_thread_pop_to(struct ft_tree *tree, struct ft_tree_thread *t, uint32_t num_left);

/* bytecode.c: anything but a step by a known edge, of a Python program. */
bool ft_bytecode_wake(struct ft_tree *tree, struct ft_tree_thread *t, uint32_t id);

struct ft_tree {
    enum ft_guest guest;
    uint32_t max_nodes;
    struct ft_code *codes; /* by block, from 1 */
    uint32_t num_codes, codes_capacity;
    struct ft_table code_table; /* the same code: first block */
    struct ft_function *functions;
    uint32_t num_functions, functions_capacity;
    struct ft_table local_table, edge_table, child_table;
    struct ft_table
        landing_table; /* where calls return to, and exceptions from them continue; and each of the latter with 0 */
    struct ft_node **nodes;
    uint32_t num_nodes, nodes_capacity;
    struct ft_tree_thread **threads; /* by number, from 1 */
    uint32_t num_threads, threads_capacity;
    struct ft_tree_thread *thread;
    struct ft_tree_context *contexts;
    uint32_t num_contexts, contexts_capacity;
    uint64_t loops_known; /* times that loops were found */
    uint64_t clock;       /* of first runs */
    uint64_t events;      /* wakings */
    struct ft_waits *waits;
    struct ft_tree_remarks remarks;
};

#endif
