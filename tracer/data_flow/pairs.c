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
static uint32_t slot_of(const struct ft_flow_pairs *pairs, uint64_t key)
{
    uint64_t i = ft_flow_mixed(key);
    while (pairs->keys[i & (pairs->capacity - 1)] && pairs->keys[i & (pairs->capacity - 1)] != key)
        i++;
    return (uint32_t)(i & (pairs->capacity - 1));
}

uint32_t ft_flow_pairs_find(const struct ft_flow_pairs *pairs, uint32_t a, uint32_t b)
{
    if (!pairs->capacity)
        return FT_FLOW_NONE;
    const uint32_t slot = slot_of(pairs, key_of(a, b));
    return pairs->keys[slot] ? pairs->values[slot] : FT_FLOW_NONE;
}

static bool grow(struct ft_flow_pairs *pairs)
{
    struct ft_flow_pairs bigger = {.capacity = pairs->capacity ? 2 * pairs->capacity : 1024, .used = pairs->used};
    bigger.keys = calloc(bigger.capacity, sizeof *bigger.keys);
    bigger.values = malloc(bigger.capacity * sizeof *bigger.values);
    if (!bigger.keys || !bigger.values) {
        ft_flow_pairs_free(&bigger);
        return false;
    }
    for (uint32_t i = 0; i < pairs->capacity; i++)
        if (pairs->keys[i]) {
            const uint32_t slot = slot_of(&bigger, pairs->keys[i]);
            bigger.keys[slot] = pairs->keys[i];
            bigger.values[slot] = pairs->values[i];
        }
    ft_flow_pairs_free(pairs);
    *pairs = bigger;
    return true;
}

bool ft_flow_pairs_put(struct ft_flow_pairs *pairs, uint32_t a, uint32_t b, uint32_t value)
{
    if (2 * pairs->used >= pairs->capacity && !grow(pairs))
        return false;
    const uint32_t slot = slot_of(pairs, key_of(a, b));
    pairs->used += !pairs->keys[slot];
    pairs->keys[slot] = key_of(a, b);
    pairs->values[slot] = value;
    return true;
}

void ft_flow_pairs_free(struct ft_flow_pairs *pairs)
{
    free(pairs->keys);
    free(pairs->values);
}
