#define _GNU_SOURCE
#include "tracer/events/lanes.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#define FIRST_CHUNK_BYTES ((uint64_t)128 << 10)
#define LARGEST_CHUNK_BYTES ((uint64_t)8 << 20)
#define STEP_BYTES ((uint64_t)16 << 10)
#define LEAST_VALUES 16                          /* in a chunk */
#define MOST_BYTES_AHEAD ((int64_t)16 << 20) /* prepared for recorders that are not used yet */
#define MOST_LANES_AHEAD 16                  /* for threads that have not counted yet */

static _Thread_local struct board_lane *own __attribute__((tls_model("initial-exec")));
static pthread_key_t end_of_thread;
static pthread_once_t has_key = PTHREAD_ONCE_INIT;
static _Atomic int64_t bytes_ahead;

/* ---- lanes -------------------------------------------------------------------------------------------------------- */

static void free_lane(void *lane)
{
    own = NULL;
    atomic_store(&((struct board_lane *)lane)->is_taken, 0);
}

static void make_key(void)
{
    pthread_key_create(&end_of_thread, free_lane);
}

static bool take(struct board_lane *lane)
{
    uint32_t is_free = 0;
    return atomic_compare_exchange_strong(&lane->is_taken, &is_free, 1);
}

static struct board_lane *new_lane(struct board *board)
{
    struct board_lane *lane = board_allocate(board, sizeof *lane);
    if (!lane)
        return NULL;
    atomic_store(&lane->is_taken, 1);
    board_offset first = atomic_load(&board->first_lane);
    do
        lane->next = first;
    while (!atomic_compare_exchange_weak(&board->first_lane, &first, board_offset_of(board, lane)));
    return lane;
}

static struct board_lane *own_lane(struct board *board)
{
    if (own)
        return own;
    pthread_once(&has_key, make_key);
    struct board_lane *lane = board_at(board, atomic_load(&board->first_lane));
    while (lane && !take(lane))
        lane = board_at(board, lane->next);
    own = lane ? lane : new_lane(board);
    if (own)
        pthread_setspecific(end_of_thread, own);
    return own;
}

void lanes_fork(struct board *board)
{
    struct board_lane *lane = board_at(board, atomic_load(&board->first_lane));
    for (; lane; lane = board_at(board, lane->next))
        if (lane != own)
            atomic_store(&lane->is_taken, 0);
}

/* Place `slot` of a lane's blocks with `a_block` structures each. */
static void *place_in(struct board *board, _Atomic board_offset *blocks, uint32_t slot, uint32_t a_block,
                      size_t size_bytes)
{
    _Atomic board_offset *block = &blocks[slot / a_block];
    board_offset at = atomic_load_explicit(block, memory_order_relaxed);
    if (!at) {
        at = board_offset_of(board, board_allocate(board, a_block * size_bytes));
        if (!at)
            return NULL;
        atomic_store_explicit(block, at, memory_order_release);
    }
    return (char *)board_at(board, at) + slot % a_block * size_bytes;
}

/* ---- counters ----------------------------------------------------------------------------------------------------- */

bool lanes_add(struct board *board, uint32_t slot, int64_t increment)
{
    struct board_lane *lane = own_lane(board);
    _Atomic int64_t *count = lane ? place_in(board, lane->counters, slot, COUNTERS_A_BLOCK, sizeof *count) : NULL;
    if (!count)
        return false;
    const uint64_t sum = (uint64_t)atomic_load_explicit(count, memory_order_relaxed) + (uint64_t)increment;
    atomic_store_explicit(count, (int64_t)sum, memory_order_relaxed);
    return true;
}

int64_t lanes_sum(struct board *board, uint32_t slot)
{
    uint64_t sum = 0;
    struct board_lane *lane = board_at(board, atomic_load(&board->first_lane));
    for (; lane; lane = board_at(board, lane->next)) {
        _Atomic int64_t *counts = board_at(board, atomic_load(&lane->counters[slot / COUNTERS_A_BLOCK]));
        if (counts)
            sum += (uint64_t)atomic_load_explicit(&counts[slot % COUNTERS_A_BLOCK], memory_order_relaxed);
    }
    return (int64_t)sum;
}

/* ---- recorders ---------------------------------------------------------------------------------------------------- */

static struct board_chunk *new_chunk(struct board *board, uint64_t value_bytes, uint64_t size_bytes)
{
    if (size_bytes < value_bytes * LEAST_VALUES)
        size_bytes = value_bytes * LEAST_VALUES;
    struct board_chunk *chunk = board_reserve(board, sizeof *chunk + size_bytes, 64);
    if (!chunk || !board_prepare(board, chunk, sizeof *chunk))
        return NULL;
    chunk->size_bytes = size_bytes;
    return chunk;
}

/* The current chunk of a recording, with room for a value that is prepared. NULL: no memory. */
static struct board_chunk *chunk_with_room(struct board *board, struct board_recording *recording, uint64_t value_bytes,
                                           uint64_t step_bytes)
{
    struct board_chunk *chunk = board_at(board, atomic_load_explicit(&recording->current, memory_order_relaxed));
    if (!chunk || atomic_load(&chunk->used_bytes) + value_bytes > chunk->size_bytes) {
        _Atomic board_offset *link = chunk ? &chunk->next : &recording->first;
        struct board_chunk *next = board_at(board, atomic_load(link));
        const uint64_t larger = chunk ? 2 * chunk->size_bytes : FIRST_CHUNK_BYTES;
        if (next && next->size_bytes >= value_bytes)
            atomic_store(&next->used_bytes, 0); /* of an older epoch */
        else if (!(next = new_chunk(board, value_bytes, larger < LARGEST_CHUNK_BYTES ? larger : LARGEST_CHUNK_BYTES)))
            return NULL;
        atomic_store(link, board_offset_of(board, next));
        atomic_store(&recording->current, board_offset_of(board, next));
        recording->prepared_bytes = 0;
        chunk = next;
    }
    uint64_t prepared = atomic_load(&chunk->used_bytes) + (step_bytes > value_bytes ? step_bytes : value_bytes);
    if (prepared > chunk->size_bytes)
        prepared = chunk->size_bytes;
    if (prepared <= recording->prepared_bytes)
        return chunk;
    if (!board_prepare(board, chunk->values + recording->prepared_bytes, prepared - recording->prepared_bytes))
        return NULL;
    recording->prepared_bytes = prepared;
    return chunk;
}

/* Starts over in the first chunk, where a recorder was reset. */
static void begin(struct board *board, struct board_recording *recording, int64_t epoch)
{
    struct board_chunk *first = board_at(board, atomic_load(&recording->first));
    if (first)
        atomic_store(&first->used_bytes, 0);
    atomic_store(&recording->current, atomic_load(&recording->first));
    recording->prepared_bytes = 0;
    atomic_store(&recording->epoch, epoch);
}

/* A recorder's recording in a lane of this thread, in the epoch of now. */
static struct board_recording *recording_in(struct board *board, struct board_lane *lane,
                                            const struct board_event *recorder)
{
    struct board_recording *recording =
        lane ? place_in(board, lane->recordings, recorder->slot, RECORDERS_A_BLOCK, sizeof *recording) : NULL;
    const int64_t epoch = atomic_load_explicit(&recorder->value, memory_order_relaxed);
    if (recording && atomic_load_explicit(&recording->epoch, memory_order_relaxed) != epoch)
        begin(board, recording, epoch);
    return recording;
}

bool lanes_record(struct board *board, struct board_event *recorder, const void *value)
{
    struct board_recording *recording = recording_in(board, own_lane(board), recorder);
    if (!recording)
        return false;
    const size_t size_bytes = recorder->size_bytes;
    struct board_chunk *chunk = board_at(board, atomic_load_explicit(&recording->current, memory_order_relaxed));
    uint64_t used = chunk ? atomic_load_explicit(&chunk->used_bytes, memory_order_relaxed) : 0;
    if (!chunk || used + size_bytes > recording->prepared_bytes) {
        chunk = chunk_with_room(board, recording, size_bytes, STEP_BYTES);
        if (!chunk)
            return false;
        used = atomic_load(&chunk->used_bytes);
    }
    if (size_bytes == sizeof(double)) /* one instruction instead of a call */
        memcpy(chunk->values + used, value, sizeof(double));
    else
        memcpy(chunk->values + used, value, size_bytes);
    atomic_store_explicit(&chunk->used_bytes, used + size_bytes, memory_order_release);
    return true;
}

/* Prepares a lane of this thread, or one that it has taken. */
static void expect_in(struct board *board, struct board_lane *lane, const struct board_event *event,
                      uint64_t size_bytes)
{
    if (atomic_load(&event->kind) == EVENT_CREATED) {
        place_in(board, lane->counters, event->slot, COUNTERS_A_BLOCK, sizeof(int64_t));
        return;
    }
    struct board_recording *recording = recording_in(board, lane, event);
    if (recording && atomic_fetch_add(&bytes_ahead, (int64_t)size_bytes) < MOST_BYTES_AHEAD)
        chunk_with_room(board, recording, event->size_bytes, size_bytes);
}

void lanes_expect(struct board *board, const struct board_event *event)
{
    struct board_lane *its = own_lane(board);
    if (!its)
        return;
    expect_in(board, its, event, FIRST_CHUNK_BYTES);
    const long num_cores = sysconf(_SC_NPROCESSORS_ONLN);
    long num_lanes = 0;
    struct board_lane *lane = board_at(board, atomic_load(&board->first_lane));
    for (; lane; lane = board_at(board, lane->next), num_lanes++)
        if (lane != its && take(lane)) {
            expect_in(board, lane, event, FIRST_CHUNK_BYTES);
            atomic_store(&lane->is_taken, 0);
        }
    for (; num_lanes < num_cores && num_lanes < MOST_LANES_AHEAD && (lane = new_lane(board)); num_lanes++) {
        expect_in(board, lane, event, FIRST_CHUNK_BYTES);
        atomic_store(&lane->is_taken, 0);
    }
}

void lanes_values(struct board *board, const struct board_event *recorder,
                  void (*take)(const char *values, size_t size_bytes, void *context), void *context)
{
    const uint32_t block = recorder->slot / RECORDERS_A_BLOCK, at = recorder->slot % RECORDERS_A_BLOCK;
    struct board_lane *lane = board_at(board, atomic_load(&board->first_lane));
    for (; lane; lane = board_at(board, lane->next)) {
        struct board_recording *recordings = board_at(board, atomic_load(&lane->recordings[block]));
        if (!recordings || atomic_load(&recordings[at].epoch) != atomic_load(&recorder->value))
            continue;
        const board_offset current = atomic_load(&recordings[at].current);
        board_offset offset = current ? atomic_load(&recordings[at].first) : 0;
        while (offset) {
            struct board_chunk *chunk = board_at(board, offset);
            const uint64_t used = atomic_load_explicit(&chunk->used_bytes, memory_order_acquire);
            take(chunk->values, used - used % recorder->size_bytes, context);
            offset = offset == current ? 0 : atomic_load(&chunk->next);
        }
    }
}
