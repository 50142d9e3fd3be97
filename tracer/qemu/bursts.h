/* When a program's accesses are recorded, and when its blocks alone: bursts in a long run.
 *
 * After a first part that is recorded whole, time is measured in blocks that run between bursts. Each period of it has
 * one burst, at a random place: no rhythm of the program's can keep step with that. A burst goes on for some chunks to
 * warm caches up, and for others to measure. Code that has been in no burst gets one soon, as long as these are few.
 *
 * To change over, what QEMU has translated is thrown away (`reset`): it then translates each block again, with other
 * callbacks. That happens while no thread of the program runs.
 */
#ifndef FORETRACE_BURSTS_H
#define FORETRACE_BURSTS_H

#include "tracer/transport/stream.h"

#include <stdbool.h>

/* Begins by the schedule in the header, which may be to record all. `reset` asks for what was translated to be thrown
 * away and then, while no thread runs, for ft_bursts_change. */
void ft_bursts_begin(const struct ft_schedule *schedule, void (*reset)(void));

/* Whether accesses are recorded. */
bool ft_bursts_record(void);

/* Says that a block is translated which has been in no burst. */
void ft_bursts_new_code(void);

/* Says that the program has a further thread. QEMU cannot throw away safely, again and again, what several threads run: all
 * is recorded from here on, after one last change if this is between bursts. */
void ft_bursts_thread_starts(void);

/* Changes over. No thread of the program may be running. */
void ft_bursts_change(void);

#endif
