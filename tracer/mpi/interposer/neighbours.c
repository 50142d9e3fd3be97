/* Wrappers of collective calls among neighbours, which are counted. */
#include "recorder.h"

#define COMMON_ROOM void *room, COUNT room_count, MPI_Datatype room_type
#define BOTH(name, inonblocking, parameters, arguments)                                             \
    FT_COUNTED(name, parameters(MPI_Comm communicator), arguments(communicator))                    \
    FT_RECORDED(inonblocking, parameters(MPI_Comm communicator, MPI_Request *request),              \
                arguments(communicator, request), ft_left_out(FT_NAME(inonblocking));                \
                ft_requests_open(FT_HANDLE(*request), false);)

#define ALIKE_PARAMETERS(...) (const void *buffer, COUNT count, MPI_Datatype type, COMMON_ROOM, __VA_ARGS__)
#define ALIKE_ARGUMENTS(...) (buffer, count, type, room, room_count, room_type, __VA_ARGS__)

#define GATHERV_PARAMETERS(...)                                                                     \
    (const void *buffer, COUNT count, MPI_Datatype type, void *room, const COUNT counts[], const PLACE places[], \
     MPI_Datatype room_type, __VA_ARGS__)
#define GATHERV_ARGUMENTS(...) (buffer, count, type, room, counts, places, room_type, __VA_ARGS__)

#define ALLTOALLV_PARAMETERS(...)                                                                   \
    (const void *buffer, const COUNT counts[], const PLACE places[], MPI_Datatype type, void *room,     \
     const COUNT room_counts[], const PLACE room_places[], MPI_Datatype room_type, __VA_ARGS__)
#define ALLTOALLV_ARGUMENTS(...) \
    (buffer, counts, places, type, room, room_counts, room_places, room_type, __VA_ARGS__)

#define ALLTOALLW_PARAMETERS(...)                                                                   \
    (const void *buffer, const COUNT counts[], const MPI_Aint places[], const MPI_Datatype types[], void *room, \
     const COUNT room_counts[], const MPI_Aint room_places[], const MPI_Datatype room_types[], __VA_ARGS__)
#define ALLTOALLW_ARGUMENTS(...) \
    (buffer, counts, places, types, room, room_counts, room_places, room_types, __VA_ARGS__)

#define COUNT int
#define PLACE int
#define NAMED(name) name
#include "neighbour_wrappers.h"
#if MPI_VERSION >= 4
#undef COUNT
#undef PLACE
#undef NAMED
#define COUNT MPI_Count
#define PLACE MPI_Aint
#define NAMED(name) name##_c
#include "neighbour_wrappers.h"
#endif
