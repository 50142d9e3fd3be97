/* Traces of binary records: DynamoRIO's drmemtrace and ChampSim. See foreign.h. */
#include "foreign.h"

#include <string.h>

/* ---- drmemtrace -----------------------------------------------------------------------------------------------------
 *
 * Entries of 12 bytes, little-endian: 16-bit type, 16-bit size, 64-bit address. Types as of trace_entry.h, enum
 * trace_type_t; the prefetches, of which there are many, are tested for by range. An instruction's fetch comes before
 * the accesses it makes. A fetch of size 0 only names the instruction (traces filtered while recorded). */
enum {
    READ = 0,
    WRITE = 1,
    FIRST_PREFETCH = 2,
    LAST_PREFETCH = 9,
    INSTR = 10,
    INSTR_RETURN = 16,
    INSTR_BUNDLE = 17, /* `size` further instructions follow; the address field holds their lengths, a byte each */
    INSTR_FLUSH = 18,
    INSTR_FLUSH_END = 19,
    DATA_FLUSH = 20,
    DATA_FLUSH_END = 21,
    THREAD = 22, /* the entries that follow are this thread's: its id is in the address field */
    THREAD_EXIT = 23,
    PID = 24,
    HEADER = 25,
    FOOTER = 26,
    HARDWARE_PREFETCH = 27,
    MARKER = 28,            /* its own type is in the size field, its value in the address field */
    INSTR_NO_FETCH = 29,    /* a further iteration of a string instruction */
    INSTR_MAYBE_FETCH = 30, /* the same, if it is the instruction before once more; otherwise a fetch */
    INSTR_SYSENTER = 31,
    FIRST_NEW_PREFETCH = 32,
    LAST_NEW_PREFETCH = 46,
    ENCODING = 47,
    INSTR_TAKEN_JUMP = 48,
    INSTR_UNTAKEN_JUMP = 49,
    FIRST_UNKNOWN = 50,

    MARKER_FILE_TYPE = 9,
    FILE_TYPE_32_BIT = 0x10 | 0x20 /* ARM32, X86_32: entries are 8 bytes long */
};
#define ENTRY_BYTES 12u
#define MAX_VERSION 100u /* the newest is 7; a number like this is no version */

struct entry {
    uint16_t type, size;
    uint64_t address;
};

static struct entry entry_at(const unsigned char *data)
{
    struct entry entry;
    memcpy(&entry.type, data, 2);
    memcpy(&entry.size, data + 2, 2);
    memcpy(&entry.address, data + 4, 8);
    return entry;
}

/* Those below return false when memory ran out, or with `problem` set. */

static bool take_instruction(struct ft_foreign *foreign, const struct entry *entry, bool fetched)
{
    foreign->next_pc = entry->address + entry->size;
    foreign->last_fetch = entry->address;
    if (!fetched || !entry->size) {
        ft_foreign_at(foreign, entry->address);
        return true;
    }
    return ft_foreign_fetch(foreign, entry->address, entry->size);
}

static bool take_bundle(struct ft_foreign *foreign, const struct entry *entry, size_t ahead)
{
    if (entry->size > 8 || !foreign->counts.instructions) {
        ft_foreign_damaged(foreign, ahead, "has a bundle of instructions that cannot be");
        return false;
    }
    for (uint32_t i = 0; i < entry->size; i++) {
        uint32_t length = entry->address >> 8 * i & 0xff;
        if (!ft_foreign_fetch(foreign, foreign->next_pc, length ? length : 1))
            return false;
        foreign->next_pc += length;
    }
    return true;
}

static bool take_access(struct ft_foreign *foreign, const struct entry *entry, size_t ahead)
{
    if (!entry->size) {
        foreign->counts.unsized++;
        return true;
    }
    if (!ft_foreign_is_possible(entry->address, entry->size)) {
        ft_foreign_damaged(foreign, ahead, "has an access beyond the end of the address space");
        return false;
    }
    return entry->type == READ ? ft_foreign_load(foreign, entry->address, entry->size)
                               : ft_foreign_store(foreign, entry->address, entry->size);
}

static bool take_thread(struct ft_foreign *foreign, uint64_t id)
{
    uint32_t number = 0;
    while (number < foreign->counts.threads && foreign->threads[number] != id)
        number++;
    if (number == FT_FOREIGN_MAX_THREADS)
        number--; /* the last number stands for all further threads */
    foreign->threads[number] = id;
    if (number >= foreign->counts.threads)
        foreign->counts.threads = number + 1;
    if (number == foreign->thread || !foreign->sink.set_thread)
        return true;
    foreign->thread = number;
    return ft_foreign_flush(foreign) && foreign->sink.set_thread(foreign->sink.simulator, number) == 0;
}

static bool take_marker(struct ft_foreign *foreign, const struct entry *entry, size_t ahead)
{
    if (entry->size != MARKER_FILE_TYPE)
        return true;
    foreign->counts.file_type |= entry->address;
    if (entry->address & FILE_TYPE_32_BIT) {
        ft_foreign_damaged(foreign, ahead, "is of a 32-bit program; only traces of 64-bit programs can be read");
        return false;
    }
    return true;
}

static bool take_header(struct ft_foreign *foreign, const struct entry *entry, size_t ahead)
{
    if (entry->size || entry->address == 0 || entry->address > MAX_VERSION)
        ft_foreign_damaged(foreign, ahead, "has a header that is none of drmemtrace's");
    return !foreign->problem;
}

static bool is_prefetch(uint32_t type)
{
    return (type >= FIRST_PREFETCH && type <= LAST_PREFETCH) ||
           (type >= FIRST_NEW_PREFETCH && type <= LAST_NEW_PREFETCH) || type == HARDWARE_PREFETCH;
}

static bool take_rare_entry(struct ft_foreign *foreign, const struct entry *entry, size_t ahead)
{
    switch (entry->type) {
    case THREAD: return take_thread(foreign, entry->address);
    case MARKER: return take_marker(foreign, entry, ahead);
    case HEADER: return take_header(foreign, entry, ahead);
    case INSTR_BUNDLE: return take_bundle(foreign, entry, ahead);
    case INSTR_FLUSH:
    case DATA_FLUSH: foreign->counts.flushes++; return true;
    case INSTR_FLUSH_END:
    case DATA_FLUSH_END:
    case THREAD_EXIT:
    case PID:
    case FOOTER: return true;
    }
    if (is_prefetch(entry->type)) {
        foreign->counts.prefetches++;
        return true;
    }
    ft_foreign_damaged(foreign, ahead, "has an entry of a type that does not exist");
    return false;
}

static bool take_entry(struct ft_foreign *foreign, const struct entry *entry, size_t ahead)
{
    if (entry->type <= WRITE)
        return take_access(foreign, entry, ahead);
    if (entry->type == ENCODING)
        return true;
    if ((entry->type >= INSTR && entry->type <= INSTR_RETURN) || entry->type == INSTR_TAKEN_JUMP ||
        entry->type == INSTR_UNTAKEN_JUMP || entry->type == INSTR_SYSENTER)
        return take_instruction(foreign, entry, true);
    if (entry->type == INSTR_NO_FETCH)
        return take_instruction(foreign, entry, false);
    if (entry->type == INSTR_MAYBE_FETCH)
        return take_instruction(foreign, entry, entry->address != foreign->last_fetch);
    return take_rare_entry(foreign, entry, ahead);
}

size_t ft_foreign_drmemtrace(struct ft_foreign *foreign, const unsigned char *data, size_t length)
{
    size_t done = 0;
    struct entry entry = {0};
    for (; length - done >= ENTRY_BYTES; done += ENTRY_BYTES) {
        entry = entry_at(data + done);
        if (!foreign->counts.records && entry.type != HEADER) {
            ft_foreign_damaged(foreign, done, "does not begin with the header of a drmemtrace trace");
            break;
        }
        if (!take_entry(foreign, &entry, done)) {
            foreign->failed = !foreign->problem;
            break;
        }
        foreign->counts.records++;
    }
    if (done)
        foreign->counts.ended = entry.type == FOOTER;
    return done;
}

/* ---- ChampSim -------------------------------------------------------------------------------------------------------
 *
 * Records of 64 bytes, struct input_instr: 64-bit address of the instruction, is_branch and branch_taken, 2 + 4
 * register numbers (a byte each), 2 addresses it stores to, 4 it loads from; address 0 is none. There are no sizes. */
#define CHAMPSIM_BYTES 64u
#define CHAMPSIM_STORES 2u
#define CHAMPSIM_LOADS 4u
#define CHAMPSIM_FIRST_ADDRESS 16u
#define CHAMPSIM_FETCH_BYTES 4u

static bool take_operand(struct ft_foreign *foreign, const unsigned char *data, size_t ahead, bool store)
{
    uint64_t address;
    memcpy(&address, data, sizeof address);
    if (!address)
        return true;
    if (!ft_foreign_is_possible(address, FT_FOREIGN_MAX_ASSUMED_BYTES)) {
        ft_foreign_damaged(foreign, ahead, "has an access beyond the end of the address space");
        return false;
    }
    uint32_t size_bytes = ft_foreign_assume(foreign, &address);
    return store ? ft_foreign_store(foreign, address, size_bytes) : ft_foreign_load(foreign, address, size_bytes);
}

static bool take_champsim(struct ft_foreign *foreign, const unsigned char *record, size_t ahead)
{
    uint64_t pc;
    memcpy(&pc, record, sizeof pc);
    if (record[8] > 1 || record[9] > 1) {
        ft_foreign_damaged(foreign, ahead, "has a record that is none of ChampSim's");
        return false;
    }
    bool good = ft_foreign_fetch(foreign, pc, CHAMPSIM_FETCH_BYTES);
    for (uint32_t i = 0; good && i < CHAMPSIM_LOADS; i++)
        good = take_operand(foreign, record + CHAMPSIM_FIRST_ADDRESS + 8 * (CHAMPSIM_STORES + i), ahead, false);
    for (uint32_t i = 0; good && i < CHAMPSIM_STORES; i++)
        good = take_operand(foreign, record + CHAMPSIM_FIRST_ADDRESS + 8 * i, ahead, true);
    return good;
}

size_t ft_foreign_champsim(struct ft_foreign *foreign, const unsigned char *data, size_t length)
{
    size_t done = 0;
    for (; length - done >= CHAMPSIM_BYTES; done += CHAMPSIM_BYTES) {
        if (!take_champsim(foreign, data + done, done)) {
            foreign->failed = !foreign->problem;
            break;
        }
        foreign->counts.records++;
    }
    return done;
}
