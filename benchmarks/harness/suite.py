"""The programs that predictions are validated with: ours, from kernels to small applications, and some of the system.

Sizes are not round, so that no cache or page boundary is met by accident. A program's own default sizes are the full
ones, at which it takes 0.2 to 2 s on a present machine; small ones take milliseconds and are for tests.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from foretrace.base.errors import EngineError

from . import programs


class Program(Protocol):
    """A program to run, trace and predict."""

    @property
    def name(self) -> str:
        """Name that it is chosen by."""

    @property
    def title(self) -> str:
        """Description of its work."""

    @property
    def language(self) -> str:
        """Language that it is written in."""

    @property
    def imports(self) -> tuple[str, ...]:
        """Packages that a Python program imports, whose loading is no part of its signature."""

    def command(self, directory: Path, *, small: bool = False) -> tuple[str, ...]:
        """The command that runs it natively; what it needs is made in `directory`.

        Raises:
            EngineError: it cannot be compiled, or is not installed.
        """

    @property
    def is_python(self) -> bool:
        """Whether Python runs it."""

    def start_up(self) -> tuple[str, ...] | None:
        """For a Python program, the command that only starts Python and imports what it imports."""


@dataclass(frozen=True, slots=True)
class SuiteProgram:
    """A program of ours. `full` is empty for its default sizes; `file` is its source's name where that is another."""

    name: str
    title: str
    small: tuple[str, ...]
    full: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()
    file: str = ""

    @property
    def source(self) -> Path:
        """Its source file."""
        return next(path for path in programs.SOURCES.glob(f"{self.file or self.name}.*") if path.suffix in _SUFFIXES)

    @property
    def language(self) -> str:
        """Language, as its file name ends."""
        return self.source.suffix.removeprefix(".")

    @property
    def is_python(self) -> bool:
        """Whether it is written in Python; see `Program`."""
        return self.language == "py"

    def command(self, directory: Path, *, small: bool = False) -> tuple[str, ...]:
        """Command that runs it, built if it needs to be; see `Program`."""
        arguments = self.small if small else self.full
        if self.is_python:
            return sys.executable, str(self.source), *arguments
        return str(programs.build(self.file or self.name, directory)), *arguments

    def start_up(self) -> tuple[str, ...] | None:
        """Command of the start-up alone; see `Program`."""
        if not self.is_python:
            return None
        return sys.executable, "-c", f"import {', '.join(('sys', *self.imports))}"


INSTALLED_LANGUAGE = "binary"
"""Language of programs of which there is no source."""


@dataclass(frozen=True, slots=True)
class InstalledProgram:
    """A program of the system, as its distribution built it: it works on a generated text of `text_kib` KiB."""

    name: str
    title: str
    arguments: tuple[str, ...]
    text_kib: int
    language: str = INSTALLED_LANGUAGE
    imports: tuple[str, ...] = ()
    is_python: bool = False

    def command(self, directory: Path, *, small: bool = False) -> tuple[str, ...]:
        """Command that runs it; see `Program`."""
        executable = shutil.which(self.name)
        if executable is None:
            raise EngineError(f"{self.name} is not on PATH")
        text = programs.make_text(_SMALL_TEXT_KIB if small else self.text_kib, directory)
        return executable, *self.arguments, str(text)

    def start_up(self) -> None:
        """No start-up is taken off; see `Program`."""
        return


_SUFFIXES = (*programs.LANGUAGES, ".py")
_SMALL_TEXT_KIB = 16
_COUNT_IN_AWK = "{for(i=1;i<=NF;i++)count[$i]++}END{for(word in count)if(count[word]>most)most=count[word];print most}"
_COUNT_IN_PERL = "for (split) { $count{lc $_}++ } END { print scalar(keys %count) }"

_FIRST = (
    # C
    SuiteProgram("bfs", "breadth-first search, power-law graph", ("700", "5", "3")),
    SuiteProgram("cg", "conjugate gradients, unstructured mesh", ("500", "9"), full=("131000", "15")),
    SuiteProgram("compress", "LZ77 and range coder, there and back", ("20011",)),
    SuiteProgram("fft", "fast Fourier transform, radix 2, 3, 5", ("1620", "2")),
    SuiteProgram("hash_join", "hash join of two tables", ("700", "6100")),
    SuiteProgram("histogram", "histogram equalisation", ("61", "43", "3")),
    SuiteProgram("interpreter", "interpreter of a register machine", ("901",)),
    SuiteProgram("lattice_boltzmann", "lattice Boltzmann flow", ("47", "31", "9")),
    SuiteProgram("lu", "dense LU factorisation", ("91", "13")),
    SuiteProgram("mandelbrot", "Mandelbrot set", ("31", "23", "100")),
    SuiteProgram("mergesort", "merge sort", ("1000",), full=("3100000",)),
    SuiteProgram("multigrid", "multigrid, Poisson's equation", ("3", "4", "5")),
    SuiteProgram("nbody", "n-body, all pairs", ("43", "3")),
    SuiteProgram("photons", "Monte Carlo photon transport", ("301",)),
    SuiteProgram("queens", "backtracking search", ("8",)),
    SuiteProgram("quicksort", "quicksort of records", ("3001",)),
    SuiteProgram("sha256", "SHA-256", ("100", "3")),
    SuiteProgram("smith_waterman", "local sequence alignment", ("211", "197")),
    SuiteProgram("spmm", "sparse matrix times block of vectors", ("301", "7", "5", "2")),
    SuiteProgram("spmv", "sparse matrix times vector", ("500", "8", "2"), full=("53000", "17", "270")),
    SuiteProgram("stencil2d", "wave equation, 2-D stencil", ("61", "43", "9")),
    SuiteProgram("triad", "STREAM triad", ("1000", "2"), full=("1030000", "370")),
    SuiteProgram("updates", "random updates", ("1", "1000"), full=("64", "31000000")),
    # C++
    SuiteProgram("euler", "Euler's equations, unstructured mesh", ("13", "7")),
    SuiteProgram("json", "JSON parser", ("97", "2")),
    SuiteProgram("kmeans", "k-means clustering", ("701", "7", "5")),
    SuiteProgram("molecules", "molecular dynamics, neighbour lists", ("7", "13")),
    SuiteProgram("ordered_map", "balanced tree", ("701", "907")),
    SuiteProgram("shortest_paths", "Dijkstra's algorithm, binary heap", ("31", "23", "3")),
    SuiteProgram("word_count", "hash table of words", ("5003", "307")),
    # Fortran
    SuiteProgram("heat3d", "heat equation, 3-D stencil", ("23", "19", "17", "6")),
    SuiteProgram("matrix_product", "dense matrix product, blocked", ("71", "13")),
    SuiteProgram("particles", "particle in cell", ("701", "13", "5")),
    SuiteProgram("shallow_water", "shallow-water equations", ("41", "37", "11")),
    SuiteProgram("speckle", "anisotropic diffusion of an image", ("53", "41", "5")),
    # Python
    SuiteProgram("edit_distance", "edit distance, lists", ("23",)),
    SuiteProgram("gray_scott", "reaction and diffusion, NumPy", ("67", "11"), imports=("numpy",)),
    SuiteProgram("orbits", "n-body, Python numbers", ("7", "101")),
    SuiteProgram(
        "pagerank", "PageRank, SciPy", ("2000", "5"), full=("230000", "11"), imports=("numpy", "scipy.sparse")
    ),
    SuiteProgram("rotation", "turning a picture, NumPy gathers", ("61", "3"), imports=("numpy",)),
    SuiteProgram("word_index", "index of a text, strings and dictionaries", ("101",)),
)
_LATER = (
    # C
    SuiteProgram("all_pairs", "shortest paths between all pairs", ("41",)),
    SuiteProgram("knapsack", "knapsack, dynamic programming", ("31", "1009")),
    SuiteProgram("union_find", "connected components, disjoint sets", ("601", "500")),
    # Python
    SuiteProgram("ledger", "accounts, JSON and text", ("101",), imports=("json", "re")),
    SuiteProgram("scheduler", "workshop, objects and a heap", ("301", "3"), imports=("heapq",)),
    SuiteProgram("spectrum", "tones in noise, NumPy transforms", ("10007", "7"), imports=("numpy",)),
)
"""Written when the model had been made."""
_AFTER_ERRORS = (
    # C
    SuiteProgram("advection", "field carried by a vortex, interpolated", ("31", "23", "5")),
    SuiteProgram("checksum", "cyclic redundancy check by a table", ("1009", "3")),
    SuiteProgram("radix_sort", "radix sort", ("5003", "2")),
    SuiteProgram("transpose", "transposed matrix", ("61", "3")),
    SuiteProgram("tree_search", "unbalanced search tree", ("501", "3001")),
)
"""Programs of kinds that were predicted 15 to 140 % wrong, and that the model was mended for."""


def _textbook(name: str, title: str, size: int) -> SuiteProgram:
    return SuiteProgram(name, title, (name, str(size), "2"), full=(name,), file="textbook")


_TEXTBOOK = (
    _textbook("atax", "matrix and its transpose times vector", 31),
    _textbook("column_sums", "sums of a matrix's columns", 31),
    _textbook("syrk", "symmetric rank-k update", 31),
    _textbook("cholesky", "Cholesky factorisation", 31),
    _textbook("gram_schmidt", "Gram-Schmidt orthogonalisation", 31),
    _textbook("forward_substitution", "triangular system", 31),
    _textbook("covariance", "covariance of a matrix's columns", 31),
    _textbook("durbin", "Toeplitz system, Durbin's recursion", 31),
    _textbook("seidel", "Gauss-Seidel, 2-D stencil in place", 31),
    _textbook("jacobi3d", "Jacobi, 3-D stencil", 13),
    _textbook("fdtd", "Maxwell's equations, 2-D", 31),
    _textbook("adi", "alternating directions, tridiagonal systems", 31),
    _textbook("convolve", "5 x 5 convolution", 31),
    _textbook("life", "game of life", 31),
    _textbook("fft2", "Fourier transform, powers of two", 64),
    _textbook("prefix_compact", "compaction and prefix sums", 701),
    _textbook("palindrome", "longest palindromic subsequence", 41),
    _textbook("sieve", "sieve of Eratosthenes", 1009),
    _textbook("heap_sort", "heap sort", 501),
    _textbook("bitonic_sort", "bitonic sorting network", 64),
)
"""Textbook kernels, written fresh and never looked at while modelling: their error is the one to expect of new code."""

SUITE = (*_FIRST, *_LATER, *_AFTER_ERRORS, *_TEXTBOOK)

INSTALLED = (
    InstalledProgram("gzip", "compressor, deflate", ("-c",), 5500),
    InstalledProgram("bzip2", "compressor, block sorting", ("-c",), 3000),
    InstalledProgram("xz", "compressor, LZMA", ("-1", "-T1", "-c"), 1200),
    InstalledProgram("sort", "sort lines of text", ("--parallel=1",), 20000),
    InstalledProgram("sed", "regular expression, replace", ("s/\\([aeiou]\\)\\([a-z]\\)/\\2\\1/g",), 900),
    InstalledProgram("awk", "interpreter, counting words", (_COUNT_IN_AWK,), 6000),
    InstalledProgram("perl", "interpreter, counting words", ("-ne", _COUNT_IN_PERL), 5000),
    InstalledProgram("od", "dump in hexadecimal", ("-A", "x", "-t", "x1z"), 900),
)
"""Sizes are for 0.2 to 0.4 s."""

HELD_OUT = tuple(program.name for program in (*_FIRST[2::3], *_LATER))
"""Every third of the first programs of ours, and all later ones. Whoever changes the model looks at the others' loops
only, so that the error of these tells what to expect of programs that nobody has looked at."""

TEXTBOOK = tuple(program.name for program in _TEXTBOOK)
"""No part of the model was made with them, and neither their loops nor their totals are looked at."""

HELD_BACK = frozenset((*HELD_OUT, *TEXTBOOK, *(program.name for program in INSTALLED)))
"""All programs that the model was not made with: their error is the one to expect, the interval comes from them, and a
sub-model that does not make it smaller is not kept."""

QUICK = ("cg", "mergesort", "stencil2d", "nbody", "shortest_paths", "shallow_water")
"""A few that are bound by different things, in three languages."""


def choose(names: str) -> tuple[Program, ...]:
    """The programs named, separated by commas, in the order of the suite, installed ones last; all for an empty text.

    Raises:
        EngineError: a name is not in the suite.
    """
    every: Sequence[Program] = (*SUITE, *INSTALLED)
    wanted = {name.strip() for name in names.split(",")} - {""}
    unknown = sorted(wanted - {program.name for program in every})
    if unknown:
        raise EngineError(
            f"{unknown[0]!r} is no program of the suite; these are: {', '.join(program.name for program in every)}"
        )
    return tuple(program for program in every if not wanted or program.name in wanted)
