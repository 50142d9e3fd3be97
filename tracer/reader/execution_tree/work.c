/* What ran between two moments: differences of the nodes' counters. See parts.h. */
#include "parts.h"

#include <stdlib.h>
#include <string.h>

bool ft_node_fit_told(struct ft_tree *tree, uint32_t number)
{
    struct ft_node *node = tree->nodes[number];
    return node->counts_capacity == 0 ||
           ft_reserve(&node->told, &node->told_capacity, node->counts_capacity - 1, sizeof *node->told);
}

/* The counters of a node that have changed, as rows behind others; with `rows` NULL, how many there are. */
static uint64_t changes(const struct ft_tree *tree, const struct ft_node *node, struct ft_tree_work *rows)
{
    const uint32_t num_locals = node->function == FT_NONE ? 0 : tree->functions[node->function].num_locals;
    uint64_t number = 0;
    for (uint32_t local = 0; local < num_locals && local < node->counts_capacity; local++) {
        const uint64_t before = local < node->told_capacity ? node->told[local] : 0;
        if (node->counts[local] == before)
            continue;
        if (rows) {
            rows[number] = (struct ft_tree_work){node->context, local, node->counts[local] - before};
            node->told[local] = node->counts[local];
        }
        number++;
    }
    return number;
}

/* Nodes are in the order of their contexts' numbers. */
bool ft_tree_work(struct ft_tree *tree, struct ft_tree_works *works)
{
    uint64_t number = 0;
    for (uint32_t i = 0; i < tree->num_nodes; i++) {
        const uint64_t more = changes(tree, tree->nodes[i], NULL);
        if (more && !ft_node_fit_told(tree, i))
            return false;
        number += more;
    }
    *works = (struct ft_tree_works){malloc((number + 1) * sizeof *works->rows), 0};
    for (uint32_t i = 0; i < tree->num_nodes && works->rows; i++)
        works->number += changes(tree, tree->nodes[i], works->rows + works->number);
    return works->rows;
}

static bool is_before(const struct ft_tree_work *left, const struct ft_tree_work *right)
{
    return left->context != right->context ? left->context < right->context : left->local < right->local;
}

bool ft_tree_join_works(struct ft_tree_works *before, struct ft_tree_works *after)
{
    struct ft_tree_work *rows = malloc((before->number + after->number + 1) * sizeof *rows);
    uint64_t i = 0, j = 0, number = 0;
    if (!rows)
        return false;
    while (i < before->number || j < after->number) {
        const struct ft_tree_work *one = &before->rows[i], *other = &after->rows[j];
        if (j == after->number || (i < before->number && is_before(one, other))) {
            rows[number++] = *one;
            i++;
            continue;
        }
        rows[number] = *other;
        if (i < before->number && !is_before(other, one))
            rows[number].executions += before->rows[i++].executions;
        number++;
        j++;
    }
    free(before->rows);
    free(after->rows);
    *before = (struct ft_tree_works){0};
    *after = (struct ft_tree_works){rows, number};
    return true;
}

uint32_t ft_tree_work_block(const struct ft_tree *tree, const struct ft_tree_work *row)
{
    return tree->functions[tree->contexts[row->context].function].locals[row->local].id;
}
