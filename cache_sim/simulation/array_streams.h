/* Streams: operations on vectors that are longer than caches, which need not see the middle. */
#ifndef FORETRACE_ARRAY_STREAMS_H
#define FORETRACE_ARRAY_STREAMS_H

#include "access.h"
#include "cache.h"

/* What is known of a stream: the caches that are asked first are full after so many points, and again if they see no
 * more than so many at its end; all lines that points begin .. end-1 come to miss everywhere, and leave no cache as
 * they find it. */
struct ft_array_stream {
    uint64_t first, begin, end;
};

/* Whether an operation is one. */
bool ft_array_stream_of(struct ft_array_stream *stream, const struct ft_array_run *run, const struct ft_cache *cache);

/* The stream from point `first` on, without the accesses that the caches asked first hold in the end. */
void ft_array_stream_feed(const struct ft_array_stream *stream, const struct ft_array_run *run, struct ft_cache *cache);

/* The operation at points begin .. end-1. */
struct ft_array_run ft_array_part(const struct ft_array_run *run, uint64_t begin, uint64_t end);

#endif
