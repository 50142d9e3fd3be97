"""Interconnects: what joins the nodes of a parallel machine. One TOML file each, or two figures on the command line.

Versions of the format:
    foretrace.interconnect/1: the first.
"""

from __future__ import annotations

import datetime
import functools
import os
import re
from pathlib import Path

import msgspec
from msgspec import Struct, inspect

from foretrace.base import toml_text
from foretrace.base.errors import ProfileError, quoted
from foretrace.base.files import read_bounded

from .checks import check_figures, check_header, check_messages, suggestion
from .points import MessagePoint
from .profile import NodeNetwork, Source, SourceKind
from .profile_file import check_shape, file_text, located
from .shipped_files import ShippedFiles

SCHEMA = "foretrace.interconnect/1"
TOPOLOGIES = ("crossbar", "torus", "fat-tree", "dragonfly")
DEFAULT_TOPOLOGY = "crossbar"
_INTERCONNECTS = ShippedFiles("interconnects")

_TIMES_S = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0}
_SCALES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_TWO_FIGURES = re.compile(
    r"\s*([0-9.]+(?:e[+-]?\d+)?)\s*(ns|us|µs|ms|s)\s*,\s*([0-9.]+(?:e[+-]?\d+)?)\s*([kMGT]?)([Bb])(?:/s|ps)\s*"
)


class Interconnect(Struct, frozen=True, forbid_unknown_fields=True):
    """An interconnect. `topology` is how nodes are joined where nothing else is said: a name of `TOPOLOGIES`, perhaps
    with sizes behind a colon. `messages`: measured times of messages, which count before latency and bandwidth.
    """

    schema: str
    name: str
    title: str
    date: str
    sources: dict[str, Source]
    network: NodeNetwork
    topology: str = DEFAULT_TOPOLOGY
    messages: tuple[MessagePoint, ...] = ()
    notes: tuple[str, ...] = ()
    metadata: dict[str, str] | None = None  # of a measurement: hosts, MPI library, load

    def __repr__(self) -> str:
        """One line, not every figure."""
        return f"<{type(self).__name__} {self.name}: {self.title}>"


def check(interconnect: Interconnect) -> None:
    """Refuse an interconnect that cannot be, or whose figures lack a source.

    Raises:
        ProfileError: names the field, its value, and what to do.
    """
    if interconnect.schema != SCHEMA:
        raise ProfileError(f"schema is {quoted(interconnect.schema)}, this release reads {SCHEMA!r}")
    check_header(interconnect)
    kind = interconnect.topology.partition(":")[0]
    if kind not in TOPOLOGIES:
        raise ProfileError(
            f"topology is {quoted(interconnect.topology)}, must be one of {', '.join(TOPOLOGIES)}"
            f"{suggestion(kind, TOPOLOGIES)}"
        )
    check_figures("network", interconnect.network, interconnect)
    check_messages(interconnect, interconnect.messages)
    network = interconnect.network
    if not interconnect.messages and (network.latency_s is None or network.bandwidth_bytes_per_s is None):
        raise ProfileError("network: latency_s and bandwidth_bytes_per_s must be given, or messages")
    if network.latency_s is not None and (network.hop_latency_s or 0.0) > network.latency_s:
        raise ProfileError(
            f"network: hop_latency_s is {network.hop_latency_s:g}, must be at most latency_s, {network.latency_s:g}"
        )


# ---- files ----


def read_interconnect(path: str | os.PathLike[str]) -> Interconnect:
    """Read and check an interconnect's file.

    Raises:
        ProfileError: the file cannot be read, or is not an interconnect; says where and what to do.
    """
    path = Path(path)
    return parse_named(str(path), read_bounded(path, toml_text.MAX_FILE_BYTES, "an interconnect", ProfileError))


def parse_named(name: str, content: bytes) -> Interconnect:
    """Read and check an interconnect from the bytes of a file of this name.

    Raises:
        ProfileError: they are not one; names the file, the line where it can be told, the key, and what to do.
    """
    with located(name, content):
        try:
            data = toml_text.decode(content)
        except ValueError as error:
            raise ProfileError(f"is not an interconnect: {error}") from None
        return interconnect_from(data)


def interconnect_from(data: object) -> Interconnect:
    """Check what was read from an interconnect's file.

    Raises:
        ProfileError: it is not an interconnect.
    """
    if isinstance(data, dict) and str(data.get("schema", "")).startswith("foretrace.profile/"):
        raise ProfileError("is a machine's profile, not an interconnect (`foretrace machines --networks` lists them)")
    check_shape(data, inspect.type_info(Interconnect), "")
    try:
        interconnect = msgspec.convert(data, Interconnect, strict=True)
    except msgspec.ValidationError as error:
        raise ProfileError(" ".join(str(error).split())) from None
    check(interconnect)
    return interconnect


def format_interconnect(interconnect: Interconnect) -> str:
    """An interconnect as the text of its file.

    Raises:
        ProfileError: it cannot be.
    """
    check(interconnect)
    return file_text(interconnect)


# ---- the library ----


def names() -> tuple[str, ...]:
    """Names of the interconnects that come with foretrace, sorted."""
    return _INTERCONNECTS.names()


def interconnect_of(text: str) -> Interconnect:
    """An interconnect by name, by the path of its file, or by latency and bandwidth, as in "2us,12.5GB/s".

    Raises:
        ProfileError: there is none of that name, or the file is not an interconnect.
    """
    if text in names():
        return _shipped(text)
    path = Path(text)
    if (os.sep in text and "," not in text) or path.suffix == ".toml" or _is_file(path):
        return read_interconnect(path)
    if "," in text:
        return _of_two_figures(text)
    raise ProfileError(
        f"{quoted(text)} is neither a known interconnect, nor a file, nor latency and bandwidth (2us,12.5GB/s)"
        f"{suggestion(text, names())} (`foretrace machines --networks` lists them)"
    )


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # too long a name, or a null byte
        return False


def _of_two_figures(text: str) -> Interconnect:
    found = _TWO_FIGURES.fullmatch(text)
    try:
        latency_s = float(found[1]) * _TIMES_S[found[2]] if found else 0.0
        bytes_per_s = float(found[3]) * _SCALES[found[4]] / (8 if found[5] == "b" else 1) if found else 0.0
    except ValueError:
        found = None
    if not found:
        raise ProfileError(
            f"{quoted(text)} is no latency and bandwidth: write them as in 2us,12.5GB/s (or 100Gb/s, in bits)"
        )
    interconnect = Interconnect(
        schema=SCHEMA,
        name="given",
        title=" ".join(text.split()),
        date=datetime.datetime.now(datetime.UTC).date().isoformat(),
        sources={"given": Source(SourceKind.DERIVED, "given by the user as latency and bandwidth", "2000")},
        network=NodeNetwork(
            source=dict.fromkeys(("latency_s", "bandwidth_bytes_per_s"), "given"),
            latency_s=latency_s,
            bandwidth_bytes_per_s=bytes_per_s,
        ),
    )
    try:
        check(interconnect)
    except ProfileError as error:
        raise ProfileError(f"{quoted(text)}: {error}") from None
    return interconnect


@functools.cache
def _shipped(name: str) -> Interconnect:
    return parse_named(f"{name}.toml", _INTERCONNECTS.content(name))
