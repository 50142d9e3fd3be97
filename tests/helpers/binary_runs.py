"""Traced runs of small C programs, for the tests of what a run can be made of."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from warm_command_line import warm_command_line

from foretrace.tracer.signature.file import read_signature
from foretrace.tracer.signature.records import MemoryOperation, Signature


@dataclass(frozen=True, slots=True)
class BinaryRun:
    """What a traced program printed, how it ended, and its signature."""

    stdout: str
    stderr: str
    returncode: int
    signature: Signature

    def operations(self, function: str) -> list[MemoryOperation]:
        """The loads and stores of a function, but for what it does with its return address and saved registers."""
        blocks = self.signature.blocks
        return [op for op in self.signature.operations if blocks[op.block_id].function == function]

    def accesses(self, function: str, *, is_store: bool, at_least: int = 2) -> dict[int, int]:
        """Number of accesses of a function by their size in bytes: of operations that ran `at_least` so often."""
        found: dict[int, int] = {}
        for op in self.operations(function):
            if op.is_store == is_store and op.executions >= at_least:
                found[op.size_bytes] = found.get(op.size_bytes, 0) + op.executions
        return found


def trace_command(signature: Path, *program: str | Path, options: tuple[str, ...] = ()) -> list[str]:
    """The command line that traces a program."""
    command = [sys.executable, "-P", "-m", "foretrace", "trace", *options, "-o", str(signature), "--"]
    return [*command, *map(str, program)]


def run_traced(directory: Path, *program: str | Path, options: tuple[str, ...] = ()) -> BinaryRun:
    """Trace a program to its end, in `directory`."""
    signature = directory / "run.sig"
    command = ["trace", "--force", *options, "-o", str(signature), "--", *map(str, program)]
    result = warm_command_line().run(command, directory)
    return BinaryRun(result.stdout, result.stderr, result.returncode, read_signature(signature))
