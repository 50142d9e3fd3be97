/* Reads frames of stored streams. See stored.h. Every number in a frame may be wrong. */
#include "stored.h"

#include <stdlib.h>
#include <string.h>

#define BATCH (sizeof ((struct ft_frame_reader *)0)->batch / sizeof(struct ft_access))

struct ft_frame_reader *ft_frame_reader_new(struct ft_sink sink)
{
    struct ft_frame_reader *reader = calloc(1, sizeof *reader);
    if (reader)
        reader->sink = sink;
    return reader;
}

void ft_frame_reader_free(struct ft_frame_reader *reader)
{
    if (reader)
        free(reader->frame);
    free(reader);
}

static bool wrong(struct ft_frame_reader *reader, const char *problem)
{
    reader->problem = problem;
    reader->accesses_left = 0;
    return false;
}

static uint32_t word_at(const unsigned char *data)
{
    uint32_t word;
    memcpy(&word, data, sizeof word);
    return word;
}

static bool read_kinds(struct ft_frame_reader *reader, const unsigned char *data)
{
    for (uint32_t i = 0; i < reader->num_kinds; i++, data += FT_KIND_BYTES) {
        struct ft_frame_kind *kind = &reader->kinds[i];
        *kind = (struct ft_frame_kind){.operation = word_at(data + 8), .thread = word_at(data + 12)};
        memcpy(&kind->address, data, 8);
        memcpy(&kind->size_bytes, data + 16, 2);
        memcpy(&kind->flags, data + 18, 2);
        if (kind->operation >= FT_STORED_MAX_OPERATIONS)
            return wrong(reader, "has an operation with a number beyond what a stream can hold");
        if (kind->thread >= FT_STORED_MAX_THREADS)
            return wrong(reader, "has a thread with a number beyond what a stream can hold");
        if (!kind->size_bytes || kind->flags & ~(FT_ACCESS_STORE | FT_ACCESS_FETCH))
            return wrong(reader, "has an access without a size or with unknown flags");
        if (!(kind->flags & FT_ACCESS_FETCH) && kind->operation >= reader->num_operations)
            reader->num_operations = kind->operation + 1;
    }
    return true;
}

bool ft_frame_reader_begin(struct ft_frame_reader *reader, const unsigned char *data, size_t length)
{
    if (length < FT_FRAME_HEAD_BYTES)
        return wrong(reader, "has a frame that is too short");
    reader->num_kinds = word_at(data);
    reader->num_records = word_at(data + 4);
    reader->accesses_left = word_at(data + 8);
    const size_t kinds_bytes = (size_t)reader->num_kinds * FT_KIND_BYTES;
    if (!reader->num_kinds || reader->num_kinds > FT_FRAME_KINDS || !reader->num_records ||
        reader->num_records > FT_FRAME_RECORDS || reader->accesses_left < reader->num_records ||
        reader->accesses_left > FT_FRAME_ACCESSES || kinds_bytes > length - FT_FRAME_HEAD_BYTES)
        return wrong(reader, "has a frame with impossible counts");
    const size_t planes_bytes = length - FT_FRAME_HEAD_BYTES - kinds_bytes;
    reader->num_planes = (uint32_t)(planes_bytes / reader->num_records);
    if (planes_bytes % reader->num_records || reader->num_planes > FT_RECORD_BYTES)
        return wrong(reader, "has a frame whose length does not fit its counts");
    unsigned char *frame = realloc(reader->frame, length);
    if (!frame)
        return false;
    reader->frame = memcpy(frame, data, length);
    reader->planes = frame + FT_FRAME_HEAD_BYTES + kinds_bytes;
    reader->record = reader->run_left = reader->kind = reader->last = 0;
    return read_kinds(reader, frame + FT_FRAME_HEAD_BYTES);
}

/* Begins the next record: makes its kind and stride the next access's. */
static bool next_record(struct ft_frame_reader *reader)
{
    unsigned char bytes[FT_RECORD_BYTES] = {0};
    uint16_t kind, run;
    uint64_t delta;
    if (reader->record == reader->num_records)
        return wrong(reader, "has a frame with fewer accesses than it says");
    for (uint32_t plane = 0; plane < reader->num_planes; plane++)
        bytes[plane] = reader->planes[(size_t)plane * reader->num_records + reader->record];
    memcpy(&kind, bytes, 2);
    memcpy(&run, bytes + 2, 2);
    memcpy(&delta, bytes + 4, 8);
    if (kind >= reader->num_kinds)
        return wrong(reader, "has a record of a kind that does not exist");
    reader->record++;
    reader->run_left = run + 1u;
    reader->kinds[reader->last].follower = kind;
    reader->kind = kind;
    reader->kinds[kind].stride = delta >> 1 ^ -(delta & 1);
    return true;
}

static bool flush(struct ft_frame_reader *reader)
{
    const uint32_t length = reader->batch_length;
    reader->batch_length = 0;
    return length == 0 || !reader->sink.feed || reader->sink.feed(reader->sink.simulator, reader->batch, length) == 0;
}

static bool set_thread(struct ft_frame_reader *reader, uint32_t thread)
{
    reader->thread = thread;
    return !reader->sink.set_thread || (flush(reader) && reader->sink.set_thread(reader->sink.simulator, thread) == 0);
}

static bool take_access(struct ft_frame_reader *reader, struct ft_frame_kind *kind)
{
    kind->address += kind->stride;
    if (kind->address > UINT64_MAX - kind->size_bytes)
        return wrong(reader, "has an access beyond the end of the address space");
    if (kind->thread != reader->thread && !set_thread(reader, kind->thread))
        return false;
    if (kind->flags & FT_ACCESS_FETCH) {
        reader->fetches++;
        if (!reader->sink.wants_fetches)
            return true;
    } else {
        *(kind->flags & FT_ACCESS_STORE ? &reader->stores : &reader->loads) += 1;
    }
    if (reader->batch_length == BATCH && !flush(reader))
        return false;
    reader->batch[reader->batch_length++] =
        (struct ft_access){kind->address, kind->operation, kind->size_bytes, kind->flags};
    return true;
}

int ft_frame_reader_step(struct ft_frame_reader *reader, uint32_t max_accesses)
{
    for (uint32_t now; reader->accesses_left && max_accesses; reader->accesses_left -= now, max_accesses -= now) {
        if (!reader->run_left && !next_record(reader))
            return -1;
        now = reader->run_left < reader->accesses_left ? reader->run_left : reader->accesses_left;
        now = now < max_accesses ? now : max_accesses;
        reader->run_left -= now;
        for (uint32_t i = 0; i < now; i++) {
            struct ft_frame_kind *kind = &reader->kinds[reader->kind];
            if (!take_access(reader, kind))
                return -1;
            reader->last = reader->kind;
            reader->kind = kind->follower;
        }
    }
    if (reader->accesses_left)
        return 1;
    if (reader->record == reader->num_records && !reader->run_left)
        return flush(reader) ? 0 : -1;
    wrong(reader, "has a frame with more accesses than it says");
    return -1;
}
