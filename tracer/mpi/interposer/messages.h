/* Messages between two ranks, as calls to record. */
#ifndef FORETRACE_MPI_MESSAGES_H
#define FORETRACE_MPI_MESSAGES_H

#include "recorder.h"

/* The call of a message of `bytes`; false where it is none: to or from MPI_PROC_NULL, or not recorded. */
bool ft_message(struct ft_call_row *call, enum ft_call_kind kind, int peer, int tag, MPI_Comm communicator,
                int64_t bytes);

#endif
