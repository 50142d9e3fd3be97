/* Learns which blocks run one after the other again and again. See parts.h and block_path.h. */
#include "parts.h"

#include <assert.h>

#define MAX_LEARNT_WORDS 96u /* of a path of several executions */
#define MAX_PATH_BYTES (UINT64_C(64) << 20) /* of all: beyond, a path is one execution */
#define MAX_LENGTHENED_WORDS 20u /* of a path below another */
#define MAX_TREE_PATHS 128u
#define MAX_LONGER_PATH_BYTES (MAX_PATH_BYTES / 2) /* of all: beyond, none is put below another */
#define FIRST_PATIENCE 16u /* see struct ft_path */
#define MAX_PATIENCE (1u << 20)

static_assert(FT_PATH_WORDS <= FT_RUN_ACCESSES, "an execution is not too long");

/* Adds the access of word number `i` of an execution, which `word` tells, to a path; or joins it to the one of the word
 * before. */
static bool add_to_path(struct ft_reader *reader, const struct ft_block *block, struct ft_path *path, uint32_t i,
                        uint64_t word, uint64_t word_before)
{
    const uint32_t tag = (uint32_t)(word >> FT_TAG_SHIFT), size = 1u << (word >> FT_SIZE_SHIFT & 7);
    if (tag == 0 || tag > block->n_slots || !block->operation || block->operation[tag - 1] == FT_NO_OPERATION)
        return false;
    const uint32_t operation = block->operation[tag - 1];
    const uint32_t width = reader->operations[operation].width_bytes;
    if (tag == word_before >> FT_TAG_SHIFT) {
        struct ft_run_access *last = &path->accesses[path->num_accesses - 1];
        const uint32_t before_bytes = 1u << (word_before >> FT_SIZE_SHIFT & 7);
        if (width == 0 || reader->operations[operation].parts != FT_PARTS_ADJACENT)
            return false; /* to be asked for, should these be parts of one access; or other ones each time */
        if (last->size_bytes + size <= width) {
            path->joins[path->num_joins++] = (struct ft_path_join){i, before_bytes};
            last->size_bytes = (uint16_t)(last->size_bytes + size);
            return ((word ^ (word_before + before_bytes)) & FT_ADDRESS_MASK) == 0;
        }
    }
    path->accesses[path->num_accesses++] =
        (struct ft_run_access){operation, (uint16_t)size, (tag - 1) & 1 ? FT_ACCESS_STORE : 0, i};
    return true;
}

/* The same of an element's record, of which number `i` is the first of two words. */
static bool add_element_to_path(struct ft_reader *reader, struct ft_path *path, uint32_t i, uint64_t word)
{
    const struct ft_array *array = ft_reader_element_of(reader, word);
    if (!array)
        return false;
    const struct ft_operand *operand = &array->facts.operands[0];
    path->accesses[path->num_accesses++] = (struct ft_run_access){array->first_operation, operand->size_bytes,
                                                                  operand->is_store ? FT_ACCESS_STORE : 0, i + 1};
    return true;
}

static bool is_on_path(const struct ft_path *path, uint32_t block_id)
{
    for (uint32_t i = 0; i < path->num_steps; i++)
        if (path->steps[i].block_id == block_id)
            return true;
    return false;
}

/* Adds the execution in `words`, from number `begin` on, as the same words of a path. False if it cannot be on one. */
static bool add_execution(struct ft_reader *reader, struct ft_path *path, const uint64_t *words, uint32_t begin,
                          uint32_t end)
{
    const uint32_t id = ft_entered_block(words[begin]), first = path->num_accesses;
    const struct ft_block *block = &reader->blocks[id];
    if (id == 0 || id > reader->n_blocks)
        return false;
    uint64_t before = 0;
    for (uint32_t i = begin; i < end; i++) {
        if (ft_is_element(words[i])) {
            if (i + 1 == end || !add_element_to_path(reader, path, i, words[i]))
                return false;
            path->words[i] = words[i];
            path->compared[i++] = UINT64_MAX;
            path->words[i] = words[i];
            path->compared[i] = ~FT_ADDRESS_MASK;
            before = 0;
            continue;
        }
        const bool has_access = i > begin || ft_brings_access(words[i]);
        const uint64_t word = i > begin ? words[i] : ft_first_access_word(block, words[i]);
        path->words[i] = words[i];
        path->compared[i] = has_access ? ~FT_ADDRESS_MASK : UINT64_MAX;
        if (has_access && !add_to_path(reader, block, path, i, word, before))
            return false;
        before = has_access ? word : 0;
    }
    const struct ft_iteration *last = path->num_steps ? &path->steps[path->num_steps - 1].iteration : NULL;
    uint32_t max_op = last ? last->max_op : 0;
    bool has_distinct_ops = (!last || last->has_distinct_ops) && !is_on_path(path, id);
    for (uint32_t j = first; j < path->num_accesses; j++) {
        max_op = path->accesses[j].op > max_op ? path->accesses[j].op : max_op;
        has_distinct_ops &=
            j == first || path->accesses[j].op > path->accesses[j - 1].op; /* they are numbered in order */
    }
    const struct ft_iteration iteration = {.address_mask = FT_ADDRESS_MASK,
                                           .num_accesses = path->num_accesses,
                                           .num_words = end,
                                           .max_op = max_op,
                                           .has_distinct_ops = has_distinct_ops};
    path->steps[path->num_steps] = (struct ft_path_step){id, path->num_steps + 1, iteration, 0};
    path->num_steps++;
    return true;
}

/* A path being made. */
struct draft {
    struct ft_path path;
    uint64_t words[FT_PATH_WORDS], compared[FT_PATH_WORDS];
    struct ft_run_access accesses[FT_PATH_WORDS];
    struct ft_path_join joins[FT_PATH_WORDS];
    struct ft_path_step steps[FT_PATH_EXECUTIONS];
};

/* Makes a path of what comes, from an entry word on and in `left` words: of `num_steps` executions, if they can be on
 * one; for 0 of as many as there are up to where a block comes again. */
static void draft_path(struct ft_reader *reader, struct draft *draft, const uint64_t *words, uint32_t left,
                       uint32_t num_steps)
{
    const uint32_t usual = reader->path_bytes < MAX_PATH_BYTES ? FT_PATH_EXECUTIONS : 1;
    const uint32_t max_steps = num_steps ? num_steps : usual;
    struct ft_path *path = &draft->path;
    *path = (struct ft_path){.words = draft->words,
                             .compared = draft->compared,
                             .accesses = draft->accesses,
                             .joins = draft->joins,
                             .steps = draft->steps};
    for (uint32_t begin = 0, end; path->num_steps < max_steps; begin = end) {
        for (end = begin + 1; end < left && !(words[end] & FT_ENTRY); end++)
            ;
        const struct ft_path so_far = *path;
        const bool comes_again = !num_steps && is_on_path(path, ft_entered_block(words[begin]));
        if (end >= left || end > (begin ? MAX_LEARNT_WORDS : FT_PATH_WORDS) || comes_again ||
            !add_execution(reader, path, words, begin, end)) {
            *path = so_far;
            break;
        }
        path->num_words = end;
    }
}

/* Counts a path, and those below it, for the last time. False when memory ran out. */
static bool give_up_path(struct ft_reader *reader, struct ft_path *path)
{
    if (!ft_reader_count_path(reader, path, path->num_steps) || !ft_reader_count_longer_paths(reader, path))
        return false;
    reader->path_bytes -= ft_path_free(path);
    return true;
}

static void show_to_tree(const struct ft_reader *reader, struct ft_path *path)
{
    for (uint32_t i = 0; i < path->num_steps && reader->tree; i++)
        path->tree.ids[i] = ft_tree_canonical(reader->tree, path->tree.ids[i]);
}

/* Makes what comes, from an entry word on and in `left` words, the path of its block. Leaves the one there is if it is
 * as long. */
static enum ft_read_status learn_path(struct ft_reader *reader, const uint64_t *words, uint32_t left)
{
    struct draft draft;
    draft_path(reader, &draft, words, left, 0);
    if (draft.path.num_steps == 0)
        return FT_READ_IDLE;
    struct ft_block *block = &reader->blocks[draft.path.steps[0].block_id];
    struct ft_path *old = block->path;
    if (old && draft.path.num_steps <= old->num_steps && ft_path_match_some(old, words, left))
        return FT_READ_IDLE;
    draft.path.patience = old ? old->patience : FIRST_PATIENCE;
    draft.path.countdown = FIRST_PATIENCE;
    struct ft_path *learnt = ft_path_new(&draft.path);
    if (!learnt)
        return FT_READ_MEMORY;
    show_to_tree(reader, learnt);
    reader->path_bytes += learnt->bytes;
    block->path = learnt;
    return !old || give_up_path(reader, old) ? FT_READ_IDLE : FT_READ_MEMORY;
}

/* How many executions there are on a path and the one that comes behind it, in `left` words. 0 if these are not on it,
 * or are on it again and again, or if there is none behind it. */
static uint32_t num_steps_of_both(const struct ft_reader *reader, const struct ft_path *path, const uint64_t *words,
                                  uint32_t left)
{
    if (!ft_path_is_on(path, words, left))
        return 0;
    const uint64_t *const behind = words + path->num_words;
    const uint32_t id = ft_entered_block(*behind);
    const struct ft_path *next = id <= reader->n_blocks ? reader->blocks[id].path : NULL;
    const struct ft_path_step *step = next ? ft_path_match(next, behind, left - path->num_words) : NULL;
    const bool fits = step && path->num_words + step->iteration.num_words <= MAX_LENGTHENED_WORDS &&
                      path->num_steps + step->number <= FT_PATH_EXECUTIONS;
    return fits && !ft_path_is_on(path, behind, left - path->num_words) ? path->num_steps + step->number : 0;
}

/* Puts a longer path below one that `words` begin with, of both that and the one that comes behind it. */
static enum ft_read_status lengthen_path(struct ft_reader *reader, struct ft_path *path, const uint64_t *words,
                                         uint32_t left)
{
    struct draft draft;
    struct ft_path_way *way = path->ways;
    while (way < path->ways + FT_PATH_WAYS && way->longer)
        way++;
    const uint32_t num_steps = num_steps_of_both(reader, path, words, left);
    const struct ft_path *tree = reader->blocks[path->steps[0].block_id].path;
    if (way == path->ways + FT_PATH_WAYS || reader->path_bytes > MAX_LONGER_PATH_BYTES || num_steps == 0 ||
        ft_path_tree_size(tree) >= MAX_TREE_PATHS)
        return FT_READ_IDLE;
    draft_path(reader, &draft, words, left, num_steps);
    if (draft.path.num_steps < num_steps || draft.path.num_joins)
        return FT_READ_IDLE;
    draft.path.patience = draft.path.countdown = FIRST_PATIENCE;
    struct ft_path *longer = ft_path_new(&draft.path);
    if (!longer)
        return FT_READ_MEMORY;
    show_to_tree(reader, longer);
    ft_path_add(path, way, longer);
    reader->path_bytes += longer->bytes;
    return FT_READ_IDLE;
}

/* Leaves nothing below a path. */
static bool give_up_longer_paths(struct ft_reader *reader, struct ft_path *path)
{
    bool done = true;
    for (uint32_t i = 0; i < FT_PATH_WAYS && path->ways[i].longer && done; i++) {
        done = give_up_path(reader, path->ways[i].longer);
        path->ways[i] = (struct ft_path_way){0, UINT64_MAX, NULL};
    }
    return done;
}

/* Where the path is kept that has `path` right below it, in the tree in `*kept`. NULL if there is none. */
static struct ft_path **path_above(struct ft_path **kept, const struct ft_path *path)
{
    struct ft_path **found = NULL;
    for (uint32_t i = 0; i < FT_PATH_WAYS && (*kept)->ways[i].longer && !found; i++)
        found = (*kept)->ways[i].longer == path ? kept : path_above(&(*kept)->ways[i].longer, path);
    return found;
}

/* Puts a path in the place of the one above it if that mostly goes on as it. False when memory ran out. */
static bool replace_path_above(struct ft_reader *reader, struct ft_path *path)
{
    struct ft_path **kept = path_above(&reader->blocks[path->steps[0].block_id].path, path);
    if (!kept || ft_path_taken(path) < ft_path_taken(*kept) / 4 * 3)
        return true;
    struct ft_path *above = *kept;
    uint32_t last = 0;
    for (uint32_t i = 0; i < FT_PATH_WAYS && above->ways[i].longer; i++)
        last = i;
    for (uint32_t i = 0; i <= last; i++)
        if (above->ways[i].longer == path)
            above->ways[i] = above->ways[last];
    above->ways[last] = (struct ft_path_way){0, UINT64_MAX, NULL};
    *kept = path;
    return give_up_path(reader, above);
}

enum ft_read_status ft_reader_improve_path(struct ft_reader *reader, struct ft_path *path, const uint64_t *words,
                                           uint32_t left)
{
    struct ft_block *block = &reader->blocks[path->steps[0].block_id];
    const uint32_t num_steps = path->num_steps;
    const bool is_first = block->path == path;
    path->patience *= path->patience < MAX_PATIENCE ? 2 : 1;
    path->countdown = path->patience;
    if (ft_path_cut(path))
        return ft_reader_count_path(reader, path, num_steps) && give_up_longer_paths(reader, path) ? FT_READ_IDLE
                                                                                                   : FT_READ_MEMORY;
    enum ft_read_status status = is_first && !path->was_cut ? learn_path(reader, words, left) : FT_READ_IDLE;
    if (status != FT_READ_IDLE || (is_first && block->path != path))
        return status;
    return replace_path_above(reader, path) ? lengthen_path(reader, path, words, left) : FT_READ_MEMORY;
}

enum ft_read_status ft_reader_learn_path(struct ft_reader *reader, const uint64_t *words, uint32_t left)
{
    const uint32_t id = ft_entered_block(*words);
    if (id == 0 || id > reader->n_blocks)
        return FT_READ_IDLE;
    struct ft_block *block = &reader->blocks[id];
    block->misfits += block->misfits < UINT16_MAX;
    return block->misfits & (block->misfits - 1) ? FT_READ_IDLE : learn_path(reader, words, left);
}
