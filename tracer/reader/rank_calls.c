/* See rank_calls.h. */
#include "rank_calls.h"

#include <stdlib.h>
#include <string.h>

/* Adds rows that are all there already. False, with nothing added, if one is not. */
static bool add_in_place(struct ft_tree_works *sum, const struct ft_tree_works *more)
{
    uint64_t at = 0;
    for (int is_adding = 0; is_adding < 2; is_adding++, at = 0)
        for (uint64_t i = 0; i < more->number; i++, at++) {
            const struct ft_tree_work *row = &more->rows[i];
            while (at < sum->number && (sum->rows[at].context != row->context || sum->rows[at].local != row->local))
                at++;
            if (at == sum->number)
                return false;
            if (is_adding)
                sum->rows[at].executions += row->executions;
        }
    return true;
}

/* Adds rows, and frees them. False when memory ran out. */
static bool add(struct ft_tree_works *sum, struct ft_tree_works *more)
{
    if (add_in_place(sum, more)) {
        free(more->rows);
        *more = (struct ft_tree_works){0};
        return true;
    }
    if (!ft_tree_join_works(sum, more)) {
        free(more->rows);
        return false;
    }
    *sum = *more;
    *more = (struct ft_tree_works){0};
    return true;
}

static bool has_room(struct ft_rank_calls *calls, uint32_t call)
{
    if (call < calls->capacity)
        return true;
    const uint32_t capacity = call < 512 ? 1024 : 2 * call;
    struct ft_tree_works *works = realloc(calls->works, capacity * sizeof *works);
    if (!works)
        return false;
    memset(works + calls->capacity, 0, (capacity - calls->capacity) * sizeof *works);
    calls->works = works;
    calls->capacity = capacity;
    return true;
}

static bool add_copy(struct ft_tree_works *sum, const struct ft_tree_works *works)
{
    const size_t bytes = works->number * sizeof *works->rows;
    struct ft_tree_works copy = {malloc(bytes + 1), works->number};
    if (!copy.rows)
        return false;
    if (bytes)
        memcpy(copy.rows, works->rows, bytes);
    return add(sum, &copy);
}

bool ft_rank_calls_begin(struct ft_rank_calls *calls, struct ft_tree *tree)
{
    struct ft_tree_works before = {0};
    if (!ft_tree_work(tree, &before))
        return false;
    free(calls->ahead.rows);
    calls->ahead = (struct ft_tree_works){0};
    return add(&calls->behind, &before);
}

bool ft_rank_calls_read(struct ft_rank_calls *calls, uint32_t call, struct ft_tree *tree)
{
    struct ft_tree_works since = {0};
    if (!has_room(calls, call) || !ft_tree_work(tree, &since))
        return false;
    if (call >= calls->number)
        calls->number = call + 1;
    return (!calls->is_sampled || add_copy(&calls->behind, &since)) && add(&calls->works[call], &calls->ahead) &&
           add(&calls->works[call], &since);
}

bool ft_rank_calls_sampled(struct ft_rank_calls *calls, struct ft_tree_works *works)
{
    bool done = add_copy(&calls->ahead, works);
    for (uint32_t i = 0; i < calls->number && !calls->is_sampled && done; i++)
        done = add_copy(&calls->behind, &calls->works[i]);
    calls->is_sampled = true;
    return done && add(works, &calls->behind);
}

void ft_rank_calls_free(struct ft_rank_calls *calls)
{
    for (uint32_t i = 0; i < calls->number; i++)
        free(calls->works[i].rows);
    free(calls->works);
    free(calls->ahead.rows);
    free(calls->behind.rows);
}
