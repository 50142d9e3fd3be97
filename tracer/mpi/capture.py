"""A parallel run captured rank by rank: each writes its part, and the last one joins them into a signature."""

from __future__ import annotations

import platform
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import numpy as np

from foretrace.base.errors import OutputError, SignatureError
from foretrace.base.version import __version__
from foretrace.tracer.signature.file import write_signature
from foretrace.tracer.signature.rank_records import Ints
from foretrace.tracer.signature.records import Provenance, Signature

from .joining import Joined, join_ranks
from .native import RankOutcome
from .parts import Part, found_parts, only_one, part_path, read_part, remove_stale_lock, trace_path, write_part

ENGINE = "native, MPI calls recorded"
_LONGEST_WAIT_S = 10.0
_TURN_S = 0.05


@dataclass(frozen=True, slots=True)
class Written:
    """Result of keeping a part: the signature that was written, if this rank joined it, or the ranks still missing.

    `lines` say what a user should know.
    """

    joined: Joined | None
    missing: tuple[int, ...]
    lines: tuple[str, ...]


def keep_part(
    outcome: RankOutcome, output: Path, traced: tuple[Signature, Ints] | None = None, *, force: bool
) -> Written:
    """Write a rank's part; if all others are there, join them. The lowest rank that is there waits for the others.

    Args:
        outcome: how the rank's program ran, and its record.
        output: file of the whole run.
        traced: of a rank that was traced, its signature and the work before its calls.
        force: whether files may be replaced.

    Raises:
        SignatureError: the record is damaged.
        OutputError: a file cannot be written.
    """
    assert outcome.record is not None
    _, raw = write_part(output, outcome.head, outcome.record, traced, force=force)
    began = time.monotonic()
    while True:
        there = {rank for rank, ranks in found_parts(output) if ranks == raw.ranks}
        missing = tuple(rank for rank in range(raw.ranks) if rank not in there)
        if not missing:
            return _join_once(output, raw.ranks, raw.run, force=force)
        if output.exists() and raw.rank not in there:  # another rank has joined them
            return Written(None, (), ())
        if raw.rank != min(there, default=raw.rank) or time.monotonic() - began > _LONGEST_WAIT_S:
            break
        time.sleep(_TURN_S)
    return Written(None, missing, _said_missing(output, raw.rank, raw.ranks, missing) if raw.rank == min(there) else ())


def _said_missing(output: Path, rank: int, ranks: int, missing: tuple[int, ...]) -> tuple[str, ...]:
    shown = ", ".join(map(str, missing[:8])) + (", ..." if len(missing) > 8 else "")
    return (
        f"{ranks - len(missing)} of {ranks} ranks have written their parts, such as {part_path(output, rank, ranks)}; "
        f"missing: {shown}. The last to end joins them. If those were killed, join what is there: "
        f"foretrace trace --mpi --join -o {output}",
    )


def _join_once(output: Path, ranks: int, run: int, *, force: bool) -> Written:
    """Join the parts, unless another rank does."""
    with only_one(output) as is_ours:
        paths = {rank: path for (rank, of), path in found_parts(output).items() if of == ranks} if is_ours else {}
        if len(paths) != ranks:
            return Written(None, (), ())
        parts = [read_part(path) for _, path in sorted(paths.items())]
        if any(part.record.run != run for part in parts):
            return Written(
                None, (), (f"{output}: there are parts of an earlier run; remove {output}.rank-* and trace again",)
            )
        joined = _write(output, parts, force=force)
        _remove(paths.values())
        return Written(joined, (), _said(joined))


def join_parts(output: Path, *, force: bool) -> Written:
    """Join the parts that are there, where no rank could: some were killed.

    Raises:
        SignatureError: there are none, or they are of different runs or damaged.
        OutputError: another process is joining them, or the signature cannot be written.
    """
    found = found_parts(output)
    sizes = {ranks for _, ranks in found}
    if not found:
        raise SignatureError(f"{output}: there are no parts {output}.rank-... to join")
    if len(sizes) > 1:
        raise SignatureError(
            f"{output}: there are parts of runs with {' and '.join(map(str, sorted(sizes)))} ranks; remove those of one"
        )
    remove_stale_lock(output)
    with only_one(output) as is_ours:
        if not is_ours:
            raise OutputError(
                f"{output}.joining: another process is joining the parts; if none is, remove that file and try again"
            )
        parts = [read_part(path) for _, path in sorted(found.items())]
        joined = _write(output, parts, force=force)
        _remove(found.values())
    return Written(joined, joined.missing, _said(joined))


def _remove(paths: Iterable[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)
        trace_path(path).unlink(missing_ok=True)


def _said(joined: Joined) -> tuple[str, ...]:
    """Lines for the user on what a joined run lacks."""
    lines = list(joined.notes)
    if joined.missing:
        lines.append(f"without a record, and so without calls: rank {', '.join(map(str, joined.missing))}")
    partial = [rank for rank, record in enumerate(joined.run.ranks) if not record.is_complete]
    if partial := [rank for rank in partial if rank not in joined.missing]:
        lines.append(f"did not come to MPI_Finalize: rank {', '.join(map(str, partial))}")
    left_out: dict[str, int] = {}
    for record in joined.run.ranks:
        for name, times in record.left_out.items():
            left_out[name] = left_out.get(name, 0) + times
    if left_out:
        named = ", ".join(f"{name} {times}" for name, times in sorted(left_out.items(), key=lambda one: -one[1]))
        lines.append(f"calls that were not recorded: {named}")
    if joined.merged_tags:
        lines.append(f"{joined.merged_tags} messages with a tag that rises by call are recorded with the first tag")
    return tuple(lines)


def _write(output: Path, parts: list[Part], *, force: bool) -> Joined:
    head = parts[0].head
    processors = {part.head.processor for part in parts}
    joined = join_ranks([part.record for part in parts], " and ".join(sorted(processors)))
    failed = next((part.head for part in parts if part.head.exit_code != 0), head)
    partial = sum(not record.is_complete for record in joined.run.ranks)
    reason = f"{partial} of {len(joined.run.ranks)} ranks did not come to MPI_Finalize" if partial else ""
    if any(part.trace is not None for part in parts):
        return _write_traces(output, parts, joined, force=force)
    signature = Signature(
        provenance=Provenance(
            command=head.command,
            engine=ENGINE,
            guest=platform.machine(),
            foretrace_version=__version__,
            host=", ".join(sorted({part.head.host for part in parts})),
            started=min(part.head.started for part in parts),
            wall_s=max(part.head.wall_s for part in parts),
            exit_code=failed.exit_code,
            signal=failed.signal,
            complete=not partial,
            incomplete_reason=reason,
            notes=_said(joined),
        ),
        blocks=(),
        operations=(),
        loops=(),
        idioms=(),
        edges=np.zeros((0, 3), np.uint64),
        hierarchies=(),
        reuse=None,
        ranks=joined.run,
    )
    write_signature(signature, output, force=force)
    return joined


def _write_traces(output: Path, parts: list[Part], joined: Joined, *, force: bool) -> Joined:
    """Write the signature of a run whose ranks were traced."""
    from .traced import joined_traces

    signature, run = joined_traces(parts, joined.run)
    partial = sum(not record.is_complete for record in run.ranks)
    provenance = signature.provenance
    provenance = msgspec.structs.replace(
        provenance,
        complete=provenance.complete and not partial,
        incomplete_reason=provenance.incomplete_reason
        or (f"{partial} of {len(run.ranks)} ranks did not come to MPI_Finalize" if partial else ""),
        notes=(*provenance.notes, *_said(joined)),
    )
    write_signature(replace(signature, provenance=provenance, ranks=run), output, force=force)
    return replace(joined, run=run)
