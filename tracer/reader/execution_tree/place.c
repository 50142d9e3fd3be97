/* Where the program stands while the tree is built. See tree.h. */
#include "parts.h"

uint32_t ft_tree_depth(const struct ft_tree *tree)
{
    return tree->thread ? tree->thread->num_frames : 0;
}

static const struct ft_node *node_in(const struct ft_tree *tree, uint32_t depth)
{
    const struct ft_tree_thread *t = tree->thread;
    return tree->nodes[depth == t->num_frames ? t->node : t->frames[depth].node];
}

uint64_t ft_tree_iterations(const struct ft_tree *tree, uint32_t depth, uint32_t slot)
{
    const struct ft_node *node = node_in(tree, depth);
    return ft_header_count(&tree->functions[node->function], node, slot);
}

bool ft_tree_stands_in(const struct ft_tree *tree, uint32_t depth, struct ft_tree_place *place)
{
    const struct ft_tree_thread *t = tree->thread;
    if (!t || t->node == FT_NONE || depth > t->num_frames)
        return false;
    const struct ft_node *node = node_in(tree, depth);
    const uint32_t local = depth == t->num_frames ? t->current : t->frames[depth].current;
    if (node->function == FT_NONE || local >= tree->functions[node->function].num_locals)
        return false;
    *place = (struct ft_tree_place){.node = node->rank,
                                    .thread = t->number,
                                    .depth = depth,
                                    .function = node->function,
                                    .version = tree->functions[node->function].version,
                                    .local = local};
    return true;
}

void ft_tree_stands_at(const struct ft_tree *tree, struct ft_tree_place *place)
{
    const struct ft_tree_thread *t = tree->thread;
    place->node = tree->nodes[t->node]->rank;
    place->thread = t->number;
    place->depth = t->num_frames;
    place->function = t->function;
    place->version = tree->functions[t->function].version;
    place->local = t->current;
}

struct ft_tree_part ft_tree_part(const struct ft_tree *tree, uint32_t function, uint32_t local)
{
    const struct ft_function *f = &tree->functions[function];
    const struct ft_local *block = &f->locals[local];
    return (struct ft_tree_part){block->loop, tree->codes[block->id].instructions, block->next,
                                 block->loop != FT_NONE && f->loops[block->loop].header == local};
}

struct ft_tree_loop_place ft_tree_loop_place(const struct ft_tree *tree, uint32_t function, uint32_t slot)
{
    const struct ft_function *f = &tree->functions[function];
    const struct ft_tree_loop *loop = &f->loops[slot];
    return (struct ft_tree_loop_place){loop->parent, loop->header, f->locals[loop->header].id,
                                       f->cover + loop->first_cover, loop->num_cover};
}

uint32_t ft_tree_function_block(const struct ft_tree *tree, uint32_t function)
{
    return function == FT_NONE ? 0 : tree->functions[function].entry;
}
