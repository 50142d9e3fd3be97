/* Exact simulation of one memory hierarchy with all that cache.c leaves out: replacement other than LRU, what becomes
 * of stores, inclusion, victim caches, TLBs, prefetchers, an instruction cache, several cores. docs/cache-simulation.md
 * says what each does; helpers/memory_reference.py says the same in Python, and tests compare the two.
 */
#ifndef FORETRACE_MEMORY_SYSTEM_H
#define FORETRACE_MEMORY_SYSTEM_H

#include "cache_sim/simulation/access.h"
#include "cache_sim/simulation/tags.h"

#define FT_MAX_LEVELS 8u
#define FT_MAX_TLBS 2u

enum ft_inclusion { FT_NON_INCLUSIVE, FT_INCLUSIVE, FT_EXCLUSIVE, FT_NUM_INCLUSIONS };
enum ft_prefetch { FT_NO_PREFETCH, FT_NEXT_LINE, FT_STRIDE, FT_NUM_PREFETCHES };

struct ft_level_plan {
    uint64_t num_sets; /* any number from 1 */
    uint32_t ways;     /* from 1; of a tree, a power of two up to FT_TREE_WAYS */
    uint32_t shift;    /* log2 of the line's or page's bytes */
    enum ft_replacement replacement;
    enum ft_inclusion inclusion;
    enum ft_prefetch prefetch;
    uint32_t prefetch_degree;
    uint32_t victim_lines;
    bool write_through, no_allocate, shared;
};

/* Parts are numbered: levels, the instruction cache if there is one, TLBs. */
struct ft_system_plan {
    uint32_t num_levels, num_tlbs, num_cores;
    bool has_instruction_cache;
    uint64_t seed;
    struct ft_level_plan parts[FT_MAX_LEVELS + 1 + FT_MAX_TLBS];
};

/* What is counted of each part. Accesses and misses count an access of the program, or a fetch, once, however many
 * lines of it the part is asked for; the others count lines. */
enum ft_event {
    FT_ACCESSES,
    FT_MISSES,
    FT_VICTIM_HITS,
    FT_EVICTIONS,
    FT_WRITE_BACKS,
    FT_BACK_INVALIDATIONS,
    FT_COHERENCE_INVALIDATIONS,
    FT_PREFETCHES,
    FT_USEFUL_PREFETCHES,
    FT_NUM_EVENTS
};

struct ft_memory_system;

/* NULL when memory ran out. */
struct ft_memory_system *ft_memory_system_new(const struct ft_system_plan *plan);
void ft_memory_system_free(struct ft_memory_system *system);

/* Accesses and fetches by one thread, in order. Returns 0, or -1 when memory ran out (counts are then unusable). */
int ft_memory_system_feed(struct ft_memory_system *system, uint32_t thread, const struct ft_access *batch,
                          size_t length);

/* What one operation, or (of fetches) one block, caused: uint64 [part][FT_NUM_EVENTS]; rows are valid up to *num_rows.
 */
const uint64_t *ft_memory_system_counts(const struct ft_memory_system *system, bool of_fetches, size_t *num_rows);
size_t ft_memory_system_parts(const struct ft_memory_system *system);

#endif
