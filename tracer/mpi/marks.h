/* Marks between a rank's program and the MPI library, which is not traced: system calls that there are not, which the
 * engine sees (tracer/qemu/plugin.c). Arguments: which, and the number of the call that was recorded. */
#ifndef FORETRACE_MPI_MARKS_H
#define FORETRACE_MPI_MARKS_H

#define FT_MPI_MARK_CALL 0x464d50

enum ft_mpi_mark {
    FT_MPI_MARK_ENTER = 1,
    FT_MPI_MARK_LEAVE,       /* and the call was recorded */
    FT_MPI_MARK_LEAVE_ALONE, /* and it was not: its work goes to the next that is */
    FT_MPI_MARK_BEGIN        /* MPI was initialised: what came before is no call's */
};

#endif
