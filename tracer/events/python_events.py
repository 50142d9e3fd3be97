"""Events of Python programs: ctypes over the library that programs in C link with."""

from __future__ import annotations

import atexit
import ctypes
import functools
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, Literal, ParamSpec, TypeVar

import numpy as np
import numpy.typing as npt

from foretrace.errors import EventsError

from . import linking

_P = ParamSpec("_P")
_R = TypeVar("_R")

_READ_WRITE, _INSTANT = 0x01, 0x10
_LONG_LONG, _DOUBLE = 0, 2
_GROUPS = {"sum": 0, "max": 1, "min": 2}
_REASONS = {
    -1: "an argument is wrong, or the event has ended",
    -2: "there is no memory",
    -4: "the event does not support that",
    -7: "there is no such event",
}
_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_longlong, ctypes.c_void_p)
_COMPARISONS = {
    np.dtype(np.int64): "long_long", np.dtype(np.int32): "int", np.dtype(np.float64): "double",
    np.dtype(np.float32): "float",
}  # fmt: skip


class _CElement(ctypes.Structure):
    """`cset_list_object_t`."""


_CElement._fields_ = (
    ("count", ctypes.c_uint32), ("type_id", ctypes.c_uint32), ("type_size", ctypes.c_size_t),
    ("ptr", ctypes.c_void_p), ("next", ctypes.POINTER(_CElement)),
)  # fmt: skip


@cache
def _library() -> ctypes.CDLL:
    """The library: the one in the process, if there is one already."""
    process = ctypes.CDLL(None)
    if not hasattr(process, "foretrace_events_open"):
        process = ctypes.CDLL(str(linking.library()), mode=ctypes.RTLD_GLOBAL)
    for name in ("papi_sde_init", "papi_sde_get_counter_handle", "foretrace_events_open"):
        getattr(process, name).restype = ctypes.c_void_p
    if hasattr(process, "foretrace_events_end_callbacks"):
        atexit.register(process.foretrace_events_end_callbacks)
    return process


def _check(code: int, what: str) -> None:
    if code:
        raise EventsError(f"{what}: {_REASONS.get(code, f'error {code}')}")


def _encoded(name: str) -> bytes:
    if "\0" in name:
        raise EventsError(f"{name!r}: the name of an event has no NUL character")
    return name.encode()


class Library:
    """A library that has events, by its name: the same one wherever it is asked for."""

    def __init__(self, name: str) -> None:
        """Ask for a library.

        Raises:
            EventsError: there is no memory, or the shared library is missing.
        """
        self.name = name
        self._handle = ctypes.c_void_p(_library().papi_sde_init(_encoded(name)))
        self._callbacks: dict[str, Any] = {}
        if not self._handle:
            raise EventsError(f"{name}: there is no memory for events")

    def counter(
        self, name: str, description: str | None = None, *, instant: bool = False, writable: bool = False
    ) -> Counter:
        """A counter that threads add to.

        Args:
            name: of the event.
            description: what it counts; a unit in brackets at its end.
            instant: tools read its value, not its change.
            writable: tools may set it.

        Raises:
            EventsError: another kind of event has that name.
        """
        handle = ctypes.c_void_p()
        mode = _INSTANT * instant | _READ_WRITE * writable
        code = _library().papi_sde_create_counter(self._handle, _encoded(name), mode, ctypes.byref(handle))
        _check(code, f"{self.name}::{name}")
        self._describe(name, description)
        return Counter(f"{self.name}::{name}", handle)

    def watch(
        self, name: str, callback: Callable[[], float], description: str | None = None, *,
        kind: type[int] | type[float] = int, instant: bool = True,
    ) -> None:  # fmt: skip
        """An event whose value is what a function returns when it is read. An exception in it reads as 0.

        Raises:
            EventsError: the event cannot be registered.
        """

        def read(_: Any) -> int:
            value = callback()
            return int(np.float64(value).view(np.int64)) if kind is float else int(value)

        c_callback = _CALLBACK(read)
        code = _library().papi_sde_register_counter_cb(
            self._handle, _encoded(name), _INSTANT * instant, _DOUBLE if kind is float else _LONG_LONG, c_callback, None
        )
        _check(code, f"{self.name}::{name}")
        self._callbacks.setdefault(name, c_callback)  # the library keeps the first of a name
        _kept.append(c_callback)
        self._describe(name, description)

    def recorder(self, name: str, dtype: npt.DTypeLike = np.float64, description: str | None = None) -> Recorder:
        """A recorder of values: numbers, strings ("S16") or structures of a fixed size.

        Raises:
            EventsError: another kind of event has that name, or values hold Python objects.
        """
        of = np.dtype(dtype)
        if of.hasobject or not of.itemsize:
            raise EventsError(f"{self.name}::{name}: values of {of} have no fixed size; name one like 'f8' or 'S16'")
        compare = getattr(_library(), f"papi_sde_compare_{_COMPARISONS[of]}") if of in _COMPARISONS else None
        handle = ctypes.c_void_p()
        code = _library().papi_sde_create_recorder(
            self._handle, _encoded(name), ctypes.c_size_t(of.itemsize), compare, ctypes.byref(handle)
        )
        _check(code, f"{self.name}::{name}")
        self._describe(name, description)
        return Recorder(f"{self.name}::{name}", handle, of)

    def counting_set(self, name: str, description: str | None = None) -> CountingSet:
        """A set that counts how often each element is in it.

        Raises:
            EventsError: another kind of event has that name.
        """
        handle = ctypes.c_void_p()
        _check(
            _library().papi_sde_create_counting_set(self._handle, _encoded(name), ctypes.byref(handle)),
            f"{self.name}::{name}",
        )
        self._describe(name, description)
        return CountingSet(f"{self.name}::{name}", handle)

    def group(self, name: str, members: Sequence[str], how: Literal["sum", "max", "min"] = "sum") -> None:
        """A group of this library's events, which is an event, too.

        Raises:
            EventsError: a member is none, or the group would contain itself.
        """
        for member in members:
            code = _library().papi_sde_add_counter_to_group(
                self._handle, _encoded(member), _encoded(name), ctypes.c_uint32(_GROUPS[how])
            )
            _check(code, f"{self.name}::{member} in the group {name}")

    def remove(self, name: str) -> None:
        """End an event.

        Raises:
            EventsError: there is none of that name.
        """
        _check(_library().papi_sde_unregister_counter(self._handle, _encoded(name)), f"{self.name}::{name}")
        self._callbacks.pop(name, None)

    def counted(self, function: Callable[_P, _R]) -> Callable[_P, _R]:
        """Decorate a function: its calls are counted, the seconds of each recorded."""
        calls = self.counter(f"{function.__qualname__}.calls", f"calls of {function.__qualname__}")
        seconds = self.recorder(f"{function.__qualname__}.seconds", description="of each call [s]")

        @functools.wraps(function)
        def wrapper(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            calls.increment()
            begun_ns = time.perf_counter_ns()
            try:
                return function(*args, **kwargs)
            finally:
                seconds.record((time.perf_counter_ns() - begun_ns) * 1e-9)

        return wrapper

    def _describe(self, name: str, description: str | None) -> None:
        if description is not None:
            code = _library().papi_sde_describe_counter(self._handle, _encoded(name), _encoded(description))
            _check(code, f"{self.name}::{name}")


_kept: list[Any] = []
"""Callbacks: the registry may call them as long as the process runs."""


class Counter:
    """A counter that threads add to."""

    def __init__(self, name: str, handle: ctypes.c_void_p) -> None:
        """Of this name in full."""
        self.name = name
        self._handle = handle
        self._increment = _library().papi_sde_inc_counter

    def increment(self, by: int = 1) -> None:
        """Add to it.

        Raises:
            EventsError: the event has ended.
        """
        code = self._increment(self._handle, ctypes.c_longlong(by))
        if code:
            _check(code, self.name)

    def reset(self) -> None:
        """Set it to 0."""
        _check(_library().papi_sde_reset_counter(self._handle), self.name)


class Recorder:
    """A recorder of values of one dtype."""

    def __init__(self, name: str, handle: ctypes.c_void_p, dtype: np.dtype[Any]) -> None:
        """Of this name in full."""
        self.name, self.dtype = name, dtype
        self._handle, self._size = handle, ctypes.c_size_t(dtype.itemsize)

    def record(self, value: Any) -> None:
        """Keep a value.

        Raises:
            EventsError: the event has ended, or the value is of another type.
        """
        try:
            content = np.array(value, self.dtype)
        except (TypeError, ValueError) as error:
            raise EventsError(f"{self.name}: {value!r} is no {self.dtype}: {error}") from None
        if content.ndim:
            raise EventsError(f"{self.name}: records one value at a time, not an array")
        _check(_library().papi_sde_record(self._handle, self._size, content.ctypes.data_as(ctypes.c_void_p)), self.name)

    def values(self) -> npt.NDArray[Any]:
        """All values so far, [values] of the dtype."""
        with reading(self.name, f"{self.name}:CNT") as found:
            pass
        copy = ctypes.c_void_p(found[self.name])
        values = np.empty(found[f"{self.name}:CNT"], self.dtype)
        if values.nbytes:
            ctypes.memmove(values.ctypes.data, copy, values.nbytes)
        _free(copy)
        return values

    def reset(self) -> None:
        """Forget all values."""
        _check(_library().papi_sde_reset_recorder(self._handle), self.name)


class CountingSet:
    """A set that counts how often each element is in it."""

    def __init__(self, name: str, handle: ctypes.c_void_p) -> None:
        """Of this name in full."""
        self.name = name
        self._handle = handle

    def insert(self, element: bytes, type_id: int = 0) -> None:
        """Count an element once more."""
        size = ctypes.c_size_t(len(element))
        code = _library().papi_sde_counting_set_insert(self._handle, size, size, element, ctypes.c_uint32(type_id))
        _check(code, self.name)

    def remove(self, element: bytes, type_id: int = 0) -> None:
        """Count an element once less."""
        size = ctypes.c_size_t(len(element))
        _check(
            _library().papi_sde_counting_set_remove(self._handle, size, element, ctypes.c_uint32(type_id)), self.name
        )

    def counts(self) -> dict[bytes, int]:
        """How often each element is in it, of all types."""
        with _event_set([self.name]) as event_set:
            value = (ctypes.c_longlong * 1)()
            _check(_library().foretrace_events_start(event_set), self.name)
            _check(_library().foretrace_events_read(event_set, value), self.name)
        found: dict[bytes, int] = {}
        at = ctypes.cast(ctypes.c_void_p(value[0]), ctypes.POINTER(_CElement))
        while at:
            element, here = at.contents, at
            content = ctypes.string_at(element.ptr, element.type_size)
            found[content] = found.get(content, 0) + element.count
            at = element.next
            _free(ctypes.c_void_p(element.ptr))
            _free(ctypes.cast(here, ctypes.c_void_p))
        return found


class Readings(dict[str, int]):
    """Values of events by their names in full: of those in delta mode, the change inside the `with` statement."""


@contextmanager
def reading(*names: str) -> Iterator[Readings]:
    """Read events at the end of a `with` statement.

    Args:
        *names: `library::event`. One that no library has registered reads -1.

    Raises:
        EventsError: a name is none, or an event ended meanwhile.
    """
    values = (ctypes.c_longlong * len(names))()
    found = Readings()
    with _event_set(names) as event_set:
        _check(_library().foretrace_events_start(event_set), ", ".join(names))
        yield found
        _check(_library().foretrace_events_stop(event_set, values), ", ".join(names))
    found.update(zip(names, values, strict=True))


@contextmanager
def _event_set(names: Sequence[str]) -> Iterator[ctypes.c_void_p]:
    array = (ctypes.c_char_p * len(names))(*map(_encoded, names))
    event_set = ctypes.c_void_p(_library().foretrace_events_open(array, ctypes.c_size_t(len(names))))
    if not event_set:
        raise EventsError(f"{', '.join(names)}: a name of an event is library::event")
    try:
        yield event_set
    finally:
        _library().foretrace_events_close(event_set)


def _free(memory: ctypes.c_void_p) -> None:
    ctypes.CDLL(None).free(memory)
