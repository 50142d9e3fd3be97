/* Readers of other tools' address traces: bytes of a trace go in, accesses for a simulator come out.
 *
 * A trace is fed in blocks of any length; what a block's end cuts in two is kept for the next. Everything in a trace
 * may be wrong: each number is checked before use. Lines of text that are no record are skipped and counted (lackey's
 * records lie among other output), a binary record that cannot be right ends the reading at its offset.
 *
 * Formats, and where they are documented:
 *   lackey      valgrind --tool=lackey --trace-mem=yes: valgrind manual, chapter 13
 *   din         Dinero III and IV, "traditional" and "extended": Edler and Hill, Dinero IV (dinero(3), -informat d and D)
 *   drmemtrace  DynamoRIO's trace_entry_t: clients/drcachesim/common/trace_entry.h, entries of 64-bit programs
 *   champsim    ChampSim's input_instr: inc/trace_instruction.h
 */
#ifndef FORETRACE_FOREIGN_H
#define FORETRACE_FOREIGN_H

#include "foretrace/base/tables.h"
#include "cache_sim/simulation/access.h"

#include <stdbool.h>

#define FT_FOREIGN_BATCH 4096u
#define FT_FOREIGN_CARRY_BYTES 256u /* the longest line that can be a record; binary records are shorter */
#define FT_FOREIGN_MAX_OPERATIONS (1u << 20)
#define FT_FOREIGN_MAX_THREADS 1024u
#define FT_FOREIGN_MAX_ASSUMED_BYTES 64u

enum ft_foreign_format { FT_LACKEY, FT_DIN, FT_DRMEMTRACE, FT_CHAMPSIM };

enum ft_foreign_status { FT_FOREIGN_GOOD, FT_FOREIGN_DAMAGED, FT_FOREIGN_MEMORY };

/* What an instruction did to memory. Memory operations (an instruction's loads, its stores) have ids of one row, the
 * fetches of instructions ids of another. */
enum ft_foreign_kind { FT_LOAD, FT_STORE, FT_FETCH, FT_FOREIGN_KINDS };

struct ft_foreign_ids {
    uint64_t *pc; /* by id: the instruction's address */
    uint8_t *kind;
    uint32_t number, capacity;
};

struct ft_foreign_counts {
    uint64_t records;      /* lines, entries or instructions, whatever they are */
    uint64_t instructions; /* fetched */
    uint64_t loads, stores;
    uint64_t modifies;      /* lackey's M: each is a load and a store, and counted as both */
    uint64_t assumed_sizes; /* accesses whose size the trace does not tell */
    uint64_t unsized;       /* accesses of no bytes: not simulated */
    uint64_t prefetches;    /* by the program: not simulated */
    uint64_t flushes;       /* of cache lines or whole caches: not simulated */
    uint64_t skipped;       /* lines that are no record */
    uint64_t first_skipped; /* number of the first of them, from 1; 0 if there is none */
    uint64_t threads;
    uint64_t merged;    /* accesses of instructions beyond FT_FOREIGN_MAX_OPERATIONS, which share two operations */
    uint64_t file_type; /* drmemtrace: OFFLINE_FILE_TYPE_ bits */
    uint64_t ended;     /* drmemtrace: the last entry was a footer */
};

struct ft_foreign_instruction {
    uint64_t pc;
    uint32_t id[FT_FOREIGN_KINDS]; /* plus 1; 0: none yet. All 0 in a free entry. */
};

FT_TABLE_TYPE(ft_foreign_table, struct ft_foreign_instruction);

struct ft_foreign {
    enum ft_foreign_format format;
    uint32_t assumed_bytes; /* size of an access where the trace has none: a power of two */
    struct ft_sink sink;    /* no functions: accesses are only counted */
    struct ft_foreign_counts counts;

    uint64_t offset; /* of the first byte not yet read, in the trace as fed */
    const char *problem;
    uint64_t problem_offset;
    bool failed; /* memory ran out */

    struct ft_foreign_table instructions;
    size_t current; /* the entry of `pc`, valid unless `stale` */
    uint64_t pc, last_fetch, next_pc;
    bool stale;
    struct ft_foreign_ids operations, fetches;

    uint64_t threads[FT_FOREIGN_MAX_THREADS]; /* ids of the threads seen; the index is the thread's number */
    uint32_t thread;

    unsigned char carry[FT_FOREIGN_CARRY_BYTES];
    size_t carry_bytes;
    bool skipping; /* inside a line too long to be a record */

    uint32_t batch_length;
    struct ft_access batch[FT_FOREIGN_BATCH];
};

/* NULL when memory ran out. */
struct ft_foreign *ft_foreign_new(enum ft_foreign_format format, uint32_t assumed_bytes, struct ft_sink sink);
void ft_foreign_free(struct ft_foreign *foreign);

enum ft_foreign_status ft_foreign_feed(struct ft_foreign *foreign, const unsigned char *data, size_t length);

/* The trace has ended: reads what is left, and checks that nothing is cut off. */
enum ft_foreign_status ft_foreign_finish(struct ft_foreign *foreign);

/* ---- for the readers of the formats ---------------------------------------------------------------------------------
 * Each takes whole lines or records and returns the number of bytes it has read: less than `length` where the rest is
 * no whole record, or where `problem` is set. */
size_t ft_foreign_lackey(struct ft_foreign *foreign, const unsigned char *data, size_t length);
size_t ft_foreign_din(struct ft_foreign *foreign, const unsigned char *data, size_t length);
size_t ft_foreign_drmemtrace(struct ft_foreign *foreign, const unsigned char *data, size_t length);
size_t ft_foreign_champsim(struct ft_foreign *foreign, const unsigned char *data, size_t length);

/* Sets `problem`, `ahead` bytes beyond `offset`. */
void ft_foreign_damaged(struct ft_foreign *foreign, size_t ahead, const char *problem);

bool ft_foreign_flush(struct ft_foreign *foreign);
bool ft_foreign_find(struct ft_foreign *foreign, enum ft_foreign_kind kind);

/* An access of at least one byte, inside the address space. */
static inline bool ft_foreign_is_possible(uint64_t address, uint32_t size_bytes)
{
    return size_bytes >= 1 && address <= UINT64_MAX - size_bytes;
}

/* The size of an access that the trace tells none of: it is taken for an aligned word, as Dinero takes it, so that it
 * never spans two lines. */
static inline uint32_t ft_foreign_assume(struct ft_foreign *foreign, uint64_t *address)
{
    foreign->counts.assumed_sizes++;
    *address &= ~(uint64_t)(foreign->assumed_bytes - 1);
    return foreign->assumed_bytes;
}

/* The instruction that accesses are by from now on. */
static inline void ft_foreign_at(struct ft_foreign *foreign, uint64_t pc)
{
    foreign->stale |= pc != foreign->pc;
    foreign->pc = pc;
}

static inline bool ft_foreign_emit(struct ft_foreign *foreign, uint64_t address, uint32_t size_bytes,
                                   enum ft_foreign_kind kind, uint16_t flags)
{
    if (foreign->batch_length == FT_FOREIGN_BATCH && !ft_foreign_flush(foreign))
        return false;
    if ((foreign->stale || !foreign->instructions.entries[foreign->current].id[kind]) &&
        !ft_foreign_find(foreign, kind))
        return false;
    uint32_t id = foreign->instructions.entries[foreign->current].id[kind] - 1;
    foreign->batch[foreign->batch_length++] = (struct ft_access){address, id, (uint16_t)size_bytes, flags};
    return true;
}

static inline bool ft_foreign_load(struct ft_foreign *foreign, uint64_t address, uint32_t size_bytes)
{
    foreign->counts.loads++;
    return ft_foreign_emit(foreign, address, size_bytes, FT_LOAD, 0);
}

static inline bool ft_foreign_store(struct ft_foreign *foreign, uint64_t address, uint32_t size_bytes)
{
    foreign->counts.stores++;
    return ft_foreign_emit(foreign, address, size_bytes, FT_STORE, FT_ACCESS_STORE);
}

static inline bool ft_foreign_fetch(struct ft_foreign *foreign, uint64_t pc, uint32_t size_bytes)
{
    foreign->counts.instructions++;
    ft_foreign_at(foreign, pc);
    return !foreign->sink.wants_fetches || !ft_foreign_is_possible(pc, size_bytes) ||
           ft_foreign_emit(foreign, pc, size_bytes, FT_FETCH, FT_ACCESS_FETCH);
}

#endif
