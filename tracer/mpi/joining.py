"""Records of ranks joined into a parallel run: sites resolved to source lines, rising tags made one on both sides."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from foretrace.base.errors import SignatureError
from foretrace.tracer.debug_info.symbols import Symbols
from foretrace.tracer.signature.rank_records import CALL, STEP, CallKind, CallSite, RankRecord, RankRun, check_ranks

from .record_file import RawRank, RawSite

UNKNOWN_SITE = CallSite("", 0)
_SENDS = (CallKind.SEND, CallKind.ISEND, CallKind.SSEND, CallKind.ISSEND, CallKind.EXCHANGE)
_RECEIVES = (CallKind.RECEIVE, CallKind.IRECEIVE)


@dataclass(frozen=True, slots=True)
class Joined:
    """A parallel run from the records of its ranks.

    Attributes:
        missing: ranks without a record, which are in the run without calls.
        merged_tags: messages whose tag rose by call and is recorded as the first of them.
        notes: what could not be read of programs and libraries.
    """

    run: RankRun
    missing: tuple[int, ...]
    merged_tags: int
    notes: tuple[str, ...]


def join_ranks(records: Sequence[RawRank], processor: str) -> Joined:
    """Join the records of the ranks of one run.

    Args:
        records: of its ranks, in any order.
        processor: model of the processor that it ran on.

    Raises:
        SignatureError: there is none, they are of different runs, two are of one rank, or they do not fit together.
    """
    if not records:
        raise SignatureError("there is no record of any rank")
    by_rank: dict[int, RawRank] = {}
    first = records[0]
    for record in records:
        if (record.run, record.ranks) != (first.run, first.ranks):
            raise SignatureError(f"the records of rank {first.rank} and rank {record.rank} are of different runs")
        if by_rank.setdefault(record.rank, record) is not record:
            raise SignatureError(f"two records are of rank {record.rank}")
    sites, numbers, notes = _joined_sites(list(by_rank.values()))
    calls = {rank: _with_sites(record, numbers, len(sites)) for rank, record in by_rank.items()}
    merged = _merge_rising_tags(by_rank, calls)
    world = tuple(range(first.ranks))
    missing = tuple(rank for rank in world if rank not in by_rank)
    run = RankRun(
        library=first.library,
        processor=processor,
        ranks=tuple(_completed(by_rank[r], calls[r]) if r in by_rank else _empty(world) for r in world),
        sites=(*sites, UNKNOWN_SITE) if any(np.any(c["site"] == len(sites)) for c in calls.values()) else sites,
    )
    try:
        check_ranks(run)
    except ValueError as error:
        raise SignatureError(f"the records of the ranks do not fit together: {error}") from None
    return Joined(run, missing, merged, notes)


def _completed(record: RawRank, calls: npt.NDArray[np.void]) -> RankRecord:
    return RankRecord(
        calls=calls,
        steps=record.steps,
        slots=record.slots,
        counts=record.counts,
        communicators=record.communicators,
        processor_s=record.processor_s,
        wall_s=record.wall_s,
        is_complete=record.is_complete,
        left_out=record.left_out,
    )


def _empty(world: tuple[int, ...]) -> RankRecord:
    nothing = np.zeros(0, np.int64)
    return RankRecord(np.zeros(0, CALL), np.zeros(0, STEP), nothing, nothing, (world,), 0.0, is_complete=False)


def _with_sites(record: RawRank, numbers: dict[RawSite, int], unknown: int) -> npt.NDArray[np.void]:
    calls = record.calls.copy()
    table = np.array([*(numbers[site] for site in record.sites), unknown], np.int64)
    calls["site"] = table[calls["site"]]  # -1, the last, is that which is not known
    return calls


def _joined_sites(
    records: Sequence[RawRank],
) -> tuple[tuple[CallSite, ...], dict[RawSite, int], tuple[str, ...]]:
    """The sites of all ranks, each once, their numbers, and what could not be read."""
    numbers: dict[RawSite, int] = {}
    for record in records:
        for site in record.sites:
            numbers.setdefault(site, len(numbers))
    by_module: dict[str, list[RawSite]] = defaultdict(list)
    for site in numbers:
        by_module[site.module].append(site)
    found: dict[RawSite, CallSite] = {}
    notes: list[str] = []
    for module, sites in by_module.items():
        found.update(_resolved(module, [site for site in sites if not site.line], notes))
        for site in sites:
            if site.line:
                found[site] = CallSite(module, site.offset, site.function, module, site.line)
    return tuple(found[site] for site in numbers), numbers, tuple(notes)


def _resolved(module: str, sites: Sequence[RawSite], notes: list[str]) -> dict[RawSite, CallSite]:
    """Functions and lines of places in a compiled module: those of the call, just before the address behind it."""
    if not sites:
        return {}
    symbols = Symbols(module)
    inside = np.array([max(site.offset - 1, 0) for site in sites], np.uint64)
    table = symbols.lines(inside)
    files, lines = table.find(inside)
    found = {}
    for site, address, file, line in zip(sites, inside.tolist(), files.tolist(), lines.tolist(), strict=True):
        function = symbols.function(address)
        found[site] = CallSite(
            module, site.offset, function.name if function else "", table.paths[file] if file >= 0 else "", max(line, 0)
        )
    notes += symbols.notes
    return found


def _merge_rising_tags(records: dict[int, RawRank], calls: dict[int, npt.NDArray[np.void]]) -> int:
    """Give all messages between two ranks whose tags lie where tags rise the least of them, on both sides.

    The interposer records a call whose tag rises each time with one tag, but not the first few, and sender and receiver
    may do so at different numbers of places. Returns how many messages were recorded so.
    """
    ranges: dict[tuple[object, int, int], tuple[int, int]] = {}
    merged = 0
    for rank, record in records.items():
        for row in record.rising.tolist():
            number, half, least, most, times = row
            if not 0 <= number < len(calls[rank]):
                raise SignatureError(f"rank {rank}: tags rise of a call that there is not")
            merged += times
            call = calls[rank][number]
            least = min(least, int(call["second_tag" if half else "tag"]))
            for key in [_second_key(record, call, rank)] if half else _keys(record, call, rank):
                known = ranges.get(key, (least, most))
                ranges[key] = (min(known[0], least), max(known[1], most))
    if not ranges:
        return 0
    for rank, record in records.items():
        for call in calls[rank]:
            for key in _keys(record, call, rank):
                least, most = ranges.get(key, (0, -1))
                if least <= call["tag"] <= most:
                    call["tag"] = least
            if call["kind"] == CallKind.EXCHANGE:
                least, most = ranges.get(_second_key(record, call, rank), (0, -1))
                if least <= call["second_tag"] <= most:
                    call["second_tag"] = least
    return merged


def _keys(record: RawRank, call: np.void, rank: int) -> list[tuple[object, int, int]]:
    """Communicator, sender and receiver of a call's messages; all that there may be of a receive for any sender."""
    kind, peer = int(call["kind"]), int(call["peer"])
    members = record.communicators[call["communicator"]]
    if kind in _SENDS:
        return [(members, rank, peer)]
    if kind not in _RECEIVES:
        return []
    return [(members, sender, rank) for sender in ((peer,) if peer >= 0 else members)]


def _second_key(record: RawRank, call: np.void, rank: int) -> tuple[object, int, int]:
    """The key of the receiving half of an exchange."""
    return record.communicators[call["communicator"]], int(call["second_peer"]), rank
