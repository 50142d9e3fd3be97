"""Whether predicted times rank machines as measured ones do, and how far off a time scaled from one to another is.

Each program's times on all machines are predicted from one signature. Two machines are compared for a program only
where its measured times differ by more than 10 %: closer ones may come out either way.
"""

from __future__ import annotations

import hashlib
import itertools
import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from msgspec import structs

from foretrace.base.errors import EngineError
from foretrace.benchmarks.harness import tools
from foretrace.profiles.profile_file import write_profile

from .validation_file import MeasuredMachine

NOTABLE_RATIO = 1.10
"""Machines whose measured times are nearer than this need not be ranked."""

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Comparison:
    """A program on two machines: measured times, predicted ones, and the first's measured time scaled to the second.

    `anchored_by_loop`: the scaling went by the shares that samples showed; else by the whole program's ratio.
    `disturbed` where a time was measured beside a neighbour only; `same_executable` where both machines ran the same.
    """

    program: str
    first: str
    second: str
    measured_s: tuple[float, float]
    predicted_s: tuple[float, float]
    anchored_s: float
    anchored_by_loop: bool
    disturbed: bool
    same_executable: bool

    @property
    def measured_ratio(self) -> float:
        """Time on the second machine over time on the first."""
        return self.measured_s[1] / self.measured_s[0]

    @property
    def predicted_ratio(self) -> float:
        """Predicted time on the second machine over that on the first."""
        return self.predicted_s[1] / self.predicted_s[0]

    @property
    def ranked_right(self) -> bool | None:
        """Whether the machine that is predicted to be faster is; None where they are as fast within 10 %."""
        if max(self.measured_ratio, 1 / self.measured_ratio) <= NOTABLE_RATIO:
            return None
        return self.predicted_ratio != 1 and (self.predicted_ratio > 1) == (self.measured_ratio > 1)

    @property
    def error(self) -> float:
        """Error of the prediction for the second machine, relative to what was measured there."""
        return self.predicted_s[1] / self.measured_s[1] - 1

    @property
    def anchored_error(self) -> float:
        """Error of the time scaled to the second machine, relative to what was measured there."""
        return self.anchored_s / self.measured_s[1] - 1


@dataclass(frozen=True, slots=True)
class Ranking:
    """All comparisons, each pair of machines in both orders, and the programs left out, with the reason."""

    machines: tuple[str, ...]
    comparisons: tuple[Comparison, ...]
    skipped: tuple[tuple[str, str], ...]

    @property
    def pairs(self) -> tuple[Comparison, ...]:
        """Each pair of machines once, in the order they were named."""
        place = {name: number for number, name in enumerate(self.machines)}
        return tuple(c for c in self.comparisons if place[c.first] < place[c.second])

    @property
    def notable(self) -> tuple[Comparison, ...]:
        """The pairs that are to be ranked."""
        return tuple(c for c in self.pairs if c.ranked_right is not None)

    @property
    def undisturbed(self) -> tuple[Comparison, ...]:
        """Notable pairs whose times were measured without a neighbour: of others nobody knows how much they differ."""
        return tuple(c for c in self.notable if not c.disturbed)

    @property
    def share_ranked_right(self) -> float | None:
        """Share of the pairs to be ranked that are ranked right; None where no two machines differ."""
        return _share_right(self.notable)

    @property
    def mean_absolute_error(self) -> float:
        """Mean absolute error of the predictions, over all pairs in both orders."""
        return statistics.mean(abs(c.error) for c in self.comparisons)

    @property
    def mean_absolute_anchored_error(self) -> float:
        """Mean absolute error of the times scaled from one machine to another."""
        return statistics.mean(abs(c.anchored_error) for c in self.comparisons)

    @property
    def worst_anchored(self) -> Comparison:
        """The time scaled that is furthest off."""
        return max(self.comparisons, key=lambda c: abs(c.anchored_error))

    def as_json(self) -> dict[str, Any]:
        """For `foretrace validate --compare --json`."""
        worst = self.worst_anchored
        return {
            "schema": "foretrace.validate.compare/1",
            "machines": list(self.machines),
            "notable_ratio": NOTABLE_RATIO,
            "pairs": len(self.pairs),
            "notable_pairs": len(self.notable),
            "share_ranked_right": self.share_ranked_right,
            "undisturbed_pairs": len(self.undisturbed),
            "share_of_undisturbed_ranked_right": _share_right(self.undisturbed),
            "mean_absolute_error": self.mean_absolute_error,
            "mean_absolute_anchored_error": self.mean_absolute_anchored_error,
            "worst_anchored_error": {"program": worst.program, "error": worst.anchored_error},
            "comparisons": [
                asdict(c)
                | {
                    "measured_ratio": c.measured_ratio,
                    "predicted_ratio": c.predicted_ratio,
                    "ranked_right": c.ranked_right,
                    "error": c.error,
                    "anchored_error": c.anchored_error,
                }
                for c in self.comparisons
            ],
            "skipped": [{"program": name, "reason": reason} for name, reason in self.skipped],
        }


def _share_right(pairs: Sequence[Comparison]) -> float | None:
    return statistics.mean(bool(pair.ranked_right) for pair in pairs) if pairs else None


def rank(machines: Sequence[MeasuredMachine], directory: Path, progress: Progress) -> Ranking:
    """Predict what was measured on each machine, from the signatures in `directory`.

    Args:
        machines: two or more.
        directory: has `NAME.sig` of the programs, and their timings, if from one of these machines.
        progress: is told what comes next.

    Raises:
        EngineError: nothing can be compared, or two machines have the same label.
    """
    labels = tuple(machine.label for machine in machines)
    if len(set(labels)) < len(labels):
        raise EngineError(f"two of the machines are called the same: {', '.join(labels)}; give the files other names")
    comparisons: list[Comparison] = []
    skipped: list[tuple[str, str]] = []
    with tempfile.TemporaryDirectory(prefix="foretrace-compare-") as folder:
        profiles = _profiles(machines, Path(folder))
        for program in dict.fromkeys(name for machine in machines for name in machine.programs):
            progress(f"{program}: predicting")
            try:
                comparisons += _compare(program, machines, directory, profiles)
            except EngineError as error:
                skipped.append((program, str(error)))
    if not comparisons:
        raise EngineError(f"nothing can be compared; {skipped[0][0]}: {skipped[0][1]}" if skipped else "no programs")
    return Ranking(labels, tuple(comparisons), tuple(skipped))


def _profiles(machines: Sequence[MeasuredMachine], folder: Path) -> dict[str, Path]:
    """The machines' profiles as files, by label; under names of ours, as those of two machines may be the same."""
    found = {}
    for number, machine in enumerate(machines, 1):
        found[machine.label] = folder / f"{number}.toml"
        write_profile(structs.replace(machine.profile, name=_name(found[machine.label])), found[machine.label])
    return found


def _compare(
    program: str, machines: Sequence[MeasuredMachine], directory: Path, profiles: Mapping[str, Path]
) -> Iterator[Comparison]:
    """The program on each two of the machines that it was measured on, in both orders."""
    signature = directory / f"{program}.sig"
    measured = [machine for machine in machines if program in machine.programs]
    if len(measured) < 2:
        raise EngineError(f"was measured on {measured[0].label} only")
    if not signature.exists():
        raise EngineError(f"there is no {signature}")
    paths = {machine.label: profiles[machine.label] for machine in measured}
    times = _times(signature, paths)
    ratios = {machine.label: _ratios(signature, machine, paths) for machine in measured}
    for one, other in itertools.permutations(measured, 2):
        rows = one.programs[program], other.programs[program]
        by_loop = ratios[one.label]
        ratio = times[other.label] / times[one.label] if by_loop is None else by_loop[other.label]
        yield Comparison(
            program=program,
            first=one.label,
            second=other.label,
            measured_s=(rows[0].measured.time_s, rows[1].measured.time_s),
            predicted_s=(times[one.label], times[other.label]),
            anchored_s=rows[0].measured.time_s * ratio,
            anchored_by_loop=by_loop is not None,
            disturbed=any(row.measured.is_disturbed for row in rows),
            same_executable=rows[0].executable_sha256 == rows[1].executable_sha256,
        )


def _times(signature: Path, profiles: Mapping[str, Path]) -> dict[str, float]:
    """Predicted times, by the machines' labels."""
    options = [f"--machine={path}" for path in profiles.values()]
    predictions = tools.foretrace_json("predict", str(signature), *options)["predictions"]
    return _by_label(profiles, predictions, "time_s")


def _ratios(signature: Path, anchor: MeasuredMachine, profiles: Mapping[str, Path]) -> dict[str, float] | None:
    """Times on all machines over those on `anchor`, by regions; None where the timing beside is not from there."""
    timing = signature.with_suffix(".timing")
    try:
        content = timing.read_bytes()
    except OSError:
        return None
    if hashlib.sha256(content).hexdigest() != anchor.programs[signature.stem].timing_sha256:
        return None
    options = ["--timing", str(timing), "--anchor", str(profiles[anchor.label])]
    options += [f"--machine={path}" for path in profiles.values()]
    anchored = tools.foretrace_json("predict", str(signature), *options)["anchored"]
    return _by_label(profiles, anchored, "ratio")


def _by_label(profiles: Mapping[str, Path], rows: Sequence[dict[str, Any]], field: str) -> dict[str, float]:
    """A field of each machine's row, which are in the order of their times."""
    found = {row["machine"]: row[field] for row in rows}
    return {label: found[_name(path)] for label, path in profiles.items()}


def _name(path: Path) -> str:
    """Name of a machine in its file."""
    return f"machine-{path.stem}"
