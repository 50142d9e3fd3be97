/* Hash tables and growing arrays. See parts.h. */
#include "parts.h"

#include <stdlib.h>
#include <string.h>

static uint64_t slot_of(const struct ft_table *table, uint64_t a, uint64_t b)
{
    uint64_t hash = (a * UINT64_C(0x9e3779b97f4a7c15)) ^ (b * UINT64_C(0xc2b2ae3d27d4eb4f));
    hash ^= hash >> 29;
    uint64_t slot = (hash * UINT64_C(0xbf58476d1ce4e5b9)) >> 16 & (table->capacity - 1);
    while ((table->entries[slot].a | table->entries[slot].b) &&
           (table->entries[slot].a != a || table->entries[slot].b != b))
        slot = (slot + 1) & (table->capacity - 1);
    return slot;
}

uint32_t ft_table_find(const struct ft_table *table, uint64_t a, uint64_t b)
{
    if (!table->capacity)
        return FT_NONE;
    const struct ft_table_entry *entry = &table->entries[slot_of(table, a, b)];
    return entry->a | entry->b ? entry->value : FT_NONE;
}

static bool grow(struct ft_table *table)
{
    struct ft_table bigger = {.capacity = table->capacity ? 2 * table->capacity : 1024};
    bigger.entries = calloc(bigger.capacity, sizeof *bigger.entries);
    if (!bigger.entries)
        return false;
    for (uint64_t i = 0; i < table->capacity; i++)
        if (table->entries[i].a | table->entries[i].b)
            bigger.entries[slot_of(&bigger, table->entries[i].a, table->entries[i].b)] = table->entries[i];
    bigger.used = table->used;
    free(table->entries);
    *table = bigger;
    return true;
}

bool ft_table_put(struct ft_table *table, uint64_t a, uint64_t b, uint32_t value)
{
    if (2 * (table->used + 1) > table->capacity && !grow(table))
        return false;
    struct ft_table_entry *entry = &table->entries[slot_of(table, a, b)];
    table->used += !(entry->a | entry->b);
    *entry = (struct ft_table_entry){a, b, value};
    return true;
}

bool ft_tree_reserve(void **array, uint32_t *capacity, uint32_t index, size_t element_bytes)
{
    if (LIKELY(index < *capacity))
        return true;
    uint32_t bigger = *capacity ? *capacity : 8;
    while (bigger <= index)
        bigger *= 2;
    unsigned char *grown = realloc(*array, bigger * element_bytes);
    if (!grown)
        return false;
    memset(grown + *capacity * element_bytes, 0, (bigger - *capacity) * element_bytes);
    *array = grown;
    *capacity = bigger;
    return true;
}
