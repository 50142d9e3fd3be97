"""A machine that others keep busy is not calibrated: it is waited for, and given up."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from foretrace.base.errors import CalibrationError
from foretrace.benchmarks.harness import quiet
from foretrace.benchmarks.harness.machine_facts import Load, load
from foretrace.benchmarks.harness.quiet import MOST_BUSY, PROBE_S, busy_share, wait_until_quiet
from foretrace.cli import group
from foretrace.commands import calibrate


def readings(*shares: float) -> Callable[[], Load]:
    """What the system says before and after each half second, of which so much was busy; the last goes on."""

    def read() -> Iterator[Load]:
        total = idle = 0
        for share in itertools.chain(shares, itertools.repeat(shares[-1])):
            yield Load(total, 0, idle)
            total, idle = total + 1000, idle + round(1000 * (1 - share))
            yield Load(total, 0, idle)

    return read().__next__


class Clock:
    """Time passes by sleeping."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def read(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


def waited(longest_s: float, *shares: float) -> tuple[float, float, list[tuple[float, float]]]:
    """How busy it was in the end, after how long, and what was told meanwhile."""
    clock, told = Clock(), list[tuple[float, float]]()
    busy = wait_until_quiet(
        longest_s,
        on_wait=lambda busy, done: told.append((busy, done)),
        read=readings(*shares),
        clock=clock.read,
        sleep=clock.sleep,
    )
    return busy, clock.now_s, told


def test_a_quiet_machine_is_not_waited_for() -> None:
    assert waited(60, 0.05) == (pytest.approx(0.05), PROBE_S, [])


def test_a_busy_machine_is_waited_for() -> None:
    busy, seconds, told = waited(60, 0.79, 0.79, 0.5, 0.1)
    assert (busy, seconds) == (pytest.approx(0.1), 4 * PROBE_S)
    assert told == [(pytest.approx(0.79), PROBE_S / 60), (pytest.approx(0.79), 1 / 60), (pytest.approx(0.5), 1.5 / 60)]


def test_the_wait_has_an_end() -> None:
    busy, seconds, told = waited(10, 0.79)
    assert busy == pytest.approx(0.79)
    assert busy > MOST_BUSY
    assert seconds == 10
    assert told[-1] == (pytest.approx(0.79), 1.0)


def test_busy_is_what_was_not_idle(tmp_path: Path) -> None:
    stat = tmp_path / "stat"
    found = []
    for line in ("cpu 100 0 100 700 100 0 0 0 0 0", "cpu 480 0 395 825 100 0 0 0 0 0"):
        stat.write_text(f"{line}\ncpu0 1 2 3\n")
        found.append(load(stat))
    assert busy_share(*found) == pytest.approx(0.84375)
    assert busy_share(load(tmp_path / "none"), load(tmp_path / "none")) == 0.0


@pytest.fixture
def others_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others take 79 % of the processors, and no wait takes time."""
    clock = Clock()

    def wait(longest_s: float, *, on_wait: Callable[[float, float], None]) -> float:
        return wait_until_quiet(longest_s, on_wait=on_wait, read=readings(0.79), clock=clock.read, sleep=clock.sleep)

    monkeypatch.setattr(calibrate, "wait_until_quiet", wait)


def test_a_busy_machine_is_refused_in_one_line(others_work: None, tmp_path: Path) -> None:
    result = CliRunner().invoke(group, ["calibrate", "--quick", "-o", str(tmp_path / "here.toml")])
    assert isinstance(result.exception, CalibrationError)
    assert "other programs take 79% of the processors, and did for 20 s" in str(result.exception)
    assert "--force" in str(result.exception)
    assert "\n" not in str(result.exception)
    assert result.stderr.count("waiting for them, 20 s at most") == 1
    assert not (tmp_path / "here.toml").exists()


def test_it_is_measured_all_the_same_if_asked_for(
    others_work: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class MeasuredError(Exception):
        """It came to that."""

    def measure(*_: object, **__: object) -> None:
        raise MeasuredError

    monkeypatch.setattr(calibrate, "calibrate", measure)
    result = CliRunner().invoke(group, ["calibrate", "--force", "-o", str(tmp_path / "here.toml")])
    assert isinstance(result.exception, MeasuredError)


def test_its_end_has_a_bound() -> None:
    assert quiet.QUICK_LONGEST_WAIT_S < quiet.LONGEST_WAIT_S <= 60
