"""Miss ratios worked out from one trace, beside those of the direct simulation.

Each program runs once. In that run every geometry is simulated directly, and reuse distances are sampled: the latter
are what `foretrace curve` and `foretrace predict` work out the misses of any cache from.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from foretrace.benchmarks.harness import options as common
from foretrace.benchmarks.harness import programs, tools
from foretrace.benchmarks.harness.programs import Linking, Workload
from foretrace.benchmarks.harness.results import Part, ResultTable, say

GEOMETRIES = tuple(
    """
    4K/1/32 4K/1/64 4K/2/64 4K/4/128 4K/64/64 8K/1/64 8K/2/32 8K/4/256 16K/4/64 16K/128/128 24K/6/64
    32K/1/64 32K/2/32 32K/8/64 32K/8/128 48K/12/64 64K/1/256 64K/2/64 64K/1024/64 96K/3/64 128K/1/64 128K/4/32
    256K/1/64 256K/8/64 512K/2/128 512K/16/64 1M/1/64 1M/16/64 1280K/20/64 2M/8/128
    3M/12/64 4M/16/64 4M/16384/256 8M/16/64 12M/12/64 15M/20/64 16M/1/64 30M/20/64 32M/16/64 64M/1/128
    64M/16/64
    """.split()  # noqa: SIM905
)
"""SIZE/WAYS/LINE, from 4 KB to 64 MB and from direct-mapped to fully associative."""

BEHIND = "L1=32K/8/64,LL=1M/16/64"
"""A level behind another one, which the model takes to see every access."""
ALONE = "1M/16/64"

_PATTERNS = (
    *(
        ("columns", "1024", "10"),
        ("transpose", "1000", "6"),
        ("product", "192", "192"),
        ("blocked-product", "192", "32"),
    ),
    *(("fft", "65536", "3"), ("stencil", "500", "10"), ("hash", "400000", "16"), ("zipf", "400000", "8")),
    *(("list", "100000", "50"), ("heap-sort", "200000", "1"), ("tree", "60000", "4")),
)
_PROGRAMS = (
    *(("cg", "120", "30"), ("spmv", "50000", "16", "5"), ("triad", "400000", "12"), ("updates", "64", "2000000")),
    *(("mergesort", "250000"), ("sgbench", "8388608", "random", "8", "4")),
)
_COUNT_WORDS = "{for(i=1;i<=NF;i++)c[$i]++} END{for(w in c)print c[w],w}"
_JOIN = (
    "create table t(a integer primary key,b); with recursive n(i) as (select 1 union all select i+1 from n where "
    "i<40000) insert into t select i,(i*7919)%10007 from n; create index j on t(b); "
    "select sum(x.a) from t x join t y on x.b=y.a;"
)


def workloads(directory: Path, *, quick: bool) -> list[Workload]:
    """The programs, built or found; those of the system only where they are installed.

    Raises:
        EngineError: there is no C compiler.
    """
    patterns = str(programs.build("patterns", directory, Linking.FIXED))
    found = [Workload(name, (patterns, name, size, repetitions)) for name, size, repetitions in _PATTERNS]
    for name, *arguments in _PROGRAMS:
        found.append(Workload(name, (str(programs.build(name, directory, Linking.FIXED)), *arguments)))
    text = str(programs.make_text(600, directory))
    for name, *arguments in (
        ("gzip", "-6", "-c", text), ("awk", _COUNT_WORDS, text), ("sort", text), ("sqlite3", ":memory:", _JOIN),
    ):  # fmt: skip
        if path := shutil.which(name):
            found.append(Workload(name, (path, *arguments)))
    return found[:2] if quick else found


@dataclass(frozen=True, slots=True)
class Comparison:
    """One program; ratios to all accesses, by geometry."""

    program: str
    accesses: int
    burst_share: float
    sampling_rate: float
    simulated: dict[str, float]
    estimated: dict[str, float]
    standard_error: dict[str, float]
    behind_minus_alone: float

    @property
    def errors(self) -> dict[str, float]:
        """Estimated less simulated, by geometry."""
        return {geometry: self.estimated[geometry] - value for geometry, value in self.simulated.items()}

    @property
    def covered(self) -> float:
        """Share of the geometries whose error is within twice the stated standard error, or a tenth of a point."""
        within = [abs(e) <= max(2 * self.standard_error[g], 0.001) for g, e in self.errors.items()]
        return sum(within) / len(within)


def compare(workload: Workload, geometries: Sequence[str], directory: Path) -> Comparison:
    """Trace a program and work its miss ratios out in both ways.

    Raises:
        EngineError: it cannot be traced.
    """
    signature = directory / "program.sig"
    hierarchies = [part for g in geometries for part in ("--hierarchy", f"cache={g}")]
    command = [tools.foretrace_executable(), "trace", "-o", str(signature), "--force", *hierarchies]
    tools.measure([*command, "--hierarchy", BEHIND, "--", *workload.command])
    info = tools.foretrace_json("info", str(signature))
    accesses = info["totals"]["loads"] + info["totals"]["stores"]
    last = [hierarchy["levels"][-1]["misses"] / accesses for hierarchy in info["hierarchies"]]
    simulated = dict(zip(geometries, last[:-1], strict=True))
    caches = [part for g in geometries for part in ("--cache", g)]
    curve = tools.foretrace_json("curve", str(signature), *caches)
    rows = dict(zip(geometries, curve["caches"], strict=True))
    return Comparison(
        program=workload.name,
        accesses=accesses,
        burst_share=curve["reuse"]["burst_share"],
        sampling_rate=curve["reuse"]["sampling_rate"],
        simulated=simulated,
        estimated={geometry: row["miss_ratio"] for geometry, row in rows.items()},
        standard_error={geometry: row["standard_error"] for geometry, row in rows.items()},
        behind_minus_alone=last[-1] - simulated[ALONE],
    )


_PROGRAM_HEADINGS = (
    "program", "M accesses", "in bursts", "classes", "mean error", "worst error", "at", "estimated", "simulated",
    "within 2 s.e.", "behind L1",
)  # fmt: skip


def program_rows(comparisons: Sequence[Comparison]) -> list[list[str]]:
    """A row for each program, and one for all. Errors in percentage points."""
    rows = []
    for comparison in comparisons:
        errors = comparison.errors
        worst = max(errors, key=lambda geometry: abs(errors[geometry]))
        rows.append([
            comparison.program, f"{comparison.accesses / 1e6:.1f}", f"{comparison.burst_share:.1%}",
            f"1/{1 / comparison.sampling_rate:.0f}", f"{100 * np.mean(np.abs(list(errors.values()))):.2f}",
            f"{100 * errors[worst]:+.2f}", worst, f"{100 * comparison.estimated[worst]:.1f}",
            f"{100 * comparison.simulated[worst]:.1f}", f"{comparison.covered:.0%}",
            f"{100 * comparison.behind_minus_alone:+.2f}",
        ])  # fmt: skip
    table = _error_table(comparisons)
    largest = float(table.flat[np.abs(table).argmax()])
    covered = float(np.mean([comparison.covered for comparison in comparisons]))
    mean = f"{np.abs(table).mean():.2f}"
    rows.append(["all", "", "", "", mean, f"{largest:+.2f}", "", "", "", f"{covered:.0%}", ""])
    return rows


def _error_table(comparisons: Sequence[Comparison]) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """[programs, geometries], percentage points."""
    return 100 * np.array([list(comparison.errors.values()) for comparison in comparisons])


def geometry_rows(comparisons: Sequence[Comparison]) -> list[list[str]]:
    """A row for each geometry: the mean error over the programs, and the worst."""
    table = _error_table(comparisons)
    rows = []
    for geometry, column in zip(comparisons[0].simulated, table.T, strict=True):
        worst = int(np.abs(column).argmax())
        mean = f"{np.abs(column).mean():.2f}"
        rows.append([geometry, mean, f"{column[worst]:+.2f}", comparisons[worst].program])
    return rows


def program_table(comparisons: Sequence[Comparison]) -> ResultTable:
    """Errors by program, and all miss ratios in JSON."""
    title = "errors of miss ratios, percentage points, by program"
    return ResultTable(
        title, _PROGRAM_HEADINGS, program_rows(comparisons), [asdict(comparison) for comparison in comparisons]
    )


def geometry_table(comparisons: Sequence[Comparison]) -> ResultTable:
    """Errors by cache."""
    headings = ("cache", "mean error", "worst error", "of")
    return ResultTable("errors of miss ratios, percentage points, by cache", headings, geometry_rows(comparisons))


def document(comparisons: Sequence[Comparison]) -> str:
    """The page docs/miss-rates.md."""
    table = np.abs(_error_table(comparisons))
    return f"""# Miss ratios from one trace, beside the direct simulation

Written by `make curves ARGS="--document docs/miss-rates.md"`; docs/model.md says how the estimates come about. Of
{len(comparisons)} programs and {table.shape[1]} caches (size/ways/line size), {table.size} pairs: {table.mean():.2f} \
percentage points of error on
average, {table.max():.2f} at worst, {np.mean(table <= 1):.1%} of them within 1 and {np.mean(table <= 3):.1%} within 3.

Errors are estimated less simulated, in percentage points of the accesses. "In bursts" is the share of the accesses that
bursts looked at, "classes" the share of the memory that was followed. "Within 2 s.e." is the share of the caches for
which the error is within twice the standard error that `curve` states, or a tenth of a point. "Behind L1" is what the
model leaves out: how many more (or fewer) accesses miss {ALONE} behind a first level of 32K/8/64 than alone, both
simulated.

{program_table(comparisons).as_markdown()}

{geometry_table(comparisons).as_markdown()}
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of the benchmark."""
    common.quick(parser, "two programs and few caches: seconds instead of minutes")
    parser.add_argument("--document", type=Path, help="write the tables as a Markdown page, too")


def run(options: argparse.Namespace, scratch: Path) -> Iterator[Part]:
    """Both tables."""
    geometries = tuple(dict.fromkeys((*GEOMETRIES[::9], ALONE))) if options.quick else GEOMETRIES
    comparisons: list[Comparison] = []
    for workload in workloads(scratch, quick=options.quick):
        say(workload.name)
        comparisons.append(compare(workload, geometries, scratch))
        yield program_table(comparisons)
    yield geometry_table(comparisons)
    if options.document:
        options.document.write_text(document(comparisons))
