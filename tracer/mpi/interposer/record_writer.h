/* Writes the record of the rank to the file that FT_MPI_RECORD names. */
#ifndef FORETRACE_MPI_RECORD_WRITER_H
#define FORETRACE_MPI_RECORD_WRITER_H

#include <stdbool.h>
#include <stdint.h>

#define FT_MOST_LEFT_OUT 512

/* Calls that were not recorded: the name, why not ("": as it is no call that is recorded), and how often. */
struct ft_left_out_call {
    const char *name, *why;
    int64_t times;
};
struct ft_left_out_calls {
    struct ft_left_out_call rows[FT_MOST_LEFT_OUT];
    int length;
};
extern struct ft_left_out_calls ft_left_out_calls;

/* MPI is initialised: who we are. False if no file is named. */
bool ft_writer_begin(void);

/* Write the file: nothing is allocated, so that a handler of a signal may call it. It is whole or not there. */
void ft_writer_write(bool is_complete, double processor_s, double wall_s);

#endif
