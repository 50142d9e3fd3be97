/* The tree of a Python program, whose agent tells more than code does: a function's first block runs at each call, and
 * blocks without instructions say that a call has returned, or that a generator goes on. See tree.c.
 *
 * What a frame left on its way (an exception through several calls) shows when a block of one below it runs.
 */
#include "parts.h"

#define CODE_KEY (UINT64_C(1) << 63)

bool ft_tree_add_bytecode(struct ft_tree *tree, uint32_t id, uint32_t code_id, uint32_t offset_bytes,
                          uint32_t n_instructions, bool goes_on)
{
    if (!ft_reserve(&tree->codes, &tree->codes_capacity, id, sizeof *tree->codes))
        return false;
    const uint64_t place = (uint64_t)code_id << 32 | offset_bytes;
    struct ft_code *block = &tree->codes[id];
    *block = (struct ft_code){.address = place + 1,
                              .end = place + 1,
                              .canonical = id,
                              .entered = FT_NONE,
                              .function = FT_NONE,
                              .ending = FT_ENDING_BYTECODE,
                              .code_id = code_id,
                              .own = id};
    tree->num_codes = id;
    if (n_instructions) {
        block->bytecode = offset_bytes ? FT_BYTECODE_BLOCK : FT_BYTECODE_ENTRY;
        return ft_table_find(&tree->code_table, place, CODE_KEY) != FT_NONE ||
               ft_table_put(&tree->code_table, place, CODE_KEY, id);
    }
    const uint32_t own = ft_table_find(&tree->code_table, place, CODE_KEY);
    block->own = own == FT_NONE ? id : own;
    block->bytecode = goes_on ? FT_BYTECODE_GOES_ON : FT_BYTECODE_RETURNED;
    return true;
}

/* The function that a block is of: it begins with its entry, or what was seen first of it. FT_NONE when memory ran out.
 */
static uint32_t function_with(struct ft_tree *tree, uint32_t id)
{
    const uint32_t code_id = tree->codes[id].code_id;
    uint32_t function = ft_table_find(&tree->code_table, code_id, CODE_KEY | 1);
    if (function != FT_NONE)
        return function;
    const uint32_t entry = ft_table_find(&tree->code_table, (uint64_t)code_id << 32, CODE_KEY);
    function = ft_function_of(tree, entry == FT_NONE ? tree->codes[id].own : entry);
    return function != FT_NONE && ft_table_put(&tree->code_table, code_id, CODE_KEY | 1, function) ? function : FT_NONE;
}

/* Pops what is above a function's frame, and that of what it called. `*found` says whether it has one. */
static bool pop_to_function(struct ft_tree *tree, struct ft_tree_thread *t, uint32_t function, bool *found)
{
    uint32_t i = t->num_frames;
    while (i > 0 && tree->nodes[t->frames[i - 1].node]->function != function)
        i--;
    *found = i > 0;
    return i == 0 || ft_thread_pop_to(tree, t, i - 1);
}

/* Goes on in the middle of a function, below what runs or at the bottom of the stack. No block has run by that. */
static bool go_on(struct ft_tree *tree, struct ft_tree_thread *t, uint32_t function, uint32_t own)
{
    return (t->node == FT_NONE ? ft_thread_begin(tree, t, function) : ft_thread_push(tree, t, function, FT_CALL, 0)) &&
           ft_thread_stand_at(tree, t, own);
}

bool ft_bytecode_wake(struct ft_tree *tree, struct ft_tree_thread *t, uint32_t id)
{
    const struct ft_code code = tree->codes[id];
    const uint32_t function = function_with(tree, id);
    bool found = false;
    if (function == FT_NONE)
        return false;
    if (code.bytecode == FT_BYTECODE_ENTRY)
        return (t->node == FT_NONE ? ft_thread_begin(tree, t, function)
                                   : ft_thread_push(tree, t, function, FT_CALL, 0)) &&
               ft_thread_run(tree, t, id);
    if (code.bytecode == FT_BYTECODE_GOES_ON || t->node == FT_NONE)
        return go_on(tree, t, function, code.own) && (code.own != id || ft_thread_run(tree, t, id));
    if (code.bytecode == FT_BYTECODE_RETURNED) {
        if (!pop_to_function(tree, t, function, &found))
            return false;
        if (found || t->function == function)
            return ft_thread_stand_at(tree, t, code.own);
        return go_on(tree, t, function, code.own);
    }
    if (t->function == function)
        return ft_thread_follow(tree, t, id);
    if (!pop_to_function(tree, t, function, &found))
        return false;
    return found ? ft_thread_follow(tree, t, id) : go_on(tree, t, function, id) && ft_thread_run(tree, t, id);
}
