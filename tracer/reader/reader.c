/* The reading side of the address stream. See reader.h. */
#define _GNU_SOURCE
#include "reader.h"

#include "tracer/transport/futex.h"
#include "parts.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_CHUNK_ALIGN UINT64_C(4096)
#define CHUNKS_TO_WAKE_FOR (FT_SHARED_CHUNKS / 4)
#define MAX_RUNS 256u /* handed over at once: one execution adds two at most */

/* ---- set-up ----------------------------------------------------------------------------------------------------- */

bool ft_stream_format(void *memory, uint64_t memory_bytes)
{
    struct ft_header *h = memory;
    const uint64_t cursors = (sizeof *h + 63) & ~UINT64_C(63);
    const uint64_t chunks =
        (cursors + FT_MAX_CURSORS * sizeof(struct ft_cursor) + FIRST_CHUNK_ALIGN - 1) & ~(FIRST_CHUNK_ALIGN - 1);
    const uint64_t side = chunks + (uint64_t)FT_MAX_CHUNKS * FT_CHUNK_WORDS * sizeof(uint64_t);
    if (memory_bytes <= side)
        return false;
    h->magic = FT_STREAM_MAGIC;
    h->version = FT_STREAM_VERSION;
    h->header_bytes = sizeof *h;
    h->total_bytes = memory_bytes;
    h->cursors_offset = cursors;
    h->chunks_offset = chunks;
    h->side_offset = side;
    h->side_capacity_bytes = memory_bytes - side;
    for (uint32_t i = 0; i < FT_SHARED_CHUNKS; i++)
        h->free[i] = i;
    atomic_store(&h->free_head, FT_SHARED_CHUNKS);
    return true;
}

struct ft_reader *ft_reader_new(void *memory, uint64_t memory_bytes, struct ft_sink sink)
{
    struct ft_reader *reader = calloc(1, sizeof *reader);
    if (!reader)
        return NULL;
    reader->header = memory;
    reader->memory_bytes = memory_bytes;
    reader->sink = sink;
    return reader;
}

void ft_reader_free(struct ft_reader *reader)
{
    if (!reader)
        return;
    for (uint32_t i = 0; i <= reader->n_blocks && reader->blocks; i++) {
        free(reader->blocks[i].operation);
        if (reader->blocks[i].path)
            ft_path_free(reader->blocks[i].path);
    }
    free(reader->blocks);
    free(reader->operations);
    free(reader->arrays);
    free(reader->objects);
    free(reader->edges.entries);
    ft_dependences_free(reader->all_dependences);
    ft_tree_free(reader->tree);
    ft_flow_free(reader->flow);
    ft_flow_pairs_free(&reader->places.numbers);
    free(reader->places.places);
    free(reader->places.ranges);
    free(reader->places.contexts);
    ft_samples_free(&reader->samples);
    ft_event_samples_free(&reader->event_samples);
    ft_rank_calls_free(&reader->rank_calls);
    free(reader);
}

bool ft_reader_make_tree(struct ft_reader *reader, enum ft_guest guest, uint32_t max_nodes)
{
    ft_tree_free(reader->tree);
    reader->tree = ft_tree_new(guest, max_nodes);
    return reader->tree;
}

bool ft_reader_find_dependences(struct ft_reader *reader, uint64_t max_bytes, bool has_windows)
{
    ft_dependences_free(reader->all_dependences);
    reader->all_dependences = reader->dependences = ft_dependences_new(reader->tree, max_bytes);
    reader->has_windows = has_windows;
    return reader->dependences;
}

#define MAX_STATE_BYTES 16384u /* of a processor, as XSAVE stores it: more than any has */

/* ---- accesses --------------------------------------------------------------------------------------------------- */

bool ft_reader_feed_batch(struct ft_reader *reader)
{
    uint32_t length = reader->batch_length;
    reader->batch_length = 0;
    reader->accesses += length;
    return length == 0 || reader->sink.feed(reader->sink.simulator, reader->batch, length) == 0;
}

/* The last access may be part of one of which there is more to come. */
static bool feed_but_last(struct ft_reader *reader)
{
    if (reader->batch_length == 0)
        return true;
    const struct ft_access last = reader->batch[--reader->batch_length];
    const bool fed = ft_reader_feed_batch(reader);
    reader->batch[reader->batch_length++] = last;
    return fed;
}

static enum ft_read_status first_access(struct ft_reader *reader, struct ft_block *block, uint32_t block_id,
                                        uint32_t slot, uint32_t *operation)
{
    if (slot >= block->n_slots)
        return ft_reader_corrupt(reader, "an access belongs to no instruction of its block");
    if (!block->operation) {
        block->operation = malloc(block->n_slots * sizeof *block->operation);
        if (!block->operation)
            return FT_READ_MEMORY;
        memset(block->operation, 0xff, block->n_slots * sizeof *block->operation);
    }
    *operation = block->operation[slot];
    if (*operation != FT_NO_OPERATION)
        return FT_READ_IDLE;
    enum ft_read_status status = ft_reader_add_operation(reader, block_id, slot, 0, operation);
    if (status == FT_READ_IDLE)
        block->operation[slot] = *operation;
    return status;
}

/* ---- words ------------------------------------------------------------------------------------------------------ */

/* The batch has room. Fetches are not among the accesses counted. */
static void emit_fetch(struct ft_reader *reader, uint32_t block_id)
{
    const struct ft_block *block = &reader->blocks[block_id];
    reader->batch[reader->batch_length++] =
        (struct ft_access){block->address & FT_ADDRESS_MASK, block_id, (uint16_t)block->code_bytes, FT_ACCESS_FETCH};
    reader->accesses--;
}

/* One more execution of a block, after the one that `cursor` is in. */
static bool enter_block(struct ft_reader *reader, struct ft_reader_cursor *cursor, uint32_t id)
{
    const uint32_t from = cursor->block_id;
    cursor->block_id = id;
    reader->executions++;
    if (reader->tree && !ft_tree_step(reader->tree, id))
        return false;
    if (UNLIKELY(reader->dependences) && !ft_dependences_enter(reader->dependences))
        return false;
    if (LIKELY(from))
        return ft_reader_count_edge(reader, from, id, 1);
    reader->blocks[id].starts++;
    return true;
}

/* An entry word, but for the access that it may bring along. */
static enum ft_read_status read_entry(struct ft_reader *reader, struct ft_reader_cursor *cursor, uint64_t word)
{
    uint32_t id = ft_entered_block(word);
    if (UNLIKELY(id > reader->n_blocks)) {
        enum ft_read_status status = ft_reader_read_side_table(reader);
        if (status != FT_READ_IDLE)
            return status;
    }
    if (UNLIKELY(id == 0 || id > reader->n_blocks))
        return ft_reader_corrupt(reader, "a block runs that was never described");
    if (UNLIKELY(reader->batch_length > FT_BATCH / 2) && !ft_reader_feed_batch(reader))
        return FT_READ_MEMORY;
    if (UNLIKELY(!enter_block(reader, cursor, id)))
        return FT_READ_MEMORY;
    if (UNLIKELY(reader->sink.wants_fetches) && reader->blocks[id].code_bytes)
        emit_fetch(reader, id);
    return FT_READ_IDLE;
}

/* Adds a part to the access of a processor's state. False if it would be too long. */
static bool join_state(struct ft_access *last, uint32_t width, uint64_t address, uint32_t size)
{
    const uint64_t first = address < last->address ? address : last->address;
    const uint64_t end =
        address + size > last->address + last->size_bytes ? address + size : last->address + last->size_bytes;
    const uint64_t bytes = end - first > width ? end - first : width;
    if (bytes > MAX_STATE_BYTES)
        return false;
    last->address = first;
    last->size_bytes = (uint16_t)bytes;
    return true;
}

/* A further access by the operation of the last one. The engine reports wide accesses in parts: those of one access are
 * joined again, as far as the instruction's width goes. Returns true if it was joined. */
static bool join(struct ft_reader *reader, uint64_t address, uint32_t size, uint32_t operation, bool *ask)
{
    struct ft_access *last = reader->batch_length ? &reader->batch[reader->batch_length - 1] : NULL;
    if (!last || last->op != operation)
        return false;
    const struct ft_operation *facts = &reader->operations[operation];
    if (facts->width_bytes == 0) {
        *ask = true;
        return false;
    }
    if (facts->parts == FT_PARTS_STATE)
        return join_state(last, facts->width_bytes, address, size);
    const uint64_t end = last->address + last->size_bytes;
    if (facts->parts == FT_PARTS_MASKED ? address < end : address != end)
        return false;
    if (address + size - last->address > facts->width_bytes)
        return false;
    last->size_bytes = (uint16_t)(last->size_bytes + size);
    return true;
}

/* Processor state in parts, between which its instruction reads one that says which there are (XSAVE). */
static bool join_interrupted(struct ft_reader *reader, uint64_t address, uint32_t size, uint32_t operation)
{
    if (reader->batch_length < 2)
        return false;
    const struct ft_operation *facts = &reader->operations[operation];
    struct ft_access *before = &reader->batch[reader->batch_length - 2];
    const struct ft_operation *between = &reader->operations[reader->batch[reader->batch_length - 1].op];
    return before->op == operation && between->block_id == facts->block_id && between->slot == (facts->slot ^ 1) &&
           join_state(before, facts->width_bytes, address, size);
}

/* One access of the block the thread is in. */
static inline enum ft_read_status read_access(struct ft_reader *reader, const struct ft_reader_cursor *cursor,
                                              uint64_t word, uint32_t tag)
{
    const uint32_t slot = tag - 1, size = 1u << (word >> FT_SIZE_SHIFT & 7);
    const uint64_t address = word & FT_ADDRESS_MASK;
    uint32_t operation = FT_NO_OPERATION;
    if (UNLIKELY(cursor->block_id == 0))
        return ft_reader_corrupt(reader, "an access comes before any block");
    struct ft_block *block = &reader->blocks[cursor->block_id];
    if (LIKELY(block->operation && slot < block->n_slots))
        operation = block->operation[slot];
    if (UNLIKELY(operation == FT_NO_OPERATION)) {
        enum ft_read_status status = first_access(reader, block, cursor->block_id, slot, &operation);
        if (status != FT_READ_IDLE)
            return status;
    }
    bool is_joined = false;
    if (UNLIKELY(tag == cursor->last_tag)) {
        bool ask = false;
        is_joined = join(reader, address, size, operation, &ask);
        if (ask) {
            reader->asked_operation = operation;
            return FT_READ_WIDTH;
        }
    } else if (UNLIKELY(reader->operations[operation].parts == FT_PARTS_STATE)) {
        is_joined = join_interrupted(reader, address, size, operation);
    }
    if (UNLIKELY(reader->dependences) &&
        !ft_dependences_access(reader->dependences, address, operation, size, slot & 1, slot / 2))
        return FT_READ_MEMORY;
    if (ft_reader_follows(reader) && !ft_reader_flow_access(reader, address, operation, size, slot & 1))
        return FT_READ_MEMORY;
    return is_joined || ft_reader_emit(reader, address, operation, size, slot & 1) ? FT_READ_IDLE : FT_READ_MEMORY;
}

/* ---- paths ------------------------------------------------------------------------------------------------------ */
/* For a sink that takes accesses only. */
static bool feed_one_by_one(struct ft_reader *reader, const struct ft_run *run)
{
    const struct ft_iteration *iteration = run->iteration;
    const uint64_t *words = run->words;
    for (size_t i = 0; i < run->iterations; i++, words += iteration->num_words) {
        if (reader->batch_length + iteration->num_accesses > FT_BATCH && !ft_reader_feed_batch(reader))
            return false;
        for (uint32_t j = 0; j < iteration->num_accesses; j++)
            reader->batch[reader->batch_length++] = ft_run_access_at(iteration, words, j);
    }
    return true;
}

static bool feed_runs(struct ft_reader *reader, const struct ft_run *runs, size_t number)
{
    for (size_t i = 0; i < number && reader->samples_itself; i++)
        reader->seen += runs[i].iterations * runs[i].iteration->num_accesses;
    if (ft_reader_skips(reader))
        return true;
    if (!reader->sink.feed_runs) {
        bool done = true;
        for (size_t i = 0; i < number && done; i++)
            done = feed_one_by_one(reader, &runs[i]);
        return done;
    }
    if (reader->batch_length && !ft_reader_feed_batch(reader))
        return false;
    for (size_t i = 0; i < number; i++)
        reader->accesses += runs[i].iterations * runs[i].iteration->num_accesses;
    return number == 0 || reader->sink.feed_runs(reader->sink.simulator, runs, number) == 0;
}

/* Adds iterations of a path to the runs before, of which those of `*last` come right before. Returns the next one. */
static inline struct ft_run *add_run(struct ft_run *run, const struct ft_path_step **last,
                                     const struct ft_path_step *step, const uint64_t *words, uint32_t times)
{
    const bool has_accesses = step->iteration.num_accesses;
    if (step == *last)
        run[-1].iterations += times;
    else if (has_accesses)
        *run++ = (struct ft_run){&step->iteration, words, times};
    *last = has_accesses ? step : NULL;
    return run;
}

/* The common case of what follows in read_words: from an entry word at `position` on, executions that are on paths.
 * Goes to the first that is not, or may not be over with this chunk. */
FT_FOR_WIDE_PROCESSORS static enum ft_read_status read_paths(struct ft_reader *reader, struct ft_reader_cursor *cursor,
                                                             const uint64_t *words, uint32_t *position)
{
    struct ft_run runs[MAX_RUNS], *run = runs; /* the next one */
    const struct ft_path_step *last = NULL;    /* whose iterations the one before is of */
    struct ft_block *const blocks = reader->blocks, *before = blocks + cursor->block_id;
    const uint32_t end = reader->chunk.words, n_blocks = reader->n_blocks;
    uint32_t at = *position;
    enum ft_read_status status = FT_READ_IDLE;
    if (cursor->block_id == 0)
        return FT_READ_IDLE;
    while (at < end && status == FT_READ_IDLE) {
        const uint32_t id = ft_entered_block(words[at]);
        struct ft_path *path = id <= n_blocks ? blocks[id].path : NULL;
        struct ft_path *const likely = path && path->ways->longer ? ft_path_likely(path, words + at, end - at) : path;
        const bool is_longer = likely != path && ft_path_is_on(likely, words + at, end - at);
        if (is_longer)
            path = likely;
        struct ft_path_step *step = is_longer ? &path->steps[path->num_steps - 1]
                                    : path    ? ft_path_match(path, words + at, end - at)
                                              : NULL;
        if (UNLIKELY(!step))
            break;
        if (!ft_reader_count_next(reader, before, id))
            return FT_READ_MEMORY;
        const uint32_t num_words = step->iteration.num_words;
        uint32_t here = at, times = 1;
        at += num_words;
        if (!is_longer && step->number == path->num_steps) {
            times += ft_path_repeats(path, words + at, end - at);
            at = here + times * num_words;
            if (times > 1 && !ft_reader_count_edge(reader, step->block_id, id, times - 1))
                return FT_READ_MEMORY;
            struct ft_path *const longest =
                path->ways->longer ? ft_path_longest(path, words + at - num_words, end - at + num_words) : path;
            if (longest != path) { /* it has the last iteration */
                reader->executions += (uint64_t)(times - 1) * step->number;
                step->taken += times - 1;
                if (times > 1) {
                    run = add_run(run, &last, step, words + here, times - 1);
                    if (!ft_reader_follow_path(reader, path, step, words + here, times - 1))
                        return FT_READ_MEMORY;
                }
                path = longest;
                step = &path->steps[path->num_steps - 1];
                here = at - num_words;
                at = here + path->num_words;
                times = 1;
            }
        }
        before = blocks + step->block_id;
        if (UNLIKELY(!ft_reader_follow_path(reader, path, step, words + here, times)))
            return FT_READ_MEMORY;
        step->taken += times;
        reader->executions += (uint64_t)times * step->number;
        path->countdown -= times < path->countdown ? times : path->countdown;
        run = add_run(run, &last, step, words + here, times);
        if (UNLIKELY(run >= runs + MAX_RUNS - 1 || path->countdown == 0)) {
            if (!feed_runs(reader, runs, (size_t)(run - runs)))
                return FT_READ_MEMORY;
            run = runs;
            last = NULL;
            if (path->countdown == 0) {
                here = at - step->iteration.num_words;
                status = ft_reader_improve_path(reader, path, words + here, end - here);
            }
        }
    }
    cursor->block_id = (uint32_t)(before - blocks);
    cursor->last_tag = 0;
    *position = at;
    return feed_runs(reader, runs, (size_t)(run - runs)) ? status : FT_READ_MEMORY;
}

/* The same between bursts, where most executions have no accesses. */
static enum ft_read_status read_counted(struct ft_reader *reader, struct ft_reader_cursor *cursor,
                                        const uint64_t *words, uint32_t *position)
{
    struct ft_block *const blocks = reader->blocks, *before = blocks + cursor->block_id;
    const uint64_t bare_entry = FT_ENTRY >> FT_SIZE_SHIFT, n_blocks = reader->n_blocks;
    uint32_t i = *position;
    if (cursor->block_id == 0)
        return FT_READ_IDLE;
    for (; i + 1 < reader->chunk.words; i++) {
        const uint32_t id = (uint32_t)words[i];
        if (words[i] >> FT_SIZE_SHIFT != bare_entry || !(words[i + 1] & FT_ENTRY) || UNLIKELY(id - 1u >= n_blocks))
            break;
        if (!ft_reader_count_next(reader, before, id) || (reader->tree && UNLIKELY(!ft_tree_step(reader->tree, id))))
            return FT_READ_MEMORY;
        before = blocks + id;
    }
    reader->executions += i - *position;
    cursor->block_id = (uint32_t)(before - blocks);
    cursor->last_tag = 0;
    *position = i;
    return FT_READ_IDLE;
}

/* ---- any word --------------------------------------------------------------------------------------------------- */

static enum ft_read_status read_tagged(struct ft_reader *reader, struct ft_reader_cursor *cursor, uint64_t word)
{
    const uint32_t tag = (uint32_t)(word >> FT_TAG_SHIFT);
    enum ft_read_status status = read_access(reader, cursor, word, tag);
    if (LIKELY(status == FT_READ_IDLE))
        cursor->last_tag = tag;
    return status;
}

/* At an entry word: reads executions on known paths, then enters the block of the first other one. `*position` moves
 * behind what was read. */
static enum ft_read_status read_executions(struct ft_reader *reader, struct ft_reader_cursor *cursor,
                                           const uint64_t *words, uint32_t *position)
{
    enum ft_read_status status = FT_READ_IDLE;
    const bool one_by_one = reader->sink.wants_fetches || reader->dependences;
    if (status == FT_READ_IDLE && reader->mark == FT_MARK_COUNT && !one_by_one)
        status = read_counted(reader, cursor, words, position);
    if (status == FT_READ_IDLE && !one_by_one)
        status = read_paths(reader, cursor, words, position);
    if (status == FT_READ_IDLE && *position < reader->chunk.words && !one_by_one)
        status = ft_reader_learn_path(reader, words + *position, reader->chunk.words - *position);
    if (status != FT_READ_IDLE || *position == reader->chunk.words)
        return status;
    const uint64_t entry = words[*position];
    cursor->last_tag = 0;
    status = read_entry(reader, cursor, entry);
    if (status != FT_READ_IDLE)
        return status;
    (*position)++;
    if (!ft_brings_access(entry))
        return FT_READ_IDLE;
    const struct ft_block *block = &reader->blocks[cursor->block_id];
    return block->first_access ? read_tagged(reader, cursor, ft_first_access_word(block, entry))
                               : ft_reader_corrupt(reader, "a block brings an access that it should not have");
}

/* How the thread at hand waits for others. */
static enum ft_read_status read_synchronisation(struct ft_reader *reader, uint64_t word)
{
    const uint64_t kind = word >> FT_SIZE_SHIFT & 7, event = word & FT_ADDRESS_MASK;
    if (kind > FT_SYNC_FAR)
        return ft_reader_corrupt(reader, "a thread waits in an impossible way");
    return !reader->tree || ft_tree_wait(reader->tree, (uint32_t)kind, event) ? FT_READ_IDLE : FT_READ_MEMORY;
}

/* A sample of software-defined events. */
static enum ft_read_status read_events(struct ft_reader *reader, const uint64_t *words, uint32_t left, uint32_t *length)
{
    *length = *words >> 32 & ((1u << (FT_TAG_SHIFT - 32)) - 1);
    if (*length < 2 || *length % 2 || *length > left)
        return ft_reader_corrupt(reader, "a sample of events has an impossible length");
    return ft_event_samples_read(&reader->event_samples, words, *length, reader->executions, reader->tree,
                                 &reader->rank_calls)
               ? FT_READ_IDLE
               : FT_READ_MEMORY;
}

/* A call of a rank, before which the thread at hand did what is new. */
static enum ft_read_status read_call(struct ft_reader *reader, uint64_t word)
{
    const uint64_t call = word & FT_ADDRESS_MASK;
    if (call == FT_NO_CALL)
        return !reader->tree || ft_rank_calls_begin(&reader->rank_calls, reader->tree) ? FT_READ_IDLE : FT_READ_MEMORY;
    if (call >= FT_MAX_CALLS)
        return ft_reader_corrupt(reader, "a call's number is impossible");
    return !reader->tree || ft_rank_calls_read(&reader->rank_calls, (uint32_t)call, reader->tree) ? FT_READ_IDLE
                                                                                                  : FT_READ_MEMORY;
}

/* A record, of which `*length` says how many words it has. */
static enum ft_read_status read_record(struct ft_reader *reader, const uint64_t *words, uint32_t left, uint32_t *length)
{
    const uint32_t tag = (uint32_t)(*words >> FT_TAG_SHIFT);
    if (tag == FT_TAG_SYNCHRONISATION)
        return read_synchronisation(reader, *words);
    if (tag == FT_TAG_CALL)
        return read_call(reader, *words);
    if (tag == FT_TAG_EVENTS)
        return read_events(reader, words, left, length);
    *length = 2;
    if (tag == FT_TAG_MEMORY)
        return ft_reader_read_memory(reader, words, left);
    return tag == FT_TAG_BULK ? ft_reader_read_bulk(reader, words, left, length)
                              : ft_reader_read_element(reader, words, left);
}

static const uint64_t *chunk_words(const struct ft_reader *reader, uint32_t chunk)
{
    return (const uint64_t *)((const unsigned char *)reader->header + reader->header->chunks_offset) +
           (size_t)chunk * FT_CHUNK_WORDS;
}

/* Reads the chunk in hand from where it stopped. */
static enum ft_read_status read_words(struct ft_reader *reader)
{
    const struct ft_ready chunk = reader->chunk;
    const uint64_t *words = chunk_words(reader, chunk.chunk);
    struct ft_reader_cursor *cursor = &reader->cursors[chunk.cursor];
    enum ft_read_status status = FT_READ_IDLE;

    while (reader->position < chunk.words && status == FT_READ_IDLE) {
        const uint64_t word = words[reader->position];
        uint32_t length = 1;
        if (word & FT_ENTRY) {
            status = read_executions(reader, cursor, words, &reader->position);
            continue;
        }
        if (UNLIKELY(word >> FT_TAG_SHIFT > FT_TAG_MAX)) {
            status = read_record(reader, words + reader->position, chunk.words - reader->position, &length);
            if (word >> FT_TAG_SHIFT != FT_TAG_EVENTS) /* which may come between the parts of an access */
                cursor->last_tag = 0;
        } else {
            status = read_tagged(reader, cursor, word);
        }
        if (LIKELY(status == FT_READ_IDLE))
            reader->position += length;
    }
    return status;
}

/* ---- chunks ----------------------------------------------------------------------------------------------------- */

static enum ft_read_status take_chunk(struct ft_reader *reader, struct ft_ready chunk)
{
    if (chunk.chunk >= FT_MAX_CHUNKS || chunk.words > FT_CHUNK_WORDS || chunk.cursor >= FT_MAX_CURSORS)
        return ft_reader_corrupt(reader, "a chunk's number or length is impossible");
    reader->chunk = chunk;
    reader->position = 0;
    reader->in_chunk = true;
    if (reader->mark != FT_MARK_COUNT && /* samples have accesses */
        !ft_samples_offer(&reader->samples, chunk_words(reader, chunk.chunk), chunk.words, chunk.cursor))
        return FT_READ_MEMORY;
    if (ft_reader_follows(reader) && ft_flow_has_many_sets(reader->flow) && !ft_reader_tidy_flow(reader))
        return FT_READ_MEMORY;
    if (ft_reader_follows(reader) &&
        !ft_flow_mark(reader->flow, &reader->marks, chunk_words(reader, chunk.chunk), chunk.words, FT_ADDRESS_MASK))
        return FT_READ_MEMORY;
    reader->cursors[chunk.cursor].sequence = chunk.sequence;
    if (reader->cursors[chunk.cursor].thread != chunk.thread) { /* the cursor's thread ended, and another one has it */
        reader->cursors[chunk.cursor].thread = chunk.thread;
        reader->cursors[chunk.cursor].block_id = reader->cursors[chunk.cursor].last_tag = 0;
    }
    if (reader->tree && chunk.thread > FT_MAX_THREADS)
        return ft_reader_corrupt(reader, "a thread's number is impossible");
    if (reader->tree && !ft_tree_switch(reader->tree, chunk.thread, reader->executions))
        return FT_READ_MEMORY;
    ft_reader_begin_chunk_of_windows(reader);
    if (reader->dependences && !ft_dependences_switch(reader->dependences, chunk.thread))
        return FT_READ_MEMORY;
    if (!reader->sink.set_thread || chunk.cursor == reader->thread)
        return FT_READ_IDLE;
    reader->thread = chunk.cursor;
    bool told = ft_reader_feed_batch(reader) && reader->sink.set_thread(reader->sink.simulator, chunk.cursor) == 0;
    return told ? FT_READ_IDLE : FT_READ_MEMORY;
}

/* A writer that waits is woken for several chunks at once, or when there is nothing else to read. */
static bool enough_to_wake(const struct ft_header *h)
{
    return atomic_load(&h->free_head) - atomic_load(&h->free_tail) >= CHUNKS_TO_WAKE_FOR ||
           atomic_load(&h->ready_head) == atomic_load(&h->ready_tail);
}

static void release_chunk(struct ft_reader *reader)
{
    struct ft_header *h = reader->header;
    uint32_t head = atomic_load(&h->free_head);
    h->free[head % FT_QUEUE_SLOTS] = reader->chunk.chunk;
    atomic_store(&h->free_head, head + 1);
    if (atomic_load(&h->writer_waits) && enough_to_wake(h))
        ft_futex_wake(&h->free_head);
    reader->in_chunk = false;
}

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* Waits for a chunk until a time comes. FT_READ_MORE: there is one, `reader->chunk`. */
static enum ft_read_status next_chunk(struct ft_reader *reader, int64_t until_ns)
{
    struct ft_header *h = reader->header;
    uint32_t tail = atomic_load(&h->ready_tail);
    uint32_t head = atomic_load(&h->ready_head);
    const int64_t left_ns = head == tail ? until_ns - now_ns() : 0;
    if (left_ns > 0) {
        const struct timespec timeout = {left_ns / 1000000000, left_ns % 1000000000};
        atomic_store(&h->reader_waits, 1);
        ft_futex_wait(&h->ready_head, head, &timeout);
        atomic_store(&h->reader_waits, 0);
        head = atomic_load(&h->ready_head);
    }
    if (head == tail)
        return FT_READ_IDLE;
    if (head - tail > FT_QUEUE_SLOTS)
        return ft_reader_corrupt(reader, "the queue of chunks is longer than it can be");
    struct ft_ready chunk = h->ready[tail % FT_QUEUE_SLOTS];
    atomic_store(&h->ready_tail, tail + 1);
    if (chunk.chunk == FT_MARK) {
        reader->mark = chunk.words;
        reader->flow_ended |= reader->mark == FT_MARK_COUNT;
        reader->samples.seen++; /* the next does not follow on the last one */
        return feed_but_last(reader) ? FT_READ_MARK : FT_READ_MEMORY;
    }
    enum ft_read_status status = take_chunk(reader, chunk);
    return status == FT_READ_IDLE ? FT_READ_MORE : status;
}

enum ft_read_status ft_reader_run(struct ft_reader *reader, uint32_t max_chunks, uint32_t timeout_ms)
{
    const int64_t until_ns = timeout_ms ? now_ns() + timeout_ms * INT64_C(1000000) : 0;
    for (uint32_t n = 0; n < max_chunks; n++) {
        if (!reader->in_chunk) {
            enum ft_read_status status = next_chunk(reader, until_ns);
            if (status != FT_READ_MORE)
                return status;
        }
        if (reader->position == 0 && ft_reader_phase_ends(reader))
            return ft_reader_feed_batch(reader) ? FT_READ_MARK : FT_READ_MEMORY;
        enum ft_read_status status = read_words(reader);
        if (status != FT_READ_IDLE)
            return status;
        release_chunk(reader);
    }
    return FT_READ_MORE;
}

void ft_reader_set_width(struct ft_reader *reader, uint32_t width_bytes, enum ft_parts parts)
{
    /* A width below one part says that the parts are accesses of their own. */
    reader->operations[reader->asked_operation].width_bytes = width_bytes ? width_bytes : 1;
    reader->operations[reader->asked_operation].parts = (uint8_t)parts;
}

/* What cursor `i` had written but not published. */
static enum ft_read_status salvage_cursor(struct ft_reader *reader, uint32_t i)
{
    const struct ft_header *h = reader->header;
    const struct ft_cursor *cursor = (const struct ft_cursor *)((const unsigned char *)h + h->cursors_offset) + i;
    uint64_t bytes = (uint64_t)(uintptr_t)cursor->next - (uint64_t)(uintptr_t)cursor->begin;
    if (!atomic_load(&cursor->in_use) || cursor->sequence == reader->cursors[i].sequence)
        return FT_READ_IDLE;
    if (bytes % sizeof(uint64_t) || bytes / sizeof(uint64_t) > FT_CHUNK_WORDS)
        return ft_reader_corrupt(reader, "a cursor stands outside its chunk");
    return take_chunk(reader, (struct ft_ready){cursor->chunk, (uint32_t)(bytes / sizeof(uint64_t)), i,
                                                cursor->sequence, cursor->thread});
}

enum ft_read_status ft_reader_salvage(struct ft_reader *reader)
{
    enum ft_read_status status;
    while ((status = ft_reader_run(reader, UINT32_MAX, 0)) == FT_READ_MORE)
        ;
    for (uint32_t i = 0; i < FT_MAX_CURSORS && status == FT_READ_IDLE; i++) {
        status = salvage_cursor(reader, i);
        if (status == FT_READ_IDLE && reader->in_chunk) {
            status = read_words(reader);
            reader->in_chunk = status == FT_READ_WIDTH || status == FT_READ_MARK;
        }
    }
    if (status == FT_READ_IDLE)
        status = ft_reader_read_side_table(reader);
    if (status == FT_READ_IDLE && !ft_reader_feed_batch(reader))
        status = FT_READ_MEMORY;
    return status;
}
