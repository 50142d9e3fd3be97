/* See tags.h. */
#include "tags.h"

#include <stdlib.h>

static void plan_tree(struct ft_tags *tags)
{
    for (uint32_t way = 0; way < tags->ways; way++)
        for (uint32_t node = tags->ways + way; node > 1; node /= 2) {
            uint64_t parent = UINT64_C(1) << node / 2;
            tags->tree_mask[way] |= parent;
            tags->tree_bits[way] |= node % 2 ? 0 : parent; /* a left child: the right half goes next */
        }
}

bool ft_tags_init(struct ft_tags *tags, uint64_t num_sets, uint32_t ways, enum ft_replacement replacement,
                  uint64_t seed)
{
    tags->num_sets = num_sets;
    tags->reciprocal = ft_reciprocal(num_sets);
    tags->ways = ways;
    tags->vectors = (ways + FT_HINTS - 1) / FT_HINTS;
    tags->replacement = replacement;
    tags->random = seed;
    tags->set_bytes = sizeof(struct ft_tag_set) + tags->vectors * sizeof(ft_hints) + ways * sizeof(struct ft_tag);
    if (replacement == FT_PLRU)
        plan_tree(tags);
    tags->sets = num_sets > SIZE_MAX / tags->set_bytes ? NULL : calloc((size_t)num_sets, tags->set_bytes);
    return tags->sets;
}

void ft_tags_free(struct ft_tags *tags)
{
    free(tags->sets);
}

/* The set is not full, so that the search ends before the hints of ways that do not exist. */
static size_t first_empty(const struct ft_tag_set *set)
{
    uint32_t v = 0, match;
    while (!(match = ft_lanes_with(set->hints[v], 0)))
        v++;
    return v * FT_HINTS + (size_t)__builtin_ctz(match);
}

static size_t oldest(const struct ft_tags *tags, const struct ft_tag *ways)
{
    size_t found = 0;
    for (size_t way = 1; way < tags->ways; way++)
        found = ways[way].mark < ways[found].mark ? way : found; /* times differ, so that flags do not matter */
    return found;
}

static size_t end_of_tree(const struct ft_tags *tags, const struct ft_tag_set *set)
{
    size_t node = 1;
    while (node < tags->ways)
        node = 2 * node + (set->tree >> node & 1);
    return node - tags->ways;
}

static size_t drawn(struct ft_tags *tags)
{
    tags->random = tags->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (size_t)((tags->random >> 33) % tags->ways);
}

struct ft_tag ft_tags_insert(struct ft_tags *tags, uint64_t key, unsigned flags)
{
    struct ft_tag_set *set = ft_tags_set(tags, key);
    struct ft_tag *ways = ft_tags_ways(tags, set);
    size_t way;
    if (set->used < tags->ways) {
        way = first_empty(set);
        set->used++;
    } else if (tags->replacement == FT_PLRU) {
        way = end_of_tree(tags, set);
    } else if (tags->replacement == FT_RANDOM) {
        way = drawn(tags);
    } else {
        way = oldest(tags, ways);
    }
    const struct ft_tag before = ways[way];
    ways[way] = (struct ft_tag){key, ++tags->clock << FT_TAG_TIME_SHIFT | flags};
    set->hints[way / FT_HINTS][way % FT_HINTS] = ft_hint_of(key);
    if (tags->replacement == FT_PLRU)
        ft_tags_use_tree(tags, set, way);
    tags->recent_set = set;
    tags->recent = &ways[way];
    return before;
}

struct ft_tag ft_tags_remove(struct ft_tags *tags, struct ft_tag_place place)
{
    size_t way = (size_t)(place.tag - ft_tags_ways(tags, place.set));
    const struct ft_tag before = *place.tag;
    *place.tag = (struct ft_tag){0, 0};
    place.set->hints[way / FT_HINTS][way % FT_HINTS] = 0;
    place.set->used--;
    return before;
}
