/* Where in a set-associative cache a line belongs, and which ways of its set may hold it. */
#ifndef FORETRACE_SETS_H
#define FORETRACE_SETS_H

#include "foretrace/base/tables.h"

#include <stdint.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define FT_HINTS 8u                                 /* in a vector */

/* 15 bits of a hash of each way's key, 0 if the way is empty, so that one comparison finds candidates among eight ways.
 */
typedef uint16_t ft_hints __attribute__((vector_size(2 * FT_HINTS)));

/* What ft_set_of needs: floor(2^64 / num_sets), or 0 if num_sets is a power of two. */
static inline uint64_t ft_reciprocal(uint64_t num_sets)
{
    return num_sets & (num_sets - 1) ? UINT64_MAX / num_sets : 0;
}

/* With m = floor(2^64 / d) and d no power of two, n*m/2^64 is below n/d by less than 1: the estimated quotient is right
 * or one too small, for every 64-bit n. */
static inline uint64_t ft_set_of(uint64_t line, uint64_t num_sets, uint64_t reciprocal)
{
    __extension__ typedef unsigned __int128 uint128;
    if (!reciprocal)
        return line & (num_sets - 1);
    uint64_t quotient = (uint64_t)((uint128)line * reciprocal >> 64);
    uint64_t rest = line - quotient * num_sets;
    return rest >= num_sets ? rest - num_sets : rest;
}

/* The same, and what tells lines of a set apart: line / num_sets. `set_bits` are those of a power of two. */
static inline uint64_t ft_set_and_tag_of(uint64_t line, uint64_t num_sets, uint64_t reciprocal, unsigned set_bits,
                                         uint64_t *tag)
{
    __extension__ typedef unsigned __int128 uint128;
    if (!reciprocal) {
        *tag = line >> set_bits;
        return line & (num_sets - 1);
    }
    const uint64_t quotient = (uint64_t)((uint128)line * reciprocal >> 64), rest = line - quotient * num_sets;
    *tag = quotient + (rest >= num_sets);
    return rest >= num_sets ? rest - num_sets : rest;
}

static inline uint16_t ft_hint_of(uint64_t key)
{
    return (uint16_t)(key * FT_HASH_FACTOR >> 48) | 1;
}

/* A mask of the lanes that hold a hint. */
static inline uint32_t ft_lanes_with(ft_hints hints, uint16_t hint)
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

#endif
