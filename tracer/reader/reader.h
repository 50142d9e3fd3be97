/* The reading side of the address stream: turns words into accesses for a simulator, and counts what ran.
 *
 * Everything in the shared memory can be overwritten by a program gone wrong, so each number taken from it is checked
 * before use; what does not fit ends the reading with FT_READ_CORRUPT and `corrupt` saying what was wrong.
 */
#ifndef FORETRACE_READER_H
#define FORETRACE_READER_H

#include "foretrace/base/tables.h"
#include "block_path.h"
#include "cache_sim/simulation/access.h"
#include "event_samples.h"
#include "kept_chunks.h"
#include "tracer/reader/data_flow/flow.h"
#include "tracer/reader/data_flow/places.h"
#include "tracer/reader/data_flow/dependences.h"
#include "tracer/reader/execution_tree/tree.h"
#include "tracer/transport/phases.h"
#include "tracer/transport/stream.h"

#include <stdbool.h>

#define FT_NO_OPERATION UINT32_MAX
#define FT_BATCH 8192u

enum ft_read_status {
    FT_READ_IDLE,    /* nothing more was ready within the time given */
    FT_READ_MORE,    /* stopped after the chunks asked for; there may be more */
    FT_READ_WIDTH,   /* needs ft_reader_set_width for `asked_operation`, then goes on where it stopped */
    FT_READ_MARK,    /* came to a mark, `mark`; all but one access before it has been fed */
    FT_READ_CORRUPT, /* the stream cannot be right */
    FT_READ_MEMORY   /* out of memory */
};

struct ft_block {
    uint64_t successor_count[2];
    uint32_t successor[2]; /* 0: free */
    uint64_t starts;       /* executions that no other block came before, in their thread */
    struct ft_path *path;  /* that begins with it; NULL until one is known */
    uint32_t *operation;   /* by slot; FT_NO_OPERATION until first used; NULL until any is */
    uint16_t n_slots;
    uint16_t first_access; /* see struct ft_side_block */
    uint16_t misfits;      /* executions that were on no path; no more are counted at the largest */
    uint16_t code_bytes;   /* 0 for a block that is no machine code */
    uint64_t address;
    const unsigned char
        *lengths; /* of its instructions, as many as half of n_slots; NULL for one that is no machine code */
};

/* Forms of the engine's report of an access made in parts. */
enum ft_parts {
    FT_PARTS_ADJACENT, /* all of it, one part behind the other */
    FT_PARTS_MASKED,   /* some of it, in order: the lanes that a mask has on. It has their bytes, at the first one */
    FT_PARTS_STATE /* some of it in any order: a processor's state. It spans all of them, and has its width at least */
};

struct ft_operation {
    uint32_t block_id;
    uint32_t slot;        /* 2 x instruction + is_store, or an array operation's operand number */
    uint32_t array_id;    /* 0 for an instruction */
    uint32_t width_bytes; /* of the program's access: 0 unknown. The engine may report it in parts. */
    uint8_t parts;        /* which of its bytes those are: enum ft_parts */
    /* Of an indexed operand: the bytes touched by the array operation's execution at hand, and the longest such range.
     */
    uint64_t first, last_exclusive, longest_range_bytes;
    /* For the data flow (data_flow.c): the place of its last access, in a context (plus 1), with what was known then.
     */
    uint64_t loops_known;
    uint32_t flow_context, flow_place, flow_epoch;
    uint8_t uses; /* counted up to EARLY_USES */
    struct ft_flow_hint hint;
};

struct ft_array {
    struct ft_side_operation facts; /* without its name */
    uint32_t first_operation;
    uint64_t executions;
    uint64_t points;
    bool was_fed; /* some of its accesses were handed over */
};

/* What was allocated of an object. */
struct ft_object_counts {
    uint64_t allocations, bytes; /* in all */
    uint64_t first, end;         /* around all of it */
};

#define FT_MAX_RARE_EDGES (1u << 17)

struct ft_edge {
    uint64_t key; /* source << 32 | destination; 0: free */
    uint64_t count;
};

FT_TABLE_TYPE(ft_edges, struct ft_edge);

struct ft_reader_cursor {
    uint32_t block_id; /* the block its thread is in; 0 before the first */
    uint32_t sequence; /* of the last chunk read */
    uint32_t last_tag; /* of the access just before in this run of the block; 0 if there is none */
    uint32_t thread;   /* that has the cursor */
};

struct ft_reader {
    struct ft_header *header;
    uint64_t memory_bytes;
    struct ft_sink sink;

    struct ft_block *blocks; /* by id, from 1 */
    uint32_t n_blocks, blocks_capacity;
    struct ft_operation *operations;
    uint32_t n_operations, operations_capacity;
    struct ft_array *arrays; /* by id, from 1 */
    uint32_t n_arrays, arrays_capacity;
    uint32_t n_objects, n_maps;       /* described in the side table */
    struct ft_object_counts *objects; /* by id; NULL: the data flow is not followed */
    struct ft_edges edges;            /* those beyond a block's two successors */
    bool edges_full;                  /* there were more than FT_MAX_RARE_EDGES: the others are not counted */
    uint64_t side_read_bytes;
    struct ft_reader_cursor cursors[FT_MAX_CURSORS];

    /* The chunk being read: reading can stop inside it to ask for a width. */
    struct ft_ready chunk;
    uint32_t position;
    bool in_chunk;
    size_t path_bytes; /* of all paths */

    uint64_t index[2 * FT_CHUNK_WORDS]; /* of the array record at hand */
    struct ft_access batch[FT_BATCH + 1];
    uint32_t batch_length;
    uint32_t asked_operation;
    uint32_t mark;                 /* the last one */
    uint32_t thread;               /* the cursor whose accesses the sink expects */
    uint64_t executions, accesses; /* of blocks; of all operations */
    struct ft_samples samples;
    struct ft_event_samples event_samples;
    struct ft_rank_calls rank_calls;
    struct ft_tree *tree;       /* NULL: none is made */
    struct ft_flow *flow;       /* NULL: it is not followed */
    struct ft_flow_marks marks; /* of the chunk's words */
    struct ft_flow_places places;
    bool flow_ended, flow_overflowed;       /* at the first gap between bursts; or as there were too many places */
    struct ft_dependences *dependences;     /* NULL: none are looked for now */
    struct ft_dependences *all_dependences; /* what was found; NULL: none are looked for at all */
    uint64_t chunks_seen, chunks_examined;  /* the latter in windows */
    uint32_t chunks_wanted;                 /* from the window at hand */
    bool has_windows;                       /* dependences are looked for in windows only */
    const char *corrupt;

    /* Where this side makes the bursts (skipping.c). */
    struct ft_phases phases;
    uint64_t seen, seen_before; /* accesses of array operations, and how many of them `phases` knows of */
    uint64_t points_done;       /* of the array record at hand, which a phase's end interrupted */
    bool samples_itself, new_code;
};

/* NULL when out of memory. `memory` outlives the reader. */
struct ft_reader *ft_reader_new(void *memory, uint64_t memory_bytes, struct ft_sink sink);
void ft_reader_free(struct ft_reader *reader);

/* Says that an execution tree is to be made of what a program of that kind runs. False when memory ran out. */
bool ft_reader_make_tree(struct ft_reader *reader, enum ft_guest guest, uint32_t max_nodes);

/* Says that the data flow between nodes of the execution tree is to be followed. False without a tree, or when memory
 * ran out. */
bool ft_reader_follow_data(struct ft_reader *reader);
/* Says that what loops carry from one iteration to the next is to be looked for, with shadow memory of `max_bytes`.
 * There must be a tree. Reading takes longer, as no access is read together with others; with windows (windows.c) in
 * these alone. False when memory ran out. */
bool ft_reader_find_dependences(struct ft_reader *reader, uint64_t max_bytes, bool has_windows);

/* Says whose code is where: `ranges` by address, without overlaps. False when memory ran out. */
bool ft_reader_set_owners(struct ft_reader *reader, const struct ft_code_range *ranges, uint32_t num_ranges);

/* Forgets what the data flow needs no more. False when memory ran out. */
bool ft_reader_tidy_flow(struct ft_reader *reader);

/* Lays out `memory_bytes` of zeroed memory as an empty stream. False if it is too small. */
bool ft_stream_format(void *memory, uint64_t memory_bytes);

/* Samples the accesses of array operations in bursts. The lengths are in chunks of FT_CHUNK_WORDS accesses here. To be
 * called before anything is read. */
void ft_reader_sample(struct ft_reader *reader, struct ft_schedule lengths);

/* Reads up to `max_chunks`, as they come within `timeout_ms`. */
enum ft_read_status ft_reader_run(struct ft_reader *reader, uint32_t max_chunks, uint32_t timeout_ms);

/* Answers FT_READ_WIDTH. */
void ft_reader_set_width(struct ft_reader *reader, uint32_t width_bytes, enum ft_parts parts);

/* Once the program is dead: reads what is ready, then what its threads had written but not published. */
enum ft_read_status ft_reader_salvage(struct ft_reader *reader);

/* Adds what was counted by path to what the two functions below tell. False when memory ran out. */
bool ft_reader_count_paths(struct ft_reader *reader);

/* Writes the executions of blocks 1 .. n_blocks. */
void ft_reader_executions(const struct ft_reader *reader, uint64_t *out);

/* Number of distinct edges; `out`, if not NULL, gets source, destination and count of each. */
uint64_t ft_reader_edges(const struct ft_reader *reader, uint64_t *out);

#endif
