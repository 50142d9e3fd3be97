"""The board of a traced process: found while it runs, read once it has ended."""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from dataclasses import dataclass

from foretrace.base.errors import EventsError
from foretrace.base.files import is_file_of, open_unfollowed
from foretrace.tracer.signature.event_records import MOST_KEPT_BYTES, MOST_KEPT_VALUES, RecordedEvent

from .board_file import REPLACED, CBoard, directory, each_event


@dataclass(frozen=True, slots=True, eq=False)
class ProcessEvents:
    """The events of a process at its end.

    Attributes:
        process: its number in the signature.
        events: those on its board.
        numbers: the process's own numbers of these events.
        lost_bytes: see `Board`.
        note: for the user; "" if all is well.
    """

    process: int
    events: tuple[RecordedEvent, ...] = ()
    numbers: tuple[int, ...] = ()
    lost_bytes: int = 0
    note: str = ""


class TracedBoard:
    """The board of one process, which may be replaced by that of another program while it is read."""

    def __init__(self, pid: int) -> None:
        """Name the board of a process without opening it."""
        self._pid = pid
        path = directory() / f"foretrace-events-{os.geteuid()}-{pid}"
        self._paths = (path, path.with_name(path.name + REPLACED))
        self._descriptor = -1

    def open(self) -> None:
        """Open the board once the engine has found it. It stays readable if its file is renamed or removed."""
        if self._descriptor >= 0:
            return
        for path in self._paths:
            with suppress(OSError):
                self._descriptor = open_unfollowed(path, os.O_RDWR)
                if self._is_own() and self._head().traced_process == self._pid:
                    return
                os.close(self._descriptor)
                self._descriptor = -1

    def _is_own(self) -> bool:
        """Whether the file belongs to this user: anyone may make a file of that name."""
        return is_file_of(os.fstat(self._descriptor), os.geteuid())

    def _head(self) -> CBoard:
        return CBoard.from_buffer_copy(
            os.pread(self._descriptor, ctypes.sizeof(CBoard), 0).ljust(ctypes.sizeof(CBoard), b"\0")
        )

    def finish(self, process: int, *, keeps_values: bool, has_ended: bool) -> ProcessEvents:
        """Its events, of process number `process`. The file is removed if it is there for us alone.

        Args:
            process: its number in the signature.
            keeps_values: all values of recorders, not only some.
            has_ended: else it goes on without us, and removes the file itself.
        """
        self.open()
        if self._descriptor < 0:
            return ProcessEvents(process, note="software-defined events were lost: their file is gone")
        try:
            return self._read(process, keeps_values)
        except (EventsError, OSError, MemoryError, ValueError) as error:
            return ProcessEvents(process, note=f"software-defined events could not be read: {error or 'no memory'}")
        finally:
            self._give_up(has_ended)
            os.close(self._descriptor)
            self._descriptor = -1

    def _give_up(self, has_ended: bool) -> None:
        if not has_ended:
            with suppress(OSError):
                os.pwrite(self._descriptor, bytes(4), CBoard.traced_process.offset)
        elif "FORETRACE_EVENTS_KEEP" not in os.environ:
            for path in self._paths:
                with suppress(OSError):
                    if os.path.samestat(os.fstat(self._descriptor), path.lstat()):
                        path.unlink()

    def _read(self, process: int, keeps_values: bool) -> ProcessEvents:
        most_values = None if keeps_values else MOST_KEPT_VALUES
        found = dict(each_event(self._descriptor, self._paths[0], process, most_values, MOST_KEPT_BYTES))
        note = ""
        for event in found.values():
            count = event.value if type(event.value) is int else 0
            if event.values is not None and len(event.values.kept) < min(count, most_values or count):
                note = f"recorders have more than {MOST_KEPT_BYTES >> 30} GiB: not all of their values are kept"
        lost_bytes = self._head().num_private_bytes_lost
        return ProcessEvents(process, tuple(found.values()), tuple(found), lost_bytes, note)
