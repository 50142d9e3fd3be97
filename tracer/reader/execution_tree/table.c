/* Numbers by pairs of numbers. See parts.h. */
#include "parts.h"

static inline uint64_t hash_of(const struct ft_table_entry *entry)
{
    uint64_t hash = (entry->a * FT_HASH_FACTOR) ^ (entry->b * UINT64_C(0xc2b2ae3d27d4eb4f));
    hash ^= hash >> 29;
    return (hash * UINT64_C(0xbf58476d1ce4e5b9)) >> 16;
}

static inline bool is_used(const struct ft_table_entry *entry)
{
    return entry->a | entry->b;
}

static inline bool is_same(const struct ft_table_entry *one, const struct ft_table_entry *other)
{
    return one->a == other->a && one->b == other->b;
}

FT_TABLE(ft_table, struct ft_table_entry, 1024, hash_of, is_used, is_same)

uint32_t ft_table_find(const struct ft_table *table, uint64_t a, uint64_t b)
{
    const struct ft_table_entry like = {a, b, 0};
    if (!table->capacity)
        return FT_NONE;
    const struct ft_table_entry *entry = ft_table_at(table, &like);
    return is_used(entry) ? entry->value : FT_NONE;
}

bool ft_table_put(struct ft_table *table, uint64_t a, uint64_t b, uint32_t value)
{
    const struct ft_table_entry added = {a, b, value};
    if (!ft_table_make_room(table))
        return false;
    struct ft_table_entry *entry = ft_table_at(table, &added);
    table->used += !is_used(entry);
    *entry = added;
    return true;
}
