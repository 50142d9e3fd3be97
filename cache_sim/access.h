/* One data access, as the simulators see it: 16 bytes, handed over in batches.
 *
 * `op` names the memory operation (an instruction's load or its store, or one operand of an array operation); ids are
 * dense, from 0. `size_bytes` is at least 1. `address + size_bytes` must not wrap.
 */
#ifndef FORETRACE_ACCESS_H
#define FORETRACE_ACCESS_H

#include <stddef.h>
#include <stdint.h>

#define FT_ACCESS_STORE 1u

struct ft_access {
    uint64_t address;
    uint32_t op;
    uint16_t size_bytes;
    uint16_t flags; /* FT_ACCESS_STORE, or 0 for a load */
};

/* The accesses of a loop that does the same in each iteration, without being written out one by one: access j of
 * iteration i goes to words[i * period + accesses[j].word] & address_mask. There are at most FT_RUN_ACCESSES an
 * iteration. They happen in order, iteration by iteration. */
#define FT_RUN_ACCESSES 1024u

struct ft_run_access {
    uint32_t op;
    uint32_t word;
    uint16_t size_bytes;
    uint16_t flags;
};

struct ft_run {
    const uint64_t *words;
    uint64_t address_mask;
    size_t period, iterations;
    size_t num_accesses;
    const struct ft_run_access *accesses;
};

/* What a simulator offers to a producer of accesses: the address of one of these travels in a PyCapsule named
 * FT_SINK_CAPSULE. Both functions return 0, or -1 when memory ran out (counts are then unusable). They need no GIL and
 * are called from one thread at a time. The simulator sizes itself to the largest op it is fed. */
#define FT_SINK_CAPSULE "foretrace.cache_sim.sink"

struct ft_sink {
    void *simulator;
    int (*feed)(void *simulator, const struct ft_access *batch, size_t length);
    int (*feed_run)(void *simulator, const struct ft_run *run);
};

#endif
