/* What each memory operation did: how often, how many bytes, where, and in which pattern. */
#ifndef FORETRACE_STATISTICS_H
#define FORETRACE_STATISTICS_H

#include "access.h"

enum ft_pattern { FT_REPEATED, FT_UNIT_STRIDE, FT_STRIDED, FT_IRREGULAR, FT_NUM_PATTERNS };

struct ft_statistics;

/* What every access of an operation updates: one cache line. An operation that was fed has largest_bytes > 0; its
 * executions are 1 more than its patterns together. */
struct ft_running {
    uint64_t last_address;
    uint64_t last_delta;
    uint64_t first;
    uint64_t last_exclusive;
    uint64_t other_bytes; /* what total_bytes has beyond executions * last_bytes, modulo 2^64 */
    uint32_t largest_bytes;
    uint32_t last_bytes;
    uint32_t patterns[FT_NUM_PATTERNS]; /* since they were last added to those of 64 bits */
};

/* One operation's totals. All are 0 for an operation that was never fed. */
struct ft_operation {
    uint64_t executions;
    uint64_t total_bytes;
    uint64_t size_bytes; /* of the largest access */
    uint64_t first;
    uint64_t last_exclusive;
    uint64_t patterns[FT_NUM_PATTERNS]; /* of all accesses but the first */
};

struct ft_statistics *ft_statistics_new(void); /* NULL when memory ran out */
void ft_statistics_free(struct ft_statistics *statistics);

/* Walks a run operation by operation: its figures then stay in registers. Returns 0, or -1 when memory ran out. */
int ft_statistics_feed_run(struct ft_statistics *statistics, const struct ft_run *run);

/* The same for an array operation, walked in the same way, and row by row. */
int ft_statistics_feed_array(struct ft_statistics *statistics, const struct ft_array_run *run);

/* For counting one by one: returns room for operations below `capacity`, to which at most `accesses`, up to 2^30, are counted until
 * the next call; NULL when memory ran out. Any other function that feeds may move it. */
struct ft_running *ft_statistics_prepare(struct ft_statistics *statistics, size_t capacity, uint64_t accesses);

/* An operation's first access, or one of another size than the last. */
void ft_statistics_count_other(struct ft_statistics *statistics, const struct ft_access *access);

/* Makes operations 0 .. num_operations-1 known, fed or not. Returns 0, or -1 when memory ran out. */
int ft_statistics_reserve(struct ft_statistics *statistics, size_t num_operations);

/* One more than the largest operation known. */
size_t ft_statistics_operations(const struct ft_statistics *statistics);
struct ft_operation ft_statistics_of(const struct ft_statistics *statistics, size_t op);

/* An access that is not the operation's first; the one before had `last_size` bytes. */
static inline void ft_statistics_move(struct ft_running *op, uint64_t address, uint64_t size, uint64_t last_size)
{
    const uint64_t end = address + size, delta = address - op->last_address;
    const bool is_next = (delta == last_size) | (end == op->last_address);
    const unsigned pattern = is_next ? FT_UNIT_STRIDE : FT_IRREGULAR - (delta == op->last_delta);
    op->patterns[delta ? pattern : FT_REPEATED]++;
    op->last_address = address;
    op->last_delta = delta;
    if (__builtin_expect(address < op->first, 0)) /* what seldom changes is written only when it does */
        op->first = address;
    if (__builtin_expect(end > op->last_exclusive, 0))
        op->last_exclusive = end;
}

#endif
