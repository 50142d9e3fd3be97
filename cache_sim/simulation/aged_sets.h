/* Sets of up to 64 ways: keys stay where they are, and each way has an age, the number of ways used since it was.
 *
 * Ages are bytes, worked on as vectors: a use makes all younger ways one older, without a branch on where the key was.
 * What is stored of an age is how far it lies above the way's number, so that zeroed memory is an empty set.
 */
#ifndef FORETRACE_AGED_SETS_H
#define FORETRACE_AGED_SETS_H

#include "lanes.h"

#include <stdbool.h>

#define FT_AGED_WAYS 64u
#define FT_AGES 32u /* in a vector */

typedef uint8_t ft_ages __attribute__((vector_size(FT_AGES), aligned(FT_AGES), may_alias));

static const uint8_t ft_way_numbers[FT_AGED_WAYS] __attribute__((aligned(FT_AGES))) = {
    0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
    22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43,
    44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63,
};

/* Keys and ages that a set takes: whole vectors. Keys behind the last way stay 0, and ages there are beyond all others.
 */
static inline uint32_t ft_aged_keys(uint32_t ways)
{
    return (ways + FT_LANES - 1) / FT_LANES * FT_LANES;
}

static inline uint32_t ft_aged_ages(uint32_t ways)
{
    return (ways + FT_AGES - 1) / FT_AGES * FT_AGES;
}

/* The way of a key, which is not 0; UINT32_MAX if it is in none. */
FT_INLINE uint32_t ft_aged_find(const uint64_t *keys, uint32_t ways, uint64_t key)
{
    const ft_lanes wanted = (ft_lanes){0} + key;
    ft_lanes place = {1, 2, 3, 4}, found = {0}; /* from 1 on, in one lane at most */
    for (uint32_t way = 0; way < ways; way += FT_LANES, place += FT_LANES)
        found |= (ft_lanes)(FT_LANES_AT(keys + way) == wanted) & place;
    return (uint32_t)(found[0] | found[1] | found[2] | found[3]) - 1;
}

/* The way whose age is ways - 1. */
FT_INLINE uint32_t ft_aged_oldest(const uint8_t *ages, uint32_t ways)
{
    ft_ages found = {0}; /* in one byte at most */
    for (uint32_t way = 0; way < ways; way += FT_AGES) {
        const ft_ages number = *(const ft_ages *)(ft_way_numbers + way);
        found |= (ft_ages)(*(const ft_ages *)(ages + way) + number == (uint8_t)(ways - 1)) & number;
    }
    const ft_lanes lanes = (ft_lanes)found;
    uint64_t word = lanes[0] | lanes[1] | lanes[2] | lanes[3];
    word |= word >> 32;
    word |= word >> 16;
    word |= word >> 8;
    return (uint32_t)(word & UINT8_MAX);
}

/* Makes a key the most recent of a set, in place of the oldest if it was not there. Returns whether it was. */
FT_INLINE bool ft_aged_use(uint64_t *keys, uint8_t *ages, uint32_t ways, uint64_t key)
{
    const uint32_t place = ft_aged_find(keys, ways, key);
    const uint32_t used = place == UINT32_MAX ? ft_aged_oldest(ages, ways) : place;
    const uint8_t age = (uint8_t)(ages[used] + used);
    for (uint32_t way = 0; way < ways; way += FT_AGES) {
        const ft_ages number = *(const ft_ages *)(ft_way_numbers + way), stored = *(const ft_ages *)(ages + way);
        const ft_ages is_younger = (ft_ages)(stored + number < age), is_used = (ft_ages)(number == (uint8_t)used);
        *(ft_ages *)(ages + way) = (ft_ages)((stored - is_younger) & ~is_used) | (ft_ages)(-number & is_used);
    }
    keys[used] = key;
    return place != UINT32_MAX;
}

#endif
