/* A tag array: which lines (or pages) a set-associative cache, victim buffer or TLB holds, and which goes next.
 *
 * Keys are line numbers + 1, so that zeroed memory is an empty array and a large one costs only the sets that are used.
 * A set is a header, then `hints` (15 bits of a hash of each way's key, 0 if the way is empty, so that one vector
 * comparison finds candidates among eight ways), then the ways themselves. Lines never move between ways.
 *
 * LRU and FIFO keep the time of the last use, or of the arrival, in each way; tree-PLRU keeps a tree of bits in the header
 * (node 1 is the root, node n has children 2n and 2n+1; a set bit says that the right half goes next); random replacement
 * draws from a linear congruential generator (Knuth's MMIX). A way that is empty is filled before any is replaced, the lowest first.
 */
#ifndef FORETRACE_TAGS_H
#define FORETRACE_TAGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

enum ft_replacement { FT_LRU, FT_PLRU, FT_FIFO, FT_RANDOM, FT_NUM_REPLACEMENTS };

#define FT_TREE_WAYS 64u
#define FT_TAG_DIRTY 1u
#define FT_TAG_PREFETCHED 2u
#define FT_TAG_FLAGS 3u
#define FT_TAG_TIME_SHIFT 2
#define FT_HINTS 8u /* in a vector */

struct ft_tag {
    uint64_t key;  /* 0: empty */
    uint64_t mark; /* time << FT_TAG_TIME_SHIFT | flags */
};

typedef uint16_t ft_hints __attribute__((vector_size(2 * FT_HINTS)));

struct ft_tag_set {
    uint64_t tree;
    uint64_t used; /* ways that are not empty */
    ft_hints hints[];
};

struct ft_tags {
    uint64_t num_sets;
    uint64_t reciprocal; /* floor(2^64 / num_sets), or 0 if num_sets is a power of two */
    uint32_t ways;
    uint32_t vectors; /* of hints, in a set */
    enum ft_replacement replacement;
    size_t set_bytes;
    char *sets;
    uint64_t clock;
    uint64_t random;
    struct ft_tag_set *recent_set; /* where the last line that was found lies */
    struct ft_tag *recent;
    uint64_t tree_mask[FT_TREE_WAYS], tree_bits[FT_TREE_WAYS]; /* a way's path to the root, and what its use sets there */
};

/* Where a line lies; `tag` is NULL if it lies nowhere. */
struct ft_tag_place {
    struct ft_tag_set *set;
    struct ft_tag *tag;
};

/* False when memory ran out; ft_tags_free is needed all the same. `*tags` is zeroed before. */
bool ft_tags_init(struct ft_tags *tags, uint64_t num_sets, uint32_t ways, enum ft_replacement replacement, uint64_t seed);
void ft_tags_free(struct ft_tags *tags);

/* Adds a line that is not there, as used now. Returns the one that made room: key 0 if none had to. */
struct ft_tag ft_tags_insert(struct ft_tags *tags, uint64_t key, unsigned flags);

/* Empties a way that is in use. Returns what was there. */
struct ft_tag ft_tags_remove(struct ft_tags *tags, struct ft_tag_place place);

static inline struct ft_tag *ft_tags_ways(const struct ft_tags *tags, struct ft_tag_set *set)
{
    return (struct ft_tag *)(set->hints + tags->vectors);
}

/* With m = floor(2^64 / d) and d no power of two, n*m/2^64 is below n/d by less than 1: the estimated quotient is right
 * or one too small, for every 64-bit n. */
static inline struct ft_tag_set *ft_tags_set(const struct ft_tags *tags, uint64_t key)
{
    uint64_t line = key - 1, index = line & (tags->num_sets - 1);
    if (tags->reciprocal) {
        __extension__ typedef unsigned __int128 uint128;
        uint64_t quotient = (uint64_t)((uint128)line * tags->reciprocal >> 64);
        index = line - quotient * tags->num_sets;
        index = index >= tags->num_sets ? index - tags->num_sets : index;
    }
    return (struct ft_tag_set *)(tags->sets + index * tags->set_bytes);
}

static inline uint16_t ft_tags_hint(uint64_t key)
{
    return (uint16_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 48) | 1; /* 2^64 / golden ratio, odd */
}

/* A mask of the lanes that are equal. */
static inline uint32_t ft_tags_match(ft_hints hints, uint16_t hint)
{
    ft_hints equal = (ft_hints)(hints == (ft_hints){0} + hint);
#ifdef __SSE2__
    return (uint32_t)_mm_movemask_epi8(_mm_packs_epi16((__m128i)equal, _mm_setzero_si128()));
#else
    equal &= (ft_hints){1, 2, 4, 8, 16, 32, 64, 128};
    uint32_t mask = 0;
    for (unsigned i = 0; i < FT_HINTS; i++)
        mask |= equal[i];
    return mask;
#endif
}

/* Changes nothing that decides what is replaced. */
static inline struct ft_tag_place ft_tags_find(struct ft_tags *tags, uint64_t key)
{
    if (tags->recent && tags->recent->key == key)
        return (struct ft_tag_place){tags->recent_set, tags->recent};
    struct ft_tag_set *set = ft_tags_set(tags, key);
    struct ft_tag *ways = ft_tags_ways(tags, set);
    const uint16_t hint = ft_tags_hint(key);
    for (uint32_t v = 0; v < tags->vectors; v++)
        for (uint32_t match = ft_tags_match(set->hints[v], hint); match; match &= match - 1) {
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
