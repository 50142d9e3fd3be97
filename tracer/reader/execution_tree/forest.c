/* The loops of a function, from the edges between its blocks that were taken so far. See parts.h.
 *
 * As in tracer/analysis/loops.py, loops are nested strongly connected components: a component's header is its entry,
 * and what remains without all its entries has the loops inside. Of several entries the one stays header that is, or
 * else the first that ran.
 *
 * Where blocks of an engine overlap (a jump went into the middle of one), the longer one is its beginning, followed by
 * the shorter one: `next` leads along that chain, and edges leave its end.
 */
#include "parts.h"

#include <stdlib.h>
#include <string.h>

/* A set of blocks whose loops are to be found: items[begin, end). */
struct segment {
    uint32_t begin, end, parent, group;
};

struct work {
    struct ft_function *f;
    uint32_t n;
    uint32_t *succ_first, *succ, *pred_first, *pred; /* adjacency, by local */
    uint32_t *group;                                 /* the segment that a block is in, FT_NONE */
    uint32_t *number, *lowest, *stack, *path, *at, *slot_of;
    uint32_t *items, num_items, items_capacity;
    struct segment *segments;
    uint32_t num_segments, segments_capacity, num_groups;
    uint32_t counter, stack_top;
    bool *was_alive;
    uint32_t num_loops_before;
    uint32_t *memory;
};

struct by_end {
    uint64_t end, address;
    uint32_t local;
};

static int compare(const void *one, const void *other)
{
    const struct by_end *a = one, *b = other;
    if (a->end != b->end)
        return a->end < b->end ? -1 : 1;
    if (a->address != b->address)
        return a->address < b->address ? -1 : 1;
    return a->local < b->local ? -1 : 1;
}

/* Finds which blocks go on as others. */
static bool find_chains(const struct ft_tree *tree, struct ft_function *f)
{
    const uint32_t n = f->num_locals;
    struct by_end *order = malloc((n + 1) * sizeof *order);
    if (!order)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        const struct ft_code *block = &tree->codes[f->locals[i].id];
        order[i] = (struct by_end){block->end, block->address, i};
    }
    qsort(order, n, sizeof *order, compare);
    for (uint32_t i = n; i-- > 0;) {
        struct ft_local *local = &f->locals[order[i].local];
        local->next = FT_NONE;
        local->last = order[i].local;
        uint32_t next = i + 1;
        while (next < n && order[next].end == order[i].end && order[next].address == order[i].address)
            next++;
        if (tree->guest != FT_GUEST_NONE && next < n && order[next].end == order[i].end) {
            local->next = order[next].local;
            local->last = f->locals[local->next].last;
        }
    }
    free(order);
    return true;
}

static void add_adjacent(struct work *w, uint32_t from, uint32_t to, bool count)
{
    if (count) {
        w->succ_first[from + 1]++;
        w->pred_first[to + 1]++;
    } else {
        w->succ[w->at[from]++] = to;
        w->pred[w->lowest[to]++] = from;
    }
}

/* Adds all edges; first counts them. */
static void add_edges(struct work *w, bool count)
{
    const struct ft_function *f = w->f;
    for (uint32_t i = 0; i < f->num_locals; i++)
        if (f->locals[i].next != FT_NONE)
            add_adjacent(w, i, f->locals[i].next, count);
    for (uint32_t i = 0; i < f->num_edges; i++)
        add_adjacent(w, f->locals[f->edges[i].from].last, f->edges[i].to, count);
}

static bool begin_work(struct work *w, struct ft_function *f)
{
    const uint32_t n = f->num_locals, num_edges = f->num_edges + n;
    *w = (struct work){.f = f, .n = n, .num_loops_before = f->num_loops};
    w->memory = calloc((size_t)9 * (n + 1) + 2 * (size_t)num_edges + 2, sizeof *w->memory);
    w->was_alive = calloc(f->num_loops + 1, sizeof *w->was_alive);
    if (!w->memory || !w->was_alive)
        return false;
    uint32_t *at = w->memory;
    uint32_t **const parts[] = {&w->succ_first, &w->pred_first, &w->group, &w->number, &w->lowest,
                                &w->stack,      &w->path,       &w->at,    &w->slot_of};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++, at += n + 1)
        *parts[i] = at;
    w->succ = at;
    w->pred = at + num_edges;
    add_edges(w, true);
    for (uint32_t i = 0; i < n; i++) {
        w->succ_first[i + 1] += w->succ_first[i];
        w->pred_first[i + 1] += w->pred_first[i];
    }
    memcpy(w->at, w->succ_first, n * sizeof *w->at);
    memcpy(w->lowest, w->pred_first, n * sizeof *w->lowest);
    add_edges(w, false);
    memset(w->slot_of, 0xff, n * sizeof *w->slot_of);
    for (uint32_t slot = 0; slot < f->num_loops; slot++) {
        w->slot_of[f->loops[slot].header] = slot;
        w->was_alive[slot] = f->loops[slot].alive;
        f->loops[slot].alive = false;
    }
    return true;
}

static void end_work(struct work *w)
{
    free(w->memory);
    free(w->was_alive);
    free(w->items);
    free(w->segments);
}

/* Makes a segment of some blocks. */
static bool add_segment(struct work *w, const uint32_t *members, uint32_t number, uint32_t parent)
{
    const uint32_t begin = w->num_items;
    if (!ft_reserve(&w->items, &w->items_capacity, begin + number, sizeof *w->items) ||
        !ft_reserve(&w->segments, &w->segments_capacity, w->num_segments, sizeof *w->segments))
        return false;
    const uint32_t group = w->num_groups++;
    for (uint32_t i = 0; i < number; i++) {
        w->items[w->num_items++] = members[i];
        w->group[members[i]] = group;
    }
    w->segments[w->num_segments++] = (struct segment){begin, w->num_items, parent, group};
    return true;
}

static bool is_door(const struct work *w, uint32_t block, uint32_t inside)
{
    for (uint32_t i = w->pred_first[block]; i < w->pred_first[block + 1]; i++)
        if (w->group[w->pred[i]] != inside)
            return true;
    return block == 0;
}

/* The slot of a loop with that header. FT_NONE when memory ran out. */
static uint32_t slot_with(struct work *w, uint32_t header, uint32_t parent)
{
    struct ft_function *f = w->f;
    uint32_t slot = w->slot_of[header];
    if (slot == FT_NONE) {
        slot = f->num_loops;
        if (!ft_reserve(&f->loops, &f->loops_capacity, slot, sizeof *f->loops))
            return FT_NONE;
        f->num_loops++;
        w->slot_of[header] = slot;
        f->loops[slot] = (struct ft_tree_loop){.header = header};
    }
    struct ft_tree_loop *loop = &f->loops[slot];
    loop->alive = true;
    loop->parent = parent;
    loop->depth = parent == FT_NONE ? 1 : f->loops[parent].depth + 1;
    return slot;
}

/* One component: a loop, whose inner ones are to be found. Its blocks may be put in another order. */
static bool add_loop(struct work *w, uint32_t *members, uint32_t number, uint32_t parent)
{
    const uint32_t inside = w->num_groups++;
    for (uint32_t i = 0; i < number; i++)
        w->group[members[i]] = inside;
    uint32_t header = FT_NONE, least = members[0], num_rest = 0;
    bool is_old = false;
    for (uint32_t i = 0; i < number; i++) {
        const uint32_t block = members[i];
        least = block < least ? block : least;
        if (!is_door(w, block, inside)) {
            members[num_rest++] = block;
            continue;
        }
        const uint32_t slot = w->slot_of[block];
        const bool was_header = slot != FT_NONE && slot < w->num_loops_before && w->was_alive[slot];
        if (header == FT_NONE || (was_header && !is_old) || (was_header == is_old && block < header))
            header = block;
        is_old |= was_header;
    }
    if (header == FT_NONE) { /* entered by no edge: what a jump out of nowhere went to */
        header = least;
        num_rest = 0;
        for (uint32_t i = 0; i < number; i++)
            if (members[i] != header)
                members[num_rest++] = members[i];
    }
    const uint32_t slot = slot_with(w, header, parent);
    if (slot == FT_NONE)
        return false;
    for (uint32_t i = 0; i < w->n; i++)
        if (w->group[i] == inside)
            w->f->locals[i].loop = slot;
    for (uint32_t i = 0; i < w->n; i++)
        if (w->group[i] == inside)
            w->group[i] = FT_NONE - 1; /* entries are in no inner loop */
    return num_rest == 0 || add_segment(w, members, num_rest, slot);
}

static bool has_edge_to_itself(const struct work *w, uint32_t block)
{
    for (uint32_t i = w->succ_first[block]; i < w->succ_first[block + 1]; i++)
        if (w->succ[i] == block)
            return true;
    return false;
}

/* The components of a segment that a block leads to (Tarjan, "Depth-First Search and Linear Graph Algorithms", SIAM
 * Journal on Computing 1(2), 1972, without recursion). A block's number is 0 until it is visited, UINT32_MAX once its
 * component is known. */
static bool visit(struct work *w, uint32_t root, struct segment segment)
{
    uint32_t depth = 0;
    w->path[0] = root;
    w->number[root] = w->lowest[root] = ++w->counter;
    w->at[root] = w->succ_first[root];
    w->stack[w->stack_top++] = root;
    for (;;) {
        const uint32_t block = w->path[depth];
        if (w->at[block] < w->succ_first[block + 1]) {
            const uint32_t next = w->succ[w->at[block]++];
            if (w->group[next] != segment.group || w->number[next] == UINT32_MAX)
                continue;
            if (w->number[next] == 0) {
                w->number[next] = w->lowest[next] = ++w->counter;
                w->at[next] = w->succ_first[next];
                w->stack[w->stack_top++] = next;
                w->path[++depth] = next;
            } else if (w->number[next] < w->lowest[block]) {
                w->lowest[block] = w->number[next];
            }
            continue;
        }
        if (w->lowest[block] == w->number[block]) {
            uint32_t begin = w->stack_top;
            do
                w->number[w->stack[--begin]] = UINT32_MAX;
            while (w->stack[begin] != block);
            const uint32_t size = w->stack_top - begin;
            w->stack_top = begin;
            if ((size > 1 || has_edge_to_itself(w, block)) && !add_loop(w, w->stack + begin, size, segment.parent))
                return false;
        }
        if (depth == 0)
            return true;
        const uint32_t above = w->path[--depth];
        if (w->lowest[block] < w->lowest[above])
            w->lowest[above] = w->lowest[block];
    }
}

static bool find_loops(struct work *w)
{
    for (uint32_t i = 0; i < w->n; i++) {
        w->f->locals[i].loop = FT_NONE;
        w->path[i] = i;
    }
    if (!add_segment(w, w->path, w->n, FT_NONE))
        return false;
    for (uint32_t s = 0; s < w->num_segments; s++) {
        const struct segment segment = w->segments[s];
        for (uint32_t i = segment.begin; i < segment.end; i++)
            w->number[w->items[i]] = 0;
        w->counter = 0;
        w->stack_top = 0;
        for (uint32_t i = segment.begin; i < segment.end; i++)
            if (w->number[w->items[i]] == 0 && !visit(w, w->items[i], segment))
                return false;
    }
    return true;
}

/* Finds which blocks run each header. */
static bool find_covers(struct work *w)
{
    struct ft_function *f = w->f;
    uint32_t number = 0;
    for (uint32_t slot = 0; slot < f->num_loops; slot++)
        f->loops[slot].num_cover = 0;
    for (uint32_t i = 0; i < w->n; i++)
        for (uint32_t block = i; block != FT_NONE; block = f->locals[block].next)
            if (w->slot_of[block] != FT_NONE) {
                f->loops[w->slot_of[block]].num_cover++;
                number++;
            }
    if (!ft_reserve(&f->cover, &f->cover_capacity, number, sizeof *f->cover))
        return false;
    number = 0;
    for (uint32_t slot = 0; slot < f->num_loops; slot++) {
        f->loops[slot].first_cover = number;
        number += f->loops[slot].num_cover;
        f->loops[slot].num_cover = 0;
    }
    for (uint32_t i = 0; i < w->n; i++)
        for (uint32_t block = i; block != FT_NONE; block = f->locals[block].next)
            if (w->slot_of[block] != FT_NONE) {
                struct ft_tree_loop *loop = &f->loops[w->slot_of[block]];
                f->cover[loop->first_cover + loop->num_cover++] = i;
            }
    return true;
}

static bool contains(const struct ft_function *f, uint32_t slot, uint32_t block)
{
    uint32_t inner = block == FT_NONE ? FT_NONE : f->locals[block].loop;
    while (inner != FT_NONE && f->loops[inner].depth > f->loops[slot].depth)
        inner = f->loops[inner].parent;
    return inner == slot;
}

/* Appends the loops that contain `to` and not `from`, outermost first, to a list. */
static bool append_entered(struct ft_function *f, uint32_t from, uint32_t to)
{
    uint32_t number = 0;
    for (uint32_t slot = f->locals[to].loop; slot != FT_NONE && !contains(f, slot, from); slot = f->loops[slot].parent)
        number++;
    if (!ft_reserve(&f->actions, &f->actions_capacity, f->num_actions + number, sizeof *f->actions))
        return false;
    uint32_t at = f->num_actions + number;
    for (uint32_t slot = f->locals[to].loop; slot != FT_NONE && !contains(f, slot, from); slot = f->loops[slot].parent)
        f->actions[--at] = slot;
    f->num_actions += number;
    return true;
}

bool ft_forest_action(struct ft_tree *tree, struct ft_function *f, uint32_t from, uint32_t to, uint32_t *action)
{
    (void)tree;
    if (f->num_actions == 0)
        f->num_actions = 1; /* 0 is no action */
    const uint32_t begin = f->num_actions;
    if (!ft_reserve(&f->actions, &f->actions_capacity, begin, sizeof *f->actions))
        return false;
    f->num_actions++;
    uint32_t before = from == FT_NONE ? FT_NONE : f->locals[from].last;
    for (uint32_t block = to; block != FT_NONE; before = block, block = f->locals[block].next)
        if (!append_entered(f, before, block))
            return false;
    f->actions[begin] = f->num_actions - begin - 1;
    *action = begin;
    if (f->actions[begin] == 0) {
        f->num_actions = begin;
        *action = 0;
    }
    return true;
}

/* The successors that a block remembers are to be looked up again. */
static void forget_successors(struct ft_function *f)
{
    for (uint32_t i = 0; i < f->num_locals; i++) {
        struct ft_local *local = &f->locals[i];
        for (int j = 0; j < 2; j++)
            if (local->successor[j].action != FT_CALLS)
                local->successor[j] = (struct ft_successor){0};
        local->behind = (struct ft_successor){0};
    }
}

/* Numbers the blocks that a block leads to 1, all others 0. */
static void mark_reached(struct work *w, uint32_t from)
{
    uint32_t top = 0;
    memset(w->number, 0, w->n * sizeof *w->number);
    w->number[from] = 1;
    w->stack[top++] = from;
    while (top > 0) {
        const uint32_t block = w->stack[--top];
        for (uint32_t i = w->succ_first[block]; i < w->succ_first[block + 1]; i++)
            if (!w->number[w->succ[i]]) {
                w->number[w->succ[i]] = 1;
                w->stack[top++] = w->succ[i];
            }
    }
}

/* Puts an entry with one iteration aside for each call of a node, on a thread's stack, that another one of the same
 * node interrupted behind the header of a loop that is new. `*number` is how many entries are open so. */
static bool save_interrupted(struct work *w, struct ft_tree_thread *t, uint32_t node, uint32_t slot, uint64_t most,
                             uint64_t *number)
{
    const struct ft_function *f = w->f;
    if (t->num_frames)
        mark_reached(w, f->loops[slot].header);
    for (uint32_t i = 0; i < t->num_frames; i++) {
        const bool is_last = i + 1 == t->num_frames;
        if (!t->frames[i].folds || (is_last ? t->node : t->frames[i + 1].node) != node)
            continue;
        uint32_t below = i;
        while (below > 0 && t->frames[below].node != node)
            below--;
        if (t->frames[below].node != node || *number >= most || !w->number[f->locals[t->frames[below].current].last])
            continue;
        const uint32_t at = is_last ? t->num_saved : t->frames[i + 1].saved;
        if (!ft_reserve(&t->saved, &t->saved_capacity, t->num_saved, sizeof *t->saved))
            return false;
        memmove(t->saved + at + 1, t->saved + at, (t->num_saved - at) * sizeof *t->saved);
        t->saved[at] = (struct ft_saved_loop){node, slot, 1, 0};
        t->num_saved++;
        for (uint32_t above = i + 1; above < t->num_frames; above++)
            t->frames[above].saved++;
        (*number)++;
    }
    return true;
}

/* All entries so far of loops that are new had one iteration each. */
static bool begin_loops(struct ft_tree *tree, struct work *w)
{
    struct ft_function *f = w->f;
    for (uint32_t slot = 0; slot < f->num_loops; slot++) {
        if (!f->loops[slot].alive || (slot < w->num_loops_before && w->was_alive[slot]))
            continue;
        for (uint32_t number = f->nodes; number != FT_NONE; number = tree->nodes[number]->next) {
            struct ft_node *node = tree->nodes[number];
            const uint64_t executions = ft_header_count(f, node, slot);
            if (executions == 0)
                continue;
            if (!ft_node_fit_loops(tree, node))
                return false;
            struct ft_loop_state *state = &node->loops[slot];
            const uint64_t known = state->iterations; /* it was a loop before */
            if (!state->entries)
                state->rank = ++tree->clock;
            uint64_t open = 1;
            for (uint32_t i = 1; i <= tree->num_threads; i++)
                if (tree->threads[i] && tree->threads[i]->number == node->thread &&
                    !save_interrupted(w, tree->threads[i], number, slot, executions - known, &open))
                    return false;
            if (executions - known > open && !ft_loop_record(state, 1, executions - known - open))
                return false;
            state->entries += executions - known;
            state->start = executions - 1;
            state->place = ft_loop_place(f, node, slot);
            state->pending = true;
        }
    }
    return true;
}

bool ft_forest_build(struct ft_tree *tree, uint32_t function)
{
    struct ft_function *f = &tree->functions[function];
    struct work work;
    bool done = find_chains(tree, f) && begin_work(&work, f);
    if (!done)
        return false;
    tree->events++;
    f->version++;
    tree->loops_known++;
    done = find_loops(&work) && find_covers(&work);
    for (uint32_t slot = 0; slot < work.num_loops_before && done; slot++)
        if (work.was_alive[slot] && !f->loops[slot].alive) { /* another block is the header now */
            for (uint32_t node = f->nodes; node != FT_NONE && done; node = tree->nodes[node]->next)
                if (tree->nodes[node]->loops_capacity > slot)
                    done = ft_loop_close(f, tree->nodes[node], slot);
            if (f->locals[f->loops[slot].header].loop != FT_NONE)
                f->loops[f->locals[f->loops[slot].header].loop].is_estimated = true;
        }
    f->num_actions = 0;
    for (uint32_t i = 0; i < f->num_edges && done; i++)
        done = ft_forest_action(tree, f, f->edges[i].from, f->edges[i].to, &f->edges[i].action);
    done = done && ft_forest_action(tree, f, FT_NONE, 0, &f->entry_action) && begin_loops(tree, &work);
    forget_successors(f);
    end_work(&work);
    return done;
}

bool ft_forest_changes(struct ft_tree *tree, struct ft_function *f, uint32_t from, uint32_t to)
{
    (void)tree;
    const uint32_t source = f->locals[from].last, loop = f->locals[to].loop;
    if (loop != FT_NONE && f->loops[loop].header == to && contains(f, loop, source))
        return false; /* one more back edge */
    return true;
}
