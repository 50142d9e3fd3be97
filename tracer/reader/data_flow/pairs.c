/* Numbers by pairs of numbers. See pairs.h. */
#include "pairs.h"

static inline uint64_t hash_of(const struct ft_flow_pair *pair)
{
    return pair->key * FT_HASH_FACTOR >> 32;
}

static inline bool is_used(const struct ft_flow_pair *pair)
{
    return pair->key;
}

static inline bool is_same(const struct ft_flow_pair *one, const struct ft_flow_pair *other)
{
    return one->key == other->key;
}

FT_TABLE(ft_flow_pairs, struct ft_flow_pair, 1024, hash_of, is_used, is_same)

static struct ft_flow_pair pair_of(uint32_t a, uint32_t b, uint32_t value)
{
    return (struct ft_flow_pair){((uint64_t)a << 32 | b) + 1, value};
}

uint32_t ft_flow_pairs_find(const struct ft_flow_pairs *pairs, uint32_t a, uint32_t b)
{
    const struct ft_flow_pair like = pair_of(a, b, 0);
    const struct ft_flow_pair *found = pairs->capacity ? ft_flow_pairs_at(pairs, &like) : NULL;
    return found && found->key ? found->value : FT_FLOW_NONE;
}

bool ft_flow_pairs_put(struct ft_flow_pairs *pairs, uint32_t a, uint32_t b, uint32_t value)
{
    const struct ft_flow_pair added = pair_of(a, b, value);
    if (!ft_flow_pairs_make_room(pairs))
        return false;
    struct ft_flow_pair *pair = ft_flow_pairs_at(pairs, &added);
    pairs->used += !pair->key;
    *pair = added;
    return true;
}

void ft_flow_pairs_free(struct ft_flow_pairs *pairs)
{
    free(pairs->entries);
}
