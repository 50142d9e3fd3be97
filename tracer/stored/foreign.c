/* What the readers of foreign traces share. See foreign.h. */
#include "foreign.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_CAPACITY 4096u /* of the table of instructions; it is at most half full */

struct ft_foreign *ft_foreign_new(enum ft_foreign_format format, uint32_t assumed_bytes, struct ft_sink sink)
{
    struct ft_foreign *foreign = calloc(1, sizeof *foreign);
    if (!foreign)
        return NULL;
    foreign->format = format;
    foreign->assumed_bytes = assumed_bytes;
    foreign->sink = sink;
    foreign->stale = true;
    foreign->instructions = calloc(FIRST_CAPACITY, sizeof *foreign->instructions);
    foreign->capacity = FIRST_CAPACITY;
    if (foreign->instructions)
        return foreign;
    ft_foreign_free(foreign);
    return NULL;
}

void ft_foreign_free(struct ft_foreign *foreign)
{
    if (!foreign)
        return;
    free(foreign->instructions);
    free(foreign->operations.pc);
    free(foreign->operations.kind);
    free(foreign->fetches.pc);
    free(foreign->fetches.kind);
    free(foreign);
}

void ft_foreign_damaged(struct ft_foreign *foreign, size_t ahead, const char *problem)
{
    foreign->problem = problem;
    foreign->problem_offset = foreign->offset + ahead;
}

bool ft_foreign_flush(struct ft_foreign *foreign)
{
    uint32_t length = foreign->batch_length;
    foreign->batch_length = 0;
    return length == 0 || !foreign->sink.feed ||
           foreign->sink.feed(foreign->sink.simulator, foreign->batch, length) == 0;
}

/* ---- operations ------------------------------------------------------------------------------------------------- */

static bool is_free(const struct ft_foreign_instruction *entry)
{
    return !(entry->id[FT_LOAD] | entry->id[FT_STORE] | entry->id[FT_FETCH]);
}

static size_t slot_of(const struct ft_foreign_instruction *entries, size_t capacity, uint64_t pc)
{
    size_t slot = (pc * UINT64_C(0x9e3779b97f4a7c15)) >> 32 & (capacity - 1);
    while (!is_free(&entries[slot]) && entries[slot].pc != pc)
        slot = (slot + 1) & (capacity - 1);
    return slot;
}

static bool grow(struct ft_foreign *foreign)
{
    size_t capacity = 2 * foreign->capacity;
    struct ft_foreign_instruction *bigger = calloc(capacity, sizeof *bigger);
    if (!bigger)
        return false;
    for (size_t i = 0; i < foreign->capacity; i++)
        if (!is_free(&foreign->instructions[i]))
            bigger[slot_of(bigger, capacity, foreign->instructions[i].pc)] = foreign->instructions[i];
    free(foreign->instructions);
    foreign->instructions = bigger;
    foreign->capacity = capacity;
    return true;
}

static bool reserve_id(struct ft_foreign_ids *ids)
{
    if (ids->number < ids->capacity)
        return true;
    uint32_t capacity = ids->capacity ? 2 * ids->capacity : 1024;
    uint64_t *pcs = realloc(ids->pc, capacity * sizeof *pcs);
    if (pcs)
        ids->pc = pcs;
    uint8_t *kinds = realloc(ids->kind, capacity * sizeof *kinds);
    if (kinds)
        ids->kind = kinds;
    if (pcs && kinds)
        ids->capacity = capacity;
    return pcs && kinds;
}

/* Makes `current` the entry of `pc`, with an id for this kind. Once there are too many, the instruction at address 0,
 * which none has, stands for all others. */
bool ft_foreign_find(struct ft_foreign *foreign, enum ft_foreign_kind kind)
{
    struct ft_foreign_ids *ids = kind == FT_FETCH ? &foreign->fetches : &foreign->operations;
    uint64_t pc = foreign->pc;
    size_t slot = slot_of(foreign->instructions, foreign->capacity, pc);
    if (!foreign->instructions[slot].id[kind] && ids->number >= FT_FOREIGN_MAX_OPERATIONS) {
        foreign->counts.merged++;
        pc = 0;
        slot = slot_of(foreign->instructions, foreign->capacity, pc);
    }
    if (is_free(&foreign->instructions[slot]) && 2 * ++foreign->used > foreign->capacity) {
        if (!grow(foreign))
            return false;
        slot = slot_of(foreign->instructions, foreign->capacity, pc);
    }
    struct ft_foreign_instruction *entry = &foreign->instructions[slot];
    if (!entry->id[kind]) {
        if (!reserve_id(ids))
            return false;
        ids->pc[ids->number] = pc;
        ids->kind[ids->number] = (uint8_t)kind;
        entry->id[kind] = ++ids->number;
    }
    entry->pc = pc;
    foreign->current = slot;
    foreign->stale = pc != foreign->pc; /* a merged access is looked up, and counted, each time */
    return true;
}

/* ---- blocks ------------------------------------------------------------------------------------------------------- */

static size_t read_records(struct ft_foreign *foreign, const unsigned char *data, size_t length)
{
    switch (foreign->format) {
    case FT_LACKEY:
        return ft_foreign_lackey(foreign, data, length);
    case FT_DIN:
        return ft_foreign_din(foreign, data, length);
    case FT_DRMEMTRACE:
        return ft_foreign_drmemtrace(foreign, data, length);
    case FT_CHAMPSIM:
        return ft_foreign_champsim(foreign, data, length);
    }
    return 0;
}

static bool is_text(const struct ft_foreign *foreign)
{
    return foreign->format == FT_LACKEY || foreign->format == FT_DIN;
}

static size_t record_bytes(const struct ft_foreign *foreign)
{
    return foreign->format == FT_CHAMPSIM ? 64 : 12;
}

static void skip_line(struct ft_foreign *foreign)
{
    foreign->counts.records++;
    if (!foreign->counts.skipped++)
        foreign->counts.first_skipped = foreign->counts.records;
}

/* Bytes up to where the record that the carry begins ends, or all there are. */
static size_t rest_of_record(const struct ft_foreign *foreign, const unsigned char *data, size_t length, bool *whole)
{
    if (is_text(foreign)) {
        const unsigned char *newline = memchr(data, '\n', length);
        *whole = newline != NULL;
        return newline ? (size_t)(newline - data) + 1 : length;
    }
    size_t missing = record_bytes(foreign) - foreign->carry_bytes;
    *whole = missing <= length;
    return *whole ? missing : length;
}

/* Ends the record that the block before left unfinished. Returns the bytes of it that are in this block. */
static size_t finish_carry(struct ft_foreign *foreign, const unsigned char *data, size_t length)
{
    bool whole;
    size_t part = rest_of_record(foreign, data, length, &whole);
    if (foreign->skipping) {
        foreign->offset += part;
        foreign->skipping = !whole;
        return part;
    }
    if (foreign->carry_bytes + part > sizeof foreign->carry) { /* no record is that long */
        skip_line(foreign);
        foreign->offset += foreign->carry_bytes + part;
        foreign->carry_bytes = 0;
        foreign->skipping = !whole;
        return part;
    }
    for (size_t i = 0; i < part; i++)
        foreign->carry[foreign->carry_bytes + i] = data[i];
    foreign->carry_bytes += part;
    if (whole) {
        foreign->offset += read_records(foreign, foreign->carry, foreign->carry_bytes);
        foreign->carry_bytes = 0;
    }
    return part;
}

static enum ft_foreign_status outcome(const struct ft_foreign *foreign, bool memory)
{
    return foreign->problem ? FT_FOREIGN_DAMAGED : memory ? FT_FOREIGN_GOOD : FT_FOREIGN_MEMORY;
}

enum ft_foreign_status ft_foreign_feed(struct ft_foreign *foreign, const unsigned char *data, size_t length)
{
    if (foreign->problem)
        return FT_FOREIGN_DAMAGED;
    if (length && (foreign->carry_bytes || foreign->skipping)) {
        size_t part = finish_carry(foreign, data, length);
        data += part;
        length -= part;
    }
    if (!length || foreign->problem || foreign->carry_bytes || foreign->skipping)
        return outcome(foreign, !foreign->failed);
    size_t done = read_records(foreign, data, length), left = length - done;
    foreign->offset += done;
    if (foreign->problem || foreign->failed)
        return outcome(foreign, !foreign->failed);
    if (left > sizeof foreign->carry) {
        skip_line(foreign);
        foreign->offset += left;
        foreign->skipping = true;
        return FT_FOREIGN_GOOD;
    }
    memcpy(foreign->carry, data + done, left);
    foreign->carry_bytes = left;
    return FT_FOREIGN_GOOD;
}

enum ft_foreign_status ft_foreign_finish(struct ft_foreign *foreign)
{
    if (!foreign->problem && foreign->carry_bytes) {
        if (is_text(foreign)) { /* a last line without its end */
            enum ft_foreign_status status = ft_foreign_feed(foreign, (const unsigned char *)"\n", 1);
            if (status != FT_FOREIGN_GOOD)
                return status;
        } else {
            ft_foreign_damaged(foreign, foreign->carry_bytes, "ends in the middle of a record");
        }
    }
    if (!foreign->problem && foreign->format == FT_DRMEMTRACE && !foreign->counts.ended)
        ft_foreign_damaged(foreign, 0, "ends without the footer of a whole trace");
    return outcome(foreign, ft_foreign_flush(foreign) && !foreign->failed);
}
