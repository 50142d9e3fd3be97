"""Share of a Python program's array work that was not seen, or only roughly.

An operation counts as unseen if the addresses it reads or writes are unknown: code that the agent cannot look into
(random generators, Fourier transforms), or data-dependent order (a sort). Where possible it is still recorded, as one
pass over each of its arrays; the bytes of an unseen call are those of one pass.
"""

from __future__ import annotations

from collections import defaultdict

from foretrace.tracer.reader.raw_trace import RawTrace
from foretrace.tracer.signature.records import Unseen, UnseenOperation

_MAX_OPERATIONS = 30


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def _recorded_calls(raw: RawTrace) -> int:
    """Calls in the stream. A call can be several operations of one name ("... (index check)"): the commonest counts."""
    calls: dict[tuple[int, int, str], int] = defaultdict(int)
    for operation in raw.array_operations:
        place = (operation.block_id, operation.site, operation.name.partition(" ")[0])
        calls[place] = max(calls[place], operation.executions)
    return sum(calls.values())


def unseen_of(
    raw: RawTrace, unseen_calls: int, time_share: float | None = None, functions: tuple[str, ...] = ()
) -> Unseen:
    """Unseen array operations, and their share of all calls and bytes of array operations, both from 0 to 1.

    `time_share` is the share of time in compiled `functions` that were not seen.
    """
    recorded_bytes = sum(o.points * sum(each.size_bytes for each in o.operands) for o in raw.array_operations)
    one_pass_calls = sum(u.one_pass_calls for u in raw.unseen)
    one_pass_bytes = sum(u.one_pass_bytes for u in raw.unseen)
    unseen_bytes = sum(u.bytes for u in raw.unseen)
    by_name: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for u in raw.unseen:
        totals = by_name[u.name]
        totals[0] += u.calls
        totals[1] += u.bytes
        totals[2] += u.one_pass_calls
    operations = [UnseenOperation(name, *totals) for name, totals in by_name.items()]
    operations.sort(key=lambda o: (-o.bytes, -o.calls, o.name))
    return Unseen(
        calls_share=_share(unseen_calls, _recorded_calls(raw) + unseen_calls - one_pass_calls),
        bytes=unseen_bytes,
        bytes_share=_share(unseen_bytes, recorded_bytes + unseen_bytes - one_pass_bytes),
        operations=tuple(operations[:_MAX_OPERATIONS]),
        time_share=time_share,
        functions=functions[:_MAX_OPERATIONS],
    )
