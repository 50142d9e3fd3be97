/* The board: the memory in which a process keeps its software-defined events, and which other processes can read.
 *
 * It is a file without holes in its addresses, mapped at one place, of which only the pages in use take memory. What
 * lies in it refers to the rest by offsets from its start; offset 0, the board itself, stands for none. Structures are
 * made complete before they are linked, are never moved and never freed: a reader in another process needs no lock.
 *
 * The file is FORETRACE_EVENTS_DIRECTORY/foretrace-events-USER-PROCESS (/dev/shm by default). A process that ends by
 * itself removes it, unless FORETRACE_EVENTS_KEEP is set or it is traced; of one that is killed it stays. A forked
 * process gets a copy of its own. Where there can be no file, the board is private memory, and only the process itself
 * reads it.
 */
#ifndef FORETRACE_BOARD_H
#define FORETRACE_BOARD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BOARD_MAGIC "ftevents"
#define BOARD_VERSION 3
#define BOARD_REPLACED ".replaced" /* behind the name of a file: its process became another program while it was traced */
#define COUNTERS_A_BLOCK 64
#define RECORDERS_A_BLOCK 16
#define MOST_BLOCKS 1024

typedef uint64_t board_offset;

/* Kinds of events. */
enum event_kind {
    EVENT_ENDED,       /* unregistered: handles of it are refused */
    EVENT_PLACEHOLDER, /* asked for before a library registered it */
    EVENT_REGISTERED,  /* a variable of the program */
    EVENT_CALLBACK,
    EVENT_CREATED,
    EVENT_RECORDER,
    EVENT_RECORDED, /* of a recorder: number, least, quartiles, greatest */
    EVENT_SET,
    EVENT_GROUP,
};

/* One event. What `value` means depends on the kind:
 * registered: the variable's address in the process; created: what is added to the sum over all threads; recorder: its
 * epoch, a number that no other recorder had; recorded: the recorder's offset; counting set: the offset of its first
 * element. */
struct board_event {
    _Atomic board_offset next;
    board_offset name; /* `library::event`, ended by 0 */
    _Atomic board_offset description;
    _Atomic uint32_t kind;
    uint32_t id;
    int32_t mode, type; /* PAPI_SDE_*; of a recorder, its values' if a comparison of ours says it, else -1 */
    uint32_t slot;      /* created counters and recorders: their place in each lane */
    uint32_t reserved;
    uint64_t size_bytes; /* of a recorder's values */
    _Atomic int64_t value;
    _Atomic int64_t last; /* the value at the end of the process, of what only it can read */
};

/* Values that one thread has recorded, `used_bytes` of `size_bytes`. */
struct board_chunk {
    _Atomic board_offset next;
    uint64_t size_bytes;
    _Atomic uint64_t used_bytes;
    uint64_t reserved;
    char values[];
};

/* What one thread has recorded in an epoch of a recorder; an epoch ends when it is reset. The chunks before `current`
 * are full, those behind it are of older epochs. */
struct board_recording {
    _Atomic int64_t epoch; /* 0: nothing is recorded */
    _Atomic board_offset first, current;
    uint64_t prepared_bytes; /* of the current chunk's values: writing to them cannot fail */
};

/* What one thread at a time writes. Lanes outlive their threads, and are handed to new ones. */
struct board_lane {
    board_offset next;
    _Atomic uint32_t is_taken;
    uint32_t reserved;
    _Atomic board_offset counters[MOST_BLOCKS];   /* [COUNTERS_A_BLOCK] int64 each */
    _Atomic board_offset recordings[MOST_BLOCKS]; /* [RECORDERS_A_BLOCK] struct board_recording each */
};

/* An element of a counting set, with its number; 0: it was removed. */
struct board_element {
    _Atomic board_offset next;
    _Atomic uint32_t count;
    uint32_t type_id;
    uint64_t size_bytes, hashable_bytes;
    char bytes[];
};

struct board {
    char magic[8];
    uint32_t version, process;
    uint64_t size_bytes; /* of the file, most of it a hole */
    _Atomic uint64_t used_bytes;
    _Atomic board_offset first_event, last_event, first_lane;
    _Atomic uint32_t is_ended;
    _Atomic uint32_t num_private_bytes_lost; /* that could not be kept in the file */
    _Atomic uint32_t traced_process; /* set by what traces the process: its number. It reads and removes the file */
    uint32_t reserved;
    uint64_t start_ticks; /* when the process began, as /proc/PID/stat has it: tells it from a later one of its number;
                             0: not known */
};

/* The process's board once there is one, for a tracer that comes later (tracer/python). */
extern struct board *foretrace_events_board;

/* The process's board; NULL: there is no memory for one. */
struct board *board_get(void);

static inline void *board_at(struct board *board, board_offset offset)
{
    return offset ? (char *)board + offset : NULL;
}

static inline board_offset board_offset_of(const struct board *board, const void *at)
{
    return at ? (board_offset)((const char *)at - (const char *)board) : 0;
}

/* Memory of the board, all zero, at a multiple of `alignment` (a power of two). NULL: it is full. Its pages may not be
 * there yet: board_prepare before writing. */
void *board_reserve(struct board *board, size_t size_bytes, size_t alignment);

/* Makes sure that writing to these bytes can neither fail nor take long. False: no memory. */
bool board_prepare(struct board *board, void *from, size_t size_bytes);

/* Both. */
void *board_allocate(struct board *board, size_t size_bytes);

/* A copy of a text. 0: no memory. */
board_offset board_text(struct board *board, const char *text);

/* In a forked process: a board of its own, with the values of the fork, at the same address. */
void board_fork(struct board *board);

/* Whether the file is to stay when the process ends, with the last values of what only the process can read. */
bool board_is_kept(const struct board *board);

/* Removes the file. */
void board_end(struct board *board);

#endif
