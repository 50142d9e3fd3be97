/* Sets of up to 16 ways on processors with vectors of 256 bits (AVX2 and BMI2): a row of keys in order of use, most
 * recent first.
 *
 * A row is 1 to 4 vectors of four keys, or 1 or 2 of eight short ones. Keys behind the last way are of lines that have
 * left the set, and are not looked at.
 */
#ifndef FORETRACE_WIDE_SETS_H
#define FORETRACE_WIDE_SETS_H

#if defined(__x86_64__) && defined(__GNUC__)
#define FT_HAS_WIDE_SETS 1

#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>

#define FT_WIDE __attribute__((target("avx2,bmi2")))
#define FT_ROW_KEYS 4u /* in a vector */
#define FT_MOST_VECTORS 4u

/* What a mask of four lanes selects. */
static const int64_t ft_row_lanes[16][FT_ROW_KEYS] __attribute__((aligned(32))) = {
    {0, 0, 0, 0},   {-1, 0, 0, 0},   {0, -1, 0, 0},   {-1, -1, 0, 0},   {0, 0, -1, 0},  {-1, 0, -1, 0},
    {0, -1, -1, 0}, {-1, -1, -1, 0}, {0, 0, 0, -1},   {-1, 0, 0, -1},   {0, -1, 0, -1}, {-1, -1, 0, -1},
    {0, 0, -1, -1}, {-1, 0, -1, -1}, {0, -1, -1, -1}, {-1, -1, -1, -1},
};

/* The four keys that end with all but the last of `keys`. */
FT_WIDE static inline __attribute__((always_inline)) __m256i ft_row_moved(__m256i before, __m256i keys)
{
    return _mm256_alignr_epi8(keys, _mm256_permute2x128_si256(before, keys, 0x21), 8);
}

/* Makes a key the most recent of a row, whose last vector has `last_ways`. Returns whether it was there. */
FT_WIDE static inline __attribute__((always_inline)) bool ft_row_use(uint64_t *row, uint64_t key, __m256i last_ways,
                                                                     unsigned vectors)
{
    const __m256i wanted = _mm256_set1_epi64x((long long)key);
    __m256i *const place = (__m256i *)row;
    __m256i old[FT_MOST_VECTORS], equal[FT_MOST_VECTORS], any = _mm256_setzero_si256();
    for (unsigned v = 0; v < vectors; v++) {
        old[v] = _mm256_load_si256(place + v);
        equal[v] = _mm256_cmpeq_epi64(old[v], wanted);
        if (v + 1 == vectors)
            equal[v] = _mm256_and_si256(equal[v], last_ways);
        any = _mm256_or_si256(any, equal[v]);
    }
    if (_mm256_testz_si256(any, any)) {
        for (unsigned v = 0; v < vectors; v++)
            _mm256_store_si256(place + v, ft_row_moved(v ? old[v - 1] : wanted, old[v]));
        return false;
    }
    for (unsigned v = 0; v < vectors; v++) { /* those before the key */
        const __m256i moved = ft_row_moved(v ? old[v - 1] : wanted, old[v]);
        const uint32_t found = (uint32_t)_mm256_movemask_pd(_mm256_castsi256_pd(equal[v]));
        const __m256i lanes = _mm256_load_si256((const __m256i *)ft_row_lanes[(found ^ (found - 1)) & 15]);
        _mm256_store_si256(place + v, _mm256_blendv_epi8(old[v], moved, lanes));
        if (found)
            break;
    }
    return true;
}

/* ---- short keys --------------------------------------------------------------------------------------------------- */

#define FT_SHORT_KEYS 8u /* in a vector */

static const uint32_t ft_short_lanes[FT_SHORT_KEYS] __attribute__((aligned(32))) = {1, 2, 4, 8, 16, 32, 64, 128};

/* What a mask of eight lanes selects. */
FT_WIDE static inline __attribute__((always_inline)) __m256i ft_lanes_of(uint32_t mask)
{
    const __m256i lanes = _mm256_load_si256((const __m256i *)ft_short_lanes);
    return _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32((int)mask), lanes), lanes);
}

FT_WIDE static inline __attribute__((always_inline)) __m256i ft_short_row_moved(__m256i before, __m256i keys)
{
    return _mm256_alignr_epi8(keys, _mm256_permute2x128_si256(before, keys, 0x21), 12);
}

FT_WIDE static inline __attribute__((always_inline)) uint32_t ft_lanes_equal(__m256i keys, __m256i wanted)
{
    return (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(keys, wanted)));
}

/* As ft_row_use; `last_ways` is a mask. In a single vector there is no branch on where the key was, which a processor
 * could often not predict: where it was not, all lanes are those before it. */
FT_WIDE static inline __attribute__((always_inline)) bool ft_short_row_use(uint32_t *row, uint32_t key,
                                                                           uint32_t last_ways, unsigned vectors)
{
    const __m256i wanted = _mm256_set1_epi32((int)key);
    __m256i *const place = (__m256i *)row;
    const __m256i first = _mm256_load_si256(place), moved = ft_short_row_moved(wanted, first);
    const uint32_t found = ft_lanes_equal(first, wanted) & (vectors == 1 ? last_ways : UINT32_MAX);
    if (vectors == 1 || found) {
        _mm256_store_si256(place, _mm256_blendv_epi8(first, moved, ft_lanes_of(found ^ (found - 1))));
        return found;
    }
    _mm256_store_si256(place, moved);
    const __m256i second = _mm256_load_si256(place + 1), second_moved = ft_short_row_moved(first, second);
    const uint32_t found_second = ft_lanes_equal(second, wanted) & last_ways;
    const __m256i lanes = ft_lanes_of(found_second ^ (found_second - 1)); /* all if it is not there */
    _mm256_store_si256(place + 1, _mm256_blendv_epi8(second, second_moved, lanes));
    return found_second;
}

#endif
#endif
