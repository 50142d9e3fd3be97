"""The worked example of tasks: tensor contractions whose events can be worked out by hand."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from foretrace.tracer.events import linking
from foretrace.tracer.events.board_file import read_board

SOURCES = Path(__file__).parents[3] / "benchmarks" / "programs" / "events"
Compiled = Callable[..., Path]
Run = Callable[..., "subprocess.CompletedProcess[str]"]
Floats = npt.NDArray[np.float64]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    folder = tmp_path_factory.mktemp("contract")

    def build(*flags: str) -> Path:
        program = folder / f"contract{len(list(folder.iterdir()))}"
        libraries = shlex.split(f"{linking.compiler_flags()} {linking.linker_flags()}")
        sources = [SOURCES / "contract.c", SOURCES / "tasks.c"]
        warnings = ("-Wall", "-Wextra", "-Werror")
        subprocess.run(
            ["gcc", "-O2", *warnings, *flags, *sources, *libraries, "-lm", "-pthread", "-o", program], check=True
        )
        return program

    return build


@pytest.fixture(scope="module")
def contract(compiled: Compiled) -> Path:
    return compiled()


def events_of(program: Path, folder: Path, *arguments: int) -> tuple[float, dict[str, dict[str, Any]]]:
    """The norm that it prints, and values by library and event."""
    environment = os.environ | {"FORETRACE_EVENTS_DIRECTORY": str(folder), "FORETRACE_EVENTS_KEEP": "1"}
    done = subprocess.run([program, *map(str, arguments)], env=environment, capture_output=True, text=True, check=True)
    (path,) = folder.iterdir()
    found: dict[str, dict[str, Any]] = {}
    for event in read_board(path).events:
        found.setdefault(event.library, {})[event.name] = event.value if event.values is None else event.values.kept
    path.unlink()
    return float(done.stdout.rpartition(":")[2]), found


@dataclass(frozen=True)
class Term:
    """A contraction: pairs of orbitals (or of tiles) of one spin."""

    rows: int
    summed: int
    columns: int


def terms(occupied: int, virtual: int) -> dict[str, Term]:
    """Of a number of orbitals or tiles of each spin."""
    holes, particles, both = occupied**2, virtual**2, occupied * virtual
    return {
        "hole intermediate": Term(holes, particles, holes),
        "ring intermediate": Term(both, both, both),
        "hole ladder": Term(particles, holes, holes),
        "ring": Term(both, both, both),
        "particle ladder": Term(particles, particles, holes),
    }


@pytest.mark.parametrize(("occupied", "virtual", "tile"), [(10, 22, 6), (4, 6, 2), (5, 3, 8)])
def test_the_tasks_are_those_that_spin_allows(
    occupied: int, virtual: int, tile: int, contract: Path, tmp_path: Path
) -> None:
    """Two of six tasks have a spin that one of four pairs of tiles has, four have one that two have."""
    _, events = events_of(contract, tmp_path, occupied, virtual, tile, 3)
    of_tiles = terms(-(-occupied // tile), -(-virtual // tile))
    of_orbitals = terms(occupied, virtual)
    assert events.pop("contractions")["ContractionID_I"] in range(1, 6)
    assert set(events) == set(of_tiles)
    for name, values in events.items():
        tiles, orbitals = of_tiles[name], of_orbitals[name]
        short, long = 2 * tiles.rows * tiles.columns, 4 * tiles.rows * tiles.columns
        assert Counter(values["LengthPerTask_RCRD_I"].tolist()) == {tiles.summed: short, 2 * tiles.summed: long}
        assert values["MaxTaskLength_I"] == 2 * tiles.summed
        assert values["DgemmCount_I"] == short * tiles.summed + long * 2 * tiles.summed
        assert values["FlopCount_I"] == 2 * 10 * orbitals.rows * orbitals.summed * orbitals.columns
        assert values["FlopsPerTask_RCRD_I"].sum() == values["FlopCount_I"]
        assert len(values["FlopsPerTask_RCRD_I"]) == short + long


def amplitudes(*spaces: tuple[Floats, Floats]) -> Floats:
    """A tensor of four indices by the formula of the program, zero where spin is not conserved."""
    p, q, r, s = np.ix_(*(orbitals for orbitals, _ in spaces))
    spin_p, spin_q, spin_r, spin_s = np.ix_(*(spins for _, spins in spaces))
    values = ((7 * p + 3 * q + 5 * r + 11 * s) % 13 - 6) / 6.0
    return np.asarray(values * (spin_p + spin_q == spin_r + spin_s))


def test_the_result_is_that_of_the_equation(contract: Path, tmp_path: Path) -> None:
    occupied, virtual = 5, 7
    o, v = ((np.arange(2 * size), np.arange(2 * size) // size) for size in (occupied, virtual))
    of_pairs, interaction = amplitudes(v, v, o, o), amplitudes(o, o, v, v)
    holes = np.einsum("klcd,cdij->klij", interaction, of_pairs)
    exchange = np.einsum("klcd,dblj->kbcj", interaction, of_pairs)
    expected = (
        np.einsum("abkl,klij->abij", of_pairs, holes)
        + np.einsum("acik,kbcj->abij", of_pairs, exchange)
        + np.einsum("abcd,cdij->abij", amplitudes(v, v, v, v), of_pairs)
    )
    norm, _ = events_of(contract, tmp_path, occupied, virtual, 3, 2)
    assert norm == pytest.approx(np.linalg.norm(expected), rel=1e-9)


def test_any_number_of_threads_does_the_same(contract: Path, tmp_path: Path) -> None:
    """Bit by bit: the tasks of a block follow each other as they were submitted."""
    runs = [events_of(contract, tmp_path, 6, 9, 3, threads) for threads in (1, 2, 16)]
    for _, events in runs:
        del events["contractions"]  # the task that began last depends on the threads
        for values in events.values():
            for name in ("LengthPerTask_RCRD_I", "FlopsPerTask_RCRD_I"):
                values[name] = sorted(values[name].tolist())  # those of one thread after the other
    assert runs[0] == runs[1] == runs[2]


def test_a_trace_has_the_same_events(contract: Path, foretrace: Run, tmp_path: Path) -> None:
    if not shutil.which("qemu-x86_64"):
        pytest.skip("needs qemu-x86_64 (Debian package qemu-user)")
    signature = tmp_path / "contract.sig"
    program = (contract, "3", "4", "2", "2")
    done = foretrace("trace", "-o", signature, "--", *program)
    assert done.returncode == 0, done.stderr
    traced = json.loads(foretrace("events", "--json", signature).stdout)
    native = json.loads(foretrace("events", "--json", "--", *program).stdout.partition("\n")[2])
    values = [
        {(event["library"], event["name"]): (event["kind"], event["value"], event.get("quantiles")) for event in its}
        for its in (traced["events"], native["events"])
    ]
    for its in values:
        del its["contractions", "ContractionID_I"]  # the task that began last depends on the threads
    assert len(values[0]) == 25
    assert values[0] == values[1]


def test_threads_do_not_race(compiled: Compiled, tmp_path: Path) -> None:
    program = compiled("-g", "-fsanitize=thread")
    norm, _ = events_of(program, tmp_path, 4, 5, 2, 8)  # the sanitizer ends it with an exit code if they do
    assert norm > 0


def test_memory_is_freed_and_not_overrun(compiled: Compiled, tmp_path: Path) -> None:
    program = compiled("-g", "-fsanitize=address,undefined", "-fno-sanitize-recover")
    norm, _ = events_of(program, tmp_path, 3, 4, 2, 4)
    assert norm > 0


@pytest.mark.parametrize("arguments", [["x"], ["0"], ["4", "-1"], ["4", "4", "4", "4", "4"], ["4", "4", "4", "100000"]])
def test_what_cannot_be_is_refused(arguments: list[str], contract: Path) -> None:
    done = subprocess.run([contract, *arguments], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "usage: contract [OCCUPIED [VIRTUAL [TILE [THREADS]]]]\n")
