"""The command line in forks of a process that has imported it: most of a short command's time is its imports.

`python warm_command_line.py` serves: a line of JSON in, `{"arguments": [...], "cwd": ..., "environment": {...},
"stdout": path, "stderr": path}`, the wait status of the fork out.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path


class WarmCommandLine:
    """Runs commands one at a time, each in a fork of its own."""

    def __init__(self) -> None:
        """Start the process that is forked."""
        self._server = subprocess.Popen(
            [sys.executable, "-P", __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._folder = tempfile.TemporaryDirectory()

    def run(
        self, arguments: list[str], cwd: Path | None = None, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command. Returns its exit code and its output as text, as `subprocess.run` does.

        What the interpreter itself reads of the environment when it starts (PYTHON*, LC_*) has no effect.
        """
        files = [Path(self._folder.name) / name for name in ("stdout", "stderr")]
        request = {
            "arguments": arguments,
            "cwd": str(cwd or Path.cwd()),
            "environment": dict(os.environ if env is None else env),
            "stdout": str(files[0]),
            "stderr": str(files[1]),
        }
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps(request) + "\n")
        self._server.stdin.flush()
        code = os.waitstatus_to_exitcode(int(self._server.stdout.readline()))
        return subprocess.CompletedProcess(["foretrace", *arguments], code, *(file.read_text() for file in files))

    def close(self) -> None:
        """End the process."""
        self._server.communicate()
        self._folder.cleanup()


@functools.cache
def warm_command_line() -> WarmCommandLine:
    """The one of this process; it ends with it."""
    made = WarmCommandLine()
    atexit.register(made.close)
    return made


def _become(request: dict[str, object]) -> None:
    """Run the command of a request in this process, which ends with it."""
    descriptors = [os.open(os.devnull, os.O_RDONLY)]
    descriptors += [os.open(str(request[name]), os.O_CREAT | os.O_TRUNC | os.O_WRONLY) for name in ("stdout", "stderr")]
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
    os.closerange(3, 256)
    os.chdir(str(request["cwd"]))
    os.environ.clear()
    os.environ.update(request["environment"])  # type: ignore[arg-type]
    sys.argv = ["foretrace", *request["arguments"]]  # type: ignore[misc]
    from foretrace.__main__ import run

    run()


def _serve() -> None:
    import importlib

    from foretrace.cli import VERBS

    for verb in VERBS:
        importlib.import_module(f"foretrace.commands.{verb}")
    requests, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    for line in requests:
        child = os.fork()
        if child == 0:
            try:
                _become(json.loads(line))
            finally:
                os._exit(255)
        _, status = os.waitpid(child, 0)
        answers.write(f"{status}\n")
        answers.flush()


if __name__ == "__main__":
    _serve()
