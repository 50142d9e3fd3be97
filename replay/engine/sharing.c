/* Max-min fair sharing by progressive filling (Bertsekas and Gallager, Data Networks, 2nd ed., section 6.5.2): all
 * flows grow together; one stops when it has what it asked for, or when a resource on its way is full. */
#include <math.h>
#include <string.h>

#include "engine.h"

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

void ft_max_min(size_t n_groups, const int32_t *groups, const double *asked, size_t n_resources, const double *capacity,
                double *given)
{
    double left[FT_MAX_RESOURCES];
    int64_t users[FT_MAX_RESOURCES];
    const int32_t (*group)[FT_MEMBER] = (const int32_t (*)[FT_MEMBER])groups;
    size_t growing = 0;
    for (size_t r = 0; r < n_resources; r++)
        left[r] = capacity[r];
    for (size_t i = 0; i < n_groups; i++) {
        const bool uses_any = group[i][1] >= 0 || group[i][2] >= 0;
        given[i] = asked[i] > 0 && uses_any ? -1 : asked[i]; /* -1: still growing */
        growing += given[i] < 0;
    }
    while (growing) {
        for (size_t r = 0; r < n_resources; r++)
            users[r] = 0;
        for (size_t i = 0; i < n_groups; i++)
            for (int u = 1; u < FT_MEMBER; u++)
                if (given[i] < 0 && group[i][u] >= 0)
                    users[group[i][u]] += group[i][0];
        double level = INFINITY; /* at which a resource is full */
        int32_t full = -1;
        for (size_t r = 0; r < n_resources; r++)
            if (users[r] && fmax(left[r], 0) / (double)users[r] < level) {
                level = fmax(left[r], 0) / (double)users[r];
                full = (int32_t)r;
            }
        bool content = false; /* flows that want no more than that stop first, and leave more to the others */
        for (size_t i = 0; i < n_groups; i++)
            content |= given[i] < 0 && asked[i] <= level;
        for (size_t i = 0; i < n_groups; i++) {
            if (given[i] >= 0 || (content ? asked[i] > level : group[i][1] != full && group[i][2] != full))
                continue;
            given[i] = content ? asked[i] : level;
            growing--;
            for (int u = 1; u < FT_MEMBER; u++)
                if (group[i][u] >= 0)
                    left[group[i][u]] -= group[i][0] * given[i];
        }
    }
}

static void share_bandwidth(struct ft_engine *e)
{
    for (size_t i = 0; i < e->n_active; i++) {
        e->members[FT_MEMBER * i] = e->states[e->active[i]].n;
        memcpy(&e->members[FT_MEMBER * i + 1], e->classes[e->active[i]].uses, FT_USES * sizeof *e->members);
    }
    ft_max_min(e->n_active, e->members, e->asked, e->n_resources, e->capacity, e->given);
    for (size_t r = 0; r < e->n_resources; r++)
        e->flow[r] = 0;
    for (size_t i = 0; i < e->n_active; i++) {
        struct ft_class_state *state = &e->states[e->active[i]];
        for (int u = 0; u < FT_USES; u++)
            if (e->classes[e->active[i]].uses[u] >= 0)
                e->flow[e->classes[e->active[i]].uses[u]] += state->n * e->given[i];
        if (e->given[i] < e->asked[i])
            state->rate *= e->given[i] / e->asked[i];
    }
    for (size_t r = 0; r < e->n_resources; r++)
        e->full[r] = e->flow[r] >= e->capacity[r] * (1 - 1e-9);
}

void ft_rates(struct ft_engine *e)
{
    bool any = false;
    for (size_t r = 0; r < e->n_resources; r++)
        e->flow[r] = 0;
    for (size_t i = 0; i < e->n_active; i++) {
        struct ft_class_state *state = &e->states[e->active[i]];
        const struct ft_class *its = &e->classes[e->active[i]];
        const int32_t jobs = its->cache < 0 ? 1 : e->jobs_in[its->cache];
        const int32_t row = its->first_condition + (jobs < its->conditions ? jobs : its->conditions) - 1;
        const double speed = e->conditions[2 * row], demand = e->conditions[2 * row + 1];
        state->share = its->cores < 0 ? 1 : fmin(1, e->cores[its->cores] / e->running_on[its->cores]);
        state->rate = speed * state->share;
        e->asked[i] = demand * state->share;
        for (int u = 0; u < FT_USES; u++)
            if (its->uses[u] >= 0)
                e->flow[its->uses[u]] += state->n * e->asked[i];
    }
    for (size_t r = 0; r < e->n_resources; r++) {
        const double *points = &e->points[e->resources[r].first_point];
        e->capacity[r] = ft_capacity(points, e->resources[r].points, e->flow[r] / points[0]);
        any |= e->flow[r] > e->capacity[r] * (1 + 1e-12);
        e->full[r] = e->flow[r] >= e->capacity[r] * (1 - 1e-9);
    }
    e->stale = false;
    if (any)
        share_bandwidth(e);
}
