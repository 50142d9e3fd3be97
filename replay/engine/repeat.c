/* Loops that repeat: a billion iterations for the price of a few.
 *
 * A pilot is a loop whose iterations are watched. At the end of an iteration the state of all entities is compared with
 * a snapshot of an earlier iteration. Where both are the same, but for loop counters and for activities that went on
 * all the time, what happened between them is a period: it happens again until a counter or such an activity runs out.
 * So `m` periods are added at once: to the time, to the counters, to the sums. The snapshot is renewed after 1, 2, 4,
 * ... iterations (Brent, BIT 20, 1980), so that periods of several iterations are found.
 *
 * Where no state repeats (loops of several entities whose periods have no common multiple, bounded queues that drift),
 * a window of many iterations of each loop stands for those to come: the state may differ, but no entity may have left
 * the loops in which it was. Such periods are counted as estimated.
 *
 * Invariants: pilots are loops of one entity, each inside the one before it. Work is bounded: a snapshot or comparison
 * is made only if enough happened since the last one to pay for it.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"

enum { LEAST_LEFT = 16, PAID_PER_ITERATION = 8, LEAST_WINDOW = 512, LEAST_ITERATIONS = 64, SUMS_PER_UNIT = 16 };
static const double SAME_WORK = 1e-9; /* of a period: what counts as the same remaining work */

struct seen { /* an entity in a snapshot */
    int32_t pc, place, object, depth;
    bool retries;
    int64_t activity;
    double left, age; /* seconds of work, or of time; since it began */
    size_t frames;
};

struct seen_object {
    int32_t count, owner, waiting;
    bool contended;
};

struct ft_snapshot {
    int32_t entity;
    int64_t instance, steps, power;
    bool taken;
    double now;
    int64_t calls;
    double *sums;
    struct seen *entities;
    struct ft_frame *frames;
    size_t frame_room;
    struct seen_object *objects;
    int32_t *queues; /* of objects, then the ready ring */
    size_t n_queued, n_ready;
    struct ft_traffic traffic;
    int64_t flows_begun;
    double *pairs; /* `of_pairs` of the first `n_pairs` */
    uint32_t n_pairs, pair_room;
};

static double left_of(const struct ft_engine *e, const struct ft_entity *one)
{
    if (one->place == FT_RUNNING)
        return one->work_end - e->states[one->activity_class].v;
    return one->place == FT_TIMED ? one->work_end - e->now : 0;
}

bool ft_repeat_start(struct ft_engine *e)
{
    e->pilots = calloc(FT_MAX_PILOTS, sizeof *e->pilots);
    return e->pilots != NULL;
}

void ft_repeat_free(struct ft_engine *e)
{
    for (int i = 0; e->pilots && i < FT_MAX_PILOTS; i++) {
        struct ft_snapshot *s = &e->pilots[i];
        free(s->sums);
        free(s->entities);
        free(s->frames);
        free(s->objects);
        free(s->queues);
        free(s->pairs);
        free(s->traffic.shape);
        free(s->traffic.left);
        free(s->traffic.numbers);
        free(s->traffic.ages);
        free(s->traffic.paths);
        free(s->traffic.tasks);
    }
    free(e->traffic.shape);
    free(e->traffic.left);
    free(e->traffic.numbers);
    free(e->traffic.ages);
    free(e->traffic.tasks);
    free(e->pilots);
}

static void shape(struct ft_engine *e, struct ft_traffic *t, int64_t value)
{
    if (ft_reserve(&t->shape, &t->shape_room, t->n_shape, sizeof *t->shape))
        t->shape[t->n_shape++] = value;
    else
        e->out_of_memory = true;
}

static void shape_pair(struct ft_engine *e, struct ft_traffic *t, int64_t one, int32_t other)
{
    shape(e, t, one * (INT64_C(1) << 32) + (uint32_t)other);
}

/* Tags of collectives rise with each; those of a state that repeats are the same beside its first member's next one. */
static int32_t relative_tag(const struct ft_engine *e, int32_t communicator, int32_t tag)
{
    const int64_t base = e->next_tags[e->communicators[communicator].first_member];
    return (int32_t)((tag - base) & INT32_MAX);
}

static void shape_request(struct ft_engine *e, struct ft_traffic *t, int32_t number)
{
    const struct ft_request *its = &e->requests[number];
    const int32_t slot = its->slot < 0 ? -1 : its->slot - e->entities[its->owner].first_slot;
    int64_t bytes;
    memcpy(&bytes, &its->bytes, sizeof bytes); /* those of a collective's steps differ */
    shape_pair(e, t, its->owner, its->pc);
    shape_pair(e, t, its->peer, its->communicator < 0 ? relative_tag(e, -1 - its->communicator, its->tag) : its->tag);
    shape_pair(e, t, slot, its->is_done | its->is_awaited << 1 | its->has_arrived << 2 | its->is_candidate << 3);
    shape(e, t, bytes);
}

static void shape_task(struct ft_engine *e, struct ft_traffic *t, int32_t number)
{
    const struct ft_task *its = &e->tasks[number];
    shape_pair(e, t, its->pc, its->step);
    shape_pair(e, t, its->waiting_for,
               relative_tag(e, e->collectives[e->operations[its->pc].a].communicator, its->tag));
    shape_request(e, t, its->request);
    if (ft_reserve(&t->tasks, &t->task_room, t->n_tasks, sizeof *t->tasks))
        t->tasks[t->n_tasks++] = number;
    else
        e->out_of_memory = true;
}

static int by_begin(const void *a, const void *b)
{
    const struct ft_arrival *one = a, *other = b;
    return (one->number > other->number) - (one->number < other->number);
}

static void look_at_traffic(struct ft_engine *e, struct ft_traffic *t)
{
    t->n_shape = t->n_left = t->n_tasks = 0;
    if (!e->network.nodes)
        return;
    for (size_t i = 0; i < e->n_entities; i++) {
        const struct ft_entity *one = &e->entities[i];
        shape_pair(e, t, one->step, one->waiting_for);
        if (one->step >= 0)
            shape(e, t, relative_tag(e, e->collectives[e->operations[one->pc].a].communicator, one->tag));
        for (int32_t k = one->first_task; k >= 0; k = e->tasks[k].next)
            shape_task(e, t, k);
        for (int32_t r = one->posted; r >= 0; r = e->requests[r].next)
            shape_request(e, t, r);
        for (int32_t r = one->arrived; r >= 0; r = e->requests[r].next)
            shape_request(e, t, r);
        for (int32_t k = 0; k < one->slots; k++) {
            const int32_t r = e->slots[one->first_slot + k];
            if (r < 0)
                shape(e, t, r);
            else
                shape_request(e, t, r);
        }
    }
    for (size_t i = 0; i < e->n_communicators; i++)
        for (int32_t m = 1; m < e->communicators[i].members; m++)
            shape(e, t, relative_tag(e, (int32_t)i, e->next_tags[e->communicators[i].first_member + m]));
    uint32_t n = 0;
    for (uint32_t i = 0; i < e->n_flows; i++) {
        if (!e->flows[i].is_used)
            continue;
        if (!ft_reserve(&e->arrivals, &e->arrival_room, n, sizeof *e->arrivals)) {
            e->out_of_memory = true;
            return;
        }
        e->arrivals[n++] = (struct ft_arrival){e->flows[i].number, (int32_t)i};
    }
    if (n > 1)
        qsort(e->arrivals, n, sizeof *e->arrivals, by_begin);
    for (uint32_t i = 0; i < n; i++) {
        const struct ft_flow *flow = &e->flows[e->arrivals[i].flow];
        const double due = e->due_s[e->n_entities + e->n_classes + (size_t)e->arrivals[i].flow];
        shape(e, t, flow->moves);
        shape_request(e, t, flow->send);
        if (flow->receive >= 0)
            shape_request(e, t, flow->receive);
        else
            shape(e, t, -1);
        if (!ft_reserve(&t->left, &t->left_room, t->n_left, sizeof *t->left) ||
            !ft_reserve(&t->numbers, &t->number_room, t->n_left, sizeof *t->numbers) ||
            !ft_reserve(&t->ages, &t->age_room, t->n_left, sizeof *t->ages)) {
            e->out_of_memory = true;
            return;
        }
        t->numbers[t->n_left] = flow->number;
        t->ages[t->n_left] = e->now - flow->begun;
        t->left[t->n_left++] = flow->moves ? flow->left : due - e->now;
    }
    e->paid -= (int64_t)(t->n_shape + t->n_left) / SUMS_PER_UNIT;
}

/* Keeps the critical paths to messages in flight, whose flows are in `arrivals`, and to tasks, which have new numbers
 * from now on. */
static void keep_paths(struct ft_engine *e, struct ft_traffic *t)
{
    const size_t labels = e->n_path;
    const uint32_t n = t->n_left + t->n_tasks;
    if (n && !ft_reserve(&t->paths, &t->path_room, n - 1, labels * sizeof *t->paths)) {
        e->out_of_memory = true;
        return;
    }
    for (uint32_t i = 0; i < t->n_left; i++)
        memcpy(&t->paths[i * labels], &e->flow_paths[(size_t)e->arrivals[i].flow * labels], labels * sizeof *t->paths);
    for (uint32_t i = 0; i < t->n_tasks; i++) {
        const size_t task = (size_t)t->tasks[i];
        memcpy(&t->paths[(t->n_left + i) * labels], &e->task_paths[task * labels], labels * sizeof *t->paths);
        t->tasks[i] = e->tasks[task].number;
    }
    e->paid -= (int64_t)(n * labels) / SUMS_PER_UNIT;
}

/* How many more periods messages allow that were on their way all the time; 0 if others are in another state: even
 * where a window is to stand for those to come, as many messages must be sent in it as are received. The flows are
 * those in `arrivals`. */
static double of_traffic(struct ft_engine *e, const struct ft_snapshot *s, bool exact, double passed)
{
    struct ft_traffic *now = &e->traffic;
    double most = INFINITY;
    look_at_traffic(e, now);
    if (e->out_of_memory || now->n_shape != s->traffic.n_shape || now->n_left != s->traffic.n_left ||
        memcmp(now->shape, s->traffic.shape, now->n_shape * sizeof *now->shape) != 0)
        return 0;
    for (uint32_t i = 0; i < now->n_left; i++) {
        const struct ft_flow *flow = &e->flows[e->arrivals[i].flow];
        if (flow->number == s->traffic.numbers[i]) {
            if (!exact)
                return 0;
            const double less = flow->moves ? s->traffic.left[i] - now->left[i] : passed;
            if (less > 0)
                most = fmin(most, floor(now->left[i] / less) - 1);
            else if (passed > 0)
                return 0;
        } else if (exact) {
            const double unit = flow->moves ? flow->bytes : passed;
            if (fabs(now->left[i] - s->traffic.left[i]) > SAME_WORK * unit ||
                fabs(now->ages[i] - s->traffic.ages[i]) > SAME_WORK * passed)
                return 0;
        }
    }
    return most;
}

static bool prepare(const struct ft_engine *e, struct ft_snapshot *s)
{
    if (!s->sums) {
        s->sums = malloc(e->n_sums * sizeof *s->sums);
        s->entities = malloc(e->n_entities * sizeof *s->entities);
        s->objects = malloc((e->n_objects + 1) * sizeof *s->objects);
        s->queues = malloc(2 * e->n_entities * sizeof *s->queues);
    }
    size_t needed = 1;
    for (size_t i = 0; i < e->n_entities; i++)
        needed += (size_t)e->entities[i].depth;
    if (needed > s->frame_room) {
        free(s->frames);
        s->frames = malloc(2 * needed * sizeof *s->frames);
        s->frame_room = 2 * needed;
    }
    return s->sums && s->entities && s->objects && s->queues && s->frames;
}

static bool take(struct ft_engine *e, struct ft_snapshot *s)
{
    if (!prepare(e, s))
        return false;
    ft_settle_all(e);
    size_t frames = 0;
    s->n_queued = 0;
    for (size_t i = 0; i < e->n_entities; i++) {
        const struct ft_entity *one = &e->entities[i];
        s->entities[i] = (struct seen){one->pc,       one->place,      one->object,         one->depth, one->retries,
                                       one->activity, left_of(e, one), e->now - one->start, frames};
        memcpy(&s->frames[frames], one->frames, (size_t)one->depth * sizeof *s->frames);
        frames += (size_t)one->depth;
    }
    for (size_t i = 0; i < e->n_objects; i++) {
        const struct ft_object_state *its = &e->objects_now[i];
        s->objects[i] = (struct seen_object){its->count, its->owner, its->waiting, its->contended};
        for (int32_t number = its->head; number >= 0; number = e->entities[number].next)
            s->queues[s->n_queued++] = number;
    }
    s->n_ready = e->n_ready;
    for (size_t i = 0; i < e->n_ready; i++)
        s->queues[s->n_queued + i] = e->ready[(e->ready_head + i) % e->n_entities];
    memcpy(s->sums, e->sums, e->n_sums * sizeof *s->sums);
    look_at_traffic(e, &s->traffic);
    if (e->out_of_memory)
        return false;
    keep_paths(e, &s->traffic);
    s->n_pairs = e->pair_room ? e->n_pairs + 1 : 0;
    if (s->n_pairs && !ft_reserve(&s->pairs, &s->pair_room, 2 * s->n_pairs - 1, sizeof *s->pairs))
        return false;
    if (s->n_pairs)
        memcpy(s->pairs, e->of_pairs, 2 * s->n_pairs * sizeof *s->pairs);
    e->paid -= (int64_t)(s->n_pairs / SUMS_PER_UNIT);
    s->flows_begun = e->flows_begun;
    s->now = e->now;
    s->calls = e->calls;
    s->steps = 0;
    s->taken = true;
    e->paid -= (int64_t)(e->n_entities + e->n_active + (e->n_resources + e->n_sums) / SUMS_PER_UNIT);
    return true;
}

/* Whether queues and what is ready are as they were. */
static bool same_order(const struct ft_engine *e, const struct ft_snapshot *s)
{
    size_t at = 0;
    for (size_t i = 0; i < e->n_objects; i++) {
        const struct ft_object_state *its = &e->objects_now[i];
        const struct seen_object *was = &s->objects[i];
        if (its->count != was->count || its->owner != was->owner || its->waiting != was->waiting ||
            its->contended != was->contended)
            return false;
        for (int32_t number = its->head; number >= 0; number = e->entities[number].next)
            if (s->queues[at++] != number)
                return false;
    }
    if (e->n_ready != s->n_ready)
        return false;
    for (size_t i = 0; i < e->n_ready; i++)
        if (s->queues[s->n_queued + i] != e->ready[(e->ready_head + i) % e->n_entities])
            return false;
    return true;
}

static double least(double a, double b)
{
    return a < b ? a : b;
}

/* How many more periods the loops around an entity last; below 0 if it left one. `cycles`: whether one of them went on,
 * `fewest`: by how many iterations the outermost that did. */
static double of_frames(const struct ft_entity *one, const struct seen *was, const struct ft_frame *frames, bool exact,
                        bool *cycles, int64_t *fewest)
{
    double most = INFINITY;
    *cycles = false;
    for (int32_t d = 0; d < one->depth || d < was->depth; d++) {
        if (d >= one->depth || d >= was->depth || one->frames[d].instance != frames[d].instance) {
            if (*cycles && !exact)
                return most; /* what is inside of a loop that goes on may differ */
            if (d >= one->depth || d >= was->depth || one->frames[d].pc != frames[d].pc ||
                one->frames[d].left != frames[d].left || !*cycles)
                return -1;
            continue;
        }
        const int64_t done = frames[d].left - one->frames[d].left;
        if (done > 0) {
            most = least(most, floor((double)(one->frames[d].left - 1) / (double)done));
            if (!*cycles)
                *fewest = done < *fewest ? done : *fewest;
            *cycles = true;
        }
    }
    return most;
}

/* How many more times what happened since the snapshot happens again; 0 if the state is another one. */
static double periods(struct ft_engine *e, const struct ft_snapshot *s, bool exact)
{
    const double passed = e->now - s->now;
    double most = INFINITY;
    const bool in_place = exact || e->flows_begun != s->flows_begun; /* else messages would be lost, or made up */
    int64_t fewest = INT64_MAX;
    if (e->calls != s->calls || (exact && !same_order(e, s)))
        return 0;
    ft_settle_all(e);
    for (size_t i = 0; i < e->n_entities; i++) {
        const struct ft_entity *one = &e->entities[i];
        const struct seen *was = &s->entities[i];
        const double left = left_of(e, one);
        bool cycles;
        e->paid--;
        if (one->place == FT_CALLING)
            return 0;
        if (one->place == was->place && (one->place == FT_DONE || one->place == FT_UNBORN))
            continue;
        const double loops = of_frames(one, was, &s->frames[was->frames], in_place, &cycles, &fewest);
        if (loops < 1)
            return 0;
        most = least(most, loops);
        if (one->activity == was->activity && one->place == was->place) { /* at it all the time */
            if (one->pc != was->pc)
                return 0;
            if ((one->place == FT_RUNNING || one->place == FT_TIMED) && was->left > left)
                most = least(most, floor(left / (was->left - left)) - 1);
        } else if (in_place && (one->pc != was->pc || one->place != was->place || one->object != was->object ||
                                one->retries != was->retries)) {
            return 0;
        } else if (exact && (fabs(left - was->left) > SAME_WORK * passed ||
                             (one->place != FT_READY && fabs(e->now - one->start - was->age) > SAME_WORK * passed))) {
            return 0;
        } else if (!cycles) {
            return 0;
        }
        if (most < 1)
            return 0;
    }
    for (size_t i = 0; i < e->n_objects && !exact; i++) {
        const double fewer = (double)s->objects[i].count - e->objects_now[i].count;
        if (fewer > 0)
            most = least(most, floor(e->objects_now[i].count / fewer) - 1);
    }
    if (e->network.nodes)
        most = least(most, of_traffic(e, s, exact, passed));
    if (passed > 0)
        most = least(most, floor((e->until - e->now) / passed) - 1);
    if (!exact && fewest < LEAST_ITERATIONS)
        return 0;
    return isfinite(most) && most >= 1 ? most : 0;
}

/* A message in flight all the time has come further in each period; those that ended are replaced by later ones of the
 * same kind, and so are tasks. */
static void skip_flows(struct ft_engine *e, const struct ft_snapshot *s, double m, double shift)
{
    for (uint32_t i = 0; e->network.nodes && i < e->traffic.n_left; i++) { /* as of_traffic has left it */
        const size_t number = (size_t)e->arrivals[i].flow, consumer = e->n_classes + number;
        struct ft_flow *flow = &e->flows[number];
        double *due = &e->due_s[e->n_entities + consumer];
        const bool remained = flow->number == s->traffic.numbers[i];
        flow->begun += remained ? 0 : shift;
        double *path = &e->flow_paths[number * e->n_path];
        for (size_t label = 0; label < e->n_path && !remained; label++)
            path[label] += m * (path[label] - s->traffic.paths[i * e->n_path + label]);
        if (flow->moves) {
            flow->left -= remained ? m * (s->traffic.left[i] - e->traffic.left[i]) : 0;
            e->consumers[consumer].since = e->now;
            *due = e->now + ft_ends_in(e, (int32_t)consumer);
        } else if (!remained) {
            *due += shift;
        }
    }
    for (uint32_t i = 0; e->network.nodes && i < e->traffic.n_tasks; i++) {
        const size_t task = (size_t)e->traffic.tasks[i];
        double *path = &e->task_paths[task * e->n_path];
        const double *was = &s->traffic.paths[(s->traffic.n_left + i) * e->n_path];
        for (size_t label = 0; label < e->n_path && e->tasks[task].number != s->traffic.tasks[i]; label++)
            path[label] += m * (path[label] - was[label]);
    }
}

static void skip(struct ft_engine *e, const struct ft_snapshot *s, double m, bool exact)
{
    const double shift = m * (e->now - s->now);
    for (size_t i = 0; i < e->n_entities; i++) {
        struct ft_entity *one = &e->entities[i];
        const struct seen *was = &s->entities[i];
        if (one->place == FT_DONE || one->place == FT_UNBORN)
            continue;
        const struct ft_frame *frames = &s->frames[was->frames];
        for (int32_t d = 0; d < one->depth && d < was->depth && one->frames[d].instance == frames[d].instance; d++)
            one->frames[d].left -= (int64_t)m * (frames[d].left - one->frames[d].left);
        if (one->activity == was->activity && one->place == was->place && one->place != FT_READY) {
            if (one->place == FT_RUNNING)
                one->work_end -= m * (was->left - left_of(e, one));
            continue;
        }
        const double from = one->place == FT_READY ? e->now : one->start;
        if (shift > 0)
            ft_note(e, (int32_t)i, -1, FT_FOLDED, -1, from, from + shift, (int64_t)m);
        one->start += shift;
        if (one->place == FT_TIMED)
            one->work_end += shift;
    }
    for (size_t i = 0; i < e->n_sums; i++)
        e->sums[i] += m * (e->sums[i] - s->sums[i]);
    for (uint32_t i = 0; e->pair_room && i < 2 * (e->n_pairs + 1); i++)
        e->of_pairs[i] += m * (e->of_pairs[i] - (i < 2 * s->n_pairs ? s->pairs[i] : 0));
    for (size_t i = 0; i < e->n_objects; i++) {
        const double more = (double)e->objects_now[i].count - s->objects[i].count;
        const double count = e->objects_now[i].count + (exact ? 0 : m * more);
        e->objects_now[i].count = count < INT32_MAX ? (int32_t)count : INT32_MAX;
    }
    e->now += shift;
    for (size_t r = 0; r < e->n_resources; r++)
        e->shared[r].since = e->now;
    for (size_t i = 0; i < e->n_active; i++) {
        const int32_t number = e->active[i];
        ft_heapify(e, e->states[number].heap, (size_t)e->consumers[number].n);
        e->consumers[number].since = e->now;
        e->due_s[e->n_entities + (size_t)number] = e->now + ft_ends_in(e, number);
    }
    for (size_t i = 0; i < e->n_due; i++)
        if ((size_t)e->due[i] < e->n_entities)
            e->due_s[e->due[i]] = e->entities[e->due[i]].work_end;
    skip_flows(e, s, m, shift);
    ft_due_heapify(e);
    e->estimated_s += exact ? 0 : shift;
    *(exact ? &e->periods_folded : &e->periods_estimated) += (int64_t)m;
}

static void watch(struct ft_engine *e, int32_t entity)
{
    const struct ft_entity *one = &e->entities[entity];
    const struct ft_frame *frame = &one->frames[one->depth - 1];
    if (frame->left < LEAST_LEFT || e->n_pilots == FT_MAX_PILOTS)
        return;
    struct ft_snapshot *s = &e->pilots[e->n_pilots++];
    s->entity = entity;
    s->instance = frame->instance;
    s->steps = 0;
    s->power = 1;
    s->taken = false;
}

static bool consider(struct ft_engine *e, struct ft_snapshot *s)
{
    s->steps++;
    if (!s->taken)
        return e->paid < 0 || take(e, s);
    if (e->paid < 0)
        return true;
    const bool exact = true, window = s->steps >= s->power && s->power >= LEAST_WINDOW;
    double m = periods(e, s, exact);
    if (m >= 1) {
        skip(e, s, m, exact);
    } else if (window && (m = periods(e, s, !exact)) >= 1) {
        skip(e, s, m, !exact);
    } else {
        if (s->steps < s->power)
            return true;
        s->power *= 2;
    }
    return take(e, s);
}

bool ft_repeat(struct ft_engine *e, int32_t entity)
{
    const struct ft_entity *one = &e->entities[entity];
    const int64_t instance = one->frames[one->depth - 1].instance;
    e->paid += e->paid < (int64_t)(e->n_entities + e->n_sums) ? PAID_PER_ITERATION : 0;
    if (e->n_pilots && e->pilots[0].entity != entity) {
        if (++e->elsewhere <= 64 + 4 * (int64_t)e->n_entities)
            return true;
        e->n_pilots = 0; /* the pilot does something else now */
    }
    e->elsewhere = 0;
    for (int32_t i = 0; i < e->n_pilots; i++)
        if (e->pilots[i].instance == instance) {
            e->n_pilots = i + 1;
            return consider(e, &e->pilots[i]);
        }
    watch(e, entity);
    return true;
}

void ft_repeat_left(struct ft_engine *e, int32_t entity, int64_t instance)
{
    for (int32_t i = 0; i < e->n_pilots && e->pilots[0].entity == entity; i++)
        if (e->pilots[i].instance == instance)
            e->n_pilots = i;
}
