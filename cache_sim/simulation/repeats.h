/* Feeds caches and what samples reuse, and passes over what repeats itself exactly: the steps of a program that does
 * the same to the same arrays again and again. See repeats.c. */
#ifndef FORETRACE_REPEATS_H
#define FORETRACE_REPEATS_H

#include "cache.h"
#include "cache_sim/reuse/reuse.h"

struct ft_repeats;

/* NULL when memory ran out. The cache, and what samples reuse, remain the caller's; either may be NULL, and be fed by
 * another thread through an ft_repeats of its own. `shape` is a cache like the one that is fed, and is not used later.
 */
struct ft_repeats *ft_repeats_new(const struct ft_cache *shape, struct ft_cache *cache, struct ft_reuse *reuse);
void ft_repeats_free(struct ft_repeats *repeats);

/* Makes room for operations 0 .. num_operations-1, as many as are fed. Returns 0, or -1 when memory ran out. */
int ft_repeats_reserve(struct ft_repeats *repeats, size_t num_operations);

/* What both see, in order. Return 0, or -1 when memory ran out. */
int ft_repeats_feed(struct ft_repeats *repeats, const struct ft_access *batch, size_t length);
int ft_repeats_feed_array(struct ft_repeats *repeats, const struct ft_array_run *run);

/* What the cache alone sees, as something else is told of reuse. */
void ft_repeats_feed_cache(struct ft_repeats *repeats, const struct ft_access *batch, size_t length);

/* Brings both, and what they have counted, to where they would be had everything been simulated. */
void ft_repeats_settle(struct ft_repeats *repeats);

#endif
