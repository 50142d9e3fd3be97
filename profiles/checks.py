"""Validation of a profile beyond its types: figures positive and with a source, nothing physically impossible."""

from __future__ import annotations

import datetime
import itertools
import math
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from difflib import get_close_matches
from typing import Protocol, TypeVar

from msgspec import Struct

from foretrace.base.errors import HierarchyError, ProfileError, quoted
from foretrace.cache_sim.base.hierarchy import MAX_LEVELS, Level

from .figure import figures_of_record
from .hierarchies import hierarchy_of
from .plausibility import refuse_contradictions, refuse_unlikely
from .points import (
    ARRAY_OPERATIONS,
    LINEAR_ROUTINES,
    LINEAR_TYPES,
    ArrayCost,
    IdiomRate,
    LinearCost,
    MessagePoint,
    OperationCost,
    PrefetchPoint,
    SurfacePoint,
    ThreadPoint,
)
from .profile import (
    RECORDS,
    SCHEMA,
    BandwidthPoint,
    CacheLevel,
    CurvePiece,
    CurvePoint,
    GatherScatterCurve,
    LatencyPoint,
    MachineKind,
    Memory,
    Profile,
    Source,
)

_Entry = TypeVar(
    "_Entry",
    bound=BandwidthPoint
    | LatencyPoint
    | OperationCost
    | SurfacePoint
    | PrefetchPoint
    | ThreadPoint
    | ArrayCost
    | LinearCost
    | IdiomRate
    | MessagePoint
    | GatherScatterCurve,
)


class Cited(Protocol):
    """A record of figures with sources: a machine's profile or an interconnect."""

    @property
    def sources(self) -> Mapping[str, Source]:
        """Sources by the keys that its figures name."""
        ...


class Headed(Cited, Protocol):
    """A record that is a file of its own."""

    @property
    def name(self) -> str:
        """Name by which it is found."""
        ...

    @property
    def title(self) -> str:
        """Title for people."""
        ...

    @property
    def date(self) -> str:
        """Date of the file."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes that a reader must know."""
        ...


OPERATIONS = ("gather", "scatter", "update")
ELEMENT_BITS = (8, 16, 32, 64)
IDIOMS = ("stream", "reduction")
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_INSTRUCTION_SET = re.compile(r"[a-z0-9_]{1,16}")
_DATES = {4: "%Y", 7: "%Y-%m", 10: "%Y-%m-%d"}
_MAY_BE_ZERO = {"noise", "from_bytes", "intercept_bytes_per_s"} | {
    name for record in RECORDS for name, figure in figures_of_record(record).items() if figure.may_be_zero
}
_NOT_FIGURES = frozenset({"name", "source", "noise", "frontend"})
_ANY_SIGN = {"intercept_bytes_per_s", "slope_bytes_per_s_per_byte"}
_MAX_INT = 1 << 63
_MAX_NAME = 64
_MAX_SUGGESTIONS = 200  # of words compared with a misspelt one: the file may have many
_UNPRINTABLE = {"Cc", "Cf", "Cs", "Zl", "Zp"}  # Unicode's control, format, surrogate, line and paragraph separators


def check(profile: Profile) -> None:
    """Refuse a profile that no machine can have, or whose figures lack a source.

    Raises:
        ProfileError: names the field, its value, and what to do.
    """
    if profile.schema != SCHEMA:
        raise ProfileError(f"schema is {quoted(profile.schema)}, this release reads {SCHEMA!r}")
    check_header(profile)
    if profile.instruction_set is not None and not _INSTRUCTION_SET.fullmatch(profile.instruction_set):
        raise ProfileError(
            f"instruction_set is {quoted(profile.instruction_set)}, must be named as by QEMU, such as 'x86_64', "
            "'aarch64', 'riscv64' or 'ppc64'"
        )
    if profile.microarchitecture is not None and not _NAME.fullmatch(profile.microarchitecture):
        raise ProfileError(
            f"microarchitecture is {quoted(profile.microarchitecture)}, must be the name of a design in lower case, "
            "such as 'zen5', 'golden-cove' or 'neoverse-v2'"
        )
    for number, figure in enumerate(profile.unstable, 1):
        _check_text(f"unstable entry {number}", figure)
    if profile.product:
        check_figures("product", profile.product, profile)
    if profile.core:
        check_figures("core", profile.core, profile)
        if profile.core.frontend:
            check_figures("core.frontend", profile.core.frontend, profile)
    if profile.memory:
        check_figures("memory", profile.memory, profile)
        _check_pages(profile.memory)
    _check_caches(profile)
    _check_points(profile)
    _check_costs(profile)
    _check_surface(profile)
    _check_tlbs(profile)
    _check_rates(profile)
    _check_curves(profile)
    _check_link(profile)
    if profile.accelerator is not None:
        if profile.kind is MachineKind.HOST:
            raise ProfileError('a host has no [accelerator]: remove it, or set kind = "accelerator"')
        check_figures("accelerator", profile.accelerator, profile)
    if profile.network:
        check_figures("network", profile.network, profile)
    refuse_contradictions(profile)


def check_header(profile: Headed) -> None:
    """Refuse a name, title, date, source or note that a reader could not use.

    Raises:
        ProfileError: names the field, its value, and what to do.
    """
    if not _NAME.fullmatch(profile.name):
        raise ProfileError(
            f"name is {quoted(profile.name)}, must be 1 to 64 lower-case letters, digits, '.', '_' or '-', "
            "starting with a letter or digit"
        )
    _check_text("title", profile.title)
    _check_date("date", profile.date)
    for key, source in profile.sources.items():
        _check_cited(key, source)
    for number, note in enumerate(profile.notes, 1):
        _check_text(f"notes entry {number}", note)


def suggestion(word: str, known: Iterable[str]) -> str:
    """Suggests the known word nearest to an unknown one, as the end of a sentence."""
    if len(word) > _MAX_NAME:
        return ""
    words = [k for k in itertools.islice(known, _MAX_SUGGESTIONS) if len(k) <= _MAX_NAME]
    close = get_close_matches(word, words, n=1, cutoff=0.5) or [k for k in words if word and k.startswith(word)]
    return f"; did you mean {close[0]!r}?" if close else ""


def _check_text(where: str, text: str) -> None:
    if not text.strip():
        raise ProfileError(f"{where} is empty, must say something")
    for character in text:
        if unicodedata.category(character) in _UNPRINTABLE:
            raise ProfileError(f"{where} has the control character U+{ord(character):04X}: remove it")


def _check_name(where: str, text: str) -> None:
    _check_text(where, text)
    if len(text) > _MAX_NAME:
        raise ProfileError(f"{where} has {len(text)} characters, must have at most {_MAX_NAME}")


def _check_cited(key: str, source: Source) -> None:
    _check_name(f"sources: the name {quoted(key)}", key)
    where = f"sources.{key}"
    _check_text(f"{where}.citation", source.citation)
    _check_date(f"{where}.date", source.date)
    if source.url is not None:
        _check_text(f"{where}.url", source.url)
        if not source.url.startswith(("https://", "http://")):
            raise ProfileError(f"{where}.url is {quoted(source.url)}, must begin with https:// or http://")
    if source.read_on is not None:
        _check_date(f"{where}.read_on", source.read_on)


def _check_date(where: str, text: str) -> None:
    try:
        datetime.datetime.strptime(text, _DATES[len(text)])
    except (KeyError, ValueError):
        raise ProfileError(f"{where} is {quoted(text)}, must be a date: YYYY, YYYY-MM or YYYY-MM-DD") from None


def _check_number(where: str, field: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return
    if isinstance(value, int) and abs(value) >= _MAX_INT:
        raise ProfileError(f"{where}: {field} is about 1e{len(str(abs(value))) - 1}, must be below 2^63")
    if not math.isfinite(value):
        raise ProfileError(f"{where}: {field} is {value}, must be finite")
    if field in _ANY_SIGN:
        return
    if value < 0 or (value == 0 and field not in _MAY_BE_ZERO):
        raise ProfileError(
            f"{where}: {field} is {value}, must be {'at least 0' if field in _MAY_BE_ZERO else 'positive'}"
        )
    refuse_unlikely(where, field, value)


def _check_numbers(where: str, record: Struct) -> None:
    for field in record.__struct_fields__:
        _check_number(where, field, getattr(record, field))


def _check_source(where: str, key: str, profile: Cited) -> None:
    if key not in profile.sources:
        raise ProfileError(
            f"{where}: source {quoted(key)} is not in [sources]: add [sources.{key[:_MAX_NAME]}]"
            f"{suggestion(key, profile.sources)}"
        )


def check_figures(where: str, record: Struct, profile: Cited, others: Set[str] = _NOT_FIGURES) -> None:
    """Every figure of a record with a `source` table is a number a machine can have, and has a known source.

    Raises:
        ProfileError: names the figure, its value, and what to do.
    """
    _check_numbers(where, record)
    sources: dict[str, str] = getattr(record, "source")  # noqa: B009 - the records share the field, not a base class
    figures = [f for f in record.__struct_fields__ if f not in others and getattr(record, f) is not None]
    for field in figures:
        if field not in sources:
            raise ProfileError(
                f'{where}: {field} has no source: write source = {{ {field} = "..." }}, a key of [sources]'
            )
        _check_source(f"{where}: {field}", sources[field], profile)
    for field in sources:
        if field not in figures:
            raise ProfileError(
                f"{where}: source names {quoted(field)}, which is not given here{suggestion(field, figures)}"
            )
    noise: dict[str, float] | None = getattr(record, "noise", None)
    for field, value in (noise or {}).items():
        if field not in figures:
            raise ProfileError(
                f"{where}: noise names {quoted(field)}, which is not given here{suggestion(field, figures)}"
            )
        _check_number(f"{where}: noise of {field}", "noise", value)


def _check_caches(profile: Profile) -> None:
    inner: CacheLevel | None = None
    if len(profile.caches) > MAX_LEVELS:
        raise ProfileError(f"caches has {len(profile.caches)} entries, must have at most {MAX_LEVELS}")
    for number, cache in enumerate(profile.caches, 1):
        _check_name(f"caches entry {number}: name", cache.name)
        where = f"caches entry {number} ({cache.name})"
        check_figures(where, cache, profile)
        if any(cache.name == other.name for other in profile.caches[: number - 1]):
            raise ProfileError(f"{where}: name is that of an earlier level, must be unique")
        if cache.effective_size_bytes is not None and cache.effective_size_bytes > cache.size_bytes:
            raise ProfileError(
                f"{where}: effective_size_bytes is {cache.effective_size_bytes}, must be at most size_bytes, "
                f"{cache.size_bytes}"
            )
        least = cache.effective_size_bytes or 0
        if cache.effective_stream_size_bytes is not None and not (
            least <= cache.effective_stream_size_bytes <= cache.size_bytes
        ):
            raise ProfileError(
                f"{where}: effective_stream_size_bytes is {cache.effective_stream_size_bytes}, must be from "
                f"effective_size_bytes, {least}, to size_bytes, {cache.size_bytes}"
            )
        if inner is not None:
            _check_grows(where, "size_bytes", cache.size_bytes, inner.name, inner.size_bytes)
            _check_grows(where, "line_bytes", cache.line_bytes, inner.name, inner.line_bytes)
            _check_grows(where, "latency_s", cache.latency_s, inner.name, inner.latency_s)
        try:
            Level(cache.name, cache.size_bytes, cache.ways or 1, cache.line_bytes or 1)
        except HierarchyError as error:
            raise ProfileError(f"{where}: {error}") from None
        inner = cache
    try:
        hierarchy_of(profile)
    except HierarchyError as error:
        raise ProfileError(f"caches: {error}") from None
    if inner is not None and profile.memory is not None:
        _check_grows("memory", "latency_s", profile.memory.latency_s, inner.name, inner.latency_s)


def _check_grows(where: str, field: str, outer: float | None, inner_name: str, inner: float | None) -> None:
    if outer is not None and inner is not None and outer < inner:
        raise ProfileError(
            f"{where}: {field} is {outer}, must be at least that of {inner_name}, {inner} (nearest level first)"
        )


def _check_pages(memory: Memory) -> None:
    pages = [size for size in (memory.page_bytes, memory.huge_page_bytes) if size is not None]
    if memory.default_page_bytes is not None and memory.default_page_bytes not in pages:
        raise ProfileError(
            f"memory: default_page_bytes is {memory.default_page_bytes}, must be page_bytes or huge_page_bytes"
        )


def _checked(profile: Cited, field: str, entries: Sequence[_Entry]) -> Iterator[tuple[str, _Entry]]:
    """The entries of a list, each with how to name it, once its numbers and its source have been checked."""
    for number, entry in enumerate(entries, 1):
        where = f"{field} entry {number}"
        _check_numbers(where, entry)
        _check_source(where, entry.source, profile)
        yield where, entry


def _check_points(profile: Profile) -> None:
    seen: set[object] = set()
    for where, point in _checked(profile, "bandwidth", profile.bandwidth):
        _check_access(where, point)
        _check_new(where, (point.working_set_bytes, point.pattern.value, point.access_bytes), seen)
    for where, latency in _checked(profile, "latency", profile.latency):
        _check_new(where, (latency.working_set_bytes, latency.page_bytes), seen)


def _check_access(where: str, point: BandwidthPoint | SurfacePoint) -> None:
    if point.access_bytes > point.working_set_bytes:
        raise ProfileError(f"{where}: access_bytes is {point.access_bytes}, more than its working set")


def _check_new(where: str, key: object, seen: set[object]) -> None:
    if key in seen:
        raise ProfileError(f"{where}: a second point for {key}, must be one")
    seen.add(key)


def _check_costs(profile: Profile) -> None:
    seen: set[object] = set()
    for where, cost in _checked(profile, "operations", profile.operations):
        if cost.latency_cycles is None and cost.interval_cycles is None:
            raise ProfileError(f"{where}: neither latency_cycles nor interval_cycles is given, must be one of them")
        if cost.element_bits not in ELEMENT_BITS:
            raise ProfileError(f"{where}: element_bits is {cost.element_bits}, must be one of {ELEMENT_BITS}")
        _check_new(where, (cost.operation.value, cost.element_bits, cost.elements), seen)


def _check_surface(profile: Profile) -> None:
    seen: set[object] = set()
    for where, point in _checked(profile, "surface", profile.surface):
        _check_access(where, point)
        if len(point.hit_rates) != len(profile.caches):
            raise ProfileError(
                f"{where}: hit_rates has {len(point.hit_rates)} numbers, must have one for each of the profile's "
                f"{len(profile.caches)} caches"
            )
        for inner, outer in itertools.pairwise((0.0, *point.hit_rates, 1.0)):
            if not inner <= outer:  # false for nan too
                raise ProfileError(
                    f"{where}: hit_rates is {list(point.hit_rates)}, must be ascending numbers from 0 to 1 (cumulative)"
                )
        key = (point.movement.value, point.working_set_bytes, point.stride_bytes, point.access_bytes)
        _check_new(where, key, seen)


def _check_tlbs(profile: Profile) -> None:
    seen: set[object] = set()
    for number, tlb in enumerate(profile.tlbs, 1):
        where = f"tlbs entry {number}"
        _check_text(f"{where}: name", tlb.name)
        check_figures(where, tlb, profile, _NOT_FIGURES | {"page_bytes"})
        _check_new(where, (tlb.name, tlb.page_bytes), seen)


def _check_known(where: str, field: str, value: str, known: Sequence[str]) -> None:
    if value not in known:
        raise ProfileError(
            f"{where}: {field} is {value!r}, must be one of {', '.join(known)}{suggestion(value, known)}"
        )


def _check_rates(profile: Profile) -> None:
    """Lines fetched ahead, bandwidth of threads, rates of idioms, costs of array operations, times of messages."""
    seen: set[object] = set()
    for where, ahead in _checked(profile, "prefetch", profile.prefetch):
        if ahead.fetched_ahead > 1:
            raise ProfileError(f"{where}: fetched_ahead is {ahead.fetched_ahead}, must be at most 1")
        _check_new(where, ahead.misses_per_line, seen)
    for where, point in _checked(profile, "thread_bandwidth", profile.thread_bandwidth):
        _check_new(where, (point.movement.value, point.threads, point.working_set_bytes), seen)
    for where, rate in _checked(profile, "idiom_rates", profile.idiom_rates):
        _check_known(where, "idiom", rate.idiom, IDIOMS)
        _check_new(where, rate.idiom, seen)
    for where, cost in _checked(profile, "array_costs", profile.array_costs):
        _check_known(where, "operation", cost.operation, tuple(ARRAY_OPERATIONS))
        if cost.element_type is not None:
            _check_known(where, "element_type", cost.element_type, ARRAY_OPERATIONS[cost.operation])
        _check_new(where, cost.key, seen)
    for where, linear in _checked(profile, "linear_algebra", profile.linear_algebra):
        _check_known(where, "routine", linear.routine, LINEAR_ROUTINES)
        _check_known(where, "element_type", linear.element_type, LINEAR_TYPES)
        _check_new(where, (linear.routine, linear.element_type, linear.size), seen)
    check_messages(profile, profile.messages)


def check_messages(profile: Cited, messages: Sequence[MessagePoint]) -> None:
    """Refuse times of messages that nothing takes, without a source, or of one size twice.

    Raises:
        ProfileError: names the entry, its value, and what to do.
    """
    seen: set[object] = set()
    for where, message in _checked(profile, "messages", messages):
        _check_new(where, message.message_bytes, seen)


def _check_curves(profile: Profile) -> None:
    known: set[object] = set()
    for where, curve in _checked(profile, "gather_scatter", profile.gather_scatter):
        if not curve.operations:
            raise ProfileError(f"{where}: operations is empty, must name one of {', '.join(OPERATIONS)}")
        for operation in curve.operations:
            if operation not in OPERATIONS:
                raise ProfileError(
                    f"{where}: operations has {operation!r}, must be one of {', '.join(OPERATIONS)}"
                    f"{suggestion(operation, OPERATIONS)}"
                )
            key = (operation, curve.index_mode, curve.element_bytes or 8, curve.threads or 1)
            if key in known:
                raise ProfileError(f"{where}: a second curve for {operation}, must be one")
            known.add(key)
        if curve.pieces and curve.points:
            raise ProfileError(f"{where}: has both pieces and points, must have one of them")
        if curve.points:
            _check_curve_points(where, curve.points)
        else:
            _check_pieces(where, curve, profile)


def _check_curve_points(where: str, points: Sequence[CurvePoint]) -> None:
    if len(points) == 1:
        raise ProfileError(f"{where}: has one point, must have at least two")
    for number, point in enumerate(points, 1):
        _check_numbers(f"{where}, point {number}", point)
    for number, (before, after) in enumerate(itertools.pairwise(points), 2):
        if after.range_bytes <= before.range_bytes:
            raise ProfileError(
                f"{where}, point {number}: range_bytes is {after.range_bytes}, must be above that of the point before, "
                f"{before.range_bytes}"
            )


def _check_pieces(where: str, curve: GatherScatterCurve, profile: Profile) -> None:
    if not curve.pieces:
        raise ProfileError(f"{where}: pieces is empty, must have at least one, or points")
    for number, piece in enumerate(curve.pieces, 1):
        here = f"{where}, piece {number}"
        _check_numbers(here, piece)
        _check_source(here, piece.source, profile)
        if piece.to_bytes is not None and piece.to_bytes <= piece.from_bytes:
            raise ProfileError(f"{here}: to_bytes is {piece.to_bytes}, must be above from_bytes, {piece.from_bytes}")
        for range_bytes in _extremes(piece):
            bandwidth = piece.bandwidth_bytes_per_s(range_bytes)
            if not 0 < bandwidth < math.inf:
                raise ProfileError(
                    f"{here}: its bandwidth is {bandwidth} at a range of {range_bytes} bytes, must be positive"
                )
        if piece.to_bytes is None and piece.slope_bytes_per_s_per_byte < 0:
            raise ProfileError(f"{here}: it has no to_bytes, so slope_bytes_per_s_per_byte must not be negative")
    _check_adjoining(where, curve.pieces)


def _extremes(piece: CurvePiece) -> tuple[int, ...]:
    return (piece.from_bytes,) if piece.to_bytes is None else (piece.from_bytes, piece.to_bytes - 1)


def _check_adjoining(where: str, pieces: Sequence[CurvePiece]) -> None:
    for number, (before, after) in enumerate(itertools.pairwise(pieces), 2):
        if before.to_bytes != after.from_bytes:
            end = "no end" if before.to_bytes is None else f"its end at {before.to_bytes}"
            raise ProfileError(
                f"{where}, piece {number}: from_bytes is {after.from_bytes}, but piece {number - 1} has {end}: "
                "pieces must adjoin, in ascending order"
            )


def _check_link(profile: Profile) -> None:
    if profile.kind is MachineKind.ACCELERATOR and profile.link is None:
        raise ProfileError("an accelerator needs [link]: how it reaches the host's memory, at least shared_memory")
    if profile.kind is MachineKind.HOST and profile.link is not None:
        raise ProfileError('a host has no [link]: remove it, or set kind = "accelerator"')
    if profile.link is not None:
        check_figures("link", profile.link, profile)
