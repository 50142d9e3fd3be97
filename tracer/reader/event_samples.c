/* See event_samples.h. */
#include "event_samples.h"

#include <stdlib.h>
#include <string.h>

#define MOST_ROWS (UINT64_C(1) << 22) /* 64 MiB */

static void take_values(struct ft_event_samples *samples, const uint64_t *words, uint32_t length)
{
    const uint64_t record = words[1];
    for (uint32_t i = 2; i + 1 < length; i += 2) {
        const uint32_t event = (uint32_t)words[i];
        if (event >= FT_MAX_SAMPLED_EVENTS || samples->told_by[event] > record)
            continue; /* another thread's chunk, with a later record, came before */
        samples->told_by[event] = record;
        samples->values[event] = words[i + 1];
        samples->is_real[event] = words[i] & FT_EVENT_REAL;
        if (event >= samples->num_events)
            samples->num_events = event + 1;
    }
}

static bool keep(struct ft_event_samples *samples, uint64_t position, struct ft_tree *tree, struct ft_rank_calls *calls)
{
    struct ft_event_sample *sample = &samples->sample[samples->number];
    *sample = (struct ft_event_sample){.position = position, .num_values = samples->num_events};
    sample->values = malloc((sample->num_values + 1) * sizeof *sample->values);
    if (!sample->values)
        return false;
    memcpy(sample->values, samples->values, sample->num_values * sizeof *sample->values);
    samples->number++;
    if (tree && (!ft_tree_work(tree, &sample->work) || !ft_rank_calls_sampled(calls, &sample->work)))
        return false;
    samples->num_rows += sample->work.number;
    return true;
}

/* Gives up every second sample but the first. */
static bool thin_out(struct ft_event_samples *samples)
{
    uint32_t kept = 1;
    samples->num_rows = samples->sample[0].work.number;
    for (uint32_t i = 1; i < samples->number; i++) {
        struct ft_event_sample *sample = &samples->sample[i];
        if (i % 2 == 0 || i + 1 == samples->number) {
            samples->num_rows += sample->work.number;
            samples->sample[kept++] = *sample;
            continue;
        }
        if (!ft_tree_join_works(&sample->work, &sample[1].work)) {
            samples->number = kept;
            return false;
        }
        free(sample->values);
        sample->values = NULL;
    }
    samples->number = kept;
    samples->interval *= 2;
    return true;
}

bool ft_event_samples_read(struct ft_event_samples *samples, const uint64_t *words, uint32_t length, uint64_t position,
                           struct ft_tree *tree, struct ft_rank_calls *calls)
{
    take_values(samples, words, length);
    if (samples->interval == 0)
        samples->interval = samples->passed = 1;
    else if (++samples->passed < samples->interval)
        return true;
    samples->passed = 0;
    if (!keep(samples, position, tree, calls))
        return false;
    const bool is_full = samples->number == FT_MOST_EVENT_SAMPLES - 1 || samples->num_rows > MOST_ROWS;
    return !is_full || samples->number < 4 || thin_out(samples);
}

bool ft_event_samples_finish(struct ft_event_samples *samples, uint64_t position, struct ft_tree *tree,
                             struct ft_rank_calls *calls)
{
    return keep(samples, position, tree, calls);
}

void ft_event_samples_free(struct ft_event_samples *samples)
{
    for (uint32_t i = 0; i < samples->number; i++) {
        free(samples->sample[i].values);
        free(samples->sample[i].work.rows);
    }
}
