"""Runs one rank of a parallel program under the engine, which traces all but the MPI library, and joins such ranks."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from foretrace.base.processor import cpu_model
from foretrace.tracer.session.launch import CompiledProgram
from foretrace.tracer.session.options import TraceOptions
from foretrace.tracer.signature.merging import merged
from foretrace.tracer.signature.rank_records import RankRun
from foretrace.tracer.signature.records import ProcessRecord, Provenance, Signature

from .building import interposer
from .launching import RECORD, engine_settings
from .libraries import mpi_library_of
from .native import RankOutcome
from .parts import Part, PartHead

if TYPE_CHECKING:
    from foretrace.tracer.session.session import Progress
    from foretrace.tracer.tracing import Traced


def trace_rank(
    program: CompiledProgram,
    options: TraceOptions,
    variables: Mapping[str, str],
    on_progress: Callable[[Progress], None],
) -> tuple[RankOutcome, Traced]:
    """Run a rank's program under the engine. Its output, exit code and signals are its own.

    Args:
        program: the rank's.
        options: how to trace it.
        variables: its environment, as the launcher made it.
        on_progress: hears how far the run has come.

    Raises:
        ProgramError, EngineError: it cannot be traced, or there is no compiler for its MPI library.
    """
    from foretrace.tracer.tracing import trace_program

    recorder = interposer(mpi_library_of(program.command[:1], variables))
    _leave_core()
    with tempfile.TemporaryDirectory(prefix="foretrace-") as folder:
        record = Path(folder) / "record"
        environment = {**engine_settings(), RECORD: str(record)}
        preloads = (str(recorder), *filter(None, [variables.get("LD_PRELOAD", "")]))
        traced = trace_program(replace(program, environment=environment, preloads=preloads), options, on_progress)
        content = record.read_bytes() if record.exists() else None
    provenance = traced.signature.provenance
    head = PartHead(
        command=provenance.command,
        foretrace_version=provenance.foretrace_version,
        host=provenance.host,
        processor=cpu_model(),
        started=provenance.started,
        wall_s=provenance.wall_s,
        exit_code=provenance.exit_code,
        signal=provenance.signal,
    )
    return RankOutcome(head, content), traced


def _leave_core() -> None:
    """A launcher binds each rank to a core, which what reads the rank's trace would have to share with it."""
    try:
        os.sched_setaffinity(0, range(os.cpu_count() or 1))
    except OSError:  # not allowed to: it takes longer
        return


def joined_traces(parts: Sequence[Part], run: RankRun) -> tuple[Signature, RankRun]:
    """The signatures of the ranks as one, and the run with the work before each call, in the tree of that.

    Args:
        parts: of the ranks that were traced, by rank.
        run: of all ranks.
    """
    traces = [part.trace for part in parts if part.trace is not None]
    first = traces[0].provenance
    signature = merged(traces, _provenance(traces, first))
    ranks = list(run.ranks)
    first_node = 0
    for part in parts:
        if part.trace is None or part.trace.tree is None or signature.tree is None or not part.trace.blocks:
            continue
        rank = part.record.rank
        ranks[rank] = replace(ranks[rank], work=part.work + np.array([0, first_node, 0]))
        first_node += len(part.trace.tree)
    return signature, replace(run, ranks=tuple(ranks))


def _provenance(traces: Sequence[Signature], first: Provenance) -> Provenance:
    """Origin of the traces, as of several processes."""
    processes = tuple(
        ProcessRecord(
            number=number,
            parent=number,
            command=trace.provenance.command,
            instructions=trace.totals.instructions,
            accesses=trace.totals.loads + trace.totals.stores,
            threads=trace.provenance.threads,
            problem=trace.provenance.incomplete_reason,
            exit_code=trace.provenance.exit_code,
            signal=trace.provenance.signal,
        )
        for number, trace in enumerate(traces)
    )
    incomplete = [rank for rank, trace in enumerate(traces) if not trace.provenance.complete]
    reason = "" if not incomplete else f"of rank {incomplete[0]}: {traces[incomplete[0]].provenance.incomplete_reason}"
    of_all = [trace.provenance for trace in traces]
    return msgspec.structs.replace(
        first,
        wall_s=max(one.wall_s for one in of_all),
        complete=not incomplete,
        incomplete_reason=reason,
        threads=sum(one.threads for one in of_all),
        untraced_children=sum(one.untraced_children for one in of_all),
        untraced_threads=sum(one.untraced_threads for one in of_all),
        notes=tuple(dict.fromkeys(note for one in of_all for note in one.notes)),
        processes=processes if len(processes) > 1 else (),
        waiting=None,
    )
