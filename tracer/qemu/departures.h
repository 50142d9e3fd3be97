/* Departures of the engine from the system: what it does otherwise is counted in the header (enum ft_departure), and
 * what would take too much of its memory is refused, as the system refuses it under a limit of address space.
 *
 * A call is refused by lowering the engine's own limit of address space until it has returned: a plugin can neither
 * change a system call nor its result. What other threads map in that time may be refused as well.
 */
#ifndef FORETRACE_DEPARTURES_H
#define FORETRACE_DEPARTURES_H

#include "qemu_api.h"

/* `target` is the architecture as QEMU names it. The program may map up to `most_bytes`; 0: the engine takes no memory
 * for what is only mapped. False if the system has no memory. */
bool ft_departures_begin(const char *target, uint64_t most_bytes);

/* Before and after a system call. */
void ft_departures_call(int64_t number, const uint64_t arguments[6]);
void ft_departures_returned(int64_t number, int64_t result);

void ft_departures_end(void); /* of the program */

/* Takes over which memory is shared; `maps` is a copy of /proc/self/maps. */
void ft_departures_mapped(const char *maps, size_t length);

/* Whether the code of a block can be changed without the engine's knowledge: through another mapping. `address` is the
 * engine's. */
bool ft_departures_may_be_stale(uint64_t address);

/* The code of a block runs that the engine translated from other bytes than are there now. */
void ft_departures_stale(void);

#endif
