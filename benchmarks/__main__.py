"""The measurements of foretrace: `python -m foretrace.benchmarks NAME`; without a name, their list.

A benchmark is a module with `add_options(parser)` and `run(options, scratch)`. The latter yields tables and lines of
text (`harness/results.py`); a table replaces the one before if that has its title, so that an interrupted benchmark
shows what it knows. `scratch` is a folder that goes away at the end.
"""

from __future__ import annotations

import argparse
import ast
import datetime
import importlib
import os
import platform
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from foretrace.base import json_text
from foretrace.base.errors import ForetraceError
from foretrace.base.terminal import console
from foretrace.benchmarks.harness.results import Part, ResultTable

SCHEMA = "foretrace.benchmark/1"
BENCHMARKS = {
    "ablate": "validation.ablation",
    "accuracy": "peers.accuracy",
    "arrays": "validation.array_operations",
    "bench": "peers.comparison",
    "bench-events": "peers.event_cost",
    "bench-python": "peers.python_cost",
    "bench-ranks": "peers.rank_replay",
    "bench-replay": "peers.replay_speed",
    "bench-streams": "peers.streams",
    "bench-sweep": "peers.sweep_speed",
    "built-idioms": "validation.built_idioms",
    "compiler-reports": "validation.compiler_reports",
    "conditions": "harness.conditions",
    "copies": "validation.copies",
    "curves": "validation.miss_rates",
    "demo": "demo",
    "dependences": "validation.dependences",
    "events": "validation.events",
    "idioms": "validation.idioms",
    "instruction-sets": "validation.instruction_sets",
    "linear-algebra": "validation.linear_algebra",
    "offload": "validation.offload",
    "public-programs": "validation.public_programs",
    "published": "validation.published",
    "random-loops": "validation.random_loops",
    "rank-runs": "validation.rank_runs",
    "residuals": "validation.residuals",
    "source-trees": "validation.source_trees",
    "speedup": "validation.speedup",
}
"""Name -> module."""


class Report:
    """The parts of a benchmark's result, shown as soon as they are complete and written to files as they come."""

    def __init__(self, name: str, outputs: Sequence[Path], *, as_json: bool) -> None:
        """Nothing is known yet."""
        self._name, self._outputs, self._as_json = name, outputs, as_json
        self._parts: list[Part] = []
        self._shown = 0

    def add(self, part: Part) -> None:
        """Take a part; a table replaces the one before if that has its title."""
        last = self._parts[-1] if self._parts else ""
        if isinstance(part, ResultTable) and isinstance(last, ResultTable) and last.title == part.title:
            self._parts[-1] = part
        else:
            self.show()
            self._parts.append(part)
        for path in self._outputs:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(self.as_markdown() if path.suffix == ".md" else self.as_json(), encoding="utf-8")

    def show(self) -> None:
        """Print the parts that have not been."""
        for part in self._parts[self._shown :] if not self._as_json else ():
            if isinstance(part, ResultTable):
                part.show()
            else:
                console().print(part, soft_wrap=True, markup=False, highlight=False)
        self._shown = len(self._parts)

    def as_json(self) -> str:
        """The document that `--json` prints."""
        parts = [part.as_json() if isinstance(part, ResultTable) else {"text": part} for part in self._parts]
        document: dict[str, Any] = {
            "schema": SCHEMA,
            "benchmark": self._name,
            "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "machine": {"cpus": os.cpu_count(), "system": platform.platform(), "python": platform.python_version()},
            "parts": parts,
        }
        return json_text.encode(document, indent=2).decode() + "\n"

    def as_markdown(self) -> str:
        """Tables and lines of text, a paragraph each."""
        return "\n\n".join(part.as_markdown() if isinstance(part, ResultTable) else part for part in self._parts) + "\n"


def description(name: str) -> str:
    """The first line of a benchmark's docstring."""
    path = Path(__file__).parent.joinpath(*BENCHMARKS[name].split(".")).with_suffix(".py")
    return (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").splitlines()[0]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark named; its exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    name, *rest = given or ["--help"]
    if name in ("-h", "--help"):
        for known in BENCHMARKS:
            print(f"{known:18}{description(known)}")
        return 0
    if name not in BENCHMARKS:
        print(f"there is no benchmark {name!r}, but {', '.join(BENCHMARKS)}", file=sys.stderr)
        return 2
    module = importlib.import_module(f"foretrace.benchmarks.{BENCHMARKS[name]}")
    parser = argparse.ArgumentParser(prog=f"python -m foretrace.benchmarks {name}", description=description(name))
    module.add_options(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument(
        "-o", "--output", type=Path, action="append", default=[], metavar="FILE",
        help="write the result there too, as JSON, or as Markdown if its name ends in .md",
    )  # fmt: skip
    options = parser.parse_args(rest)
    report = Report(name, options.output, as_json=options.json)
    try:
        with tempfile.TemporaryDirectory(prefix=f"foretrace-{name}-") as scratch:
            for part in module.run(options, Path(scratch)):
                report.add(part)
    except ForetraceError as error:
        print(f"{name}: error: {error}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:
        raise
    except (OSError, subprocess.SubprocessError) as error:
        print(f"{name}: error: {error}", file=sys.stderr)
        return 1
    finally:
        report.show()
    if options.json:
        print(report.as_json(), end="")
    return 0


if __name__ == "__main__":
    try:
        code = main()
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read the output has gone
        os._exit(128 + signal.SIGPIPE)
    sys.exit(code)
