/* Kinds of calls of a parallel program, and of the actions that replay them; tracer/signature/rank_records.py mirrors
 * them. */
#ifndef FORETRACE_MPI_KINDS_H
#define FORETRACE_MPI_KINDS_H

enum ft_call_kind {
    FT_CALL_COMPUTE, /* never a call: what lies between them */
    FT_CALL_SLEEP,
    FT_CALL_SEND,
    FT_CALL_ISEND,
    FT_CALL_RECEIVE,
    FT_CALL_IRECEIVE,
    FT_CALL_WAIT,
    FT_CALL_WAIT_ALL,
    FT_CALL_TEST,
    FT_CALL_EXCHANGE,
    FT_CALL_BARRIER,
    FT_CALL_BCAST,
    FT_CALL_REDUCE,
    FT_CALL_ALLREDUCE,
    FT_CALL_ALLTOALL,
    FT_CALL_ALLTOALLV,
    FT_CALL_GATHER,
    FT_CALL_SCATTER,
    FT_CALL_GATHERV,
    FT_CALL_SCATTERV,
    FT_CALL_ALLGATHER,
    FT_CALL_ALLGATHERV,
    FT_CALL_REDUCE_SCATTER,
    FT_CALL_SCAN,
    FT_CALL_EXSCAN,
    FT_CALL_REPEAT, /* the calls up to its end, a number of times */
    FT_CALL_END_REPEAT,
    FT_CALL_SSEND, /* synchronous: it ends when the message is received, however short */
    FT_CALL_ISSEND,
    FT_CALL_PUT, /* one-sided, of a window: its communicator */
    FT_CALL_GET,
    FT_CALL_FENCE,
    FT_CALL_LOCK,
    FT_CALL_UNLOCK,
    FT_CALL_FILE_READ,
    FT_CALL_FILE_WRITE,
    FT_CALL_FINALIZE,
    FT_NUM_CALL_KINDS
};

#endif
