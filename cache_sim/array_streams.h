/* Streams: operations on vectors that are longer than the caches, of which no cache needs to see the middle. */
#ifndef FORETRACE_ARRAY_STREAMS_H
#define FORETRACE_ARRAY_STREAMS_H

#include "access.h"
#include "cache.h"

/* Whether an operation is such a stream: then all lines that its points *begin .. *end-1 come to miss everywhere, and it leaves the
 * caches in the state that the others leave them in. */
bool ft_array_stream(const struct ft_array_run *run, const struct ft_cache *cache, uint64_t *begin, uint64_t *end);

/* Counts the misses of those points: what is fed from `end` on counts the lines that are in use there. */
void ft_array_stream_count(const struct ft_array_run *run, struct ft_cache *cache, uint64_t begin, uint64_t end);

/* The operation at points begin .. end-1. */
struct ft_array_run ft_array_part(const struct ft_array_run *run, uint64_t begin, uint64_t end);

#endif
