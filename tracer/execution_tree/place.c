/* Where the program stands while the tree is built. See tree.h. */
#include "parts.h"

void ft_tree_stands_at(const struct ft_tree *tree, struct ft_tree_place *place)
{
    const struct ft_tree_thread *t = tree->thread;
    const struct ft_function *f = &tree->functions[t->function];
    const struct ft_local *local = &f->locals[t->current];
    place->node = tree->nodes[t->node]->rank;
    place->thread = t->number;
    place->depth = t->num_frames;
    place->function = t->function;
    place->version = f->version;
    place->local = t->current;
    place->slot = f->locals[local->last].loop;
    place->may_begin = local->next != FT_NONE || (place->slot != FT_NONE && f->loops[place->slot].header == t->current);
}

struct ft_tree_loop_place ft_tree_loop_place(const struct ft_tree *tree, uint32_t function, uint32_t slot)
{
    const struct ft_function *f = &tree->functions[function];
    const struct ft_tree_loop *loop = &f->loops[slot];
    return (struct ft_tree_loop_place){loop->parent, f->locals[loop->header].id, f->cover + loop->first_cover,
                                       loop->num_cover};
}

uint32_t ft_tree_function_block(const struct ft_tree *tree, uint32_t function)
{
    return function == FT_NONE ? 0 : tree->functions[function].entry;
}
