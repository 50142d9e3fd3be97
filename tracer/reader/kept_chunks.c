/* Chunks of the stream kept as they are. See kept_chunks.h. */
#include "kept_chunks.h"

#include "parts.h"

#include <stdlib.h>
#include <string.h>

#define PLACES 8u        /* looked at in each chunk */
#define LEAST_KEPT 64u   /* executions of a block in kept chunks that are enough to know it */
#define MAX_ID (1u << 22) /* blocks beyond are not counted */

/* ---- blocks ----------------------------------------------------------------------------------------------------- */

/* The block that an entry word enters; 0 for another word. */
static uint32_t block_of(uint64_t word)
{
    return word & FT_ENTRY ? ft_entered_block(word) : 0;
}

/* What is known of a block; NULL if it is none, is not counted, or memory ran out. */
static struct ft_kept_block *entry_of(struct ft_samples *samples, uint32_t id)
{
    if (!id || id > MAX_ID)
        return NULL;
    if (id >= samples->n_blocks) {
        const uint32_t number = 2 * id;
        struct ft_kept_block *blocks = realloc(samples->blocks, number * sizeof *blocks);
        if (!blocks)
            return NULL;
        memset(blocks + samples->n_blocks, 0, (number - samples->n_blocks) * sizeof *blocks);
        samples->blocks = blocks;
        samples->n_blocks = number;
    }
    return &samples->blocks[id];
}

/* Counts the executions of a sample, `sign` 1 for one that is kept, -1 (modulo 2^32) for one that is given up. */
static void count_executions(struct ft_samples *samples, const struct ft_sample *sample, uint32_t sign)
{
    for (uint32_t i = 0; i < sample->n_words; i++) {
        struct ft_kept_block *block = entry_of(samples, block_of(sample->words[i]));
        if (block)
            block->kept += sign;
    }
}

static void give_up(struct ft_samples *samples, const struct ft_sample *sample)
{
    count_executions(samples, sample, UINT32_MAX);
    free(sample->words);
}

/* ---- samples ---------------------------------------------------------------------------------------------------- */

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
            give_up(samples, &samples->sample[i]);
    }
    samples->n = kept;
}

/* Looks at a few places of a chunk that is not a short one. Returns, of the blocks there that are in too few kept
 * chunks, the one that was seen most, if they are at half of the places or more; 0 if not. */
static uint32_t unknown_block(struct ft_samples *samples, const uint64_t *words, uint32_t n_words)
{
    uint32_t unknown = 0, best = 0, most = 0;
    for (uint32_t place = 0; place < PLACES && n_words >= PLACES * LEAST_KEPT; place++) {
        uint32_t i = (uint32_t)((uint64_t)n_words * place / PLACES);
        while (i < n_words && !(words[i] & FT_ENTRY))
            i++;
        struct ft_kept_block *block = i < n_words ? entry_of(samples, block_of(words[i])) : NULL;
        if (!block)
            continue;
        block->seen += block->seen < UINT32_MAX;
        if (block->kept >= LEAST_KEPT)
            continue;
        unknown++;
        if (block->seen > most) {
            most = block->seen;
            best = block_of(words[i]);
        }
    }
    return 2 * unknown >= PLACES ? best : 0;
}

/* Where a chunk that is kept for a block goes; NULL if there is no room for it. */
static struct ft_sample *room_for_phase(struct ft_samples *samples, uint32_t block)
{
    if (samples->n_phases < FT_MAX_PHASES)
        return &samples->phase[samples->n_phases++];
    struct ft_sample *least = &samples->phase[0];
    for (uint32_t i = 1; i < FT_MAX_PHASES; i++)
        if (samples->blocks[samples->phase[i].block].seen < samples->blocks[least->block].seen)
            least = &samples->phase[i];
    if (samples->blocks[block].seen / 2 < samples->blocks[least->block].seen)
        return NULL;
    give_up(samples, least);
    return least;
}

bool ft_samples_offer(struct ft_samples *samples, const uint64_t *words, uint32_t n_words, uint32_t cursor)
{
    const uint64_t number = samples->seen++;
    if (!samples->interval)
        samples->interval = 1;
    if (belongs(samples, number) && samples->n == FT_MAX_SAMPLES)
        thin_out(samples);
    const uint32_t block = unknown_block(samples, words, n_words);
    const bool is_spread = belongs(samples, number);
    if (!is_spread && !block)
        return true;
    const size_t bytes = n_words * sizeof *words;
    uint64_t *copy = malloc(bytes ? bytes : 1);
    if (!copy)
        return false;
    struct ft_sample *sample = is_spread ? &samples->sample[samples->n++] : room_for_phase(samples, block);
    if (!sample) {
        free(copy);
        return true;
    }
    memcpy(copy, words, bytes);
    *sample = (struct ft_sample){number, cursor, n_words, copy, block};
    count_executions(samples, sample, 1);
    return true;
}

uint32_t ft_samples_kept(const struct ft_samples *samples, const struct ft_sample **out)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < samples->n; i++)
        out[n++] = &samples->sample[i];
    for (uint32_t i = 0; i < samples->n_phases; i++) { /* few: by insertion */
        uint32_t at = n++;
        for (; at > 0 && out[at - 1]->number > samples->phase[i].number; at--)
            out[at] = out[at - 1];
        out[at] = &samples->phase[i];
    }
    return n;
}

void ft_samples_free(struct ft_samples *samples)
{
    for (uint32_t i = 0; i < samples->n; i++)
        free(samples->sample[i].words);
    for (uint32_t i = 0; i < samples->n_phases; i++)
        free(samples->phase[i].words);
    free(samples->blocks);
    samples->blocks = NULL;
    samples->n = samples->n_phases = samples->n_blocks = 0;
}
