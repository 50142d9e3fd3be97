/* Included by windows.c: once for counts of type `int`, and once for those of MPI 4's large counts (`_c`). COUNT and PLACE are
 * the types of counts and of displacements, NAMED the name of a call. */

FT_RECORDED(NAMED(Win_create),
            (void *base, MPI_Aint bytes, PLACE unit, MPI_Info info, MPI_Comm communicator, MPI_Win *window),
            (base, bytes, unit, info, communicator, window), made(FT_NAME(NAMED(Win_create)), *window, communicator);)
FT_RECORDED(NAMED(Win_allocate),
            (MPI_Aint bytes, PLACE unit, MPI_Info info, MPI_Comm communicator, void *base, MPI_Win *window),
            (bytes, unit, info, communicator, base, window), made(FT_NAME(NAMED(Win_allocate)), *window, communicator);)
FT_RECORDED(NAMED(Win_allocate_shared),
            (MPI_Aint bytes, PLACE unit, MPI_Info info, MPI_Comm communicator, void *base, MPI_Win *window),
            (bytes, unit, info, communicator, base, window),
            made(FT_NAME(NAMED(Win_allocate_shared)), *window, communicator);)

FT_RECORDED(NAMED(Put), (TRANSFER_PARAMETERS(const void *buffer), MPI_Win window), (TRANSFER_ARGUMENTS, window),
            access(FT_CALL_PUT, window, target, ft_bytes(count, type));)
FT_RECORDED(NAMED(Get), (TRANSFER_PARAMETERS(void *buffer), MPI_Win window), (TRANSFER_ARGUMENTS, window),
            access(FT_CALL_GET, window, target, ft_bytes(count, type));)
FT_RECORDED(NAMED(Accumulate), (TRANSFER_PARAMETERS(const void *buffer), MPI_Op operation, MPI_Win window),
            (TRANSFER_ARGUMENTS, operation, window), access(FT_CALL_PUT, window, target, ft_bytes(count, type));)
FT_RECORDED(NAMED(Rput), (TRANSFER_PARAMETERS(const void *buffer), MPI_Win window, MPI_Request *request),
            (TRANSFER_ARGUMENTS, window, request), access(FT_CALL_PUT, window, target, ft_bytes(count, type));
            ft_requests_open(FT_HANDLE(*request), false);)
FT_RECORDED(NAMED(Rget), (TRANSFER_PARAMETERS(void *buffer), MPI_Win window, MPI_Request *request),
            (TRANSFER_ARGUMENTS, window, request), access(FT_CALL_GET, window, target, ft_bytes(count, type));
            ft_requests_open(FT_HANDLE(*request), false);)
FT_RECORDED(NAMED(Raccumulate),
            (TRANSFER_PARAMETERS(const void *buffer), MPI_Op operation, MPI_Win window, MPI_Request *request),
            (TRANSFER_ARGUMENTS, operation, window, request),
            access(FT_CALL_PUT, window, target, ft_bytes(count, type));
            ft_requests_open(FT_HANDLE(*request), false);)

/* Fetching what was there and changing it: bytes go both ways. */
FT_RECORDED(NAMED(Get_accumulate),
            (const void *buffer, COUNT count, MPI_Datatype type, void *room, COUNT room_count, MPI_Datatype room_type,
             int target, MPI_Aint place, COUNT target_count, MPI_Datatype target_type, MPI_Op operation,
             MPI_Win window),
            (buffer, count, type, room, room_count, room_type, target, place, target_count, target_type, operation,
             window),
            access(FT_CALL_PUT, window, target, ft_bytes(count, type));
            access(FT_CALL_GET, window, target, ft_bytes(room_count, room_type));)
