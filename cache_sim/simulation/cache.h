/* Exact LRU simulation of cache levels: which accesses miss where. See cache.c for how. */
#ifndef FORETRACE_CACHE_H
#define FORETRACE_CACHE_H

#include "access.h"

#define FT_MAX_DEPTH 8u

/* One level. Levels form a forest: `parent` is the index of the level whose misses come here (smaller than the level's
 * own), or -1 for a level that sees every access. A parent's lines are no larger than its children's. */
struct ft_geometry {
    uint64_t num_sets; /* any number from 1 */
    uint32_t ways;     /* from 1 */
    uint32_t line_shift;
    int64_t parent;
};

struct ft_cache;

/* NULL when memory ran out (a very large cache may be more than this machine can hold). */
struct ft_cache *ft_cache_new(const struct ft_geometry *levels, size_t num_levels);
void ft_cache_free(struct ft_cache *cache);

/* Makes room for operations 0 .. num_operations-1. Returns 0, or -1 when memory ran out (nothing changed then). */
int ft_cache_reserve(struct ft_cache *cache, size_t num_operations);

/* In an access's flags: it need not be looked up. That holds for all accesses of an iteration that touches, line by
 * line, what the iteration before touched, if no set is given more lines by those than it holds: they hit, and leave
 * the order of use of every set as it was. */
#define FT_CACHE_KNOWN 0x4000u

/* Of the caches that are asked first: the shortest line, and the fewest lines of a set. */
unsigned ft_cache_line_shift(const struct ft_cache *cache);
size_t ft_cache_repeatable_lines(const struct ft_cache *cache);

/* Whether the lines of these addresses stay together in all of the caches that are asked first. */
bool ft_cache_holds_together(const struct ft_cache *cache, const uint64_t *addresses, size_t number);

/* The bits of an address, from *begin to *end - 1, that belong to the number of its set in all of them. */
void ft_cache_set_bits(const struct ft_cache *cache, unsigned *begin, unsigned *end);

/* So many bytes of lines that come one after the other, in any number of streams up to this one, give each set of every
 * level down to this depth as many as it has ways, even if a level is given only those that come when the one above it
 * is full. 0 if lines are not all of one size. */
uint64_t ft_cache_fill_bytes(const struct ft_cache *cache, uint64_t num_streams, unsigned depth);

/* Counts accesses that missed all levels. */
void ft_cache_count_misses(struct ft_cache *cache, uint32_t op, uint64_t number);

/* Every `op` in the batch must have room. */
void ft_cache_feed(struct ft_cache *cache, const struct ft_access *batch, size_t length);

/* Accesses to one line each, at most FT_CACHE_BATCH, that miss the caches that are asked first; these are to be told of
 * the last ones, which fill them, with the other function: it counts nothing. */
#define FT_CACHE_BATCH 1024u
void ft_cache_feed_missing(struct ft_cache *cache, const struct ft_access *batch, size_t length);
void ft_cache_feed_counted(struct ft_cache *cache, const struct ft_access *batch, size_t length);

/* `max_depth` is that of the level farthest down, from 0 on. */
size_t ft_cache_levels(const struct ft_cache *cache, unsigned *max_depth);

/* Counts misses of operations 0 .. num_operations-1 at level 0, then at level 1 and so on, so many times. */
void ft_cache_add_misses(struct ft_cache *cache, const uint64_t *misses, size_t num_operations, uint64_t times);

/* Misses of each operation with room at one level; accesses of a child level are its parent's misses. */
const uint64_t *ft_cache_misses(const struct ft_cache *cache, size_t level);

#endif
