/* Feeds caches, and passes over what repeats itself exactly: the steps of a program that does the same to the same arrays
 * again and again. See repeats.c. */
#ifndef FORETRACE_REPEATS_H
#define FORETRACE_REPEATS_H

#include "cache.h"

struct ft_repeats;

/* NULL when memory ran out. The cache remains the caller's. */
struct ft_repeats *ft_repeats_new(struct ft_cache *cache);
void ft_repeats_free(struct ft_repeats *repeats);

/* What the cache sees, in order. It has room for every operation. */
void ft_repeats_feed(struct ft_repeats *repeats, const struct ft_access *batch, size_t length);
void ft_repeats_feed_array(struct ft_repeats *repeats, const struct ft_array_run *run);

/* Whether what is being fed has been the same several times in a row. */
bool ft_repeats_repeats(const struct ft_repeats *repeats);

/* Brings the cache, and what it has counted, to where they would be had everything been simulated. */
void ft_repeats_settle(struct ft_repeats *repeats);

#endif
