/* Numbers by pairs of numbers. See pairs.h. */
#include "pairs.h"

#include <stdlib.h>
#include <string.h>

bool ft_flow_reserve(void **array, uint32_t *capacity, uint32_t index, uint64_t element_bytes)
{
    if (index < *capacity)
        return true;
    uint64_t bigger = *capacity ? *capacity : 256;
    while (bigger <= index)
        bigger *= 2;
    unsigned char *grown = bigger <= UINT32_MAX ? realloc(*array, bigger * element_bytes) : NULL;
    if (!grown)
        return false;
    memset(grown + *capacity * element_bytes, 0, (bigger - *capacity) * element_bytes);
    *array = grown;
    *capacity = (uint32_t)bigger;
    return true;
}

static uint64_t key_of(uint32_t a, uint32_t b)
{
    return ((uint64_t)a << 32 | b) + 1;
}

/* Where a key is, or would be. There is room. */
static inline struct ft_flow_pair *slot_of(const struct ft_flow_pairs *pairs, uint64_t key)
{
    uint64_t i = key * UINT64_C(0x9e3779b97f4a7c15) >> 32;
    struct ft_flow_pair *slot = &pairs->slots[i & (pairs->capacity - 1)];
    while (slot->key && slot->key != key)
        slot = &pairs->slots[++i & (pairs->capacity - 1)];
    return slot;
}

uint32_t ft_flow_pairs_find(const struct ft_flow_pairs *pairs, uint32_t a, uint32_t b)
{
    const struct ft_flow_pair *slot = pairs->capacity ? slot_of(pairs, key_of(a, b)) : NULL;
    return slot && slot->key ? slot->value : FT_FLOW_NONE;
}

static bool grow(struct ft_flow_pairs *pairs)
{
    struct ft_flow_pairs bigger = {.capacity = pairs->capacity ? 2 * pairs->capacity : 1024, .used = pairs->used};
    bigger.slots = calloc(bigger.capacity, sizeof *bigger.slots);
    if (!bigger.slots)
        return false;
    for (uint32_t i = 0; i < pairs->capacity; i++)
        if (pairs->slots[i].key)
            *slot_of(&bigger, pairs->slots[i].key) = pairs->slots[i];
    free(pairs->slots);
    *pairs = bigger;
    return true;
}

bool ft_flow_pairs_put(struct ft_flow_pairs *pairs, uint32_t a, uint32_t b, uint32_t value)
{
    if (2 * pairs->used >= pairs->capacity && !grow(pairs))
        return false;
    struct ft_flow_pair *slot = slot_of(pairs, key_of(a, b));
    pairs->used += !slot->key;
    *slot = (struct ft_flow_pair){key_of(a, b), value};
    return true;
}

void ft_flow_pairs_free(struct ft_flow_pairs *pairs)
{
    free(pairs->slots);
}
