/* The event loop. See engine.h. */
#include "engine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double SAME_TIME = 1e-12; /* relative, above the rounding of sums: events this close happen at once */

/* ---- notes ---- */

void ft_note(struct ft_engine *e, int32_t entity, int32_t label, int32_t kind, int32_t by, double start, double end,
             int64_t times)
{
    if (e->n_segments == e->segment_room) {
        if (e->segment_room >= e->most_segments) {
            e->segments_left_out++;
            return;
        }
        size_t room = e->segment_room ? 2 * e->segment_room : 1024;
        room = room < e->most_segments ? room : e->most_segments;
        struct ft_segment *more = realloc(e->segments, room * sizeof *more);
        if (!more) {
            e->segments_left_out++;
            return;
        }
        e->segments = more;
        e->segment_room = room;
    }
    e->segments[e->n_segments++] = (struct ft_segment){entity, label, kind, by, start, end, times};
}

void ft_add_to_path(const struct ft_engine *e, double *path, int32_t entity, int32_t label, double seconds)
{
    path[(size_t)label < e->n_path_labels ? (size_t)label : e->n_path_labels - 1] += seconds;
    if (e->n_path_bins)
        path[e->n_path_labels + (size_t)entity * e->n_path_bins / e->n_entities] += seconds;
}

/* The entity's activity, or its wait, is over. */
static void account(struct ft_engine *e, int32_t number, int32_t by)
{
    struct ft_entity *one = &e->entities[number];
    const double seconds = e->now - one->start;
    e->of_entities[(size_t)number * FT_NUM_KINDS + (size_t)one->kind] += seconds;
    if (one->kind <= FT_SLEPT) {
        e->of_labels[one->label * FT_PER_LABEL] += seconds;
        e->of_labels[one->label * FT_PER_LABEL + 1] += 1;
        ft_add_to_path(e, &e->of_paths[(size_t)number * e->n_path], number, one->label, seconds);
    } else if (by >= 0 && by != number && seconds > 0) { /* the way here was the other's */
        memcpy(&e->of_paths[(size_t)number * e->n_path], &e->of_paths[(size_t)by * e->n_path],
               e->n_path * sizeof *e->of_paths);
        e->of_paths[(size_t)(number + 1) * e->n_path - 1] += 1;
    }
    if (seconds > 0)
        ft_note(e, number, one->label, one->kind, by, one->start, e->now, 1);
}

void ft_begin(struct ft_engine *e, struct ft_entity *one, enum ft_kind kind, int32_t label)
{
    one->kind = kind;
    one->label = label;
    one->start = e->now;
    one->activity = e->activities++;
}

/* ---- where entities are ---- */

void ft_make_ready(struct ft_engine *e, int32_t number)
{
    e->entities[number].place = FT_READY;
    e->ready[(e->ready_head + e->n_ready++) % e->n_entities] = number;
}

static void set_timer(struct ft_engine *e, int32_t number, double seconds)
{
    e->entities[number].place = FT_TIMED;
    e->entities[number].work_end = e->now + seconds;
    ft_due_set(e, number, e->now + seconds);
}

static void run(struct ft_engine *e, int32_t number, const struct ft_operation *op)
{
    struct ft_entity *one = &e->entities[number];
    struct ft_class_state *state = &e->states[op->a];
    struct ft_consumer *its = &e->consumers[op->a];
    if (its->n == state->capacity) {
        const int32_t room = state->capacity ? 2 * state->capacity : 4;
        int32_t *more = realloc(state->heap, (size_t)room * sizeof *more);
        if (!more)
            return; /* noticed by the caller: still FT_READY */
        state->heap = more;
        state->capacity = room;
    }
    if (its->n == 0) {
        state->v = 0;
        state->filled++;
        state->slot = (int32_t)e->n_active;
        e->active[e->n_active++] = op->a;
        ft_attach(e, op->a);
    } else {
        ft_settle(e, op->a);
    }
    ft_begin(e, one, FT_RAN, op->label);
    one->activity_class = op->a;
    one->work_end = state->v + op->x;
    one->place = FT_RUNNING;
    ft_heap_push(e, state->heap, (size_t)its->n++, number);
    ft_run_on(e, op->a, one->job, 1);
    e->of_work[0] += op->x;
}

/* The entity whose work ends first leaves its class, which is settled. */
static void leave_class(struct ft_engine *e, int32_t class_number)
{
    struct ft_class_state *state = &e->states[class_number];
    struct ft_consumer *its = &e->consumers[class_number];
    const int32_t number = state->heap[0];
    ft_heap_pop(e, state->heap, (size_t)its->n--);
    ft_run_on(e, class_number, e->entities[number].job, -1);
    if (its->n == 0) {
        const int32_t last = e->active[--e->n_active];
        e->active[state->slot] = last;
        e->states[last].slot = state->slot;
        state->slot = -1;
        ft_detach(e, class_number);
        ft_due_drop(e, (int32_t)e->n_entities + class_number);
    }
}

/* ---- waiting ---- */

static void enqueue(struct ft_engine *e, int32_t number, int32_t object, enum ft_kind kind)
{
    struct ft_entity *one = &e->entities[number];
    struct ft_object_state *its = &e->objects_now[object];
    ft_begin(e, one, kind, object);
    one->place = FT_QUEUED;
    one->object = object;
    one->next = -1;
    if (its->tail >= 0)
        e->entities[its->tail].next = number;
    else
        its->head = number;
    its->tail = number;
    its->waiting++;
    e->of_objects[(size_t)object * FT_PER_OBJECT + 1] += 1;
}

static int32_t dequeue(struct ft_engine *e, int32_t object)
{
    struct ft_object_state *its = &e->objects_now[object];
    const int32_t number = its->head;
    its->head = e->entities[number].next;
    if (its->head < 0)
        its->tail = -1;
    its->waiting--;
    return number;
}

/* An entity goes on in `seconds`; until then it is said to do `label`. */
static void go_on_in(struct ft_engine *e, int32_t number, double seconds, int32_t label)
{
    if (!(seconds > 0)) {
        ft_make_ready(e, number);
        return;
    }
    ft_begin(e, &e->entities[number], FT_SLEPT, label);
    e->entities[number].device = -1;
    set_timer(e, number, seconds);
}

/* As long as others woken before it, by the same call, take the waker. */
static void rouse(struct ft_engine *e, int32_t number, const struct ft_operation *op)
{
    go_on_in(e, number, op->b ? e->calls_s + e->wake_latency_s : e->transfer_s, op->label);
    e->calls_s += op->b ? e->wake_call_s : 0;
}

/* A wait is over. Who waited for a lock asleep tries again. */
static void wake(struct ft_engine *e, int32_t number, int32_t by)
{
    struct ft_entity *one = &e->entities[number];
    const struct ft_operation *op = &e->operations[one->pc - 1];
    account(e, number, by);
    if (op->code == FT_LOCK && op->b) {
        one->retries = true;
        one->pc--;
    }
    rouse(e, number, op);
}

static void serve(struct ft_engine *e, int32_t number, int32_t device, double seconds, int32_t label)
{
    ft_begin(e, &e->entities[number], FT_DEVICE, label);
    e->entities[number].device = device;
    set_timer(e, number, seconds);
}

/* A unit of a device is free again. */
static void release_device(struct ft_engine *e, int32_t device, int32_t by)
{
    struct ft_object_state *its = &e->objects_now[device];
    its->count--;
    if (its->head < 0)
        return;
    const int32_t number = dequeue(e, device);
    struct ft_entity *one = &e->entities[number];
    const struct ft_operation *op = &e->operations[one->pc - 1];
    account(e, number, by);
    its->count++;
    serve(e, number, device, one->rest, op->label);
}

static void post(struct ft_engine *e, int32_t object, int64_t units, int32_t by)
{
    struct ft_object_state *its = &e->objects_now[object];
    its->count = (int32_t)(its->count + units < INT32_MAX ? its->count + units : INT32_MAX);
    while (its->head >= 0 && e->entities[its->head].waiting_units <= its->count) {
        its->count -= e->entities[its->head].waiting_units;
        wake(e, dequeue(e, object), by);
    }
}

static void finish(struct ft_engine *e, int32_t number)
{
    struct ft_entity *one = &e->entities[number];
    one->place = FT_DONE;
    one->end = e->now;
    e->n_done++;
    for (int32_t joiner = one->first_joiner; joiner >= 0;) {
        const int32_t next = e->entities[joiner].next;
        wake(e, joiner, number);
        joiner = next;
    }
    one->first_joiner = -1;
    e->calls_s = 0; /* the kernel's, after its end */
}

/* ---- programs ---- */

/* Who woke others goes on when its calls are over. */
static int after_calls(struct ft_engine *e, int32_t number, const struct ft_operation *op)
{
    const double seconds = e->calls_s;
    e->calls_s = 0;
    if (!(seconds > 0))
        return FT_GOES_ON;
    go_on_in(e, number, seconds, op->label);
    return FT_STOPS;
}

static int at_barrier(struct ft_engine *e, int32_t number, const struct ft_operation *op)
{
    struct ft_object_state *its = &e->objects_now[op->a];
    if (++its->count < e->objects[op->a].units) {
        enqueue(e, number, op->a, FT_AT_BARRIER);
        return FT_STOPS;
    }
    its->count = 0;
    while (its->head >= 0)
        wake(e, dequeue(e, op->a), number);
    return after_calls(e, number, op);
}

static int at_lock(struct ft_engine *e, int32_t number, const struct ft_operation *op)
{
    struct ft_object_state *its = &e->objects_now[op->a];
    if (op->code == FT_LOCK) {
        if (its->owner < 0) {
            its->owner = number;
            its->contended = e->entities[number].retries; /* it does not know whether others sleep */
            e->entities[number].retries = false;
            return FT_GOES_ON;
        }
        its->contended = op->b;
        enqueue(e, number, op->a, FT_AT_LOCK);
        return FT_STOPS;
    }
    if (its->owner != number)
        return FT_NOT_OWNED;
    const bool handed = its->head >= 0 && !e->operations[e->entities[its->head].pc - 1].b;
    const bool wakes = its->head >= 0 && (handed || its->contended);
    its->owner = handed ? its->head : -1;
    its->contended = false;
    if (wakes)
        wake(e, dequeue(e, op->a), number);
    return after_calls(e, number, op);
}

static int use(struct ft_engine *e, int32_t number, const struct ft_operation *op)
{
    struct ft_entity *one = &e->entities[number];
    const double seconds = op->b > 0 ? one->registers[op->b - 1] : op->x;
    const int32_t device = op->a;
    e->of_objects[(size_t)device * FT_PER_OBJECT] += seconds;
    if (e->objects_now[device].count < e->objects[device].units) {
        e->objects_now[device].count++;
        serve(e, number, device, seconds, op->label);
    } else {
        enqueue(e, number, device, FT_AT_QUEUE);
        one->rest = seconds;
    }
    return FT_STOPS;
}

static int join(struct ft_engine *e, int32_t number, int32_t other)
{
    struct ft_entity *one = &e->entities[number];
    if (e->entities[other].place == FT_DONE)
        return FT_GOES_ON;
    ft_begin(e, one, FT_AT_JOIN, other);
    one->place = FT_QUEUED;
    one->object = -1;
    one->next = e->entities[other].first_joiner;
    e->entities[other].first_joiner = number;
    return FT_STOPS;
}

static int loop(struct ft_engine *e, int32_t number, const struct ft_operation *op)
{
    struct ft_entity *one = &e->entities[number];
    if (op->code == FT_LOOP) {
        if (op->n <= 0) {
            one->pc = op->a;
            return FT_GOES_ON;
        }
        if (one->depth == FT_MAX_NESTING)
            return FT_TOO_DEEP;
        one->frames[one->depth++] = (struct ft_frame){op->n, e->instances++, one->pc - 1};
        return FT_GOES_ON;
    }
    struct ft_frame *frame = &one->frames[one->depth - 1];
    if (--frame->left <= 0) {
        one->depth--;
        ft_repeat_left(e, number, frame->instance);
        return FT_GOES_ON;
    }
    one->pc = op->a;
    if (e->folding && !ft_repeat(e, number))
        return FT_NO_MEMORY;
    return FT_GOES_ON;
}

static int perform(struct ft_engine *e, int32_t number, const struct ft_operation *op)
{
    struct ft_entity *one = &e->entities[number];
    struct ft_object_state *object;
    switch (op->code) {
    case FT_RUN: run(e, number, op); return one->place == FT_READY ? FT_NO_MEMORY : FT_STOPS;
    case FT_LOOP:
    case FT_NEXT: return loop(e, number, op);
    case FT_BARRIER: return at_barrier(e, number, op);
    case FT_LOCK:
    case FT_UNLOCK: return at_lock(e, number, op);
    case FT_POST: post(e, op->a, op->n, number); return after_calls(e, number, op);
    case FT_WAIT:
        object = &e->objects_now[op->a];
        if (object->head < 0 && object->count >= op->n) {
            object->count -= (int32_t)op->n;
            return FT_GOES_ON;
        }
        one->waiting_units = (int32_t)op->n;
        enqueue(e, number, op->a, FT_AT_WAIT);
        return FT_STOPS;
    case FT_BROADCAST:
        for (int32_t left = e->objects_now[op->a].waiting; left > 0; left--)
            wake(e, dequeue(e, op->a), number);
        return after_calls(e, number, op);
    case FT_SPAWN:
        if (e->entities[op->a].place == FT_UNBORN) {
            memcpy(&e->of_paths[(size_t)op->a * e->n_path], &e->of_paths[(size_t)number * e->n_path],
                   e->n_path * sizeof *e->of_paths);
            if (op->b)
                rouse(e, op->a, op);
            else
                ft_make_ready(e, op->a);
        }
        return after_calls(e, number, op);
    case FT_JOIN: return join(e, number, op->a);
    case FT_SLEEP:
        ft_begin(e, one, FT_SLEPT, op->label);
        one->device = -1;
        set_timer(e, number, op->x);
        return FT_STOPS;
    case FT_USE: return use(e, number, op);
    case FT_CALL:
        ft_begin(e, one, FT_AT_CALL, op->label);
        one->place = FT_CALLING;
        e->called = number;
        e->call = op->n;
        e->calls++;
        return FT_CALLED;
    case FT_JUMP: one->pc = op->a; return FT_GOES_ON;
    case FT_SEND:
    case FT_RECEIVE: return ft_message(e, number, op);
    case FT_AWAIT: return ft_await(e, number, op);
    case FT_COLLECTIVE: return ft_collective(e, number, op);
    default: finish(e, number); return FT_STOPS;
    }
}

/* ---- time ---- */

double ft_engine_next(struct ft_engine *e)
{
    if (e->n_ready)
        return e->now;
    if (e->stale)
        ft_rates(e);
    return e->n_due ? fmax(e->due_s[e->due[0]], e->now) : INFINITY;
}

static int by_number(const void *a, const void *b)
{
    const int32_t one = *(const int32_t *)a, other = *(const int32_t *)b;
    return (one > other) - (one < other);
}

static int by_begin(const void *a, const void *b)
{
    const struct ft_arrival *one = a, *other = b;
    return (one->number > other->number) - (one->number < other->number);
}

/* Completes the activities that end at the next point of time. Their entities continue in order of their numbers, then
 * messages go on in the order in which they began. */
static void complete(struct ft_engine *e, double next)
{
    const double within = SAME_TIME * next;
    size_t n_ended = 0;
    uint32_t n_arrivals = 0;
    while (e->n_due && e->due_s[e->due[0]] <= next + within) {
        const int32_t item = e->due[0], consumer = item - (int32_t)e->n_entities;
        if (consumer < 0) {
            e->ended[n_ended++] = item;
            ft_due_drop(e, item);
            continue;
        }
        if ((size_t)consumer >= e->n_classes) {
            ft_due_drop(e, item);
            if (!ft_reserve(&e->arrivals, &e->arrival_room, n_arrivals, sizeof *e->arrivals)) {
                e->out_of_memory = true;
                return;
            }
            const int32_t flow = consumer - (int32_t)e->n_classes;
            e->arrivals[n_arrivals++] = (struct ft_arrival){e->flows[flow].number, flow};
            continue;
        }
        const struct ft_class_state *state = &e->states[consumer];
        const struct ft_consumer *its = &e->consumers[consumer];
        ft_settle(e, consumer);
        while (its->n && ft_ends_in(e, consumer) <= within) {
            e->ended[n_ended++] = state->heap[0];
            leave_class(e, consumer);
        }
        if (its->n) /* it changed, or was due too early by rounding */
            ft_due_set(e, item, e->now + fmax(ft_ends_in(e, consumer), 2 * within));
    }
    if (n_ended > 1)
        qsort(e->ended, n_ended, sizeof *e->ended, by_number);
    for (size_t i = 0; i < n_ended; i++) {
        const int32_t number = e->ended[i];
        account(e, number, -1);
        ft_make_ready(e, number);
        e->of_work[2] += 1;
        e->events++;
        if (e->entities[number].kind == FT_DEVICE && e->entities[number].device >= 0)
            release_device(e, e->entities[number].device, number);
    }
    if (n_arrivals > 1)
        qsort(e->arrivals, n_arrivals, sizeof *e->arrivals, by_begin);
    for (uint32_t i = 0; i < n_arrivals; i++) {
        ft_flow_due(e, e->arrivals[i].flow);
        e->of_work[2] += 1;
        e->events++;
    }
}

enum ft_status ft_engine_advance(struct ft_engine *e, double until)
{
    e->until = until;
    for (;;) {
        while (e->n_ready) {
            const int32_t number = e->ready[e->ready_head];
            struct ft_entity *one = &e->entities[number];
            for (int outcome = FT_GOES_ON; outcome == FT_GOES_ON;) {
                const struct ft_operation *op = &e->operations[one->pc++];
                outcome = perform(e, number, op);
                if (outcome < FT_GOES_ON && outcome != FT_CALLED) {
                    one->pc--;
                    e->called = number;
                    return (enum ft_status)outcome;
                }
                if (outcome == FT_CALLED || outcome == FT_STOPS) {
                    e->ready_head = (e->ready_head + 1) % e->n_entities;
                    e->n_ready--;
                    if (outcome == FT_CALLED)
                        return FT_CALLED;
                }
            }
        }
        if (e->n_done == e->n_entities)
            return FT_FINISHED;
        if (e->events > e->most_events)
            return FT_TOO_MANY;
        const double next = ft_engine_next(e);
        if (!isfinite(next))
            return FT_DEADLOCK;
        if (e->out_of_memory)
            return FT_NO_MEMORY;
        if (next > until) {
            e->now = until;
            return FT_PAUSED;
        }
        e->now = next;
        complete(e, next);
    }
}

bool ft_engine_resume(struct ft_engine *e, int32_t entity, int32_t pc, const double registers[FT_REGISTERS])
{
    struct ft_entity *one = &e->entities[entity];
    if (one->place != FT_CALLING || pc < 0 || (size_t)pc >= e->n_operations)
        return false;
    memcpy(one->registers, registers, sizeof one->registers);
    one->pc = pc;
    account(e, entity, -1);
    ft_make_ready(e, entity);
    return true;
}
