"""Options that several benchmarks have."""

from __future__ import annotations

import argparse
from collections.abc import Collection
from pathlib import Path

HERE = "results/here.toml"
"""Path where `make` keeps the profile of this machine."""


def machine(parser: argparse.ArgumentParser) -> None:
    """The profile of this machine."""
    parser.add_argument(
        "--machine", default=HERE, metavar="PROFILE", help=f"the profile of this machine (default {HERE})"
    )


def realtime(parser: argparse.ArgumentParser) -> None:
    """Real-time priority of the runs."""
    parser.add_argument("--realtime", action="store_true", help="run before all else on this machine (SCHED_RR)")


def rounds(parser: argparse.ArgumentParser, default: int) -> None:
    """Add the option of how often programs are run."""
    parser.add_argument("--rounds", type=positive, default=default, help=f"of native runs (default {default})")


def quick(parser: argparse.ArgumentParser, meaning: str) -> None:
    """Less work."""
    parser.add_argument("--quick", action="store_true", help=meaning)


def repetitions(parser: argparse.ArgumentParser) -> None:
    """Add the options of how often everything is measured, with `--quick` once unless given otherwise."""
    quick(parser, "small programs, one repetition: seconds instead of minutes")
    parser.add_argument("--repetitions", type=positive, help="of each run (default 3)")


def repeated(options: argparse.Namespace) -> int:
    """The repetitions asked for."""
    given: int | None = options.repetitions
    return given or (1 if options.quick else 3)


def names(parser: argparse.ArgumentParser, known: Collection[str], metavar: str) -> None:
    """Some of what there is to measure: `options.names`, all if none was given."""

    def one_of(name: str) -> str:
        if name not in known:
            raise argparse.ArgumentTypeError(f"there is no {name!r}, but {', '.join(known)}")
        return name

    parser.add_argument("names", nargs="*", type=one_of, metavar=metavar, help="these only; default: all")


def directory(parser: argparse.ArgumentParser, default: Path | None = None) -> None:
    """A folder that outlives the benchmark."""
    parser.add_argument(
        "--directory", type=Path, default=default, metavar="DIR",
        help="keep executables and signatures here, and use those found again" + (f" ({default})" if default else ""),
    )  # fmt: skip


def kept(options: argparse.Namespace, scratch: Path) -> Path:
    """Folder given by `--directory`, made if it is not there; without one, the benchmark's own."""
    folder: Path = (options.directory or scratch).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def positive(text: str) -> int:
    """A whole number above 0."""
    if int(text) < 1:
        raise argparse.ArgumentTypeError(f"is {text}, must be at least 1")
    return int(text)


def positive_number(text: str) -> float:
    """A number above 0."""
    if not float(text) > 0:
        raise argparse.ArgumentTypeError(f"is {text}, must be positive")
    return float(text)
