/* What loops carry from one iteration to a later one. See dependences.h.
 *
 * Invariants
 *  - Levels of a thread: entry <= start <= the entry of the next one inside. Those of one frame of the stack are together.
 *  - A cell without a writer has `written` 0, one that was not read since it was written `first_read` 0.
 *  - Where a block runs for the first time, the tree cannot know yet whether it is in the loops that ran so far: a branch of
 *    theirs may have led there, or they were left. The levels of its frame are then in doubt, since that time. A block that
 *    first ran before it ends the doubt: a level stays if that block is in its loop. A level in doubt begins no iteration.
 *  - `doubtful` has the rows of levels in doubt, with the number of the level instead of the loop.
 *  - Levels that are in doubt are so since a time that ascends from the outermost to the innermost one; where one is, so are
 *    those of its frame around it.
 *  - A store is the first of its place in an iteration of the loops from some level on inwards. Its bytes are counted once, by that
 *    level and by the innermost loop; what each loop wrote anew in its iterations is a sum of such rows.
 *  - A page's number is in the table if and only if its hash is at most `limit`, and it was touched.
 */
#include "dependences.h"

#include "foretrace/base/tables.h"

#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX
#define PAGE_BITS 12
#define GRANULE_BITS 3 /* at most */
#define KINDS 8u /* room for those of enum ft_dependence */
#define WAYS 2u
#define CACHED_PAGES 256u
#define RECENT 1024u /* iterations whose beginnings a level remembers; of those before, every 1024th */
#define ARRAY_DEPTH UINT32_MAX
#define THREAD_BITS 16
#define ENOUGH_ITERATIONS 16384u /* examined behind another one: the loop is known */
#define MOST_CHUNKS 64u     /* examined while a loop ran, */
#define MOST_ITERATIONS 6u  /* or the chunks of so many iterations more */
#define LONGEST_CHUNKS 128u /* of an iteration: longer ones are not examined */
#define CHUNKS_RUN 8u       /* that begin in a loop, for each one that is examined */
#define FRAMES_ASKED 32u /* the innermost, of those that the program stands in, */
#define MOST_ASKED 64u   /* and loops in them */

struct cell {
    uint64_t written, first_read; /* time << THREAD_BITS | thread */
    uint32_t writer, first_reader, last_reader, unused;
};

struct page {
    uint64_t number;
    uint32_t granule_bits;
    struct cell *cells;
};

struct level {
    uint64_t entry, start, iterations;
    uint64_t doubt_since; /* 0: not in doubt */
    uint32_t depth, slot, loop;
    uint64_t *recent, *coarse; /* times at which iterations began; they stay with the place in the stack of levels */
    uint32_t coarse_capacity;
};

struct frame {
    uint64_t since, node;
    uint32_t function, version;
};

struct row {
    uint64_t count, least, most, bytes; /* count 0: free */
    uint32_t source, sink, loop, kind;
};

FT_TABLE_TYPE(rows, struct row);

struct thread {
    struct level *levels;
    uint32_t num_levels, levels_capacity;
    struct frame *frames;
    uint32_t num_frames, frames_capacity;
    struct rows doubtful;
    uint32_t doubtful_levels; /* rows in doubt are of no level beyond so many */
    bool doubts_ended;        /* of a level, since rows in doubt were gone through */
};

struct loop {
    uint64_t node, iterations, entries;
    uint32_t function, slot, array_id;
    uint32_t around; /* the loop around it when it was entered first, NONE; there is no way back to itself */
    uint32_t chunks_run, chunks_examined; /* that began in it; that were examined while it ran */
    uint64_t asked_at;                    /* see times_asked */
};

struct operation {
    uint64_t first, last_exclusive; /* of its last access */
    uint64_t stores;
    uint32_t at[KINDS][WAYS]; /* where some of its rows are, by kind; or were, before the table grew */
};

/* When a block first and last ran. */
struct runs {
    uint64_t first, last;
};

struct times {
    struct runs *runs; /* by local block */
    uint32_t capacity;
};

struct ft_dependences {
    const struct ft_tree *tree;
    uint64_t time, max_bytes, shadow_bytes, limit;
    struct thread **threads; /* by number */
    uint32_t threads_capacity;
    struct thread *thread;
    uint32_t thread_number, last_operation;
    struct ft_tree_place place;                 /* of the block at hand, or its part */
    uint32_t next, next_at, block_instructions; /* its next part, and the instruction that this begins with */
    struct page **pages;                        /* open addressing */
    uint64_t pages_capacity, num_pages;
    struct page *cached[CACHED_PAGES];
    struct loop *loops;
    uint32_t num_loops, loops_capacity;
    uint32_t *loop_table;
    uint64_t loop_table_capacity;
    struct rows rows;
    struct operation *operations;
    uint32_t operations_capacity;
    struct times *functions;
    uint32_t functions_capacity;
    uint64_t times_asked; /* which loops want to be examined */
};

static uint64_t mix(uint64_t value)
{
    value = (value ^ value >> 32) * UINT64_C(0xd6e8feb86659fd93); /* the finaliser rrmxmx of P. Evensen, shortened */
    value = (value ^ value >> 32) * UINT64_C(0xd6e8feb86659fd93);
    return value ^ value >> 32;
}

/* ---- what was found ----------------------------------------------------------------------------------------------- */

static inline uint64_t hash_of(const struct row *row)
{
    return mix(((uint64_t)row->source << 32 | row->sink) ^ mix((uint64_t)row->loop << 3 | row->kind));
}

static inline bool is_used(const struct row *row)
{
    return row->count;
}

static inline bool is_same(const struct row *one, const struct row *other)
{
    return one->source == other->source && one->sink == other->sink && one->loop == other->loop &&
           one->kind == other->kind;
}

FT_TABLE(rows, struct row, 64, hash_of, is_used, is_same)

static inline void add_to_row(struct row *row, const struct row *added)
{
    row->count += added->count;
    row->bytes += added->bytes;
    row->least = added->least < row->least ? added->least : row->least;
    row->most = added->most > row->most ? added->most : row->most;
}

static bool add_row(struct rows *rows, const struct row *added)
{
    if (!rows_make_room(rows))
        return false;
    struct row *row = rows_at(rows, added);
    if (row->count) {
        add_to_row(row, added);
        return true;
    }
    *row = *added;
    rows->used++;
    return true;
}

/* Adds to the rows that are no longer in doubt. Most of an operation's rows are those that it added to before. */
static inline bool add_sure_row(struct ft_dependences *d, const struct row *added)
{
    uint32_t *at = &d->operations[added->sink].at[added->kind][(added->source ^ added->loop) % WAYS];
    struct rows *rows = &d->rows;
    struct row *row = *at < rows->capacity ? &rows->entries[*at] : NULL;
    if (row && row->count && is_same(row, added)) {
        add_to_row(row, added);
        return true;
    }
    if (!add_row(rows, added))
        return false;
    *at = (uint32_t)(rows_at(rows, added) - rows->entries);
    return true;
}

/* Adds a row in doubt, of levels up to `level`. */
static bool add_doubtful_row(struct thread *t, const struct row *added, uint32_t level)
{
    if (t->doubtful_levels <= level)
        t->doubtful_levels = level + 1;
    return add_row(&t->doubtful, added);
}

/* Adds a row of a level, which may be in doubt; `row.loop` is the level's number. */
static bool add_to_level(struct ft_dependences *d, struct row row)
{
    const struct level *level = &d->thread->levels[row.loop];
    if (level->doubt_since)
        return add_doubtful_row(d->thread, &row, row.loop);
    row.loop = level->loop;
    return add_sure_row(d, &row);
}

/* Adds a row of FT_WRITTEN, of the levels from `row.loop` to `row.source`. Those inside all that are in doubt are sure.
 */
static bool add_to_levels(struct ft_dependences *d, struct row row)
{
    const struct level *levels = d->thread->levels;
    const uint32_t first = row.loop;
    uint32_t sure = row.source + 1;
    while (sure > first && !levels[sure - 1].doubt_since)
        sure--;
    if (sure <= row.source) {
        const uint32_t last = row.source;
        row.source = levels[last].loop;
        row.loop = levels[sure].loop;
        if (!add_sure_row(d, &row))
            return false;
    }
    if (sure == first)
        return true;
    row.source = sure - 1;
    row.loop = first;
    return add_doubtful_row(d->thread, &row, row.source);
}

static uint64_t iteration_at(const struct level *level, uint64_t then);

/* Whether a stamp is of the thread at hand. */
static inline bool is_own(const struct ft_dependences *d, uint64_t stamp)
{
    return stamp && (stamp & ((1u << THREAD_BITS) - 1)) == d->thread_number;
}

/* How many levels had been entered at a time. */
static inline uint32_t levels_at(const struct thread *t, uint64_t then)
{
    uint32_t number = t->num_levels;
    while (number > 0 && then < t->levels[number - 1].entry)
        number--;
    return number;
}

/* Enters that operation `op` depends on what `source` did at the time of `stamp`, by `bytes`. What was in the same
 * iteration counts for FT_FLOW only. */
static inline bool depends(struct ft_dependences *d, uint64_t stamp, uint32_t source, uint32_t op, uint32_t kind,
                           uint64_t bytes)
{
    const struct thread *t = d->thread;
    const uint64_t then = stamp >> THREAD_BITS;
    const uint32_t i = is_own(d, stamp) ? levels_at(t, then) : 0;
    if (i == 0)
        return true;
    const struct level *level = &t->levels[i - 1];
    struct row row = {1, 0, 0, bytes, source, op, i - 1, kind};
    if (then >= level->start) {
        if (kind != FT_FLOW)
            return true;
        row.kind = FT_FLOW_WITHIN;
    } else
        row.least = row.most = level->iterations - 1 - iteration_at(level, then);
    return add_to_level(d, row);
}

/* Enters that operation `op` stores where a store went at the time of `stamp` last: for the loops inside the one that
 * was entered by then, or that one too if its iteration is another, no store of the iteration went there. */
static inline bool writes(struct ft_dependences *d, uint64_t stamp, uint32_t op, uint64_t bytes)
{
    const struct thread *t = d->thread;
    const uint64_t then = stamp >> THREAD_BITS;
    uint32_t first = is_own(d, stamp) ? levels_at(t, then) : 0;
    if (first && then < t->levels[first - 1].start)
        first--;
    return first == t->num_levels ||
           add_to_levels(d, (struct row){1, 0, 0, bytes, t->num_levels - 1, op, first, FT_WRITTEN});
}

/* Ends all levels but the first `number`, and enters what is no longer in doubt. A level that ends in doubt had been
 * left before: what it seemed to carry was within one iteration of the level around it. */
static bool end_levels(struct ft_dependences *d, uint32_t number)
{
    struct thread *t = d->thread;
    const struct rows doubtful = t->doubtful;
    bool done = true;
    t->num_levels = number;
    if (!doubtful.used || (number >= t->doubtful_levels && !t->doubts_ended))
        return true;
    t->doubtful = (struct rows){0};
    t->doubtful_levels = 0;
    t->doubts_ended = false;
    for (uint64_t i = 0; i < doubtful.capacity && done; i++) {
        struct row row = doubtful.entries[i];
        if (!row.count)
            continue;
        if (row.kind == FT_WRITTEN && row.source >= number)
            row.source = number - (number > 0);
        if (row.loop >= number) {
            if (!number || (row.kind != FT_FLOW && row.kind != FT_FLOW_WITHIN))
                continue;
            row.kind = FT_FLOW_WITHIN;
            row.loop = number - 1;
            row.least = row.most = 0;
        }
        done = row.kind == FT_WRITTEN ? add_to_levels(d, row) : add_to_level(d, row);
    }
    free(doubtful.entries);
    return done;
}

/* ---- loops and their iterations ----------------------------------------------------------------------------------- */

static uint64_t loop_place(const struct ft_dependences *d, const struct loop *loop)
{
    uint64_t at = mix(loop->node ^ mix((uint64_t)loop->function << 32 | loop->slot) ^ loop->array_id);
    for (at &= d->loop_table_capacity - 1; d->loop_table[at]; at = (at + 1) & (d->loop_table_capacity - 1)) {
        const struct loop *other = &d->loops[d->loop_table[at] - 1];
        if (other->node == loop->node && other->function == loop->function && other->slot == loop->slot &&
            other->array_id == loop->array_id)
            break;
    }
    return at;
}

/* A loop's number. NONE when memory ran out. */
static uint32_t number_of(struct ft_dependences *d, struct loop loop)
{
    if (2 * (uint64_t)d->num_loops >= d->loop_table_capacity) {
        free(d->loop_table);
        d->loop_table_capacity = d->loop_table_capacity ? 2 * d->loop_table_capacity : 256;
        d->loop_table = calloc(d->loop_table_capacity, sizeof *d->loop_table);
        if (!d->loop_table)
            return NONE;
        for (uint32_t i = 0; i < d->num_loops; i++)
            d->loop_table[loop_place(d, &d->loops[i])] = i + 1;
    }
    const uint64_t at = loop_place(d, &loop);
    if (d->loop_table[at])
        return d->loop_table[at] - 1;
    if (!ft_reserve(&d->loops, &d->loops_capacity, d->num_loops, sizeof *d->loops))
        return NONE;
    d->loops[d->num_loops] = loop;
    d->loop_table[at] = ++d->num_loops;
    return d->num_loops - 1;
}

/* One more iteration of a level, from now on. */
static bool begin_iteration(struct ft_dependences *d, struct level *level)
{
    const uint64_t number = level->iterations++;
    level->start = d->time;
    level->recent[number % RECENT] = d->time;
    d->loops[level->loop].iterations++;
    if (number % RECENT)
        return true;
    if (!ft_reserve(&level->coarse, &level->coarse_capacity, (uint32_t)(number / RECENT), sizeof *level->coarse))
        return false;
    level->coarse[number / RECENT] = d->time;
    return true;
}

/* Enters a loop, at a time that may have passed. */
static bool push_level(struct ft_dependences *d, struct loop loop, uint32_t depth, uint64_t entry)
{
    struct thread *t = d->thread;
    if (!ft_reserve(&t->levels, &t->levels_capacity, t->num_levels, sizeof *t->levels))
        return false;
    struct level *level = &t->levels[t->num_levels];
    if (!level->recent && !(level->recent = malloc(RECENT * sizeof *level->recent)))
        return false;
    level->loop = number_of(d, loop);
    if (level->loop == NONE)
        return false;
    level->depth = depth;
    level->slot = loop.slot;
    level->doubt_since = 0;
    level->iterations = 0;
    struct loop *entered = &d->loops[level->loop];
    if (!entered->entries++)
        entered->around = t->num_levels ? t->levels[t->num_levels - 1].loop : NONE;
    t->num_levels++;
    const uint64_t now = d->time;
    d->time = entry;
    const bool done = begin_iteration(d, level);
    d->time = now;
    level->entry = entry;
    return done;
}

/* The number, from 0, of the iteration that time `then` is in, of those at or before the current one. */
static uint64_t iteration_at(const struct level *level, uint64_t then)
{
    if (level->iterations > 1 && level->recent[(level->iterations - 2) % RECENT] <= then)
        return level->iterations - 1 - (level->start > then);
    const uint64_t oldest = level->iterations > RECENT ? level->iterations - RECENT : 0;
    uint64_t low, high; /* low began by then; high did not */
    if (level->recent[oldest % RECENT] <= then) {
        for (low = oldest, high = level->iterations; high - low > 1;) {
            const uint64_t middle = low + (high - low) / 2;
            *(level->recent[middle % RECENT] <= then ? &low : &high) = middle;
        }
        return low;
    }
    for (low = 0, high = oldest / RECENT + 1; high - low > 1;) {
        const uint64_t middle = low + (high - low) / 2;
        *(level->coarse[middle] <= then ? &low : &high) = middle;
    }
    return low * RECENT;
}

static struct thread *thread_of(struct ft_dependences *d, uint32_t number)
{
    if (!ft_reserve(&d->threads, &d->threads_capacity, number, sizeof(struct thread *)))
        return NULL;
    if (!d->threads[number])
        d->threads[number] = calloc(1, sizeof(struct thread));
    d->thread_number = number;
    return d->thread = d->threads[number];
}

/* Goes to the frame that the tree stands in. */
static bool follow_frames(struct ft_dependences *d, const struct ft_tree_place *place)
{
    struct thread *t = d->thread;
    const struct frame fresh = {
        .since = d->time + 1, .node = place->node, .function = place->function, .version = place->version};
    if (!ft_reserve(&t->frames, &t->frames_capacity, place->depth, sizeof *t->frames))
        return false;
    struct frame *frame = &t->frames[place->depth];
    const bool stays = place->depth < t->num_frames && frame->node == place->node && frame->function == place->function;
    const uint32_t kept = place->depth + stays; /* frames */
    uint32_t end = t->num_levels;
    while (end && t->levels[end - 1].depth >= kept)
        end--;
    if (end < t->num_levels && !end_levels(d, end))
        return false;
    for (uint32_t i = t->num_frames; i < place->depth; i++)
        t->frames[i] = fresh;
    if (!stays)
        *frame = fresh;
    t->num_frames = place->depth + 1;
    return true;
}

/* Of a function's local block. NULL when memory ran out. */
static struct runs *runs_of(struct ft_dependences *d, uint32_t function, uint32_t local)
{
    if (!ft_reserve(&d->functions, &d->functions_capacity, function, sizeof *d->functions))
        return NULL;
    struct times *times = &d->functions[function];
    return ft_reserve(&times->runs, &times->capacity, local, sizeof *times->runs) ? &times->runs[local] : NULL;
}

/* When a loop was entered that the tree did not know of until now; now if it knew. */
static uint64_t entry_of(const struct ft_dependences *d, const struct ft_tree_place *place,
                         const struct ft_tree_loop_place *loop)
{
    const struct thread *t = d->thread;
    const struct frame *frame = &t->frames[place->depth];
    const struct times *times = place->function < d->functions_capacity ? &d->functions[place->function] : NULL;
    uint64_t before = 0;
    for (uint32_t i = 0; i < loop->num_headers && times && frame->version != place->version; i++)
        if (loop->headers[i] < times->capacity && times->runs[loop->headers[i]].last > before)
            before = times->runs[loop->headers[i]].last;
    const bool is_of_frame = before >= frame->since && (!t->num_levels || before >= t->levels[t->num_levels - 1].start);
    return before && is_of_frame ? before : d->time;
}

static uint32_t parent_of(const struct ft_dependences *d, const struct ft_tree_place *place, uint32_t slot)
{
    return ft_tree_loop_place(d->tree, place->function, slot).parent;
}

/* The first level of the frame at hand that is not in doubt. */
static uint32_t first_level(const struct thread *t, const struct ft_tree_place *place)
{
    uint32_t first = t->num_levels;
    while (first && t->levels[first - 1].depth == place->depth && !t->levels[first - 1].doubt_since)
        first--;
    return first;
}

/* Enters the loop at `slot`, and those around it: `number` loops in all. */
static bool enter_loops(struct ft_dependences *d, const struct ft_tree_place *place, uint32_t slot, uint32_t number)
{
    if (!number)
        return true;
    const struct ft_tree_loop_place loop = ft_tree_loop_place(d->tree, place->function, slot);
    const struct loop like = {.node = place->node, .function = place->function, .slot = slot};
    return enter_loops(d, place, loop.parent, number - 1) &&
           push_level(d, like, place->depth, entry_of(d, place, &loop));
}

/* Leaves the loops that are not around a block, and enters those that are. */
static bool follow_loops(struct ft_dependences *d, const struct ft_tree_place *place, struct ft_tree_part part)
{
    struct thread *t = d->thread;
    const uint32_t first = first_level(t, place);
    uint32_t number = 0, same, i;
    for (uint32_t slot = part.slot; slot != NONE; slot = parent_of(d, place, slot))
        number++;
    i = same = number;
    for (uint32_t slot = part.slot; slot != NONE; slot = parent_of(d, place, slot), i--)
        if (first + i > t->num_levels || t->levels[first + i - 1].slot != slot)
            same = i - 1;
    if (!end_levels(d, first + same) || !enter_loops(d, place, part.slot, number - same))
        return false;
    if (!part.is_header)
        return true;
    struct level *top = &t->levels[t->num_levels - 1];
    return top->start == d->time || begin_iteration(d, top);
}

/* A block runs that has not run before: whether the loops of its frame were left is in doubt. */
static void begin_doubt(struct ft_dependences *d, const struct ft_tree_place *place)
{
    struct thread *t = d->thread;
    for (uint32_t i = first_level(t, place); i < t->num_levels; i++)
        t->levels[i].doubt_since = d->time;
}

/* Ends the doubts that began after a time; whether there were any. */
static bool end_doubts(struct ft_dependences *d, const struct ft_tree_place *place, uint64_t since)
{
    struct thread *t = d->thread;
    bool was_in_doubt = false;
    for (uint32_t i = t->num_levels; i > 0 && t->levels[i - 1].depth == place->depth; i--) {
        struct level *level = &t->levels[i - 1];
        was_in_doubt |= level->doubt_since > since;
        level->doubt_since = level->doubt_since > since ? 0 : level->doubt_since;
    }
    t->doubts_ended |= was_in_doubt;
    return was_in_doubt;
}

/* Runs the beginning of the block at `d->place`. */
static bool run_part(struct ft_dependences *d)
{
    struct thread *t = d->thread;
    const struct ft_tree_place *place = &d->place;
    const struct ft_tree_part part = ft_tree_part(d->tree, place->function, place->local);
    d->time++;
    d->last_operation = NONE;
    struct runs *runs = runs_of(d, place->function, place->local);
    if (!runs)
        return false;
    const bool is_unplaced = !runs->first && part.slot == NONE;
    if (is_unplaced)
        begin_doubt(d, place);
    const bool ends_doubts = !is_unplaced && end_doubts(d, place, runs->first);
    const struct level *top = t->num_levels ? &t->levels[t->num_levels - 1] : NULL;
    const bool is_same = part.slot == NONE ? !top || top->depth != place->depth || top->doubt_since
                                           : top && top->depth == place->depth && top->slot == part.slot;
    if (part.is_header && is_same && !ends_doubts && !top->doubt_since &&
        t->frames[place->depth].version == place->version) {
        if (!begin_iteration(d, &t->levels[t->num_levels - 1]))
            return false;
    } else if ((ends_doubts || !is_same || part.is_header) && !follow_loops(d, place, part)) {
        return false;
    }
    t->frames[place->depth].version = place->version;
    d->next = part.next;
    d->next_at =
        part.next == NONE ? 0 : d->block_instructions - ft_tree_part(d->tree, place->function, part.next).instructions;
    runs->first = runs->first ? runs->first : d->time;
    runs->last = d->time;
    return true;
}

/* Runs on up to an instruction of the block. */
static bool run_parts(struct ft_dependences *d, uint32_t instruction)
{
    bool done = true;
    while (done && d->next != NONE && instruction >= d->next_at) {
        d->place.local = d->next;
        done = run_part(d);
    }
    return done;
}

void ft_dependences_resume(struct ft_dependences *d)
{
    for (uint32_t i = 0; i < d->threads_capacity; i++) {
        struct thread *t = d->threads[i];
        if (!t)
            continue;
        free(t->doubtful.entries);
        t->doubtful = (struct rows){0};
        t->num_levels = t->num_frames = 0;
    }
    d->thread = NULL;
    d->next = d->last_operation = NONE;
    d->time++;
}

bool ft_dependences_switch(struct ft_dependences *d, uint32_t thread)
{
    if (d->thread && d->thread_number == thread)
        return true;
    if (!run_parts(d, NONE))
        return false;
    d->last_operation = NONE;
    return thread_of(d, thread);
}

bool ft_dependences_enter(struct ft_dependences *d)
{
    if (!run_parts(d, NONE))
        return false;
    ft_tree_stands_at(d->tree, &d->place);
    if (!follow_frames(d, &d->place))
        return false;
    d->block_instructions = ft_tree_part(d->tree, d->place.function, d->place.local).instructions;
    return run_part(d);
}

/* ---- windows ------------------------------------------------------------------------------------------------------ */

/* How many chunks more a loop wants, whose header has run so often: as many as hold two whole iterations, wherever they
 * begin. 0 for none. */
static uint32_t wanted_by(const struct loop *loop, uint64_t iterations)
{
    if (iterations < 2 || CHUNKS_RUN * (uint64_t)loop->chunks_examined >= loop->chunks_run)
        return 0;
    const uint64_t of_iteration = 1 + loop->chunks_run / iterations;
    const bool is_known = loop->iterations >= loop->entries + ENOUGH_ITERATIONS ||
                          loop->chunks_examined >= MOST_CHUNKS + MOST_ITERATIONS * of_iteration;
    return is_known || of_iteration > LONGEST_CHUNKS ? 0 : of_iteration == 1 ? 1 : (uint32_t)(3 * of_iteration);
}

/* A loop that the tree stands in, and how many chunks it wants. */
struct asked {
    uint32_t loop, wanted;
};

/* Those, each once, from the innermost outwards: up to MOST_ASKED. Returns how many. */
static uint32_t ask_loops(struct ft_dependences *d, struct asked *asked)
{
    uint32_t number = 0;
    const uint32_t depth = ft_tree_depth(d->tree);
    for (uint32_t below = 0; below <= depth && below < FRAMES_ASKED; below++) {
        struct ft_tree_place place;
        if (!ft_tree_stands_in(d->tree, depth - below, &place))
            continue;
        for (uint32_t slot = ft_tree_part(d->tree, place.function, place.local).slot;
             slot != NONE && number < MOST_ASKED; slot = parent_of(d, &place, slot)) {
            const uint32_t name =
                number_of(d, (struct loop){.node = place.node, .function = place.function, .slot = slot});
            if (name == NONE)
                return number;
            struct loop *loop = &d->loops[name];
            if (loop->asked_at == d->times_asked)
                continue; /* its function is on the stack several times */
            loop->asked_at = d->times_asked;
            loop->chunks_run++;
            asked[number++] = (struct asked){name, wanted_by(loop, ft_tree_iterations(d->tree, depth - below, slot))};
        }
    }
    return number;
}

uint32_t ft_dependences_wanted(struct ft_dependences *d, uint32_t may_be_examined)
{
    struct asked asked[MOST_ASKED];
    uint32_t most = 0;
    d->times_asked++;
    const uint32_t number = ask_loops(d, asked);
    for (uint32_t i = 0; i < number; i++)
        most = asked[i].wanted <= may_be_examined && asked[i].wanted > most ? asked[i].wanted : most;
    for (uint32_t i = 0; i < number; i++)
        d->loops[asked[i].loop].chunks_examined += most;
    return most;
}

/* ---- array operations: loops without blocks ----------------------------------------------------------------------- */

bool ft_dependences_array(struct ft_dependences *d, uint32_t array_id, bool goes_on)
{
    struct thread *t = d->thread;
    if (!t || !t->num_frames)
        return true; /* nothing has run that it could be part of */
    struct level *top = t->num_levels ? &t->levels[t->num_levels - 1] : NULL;
    const bool is_on_top = top && top->depth == ARRAY_DEPTH;
    if (goes_on && is_on_top && d->loops[top->loop].array_id == array_id)
        return true;
    if (is_on_top && !end_levels(d, t->num_levels - 1))
        return false;
    const struct frame *frame = &t->frames[t->num_frames - 1];
    d->time++;
    return push_level(
        d, (struct loop){.node = frame->node, .function = frame->function, .slot = NONE, .array_id = array_id},
        ARRAY_DEPTH, d->time);
}

bool ft_dependences_point(struct ft_dependences *d)
{
    struct thread *t = d->thread;
    d->last_operation = NONE;
    if (!t || !t->num_levels || t->levels[t->num_levels - 1].depth != ARRAY_DEPTH)
        return true;
    d->time++;
    return begin_iteration(d, &t->levels[t->num_levels - 1]);
}

/* ---- shadow memory ------------------------------------------------------------------------------------------------ */

static uint64_t cells_of(uint32_t granule_bits)
{
    return UINT64_C(1) << (PAGE_BITS - granule_bits);
}

static struct page **page_place(const struct ft_dependences *d, uint64_t number)
{
    uint64_t at = mix(number) >> 16 & (d->pages_capacity - 1);
    while (d->pages[at] && d->pages[at]->number != number)
        at = (at + 1) & (d->pages_capacity - 1);
    return &d->pages[at];
}

static void free_page(struct ft_dependences *d, struct page *page)
{
    d->shadow_bytes -= cells_of(page->granule_bits) * sizeof(struct cell);
    d->num_pages--;
    free(page->cells);
    free(page);
}

/* Gives the table room for `capacity` pages, and leaves out those that are no longer followed. */
static bool rebuild_pages(struct ft_dependences *d, uint64_t capacity)
{
    struct page **old = d->pages;
    const uint64_t old_capacity = d->pages_capacity;
    d->pages = calloc(capacity, sizeof(struct page *));
    if (!d->pages) {
        d->pages = old;
        return false;
    }
    d->pages_capacity = capacity;
    memset(d->cached, 0, sizeof d->cached);
    for (uint64_t i = 0; i < old_capacity; i++) {
        if (!old[i])
            continue;
        if (mix(old[i]->number) > d->limit)
            free_page(d, old[i]);
        else
            *page_place(d, old[i]->number) = old[i];
    }
    free(old);
    return true;
}

static struct page *new_page(struct ft_dependences *d, uint64_t number)
{
    struct page *page = calloc(1, sizeof *page);
    if (page)
        page->cells = calloc(cells_of(GRANULE_BITS), sizeof(struct cell));
    if (!page || !page->cells) {
        free(page);
        return NULL;
    }
    page->number = number;
    page->granule_bits = GRANULE_BITS;
    d->shadow_bytes += cells_of(GRANULE_BITS) * sizeof(struct cell);
    d->num_pages++;
    return page;
}

/* Gives a page smaller cells. */
static bool split_page(struct ft_dependences *d, struct page *page, uint32_t granule_bits)
{
    struct cell *cells = malloc(cells_of(granule_bits) * sizeof *cells);
    if (!cells)
        return false;
    for (uint64_t i = 0; i < cells_of(granule_bits); i++)
        cells[i] = page->cells[i >> (page->granule_bits - granule_bits)];
    free(page->cells);
    d->shadow_bytes += (cells_of(granule_bits) - cells_of(page->granule_bits)) * sizeof *cells;
    page->cells = cells;
    page->granule_bits = granule_bits;
    return true;
}

/* A page with cells of 2^`granule_bits` bytes or less; `*page` is NULL for one that is not followed. False when memory
 * ran out. */
static bool find_page(struct ft_dependences *d, uint64_t number, uint32_t granule_bits, struct page **page)
{
    struct page **cached = &d->cached[number % CACHED_PAGES];
    *page = *cached;
    if (!*page || (*page)->number != number) {
        *page = NULL;
        if (mix(number) > d->limit)
            return true;
        if (2 * d->num_pages >= d->pages_capacity &&
            !rebuild_pages(d, d->pages_capacity ? 2 * d->pages_capacity : 1024))
            return false;
        struct page **place = page_place(d, number);
        if (!*place && !(*place = new_page(d, number)))
            return false;
        *page = *cached = *place;
    }
    if (granule_bits < (*page)->granule_bits && !split_page(d, *page, granule_bits))
        return false;
    while (d->shadow_bytes > d->max_bytes && d->limit) {
        d->limit /= 2;
        if (!rebuild_pages(d, d->pages_capacity))
            return false;
        *page = mix(number) > d->limit ? NULL : *page;
    }
    return true;
}

/* ---- accesses ----------------------------------------------------------------------------------------------------- */

/* Cells that were all as `cell` is, and are accessed together. */
struct piece {
    struct cell cell;
    uint64_t address, bytes;
};

static bool is_like(const struct cell *a, const struct cell *b, bool is_store)
{
    return a->written == b->written && a->writer == b->writer &&
           (!is_store || (a->first_read == b->first_read && a->first_reader == b->first_reader));
}

static void note_read(const struct ft_dependences *d, struct cell *cell, uint32_t op)
{
    const struct thread *t = d->thread;
    const uint64_t entry = t->num_levels ? t->levels[t->num_levels - 1].entry : 0;
    cell->last_reader = op;
    if (cell->first_read >> THREAD_BITS < entry || !cell->first_read) {
        cell->first_read = d->time << THREAD_BITS | d->thread_number;
        cell->first_reader = op;
    }
}

/* Enters what an access to a piece depends on. */
static bool end_piece(struct ft_dependences *d, const struct piece *piece, uint32_t op, bool is_store)
{
    const struct cell *cell = &piece->cell;
    if (!is_store)
        return depends(d, cell->written, cell->writer, op, FT_FLOW, piece->bytes);
    if (cell->first_read && cell->last_reader < d->operations_capacity) {
        const struct row update = {1, 0, 0, piece->bytes, cell->last_reader, op, NONE, FT_UPDATE};
        const struct operation *reader = &d->operations[cell->last_reader];
        if (piece->address >= reader->first && piece->address < reader->last_exclusive && !add_sure_row(d, &update))
            return false;
    }
    return depends(d, cell->written, cell->writer, op, FT_OUTPUT, piece->bytes) &&
           depends(d, cell->first_read, cell->first_reader, op, FT_ANTI, piece->bytes) &&
           writes(d, cell->written, op, piece->bytes);
}

/* Remembers where an operation goes. The parts of one access follow on one another. */
static bool note_operation(struct ft_dependences *d, uint64_t address, uint32_t op, uint32_t size_bytes)
{
    if (!ft_reserve(&d->operations, &d->operations_capacity, op, sizeof *d->operations))
        return false;
    struct operation *operation = &d->operations[op];
    if (d->last_operation != op || operation->last_exclusive != address)
        operation->first = address;
    operation->last_exclusive = address + size_bytes;
    d->last_operation = op;
    return true;
}

bool ft_dependences_access(struct ft_dependences *d, uint64_t address, uint32_t op, uint32_t size_bytes, bool is_store,
                           uint32_t instruction)
{
    const uint64_t end = address + size_bytes;
    if (!d->thread)
        return true;
    if (!run_parts(d, instruction) || !note_operation(d, address, op, size_bytes))
        return false;
    const uint64_t unit = address | size_bytes;
    const uint32_t granule_bits = unit & 3 ? 0 : unit & 7 ? 2 : GRANULE_BITS;
    struct piece piece = {.bytes = 0};
    bool done = true, is_followed = false;
    while (address < end && done) {
        struct page *page;
        const uint64_t page_end = ((address >> PAGE_BITS) + 1) << PAGE_BITS, until = end < page_end ? end : page_end;
        done = find_page(d, address >> PAGE_BITS, granule_bits, &page);
        const uint64_t step = UINT64_C(1) << (page ? page->granule_bits : 0);
        is_followed |= page != NULL;
        for (; address < until && page && done; address += step) {
            struct cell *cell = &page->cells[(address & ((1u << PAGE_BITS) - 1)) >> page->granule_bits];
            if (piece.bytes && !is_like(&piece.cell, cell, is_store)) {
                done = end_piece(d, &piece, op, is_store);
                piece.bytes = 0;
            }
            if (!piece.bytes)
                piece = (struct piece){*cell, address, 0};
            piece.bytes += step;
            if (is_store)
                *cell = (struct cell){
                    .written = d->time << THREAD_BITS | d->thread_number, .writer = op, .last_reader = NONE};
            else
                note_read(d, cell, op);
        }
        address = until;
    }
    d->operations[op].stores += is_store && is_followed; /* as the updates among them */
    return done && (!piece.bytes || end_piece(d, &piece, op, is_store));
}

/* ---- beginning and end -------------------------------------------------------------------------------------------- */

struct ft_dependences *ft_dependences_new(const struct ft_tree *tree, uint64_t max_bytes)
{
    struct ft_dependences *d = calloc(1, sizeof *d);
    if (d) {
        d->tree = tree;
        d->max_bytes = max_bytes;
        d->limit = UINT64_MAX;
        d->last_operation = d->next = NONE;
    }
    return d;
}

void ft_dependences_free(struct ft_dependences *d)
{
    if (!d)
        return;
    for (uint32_t i = 0; i < d->threads_capacity; i++) {
        struct thread *t = d->threads[i];
        for (uint32_t j = 0; t && j < t->levels_capacity; j++) {
            free(t->levels[j].recent);
            free(t->levels[j].coarse);
        }
        if (t) {
            free(t->levels);
            free(t->frames);
            free(t->doubtful.entries);
        }
        free(t);
    }
    for (uint64_t i = 0; i < d->pages_capacity; i++)
        if (d->pages[i])
            free_page(d, d->pages[i]);
    for (uint32_t i = 0; i < d->functions_capacity; i++)
        free(d->functions[i].runs);
    free(d->threads);
    free(d->pages);
    free(d->loops);
    free(d->loop_table);
    free(d->rows.entries);
    free(d->operations);
    free(d->functions);
    free(d);
}

uint64_t ft_dependences_rows(const struct ft_dependences *d, uint64_t *out)
{
    for (uint64_t i = 0; i < d->rows.capacity && out; i++) {
        const struct row *row = &d->rows.entries[i];
        if (!row->count)
            continue;
        const uint64_t values[FT_DEPENDENCE_COLUMNS] = {row->kind,  row->source, row->sink, row->loop,
                                                        row->count, row->least,  row->most, row->bytes};
        memcpy(out, values, sizeof values);
        out += FT_DEPENDENCE_COLUMNS;
    }
    uint64_t num_rows = d->rows.used;
    for (uint32_t op = 0; op < d->operations_capacity; op++) {
        if (!d->operations[op].stores)
            continue;
        const uint64_t values[FT_DEPENDENCE_COLUMNS] = {FT_STORES, NONE, op, NONE, d->operations[op].stores, 0, 0, 0};
        if (out) {
            memcpy(out, values, sizeof values);
            out += FT_DEPENDENCE_COLUMNS;
        }
        num_rows++;
    }
    return num_rows;
}

uint64_t ft_dependences_loops(const struct ft_dependences *d, uint64_t *out)
{
    for (uint32_t i = 0; i < d->num_loops && out; i++, out += FT_DEPENDENCE_LOOP_COLUMNS) {
        const struct loop *loop = &d->loops[i];
        const uint32_t header = loop->array_id ? 0 : ft_tree_loop_place(d->tree, loop->function, loop->slot).block;
        const uint64_t values[FT_DEPENDENCE_LOOP_COLUMNS] = {loop->node,
                                                             ft_tree_function_block(d->tree, loop->function),
                                                             header,
                                                             loop->array_id,
                                                             loop->iterations,
                                                             loop->entries,
                                                             loop->entries ? loop->around : NONE};
        memcpy(out, values, sizeof values);
    }
    return d->num_loops;
}

double ft_dependences_share(const struct ft_dependences *d)
{
    return ((double)d->limit + 1) / 0x1p64;
}
