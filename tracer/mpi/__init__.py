"""Parallel runs: the MPI calls of each rank, recorded while it runs."""
