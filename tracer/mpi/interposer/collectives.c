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
static void by_rank(enum ft_call_kind kind, MPI_Comm communicator, int root, const void *counts, bool are_large,
                    MPI_Datatype type, const MPI_Datatype *types, int64_t own_bytes, const MPI_Request *request)
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
        for (int64_t i = 0; bytes && i < length; i++) {
            const int64_t count = are_large ? ((const MPI_Count *)counts)[i] : ((const int *)counts)[i];
            bytes[i] = types ? ft_bytes(count, types[i]) : count * each;
        }
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

/* What is sent to one partner: with MPI_IN_PLACE it is said on the receiving side. */
static int64_t sent_bytes(const void *buffer, int64_t count, MPI_Datatype type, int64_t room_count,
                          MPI_Datatype room_type)
{
    return buffer == MPI_IN_PLACE ? ft_bytes(room_count, room_type) : ft_bytes(count, type);
}

#define REDUCING(name, inonblocking, kind)                                                                         \
    BOTH(name, inonblocking,                                                                                       \
         (const void *buffer, void *room, COUNT count, MPI_Datatype type, MPI_Op operation, MPI_Comm communicator),  \
         (buffer, room, count, type, operation, communicator),                                                     \
         alike(kind, communicator, NO_ROOT, ft_bytes(count, type), request);)
#define ALIKE_PARAMETERS \
    const void *buffer, COUNT count, MPI_Datatype type, void *room, COUNT room_count, MPI_Datatype room_type
#define ALIKE_ARGUMENTS buffer, count, type, room, room_count, room_type
#define BY_RANK(kind, communicator, root, counts, ...) \
    by_rank(kind, communicator, root, counts, sizeof(COUNT) > sizeof(int), __VA_ARGS__)

#define COUNT int
#define PLACE int
#define NAMED(name) name
#include "collective_wrappers.h"
#if MPI_VERSION >= 4
#undef COUNT
#undef PLACE
#undef NAMED
#define COUNT MPI_Count
#define PLACE MPI_Aint
#define NAMED(name) name##_c
#include "collective_wrappers.h"
#endif
