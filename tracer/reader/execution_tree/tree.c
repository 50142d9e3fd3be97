/* The machine that builds the execution tree. See tree.h.
 *
 * Control flow follows from how a block ends and where the next one begins. Calls are followed on a stack of
 * their own. What does not fit is taken for
 *  - a signal, where a block's end cannot lead to the next one: its handler is called where it was. The frame goes with
 *    the system call that ends the handler;
 *  - a jump out of several calls (longjmp, an exception), where a function on the stack has the block;
 *  - a function that is resumed (a coroutine), or begins, in place of the one at hand.
 */
#include "parts.h"

#include <stdlib.h>
#include <string.h>

#define MAX_FRAMES (1u << 20)
#define FRAMES_SEARCHED 4096u
#define FAR_BYTES (128u << 10) /* an indirect jump that far out of a function's blocks leaves it */
#define SITE_SIGNAL (UINT64_C(1) << 63)
#define SITE_TAIL (UINT64_C(1) << 62)

static bool step(struct ft_tree *tree, struct ft_tree_thread *t, uint32_t id);

/* ---- where a thread stands ---------------------------------------------------------------------------------------- */

/* Takes over what may have moved. */
static bool refresh(struct ft_tree *tree, struct ft_tree_thread *t)
{
    if (!ft_node_fit(tree, t->node))
        return false;
    t->function = tree->nodes[t->node]->function;
    t->locals = tree->functions[t->function].locals;
    t->counts = tree->nodes[t->node]->counts;
    return true;
}

static bool stand(struct ft_tree *tree, struct ft_tree_thread *t, uint32_t node, uint32_t current)
{
    t->node = node;
    t->current = current;
    return refresh(tree, t);
}

/* Enters the loops of an action in the current node, before the block that begins them is counted. */
static bool enter_loops(struct ft_tree *tree, struct ft_tree_thread *t, uint32_t action)
{
    const struct ft_function *f = &tree->functions[t->function];
    struct ft_node *node = tree->nodes[t->node];
    tree->events++;
    if (UNLIKELY(node->loops_capacity < f->num_loops) && !ft_node_fit_loops(tree, node))
        return false;
    for (uint32_t i = 1; i <= f->actions[action]; i++) {
        const uint32_t slot = f->actions[action + i];
        struct ft_loop_state *state = &node->loops[slot];
        const uint64_t executions = ft_header_count(f, node, slot);
        if (state->pending && !ft_loop_record(state, executions - state->start, 1))
            return false;
        if (state->entries++ == 0)
            state->rank = ++tree->clock;
        state->start = executions;
        state->place = ft_loop_place(f, node, slot);
        state->pending = true;
    }
    return true;
}

/* Goes on at a block of the current function. */
static bool arrive(struct ft_tree *tree, struct ft_tree_thread *t, uint32_t local, uint32_t action)
{
    if (action && !enter_loops(tree, t, action))
        return false;
    t->current = local;
    t->counts[local]++;
    return true;
}

/* Goes to a block of the current function by an edge from the current one. */
static bool follow(struct ft_tree *tree, struct ft_tree_thread *t, uint32_t id)
{
    const uint32_t from = t->current;
    const uint32_t number = ft_edge_of(tree, t->function, from, id);
    if (number == FT_NONE || !refresh(tree, t))
        return false;
    const struct ft_tree_edge edge = tree->functions[t->function].edges[number];
    struct ft_local *local = &t->locals[from];
    const struct ft_successor successor = {id, edge.to, edge.action};
    if (tree->codes[local->id].ending == FT_ENDING_CALL)
        local->behind = successor;
    else if (tree->codes[local->id].ending != FT_ENDING_RETURN)
        local->successor[local->successor[0].id && local->successor[0].id != id] = successor;
    return arrive(tree, t, edge.to, edge.action);
}

/* Goes to a block of the current function by no edge of it. */
static bool jump(struct ft_tree *tree, struct ft_tree_thread *t, uint32_t id)
{
    bool is_end;
    const uint32_t local = ft_local_of(tree, t->function, id, &is_end);
    uint32_t action = 0;
    tree->events++;
    if (local == FT_NONE || !refresh(tree, t))
        return false;
    struct ft_function *f = &tree->functions[t->function];
    const uint32_t before = f->num_actions;
    if (!ft_forest_action(tree, f, t->current, local, &action) || !arrive(tree, t, local, action))
        return false;
    f->num_actions = before > 1 ? before : f->num_actions;
    return true;
}

/* ---- calls -------------------------------------------------------------------------------------------------------- */

/* Puts aside the last entry of each of a node's loops, which may go on when the call that begins has returned. */
static bool save_loops(struct ft_tree *tree, struct ft_tree_thread *t, uint32_t number)
{
    struct ft_node *node = tree->nodes[number];
    const struct ft_function *f = &tree->functions[node->function];
    for (uint32_t slot = 0; slot < f->num_loops && slot < node->loops_capacity; slot++) {
        struct ft_loop_state *state = &node->loops[slot];
        if (!state->pending)
            continue;
        if (!ft_reserve(&t->saved, &t->saved_capacity, t->num_saved, sizeof *t->saved))
            return false;
        t->saved[t->num_saved++] =
            (struct ft_saved_loop){number, slot, ft_header_count(f, node, slot) - state->start, state->place};
        state->pending = false;
    }
    return true;
}

static bool restore_loops(struct ft_tree *tree, struct ft_tree_thread *t, uint32_t num_left)
{
    while (t->num_saved > num_left) {
        const struct ft_saved_loop saved = t->saved[--t->num_saved];
        struct ft_node *node = tree->nodes[saved.node];
        const struct ft_function *f = &tree->functions[node->function];
        if (!ft_loop_close(f, node, saved.slot))
            return false;
        node->loops[saved.slot].start = ft_header_count(f, node, saved.slot) - saved.iterations;
        node->loops[saved.slot].place = saved.place;
        node->loops[saved.slot].pending = true;
    }
    return true;
}

static bool pop(struct ft_tree *tree, struct ft_tree_thread *t)
{
    const struct ft_frame frame = t->frames[--t->num_frames];
    tree->nodes[t->node]->depth -= frame.folds;
    if (frame.folds && !restore_loops(tree, t, frame.saved))
        return false;
    t->node = frame.node;
    t->current = frame.current;
    return true;
}

/* Pops frames until `num_left` are there. */
static bool pop_to(struct ft_tree *tree, struct ft_tree_thread *t, uint32_t num_left)
{
    while (t->num_frames > num_left)
        if (!pop(tree, t))
            return false;
    return refresh(tree, t);
}

/* Whether a tail call goes to a function that was left by a tail call since the last other one: then it is entered
 * again, and what is above it on the stack is over. */
static bool goes_round(const struct ft_tree_thread *t, uint32_t child, uint32_t *num_left)
{
    uint32_t i = t->num_frames;
    while (i > 0 && t->frames[i - 1].call == FT_TAIL_CALL && t->frames[i - 1].node != child)
        i--;
    *num_left = i - 1;
    return i > 0 && t->frames[i - 1].call == FT_TAIL_CALL;
}

bool ft_thread_run(struct ft_tree *tree, struct ft_tree_thread *t, uint32_t id)
{
    const struct ft_function *f = &tree->functions[t->function];
    return LIKELY(f->entry == id) ? arrive(tree, t, 0, f->entry_action) : jump(tree, t, id);
}

bool ft_thread_stand_at(struct ft_tree *tree, struct ft_tree_thread *t, uint32_t id)
{
    bool is_end;
    const uint32_t local = ft_local_of(tree, t->function, id, &is_end);
    tree->events++;
    t->current = local;
    return local != FT_NONE && refresh(tree, t);
}

bool ft_thread_push(struct ft_tree *tree, struct ft_tree_thread *t, uint32_t function, enum ft_tree_call kind,
                    uint64_t behind)
{
    bool folds;
    tree->events++;
    if (UNLIKELY(tree->num_nodes >= tree->max_nodes) && !(ft_nodes_merge(tree) && refresh(tree, t)))
        return false;
    if (t->num_frames == MAX_FRAMES) {
        t->num_frames = t->num_saved = 0;
        tree->remarks.overflows++;
    }
    const struct ft_code *code = &tree->codes[t->locals[t->current].id];
    const uint64_t site = code->end | (kind == FT_SIGNAL ? SITE_SIGNAL : kind == FT_TAIL_CALL ? SITE_TAIL : 0);
    const uint32_t child = ft_child_of(tree, t->node, site, t->locals[t->current].id, function, kind, &folds);
    if (child == FT_NONE || !ft_reserve(&t->frames, &t->frames_capacity, t->num_frames, sizeof *t->frames))
        return false;
    uint32_t num_left;
    if (kind == FT_TAIL_CALL && folds && goes_round(t, child, &num_left)) {
        tree->nodes[child]->recursive_entries++;
        return pop_to(tree, t, num_left);
    }
    t->frames[t->num_frames++] = (struct ft_frame){.behind = behind,
                                                   .node = t->node,
                                                   .current = t->current,
                                                   .saved = t->num_saved,
                                                   .call = (uint8_t)kind,
                                                   .folds = folds};
    struct ft_node *node = tree->nodes[child];
    if (UNLIKELY(folds)) {
        if (!save_loops(tree, t, child))
            return false;
        node->recursive_entries++;
        node->depth++;
        node->most_depth = node->depth > node->most_depth ? node->depth : node->most_depth;
    } else {
        node->entries++;
    }
    return stand(tree, t, child, 0);
}

/* Calls a function, of which block `id` runs first: its own first one, or another where it is resumed. */
static inline bool call(struct ft_tree *tree, struct ft_tree_thread *t, uint32_t function, uint32_t id,
                        enum ft_tree_call kind, uint64_t behind)
{
    return ft_thread_push(tree, t, function, kind, behind) && ft_thread_run(tree, t, id);
}

bool ft_thread_follow(struct ft_tree *tree, struct ft_tree_thread *t, uint32_t id)
{
    return follow(tree, t, id);
}

bool ft_thread_pop_to(struct ft_tree *tree, struct ft_tree_thread *t, uint32_t num_left)
{
    return pop_to(tree, t, num_left);
}

/* The function that a block begins, or is in the middle of. */
static uint32_t function_at(struct ft_tree *tree, uint32_t id)
{
    const struct ft_code *code = &tree->codes[id];
    return code->entered == FT_NONE && code->function != FT_NONE ? code->function : ft_function_of(tree, id);
}

bool ft_thread_begin(struct ft_tree *tree, struct ft_tree_thread *t, uint32_t function)
{
    bool folds;
    t->num_frames = t->num_saved = 0;
    const uint32_t node = ft_child_of(tree, t->root, 0, 0, function, FT_BASE, &folds);
    if (node == FT_NONE)
        return false;
    tree->nodes[node]->entries++;
    tree->events++;
    return stand(tree, t, node, 0);
}

/* Stands in the function of a block below the thread's root, and runs the block. */
static bool begin(struct ft_tree *tree, struct ft_tree_thread *t, uint32_t id)
{
    const uint32_t function = function_at(tree, id);
    return function != FT_NONE && ft_thread_begin(tree, t, function) && ft_thread_run(tree, t, id);
}

/* ---- where control goes ------------------------------------------------------------------------------------------- */

static bool has_block(const struct ft_tree *tree, uint32_t function, uint32_t id)
{
    const struct ft_function *f = &tree->functions[function];
    return tree->codes[id].address >= f->low && tree->codes[id].address < f->high;
}

/* How many frames are below the one of a function that ran a block before; FT_NONE if there is none. The function at
 * hand is left out. */
static uint32_t find_frame_that_ran(const struct ft_tree *tree, const struct ft_tree_thread *t, uint32_t id)
{
    for (uint32_t i = t->num_frames; i > 0 && t->num_frames - i < FRAMES_SEARCHED; i--)
        if (t->frames[i - 1].call != FT_SIGNAL &&
            ft_local_find(tree, tree->nodes[t->frames[i - 1].node]->function, id) != FT_NONE)
            return i - 1;
    return FT_NONE;
}

/* The same of a function that ran it, or else has blocks before and behind it. */
static uint32_t find_frame_with(const struct ft_tree *tree, const struct ft_tree_thread *t, uint32_t id)
{
    const uint32_t ran = find_frame_that_ran(tree, t, id);
    if (ran != FT_NONE)
        return ran;
    for (uint32_t i = t->num_frames; i > 0 && t->num_frames - i < FRAMES_SEARCHED; i--)
        if (t->frames[i - 1].call != FT_SIGNAL && has_block(tree, tree->nodes[t->frames[i - 1].node]->function, id))
            return i - 1;
    return FT_NONE;
}

/* The number of frames below the one whose call an exception left to continue at an address; FT_NONE if there is none.
 */
static uint32_t find_frame_that_lands(const struct ft_tree *tree, const struct ft_tree_thread *t, uint64_t pad)
{
    if (LIKELY(ft_table_find(&tree->landing_table, 0, pad) == FT_NONE))
        return FT_NONE;
    for (uint32_t i = t->num_frames; i > 0; i--)
        if (t->frames[i - 1].call == FT_CALL &&
            ft_table_find(&tree->landing_table, t->frames[i - 1].behind, pad) != FT_NONE)
            return i - 1;
    return FT_NONE;
}

/* Continues after an exception, in the function of a frame. */
static bool land(struct ft_tree *tree, struct ft_tree_thread *t, uint32_t frame, uint32_t id)
{
    tree->remarks.unwound++;
    return pop_to(tree, t, frame) && follow(tree, t, id);
}

/* What was called in place of the current function, or instead of all that is on the stack if that is nothing. */
static bool replace(struct ft_tree *tree, struct ft_tree_thread *t, uint32_t id)
{
    if (t->num_frames == 0)
        return begin(tree, t, id);
    const uint32_t function = function_at(tree, id);
    return function != FT_NONE && call(tree, t, function, id, FT_TAIL_CALL, 0);
}

static bool returns(struct ft_tree *tree, struct ft_tree_thread *t, uint32_t id)
{
    const uint64_t address = tree->codes[id].address;
    const uint32_t lands = find_frame_that_lands(tree, t, address);
    if (lands != FT_NONE)
        return land(tree, t, lands, id);
    uint32_t i = t->num_frames, top;
    while (i > 0 && t->num_frames - i < FRAMES_SEARCHED &&
           (t->frames[i - 1].call != FT_CALL || t->frames[i - 1].behind != address))
        i--;
    if (i > 0 && t->frames[i - 1].call == FT_CALL && t->frames[i - 1].behind == address) {
        for (top = t->num_frames; top > i && t->frames[top - 1].call == FT_TAIL_CALL; top--)
            ;
        tree->remarks.unwound += top > i;
        return pop_to(tree, t, i - 1) && follow(tree, t, id);
    }
    for (top = t->num_frames; top > 0 && t->frames[top - 1].call == FT_TAIL_CALL; top--)
        ;
    if (top > 0 && t->frames[top - 1].call == FT_SIGNAL) { /* to what ends the handler */
        t->frames[top - 1].restores = true;
        return jump(tree, t, id);
    }
    const uint32_t frame = find_frame_with(tree, t, id);
    if (frame != FT_NONE) {
        tree->remarks.unwound++;
        return pop_to(tree, t, frame) && jump(tree, t, id);
    }
    tree->remarks.resumed += top > 0;
    if (top == 0)
        t->num_frames = 0;
    return replace(tree, t, id);
}

/* Whether a block's end leads to another one by itself. */
static bool leads_to(const struct ft_code *code, const struct ft_code *next)
{
    switch (code->ending) {
    case FT_ENDING_JUMP: return next->address == code->target;
    case FT_ENDING_BRANCH: return next->address == code->target || next->address == code->end;
    case FT_ENDING_CALL: return !code->target || next->address == code->target;
    case FT_ENDING_INDIRECT_JUMP:
    case FT_ENDING_RETURN: return true;
    default: return next->address == code->end;
    }
}

/* The end of a signal's handler: goes on where it came. */
static bool restore(struct ft_tree *tree, struct ft_tree_thread *t, uint32_t id)
{
    uint32_t i = t->num_frames;
    while (i > 0 && t->frames[i - 1].call != FT_SIGNAL)
        i--;
    if (!pop_to(tree, t, i - 1))
        return false;
    const struct ft_code *code = &tree->codes[t->locals[t->current].id];
    return leads_to(code, &tree->codes[id]) ? step(tree, t, id) : jump(tree, t, id);
}

static bool is_restoring(const struct ft_tree_thread *t)
{
    for (uint32_t i = t->num_frames; i > 0; i--)
        if (t->frames[i - 1].call == FT_SIGNAL)
            return t->frames[i - 1].restores;
    return false;
}

/* A tail call of what a linkage table or the resolver jumps to: a function that begins there, wherever the block ran
 * before. */
static bool links(struct ft_tree *tree, struct ft_tree_thread *t, uint32_t id)
{
    const bool is_lazy = tree->codes[t->locals[t->current].id].linkage == FT_LINKAGE_LAZY;
    const uint32_t function = ft_function_of(tree, id);
    if (function == FT_NONE)
        return false;
    tree->functions[function].resolves |= is_lazy;
    return replace(tree, t, id);
}

static bool jumps_indirectly(struct ft_tree *tree, struct ft_tree_thread *t, uint32_t id)
{
    const struct ft_code *next = &tree->codes[id];
    const struct ft_function *f = &tree->functions[t->function];
    const uint32_t lands = find_frame_that_lands(tree, t, next->address);
    if (lands != FT_NONE)
        return land(tree, t, lands, id);
    if (f->resolves)
        return links(tree, t, id);
    if (ft_local_find(tree, t->function, id) != FT_NONE)
        return follow(tree, t, id);
    const bool is_far = next->address + FAR_BYTES < f->low || next->address > f->high + FAR_BYTES;
    const bool is_near = next->address >= f->low && next->address < f->high;
    if (!is_near && tree->codes[t->locals[t->current].id].linkage != FT_LINKAGE_NONE)
        return links(tree, t, id);
    if (!is_near && next->entered == FT_NONE && next->function != FT_NONE) {
        const uint32_t frame = find_frame_that_ran(tree, t, id);
        if (frame != FT_NONE) {
            tree->remarks.unwound++;
            return pop_to(tree, t, frame) && jump(tree, t, id);
        }
    }
    if (next->entered != FT_NONE || is_far || (f->num_locals == 1 && !is_near))
        return replace(tree, t, id);
    return follow(tree, t, id);
}

/* Anything but a step by a known edge, or a call or return. */
static bool go(struct ft_tree *tree, struct ft_tree_thread *t, uint32_t id)
{
    const struct ft_code *code = &tree->codes[t->locals[t->current].id], *next = &tree->codes[id];
    const bool repeats = next->address == code->last && code->end != code->last;
    if (repeats ||
        (next->address == code->end && code->ending != FT_ENDING_RETURN && code->ending != FT_ENDING_INDIRECT_JUMP))
        return follow(tree, t, id);
    if (!leads_to(code, next)) {
        if (is_restoring(t) && code->ending == FT_ENDING_SYSTEM_CALL)
            return restore(tree, t, id);
        if (next->address > code->address && next->address < code->end)
            return jump(tree, t, id); /* the engine begins the rest of a block again */
        const uint32_t function = ft_function_of(tree, id);
        tree->remarks.signals++;
        return function != FT_NONE && call(tree, t, function, id, FT_SIGNAL, 0);
    }
    switch (code->ending) {
    case FT_ENDING_CALL: {
        const uint32_t function = ft_function_of(tree, id);
        return function != FT_NONE && call(tree, t, function, id, FT_CALL, code->end);
    }
    case FT_ENDING_RETURN: return returns(tree, t, id);
    case FT_ENDING_INDIRECT_JUMP: return jumps_indirectly(tree, t, id);
    default:
        if (next->entered != FT_NONE && next->entered != t->function && ft_local_find(tree, t->function, id) == FT_NONE)
            return replace(tree, t, id);
        return follow(tree, t, id);
    }
}

/* ---- steps -------------------------------------------------------------------------------------------------------- */

static __attribute__((noinline)) bool wake(struct ft_tree *tree, struct ft_tree_thread *t, uint32_t id)
{
    tree->events++;
    if (tree->guest == FT_GUEST_NONE)
        return ft_bytecode_wake(tree, t, id);
    if (UNLIKELY(t->node == FT_NONE))
        return begin(tree, t, id);
    struct ft_local *local = &t->locals[t->current];
    const struct ft_code *code = &tree->codes[local->id];
    if (code->ending == FT_ENDING_RETURN && t->num_frames > 0) { /* the common case */
        const struct ft_frame *frame = &t->frames[t->num_frames - 1];
        if (LIKELY(frame->call == FT_CALL && frame->behind == tree->codes[id].address)) {
            if (!pop(tree, t) || !refresh(tree, t))
                return false;
            const struct ft_successor behind = t->locals[t->current].behind;
            return LIKELY(behind.id == id) ? arrive(tree, t, behind.local, behind.action) : follow(tree, t, id);
        }
    }
    if (code->ending == FT_ENDING_CALL && leads_to(code, &tree->codes[id]) && tree->codes[id].entered != FT_NONE &&
        tree->codes[id].address != code->end && tree->codes[id].address != code->last)
        return call(tree, t, tree->codes[id].entered, id, FT_CALL, code->end);
    return go(tree, t, id);
}

static inline bool step(struct ft_tree *tree, struct ft_tree_thread *t, uint32_t id)
{
    const struct ft_successor *successor = t->locals[t->current].successor;
    successor += successor->id != id;
    if (UNLIKELY(successor->id != id))
        return wake(tree, t, id);
    if (UNLIKELY(successor->action))
        return arrive(tree, t, successor->local, successor->action);
    t->current = successor->local;
    t->counts[successor->local]++;
    return true;
}

static struct ft_local nowhere[1]; /* where a thread stands before it runs */

bool ft_tree_step(struct ft_tree *tree, uint32_t id)
{
    return step(tree, tree->thread, tree->codes[id].canonical);
}

/* The edge from a block to another, if it is one of the two remembered and enters no loop. */
static inline bool leads_quietly(const struct ft_local *from, uint32_t id)
{
    const struct ft_successor *successor = from->successor;
    successor += successor->id != id;
    return successor->id == id && !successor->action;
}

/* The common case: the path was followed before in this function without waking, so that it is enough to count. Returns
 * how often. */
static inline uint64_t count_path(const struct ft_tree *tree, struct ft_tree_thread *t, const struct ft_tree_path *path,
                                  uint32_t number, uint64_t times)
{
    if (path->number < number || path->function != t->function ||
        path->version != tree->functions[t->function].version || !leads_quietly(&t->locals[t->current], path->ids[0]))
        return 0;
    const uint32_t last = path->locals[number - 1];
    if (times > 1 && !leads_quietly(&t->locals[last], path->ids[0]))
        times = 1;
    if (number == path->number) /* fewer counters to add to, and none twice in a row */
        for (uint32_t i = 0; i < path->num_distinct; i++)
            t->counts[path->distinct[i]] += path->weights[i] * times;
    else
        for (uint32_t i = 0; i < number; i++)
            t->counts[path->locals[i]] += times;
    t->current = last;
    return times;
}

/* Finds the local blocks of a path that are in it several times. */
static void count_distinct(struct ft_tree_path *path)
{
    path->num_distinct = 0;
    for (uint32_t i = 0; i < path->number; i++) {
        uint32_t j = 0;
        while (j < path->num_distinct && path->distinct[j] != path->locals[i])
            j++;
        if (j == path->num_distinct) {
            path->distinct[path->num_distinct++] = path->locals[i];
            path->weights[j] = 0;
        }
        path->weights[j]++;
    }
}

/* Follows a path once, and remembers whether that took no waking but for its first block. */
static bool follow_path(struct ft_tree *tree, struct ft_tree_thread *t, struct ft_tree_path *path, uint32_t number)
{
    uint64_t events = 0, seen = UINT64_MAX; /* wakings after the first block, and before the last one */
    uint32_t context = FT_TREE_MIXED;
    path->number = 0;
    path->context = FT_TREE_MIXED;
    for (uint32_t i = 0; i < number; i++) {
        if (!step(tree, t, path->ids[i]))
            return false;
        events = i ? events : tree->events;
        path->locals[i] = t->current;
        if (tree->events != seen) { /* else the thread stands in the same node */
            seen = tree->events;
            context = tree->nodes[t->node]->context;
        }
        path->contexts[i] = context;
    }
    if (tree->events == events) {
        path->context = tree->nodes[t->node]->context;
        path->number = number;
        path->function = t->function;
        path->version = tree->functions[t->function].version;
        count_distinct(path);
    }
    return true;
}

uint64_t ft_tree_follow(struct ft_tree *tree, struct ft_tree_path *path, uint32_t number, uint64_t times)
{
    struct ft_tree_thread *t = tree->thread;
    const uint64_t counted = count_path(tree, t, path, number, times);
    if (!counted)
        return follow_path(tree, t, path, number);
    path->context = tree->nodes[t->node]->context;
    return counted;
}

bool ft_tree_steps(struct ft_tree *tree, struct ft_tree_path *path, uint32_t number, uint64_t times)
{
    for (uint64_t done; times > 0; times -= done)
        if (!(done = ft_tree_follow(tree, path, number, times)))
            return false;
    return true;
}

uint32_t ft_tree_context(const struct ft_tree *tree, uint32_t *local)
{
    const struct ft_tree_thread *t = tree->thread;
    *local = t->current;
    return tree->nodes[t->node == FT_NONE ? t->root : t->node]->context;
}

uint64_t ft_tree_caller(const struct ft_tree *tree, uint32_t context, uint32_t *caller)
{
    const struct ft_tree_context *of = &tree->contexts[context];
    *caller = of->caller;
    return of->function == FT_NONE ? 0 : tree->codes[tree->functions[of->function].entry].address;
}

uint32_t ft_tree_loop_at(const struct ft_tree *tree, uint32_t context, uint32_t local, uint64_t address)
{
    const uint32_t function = tree->contexts[context].function;
    if (function == FT_NONE || local >= tree->functions[function].num_locals)
        return 0;
    const struct ft_local *locals = tree->functions[function].locals;
    while (locals[local].next != FT_NONE && tree->codes[locals[locals[local].next].id].address <= address)
        local = locals[local].next;
    return locals[local].loop + 1; /* FT_NONE becomes 0 */
}

uint64_t ft_tree_loops_known(const struct ft_tree *tree)
{
    return tree->loops_known;
}

uint32_t ft_tree_canonical(const struct ft_tree *tree, uint32_t id)
{
    return id <= tree->num_codes ? tree->codes[id].canonical : id;
}

/* ---- threads, beginning and end ------------------------------------------------------------------------------------- */

static struct ft_tree_thread *add_thread(struct ft_tree *tree, uint32_t number, uint64_t position)
{
    struct ft_tree_thread *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    *t = (struct ft_tree_thread){
        .number = number, .first = position, .last = position, .node = FT_NONE, .locals = nowhere};
    t->root = ft_root_new(tree, number);
    if (t->root == FT_NONE) {
        free(t);
        return NULL;
    }
    tree->nodes[t->root]->entries = 1;
    tree->threads[number] = t;
    tree->num_threads = number > tree->num_threads ? number : tree->num_threads;
    return t;
}

bool ft_tree_switch(struct ft_tree *tree, uint32_t number, uint64_t position)
{
    if (tree->thread)
        tree->thread->last = position;
    if (tree->thread && tree->thread->number == number)
        return true;
    if (!ft_reserve(&tree->threads, &tree->threads_capacity, number, sizeof(struct ft_tree_thread *)))
        return false;
    struct ft_tree_thread *t = tree->threads[number];
    tree->thread = t ? t : add_thread(tree, number, position);
    return tree->thread && (tree->thread->node == FT_NONE || refresh(tree, tree->thread));
}

bool ft_tree_finish(struct ft_tree *tree, uint64_t position)
{
    if (tree->thread)
        tree->thread->last = position;
    for (uint32_t i = 1; i <= tree->num_threads; i++) {
        struct ft_tree_thread *t = tree->threads[i];
        while (t && t->num_frames > 0)
            if (!pop(tree, t))
                return false;
    }
    for (uint32_t i = 0; i < tree->num_nodes; i++) {
        const struct ft_node *node = tree->nodes[i];
        for (uint32_t slot = 0; slot < node->loops_capacity && node->function != FT_NONE; slot++)
            if (slot < tree->functions[node->function].num_loops &&
                !ft_loop_close(&tree->functions[node->function], node, slot))
                return false;
    }
    return ft_waits_finish(tree);
}

struct ft_tree *ft_tree_new(enum ft_guest guest, uint32_t max_nodes)
{
    struct ft_tree *tree = calloc(1, sizeof *tree);
    if (tree) {
        tree->guest = guest;
        tree->max_nodes = max_nodes;
    }
    return tree;
}

bool ft_tree_is_python(const struct ft_tree *tree)
{
    return tree->guest == FT_GUEST_NONE;
}

void ft_tree_free(struct ft_tree *tree)
{
    if (!tree)
        return;
    for (uint32_t i = 0; i < tree->num_functions; i++) {
        struct ft_function *f = &tree->functions[i];
        free(f->locals);
        free(f->edges);
        free(f->loops);
        free(f->cover);
        free(f->actions);
    }
    for (uint32_t i = 0; i < tree->num_nodes; i++)
        ft_node_free(tree->nodes[i]);
    for (uint32_t i = 1; i <= tree->num_threads; i++)
        if (tree->threads[i]) {
            free(tree->threads[i]->frames);
            free(tree->threads[i]->saved);
            free(tree->threads[i]);
        }
    free(tree->codes);
    free(tree->code_table.entries);
    free(tree->functions);
    free(tree->local_table.entries);
    free(tree->edge_table.entries);
    free(tree->child_table.entries);
    free(tree->landing_table.entries);
    free(tree->contexts);
    free(tree->nodes);
    free(tree->threads);
    ft_waits_free(tree->waits);
    free(tree);
}

struct ft_tree_remarks ft_tree_remarks(const struct ft_tree *tree)
{
    return tree->remarks;
}
