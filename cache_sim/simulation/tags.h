/* A tag array: which lines (or pages) a set-associative cache, victim buffer or TLB holds, and which goes next.
 *
 * Keys are line numbers + 1, so that zeroed memory is an empty array and a large one costs only the sets that are used.
 * A set is a header, then `hints` (sets.h), then the ways themselves. Lines never move between ways.
 *
 * LRU and FIFO keep the time of the last use, or of the arrival, in each way; tree-PLRU keeps a tree of bits in the
 * header (node 1 is the root, node n has children 2n and 2n+1; a set bit says that the right half goes next); random
 * replacement draws from a linear congruential generator (Knuth's MMIX). A way that is empty is filled before any is
 * replaced, the lowest first.
 */
#ifndef FORETRACE_TAGS_H
#define FORETRACE_TAGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sets.h"

enum ft_replacement { FT_LRU, FT_PLRU, FT_FIFO, FT_RANDOM, FT_NUM_REPLACEMENTS };

#define FT_TREE_WAYS 64u
#define FT_TAG_DIRTY 1u
#define FT_TAG_PREFETCHED 2u
#define FT_TAG_FLAGS 3u
#define FT_TAG_TIME_SHIFT 2

struct ft_tag {
    uint64_t key;  /* 0: empty */
    uint64_t mark; /* time << FT_TAG_TIME_SHIFT | flags */
};

struct ft_tag_set {
    uint64_t tree;
    uint64_t used; /* ways that are not empty */
    ft_hints hints[];
};

struct ft_tags {
    uint64_t num_sets;
    uint64_t reciprocal; /* see ft_set_of */
    uint32_t ways;
    uint32_t vectors; /* of hints, in a set */
    enum ft_replacement replacement;
    size_t set_bytes;
    char *sets;
    uint64_t clock;
    uint64_t random;
    struct ft_tag_set *recent_set; /* where the last line that was found lies */
    struct ft_tag *recent;
    uint64_t tree_mask[FT_TREE_WAYS],
        tree_bits[FT_TREE_WAYS]; /* a way's path to the root, and what its use sets there */
};

/* Where a line lies; `tag` is NULL if it lies nowhere. */
struct ft_tag_place {
    struct ft_tag_set *set;
    struct ft_tag *tag;
};

/* False when memory ran out; ft_tags_free is needed all the same. `*tags` is zeroed before. */
bool ft_tags_init(struct ft_tags *tags, uint64_t num_sets, uint32_t ways, enum ft_replacement replacement,
                  uint64_t seed);
void ft_tags_free(struct ft_tags *tags);

/* Adds a line that is not there, as used now. Returns the one that made room: key 0 if none had to. */
struct ft_tag ft_tags_insert(struct ft_tags *tags, uint64_t key, unsigned flags);

/* Empties a way that is in use. Returns what was there. */
struct ft_tag ft_tags_remove(struct ft_tags *tags, struct ft_tag_place place);

static inline struct ft_tag *ft_tags_ways(const struct ft_tags *tags, struct ft_tag_set *set)
{
    return (struct ft_tag *)(set->hints + tags->vectors);
}

static inline struct ft_tag_set *ft_tags_set(const struct ft_tags *tags, uint64_t key)
{
    return (struct ft_tag_set *)(tags->sets + ft_set_of(key - 1, tags->num_sets, tags->reciprocal) * tags->set_bytes);
}

/* Changes nothing that decides what is replaced. */
static inline struct ft_tag_place ft_tags_find(struct ft_tags *tags, uint64_t key)
{
    if (tags->recent && tags->recent->key == key)
        return (struct ft_tag_place){tags->recent_set, tags->recent};
    struct ft_tag_set *set = ft_tags_set(tags, key);
    struct ft_tag *ways = ft_tags_ways(tags, set);
    const uint16_t hint = ft_hint_of(key);
    for (uint32_t v = 0; v < tags->vectors; v++)
        for (uint32_t match = ft_lanes_with(set->hints[v], hint); match; match &= match - 1) {
            struct ft_tag *tag = &ways[v * FT_HINTS + (uint32_t)__builtin_ctz(match)];
            if (tag->key == key) {
                tags->recent_set = set;
                tags->recent = tag;
                return (struct ft_tag_place){set, tag};
            }
        }
    return (struct ft_tag_place){set, NULL};
}

static inline void ft_tags_use_tree(const struct ft_tags *tags, struct ft_tag_set *set, size_t way)
{
    set->tree = (set->tree & ~tags->tree_mask[way]) | tags->tree_bits[way];
}

/* A line that was found is used. */
static inline void ft_tags_use(struct ft_tags *tags, struct ft_tag_place place)
{
    if (tags->replacement == FT_LRU)
        place.tag->mark = ++tags->clock << FT_TAG_TIME_SHIFT | (place.tag->mark & FT_TAG_FLAGS);
    else if (tags->replacement == FT_PLRU)
        ft_tags_use_tree(tags, place.set, (size_t)(place.tag - ft_tags_ways(tags, place.set)));
}

#endif
