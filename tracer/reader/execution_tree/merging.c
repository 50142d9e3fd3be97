/* Keeps the tree within its bounds: contexts with the least executions below them are given up, all at once, until
 * about half are left. What they counted goes to one node of their function, below the root of their thread. See
 * parts.h. */
#include "parts.h"

#include <stdlib.h>
#include <string.h>

#define SITE_MERGED (UINT64_C(3) << 62)

static int compare(const void *one, const void *other)
{
    const uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;
    return a < b ? -1 : a > b;
}

static void mark_active(const struct ft_tree *tree, bool *stays, uint32_t node)
{
    for (; node != FT_NONE && !stays[node]; node = tree->nodes[node]->parent)
        stays[node] = true;
}

/* Marks what is on a stack, roots, and nodes of merged contexts. */
static void mark_kept(const struct ft_tree *tree, bool *stays)
{
    for (uint32_t i = 0; i < tree->num_nodes; i++)
        if (tree->nodes[i]->is_merged || tree->nodes[i]->function == FT_NONE)
            mark_active(tree, stays, i);
    for (uint32_t i = 1; i <= tree->num_threads; i++) {
        const struct ft_tree_thread *t = tree->threads[i];
        if (!t)
            continue;
        mark_active(tree, stays, t->node);
        for (uint32_t j = 0; j < t->num_frames; j++)
            mark_active(tree, stays, t->frames[j].node);
    }
}

/* Executions of blocks in each node and all below it. */
static void sum_up(const struct ft_tree *tree, uint64_t *below)
{
    for (uint32_t i = tree->num_nodes; i-- > 0;) {
        const struct ft_node *node = tree->nodes[i];
        for (uint32_t local = 0; local < node->counts_capacity; local++)
            below[i] += node->counts[local];
        if (node->parent != FT_NONE)
            below[node->parent] += below[i];
    }
}

static bool add_loop_state(struct ft_loop_state *to, const struct ft_loop_state *from)
{
    if (!from->entries)
        return true;
    to->rank = to->entries && to->rank < from->rank ? to->rank : from->rank;
    to->entries += from->entries;
    if (!from->recorded)
        return true;
    if (to->distribution && to->recorded)
        to->distribution->is_ordered = false;
    if (!from->distribution)
        return (from->least == 0 || from->iterations == from->least * from->recorded) &&
               ft_loop_record(to, from->least, from->recorded);
    if (!ft_loop_distribute(to))
        return false;
    to->distribution->is_ordered = false;
    ft_places_join(to->distribution, from->distribution);
    for (uint32_t bucket = 0; bucket < FT_BUCKETS; bucket++)
        to->distribution->buckets[bucket] += from->distribution->buckets[bucket];
    to->least = to->recorded && to->least < from->least ? to->least : from->least;
    to->most = to->most > from->most ? to->most : from->most;
    to->recorded += from->recorded;
    to->iterations += from->iterations;
    return true;
}

/* The node that the contexts of a function are merged into. FT_NONE when memory ran out. */
static uint32_t merged_node(struct ft_tree *tree, const struct ft_node *node)
{
    bool folds;
    const uint32_t root = tree->threads[node->thread]->root;
    const uint32_t merged = ft_child_of(tree, root, SITE_MERGED, 0, node->function, FT_BASE, &folds);
    if (merged != FT_NONE)
        tree->nodes[merged]->is_merged = true;
    return merged;
}

static bool merge(struct ft_tree *tree, uint32_t number)
{
    struct ft_node *node = tree->nodes[number];
    const struct ft_function *f = &tree->functions[node->function];
    const uint32_t merged = merged_node(tree, node);
    if (merged == FT_NONE || !ft_node_fit(tree, merged) || !ft_node_fit_loops(tree, tree->nodes[merged]))
        return false;
    struct ft_node *into = tree->nodes[merged];
    for (uint32_t slot = 0; slot < f->num_loops && slot < node->loops_capacity; slot++)
        if (!ft_loop_close(f, node, slot) || !ft_loop_close(f, into, slot) ||
            !add_loop_state(&into->loops[slot], &node->loops[slot]))
            return false;
    for (uint32_t local = 0; local < f->num_locals && local < node->counts_capacity; local++)
        into->counts[local] += node->counts[local];
    if (node->told_capacity && !ft_node_fit_told(tree, merged))
        return false;
    for (uint32_t local = 0; local < f->num_locals && local < node->told_capacity; local++)
        into->told[local] += node->told[local];
    tree->contexts[node->context].into = into->context;
    into->entries += node->entries;
    into->recursive_entries += node->recursive_entries;
    into->most_depth = node->most_depth > into->most_depth ? node->most_depth : into->most_depth;
    into->rank = node->rank < into->rank ? node->rank : into->rank;
    return true;
}

/* Gives the nodes that stay new numbers, in the same order. */
static bool renumber(struct ft_tree *tree, const bool *stays, uint32_t num_marked)
{
    uint32_t *number = malloc((tree->num_nodes + 1) * sizeof *number);
    if (!number)
        return false;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < tree->num_nodes; i++)
        number[i] = i >= num_marked || stays[i] ? kept++ : FT_NONE;
    struct ft_table children = {0};
    bool done = true;
    for (uint64_t i = 0; i < tree->child_table.capacity && done; i++) {
        const struct ft_table_entry *entry = &tree->child_table.entries[i];
        const uint32_t parent = (uint32_t)(entry->a >> 32) - 1;
        if ((entry->a | entry->b) && number[parent] != FT_NONE && number[entry->value] != FT_NONE)
            done = ft_table_put(&children, (uint64_t)(number[parent] + 1) << 32 | (uint32_t)entry->a, entry->b,
                                number[entry->value]);
    }
    free(tree->child_table.entries);
    tree->child_table = children;
    for (uint32_t i = 0; i < tree->num_functions; i++)
        tree->functions[i].nodes = FT_NONE;
    for (uint32_t i = 0; i < tree->num_nodes; i++) {
        struct ft_node *node = tree->nodes[i];
        if (number[i] == FT_NONE) {
            ft_node_free(node);
            continue;
        }
        node->parent = node->parent == FT_NONE ? FT_NONE : number[node->parent];
        node->last_child = FT_NONE;
        node->next = FT_NONE;
        if (node->function != FT_NONE) {
            node->next = tree->functions[node->function].nodes;
            tree->functions[node->function].nodes = number[i];
        }
        tree->nodes[number[i]] = node;
    }
    tree->num_nodes = kept;
    for (uint32_t i = 1; i <= tree->num_threads; i++) {
        struct ft_tree_thread *t = tree->threads[i];
        if (!t)
            continue;
        t->root = number[t->root];
        t->node = t->node == FT_NONE ? FT_NONE : number[t->node];
        for (uint32_t j = 0; j < t->num_frames; j++)
            t->frames[j].node = number[t->frames[j].node];
        for (uint32_t j = 0; j < t->num_saved; j++)
            t->saved[j].node = number[t->saved[j].node];
    }
    done = done && ft_waits_renumber(tree, number);
    free(number);
    return done;
}

/* What executions a node that is given up has at most: half of all nodes that may be have no more. */
static uint64_t threshold(const struct ft_tree *tree, const bool *stays, const uint64_t *below, uint64_t *sorted)
{
    uint32_t number = 0;
    for (uint32_t i = 0; i < tree->num_nodes; i++)
        if (!stays[i])
            sorted[number++] = below[i];
    qsort(sorted, number, sizeof *sorted, compare);
    return number ? sorted[number / 2] : 0;
}

bool ft_nodes_merge(struct ft_tree *tree)
{
    const uint32_t num_nodes = tree->num_nodes;
    bool *stays = calloc(num_nodes, sizeof *stays);
    uint64_t *below = calloc(2 * (size_t)num_nodes, sizeof *below);
    bool done = stays && below;
    if (done) {
        mark_kept(tree, stays);
        sum_up(tree, below);
        const uint64_t most = threshold(tree, stays, below, below + num_nodes);
        for (uint32_t i = 0; i < num_nodes && done; i++) {
            stays[i] = stays[i] || below[i] > most;
            if (!stays[i]) {
                done = merge(tree, i);
                tree->remarks.merged_contexts++;
            }
        }
        done = done && renumber(tree, stays, num_nodes);
    }
    free(stays);
    free(below);
    if (tree->num_nodes > tree->max_nodes / 4 * 3) /* what is left is on stacks, or merged already */
        tree->max_nodes = tree->num_nodes / 3 * 4 + 8;
    return done;
}
