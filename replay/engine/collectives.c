/* Collective operations as messages between ranks: the algorithms of MPICH (Thakur, Rabenseifner and Gropp, IJHPCA 19,
 * 2005) and Open MPI, step by step. At each step a rank posts what it sends and receives, and waits for all of it.
 * Which algorithms an operation consists of, by its size and ranks, is decided by the caller.
 *
 * Members take part in the collectives of a communicator in one order, whether or not they wait for each: they are
 * numbered in that order, and the number is the tag of their messages. A collective with a request proceeds as a task
 * beside its entity, at once when messages arrive. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"

struct step {
    struct ft_engine *engine;
    const struct ft_collective *its;
    int32_t entity, rank, ranks, root, tag;
    int32_t task; /* that takes the step; -1: the entity itself */
    double bytes;
};

static int32_t member(const struct ft_engine *e, const struct ft_communicator *of, int32_t rank)
{
    return e->members[of->first_member + rank];
}

/* The rank of an entity in a communicator. */
static int32_t rank_of(const struct ft_engine *e, const struct ft_communicator *of, int32_t entity)
{
    const int32_t guess = entity - e->members[of->first_member];
    if (guess >= 0 && guess < of->members && member(e, of, guess) == entity)
        return guess;
    int32_t low = 0, high = of->members - 1;
    while (low < high) {
        const int32_t middle = (low + high) / 2, rank = e->member_order[of->first_member + middle];
        if (member(e, of, rank) < entity)
            low = middle + 1;
        else
            high = middle;
    }
    return e->member_order[of->first_member + low];
}

static struct ft_message with(const struct step *s, int32_t rank)
{
    const struct ft_communicator *of = &s->engine->communicators[s->its->communicator];
    /* messages of collectives meet no others */
    return (struct ft_message){member(s->engine, of, rank), s->tag, -1 - s->its->communicator};
}

/* Bytes that rank `from` has for rank `to`. */
static double bytes_of(const struct step *s, int32_t from, int32_t to)
{
    if (s->its->first_count < 0)
        return s->bytes;
    const int64_t at = s->its->counts == FT_COUNTS_OF_PAIRS ? (int64_t)from * s->ranks + to
                       : s->its->counts == FT_COUNTS_TO     ? to
                                                            : from;
    return s->engine->counts[s->its->first_count + at];
}

static void await_it(const struct step *s, int32_t request)
{
    if (request >= 0 && s->task < 0)
        ft_await_request(s->engine, s->entity, request);
    else if (request >= 0)
        ft_await_by_task(s->engine, s->task, request);
}

static void send(const struct step *s, int32_t to, double bytes)
{
    await_it(s, ft_post_send(s->engine, s->entity, with(s, to), bytes, false));
}

static void receive(const struct step *s, int32_t from)
{
    await_it(s, ft_post_receive(s->engine, s->entity, with(s, from), INFINITY));
}

static void exchange(const struct step *s, int32_t to, int32_t from, double bytes)
{
    receive(s, from);
    send(s, to, bytes);
}

static int32_t power_of_two(int32_t ranks)
{
    int32_t power = 1;
    while (2 * power <= ranks)
        power *= 2;
    return power;
}

static bool linear(const struct step *s, int32_t step)
{
    if (step > 0)
        return false;
    const int32_t algorithm = s->its->algorithm;
    if (algorithm == FT_LINEAR_SCAN) {
        for (int32_t i = 0; i < s->rank; i++)
            receive(s, i);
        for (int32_t i = s->rank + 1; i < s->ranks; i++)
            send(s, i, s->bytes);
    } else if (algorithm == FT_LINEAR_EXCHANGE) {
        for (int32_t i = 1; i < s->ranks; i++)
            receive(s, (s->rank + i) % s->ranks);
        for (int32_t i = 1; i < s->ranks; i++)
            send(s, (s->rank + i) % s->ranks, bytes_of(s, s->rank, (s->rank + i) % s->ranks));
    } else if (s->rank != s->root) {
        if (algorithm == FT_LINEAR_GATHER)
            send(s, s->root, bytes_of(s, s->rank, s->root));
        else
            receive(s, s->root);
    } else {
        for (int32_t i = 0; i < s->ranks; i++)
            if (i != s->root && algorithm == FT_LINEAR_GATHER)
                receive(s, i);
            else if (i != s->root)
                send(s, i, bytes_of(s, s->its->counts == FT_COUNTS_OF_PAIRS ? s->root : i, i));
    }
    return true;
}

/* Trees in which rank r, counted from the root, has the children r + 1, r + 2, r + 4 ... below its lowest bit. `parts`:
 * what goes to a child is for all ranks below it. */
static bool binomial(const struct step *s, int32_t step, bool from_root, bool parts)
{
    const int32_t own = (s->rank - s->root + s->ranks) % s->ranks;
    int32_t low = 1; /* lowest bit of its number: the distance to its parent */
    while (low < s->ranks && !(own & low))
        low *= 2;
    int32_t levels = 0;
    while (1 << levels < s->ranks)
        levels++;
    if (step > levels)
        return false;
    /* from the root: step 0 is to hear from the parent; then children, farthest first. To it: the mirror image. */
    const int32_t at = from_root ? step : levels - step, distance = at ? low >> at : 0;
    if (at == 0 && own) {
        const int32_t below = own + low > s->ranks ? s->ranks - own : low, parent = (own - low + s->root) % s->ranks;
        if (from_root)
            receive(s, parent);
        else
            send(s, parent, parts ? below * s->bytes : s->bytes);
    } else if (at && distance && own + distance < s->ranks) {
        const int32_t child = own + distance, there = (child + s->root) % s->ranks,
                      below = child + distance > s->ranks ? s->ranks - child : distance;
        if (from_root)
            send(s, there, parts ? below * s->bytes : s->bytes);
        else
            receive(s, there);
    }
    return true;
}

/* Blocks that a rank of the power of two has before its exchange at distance `mask`: its own, and those handed over. */
static int32_t blocks_at(int32_t own, int32_t mask, int32_t rest)
{
    const int32_t first = own & ~(mask - 1), more = rest - first;
    return mask + (more < 0 ? 0 : more > mask ? mask : more);
}

/* Ranks beyond a power of two hand over to a neighbour first, and hear from it last. */
static bool doubling(const struct step *s, int32_t step)
{
    const int32_t algorithm = s->its->algorithm, power = power_of_two(s->ranks), rest = s->ranks - power;
    const int32_t own = s->rank < 2 * rest ? (s->rank % 2 ? s->rank / 2 : -1) : s->rank - rest;
    int32_t levels = 0;
    while (1 << levels < power)
        levels++;
    const int32_t exchanges = algorithm == FT_RABENSEIFNER ? 2 * levels : levels;
    if (step == 0) {
        if (s->rank < 2 * rest && s->rank % 2 == 0)
            send(s, s->rank + 1, s->bytes);
        else if (s->rank < 2 * rest)
            receive(s, s->rank - 1);
        return true;
    }
    if (step > exchanges + 1)
        return false;
    if (step > exchanges) {
        if (s->rank < 2 * rest && s->rank % 2)
            send(s, s->rank - 1,
                 algorithm == FT_DOUBLING_GATHER   ? s->ranks * s->bytes
                 : algorithm == FT_HALVING_SCATTER ? s->bytes / s->ranks
                                                   : s->bytes);
        else if (s->rank < 2 * rest)
            receive(s, s->rank + 1);
        return true;
    }
    if (own >= 0) {
        const int32_t mask = 1 << (step <= levels ? step - 1 : exchanges - step);
        const int32_t other = own ^ mask, there = other < rest ? 2 * other + 1 : other + rest;
        double bytes = s->bytes;
        if (algorithm == FT_DOUBLING_GATHER)
            bytes *= blocks_at(own, mask, rest);
        else if (algorithm != FT_RECURSIVE_DOUBLING)
            bytes /= 2 * mask;
        exchange(s, there, there, bytes);
    }
    return true;
}

static bool shifts(const struct step *s, int32_t step)
{
    const int32_t n = s->ranks, right = (s->rank + 1) % n, left = (s->rank + n - 1) % n;
    switch (s->its->algorithm) {
    case FT_RING:
        if (step >= n - 1)
            return false;
        exchange(s, right, left, s->its->first_count < 0 ? s->bytes : bytes_of(s, (s->rank - step + n) % n, 0));
        return true;
    case FT_PAIRWISE: /* not to itself: that is a copy in memory */
        if (++step >= n)
            return false;
        exchange(s, (int32_t)((s->rank + (int64_t)step) % n), (int32_t)((s->rank - (int64_t)step + n) % n),
                 bytes_of(s, s->rank, (int32_t)((s->rank + (int64_t)step) % n)));
        return true;
    case FT_EXCLUSIVE_OR:
        if (++step >= n)
            return false;
        exchange(s, s->rank ^ step, s->rank ^ step, bytes_of(s, s->rank, s->rank ^ step));
        return true;
    default: break;
    }
    const int64_t distance = INT64_C(1) << step; /* steps end before it is beyond the ranks */
    if (distance >= n)
        return false;
    const int32_t ahead = (int32_t)((s->rank + distance) % n), behind = (int32_t)((s->rank - distance + n) % n);
    if (s->its->algorithm == FT_DISSEMINATION) {
        exchange(s, ahead, behind, s->bytes);
    } else if (s->its->algorithm == FT_BRUCK_GATHER) {
        const int64_t blocks = 2 * distance <= n ? distance : n - distance;
        exchange(s, behind, ahead, (double)blocks * s->bytes);
    } else { /* FT_BRUCK: blocks below n whose number has this bit */
        const int64_t whole = n / (2 * distance), rest = n % (2 * distance);
        const int64_t blocks = whole * distance + (rest > distance ? rest - distance : 0);
        exchange(s, ahead, behind, (double)blocks * s->bytes);
    }
    return true;
}

static bool chain(const struct step *s, int32_t step)
{
    if (step == 0 && s->rank > 0)
        receive(s, s->rank - 1);
    if (step == 1 && s->rank < s->ranks - 1)
        send(s, s->rank + 1, s->bytes);
    return step < 2;
}

static bool post_step(const struct step *s, int32_t step)
{
    switch (s->its->algorithm) {
    case FT_LINEAR_GATHER:
    case FT_LINEAR_SCATTER:
    case FT_LINEAR_EXCHANGE:
    case FT_LINEAR_SCAN: return linear(s, step);
    case FT_BINOMIAL_BCAST: return binomial(s, step, true, false);
    case FT_BINOMIAL_REDUCE: return binomial(s, step, false, false);
    case FT_BINOMIAL_SCATTER: return binomial(s, step, true, true);
    case FT_BINOMIAL_GATHER: return binomial(s, step, false, true);
    case FT_RECURSIVE_DOUBLING:
    case FT_DOUBLING_GATHER:
    case FT_HALVING_SCATTER:
    case FT_RABENSEIFNER: return doubling(s, step);
    case FT_CHAIN: return chain(s, step);
    default: return shifts(s, step);
    }
}

static struct step step_of(struct ft_engine *e, int32_t number, const struct ft_operation *op, int32_t rank)
{
    const struct ft_collective *its = &e->collectives[op->a];
    return (struct step){.engine = e,
                         .its = its,
                         .entity = number,
                         .rank = rank,
                         .ranks = e->communicators[its->communicator].members,
                         .root = its->root,
                         .task = -1,
                         .bytes = op->x};
}

/* ---- who takes part ---- */

static bool are_alike(const struct ft_engine *e, const struct ft_operation *one, const struct ft_operation *other)
{
    const struct ft_collective *its = &e->collectives[one->a], *others = &e->collectives[other->a];
    return its->kind == others->kind && its->algorithm == others->algorithm && its->root == others->root &&
           (its->first_count < 0) == (others->first_count < 0) &&
           (its->sizes_differ || its->first_count >= 0 || one->x == other->x);
}

/* A member comes to its next collective, of which the tag is given. */
static int come(struct ft_engine *e, int32_t number, const struct ft_operation *op, int32_t rank, int32_t *tag)
{
    const int32_t communicator = e->collectives[op->a].communicator;
    const struct ft_communicator *of = &e->communicators[communicator];
    struct ft_meetings *all = &e->meetings[communicator];
    int32_t *next = &e->next_tags[of->first_member + rank];
    *tag = *next;
    *next = (int32_t)(((int64_t)*next + 1) & INT32_MAX);
    const uint32_t at = (uint32_t)(*tag - all->first_tag) & INT32_MAX;
    if (at == all->n) {
        if (all->n == all->room) {
            struct ft_meeting *items = NULL;
            uint32_t room = 0;
            if (!ft_reserve(&items, &room, all->n, sizeof *items))
                return FT_NO_MEMORY;
            for (uint32_t i = 0; i < all->n; i++)
                items[i] = all->items[(all->head + i) % all->room];
            free(all->items);
            all->items = items;
            all->room = room;
            all->head = 0;
        }
        all->items[(all->head + all->n++) % all->room] =
            (struct ft_meeting){of->members, (int32_t)(op - e->operations), number};
    }
    struct ft_meeting *own = &all->items[(all->head + at) % all->room];
    if (!are_alike(e, op, &e->operations[own->operation])) {
        e->other = own->entity;
        e->other_operation = own->operation;
        return FT_DISAGREE;
    }
    if (--own->left == 0) { /* the first one */
        all->head = (all->head + 1) % all->room;
        all->n--;
        all->first_tag = (int32_t)(((int64_t)all->first_tag + 1) & INT32_MAX);
    }
    return FT_GOES_ON;
}

/* ---- tasks: non-blocking collectives ---- */

static int32_t new_task(struct ft_engine *e)
{
    if (e->n_free_tasks)
        return e->free_tasks[--e->n_free_tasks];
    uint32_t path_room = e->task_room;
    if (!ft_reserve(&e->task_paths, &path_room, e->n_tasks, e->n_path * sizeof *e->task_paths) ||
        !ft_reserve(&e->tasks, &e->task_room, e->n_tasks, sizeof *e->tasks))
        return -1;
    return (int32_t)e->n_tasks++;
}

static void end_task(struct ft_engine *e, int32_t number, int32_t flow)
{
    const struct ft_task *its = &e->tasks[number];
    struct ft_entity *one = &e->entities[its->entity];
    const int32_t request = its->request;
    int32_t before = -1;
    for (int32_t t = one->first_task; t != number; t = e->tasks[t].next)
        before = t;
    if (before < 0)
        one->first_task = its->next;
    else
        e->tasks[before].next = its->next;
    if (one->last_task == number)
        one->last_task = before;
    if (!ft_reserve(&e->free_tasks, &e->free_task_room, e->n_free_tasks, sizeof *e->free_tasks))
        e->out_of_memory = true;
    else
        e->free_tasks[e->n_free_tasks++] = number;
    ft_complete(e, request, flow);
}

void ft_task_goes_on(struct ft_engine *e, int32_t number, int32_t flow)
{
    struct ft_task *its = &e->tasks[number];
    if (flow >= 0) { /* its way here was the message's */
        double *path = &e->task_paths[(size_t)number * e->n_path];
        memcpy(path, &e->flow_paths[(size_t)flow * e->n_path], e->n_path * sizeof *path);
        path[e->n_path - 1] += e->flows[flow].last != its->entity;
        ft_add_to_path(e, path, its->entity, e->operations[its->pc].label, e->now - e->flows[flow].begun);
    }
    const int32_t posted_before = e->posting;
    e->posting = number;
    while (!its->waiting_for && its->pc <= its->last && !e->out_of_memory) {
        struct step step = step_of(e, its->entity, &e->operations[its->pc], its->rank);
        step.tag = its->tag;
        step.task = number;
        if (post_step(&step, its->step)) {
            its->step++;
        } else {
            its->step = 0;
            its->pc++;
            its->tag = (int32_t)(((int64_t)its->tag + 1) & INT32_MAX);
        }
    }
    e->posting = posted_before;
    if (!its->waiting_for && !e->out_of_memory)
        end_task(e, number, flow);
}

static int begin_task(struct ft_engine *e, int32_t number, const struct ft_operation *op, int32_t rank)
{
    struct ft_entity *one = &e->entities[number];
    int32_t slot, tag = 0;
    const int problem = ft_free_slot(e, number, op, &slot);
    if (problem != FT_GOES_ON)
        return problem;
    const int32_t first = one->pc - 1, last = first + (int32_t)op->n - 1;
    for (int32_t pc = first; pc <= last; pc++) {
        int32_t its;
        const int met = come(e, number, &e->operations[pc], rank, &its);
        if (met != FT_GOES_ON)
            return met;
        tag = pc == first ? its : tag;
    }
    const int32_t task = new_task(e);
    const int32_t request =
        task < 0 ? -1 : ft_new_request(e, (struct ft_request){.owner = number, .task = task, .is_collective = true});
    if (request < 0)
        return FT_NO_MEMORY;
    e->requests[request].slot = slot;
    e->slots[slot] = request;
    e->tasks[task] = (struct ft_task){.entity = number,
                                      .request = request,
                                      .pc = first,
                                      .last = last,
                                      .rank = rank,
                                      .tag = tag,
                                      .next = -1,
                                      .number = e->tasks_begun++};
    if (one->last_task < 0)
        one->first_task = task;
    else
        e->tasks[one->last_task].next = task;
    one->last_task = task;
    one->pc = last + 1;
    memcpy(&e->task_paths[(size_t)task * e->n_path], &e->of_paths[(size_t)number * e->n_path],
           e->n_path * sizeof *e->task_paths);
    ft_task_goes_on(e, task, -1);
    return e->out_of_memory ? FT_NO_MEMORY : FT_GOES_ON;
}

int ft_collective(struct ft_engine *e, int32_t number, const struct ft_operation *op)
{
    struct ft_entity *one = &e->entities[number];
    if (one->step < 0) {
        const struct ft_communicator *of = &e->communicators[e->collectives[op->a].communicator];
        const int32_t rank = rank_of(e, of, number);
        if (member(e, of, rank) != number)
            return FT_NO_MEMBER;
        if (op->b)
            return begin_task(e, number, op, rank);
        const int met = come(e, number, op, rank, &one->tag);
        if (met != FT_GOES_ON)
            return met;
        one->step = 0;
        one->rank = rank;
    }
    struct step step = step_of(e, number, op, one->rank);
    step.tag = one->tag;
    while (post_step(&step, one->step)) {
        one->step++;
        if (e->out_of_memory)
            return FT_NO_MEMORY;
        if (ft_wait(e, number, op->label) == FT_STOPS) {
            one->pc--; /* the next step when these messages are through */
            return FT_STOPS;
        }
    }
    one->step = -1;
    return FT_GOES_ON;
}
