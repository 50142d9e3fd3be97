/* An out-of-order core in one pass: when each instruction of a path is dispatched, starts, is done and retires.
 *
 * Instructions are taken in the order in which they ran. Each is dispatched in order (at most `width` a cycle, no more
 * than `window` in flight and `stores` not yet written), starts when what it needs is there and a unit is free, and
 * retires in order. Vector instructions wait in a scheduler that starts them in any order, and in a queue in front of
 * it. Times are cycles. What the machine's memory does is told by memory operation: how often it finds its data in
 * which level, and what that takes.
 *
 * After a branch that was not foreseen, what follows is dispatched once it is known. But where both ways soon meet
 * again, a core has run on meanwhile, and has asked for the lines that the instructions behind that place need, as far
 * as their addresses do not depend on the branch: of those it is known when that was.
 *
 * The result of an addition of floating point may be there sooner for another one than for the rest.
 *
 * A load that reads more than the last store to its bytes wrote cannot be served by that: it waits for the cache.
 *
 * A core that keeps the order starts no instruction before the one in front of it: it waits where a value is used that
 * is not there, not where it is loaded. It does not run on behind a branch that is not known.
 *
 * A prefetcher asks for a line of a stream `lead` before it is wanted.
 *
 * A line takes its turn at each level that it comes through on its way to the core. One that a load brought in and that
 * is then stored to is written back some time: it takes another turn at each of those levels.
 *
 * A taken branch begins a new fetch, as far ahead of the dispatch as a queue holds. What is not in the micro-op cache
 * is decoded first.
 *
 * Units and the lines that a level hands out are rates: each use takes some part of a cycle of its unit, in the first
 * cycles from when it is ready that have room. So an instruction may overtake others that wait for operands.
 */
#ifndef FORETRACE_CORE_MODEL_H
#define FORETRACE_CORE_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FT_NUM_REGISTERS 1024u
#define FT_MAX_LEVELS 8u
#define FT_NUM_UNITS 8u
#define FT_DECODED_SETS 64u /* of groups of up to 8 decoded instructions of a line of code, by line */
#define FT_MAX_DECODED_WAYS 32u

/* What an instruction's time is put down to, when it retires later than the one before. */
enum ft_cause {
    FT_CAUSE_ISSUE,
    FT_CAUSE_COMPUTE,
    FT_CAUSE_DIVIDE,
    FT_CAUSE_CHAIN,
    FT_CAUSE_FORWARD,
    FT_CAUSE_PORTS,
    FT_CAUSE_BRANCH,
    FT_CAUSE_CACHE_BANDWIDTH,
    FT_CAUSE_MEMORY_BANDWIDTH,
    FT_CAUSE_CACHE_LATENCY,
    FT_CAUSE_MEMORY_LATENCY,
    FT_NUM_CAUSES
};

struct ft_instruction {
    double latency;     /* from its start to its result; of a load, what comes after the data */
    double sooner;      /* by which those that take results early have it before */
    double unit_cycles; /* of its unit */
    uint32_t registers; /* where its registers begin: first those read, then those of the address, then those written */
    int32_t load, store; /* positions among its block's memory operations; -1: none */
    uint8_t unit, cause; /* of waiting for the unit */
    uint8_t n_reads, n_addresses, n_writes;
    uint8_t runs_anyway;  /* stands on both ways from a branch */
    uint8_t is_scheduled; /* it waits in the scheduler of the vectors */
    uint8_t takes_early;  /* what it reads, where that is there sooner for some */
    uint8_t decoded; /* so many are decoded at once, from this one on, if they are not among those that still are; 0:
                        it comes with one before */
    uint8_t lines;   /* of code that it reaches into behind the instruction before it */
};

struct ft_core_block {
    uint32_t first, n_instructions;
    uint32_t first_operation, n_operations; /* in the tables of memory operations */
    uint32_t first_line, last_line;         /* of code */
};

/* Of a memory operation on a machine, by the level that its data comes from (0: the nearest cache). */
struct ft_core_operation {
    double share[FT_MAX_LEVELS];      /* of its accesses; level 0 has the rest */
    double candidates;                /* share of its accesses whose line was not touched a short while before */
    double bytes;                     /* of one access */
    double irregular[FT_MAX_LEVELS];  /* share of its lines from a level that no prefetcher sees coming */
    double latency[FT_MAX_LEVELS];    /* of an access that nothing has prefetched */
    double random[FT_MAX_LEVELS];     /* time between two such, if nothing else limits them */
    double stream[FT_MAX_LEVELS];     /* time between two lines that were prefetched */
    double write_back[FT_MAX_LEVELS]; /* of a line that it brought in, if that is stored to later */
};

/* The figures of a core, cycles unless said otherwise: the declaration of their names and order. The structure follows
 * from it, and the array that Python fills (times.py), with the addresses that the extension gives. */
#define FT_CORE_FIGURES(X)                                                                                             \
    X(double, width)            /* instructions a cycle */                                                             \
    X(double, window_instructions) /* instructions in flight */                                                           \
    X(double, storing_instructions) /* of these, most stores */                                                            \
    X(double, vector_scheduled_instructions) /* of the vectors that have not started, those that can: the others stand in a line */ \
    X(double, refill)           /* from a mispredicted branch's end to the dispatch of what follows */                 \
    X(double, forward)          /* from a store's data to that of a load that reads it back */                          \
    X(double, load_cycles)      /* that a load takes of a load unit, */                                                \
    X(double, store_cycles)     /* and a store of a store unit */                                                      \
    X(double, taken_branch)     /* least time between two */                                                           \
    X(double, lead)             /* how long before it is wanted a prefetcher asks for a line of a stream */            \
    X(double, decode)           /* that an instruction takes to be decoded; 0: none */                                 \
    X(double, decode_switch_cycles) /* until the first is, behind others that are decoded already */                       \
    X(uint32_t, decoded_ways)   /* groups of decoded instructions that each set of lines keeps */                      \
    X(uint32_t, n_levels)       /* caches and main memory */                                                           \
    X(uint8_t, pairs)           /* whether two taken branches are followed at once, if each leads to a single line */  \
    X(uint8_t, in_order)        /* whether it keeps the order */

struct ft_core {
#define FT_MEMBER(type, name) type name;
    FT_CORE_FIGURES(FT_MEMBER)
#undef FT_MEMBER
};

struct ft_core_program {
    const struct ft_instruction *instructions;
    const uint16_t *registers;
    const struct ft_core_block *blocks;
    const struct ft_core_operation *operations;
    uint32_t n_blocks, n_operations;
};

#define FT_BRANCH_MISSED 1u /* what runs next was not foreseen */
#define FT_BRANCH_TAKEN 2u  /* what runs next does not stand next */
#define FT_SECOND_HALF 4u   /* counted apart */
#define FT_ALL_DEPEND UINT16_MAX /* what follows is not what runs while the branch is thought to go the other way */

struct ft_core_path {
    const uint32_t *blocks;
    const uint8_t *branches; /* by execution: a sum of the above */
    const uint16_t *depends; /* executions after a missed branch that run only for its outcome; FT_ALL_DEPEND */
    size_t n_executions;
    const uint16_t *store_distances, *line_distances;
};

/* Adds to `cycles` [2][blocks][FT_NUM_CAUSES] what the executions take, apart for those marked as of the second half.
 * False when memory ran out. */
bool ft_core_run(const struct ft_core *core, const struct ft_core_program *program, const struct ft_core_path *path,
                 double *cycles);

#endif
