/* One data access, as the simulators see it: 16 bytes, handed over in batches.
 *
 * `op` names the memory operation (an instruction's load or its store, or one operand of an array operation); ids are
 * dense, from 0. `size_bytes` is at least 1. `address + size_bytes` must not wrap.
 */
#ifndef FORETRACE_ACCESS_H
#define FORETRACE_ACCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FT_ACCESS_STORE 1u
#define FT_ACCESS_FETCH 2u /* of a basic block's code, and `op` is the block's id: only where a sink wants fetches */

struct ft_access {
    uint64_t address;
    uint32_t op;
    uint16_t size_bytes;
    uint16_t flags; /* FT_ACCESS_STORE, FT_ACCESS_FETCH, or 0 for a load */
};

/* Accesses begin .. end-1 of a list happened `times` more often, each time as the first. */
struct ft_repeat {
    uint32_t begin, end, times;
};

/* Accesses that are not written out one by one: those of code that runs again and again. Access j of iteration i goes
 * to words[i * num_words + accesses[j].word] & address_mask. They happen in order, iteration by iteration. */
#define FT_RUN_ACCESSES 1024u

struct ft_run_access {
    uint32_t op; /* as in struct ft_access, up to flags */
    uint16_t size_bytes;
    uint16_t flags;
    uint32_t word;
};

struct ft_iteration {
    const struct ft_run_access *accesses;
    uint64_t address_mask;
    uint32_t num_accesses; /* 1 .. FT_RUN_ACCESSES */
    uint32_t num_words;
    uint32_t max_op;       /* no access is of a larger one */
    bool has_distinct_ops; /* no two accesses are of one operation */
};

struct ft_run {
    const struct ft_iteration *iteration;
    const uint64_t *words;
    size_t iterations;
};

/* Access j of the iteration that begins at `words`. */
static inline struct ft_access ft_run_access_at(const struct ft_iteration *iteration, const uint64_t *words, size_t j)
{
    const struct ft_run_access *access = &iteration->accesses[j];
    return (struct ft_access){words[access->word] & iteration->address_mask, access->op, access->size_bytes,
                              access->flags};
}

/* The accesses of an array operation: at each point of a (row-major) iteration space, of one dimension at least, each
 * is made once, in order. An indexed one goes to address + index[point] * stride[0]. No address wraps or goes below 0.
 */
#define FT_ARRAY_DIMS 8u
#define FT_ARRAY_ACCESSES 8u

struct ft_array_access {
    uint64_t address; /* at the first point, or where index 0 points to */
    int64_t stride[FT_ARRAY_DIMS];
    uint32_t op;
    uint16_t size_bytes;
    uint8_t flags;
    bool is_indexed;
};

struct ft_array_run {
    uint32_t num_dims, num_accesses;
    uint64_t extent[FT_ARRAY_DIMS];
    const uint64_t *index; /* NULL if no access is indexed */
    struct ft_array_access access[FT_ARRAY_ACCESSES];
};

static inline uint64_t ft_array_run_points(const struct ft_array_run *run)
{
    uint64_t points = 1;
    for (uint32_t d = 0; d < run->num_dims; d++)
        points *= run->extent[d];
    return points;
}

/* Of one array operation; larger ones are fed access by access. */
#define FT_ARRAY_RUN_POINTS (UINT64_C(1) << 28)
#define FT_ARRAY_RUN_INDEX 8192u /* indexed ones */

/* What a simulator offers to a producer of accesses: the address of one of these travels in a PyCapsule named
 * FT_SINK_CAPSULE. Its functions return 0, or -1 when memory ran out (counts are then unusable). They need no GIL and
 * are called from one thread at a time. The simulator sizes itself to the largest op it is fed. */
#define FT_SINK_CAPSULE "foretrace.cache_sim.sink"

struct ft_sink {
    void *simulator;
    int (*feed)(void *simulator, const struct ft_access *batch, size_t length);
    int (*feed_runs)(void *simulator, const struct ft_run *runs, size_t number); /* may be 0, as feed_array */

    /* For simulators of more than data caches; the others leave these 0, and a producer then does without. */
    int (*set_thread)(void *simulator,
                      uint32_t thread); /* makes the accesses fed from now on; at first, thread 0 does */
    bool
        wants_fetches; /* `feed` gets a fetch before the accesses of each execution of a block, and feed_runs nothing */

    /* The accesses of an array operation. May be 0: a producer then feeds them one by one. */
    int (*feed_array)(void *simulator, const struct ft_array_run *run);
};

#endif
