/* What each memory operation did: how often, how many bytes, where, and in which pattern. */
#ifndef FORETRACE_STATISTICS_H
#define FORETRACE_STATISTICS_H

#include "access.h"

enum ft_pattern { FT_REPEATED, FT_UNIT_STRIDE, FT_STRIDED, FT_IRREGULAR, FT_NUM_PATTERNS };

struct ft_statistics;

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

/* Returns 0, or -1 when memory ran out. */
int ft_statistics_feed(struct ft_statistics *statistics, const struct ft_access *batch, size_t length);

/* The same for a run, which is walked operation by operation: its figures then stay in registers. */
int ft_statistics_feed_run(struct ft_statistics *statistics, const struct ft_run *run);

/* The same for an array operation, walked in the same way, and row by row. */
int ft_statistics_feed_array(struct ft_statistics *statistics, const struct ft_array_run *run);

/* Makes operations 0 .. num_operations-1 known, fed or not. Returns 0, or -1 when memory ran out. */
int ft_statistics_reserve(struct ft_statistics *statistics, size_t num_operations);

/* One more than the largest operation known. */
size_t ft_statistics_operations(const struct ft_statistics *statistics);
struct ft_operation ft_statistics_of(const struct ft_statistics *statistics, size_t op);

#endif
