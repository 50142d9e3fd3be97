/* Wrappers of calls that begin and end a program's use of MPI. */
#include "recorder.h"

#include <stdlib.h>

static int initialised(int result)
{
    if (result == MPI_SUCCESS)
        ft_begin();
    ft_leave();
    return result;
}

FT_WRAPPER(Init, (int *count, char ***arguments))
{
    static int (*real)();
    *(void **)&real = ft_real("PMPI_Init");
    ft_before();
    return initialised(FT_PASS(Init, (count, arguments)));
}

FT_WRAPPER(Init_thread, (int *count, char ***arguments, int required, int *provided))
{
    static int (*real)();
    *(void **)&real = ft_real("PMPI_Init_thread");
    ft_before();
    return initialised(FT_PASS(Init_thread, (count, arguments, required, provided)));
}

FT_WRAPPER(Finalize, (void))
{
    FT_OPEN(Finalize, ())
    struct ft_call_row call = {.kind = FT_CALL_FINALIZE};
    ft_record(&call);
    ft_end(true);
    const int result = FT_PASS(Finalize, ());
    ft_leave();
    return result;
}

FT_WRAPPER(Abort, (MPI_Comm communicator, int code))
{
    FT_OPEN(Abort, (communicator, code))
    ft_left_out("MPI_Abort");
    ft_end(false);
    return FT_PASS(Abort, (communicator, code));
}
