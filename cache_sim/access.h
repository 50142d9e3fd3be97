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

/* What a simulator offers to a producer of accesses: the address of one of these travels in a PyCapsule named
 * FT_SINK_CAPSULE. `feed` returns 0, or -1 when memory ran out (counts are then unusable). It needs no GIL and is
 * called from one thread at a time. It sizes itself to the largest op it is fed. */
#define FT_SINK_CAPSULE "foretrace.cache_sim.sink"

struct ft_sink {
    void *simulator;
    int (*feed)(void *simulator, const struct ft_access *batch, size_t length);
};

#endif
