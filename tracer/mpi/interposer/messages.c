/* Wrappers of point-to-point calls, blocking and non-blocking. A buffered or ready send is a send. */
#include "messages.h"

bool ft_message(struct ft_call_row *call, enum ft_call_kind kind, int peer, int tag, MPI_Comm communicator,
                int64_t bytes)
{
    const struct ft_communicator *among = ft_communicator_of(communicator);
    if (!among) {
        ft_left_out_because("between communicators");
        return false;
    }
    if (peer == MPI_PROC_NULL)
        return false;
    if (peer != MPI_ANY_SOURCE && (peer < 0 || peer >= among->size))
        return false;
    *call = (struct ft_call_row){
        .kind = kind,
        .communicator = among->number,
        .peer = peer == MPI_ANY_SOURCE ? -1 : among->members[peer],
        .tag = tag == MPI_ANY_TAG ? -1 : tag,
        .size_bytes = bytes,
    };
    return true;
}

static void blocking(enum ft_call_kind kind, int64_t count, MPI_Datatype type, int peer, int tag, MPI_Comm communicator)
{
    struct ft_call_row call;
    if (ft_message(&call, kind, peer, tag, communicator, ft_bytes(count, type)))
        ft_record(&call);
}

static void non_blocking(enum ft_call_kind kind, int64_t count, MPI_Datatype type, int peer, int tag,
                         MPI_Comm communicator, MPI_Request request)
{
    struct ft_call_row call;
    if (ft_message(&call, kind, peer, tag, communicator, ft_bytes(count, type)))
        ft_record_request(&call, NULL, 0, request);
    else
        ft_requests_open(FT_HANDLE(request), false);
}

static void persistent(enum ft_call_kind kind, int64_t count, MPI_Datatype type, int peer, int tag,
                       MPI_Comm communicator, MPI_Request request)
{
    struct ft_persistent *made = ft_requests_add_persistent(FT_HANDLE(request));
    if (made)
        made->is_message = ft_message(&made->call, kind, peer, tag, communicator, ft_bytes(count, type));
}

static void exchange(int64_t sent_bytes, int dest, int send_tag, int64_t room_bytes, int source, int receive_tag,
                     MPI_Comm communicator)
{
    struct ft_call_row sent, received;
    const bool sends = ft_message(&sent, FT_CALL_SEND, dest, send_tag, communicator, sent_bytes);
    const bool receives = ft_message(&received, FT_CALL_RECEIVE, source, receive_tag, communicator, room_bytes);
    if (sends && receives) {
        sent.kind = FT_CALL_EXCHANGE;
        sent.second_peer = received.peer;
        sent.second_tag = received.tag;
        sent.second_bytes = received.size_bytes;
    }
    if (sends || receives)
        ft_record(sends ? &sent : &received);
}

/* A message that a probe has matched, between that and its receipt: its sender, tag and communicator are known then. */
enum { MOST_MATCHED = 1024 };
static struct {
    MPI_Message message;
    struct ft_call_row call;
    bool is_message;
} matched[MOST_MATCHED];
static int matched_length;

static void match(MPI_Message message, const MPI_Status *status, MPI_Comm communicator)
{
    if (message == MPI_MESSAGE_NULL || message == MPI_MESSAGE_NO_PROC)
        return;
    if (matched_length == MOST_MATCHED) {
        ft_left_out_because("too many matched messages at once");
        return;
    }
    matched[matched_length].message = message;
    matched[matched_length].is_message = ft_message(&matched[matched_length].call, FT_CALL_RECEIVE, status->MPI_SOURCE,
                                                    status->MPI_TAG, communicator, 0);
    matched_length++;
}

/* The call that receives a matched message; false if there is none to record. */
static bool receive_matched(struct ft_call_row *call, MPI_Message message, enum ft_call_kind kind, int64_t bytes)
{
    for (int i = matched_length; i-- > 0;)
        if (matched[i].message == message) {
            const bool is_message = matched[i].is_message;
            *call = matched[i].call;
            call->kind = kind;
            call->size_bytes = bytes;
            matched[i] = matched[--matched_length];
            return is_message;
        }
    if (message != MPI_MESSAGE_NO_PROC)
        ft_left_out_because("not known which message");
    return false;
}

FT_WRAPPER(Mprobe, (int source, int tag, MPI_Comm communicator, MPI_Message *message, MPI_Status *status))
{
    MPI_Status own;
    MPI_Status *told = status == MPI_STATUS_IGNORE ? &own : status;
    FT_OPEN(Mprobe, (source, tag, communicator, message, status))
    const int result = FT_PASS(Mprobe, (source, tag, communicator, message, told));
    if (result == MPI_SUCCESS)
        match(*message, told, communicator);
    ft_leave();
    return result;
}

FT_WRAPPER(Improbe, (int source, int tag, MPI_Comm communicator, int *flag, MPI_Message *message, MPI_Status *status))
{
    MPI_Status own;
    MPI_Status *told = status == MPI_STATUS_IGNORE ? &own : status;
    FT_OPEN(Improbe, (source, tag, communicator, flag, message, status))
    const int result = FT_PASS(Improbe, (source, tag, communicator, flag, message, told));
    if (result == MPI_SUCCESS && *flag)
        match(*message, told, communicator);
    ft_leave();
    return result;
}

/* A probe is not recorded: the receive behind it waits for the same message. */
FT_RECORDED(Probe, (int source, int tag, MPI_Comm communicator, MPI_Status *status),
            (source, tag, communicator, status), )
FT_RECORDED(Iprobe, (int source, int tag, MPI_Comm communicator, int *flag, MPI_Status *status),
            (source, tag, communicator, flag, status), )

#define SEND_PARAMETERS const void *buffer, COUNT count, MPI_Datatype type, int dest, int tag, MPI_Comm communicator
#define SEND_ARGUMENTS buffer, count, type, dest, tag, communicator
#define SENDING(name, kind) \
    FT_RECORDED(name, (SEND_PARAMETERS), (SEND_ARGUMENTS), blocking(kind, count, type, dest, tag, communicator);)
#define SENDING_LATER(name, how, kind) \
    FT_RECORDED(name, (SEND_PARAMETERS, MPI_Request *request), (SEND_ARGUMENTS, request), \
                how(kind, count, type, dest, tag, communicator, *request);)
#define RECEIVE_PARAMETERS void *buffer, COUNT count, MPI_Datatype type, int source, int tag, MPI_Comm communicator
#define RECEIVE_ARGUMENTS buffer, count, type, source, tag, communicator

#define COUNT int
#define PLACE int
#define NAMED(name) name
#include "message_wrappers.h"
#if MPI_VERSION >= 4
#undef COUNT
#undef PLACE
#undef NAMED
#define COUNT MPI_Count
#define PLACE MPI_Aint
#define NAMED(name) name##_c
#include "message_wrappers.h"
#endif
