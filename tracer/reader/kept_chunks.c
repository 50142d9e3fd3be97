/* Chunks of the stream kept as they are. See kept_chunks.h. */
#include "kept_chunks.h"

#include <stdlib.h>
#include <string.h>

static bool belongs(const struct ft_samples *samples, uint64_t number)
{
    return number % samples->interval == 0;
}

/* Gives up every second one. */
static void thin_out(struct ft_samples *samples)
{
    uint32_t kept = 0;
    samples->interval *= 2;
    for (uint32_t i = 0; i < samples->n; i++) {
        if (belongs(samples, samples->sample[i].number))
            samples->sample[kept++] = samples->sample[i];
        else
            free(samples->sample[i].words);
    }
    samples->n = kept;
}

bool ft_samples_offer(struct ft_samples *samples, const uint64_t *words, uint32_t n_words, uint32_t cursor)
{
    const uint64_t number = samples->seen++;
    if (!samples->interval)
        samples->interval = 1;
    if (belongs(samples, number) && samples->n == FT_MAX_SAMPLES)
        thin_out(samples);
    if (!belongs(samples, number))
        return true;
    const size_t bytes = n_words * sizeof *words;
    uint64_t *copy = malloc(bytes ? bytes : 1);
    if (!copy)
        return false;
    memcpy(copy, words, bytes);
    samples->sample[samples->n++] = (struct ft_sample){number, cursor, n_words, copy};
    return true;
}

void ft_samples_free(struct ft_samples *samples)
{
    for (uint32_t i = 0; i < samples->n; i++)
        free(samples->sample[i].words);
    samples->n = 0;
}
