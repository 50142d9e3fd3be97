"""Worth of each sub-model of the core and memory model: errors with and without it, on measured machines.

Signatures of the suite's programs and run times measured on several machines are predicted with the whole model, and
again with each sub-model switched off (`submodels.py`). Errors are told apart for programs that the model was made with
and for those that it was not: the held-back half, which decides. Programs of Python have no paths and are left out.
"""

from __future__ import annotations

import argparse
import hashlib
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from foretrace.base.errors import EngineError
from foretrace.benchmarks.harness import options as common
from foretrace.benchmarks.harness import tools
from foretrace.benchmarks.harness.results import Part, ResultTable, say
from foretrace.benchmarks.harness.suite import HELD_BACK, choose
from foretrace.profiles.profile import Profile
from foretrace.replay.base.spread import TYPICAL
from foretrace.replay.core import _core_model
from foretrace.replay.figures.machine_figures import MachineFigures
from foretrace.replay.memory.hit_rates import Misses, misses_on
from foretrace.replay.prediction import predict
from foretrace.replay.prediction.predict import HostRun
from foretrace.replay.workload.workload import Workload
from foretrace.tracer.signature.file import read_signature
from foretrace.tracer.signature.records import Signature

from .submodels import SUBMODELS, Submodel, named
from .validation_file import MEASURED, MeasuredMachine, find_validation

Key = tuple[str, str]
"""A machine and a program."""


@contextmanager
def _remembered() -> Iterator[None]:
    """With the core model's results and the misses kept: most sub-models have no part in most programs."""
    misses: dict[tuple[str, tuple[float, ...] | None], Misses] = {}
    known: dict[bytes, np.ndarray[tuple[int, ...], np.dtype[np.float64]]] = {}
    run = _core_model.run

    def remember(*arguments: Any) -> None:
        *given, cycles = arguments
        key = hashlib.blake2b(b"".join(hashlib.blake2b(memoryview(one)).digest() for one in given)).digest()
        if key not in known:
            run(*arguments)
            known[key] = cycles.copy()
        cycles[:] = known[key]

    def remember_misses(signature: Signature, profile: Profile, held: Sequence[float] | None = None) -> Misses:
        key = repr(profile.caches), None if held is None else tuple(held)
        if key not in misses:
            misses[key] = misses_on(signature, profile, held)
        return misses[key]

    with patch.object(_core_model, "run", remember), patch.object(predict, "misses_on", remember_misses):
        yield


def run_without(workload: Workload, profile: Profile, off: Sequence[Submodel], shared: Misses | None = None) -> HostRun:
    """A program on a machine with some sub-models switched off, typical times only.

    Args:
        workload: the program.
        profile: the machine.
        off: the sub-models.
        shared: its misses, in what it holds of a shared cache; None: they are worked out.

    Raises:
        PredictionError: signature and profile do not tell enough.
    """
    for one in off:
        workload, profile = one.without_workload(workload), one.without_profile(profile)

    def change(figures: MachineFigures) -> MachineFigures:
        for one in off:
            figures = one.without_figures(figures)
        return figures

    return HostRun.of(workload, profile, corners=(TYPICAL,), change=change, shared=shared)


def _variants(off: Sequence[Submodel]) -> dict[str, tuple[Submodel, ...]]:
    """Sub-models switched off in each variant, by the one whose worth the variant shows.

    A sub-model in use is left out, one that is off is put back.
    """
    found = {"": tuple(off)}
    for one in SUBMODELS:
        found[one.name] = tuple(other for other in off if other is not one) if one in off else (*off, one)
    return found


@dataclass(frozen=True, slots=True)
class _Job:
    """A program on all machines that it was measured on."""

    program: str
    signature: Path
    machines: tuple[MeasuredMachine, ...]
    off: tuple[str, ...]


def _times(job: _Job) -> tuple[str, dict[tuple[str, str], float]]:
    """Predicted times by variant and machine; none for a program without paths.

    What a program holds of a shared cache depends on its time: it is that of the whole model in all variants but those
    of the shared cache.
    """
    workload = Workload.of(read_signature(job.signature))
    found: dict[tuple[str, str], float] = {}
    if workload.core is None:
        return job.program, found
    off = named(",".join(job.off))
    for machine in job.machines:
        with _remembered():
            shared = run_without(workload, machine.profile, off).misses
            for name, variant in _variants(off).items():
                is_shared = any(one.of_sharing and (one in off) != (one in variant) for one in SUBMODELS)
                run = run_without(workload, machine.profile, variant, None if is_shared else shared)
                found[name, machine.label] = float(run.times.time_s[TYPICAL].sum())
    return job.program, found


@dataclass(frozen=True, slots=True)
class Worth:
    """Mean and worst absolute errors over some (machine, program), with a sub-model and without it.

    `others_gain`: by how much the mean error grows without it, leaving out the program that gains most by it.
    """

    count: int
    mean_with: float
    mean_without: float
    worst_with: float
    worst_without: float
    others_gain: float

    @property
    def gain(self) -> float:
        """Growth of the mean error without the sub-model."""
        return self.mean_without - self.mean_with

    @classmethod
    def of(cls, with_it: Mapping[Key, float], without: Mapping[Key, float], chosen: Sequence[Key]) -> Worth | None:
        """From errors by machine and program; None where none was chosen."""
        if not chosen:
            return None
        before, after = ([abs(errors[key]) for key in chosen] for errors in (with_it, without))
        by_program: dict[str, float] = {}
        for (_, program), one, other in zip(chosen, before, after, strict=True):
            by_program[program] = by_program.get(program, 0.0) + other - one
        others = (sum(by_program.values()) - max(by_program.values())) / len(chosen)
        return cls(len(chosen), statistics.mean(before), statistics.mean(after), max(before), max(after), others)


@dataclass(frozen=True, slots=True)
class Ablation:
    """Errors, predicted over measured time less one, by machine and program: of the model without the sub-models `off`,
    and of each variant of it."""

    off: tuple[str, ...]
    errors: Mapping[str, Mapping[Key, float]]

    def groups(self) -> dict[str, list[Key]]:
        """(machine, program) of each machine and half, and of each half."""
        keys = sorted(self.errors[""])
        found: dict[str, list[Key]] = {}
        for half, wanted in (("made with", False), ("held back", True)):
            inside = [key for key in keys if (key[1] in HELD_BACK) == wanted]
            found[half] = inside
            for machine in dict.fromkeys(key[0] for key in keys):
                found[f"{half}, {machine}"] = [key for key in inside if key[0] == machine]
        return found

    def worth(self, name: str, chosen: Sequence[Key]) -> Worth | None:
        """Worth of one sub-model."""
        model, variant = self.errors[""], self.errors[name]
        return Worth.of(variant, model, chosen) if name in self.off else Worth.of(model, variant, chosen)


def signatures(directory: Path, programs: Sequence[str], progress: Callable[[str], None]) -> dict[str, Path]:
    """The signatures of programs of the suite in a directory; those of no whole run are traced."""
    found = {}
    for program in choose(",".join(programs)):
        path = directory / f"{program.name}.sig"
        try:
            command = program.command(directory)
            if not tools.has_whole_run(path, Path(command[0])):
                progress(f"{program.name}: tracing")
                options = ("-o", str(path), "--force")
                tools.measure([tools.foretrace_executable(), "trace", *options, "--", *command])
        except EngineError as error:
            progress(f"{program.name}: left out, {error}")
            continue
        found[program.name] = path
    return found


def ablate(
    machines: Sequence[MeasuredMachine],
    directory: Path,
    off: Sequence[str],
    progress: Callable[[str], None],
    *,
    only: str = "",
) -> Ablation:
    """Predict what was measured with and without each sub-model.

    Args:
        machines: with their measured times.
        directory: where the programs' signatures are, or are to be.
        off: names of sub-models that are switched off throughout; each is put back once.
        progress: is given a line on what comes next.
        only: these programs, separated by commas; all if empty.
    """
    every = {program.name for program in choose(only) if not program.is_python}
    programs = sorted({name for machine in machines for name in machine.programs} & every)
    paths = signatures(directory, programs, progress)
    jobs = [
        _Job(name, path, tuple(machine for machine in machines if name in machine.programs), tuple(off))
        for name, path in paths.items()
    ]
    measured = {
        (machine.label, name): row.measured.time_s for machine in machines for name, row in machine.programs.items()
    }
    errors: dict[str, dict[Key, float]] = {name: {} for name in _variants(named(",".join(off)))}
    with ProcessPoolExecutor() as pool:
        for program, times in pool.map(_times, jobs):
            progress(f"{program}: predicted")
            for (name, machine), time_s in times.items():
                errors[name][machine, program] = time_s / measured[machine, program] - 1
    return Ablation(tuple(off), errors)


def tables(ablation: Ablation) -> tuple[ResultTable, ResultTable]:
    """Errors of the model by group, and what each sub-model is worth in percentage points."""
    groups = ablation.groups()
    model = ablation.errors[""]
    of_groups = []
    for name, keys in groups.items():
        if keys:
            of_group = [model[key] for key in keys]
            bias = float(np.exp(np.mean(np.log1p(of_group))) - 1)
            mean = f"{statistics.mean(map(abs, of_group)):.1%}"
            of_groups.append([name, str(len(keys)), mean, f"{max(of_group, key=abs):+.0%}", f"{bias:+.1%}"])
    machines = [name for name, keys in groups.items() if keys and name not in ("made with", "held back")]
    of_submodels = []
    for one in SUBMODELS:
        held, made = (ablation.worth(one.name, groups[half]) for half in ("held back", "made with"))
        of_machines = [ablation.worth(one.name, groups[name]) for name in machines]
        of_submodels.append([
            one.name, one.title, "no" if one.name in ablation.off else "yes", _points(held),
            "-" if held is None else f"{100 * held.others_gain:+.2f}",
            "-" if held is None else f"{held.worst_without:.0%}",
            _points(made), *map(_points, of_machines),
        ])  # fmt: skip
    headings = (
        "sub-model", "effect", "in", "held back: gain", "without its best program", "worst without", "made with: gain",
        *machines,
    )  # fmt: skip
    return (
        ResultTable("errors of the model", ("programs", "times", "mean error", "worst", "geometric mean"), of_groups),
        ResultTable("worth of each sub-model, percentage points", headings, of_submodels, left=headings[:3]),
    )


def _points(worth: Worth | None) -> str:
    return "-" if worth is None else f"{100 * worth.gain:+.2f}"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of the benchmark."""
    known = sorted(path.stem for path in MEASURED.glob("*.json"))
    parser.add_argument(
        "--machine", action="append", help=f"measured times: a file, or one of {', '.join(known)} (all)"
    )
    common.directory(parser, Path("results/suite"))
    parser.add_argument("--off", default="", metavar="NAMES", help="sub-models switched off throughout")
    parser.add_argument("--only", default="", metavar="NAMES", help="these programs of the suite; held-back: all such")


def run(options: argparse.Namespace, scratch: Path) -> Iterator[Part]:
    """Both tables."""
    off = tuple(one.name for one in named(options.off))
    machines = [find_validation(name) for name in options.machine or sorted(p.stem for p in MEASURED.glob("*.json"))]
    only = ",".join(HELD_BACK) if options.only == "held-back" else options.only
    yield from tables(ablate(machines, common.kept(options, scratch), off, say, only=only))
