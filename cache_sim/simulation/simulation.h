/* All that is simulated of one address stream: statistics at once, caches and reuse distances each by a worker thread
 * behind.
 *
 * The producer counts, and leaves most accesses out that change nothing. Results are those of simulating each access
 * when it is fed, but for what reuse.h says of those left out.
 */
#ifndef FORETRACE_SIMULATION_H
#define FORETRACE_SIMULATION_H

#include "cache.h"
#include "cache_sim/reuse/reuse.h"
#include "statistics.h"

struct ft_simulation;

/* Takes the simulators over, whatever comes of it; `reuse` may be NULL. NULL when memory ran out. */
struct ft_simulation *ft_simulation_new(struct ft_statistics *statistics, struct ft_cache *cache,
                                        struct ft_reuse *reuse);
void ft_simulation_free(struct ft_simulation *simulation);

/* They return 0, or -1 when memory ran out (counts are then unusable). One thread at a time. */
int ft_simulation_feed(struct ft_simulation *simulation, const struct ft_access *batch, size_t length);
int ft_simulation_feed_runs(struct ft_simulation *simulation, const struct ft_run *runs, size_t number);
int ft_simulation_feed_array(struct ft_simulation *simulation, const struct ft_array_run *run);

/* Waits until all that was fed is simulated. Returns 0, or -1 when memory ran out. Not while another thread feeds. */
int ft_simulation_drain(struct ft_simulation *simulation);

#endif
