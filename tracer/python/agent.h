/* The Python agent: what lives inside a traced Python program, and how its parts meet.
 *
 *   _agent.c            the extension module: attaches the stream, runs the program as Python itself would
 *   native_threads.c    processor time of threads that compiled code starts (without Python.h)
 *   processes.c         child processes that the program starts, and the agent in them
 *   far.c               what processes wait for one another at
 *   boards.c            software-defined events (without Python.h)
 *   exchange.c          memory that they tell each other in (without Python.h)
 *
 * blocks/: which block of bytecode runs, and for how long
 *
 *   blocks.c            the choice of the core, and threads
 *   settrace.c          the core that is a trace function
 *   markers.c           the core that puts markers into bytecode, with bytecode.c and exec.c
 *   code.c              code objects and their blocks
 *   timing.c            how long some executions of blocks take (without Python.h)
 *   lines.c             how fast the interpreter is
 *
 * arrays/: what array operations touch
 *
 *   hooks.c             replaces entries of method tables; sees extension modules being loaded
 *   allocations.c       which memory NumPy's arrays have, and where it was allocated
 *   numpy.c             NumPy's type slots, ufuncs and method tables
 *   buffers.c, list.c   elements of buffers and lists
 *   flat.c              array.flat, and arrays of one element taken as numbers
 *   key.c               parsed keys of subscripts
 *   index.c             subscripts, take, put, add.at
 *   ufunc.c             ufuncs called, reduced or accumulated
 *   search.c            binary searches
 *   templates.c         copies, products and searches
 *   sparse.c            SciPy's sparse matrix products
 *   conversions.c       SciPy's conversions and other products of sparse matrices
 *   linear.c            shapes of the operands of linear algebra
 *   cython.c, other.c   calls of other compiled functions with arrays, which count as unseen
 *   unseen.c            counts of unseen calls (without Python.h)
 *   record.c            bulk records: ordering, coalescing, splitting (without Python.h)
 *
 * extensions/: how long compiled code takes that is not seen
 *
 *   types.c             hooks methods, properties and slots of extension types
 *   trampolines.c       what those hooks run
 *
 * Everything here runs with the GIL held, which is the only lock. Of the program's objects the agent holds the frames
 * that run and the functions it has hooked. It never raises, and changes no result.
 */
#ifndef FORETRACE_PYAGENT_H
#define FORETRACE_PYAGENT_H

#include "foretrace/base/tables.h"
#include "tracer/transport/writer.h"

#define AGENT_MAX_DIMS 16 /* of an array operation before coalescing */

/* A Python frame that runs, innermost last. */
struct agent_frame {
    void *frame;         /* a PyFrameObject, with a reference */
    void *charged_frame; /* the frame that array operations are charged to while this is innermost */
    uint32_t block;      /* the block it is in */
    uint32_t charged;    /* and the block in it */
};

/* A place in the program's code with a subscript. The markers core keeps one for each; its operation is remembered. */
struct agent_site {
    uint32_t offset_bytes; /* in its code */
    uint32_t operation;    /* id of the last access's operation; 0: none yet. What that was: */
    uint32_t block;
    const char *name;
    int64_t size_bytes;
    bool indexed;
};

struct agent_times;

struct agent_thread {
    struct ft_cursor *cursor; /* NULL until the thread's first word */
    uint64_t created;         /* the event that created it; 0: none, or not known */
    uint64_t ends_at;         /* what waits for its end waits there; 0: not known */
    uint64_t
        behalf; /* of a thread with no cursor, a library's: the place that it hands things on for (far.h); 0: none */
    struct agent_times *times; /* the timing that runs, see timing.h; NULL: none does */
    uint64_t timed_points;     /* of array operations that were recorded since the last timing ended */
    uint32_t charged;          /* the block that array operations are charged to; 0: not known */
    void *charged_frame;       /* and its frame, which is on the stack */
    const void *hook_frame;    /* the frame that called the hooked function which runs; NULL: none runs */
    const char
        *hook_name; /* the hooked function that runs, if its time is charged by name if it is not seen; or NULL */
    const void *
        named_frame; /* the frame that called the extension type's function which runs (extensions/); NULL: none runs */
    struct agent_frame *frames;
    uint32_t n_frames, frames_capacity;
    const void *subscripted;             /* a container whose subscript is about to be called, by bytecode */
    struct agent_site *site;             /* at this place, or NULL if that has been written already, */
    uint32_t site_block;                 /* in this block */
    const char *element;                 /* if it is a store to an element: its address, */
    int64_t element_bytes;               /* and size; 0: another one, or not known */
    struct ft_side_operation *operation; /* of the call that is being recorded: the last one written; NULL: none */
    bool unseen, wrote, timed; /* of the call that is being recorded: it is not seen; some of it is in the stream; its
                                * time does not follow from its accesses */
};

extern _Thread_local struct agent_thread agent_thread __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* A timing of one thread, which other threads neither end nor write to. */
struct agent_times {
    struct ft_side_pyblock *block;
    uint32_t stands_for; /* executions like the first of them, */
    bool goes_on;        /* which have begun before */
    bool imports;        /* it loads a module, whose blocks do not end it */
    uint64_t begun_ns, processor_begun_ns;
    uint64_t reader_ns, return_reader_ns; /* how long the thread had waited for the reader by then */
    uint64_t looked_ns, looked_processor_ns,
        asking_ns; /* what the clocks said last, how long asking the kernel took, */
    uint64_t asked_ns, asked_processor_ns, asked_faults; /* and when the kernel was asked last */
    uint64_t call_ns,
        returned_ns;     /* of a hooked call: when it began (0: none runs, or it has called back), and returned */
    bool is_recorded;    /* the last hooked call is in the stream */
    uint32_t n_readings; /* of the clock, beside that of the timing itself */
    uint32_t n_returns;  /* markers before a return that ran */
    uint64_t left_out_ns;
    uint64_t call_processor_ns, return_processor_ns, left_out_processor_ns; /* where executions may take long, */
    uint64_t call_faults;                                                   /* likewise, of pages */
    uint32_t n_arrays;                    /* operations that recorded calls were charged to */
    uint64_t named_ns, named_left_out_ns; /* since when agent_thread.hook_name runs, 0: it does not; left out before */
    uint32_t named_stands_for;     /* calls of extension types that this one stands for; 0: it is of another kind */
    uint32_t n_named, until_named; /* how many of them were timed; will not be until the next is */
    uint32_t n_compiled, first_compiled; /* how many functions were charged by name, and before the frame returned, */
    struct ft_side_pyblock *returned_to; /* to this block; NULL: it has not, */
    uint64_t frame_end_ns, frame_left_out_ns; /* then; what had been left out by then */
    bool in_hook;                             /* through a hooked function */
    bool is_short;                            /* executions of the block do not take long, with what follows them */
};

/* While a timing of this thread runs: a hooked call begins; its original has returned; what it touched has been
 * recorded. */
void agent_times_call(void);
void agent_times_return(void);
void agent_times_recorded(void);

/* Gives the thread its cursor. NULL when out of memory. */
struct ft_cursor *agent_open_cursor(void);

static inline struct ft_cursor *agent_cursor(void)
{
    return agent_thread.cursor ? agent_thread.cursor : agent_open_cursor();
}

/* The block that this thread's array operations are charged to, 0 if there is none: the one that runs, or, where that
 * is NumPy's or SciPy's own Python code, the innermost one of whoever called it. */
uint32_t agent_charged_block(void);

/* Where in that block's code its frame stands: a byte offset, 0 if it is not known. */
uint32_t agent_charged_site(void);

/* The interpreter's innermost frame, to be compared only. */
const void *agent_current_frame(void);

/* Between these two a hooked function's original runs. What it calls of hooked functions itself is part of it, and
 * agent_hook_end is false for those; what it calls by way of Python code is not. */
static inline const void *agent_hook_begin(void)
{
    const void *outer = agent_thread.hook_frame;
    agent_thread.hook_frame = agent_current_frame();
    if (__builtin_expect(agent_thread.times && agent_thread.hook_frame != outer, 0))
        agent_times_call();
    return outer;
}

static inline bool agent_hook_end(const void *outer)
{
    bool outermost = agent_thread.hook_frame != outer;
    agent_thread.hook_frame = outer;
    return outermost;
}

static inline bool agent_hook_running(void)
{
    return agent_thread.hook_frame && agent_thread.hook_frame == agent_current_frame();
}

/* While a timing runs, of hooked functions whose time is charged by name: one begins, after agent_times_call; one ends,
 * and its time is charged unless all of the call is in the stream. `outer_runs` says whether the outer one (NULL: none)
 * goes on itself, not Python code that it called. */
void agent_times_named_begin(const char *name);
void agent_times_named_end(const char *outer_name, bool outer_runs);

/* The same for functions of extension types, with a sample of their calls where these are many. The first returns false
 * for a call that is not timed. It fills in what the second is to be given: whether an outer function's time was being
 * charged, which is agent_thread.hook_name until then, and what that stood for. */
bool agent_times_compiled_begin(const char *name, bool *outer_runs, uint32_t *outer_stands_for);
void agent_times_compiled_end(bool outer_runs, uint32_t outer_stands_for);

/* A hooked function that is charged by name: agent_hook_begin and agent_hook_end, to which these two belong. */
struct agent_named {
    const void *outer;
    const char *outer_name;
    bool outer_runs;
};

static inline struct agent_named agent_named_begin(const char *name)
{
    struct agent_named call = {.outer_name = agent_thread.hook_name};
    call.outer = agent_hook_begin();
    if (call.outer == agent_thread.hook_frame) /* part of the outer one */
        return call;
    if (__builtin_expect(agent_thread.times != NULL, 0)) {
        call.outer_runs = agent_thread.times->named_ns != 0;
        agent_times_named_begin(name);
    } else {
        agent_thread.hook_name = name;
    }
    return call;
}

/* To be called when the call has been recorded; `outermost` is what agent_hook_end returned. */
static inline void agent_named_end(const struct agent_named *call, bool outermost)
{
    if (!outermost)
        return;
    if (__builtin_expect(agent_thread.times != NULL, 0))
        agent_times_named_end(call->outer_name, call->outer_runs);
    else
        agent_thread.hook_name = call->outer_name;
}

/* ---- what is not seen (unseen.c) ------------------------------------------------------------------------ */

/* Says, while a call is recorded, that its accesses are not in the stream, or there as one pass over its arrays. */
static inline void agent_unseen(void)
{
    agent_thread.unseen = true;
}

/* Says, while a call is recorded, that its time stays in the block's. */
static inline void agent_keep_time(void)
{
    agent_thread.timed = true;
}

/* Brackets the recording of a call. After it, tells whether agent_unseen was called. */
static inline void agent_record_begin(void)
{
    if (__builtin_expect(agent_thread.times != NULL, 0))
        agent_times_return();
    agent_thread.unseen = agent_thread.wrote = agent_thread.timed = false;
    agent_thread.operation = NULL;
}

/* To be called when a call has been recorded. */
static inline void agent_record_end(void)
{
    if (__builtin_expect(agent_thread.times != NULL, 0))
        agent_times_recorded();
    else if (agent_thread.operation && ((agent_thread.unseen && agent_thread.hook_name) || agent_thread.timed))
        atomic_fetch_add_explicit(&agent_thread.operation->kept_calls, 1, memory_order_relaxed);
}

/* Counts a call that was not seen; `bytes` are those of one pass over its arrays, `one_pass` says that they are in the
 * stream. `name` is told apart by address. */
void agent_count_unseen(const char *name, uint64_t bytes, bool one_pass);

/* Adds to the time that a block spent in a compiled function whose accesses are not seen: millionths of a round. */
void agent_count_compiled(uint32_t block, const char *name, uint64_t rounds);

/* ---- bulk records (record.c) ---------------------------------------------------------------------------- */

struct agent_operand {
    uint64_t base;
    int64_t stride[AGENT_MAX_DIMS];
    uint16_t size_bytes;
    bool store, indexed, is_index; /* as in struct ft_operand */
    char kind;
};

/* One array operation: see "A bulk record" in stream.h. `name` is told apart by address. Dimensions count from the
 * outermost. `continued` marks a further record of an operation already begun. */
struct agent_bulk {
    const char *name;
    uint32_t flops, int_ops; /* per point */
    uint32_t n_dims, n_operands;
    bool continued;
    int64_t extent[AGENT_MAX_DIMS];
    struct agent_operand operand[FT_MAX_OPERANDS];
};

/* Where indexed operands find their index: `next` writes the byte offsets of the next `count` points. Where they are
 * numbers of 32 bits times `scale`, `next_narrow` writes these numbers instead: half as much to write. */
struct agent_index {
    void (*next)(struct agent_index *index, int64_t *offsets, int64_t count);
    void (*next_narrow)(struct agent_index *index, int32_t *numbers, int64_t count); /* or NULL */
    int64_t scale;
};

/* Starts a bulk over `n_dims` dimensions of the given extents; 0 dimensions are one point. */
void agent_bulk_begin(struct agent_bulk *bulk, const char *name, uint32_t n_dims, const int64_t *extents);

/* Adds an operand with a stride for each dimension, of elements of unknown kind. */
struct agent_operand *agent_bulk_add(struct agent_bulk *bulk, const void *base, const int64_t *strides,
                                     int64_t size_bytes, bool store);

/* Adds an operand whose offsets come from the index. */
void agent_bulk_add_indexed(struct agent_bulk *bulk, const void *base, int64_t size_bytes, bool store);

/* Orders dimensions as NumPy's iterator does: largest strides outermost, none negative. Not for indexed bulks. */
void agent_bulk_order(struct agent_bulk *bulk);

/* Drops dimensions of extent 1 and joins neighbours that are one run for every operand. Writing does it too. */
void agent_bulk_coalesce(struct agent_bulk *bulk);

/* Writes the bulk, in as many records as it takes. `index` may be NULL if no operand is indexed. */
void agent_bulk_write(struct agent_bulk *bulk, struct agent_index *index);

/* The id of an operation that makes single accesses in the block `block`, at byte `site` of its code; 0 if there is no
 * room. `indexed` as below. */
uint32_t agent_element_operation(const char *name, uint32_t block, uint32_t site, int64_t size_bytes, bool store,
                                 bool indexed);

/* The same, of a place that remembers it. */
static inline uint32_t agent_site_operation(struct agent_site *site, const char *name, uint32_t block,
                                            int64_t size_bytes, bool store, bool indexed)
{
    if (__builtin_expect(site->operation && site->block == block && site->name == name &&
                             site->size_bytes == size_bytes && site->indexed == indexed,
                         1))
        return site->operation;
    uint32_t id = agent_element_operation(name, block, site->offset_bytes, size_bytes, store, indexed);
    *site = (struct agent_site){site->offset_bytes, id, block, name, size_bytes, indexed};
    return id;
}

/* One access by the operation `id`. */
static inline void agent_write_element(uint32_t id, const void *address)
{
    struct ft_cursor *cursor = agent_cursor();
    if (!cursor)
        return;
    ft_write_begin(cursor, 2);
    cursor->next[0] = (uint64_t)FT_TAG_ELEMENT << FT_TAG_SHIFT | id;
    cursor->next[1] = (uintptr_t)address;
    cursor->next += 2;
}

/* One access to an element at a place, by an index that was in no array. False if there is no room for its operation.
 */
static inline bool agent_write_at_site(struct agent_site *site, const char *name, uint32_t block, const void *address,
                                       int64_t size_bytes, bool store)
{
    const uint32_t id = agent_site_operation(site, name, block, size_bytes, store, false);
    if (id)
        agent_write_element(id, address);
    return id != 0;
}

/* One access, as an operation of its own, of the block it is charged to. `indexed`: at an index that the program loaded
 * from an array. */
void agent_write_access(const char *name, const void *base, int64_t offset, int64_t size_bytes, bool store,
                        bool indexed);

#endif
