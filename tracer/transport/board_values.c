/* See board_values.h. */
#define _GNU_SOURCE
#include "board_values.h"

#include "tracer/events/board.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#define MOST_PIECES 512u    /* of memory, read at once */
#define MOST_LANES 65536u   /* a list of more does not end */
#define MOST_CHUNKS 4096u   /* of one recording, likewise */
#define MOST_LISTED (1u << 20)
#define TYPE_INT 1 /* PAPI_SDE_* */
#define TYPE_DOUBLE 2
#define TYPE_FLOAT 3

struct lane_head {
    board_offset next;
    board_offset counters[MOST_BLOCKS], recordings[MOST_BLOCKS];
};

struct ft_board_values {
    uint64_t address, guest_base;
    board_offset last; /* of the events that were listed, 0: none */
    uint32_t num_events;
    board_offset events[FT_MAX_SAMPLED_EVENTS];
    struct ft_event_value values[FT_MAX_SAMPLED_EVENTS];
    struct board_event content[FT_MAX_SAMPLED_EVENTS];
    struct lane_head lane;
    int64_t counts[MOST_BLOCKS][COUNTERS_A_BLOCK];
    struct board_recording recordings[MOST_BLOCKS][RECORDERS_A_BLOCK];
    uint64_t variables[FT_MAX_SAMPLED_EVENTS];
    struct iovec to[FT_MAX_SAMPLED_EVENTS], from[FT_MAX_SAMPLED_EVENTS];
    uint32_t num_pieces;
};

/* ---- memory ------------------------------------------------------------------------------------------------------- */

static bool read_at(uint64_t address, void *to, size_t size_bytes)
{
    const struct iovec own = {to, size_bytes}, its = {(void *)(uintptr_t)address, size_bytes};
    return process_vm_readv(getpid(), &own, 1, &its, 1, 0) == (ssize_t)size_bytes;
}

static void add_piece(struct ft_board_values *board, void *to, uint64_t address, size_t size_bytes)
{
    board->to[board->num_pieces] = (struct iovec){to, size_bytes};
    board->from[board->num_pieces++] = (struct iovec){(void *)(uintptr_t)address, size_bytes};
}

/* Reads the pieces that were added. What cannot be read becomes zero, and its piece's length 0. */
static void read_pieces(struct ft_board_values *board)
{
    struct iovec *to = board->to, *const end = to + board->num_pieces;
    const struct iovec *from = board->from;
    while (to < end) {
        const size_t some = (size_t)(end - to) < MOST_PIECES ? (size_t)(end - to) : MOST_PIECES;
        ssize_t left = process_vm_readv(getpid(), to, some, from, some, 0);
        size_t done = 0;
        for (; done < some && left >= (ssize_t)to[done].iov_len; done++)
            left -= (ssize_t)to[done].iov_len;
        if (done < some) {
            memset(to[done].iov_base, 0, to[done].iov_len);
            to[done++].iov_len = 0;
        }
        to += done;
        from += done;
    }
    board->num_pieces = 0;
}

struct ft_board_values *ft_board_values_new(uint64_t address, uint64_t guest_base)
{
    struct ft_board_values *board =
        mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (board == MAP_FAILED)
        return NULL;
    board->address = address;
    board->guest_base = guest_base;
    return board;
}

void ft_board_values_free(struct ft_board_values *board)
{
    if (board)
        munmap(board, sizeof *board);
}

static bool read_head(uint64_t address, struct board *head)
{
    return read_at(address, head, sizeof *head) && memcmp(head->magic, BOARD_MAGIC, sizeof head->magic) == 0 &&
           head->version == BOARD_VERSION && head->process == (uint32_t)getpid();
}

bool ft_board_is_at(uint64_t address)
{
    struct board head;
    return read_head(address, &head);
}

void ft_board_trace(uint64_t address, bool is_traced)
{
    uint32_t process = is_traced ? (uint32_t)getpid() : 0;
    const struct iovec own = {&process, sizeof process};
    const struct iovec its = {(char *)(uintptr_t)address + offsetof(struct board, traced_process), sizeof process};
    if (ft_board_is_at(address))
        (void)!process_vm_writev(getpid(), &own, 1, &its, 1, 0);
}

/* ---- events ------------------------------------------------------------------------------------------------------- */

/* Lists the events that were added since the last time. */
static void list_events(struct ft_board_values *board, const struct board *head)
{
    struct board_event event;
    board_offset at = head->first_event;
    if (board->last == head->last_event || board->num_events == FT_MAX_SAMPLED_EVENTS)
        return;
    if (board->last) {
        if (!read_at(board->address + board->last, &event, sizeof event))
            return;
        at = event.next;
    }
    for (uint32_t seen = 0; at && seen < MOST_LISTED && board->num_events < FT_MAX_SAMPLED_EVENTS; seen++) {
        if (at > head->size_bytes || !read_at(board->address + at, &event, sizeof event))
            return;
        if (event.id < FT_MAX_SAMPLED_EVENTS) {
            board->values[board->num_events] = (struct ft_event_value){.number = event.id};
            board->events[board->num_events++] = at;
        }
        board->last = at;
        at = event.next;
    }
}

static void read_events(struct ft_board_values *board)
{
    for (uint32_t i = 0; i < board->num_events; i++)
        add_piece(board, &board->content[i], board->address + board->events[i], sizeof board->content[i]);
    read_pieces(board);
    for (uint32_t i = 0; i < board->num_events; i++)
        if (!board->to[i].iov_len || board->content[i].id != board->values[i].number)
            board->content[i].kind = EVENT_ENDED;
}

/* ---- variables ---------------------------------------------------------------------------------------------------- */

static uint64_t bits_of(const void *at, int32_t type)
{
    int32_t narrow;
    float narrow_real;
    double real;
    uint64_t bits;
    memcpy(&bits, at, sizeof bits);
    if (type == TYPE_INT) {
        memcpy(&narrow, at, sizeof narrow);
        return (uint64_t)(int64_t)narrow;
    }
    if (type == TYPE_FLOAT) {
        memcpy(&narrow_real, at, sizeof narrow_real);
        real = (double)narrow_real;
        memcpy(&bits, &real, sizeof bits);
    }
    return bits;
}

static void read_variables(struct ft_board_values *board)
{
    for (uint32_t i = 0; i < board->num_events; i++) {
        const struct board_event *event = &board->content[i];
        const bool is_narrow = event->type == TYPE_INT || event->type == TYPE_FLOAT;
        if (event->kind == EVENT_REGISTERED)
            add_piece(board, &board->variables[i], (uint64_t)event->value + board->guest_base, is_narrow ? 4 : 8);
    }
    read_pieces(board);
    for (uint32_t i = 0, piece = 0; i < board->num_events; i++) {
        const struct board_event *event = &board->content[i];
        struct ft_event_value *value = &board->values[i];
        if (event->kind != EVENT_REGISTERED)
            continue;
        value->is_known = board->to[piece++].iov_len;
        value->is_real = event->type == TYPE_DOUBLE || event->type == TYPE_FLOAT;
        value->bits = bits_of(&board->variables[i], event->type);
    }
}

/* ---- what is in the lanes ----------------------------------------------------------------------------------------- */

/* How many blocks of each lane events are in. */
static uint32_t num_blocks(const struct ft_board_values *board, uint32_t kind, uint32_t a_block)
{
    uint32_t number = 0;
    for (uint32_t i = 0; i < board->num_events; i++) {
        const uint32_t block = board->content[i].slot / a_block;
        if (board->content[i].kind == kind && block < MOST_BLOCKS && block >= number)
            number = block + 1;
    }
    return number;
}

/* How many bytes of whole values a recording has. */
static uint64_t recorded_bytes(const struct ft_board_values *board, const struct board_recording *recording,
                               uint64_t value_bytes)
{
    struct board_chunk chunk;
    uint64_t bytes = 0;
    board_offset at = recording->current ? recording->first : 0;
    for (uint32_t i = 0; at && i < MOST_CHUNKS; i++) {
        if (!read_at(board->address + at, &chunk, sizeof chunk))
            break;
        bytes += chunk.used_bytes - chunk.used_bytes % value_bytes;
        at = at == recording->current ? 0 : chunk.next;
    }
    return bytes;
}

static void read_blocks(struct ft_board_values *board, uint32_t num_counters, uint32_t num_recordings)
{
    struct lane_head *lane = &board->lane;
    for (uint32_t i = 0; i < num_counters; i++)
        if (lane->counters[i])
            add_piece(board, board->counts[i], board->address + lane->counters[i], sizeof board->counts[i]);
    for (uint32_t i = 0; i < num_recordings; i++)
        if (lane->recordings[i])
            add_piece(board, board->recordings[i], board->address + lane->recordings[i], sizeof board->recordings[i]);
    read_pieces(board);
}

/* Adds what one lane has counted and recorded. */
static void add_lane(struct ft_board_values *board)
{
    const struct lane_head *lane = &board->lane;
    for (uint32_t i = 0; i < board->num_events; i++) {
        const struct board_event *event = &board->content[i];
        const bool counts = event->kind == EVENT_CREATED;
        const uint32_t a_block = counts ? COUNTERS_A_BLOCK : RECORDERS_A_BLOCK;
        const uint32_t block = event->slot / a_block, place = event->slot % a_block;
        if (!board->values[i].is_known || block >= MOST_BLOCKS || event->kind == EVENT_REGISTERED)
            continue;
        if (counts && lane->counters[block])
            board->values[i].bits += (uint64_t)board->counts[block][place];
        else if (!counts && lane->recordings[block] && board->recordings[block][place].epoch == event->value)
            board->values[i].bits +=
                recorded_bytes(board, &board->recordings[block][place], event->size_bytes) / event->size_bytes;
    }
}

static void read_lanes(struct ft_board_values *board, board_offset at)
{
    const uint32_t num_counters = num_blocks(board, EVENT_CREATED, COUNTERS_A_BLOCK);
    const uint32_t num_recordings = num_blocks(board, EVENT_RECORDER, RECORDERS_A_BLOCK);
    struct lane_head *lane = &board->lane;
    for (uint32_t i = 0; i < board->num_events; i++) {
        const struct board_event *event = &board->content[i];
        if (event->kind != EVENT_CREATED && (event->kind != EVENT_RECORDER || !event->size_bytes))
            continue;
        board->values[i].is_known = true;
        board->values[i].bits = event->kind == EVENT_CREATED ? (uint64_t)event->value : 0;
    }
    for (uint32_t i = 0; at && (num_counters || num_recordings) && i < MOST_LANES; i++) {
        const uint64_t from = board->address + at;
        add_piece(board, &lane->next, from + offsetof(struct board_lane, next), sizeof lane->next);
        if (num_counters)
            add_piece(board, lane->counters, from + offsetof(struct board_lane, counters), num_counters * sizeof at);
        if (num_recordings)
            add_piece(board, lane->recordings, from + offsetof(struct board_lane, recordings),
                      num_recordings * sizeof at);
        memset(lane, 0, sizeof *lane);
        read_pieces(board);
        read_blocks(board, num_counters, num_recordings);
        add_lane(board);
        at = lane->next;
    }
}

uint32_t ft_board_values_read(struct ft_board_values *board, const struct ft_event_value **values)
{
    struct board head;
    *values = board->values;
    if (!read_head(board->address, &head))
        return 0;
    list_events(board, &head);
    read_events(board);
    for (uint32_t i = 0; i < board->num_events; i++)
        board->values[i].is_known = false;
    read_variables(board);
    read_lanes(board, head.first_lane);
    return board->num_events;
}
