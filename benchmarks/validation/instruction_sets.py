"""Effect of the instruction set on a program's signature: the same sources compiled for several, each traced.

Each figure is relative to x86-64's: the table of docs/instruction-sets.md. Targets without a cross compiler
are left out.
"""

from __future__ import annotations

import argparse
import platform
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from foretrace.benchmarks.harness import programs, tools
from foretrace.benchmarks.harness.results import Part, ResultTable, growing

TARGETS = ("x86_64", "aarch64", "riscv64")
ARGUMENTS = {
    "spmv": (2000, 16, 5), "triad": (20_000, 5), "cg": (500, 5), "mergesort": (20_000,), "updates": (1, 20_000),
    "sgbench": (65_536,),
}  # fmt: skip
_FIGURES = ("instructions", "loads", "stores", "load_bytes", "store_bytes", "flops", "d1", "ll")


def compiler_for(target: str) -> str | None:
    """A C compiler that makes programs for an architecture, named as by QEMU; None if there is none."""
    return shutil.which("gcc" if target == platform.machine() else f"{target}-linux-gnu-gcc")


def figures(name: str, target: str, optimisation: str, compiler: str, directory: Path) -> dict[str, int]:
    """Totals of a program's run, and its misses in the two levels of `tools.HIERARCHY`.

    Raises:
        EngineError: it cannot be compiled or traced.
    """
    program, signature = directory / f"{name}-{target}", directory / "traced.sig"
    source = programs.SOURCES / f"{name}.c"
    flags = ("-std=c11", optimisation, "-g", "-static", "-o", str(program), str(source), "-lm")
    tools.measure([compiler, *flags])
    tools.measure(tools.trace_command([str(program), *map(str, ARGUMENTS[name])], signature))
    totals: dict[str, int] = tools.foretrace_json("info", str(signature))["totals"]
    misses = tools.simulated_misses(signature)
    return totals | {"d1": misses.d1, "ll": misses.ll}


def rows(
    optimisations: Sequence[str], directory: Path, names: Sequence[str] = tuple(ARGUMENTS)
) -> Iterator[tuple[str, ...]]:
    """Program, options, target and the figures relative to those of x86-64."""
    compilers = {target: path for target in TARGETS if (path := compiler_for(target))}
    for name in names:
        for optimisation in optimisations:
            found = {t: figures(name, t, optimisation, compiler, directory) for t, compiler in compilers.items()}
            reference = found.get("x86_64")
            if reference is None:
                continue
            for target, values in found.items():
                ratios = [f"{values[key] / reference[key]:.2f}" if reference[key] else "-" for key in _FIGURES]
                yield name, optimisation, target, f"{values['instructions']:,}", *ratios


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of the benchmark."""
    parser.add_argument("--optimisation", action="append", metavar="FLAG", help="default: -O2 and -O3")


def run(options: argparse.Namespace, scratch: Path) -> Iterator[Part]:
    """The table."""
    left = ("program", "options", "target")
    for found in growing(rows(options.optimisation or ("-O2", "-O3"), scratch)):
        yield ResultTable("totals over those of x86-64", (*left, "executed", *_FIGURES), found, left=left)
