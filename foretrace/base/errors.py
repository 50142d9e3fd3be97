"""The errors a user can cause, each with the exit code the command line ends with.

Exit codes: 2 is click's (wrong usage); the others are listed on the classes, and in docs/exit-codes.md. A traced
program's own exit code passes through `foretrace trace` unchanged, so ours are kept out of the way of the common ones.
"""

from __future__ import annotations

MOST_QUOTED = 64


def shortened(text: str) -> str:
    """Quoted input truncated to a length that fits a message."""
    return text if len(text) <= MOST_QUOTED else text[: MOST_QUOTED - 3] + "..."


def quoted(text: str) -> str:
    """Input truncated by `shortened`, in quotes."""
    return repr(shortened(text))


class ForetraceError(Exception):
    """A problem that has one clear line: what is wrong, where, and what to do about it."""

    exit_code = 70

    def _render_traceback_(self) -> list[str]:
        """Traceback for IPython and notebooks: the message and its notes, without foretrace's own frames."""
        return [f"{type(self).__name__}: {self}", *getattr(self, "__notes__", ())]


class ProgramError(ForetraceError):
    """The program to trace is missing, not executable, not an ELF, or for another architecture."""

    exit_code = 71


class EngineError(ForetraceError):
    """The tracing engine is missing or unfit (no QEMU, no plugin support, no NumPy where it is needed)."""

    exit_code = 72


class SignatureError(ForetraceError):
    """A signature file is empty, truncated, foreign, or of a version this release cannot read."""

    exit_code = 73


class ProfileError(ForetraceError):
    """A machine profile is unknown, or its file has a wrong key, unit or value."""

    exit_code = 74


class OutputError(ForetraceError):
    """An output file exists already, cannot be written, or the disk is full."""

    exit_code = 75


class HierarchyError(ForetraceError):
    """A cache hierarchy cannot be built: a field has a value no cache can have."""

    exit_code = 76


class CalibrationError(ForetraceError):
    """This machine cannot be measured, or the measurement was interrupted."""

    exit_code = 77


class PredictionError(ForetraceError):
    """A prediction was asked for that the signature and the profile together cannot give."""

    exit_code = 78


class TraceFileError(ForetraceError):
    """A stored stream or another tool's trace is missing, damaged, empty, or of no format that can be read."""

    exit_code = 81


class TimingError(ForetraceError):
    """A timing of a native run is missing, damaged, or not of the program it is to be compared with."""

    exit_code = 82


class SourceError(ForetraceError):
    """Source code is missing, of no language that is read, or a form or pattern file is damaged."""

    exit_code = 83


class EventsError(ForetraceError):
    """A process has no software-defined events, or the file of them that it left is damaged."""

    exit_code = 84


class LimitError(ForetraceError):
    """A verb takes more memory or processor time than its limit, or than there is."""

    exit_code = 85


class SweepError(ForetraceError):
    """A sweep that was asked for cannot be made, or some of its points failed."""

    exit_code = 80
