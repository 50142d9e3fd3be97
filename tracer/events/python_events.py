"""Events of Python programs: ctypes over the library that programs in C link with."""

from __future__ import annotations

import atexit
import ctypes
import functools
import reprlib
import struct
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, Literal, ParamSpec, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from foretrace.base.errors import EventsError

from . import linking

_P = ParamSpec("_P")
_R = TypeVar("_R")

Bytes: TypeAlias = bytes | bytearray | memoryview | npt.NDArray[Any]

_READ_WRITE, _INSTANT = 0x01, 0x10
_LONG_LONG, _DOUBLE = 0, 2
_GROUPS = {"sum": 0, "max": 1, "min": 2}
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1
_POINTER, _NO_TYPE = 0x100, 0xFF
_TYPES: dict[int, type[ctypes.c_longlong | ctypes.c_int | ctypes.c_double | ctypes.c_float]] = {
    _LONG_LONG: ctypes.c_longlong, 1: ctypes.c_int, _DOUBLE: ctypes.c_double, 3: ctypes.c_float,
}  # fmt: skip
_REASONS = {
    -2: "there is no memory",
    -4: "the event does not support that",
    -7: "there is no such event",
}
_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_longlong, ctypes.c_void_p)
_COMPARISONS = {
    np.dtype(np.int64): "long_long", np.dtype(np.int32): "int", np.dtype(np.float64): "double",
    np.dtype(np.float32): "float",
}  # fmt: skip


_STRUCT_LETTERS = {
    ("i", 1): "b", ("i", 2): "h", ("i", 4): "i", ("i", 8): "q",
    ("u", 1): "B", ("u", 2): "H", ("u", 4): "I", ("u", 8): "Q",
    ("f", 2): "e", ("f", 4): "f", ("f", 8): "d",
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


def _check(code: int, what: str, invalid: str = "the event has ended") -> None:
    """Raise the error of a code. `invalid`: the message for SDE_EINVAL."""
    if code:
        raise EventsError(f"{what}: {invalid if code == -1 else _REASONS.get(code, f'error {code}')}")


def _encoded(name: str) -> bytes:
    if not isinstance(name, str):
        raise TypeError(f"the name of an event is a string, not {name!r}")
    if "\0" in name:
        raise EventsError(f"{name!r}: the name of an event has no NUL character")
    try:
        return name.encode()
    except UnicodeEncodeError:
        raise EventsError(f"{name!r}: the name of an event has no surrogates") from None


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
        self._dtypes = _dtypes.setdefault(name, {})
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
        _check(code, f"{self.name}::{name}", _OTHER_KIND)
        self._describe(name, description)
        return Counter(f"{self.name}::{name}", handle)

    def watch(
        self, name: str, callback: Callable[[], float], description: str | None = None, *,
        kind: type[int] | type[float] = int, instant: bool = True,
    ) -> None:  # fmt: skip
        """An event whose value is the result of a function, called when it is read.

        A result that is no number of that kind, or an exception, reads as 0, and standard error says so once. A second
        event of the same name is ignored: `remove` the first.

        Raises:
            EventsError: the event cannot be registered.
        """
        if not callable(callback):
            raise EventsError(f"{self.name}::{name}: {reprlib.repr(callback)} cannot be called")
        to_bytes = struct.Struct("d" if kind is float else "q").pack
        failed = False

        def read(_: Any) -> int:
            nonlocal failed
            try:
                return int.from_bytes(to_bytes(callback()), sys.byteorder, signed=True)
            except BaseException as error:  # ctypes would return any number
                if not failed:
                    print(
                        f"foretrace events: {self.name}::{name} reads as 0: {type(error).__name__}: {error}",
                        file=sys.stderr,
                    )
                failed = True
                return 0

        c_callback = _CALLBACK(read)
        code = _library().papi_sde_register_counter_cb(
            self._handle, _encoded(name), _INSTANT * instant, _DOUBLE if kind is float else _LONG_LONG, c_callback, None
        )
        _check(code, f"{self.name}::{name}", _OTHER_KIND)
        self._callbacks.setdefault(name, c_callback)  # the library keeps the first of a name
        _kept.append(c_callback)
        self._describe(name, description)

    def recorder(self, name: str, dtype: npt.DTypeLike = np.float64, description: str | None = None) -> Recorder:
        """A recorder of values: numbers, strings ("S16") or structures of a fixed size.

        Raises:
            EventsError: another kind of event, or a recorder of another dtype, has that name, or the dtype has no size.
        """
        try:
            of = np.dtype(dtype)
        except TypeError as error:
            raise EventsError(f"{self.name}::{name}: {error}") from None
        if of.hasobject or not of.itemsize:
            raise EventsError(f"{self.name}::{name}: values of {of} have no fixed size; name one like 'f8' or 'S16'")
        compare = getattr(_library(), f"papi_sde_compare_{_COMPARISONS[of]}") if of in _COMPARISONS else None
        handle = ctypes.c_void_p()
        code = _library().papi_sde_create_recorder(
            self._handle, _encoded(name), ctypes.c_size_t(of.itemsize), compare, ctypes.byref(handle)
        )
        _check(code, f"{self.name}::{name}", f"{_OTHER_KIND}, or a recorder of values of another size")
        first = self._dtypes.setdefault(name, of)
        if first != of:
            raise EventsError(f"{self.name}::{name}: records {first}, not {of}")
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
            _OTHER_KIND,
        )
        self._describe(name, description)
        return CountingSet(f"{self.name}::{name}", handle)

    def group(self, name: str, members: Sequence[str], how: Literal["sum", "max", "min"] = "sum") -> None:
        """A group of this library's events, which is an event, too.

        Raises:
            EventsError: a member is none, or the group would contain itself.
        """
        if how not in _GROUPS:
            raise EventsError(f"{self.name}::{name}: {how!r} is none of {', '.join(_GROUPS)}")
        if isinstance(members, str):
            raise EventsError(f"{self.name}::{name}: the members of a group are a list of names, not one text")
        for member in members:
            code = _library().papi_sde_add_counter_to_group(
                self._handle, _encoded(member), _encoded(name), ctypes.c_uint32(_GROUPS[how])
            )
            _check(
                code, f"{self.name}::{member} in the group {name}",
                f"there is no such event, {name} is no group by {how}, or the group would contain itself",
            )  # fmt: skip

    def remove(self, name: str) -> None:
        """End an event.

        Raises:
            EventsError: no event has that name.
        """
        code = _library().papi_sde_unregister_counter(self._handle, _encoded(name))
        _check(code, f"{self.name}::{name}", "there is no such event")
        self._callbacks.pop(name, None)
        self._dtypes.pop(name, None)

    def counted(self, function: Callable[_P, _R]) -> Callable[_P, _R]:
        """Decorate a function: its calls are counted, the seconds of each recorded.

        A call of a generator or a coroutine ends before it runs.
        """
        if not callable(function):
            raise EventsError(f"{self.name}: {reprlib.repr(function)} cannot be called")
        name = getattr(function, "__qualname__", type(function).__qualname__)
        calls = self.counter(f"{name}.calls", f"calls of {name}")
        seconds = self.recorder(f"{name}.seconds", description="of each call [s]")

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


_OTHER_KIND = "another kind of event has that name"
_dtypes: dict[str, dict[str, np.dtype[Any]]] = {}
"""Dtypes of recorders, by library and name."""
_kept: list[Any] = []
"""Callbacks: the registry may call them as long as the process runs."""


class Counter:
    """A counter that threads add to."""

    def __init__(self, name: str, handle: ctypes.c_void_p) -> None:
        """Wrap the counter of this full name."""
        self.name = name
        self._handle = handle
        self._increment = _library().papi_sde_inc_counter

    def increment(self, by: int = 1) -> None:
        """Add to it.

        Raises:
            EventsError: the event has ended, or the number is out of the range of 64 bits.
        """
        if not _LEAST <= by <= _MOST:
            raise EventsError(f"{self.name}: {by} is out of the range of 64 bits")
        code = self._increment(self._handle, ctypes.c_longlong(by))
        if code:
            _check(code, self.name)

    def reset(self) -> None:
        """Set it to 0."""
        _check(_library().papi_sde_reset_counter(self._handle), self.name)


class Recorder:
    """A recorder of values of one dtype."""

    def __init__(self, name: str, handle: ctypes.c_void_p, dtype: np.dtype[Any]) -> None:
        """Wrap the recorder of this full name."""
        self.name, self.dtype = name, dtype
        self._handle, self._size = handle, ctypes.c_size_t(dtype.itemsize)
        self._to_bytes = _number_packer(dtype) or functools.partial(_value_bytes, dtype)
        self._record = _library().papi_sde_record

    def record(self, value: Any) -> None:
        """Keep a value.

        Raises:
            EventsError: the event has ended, or the recorder's dtype cannot hold the value as it is.
        """
        try:
            content = self._to_bytes(value)
        except (TypeError, ValueError, OverflowError, struct.error) as error:
            raise EventsError(f"{self.name}: {reprlib.repr(value)} is no {self.dtype}: {error}") from None
        code = self._record(self._handle, self._size, content)
        if code:
            _check(code, self.name)

    def values(self) -> npt.NDArray[Any]:
        """All values so far, [values] of the dtype: those of a thread in their order, one thread after the other.

        Raises:
            EventsError: the event has ended.
        """
        copy, number = ctypes.c_void_p(), ctypes.c_size_t()
        code = _library().foretrace_events_values(_encoded(self.name), ctypes.byref(copy), ctypes.byref(number))
        _check(code, self.name)
        values = np.empty(number.value, self.dtype)
        ctypes.memmove(values.ctypes.data, copy, values.nbytes)
        _free(copy)
        return values

    def reset(self) -> None:
        """Forget all values."""
        _check(_library().papi_sde_reset_recorder(self._handle), self.name)


def _number_packer(dtype: np.dtype[Any]) -> Callable[[Any], bytes] | None:
    """Packer of numbers into bytes, which refuses those out of range. None: the dtype is no native number."""
    letter = _STRUCT_LETTERS.get((dtype.kind, dtype.itemsize))
    return struct.Struct(f"={letter}").pack if letter and dtype.isnative else None


def _value_bytes(dtype: np.dtype[Any], value: Any) -> bytes:
    content = np.array(value, dtype)
    if content.ndim or content.dtype != dtype:
        raise ValueError("it is not one value")
    if dtype.kind in "SU" and isinstance(value, str | bytes) and len(value) > dtype.itemsize // dtype.alignment:
        raise ValueError("it is longer")
    return content.tobytes()


def _element_bytes(name: str, element: Bytes) -> bytes:
    if isinstance(element, np.ndarray):
        return element.tobytes()
    try:
        return bytes(memoryview(element))
    except TypeError:
        raise EventsError(f"{name}: an element is bytes, not {reprlib.repr(element)}") from None


class CountingSet:
    """A set that counts how often each element is in it."""

    def __init__(self, name: str, handle: ctypes.c_void_p) -> None:
        """Wrap the counting set of this full name."""
        self.name = name
        self._handle = handle

    def insert(self, element: Bytes, type_id: int = 0) -> None:
        """Count an element, `bytes` or an array's, once more.

        Raises:
            EventsError: the event has ended, or the element has no bytes.
        """
        content = _element_bytes(self.name, element)
        size = ctypes.c_size_t(len(content))
        code = _library().papi_sde_counting_set_insert(self._handle, size, size, content, self._type(type_id))
        _check(code, self.name)

    def remove(self, element: Bytes, type_id: int = 0) -> None:
        """Count an element once less. One that is not in the set is ignored.

        Raises:
            EventsError: the event has ended, or the element has no bytes.
        """
        content = _element_bytes(self.name, element)
        size = ctypes.c_size_t(len(content))
        _check(_library().papi_sde_counting_set_remove(self._handle, size, content, self._type(type_id)), self.name)

    def _type(self, type_id: int) -> ctypes.c_uint32:
        if not 0 <= type_id < 1 << 32:
            raise EventsError(f"{self.name}: the type {type_id} is none of 0 to {(1 << 32) - 1}")
        return ctypes.c_uint32(type_id)

    def counts(self) -> dict[bytes, int]:
        """Number of occurrences of each element, by its bytes, over all element types."""
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


class Readings(dict[str, float]):
    """Values of events by their names in full: of those in delta mode, the change inside the `with` statement."""


@contextmanager
def reading(*names: str) -> Iterator[Readings]:
    """Read events at the end of a `with` statement.

    Args:
        *names: `library::event`, of numbers: one that no library has registered reads -1, the quartiles of a recorder
            without values `nan`.

    Raises:
        EventsError: a name is malformed, an event ended while reading, or is not a number.
    """
    values = (ctypes.c_longlong * len(names))()
    found = Readings()
    with _event_set(names) as event_set:
        for number, name in enumerate(names):
            if _type_of(event_set, number) == _POINTER | _NO_TYPE:
                raise EventsError(f"{name}: has no single value; Recorder.values() and CountingSet.counts() read all")
        _check(_library().foretrace_events_start(event_set), ", ".join(names))
        yield found
        _check(_library().foretrace_events_stop(event_set, values), ", ".join(names))
        for number, name in enumerate(names):
            found[name] = _number(values[number], _type_of(event_set, number))


def _type_of(event_set: ctypes.c_void_p, number: int) -> int:
    found: int = _library().foretrace_events_type(event_set, ctypes.c_size_t(number))
    return found


def _number(value: int, event_type: int) -> float:
    """Number read from an event: the value itself, the bits of a double, or the number it points to."""
    if event_type < 0 or event_type == _POINTER | _NO_TYPE:  # it has ended, or was registered, meanwhile
        return value
    if event_type & _POINTER:
        pointer = ctypes.c_void_p(value)
        if not pointer:
            return float("nan")
        number: float = _TYPES[event_type & _NO_TYPE].from_address(value).value
        _free(pointer)
        return number
    return value if event_type < _DOUBLE else float(np.int64(value).view(np.float64))


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
