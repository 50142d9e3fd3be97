/* Wrappers of calls that make and free communicators. They are counted, not recorded, but what they make is numbered
 * when it is made: then all its members count alike. */
#include "recorder.h"

static void made(const char *name, MPI_Comm *communicator)
{
    ft_left_out(name);
    ft_communicator_of(*communicator);
}

#define MAKING(name, parameters, arguments) FT_RECORDED(name, parameters, arguments, made("MPI_" #name, made_one);)

MAKING(Comm_dup, (MPI_Comm old, MPI_Comm *made_one), (old, made_one))
MAKING(Comm_dup_with_info, (MPI_Comm old, MPI_Info info, MPI_Comm *made_one), (old, info, made_one))
MAKING(Comm_split, (MPI_Comm old, int color, int key, MPI_Comm *made_one), (old, color, key, made_one))
MAKING(Comm_split_type, (MPI_Comm old, int type, int key, MPI_Info info, MPI_Comm *made_one),
       (old, type, key, info, made_one))
MAKING(Comm_create, (MPI_Comm old, MPI_Group group, MPI_Comm *made_one), (old, group, made_one))
MAKING(Comm_create_group, (MPI_Comm old, MPI_Group group, int tag, MPI_Comm *made_one), (old, group, tag, made_one))
MAKING(Cart_create,
       (MPI_Comm old, int dimensions, const int sizes[], const int periods[], int reorder, MPI_Comm *made_one),
       (old, dimensions, sizes, periods, reorder, made_one))
MAKING(Cart_sub, (MPI_Comm old, const int remaining[], MPI_Comm *made_one), (old, remaining, made_one))
MAKING(Graph_create, (MPI_Comm old, int nodes, const int indices[], const int edges[], int reorder, MPI_Comm *made_one),
       (old, nodes, indices, edges, reorder, made_one))
MAKING(Dist_graph_create,
       (MPI_Comm old, int nodes, const int sources[], const int degrees[], const int targets[], const int weights[],
        MPI_Info info, int reorder, MPI_Comm *made_one),
       (old, nodes, sources, degrees, targets, weights, info, reorder, made_one))
MAKING(Dist_graph_create_adjacent,
       (MPI_Comm old, int indegree, const int sources[], const int source_weights[], int outdegree, const int targets[],
        const int weights[], MPI_Info info, int reorder, MPI_Comm *made_one),
       (old, indegree, sources, source_weights, outdegree, targets, weights, info, reorder, made_one))
MAKING(Intercomm_create, (MPI_Comm local, int leader, MPI_Comm peers, int remote_leader, int tag, MPI_Comm *made_one),
       (local, leader, peers, remote_leader, tag, made_one))
MAKING(Intercomm_merge, (MPI_Comm old, int high, MPI_Comm *made_one), (old, high, made_one))

/* The new communicator has the members of the old one, which can be asked already. */
FT_RECORDED(Comm_idup, (MPI_Comm old, MPI_Comm *made_one, MPI_Request *request), (old, made_one, request),
            ft_left_out("MPI_Comm_idup");
            ft_requests_open(FT_HANDLE(*request), false); ft_communicator_copied(old, *made_one);)

FT_WRAPPER(Comm_free, (MPI_Comm * communicator))
{
    FT_OPEN(Comm_free, (communicator))
    const MPI_Comm freed = *communicator;
    const int result = FT_PASS(Comm_free, (communicator));
    if (result == MPI_SUCCESS)
        ft_communicator_freed(freed);
    ft_left_out("MPI_Comm_free");
    ft_leave();
    return result;
}

FT_WRAPPER(Comm_disconnect, (MPI_Comm * communicator))
{
    FT_OPEN(Comm_disconnect, (communicator))
    const MPI_Comm freed = *communicator;
    const int result = FT_PASS(Comm_disconnect, (communicator));
    if (result == MPI_SUCCESS)
        ft_communicator_freed(freed);
    ft_left_out("MPI_Comm_disconnect");
    ft_leave();
    return result;
}

FT_COUNTED(Comm_spawn,
           (const char *command, char *arguments[], int processes, MPI_Info info, int root, MPI_Comm communicator,
            MPI_Comm *between, int codes[]),
           (command, arguments, processes, info, root, communicator, between, codes))
FT_COUNTED(Comm_spawn_multiple,
           (int count, char *commands[], char **arguments[], const int processes[], const MPI_Info infos[], int root,
            MPI_Comm communicator, MPI_Comm *between, int codes[]),
           (count, commands, arguments, processes, infos, root, communicator, between, codes))
FT_COUNTED(Comm_accept, (const char *port, MPI_Info info, int root, MPI_Comm communicator, MPI_Comm *between),
           (port, info, root, communicator, between))
FT_COUNTED(Comm_connect, (const char *port, MPI_Info info, int root, MPI_Comm communicator, MPI_Comm *between),
           (port, info, root, communicator, between))
