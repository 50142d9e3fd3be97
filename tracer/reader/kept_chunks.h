/* Chunks of the stream kept as they are, spread evenly over the run, for those who want to know in which order things
 * happened.
 *
 * One of every `interval` chunks is kept. When the room is used up every second one is given up, and the interval is
 * twice as long from then on: at any time they are equally far apart, and at least half of the room is used.
 */
#ifndef FORETRACE_SAMPLES_H
#define FORETRACE_SAMPLES_H

#include "tracer/transport/stream.h"

#include <stdbool.h>

#define FT_MAX_SAMPLES 64u

struct ft_sample {
    uint64_t number; /* of the chunk, counted from 0 over all threads */
    uint32_t cursor;
    uint32_t n_words;
    uint64_t *words;
};

struct ft_samples {
    uint64_t seen;     /* chunks */
    uint64_t interval; /* in chunks; 0 before the first */
    uint32_t n;
    struct ft_sample sample[FT_MAX_SAMPLES];
};

/* The next chunk of the stream. Once per chunk; false when memory ran out. */
bool ft_samples_offer(struct ft_samples *samples, const uint64_t *words, uint32_t n_words, uint32_t cursor);

void ft_samples_free(struct ft_samples *samples);

#endif
