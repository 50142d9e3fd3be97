/* Included by collectives.c: once for counts of type `int`, and once for those of MPI 4's large counts (`_c`). COUNT and PLACE are
 * the types of counts and of displacements, NAMED the name of a call. */

BOTH(NAMED(Bcast), NAMED(Ibcast), (void *buffer, COUNT count, MPI_Datatype type, int root, MPI_Comm communicator),
     (buffer, count, type, root, communicator),
     alike(FT_CALL_BCAST, communicator, root, ft_bytes(count, type), request);)
BOTH(NAMED(Reduce), NAMED(Ireduce),
     (const void *buffer, void *room, COUNT count, MPI_Datatype type, MPI_Op operation, int root,
      MPI_Comm communicator),
     (buffer, room, count, type, operation, root, communicator),
     alike(FT_CALL_REDUCE, communicator, root, ft_bytes(count, type), request);)

REDUCING(NAMED(Allreduce), NAMED(Iallreduce), FT_CALL_ALLREDUCE)
REDUCING(NAMED(Scan), NAMED(Iscan), FT_CALL_SCAN)
REDUCING(NAMED(Exscan), NAMED(Iexscan), FT_CALL_EXSCAN)

BOTH(NAMED(Alltoall), NAMED(Ialltoall), (ALIKE_PARAMETERS, MPI_Comm communicator), (ALIKE_ARGUMENTS, communicator),
     alike(FT_CALL_ALLTOALL, communicator, NO_ROOT, sent_bytes(buffer, count, type, room_count, room_type), request);)
BOTH(NAMED(Allgather), NAMED(Iallgather), (ALIKE_PARAMETERS, MPI_Comm communicator), (ALIKE_ARGUMENTS, communicator),
     alike(FT_CALL_ALLGATHER, communicator, NO_ROOT, sent_bytes(buffer, count, type, room_count, room_type), request);)
BOTH(NAMED(Gather), NAMED(Igather), (ALIKE_PARAMETERS, int root, MPI_Comm communicator),
     (ALIKE_ARGUMENTS, root, communicator),
     alike(FT_CALL_GATHER, communicator, root, sent_bytes(buffer, count, type, room_count, room_type), request);)
BOTH(NAMED(Scatter), NAMED(Iscatter), (ALIKE_PARAMETERS, int root, MPI_Comm communicator),
     (ALIKE_ARGUMENTS, root, communicator),
     alike(FT_CALL_SCATTER, communicator, root,
           rank_in(communicator) == root ? ft_bytes(count, type) : ft_bytes(room_count, room_type), request);)

BOTH(NAMED(Gatherv), NAMED(Igatherv),
     (const void *buffer, COUNT count, MPI_Datatype type, void *room, const COUNT counts[], const PLACE places[],
      MPI_Datatype room_type, int root, MPI_Comm communicator),
     (buffer, count, type, room, counts, places, room_type, root, communicator),
     const bool is_root = rank_in(communicator) == root;
     BY_RANK(FT_CALL_GATHERV, communicator, root, is_root ? counts : NULL, room_type, NULL,
             is_root &&buffer == MPI_IN_PLACE ? ft_bytes(counts[root], room_type) : ft_bytes(count, type), request);)
BOTH(NAMED(Scatterv), NAMED(Iscatterv),
     (const void *buffer, const COUNT counts[], const PLACE places[], MPI_Datatype type, void *room, COUNT room_count,
      MPI_Datatype room_type, int root, MPI_Comm communicator),
     (buffer, counts, places, type, room, room_count, room_type, root, communicator),
     const bool is_root = rank_in(communicator) == root;
     BY_RANK(FT_CALL_SCATTERV, communicator, root, is_root ? counts : NULL, type, NULL,
             is_root ? ft_bytes(counts[root], type) : ft_bytes(room_count, room_type), request);)
BOTH(NAMED(Allgatherv), NAMED(Iallgatherv),
     (const void *buffer, COUNT count, MPI_Datatype type, void *room, const COUNT counts[], const PLACE places[],
      MPI_Datatype room_type, MPI_Comm communicator),
     (buffer, count, type, room, counts, places, room_type, communicator), const int own = rank_in(communicator);
     BY_RANK(FT_CALL_ALLGATHERV, communicator, NO_ROOT, counts, room_type, NULL,
             buffer == MPI_IN_PLACE && own >= 0 ? ft_bytes(counts[own], room_type) : ft_bytes(count, type), request);)
BOTH(NAMED(Alltoallv), NAMED(Ialltoallv),
     (const void *buffer, const COUNT counts[], const PLACE places[], MPI_Datatype type, void *room,
      const COUNT room_counts[], const PLACE room_places[], MPI_Datatype room_type, MPI_Comm communicator),
     (buffer, counts, places, type, room, room_counts, room_places, room_type, communicator),
     const bool is_in_place = buffer == MPI_IN_PLACE;
     BY_RANK(FT_CALL_ALLTOALLV, communicator, NO_ROOT, is_in_place ? room_counts : counts,
             is_in_place ? room_type : type, NULL, 0, request);)
BOTH(NAMED(Alltoallw), NAMED(Ialltoallw),
     (const void *buffer, const COUNT counts[], const PLACE places[], const MPI_Datatype types[], void *room,
      const COUNT room_counts[], const PLACE room_places[], const MPI_Datatype room_types[], MPI_Comm communicator),
     (buffer, counts, places, types, room, room_counts, room_places, room_types, communicator),
     const bool is_in_place = buffer == MPI_IN_PLACE;
     BY_RANK(FT_CALL_ALLTOALLV, communicator, NO_ROOT, is_in_place ? room_counts : counts, MPI_BYTE,
             is_in_place ? room_types : types, 0, request);)
BOTH(NAMED(Reduce_scatter), NAMED(Ireduce_scatter),
     (const void *buffer, void *room, const COUNT counts[], MPI_Datatype type, MPI_Op operation, MPI_Comm communicator),
     (buffer, room, counts, type, operation, communicator),
     BY_RANK(FT_CALL_REDUCE_SCATTER, communicator, NO_ROOT, counts, type, NULL, 0, request);)
BOTH(NAMED(Reduce_scatter_block), NAMED(Ireduce_scatter_block),
     (const void *buffer, void *room, COUNT count, MPI_Datatype type, MPI_Op operation, MPI_Comm communicator),
     (buffer, room, count, type, operation, communicator),
     alike(FT_CALL_REDUCE_SCATTER, communicator, NO_ROOT, ft_bytes(count, type), request);)
