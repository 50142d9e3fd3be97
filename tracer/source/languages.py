"""Languages by file name, and the front end of each."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from pathlib import Path

from foretrace.base.errors import SourceError

from .form.records import Language, Unit

SUFFIXES = {
    ".c": Language.C,
    **dict.fromkeys((".cc", ".cpp", ".cxx", ".c++", ".cu", ".hip", ".hh", ".hpp", ".hxx"), Language.CXX),
    **dict.fromkeys((".f", ".for", ".ftn", ".f77", ".f90", ".f95", ".f03", ".f08", ".f18"), Language.FORTRAN),
    ".py": Language.PYTHON,
}  # fmt: skip
"""Languages by suffix, in lower case: `.F90` is `.f90`. `.C` is C++; headers `.h` are read where they are included."""

HEADER_SUFFIXES = frozenset({".h", ".inc", ".inl", ".ipp", ".tcc", ".tpp", ".cuh", ".def", ".fi", ".fh"})
"""Files that are read where they are included, in lower case."""

_C_FRONT_END = "foretrace.tracer.source.c_code.lowering"
_FRONT_ENDS = {
    Language.C: _C_FRONT_END,
    Language.CXX: _C_FRONT_END,
    Language.FORTRAN: "foretrace.tracer.source.fortran_code.lowering",
    Language.PYTHON: "foretrace.tracer.source.python_code.files",
}


class MissingPackageError(SourceError):
    """The package that reads a language is not installed."""


def language_of(path: Path) -> Language | None:
    """The language of a file, by its name; None: none that is read."""
    if path.suffix == ".C":
        return Language.CXX
    return SUFFIXES.get(path.suffix.lower())


def lower(path: Path, roots: tuple[Path, ...] = (), defines: Sequence[str] = (), undefines: Sequence[str] = ()) -> Unit:
    """A file's form.

    Args:
        path: of the file.
        roots: folders below which headers of C and C++ are searched, besides the file's project.
        defines: symbols of the preprocessor, `NAME` or `NAME=value`.
        undefines: names of symbols that are assumed otherwise.

    Raises:
        SourceError: the file cannot be read, or the package that reads its language is not installed.
    """
    language = language_of(path)
    if language is None:
        raise SourceError(f"{path}: no source of C, C++, Fortran or Python, by its name")
    try:
        module = importlib.import_module(_FRONT_ENDS[language])
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("foretrace"):
            raise
        raise MissingPackageError(
            f"{path}: reading {language} needs {error.name}; install it with: pip install 'foretrace[source]'"
        ) from None
    if _FRONT_ENDS[language] == _C_FRONT_END:
        options = module.Options(roots=roots, defines=tuple(defines), undefines=tuple(undefines))
        unit: Unit = module.lower_file(path, options)
        return unit
    if language is Language.FORTRAN:
        symbols = {name: value or "1" for name, _, value in (one.partition("=") for one in defines)}
        symbols = {name: value for name, value in symbols.items() if name not in undefines}
        in_fortran: Callable[[Path, dict[str, str]], Unit] = module.lower_file
        return in_fortran(path, symbols)
    front_end: Callable[[Path], Unit] = module.lower_file
    return front_end(path)
