"""The signature of a run, put together from its recording and its analysis."""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Iterable
from dataclasses import fields, replace
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from foretrace.base.version import __version__
from foretrace.tracer.analysis.clock import clock_notes
from foretrace.tracer.analysis.events import events_of
from foretrace.tracer.analysis.result import Analysis
from foretrace.tracer.analysis.unseen import unseen_of
from foretrace.tracer.recording.recording import Recording
from foretrace.tracer.sampling.burst_schedule import Accuracy
from foretrace.tracer.sampling.bursts import BurstCounts
from foretrace.tracer.sampling.estimate import estimated_misses, scaled_reuse
from foretrace.tracer.signature.data_flow_records import check_data_flow, check_dependences
from foretrace.tracer.signature.data_flow_tables import DEPENDENCE_TABLES, FLOW_TABLES
from foretrace.tracer.signature.file import check_tables
from foretrace.tracer.signature.records import (
    THREAD_SETTINGS,
    AnalysedCode,
    ProcessRecord,
    Provenance,
    Sampling,
    Signature,
    Unseen,
)

MOST_SOURCES, MOST_SOURCE_BYTES = 200, 16 << 20
"""Limits of the source files whose digests are kept: their number, and bytes."""


def signature_of(
    command: tuple[str, ...],
    engine: str,
    guest: str,
    started: str,
    recording: Recording,
    analysis: Analysis,
    processes: tuple[ProcessRecord, ...] = (),
) -> Signature:
    """The signature of a run, told by its recording and by what its analysis made of that."""
    mapping, count = analysis.operation_map, len(analysis.operations)
    of_events = [process.note for process in recording.events if process.note]
    of_engine = recording.departures.notes
    instructions = sum(block.executions * block.instructions for block in analysis.blocks)
    notes = (*of_engine, *analysis.notes, *of_events, *clock_notes(recording.clock_reads, instructions))
    signature = Signature(
        provenance=Provenance(
            command=command,
            engine=engine,
            guest=guest,
            foretrace_version=__version__,
            host=platform.node(),
            started=started,
            wall_s=recording.wall_s,
            exit_code=recording.ending.exit_code,
            signal=recording.ending.signal_number,
            complete=not recording.problem,
            incomplete_reason=recording.problem,
            decoded_share=analysis.decoded_share,
            unseen_calls=recording.unseen_calls,
            unseen=_unseen(recording, analysis),
            untraced_children=recording.untraced_children,
            untraced_threads=recording.untraced_threads,
            threads=recording.threads,
            notes=notes,
            processes=processes,
            waiting=recording.waiting,
            exception=recording.exception,
            source_digests=source_digests(loop.file for loop in analysis.loops),
            selection=analysis.selection,
            thread_settings={name: os.environ[name] for name in THREAD_SETTINGS if name in os.environ},
        ),
        **{one.name: getattr(analysis, one.name) for one in fields(AnalysedCode)},
        hierarchies=[
            simulated.merged(mapping, count).merged_blocks(analysis.block_map, len(analysis.blocks))
            for simulated in recording.simulated
        ],
        reuse=None if recording.reuse is None else recording.reuse.merged(mapping, count),
        events=events_of(recording.events, recording.raw.event_samples, analysis.sampled_work),
    )
    return readable(signature)


def readable(signature: Signature) -> Signature:
    """The signature without a data flow or dependences that no reader would take; a note says why.

    That is a fault of foretrace's, but the rest of a long run is worth keeping.
    """
    flow, num_nodes = signature.data_flow, 0 if signature.tree is None else len(signature.tree)
    notes = []
    try:
        if flow is not None:
            check_tables(signature, FLOW_TABLES)
            check_data_flow(flow, num_nodes)
    except ValueError as error:
        notes.append(f"the data flow was left out, by a fault of foretrace's: {error}")
        signature = replace(signature, data_flow=None)
    try:
        check_tables(signature, DEPENDENCE_TABLES)
        check_dependences(signature.dependences, signature.examined_loops)
    except ValueError as error:
        notes.append(f"dependences between iterations were left out, by a fault of foretrace's: {error}")
        signature = replace(signature, dependences=(), examined_loops=())
    if not notes:
        return signature
    provenance = signature.provenance
    return replace(signature, provenance=msgspec.structs.replace(provenance, notes=(*provenance.notes, *notes)))


def source_digests(names: Iterable[str]) -> dict[str, str]:
    """Digests of those of some files that can be read, so that a later version of them is known for one."""
    found: dict[str, str] = {}
    for name in sorted({name for name in names if name.startswith("/")})[:MOST_SOURCES]:
        path = Path(name)
        try:
            if path.is_file() and path.stat().st_size <= MOST_SOURCE_BYTES:
                found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
        except (OSError, ValueError):
            continue
    return found


def _unseen(recording: Recording, analysis: Analysis) -> Unseen:
    unseen = unseen_of(recording.raw, recording.unseen_calls, analysis.unseen_time_share, analysis.unseen_functions)
    native_s = recording.native_threads_s
    share = min(1.0, native_s / recording.processor_s) if native_s else 0.0
    return msgspec.structs.replace(unseen, native_threads_s=native_s, native_threads_share=share)


def estimated(
    signature: Signature, operation_map: npt.NDArray[np.int64], bursts: BurstCounts, accuracy: Accuracy
) -> Signature:
    """The signature with what was recorded in bursts scaled to the whole run."""
    count = len(signature.operations)
    bursts = bursts.merged(operation_map, count)
    executions = np.array([operation.executions for operation in signature.operations], np.uint64)
    accesses = max(int(executions.sum()), 1)
    hierarchies, misses = estimated_misses(bursts, signature.hierarchies, executions)
    sampling = Sampling(
        accuracy=str(accuracy),
        seed=bursts.seed,
        bursts=int(bursts.bursts.sum()),
        early_bursts=bursts.early_bursts,
        exact_accesses=int(bursts.first[:, 0].sum()),
        recorded_share=int(bursts.recorded.sum()) / accesses,
        unmeasured_operations=int(bursts.is_unmeasured.sum()),
        unmeasured_share=int(executions[bursts.is_unmeasured].sum()) / accesses,
        misses=misses,
    )
    return replace(
        signature,
        provenance=msgspec.structs.replace(signature.provenance, sampling=sampling),
        hierarchies=hierarchies,
        reuse=None if signature.reuse is None else scaled_reuse(signature.reuse, bursts.recorded, executions),
    )
