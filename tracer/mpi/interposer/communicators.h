/* Communicators, windows and files: which ranks of MPI_COMM_WORLD are their members. */
#ifndef FORETRACE_MPI_COMMUNICATORS_H
#define FORETRACE_MPI_COMMUNICATORS_H

#include <mpi.h>
#include <stdint.h>

struct ft_communicator {
    int64_t number; /* in the record; -1: an intercommunicator, which is not recorded */
    int32_t size, own_rank;
    int32_t *members;   /* ranks in MPI_COMM_WORLD */
    int64_t next_freed; /* with the same members, while it is freed; -1: none */
};

/* What was found so far, for the writer. */
struct ft_communicators {
    struct ft_communicator *kept; /* one that was freed stays, until another has the same members */
    int64_t length;
};
extern struct ft_communicators ft_communicators;

/* A communicator; NULL where it is not recorded. One that is new gets a number. */
const struct ft_communicator *ft_communicator_of(MPI_Comm communicator);
/* A communicator was made with the members of another; it need not be usable yet. */
void ft_communicator_copied(MPI_Comm old, MPI_Comm copy);
/* Its handle means nothing any more. */
void ft_communicator_freed(MPI_Comm communicator);

/* Windows and files, which go by the communicator that they were made with. */
void ft_window_made(MPI_Win window, MPI_Comm communicator);
const struct ft_communicator *ft_communicator_of_window(MPI_Win window);
void ft_window_freed(MPI_Win window);
void ft_file_opened(MPI_File file, MPI_Comm communicator);
const struct ft_communicator *ft_communicator_of_file(MPI_File file);
void ft_file_closed(MPI_File file);

#endif
