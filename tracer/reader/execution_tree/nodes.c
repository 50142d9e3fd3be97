/* The nodes of the tree: functions in their calling contexts. See parts.h. */
#include "parts.h"

#include <stdlib.h>

struct ft_node *ft_node_at(const struct ft_tree *tree, uint32_t node)
{
    return tree->nodes[node];
}

/* FT_NONE when memory ran out. */
static uint32_t add_node(struct ft_tree *tree, struct ft_node like)
{
    const uint32_t number = tree->num_nodes;
    const uint32_t context = tree->num_contexts;
    struct ft_node *node = malloc(sizeof *node);
    if (!node || !ft_reserve(&tree->nodes, &tree->nodes_capacity, number, sizeof(struct ft_node *)) ||
        !ft_reserve(&tree->contexts, &tree->contexts_capacity, context, sizeof *tree->contexts)) {
        free(node);
        return FT_NONE;
    }
    *node = like;
    node->context = context;
    const uint32_t caller = like.parent == FT_NONE ? FT_NONE : tree->nodes[like.parent]->context;
    tree->contexts[context] = (struct ft_tree_context){like.function, caller, context};
    tree->num_contexts++;
    node->next = FT_NONE;
    node->last_child = FT_NONE;
    node->rank = ++tree->clock;
    if (like.function != FT_NONE) {
        struct ft_function *function = &tree->functions[like.function];
        node->next = function->nodes;
        function->nodes = number;
    }
    tree->nodes[number] = node;
    tree->num_nodes++;
    return number;
}

uint32_t ft_root_new(struct ft_tree *tree, uint32_t thread)
{
    return add_node(tree, (struct ft_node){.parent = FT_NONE, .function = FT_NONE, .thread = thread, .call = FT_BASE});
}

void ft_node_free(struct ft_node *node)
{
    for (uint32_t slot = 0; slot < node->loops_capacity; slot++)
        free(node->loops[slot].distribution);
    free(node->loops);
    free(node->counts);
    free(node->told);
    free(node);
}

/* The node, or the next one above it, of a function; FT_NONE if there is none. What was left by a tail call is over: it
 * is none, unless by tail calls alone up to another one, or those in turn would have no end of nodes. */
static uint32_t ancestor_of(const struct ft_tree *tree, uint32_t node, uint32_t function, enum ft_tree_call call)
{
    bool is_over = false, only_tail_calls = call == FT_TAIL_CALL;
    while (node != FT_NONE && (tree->nodes[node]->function != function || is_over)) {
        only_tail_calls = only_tail_calls && tree->nodes[node]->call == FT_TAIL_CALL;
        is_over = !only_tail_calls && tree->nodes[node]->call == FT_TAIL_CALL;
        node = tree->nodes[node]->parent;
    }
    return node;
}

static uint32_t find_or_add_child(struct ft_tree *tree, uint32_t parent, uint64_t site, uint32_t site_block,
                                  uint32_t function, enum ft_tree_call call)
{
    const uint64_t a = (uint64_t)(parent + 1) << 32 | function;
    uint32_t child = ft_table_find(&tree->child_table, a, site);
    if (child != FT_NONE)
        return child;
    child = ancestor_of(tree, parent, function, call);
    if (child == FT_NONE)
        child = add_node(tree, (struct ft_node){.parent = parent,
                                                .function = function,
                                                .site = site_block,
                                                .thread = tree->nodes[parent]->thread,
                                                .call = (uint8_t)call});
    if (child == FT_NONE || !ft_table_put(&tree->child_table, a, site, child))
        return FT_NONE;
    return child;
}

uint32_t ft_child_of(struct ft_tree *tree, uint32_t parent, uint64_t site, uint32_t site_block, uint32_t function,
                     enum ft_tree_call call, bool *folds)
{
    struct ft_node *node = tree->nodes[parent];
    uint32_t child = node->last_child;
    if (UNLIKELY(node->last_site != site || node->last_function != function || child == FT_NONE)) {
        child = find_or_add_child(tree, parent, site, site_block, function, call);
        if (child == FT_NONE)
            return FT_NONE;
        node->last_site = site;
        node->last_function = function;
        node->last_child = child;
    }
    *folds = tree->nodes[child]->parent != parent;
    return child;
}

bool ft_node_fit(struct ft_tree *tree, uint32_t number)
{
    struct ft_node *node = tree->nodes[number];
    const struct ft_function *function = &tree->functions[node->function];
    return ft_reserve(&node->counts, &node->counts_capacity, function->num_locals - 1, sizeof *node->counts);
}

bool ft_node_fit_loops(struct ft_tree *tree, struct ft_node *node)
{
    const struct ft_function *function = &tree->functions[node->function];
    return function->num_loops == 0 ||
           ft_reserve(&node->loops, &node->loops_capacity, function->num_loops - 1, sizeof *node->loops);
}

uint64_t ft_header_count(const struct ft_function *function, const struct ft_node *node, uint32_t slot)
{
    const struct ft_tree_loop *loop = &function->loops[slot];
    uint64_t executions = 0;
    for (uint32_t i = 0; i < loop->num_cover; i++) {
        const uint32_t local = function->cover[loop->first_cover + i];
        executions += local < node->counts_capacity ? node->counts[local] : 0;
    }
    return executions;
}

uint64_t ft_loop_place(const struct ft_function *function, const struct ft_node *node, uint32_t slot)
{
    const uint32_t around = function->loops[slot].parent;
    if (around == FT_NONE || around >= node->loops_capacity)
        return 0;
    const uint64_t executions = ft_header_count(function, node, around), start = node->loops[around].start;
    return executions > start ? executions - start - 1 : 0;
}

static uint32_t bucket_of(uint64_t iterations)
{
    return iterations ? 64 - (uint32_t)__builtin_clzll(iterations) : 0;
}

/* Twice as long stretches: half as many. */
static void lengthen_stretches(struct ft_distribution *distribution)
{
    uint64_t *stretches = distribution->stretches;
    for (uint32_t i = 0; i < FT_STRETCHES; i++)
        stretches[i] = i < FT_STRETCHES / 2 ? stretches[2 * i] + stretches[2 * i + 1] : 0;
    distribution->shift++;
}

/* One entry more, in order. */
static inline void add_to_stretches(struct ft_distribution *distribution, uint64_t iterations)
{
    if (UNLIKELY(distribution->recorded >> distribution->shift == FT_STRETCHES))
        lengthen_stretches(distribution);
    distribution->stretches[distribution->recorded++ >> distribution->shift] += iterations;
}

/* Places that are twice as long: half as many. */
static void lengthen_places(struct ft_distribution *distribution)
{
    struct ft_place *places = distribution->places;
    for (uint32_t i = 0; i < FT_STRETCHES; i++) {
        const struct ft_place none = {0}, *pair = i < FT_STRETCHES / 2 ? &places[2 * i] : NULL;
        places[i] =
            pair ? (struct ft_place){pair[0].entries + pair[1].entries, pair[0].iterations + pair[1].iterations} : none;
    }
    distribution->place_shift++;
}

void ft_places_add(struct ft_distribution *distribution, uint64_t place, struct ft_place more)
{
    while (UNLIKELY(place >> distribution->place_shift >= FT_STRETCHES))
        lengthen_places(distribution);
    struct ft_place *found = &distribution->places[place >> distribution->place_shift];
    found->entries += more.entries;
    found->iterations += more.iterations;
}

void ft_places_join(struct ft_distribution *to, const struct ft_distribution *from)
{
    while (to->place_shift < from->place_shift)
        lengthen_places(to);
    for (uint64_t i = 0; i < FT_STRETCHES; i++)
        if (from->places[i].entries)
            ft_places_add(to, i << from->place_shift, from->places[i]);
}

/* Entries that are alike: nobody knows where they were, and they count as those of the first iterations, one each. */
static void add_alike(struct ft_distribution *distribution, uint64_t entries, uint64_t iterations)
{
    if (entries > INT64_MAX) /* taken back: counts go below 0 where a loop is found late, places cannot */
        return;
    uint32_t shift = distribution->place_shift;
    while (entries > (uint64_t)FT_STRETCHES << shift)
        shift++;
    for (uint64_t place = 0, left = entries; left > 0; place++) {
        const uint64_t some = left >> shift ? UINT64_C(1) << shift : left;
        ft_places_add(distribution, place << shift, (struct ft_place){some, some * iterations});
        left -= some;
    }
}

/* What all entries so far, which were alike, come to. */
static struct ft_distribution *new_distribution(const struct ft_loop_state *state)
{
    struct ft_distribution *distribution = calloc(1, sizeof *distribution);
    if (!distribution)
        return NULL;
    const uint32_t before = bucket_of(state->least);
    distribution->buckets[before < FT_BUCKETS ? before : FT_BUCKETS - 1] = state->recorded;
    distribution->is_ordered = true;
    while (state->recorded > (uint64_t)FT_STRETCHES << distribution->shift)
        distribution->shift++;
    for (uint64_t left = state->recorded, i = 0; left > 0; i++) {
        const uint64_t entries = left >> distribution->shift ? UINT64_C(1) << distribution->shift : left;
        distribution->stretches[i] = entries * state->least;
        left -= entries;
    }
    distribution->recorded = state->recorded;
    add_alike(distribution, state->recorded, state->least);
    return distribution;
}

bool ft_loop_distribute(struct ft_loop_state *state)
{
    state->distribution = state->distribution ? state->distribution : new_distribution(state);
    return state->distribution;
}

bool ft_loop_record(struct ft_loop_state *state, uint64_t iterations, uint64_t times)
{
    const bool is_first = state->recorded == 0;
    if (!is_first && !state->distribution && (iterations != state->least || iterations != state->most) &&
        !ft_loop_distribute(state))
        return false;
    state->least = is_first || iterations < state->least ? iterations : state->least;
    state->most = iterations > state->most ? iterations : state->most;
    state->iterations += iterations * times;
    state->recorded += times;
    const uint32_t bucket = bucket_of(iterations);
    if (state->distribution) {
        state->distribution->buckets[bucket < FT_BUCKETS ? bucket : FT_BUCKETS - 1] += times;
        if (times == 1) {
            add_to_stretches(state->distribution, iterations);
            ft_places_add(state->distribution, state->place, (struct ft_place){1, iterations});
        } else {
            state->distribution->is_ordered = false;
            add_alike(state->distribution, times, iterations);
        }
    }
    return true;
}

bool ft_loop_close(const struct ft_function *function, const struct ft_node *node, uint32_t slot)
{
    struct ft_loop_state *state = &node->loops[slot];
    if (!state->pending)
        return true;
    state->pending = false;
    return ft_loop_record(state, ft_header_count(function, node, slot) - state->start, 1);
}
