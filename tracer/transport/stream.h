/* The address stream: layout of the memory shared by a traced program (the writer) and foretrace (the reader).
 *
 * This header is the layout's one authority. tracer/reader/side_table.py mirrors it and a test compares the two.
 *
 *   +--------+---------+-------+-----------+------------------+------------------------------+
 *   | header | cursors | queues| chunks ...| (page aligned)   | side table (append only)     |
 *   +--------+---------+-------+-----------+------------------+------------------------------+
 *
 * Chunks carry the stream, 64-bit words (below). A chunk belongs to one writer thread while it is filled, to the reader
 * from when it is published until it is released. Two single-reader queues of chunk numbers connect the sides:
 * `ready` (writer -> reader) and `free` (reader -> writer). Writer threads take turns at the queues under a lock of
 * their own; the reader never takes a lock. A writer that finds no free chunk waits on the futex `free_head`, a reader
 * that finds none ready waits on `ready_head`.
 *
 * Invariants
 *  - A cursor says at any moment how far its thread's chunk is filled, so that what a killed program had written but
 *    not published can still be read.
 *  - What a stream word refers to (a block, an operation) is in the side table, and side_used_bytes covers it, before
 *    the chunk with that word is published or the program can die with it in a cursor's chunk.
 *  - Nothing is dropped: a full ring makes the writer wait. Only when the reader is dead does the writer go on alone.
 */
#ifndef FORETRACE_STREAM_H
#define FORETRACE_STREAM_H

#include <stdatomic.h>
#include <stdint.h>

#define FT_STREAM_MAGIC UINT64_C(0x314d415254535446) /* "FTSTRAM1" in a little-endian file */
#define FT_STREAM_VERSION 9u

#define FT_CHUNK_WORDS 8192u
#define FT_MAX_CURSORS 1024u
#define FT_MAX_THREADS (1u << 20) /* in all; more go on untraced */
/* In the free queue at the start; each writer thread adds the one reserved for it. They are more than either side fills
 * or reads while the scheduler lets the other wait for its turn. */
#define FT_SHARED_CHUNKS 192u
#define FT_MAX_CHUNKS (FT_SHARED_CHUNKS + FT_MAX_CURSORS)
#define FT_QUEUE_SLOTS 2048u /* a power of two above FT_MAX_CHUNKS with the marks between them: the queues cannot overflow */

/* Where a writer thread stands. The three positions are addresses in the writer's own memory; the reader uses nothing
 * but their differences, and only once the program is dead. */
struct ft_cursor {
    uint64_t *next; /* where the next word goes */
    uint64_t *end;
    uint64_t *begin;
    uint32_t chunk;
    _Atomic uint32_t in_use;
    uint32_t used_before; /* its reserved chunk is in circulation already */
    uint32_t sequence;    /* counts the chunks it had: tells a published chunk from the one in hand */
    uint32_t block_id;    /* the writer's own: the block the thread is in */
    uint32_t thread;      /* number of the thread that has it, from 1; another one may get it when it ends */
    uint32_t num_events;  /* the writer's own: its thread's so far (see enum ft_synchronisation) */
    uint32_t left_words;  /* the writer's own: at the end of the chunk before */
    uint32_t padding[2];  /* one cache line each */
};

/* A process that wants a stream of its own: see children.h. One at a time asks; `pid` says who, 0 for nobody. */
enum ft_request_kind { FT_REQUEST_FORK = 1, FT_REQUEST_EXEC = 2, FT_REQUEST_START = 3 };
enum ft_request_state { FT_REQUEST_NONE, FT_REQUEST_ASKED, FT_REQUEST_GRANTED, FT_REQUEST_REFUSED };

struct ft_request {
    _Atomic uint32_t follow; /* set by the reader: it answers requests */
    _Atomic uint32_t pid;    /* a futex */
    _Atomic uint32_t state;  /* a futex */
    uint32_t kind;
    uint32_t fd;      /* the answer: a descriptor of the reader's */
    uint32_t process; /* set by the reader: number of the process that has this stream, from 0, */
    uint32_t own_fd;  /* the reader's descriptor of this memory (Python): a program that is started asks through it, */
    uint32_t exchange_fd; /* and that of what all processes share (exchange.h); UINT32_MAX: there is none */
    uint32_t elf_machine; /* of programs that the engine can run */
    uint64_t execve_call; /* number of the system call */
    uint32_t command_bytes;
    char command[1020]; /* of the new program, each word with a NUL after it; it may be cut off */
};

/* Where accesses are recorded in bursts: marks in the queue of chunks say what the chunks behind them hold, of all
 * threads. Until the first mark it is FT_MARK_MEASURE. A mark is an entry whose chunk is FT_MARK and whose `words` say
 * which. */
#define FT_MARK UINT32_MAX

enum ft_mark {
    FT_MARK_COUNT = 1, /* blocks alone: a gap */
    FT_MARK_WARM,      /* blocks and accesses, at a burst's beginning: caches are as they were before the gap */
    FT_MARK_MEASURE,   /* blocks and accesses: the rest of the burst */
    FT_MARK_NEW_CODE   /* blocks and accesses: a burst that was not due, but for code that has been in none */
};

/* Set by the reader. Lengths are in chunks of all threads together. */
struct ft_schedule {
    uint64_t seed;
    uint32_t first_chunks; /* recorded from the beginning; 0: to the end */
    uint32_t
        period_chunks; /* of blocks alone in each period, which has one burst somewhere; at least FT_MIN_PHASE_CHUNKS */
    uint32_t warm_chunks;
    uint32_t measured_chunks;
};
#define FT_MIN_PHASE_CHUNKS 4u /* so that marks are few among the chunks in the queue */

/* The limit that was reached first, 0 for none. */
enum ft_full { FT_FULL_BLOCKS = 1, FT_FULL_INSTRUCTIONS, FT_FULL_BYTES /* of the side table */ };

/* Departures of the engine from the system: how often the program met each. */
enum ft_departure {
    FT_DEPARTURE_REFUSED,   /* bytes of address space that were refused: the engine's tables of them would take too much
                               memory */
    FT_DEPARTURE_NOREPLACE, /* MAP_FIXED_NOREPLACE where something is mapped: fails by another error */
    FT_DEPARTURE_LOW,       /* MAP_32BIT: mapped anywhere */
    FT_DEPARTURE_MAPS,      /* /proc/self/maps was opened: it shows no memory as executable */
    FT_DEPARTURE_LIMIT,     /* limits of data or stack that the program set: they have no effect */
    FT_DEPARTURE_START,     /* children of vfork whose program could not be started: their parent was not told */
    FT_DEPARTURE_STALE,     /* blocks of code that ran as they had been before they were changed */
    FT_NUM_DEPARTURES
};

struct ft_header {
    uint64_t magic;
    uint32_t version;
    uint32_t header_bytes; /* sizeof(struct ft_header): a cheap check that both sides agree */
    uint64_t total_bytes;
    uint64_t cursors_offset;
    uint64_t chunks_offset;
    uint64_t side_offset;
    uint64_t side_capacity_bytes;
    _Atomic uint32_t reader_pid; /* set by the reader before the program starts; 0 once it stops reading */
    uint32_t follows_memory;     /* set by the reader: it wants records of memory (FT_TAG_MEMORY) */
    uint64_t mmap_call;          /* numbers of the two system calls that can map code, in the traced program's system */
    uint64_t mprotect_call;

    /* Written by the writer, read by the reader at any time. */
    _Atomic uint32_t attached;         /* the engine found this memory and understood it */
    _Atomic uint32_t finished;         /* the program came to an orderly end and published all it had */
    _Atomic uint32_t forks;            /* child processes that went on untraced */
    _Atomic uint32_t side_full;        /* enum ft_full of what was full first: later blocks are not in the stream */
    _Atomic uint32_t threads;          /* writer threads seen */
    _Atomic uint32_t threads_untraced; /* threads beyond FT_MAX_CURSORS */
    _Atomic uint64_t side_used_bytes;
    _Atomic uint32_t message_bytes;
    char message[1020];            /* the beginning of what the engine itself had to say on its standard error */
    uint64_t guest_base;           /* host address minus guest address (0 when the program runs natively) */
    _Atomic uint64_t unseen_calls; /* array operations that ran without their addresses being known */
    uint32_t max_blocks; /* set by the reader, whose memory they take: later ones are not in the stream. Blocks may have
                            FT_INSTRUCTIONS_PER_BLOCK instructions on average, or there is room for fewer of them */
    _Atomic uint32_t replaced;       /* the program replaced itself by another one, which has a stream of its own */
    _Atomic uint64_t reader_wait_ns; /* for which threads waited for the reader */
    uint64_t waited_ns;    /* written with `finished`: for which the program waited for anything else (waiting.h), */
    uint64_t processor_ns; /* its processor time, tracing included, */
    uint64_t children_ns;  /* and that of child processes that it waited for */
    uint64_t native_threads_ns;     /* of a Python program, likewise: processor time of threads that its compiled code
                                       started, */
    uint64_t native_threads_rounds; /* and that in millionths of a round (lines.c); 0: not timed */
    char exception[120]; /* the type of the exception that ended it (UTF-8, cut to fit), empty where none did */
    _Atomic uint64_t clock_reads;                   /* system calls that ask for the time */
    _Atomic uint64_t departures[FT_NUM_DEPARTURES]; /* see enum ft_departure */
    _Atomic uint64_t whole_masked_loads; /* of vectors, whose mask was not known: all lanes are in the stream */
    _Atomic uint32_t has_events;         /* the program has software-defined events (tracer/events) */
    struct ft_request request;
    struct ft_schedule schedule;

    /* Queues of chunk numbers. head and tail only grow; slot = index % FT_QUEUE_SLOTS. The 32-bit halves are futexes.
     */
    _Alignas(64) _Atomic uint32_t ready_head; /* advanced by writers */
    _Alignas(64) _Atomic uint32_t ready_tail; /* advanced by the reader */
    _Alignas(64) _Atomic uint32_t free_head;  /* advanced by the reader */
    _Alignas(64) _Atomic uint32_t free_tail;  /* advanced by writers */
    _Alignas(64) _Atomic uint32_t reader_waits;
    _Atomic uint32_t writer_waits;

    _Alignas(64) struct ft_ready {
        uint32_t chunk, words, cursor, sequence, thread;
    } ready[FT_QUEUE_SLOTS];
    uint32_t free[FT_QUEUE_SLOTS];
};

/* ---- stream words -------------------------------------------------------------------------------------------------
 *
 * A word with bit 63 set enters a block (ids count from 1):
 *
 *   bits 62..48 n    n > 0: block n, and bits 47..0 are the address of its first access, of which the side table says what
 *                    it is (struct ft_side_block, first_access). n = 0: the block whose id is in bits 31..0, and no access
 *
 * Any other is an access by the block that its thread is in, or a record of several:
 *
 *   bits 62..51 tag  50..48 log2(size in bytes)  47..0 address
 *
 *   tag 1 .. FT_TAG_MAX   access by the block's operation number tag-1. In a binary's block operation 2*i is instruction
 *                         i's load, 2*i+1 its store.
 *   tag FT_TAG_BULK       a record of several words: bits 50..32 its length in words, this word included; bits 31..0 an
 *                         operation id from the side table (FT_SIDE_OPERATION). It never crosses a chunk's end.
 *   tag FT_TAG_ELEMENT    one access by an operation of one operand: bits 31..0 its id, the next word the address. It
 *                         never crosses a chunk's end.
 *   tag FT_TAG_MEMORY     what becomes of memory, or what the system does with it: bits 50..48 enum ft_memory, bits 47..0 an
 *                         address; the next word has an object (FT_SIDE_OBJECT) in bits 62..48, and a length in bytes below. It
 *                         never crosses a chunk's end.
 *   tag FT_TAG_EVENTS     values of software-defined events that have changed: bits 50..32 the record's length in words; the
 *                         next word counts these records of the process, from 1; then two words an event: bits 31..0 its
 *                         number, bit 32 (FT_EVENT_REAL) set if the second, its value, is a double and no int64. Only at a
 *                         chunk's beginning
 *   tag FT_TAG_CALL       a rank of a parallel run called its MPI library, which is not in the stream: bits 47..0 the number
 *                         of the call (tracer/mpi), or FT_NO_CALL where MPI begins
 *   tag FT_TAG_SYNCHRONISATION  how the thread waits for others, or they for it: bits 50..48 enum ft_synchronisation, bits
 *                         47..0 an event
 */
#define FT_TAG_SHIFT 51
#define FT_SIZE_SHIFT 48
#define FT_ADDRESS_MASK ((UINT64_C(1) << FT_SIZE_SHIFT) - 1)
#define FT_TAG_BULK 0xfffu
#define FT_TAG_ELEMENT 0xffeu
#define FT_TAG_SYNCHRONISATION 0xffdu
#define FT_TAG_MEMORY 0xffcu
#define FT_TAG_EVENTS 0xffbu
#define FT_TAG_CALL 0xffau
#define FT_TAG_MAX 0xff9u
#define FT_NO_CALL FT_ADDRESS_MASK
#define FT_INSTRUCTIONS_PER_BLOCK 2u
#define FT_MAX_BULK_WORDS 4096u

#define FT_ENTRY (UINT64_C(1) << 63)
#define FT_MAX_SHORT_ID 0x7fffu /* the largest that goes into one word with an address */

/* An event is a point of a thread that another one waits for: its number is its thread's number (struct ft_cursor) from
 * bit FT_EVENT_SHIFT on, and below that its count among the events of that thread, from 1. The thread's own stream says
 * where it came to it, the stream of each that waited where it did. Either may be read first. */
enum ft_synchronisation {
    FT_SYNC_EVENT,   /* the thread came to the event */
    FT_SYNC_CREATED, /* the thread begins, created by the event */
    FT_SYNC_JOINED,  /* the thread waited for the event, another one's end */
    FT_SYNC_WOKEN,   /* the thread waited until the event woke it */
    FT_SYNC_LOCKED,  /* the thread waited for a lock, which the event gave back */
    FT_SYNC_FAR      /* one of CREATED to LOCKED, by another process: in place of an event, the place where that was */
};
#define FT_EVENT_SHIFT 27

/* A place in another process: kind of synchronisation, number of the process, of its thread, and the block that was in
 * hand (0: not known). What has no room is not known either. */
#define FT_FAR_KIND_SHIFT 45
#define FT_FAR_PROCESS_SHIFT 34
#define FT_FAR_THREAD_SHIFT 20
#define FT_FAR_MAX_PROCESS 0x7ffu
#define FT_FAR_MAX_THREAD 0x3fffu
#define FT_FAR_MAX_BLOCK 0xfffffu

enum ft_memory {
    FT_MEMORY_ALLOCATED, /* it belongs to the object */
    FT_MEMORY_RELEASED,  /* it is used no more; a length of 0 stands for all that was allocated there */
    FT_MEMORY_READ,      /* the system reads it: the program writes to a file */
    FT_MEMORY_WRITTEN    /* the system writes it: the program reads a file */
};
#define FT_MAX_OBJECTS 4096u
#define FT_MAX_SYSTEM_BYTES UINT64_C(0x7ffff000) /* that one system call reads or writes (Linux: MAX_RW_COUNT) */

#define FT_EVENT_REAL (UINT64_C(1) << 32)
#define FT_MAX_SAMPLED_EVENTS 4096u /* of a process: the first */

/* A bulk record: n operands are walked in lockstep over a (row-major) iteration space, and at each point every operand
 * is accessed once, in order. The words after the first:
 *
 *   word 1        bits 7..0 number of operands (1 .. FT_MAX_OPERANDS), bits 15..8 number of dimensions (1 .. FT_MAX_DIMS),
 *                 bits 31..16 number of index payload words, bit 32 (FT_BULK_CONTINUED) set in all records but the
 *                 first of one execution of an operation, bit 33 (FT_BULK_NARROW) if indices take 32 bits
 *   words         the extent of each dimension, outermost first (each at least 1)
 *   per operand   base address of its first element, then one byte stride per dimension (two's complement);
 *                 for an indexed operand: base address of element 0, then (in place of the strides) the byte scale in
 *                 the first stride word and 0 in the others
 *   words         index payload: one 64-bit index per point of the iteration space, or two 32-bit ones a word, the first
 *                 in its lower half (two's complement, both); all indexed operands use it
 *
 * Access size, kind and whether an operand is indexed are static, in the side table. An operand that belongs to an
 * outer loop (the row pointer of a CSR product) is a record of its own. The reader checks every length before use.
 */
#define FT_BULK_CONTINUED (UINT64_C(1) << 32)
#define FT_BULK_NARROW (UINT64_C(1) << 33)
#define FT_MAX_OPERANDS 8u
#define FT_MAX_DIMS 8u

/* ---- side table ---------------------------------------------------------------------------------------------------
 * Entries follow each other, each a multiple of 8 bytes long, in the order in which they were first needed.
 */
enum ft_side_kind {
    FT_SIDE_BLOCK = 1,     /* struct ft_side_block, n_instructions length bytes, then the instruction bytes */
    FT_SIDE_MAPS = 2,      /* a copy of /proc/self/maps as text, made when executable mappings had changed */
    FT_SIDE_PYBLOCK = 3,   /* struct ft_side_pyblock, then file name and qualified name (UTF-8, not terminated) */
    FT_SIDE_OPERATION = 4, /* struct ft_side_operation, then its name (UTF-8, not terminated) */
    FT_SIDE_UNSEEN = 5,    /* struct ft_side_unseen, then its name (UTF-8, not terminated) */
    FT_SIDE_LINEAR = 6,    /* struct ft_side_linear, then its name (UTF-8, not terminated) */
    FT_SIDE_COMPILED = 7,  /* struct ft_side_compiled, then its name (UTF-8, not terminated) */
    FT_SIDE_CHILD = 8,     /* struct ft_side_child, then the words of its command, each with a NUL after it */
    FT_SIDE_OBJECT = 9,    /* struct ft_side_object, then its name (UTF-8, not terminated) */
    FT_SIDE_LANDING = 10,  /* struct ft_side_landing */
    FT_SIDE_FILE = 11      /* struct ft_side_file, then its path (not terminated), then what it holds */
};

struct ft_side_entry {
    uint32_t kind;
    uint32_t bytes; /* of the whole entry, this header and padding included */
};

struct ft_side_block {
    struct ft_side_entry entry;
    uint32_t block_id;
    uint32_t n_instructions;
    uint64_t address;
    uint32_t
        first_access; /* bits 62..48 of a word for the access that entry words bring along, or 0 if they bring none */
    uint32_t is_counted; /* its accesses are not in the stream: it ran between bursts */
};

struct ft_side_pyblock {
    struct ft_side_entry entry;
    uint32_t block_id;
    uint32_t code_id; /* the code object: blocks of one function share it */
    uint32_t line;
    uint32_t first_line;     /* of the function */
    uint32_t offset_bytes;   /* into the function's bytecode */
    uint32_t n_instructions; /* bytecode instructions from here to where the next line starts */
    uint32_t file_bytes;
    uint32_t name_bytes;
    uint32_t goes_on; /* of one without instructions: a generator goes on, instead of a block after a call */
    uint32_t padding;
    /* The rest is kept up to date in place (tracer/python/blocks/timing.h), times in millionths of a round (lines.h
     * there). */
    uint64_t array_ns;             /* how long the recorded array operations of an execution take lately */
    _Atomic uint64_t timed;        /* executions that timings of it stand for, */
    _Atomic int64_t timed_rounds;  /* and what they took */
    _Atomic uint64_t long_rounds;  /* what single executions took that lasted long, which count for themselves */
    _Atomic uint64_t array_rounds; /* what recorded array operations took in `timed` executions, recording included */
};

struct ft_operand {
    uint16_t size_bytes;
    uint8_t is_store;
    uint8_t is_indexed; /* its address comes from the index payload: a gather (load) or scatter (store) */
    uint8_t is_index;   /* a load of the indices that the indexed operands' addresses are computed from */
    uint8_t kind;       /* NumPy's character for the kind of its elements, 'f' or 'i' or others; 0: not known */
    uint8_t padding[2];
};

struct ft_side_operation {
    struct ft_side_entry entry;
    uint32_t operation_id; /* ids count from 1 */
    uint32_t block_id;     /* the block that ran it */
    uint32_t n_operands;
    uint32_t name_bytes;
    uint32_t site; /* where in the block's code it was called: a byte offset */
    uint32_t padding;
    uint32_t flops_per_point; /* floating-point operations at each point of the iteration space */
    uint32_t int_ops_per_point;
    /* Kept up to date in place, of whole calls: of several operations that a call is recorded as, the last has it. */
    _Atomic uint64_t rounds;     /* what timed executions of the block spent in them, as in struct ft_side_pyblock, */
    _Atomic uint64_t faults;     /* and page faults in them */
    _Atomic uint64_t kept_calls; /* calls whose time is in the block's, or in a struct ft_side_compiled */
    struct ft_operand operands[FT_MAX_OPERANDS];
};

/* Where an exception continues that leaves the call which returns to `behind`: a fact of the code, whether or not one
 * ever does. It may be said several times, and before or after the block that calls. */
struct ft_side_landing {
    struct ft_side_entry entry;
    uint64_t behind;
    uint64_t pad;
};

/* A copy of a file that was mapped to run its code and whose name was gone before the run ended. */
struct ft_side_file {
    struct ft_side_entry entry;
    uint64_t inode;
    uint64_t file_bytes;
    uint32_t path_bytes;
    uint32_t unused;
};

/* Array operations of one name, called in one block, whose accesses are not in the stream, or are there as one pass
 * over each array because their true order or number is not known. The counts are kept up to date in place. */
struct ft_side_unseen {
    struct ft_side_entry entry;
    uint32_t block_id; /* 0: not known */
    uint32_t name_bytes;
    _Atomic uint64_t calls;
    _Atomic uint64_t bytes;          /* of one pass over the arrays they worked on */
    _Atomic uint64_t one_pass_calls; /* of the calls: those with such a pass in the stream */
    _Atomic uint64_t one_pass_bytes; /* of the bytes: those of these calls */
};

/* Calls of one routine of linear algebra at one place, all on operands of these shapes. `shape` holds rows and columns
 * of the first operand, of the second, and of the largest result; a vector has 0 columns, an operand that there is not
 * 0 rows. A stacked call does `batch` times that. The count is kept up to date in place. */
struct ft_side_linear {
    struct ft_side_entry entry;
    uint32_t block_id;
    uint32_t site; /* where in the block's code it was called: a byte offset */
    uint32_t name_bytes;
    uint32_t item_bytes;
    uint32_t kind;      /* of the elements, as NumPy names it: 'f', 'c', 'i', ... */
    uint32_t symmetric; /* a matrix times its own transpose */
    uint64_t shape[6];
    uint64_t batch;
    _Atomic uint64_t calls;
};

/* Memory that the program declared or allocated: all that is allocated at one place of its code is one object. */
struct ft_side_object {
    struct ft_side_entry entry;
    uint32_t object_id; /* ids count from 1 */
    uint32_t kind;      /* ObjectKind of tracer/signature/data_flow_records.py */
    uint64_t site; /* address behind the call that allocates it; 0: not known. Of Python's arrays bits 63..32 the id of
                    * the block, 31..24 how many lines behind the block's the expression ends that allocates it, 23..12
                    * the column where it begins and 11..0 where it ends, as Python counts; 0: not known */
    uint32_t name_bytes;
    uint32_t padding;
};

/* Time that a block of bytecode spent in one compiled function whose accesses are not in the stream. It is part of the
 * block's own time; kept up to date in place. */
struct ft_side_compiled {
    struct ft_side_entry entry;
    uint32_t block_id;
    uint32_t name_bytes;
    _Atomic uint64_t rounds; /* in millionths of a round, as in struct ft_side_pyblock */
};

/* A child process: one that was begun and is not followed, or one whose end the program has waited for; or the program
 * that a process became, which is not followed. */
enum ft_child_event { FT_CHILD_BEGUN, FT_CHILD_ENDED, FT_CHILD_BECAME };

struct ft_side_child {
    struct ft_side_entry entry;
    uint32_t pid;
    uint32_t event;
    int32_t status; /* as waitpid() tells it, of one that has ended */
    uint32_t command_bytes;
};

#endif
