/* Blocks, functions, and the edges between a function's blocks. See parts.h. */
#include "parts.h"

#include <stdlib.h>

static uint64_t hash_bytes(uint64_t hash, const unsigned char *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++) /* FNV-1a */
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    return hash;
}

bool ft_tree_add_block(struct ft_tree *tree, uint32_t id, uint64_t address, const unsigned char *lengths, uint32_t n,
                       const unsigned char *code, uint32_t bytes)
{
    if (!ft_reserve(&tree->codes, &tree->codes_capacity, id, sizeof *tree->codes))
        return false;
    uint32_t before = 0;
    for (uint32_t i = 0; i + 1 < n && before + lengths[i] <= bytes; i++)
        before += lengths[i];
    const uint32_t length = n && before + lengths[n - 1] <= bytes ? lengths[n - 1] : 0;
    struct ft_code *block = &tree->codes[id];
    *block = (struct ft_code){.address = address,
                              .end = address + before + length,
                              .last = address + before,
                              .canonical = id,
                              .entered = FT_NONE,
                              .function = FT_NONE,
                              .instructions = n};
    block->ending = (uint8_t)ft_ending_of(tree->guest, code + before, length, block->last, &block->target);
    if (block->ending == FT_ENDING_INDIRECT_JUMP)
        block->linkage = (uint8_t)ft_linkage_of(tree->guest, code, before + length, length);
    block->hash = hash_bytes(UINT64_C(0xcbf29ce484222325) ^ n, code, before + length) | 1;
    tree->num_codes = id;
    const uint32_t same = ft_table_find(&tree->code_table, address, block->hash);
    if (same == FT_NONE)
        return ft_table_put(&tree->code_table, address, block->hash, id);
    if (tree->codes[same].end == block->end)
        block->canonical = same;
    return true;
}

bool ft_tree_add_landing(struct ft_tree *tree, uint64_t behind, uint64_t pad)
{
    return ft_table_put(&tree->landing_table, behind, pad, 1) && ft_table_put(&tree->landing_table, 0, pad, 1);
}

uint32_t ft_function_of(struct ft_tree *tree, uint32_t id)
{
    if (tree->codes[id].entered != FT_NONE)
        return tree->codes[id].entered;
    const uint32_t number = tree->num_functions;
    if (!ft_reserve(&tree->functions, &tree->functions_capacity, number, sizeof *tree->functions))
        return FT_NONE;
    tree->functions[number] = (struct ft_function){.entry = id, .low = UINT64_MAX, .nodes = FT_NONE};
    tree->num_functions++;
    tree->codes[id].entered = number;
    bool is_end;
    return ft_local_of(tree, number, id, &is_end) == FT_NONE ? FT_NONE : number;
}

uint32_t ft_local_find(const struct ft_tree *tree, uint32_t function, uint32_t id)
{
    return ft_table_find(&tree->local_table, function, id);
}

/* Whether a block begins inside one of a function's, or the reverse, and both end at the same place. */
static bool overlaps(const struct ft_tree *tree, const struct ft_function *function, uint32_t id)
{
    const struct ft_code *block = &tree->codes[id];
    if (block->address >= function->high || block->end <= function->low)
        return false;
    for (uint32_t i = 0; i < function->num_locals; i++) {
        const struct ft_code *other = &tree->codes[function->locals[i].id];
        if (other->end == block->end && other->address != block->address)
            return true;
    }
    return false;
}

uint32_t ft_local_of(struct ft_tree *tree, uint32_t function, uint32_t id, bool *is_end)
{
    struct ft_function *f = &tree->functions[function];
    uint32_t local = ft_local_find(tree, function, id);
    *is_end = false;
    if (local != FT_NONE)
        return local;
    local = f->num_locals;
    const bool splits = overlaps(tree, f, id);
    *is_end = !splits;
    if (!ft_reserve(&f->locals, &f->locals_capacity, local, sizeof *f->locals) ||
        !ft_table_put(&tree->local_table, function, id, local))
        return FT_NONE;
    struct ft_code *block = &tree->codes[id];
    f->locals[local] = (struct ft_local){.id = id, .next = FT_NONE, .last = local, .loop = FT_NONE};
    f->num_locals++;
    f->low = block->address < f->low ? block->address : f->low;
    f->high = block->end > f->high ? block->end : f->high;
    if (block->function == FT_NONE)
        block->function = function;
    return splits && !ft_forest_build(tree, function) ? FT_NONE : local;
}

uint32_t ft_edge_of(struct ft_tree *tree, uint32_t function, uint32_t from, uint32_t id)
{
    const uint64_t a = (uint64_t)(function + 1) << 32 | from;
    uint32_t edge = ft_table_find(&tree->edge_table, a, id);
    if (edge != FT_NONE)
        return edge;
    bool is_end;
    const uint32_t to = ft_local_of(tree, function, id, &is_end);
    if (to == FT_NONE)
        return FT_NONE;
    struct ft_function *f = &tree->functions[function];
    edge = f->num_edges;
    if (!ft_reserve(&f->edges, &f->edges_capacity, edge, sizeof *f->edges) ||
        !ft_table_put(&tree->edge_table, a, id, edge))
        return FT_NONE;
    f->edges[edge] = (struct ft_tree_edge){from, to, id, 0};
    f->num_edges++;
    if (!is_end && ft_forest_changes(tree, f, from, to))
        return ft_forest_build(tree, function) ? edge : FT_NONE;
    return ft_forest_action(tree, f, from, to, &f->edges[edge].action) ? edge : FT_NONE;
}
