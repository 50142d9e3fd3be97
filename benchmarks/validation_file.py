"""What `foretrace validate --json` printed, on this machine or on another. Like every file, it may come from anyone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from foretrace.errors import EngineError, ProfileError
from foretrace.files import read_bounded
from foretrace.profiles.profile import Profile
from foretrace.profiles.profile_file import profile_of

SCHEMA = "foretrace.validate/2"
MAX_FILE_BYTES = 16 << 20
MAX_PROGRAMS = 1000

Name = Annotated[str, Meta(pattern="^[a-z0-9_]{1,64}$")]
"""Of a program: it becomes part of a file's name."""
Sha256 = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]


class Segments(Struct, frozen=True):
    """What segments of runs tell of one without a neighbour; see neighbours.SegmentTime."""

    time_s: Annotated[float, Meta(gt=0, lt=1e9)]


class MeasuredTime(Struct, frozen=True):
    """Of a program's native runs; see native_runs.Measured. What a document from before that did not have is None."""

    shortest_s: Annotated[float, Meta(gt=0, lt=1e9)]
    undisturbed_runs: int | None = None
    reference_slowdown: Annotated[float, Meta(ge=1, lt=1e9)] | None = None
    segments: Segments | None = None

    @property
    def time_s(self) -> float:
        """What the program takes: by segments if that is known, else the shortest run."""
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
    profile: dict[str, Any]


class MeasuredMachine(Struct, frozen=True):
    """A machine's profile and what programs took on it. `label` is what it is called by in reports."""

    label: str
    profile: Profile
    programs: dict[str, ProgramTime]


def read_validation(path: Path) -> MeasuredMachine:
    """Read what a validation wrote.

    Raises:
        EngineError: the file cannot be read, or is no such document; says why.
    """
    make = "make one on that machine with: foretrace validate -o FILE"
    content = read_bounded(path, MAX_FILE_BYTES, "what foretrace validate wrote", EngineError)
    try:
        document = msgspec.json.decode(content, type=_Document)
        if document.schema != SCHEMA:
            raise EngineError(f"{path}: is no document of the version {SCHEMA}; {make}")
        profile = profile_of(document.profile)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise EngineError(f"{path}: is no validation with its profile ({error}); {make}") from error
    except ProfileError as error:
        raise EngineError(f"{path}: its profile is none: {error}") from error
    return MeasuredMachine(path.stem, profile, {row.program: row for row in document.run_times})
