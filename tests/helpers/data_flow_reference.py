"""A slow data flow, byte by byte, and the C core behind the same face."""

from __future__ import annotations

import ctypes
import itertools
import os
import shlex
import subprocess
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

SOURCES = Path(__file__).parents[2] / "tracer" / "reader" / "data_flow"
OUTSIDE = -1
Flows = Counter[tuple[int, frozenset[int]]]
Footprints = Counter[frozenset[int]]
ObjectFlows = Counter[tuple[int, int, frozenset[int]]]
ObjectFootprints = Counter[tuple[int, frozenset[int]]]


@dataclass(frozen=True, slots=True)
class Operand:
    """One operand of an array operation: strides in bytes, one for each dimension; `indices` instead for a gather."""

    address: int
    strides: tuple[int, ...]
    size_bytes: int
    is_store: bool
    is_indexed: bool = False


class Reference:
    """Each byte by itself."""

    def __init__(self) -> None:
        self.version: dict[int, tuple[int, frozenset[int]]] = {}
        self.touched: dict[int, frozenset[int]] = {}
        self.object: dict[int, int] = {}
        self.ended: ObjectFlows = Counter()
        self.left: ObjectFootprints = Counter()

    def access(self, place: int, address: int, size_bytes: int, is_store: bool) -> None:
        for byte in range(address, address + size_bytes):
            writer, readers = self.version.get(byte, (OUTSIDE, frozenset()))
            if is_store and (writer, readers) != (place, frozenset()):
                self._end(byte)
            self.version[byte] = (place, frozenset()) if is_store else (writer, readers | {place})
            self.touched[byte] = self.touched.get(byte, frozenset()) | {place}

    def _end(self, byte: int) -> None:
        self.ended[(self.object.get(byte, 0), *self.version.pop(byte, (OUTSIDE, frozenset())))] += 1

    def allocate(self, first: int, length_bytes: int, number: int) -> None:
        for byte in range(first, first + length_bytes):
            before = self.object.get(byte, 0)
            if before == number:
                continue
            writer, readers = self.version.get(byte, (OUTSIDE, frozenset()))
            kept, touched = readers | ({writer} - {OUTSIDE}), self.touched.pop(byte, frozenset())
            if touched not in (frozenset(), kept):
                self.left[before, touched] += 1
            if kept:
                self.touched[byte] = kept
            self.object[byte] = number

    def release(self, first: int, length_bytes: int) -> None:
        for byte in range(first, first + length_bytes):
            self._end(byte)

    def array(self, place: int, extents: Sequence[int], indices: Sequence[int], operands: Sequence[Operand]) -> None:
        for is_store in (False, True):
            for operand in operands:
                if operand.is_store != is_store:
                    continue
                points = itertools.product(*map(range, extents))
                offsets = (sum(p * s for p, s in zip(point, operand.strides, strict=True)) for point in points)
                if operand.is_indexed:
                    offsets = (index * operand.strides[0] for index in indices)
                for address in {operand.address + offset for offset in offsets}:
                    self.access(place, address, operand.size_bytes, is_store)

    def object_flows(self) -> ObjectFlows:
        """Bytes of all versions, by object, writer and readers."""
        flows = self.ended.copy()
        for byte, version in self.version.items():
            flows[(self.object.get(byte, 0), *version)] += 1
        return Counter({flow: size for flow, size in flows.items() if flow[1:] != (OUTSIDE, frozenset())})

    def object_footprints(self) -> ObjectFootprints:
        """Bytes by object and who touched them."""
        footprints = self.left.copy()
        for byte, touched in self.touched.items():
            footprints[self.object.get(byte, 0), touched] += 1
        return footprints

    def flows(self) -> Flows:
        """Bytes of all versions, by writer and readers."""
        return without_objects(self.object_flows())

    def footprints(self) -> Footprints:
        """Bytes by who touched them."""
        footprints: Footprints = Counter()
        for (_, touched), num_bytes in self.object_footprints().items():
            footprints[touched] += num_bytes
        return footprints


def without_objects(flows: ObjectFlows) -> Flows:
    """Bytes of versions by writer and readers, whatever they are of."""
    found: Flows = Counter()
    for (_, writer, readers), num_bytes in flows.items():
        found[writer, readers] += num_bytes
    return found


class _ArrayAccess(ctypes.Structure):
    _fields_ = (
        ("address", ctypes.c_uint64), ("stride", ctypes.c_int64 * 8), ("op", ctypes.c_uint32),
        ("size_bytes", ctypes.c_uint16), ("flags", ctypes.c_uint8), ("is_indexed", ctypes.c_bool),
    )  # fmt: skip


class _ArrayRun(ctypes.Structure):
    _fields_ = (
        ("num_dims", ctypes.c_uint32), ("num_accesses", ctypes.c_uint32), ("extent", ctypes.c_uint64 * 8),
        ("index", ctypes.POINTER(ctypes.c_uint64)), ("access", _ArrayAccess * 8),
    )  # fmt: skip


class _Slot(ctypes.Structure):
    _fields_ = (
        ("hint_number", ctypes.c_uint64), ("hint_block", ctypes.c_void_p), ("place", ctypes.c_uint32),
        ("size_bytes", ctypes.c_uint32), ("word", ctypes.c_uint32), ("is_store", ctypes.c_bool),
    )  # fmt: skip


class _Marks(ctypes.Structure):
    _fields_ = (
        ("words", ctypes.c_void_p), ("are_known", ctypes.c_bool), ("passed", ctypes.c_uint64),
        ("bytes", ctypes.c_uint8 * (8192 + 8)),
    )  # fmt: skip


def build_core(directory: Path) -> Any:
    """The C core as a library, compiled with `CFLAGS` besides, which `make sanitize` sets."""
    library = directory / "flow.so"
    sources = sorted(str(path) for path in SOURCES.glob("*.c") if path.name != "dependences.c")
    root = str(SOURCES.parents[2])
    command = ["gcc", "-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-I", root, *sources]
    subprocess.run([*command, *shlex.split(os.environ.get("CFLAGS", "")), "-o", str(library)], check=True)
    core = ctypes.CDLL(str(library))
    core.ft_flow_new.restype = ctypes.c_void_p
    for name in ("ft_flow_sets", "ft_flow_versions", "ft_flow_touched", "ft_flow_left", "ft_flow_allocated_bytes"):
        getattr(core, name).restype = ctypes.c_uint64
    for name in ("ft_flow_access", "ft_flow_run", "ft_flow_array", "ft_flow_tidy", "ft_flow_has_many_sets",
                 "ft_flow_allocate", "ft_flow_release", "ft_flow_bytes", "ft_flow_mark",
                 "ft_flow_run_marked"):  # fmt: skip
        getattr(core, name).restype = ctypes.c_bool
    return core


class Core:
    """The C core, once."""

    def __init__(self, core: Any, max_blocks: int = 1 << 15, max_sets: int = 1 << 16) -> None:
        self._core = core
        self._flow = ctypes.c_void_p(core.ft_flow_new(max_blocks, max_sets))

    def close(self) -> None:
        self._core.ft_flow_free(self._flow)

    def access(self, place: int, address: int, size_bytes: int, is_store: bool, hint: Any = None) -> None:
        """`hint`: of `new_hint`, kept since an earlier access; good until the next access may change the epoch."""
        arguments = (place, ctypes.c_uint64(address), size_bytes, ctypes.c_bool(is_store))
        assert self._core.ft_flow_access(self._flow, hint or self.new_hint(), *arguments)

    @staticmethod
    def new_hint() -> Any:
        return (ctypes.c_uint64 * 2)()

    @property
    def epoch(self) -> int:
        return int(self._core.ft_flow_epoch(self._flow))

    def bytes(self, place: int, address: int, length_bytes: int, is_store: bool) -> None:
        arguments = (place, ctypes.c_uint64(address), ctypes.c_uint64(length_bytes), ctypes.c_bool(is_store))
        assert self._core.ft_flow_bytes(self._flow, *arguments)

    def allocate(self, first: int, length_bytes: int, number: int) -> None:
        assert self._core.ft_flow_allocate(self._flow, ctypes.c_uint64(first), ctypes.c_uint64(length_bytes), number)

    def allocated_bytes(self, first: int) -> int:
        return int(self._core.ft_flow_allocated_bytes(self._flow, ctypes.c_uint64(first)))

    def release(self, first: int, length_bytes: int) -> None:
        assert self._core.ft_flow_release(self._flow, ctypes.c_uint64(first), ctypes.c_uint64(length_bytes))

    def run(
        self,
        slots: Sequence[tuple[int, int, bool]],
        addresses: np.ndarray[Any, np.dtype[np.uint64]],
        slot_of_word: Sequence[int] | None = None,
        *,
        marked: bool = False,
    ) -> None:
        """Place, size and kind of each access of an iteration; `addresses` [iterations, words].

        An access is in the first of its words, by default all have one word. `marked`: by marks, where there are any.
        """
        names = list(range(len(slots))) if slot_of_word is None else list(slot_of_word)
        made = (_Slot * len(slots))(
            *(_Slot(0, None, p, size, names.index(i), s) for i, (p, size, s) in enumerate(slots))
        )  # fmt: skip
        words = np.ascontiguousarray(addresses)
        begin = words.ctypes.data_as(ctypes.c_void_p)
        iterations, num_words = words.shape
        mask = ctypes.c_uint64((1 << 48) - 1)
        marks = _Marks()
        if marked:
            assert self._core.ft_flow_mark(self._flow, ctypes.byref(marks), begin, iterations * num_words, mask)
        if not marks.are_known:
            assert self._core.ft_flow_run(
                self._flow, made, len(slots), begin, num_words, mask, ctypes.c_uint64(iterations)
            )  # fmt: skip
            return
        assert self._core.ft_flow_run_marked(
            self._flow, ctypes.byref(marks), made, len(slots), (ctypes.c_uint16 * num_words)(*names), begin, num_words,
            mask, ctypes.c_uint64(iterations),
        )  # fmt: skip

    def array(self, place: int, extents: Sequence[int], indices: Sequence[int], operands: Sequence[Operand]) -> None:
        run = _ArrayRun(len(extents), len(operands))
        run.extent[: len(extents)] = list(extents)
        run.index = (ctypes.c_uint64 * max(len(indices), 1))(*indices)
        for number, operand in enumerate(operands):
            access = run.access[number]
            access.address, access.size_bytes, access.flags = operand.address, operand.size_bytes, operand.is_store
            access.stride[: len(operand.strides)] = list(operand.strides)
            access.is_indexed = operand.is_indexed
        assert self._core.ft_flow_array(self._flow, place, ctypes.byref(run))

    @property
    def has_many_sets(self) -> bool:
        return bool(self._core.ft_flow_has_many_sets(self._flow))

    def tidy(self, place_of: Sequence[int]) -> None:
        assert self._core.ft_flow_tidy(self._flow, (ctypes.c_uint32 * len(place_of))(*place_of))

    @property
    def log_weight(self) -> int:
        return int(self._core.ft_flow_log_weight(self._flow))

    def _rows(self, take: Callable[..., int], columns: int, kind: type) -> np.ndarray[Any, np.dtype[np.int64]]:
        rows = np.zeros((int(take(self._flow, None)), columns), kind)
        take(self._flow, rows.ctypes.data_as(ctypes.c_void_p))
        return rows.astype(np.int64)

    def _sets(self) -> list[frozenset[int]]:
        words = self._rows(self._core.ft_flow_sets, 1, np.uint32).ravel().tolist()
        sets = []
        at = 0
        while at < len(words):
            sets.append(frozenset(words[at + 1 : at + 1 + words[at]]))
            at += 1 + words[at]
        return sets

    def finish(self) -> tuple[Flows, Footprints]:
        """Once: flows and footprints."""
        flows, footprints = self.finish_objects()
        total: Footprints = Counter()
        for (_, touched), num_bytes in footprints.items():
            total[touched] += num_bytes
        return without_objects(flows), total

    def finish_objects(self) -> tuple[ObjectFlows, ObjectFootprints]:
        """Once: flows and footprints by object."""
        self._core.ft_flow_finish(self._flow)
        sets, flows, footprints = self._sets(), ObjectFlows(), ObjectFootprints()
        for writer, number, readers, *parts in self._rows(self._core.ft_flow_versions, 12, np.uint64).tolist():
            flows[number, OUTSIDE if writer == 0xFFFFFFFF else writer, sets[readers]] += sum(parts)
        for _, length_bytes, by, weight, number in self._rows(self._core.ft_flow_touched, 5, np.uint64).tolist():
            footprints[number, sets[by]] += length_bytes * weight
        for number, by, num_bytes in self._rows(self._core.ft_flow_left, 3, np.uint64).tolist():
            footprints[number, sets[by]] += num_bytes
        return flows, footprints
