"""The engine for functions of this interpreter: they run in a fork of it, with our agent.

The child has a copy of this process: modules, variables, open files. Its changes stay its own. Only the function's
result, if it can be pickled, or the exception that ended it comes back, through a file in memory.
"""

from __future__ import annotations

import gc
import os
import pickle
import platform
import sys
import traceback
import types
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, BinaryIO, TextIO

from foretrace.base.errors import EngineError
from foretrace.tracer.reader import _reader
from foretrace.tracer.signature.records import AddressRange

from .program import PythonCore
from .resident import own_copies, resident_ranges

_FAILED = 70
"""Exit code of a child in which the agent could not work."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result or exception of a function that ran in the child.

    `error` is the exception's type and message, `exception` the exception itself where it can be pickled.
    `unpicklable` says why a result does not come back. `failure` says why nothing was called at all, `shared`
    why pages were still shared with the parent.
    """

    result: Any = None
    error: str = ""
    exception: BaseException | None = None
    traceback: str = ""
    unpicklable: str = ""
    failure: str = ""
    shared: str = ""


class ForkedEngine:
    """Runs a function in a fork of this interpreter. Satisfies `session.Engine` and `session.Forks`; for one run."""

    mmap_call = mprotect_call = 0
    guest = "python"
    makes_bursts = False

    def __init__(self, function: Callable[[], object], core: PythonCore = PythonCore.MARKERS) -> None:
        """`function` is called in the child; `core` is the method that follows blocks."""
        from . import _agent

        self._agent = _agent
        self._function = function
        self._core = core
        self._relays = [relay for name in ("stdout", "stderr") if (relay := _Relay.of(name)) is not None]
        self._outcome_fd = os.memfd_create("foretrace-outcome")
        self.pid: int | None = None
        self.resident: tuple[AddressRange, ...] = ()
        """Memory that the child has had from its beginning."""
        self._shared = ""
        self.name = f"{core}, {platform.python_implementation()} {platform.python_version()}, forked"

    def start(self, stream_fd: int) -> int:
        """See `session.Forks`."""
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        try:
            self.resident = resident_ranges()
        except EngineError as error:
            self._shared = str(error)
        with warnings.catch_warnings():
            # From 3.12 on: other threads may hold locks that the child then waits for. Those that are safe to fork
            # (a notebook's) are many, and the program is run nowhere else.
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if pid == 0:
            code = _FAILED
            try:
                code = self._run(stream_fd)
            finally:
                os._exit(code)
        self.pid = pid
        for relay in self._relays:
            relay.close_writer()
        return pid

    def relay(self) -> None:
        """Write the child's output to this process's streams, if these are no plain files."""
        for relay in self._relays:
            relay.pass_on()

    def outcome(self) -> Outcome | None:
        """Result or exception of the function; None where the child died before writing it. Call it once, at the end.

        Raises:
            EngineError: the agent could not work in the child.
        """
        for relay in self._relays:
            relay.pass_on()
            relay.close()
        with os.fdopen(self._outcome_fd, "rb") as file:
            file.seek(0)
            found: Outcome | None = _loaded(file)
            if found is None:
                return None
            if found.failure:
                raise EngineError(f"cannot trace in a fork of this interpreter: {found.failure}")
            payload = _loaded(file)
        return replace(found, exception=payload) if found.error else replace(found, result=payload)

    def command(self, stream_fd: int) -> tuple[str, list[str], dict[str, str]]:
        """See `session.Engine`. It is never asked: `start` forks."""
        raise NotImplementedError

    @property
    def follows(self) -> tuple[int, int] | None:
        """See `session.Engine`."""
        return None

    def access_bytes(self, code: bytes, address: int, is_store: bool) -> int:
        """See `session.Engine`. Nothing here is a machine instruction."""
        return 0

    def access_parts(self, code: bytes) -> int:
        """See `session.Engine`."""
        return 0

    # ---- in the child ----

    def _run(self, stream_fd: int) -> int:
        _reader.release_signals()
        for relay in self._relays:
            relay.replace_stream()
        self._shared = self._shared or own_copies(self.resident)
        try:
            self._agent.attach(str(stream_fd), str(self._core))
            if self._core is PythonCore.MARKERS:
                self._adopt()
        except Exception as error:
            self._send_outcome(Outcome(failure=str(error)), None)
            return _FAILED
        code = self._call()
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        return code

    def _adopt(self) -> None:
        """Put markers into the existing functions, except our own."""
        for one in gc.get_objects():
            if type(one) is types.FunctionType and not _is_ours(one.__globals__.get("__name__")):
                self._agent.adopt(one)

    def _call(self) -> int:
        try:
            result = self._agent.call(self._function)
        except SystemExit as exit_:
            self._send_outcome(Outcome(), None)
            if exit_.code is None or isinstance(exit_.code, int):
                return (exit_.code or 0) & 0xFF
            print(exit_.code, file=sys.stderr)
            return 1
        except BaseException as error:
            text = "".join(traceback.format_exception_only(error)).strip()
            lines = traceback.format_exception(type(error), error, _without_ours(error.__traceback__))
            self._send_outcome(Outcome(error=text, traceback="".join(lines)), error)
            return 1
        self._send_outcome(Outcome(), result)
        return 0

    def _send_outcome(self, outcome: Outcome, payload: object) -> None:
        try:
            content = pickle.dumps(payload, protocol=pickle.HIGHEST_PROTOCOL)
        except Exception as error:
            content = pickle.dumps(None)
            if not outcome.error:
                outcome = Outcome(unpicklable=f"{type(payload).__name__} cannot be pickled: {error}")
        with os.fdopen(self._outcome_fd, "wb", closefd=False) as file:
            file.write(pickle.dumps(replace(outcome, shared=self._shared)))
            file.write(content)


class _Relay:
    """Passes on the child's output where this process's `sys.stdout` or `sys.stderr` is an object, no file descriptor.

    In a notebook, and wherever `sys.stdout` was replaced, an object of this process alone takes the output.
    """

    def __init__(self, name: str, stream: TextIO) -> None:
        self._name, self._stream = name, stream
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        self._rest = b""

    @classmethod
    def of(cls, name: str) -> _Relay | None:
        """A relay for `stdout` or `stderr`; None where the child itself writes to the same place."""
        stream = getattr(sys, name)
        if stream is None:
            return None
        try:
            is_plain = stream.fileno() == (1 if name == "stdout" else 2)
        except (OSError, ValueError, AttributeError):
            is_plain = False
        return None if is_plain else cls(name, stream)

    def close_writer(self) -> None:
        """Close the pipe's writing end in the parent, after the fork."""
        os.close(self._writer)

    def replace_stream(self) -> None:
        """Redirect the stream into the pipe, in the child."""
        setattr(sys, self._name, os.fdopen(self._writer, "w", buffering=1, encoding="utf-8", errors="surrogateescape"))

    def pass_on(self) -> None:
        """Pass on the output that has arrived so far."""
        content = self._rest
        try:
            while chunk := os.read(self._reader, 1 << 16):
                content += chunk
        except BlockingIOError:
            pass
        if content:
            # A letter's bytes may come in two parts.
            whole = len(content) if content[-1] < 0x80 else max(content.rfind(b"\n") + 1, 0)
            self._rest = content[whole:]
            self._stream.write(content[:whole].decode("utf-8", "replace"))

    def close(self) -> None:
        """Pass on the rest and close the pipe."""
        if self._rest:
            self._stream.write(self._rest.decode("utf-8", "replace"))
            self._rest = b""
        os.close(self._reader)
        self._stream.flush()


def _is_ours(module: object) -> bool:
    return isinstance(module, str) and (module == "foretrace" or module.startswith("foretrace."))


def _without_ours(found: types.TracebackType | None) -> types.TracebackType | None:
    """The traceback from the traced code on."""
    while found is not None and (
        _is_ours(found.tb_frame.f_globals.get("__name__")) or found.tb_frame.f_code.co_filename == CALL_FILE
    ):
        found = found.tb_next
    return found


CALL_FILE = "<traced call>"
"""File name of the line that calls the function: work outside the program's functions is attributed to it."""


def called(function: Callable[..., object], arguments: tuple[object, ...]) -> Callable[[], object]:
    """The callable for the child: a line of traced code that calls the function."""
    code = compile("result = function(*arguments)", CALL_FILE, "exec")
    namespace: dict[str, Any] = {"function": function, "arguments": arguments}

    def call() -> object:
        exec(code, namespace)
        return namespace["result"]

    return call


def _loaded(file: BinaryIO) -> Any:
    try:
        return pickle.load(file)
    except Exception:  # whatever an object's own constructor raises, or nothing was written
        return None
