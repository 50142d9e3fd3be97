"""Machine profiles on disk: TOML, one file a machine. docs/machine-profiles.md describes the format.

Versions of the format:
    foretrace.profile/1: the first.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import tomli_w
from msgspec import Struct, inspect

from foretrace.base import toml_text
from foretrace.base.errors import ProfileError, quoted
from foretrace.base.file_kinds import PROFILE, instead, kind_of
from foretrace.base.files import read_bounded, write_output

from .checks import check, suggestion
from .positions import line_of
from .profile import Profile

MAX_INT_BITS = 1000

_POINTS = (
    "latency",
    "bandwidth",
    "surface",
    "prefetch",
    "thread_bandwidth",
    "operations",
    "array_costs",
    "linear_algebra",
    "idiom_rates",
    "messages",
)
"""Lists of points: a profile has many of them, and each fits a line."""
_TABLES = ("caches", "tlbs", "gather_scatter")

_TOML_LINE = re.compile(r"\(at line (\d+), column \d+\)")


def read_profile(path: str | os.PathLike[str]) -> Profile:
    """Read and check a profile.

    Raises:
        ProfileError: the file cannot be read, or is not a profile; says where and what to do.
    """
    path = Path(path)
    if kind_of(path) not in (None, PROFILE):
        raise ProfileError(f"{path}: {instead(path, PROFILE, 'foretrace calibrate -o FILE')}")
    return parse_named(str(path), read_bounded(path, toml_text.MAX_FILE_BYTES, "a machine's profile", ProfileError))


def parse_named(name: str, content: bytes) -> Profile:
    """Read and check a profile from the bytes of a file of this name.

    Raises:
        ProfileError: they are not a profile; names the file, the line where it can be told, the key, and what to do.
    """
    with located(name, content):
        return parse_profile(content)


@contextlib.contextmanager
def located(name: str, content: bytes) -> Iterator[None]:
    """Puts a file's name, and the line where it can be told, ahead of complaints about its content.

    Raises:
        ProfileError: the complaint.
    """
    try:
        yield
    except ProfileError as error:
        line = _line_of(content, str(error))
        raise ProfileError(f"{name}:{line}: {error}" if line else f"{name}: {error}") from None


def parse_profile(content: bytes) -> Profile:
    """Read and check a profile from the bytes of its file.

    Raises:
        ProfileError: they are not a profile.
    """
    try:
        data = toml_text.decode(content)
    except ValueError as error:
        raise ProfileError(f"is not a profile: {error}") from None
    return profile_of(data)


def profile_of(data: object) -> Profile:
    """Check what was read from a profile's file, or what `profile_data` made.

    Raises:
        ProfileError: it is not a profile.
    """
    check_shape(data, inspect.type_info(Profile), "")
    try:
        profile = msgspec.convert(data, Profile, strict=True)
    except msgspec.ValidationError as error:
        raise ProfileError(" ".join(str(error).split())) from None
    check(profile)
    return profile


def profile_data(record: Struct) -> dict[str, Any]:
    """A profile or an interconnect as dictionaries, lists, text and numbers."""
    data: dict[str, Any] = _without_empty(msgspec.to_builtins(record))
    return data


def format_profile(profile: Profile) -> str:
    """A profile as the text of its file: points one a line, before the tables, as TOML wants what belongs to none.

    Raises:
        ProfileError: no machine can have this profile.
    """
    check(profile)
    return file_text(profile)


def file_text(record: Struct) -> str:
    """A profile or an interconnect as the text of its file."""
    data = profile_data(record)
    points = {key: data.pop(key) for key in _POINTS if key in data}
    tables = {key: data.pop(key) for key in [*data] if isinstance(data[key], dict) or key in _TABLES}
    rest = {"unstable": data.pop("unstable")} if "unstable" in data else {}
    parts = [tomli_w.dumps(data | rest, multiline_strings=False)]
    parts += [f"{key} = [\n{_lines(value)}]\n" for key, value in points.items()]
    return "\n".join([*parts, tomli_w.dumps(tables, multiline_strings=False)])


def write_profile(profile: Profile, path: str | os.PathLike[str], *, force: bool = False) -> None:
    """Write a profile: whole or not at all. An existing profile is replaced only with `force`; `-` is standard output.

    Raises:
        ProfileError: no machine can have this profile.
        OutputError: the file exists (and `force` is False), is no profile, or cannot be written.
    """
    write_output(os.fspath(path), format_profile(profile).encode("utf-8"), PROFILE, force=force)


def _line_of(content: bytes, complaint: str) -> int | None:
    """The line that a complaint about a file's content is about, where it can be told."""
    if found := _TOML_LINE.search(complaint):
        return int(found[1])
    return line_of(content.decode("utf-8", "replace"), complaint)


def _lines(points: list[dict[str, Any]]) -> str:
    return "".join(f"    {_inline(point)},\n" for point in points)


def _inline(value: Any) -> str:
    """A value on one line."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_inline(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_inline, value)) + "]"
    return tomli_w.dumps({"value": value}).removeprefix("value = ").rstrip("\n")


def _without_empty(value: Any) -> Any:
    """TOML has no null: a figure that is not known is left out."""
    if isinstance(value, dict):
        return {k: _without_empty(v) for k, v in value.items() if v is not None and v != ()}
    if isinstance(value, tuple):
        return [_without_empty(v) for v in value]
    return value


def check_shape(value: object, kind: inspect.Type, where: str) -> None:
    """Refuse unknown and missing keys and values of the wrong type, in the words of the file's author.

    Raises:
        ProfileError: names the key, its value, and what to do.
    """
    if isinstance(kind, inspect.UnionType):
        kind = next(t for t in kind.types if not isinstance(t, inspect.NoneType))
    if isinstance(kind, inspect.StructType):
        _check_table(value, kind, where)
    elif isinstance(kind, inspect.DictType):
        for key, item in _expect(value, dict, where, "a table").items():
            if not key:
                raise ProfileError(f"{where}: has an empty key")
            check_shape(item, kind.value_type, f"{where}.{key if len(key) <= 64 else quoted(key)}")
    elif isinstance(kind, inspect.VarTupleType):
        for number, item in enumerate(_expect(value, list, where, "a list"), 1):
            check_shape(item, kind.item_type, f"{where} entry {number}")
    elif isinstance(kind, inspect.EnumType):
        choices = [member.value for member in kind.cls]
        if value not in choices:
            raise ProfileError(f"{where} is {_shown(value)}, must be one of {', '.join(map(repr, choices))}")
    elif isinstance(kind, inspect.BoolType):
        _expect(value, bool, where, "true or false")
    elif isinstance(kind, inspect.IntType):
        _expect(value, int, where, "a whole number")
    elif isinstance(kind, inspect.FloatType):
        number = _expect(value, (int, float), where, "a number")
        if isinstance(number, int) and number.bit_length() > MAX_INT_BITS:
            raise ProfileError(f"{where} is about 1e{len(str(abs(number))) - 1}, too large a number")
    else:
        _expect(value, str, where, "text in quotes")


def _check_table(value: object, kind: inspect.StructType, where: str) -> None:
    table = _expect(value, dict, where, "a table")
    fields = {field.encode_name: field for field in kind.fields}
    place = f"{where}: " if where else ""
    prefix = "" if not where else f"{where}, " if " entry " in where else f"{where}."
    for key in table:
        if key not in fields:
            raise ProfileError(f"{place}unknown key {quoted(key)}{suggestion(key, fields)}")
    for name, field in fields.items():
        if name in table:
            check_shape(table[name], field.type, prefix + name)
        elif field.required:
            raise ProfileError(f"{place}required key {name!r} is missing")


def _expect(value: Any, types: type | tuple[type, ...], where: str, wanted: str) -> Any:
    if not isinstance(value, types) or (isinstance(value, bool) and types is not bool):
        raise ProfileError(f"{where} is {_shown(value)}, must be {wanted}")
    return value


def _shown(value: object) -> str:
    """A value from the file, short enough for a message."""
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, bool):
        return str(value).lower()
    try:
        return str(value)
    except ValueError:  # an integer too long to print
        return "a huge number"
