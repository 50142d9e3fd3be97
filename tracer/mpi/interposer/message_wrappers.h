/* Included by messages.c: once for counts of type `int`, and once for those of MPI 4's large counts (`_c`). COUNT and PLACE are
 * the types of counts and of displacements, NAMED the name of a call. */

SENDING(NAMED(Send), FT_CALL_SEND)
SENDING(NAMED(Bsend), FT_CALL_SEND)
SENDING(NAMED(Rsend), FT_CALL_SEND)
SENDING(NAMED(Ssend), FT_CALL_SSEND)
SENDING_LATER(NAMED(Isend), non_blocking, FT_CALL_ISEND)
SENDING_LATER(NAMED(Ibsend), non_blocking, FT_CALL_ISEND)
SENDING_LATER(NAMED(Irsend), non_blocking, FT_CALL_ISEND)
SENDING_LATER(NAMED(Issend), non_blocking, FT_CALL_ISSEND)
SENDING_LATER(NAMED(Send_init), persistent, FT_CALL_ISEND)
SENDING_LATER(NAMED(Bsend_init), persistent, FT_CALL_ISEND)
SENDING_LATER(NAMED(Rsend_init), persistent, FT_CALL_ISEND)
SENDING_LATER(NAMED(Ssend_init), persistent, FT_CALL_ISSEND)

FT_RECORDED(NAMED(Recv), (RECEIVE_PARAMETERS, MPI_Status *status), (RECEIVE_ARGUMENTS, status),
            blocking(FT_CALL_RECEIVE, count, type, source, tag, communicator);)
FT_RECORDED(NAMED(Irecv), (RECEIVE_PARAMETERS, MPI_Request *request), (RECEIVE_ARGUMENTS, request),
            non_blocking(FT_CALL_IRECEIVE, count, type, source, tag, communicator, *request);)
FT_RECORDED(NAMED(Recv_init), (RECEIVE_PARAMETERS, MPI_Request *request), (RECEIVE_ARGUMENTS, request),
            persistent(FT_CALL_IRECEIVE, count, type, source, tag, communicator, *request);)

FT_RECORDED(NAMED(Sendrecv),
            (const void *buffer, COUNT count, MPI_Datatype type, int dest, int tag, void *room, COUNT room_count,
             MPI_Datatype room_type, int source, int room_tag, MPI_Comm communicator, MPI_Status *status),
            (buffer, count, type, dest, tag, room, room_count, room_type, source, room_tag, communicator, status),
            exchange(ft_bytes(count, type), dest, tag, ft_bytes(room_count, room_type), source, room_tag,
                     communicator);)
FT_RECORDED(NAMED(Sendrecv_replace),
            (void *buffer, COUNT count, MPI_Datatype type, int dest, int tag, int source, int room_tag,
             MPI_Comm communicator, MPI_Status *status),
            (buffer, count, type, dest, tag, source, room_tag, communicator, status),
            exchange(ft_bytes(count, type), dest, tag, ft_bytes(count, type), source, room_tag, communicator);)

FT_WRAPPER(NAMED(Mrecv), (void *buffer, COUNT count, MPI_Datatype type, MPI_Message *message, MPI_Status *status))
{
    FT_OPEN(NAMED(Mrecv), (buffer, count, type, message, status))
    struct ft_call_row call;
    const bool is_message = receive_matched(&call, *message, FT_CALL_RECEIVE, ft_bytes(count, type));
    const int result = FT_PASS(NAMED(Mrecv), (buffer, count, type, message, status));
    if (is_message && result == MPI_SUCCESS)
        ft_record(&call);
    ft_leave();
    return result;
}

FT_WRAPPER(NAMED(Imrecv), (void *buffer, COUNT count, MPI_Datatype type, MPI_Message *message, MPI_Request *request))
{
    FT_OPEN(NAMED(Imrecv), (buffer, count, type, message, request))
    struct ft_call_row call;
    const bool is_message = receive_matched(&call, *message, FT_CALL_IRECEIVE, ft_bytes(count, type));
    const int result = FT_PASS(NAMED(Imrecv), (buffer, count, type, message, request));
    if (result == MPI_SUCCESS && is_message)
        ft_record_request(&call, NULL, 0, *request);
    else if (result == MPI_SUCCESS)
        ft_requests_open(FT_HANDLE(*request), false);
    ft_leave();
    return result;
}
