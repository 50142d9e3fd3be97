/* Writers of stored streams: our own format and din. See stored.h. */
#include "stored.h"

#include <stdlib.h>
#include <string.h>

#define NO_KIND UINT32_MAX
#define TEXT_BYTES (1u << 20)
#define MAX_LINE_BYTES 32u /* label, 16 digits, 4 digits, blanks and newline take 25 */

/* An operation with a size, flags and a thread, as it stands in this frame. */
struct kind {
    uint64_t address, stride;
    uint64_t what; /* what_of its accesses */
    uint32_t thread, follower;
    uint64_t first;
    uint32_t other; /* the next kind of the same operation; NO_KIND for none */
};

struct record {
    uint16_t kind, run;
    uint64_t delta;
};

struct ft_writer {
    struct ft_sink next;
    bool fetches, text, failed;
    struct ft_block_queue queue;
    uint64_t accesses; /* fetches included */
    uint32_t thread;   /* that makes the accesses */

    /* The frame being filled. `kind_of[operation]` is the kind last used by an operation, valid if it is of this frame:
     * below num_kinds and of this operation. */
    uint32_t *kind_of;
    uint32_t num_operations;
    uint32_t num_kinds, num_records, frame_accesses, last;
    struct kind *kinds;
    struct record *records;

    unsigned char *out; /* din: the text being filled */
    size_t out_bytes;
};

/* ---- our own format ----------------------------------------------------------------------------------------------- */

/* Operation, size and flags of an access in one number. */
static inline uint64_t what_of(const struct ft_access *access)
{
    return (uint64_t)access->flags << 48 | (uint64_t)access->size_bytes << 32 | access->op;
}

static inline uint32_t operation_of(const struct kind *kind)
{
    return (uint32_t)kind->what;
}

static void begin_frame(struct ft_writer *writer)
{
    writer->num_kinds = writer->num_records = writer->frame_accesses = writer->last = 0;
}

static uint32_t planes_needed(const struct ft_writer *writer)
{
    uint64_t all = 0;
    for (uint32_t i = 0; i < writer->num_records; i++)
        all |= writer->records[i].delta;
    uint32_t planes = 4;
    for (; all; all >>= 8)
        planes++;
    return planes;
}

static void put(unsigned char **out, const void *value, size_t bytes)
{
    memcpy(*out, value, bytes);
    *out += bytes;
}

static void put_kinds(const struct ft_writer *writer, unsigned char **out)
{
    for (uint32_t i = 0; i < writer->num_kinds; i++) {
        const struct kind *kind = &writer->kinds[i];
        const uint32_t operation = operation_of(kind), size_and_flags = (uint32_t)(kind->what >> 32);
        put(out, &kind->first, 8);
        put(out, &operation, 4);
        put(out, &kind->thread, 4);
        put(out, &size_and_flags, 4);
    }
}

static void put_planes(const struct ft_writer *writer, unsigned char *out, uint32_t planes)
{
    const uint32_t n = writer->num_records;
    for (uint32_t i = 0; i < n; i++) {
        const struct record *record = &writer->records[i];
        const uint32_t head = (uint32_t)record->run << 16 | record->kind;
        for (uint32_t plane = 0; plane < 4; plane++)
            out[(size_t)plane * n + i] = (unsigned char)(head >> 8 * plane);
        for (uint32_t plane = 4; plane < planes; plane++)
            out[(size_t)plane * n + i] = (unsigned char)(record->delta >> 8 * (plane - 4));
    }
}

static void end_frame(struct ft_writer *writer)
{
    if (!writer->num_records)
        return;
    const uint32_t planes = planes_needed(writer);
    const size_t length =
        FT_FRAME_HEAD_BYTES + (size_t)writer->num_kinds * FT_KIND_BYTES + (size_t)writer->num_records * planes;
    unsigned char *frame = malloc(length), *out = frame;
    if (frame) {
        put(&out, &writer->num_kinds, 4);
        put(&out, &writer->num_records, 4);
        put(&out, &writer->frame_accesses, 4);
        put_kinds(writer, &out);
        put_planes(writer, out, planes);
        ft_block_queue_add(&writer->queue, frame, length);
    }
    writer->failed |= !frame;
    begin_frame(writer);
}

static bool reserve_operation(struct ft_writer *writer, uint32_t operation)
{
    if (operation < writer->num_operations)
        return true;
    if (operation >= FT_STORED_MAX_OPERATIONS)
        return false;
    uint32_t capacity = writer->num_operations ? writer->num_operations : 1024;
    while (capacity <= operation)
        capacity *= 2;
    uint32_t *bigger = realloc(writer->kind_of, capacity * sizeof *bigger);
    if (!bigger)
        return false;
    memset(bigger + writer->num_operations, 0xff, (capacity - writer->num_operations) * sizeof *bigger);
    writer->kind_of = bigger;
    writer->num_operations = capacity;
    return true;
}

static bool is_kind(const struct ft_writer *writer, const struct kind *kind, const struct ft_access *access)
{
    return kind->what == what_of(access) && kind->thread == writer->thread;
}

/* The kind of an access whose operation's last kind is another or none. There must be room for one more kind. */
static uint32_t find_kind(struct ft_writer *writer, const struct ft_access *access)
{
    uint32_t first = writer->kind_of[access->op];
    if (first >= writer->num_kinds || operation_of(&writer->kinds[first]) != access->op)
        first = NO_KIND;
    uint32_t kind = first, before = NO_KIND;
    while (kind != NO_KIND && !is_kind(writer, &writer->kinds[kind], access)) {
        before = kind;
        kind = writer->kinds[kind].other;
    }
    if (kind == NO_KIND) {
        kind = writer->num_kinds++;
        writer->kinds[kind] = (struct kind){.first = access->address,
                                            .address = access->address,
                                            .what = what_of(access),
                                            .thread = writer->thread,
                                            .other = first};
    } else if (before != NO_KIND) { /* to the front: it is likely to be asked for again */
        writer->kinds[before].other = writer->kinds[kind].other;
        writer->kinds[kind].other = first;
    }
    writer->kind_of[access->op] = kind;
    return kind;
}

static void add_record(struct ft_writer *writer, uint32_t kind, uint64_t delta)
{
    writer->records[writer->num_records++] = (struct record){(uint16_t)kind, 0, delta << 1 ^ -(delta >> 63)};
    writer->kinds[writer->last].follower = kind;
    writer->kinds[kind].stride = delta;
}

static bool store_access(struct ft_writer *writer, const struct ft_access *access)
{
    if (writer->num_records == FT_FRAME_RECORDS || writer->num_kinds == FT_FRAME_KINDS ||
        writer->frame_accesses == FT_FRAME_ACCESSES)
        end_frame(writer);
    if (!reserve_operation(writer, access->op))
        return false;
    uint32_t kind = writer->kind_of[access->op];
    if (kind >= writer->num_kinds || !is_kind(writer, &writer->kinds[kind], access))
        kind = find_kind(writer, access);
    struct kind *now = &writer->kinds[kind];
    const uint64_t delta = access->address - now->address;
    struct record *record = writer->num_records ? &writer->records[writer->num_records - 1] : NULL;
    if (record && writer->kinds[writer->last].follower == kind && now->stride == delta && record->run < UINT16_MAX)
        record->run++;
    else
        add_record(writer, kind, delta);
    now->address = access->address;
    writer->last = kind;
    writer->frame_accesses++;
    return true;
}

/* Stores those accesses at the beginning of the batch that are as foreseen. Returns how many. */
static size_t store_foreseen(struct ft_writer *writer, const struct ft_access *batch, size_t length)
{
    if (!writer->num_records)
        return 0;
    struct record *record = &writer->records[writer->num_records - 1];
    size_t room = UINT16_MAX - record->run, done = 0;
    room = room < FT_FRAME_ACCESSES - writer->frame_accesses ? room : FT_FRAME_ACCESSES - writer->frame_accesses;
    room = room < length ? room : length;
    struct kind *const kinds = writer->kinds;
    const uint32_t thread = writer->thread;
    uint32_t last = writer->last;
    for (; done < room; done++) {
        const uint32_t kind = kinds[last].follower;
        struct kind *now = &kinds[kind];
        const uint64_t address = now->address + now->stride;
        if (address != batch[done].address || now->what != what_of(&batch[done]) || now->thread != thread)
            break;
        now->address = address;
        last = kind;
    }
    record->run = (uint16_t)(record->run + done);
    writer->frame_accesses += (uint32_t)done;
    writer->last = last;
    return done;
}

static bool store_batch(struct ft_writer *writer, const struct ft_access *batch, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        i += store_foreseen(writer, batch + i, length - i);
        if (i < length && !store_access(writer, &batch[i]))
            return false;
    }
    return true;
}

/* ---- din ---------------------------------------------------------------------------------------------------------- */

static void end_text(struct ft_writer *writer)
{
    if (writer->out_bytes)
        ft_block_queue_add(&writer->queue, writer->out, writer->out_bytes);
    else
        free(writer->out);
    writer->out = NULL;
    writer->out_bytes = 0;
}

static void put_hex(struct ft_writer *writer, uint64_t value)
{
    unsigned digits = 1;
    while (digits < 16 && value >> 4 * digits)
        digits++;
    while (digits--)
        writer->out[writer->out_bytes++] = (unsigned char)"0123456789abcdef"[value >> 4 * digits & 15];
}

/* "0 7fff1000 8": label, address, and the size where Dinero III has a comment. */
static bool write_line(struct ft_writer *writer, const struct ft_access *access)
{
    if (writer->out && TEXT_BYTES - writer->out_bytes < MAX_LINE_BYTES)
        end_text(writer);
    if (!writer->out)
        writer->out = malloc(TEXT_BYTES);
    if (!writer->out)
        return false;
    unsigned char label = access->flags & FT_ACCESS_FETCH ? '2' : access->flags & FT_ACCESS_STORE ? '1' : '0';
    writer->out[writer->out_bytes++] = label;
    writer->out[writer->out_bytes++] = ' ';
    put_hex(writer, access->address);
    writer->out[writer->out_bytes++] = ' ';
    put_hex(writer, access->size_bytes);
    writer->out[writer->out_bytes++] = '\n';
    return true;
}

/* ---- both --------------------------------------------------------------------------------------------------------- */

static void write_batch(struct ft_writer *writer, const struct ft_access *batch, size_t length)
{
    writer->accesses += length;
    if (writer->failed)
        return;
    if (!writer->text)
        writer->failed = !store_batch(writer, batch, length);
    for (size_t i = 0; writer->text && !writer->failed && i < length; i++)
        writer->failed = !write_line(writer, &batch[i]);
}

/* Passes a batch on without its instruction fetches. */
static int pass_on(struct ft_writer *writer, const struct ft_access *batch, size_t length)
{
    if (!writer->next.feed)
        return 0;
    if (!writer->fetches || writer->next.wants_fetches)
        return writer->next.feed(writer->next.simulator, batch, length);
    for (size_t begin = 0, end; begin < length; begin = end + 1) {
        for (end = begin; end < length && !(batch[end].flags & FT_ACCESS_FETCH); end++)
            ;
        if (end > begin && writer->next.feed(writer->next.simulator, batch + begin, end - begin))
            return -1;
    }
    return 0;
}

static int feed(void *context, const struct ft_access *batch, size_t length)
{
    struct ft_writer *writer = context;
    write_batch(writer, batch, length);
    return pass_on(writer, batch, length);
}

static int feed_runs(void *context, const struct ft_run *runs, size_t number)
{
    struct ft_writer *writer = context;
    struct ft_access batch[2 * FT_RUN_ACCESSES];
    size_t length = 0;
    for (const struct ft_run *run = runs; run < runs + number; run++) {
        const struct ft_iteration *iteration = run->iteration;
        const uint64_t *words = run->words;
        for (size_t i = 0; i < run->iterations; i++, words += iteration->num_words) {
            for (size_t j = 0; j < iteration->num_accesses; j++)
                batch[length++] = ft_run_access_at(iteration, words, j);
            if (length > FT_RUN_ACCESSES) {
                write_batch(writer, batch, length);
                length = 0;
            }
        }
    }
    write_batch(writer, batch, length);
    return writer->next.feed_runs ? writer->next.feed_runs(writer->next.simulator, runs, number) : 0;
}

static int set_thread(void *context, uint32_t thread)
{
    struct ft_writer *writer = context;
    writer->thread = thread;
    writer->failed |= thread >= FT_STORED_MAX_THREADS;
    return writer->next.set_thread ? writer->next.set_thread(writer->next.simulator, thread) : 0;
}

static struct ft_writer *writer_new(struct ft_sink next, bool fetches, bool text)
{
    struct ft_writer *writer = calloc(1, sizeof *writer);
    if (!writer)
        return NULL;
    writer->next = next;
    writer->fetches = fetches || next.wants_fetches;
    writer->text = text;
    ft_block_queue_init(&writer->queue);
    if (text)
        return writer;
    writer->kinds = malloc(FT_FRAME_KINDS * sizeof *writer->kinds);
    writer->records = malloc(FT_FRAME_RECORDS * sizeof *writer->records);
    if (writer->kinds && writer->records)
        return writer;
    ft_writer_free(writer);
    return NULL;
}

struct ft_writer *ft_frame_writer_new(struct ft_sink next, bool fetches)
{
    return writer_new(next, fetches, false);
}

struct ft_writer *ft_din_writer_new(struct ft_sink next, bool fetches)
{
    return writer_new(next, fetches, true);
}

void ft_writer_free(struct ft_writer *writer)
{
    if (!writer)
        return;
    ft_block_queue_destroy(&writer->queue);
    free(writer->kind_of);
    free(writer->kinds);
    free(writer->records);
    free(writer->out);
    free(writer);
}

struct ft_sink ft_writer_sink(struct ft_writer *writer)
{
    return (struct ft_sink){.simulator = writer,
                            .feed = feed,
                            .feed_runs = feed_runs,
                            .set_thread = set_thread,
                            .wants_fetches = writer->fetches};
}

struct ft_block_queue *ft_writer_queue(struct ft_writer *writer)
{
    return &writer->queue;
}

uint64_t ft_writer_accesses(const struct ft_writer *writer)
{
    return writer->accesses;
}

bool ft_writer_failed(const struct ft_writer *writer)
{
    return writer->failed;
}

void ft_writer_finish(struct ft_writer *writer)
{
    if (writer->text)
        end_text(writer);
    else
        end_frame(writer);
    ft_block_queue_close(&writer->queue);
}
