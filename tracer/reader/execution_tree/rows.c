/* What the tree holds, as tables of numbers. See tree.h. */
#include "parts.h"

#include <string.h>

uint64_t ft_tree_nodes(const struct ft_tree *tree, uint64_t *out)
{
    for (uint32_t i = 0; i < tree->num_nodes && out; i++, out += FT_TREE_NODE_COLUMNS) {
        const struct ft_node *node = tree->nodes[i];
        out[0] = node->parent == FT_NONE ? UINT64_MAX : node->parent;
        out[1] = node->function == FT_NONE ? 0 : tree->functions[node->function].entry;
        out[2] = node->site;
        out[3] = node->call;
        out[4] = node->entries;
        out[5] = node->recursive_entries;
        out[6] = node->most_depth;
        out[7] = node->rank;
        out[8] = node->thread;
        out[9] = node->is_merged;
    }
    return tree->num_nodes;
}

uint64_t ft_tree_counts(const struct ft_tree *tree, uint64_t *out)
{
    uint64_t rows = 0;
    for (uint32_t i = 0; i < tree->num_nodes; i++) {
        const struct ft_node *node = tree->nodes[i];
        const uint32_t num_locals = node->function == FT_NONE ? 0 : tree->functions[node->function].num_locals;
        for (uint32_t local = 0; local < num_locals && local < node->counts_capacity; local++) {
            if (!node->counts[local])
                continue;
            rows++;
            if (out) {
                *out++ = i;
                *out++ = tree->functions[node->function].locals[local].id;
                *out++ = node->counts[local];
            }
        }
    }
    return rows;
}

uint64_t ft_tree_contexts(const struct ft_tree *tree, uint32_t *out)
{
    for (uint32_t i = 0; i < tree->num_contexts && out; i++)
        out[i] = FT_NONE;
    for (uint32_t i = 0; i < tree->num_nodes && out; i++)
        out[tree->nodes[i]->context] = i;
    for (uint32_t i = 0; i < tree->num_contexts && out; i++) {
        uint32_t context = i;
        while (tree->contexts[context].into != context)
            context = tree->contexts[context].into;
        out[i] = out[context];
    }
    return tree->num_contexts;
}

/* The distribution's share in a bucket. */
static uint64_t in_bucket(const struct ft_loop_state *state, uint32_t bucket)
{
    if (state->distribution)
        return state->distribution->buckets[bucket];
    const uint32_t only = state->least ? 64 - (uint32_t)__builtin_clzll(state->least) : 0;
    return bucket == (only < FT_BUCKETS ? only : FT_BUCKETS - 1) ? state->recorded : 0;
}

uint64_t ft_tree_loops(const struct ft_tree *tree, uint64_t *out)
{
    uint64_t rows = 0;
    for (uint32_t i = 0; i < tree->num_nodes; i++) {
        const struct ft_node *node = tree->nodes[i];
        for (uint32_t slot = 0; slot < node->loops_capacity; slot++) {
            const struct ft_loop_state *state = &node->loops[slot];
            if (!state->entries)
                continue;
            rows++;
            if (!out)
                continue;
            const struct ft_function *f = &tree->functions[node->function];
            const uint64_t row[FT_TREE_LOOP_COLUMNS] = {i,
                                                        f->locals[f->loops[slot].header].id,
                                                        state->entries,
                                                        state->iterations,
                                                        state->least,
                                                        state->most,
                                                        state->rank,
                                                        f->loops[slot].is_estimated || !f->loops[slot].alive};
            for (uint32_t j = 0; j < FT_TREE_LOOP_COLUMNS; j++)
                *out++ = row[j];
        }
    }
    return rows;
}

uint64_t ft_tree_histograms(const struct ft_tree *tree, uint64_t *out)
{
    uint64_t rows = 0;
    for (uint32_t i = 0; i < tree->num_nodes; i++) {
        const struct ft_node *node = tree->nodes[i];
        for (uint32_t slot = 0; slot < node->loops_capacity; slot++) {
            const struct ft_function *f = &tree->functions[node->function];
            for (uint32_t bucket = 0; bucket < FT_BUCKETS && node->loops[slot].entries; bucket++) {
                const uint64_t entries = in_bucket(&node->loops[slot], bucket);
                rows += entries != 0;
                if (entries && out) {
                    *out++ = i;
                    *out++ = f->locals[f->loops[slot].header].id;
                    *out++ = bucket;
                    *out++ = entries;
                }
            }
        }
    }
    return rows;
}

static uint64_t stretches_of(const struct ft_distribution *distribution, uint64_t node, uint64_t header, uint64_t *out)
{
    const uint64_t length = UINT64_C(1) << distribution->shift;
    uint64_t rows = 0;
    for (uint64_t begin = 0; begin < distribution->recorded; begin += length, rows++)
        if (out) {
            *out++ = node;
            *out++ = header;
            *out++ = distribution->recorded - begin < length ? distribution->recorded - begin : length;
            *out++ = distribution->stretches[rows];
        }
    return rows;
}

static uint64_t places_of(const struct ft_distribution *distribution, uint64_t node, uint64_t header, uint64_t *out)
{
    uint64_t rows = FT_STRETCHES;
    while (rows > 0 && !distribution->places[rows - 1].entries)
        rows--;
    for (uint64_t i = 0; i < rows && out; i++) {
        const uint64_t row[] = {node, header, UINT64_C(1) << distribution->place_shift, distribution->places[i].entries,
                                distribution->places[i].iterations};
        memcpy(out + 5 * i, row, sizeof row);
    }
    return rows;
}

/* Of each loop whose entries differ, and are known. */
static uint64_t distributions(const struct ft_tree *tree, bool in_order, uint64_t *out)
{
    uint64_t rows = 0;
    for (uint32_t i = 0; i < tree->num_nodes; i++) {
        const struct ft_node *node = tree->nodes[i];
        for (uint32_t slot = 0; slot < node->loops_capacity; slot++) {
            const struct ft_distribution *distribution = node->loops[slot].distribution;
            const struct ft_function *f = &tree->functions[node->function];
            if (!node->loops[slot].entries || !distribution || f->loops[slot].is_estimated || !f->loops[slot].alive ||
                (in_order ? !distribution->is_ordered : f->loops[slot].parent == FT_NONE))
                continue;
            const uint64_t header = f->locals[f->loops[slot].header].id;
            rows += in_order ? stretches_of(distribution, i, header, out ? out + 4 * rows : NULL)
                             : places_of(distribution, i, header, out ? out + 5 * rows : NULL);
        }
    }
    return rows;
}

uint64_t ft_tree_stretches(const struct ft_tree *tree, uint64_t *out)
{
    return distributions(tree, true, out);
}

uint64_t ft_tree_places(const struct ft_tree *tree, uint64_t *out)
{
    return distributions(tree, false, out);
}

uint64_t ft_tree_threads(const struct ft_tree *tree, uint64_t *out)
{
    uint64_t rows = 0;
    for (uint32_t i = 1; i <= tree->num_threads; i++) {
        const struct ft_tree_thread *t = tree->threads[i];
        if (!t)
            continue;
        rows++;
        if (out) {
            *out++ = t->number;
            *out++ = t->root;
            *out++ = t->first;
            *out++ = t->last;
        }
    }
    return rows;
}
