/* The tracing engine for binaries: a TCG plugin that QEMU user mode loads.
 *
 * What QEMU translates at a time is cut into blocks at multiples of PART_BYTES. QEMU ends a translation that grows too
 * large, anywhere: where a loop's body is that long, what was translated on the way into the loop, and what begins at
 * its header, would never come to begin or end at the same places.
 *
 * Each block is described once in the side table; when it runs it writes one word, and each of its memory accesses one
 * more (stream.h). Where the block's first access is a plain one (plain_access.h), it writes the block's word. A block
 * that QEMU translates again (it flushes its cache of translations when that is full) keeps its id: `table`, open
 * addressing over the blocks' addresses and bytes, finds it. Between bursts (bursts.h) blocks run under other ids,
 * which say that their accesses are not in the stream.
 *
 * Invariants: `cursors[i]` is set from vcpu i's start to its end; `table` is only touched under `lock`; a block and its
 * operations stay where they are for good, since translated code holds their addresses.
 */
#define _GNU_SOURCE
#include "tracer/transport/children.h"
#include "allocations.h"
#include "bursts.h"
#include "departures.h"
#include "guest_registers.h"
#include "landing_pads.h"
#include "mapped_files.h"
#include "masked_access.h"
#include "plain_access.h"
#include "qemu_api.h"
#include "store_exclusive.h"
#include "threads.h"
#include "tracer/mpi/marks.h"
#include "tracer/transport/event_samples.h"
#include "tracer/transport/writer.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define MAX_VCPUS 65536u
#define MAX_INSTRUCTIONS 2000u /* QEMU ends a block at 512; two tags each must fit below FT_TAG_MAX */
#define MAX_CODE_BYTES 65536u
#define PART_BYTES 256u /* less than QEMU translates at a time of code without branches */
#define MAX_MAPS_BYTES (4u << 20)

EXPORT extern int qemu_plugin_version;
EXPORT int qemu_plugin_version = 2;

/* QEMU reads qemu_plugin_version once we are loaded. What it offers says which version it wants, whatever its number.
 */
static __attribute__((constructor)) void choose_version(void)
{
    if (qemu_plugin_n_vcpus)
        qemu_plugin_version = 1;
}

/* An instruction's load [0] and store [1], or its plain access [0]. QEMU's own choice between the two callbacks is not
 * used: up to 7.2 a callback for loads is called for stores and one for stores for both. */
struct operations {
    uint64_t tag[2];               /* all of the stream word but the address */
    qemu_plugin_meminfo_t info[2]; /* what `tag` was made for */
    uint32_t instruction;
    uint32_t block_id;
    bool is_plain;
    struct ft_masked masked;
};

struct block {
    uint32_t id;
    uint32_t n_instructions;
    uint64_t address;
    uint64_t hash;
    uint32_t code_bytes;
    uint32_t first_access;          /* see struct ft_side_block */
    bool is_counted;                /* likewise */
    unsigned char *code;            /* length bytes of the instructions, then the instructions */
    struct operations operations[]; /* of each instruction */
};

/* What is known of a block while it is being translated. */
struct translation {
    uint32_t first; /* instruction of what QEMU translates */
    uint64_t address;
    uint64_t hash;
    uint32_t n_instructions;
    uint32_t code_bytes;
    uint64_t plain_tags[MAX_INSTRUCTIONS]; /* all of the stream word but the address; 0 for what is not plain */
    uint32_t first_access;                 /* as in struct ft_side_block */
    bool is_counted;                       /* likewise */
    unsigned char code[MAX_INSTRUCTIONS + MAX_CODE_BYTES];
};

static struct ft_cursor *cursors[MAX_VCPUS];
static struct ft_cursor *waiting_cursors[MAX_VCPUS]; /* of threads in an MPI library; NULL: others */
static struct ft_cursor *scratch_cursors[MAX_VCPUS]; /* that such threads have meanwhile */
static atomic_uint n_in_library; /* of those: threads that begin meanwhile are the library's, and not traced */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct block **table;
static size_t table_slots, table_used;
static uint32_t n_blocks;
static uint64_t n_instructions; /* of those blocks */
static atomic_bool maps_changed = true;
static const char *target; /* the traced program's architecture, as QEMU names it */
static ft_accesses_of *accesses_of;
static qemu_plugin_id_t plugin_id;
static uint32_t n_vcpus_started;
static _Thread_local int mapped_file = -1; /* that the thread is mapping, shared */
static _Thread_local int mapped_code = -1; /* that it is mapping to run */
static uint64_t not_recorded;              /* accesses by the only thread so far; nobody reads it */

/* ---- running ---------------------------------------------------------------------------------------------------- */

static void block_runs(unsigned int vcpu, void *block_id)
{
    struct ft_cursor *cursor = cursors[vcpu];
    cursor->block_id = (uint32_t)(uintptr_t)block_id;
    ft_write(cursor, FT_ENTRY | (uintptr_t)block_id);
}

/* The first access of a block that is told to run by it, but whose accesses are not recorded. */
static void counted_block_runs(unsigned int vcpu, qemu_plugin_meminfo_t info, uint64_t address, void *block_id)
{
    (void)info, (void)address;
    block_runs(vcpu, block_id);
}

/* The first access of a block that is told to run by it. */
static void block_runs_and_accesses(unsigned int vcpu, qemu_plugin_meminfo_t info, uint64_t address, void *block_id)
{
    struct ft_cursor *cursor = cursors[vcpu];
    (void)info;
    cursor->block_id = (uint32_t)(uintptr_t)block_id;
    ft_write(cursor, FT_ENTRY | (uintptr_t)block_id << FT_SIZE_SHIFT | (address & FT_ADDRESS_MASK));
}

/* Of a plain access no callback stays behind (see memory_accessed). */
static void plainly_accessed(unsigned int vcpu, qemu_plugin_meminfo_t info, uint64_t address, void *context)
{
    const struct operations *operations = context;
    (void)info;
    ft_write(cursors[vcpu], operations->tag[0] | (address & FT_ADDRESS_MASK));
}

static uint64_t tag_of(uint32_t instruction, bool is_store, uint64_t size_shift)
{
    return (UINT64_C(2) * instruction + is_store + 1) << FT_TAG_SHIFT | size_shift << FT_SIZE_SHIFT;
}

static __attribute__((noinline)) uint64_t learn_tag(struct operations *operations, qemu_plugin_meminfo_t info)
{
    uint64_t shift = qemu_plugin_mem_size_shift(info) & 7;
    bool store = qemu_plugin_mem_is_store(info);
    operations->tag[store] = tag_of(operations->instruction, store, shift);
    operations->info[store] = info;
    return operations->tag[store];
}

static void memory_accessed(unsigned int vcpu, qemu_plugin_meminfo_t info, uint64_t address, void *context)
{
    struct operations *operations = context;
    struct ft_cursor *cursor = cursors[vcpu];
    uint64_t tag;
    /* QEMU 7.2 can leave an instruction's callback behind when its block has ended, and then calls it for what QEMU
     * itself writes into the program's memory, such as a signal's frame: no instruction's access. */
    if (__builtin_expect(operations->block_id != cursor->block_id, 0))
        return;
    if (__builtin_expect(info == operations->info[0], 1))
        tag = operations->tag[0];
    else if (__builtin_expect(info == operations->info[1], 1))
        tag = operations->tag[1];
    else
        tag = learn_tag(operations, info);
    ft_write(cursor, tag | (address & FT_ADDRESS_MASK));
}

/* Code that may have changed unnoticed, see departures.h. */
static void checked_block_runs(unsigned int vcpu, void *context)
{
    const struct block *block = context;
    const unsigned char *now = (const void *)(uintptr_t)(block->address + ft_writer_header()->guest_base);
    (void)vcpu;
    if (memcmp(now, block->code + block->n_instructions, block->code_bytes - block->n_instructions) != 0)
        ft_departures_stale();
}

static void write_lanes(const struct operations *operations, struct ft_cursor *cursor, struct ft_masked_lanes found)
{
    const uint64_t element_bytes = operations->masked.element_bytes;
    const uint64_t tag = tag_of(operations->instruction, false, element_bytes == 8 ? 3 : 2);
    for (; found.lanes; found.lanes >>= 1, found.address += element_bytes)
        if (found.lanes & 1)
            ft_write(cursor, tag | (found.address & FT_ADDRESS_MASK));
    if (found.is_whole)
        atomic_fetch_add(&ft_writer_header()->whole_masked_loads, 1);
}

FT_WITH_REGISTERS(masked_load_begins);
void masked_load_begins_with(unsigned int vcpu, void *context, const void *env)
{
    (void)vcpu;
    ft_masked_begins(&((const struct operations *)context)->masked, env);
}

static void masked_load_accesses(unsigned int vcpu, qemu_plugin_meminfo_t info, uint64_t address, void *context)
{
    const struct operations *operations = context;
    const uint64_t bytes = UINT64_C(1) << qemu_plugin_mem_size_shift(info), base = ft_writer_header()->guest_base;
    if (operations->block_id == cursors[vcpu]->block_id) /* see memory_accessed */
        write_lanes(operations, cursors[vcpu], ft_masked_loads(&operations->masked, address, bytes, base));
}

FT_WITH_REGISTERS(masked_load_ended);
void masked_load_ended_with(unsigned int vcpu, void *context, const void *env)
{
    const struct operations *operations = context;
    if (operations->block_id == cursors[vcpu]->block_id)
        write_lanes(operations, cursors[vcpu], ft_masked_ended(&operations->masked, env));
}

static void access_not_recorded(unsigned int vcpu, qemu_plugin_meminfo_t info, uint64_t address, void *context)
{
    (void)vcpu, (void)info, (void)address, (void)context;
}

static void store_exclusive_accessed(unsigned int vcpu, qemu_plugin_meminfo_t info, uint64_t address, void *context)
{
    if (qemu_plugin_mem_is_store(info))
        memory_accessed(vcpu, info, address, context);
}

/* ---- translating ------------------------------------------------------------------------------------------------ */

static uint64_t hash_bytes(uint64_t hash, const unsigned char *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++) /* FNV-1a */
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    return hash;
}

/* Finds the plain accesses, and whether one of them is the block's first access. The last instruction's is none: with
 * it goes the helper that looks for the block to go to, which leaves its callback behind (see memory_accessed). */
static void find_plain_accesses(struct translation *t)
{
    const unsigned char *code = t->code + t->n_instructions;
    bool none_yet = true;
    t->first_access = 0;
    for (uint32_t i = 0; i < t->n_instructions; code += t->code[i++]) {
        struct ft_plain_access access;
        enum ft_accesses accesses = accesses_of(code, t->code[i], &access);
        if (accesses == FT_ACCESSES_PLAIN && i == t->n_instructions - 1)
            accesses = FT_ACCESSES_UNKNOWN;
        t->plain_tags[i] = accesses == FT_ACCESSES_PLAIN ? tag_of(i, access.is_store, access.size_shift) : 0;
        if (none_yet && accesses == FT_ACCESSES_PLAIN)
            t->first_access = (uint32_t)(t->plain_tags[i] >> FT_SIZE_SHIFT);
        none_yet = none_yet && accesses == FT_ACCESSES_NONE;
    }
}

static uint64_t address_of(struct qemu_plugin_tb *tb, size_t instruction)
{
    return qemu_plugin_insn_vaddr(qemu_plugin_tb_get_insn(tb, instruction));
}

/* Where the block ends that begins with an instruction: that number is the next one's. */
static size_t end_of_block(struct qemu_plugin_tb *tb, size_t first)
{
    const size_t n = qemu_plugin_tb_n_insns(tb);
    size_t end = first + 1;
    while (end < n && address_of(tb, end) / PART_BYTES == address_of(tb, first) / PART_BYTES)
        end++;
    return end;
}

/* False if the block, of instructions from `first` to before `end`, is of a form no engine should hand us. */
static bool read_translation(struct translation *t, struct qemu_plugin_tb *tb, size_t first, size_t end)
{
    const size_t n = end - first;
    if (n == 0 || n > MAX_INSTRUCTIONS)
        return false;
    t->first = (uint32_t)first;
    t->address = address_of(tb, first);
    t->n_instructions = (uint32_t)n;
    t->code_bytes = (uint32_t)n;
    for (size_t i = 0; i < n; i++) {
        struct qemu_plugin_insn *instruction = qemu_plugin_tb_get_insn(tb, first + i);
        size_t length = qemu_plugin_insn_size(instruction);
        const void *bytes = qemu_plugin_insn_haddr(instruction);
        if (!bytes || length > 255 || t->code_bytes + length > sizeof t->code)
            return false;
        if (i == 0)
            ft_writer_header()->guest_base = (uintptr_t)bytes - t->address;
        t->code[i] = (unsigned char)length;
        memcpy(t->code + t->code_bytes, bytes, length);
        t->code_bytes += (uint32_t)length;
    }
    find_plain_accesses(t);
    t->is_counted = false;
    t->hash = hash_bytes(UINT64_C(0xcbf29ce484222325) ^ t->address, t->code, t->code_bytes);
    return true;
}

static void fill_block_entry(void *entry, uint32_t number, void *context)
{
    struct ft_side_block *side = entry;
    const struct translation *t = context;
    side->entry.kind = FT_SIDE_BLOCK;
    side->block_id = number;
    side->n_instructions = t->n_instructions;
    side->address = t->address;
    side->is_counted = t->is_counted;
    side->first_access = number <= FT_MAX_SHORT_ID ? t->first_access : 0;
    memcpy(side + 1, t->code, t->code_bytes);
}

static bool same_block(const struct block *block, const struct translation *t)
{
    return block->hash == t->hash && block->address == t->address && block->code_bytes == t->code_bytes &&
           block->is_counted == t->is_counted && memcmp(block->code, t->code, t->code_bytes) == 0;
}

static size_t slot_of(const struct translation *t)
{
    size_t slot = t->hash & (table_slots - 1);
    while (table[slot] && !same_block(table[slot], t))
        slot = (slot + 1) & (table_slots - 1);
    return slot;
}

static bool grow_table(void)
{
    size_t slots = table_slots ? 2 * table_slots : 1u << 14;
    struct block **old = table, **bigger = calloc(slots, sizeof *bigger);
    if (!bigger)
        return false;
    for (size_t i = 0; i < table_slots; i++)
        if (old[i]) {
            size_t slot = old[i]->hash & (slots - 1);
            while (bigger[slot])
                slot = (slot + 1) & (slots - 1);
            bigger[slot] = old[i];
        }
    free(old);
    table = bigger;
    table_slots = slots;
    return true;
}

static struct block *new_block(const struct translation *t)
{
    size_t operations_bytes = t->n_instructions * sizeof(struct operations);
    const uint64_t max_blocks = ft_writer_header()->max_blocks;
    if (n_blocks >= max_blocks) {
        ft_writer_is_full(FT_FULL_BLOCKS);
        return NULL;
    }
    if (n_instructions + t->n_instructions > max_blocks * FT_INSTRUCTIONS_PER_BLOCK) {
        ft_writer_is_full(FT_FULL_INSTRUCTIONS);
        return NULL;
    }
    struct block *block = calloc(1, sizeof *block + operations_bytes + t->code_bytes);
    if (!block)
        return NULL;
    block->id = ft_writer_append(sizeof(struct ft_side_block) + t->code_bytes, &n_blocks, fill_block_entry, (void *)t);
    if (block->id == 0) {
        free(block);
        return NULL;
    }
    n_instructions += t->n_instructions;
    block->n_instructions = t->n_instructions;
    block->address = t->address;
    block->hash = t->hash;
    block->code_bytes = t->code_bytes;
    block->is_counted = t->is_counted;
    block->first_access = block->id <= FT_MAX_SHORT_ID ? t->first_access : 0;
    block->code = (unsigned char *)block + sizeof *block + operations_bytes;
    memcpy(block->code, t->code, t->code_bytes);
    const unsigned char *code = t->code + t->n_instructions;
    for (uint32_t i = 0; i < t->n_instructions; code += t->code[i++]) {
        block->operations[i] = (struct operations){{t->plain_tags[i], 0},
                                                   {UINT32_MAX, UINT32_MAX},
                                                   i,
                                                   block->id,
                                                   t->plain_tags[i] != 0,
                                                   ft_masked_of(target, code, t->code[i])};
        block->operations[i].masked.is_followed = i + 1 < t->n_instructions;
    }
    return block;
}

/* NULL when there is no room to describe it. */
static struct block *find_or_add(const struct translation *t)
{
    if (2 * (table_used + 1) > table_slots && !grow_table())
        return NULL;
    size_t slot = slot_of(t);
    if (!table[slot] && (table[slot] = new_block(t)))
        table_used++;
    return table[slot];
}

static bool was_recorded(const struct translation *t)
{
    return table_slots > 0 && table[slot_of(t)];
}

struct text {
    char *bytes;
    size_t length;
};

static void fill_maps_entry(void *entry, uint32_t number, void *context)
{
    struct ft_side_entry *side = entry;
    const struct text *text = context;
    (void)number;
    side->kind = FT_SIDE_MAPS;
    memcpy(side + 1, text->bytes, text->length);
}

/* Copies the memory map into the side table, if it is not as it was. It is read raw; the reader makes sense of it. */
static void record_maps(void)
{
    static uint64_t
        last_hash; /* what makes code time and again protects it before and after: all these maps are alike */
    struct text text = {mmap(NULL, MAX_MAPS_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 0};
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    if (text.bytes != MAP_FAILED && fd >= 0) {
        ssize_t got;
        while (text.length < MAX_MAPS_BYTES &&
               (got = read(fd, text.bytes + text.length, MAX_MAPS_BYTES - text.length)) > 0)
            text.length += (size_t)got;
        uint64_t hash = hash_bytes(UINT64_C(0xcbf29ce484222325), (const unsigned char *)text.bytes, text.length);
        if (hash != last_hash) {
            if (!last_hash)
                ft_mapped_files_first(text.bytes, text.length);
            ft_departures_mapped(text.bytes, text.length);
            ft_writer_append(sizeof(struct ft_side_entry) + text.length, NULL, fill_maps_entry, &text);
            ft_landing_pads_mapped(text.bytes, text.length);
        }
        last_hash = hash;
    }
    if (fd >= 0)
        close(fd);
    if (text.bytes != MAP_FAILED)
        munmap(text.bytes, MAX_MAPS_BYTES);
}

static void fill_landing_entry(void *entry, uint32_t number, void *context)
{
    struct ft_side_landing *side = entry;
    const struct ft_side_landing *landing = context;
    (void)number;
    side->entry.kind = FT_SIDE_LANDING;
    side->behind = landing->behind;
    side->pad = landing->pad;
}

/* Says where exceptions land that leave a call which ends a new block. */
static void record_landing_pad(const struct block *block)
{
    struct ft_side_landing landing = {.behind = block->address + block->code_bytes - block->n_instructions};
    landing.pad = ft_landing_pad(landing.behind, ft_writer_header()->guest_base);
    if (landing.pad)
        ft_writer_append(sizeof landing, NULL, fill_landing_entry, &landing);
}

/* A block writes its word when the instruction runs that it begins with, the number `first` of what is translated. */
static void write_where_it_runs(struct qemu_plugin_tb *tb, uint32_t first, void *id)
{
    if (first == 0)
        qemu_plugin_register_vcpu_tb_exec_cb(tb, block_runs, QEMU_PLUGIN_CB_NO_REGS, id);
    else
        qemu_plugin_register_vcpu_insn_exec_cb(qemu_plugin_tb_get_insn(tb, first), block_runs, QEMU_PLUGIN_CB_NO_REGS,
                                               id);
}

static void instrument(struct qemu_plugin_tb *tb, uint32_t first, struct block *block)
{
    void *id = (void *)(uintptr_t)block->id;
    const unsigned char *code = block->code + block->n_instructions;
    bool entered_by_access = block->first_access != 0;
    if (!entered_by_access)
        write_where_it_runs(tb, first, id);
    for (uint32_t i = 0; i < block->n_instructions; code += block->code[i++]) {
        struct qemu_plugin_insn *instruction = qemu_plugin_tb_get_insn(tb, first + i);
        struct operations *operations = &block->operations[i];
        qemu_plugin_vcpu_mem_cb_t callback = operations->is_plain ? plainly_accessed : memory_accessed;
        void *context = operations;
        if (ft_is_store_exclusive(target, code, block->code[i]))
            callback = store_exclusive_accessed;
        if (operations->masked.element_bytes) {
            callback = masked_load_accesses;
            qemu_plugin_register_vcpu_insn_exec_cb(instruction, masked_load_begins, QEMU_PLUGIN_CB_NO_REGS, operations);
        }
        if (operations->masked.element_bytes && operations->masked.is_followed)
            qemu_plugin_register_vcpu_insn_exec_cb(qemu_plugin_tb_get_insn(tb, first + i + 1), masked_load_ended,
                                                   QEMU_PLUGIN_CB_NO_REGS, operations);
        if (operations->is_plain && entered_by_access) {
            callback = block_runs_and_accesses;
            context = id;
            entered_by_access = false;
        }
        qemu_plugin_register_vcpu_mem_cb(instruction, callback, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW, context);
    }
}

/* Between bursts: the block alone.
 *
 * An instruction that QEMU carries out by a call leaves its memory callbacks behind in QEMU 7.2 when it ends its block
 * (see memory_accessed), and they are gone once what was translated is thrown away. So such instructions get some here
 * as well, to put in their place: all of which it is not known that they are carried out without a call. */
static void instrument_counted(struct qemu_plugin_tb *tb, uint32_t first, struct block *block)
{
    const unsigned char *code = block->code + block->n_instructions;
    void *id = (void *)(uintptr_t)block->id;
    bool entered_by_access = block->first_access != 0; /* as where it is recorded: it may fault */
    if (!entered_by_access)
        write_where_it_runs(tb, first, id);
    for (uint32_t i = 0; i < block->n_instructions; code += block->code[i++]) {
        struct qemu_plugin_insn *instruction = qemu_plugin_tb_get_insn(tb, first + i);
        struct ft_plain_access access;
        if (block->operations[i].is_plain && entered_by_access)
            qemu_plugin_register_vcpu_mem_cb(instruction, counted_block_runs, QEMU_PLUGIN_CB_NO_REGS,
                                             QEMU_PLUGIN_MEM_RW, id);
        entered_by_access = entered_by_access && !block->operations[i].is_plain;
        if (!qemu_plugin_n_vcpus || block->operations[i].is_plain ||
            accesses_of(code, block->code[i], &access) == FT_ACCESSES_NONE)
            continue; /* none is left behind by other versions of QEMU, or such instructions */
        if (n_vcpus_started == 1 && qemu_plugin_register_vcpu_mem_inline)
            qemu_plugin_register_vcpu_mem_inline(instruction, QEMU_PLUGIN_MEM_RW, QEMU_PLUGIN_INLINE_ADD_U64,
                                                 &not_recorded, 1);
        else
            qemu_plugin_register_vcpu_mem_cb(instruction, access_not_recorded, QEMU_PLUGIN_CB_NO_REGS,
                                             QEMU_PLUGIN_MEM_RW, NULL);
    }
}

static void block_translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
    static struct translation translation; /* under the lock: too large for a thread's stack */
    (void)id;
    pthread_mutex_lock(&lock);
    const size_t n = qemu_plugin_tb_n_insns(tb);
    for (size_t first = 0, end; first < n; first = end) {
        end = end_of_block(tb, first);
        if (!read_translation(&translation, tb, first, end))
            break;
        if (first == 0) {
            if (atomic_exchange(&maps_changed, false)) {
                record_maps();
                ft_allocations_forget_mappings();
            }
            ft_allocations_translate(tb, translation.address,
                                     (const void *)(uintptr_t)(translation.address + ft_writer_header()->guest_base));
        }
        if (!ft_bursts_record()) { /* what is new is recorded nevertheless, so that no operation goes unseen */
            translation.is_counted = was_recorded(&translation);
            if (!translation.is_counted)
                ft_bursts_new_code();
        }
        const uint32_t known_blocks = n_blocks;
        struct block *block = find_or_add(&translation);
        if (block && n_blocks > known_blocks)
            record_landing_pad(block);
        if (block && ft_departures_may_be_stale(block->address + ft_writer_header()->guest_base))
            qemu_plugin_register_vcpu_insn_exec_cb(qemu_plugin_tb_get_insn(tb, first), checked_block_runs,
                                                   QEMU_PLUGIN_CB_NO_REGS, block);
        if (block && block->is_counted)
            instrument_counted(tb, translation.first, block);
        else if (block)
            instrument(tb, translation.first, block);
    }
    pthread_mutex_unlock(&lock);
}

/* ---- threads, system calls, start and end ----------------------------------------------------------------------- */

static void vcpu_starts(qemu_plugin_id_t id, unsigned int vcpu)
{
    (void)id;
    if (++n_vcpus_started > 1) /* threads begin one at a time */
        ft_bursts_thread_starts();
    if (vcpu >= MAX_VCPUS || !(cursors[vcpu] = atomic_load(&n_in_library) ? ft_writer_scratch() : ft_writer_open()))
        abort(); /* out of memory: there is nowhere for its words to go */
    ft_threads_start(vcpu, cursors[vcpu]);
}

/* False if the thread is in none. */
static bool leave_library(unsigned int vcpu)
{
    if (!waiting_cursors[vcpu])
        return false;
    cursors[vcpu] = waiting_cursors[vcpu];
    waiting_cursors[vcpu] = NULL;
    atomic_fetch_sub(&n_in_library, 1);
    return true;
}

static void vcpu_ends(qemu_plugin_id_t id, unsigned int vcpu)
{
    (void)id;
    leave_library(vcpu);
    ft_writer_close(cursors[vcpu]);
    if (scratch_cursors[vcpu])
        ft_writer_close(scratch_cursors[vcpu]);
    scratch_cursors[vcpu] = NULL;
}

/* A rank enters its MPI library, which is not traced, or comes back from it (tracer/mpi/marks.h). */
static void library_call(unsigned int vcpu, uint64_t what, uint64_t call)
{
    if (what == FT_MPI_MARK_ENTER && !scratch_cursors[vcpu])
        scratch_cursors[vcpu] = ft_writer_scratch();
    if (what == FT_MPI_MARK_ENTER && !waiting_cursors[vcpu] && scratch_cursors[vcpu]) {
        scratch_cursors[vcpu]->block_id = cursors[vcpu]->block_id;
        waiting_cursors[vcpu] = cursors[vcpu];
        cursors[vcpu] = scratch_cursors[vcpu];
        atomic_fetch_add(&n_in_library, 1);
    } else if (what != FT_MPI_MARK_ENTER && leave_library(vcpu) &&
               (what == FT_MPI_MARK_LEAVE || what == FT_MPI_MARK_BEGIN)) {
        ft_write(cursors[vcpu], (uint64_t)FT_TAG_CALL << FT_TAG_SHIFT |
                                    (what == FT_MPI_MARK_BEGIN ? FT_NO_CALL : call & FT_ADDRESS_MASK));
    }
}

/* gettimeofday, time, clock_gettime; and the first and the last of them in Linux's common table of newer architectures.
 */
static bool asks_for_time(int64_t number)
{
    if (strcmp(target, "x86_64") == 0)
        return number == 96 || number == 201 || number == 228;
    return number == 169 || number == 113;
}

static void system_call(qemu_plugin_id_t id, unsigned int vcpu, int64_t number, uint64_t a1, uint64_t a2, uint64_t a3,
                        uint64_t a4, uint64_t a5, uint64_t a6, uint64_t a7, uint64_t a8)
{
    (void)id, (void)a7, (void)a8;
    struct ft_header *header = ft_writer_header();
    const uint64_t arguments[] = {a1, a2, a3, a4, a5, a6};
    if (number == FT_MPI_MARK_CALL) {
        library_call(vcpu, a1, a2);
        return;
    }
    ft_threads_call(vcpu, cursors[vcpu], number, arguments);
    ft_allocations_call(vcpu, number, arguments);
    ft_departures_call(number, arguments);
    ft_mapped_files_call(number, arguments);
    if (((uint64_t)number == header->mmap_call || (uint64_t)number == header->mprotect_call) && (a3 & PROT_EXEC))
        atomic_store(&maps_changed, true);
    ft_event_samples_look();
    mapped_code = (uint64_t)number == header->mmap_call && a3 & PROT_EXEC && !(a4 & MAP_ANONYMOUS) ? (int)a5 : -1;
    mapped_file = (uint64_t)number == header->mmap_call && a4 & MAP_SHARED ? (int)a5 : -1;
    if (asks_for_time(number) && !waiting_cursors[vcpu])
        atomic_fetch_add(&header->clock_reads, 1);
    if ((uint64_t)number == header->request.execve_call && atomic_load(&header->request.follow))
        ft_children_execve(header, a1, a2, a3);
}

static void system_call_returns(qemu_plugin_id_t id, unsigned int vcpu, int64_t number, int64_t result)
{
    (void)id;
    ft_departures_returned(number, result); /* first: it may have lowered a limit */
    ft_threads_returned(cursors[vcpu], number, result);
    ft_allocations_returned(vcpu, number, result);
    if (mapped_code >= 0 && (uint64_t)number == ft_writer_header()->mmap_call && (uint64_t)result < -UINT64_C(4096))
        ft_mapped_files_mapped(mapped_code);
    if (mapped_file >= 0 && (uint64_t)number == ft_writer_header()->mmap_call && (uint64_t)result < -UINT64_C(4096))
        ft_event_samples_mapped((uint64_t)result + ft_writer_header()->guest_base, mapped_file);
}

static void program_ends(qemu_plugin_id_t id, void *context)
{
    (void)id, (void)context;
    ft_departures_end();
    ft_writer_finish();
}

/* QEMU's own messages ("uncaught target signal ...") would appear among the program's: they go to the header. */
static ssize_t keep_message(void *cookie, const char *bytes, size_t length)
{
    struct ft_header *header = ft_writer_header();
    uint32_t used = atomic_load(&header->message_bytes);
    size_t room = used < sizeof header->message ? sizeof header->message - used : 0;
    size_t kept = length < room ? length : room;
    (void)cookie;
    memcpy(header->message + sizeof header->message - room, bytes, kept);
    atomic_store(&header->message_bytes, used + (uint32_t)kept);
    return (ssize_t)length;
}

static void redirect_messages(void)
{
    FILE *kept = fopencookie(NULL, "w", (cookie_io_functions_t){.write = keep_message});
    if (kept) {
        setvbuf(kept, NULL, _IONBF, 0);
        stderr = kept;
    }
}

/* QEMU writes core files of its own making, under names of its own, into the working directory. */
static void forbid_core_files(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_CORE, &limit) == 0) {
        limit.rlim_cur = 0;
        setrlimit(RLIMIT_CORE, &limit);
    }
}

static void register_callbacks(qemu_plugin_id_t id)
{
    qemu_plugin_register_vcpu_init_cb(id, vcpu_starts);
    qemu_plugin_register_vcpu_exit_cb(id, vcpu_ends);
    qemu_plugin_register_vcpu_tb_trans_cb(id, block_translated);
    qemu_plugin_register_vcpu_syscall_cb(id, system_call);
    qemu_plugin_register_vcpu_syscall_ret_cb(id, system_call_returns);
    qemu_plugin_register_atexit_cb(id, program_ends, NULL);
}

/* What was translated is gone, and so are all callbacks. */
static void was_reset(qemu_plugin_id_t id)
{
    ft_bursts_change();
    register_callbacks(id);
}

static void ask_for_reset(void)
{
    qemu_plugin_reset(plugin_id, was_reset);
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv);

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
    uint64_t most_mapped_bytes = 0;
    int fd = -1;
    for (int i = 0; i < argc; i++)
        if (strncmp(argv[i], "fd=", 3) == 0)
            fd = atoi(argv[i] + 3);
        else if (strncmp(argv[i], "mapped=", 7) == 0)
            most_mapped_bytes = strtoull(argv[i] + 7, NULL, 10);
    if (info->system_emulation || fd < 0 || !ft_writer_attach(fd))
        return -1;
    if (!ft_departures_begin(info->target_name, most_mapped_bytes))
        return -1;
    target = info->target_name;
    ft_mapped_files_begin(info->target_name);
    ft_children_remember();
    accesses_of = ft_accesses_on(info->target_name);
    ft_threads_begin(info->target_name);
    ft_allocations_begin(info->target_name, cursors);
    redirect_messages();
    forbid_core_files();
    plugin_id = id;
    ft_bursts_begin(&ft_writer_header()->schedule, ask_for_reset);
    register_callbacks(id);
    return 0;
}
