/* When a program's accesses are recorded, and when its blocks alone, by the phases of tracer/transport/phases.h.
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

/* Says that the program has a further thread. QEMU cannot throw away safely, again and again, what several threads run:
 * all is recorded from here on, after one last change if this is between bursts. */
void ft_bursts_thread_starts(void);

/* Changes over. No thread of the program may be running. */
void ft_bursts_change(void);

#endif
