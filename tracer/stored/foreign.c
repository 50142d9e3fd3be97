/* What the readers of foreign traces share. See foreign.h. */
#include "foreign.h"

#include <stdlib.h>
#include <string.h>

struct ft_foreign *ft_foreign_new(enum ft_foreign_format format, uint32_t assumed_bytes, struct ft_sink sink)
{
    struct ft_foreign *foreign = calloc(1, sizeof *foreign);
    if (!foreign)
        return NULL;
    foreign->format = format;
    foreign->assumed_bytes = assumed_bytes;
    foreign->sink = sink;
    foreign->stale = true;
    return foreign;
}

void ft_foreign_free(struct ft_foreign *foreign)
{
    if (!foreign)
        return;
    free(foreign->instructions.entries);
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

static inline bool is_used(const struct ft_foreign_instruction *entry)
{
    return entry->id[FT_LOAD] | entry->id[FT_STORE] | entry->id[FT_FETCH];
}

static inline uint64_t hash_of(const struct ft_foreign_instruction *entry)
{
    return (entry->pc * FT_HASH_FACTOR) >> 32;
}

static inline bool is_same(const struct ft_foreign_instruction *one, const struct ft_foreign_instruction *other)
{
    return one->pc == other->pc;
}

FT_TABLE(ft_foreign_table, struct ft_foreign_instruction, 4096, hash_of, is_used, is_same)

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
    struct ft_foreign_instruction like = {.pc = foreign->pc};
    if (!ft_foreign_table_make_room(&foreign->instructions))
        return false;
    struct ft_foreign_instruction *entry = ft_foreign_table_at(&foreign->instructions, &like);
    if (!entry->id[kind] && ids->number >= FT_FOREIGN_MAX_OPERATIONS) {
        foreign->counts.merged++;
        like.pc = 0;
        entry = ft_foreign_table_at(&foreign->instructions, &like);
    }
    foreign->instructions.used += !is_used(entry);
    if (!entry->id[kind]) {
        if (!reserve_id(ids))
            return false;
        ids->pc[ids->number] = like.pc;
        ids->kind[ids->number] = (uint8_t)kind;
        entry->id[kind] = ++ids->number;
    }
    entry->pc = like.pc;
    foreign->current = (size_t)(entry - foreign->instructions.entries);
    foreign->stale = like.pc != foreign->pc; /* a merged access is looked up, and counted, each time */
    return true;
}

/* ---- blocks ------------------------------------------------------------------------------------------------------- */

static size_t read_records(struct ft_foreign *foreign, const unsigned char *data, size_t length)
{
    switch (foreign->format) {
    case FT_LACKEY: return ft_foreign_lackey(foreign, data, length);
    case FT_DIN: return ft_foreign_din(foreign, data, length);
    case FT_DRMEMTRACE: return ft_foreign_drmemtrace(foreign, data, length);
    case FT_CHAMPSIM: return ft_foreign_champsim(foreign, data, length);
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
