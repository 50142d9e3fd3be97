/* Wrappers of calls that came with MPI 4. They are counted, not recorded; so are starts of persistent requests that
 * nothing else knows (persistent collective calls, partitioned messages). */
#include "recorder.h"

#if MPI_VERSION >= 4

#define STARTED(name, parameters, arguments) \
    FT_RECORDED(name, parameters, arguments, ft_left_out(FT_NAME(name)); ft_requests_open(FT_HANDLE(*request), false);)

STARTED(Isendrecv,
        (const void *buffer, int count, MPI_Datatype type, int dest, int tag, void *room, int room_count,
         MPI_Datatype room_type, int source, int room_tag, MPI_Comm communicator, MPI_Request *request),
        (buffer, count, type, dest, tag, room, room_count, room_type, source, room_tag, communicator, request))
STARTED(Isendrecv_replace,
        (void *buffer, int count, MPI_Datatype type, int dest, int tag, int source, int room_tag, MPI_Comm communicator,
         MPI_Request *request),
        (buffer, count, type, dest, tag, source, room_tag, communicator, request))

#endif
