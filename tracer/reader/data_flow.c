/* Follows which place of the execution tree uses whose bytes. See tracer/reader/data_flow/flow.h.
 *
 * A place is the innermost loop around an access, as far as loops are known then, or else the function; or an array
 * operation: each in its calling context. A call into libraries is one place (places.h). What a place is called when
 * the tree is handed over follows from one of its memory operations. An operation is a place of its own at first, as
 * loops are found at their first back edge only.
 */
#include "parts.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define MAX_BLOCKS 32768u
#define MAX_SETS 262144u
#define MAX_PLACES (1u << 20)
#define EARLY_USES 32u /* of an operation, while it is a place of its own */
#define CODE_ARRAY (UINT32_C(1) << 31) /* codes of places: array operations, */
#define CODE_EARLY (UINT32_C(1) << 30) /* operations by themselves, */
#define CODE_LIBRARY (CODE_EARLY - 1) /* calls into libraries, and otherwise loops */

struct ft_path_flow {
    uint64_t loops_known;
    uint32_t epoch, num_steps;
    bool is_early; /* some operation is a place of its own */
    struct ft_flow_slot *slots;
    uint16_t *slot_of_word; /* NULL: marks of words do not do */
    uint32_t contexts[];    /* of the steps, that the slots' places are in; FT_TREE_MIXED: none yet */
};

static_assert(FT_FLOW_MARKED_WORDS >= FT_CHUNK_WORDS, "a chunk's words have marks");

bool ft_reader_follow_data(struct ft_reader *reader)
{
    ft_flow_free(reader->flow);
    free(reader->objects);
    struct ft_flow_places *places = &reader->places;
    reader->flow = reader->tree ? ft_flow_new(MAX_BLOCKS, MAX_SETS) : NULL;
    reader->objects = calloc(FT_MAX_OBJECTS + 1, sizeof *reader->objects);
    places->num_places = FT_FLOW_SYSTEM + 1;
    places->loader = FT_FLOW_NONE;
    reader->header->follows_memory = 1;
    return reader->flow && reader->objects &&
           ft_reserve(&places->places, &places->capacity, FT_FLOW_SYSTEM, sizeof *places->places);
}

bool ft_reader_follows(const struct ft_reader *reader)
{
    return reader->flow && !reader->flow_ended;
}

/* ---- places ------------------------------------------------------------------------------------------------------- */

static uint64_t address_of(const struct ft_reader *reader, const struct ft_operation *operation)
{
    const struct ft_block *block = &reader->blocks[operation->block_id];
    uint64_t address = block->address;
    for (uint32_t i = 0; block->lengths && i < operation->slot / 2; i++)
        address += block->lengths[i];
    return address;
}

static uint32_t owner_of(const struct ft_flow_places *places, uint64_t address)
{
    uint32_t low = 0, high = places->num_ranges;
    while (low < high) {
        const uint32_t middle = (low + high) / 2;
        if (places->ranges[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    const bool is_in = low < places->num_ranges && places->ranges[low].first <= address;
    return is_in ? (uint32_t)places->ranges[low].owner : FT_CODE_PROGRAM;
}

/* What a context is that comes behind all that are known. */
static struct ft_flow_context new_context(struct ft_reader *reader, uint32_t context)
{
    struct ft_flow_places *places = &reader->places;
    uint32_t caller;
    const uint32_t owner = owner_of(places, ft_tree_caller(reader->tree, context, &caller));
    const uint32_t above = caller == FT_TREE_MIXED ? FT_FLOW_NONE : places->contexts[caller].above;
    if (owner == FT_CODE_PROGRAM)
        return (struct ft_flow_context){context, context, owner};
    if (owner == FT_CODE_LOADER) {
        places->loader = places->loader == FT_FLOW_NONE ? context : places->loader;
        return (struct ft_flow_context){places->loader, above, owner};
    }
    const bool goes_on = above != FT_FLOW_NONE && places->contexts[above].owner == FT_CODE_LIBRARY;
    return (struct ft_flow_context){goes_on ? places->contexts[above].counts_as : context, context, owner};
}

/* NULL when memory ran out. */
static const struct ft_flow_context *context_of(struct ft_reader *reader, uint32_t context)
{
    struct ft_flow_places *places = &reader->places;
    if (LIKELY(context < places->num_contexts))
        return &places->contexts[context];
    if (!ft_reserve(&places->contexts, &places->contexts_capacity, context, sizeof *places->contexts))
        return NULL;
    for (; places->num_contexts <= context; places->num_contexts++)
        places->contexts[places->num_contexts] = new_context(reader, places->num_contexts);
    return &places->contexts[context];
}

bool ft_reader_set_owners(struct ft_reader *reader, const struct ft_code_range *ranges, uint32_t num_ranges)
{
    struct ft_flow_places *places = &reader->places;
    struct ft_code_range *copy = malloc((num_ranges + (size_t)1) * sizeof *copy);
    if (!copy)
        return false;
    memcpy(copy, ranges, num_ranges * sizeof *copy);
    free(places->ranges);
    places->ranges = copy;
    places->num_ranges = num_ranges;
    places->num_contexts = 0;
    places->loader = FT_FLOW_NONE;
    places->version++;
    return true;
}

/* Goes up when an operation's place may change. */
static uint64_t places_known(const struct ft_reader *reader)
{
    return ft_tree_loops_known(reader->tree) + ((uint64_t)reader->places.version << 40);
}

/* FT_FLOW_NONE when memory ran out. */
static uint32_t place_of(struct ft_reader *reader, uint32_t context, uint32_t local, uint32_t number, uint64_t uses)
{
    struct ft_operation *operation = &reader->operations[number];
    struct ft_flow_places *places = &reader->places;
    const uint64_t known = places_known(reader);
    const bool is_early = operation->uses < EARLY_USES;
    const struct ft_flow_context *of = context_of(reader, context);
    uint32_t code = CODE_ARRAY | operation->array_id;
    if (!of)
        return FT_FLOW_NONE;
    if (of->owner != FT_CODE_PROGRAM) {
        context = of->counts_as;
        code = CODE_LIBRARY;
    } else if (!operation->array_id) {
        code = is_early ? CODE_EARLY | number
                        : ft_tree_loop_at(reader->tree, context, local, address_of(reader, operation));
    }
    operation->uses = uses < EARLY_USES ? operation->uses + (uint8_t)uses : EARLY_USES;
    const uint32_t found = ft_flow_pairs_find(&places->numbers, context, code);
    if (found != FT_FLOW_NONE) {
        struct ft_flow_place *place = &places->places[found];
        if (code < CODE_LIBRARY && place->loops_known != known) { /* its loop may be another one's number now */
            const struct ft_operation *own = &reader->operations[place->operation];
            if (ft_tree_loop_at(reader->tree, context, place->local, address_of(reader, own)) == code)
                place->loops_known = known;
        }
        if (code >= CODE_LIBRARY || place->loops_known == known)
            return found;
    }
    if (places->num_places >= MAX_PLACES) {
        reader->flow_ended = reader->flow_overflowed = true;
        return 0;
    }
    if (!ft_reserve(&places->places, &places->capacity, places->num_places, sizeof *places->places) ||
        !ft_flow_pairs_put(&places->numbers, context, code, places->num_places))
        return FT_FLOW_NONE;
    places->places[places->num_places] = (struct ft_flow_place){context, number, local, known};
    return places->num_places++;
}

/* An early place is one for good: in its loop. FT_FLOW_NONE when memory ran out. */
static uint32_t settled(struct ft_reader *reader, uint32_t number)
{
    if (number == FT_FLOW_SYSTEM)
        return number;
    const struct ft_flow_place place = reader->places.places[number];
    struct ft_operation *operation = &reader->operations[place.operation];
    const uint8_t uses = operation->uses;
    operation->uses = EARLY_USES;
    const uint32_t found = place_of(reader, place.context, place.local, place.operation, 0);
    operation->uses = uses;
    return reader->flow_overflowed ? number : found;
}

bool ft_reader_tidy_flow(struct ft_reader *reader)
{
    const uint32_t number = reader->places.num_places;
    uint32_t *const place_of = malloc((number + (size_t)1) * sizeof *place_of);
    bool done = place_of;
    for (uint32_t i = 0; i < number && done; i++)
        done = (place_of[i] = settled(reader, i)) != FT_FLOW_NONE;
    done = done && ft_flow_tidy(reader->flow, place_of);
    free(place_of);
    return done;
}

/* ---- accesses ----------------------------------------------------------------------------------------------------- */

bool ft_reader_flow_access(struct ft_reader *reader, uint64_t address, uint32_t number, uint32_t size_bytes,
                           bool is_store)
{
    uint32_t local;
    const uint32_t context = ft_tree_context(reader->tree, &local), epoch = ft_flow_epoch(reader->flow);
    const uint64_t known = places_known(reader);
    struct ft_operation *operation = &reader->operations[number];
    if (operation->flow_context != context + 1 || operation->loops_known != known || operation->uses < EARLY_USES) {
        const uint32_t place = place_of(reader, context, local, number, 1);
        if (place == FT_FLOW_NONE)
            return false;
        operation->flow_place = place;
        operation->flow_context = context + 1;
        operation->loops_known = known;
    }
    if (operation->flow_epoch != epoch)
        operation->hint = (struct ft_flow_hint){0};
    operation->flow_epoch = epoch;
    return ft_flow_access(reader->flow, &operation->hint, operation->flow_place, address, size_bytes, is_store);
}

bool ft_reader_flow_array(struct ft_reader *reader, const struct ft_array_run *run)
{
    uint32_t local;
    const uint32_t context = ft_tree_context(reader->tree, &local);
    const uint32_t place = place_of(reader, context, local, run->access[0].op, 1);
    return place != FT_FLOW_NONE && ft_flow_array(reader->flow, place, run);
}

/* ---- objects, and the system --------------------------------------------------------------------------------------- */

static bool allocate(struct ft_reader *reader, uint64_t first, uint64_t length_bytes, uint32_t object)
{
    struct ft_object_counts *counts = &reader->objects[object];
    const uint64_t end = first + length_bytes;
    counts->first = counts->allocations && counts->first < first ? counts->first : first;
    counts->end = counts->end > end ? counts->end : end;
    counts->allocations++;
    counts->bytes += length_bytes;
    return ft_flow_allocate(reader->flow, first, length_bytes, object);
}

enum ft_read_status ft_reader_read_memory(struct ft_reader *reader, const uint64_t *words, uint32_t left)
{
    const uint32_t kind = words[0] >> FT_SIZE_SHIFT & 7;
    const uint64_t first = words[0] & FT_ADDRESS_MASK;
    if (left < 2 || kind > FT_MEMORY_WRITTEN)
        return ft_reader_corrupt(reader, "a record of memory is cut off, or of no kind");
    const uint64_t object = words[1] >> FT_SIZE_SHIFT, length = words[1] & FT_ADDRESS_MASK;
    if (kind == FT_MEMORY_ALLOCATED && object > reader->n_objects) {
        const enum ft_read_status status = ft_reader_read_side_table(reader);
        if (status != FT_READ_IDLE)
            return status;
    }
    if (kind == FT_MEMORY_ALLOCATED ? !object || object > reader->n_objects : object != 0)
        return ft_reader_corrupt(reader, "memory belongs to an object that was never described");
    if (kind >= FT_MEMORY_READ && length > FT_MAX_SYSTEM_BYTES)
        return ft_reader_corrupt(reader, "a system call reads or writes more than it can");
    if (!ft_reader_follows(reader))
        return FT_READ_IDLE;
    bool done;
    if (kind == FT_MEMORY_ALLOCATED)
        done = allocate(reader, first, length, (uint32_t)object);
    else if (kind == FT_MEMORY_RELEASED)
        done = ft_flow_release(reader->flow, first, length ? length : ft_flow_allocated_bytes(reader->flow, first));
    else
        done = ft_flow_bytes(reader->flow, FT_FLOW_SYSTEM, first, length, kind == FT_MEMORY_WRITTEN);
    return done ? FT_READ_IDLE : FT_READ_MEMORY;
}

/* ---- paths -------------------------------------------------------------------------------------------------------- */

/* Whether all words of accesses have marks where it matters. */
static bool do_marks_do(const struct ft_path *path)
{
    uint32_t joined = 0;
    for (uint32_t i = 0; i < path->num_joins; i++) {
        const uint32_t last_bytes = 1u << (path->words[path->joins[i].word] >> FT_SIZE_SHIFT & 7);
        if (path->joins[i].before_bytes > FT_FLOW_MARKED_BYTES || last_bytes > FT_FLOW_MARKED_BYTES)
            return false;
    }
    for (uint32_t i = 0; i < path->num_accesses; i++) {
        const struct ft_run_access *access = &path->accesses[i];
        while (joined < path->num_joins && path->joins[joined].word <= access->word)
            joined++;
        const bool is_joined = joined < path->num_joins && path->joins[joined].word == access->word + 1;
        if (access->size_bytes > FT_FLOW_MARKED_BYTES && !is_joined)
            return false;
    }
    return path->num_accesses < FT_FLOW_NO_SLOT;
}

/* Which access is in a word, or was begun in one before. */
static void find_slots_of_words(const struct ft_path *path, uint16_t *slot_of_word)
{
    for (uint32_t i = 0; i < path->num_words; i++)
        slot_of_word[i] = FT_FLOW_NO_SLOT;
    for (uint32_t i = 0; i < path->num_accesses; i++)
        slot_of_word[path->accesses[i].word] = (uint16_t)i;
    for (uint32_t i = 0; i < path->num_joins; i++)
        slot_of_word[path->joins[i].word] = slot_of_word[path->joins[i].word - 1];
}

static struct ft_path_flow *path_flow_new(const struct ft_path *path)
{
    struct ft_path_flow *flow;
    const size_t heads = (sizeof *flow + path->num_steps * sizeof *flow->contexts + 63) & ~(size_t)63;
    const size_t slots = path->num_accesses * sizeof *flow->slots;
    flow = calloc(1, heads + slots + path->num_words * sizeof *flow->slot_of_word);
    if (!flow)
        return NULL;
    flow->num_steps = path->num_steps;
    flow->slots = (struct ft_flow_slot *)((unsigned char *)flow + heads);
    for (uint32_t i = 0; i < path->num_accesses; i++)
        flow->slots[i] = (struct ft_flow_slot){.size_bytes = path->accesses[i].size_bytes,
                                               .word = path->accesses[i].word,
                                               .is_store = path->accesses[i].flags & FT_ACCESS_STORE};
    if (do_marks_do(path)) {
        flow->slot_of_word = (uint16_t *)((unsigned char *)flow->slots + slots);
        find_slots_of_words(path, flow->slot_of_word);
    }
    return flow;
}

/* Finds out in which places the accesses of a path's first steps are that was just followed. */
static __attribute__((noinline)) bool find_places(struct ft_reader *reader, struct ft_path *path, uint32_t num_steps,
                                                  uint64_t uses)
{
    struct ft_path_flow *flow = path->flow;
    const uint64_t known = places_known(reader);
    const uint32_t epoch = ft_flow_epoch(reader->flow);
    const bool is_stale = flow->is_early || flow->loops_known != known;
    for (uint32_t j = 0; j < path->num_accesses && flow->epoch != epoch; j++)
        flow->slots[j].hint = (struct ft_flow_hint){0};
    flow->epoch = epoch;
    for (uint32_t i = 0; i < flow->num_steps && is_stale; i++)
        flow->contexts[i] = FT_TREE_MIXED;
    flow->loops_known = known;
    flow->is_early = false;
    for (uint32_t i = 0, j = 0; i < num_steps; i++) {
        const uint32_t context = path->tree.context == FT_TREE_MIXED ? path->tree.contexts[i] : path->tree.context;
        const uint32_t end = path->steps[i].iteration.num_accesses;
        if (flow->contexts[i] == context)
            j = end;
        for (; j < end; j++) {
            const uint32_t number = path->accesses[j].op;
            flow->is_early |= reader->operations[number].uses < EARLY_USES;
            flow->slots[j].place = place_of(reader, context, path->tree.locals[i], number, uses);
            if (flow->slots[j].place == FT_FLOW_NONE)
                return false;
        }
        flow->contexts[i] = context;
    }
    return true;
}

static bool are_places_known(const struct ft_reader *reader, const struct ft_path *path, uint32_t num_steps)
{
    const struct ft_path_flow *flow = path->flow;
    if (flow->is_early || flow->loops_known != places_known(reader) || flow->epoch != ft_flow_epoch(reader->flow))
        return false;
    const uint32_t one = path->tree.context;
    for (uint32_t i = 0; i < num_steps; i++)
        if (flow->contexts[i] != (one == FT_TREE_MIXED ? path->tree.contexts[i] : one))
            return false;
    return true;
}

/* The data flow of executions on a path that the tree has just followed in the same contexts. */
static bool run_path(struct ft_reader *reader, struct ft_path *path, const struct ft_path_step *step,
                     const uint64_t *words, uint64_t times)
{
    const struct ft_iteration *iteration = &step->iteration;
    struct ft_path_flow *flow = path->flow;
    const bool has_marks = reader->marks.are_known && flow->slot_of_word;
    if (has_marks && !ft_flow_is_marked(&reader->marks, words, times * iteration->num_words)) {
        reader->marks.passed += times * iteration->num_accesses;
        return true;
    }
    if (!are_places_known(reader, path, step->number) && !find_places(reader, path, step->number, times))
        return false;
    if (has_marks)
        return ft_flow_run_marked(reader->flow, &reader->marks, flow->slots, iteration->num_accesses,
                                  flow->slot_of_word, words, iteration->num_words, iteration->address_mask, times);
    return ft_flow_run(reader->flow, flow->slots, iteration->num_accesses, words, iteration->num_words,
                       iteration->address_mask, times);
}

bool ft_reader_follow_path(struct ft_reader *reader, struct ft_path *path, const struct ft_path_step *step,
                           const uint64_t *words, uint64_t times)
{
    if (!ft_reader_follows(reader))
        return !reader->tree || ft_tree_steps(reader->tree, &path->tree, step->number, times);
    if (!path->flow && !(path->flow = path_flow_new(path)))
        return false;
    while (times > 0) {
        const uint64_t done = ft_tree_follow(reader->tree, &path->tree, step->number, times);
        if (!done || !run_path(reader, path, step, words, done))
            return false;
        words += done * step->iteration.num_words;
        times -= done;
    }
    return true;
}
