/* See block_path.h. */
#include "block_path.h"

#include <stdlib.h>
#include <string.h>

struct ft_path *ft_path_new(const struct ft_path *like)
{
    const uint32_t num_lanes = (like->num_words + FT_LANES - 1) / FT_LANES * FT_LANES;
    const uint32_t room = num_lanes + FT_LANES; /* so that words from any on can be compared as lanes */
    const size_t bytes = sizeof *like + 2 * room * sizeof(uint64_t) + like->num_steps * sizeof *like->steps +
                         like->num_accesses * sizeof *like->accesses + like->num_joins * sizeof *like->joins +
                         5 * like->num_steps * sizeof(uint32_t);
    struct ft_path *path = calloc(1, bytes);
    if (!path)
        return NULL;
    *path = *like;
    for (uint32_t i = 0; i < FT_PATH_WAYS; i++)
        path->ways[i] = (struct ft_path_way){0, UINT64_MAX, NULL};
    path->num_lanes = num_lanes;
    path->bytes = bytes;
    path->words = (uint64_t *)(path + 1);
    path->compared = path->words + room;
    path->steps = (struct ft_path_step *)(path->compared + room);
    path->accesses = (struct ft_run_access *)(path->steps + like->num_steps);
    path->joins = (struct ft_path_join *)(path->accesses + like->num_accesses);
    memcpy(path->words, like->words, like->num_words * sizeof *like->words);
    memcpy(path->compared, like->compared, like->num_words * sizeof *like->compared);
    memcpy(path->steps, like->steps, like->num_steps * sizeof *like->steps);
    memcpy(path->accesses, like->accesses, like->num_accesses * sizeof *like->accesses);
    path->tree = (struct ft_tree_path){.ids = (uint32_t *)(path->joins + like->num_joins)};
    path->tree.locals = path->tree.ids + like->num_steps;
    path->tree.distinct = path->tree.locals + like->num_steps;
    path->tree.weights = path->tree.distinct + like->num_steps;
    path->tree.contexts = path->tree.weights + like->num_steps;
    path->flow = NULL;
    for (uint32_t i = 0; i < path->num_steps; i++) {
        path->steps[i].iteration.accesses = path->accesses;
        path->tree.ids[i] = path->steps[i].block_id;
    }
    if (like->num_joins)
        memcpy(path->joins, like->joins, like->num_joins * sizeof *like->joins);
    return path;
}

size_t ft_path_free(struct ft_path *path)
{
    size_t bytes = path->bytes;
    for (uint32_t i = 0; i < FT_PATH_WAYS && path->ways[i].longer; i++)
        bytes += ft_path_free(path->ways[i].longer);
    free(path->flow);
    free(path);
    return bytes;
}

/* The first join that is none, as the number of its word; `end` if there is none before. */
static uint32_t first_broken(const struct ft_path *path, const uint64_t *words, uint32_t end)
{
    for (uint32_t i = 0; i < path->num_joins && path->joins[i].word < end; i++) {
        const struct ft_path_join *join = &path->joins[i];
        if ((words[join->word] ^ (words[join->word - 1] + join->before_bytes)) & FT_ADDRESS_MASK)
            return join->word;
    }
    return end;
}

struct ft_path_step *ft_path_match_some(const struct ft_path *path, const uint64_t *words, uint32_t left)
{
    const uint32_t end = path->num_words < left ? path->num_words : left;
    uint32_t alike = 0;
    while (alike < end && !((words[alike] ^ path->words[alike]) & path->compared[alike]))
        alike++;
    if (path->num_joins)
        alike = first_broken(path, words, alike);
    struct ft_path_step *step = path->steps;
    while (step < path->steps + path->num_steps && step->iteration.num_words <= alike)
        step++;
    /* An execution is over where the next one begins. */
    if (step > path->steps &&
        (step[-1].iteration.num_words >= left || !(words[step[-1].iteration.num_words] & FT_ENTRY)))
        step--;
    return step > path->steps ? step - 1 : NULL;
}

uint64_t ft_path_taken(const struct ft_path *path)
{
    uint64_t times = 0;
    for (uint32_t i = 0; i < path->num_steps; i++)
        times += path->steps[i].taken;
    for (uint32_t i = 0; i < FT_PATH_WAYS && path->ways[i].longer; i++)
        times += ft_path_taken(path->ways[i].longer);
    return times;
}

uint32_t ft_path_tree_size(const struct ft_path *path)
{
    uint32_t number = 1;
    for (uint32_t i = 0; i < FT_PATH_WAYS && path->ways[i].longer; i++)
        number += ft_path_tree_size(path->ways[i].longer);
    return number;
}

bool ft_path_cut(struct ft_path *path)
{
    const uint64_t times = ft_path_taken(path);
    uint64_t reached = times;
    uint32_t steps = path->num_steps;
    for (uint32_t i = 0; i < steps; i++)
        reached -= path->steps[i].taken;
    for (; steps > 1 && (reached += path->steps[steps - 1].taken) < times - times / 4; steps--)
        ;
    if (steps == path->num_steps)
        return false;
    path->was_cut = true;
    path->tree.number = 0;
    path->num_steps = steps;
    path->num_words = path->steps[steps - 1].iteration.num_words;
    path->num_accesses = path->steps[steps - 1].iteration.num_accesses;
    path->num_lanes = (path->num_words + FT_LANES - 1) / FT_LANES * FT_LANES;
    for (uint32_t i = path->num_words; i < path->num_lanes; i++)
        path->compared[i] = 0;
    while (path->num_joins && path->joins[path->num_joins - 1].word >= path->num_words)
        path->num_joins--;
    return true;
}
