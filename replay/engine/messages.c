/* Messages between entities, matched as MPI does: a receive takes the first message that arrived from its sender with
 * its tag on its communicator (any sender, any tag), in the order in which they were sent; a message goes to the first
 * receive that was posted and takes it. So messages of a pair do not overtake each other.
 *
 * When the sender goes on, and when the message is on its way:
 *   eager     (shorter than `eager_below`): at once; at once
 *   detached  (shorter than `detached_below`): at once; when it is matched
 *   others    when the message has arrived; when it is matched (rendezvous); of any size if sent synchronously
 *
 * A request is open from its call until it is awaited, or until its call returns. Each entity has two queues: receives
 * posted, and messages arrived (announced, if they are not eager) that no receive took yet. */
#include <math.h>
#include <string.h>

#include "engine.h"

enum { NO_REQUEST = -1, SENT = -2 }; /* of a slot: a message that was detached is sent at once */

int32_t ft_new_request(struct ft_engine *e, struct ft_request like)
{
    int32_t number;
    if (e->n_free_requests)
        number = e->free_requests[--e->n_free_requests];
    else if (ft_reserve(&e->requests, &e->request_room, e->n_requests, sizeof *e->requests))
        number = (int32_t)e->n_requests++;
    else {
        e->out_of_memory = true;
        return -1;
    }
    like.next = like.flow = like.slot = -1;
    like.task = like.is_collective ? like.task : -1;
    like.is_used = true;
    like.pc = e->entities[like.owner].pc;
    e->requests[number] = like;
    return number;
}

static void free_request(struct ft_engine *e, int32_t number)
{
    e->requests[number].is_used = false;
    if (ft_reserve(&e->free_requests, &e->free_request_room, e->n_free_requests, sizeof *e->free_requests))
        e->free_requests[e->n_free_requests++] = number;
    else
        e->out_of_memory = true;
}

static void append(struct ft_engine *e, int32_t *first, int32_t *last, int32_t number)
{
    if (*last >= 0)
        e->requests[*last].next = number;
    else
        *first = number;
    *last = number;
}

/* Takes the first request of a queue that belongs with the other side: one of both is a receive, whose sender and tag
 * may be any. -1: there is none. */
static int32_t take_match(struct ft_engine *e, int32_t *first, int32_t *last, const struct ft_request *other)
{
    int32_t before = -1;
    for (int32_t number = *first; number >= 0; before = number, number = e->requests[number].next) {
        struct ft_request *one = &e->requests[number];
        const struct ft_request *receive = one->is_send ? other : one, *send = one->is_send ? one : other;
        if (one->communicator != other->communicator || (receive->peer != FT_ANY && receive->peer != send->owner) ||
            (receive->tag != FT_ANY && receive->tag != send->tag))
            continue;
        if (before < 0)
            *first = one->next;
        else
            e->requests[before].next = one->next;
        if (*last == number)
            *last = before;
        one->next = -1;
        return number;
    }
    return -1;
}

/* ---- waiting ---- */

static void go_on(struct ft_engine *e, int32_t number, int32_t flow)
{
    struct ft_entity *one = &e->entities[number];
    const struct ft_flow *its = flow < 0 ? NULL : &e->flows[flow];
    const double seconds = e->now - one->start;
    const double late = its ? fmin(fmax(its->begun - one->start, 0), seconds) : 0;
    const int32_t label = one->label, by = !its ? -1 : its->from == number ? its->to : its->from;
    double *own = &e->of_paths[(size_t)number * e->n_path];
    e->of_entities[(size_t)number * FT_NUM_KINDS + FT_AT_PARTNER] += late;
    e->of_entities[(size_t)number * FT_NUM_KINDS + FT_AT_TRANSFER] += seconds - late;
    double *of_label = &e->of_labels[label * FT_PER_LABEL];
    of_label[0] += seconds;
    of_label[4] += seconds - late;
    if (late > 0) { /* its way here was the other's */
        const bool is_receiver = its->to == number;
        memcpy(own, &e->flow_paths[(size_t)flow * e->n_path], e->n_path * sizeof *own);
        own[e->n_path - 1] += its->last != number;
        of_label[is_receiver ? 2 : 3] += late;
        e->of_late[(size_t)number * FT_PER_LATE + (is_receiver ? 0 : 1)] += late;
        e->of_late[(size_t)by * FT_PER_LATE + (is_receiver ? 2 : 3)] += late;
        ft_note(e, number, label, FT_AT_PARTNER, by, one->start, one->start + late, 1);
    }
    ft_add_to_path(e, own, number, label, seconds - late);
    if (seconds > late)
        ft_note(e, number, label, FT_AT_TRANSFER, by, one->start + late, e->now, 1);
    ft_make_ready(e, number);
}

void ft_await_request(struct ft_engine *e, int32_t number, int32_t request)
{
    struct ft_request *one = &e->requests[request];
    if (one->slot >= 0) {
        e->slots[one->slot] = NO_REQUEST;
        one->slot = -1;
    }
    if (one->is_done) {
        free_request(e, request);
        return;
    }
    one->is_awaited = true;
    e->entities[number].waiting_for++;
}

void ft_await_by_task(struct ft_engine *e, int32_t task, int32_t request)
{
    struct ft_request *one = &e->requests[request];
    if (one->is_done) {
        free_request(e, request);
        return;
    }
    one->task = task;
    e->tasks[task].waiting_for++;
}

static int stop(struct ft_engine *e, int32_t number, int32_t label)
{
    struct ft_entity *one = &e->entities[number];
    ft_begin(e, one, FT_AT_TRANSFER, label);
    one->place = FT_QUEUED;
    one->object = -1;
    return FT_STOPS;
}

int ft_wait(struct ft_engine *e, int32_t number, int32_t label)
{
    return e->entities[number].waiting_for ? stop(e, number, label) : FT_GOES_ON;
}

/* The requests of which an entity awaits any one are candidates until the first of them is done. */
static void end_candidates(struct ft_engine *e, int32_t number)
{
    const struct ft_entity *one = &e->entities[number];
    for (int32_t i = 0; i < one->slots; i++)
        if (e->slots[one->first_slot + i] >= 0)
            e->requests[e->slots[one->first_slot + i]].is_candidate = false;
}

/* Its owner is done with it when it waits for it. */
void ft_complete(struct ft_engine *e, int32_t request, int32_t flow)
{
    struct ft_request *its = &e->requests[request];
    struct ft_entity *one = &e->entities[its->owner];
    its->is_done = true;
    its->flow = -1;
    if (its->task >= 0 && !its->is_collective) {
        const int32_t task = its->task;
        free_request(e, request);
        if (--e->tasks[task].waiting_for == 0)
            ft_task_goes_on(e, task, flow);
    } else if (its->is_awaited) {
        const int32_t owner = its->owner;
        free_request(e, request);
        if (--one->waiting_for == 0)
            go_on(e, owner, flow);
    } else if (its->is_candidate) {
        const int32_t owner = its->owner;
        end_candidates(e, owner);
        e->slots[its->slot] = NO_REQUEST;
        free_request(e, request);
        go_on(e, owner, flow);
    }
}

/* ---- sides of a message ---- */

static void meet(struct ft_engine *e, int32_t send, int32_t receive, int32_t last)
{
    struct ft_request *from = &e->requests[send], *to = &e->requests[receive];
    if (from->bytes > to->bytes) {
        e->cut_send = send;
        e->cut_receive = receive;
    }
    if (from->has_arrived) { /* eager, and there before its receive */
        free_request(e, send);
        to->is_done = true;
        return;
    }
    const int32_t flow = from->flow >= 0 ? from->flow : ft_flow_begin(e, send, last);
    if (flow < 0)
        return;
    e->flows[flow].receive = receive;
    to->flow = flow;
}

int32_t ft_post_send(struct ft_engine *e, int32_t number, struct ft_message message, double bytes, bool is_synchronous)
{
    const struct ft_network *net = &e->network;
    const bool is_eager = bytes < net->eager_below && !is_synchronous,
               is_detached = (is_eager || bytes < net->detached_below) && !is_synchronous;
    const int32_t send = ft_new_request(e, (struct ft_request){.owner = number,
                                                               .peer = message.peer,
                                                               .tag = message.tag,
                                                               .communicator = message.communicator,
                                                               .bytes = bytes,
                                                               .is_send = true,
                                                               .is_detached = is_detached});
    if (send < 0)
        return -1;
    struct ft_entity *to = &e->entities[message.peer];
    const struct ft_request like = e->requests[send];
    e->of_work[5] += 1;
    if (is_eager && ft_flow_begin(e, send, number) < 0)
        return -1;
    const int32_t receive = take_match(e, &to->posted, &to->posted_last, &like);
    if (receive >= 0)
        meet(e, send, receive, number);
    else
        append(e, &to->arrived, &to->arrived_last, send);
    return is_detached ? -1 : send;
}

int32_t ft_post_receive(struct ft_engine *e, int32_t number, struct ft_message message, double room)
{
    struct ft_entity *one = &e->entities[number];
    const struct ft_request like = {
        .owner = number, .peer = message.peer, .tag = message.tag, .communicator = message.communicator, .bytes = room};
    const int32_t receive = ft_new_request(e, like);
    if (receive < 0)
        return -1;
    const int32_t send = take_match(e, &one->arrived, &one->arrived_last, &like);
    if (send >= 0)
        meet(e, send, receive, number);
    else
        append(e, &one->posted, &one->posted_last, receive);
    return receive;
}

/* The bytes of a flow are there. */
void ft_arrived(struct ft_engine *e, int32_t number)
{
    const int32_t send = e->flows[number].send, receive = e->flows[number].receive;
    if (receive >= 0)
        ft_complete(e, receive, number);
    if (!e->requests[send].is_detached)
        ft_complete(e, send, number);
    else if (receive >= 0)
        free_request(e, send);
    else {
        e->requests[send].has_arrived = true;
        e->requests[send].flow = -1;
    }
    ft_flow_ended(e, number);
}

/* ---- operations ---- */

/* The slot of the request that an operation opens; -1: none. */
int ft_free_slot(const struct ft_engine *e, int32_t number, const struct ft_operation *op, int32_t *slot)
{
    *slot = op->b ? e->entities[number].first_slot + op->b - 1 : -1;
    if (op->b > e->entities[number].slots)
        return FT_NO_REQUEST;
    return *slot >= 0 && e->slots[*slot] != NO_REQUEST ? FT_REQUEST_OPEN : FT_GOES_ON;
}

int ft_message(struct ft_engine *e, int32_t number, const struct ft_operation *op)
{
    const struct ft_message message = e->messages[op->a];
    const bool is_send = op->code == FT_SEND;
    int32_t slot;
    const int problem = ft_free_slot(e, number, op, &slot);
    if (problem != FT_GOES_ON)
        return problem;
    const int32_t request = is_send ? ft_post_send(e, number, message, op->x, op->n == 1)
                                    : ft_post_receive(e, number, message, op->n ? op->x : INFINITY);
    if (e->out_of_memory)
        return FT_NO_MEMORY;
    if (e->cut_send >= 0)
        return FT_TRUNCATED;
    if (slot >= 0)
        e->slots[slot] = request >= 0 ? request : SENT;
    if (request < 0)
        return FT_GOES_ON;
    if (slot < 0) {
        ft_await_request(e, number, request);
        return ft_wait(e, number, op->label);
    }
    e->requests[request].slot = slot;
    return FT_GOES_ON;
}

int ft_await(struct ft_engine *e, int32_t number, const struct ft_operation *op)
{
    const struct ft_entity *one = &e->entities[number];
    const int64_t n = op->n < 0 ? one->slots : op->n;
    const bool is_any = op->b == 1;
    bool open = false;
    for (int64_t i = 0; i < n && op->n >= 0; i++)
        if (e->slot_lists[op->a + i] >= one->slots)
            return FT_NO_REQUEST;
    for (int64_t i = 0; i < n; i++) {
        const int32_t slot = one->first_slot + (op->n < 0 ? (int32_t)i : e->slot_lists[op->a + i]);
        const int32_t request = e->slots[slot];
        if (request == NO_REQUEST)
            continue;
        const bool is_done = request == SENT || e->requests[request].is_done;
        if (is_any && !is_done) {
            e->requests[request].is_candidate = true;
            open = true;
            continue;
        }
        if (request == SENT)
            e->slots[slot] = NO_REQUEST;
        else
            ft_await_request(e, number, request);
        if (is_any) {
            end_candidates(e, number);
            return FT_GOES_ON;
        }
    }
    if (is_any)
        return open ? stop(e, number, op->label) : FT_GOES_ON;
    return ft_wait(e, number, op->label);
}
