"""The points of a sweep: every run on every machine, with every combination of the other axes."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from foretrace.base.errors import SweepError, TraceFileError, quoted
from foretrace.base.version import __version__
from foretrace.profiles.checks import suggestion
from foretrace.profiles.profile import MachineKind

from .axes import AXES, BY_NAME
from .fields import ERROR, TIMES, Field, Row, Value
from .inputs import Run, Source, digest_of, interconnect_at, machines_at, run_at, source_at
from .methods import METHODS, Method, Values

MOST_POINTS = 1_000_000
_RESULTS = "foretrace.sweep/1"
"""Version of what a point's key stands for."""


@dataclass(frozen=True, slots=True, eq=False)
class Point:
    """One run under one combination of values.

    Attributes:
        number: of the point, counted from 0.
        run: that is predicted or replayed.
        method: how it is worked out.
        values: of all axes of the method; machines and platforms are a `Source`.
    """

    number: int
    run: Run
    method: Method
    values: Values

    @property
    def key(self) -> str:
        """Digest of all that decides the result: contents of the files, values, and foretrace's version."""
        values = {name: one.digest if isinstance(one, Source) else one for name, one in self.values.items()}
        parts = [_RESULTS, __version__, self.method.name, self.run.digest, values]
        return digest_of(msgspec.json.encode(parts, order="sorted"))

    def row(self, result: Row) -> dict[str, Value]:
        """The point and its result, as a row.

        A result says what an axis came to: the threads as traced, the name in a machine's file.
        """
        found: dict[str, Value] = {"run": self.run.name, "method": self.method.name}
        for name, value in self.values.items():
            if isinstance(value, Source):
                found[name] = value.name
                if name == "machine":
                    found["machine_file"] = None if value.is_named else value.name
            else:
                found[name] = value
        return found | dict(result)


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """All points of a sweep.

    Attributes:
        runs: each with its method.
        values: of the axes that were given, or have a default.
        notes: what was left out, and why.
    """

    runs: tuple[tuple[Run, Method], ...]
    values: Mapping[str, tuple[Any, ...]]
    notes: tuple[str, ...]

    @classmethod
    def of(cls, runs: Sequence[str | os.PathLike[str] | Run], given: Mapping[str, Any]) -> Plan:
        """The plan of a grid.

        Args:
            runs: paths of signatures and traces, or runs.
            given: values by axis; those not given are left out, or None.

        Raises:
            ForetraceError: a value is impossible, a file is not there, or an axis is missing or goes with no run.
        """
        given = {name: values for name, values in given.items() if values is not None and values != ()}
        for name in given:
            if name not in BY_NAME:
                raise SweepError(f"axis {quoted(name)} is not known{suggestion(name, list(BY_NAME))}")
        notes: list[str] = []
        values = {name: _values(name, given[name], notes) for name in BY_NAME if name in given}
        chosen = []
        for run in _each_once([one if isinstance(one, Run) else run_at(one) for one in runs], "run", notes):
            chosen.append((run, _method(run, values)))
        if not chosen:
            raise SweepError("name a run: a signature, or a time-independent trace")
        for name in values:
            if not any(name in method.axes for _, method in chosen):
                raise SweepError(f"{BY_NAME[name].option} goes with none of the runs")
        made = cls(tuple(chosen), values, tuple(notes))
        if len(made) > MOST_POINTS:
            raise SweepError(f"{len(made):,} points, at most {MOST_POINTS:,} are swept: divide the sweep")
        return made

    def __len__(self) -> int:
        """Number of points."""
        total = 0
        for _, method in self.runs:
            times = 1
            for axis in method.axes:
                times *= len(self.values.get(axis, (None,)))
            total += times
        return total

    def __iter__(self) -> Iterator[Point]:
        """The points: the run varies slowest, then the axes in their order."""
        numbers = itertools.count()
        for run, method in self.runs:
            axes = [axis for axis in AXES if axis.name in method.axes]
            for chosen in itertools.product(*(self.values.get(axis.name, (axis.default,)) for axis in axes)):
                values = {axis.name: value for axis, value in zip(axes, chosen, strict=True)}
                yield Point(next(numbers), run, method, values)

    @property
    def fields(self) -> tuple[Field, ...]:
        """The columns of the results."""
        methods = [method for method in METHODS if any(method is used for _, used in self.runs)]
        taken = {name for method in methods for name in method.axes}
        found = [Field("run", str), Field("method", str)]
        for axis in AXES:
            if axis.name in taken:
                found.append(Field(axis.name, axis.type))
                found += [Field("machine_file", str)] if axis.name == "machine" else []
        found += [*TIMES, *(field for method in methods for field in method.fields), ERROR]
        return tuple({field.name: field for field in found}.values())


def _method(run: Run, values: Mapping[str, Any]) -> Method:
    """Method by which the points of a run are worked out."""
    others = {name for method in METHODS if method.kind is not run.kind for name in method.axes}
    ways = [method for method in METHODS if method.kind is run.kind]
    own = {name for method in ways for name in method.axes}
    wanted = {name for name in values if name in own or name not in others}
    chosen = next((method for method in ways if wanted <= set(method.axes)), None)
    if chosen is None:
        best = max(ways, key=lambda method: len(wanted & set(method.axes)))
        left = [BY_NAME[name].option for name in values if name in wanted - set(best.axes)]
        with_ = [BY_NAME[name].option for name in values if name in wanted and not _in_all(name, ways)]
        raise SweepError(f"{left[0]} does not go with {' and '.join(one for one in with_ if one not in left)}")
    first = BY_NAME[chosen.axes[0]]
    if first.name not in values:
        raise SweepError(f"{run.name}: is a {run.kind.name}: name what it runs on with {first.option}")
    return chosen


def _in_all(name: str, methods: Sequence[Method]) -> bool:
    return all(name in method.axes for method in methods)


def _values(name: str, given: Any, notes: list[str]) -> tuple[Any, ...]:
    """The values of an axis, each once."""
    axis = BY_NAME[name]
    if name == "network":
        return tuple(_each_once([interconnect_at(str(one)) for one in axis.values(given)], name, notes))
    if not axis.is_file:
        return axis.values(given)
    parts = [given] if isinstance(given, (str, os.PathLike, Source)) else list(given)
    found: list[Source] = []
    for part in parts:
        if isinstance(part, Source):
            found.append(part)
            continue
        for text in axis.values(os.fspath(part)):
            found += _sources(name, str(text))
    return tuple(_each_once(found, name, notes))


def _sources(name: str, text: str) -> list[Source]:
    if name == "platform":
        return [source_at(text, TraceFileError)]
    return machines_at(text, MachineKind.ACCELERATOR if name == "accelerator" else MachineKind.HOST)


def _each_once(found: Sequence[Any], what: str, notes: list[str]) -> list[Any]:
    """Inputs with the same name and content once, and a note on how many were the same."""
    once = list({(one.name, one.digest): one for one in found}.values())
    if len(once) < len(found):
        notes.append(f"{len(found) - len(once)} of {len(found)} given as {what} were named twice, and are swept once")
    return once
