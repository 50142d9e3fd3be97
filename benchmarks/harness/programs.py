"""The programs that the demo, the tests and the comparisons run, and how they are built.

The sources are in `programs/`. Those in C, C++ and Fortran are built with `-O2 -g`, either as a distribution would (a
dynamic, position-independent executable), or static and at a fixed address, so that every tool sees the same addresses.
"""

from __future__ import annotations

import enum
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from foretrace.base.errors import EngineError

SOURCES = Path(__file__).parents[1] / "programs"


@dataclass(frozen=True, slots=True)
class Language:
    """Compilers and options for programs of a language. `shared` is the source that all of them need."""

    suffix: str
    compilers: tuple[str, ...]
    package: str
    options: tuple[str, ...]
    shared: str
    libraries: tuple[str, ...] = ()


LANGUAGES = {
    language.suffix: language
    for language in (
        Language(".c", ("gcc", "cc"), "gcc", ("-std=c11",), "program.h", ("-lm",)),
        Language(".cpp", ("g++", "c++"), "g++", ("-std=c++17",), "program.h"),
        Language(".f90", ("gfortran",), "gfortran", ("-std=f2018",), "program.f90"),
    )
}
"""By suffix of the source."""


def compiled_programs() -> dict[str, Path]:
    """Source of each program that `build` builds, by its name."""
    shared = {language.shared for language in LANGUAGES.values()}
    sources = (path for path in sorted(SOURCES.iterdir()) if path.suffix in LANGUAGES and path.name not in shared)
    return {path.stem: path for path in sources}


def offload_programs() -> dict[str, Path]:
    """Source of each program in `programs/offload`, by its name: kernels that others published GPU timings of."""
    return {path.stem: path for path in sorted((SOURCES / "offload").glob("*.c"))}


class Linking(enum.Enum):
    """Kind of linking of an executable; the value is the compiler's options for it."""

    DYNAMIC = ("-fPIE", "-pie")
    FIXED = ("-static", "-no-pie", "-fno-pie")


def compiler_for(source: str, language: Language) -> str:
    """Path of the first compiler of a language that there is.

    Raises:
        EngineError: there is none; `source` is what needs it.
    """
    compiler = next(filter(None, map(shutil.which, language.compilers)), None)
    if compiler is None:
        raise EngineError(
            f"{source} needs a compiler, {' or '.join(language.compilers)}, and none is on PATH: "
            f"install one, on Debian and Ubuntu with: apt install {language.package}"
        )
    return compiler


def build(name: str, directory: Path, linking: Linking = Linking.DYNAMIC) -> Path:
    """Compile one of `compiled_programs` or `offload_programs` into `directory`, unless it is there and newer.

    The same compiler makes the same executable anywhere: no path of this machine is in it.

    Returns:
        The executable.

    Raises:
        EngineError: there is no compiler of its language, or it fails.
    """
    source = (compiled_programs() | offload_programs())[name]
    language = LANGUAGES[source.suffix]
    compiler = compiler_for(source.name, language)
    executable = directory / (name if linking is Linking.DYNAMIC else f"{name}-fixed")
    shared = SOURCES / language.shared
    newest = max(path.stat().st_mtime for path in (source, shared))
    if executable.exists() and executable.stat().st_mtime > newest:
        return executable
    directory.mkdir(parents=True, exist_ok=True)
    sources = [source.name] if shared.suffix == ".h" else [shared.name, source.name]
    options = [*language.options, "-O2", "-g", "-Wall", *linking.value]
    with tempfile.TemporaryDirectory(dir=directory) as scratch:  # for what a compiler leaves beside its sources, too
        for path in (source, shared):
            shutil.copy(path, scratch)
        no_path = f"-ffile-prefix-map={Path(scratch).resolve()}=."
        command = [compiler, *options, no_path, "-o", executable.absolute(), *sources, *language.libraries]
        result = subprocess.run(command, cwd=scratch, capture_output=True, text=True, check=False)
    if result.returncode:
        raise EngineError(f"{source}: {compiler} failed with: {result.stderr.strip()}")
    return executable


def make_text(size_kib: int, directory: Path) -> Path:
    """Generate prose of `size_kib` KiB in `directory`, unless it is there. Returns the file."""
    text = directory / f"text-{size_kib}.txt"
    if not text.exists():
        directory.mkdir(parents=True, exist_ok=True)
        unfinished = text.with_suffix(".unfinished")
        with unfinished.open("wb") as output:
            subprocess.run([sys.executable, SOURCES / "make_text.py", str(size_kib)], stdout=output, check=True)
        unfinished.rename(text)
    return text


@dataclass(frozen=True, slots=True)
class Workload:
    """A command to trace. Its standard output is of no interest.

    `start_up` is the same program with nothing to do, where its start differs from tool to tool: the dynamic loader
    chooses string functions by the CPU that the tool shows it, and cachegrind has it load a library of its own.
    """

    name: str
    command: tuple[str, ...]
    start_up: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class _Sizes:
    """Arguments of the five workloads; `text_kib` is the size of gzip's input."""

    spmv: Sequence[int]
    triad: Sequence[int]
    updates: Sequence[int]
    mergesort: Sequence[int]
    text_kib: int


_FULL = _Sizes(
    spmv=(50_000, 16, 80), triad=(1_000_000, 86), updates=(64, 28_000_000), mergesort=(2_000_000,), text_kib=5500
)
_QUICK = _Sizes(spmv=(20_000, 16, 5), triad=(200_000, 8), updates=(64, 200_000), mergesort=(400_000,), text_kib=64)


_FURTHER = {
    "lu": (("360", "37"), ("500", "37")),
    "stencil2d": (("401", "307", "7"), ("1531", "1187", "10")),
    "fft": (("54000", "1"), ("162000", "4")),
    "multigrid": (("17", "5", "3"), ("17", "7", "4")),
    "heat3d": (("53", "47", "41", "3"), ("143", "127", "109", "5")),
    "kmeans": (("41000", "7", "2"), ("71000", "29", "4")),
}
"""Arguments, quick and in full size."""


def further_workloads(directory: Path, *, quick: bool = False) -> list[Workload]:
    """Six more with a single thread, in C, C++ and Fortran, built at a fixed address.

    LU factorisation, a 2-D and a 3-D stencil, FFT, multigrid and k-means clustering. In full size each makes 40 to 250
    million memory accesses, quick ones 2 to 20 million.

    Raises:
        EngineError: a compiler is missing.
    """
    return [
        Workload(name, (str(build(name, directory, Linking.FIXED)), *sizes[not quick]))
        for name, sizes in _FURTHER.items()
    ]


def five_workloads(directory: Path, *, quick: bool = False) -> list[Workload]:
    """Sparse matrix-vector product, STREAM triad, random updates of 64 MiB, merge sort and `gzip -6`.

    The first four are built at a fixed address. In full size each makes 65 to 350 million memory accesses, quick ones
    2 to 20 million.

    Raises:
        EngineError: there is no C compiler, or no gzip.
    """
    sizes = _QUICK if quick else _FULL
    gzip = shutil.which("gzip")
    if gzip is None:
        raise EngineError("no gzip on PATH: install it, on Debian and Ubuntu with: apt install gzip")
    arguments = {name: getattr(sizes, name) for name in ("spmv", "triad", "updates", "mergesort")}
    workloads = [
        Workload(name, (str(build(name, directory, Linking.FIXED)), *map(str, numbers)))
        for name, numbers in arguments.items()
    ]
    text = make_text(sizes.text_kib, directory)
    nothing = directory / "empty.txt"
    nothing.touch()
    compress = (gzip, "-6", "-c")
    return [*workloads, Workload("gzip -6", (*compress, str(text)), start_up=(*compress, str(nothing)))]
