/* Rates: max-min fair sharing by progressive filling (Bertsekas and Gallager, Data Networks, 2nd ed., section 6.5.2):
 * all consumers grow together, each in proportion to 1 / penalty; one stops when it has what it asked for, or when a
 * resource on its way is full.
 *
 * A resource of which less is asked than it has bounds nobody. A change reaches those whom it concerns; their rates are
 * found while all others keep theirs; then those for whom the condition of max-min fairness no longer holds are reached
 * as well, until it holds for all. So rates are exact, and a change that few notice costs little, however large the
 * network is. */
#include <math.h>
#include <stdlib.h>

#include "engine.h"

static const double JUST_FULL = 1e-9, LIMITED = 1e-12, SAME_LEVEL = 1e-12, SAME_BOUND = 1e-10; /* relative */
enum { FEW = 16 }; /* users whose demands are added up anew at each change, without the rounding of differences */

static void append(struct ft_engine *e, struct ft_list *list, int32_t item)
{
    if (ft_reserve(&list->items, &list->room, list->n, sizeof *list->items))
        list->items[list->n++] = item;
    else
        e->out_of_memory = true;
}

/* Bytes/s that `users` entities get together: between two points on a line, beyond the last one no more. */
double ft_capacity(const double *points, int32_t n_points, double users)
{
    if (users <= 1 || n_points == 1)
        return points[0];
    if (users >= n_points)
        return points[n_points - 1];
    const int32_t below = (int32_t)users;
    return points[below - 1] + (points[below] - points[below - 1]) * (users - below);
}

/* ---- what changed ---- */

void ft_change(struct ft_engine *e, int32_t number)
{
    struct ft_consumer *one = &e->consumers[number];
    if (!one->changed)
        append(e, &e->changed, number);
    one->changed = true;
    e->stale = true;
}

static void touch(struct ft_engine *e, int32_t resource)
{
    struct ft_resource_state *its = &e->shared[resource];
    if (!its->touched)
        append(e, &e->touched, resource);
    its->touched = true;
    e->stale = true;
}

static void touch_group(struct ft_engine *e, struct ft_group_state *groups, struct ft_list *touched, int32_t number)
{
    if (!groups[number].touched)
        append(e, touched, number);
    groups[number].touched = true;
    e->stale = true;
}

/* One entity more (change 1) or less (-1) on the cores of a class; one of a job in its cache. */
void ft_run_on(struct ft_engine *e, int32_t class_number, int32_t job, int32_t change)
{
    const struct ft_class *its = &e->classes[class_number];
    if (its->cores >= 0) {
        e->core_groups[its->cores].running += change;
        touch_group(e, e->core_groups, &e->touched_cores, its->cores);
    }
    if (its->cache >= 0) {
        int32_t *here = &e->in_cache[(size_t)its->cache * e->n_jobs + (size_t)job];
        *here += change;
        if (change > 0 ? *here == 1 : *here == 0) {
            e->caches_now[its->cache].running += change;
            touch_group(e, e->caches_now, &e->touched_caches, its->cache);
        }
    }
    ft_change(e, class_number);
}

static void leave_group(struct ft_engine *e, struct ft_list *list, int32_t at, bool cores)
{
    const int32_t last = list->items[--list->n];
    list->items[at] = last;
    if ((uint32_t)at < list->n) {
        if (cores)
            e->states[last].at_cores = at;
        else
            e->states[last].at_cache = at;
    }
}

void ft_attach(struct ft_engine *e, int32_t number)
{
    struct ft_consumer *one = &e->consumers[number];
    for (int32_t t = 0; t < one->n_ties; t++) {
        struct ft_tie *tie = &one->ties[t];
        struct ft_resource_state *its = &e->shared[tie->resource];
        tie->at = (int32_t)its->users.n;
        append(e, &its->users, number);
        append(e, &its->slots, t);
    }
    if ((size_t)number < e->n_classes) {
        const struct ft_class *its = &e->classes[number];
        if (its->cores >= 0) {
            e->states[number].at_cores = (int32_t)e->core_groups[its->cores].classes.n;
            append(e, &e->core_groups[its->cores].classes, number);
        }
        if (its->cache >= 0) {
            e->states[number].at_cache = (int32_t)e->caches_now[its->cache].classes.n;
            append(e, &e->caches_now[its->cache].classes, number);
        }
    }
    one->since = e->now;
    one->counted = one->flowing = one->rate = 0;
    ft_change(e, number);
}

/* ---- sums over time ---- */

static void settle_resource(struct ft_engine *e, int32_t resource)
{
    struct ft_resource_state *its = &e->shared[resource];
    const double seconds = e->now - its->since;
    double *sums = &e->of_resources[(size_t)resource * FT_PER_RESOURCE];
    sums[0] += its->flow * seconds;
    sums[1] += its->full ? seconds : 0;
    its->since = e->now;
}

void ft_settle(struct ft_engine *e, int32_t number)
{
    struct ft_consumer *one = &e->consumers[number];
    const double seconds = e->now - one->since, work = one->rate * seconds;
    one->since = e->now;
    if ((size_t)number >= e->n_classes) {
        e->flows[(size_t)number - e->n_classes].left -= work;
        e->of_work[4] += work;
        return;
    }
    e->states[number].v += work;
    e->of_work[1] += one->n * work;
    if (e->classes[number].cores >= 0)
        e->of_cores[e->classes[number].cores] += one->n * e->states[number].share * seconds;
}

void ft_settle_all(struct ft_engine *e)
{
    for (size_t i = 0; i < e->n_active; i++)
        ft_settle(e, e->active[i]);
    for (uint32_t i = 0; i < e->n_flows; i++)
        if (e->flows[i].is_used && e->flows[i].moves)
            ft_settle(e, (int32_t)(e->n_classes + i));
    for (size_t r = 0; r < e->n_resources; r++)
        settle_resource(e, (int32_t)r);
}

void ft_detach(struct ft_engine *e, int32_t number)
{
    struct ft_consumer *one = &e->consumers[number];
    for (int32_t t = 0; t < one->n_ties; t++) {
        const struct ft_tie *tie = &one->ties[t];
        struct ft_resource_state *its = &e->shared[tie->resource];
        settle_resource(e, tie->resource);
        const int32_t last = its->users.items[--its->users.n], slot = its->slots.items[--its->slots.n];
        its->users.items[tie->at] = last;
        its->slots.items[tie->at] = slot;
        e->consumers[last].ties[slot].at = tie->at;
        its->demand -= tie->weight * one->counted;
        its->flow -= tie->weight * one->flowing;
        if (its->users.n == 0)
            its->demand = its->flow = 0;
        touch(e, tie->resource);
    }
    if ((size_t)number < e->n_classes) {
        const struct ft_class *its = &e->classes[number];
        if (its->cores >= 0)
            leave_group(e, &e->core_groups[its->cores].classes, e->states[number].at_cores, true);
        if (its->cache >= 0)
            leave_group(e, &e->caches_now[its->cache].classes, e->states[number].at_cache, false);
    }
    one->counted = one->flowing = 0;
}

/* ---- rates ---- */

/* Shares of touched groups; classes whose share is another one now are among the changed ones. */
static void share_groups(struct ft_engine *e)
{
    for (uint32_t i = 0; i < e->touched_cores.n; i++) {
        const int32_t number = e->touched_cores.items[i];
        struct ft_group_state *its = &e->core_groups[number];
        const double share = its->running ? fmin(1, e->cores[number] / its->running) : 1;
        its->touched = false;
        for (uint32_t c = 0; share != its->share && c < its->classes.n; c++)
            ft_change(e, its->classes.items[c]);
        its->share = share;
    }
    for (uint32_t i = 0; i < e->touched_caches.n; i++) {
        struct ft_group_state *its = &e->caches_now[e->touched_caches.items[i]];
        its->touched = false;
        for (uint32_t c = 0; its->running != its->share && c < its->classes.n; c++)
            ft_change(e, its->classes.items[c]);
        its->share = its->running;
    }
    e->touched_cores.n = e->touched_caches.n = 0;
}

/* What a class asks for now. */
static void ask(struct ft_engine *e, int32_t number)
{
    struct ft_consumer *one = &e->consumers[number];
    const struct ft_class *its = &e->classes[number];
    const int32_t jobs = its->cache < 0 ? 1 : e->caches_now[its->cache].running;
    const int32_t row = its->first_condition + (jobs < its->conditions ? jobs : its->conditions) - 1;
    const double share = its->cores < 0 ? 1 : e->core_groups[its->cores].share;
    ft_settle(e, number);
    e->states[number].share = share;
    one->full_rate = e->conditions[2 * row] * share;
    one->asked = e->conditions[2 * row + 1] * share;
}

static void count_demand(struct ft_engine *e, int32_t number)
{
    struct ft_consumer *one = &e->consumers[number];
    const double now = one->n * one->asked;
    for (int32_t t = 0; t < one->n_ties && now != one->counted; t++) {
        e->shared[one->ties[t].resource].demand += one->ties[t].weight * (now - one->counted);
        touch(e, one->ties[t].resource);
    }
    one->counted = now;
}

static void refresh(struct ft_engine *e, int32_t resource)
{
    struct ft_resource_state *its = &e->shared[resource];
    if (!its->refreshed) {
        settle_resource(e, resource);
        append(e, &e->refreshed, resource);
    }
    its->refreshed = true;
}

static double demand_of(const struct ft_engine *e, const struct ft_resource_state *its)
{
    double demand = 0;
    for (uint32_t i = 0; i < its->users.n; i++) {
        const struct ft_consumer *one = &e->consumers[its->users.items[i]];
        demand += one->ties[its->slots.items[i]].weight * one->counted;
    }
    return demand;
}

static void visit(struct ft_engine *e, int32_t resource)
{
    struct ft_resource_state *its = &e->shared[resource];
    if (its->mark == e->epoch)
        return;
    its->mark = e->epoch;
    append(e, &e->visited, resource);
}

/* A consumer whose rate is found anew, with the limited resources on its way. */
static void reach_consumer(struct ft_engine *e, int32_t number)
{
    struct ft_consumer *one = &e->consumers[number];
    if (one->mark == e->epoch || one->n == 0)
        return;
    one->mark = e->epoch;
    append(e, &e->reached, number);
    for (int32_t t = 0; t < one->n_ties; t++)
        if (e->shared[one->ties[t].resource].limited)
            visit(e, one->ties[t].resource);
}

/* Touched resources with the demand on them: those that are or were limited are visited, and consumers that changed are
 * reached. */
static void look_at_changes(struct ft_engine *e)
{
    e->epoch++;
    e->visited.n = e->reached.n = 0;
    for (uint32_t i = 0; i < e->touched.n; i++) {
        const int32_t number = e->touched.items[i];
        struct ft_resource_state *its = &e->shared[number];
        its->touched = false;
        refresh(e, number);
        if (its->users.n <= FEW)
            its->demand = demand_of(e, its);
        const double *points = &e->points[e->resources[number].first_point];
        its->capacity = ft_capacity(points, e->resources[number].points, its->demand / points[0]);
        const bool was = its->limited;
        its->limited = its->demand > its->capacity * (1 + LIMITED);
        if (was || its->limited)
            visit(e, number);
    }
    e->touched.n = 0;
    for (uint32_t i = 0; i < e->changed.n; i++)
        reach_consumer(e, e->changed.items[i]);
}

static double level_of(const struct ft_consumer *one)
{
    return one->given * one->penalty;
}

/* What visited resources have left for the consumers reached, while all others keep their rates. */
static void leave_to_reached(struct ft_engine *e)
{
    for (uint32_t i = 0; i < e->visited.n; i++) {
        struct ft_resource_state *its = &e->shared[e->visited.items[i]];
        its->left = its->capacity;
        its->weights = 0;
        its->growing = 0;
        for (uint32_t u = 0; u < its->users.n; u++) {
            const struct ft_consumer *one = &e->consumers[its->users.items[u]];
            if (one->mark != e->epoch)
                its->left -= one->ties[its->slots.items[u]].weight * one->n * one->given;
        }
    }
}

/* Max-min fair rates are those where each consumer has what it asked for, or a full resource on its way on which nobody
 * has a higher level (rate x penalty). Reaches the consumers of visited resources for which that no longer holds, as
 * their resource is not full any more, or somebody has more there, or they have more than somebody bounded there.
 * Returns whether there are any. */
static bool reach_further(struct ft_engine *e)
{
    const uint32_t before = e->reached.n, resources = e->visited.n;
    for (uint32_t i = 0; i < resources; i++) {
        const int32_t number = e->visited.items[i];
        const struct ft_resource_state *its = &e->shared[number];
        double used = 0, top = 0, bounded = INFINITY; /* highest level, and lowest of those that this one bounds */
        for (uint32_t u = 0; u < its->users.n; u++) {
            const struct ft_consumer *one = &e->consumers[its->users.items[u]];
            used += one->ties[its->slots.items[u]].weight * one->n * one->given;
            top = fmax(top, level_of(one));
            if (one->bound_by == number)
                bounded = fmin(bounded, level_of(one));
        }
        const bool full = its->limited && used >= its->capacity * (1 - JUST_FULL);
        for (uint32_t u = 0; u < its->users.n; u++) {
            const struct ft_consumer *one = &e->consumers[its->users.items[u]];
            if (one->mark == e->epoch)
                continue;
            const double level = level_of(one);
            if ((one->bound_by == number && (!full || level < top * (1 - SAME_BOUND))) ||
                level > bounded * (1 + SAME_BOUND))
                reach_consumer(e, its->users.items[u]);
        }
    }
    return e->reached.n > before;
}

/* A consumer's rate is known: it leaves those that grow. */
static void stop_growing(struct ft_engine *e, struct ft_consumer *one, double given, int32_t bound_by)
{
    one->given = given;
    one->bound_by = bound_by;
    one->stopped = true;
    for (int32_t t = 0; t < one->n_ties; t++) {
        struct ft_resource_state *its = &e->shared[one->ties[t].resource];
        its->left -= one->ties[t].weight * one->n * given;
        its->weights -= one->ties[t].weight * one->n / one->penalty;
        its->growing--;
    }
}

/* Rates of the consumers in `reached`, out of what the resources in `visited` have left. */
static void fill(struct ft_engine *e)
{
    e->growing.n = 0;
    for (uint32_t i = 0; i < e->reached.n; i++) {
        struct ft_consumer *one = &e->consumers[e->reached.items[i]];
        bool bounded = false;
        for (int32_t t = 0; t < one->n_ties; t++)
            bounded |= e->shared[one->ties[t].resource].limited;
        one->bound_by = -1;
        one->stopped = !(bounded && one->asked > 0);
        if (one->stopped) {
            one->given = one->asked;
            continue;
        }
        append(e, &e->growing, e->reached.items[i]);
        for (int32_t t = 0; t < one->n_ties; t++) {
            struct ft_resource_state *its = &e->shared[one->ties[t].resource];
            its->weights += one->ties[t].weight * one->n / one->penalty;
            its->growing++;
        }
    }
    while (e->growing.n && !e->out_of_memory) {
        double level = INFINITY; /* at which a resource is full */
        for (uint32_t i = 0; i < e->visited.n; i++) {
            const struct ft_resource_state *its = &e->shared[e->visited.items[i]];
            if (its->limited && its->growing > 0)
                level = fmin(level, fmax(its->left, 0) / its->weights);
        }
        bool content = false; /* those that want no more than that stop first, and leave more to the others */
        for (uint32_t i = 0; i < e->growing.n; i++) {
            struct ft_consumer *one = &e->consumers[e->growing.items[i]];
            if (one->asked * one->penalty <= level) {
                stop_growing(e, one, one->asked, -1);
                content = true;
            }
        }
        for (uint32_t i = 0; i < e->visited.n && !content; i++) {
            const struct ft_resource_state *its = &e->shared[e->visited.items[i]];
            if (!its->limited || its->growing <= 0 || fmax(its->left, 0) / its->weights > level * (1 + SAME_LEVEL))
                continue;
            for (uint32_t u = 0; u < its->users.n; u++) {
                struct ft_consumer *one = &e->consumers[its->users.items[u]];
                if (one->mark == e->epoch && !one->stopped)
                    stop_growing(e, one, level / one->penalty, e->visited.items[i]);
            }
        }
        uint32_t kept = 0;
        for (uint32_t i = 0; i < e->growing.n; i++)
            if (!e->consumers[e->growing.items[i]].stopped)
                e->growing.items[kept++] = e->growing.items[i];
        e->growing.n = kept;
    }
}

/* Seconds until the first entity of a class, or a message, is done at its rate now. */
double ft_ends_in(const struct ft_engine *e, int32_t number)
{
    if ((size_t)number >= e->n_classes) {
        const double left = e->flows[(size_t)number - e->n_classes].left;
        return left <= 0 ? 0 : left / e->consumers[number].rate;
    }
    const struct ft_class_state *state = &e->states[number];
    const double work = e->entities[state->heap[0]].work_end - state->v;
    return work <= 0 ? 0 : work / e->consumers[number].rate;
}

static void apply(struct ft_engine *e, int32_t number)
{
    struct ft_consumer *one = &e->consumers[number];
    const double flowing = one->n * one->given;
    one->changed = false;
    if (one->n == 0)
        return;
    for (int32_t t = 0; t < one->n_ties && flowing != one->flowing; t++) {
        refresh(e, one->ties[t].resource);
        e->shared[one->ties[t].resource].flow += one->ties[t].weight * (flowing - one->flowing);
    }
    one->flowing = flowing;
    ft_settle(e, number);
    one->rate = one->given < one->asked ? one->full_rate * (one->given / one->asked) : one->full_rate;
    ft_due_set(e, (int32_t)e->n_entities + number, e->now + ft_ends_in(e, number));
}

static void share_resources(struct ft_engine *e)
{
    look_at_changes(e);
    do {
        leave_to_reached(e);
        fill(e);
    } while (reach_further(e) && !e->out_of_memory);
}

void ft_rates(struct ft_engine *e)
{
    share_groups(e);
    for (uint32_t i = 0; i < e->changed.n; i++) {
        if (e->consumers[e->changed.items[i]].n == 0)
            continue;
        if ((size_t)e->changed.items[i] < e->n_classes)
            ask(e, e->changed.items[i]);
        count_demand(e, e->changed.items[i]);
    }
    share_resources(e);
    for (uint32_t i = 0; i < e->reached.n; i++)
        apply(e, e->reached.items[i]);
    for (uint32_t i = 0; i < e->changed.n; i++)
        e->consumers[e->changed.items[i]].changed = false; /* of those that have ended meanwhile, too */
    e->changed.n = 0;
    for (uint32_t i = 0; i < e->refreshed.n; i++) {
        struct ft_resource_state *its = &e->shared[e->refreshed.items[i]];
        its->refreshed = false;
        its->full = its->flow >= its->capacity * (1 - JUST_FULL);
    }
    e->refreshed.n = 0;
    e->stale = false;
}

/* Rates of consumers that nothing but these resources bounds, into `given`: consumers[i] has its n, asked, penalty and
 * ties. False when memory ran out. */
bool ft_max_min(struct ft_consumer *consumers, size_t n, const double *capacity, size_t n_resources, double *given)
{
    struct ft_engine e = {.consumers = consumers, .points = capacity, .n_resources = n_resources};
    struct ft_resource *resources = calloc(n_resources + 1, sizeof *resources);
    e.shared = calloc(n_resources + 1, sizeof *e.shared);
    e.of_resources = calloc(n_resources + 1, FT_PER_RESOURCE * sizeof *e.of_resources);
    e.out_of_memory = !resources || !e.shared || !e.of_resources;
    for (size_t r = 0; r < n_resources && !e.out_of_memory; r++)
        resources[r] = (struct ft_resource){(int32_t)r, 1};
    e.resources = resources;
    for (size_t i = 0; i < n && !e.out_of_memory; i++) {
        ft_attach(&e, (int32_t)i);
        count_demand(&e, (int32_t)i);
    }
    if (!e.out_of_memory)
        share_resources(&e);
    for (size_t i = 0; i < n; i++)
        given[i] = consumers[i].given;
    for (size_t r = 0; e.shared && r < n_resources; r++) {
        free(e.shared[r].users.items);
        free(e.shared[r].slots.items);
    }
    void *all[] = {resources,       e.shared,        e.of_resources,  e.changed.items,  e.touched.items,
                   e.reached.items, e.visited.items, e.growing.items, e.refreshed.items};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    return !e.out_of_memory;
}
