"""Files that a sweep reads: runs, machines and platforms, each known by its content."""

from __future__ import annotations

import glob
import hashlib
import os
import pickle
import sqlite3
import stat
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from foretrace.base.errors import ForetraceError, ProfileError, SignatureError, SweepError
from foretrace.base.file_kinds import PROFILE, SIGNATURE, kind_of
from foretrace.base.files import read_bounded
from foretrace.profiles import library
from foretrace.profiles.interconnect import interconnect_of
from foretrace.profiles.profile import MachineKind, Profile
from foretrace.profiles.profile_file import parse_named
from foretrace.replay.ranks.time_independent import files_of, read_time_independent
from foretrace.replay.workload.workload import Workload
from foretrace.tracer.signature.file import read_signature
from foretrace.tracer.signature.records import Signature

_MOST_BYTES = 16 << 20
"""Size of a machine's or platform's file."""


def digest_of(*parts: bytes) -> str:
    """Digest of some bytes: SHA-256, in hexadecimal digits."""
    found = hashlib.sha256()
    for part in parts:
        found.update(len(part).to_bytes(8, "big"))
        found.update(part)
    return found.hexdigest()


@dataclass(frozen=True, slots=True)
class RunKind:
    """A kind of traced run.

    Attributes:
        name: of the kind.
        files: of a run, by its path.
        read: makes of a path what its points are worked out from.
        pack: makes the bytes of a run, for workers without its files.
        unpack: what `read` makes, from these bytes and the run's name.
    """

    name: str
    files: Callable[[Path], Sequence[Path]]
    read: Callable[[Path], Any]
    pack: Callable[[Path], bytes]
    unpack: Callable[[bytes, str], Any]

    def __reduce__(self) -> tuple[Callable[[str], RunKind], tuple[str]]:
        """Pickled by its name."""
        return _kind_named, (self.name,)


def _kind_named(name: str) -> RunKind:
    return next(kind for kind in RUN_KINDS if kind.name == name)


def _unpacked_signature(content: bytes, name: str) -> Workload:
    with as_file(content, name) as path:
        return Workload.of(read_signature(path))


SIGNATURES = RunKind(
    "signature",
    lambda path: [path],
    lambda path: Workload.of(read_signature(path)),
    Path.read_bytes,
    _unpacked_signature,
)


def _unpacked_capture(content: bytes, name: str) -> Signature:
    with as_file(content, name) as path:
        return read_signature(path)


CAPTURES = RunKind(
    "signature of a parallel run", lambda path: [path], read_signature, Path.read_bytes, _unpacked_capture
)
TRACES = RunKind(
    "time-independent trace",
    lambda path: list(dict.fromkeys([path, *files_of(path)])),
    read_time_independent,
    lambda path: pickle.dumps(read_time_independent(path), pickle.HIGHEST_PROTOCOL),
    lambda content, name: pickle.loads(content),  # bytes that this sweep packed
)
RUN_KINDS = (SIGNATURES, CAPTURES, TRACES)


@dataclass(frozen=True, slots=True)
class Run:
    """A traced run, as it was when the sweep began.

    Attributes:
        name: as it was given.
        kind: of run.
        path: of its file.
        digest: of its content.
    """

    name: str
    kind: RunKind
    path: Path
    digest: str

    def read(self) -> Any:
        """Content that its points are worked out from.

        Raises:
            ForetraceError: it is damaged, or has changed.
        """
        found = self.kind.read(self.path)
        self._check()
        return found

    def pack(self) -> bytes:
        """Its bytes for workers without its files; as `read`."""
        packed = self.kind.pack(self.path)
        self._check()
        return packed

    def _check(self) -> None:
        if _digest_of_files(self.kind.files(self.path)) != self.digest:
            raise SweepError(f"{self.name}: changed while the sweep ran; start it again")


@dataclass(frozen=True, slots=True)
class Source:
    """A machine or platform.

    Attributes:
        name: or path, as it was given.
        is_named: whether it is known by its name, and not by a file.
        content: of its file.
        digest: of the content.
        problem: why it could not be read.
    """

    name: str
    is_named: bool
    content: bytes
    digest: str
    problem: str = ""

    def profile(self) -> Profile:
        """The machine.

        Raises:
            ProfileError: the file cannot be read, or is no profile.
        """
        if self.problem:
            raise ProfileError(self.problem)
        return parse_named(f"{self.name}.toml" if self.is_named else self.name, self.content)


@contextmanager
def as_file(content: bytes, name: str) -> Iterator[Path]:
    """A file with some content while the context lasts. Messages name it by `name`."""
    with tempfile.TemporaryDirectory(prefix="foretrace-") as folder:
        path = Path(folder) / "content"
        path.write_bytes(content)
        try:
            yield path
        except ForetraceError as error:
            raise type(error)(str(error).replace(str(path), name)) from None


def run_at(name: str | os.PathLike[str]) -> Run:
    """The run in a file.

    Raises:
        SignatureError: there is no such file, or it is of a kind that holds no run.
    """
    path = Path(name)
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise SignatureError(f"{path}: is not a file; name a signature, or a time-independent trace")
        with path.open("rb") as file:
            head = file.read(4096)
    except (OSError, ValueError) as error:
        raise SignatureError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    found = kind_of(path)
    if found is PROFILE:
        raise SignatureError(f"{path}: is {found.title}, not a run: name it, or its folder, with --machine")
    if found is not None and found is not SIGNATURE:
        raise SignatureError(f"{path}: is {found.title}, not a run: name a signature, or a time-independent trace")
    kind = TRACES
    if found is SIGNATURE or path.suffix == ".sig" or b"\0" in head or not head:
        kind = CAPTURES if _has_ranks(path) else SIGNATURES
    try:
        digest = _digest_of_files(kind.files(path))
    except OSError as error:
        raise SignatureError(f"{error.filename}: cannot be read: {error.strerror}") from None
    return Run(os.fspath(name), kind, path, digest)


def _has_ranks(path: Path) -> bool:
    """Whether a signature is of a parallel run; not if it is damaged, which reading it says."""
    try:
        with closing(sqlite3.connect(f"file:{quote(os.fsencode(path))}?mode=ro&immutable=1", uri=True)) as database:
            (count,) = database.execute("SELECT COUNT(*) FROM ranks").fetchone()
            return bool(count)
    except sqlite3.Error:
        return False


def _digest_of_files(paths: Sequence[Path]) -> str:
    digests = []
    for path in paths:
        with path.open("rb") as file:
            digests.append(hashlib.file_digest(file, "sha256").digest())
    return digest_of(*digests)


def interconnect_at(given: str) -> Source:
    """Interconnect of a name, a TOML file, or latency and bandwidth.

    Raises:
        ProfileError: there is none of that name, or the file is none.
    """
    content = msgspec.json.encode(interconnect_of(given))
    return Source(given, True, content, digest_of(content))


def machines_at(given: str, kind: MachineKind) -> list[Source]:
    """The machines that a text names: "all", one by its name, a TOML file, a folder of such files, or a pattern.

    Raises:
        ProfileError: there are none.
    """
    shipped = library.names()
    if given == "all":
        return [_shipped(name) for name in shipped if library.find(name).kind is kind]
    if given in shipped:
        return [_shipped(given)]
    if Path(given).is_dir():
        return _all_at(sorted(Path(given).glob("*.toml")), f"{given}: has no TOML files")
    if glob.has_magic(given) and not Path(given).exists():
        return _all_at(sorted(map(Path, glob.glob(given))), f"{given}: no file has such a name")  # noqa: PTH207
    if os.sep in given or given.endswith(".toml") or Path(given).is_file():
        return [source_at(given, ProfileError)]
    library.find(given)  # says what is wrong
    raise AssertionError("unreachable")


def _all_at(paths: Sequence[Path], missing: str) -> list[Source]:
    if not paths:
        raise ProfileError(missing)
    return [source_at(str(path), ProfileError) for path in paths]


def _shipped(name: str) -> Source:
    content = library.content(name)
    return Source(name, True, content, digest_of(content))


def source_at(name: str, error: type[ForetraceError]) -> Source:
    """A machine's or platform's file. The points of one that cannot be read fail.

    Raises:
        ForetraceError: there is no such file: an `error`.
    """
    path = Path(name)
    try:
        if not path.is_file():
            raise error(f"{name}: {'is not a file' if path.exists() else 'there is no such file'}")
        content = read_bounded(path, _MOST_BYTES, "a machine or platform", error)
    except ValueError:  # a NUL in the name
        raise error(f"{name!r} is no name of a file") from None
    except error as failure:
        if not path.is_file():
            raise
        problem = str(failure)
        return Source(name, False, b"", digest_of(problem.encode(errors="replace")), problem)
    return Source(name, False, content, digest_of(content))
