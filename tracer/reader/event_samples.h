/* Samples of software-defined events, kept evenly over the run: the values of events, and what the nodes of the
 * execution tree did between one sample and the next.
 *
 * Of the samples in the stream one of every `interval` is kept. When there are too many of them, or of rows of the
 * tree, every second one is given up but for the first, and the interval is twice as long from then on.
 */
#ifndef FORETRACE_READER_EVENT_SAMPLES_H
#define FORETRACE_READER_EVENT_SAMPLES_H

#include "rank_calls.h"
#include "tracer/reader/execution_tree/tree.h"
#include "tracer/transport/stream.h"

#include <stdbool.h>

#define FT_MOST_EVENT_SAMPLES 256u /* the last of them is the end of the run */

struct ft_event_sample {
    uint64_t position;
    uint32_t num_values;
    uint64_t *values;          /* by event, bits as in the stream */
    struct ft_tree_works work; /* since the sample before */
};

struct ft_event_samples {
    uint32_t num_events; /* the largest number, and one */
    uint64_t values[FT_MAX_SAMPLED_EVENTS],
        told_by[FT_MAX_SAMPLED_EVENTS]; /* the last values; the record that had them, 0: none */
    bool is_real[FT_MAX_SAMPLED_EVENTS];
    uint64_t interval, passed; /* in samples of the stream */
    uint64_t num_rows;
    uint32_t number;
    struct ft_event_sample sample[FT_MOST_EVENT_SAMPLES];
};

/* A record of the stream, of `length` words; `position`, the tree and the calls are those of now. False when memory ran
 * out. */
bool ft_event_samples_read(struct ft_event_samples *samples, const uint64_t *words, uint32_t length, uint64_t position,
                           struct ft_tree *tree, struct ft_rank_calls *calls);

/* The sample at the end of the run. False when memory ran out. */
bool ft_event_samples_finish(struct ft_event_samples *samples, uint64_t position, struct ft_tree *tree,
                             struct ft_rank_calls *calls);

void ft_event_samples_free(struct ft_event_samples *samples);

#endif
