/* Wrappers of collective calls, blocking and non-blocking. Sizes are those that rank_records.py declares: of the send
 * buffer for one partner, of what all get from the root, or by rank. */
#include "recorder.h"

enum { NO_ROOT = 0 };

static bool collective(struct ft_call_row *call, enum ft_call_kind kind, MPI_Comm communicator, int root, int64_t bytes)
{
    const struct ft_communicator *among = ft_communicator_of(communicator);
    if (!among) {
        ft_left_out_because("between communicators");
        return false;
    }
    *call = (struct ft_call_row){
        .kind = kind,
        .communicator = among->number,
        .peer = root,
        .size_bytes = bytes,
    };
    return true;
}

/* `request`: NULL for a blocking call. */
static void record(struct ft_call_row *call, const int64_t *counts, int64_t length, const MPI_Request *request)
{
    if (request)
        ft_record_request(call, counts, length, *request);
    else
        ft_record_counts(call, counts, length);
}

static void alike(enum ft_call_kind kind, MPI_Comm communicator, int root, int64_t bytes, const MPI_Request *request)
{
    struct ft_call_row call;
    if (collective(&call, kind, communicator, root, bytes))
        record(&call, NULL, 0, request);
    else if (request)
        ft_requests_open(FT_HANDLE(*request), false);
}

/* Sizes by rank, of elements of one type or of one each. */
static void by_rank(enum ft_call_kind kind, MPI_Comm communicator, int root, const int *counts, MPI_Datatype type,
                    const MPI_Datatype *types, int64_t own_bytes, const MPI_Request *request)
{
    struct ft_call_row call;
    int64_t *bytes = NULL, length = 0;
    if (!collective(&call, kind, communicator, root, own_bytes)) {
        if (request)
            ft_requests_open(FT_HANDLE(*request), false);
        return;
    }
    if (counts) {
        length = ft_communicator_of(communicator)->size;
        bytes = ft_scratch(length);
        const int64_t each = types ? 0 : ft_bytes(1, type);
        for (int64_t i = 0; bytes && i < length; i++)
            bytes[i] = types ? ft_bytes(counts[i], types[i]) : counts[i] * each;
    }
    record(&call, bytes, bytes ? length : 0, request);
}

static int rank_in(MPI_Comm communicator)
{
    const struct ft_communicator *among = ft_communicator_of(communicator);
    return among ? among->own_rank : -1;
}

/* Each call twice: NAME, and INAME with a request. `...` records it; `request` is NULL in the first. */
#define JOINED(...) __VA_ARGS__
#define BOTH(name, inonblocking, parameters, arguments, ...)                                                       \
    FT_RECORDED(name, (JOINED parameters), (JOINED arguments), MPI_Request *const request = NULL; __VA_ARGS__)     \
    FT_RECORDED(inonblocking, (JOINED parameters, MPI_Request *request), (JOINED arguments, request), __VA_ARGS__)

BOTH(Barrier, Ibarrier, (MPI_Comm communicator), (communicator),
     alike(FT_CALL_BARRIER, communicator, NO_ROOT, 0, request);)
BOTH(Bcast, Ibcast, (void *buffer, int count, MPI_Datatype type, int root, MPI_Comm communicator),
     (buffer, count, type, root, communicator),
     alike(FT_CALL_BCAST, communicator, root, ft_bytes(count, type), request);)
BOTH(Reduce, Ireduce,
     (const void *buffer, void *room, int count, MPI_Datatype type, MPI_Op operation, int root, MPI_Comm communicator),
     (buffer, room, count, type, operation, root, communicator),
     alike(FT_CALL_REDUCE, communicator, root, ft_bytes(count, type), request);)

#define REDUCING(name, inonblocking, kind)                                                                         \
    BOTH(name, inonblocking,                                                                                       \
         (const void *buffer, void *room, int count, MPI_Datatype type, MPI_Op operation, MPI_Comm communicator),  \
         (buffer, room, count, type, operation, communicator),                                                     \
         alike(kind, communicator, NO_ROOT, ft_bytes(count, type), request);)
REDUCING(Allreduce, Iallreduce, FT_CALL_ALLREDUCE)
REDUCING(Scan, Iscan, FT_CALL_SCAN)
REDUCING(Exscan, Iexscan, FT_CALL_EXSCAN)

#define ALIKE_PARAMETERS \
    const void *buffer, int count, MPI_Datatype type, void *room, int room_count, MPI_Datatype room_type
#define ALIKE_ARGUMENTS buffer, count, type, room, room_count, room_type

/* What is sent to one partner: with MPI_IN_PLACE it is said on the receiving side. */
static int64_t sent_bytes(const void *buffer, int count, MPI_Datatype type, int room_count, MPI_Datatype room_type)
{
    return buffer == MPI_IN_PLACE ? ft_bytes(room_count, room_type) : ft_bytes(count, type);
}

BOTH(Alltoall, Ialltoall, (ALIKE_PARAMETERS, MPI_Comm communicator), (ALIKE_ARGUMENTS, communicator),
     alike(FT_CALL_ALLTOALL, communicator, NO_ROOT, sent_bytes(buffer, count, type, room_count, room_type), request);)
BOTH(Allgather, Iallgather, (ALIKE_PARAMETERS, MPI_Comm communicator), (ALIKE_ARGUMENTS, communicator),
     alike(FT_CALL_ALLGATHER, communicator, NO_ROOT, sent_bytes(buffer, count, type, room_count, room_type), request);)
BOTH(Gather, Igather, (ALIKE_PARAMETERS, int root, MPI_Comm communicator), (ALIKE_ARGUMENTS, root, communicator),
     alike(FT_CALL_GATHER, communicator, root, sent_bytes(buffer, count, type, room_count, room_type), request);)
BOTH(Scatter, Iscatter, (ALIKE_PARAMETERS, int root, MPI_Comm communicator), (ALIKE_ARGUMENTS, root, communicator),
     alike(FT_CALL_SCATTER, communicator, root,
           rank_in(communicator) == root ? ft_bytes(count, type) : ft_bytes(room_count, room_type), request);)

BOTH(Gatherv, Igatherv,
     (const void *buffer, int count, MPI_Datatype type, void *room, const int counts[], const int places[],
      MPI_Datatype room_type, int root, MPI_Comm communicator),
     (buffer, count, type, room, counts, places, room_type, root, communicator),
     const bool is_root = rank_in(communicator) == root;
     by_rank(FT_CALL_GATHERV, communicator, root, is_root ? counts : NULL, room_type, NULL,
             is_root &&buffer == MPI_IN_PLACE ? ft_bytes(counts[root], room_type) : ft_bytes(count, type), request);)
BOTH(Scatterv, Iscatterv,
     (const void *buffer, const int counts[], const int places[], MPI_Datatype type, void *room, int room_count,
      MPI_Datatype room_type, int root, MPI_Comm communicator),
     (buffer, counts, places, type, room, room_count, room_type, root, communicator),
     const bool is_root = rank_in(communicator) == root;
     by_rank(FT_CALL_SCATTERV, communicator, root, is_root ? counts : NULL, type, NULL,
             is_root ? ft_bytes(counts[root], type) : ft_bytes(room_count, room_type), request);)
BOTH(Allgatherv, Iallgatherv,
     (const void *buffer, int count, MPI_Datatype type, void *room, const int counts[], const int places[],
      MPI_Datatype room_type, MPI_Comm communicator),
     (buffer, count, type, room, counts, places, room_type, communicator), const int own = rank_in(communicator);
     by_rank(FT_CALL_ALLGATHERV, communicator, NO_ROOT, counts, room_type, NULL,
             buffer == MPI_IN_PLACE && own >= 0 ? ft_bytes(counts[own], room_type) : ft_bytes(count, type), request);)
BOTH(Alltoallv, Ialltoallv,
     (const void *buffer, const int counts[], const int places[], MPI_Datatype type, void *room,
      const int room_counts[], const int room_places[], MPI_Datatype room_type, MPI_Comm communicator),
     (buffer, counts, places, type, room, room_counts, room_places, room_type, communicator),
     const bool is_in_place = buffer == MPI_IN_PLACE;
     by_rank(FT_CALL_ALLTOALLV, communicator, NO_ROOT, is_in_place ? room_counts : counts,
             is_in_place ? room_type : type, NULL, 0, request);)
BOTH(Alltoallw, Ialltoallw,
     (const void *buffer, const int counts[], const int places[], const MPI_Datatype types[], void *room,
      const int room_counts[], const int room_places[], const MPI_Datatype room_types[], MPI_Comm communicator),
     (buffer, counts, places, types, room, room_counts, room_places, room_types, communicator),
     const bool is_in_place = buffer == MPI_IN_PLACE;
     by_rank(FT_CALL_ALLTOALLV, communicator, NO_ROOT, is_in_place ? room_counts : counts, MPI_BYTE,
             is_in_place ? room_types : types, 0, request);)
BOTH(Reduce_scatter, Ireduce_scatter,
     (const void *buffer, void *room, const int counts[], MPI_Datatype type, MPI_Op operation, MPI_Comm communicator),
     (buffer, room, counts, type, operation, communicator),
     by_rank(FT_CALL_REDUCE_SCATTER, communicator, NO_ROOT, counts, type, NULL, 0, request);)
BOTH(Reduce_scatter_block, Ireduce_scatter_block,
     (const void *buffer, void *room, int count, MPI_Datatype type, MPI_Op operation, MPI_Comm communicator),
     (buffer, room, count, type, operation, communicator),
     alike(FT_CALL_REDUCE_SCATTER, communicator, NO_ROOT, ft_bytes(count, type), request);)
