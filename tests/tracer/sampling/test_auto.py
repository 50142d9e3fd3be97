"""`--accuracy auto`: a run is recorded whole up to a limit, and in bursts from there on."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import burst_schedule_reference
import msgspec
import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from traces import trace_binary, trace_python

from foretrace.cache_sim.base.hierarchy import Hierarchy
from foretrace.commands import trace
from foretrace.tracer.sampling.burst_schedule import AUTO_EXACT_CHUNKS, Accuracy, Schedule, schedule_of
from foretrace.tracer.session import options
from foretrace.tracer.signature.file import read_signature
from foretrace.tracer.signature.records import Signature
from foretrace.tracer.stored.stored_stream import StreamWriter

Compile = Callable[..., Path]

CACHES = (Hierarchy.parse("L1=4K/4/64,LL=64K/8/64", "small"),)
TREE = Path(__file__).resolve().parents[3]

PHASES = r"""
static double grid[128][128]; /* 128 KiB */
int main(void) {
    unsigned state = 1; double sum = 0;
    for (int round = 0; round < 80; round++) {
        for (int j = 0; j < 128; j++) for (int i = 0; i < 128; i++) sum += grid[i][j];
        for (int i = 0; i < 10000; i++) {
            state = state * 1664525 + 1013904223;
            grid[state >> 25][(state >> 18) & 127] += 1;
        }
        if (round > 40) for (int i = 0; i < 16384; i++) grid[0][i] = sum;
    }
    return sum < 0;
}"""

HARNESS = r"""
#include "tracer/qemu/bursts.h"
#include "tracer/transport/writer.h"
#include <stdio.h>
#include <stdlib.h>
static void (*written)(void);
static long chunks;
static bool asked;
void ft_writer_watch(void (*chunk_written)(void)) { written = chunk_written; }
void ft_writer_mark(enum ft_mark mark, bool all) { (void)all; printf("%ld %d\n", chunks, mark); }
static void reset(void) { asked = true; }
int main(int argc, char **argv) {
    struct ft_schedule s = {strtoull(argv[1], 0, 10), atoi(argv[2]), atoi(argv[3]), atoi(argv[4]), atoi(argv[5])};
    ft_bursts_begin(&s, reset);
    for (const char *event = argc > 6 ? argv[6] : ""; *event; event++) {
        if (*event == 'n') { ft_bursts_new_code(); continue; }
        if (*event == 't') { ft_bursts_thread_starts(); continue; }
        chunks++;
        written();
        if (asked) { asked = false; ft_bursts_change(); }
    }
    return 0;
}"""


@pytest.fixture
def early_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bursts begin after 120 chunks, and are short."""

    def schedule(accuracy: Accuracy, seed: int | None = None) -> Schedule | None:
        return None if accuracy is Accuracy.HIGH else Schedule(120, 8, 4, 4, seed or 0)

    monkeypatch.setattr(options, "schedule_of", schedule)


def _trace(program: Path, accuracy: Accuracy, seed: int = 1) -> Signature:
    return trace_binary([str(program)], CACHES, accuracy=accuracy, seed=seed).signature


@pytest.mark.usefixtures("early_limit")
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_misses_lie_within_the_interval_stated(seed: int, compile_c: Compile) -> None:
    program = compile_c(PHASES, "-O1", "-static")
    full, sampled = _trace(program, Accuracy.HIGH), _trace(program, Accuracy.AUTO, seed)
    sampling = sampled.provenance.sampling
    assert sampling is not None
    assert sampling.accuracy == "auto"
    assert sampling.exact_accesses > 100_000
    assert sampling.exact_accesses / (sampled.totals.loads + sampled.totals.stores) < sampling.recorded_share < 0.9
    assert sampled.totals == full.totals
    for level, known in zip(sampling.misses, full.hierarchies[0].misses.sum(axis=0).tolist(), strict=True):
        assert level.low <= known <= level.high
        assert level.misses == pytest.approx(known, rel=0.05)
        assert level.high - level.low < 0.5 * known


def test_a_run_below_the_limit_is_that_of_high(compile_c: Compile) -> None:
    program = compile_c(PHASES, "-O1", "-static")
    full, auto = _trace(program, Accuracy.HIGH), _trace(program, Accuracy.AUTO)
    assert auto.provenance.sampling is None
    assert _same(full, auto)
    assert (full.edges == auto.edges).all()
    for one, other in zip(full.hierarchies, auto.hierarchies, strict=True):
        assert (one.misses == other.misses).all()
    assert full.reuse is not None
    assert auto.reuse is not None
    for name in ("operation", "count", "errors"):
        assert np.array_equal(getattr(full.reuse, name), getattr(auto.reuse, name))


def _same(one: Signature, other: Signature) -> bool:
    return all(list(getattr(one, part)) == list(getattr(other, part)) for part in ("blocks", "operations", "loops"))


ARRAYS = """
import numpy as np
a, b = np.arange(50_000.0), np.ones(50_000)
indices = np.random.default_rng(1).integers(0, 50_000, 20_000)
table, total = np.zeros(100), 0.0
for step in range(80):
    c = a + b
    a = c * 0.5
    total += a[indices].sum()
    if step > 50:
        d = a.reshape(250, 200).T + 1
for i in range(20_000):
    total += table[i % 100]
"""


def _trace_python(script: Path, accuracy: Accuracy) -> Signature:
    script.write_text(ARRAYS)
    return trace_python(str(script), [], CACHES, accuracy=accuracy, seed=1).signature


@pytest.mark.usefixtures("early_limit")
def test_python_programs_go_over_to_bursts(tmp_path: Path) -> None:
    full, sampled = (_trace_python(tmp_path / "arrays.py", accuracy) for accuracy in (Accuracy.HIGH, Accuracy.AUTO))
    sampling = sampled.provenance.sampling
    assert sampling is not None
    assert sampling.accuracy == "auto"
    assert sampling.exact_accesses == pytest.approx(120 * 8192, abs=20_000)  # an operation with indices is not divided
    assert 0.1 < sampling.recorded_share < 0.8
    assert sampled.totals == full.totals
    assert _exact(sampled) == _exact(full)
    for level, known in zip(sampling.misses, full.hierarchies[0].misses.sum(axis=0).tolist(), strict=True):
        assert level.low - 0.01 * known <= known <= level.high + 0.01 * known  # two runs lie at other addresses
        assert level.misses == pytest.approx(known, rel=0.05)
    assert full.provenance.sampling is None
    points = {b.block_id: b.executions for b in full.blocks}
    assert all(op.executions == points[op.block_id] for op in full.operations if op.array_operation == "numpy.add")


def _exact(signature: Signature) -> tuple[object, ...]:
    """All that is the same however much was recorded. Compiled calls are there if they took a time worth naming."""
    compiled = {loop.loop_id for loop in signature.loops if loop.kind == "compiled"}
    operations = [(o.line, o.array_operation, o.is_store, o.executions, o.total_bytes) for o in signature.operations]
    blocks = [
        (b.line, b.function, b.executions, b.instructions, b.operations)
        for b in signature.blocks
        if b.loop_id not in compiled
    ]
    loops = [
        (loop.line, loop.module, loop.entries, loop.iterations)
        for loop in signature.loops
        if loop.loop_id not in compiled
    ]
    return operations, blocks, loops


@pytest.mark.parametrize("accuracy", ["low", "medium"])
def test_python_programs_have_every_accuracy(
    accuracy: str, tmp_path: Path, foretrace: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    (tmp_path / "arrays.py").write_text(
        "import numpy as np\na = np.zeros(2_000_000)\nfor _ in range(14):\n    a += 1\n"
    )
    result = foretrace("trace", "--accuracy", accuracy, "-o", tmp_path / "x.sig", tmp_path / "arrays.py")
    assert result.returncode == 0
    assert f"foretrace: accuracy {accuracy}: the first " in result.stderr
    sampling = read_signature(tmp_path / "x.sig").provenance.sampling
    assert sampling is not None
    assert sampling.accuracy == accuracy


def test_a_python_program_below_the_limit_is_recorded_whole(tmp_path: Path) -> None:
    full, auto = (_trace_python(tmp_path / "arrays.py", accuracy) for accuracy in (Accuracy.HIGH, Accuracy.AUTO))
    assert auto.provenance.sampling is None
    assert _exact(auto) == _exact(full)


@pytest.mark.usefixtures("early_limit")
def test_a_kept_stream_has_all_accesses(compile_c: Compile, tmp_path: Path) -> None:
    with StreamWriter(tmp_path / "kept", force=False) as keep:
        traced = trace_binary([str(compile_c(PHASES, "-O1", "-static"))], CACHES, keep=keep)
    assert traced.signature.provenance.sampling is None
    (tmp_path / "arrays.py").write_text(ARRAYS)
    with StreamWriter(tmp_path / "other", force=False) as keep:
        traced = trace_python(str(tmp_path / "arrays.py"), [], CACHES, keep=keep)
    assert traced.signature.provenance.sampling is None


@pytest.mark.usefixtures("early_limit")
def test_the_switch_is_said_in_one_line_and_kept(
    compile_c: Compile, tmp_path: Path, foretrace: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    signature = tmp_path / "x.sig"
    program = compile_c(PHASES, "-O1", "-static")
    result = CliRunner().invoke(trace.command, ["--seed", "1", "-o", str(signature), "--", str(program)])
    assert result.exit_code == 0, result.output
    (line,) = result.stderr.splitlines()
    sampling = read_signature(signature).provenance.sampling
    assert sampling is not None
    assert line.startswith("foretrace: accuracy auto: the first ")
    assert f"in {sampling.bursts} bursts" in line
    assert " L1 " in line
    assert line.endswith("(--accuracy high records all)")
    shown = foretrace("info", signature).stdout
    assert "accuracy      auto: " in shown
    document = msgspec.json.decode(foretrace("info", signature, "--json").stdout)
    assert document["provenance"]["sampling"]["exact_accesses"] == sampling.exact_accesses


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The scheduler of the QEMU plugin, with a writer that prints marks."""
    directory = tmp_path_factory.mktemp("harness")
    (directory / "harness.c").write_text(HARNESS)
    sources = [str(directory / "harness.c"), str(TREE / "tracer/qemu/bursts.c")]
    subprocess.run(["gcc", "-std=c11", "-I", str(TREE), "-o", str(directory / "harness"), *sources], check=True)
    return directory / "harness"


@given(
    seed=st.integers(0, 2**63 - 1),
    lengths=st.tuples(st.integers(1, 30), st.integers(4, 12), st.integers(1, 6), st.integers(1, 6)),
    events=st.lists(st.tuples(st.integers(1, 400), st.sampled_from("nnnt")), max_size=8),
)
def test_bursts_come_when_the_twin_says(
    harness: Path, seed: int, lengths: tuple[int, int, int, int], events: list[tuple[int, str]]
) -> None:
    text = "".join("c" * chunks + event for chunks, event in events) + "c" * 300
    arguments = [str(number) for number in (seed, *lengths)]
    printed = subprocess.run([harness, *arguments, text], capture_output=True, text=True, check=True).stdout
    marks = [tuple(map(int, line.split())) for line in printed.splitlines()]
    assert marks == burst_schedule_reference.phases(Schedule(*lengths, seed=seed), text)


def test_each_place_after_the_limit_is_as_likely_to_be_in_a_burst() -> None:
    """Or the estimate would be biased towards the places that are more likely."""
    lengths, runs, chunks = Schedule(40, 16, 4, 4, seed=0), 3000, 200
    blocks_alone = np.zeros(chunks)  # of the time that gaps measure, how often a burst began there
    for seed in range(runs):
        begun = burst_schedule_reference.phases(replace(lengths, seed=seed), "c" * (chunks + 200))
        in_bursts = 0
        for chunk, phase in begun:
            if phase == burst_schedule_reference.WARM:
                at = chunk - lengths.first_chunks - in_bursts
                in_bursts += lengths.warm_chunks + lengths.measured_chunks
                if at < chunks:
                    blocks_alone[at] += 1
    periods = blocks_alone.reshape(-1, 20)  # 16, and the shortest gap
    assert (periods.sum(axis=1) == runs).all()
    assert (periods[:, :4] == 0).all()
    assert np.allclose(periods[:, 4:].sum(axis=0), runs * len(periods) / 16, rtol=0.12)


def test_the_limit_is_about_a_billion_accesses() -> None:
    auto, low, medium = (schedule_of(a, 5) for a in (Accuracy.AUTO, Accuracy.LOW, Accuracy.MEDIUM))
    assert auto is not None
    assert low is not None
    assert medium is not None
    assert auto.first_chunks == AUTO_EXACT_CHUNKS
    assert 1e9 <= auto.first_chunks * 8192 <= 2e9
    assert (
        burst_schedule_reference.share_in_bursts(low)
        < burst_schedule_reference.share_in_bursts(auto)
        < burst_schedule_reference.share_in_bursts(medium)
    )
    assert schedule_of(Accuracy.HIGH) is None
