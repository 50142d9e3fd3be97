"""Documents printed by `foretrace validate --json`, on this machine or on another. Like every file, they may come from
anyone.

In `measured/` are such documents of machines that come with foretrace: times alone, with the name of the machine in the
place of its profile.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from foretrace.base import json_text
from foretrace.base.errors import EngineError, ProfileError
from foretrace.base.files import read_bounded
from foretrace.profiles import library
from foretrace.profiles.profile import Profile
from foretrace.profiles.profile_file import profile_of

SCHEMA = "foretrace.validate/2"
MEASURED = Path(__file__).parents[1] / "measured"
MAX_FILE_BYTES = 16 << 20
MAX_PROGRAMS = 1000

Name = Annotated[str, Meta(pattern="^[a-z0-9_]{1,64}$")]
"""Name of a program: it becomes part of a file's name."""
Sha256 = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]


class Segments(Struct, frozen=True):
    """An undisturbed time in older documents; see neighbours.SegmentTime."""

    time_s: Annotated[float, Meta(gt=0, lt=1e9)]


class MeasuredTime(Struct, frozen=True):
    """Time of a program's native runs; see native_runs.Measured. What was not measured is None."""

    shortest_s: Annotated[float, Meta(gt=0, lt=1e9)]
    undisturbed_runs: int | None = None
    reference_slowdown: Annotated[float, Meta(ge=1, lt=1e9)] | None = None
    segments: Segments | None = None

    @property
    def time_s(self) -> float:
        """Time of the program: by segments if that is known, else the shortest run."""
        return self.shortest_s if self.segments is None else self.segments.time_s

    @property
    def is_disturbed(self) -> bool:
        """Whether it is known to have been measured beside a neighbour only."""
        return self.undisturbed_runs == 0 and self.segments is None


class ProgramTime(Struct, frozen=True):
    """A program's measured time, what exactly was run, and the timing that its loops' shares are from."""

    program: Name
    measured: MeasuredTime
    executable_sha256: Sha256 | None = None
    timing_sha256: Sha256 | None = None


class _Document(Struct, frozen=True):
    schema: str
    run_times: Annotated[tuple[ProgramTime, ...], Meta(max_length=MAX_PROGRAMS)]
    profile: dict[str, Any] | str


class MeasuredMachine(Struct, frozen=True):
    """A machine's profile and what programs took on it. `label` is what it is called by in reports."""

    label: str
    profile: Profile
    programs: dict[str, ProgramTime]


def find_validation(name_or_path: str) -> MeasuredMachine:
    """Times measured on a machine that comes with foretrace, by its name; or the contents of a file, by path.

    Raises:
        EngineError: there is none of that name, or the file is no such document; says why.
    """
    path = Path(name_or_path)
    known = sorted(document.stem for document in MEASURED.glob("*.json"))
    if name_or_path in known:
        return read_validation(MEASURED / f"{name_or_path}.json")
    if not path.exists():
        raise EngineError(f"{name_or_path}: no such file; measured times come with foretrace of {', '.join(known)}")
    return read_validation(path)


def read_validation(path: Path) -> MeasuredMachine:
    """Read what a validation wrote.

    Raises:
        EngineError: the file cannot be read, or is no such document; says why.
    """
    make = "make one on that machine with: foretrace validate -o FILE"
    content = read_bounded(path, MAX_FILE_BYTES, "what foretrace validate wrote", EngineError)
    try:
        document = json_text.decode(content, _Document)
        if document.schema != SCHEMA:
            raise EngineError(f"{path}: is no document of the version {SCHEMA}; {make}")
        profile = _profile_of(document.profile)
    except msgspec.DecodeError as error:
        raise EngineError(f"{path}: is no validation with its profile ({error}); {make}") from error
    except ProfileError as error:
        raise EngineError(f"{path}: its profile is none: {error}") from error
    return MeasuredMachine(path.stem, profile, {row.program: row for row in document.run_times})


def _profile_of(described: dict[str, Any] | str) -> Profile:
    """A document's own profile, or that of a machine that comes with foretrace: a name is never taken for a path."""
    if isinstance(described, dict):
        return profile_of(described)
    if described not in library.names():
        raise ProfileError(f"{described!r} is no machine that comes with foretrace")
    return library.find(described)
