"""The library that parses C and C++: libclang, from the package of that name."""

from __future__ import annotations

from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from foretrace.base.errors import SourceError

from . import _syntax


@lru_cache(maxsize=1)
def bind_libclang() -> Path:
    """Loads libclang into this process, once, and returns where it is.

    Raises:
        SourceError: it is not installed, or too old.
    """
    found = find_spec("clang")
    folders = [Path(folder) / "native" for folder in found.submodule_search_locations or ()] if found else []
    for folder in folders:
        for name in ("libclang.so", "libclang.dylib"):
            library = folder / name
            if library.is_file():
                try:
                    _syntax.bind(str(library))
                except ImportError as error:
                    raise SourceError(f"{library} is no libclang 18 or later: {error}") from error
                return library
    raise SourceError("Reading C and C++ needs libclang: install it with pip install 'foretrace[source]'")
