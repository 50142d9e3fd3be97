/* Blocks that ran one after the other, and are likely to again: their executions are then told from others, and handed
 * over, all at once.
 *
 * Words of a stream with their upper 16 bits, and all bits of those without an address (entry words that bring no
 * access, and the first words of elements' records), are compared with those of the executions that the path was made
 * of. Executions up to the first that differs are on the path.
 *
 * Where code goes on in several ways, paths are a tree: each begins as the one above it, and goes on behind it.
 */
#ifndef FORETRACE_BLOCK_PATH_H
#define FORETRACE_BLOCK_PATH_H

#include "cache_sim/simulation/access.h"
#include "cache_sim/simulation/lanes.h"
#include "tracer/reader/execution_tree/tree.h"
#include "tracer/transport/stream.h"

#include <stdbool.h>

#define FT_PATH_WORDS 1024u /* at most; so many only in one execution */
#define FT_PATH_EXECUTIONS 32u
#define FT_PATH_WAYS 3u

/* An access that is in several words: `word` goes on where the one before it ends. */
struct ft_path_join {
    uint32_t word, before_bytes;
};

struct ft_path_step {
    uint32_t block_id;
    uint32_t number;               /* of the execution, from 1 */
    struct ft_iteration iteration; /* the path from its beginning to the end of this execution */
    uint64_t taken;                /* times that the path was left after this execution */
};

/* A longer path, below another one in a tree. It has the word that comes behind those of the shorter one. */
struct ft_path_way {
    uint64_t word, compared;
    struct ft_path *longer; /* NULL: none, and `word` is none */
};

struct ft_path {
    uint32_t num_steps, num_words, num_lanes, num_accesses, num_joins;
    uint32_t patience, countdown; /* times between two looks at how good it is, and to the next one */
    bool was_cut;
    size_t bytes;
    uint64_t *words, *compared; /* by lane; 0 is compared where there is no word */
    struct ft_run_access *accesses;
    struct ft_path_step *steps;
    struct ft_path_join *joins;
    struct ft_tree_path tree;  /* of the steps' blocks */
    struct ft_path_flow *flow; /* for the data flow; NULL until it is followed (data_flow.c) */
    struct ft_path_way ways[FT_PATH_WAYS];
};

/* Without ways. NULL when memory ran out. */
struct ft_path *ft_path_new(const struct ft_path *like);

/* Frees a path and those below it. Returns how many bytes they took. */
size_t ft_path_free(struct ft_path *path);

/* The last execution on the path of those at `words`, of which there are `left`; NULL if there is none. */
struct ft_path_step *ft_path_match_some(const struct ft_path *path, const uint64_t *words, uint32_t left);

/* Cuts a path that is mostly left before its end there, so that no more is compared than what comes. Returns whether it
 * was: those below it are then to be given up. */
bool ft_path_cut(struct ft_path *path);

/* Whether a word enters the first block. */
FT_INLINE bool ft_path_begins(const struct ft_path *path, uint64_t word)
{
    return ((word ^ path->words[0]) & path->compared[0]) == 0;
}

/* Whether the words at hand, of which there are `left`, begin with the whole path. Words behind these are read, too:
 * there must be memory. */
FT_INLINE bool ft_path_is_on(const struct ft_path *path, const uint64_t *words, uint32_t left)
{
    ft_lanes differ = {0};
    if (path->num_words >= left || path->num_joins || !(words[path->num_words] & FT_ENTRY))
        return false;
    for (uint32_t lane = 0; lane < path->num_lanes; lane += FT_LANES)
        differ |= (FT_LANES_AT(words + lane) ^ FT_LANES_AT(path->words + lane)) & FT_LANES_AT(path->compared + lane);
    return (differ[0] | differ[1] | differ[2] | differ[3]) == 0;
}

/* How often the words at hand have the whole path, one behind the other. */
FT_INLINE uint32_t ft_path_repeats(const struct ft_path *path, const uint64_t *words, uint32_t left)
{
    const uint32_t num_words = path->num_words;
    uint32_t times = 0;
    if (!ft_path_begins(path, *words))
        return 0;
    if (path->num_lanes > FT_LANES || path->num_joins) {
        for (; ft_path_is_on(path, words, left); words += num_words, left -= num_words)
            times++;
        return times;
    }
    const ft_lanes expected = FT_LANES_AT(path->words), compared = FT_LANES_AT(path->compared);
    for (; num_words < left && (words[num_words] & FT_ENTRY); words += num_words, left -= num_words, times++) {
        const ft_lanes differ = (FT_LANES_AT(words) ^ expected) & compared;
        if (differ[0] | differ[1] | differ[2] | differ[3])
            break;
    }
    return times;
}

/* Whether words that begin with a path go on as one right below it. */
FT_INLINE bool ft_path_goes_on(const struct ft_path *longer, const struct ft_path *path, const uint64_t *words,
                               uint32_t left)
{
    ft_lanes differ = {0};
    if (longer->num_words >= left || !(words[longer->num_words] & FT_ENTRY))
        return false;
    for (uint32_t i = path->num_words; i < longer->num_words; i += FT_LANES)
        differ |= (FT_LANES_AT(words + i) ^ FT_LANES_AT(longer->words + i)) & FT_LANES_AT(longer->compared + i);
    return (differ[0] | differ[1] | differ[2] | differ[3]) == 0;
}

/* The longest path that words begin with, of one that they begin with and those below it. */
FT_INLINE struct ft_path *ft_path_longest(struct ft_path *path, const uint64_t *words, uint32_t left)
{
    for (;;) {
        const uint64_t next = words[path->num_words];
        const struct ft_path_way *way = path->ways;
        while ((next ^ way->word) & way->compared)
            if (++way == path->ways + FT_PATH_WAYS)
                return path;
        if (!ft_path_goes_on(way->longer, path, words, left))
            return path;
        path = way->longer;
    }
}

/* The path that words may begin with, of one and those below it, by the first word of each part alone. The first one
 * where words may have that again right behind it. */
FT_INLINE struct ft_path *ft_path_likely(struct ft_path *path, const uint64_t *words, uint32_t left)
{
    if (path->num_words < left && ft_path_begins(path, words[path->num_words]))
        return path;
    while (path->num_words < left && (words[path->num_words] & FT_ENTRY)) {
        const uint64_t next = words[path->num_words];
        const struct ft_path_way *way = path->ways;
        while ((next ^ way->word) & way->compared)
            if (++way == path->ways + FT_PATH_WAYS)
                return path;
        path = way->longer;
    }
    return path;
}

/* How often a path, or one below it, was taken. */
uint64_t ft_path_taken(const struct ft_path *path);

/* How many paths a tree has. */
uint32_t ft_path_tree_size(const struct ft_path *path);

/* Puts a longer path below one that has room for it. */
static inline void ft_path_add(struct ft_path *path, struct ft_path_way *way, struct ft_path *longer)
{
    *way = (struct ft_path_way){longer->words[path->num_words], longer->compared[path->num_words], longer};
}

/* The same as ft_path_match_some. Words behind the `left` ones are read, too. */
FT_INLINE struct ft_path_step *ft_path_match(const struct ft_path *path, const uint64_t *words, uint32_t left)
{
    return __builtin_expect(ft_path_is_on(path, words, left), 1) ? &path->steps[path->num_steps - 1]
                                                                 : ft_path_match_some(path, words, left);
}

#endif
