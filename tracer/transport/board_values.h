/* Values of a process's software-defined events, read off its board (tracer/events/board.h) from inside the process.
 *
 * Registered variables, created counters (the sum over all lanes) and recorders (how many values) are read; callbacks,
 * groups and counting sets are not. The program may have ended events, unmapped their memory or overwritten the board:
 * all is read by process_vm_readv, to which a wrong address is an error and no fault, and every number is checked.
 */
#ifndef FORETRACE_BOARD_VALUES_H
#define FORETRACE_BOARD_VALUES_H

#include "stream.h"

#include <stdbool.h>

struct ft_event_value {
    uint32_t number; /* of the event, on the board */
    bool is_real;    /* `bits` are those of a double, not of an int64 */
    bool is_known;
    uint64_t bits;
};

struct ft_board_values;

/* Of the board at an address of this process. `guest_base`: what to add to the addresses of the program's variables.
 * NULL: no memory. */
struct ft_board_values *ft_board_values_new(uint64_t address, uint64_t guest_base);
void ft_board_values_free(struct ft_board_values *board);

/* Whether there is a board of this process at an address. */
bool ft_board_is_at(uint64_t address);

/* Says on the board that this process is traced, or no longer. */
void ft_board_trace(uint64_t address, bool is_traced);

/* The values now: `*values` becomes where they are. Returns how many there are, those that are not known included; 0 if
 * the board cannot be read. */
uint32_t ft_board_values_read(struct ft_board_values *board, const struct ft_event_value **values);

#endif
