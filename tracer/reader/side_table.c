/* What the side table of a stream says of its blocks, operations and array operations. See parts.h. */
#include "parts.h"

#include <string.h>

#define MAX_BLOCKS (1u << 26)

static enum ft_read_status add_block(struct ft_reader *reader, uint32_t id, uint64_t n_slots)
{
    if (id != reader->n_blocks + 1 || id >= MAX_BLOCKS || n_slots > FT_TAG_MAX)
        return ft_reader_corrupt(reader, "a block is numbered out of order");
    if (!ft_reserve(&reader->blocks, &reader->blocks_capacity, id, sizeof *reader->blocks))
        return FT_READ_MEMORY;
    reader->n_blocks = id;
    reader->blocks[id].n_slots = (uint16_t)n_slots;
    return FT_READ_IDLE;
}

/* What the side table says of a block of machine code. `lengths_bytes` is what there is of the entry behind its fixed
 * part. */
static void describe_code(struct ft_block *block, const struct ft_side_block *facts, uint32_t lengths_bytes)
{
    const unsigned char *lengths = (const unsigned char *)(facts + 1);
    uint64_t code_bytes = 0;
    for (uint32_t i = 0; i < facts->n_instructions && i < lengths_bytes; i++)
        code_bytes += lengths[i];
    block->address = facts->address;
    block->lengths = lengths_bytes >= facts->n_instructions ? lengths : NULL;
    block->code_bytes = code_bytes < UINT16_MAX ? (uint16_t)code_bytes : UINT16_MAX;
    block->first_access = facts->first_access <= INT16_MAX ? (uint16_t)facts->first_access : 0;
}

/* The same for the execution tree. */
static enum ft_read_status describe_code_to_tree(struct ft_reader *reader, const struct ft_side_block *facts,
                                                 uint32_t bytes)
{
    const unsigned char *lengths = (const unsigned char *)(facts + 1);
    const uint32_t n = facts->n_instructions < bytes ? facts->n_instructions : bytes;
    return ft_tree_add_block(reader->tree, facts->block_id, facts->address, lengths, n, lengths + n, bytes - n)
               ? FT_READ_IDLE
               : FT_READ_MEMORY;
}

enum ft_read_status ft_reader_add_operation(struct ft_reader *reader, uint32_t block_id, uint32_t slot,
                                            uint32_t array_id, uint32_t *operation)
{
    uint32_t id = reader->n_operations;
    if (id == FT_NO_OPERATION - 1)
        return FT_READ_MEMORY;
    if (!ft_reserve(&reader->operations, &reader->operations_capacity, id, sizeof *reader->operations))
        return FT_READ_MEMORY;
    reader->operations[id] = (struct ft_operation){.block_id = block_id, .slot = slot, .array_id = array_id};
    reader->n_operations = id + 1;
    *operation = id;
    return FT_READ_IDLE;
}

static enum ft_read_status add_array(struct ft_reader *reader, const struct ft_side_operation *facts)
{
    uint32_t id = facts->operation_id;
    if (id != reader->n_arrays + 1 || facts->n_operands == 0 || facts->n_operands > FT_MAX_OPERANDS ||
        facts->block_id > reader->n_blocks)
        return ft_reader_corrupt(reader, "an array operation is described wrongly");
    for (uint32_t i = 0; i < facts->n_operands; i++)
        if (facts->operands[i].size_bytes == 0)
            return ft_reader_corrupt(reader, "an array operand has no size");
    if (!ft_reserve(&reader->arrays, &reader->arrays_capacity, id, sizeof *reader->arrays))
        return FT_READ_MEMORY;
    struct ft_array *array = &reader->arrays[id];
    array->facts = *facts;
    for (uint32_t i = 0; i < facts->n_operands; i++) {
        uint32_t operation;
        enum ft_read_status status = ft_reader_add_operation(reader, facts->block_id, i, id, &operation);
        if (status != FT_READ_IDLE)
            return status;
        if (i == 0)
            array->first_operation = operation;
    }
    reader->n_arrays = id;
    return FT_READ_IDLE;
}

/* Whether blocks are of the program's kind. A tree follows either machine code or bytecode, by what it knows of their
 * blocks. */
static bool fits_tree(const struct ft_reader *reader, uint32_t kind)
{
    if (!reader->tree || (kind != FT_SIDE_BLOCK && kind != FT_SIDE_PYBLOCK))
        return true;
    return ft_tree_is_python(reader->tree) == (kind == FT_SIDE_PYBLOCK);
}

static enum ft_read_status read_side_entry(struct ft_reader *reader, const unsigned char *entry, uint32_t bytes)
{
    uint32_t kind = ((const struct ft_side_entry *)entry)->kind;
    if (!fits_tree(reader, kind))
        return ft_reader_corrupt(reader, kind == FT_SIDE_BLOCK ? "a Python program has a block of machine code"
                                                               : "a program of machine code has a block of Python");
    if (kind == FT_SIDE_BLOCK && bytes >= sizeof(struct ft_side_block)) {
        const struct ft_side_block *block = (const struct ft_side_block *)entry;
        enum ft_read_status status = add_block(reader, block->block_id, UINT64_C(2) * block->n_instructions);
        if (status == FT_READ_IDLE)
            describe_code(&reader->blocks[block->block_id], block, bytes - (uint32_t)sizeof *block);
        if (status == FT_READ_IDLE && reader->tree)
            status = describe_code_to_tree(reader, block, bytes - (uint32_t)sizeof *block);
        return status;
    }
    if (kind == FT_SIDE_PYBLOCK && bytes >= sizeof(struct ft_side_pyblock)) {
        const struct ft_side_pyblock *block = (const struct ft_side_pyblock *)entry;
        enum ft_read_status status = add_block(reader, block->block_id, 0);
        if (status == FT_READ_IDLE && reader->tree &&
            !ft_tree_add_bytecode(reader->tree, block->block_id, block->code_id, block->offset_bytes,
                                  block->n_instructions, block->goes_on))
            status = FT_READ_MEMORY;
        return status;
    }
    if (kind == FT_SIDE_OPERATION && bytes >= sizeof(struct ft_side_operation))
        return add_array(reader, (const struct ft_side_operation *)entry);
    if ((kind == FT_SIDE_UNSEEN && bytes >= sizeof(struct ft_side_unseen)) ||
        (kind == FT_SIDE_FILE && bytes >= sizeof(struct ft_side_file)) ||
        (kind == FT_SIDE_LINEAR && bytes >= sizeof(struct ft_side_linear)) ||
        (kind == FT_SIDE_COMPILED && bytes >= sizeof(struct ft_side_compiled)) ||
        (kind == FT_SIDE_CHILD && bytes >= sizeof(struct ft_side_child)))
        return FT_READ_IDLE;
    if (kind == FT_SIDE_OBJECT && bytes >= sizeof(struct ft_side_object)) {
        if (((const struct ft_side_object *)entry)->object_id != reader->n_objects + 1 ||
            reader->n_objects == FT_MAX_OBJECTS)
            return ft_reader_corrupt(reader, "an object is numbered out of order");
        reader->n_objects++;
        return FT_READ_IDLE;
    }
    if (kind == FT_SIDE_LANDING && bytes >= sizeof(struct ft_side_landing)) {
        const struct ft_side_landing *landing = (const struct ft_side_landing *)entry;
        return !reader->tree || ft_tree_add_landing(reader->tree, landing->behind, landing->pad) ? FT_READ_IDLE
                                                                                                 : FT_READ_MEMORY;
    }
    reader->n_maps += kind == FT_SIDE_MAPS;
    return kind == FT_SIDE_MAPS ? FT_READ_IDLE : ft_reader_corrupt(reader, "the side table has an unknown entry");
}

enum ft_read_status ft_reader_read_side_table(struct ft_reader *reader)
{
    const struct ft_header *h = reader->header;
    uint64_t used = atomic_load(&h->side_used_bytes);
    const uint64_t offset = h->side_offset;
    if (offset > reader->memory_bytes || used > reader->memory_bytes - offset)
        return ft_reader_corrupt(reader, "the side table ends outside the memory");
    const unsigned char *side = (const unsigned char *)h + offset;
    while (reader->side_read_bytes < used) {
        const unsigned char *entry = side + reader->side_read_bytes;
        uint64_t left = used - reader->side_read_bytes;
        uint32_t bytes = left >= sizeof(struct ft_side_entry) ? ((const struct ft_side_entry *)entry)->bytes : 0;
        if (bytes < sizeof(struct ft_side_entry) || bytes % 8 || bytes > left)
            return ft_reader_corrupt(reader, "a side table entry has an impossible length");
        enum ft_read_status status = read_side_entry(reader, entry, bytes);
        if (status != FT_READ_IDLE)
            return status;
        reader->side_read_bytes += bytes;
    }
    return FT_READ_IDLE;
}
