"""The machine profiles that come with foretrace, and finding one by name or by path."""

from __future__ import annotations

import functools
import os
from pathlib import Path

from foretrace.base.errors import ProfileError

from .checks import suggestion
from .profile import Profile
from .profile_file import parse_named, read_profile
from .shipped_files import ShippedFiles

_MACHINES = ShippedFiles("machines")


def names() -> tuple[str, ...]:
    """Names of the machines that come with foretrace, sorted."""
    return _MACHINES.names()


def find(name_or_path: str) -> Profile:
    """A machine that comes with foretrace, by name; or the profile in a TOML file, by path.

    Raises:
        ProfileError: there is none of that name, or the file is not a profile.
    """
    if name_or_path in names():
        return _shipped(name_or_path)
    path = Path(name_or_path)
    if os.sep in name_or_path or path.suffix == ".toml" or path.is_file():
        return read_profile(path)
    raise ProfileError(
        f"{name_or_path!r} is neither a known machine nor a file{suggestion(name_or_path, names())} "
        "(`foretrace machines` lists them)"
    )


def content(name_or_path: str) -> bytes:
    """The file of a machine that `find` finds.

    Raises:
        OSError: it cannot be read.
    """
    return _MACHINES.content(name_or_path) if name_or_path in names() else Path(name_or_path).read_bytes()


@functools.cache
def _shipped(name: str) -> Profile:
    return parse_named(f"{name}.toml", content(name))
