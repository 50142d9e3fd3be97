/* Memory of an engine, and its state at time 0. */
#include <stdlib.h>

#include "engine.h"

static void *many(size_t n, size_t bytes)
{
    return calloc(n ? n : 1, bytes);
}

static bool allocate(struct ft_engine *e)
{
    e->n_sums = e->n_entities * FT_NUM_KINDS + e->n_labels * FT_PER_LABEL + e->n_resources * FT_PER_RESOURCE +
                e->n_core_groups + e->n_objects * FT_PER_OBJECT + e->n_entities * e->n_path_labels + FT_WORK;
    e->entities = many(e->n_entities, sizeof *e->entities);
    e->states = many(e->n_classes, sizeof *e->states);
    e->objects_now = many(e->n_objects, sizeof *e->objects_now);
    e->active = many(e->n_classes, sizeof *e->active);
    e->ready = many(e->n_entities, sizeof *e->ready);
    e->timers = many(e->n_entities, sizeof *e->timers);
    e->ended = many(e->n_entities, sizeof *e->ended);
    e->running_on = many(e->n_core_groups, sizeof *e->running_on);
    e->in_cache = many(e->n_caches * e->n_jobs, sizeof *e->in_cache);
    e->jobs_in = many(e->n_caches, sizeof *e->jobs_in);
    e->sums = many(e->n_sums, sizeof *e->sums);
    e->asked = many(e->n_classes, sizeof *e->asked);
    e->given = many(e->n_classes, sizeof *e->given);
    e->capacity = many(e->n_resources, sizeof *e->capacity);
    e->flow = many(e->n_resources, sizeof *e->flow);
    e->full = many(e->n_resources, sizeof *e->full);
    e->members = many(FT_MEMBER * e->n_classes, sizeof *e->members);
    return e->entities && e->states && e->objects_now && e->active && e->ready && e->timers && e->ended &&
           e->running_on && e->in_cache && e->jobs_in && e->sums && e->asked && e->given && e->capacity && e->flow &&
           e->full && e->members;
}

bool ft_engine_start(struct ft_engine *e, const struct ft_entity_start *starts)
{
    if (!allocate(e) || !ft_repeat_start(e))
        return false;
    double *sums = e->sums;
    e->of_entities = sums, sums += e->n_entities * FT_NUM_KINDS;
    e->of_labels = sums, sums += e->n_labels * FT_PER_LABEL;
    e->of_resources = sums, sums += e->n_resources * FT_PER_RESOURCE;
    e->of_cores = sums, sums += e->n_core_groups;
    e->of_objects = sums, sums += e->n_objects * FT_PER_OBJECT;
    e->of_paths = sums, sums += e->n_entities * e->n_path_labels;
    e->of_work = sums;
    for (size_t i = 0; i < e->n_classes; i++)
        e->states[i].slot = -1;
    for (size_t i = 0; i < e->n_objects; i++)
        e->objects_now[i] = (struct ft_object_state){e->objects[i].count, -1, -1, -1, 0, false};
    for (size_t i = 0; i < e->n_entities; i++) {
        struct ft_entity *one = &e->entities[i];
        one->pc = starts[i].first_operation;
        one->job = starts[i].job;
        one->first_joiner = one->next = one->object = one->device = -1;
        one->place = FT_UNBORN;
        if (starts[i].born)
            ft_make_ready(e, (int32_t)i);
    }
    return true;
}

void ft_engine_free(struct ft_engine *e)
{
    for (size_t i = 0; e->states && i < e->n_classes; i++)
        free(e->states[i].heap);
    void *all[] = {e->entities, e->states,     e->objects_now, e->active,  e->ready, e->timers,
                   e->ended,    e->running_on, e->in_cache,    e->jobs_in, e->sums,  e->segments,
                   e->asked,    e->given,      e->capacity,    e->flow,    e->full,  e->members};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    ft_repeat_free(e);
}
