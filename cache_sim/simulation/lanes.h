/* Numbers that are worked on several at once, as wide as the processor at hand can. */
#ifndef FORETRACE_LANES_H
#define FORETRACE_LANES_H

#include <stdint.h>

#define FT_LANES 4u

typedef uint64_t ft_lanes __attribute__((vector_size(FT_LANES * 8), aligned(8), may_alias));
typedef int64_t ft_signed_lanes __attribute__((vector_size(FT_LANES * 8), aligned(8), may_alias));

/* In front of a function: it is there twice, for processors with vectors of 256 bits and for all others. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define FT_FOR_WIDE_PROCESSORS __attribute__((target_clones("avx2", "default")))
#else
#define FT_FOR_WIDE_PROCESSORS
#endif

/* For functions that are to be part of such ones. */
#define FT_INLINE static inline __attribute__((always_inline))

/* No function, for there is no one way to return such a thing. */
#define FT_LANES_AT(words) (*(const ft_lanes *)(words))

#endif
