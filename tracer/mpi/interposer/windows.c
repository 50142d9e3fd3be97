/* Wrappers of one-sided communication. A call of all ranks of a window has -1 for its partner. */
#include "recorder.h"

static void record(enum ft_call_kind kind, const struct ft_communicator *among, int peer, int64_t bytes)
{
    struct ft_call_row call = {.kind = kind, .communicator = among->number, .peer = peer, .size_bytes = bytes};
    ft_record(&call);
}

static const struct ft_communicator *members_of(MPI_Win window)
{
    const struct ft_communicator *among = ft_communicator_of_window(window);
    if (!among)
        ft_left_out_because("of a window that was not recorded");
    return among;
}

static void access(enum ft_call_kind kind, MPI_Win window, int target, int64_t bytes)
{
    const struct ft_communicator *among = members_of(window);
    if (among && target != MPI_PROC_NULL && target >= 0 && target < among->size)
        record(kind, among, among->members[target], bytes);
}

static void access_all(enum ft_call_kind kind, MPI_Win window)
{
    const struct ft_communicator *among = members_of(window);
    if (among)
        record(kind, among, -1, 0);
}

static void made(const char *name, MPI_Win window, MPI_Comm communicator)
{
    ft_left_out(name);
    ft_window_made(window, communicator);
}

FT_RECORDED(Win_create, (void *base, MPI_Aint bytes, int unit, MPI_Info info, MPI_Comm communicator, MPI_Win *window),
            (base, bytes, unit, info, communicator, window), made("MPI_Win_create", *window, communicator);)
FT_RECORDED(Win_allocate, (MPI_Aint bytes, int unit, MPI_Info info, MPI_Comm communicator, void *base, MPI_Win *window),
            (bytes, unit, info, communicator, base, window), made("MPI_Win_allocate", *window, communicator);)
FT_RECORDED(Win_allocate_shared,
            (MPI_Aint bytes, int unit, MPI_Info info, MPI_Comm communicator, void *base, MPI_Win *window),
            (bytes, unit, info, communicator, base, window), made("MPI_Win_allocate_shared", *window, communicator);)
FT_RECORDED(Win_create_dynamic, (MPI_Info info, MPI_Comm communicator, MPI_Win *window), (info, communicator, window),
            made("MPI_Win_create_dynamic", *window, communicator);)

FT_WRAPPER(Win_free, (MPI_Win * window))
{
    FT_OPEN(Win_free, (window))
    const MPI_Win freed = *window;
    const int result = FT_PASS(Win_free, (window));
    ft_window_freed(freed);
    ft_left_out("MPI_Win_free");
    ft_leave();
    return result;
}

#define TRANSFER_PARAMETERS(buffer)                                                                          \
    buffer, COUNT count, MPI_Datatype type, int target, MPI_Aint place, COUNT target_count, MPI_Datatype target_type
#define TRANSFER_ARGUMENTS buffer, count, type, target, place, target_count, target_type

FT_RECORDED(Fetch_and_op,
            (const void *buffer, void *room, MPI_Datatype type, int target, MPI_Aint place, MPI_Op operation,
             MPI_Win window),
            (buffer, room, type, target, place, operation, window),
            access(FT_CALL_PUT, window, target, ft_bytes(1, type));
            access(FT_CALL_GET, window, target, ft_bytes(1, type));)
FT_RECORDED(Compare_and_swap,
            (const void *buffer, const void *compared, void *room, MPI_Datatype type, int target, MPI_Aint place,
             MPI_Win window),
            (buffer, compared, room, type, target, place, window),
            access(FT_CALL_PUT, window, target, ft_bytes(2, type));
            access(FT_CALL_GET, window, target, ft_bytes(1, type));)

FT_RECORDED(Win_fence, (int promises, MPI_Win window), (promises, window), access_all(FT_CALL_FENCE, window);)
FT_RECORDED(Win_lock, (int kind, int target, int promises, MPI_Win window), (kind, target, promises, window),
            access(FT_CALL_LOCK, window, target, 0);)
FT_RECORDED(Win_unlock, (int target, MPI_Win window), (target, window), access(FT_CALL_UNLOCK, window, target, 0);)
FT_RECORDED(Win_lock_all, (int promises, MPI_Win window), (promises, window), access_all(FT_CALL_LOCK, window);)
FT_RECORDED(Win_unlock_all, (MPI_Win window), (window), access_all(FT_CALL_UNLOCK, window);)

FT_COUNTED(Win_flush, (int target, MPI_Win window), (target, window))
FT_COUNTED(Win_flush_all, (MPI_Win window), (window))
FT_COUNTED(Win_flush_local, (int target, MPI_Win window), (target, window))
FT_COUNTED(Win_flush_local_all, (MPI_Win window), (window))
FT_COUNTED(Win_post, (MPI_Group group, int promises, MPI_Win window), (group, promises, window))
FT_COUNTED(Win_start, (MPI_Group group, int promises, MPI_Win window), (group, promises, window))
FT_COUNTED(Win_complete, (MPI_Win window), (window))
FT_COUNTED(Win_wait, (MPI_Win window), (window))
FT_COUNTED(Win_test, (MPI_Win window, int *flag), (window, flag))

#define COUNT int
#define PLACE int
#define NAMED(name) name
#include "window_wrappers.h"
#if MPI_VERSION >= 4
#undef COUNT
#undef PLACE
#undef NAMED
#define COUNT MPI_Count
#define PLACE MPI_Aint
#define NAMED(name) name##_c
#include "window_wrappers.h"
#endif
