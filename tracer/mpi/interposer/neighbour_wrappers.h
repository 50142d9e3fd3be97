/* Included by neighbours.c: once for counts of type `int`, and once for those of MPI 4's large counts (`_c`). COUNT and PLACE are
 * the types of counts and of displacements, NAMED the name of a call. */

BOTH(NAMED(Neighbor_allgather), NAMED(Ineighbor_allgather), ALIKE_PARAMETERS, ALIKE_ARGUMENTS)
BOTH(NAMED(Neighbor_alltoall), NAMED(Ineighbor_alltoall), ALIKE_PARAMETERS, ALIKE_ARGUMENTS)
BOTH(NAMED(Neighbor_allgatherv), NAMED(Ineighbor_allgatherv), GATHERV_PARAMETERS, GATHERV_ARGUMENTS)
BOTH(NAMED(Neighbor_alltoallv), NAMED(Ineighbor_alltoallv), ALLTOALLV_PARAMETERS, ALLTOALLV_ARGUMENTS)
BOTH(NAMED(Neighbor_alltoallw), NAMED(Ineighbor_alltoallw), ALLTOALLW_PARAMETERS, ALLTOALLW_ARGUMENTS)
