/* Hash tables, growing arrays and branch hints: what the C cores share.
 *
 * A table holds elements that have their keys in them: open addressing with linear probing, at most half full; nothing
 * is removed, and an element of zeros is free.
 *
 *   FT_TABLE_TYPE(name, element)         struct name { element *entries; uint64_t capacity, used; }; all zeros: empty
 *   FT_TABLE(name, element, first, hash, is_used, is_same)
 *     element *name_at(table, like)      the element with the key of `like`, or the free one where it belongs; there is room
 *     bool name_make_room(table)         for one more element, which may move all; false when memory ran out
 *
 * `first` is the first capacity, a power of two. hash(const element *), is_used(const element *) and is_same(const
 * element *, const element *) are functions. Whoever fills a free element counts it in `used`. */
#ifndef FORETRACE_TABLES_H
#define FORETRACE_TABLES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)
#define FT_HASH_FACTOR UINT64_C(0x9e3779b97f4a7c15) /* 2^64 / golden ratio, odd: a product's high bits are well mixed */

/* Of an object, by its address. */
static inline uint64_t ft_hash_pointer(const void *pointer)
{
    return ((uintptr_t)pointer >> 4) * FT_HASH_FACTOR >> 32;
}

#define FT_TABLE_TYPE(name, element)    \
    struct name {                       \
        element *entries;               \
        uint64_t capacity, used;        \
    }

#define FT_TABLE(name, element, first, hash, is_used, is_same)                       \
    static inline element *name##_at(const struct name *table, const element *like)  \
    {                                                                                \
        const uint64_t last = table->capacity - 1;                                   \
        uint64_t slot = hash(like) & last;                                           \
        while (is_used(&table->entries[slot]) && !is_same(&table->entries[slot], like)) \
            slot = (slot + 1) & last;                                                \
        return &table->entries[slot];                                                \
    }                                                                                \
                                                                                     \
    static inline bool name##_make_room(struct name *table)                          \
    {                                                                                \
        if (LIKELY(2 * (table->used + 1) <= table->capacity))                        \
            return true;                                                             \
        struct name larger = {NULL, table->capacity ? 2 * table->capacity : (first), table->used}; \
        larger.entries = calloc(larger.capacity, sizeof *larger.entries);            \
        if (!larger.entries)                                                         \
            return false;                                                            \
        for (uint64_t i = 0; i < table->capacity; i++)                               \
            if (is_used(&table->entries[i]))                                         \
                *name##_at(&larger, &table->entries[i]) = table->entries[i];         \
        free(table->entries);                                                        \
        *table = larger;                                                             \
        return true;                                                                 \
    }

__attribute__((noinline, unused)) static bool ft_grow(void *array, uint32_t *capacity, uint32_t index,
                                                      size_t element_bytes)
{
    void *old;
    uint64_t larger = *capacity ? *capacity : 8;
    while (larger <= index)
        larger *= 2;
    memcpy(&old, array, sizeof old);
    unsigned char *grown = larger <= UINT32_MAX ? realloc(old, larger * element_bytes) : NULL;
    if (!grown)
        return false;
    memset(grown + *capacity * element_bytes, 0, (larger - *capacity) * element_bytes);
    memcpy(array, &grown, sizeof grown);
    *capacity = (uint32_t)larger;
    return true;
}

/* Makes room for element `index` of the array that `array` points to; new elements are zero. False when memory ran out.
 */
static inline bool ft_reserve(void *array, uint32_t *capacity, uint32_t index, size_t element_bytes)
{
    return LIKELY(index < *capacity) || ft_grow(array, capacity, index, element_bytes);
}

#endif
