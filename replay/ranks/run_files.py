"""Files of parallel runs: time-independent traces, and signatures of runs that foretrace recorded."""

from __future__ import annotations

from pathlib import Path

from foretrace.base.errors import PredictionError
from foretrace.base.file_kinds import SIGNATURE
from foretrace.tracer.signature.file import read_signature

from .actions import RankActions
from .captured import actions_of, is_timed, timed_s
from .time_independent import read_time_independent


def read_ranks(path: Path) -> RankActions:
    """Read a run whose computation is known without a machine: a trace, or a run that was timed, in seconds.

    Raises:
        TraceFileError, SignatureError: it cannot be read.
        PredictionError: it is a signature of no parallel run, or of one that was traced, not timed.
    """
    try:
        with path.open("rb") as file:
            is_signature = SIGNATURE.matches(file.read(100))
    except OSError:
        is_signature = False
    if not is_signature:
        return read_time_independent(path)
    run = read_signature(path).ranks
    if run is None:
        raise PredictionError(f"{path}: is of no parallel run; record one with foretrace trace --mpi")
    if not is_timed(run):
        raise PredictionError(f"{path}: its computation was traced, and takes a machine: name it with --machine")
    return actions_of(run, [timed_s(record) for record in run.ranks], str(path))
