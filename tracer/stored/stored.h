/* Writers and the reader of stored address streams. A writer is a sink: it passes what it is fed on to the next one, if
 * there is any, and queues blocks of bytes for the thread that writes the file.
 *
 * A frame of our own format, before compression, little-endian (docs/stored-streams.md):
 *
 *   uint32 kinds, records, accesses
 *   kinds x { uint64 first address, uint32 operation, uint32 thread, uint16 size in bytes, uint16 flags }
 *   records x { uint16 kind, uint16 run, uint64 delta }, byte 0 of all records first, then byte 1 of all, ...; last
 *   bytes that are 0 in all records are left out
 *
 * A kind is a memory operation with a size, flags and a thread. It has an address (at first that of its first access),
 * a stride (at first 0) and a follower (at first kind 0). A record stands for 1 + run accesses. The first is of its
 * kind, becomes the follower of the kind of the access before, and sets its kind's stride to delta, (delta >> 1) ^
 * -(delta & 1) as a signed number. Each of the others is of the kind that follows the one before. Each access is its
 * kind's stride beyond its kind's last. Nothing is carried from frame to frame.
 */
#ifndef FORETRACE_STORED_H
#define FORETRACE_STORED_H

#include "block_queue.h"
#include "cache_sim/simulation/access.h"

#include <stdint.h>

#define FT_FRAME_RECORDS 65536u
#define FT_FRAME_KINDS 65536u
#define FT_FRAME_ACCESSES (1u << 24)
#define FT_FRAME_HEAD_BYTES 12u
#define FT_KIND_BYTES 20u
#define FT_RECORD_BYTES 12u
#define FT_STORED_MAX_OPERATIONS (1u << 22)
#define FT_STORED_MAX_THREADS (1u << 16)

struct ft_writer;

/* Both: `next` may have no functions; `fetches` says whether to ask for instruction fetches, which `next` then gets
 * only if it wants them. NULL when memory ran out. */
struct ft_writer *ft_frame_writer_new(struct ft_sink next, bool fetches);
struct ft_writer *ft_din_writer_new(struct ft_sink next, bool fetches);
void ft_writer_free(struct ft_writer *writer);

struct ft_sink ft_writer_sink(struct ft_writer *writer);
struct ft_block_queue *ft_writer_queue(struct ft_writer *writer);
uint64_t ft_writer_accesses(const struct ft_writer *writer);
bool ft_writer_failed(const struct ft_writer *writer); /* memory ran out, or there were too many operations */

/* Queues what is left and closes the queue. */
void ft_writer_finish(struct ft_writer *writer);

/* ---- reading ------------------------------------------------------------------------------------------------------ */

struct ft_frame_kind {
    uint64_t address, stride;
    uint32_t operation, thread, follower;
    uint16_t size_bytes, flags;
};

struct ft_frame_reader {
    struct ft_sink sink;
    uint64_t loads, stores, fetches;
    uint32_t thread;         /* of the accesses fed last */
    uint32_t num_operations; /* one more than the largest operation */
    const char *problem;

    uint32_t num_kinds, num_records, num_planes, accesses_left;
    const unsigned char *planes; /* in `frame` */
    unsigned char *frame;
    uint32_t record, run_left, kind, last, batch_length;
    struct ft_frame_kind kinds[FT_FRAME_KINDS];
    struct ft_access batch[4096];
};

struct ft_frame_reader *ft_frame_reader_new(struct ft_sink sink);
void ft_frame_reader_free(struct ft_frame_reader *reader);

/* Begins a frame, of which it keeps a copy. False: `problem` says why, or memory ran out if it is NULL. */
bool ft_frame_reader_begin(struct ft_frame_reader *reader, const unsigned char *data, size_t length);

/* Feeds up to `max_accesses` of the frame. Returns 1 if there are more, 0 if not, -1 as above. */
int ft_frame_reader_step(struct ft_frame_reader *reader, uint32_t max_accesses);

#endif
