/* Which thread waited for which, and where both were then. See tree.h.
 *
 * Events are matched with those that waited for them as both are read, in any order. Of the events that still may be
 * waited for, a table of fixed size keeps the places: where two have the same slot, the first one's place is forgotten,
 * and who waits for it later on waits for its thread at a place that is not known. Places, and pairs of places (edges),
 * are told apart up to MAX_EDGES of them; beyond that only threads are.
 */
#include "parts.h"

#include "tracer/transport/stream.h"

#include <stdlib.h>

#define EVENTS 16384u
#define MAX_WAITERS 16384u /* that wait for events which were not read yet */
#define MAX_EDGES (1u << 17)
#define EDGE_KEY (UINT64_C(1) << 63)
#define FAR (FT_NONE - 1)

struct place {
    uint32_t thread, node,
        block; /* node FT_NONE: not known. FAR: of another process, with its number above that of the thread */
};

struct event {
    uint64_t number;  /* 0: free */
    uint32_t place;   /* FT_NONE until it is read */
    uint32_t waiters; /* the first one, FT_NONE */
};

struct waiter {
    uint32_t place, kind, next;
};

struct edge {
    uint32_t kind, source, target; /* places */
    uint64_t count;
};

struct ft_waits {
    struct event events[EVENTS];
    struct waiter waiters[MAX_WAITERS];
    uint32_t free_waiter, unused_waiters; /* a list; those from here on never were in use */
    struct place *places;
    uint32_t num_places, places_capacity;
    struct edge *edges;
    uint32_t num_edges, edges_capacity;
    struct ft_table place_table, edge_table;
};

static struct ft_waits *waits_of(struct ft_tree *tree)
{
    if (tree->waits)
        return tree->waits;
    tree->waits = calloc(1, sizeof *tree->waits);
    if (tree->waits)
        tree->waits->free_waiter = FT_NONE;
    return tree->waits;
}

/* FT_NONE when memory ran out. */
static uint32_t place_of(struct ft_waits *waits, struct place place)
{
    const uint64_t a = (uint64_t)place.thread << 32 | place.node, b = place.block;
    uint32_t number = ft_table_find(&waits->place_table, a, b);
    if (number != FT_NONE)
        return number;
    number = waits->num_places;
    if (!ft_reserve(&waits->places, &waits->places_capacity, number, sizeof *waits->places) ||
        !ft_table_put(&waits->place_table, a, b, number))
        return FT_NONE;
    waits->places[waits->num_places++] = place;
    return number;
}

static uint32_t far_place(struct ft_waits *waits, uint64_t place)
{
    const uint32_t thread = (uint32_t)(place >> FT_FAR_THREAD_SHIFT) & (FT_FAR_MAX_PROCESS << 14 | FT_FAR_MAX_THREAD);
    return place_of(
        waits, (struct place){thread, FAR, waits->num_places < MAX_EDGES ? (uint32_t)place & FT_FAR_MAX_BLOCK : 0});
}

static uint32_t unknown_place(struct ft_waits *waits, uint32_t thread)
{
    return place_of(waits, (struct place){thread, FT_NONE, 0});
}

/* Where the thread at hand is. */
static uint32_t place_here(const struct ft_tree *tree, struct ft_waits *waits)
{
    const struct ft_tree_thread *t = tree->thread;
    if (waits->num_places >= MAX_EDGES)
        return unknown_place(waits, t->number);
    if (t->node == FT_NONE)
        return place_of(waits, (struct place){t->number, t->root, 0});
    return place_of(waits, (struct place){t->number, t->node, t->locals[t->current].id});
}

static bool add_edge(struct ft_tree *tree, uint32_t kind, uint32_t source, uint32_t target)
{
    struct ft_waits *waits = tree->waits;
    uint64_t a = EDGE_KEY | kind, b = (uint64_t)source << 32 | target;
    uint32_t number = ft_table_find(&waits->edge_table, a, b);
    if (number == FT_NONE && waits->num_edges >= MAX_EDGES) {
        tree->remarks.unplaced_waits++;
        source = waits->places[source].node == FAR
                     ? far_place(waits, (uint64_t)waits->places[source].thread << FT_FAR_THREAD_SHIFT)
                     : unknown_place(waits, waits->places[source].thread);
        target = unknown_place(waits, waits->places[target].thread);
        if (source == FT_NONE || target == FT_NONE)
            return false;
        b = (uint64_t)source << 32 | target;
        number = ft_table_find(&waits->edge_table, a, b);
        if (number == FT_NONE && waits->num_edges >= 2 * MAX_EDGES)
            return true;
    }
    if (number == FT_NONE) {
        number = waits->num_edges;
        if (!ft_reserve(&waits->edges, &waits->edges_capacity, number, sizeof *waits->edges) ||
            !ft_table_put(&waits->edge_table, a, b, number))
            return false;
        waits->edges[waits->num_edges++] = (struct edge){kind, source, target, 0};
    }
    waits->edges[number].count++;
    return true;
}

/* Makes edges of those that waited for an event, which happened at `source`. */
static bool release(struct ft_tree *tree, struct event *event, uint32_t source)
{
    struct ft_waits *waits = tree->waits;
    bool done = true;
    while (event->waiters != FT_NONE) {
        const uint32_t number = event->waiters;
        struct waiter *waiter = &waits->waiters[number];
        done = add_edge(tree, waiter->kind, source, waiter->place) && done;
        event->waiters = waiter->next;
        waiter->next = waits->free_waiter;
        waits->free_waiter = number;
    }
    return done;
}

/* The slot of an event, whose last event is given up if it is another one. NULL when memory ran out. */
static struct event *event_of(struct ft_tree *tree, uint64_t number)
{
    struct ft_waits *waits = tree->waits;
    struct event *event = &waits->events[(number * UINT64_C(0x9e3779b97f4a7c15)) >> 50];
    if (event->number == number)
        return event;
    if (event->number && event->waiters != FT_NONE) {
        const uint32_t source = unknown_place(waits, (uint32_t)(event->number >> FT_EVENT_SHIFT));
        if (source == FT_NONE || !release(tree, event, source))
            return NULL;
    }
    *event = (struct event){number, FT_NONE, FT_NONE};
    return event;
}

/* FT_NONE if there is none left. */
static uint32_t new_waiter(struct ft_waits *waits)
{
    const uint32_t number = waits->free_waiter;
    if (number != FT_NONE)
        waits->free_waiter = waits->waiters[number].next;
    return number != FT_NONE || waits->unused_waiters == MAX_WAITERS ? number : waits->unused_waiters++;
}

bool ft_tree_wait(struct ft_tree *tree, uint32_t kind, uint64_t number)
{
    struct ft_waits *waits = waits_of(tree);
    const uint32_t here = waits ? place_here(tree, waits) : FT_NONE;
    const uint64_t thread = number >> FT_EVENT_SHIFT;
    if (here == FT_NONE)
        return false;
    if (kind == FT_SYNC_FAR) {
        const uint32_t source = far_place(waits, number), far_kind = (uint32_t)(number >> FT_FAR_KIND_SHIFT);
        return far_kind == FT_SYNC_EVENT || far_kind >= FT_SYNC_FAR ||
               (source != FT_NONE && add_edge(tree, far_kind, source, here));
    }
    if (thread == 0 || thread > FT_MAX_THREADS)
        return true;
    struct event *event = event_of(tree, number);
    if (!event)
        return false;
    if (kind == FT_SYNC_EVENT) {
        event->place = here;
        return release(tree, event, here);
    }
    if (event->place != FT_NONE)
        return add_edge(tree, kind, event->place, here);
    const uint32_t waiter = new_waiter(waits);
    if (waiter == FT_NONE) {
        const uint32_t source = unknown_place(waits, (uint32_t)thread);
        return source != FT_NONE && add_edge(tree, kind, source, here);
    }
    waits->waiters[waiter] = (struct waiter){here, kind, event->waiters};
    event->waiters = waiter;
    return true;
}

bool ft_waits_finish(struct ft_tree *tree)
{
    for (uint32_t i = 0; i < EVENTS && tree->waits; i++) {
        struct event *event = &tree->waits->events[i];
        if (!event->number || event->waiters == FT_NONE)
            continue;
        const uint32_t source = unknown_place(tree->waits, (uint32_t)(event->number >> FT_EVENT_SHIFT));
        if (source == FT_NONE || !release(tree, event, source))
            return false;
    }
    return true;
}

bool ft_waits_renumber(struct ft_tree *tree, const uint32_t *number)
{
    struct ft_waits *waits = tree->waits;
    if (!waits)
        return true;
    free(waits->place_table.entries);
    waits->place_table = (struct ft_table){0};
    for (uint32_t i = 0; i < waits->num_places; i++) {
        struct place *place = &waits->places[i];
        place->node = place->node >= FAR ? place->node : number[place->node];
        place->block = place->node == FT_NONE ? 0 : place->block;
        if (!ft_table_put(&waits->place_table, (uint64_t)place->thread << 32 | place->node, place->block, i))
            return false;
    }
    return true;
}

void ft_waits_free(struct ft_waits *waits)
{
    if (!waits)
        return;
    free(waits->places);
    free(waits->edges);
    free(waits->place_table.entries);
    free(waits->edge_table.entries);
    free(waits);
}

uint64_t ft_tree_edges(const struct ft_tree *tree, uint64_t *out)
{
    const struct ft_waits *waits = tree->waits;
    for (uint32_t i = 0; waits && i < waits->num_edges && out; i++, out += FT_TREE_EDGE_COLUMNS) {
        const struct edge *edge = &waits->edges[i];
        const struct place source = waits->places[edge->source], target = waits->places[edge->target];
        out[0] = edge->kind;
        out[1] = source.thread;
        out[2] = source.node >= FAR ? UINT64_MAX - (FT_NONE - source.node) : source.node;
        out[3] = source.block;
        out[4] = target.thread;
        out[5] = target.node == FT_NONE ? UINT64_MAX : target.node;
        out[6] = target.block;
        out[7] = edge->count;
    }
    return waits ? waits->num_edges : 0;
}
