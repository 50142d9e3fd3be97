/* What each memory operation did: how often, how many bytes, where, and in which pattern. */
#ifndef FORETRACE_STATISTICS_H
#define FORETRACE_STATISTICS_H

#include "access.h"

enum ft_pattern { FT_REPEATED, FT_UNIT_STRIDE, FT_STRIDED, FT_IRREGULAR, FT_NUM_PATTERNS };

struct ft_statistics;

#define FT_PENDING 12u

/* An operation's last accesses, which are looked at several at once: two that have been, and those that have not. */
struct ft_pending {
    uint32_t number;
    uint32_t size_bytes; /* of the last access; 0 before the first */
    uint64_t addresses[2 + FT_PENDING];
    uint64_t padding; /* two cache lines */
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

/* Looks at a run operation by operation. Returns 1 if all of it goes on by the same steps from iteration to iteration,
 * else 0; or -1 when memory ran out. */
int ft_statistics_feed_run(struct ft_statistics *statistics, const struct ft_run *run);

/* The same for an array operation, row by row. */
int ft_statistics_feed_array(struct ft_statistics *statistics, const struct ft_array_run *run);

/* For counting one by one: returns room for operations below `capacity`; NULL when memory ran out. Any other function
 * that feeds may move it. */
struct ft_pending *ft_statistics_prepare(struct ft_statistics *statistics, size_t capacity);

/* An operation's first access, or one of another size than the last. */
void ft_statistics_count_other(struct ft_statistics *statistics, uint32_t op, uint64_t address, uint32_t size_bytes);

/* Looks at an operation's pending accesses, which are FT_PENDING. */
void ft_statistics_settle_full(struct ft_statistics *statistics, uint32_t op);

/* Makes operations 0 .. num_operations-1 known, fed or not. Returns 0, or -1 when memory ran out. */
int ft_statistics_reserve(struct ft_statistics *statistics, size_t num_operations);

/* One more than the largest operation known. */
size_t ft_statistics_operations(const struct ft_statistics *statistics);
struct ft_operation ft_statistics_of(struct ft_statistics *statistics, size_t op);

/* Counts an access of the operation that `pending` is of. */
static inline void ft_statistics_count(struct ft_statistics *statistics, struct ft_pending *pending, uint32_t op,
                                       uint64_t address, uint32_t size_bytes)
{
    if (__builtin_expect(pending->size_bytes != size_bytes, 0)) {
        ft_statistics_count_other(statistics, op, address, size_bytes);
        return;
    }
    const size_t number = pending->number++;
    pending->addresses[2 + number] = address;
    if (__builtin_expect(number == FT_PENDING - 1, 0))
        ft_statistics_settle_full(statistics, op);
}

#endif
