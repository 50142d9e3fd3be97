"""The file of a rank's record, as the interposer writes it (interposer/record_file.h)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from foretrace.base.errors import SignatureError
from foretrace.tracer.signature.rank_records import CALL, STEP, CallKind, Ints

MAGIC, VERSION = b"FTRANK\r\n", 2
MOST_RANKS = 1 << 20
_NUMBERS = (
    "version", "header_bytes", "rank", "ranks", "calls", "steps", "slots", "counts", "communicators", "members",
    "sites", "left_out", "rising_tags", "text_bytes", "first_library", "library_bytes", "run", "is_complete",
)  # fmt: skip
HEADER = np.dtype([("magic", "S8"), *((name, "<i8") for name in _NUMBERS), ("processor_s", "<f8"), ("wall_s", "<f8")])
SITE = np.dtype(
    [(name, "<i8") for name in ("first_module", "module_bytes", "first_function", "function_bytes", "offset", "line")]
)
LEFT_OUT = np.dtype([(name, "<i8") for name in ("first_name", "name_bytes", "times")])
RISING = np.dtype([(name, "<i8") for name in ("call", "half", "least", "most", "times")])


@dataclass(frozen=True, slots=True)
class RawSite:
    """A place that calls were made from: a link-time address of a module, or a line (not 0) of a Python file."""

    module: str
    function: str
    offset: int
    line: int


@dataclass(frozen=True, slots=True, eq=False)
class RawRank:
    """A rank's record as the interposer left it.

    Attributes:
        rank, ranks: which of how many.
        run: number of the run, the same for all its ranks.
        library: version of the MPI library, as it calls itself.
        calls, steps, slots, counts: as in a `RankRecord`; sites are those of this rank, -1: not known.
        rising: `RISING`, calls whose tags rose by a constant stride and were recorded as one, the first; half 1:
            those of what an exchange receives.
    """

    rank: int
    ranks: int
    run: int
    library: str
    calls: npt.NDArray[np.void]
    steps: npt.NDArray[np.void]
    slots: Ints
    counts: Ints
    communicators: tuple[tuple[int, ...], ...]
    sites: tuple[RawSite, ...]
    left_out: dict[str, int]
    rising: npt.NDArray[np.void]
    processor_s: float
    wall_s: float
    is_complete: bool


def read_record(content: bytes, origin: str) -> RawRank:
    """The record in a file's content.

    Args:
        content: of the file.
        origin: its name, for messages.

    Raises:
        SignatureError: it is none, of another version, or damaged.
    """
    try:
        return _read(content)
    except ValueError as error:
        raise SignatureError(f"{origin}: the record of a rank's MPI calls is damaged: {error}") from None


def _read(content: bytes) -> RawRank:
    if len(content) < HEADER.itemsize or not content.startswith(MAGIC):
        raise ValueError("it does not begin as one")
    header = np.frombuffer(content, HEADER, 1)[0]
    number = {name: int(header[name]) for name in _NUMBERS}
    if number["version"] != VERSION or number["header_bytes"] != HEADER.itemsize:
        raise ValueError(f"it is of version {number['version']}, this release reads {VERSION}")
    if not 0 <= number["rank"] < number["ranks"] <= MOST_RANKS:
        raise ValueError(f"rank {number['rank']} of {number['ranks']} is impossible")
    parts = _parts(content, number)
    members, lengths = parts["members"], parts["communicators"]
    if (len(lengths) and lengths.min() < 0) or lengths.sum(dtype=np.float64) != len(members):
        raise ValueError("the members of its communicators do not add up")
    text = content[len(content) - _padded(number["text_bytes"]) :][: number["text_bytes"]]
    ends = np.cumsum(lengths).tolist()
    listed = members.tolist()
    _check_calls(parts["calls"], number)
    return RawRank(
        rank=number["rank"],
        ranks=number["ranks"],
        run=number["run"],
        library=_text(text, number["first_library"], number["library_bytes"]),
        calls=parts["calls"],
        steps=parts["steps"],
        slots=parts["slots"],
        counts=parts["counts"],
        communicators=tuple(tuple(listed[a:b]) for a, b in zip([0, *ends], ends, strict=False)),
        sites=tuple(
            RawSite(_text(text, a, n), _text(text, b, m), offset, line)
            for a, n, b, m, offset, line in parts["sites"].tolist()
        ),
        left_out={_text(text, first, length): times for first, length, times in parts["left_out"].tolist()},
        rising=parts["rising_tags"],
        processor_s=float(header["processor_s"]),
        wall_s=float(header["wall_s"]),
        is_complete=number["is_complete"] != 0,
    )


def _parts(content: bytes, number: dict[str, int]) -> dict[str, npt.NDArray[Any]]:
    """The arrays behind the header; their lengths are checked before any is made."""
    integer = np.dtype("<i8")
    kinds = {
        "calls": CALL, "steps": STEP, "slots": integer, "counts": integer, "communicators": integer, "members": integer,
        "sites": SITE, "left_out": LEFT_OUT, "rising_tags": RISING,
    }  # fmt: skip
    lengths = [number[name] for name in (*kinds, "text_bytes")]
    if min(lengths) < 0:
        raise ValueError("it has an array of negative length")
    size = HEADER.itemsize + sum(number[name] * kind.itemsize for name, kind in kinds.items())
    if size + _padded(number["text_bytes"]) != len(content):
        raise ValueError(f"it has {len(content)} bytes, its header says {size + _padded(number['text_bytes'])}")
    parts, first = {}, HEADER.itemsize
    for name, kind in kinds.items():
        parts[name] = np.frombuffer(content, kind, number[name], first)
        first += number[name] * kind.itemsize
    return parts


def _check_calls(calls: npt.NDArray[np.void], number: dict[str, int]) -> None:
    """Refuse what `join_ranks` could not work on; `check_ranks` refuses the rest."""
    for name, least, limit in (
        ("kind", 0, len(CallKind)), ("communicator", 0, number["communicators"]), ("site", -1, number["sites"]),
    ):  # fmt: skip
        if len(calls) and not (least <= calls[name].min() and calls[name].max() < limit):
            raise ValueError(f"a call has an impossible {name}")


def _padded(num_bytes: int) -> int:
    return (num_bytes + 7) // 8 * 8


def _text(text: bytes, first: int, length: int) -> str:
    if first < 0 or length < 0 or first + length > len(text):
        raise ValueError("a text lies outside of it")
    return text[first : first + length].decode("utf-8", "replace")
