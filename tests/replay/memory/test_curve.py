"""`foretrace curve`: the curves of a program and of its parts, as numbers, in the terminal and as a picture."""

import itertools
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from foretrace.base.errors import PredictionError
from foretrace.benchmarks.harness import programs, tools
from foretrace.benchmarks.harness.programs import Linking
from foretrace.benchmarks.validation import miss_rates
from foretrace.cache_sim.base.hierarchy import Level
from foretrace.replay.memory.miss_curves import (
    FULLY_ASSOCIATIVE,
    miss_curve,
    miss_ratio,
    part_of_function,
    part_of_line,
    whole_program,
)
from foretrace.tracer.signature.file import read_signature
from foretrace.tracer.signature.records import Signature

pytestmark = pytest.mark.skipif(shutil.which("qemu-x86_64") is None, reason="needs qemu-x86_64 (qemu-user)")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A triad over three arrays of 400 KB, sixty times, with two caches simulated."""
    directory = tmp_path_factory.mktemp("curve")
    triad = programs.build("triad", directory, Linking.FIXED)
    signature = directory / "triad.sig"
    hierarchies = ["--hierarchy", "cache=32K/8/64", "--hierarchy", "cache=8M/16/64"]
    command = [
        tools.foretrace_executable(),
        "trace",
        "-o",
        str(signature),
        *hierarchies,
        "--",
        str(triad),
        "50000",
        "60",
    ]
    subprocess.run(command, check=True, capture_output=True)
    return signature


@pytest.fixture(scope="module")
def signature(path: Path) -> Signature:
    return read_signature(path)


def run(*arguments: object) -> "subprocess.CompletedProcess[str]":
    command = [tools.foretrace_executable(), "curve", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


def test_simulated_caches_lie_on_the_curve(signature: Signature) -> None:
    accesses = sum(op.executions for op in signature.operations)
    for simulated in signature.hierarchies:
        found = miss_ratio(signature, whole_program(signature), simulated.hierarchy.levels[0])
        assert found.standard_error is not None
        assert found.standard_error < 0.01
        tolerance = max(0.01, 3 * found.standard_error)
        assert found.miss_ratio == pytest.approx(simulated.misses.sum() / accesses, abs=tolerance)


def test_curves_fall_with_size(signature: Signature) -> None:
    curve = miss_curve(signature, whole_program(signature), FULLY_ASSOCIATIVE, 64)
    ratios = [point.miss_ratio for point in curve.points]
    assert len(ratios) == 15
    assert all(after <= before + 0.05 for before, after in itertools.pairwise(ratios))
    assert ratios[0] > 0.1  # an eighth of the accesses, until the arrays fit
    assert ratios[-1] < 0.03


def test_parts_have_curves_of_their_own(signature: Signature) -> None:
    kernel = max(signature.operations, key=lambda op: op.executions)
    function = signature.blocks[kernel.block_id].function
    small = Level("cache", 32 << 10, 8, 64)
    by_function = miss_ratio(signature, part_of_function(signature, function), small)
    by_line = miss_ratio(signature, part_of_line(signature, f"triad.c:{kernel.line}"), small)
    assert by_function.miss_ratio == pytest.approx(1 / 8, abs=0.01)
    assert by_line.miss_ratio == pytest.approx(1 / 8, abs=0.01)
    assert by_function.standard_error is None
    for choose, name in ((part_of_function, "nowhere"), (part_of_line, "triad.c:1"), (part_of_line, "iad.c:11")):
        with pytest.raises(PredictionError, match="no memory access there"):
            choose(signature, name)
    with pytest.raises(PredictionError, match="write FILE:LINE"):
        part_of_line(signature, "triad.c")


def test_json_and_terminal(path: Path) -> None:
    found = json.loads(run(path, "--ways", "4", "--ways", "full", "--line-bytes", "128", "--json").stdout)
    assert found["schema"] == "foretrace.curve/1"
    assert [curve["title"] for curve in found["curves"]] == ["4-way", "fully associative"]
    assert {point["line_bytes"] for point in found["curves"][0]["points"]} == {128}
    caches = json.loads(run(path, "--cache", "48K/12/64", "--cache", "64M/full/64", "--json").stdout)["caches"]
    assert [cache["ways"] for cache in caches] == [12, 65536]
    shown = run(path)
    assert "direct-mapped" in shown.stdout
    assert "█" in shown.stdout
    assert "standard error" in shown.stdout


@pytest.mark.parametrize("suffix", ["svg", "png"])
def test_pictures(path: Path, tmp_path: Path, suffix: str) -> None:
    pytest.importorskip("matplotlib", reason="pictures need matplotlib")
    picture = tmp_path / f"curve.{suffix}"
    assert run(path, "-o", picture).returncode == 0
    data = picture.read_bytes()
    assert data.startswith(b"<?xml" if suffix == "svg" else b"\x89PNG")
    if suffix == "svg":
        assert b"fully associative" in data
        assert run(path, "-o", picture, "--force").returncode == 0
        assert picture.read_bytes() == data
    refused = run(path, "-o", picture)
    assert refused.returncode == 75
    assert "--force" in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("-o", "curve.gif"), "must end in .json, .csv, .md, .svg, .png or .pdf"),
        (("--cache", "32K/7/64"), "size_bytes"),
        (("--cache", "32K/8/64/plru"), "LRU replacement"),
        (("--cache", "32K"), "write SIZE/WAYS/LINE"),
        (("--function", "f", "--line", "a.c:1"), "not both"),
        (("--ways", "none"), "number of ways"),
        (("--cache", "32K/8/64", "-o", "curve.svg"), "curves, not single caches"),
    ],
)
def test_what_cannot_be_shown_is_refused(path: Path, arguments: tuple[str, ...], said: str) -> None:
    refused = run(path, *arguments)
    assert refused.returncode
    assert said in " ".join(refused.stderr.split())


def test_a_comparison_with_the_simulation(tmp_path: Path) -> None:
    triad = programs.build("triad", tmp_path, Linking.FIXED)
    workload = programs.Workload("triad", (str(triad), "20000", "10"))
    compared = miss_rates.compare(workload, ("4K/2/64", "1M/16/64"), tmp_path)
    assert max(map(abs, compared.errors.values())) < 0.03
    assert 0 <= compared.covered <= 1
    assert len(miss_rates.program_rows([compared])) == 2
    assert "| triad |" in miss_rates.document([compared])
