"""Environment of ranks: variables that a launcher of MPI programs sets, and those that are set for recording."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

RECORD = "FT_MPI_RECORD"
"""Variable that names the file of a rank's record."""
MARKS = "FT_MPI_MARKS"
"""Variable that asks for marks around calls, for an engine that runs the program (marks.h)."""
_RANK_AND_SIZE = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),  # Open MPI: mpirun(1), "Environment Variables"
    ("PMI_RANK", "PMI_SIZE"),  # MPICH's Hydra, Intel MPI, and Slurm with PMI-1 or PMI-2
    ("PMIX_RANK", "SLURM_NTASKS"),  # PMIx, which has no variable for the size
    ("SLURM_PROCID", "SLURM_NTASKS"),  # srun(1), "Output environment variables"
)


@dataclass(frozen=True, slots=True)
class Position:
    """A rank, and of how many; None: the launcher does not say."""

    rank: int
    ranks: int | None


def position(variables: Mapping[str, str]) -> Position | None:
    """Our rank, and the number of ranks, as a launcher says; None where no launcher started us."""
    for rank, ranks in _RANK_AND_SIZE:
        if variables.get(rank, "").isdecimal():
            size = variables.get(ranks, "")
            return Position(int(variables[rank]), int(size) if size.isdecimal() else None)
    return None


def preloaded(variables: Mapping[str, str], library: str, record: str) -> dict[str, str]:
    """The environment of a program whose MPI calls a library records to a file."""
    others = variables.get("LD_PRELOAD", "")
    return {**variables, "LD_PRELOAD": f"{library}:{others}" if others else library, RECORD: record}


def engine_settings() -> dict[str, str]:
    """Settings of both MPI libraries for programs that an engine runs: no rank reads the memory of another by system
    calls, which the engine would carry out with its own addresses."""
    return {
        "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
        "OMPI_MCA_btl_sm_single_copy_mechanism": "none",  # its name from Open MPI 5 on
        "UCX_TLS": "^cma,knem,xpmem",  # MPICH's transport in Debian, and one of Open MPI's
        "MPIR_CVAR_CH4_XPMEM_ENABLE": "0",
        "MPIR_CVAR_CH4_CMA_ENABLE": "0",
        MARKS: "1",
    }
