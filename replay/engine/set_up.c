/* Memory of an engine, and its state at time 0. */
#include <stdlib.h>

#include "engine.h"

static void *many(size_t n, size_t bytes)
{
    return calloc(n ? n : 1, bytes);
}

static size_t slots_of(const struct ft_engine *e, const struct ft_entity_start *starts)
{
    size_t slots = 0;
    for (size_t i = 0; i < e->n_entities; i++)
        slots = slots > (size_t)(starts[i].first_slot + starts[i].slots)
                    ? slots
                    : (size_t)(starts[i].first_slot + starts[i].slots);
    return slots;
}

static bool allocate(struct ft_engine *e, const struct ft_entity_start *starts)
{
    e->n_path = e->n_path_labels + e->n_path_bins + 1;
    e->n_sums = e->n_entities * (FT_NUM_KINDS + FT_PER_LATE) + e->n_labels * FT_PER_LABEL +
                e->n_resources * FT_PER_RESOURCE + e->n_core_groups + e->n_objects * FT_PER_OBJECT +
                e->n_entities * e->n_path + FT_WORK;
    e->entities = many(e->n_entities, sizeof *e->entities);
    e->states = many(e->n_classes, sizeof *e->states);
    e->consumers = many(e->n_classes, sizeof *e->consumers);
    e->shared = many(e->n_resources, sizeof *e->shared);
    e->core_groups = many(e->n_core_groups, sizeof *e->core_groups);
    e->caches_now = many(e->n_caches, sizeof *e->caches_now);
    e->objects_now = many(e->n_objects, sizeof *e->objects_now);
    e->active = many(e->n_classes, sizeof *e->active);
    const size_t slots = slots_of(e, starts);
    e->slots = many(slots, sizeof *e->slots);
    e->member_order = many(e->n_members, sizeof *e->member_order);
    e->next_tags = many(e->n_members, sizeof *e->next_tags);
    e->meetings = many(e->n_communicators, sizeof *e->meetings);
    for (size_t i = 0; e->slots && i < slots; i++)
        e->slots[i] = -1;
    e->consumer_room = (uint32_t)e->n_classes;
    e->due_room = (uint32_t)(e->n_entities + e->n_classes);
    e->ready = many(e->n_entities, sizeof *e->ready);
    e->ended = many(e->n_entities, sizeof *e->ended);
    e->in_cache = many(e->n_caches * e->n_jobs, sizeof *e->in_cache);
    e->due = many(e->n_entities + e->n_classes, sizeof *e->due);
    e->due_at = many(e->n_entities + e->n_classes, sizeof *e->due_at);
    e->due_s = many(e->n_entities + e->n_classes, sizeof *e->due_s);
    e->sums = many(e->n_sums, sizeof *e->sums);
    return e->entities && e->states && e->consumers && e->shared && e->core_groups && e->caches_now && e->objects_now &&
           e->active && e->ready && e->ended && e->in_cache && e->due && e->due_at && e->due_s && e->slots &&
           e->member_order && e->next_tags && e->meetings && e->sums;
}

/* Classes, each with the resources that it uses. */
static bool start_classes(struct ft_engine *e)
{
    for (size_t i = 0; i < e->n_classes; i++) {
        const struct ft_class *its = &e->classes[i];
        struct ft_consumer *one = &e->consumers[i];
        e->states[i].slot = -1;
        one->penalty = 1;
        one->n_ties = its->uses;
        one->ties = many((size_t)its->uses, sizeof *one->ties);
        for (int32_t t = 0; one->ties && t < its->uses; t++)
            one->ties[t] = (struct ft_tie){e->uses[its->first_use + t], -1, 1};
        if (!one->ties)
            return false;
    }
    return true;
}

/* Ranks of each communicator in order of their entities. */
static void order_members(struct ft_engine *e)
{
    for (size_t i = 0; i < e->n_communicators; i++) {
        const struct ft_communicator *of = &e->communicators[i];
        int32_t *order = &e->member_order[of->first_member];
        const int32_t *members = &e->members[of->first_member];
        size_t n = (size_t)of->members;
        for (size_t r = 0; r < n; r++)
            order[r] = (int32_t)r;
        for (size_t end = n, start = n / 2; end > 1;) { /* heap sort: no comparison function could know the members */
            if (start > 0) {
                start--;
            } else {
                const int32_t largest = order[0];
                order[0] = order[--end];
                order[end] = largest;
            }
            for (size_t at = start, child; (child = 2 * at + 1) < end; at = child) {
                child += child + 1 < end && members[order[child + 1]] > members[order[child]];
                if (members[order[child]] <= members[order[at]])
                    break;
                const int32_t moved = order[at];
                order[at] = order[child];
                order[child] = moved;
            }
        }
    }
}

bool ft_engine_start(struct ft_engine *e, const struct ft_entity_start *starts)
{
    if (!allocate(e, starts) || !start_classes(e) || !ft_repeat_start(e))
        return false;
    double *sums = e->sums;
    e->of_entities = sums, sums += e->n_entities * FT_NUM_KINDS;
    e->of_late = sums, sums += e->n_entities * FT_PER_LATE;
    e->of_labels = sums, sums += e->n_labels * FT_PER_LABEL;
    e->of_resources = sums, sums += e->n_resources * FT_PER_RESOURCE;
    e->of_cores = sums, sums += e->n_core_groups;
    e->of_objects = sums, sums += e->n_objects * FT_PER_OBJECT;
    e->of_paths = sums, sums += e->n_entities * e->n_path;
    e->of_work = sums;
    order_members(e);
    e->posting = e->other = e->cut_send = e->cut_receive = -1;
    for (size_t i = 0; i < e->n_entities + e->n_classes; i++)
        e->due_at[i] = -1;
    for (size_t i = 0; i < e->n_core_groups; i++)
        e->core_groups[i].share = 1;
    for (size_t i = 0; i < e->n_objects; i++)
        e->objects_now[i] = (struct ft_object_state){e->objects[i].count, -1, -1, -1, 0, false};
    for (size_t i = 0; i < e->n_entities; i++) {
        struct ft_entity *one = &e->entities[i];
        one->pc = starts[i].first_operation;
        one->job = starts[i].job;
        one->first_joiner = one->next = one->object = one->device = -1;
        one->posted = one->posted_last = one->arrived = one->arrived_last = one->step = -1;
        one->first_task = one->last_task = -1;
        one->node = starts[i].node;
        one->first_slot = starts[i].first_slot;
        one->slots = starts[i].slots;
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
    for (size_t i = 0; e->consumers && i < e->n_classes + e->n_flows; i++)
        free(e->consumers[i].ties);
    for (size_t i = 0; e->shared && i < e->n_resources; i++) {
        free(e->shared[i].users.items);
        free(e->shared[i].slots.items);
    }
    for (size_t i = 0; e->core_groups && i < e->n_core_groups; i++)
        free(e->core_groups[i].classes.items);
    for (size_t i = 0; e->caches_now && i < e->n_caches; i++)
        free(e->caches_now[i].classes.items);
    for (size_t i = 0; e->meetings && i < e->n_communicators; i++)
        free(e->meetings[i].items);
    void *all[] = {e->entities,
                   e->states,
                   e->consumers,
                   e->shared,
                   e->core_groups,
                   e->caches_now,
                   e->objects_now,
                   e->active,
                   e->ready,
                   e->ended,
                   e->in_cache,
                   e->due,
                   e->due_at,
                   e->due_s,
                   e->sums,
                   e->segments,
                   e->changed.items,
                   e->touched.items,
                   e->touched_cores.items,
                   e->touched_caches.items,
                   e->reached.items,
                   e->visited.items,
                   e->growing.items,
                   e->refreshed.items,
                   e->requests,
                   e->flows,
                   e->flow_paths,
                   e->slots,
                   e->member_order,
                   e->pairs.entries,
                   e->of_pairs,
                   e->pair_list,
                   e->next_tags,
                   e->meetings,
                   e->tasks,
                   e->task_paths,
                   e->free_tasks,
                   e->free_requests,
                   e->free_flows,
                   e->route,
                   e->arrivals};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    ft_repeat_free(e);
}
