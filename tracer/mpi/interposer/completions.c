/* Wrappers of calls that complete requests, or start persistent ones. Recorded are the slots of the requests that a call
 * found complete; a test that found none is not. */
#include "messages.h"

#include <string.h>

static void record_slots(enum ft_call_kind kind, const int64_t *slots, int64_t length)
{
    if (!length)
        return;
    struct ft_call_row call = {.kind = kind};
    ft_record_slots(&call, slots, length);
}

/* The slot of a request that is complete; 0 where it has none. */
static int64_t completed(uint64_t handle)
{
    if (handle == FT_HANDLE(MPI_REQUEST_NULL))
        return 0;
    const int64_t slot = ft_requests_complete(handle);
    if (slot < 0)
        ft_left_out_because("a request that was not recorded");
    return slot < 0 ? 0 : slot;
}

/* Handles are kept before the call, which overwrites them. */
static int64_t *kept_handles(int count, const MPI_Request *requests)
{
    int64_t *handles = count > 0 ? ft_scratch(count) : NULL;
    for (int i = 0; handles && i < count; i++)
        handles[i] = (int64_t)FT_HANDLE(requests[i]);
    return handles;
}

/* Replaces handles that are complete by their slots, without those that have none. How many. */
static int64_t to_slots(int64_t *handles, int64_t count)
{
    int64_t slots = 0;
    for (int64_t i = 0; handles && i < count; i++) {
        const int64_t slot = completed((uint64_t)handles[i]);
        if (slot)
            handles[slots++] = slot;
    }
    return slots;
}

static void one(enum ft_call_kind kind, uint64_t handle)
{
    const int64_t slot = completed(handle);
    record_slots(kind, &slot, slot != 0);
}

FT_WRAPPER(Wait, (MPI_Request * request, MPI_Status *status))
{
    FT_OPEN(Wait, (request, status))
    const uint64_t handle = FT_HANDLE(*request);
    const int result = FT_PASS(Wait, (request, status));
    if (result == MPI_SUCCESS)
        one(FT_CALL_WAIT, handle);
    ft_leave();
    return result;
}

FT_WRAPPER(Test, (MPI_Request * request, int *flag, MPI_Status *status))
{
    FT_OPEN(Test, (request, flag, status))
    const uint64_t handle = FT_HANDLE(*request);
    const int result = FT_PASS(Test, (request, flag, status));
    if (result == MPI_SUCCESS && *flag)
        one(FT_CALL_TEST, handle);
    ft_leave();
    return result;
}

static void all(enum ft_call_kind kind, int64_t *handles, int count)
{
    record_slots(kind, handles, to_slots(handles, count));
}

FT_WRAPPER(Waitall, (int count, MPI_Request *requests, MPI_Status *statuses))
{
    FT_OPEN(Waitall, (count, requests, statuses))
    int64_t *handles = kept_handles(count, requests);
    const int result = FT_PASS(Waitall, (count, requests, statuses));
    if (result == MPI_SUCCESS || result == MPI_ERR_IN_STATUS)
        all(FT_CALL_WAIT_ALL, handles, count);
    ft_leave();
    return result;
}

FT_WRAPPER(Testall, (int count, MPI_Request *requests, int *flag, MPI_Status *statuses))
{
    FT_OPEN(Testall, (count, requests, flag, statuses))
    int64_t *handles = kept_handles(count, requests);
    const int result = FT_PASS(Testall, (count, requests, flag, statuses));
    if (result == MPI_SUCCESS && *flag)
        all(FT_CALL_TEST, handles, count);
    ft_leave();
    return result;
}

FT_WRAPPER(Waitany, (int count, MPI_Request *requests, int *index, MPI_Status *status))
{
    FT_OPEN(Waitany, (count, requests, index, status))
    const int64_t *handles = kept_handles(count, requests);
    const int result = FT_PASS(Waitany, (count, requests, index, status));
    if (result == MPI_SUCCESS && handles && *index >= 0 && *index < count)
        one(FT_CALL_WAIT, (uint64_t)handles[*index]);
    ft_leave();
    return result;
}

FT_WRAPPER(Testany, (int count, MPI_Request *requests, int *index, int *flag, MPI_Status *status))
{
    FT_OPEN(Testany, (count, requests, index, flag, status))
    const int64_t *handles = kept_handles(count, requests);
    const int result = FT_PASS(Testany, (count, requests, index, flag, status));
    if (result == MPI_SUCCESS && *flag && handles && *index >= 0 && *index < count)
        one(FT_CALL_TEST, (uint64_t)handles[*index]);
    ft_leave();
    return result;
}

/* Those of many requests that are complete, in the order of their slots' positions in the program's array. */
static void some(enum ft_call_kind kind, int64_t *handles, int count, const int *indices, int complete)
{
    if (!handles || complete <= 0 || complete > count)
        return;
    int64_t *both = ft_scratch(count + (int64_t)complete); /* the handles stay where they are in it */
    if (!both)
        return;
    for (int i = 0; i < complete; i++)
        both[count + i] = both[indices[i]];
    record_slots(kind, both + count, to_slots(both + count, complete));
}

FT_WRAPPER(Waitsome, (int count, MPI_Request *requests, int *complete, int *indices, MPI_Status *statuses))
{
    FT_OPEN(Waitsome, (count, requests, complete, indices, statuses))
    int64_t *handles = kept_handles(count, requests);
    const int result = FT_PASS(Waitsome, (count, requests, complete, indices, statuses));
    if (result == MPI_SUCCESS && *complete != MPI_UNDEFINED)
        some(FT_CALL_WAIT_ALL, handles, count, indices, *complete);
    ft_leave();
    return result;
}

FT_WRAPPER(Testsome, (int count, MPI_Request *requests, int *complete, int *indices, MPI_Status *statuses))
{
    FT_OPEN(Testsome, (count, requests, complete, indices, statuses))
    int64_t *handles = kept_handles(count, requests);
    const int result = FT_PASS(Testsome, (count, requests, complete, indices, statuses));
    if (result == MPI_SUCCESS && *complete != MPI_UNDEFINED)
        some(FT_CALL_TEST, handles, count, indices, *complete);
    ft_leave();
    return result;
}

static void start(MPI_Request request)
{
    struct ft_persistent *persistent = ft_requests_persistent(FT_HANDLE(request));
    if (!persistent)
        ft_left_out_because("a request that was not recorded");
    if (!persistent || !persistent->is_message)
        return;
    struct ft_call_row call = persistent->call;
    call.request = ft_requests_next_slot();
    ft_record(&call);
    ft_requests_start(persistent);
}

FT_RECORDED(Start, (MPI_Request * request), (request), start(*request);)
FT_RECORDED(Startall, (int count, MPI_Request *requests), (count, requests),
            for (int i = 0; i < count; i++) start(requests[i]);)

FT_WRAPPER(Request_free, (MPI_Request * request))
{
    FT_OPEN(Request_free, (request))
    const uint64_t handle = FT_HANDLE(*request);
    const int result = FT_PASS(Request_free, (request));
    if (result == MPI_SUCCESS && ft_requests_free(handle) > 0)
        ft_left_out_because("of a request under way");
    ft_leave();
    return result;
}

FT_COUNTED(Cancel, (MPI_Request * request), (request))
