/* Chunks of the stream kept as they are, for those who want to know in which order things happened.
 *
 * Most are spread evenly over the run: one of every `interval` chunks is kept. When the room is used up every second
 * one is given up, and the interval is twice as long from then on: at any time they are equally far apart, and at least
 * half of the room is used.
 *
 * Phases shorter than the interval fall between them. So a few places in each chunk are looked at, and one that is
 * mostly of blocks that no kept chunk has is kept as well. When the room for these is used up, it takes the place of
 * the one whose blocks were seen least, once its own were seen twice as often.
 *
 * Invariant: `kept` of a block are its executions in the chunks that are kept.
 */
#ifndef FORETRACE_SAMPLES_H
#define FORETRACE_SAMPLES_H

#include "tracer/transport/stream.h"

#include <stdbool.h>

#define FT_MAX_SAMPLES 64u
#define FT_MAX_PHASES 32u

struct ft_sample {
    uint64_t number; /* of the chunk, counted from 0 over all threads */
    uint32_t cursor;
    uint32_t n_words;
    uint64_t *words;
    uint32_t block; /* of a phase: that it was kept for */
};

struct ft_kept_block {
    uint32_t seen; /* at the places that were looked at */
    uint32_t kept; /* executions in the chunks that are kept */
};

struct ft_samples {
    uint64_t seen;     /* chunks */
    uint64_t interval; /* in chunks; 0 before the first */
    uint32_t n, n_phases;
    struct ft_sample sample[FT_MAX_SAMPLES], phase[FT_MAX_PHASES];
    struct ft_kept_block *blocks; /* by id */
    uint32_t n_blocks;
};

/* The next chunk of the stream. Once per chunk; false when memory ran out. */
bool ft_samples_offer(struct ft_samples *samples, const uint64_t *words, uint32_t n_words, uint32_t cursor);

/* All that are kept, in the order of the run; `out` has room for FT_MAX_SAMPLES + FT_MAX_PHASES. Returns how many. */
uint32_t ft_samples_kept(const struct ft_samples *samples, const struct ft_sample **out);

void ft_samples_free(struct ft_samples *samples);

#endif
