"""The engine for Python programs: the interpreter that runs foretrace, with our agent in it."""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import statistics
import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

from foretrace.base import python_line
from foretrace.base.errors import EngineError, ProgramError
from foretrace.tracer.session.launch import Interpreter, Target, status_of

_SAMPLES, _REPEATS = 301, 40
_BOOTSTRAP = Path(__file__).with_name("main.py")


def _agent_path() -> str:
    spec = importlib.util.find_spec("foretrace.tracer.python._agent")
    if spec is None or spec.origin is None:
        raise EngineError("the Python agent is not built; install foretrace again (pip install ., or make dev)")
    return spec.origin


def _check_script(script: str) -> None:
    path = Path(script)
    status_of(script)
    if path.is_dir() and not (path / "__main__.py").exists() and not (path / "__main__.pyc").exists():
        raise ProgramError(f"{script}: is a directory without a __main__.py, not a program")
    if not os.access(path, os.R_OK):
        raise ProgramError(f"{script}: may not be read")


def interpreter_options(arguments: Sequence[str]) -> list[str]:
    """Options of the interpreter itself among Python's command line arguments.

    They end at the script, at -m or -c (which may stand last in a group of letters: -Im), or at --. Settings made by
    environment variables reach the child through the same variables.
    """
    options: list[str] = []
    rest = iter(arguments)
    for argument in rest:
        if argument.startswith("--check-hash-based-pycs"):
            options += [argument] if "=" in argument else [argument, next(rest, "")]
            continue
        if not argument.startswith("-") or argument in ("-", "--"):
            break
        group = re.match(r"-([^mcWX]*)(.?)(.*)", argument, re.DOTALL)
        letters, special, value = group.groups() if group else ("", "", "")
        if special in ("m", "c"):
            options += [f"-{letters}"] if letters else []
            break
        options += [argument] if not special or value else [argument, next(rest, "")]
    return options


def lines_timed() -> float | None:
    """Number of lines of `foretrace/base/python_line.py` that take as long as the agent's timed lines; None if the
    agent cannot time.

    This is a property of processor and interpreter, independent of other load: both are timed alternately.
    """
    from ._agent import lines_round_ns

    ratios = []
    for _ in range(_SAMPLES):
        seconds, lines = python_line.run_lines(_REPEATS)
        ratios.append(lines_round_ns() * 1e-9 / (seconds / lines))
    return statistics.median(ratios) or None


def line_s() -> float:
    """Seconds that a line of `foretrace/base/python_line.py` takes on this machine now."""
    timed = (python_line.run_lines(_REPEATS) for _ in range(_SAMPLES))
    return statistics.median(seconds / lines for seconds, lines in timed)


class PythonCore(StrEnum):
    """Method by which the agent follows the executed blocks of bytecode.

    MARKERS puts instructions into the program's own bytecode, not into that of the standard library and of installed
    packages. With SETTRACE the interpreter reports every line of all code; it costs several times more and sees no
    lists. Both give the same blocks, counts and loops of the program's own code.
    """

    MARKERS = "markers"
    SETTRACE = "settrace"


class PythonEngine:
    """Runs one script, one module as `python -m` does, or code as `python -c` does. Satisfies `session.Engine`.

    Raises:
        ProgramError: the script does not exist.
        EngineError: the agent is not built.
    """

    mmap_call = mprotect_call = 0
    makes_bursts = False

    def __init__(
        self,
        target: str,
        arguments: Sequence[str],
        *,
        kind: Target = Target.SCRIPT,
        core: PythonCore = PythonCore.MARKERS,
        interpreter: Interpreter | None = None,
    ) -> None:
        """`target` is the script's path, the module's name, or code; `core` the method that follows blocks.

        Without an `interpreter` the one that runs foretrace is taken, with its options.
        """
        if kind is Target.SCRIPT:
            _check_script(target)
        self._program = [str(kind), target, *arguments]
        self._interpreter = interpreter or Interpreter(sys.executable, platform.python_version())
        self._agent = _agent_path()
        self._core = core
        self.name = f"{core}, {platform.python_implementation()} {self._interpreter.version}"
        self.guest = "python"

    def command(self, stream_fd: int) -> tuple[str, list[str], dict[str, str]]:
        """See `session.Engine`. Our own interpreter gets the options (-X, -W, -I, ...) that we were started with."""
        agent = ["--fd", str(stream_fd), "--agent", self._agent, "--core", self._core]
        python = self._interpreter
        options = interpreter_options(sys.orig_argv[1:]) if python.options is None else python.options
        return python.path, [python.path, *options, str(_BOOTSTRAP), *agent, *self._program], dict(os.environ)

    @property
    def follows(self) -> tuple[int, int] | None:
        """See `session.Engine`. The agent itself sees to children (processes.c)."""
        return 0, 0

    def access_bytes(self, code: bytes, address: int, is_store: bool) -> int:
        """See `session.Engine`. Nothing here is a machine instruction."""
        return 0

    def access_parts(self, code: bytes) -> int:
        """See `session.Engine`."""
        return 0
