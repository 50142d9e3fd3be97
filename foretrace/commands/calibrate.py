"""`foretrace calibrate`: measure this machine and write its profile."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.console import Console

from foretrace.api.measurements import Calibration, calibrate
from foretrace.base.errors import CalibrationError
from foretrace.base.file_kinds import PROFILE
from foretrace.base.files import check_output, is_standard_output
from foretrace.base.terminal import console, plain, print_json, progress_bar
from foretrace.base.units import format_bytes, format_bytes_per_s, format_hz, format_seconds
from foretrace.benchmarks.calibration.agreement import Difference, differences, summary
from foretrace.benchmarks.harness.quiet import LONGEST_WAIT_S, MOST_BUSY, QUICK_LONGEST_WAIT_S, wait_until_quiet
from foretrace.command_line.verb import Verb
from foretrace.profiles.profile import Profile
from foretrace.profiles.profile_file import format_profile, read_profile, write_profile

MOST_TOLD = 20


@click.command(cls=Verb, epilog="Example: foretrace calibrate -o here.toml")
@click.option("-o", "--output", required=True, metavar="FILE", help="Where to write the profile; - is standard output.")
@click.option("--quick", is_flag=True, help="Coarser, in a fraction of the time.")
@click.option("--gpu", is_flag=True, help="Measure the first CUDA GPU, through CuPy, in place of the host.")
@click.option(
    "--keep-partial", is_flag=True, help="If interrupted, write what was measured until then, marked as partial."
)
@click.option(
    "--compare", type=click.Path(path_type=Path), metavar="OLD",
    help="Say which figures differ by more than 5 % from those of an earlier profile of this machine.",
)  # fmt: skip
@click.option(
    "--force", is_flag=True, help="Replace FILE if it is a profile; and measure at once, however busy the machine is."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    output: str, quick: bool, gpu: bool, keep_partial: bool, compare: Path | None, force: bool, as_json: bool
) -> None:
    """Measure this machine, or its GPU, and write its profile to FILE.

    Takes less than five minutes, with --quick less than 45 seconds (two minutes where the last cache holds
    hundreds of megabytes). Other work on the machine disturbs it: each
    figure's noise is recorded, and FILE names those that another run need not agree on. Where others take more than a
    fifth of the processors' time it waits for them, a minute at most (--quick: 20 seconds), and then gives up.
    """
    path = None if is_standard_output(output) else Path(output)
    earlier = None if compare is None else read_profile(compare)
    if path is None and as_json:
        raise click.UsageError("-o - and --json both write to standard output: name a file")
    if path is not None:
        check_output(path, PROFILE, force=force)
    try:
        if not (force or gpu):
            _wait_until_quiet(QUICK_LONGEST_WAIT_S if quick else LONGEST_WAIT_S)
        with progress_bar("measuring this machine") as report:
            calibration = calibrate(_name(path), quick=quick, keep_partial=keep_partial, gpu=gpu, on_progress=report)
    except KeyboardInterrupt:
        print("foretrace: interrupted, nothing was written", file=sys.stderr)
        raise
    _tell(calibration, path, output, earlier, force=force, as_json=as_json)


def _wait_until_quiet(longest_s: float) -> None:
    """Give the machine time to become quiet, and say so.

    Raises:
        CalibrationError: it did not.
    """
    with progress_bar("waiting for other programs to end") as report:

        def say(busy: float, done: float) -> None:
            if report is not None:
                report(done)
            elif not said:
                said.append(busy)
                print(
                    f"foretrace: other programs take {busy:.0%} of the processors: waiting for them, "
                    f"{longest_s:.0f} s at most",
                    file=sys.stderr,
                )

        said: list[float] = []
        busy = wait_until_quiet(longest_s, on_wait=say)
    if busy > MOST_BUSY:
        raise CalibrationError(
            f"other programs take {busy:.0%} of the processors, and did for {longest_s:.0f} s: what is measured beside "
            "them is too slow; end them, or measure all the same with --force"
        )


def _tell(
    calibration: Calibration, path: Path | None, output: str, earlier: Profile | None, *, force: bool, as_json: bool
) -> None:
    """Write the profile and say what is in it, and what is wrong with it."""
    for warning in calibration.warnings:
        print(f"foretrace: warning: {plain(warning)}", file=sys.stderr)
    if path is None:
        print(format_profile(calibration.profile), end="")
    else:
        write_profile(calibration.profile, path, force=force)
        if as_json:
            print_json(document(calibration, output, earlier))
        else:
            _show(calibration, path, console())
    if earlier is not None and not as_json:
        _say_differences(differences(earlier, calibration.profile), path)
    if calibration.profile.partial:
        _say_partial(path)


def document(calibration: Calibration, output: str, earlier: Profile | None = None) -> dict[str, Any]:
    """JSON of `foretrace calibrate`. `differences` are from an earlier profile, null without one."""
    found = None if earlier is None else differences(earlier, calibration.profile)
    return {
        "schema": "foretrace.calibrate/1",
        "output": output,
        "duration_s": calibration.duration_s,
        "warnings": list(calibration.warnings),
        "profile": msgspec.to_builtins(calibration.profile),
        "differences": None if found is None else [difference.to_json() for difference in found],
    }


def _say_differences(found: Sequence[Difference], path: Path | None) -> None:
    """On standard output, or, where that has the profile, on standard error. `machines compare` says more."""
    surprising = [d for d in found if d.surprising]
    lines = [summary(found) + (":" if surprising else "")]
    lines += [
        f"  {d.figure}: {d.before:.4g} before, {d.after:.4g} now ({d.relative:.0%})" for d in surprising[:MOST_TOLD]
    ]
    if len(surprising) > MOST_TOLD:
        lines.append(f"  and {len(surprising) - MOST_TOLD} more; --json has them all")
    for line in lines:
        print(plain(line), file=sys.stderr if path is None else sys.stdout)


def _say_partial(path: Path | None) -> None:
    """End as an interrupted program does: who runs us must not take the profile for a whole one."""
    where = "the profile" if path is None else plain(str(path))
    message = f"foretrace: interrupted: {where} holds what was measured until then, and is marked as partial"
    print(message, file=sys.stderr)
    raise KeyboardInterrupt


def _name(path: Path | None) -> str:
    """The profile's name: that of the file, as far as it can be one."""
    stem = re.sub(r"[^a-z0-9._-]+", "-", path.stem.lower()).strip("._-") if path else ""
    return stem[:64] or "here"


def _show(calibration: Calibration, path: Path, out: Console) -> None:
    profile = calibration.profile
    core, memory = profile.core, profile.memory
    out.print(plain(f"{path}: {profile.title}, measured in {format_seconds(calibration.duration_s)}"))
    if core and core.clock_hz and core.peak_flops_per_cycle:
        out.print(f"  clock {format_hz(core.clock_hz)}, up to {core.peak_flops_per_cycle:.3g} flops a cycle")
    for cache in profile.caches:
        latency = "" if cache.latency_s is None else f", {format_seconds(cache.latency_s)}"
        part = f" (of which loads get {format_bytes(cache.effective_size_bytes)})" if cache.effective_size_bytes else ""
        out.print(plain(f"  {cache.name} {format_bytes(cache.size_bytes)}{part}{latency}"))
    if memory and memory.latency_s and memory.core_read_bandwidth_bytes_per_s:
        bandwidth = format_bytes_per_s(memory.core_read_bandwidth_bytes_per_s)
        out.print(f"  memory {bandwidth} to one core, {format_seconds(memory.latency_s)}")
    out.print(plain(f"`foretrace machines show {path}` explains it"))
