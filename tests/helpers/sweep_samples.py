"""Runs and machines to sweep: small ones, made by hand."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from msgspec import Struct, structs
from replay_samples import accelerator, gather_program, measured_host

from foretrace.benchmarks.peers.rank_replay import halo, platform, write_trace
from foretrace.profiles.profile import Profile
from foretrace.profiles.profile_file import format_profile
from foretrace.replay.engine.network import Crossbar
from foretrace.tracer.signature.file import write_signature

Figures = TypeVar("Figures", bound=Struct)


def swept_host(name: str, clock_hz: float = 1e9) -> Profile:
    """A host at some clock, whose threads wake and pages are touched in no time to speak of."""
    host = measured_host(name)
    assert host.core is not None and host.memory is not None
    figures = ("line_transfer_latency_s", "thread_wake_latency_s", "thread_wake_call_s")
    core = structs.replace(host.core, clock_hz=clock_hz, cores=16, **dict.fromkeys(figures, 1e-9))
    return structs.replace(
        host,
        core=_sourced(core),
        caches=tuple(map(_sourced, host.caches)),
        memory=_sourced(structs.replace(host.memory, first_touch_page_s=1e-9)),
    )


def _sourced(figures: Figures) -> Figures:
    """Figures that were all measured."""
    measured = (
        name
        for name in figures.__struct_fields__
        if name not in ("source", "name") and getattr(figures, name) is not None
    )
    return structs.replace(figures, source=dict.fromkeys(measured, "here"))


def write_machines(folder: Path, count: int) -> Path:
    """A folder with machines m000, m001, ..., each with a faster core than the one before."""
    folder.mkdir()
    for number in range(count):
        text = format_profile(swept_host(f"m{number:03}", 1e9 + 1e7 * number))
        (folder / f"m{number:03}.toml").write_text(text)
    return folder


def write_accelerator(path: Path) -> Path:
    """A unit that gathers."""
    unit = accelerator("unit", launch_latency_s=1e-9)
    assert unit.link is not None
    path.write_text(format_profile(structs.replace(unit, link=_sourced(unit.link))))
    return path


def write_run(path: Path, iterations: int = 1 << 16) -> Path:
    """A signature of a loop that gathers."""
    write_signature(gather_program(1 << 20, iterations), path, force=False)
    return path


def write_parallel_run(folder: Path) -> tuple[Path, Path]:
    """The trace of 12 ranks, and a platform with as many nodes."""
    folder.mkdir()
    trace = write_trace(halo((4, 3), 3, 30_000, 1), folder)
    (folder / "platform.xml").write_text(platform(Crossbar(12)))
    return trace, folder / "platform.xml"
