/* Feeds any number of memory systems with one stream of accesses, each from a thread of its own behind the producer's.
 */
#ifndef FORETRACE_MEMORY_FEED_H
#define FORETRACE_MEMORY_FEED_H

#include "memory_system.h"

struct ft_memory_feed;

/* NULL when memory ran out. */
struct ft_memory_feed *ft_memory_feed_new(const struct ft_system_plan *plans, size_t num_systems);
void ft_memory_feed_free(struct ft_memory_feed *feed);

/* Results are those of simulating each access when it is fed. These are for one thread at a time. */
void ft_memory_feed_batch(struct ft_memory_feed *feed, const struct ft_access *batch, size_t length);
void ft_memory_feed_run(struct ft_memory_feed *feed, const struct ft_run *run);

/* Who makes the accesses that are fed from now on. */
void ft_memory_feed_set_thread(struct ft_memory_feed *feed, uint32_t thread);

/* Waits until all that was fed is simulated. Returns 0, or -1 when memory ran out (counts are then unusable). */
int ft_memory_feed_drain(struct ft_memory_feed *feed);
const struct ft_memory_system *ft_memory_feed_system(const struct ft_memory_feed *feed, size_t index);

#endif
