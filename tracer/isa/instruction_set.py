"""The interface of an instruction set to the analysis of traced binaries."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from enum import IntEnum
from typing import Protocol

import msgspec

from foretrace.tracer.signature.records import OperationKind


class Flow(IntEnum):
    """Control flow of an instruction: how the next one is chosen."""

    FALLTHROUGH = 0
    BRANCH = 1  # to its target or to the next instruction
    JUMP = 2
    INDIRECT_JUMP = 3
    CALL = 4
    RETURN = 5
    SYSCALL = 6  # to the next instruction, unless the system says otherwise


class InstructionClass(msgspec.Struct, frozen=True):
    """Operation kind of an instruction, on `lanes` elements of `element_bits` (0: no particular width), and its flow.

    `hides_access` marks an instruction whose memory access the engine does not see.
    """

    kind: OperationKind
    element_bits: int = 0
    lanes: int = 1
    flow: Flow = Flow.FALLTHROUGH
    hides_access: bool = False


UNKNOWN_INSTRUCTION = InstructionClass(OperationKind.UNKNOWN)


LOADED = "loaded"
"""Stands for the loaded value among the registers that an instruction multiplies."""


class AddressSum(msgspec.Struct, frozen=True):
    """A sum of registers, each times a scale, and a displacement: a memory operand, or the result of an add."""

    registers: tuple[tuple[str, int], ...] = ()
    displacement: int = 0


class StackUse(msgspec.Struct, frozen=True):
    """An instruction's use of a register stack, whose registers are named by their distance from its top.

    `reads` are distances before it, `writes` after its `pushes` and before its `pops`. `exchanges`: the register whose
    value it exchanges with the top's, 0 for none.
    """

    reads: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()
    pushes: int = 0
    pops: int = 0
    exchanges: int = 0


class DataFlow(msgspec.Struct, frozen=True):
    """Data flow of one instruction. Registers are named by their widest form; flags are left out.

    The instruction loads from the addresses `loads` and stores to `stores`. Every register in `writes`, and every
    store, receives one result, computed from the registers `reads` and the values loaded. `sum` gives that result
    where it is a sum of registers; `copies` says that it is the loaded value itself, `adds` that it is the sum of all
    its inputs, `varies` that it depends on more than registers and loads, such as flags. Each register in `steps` is
    advanced from its own old value alone. `stack_bytes` is added to the stack pointer. An indirect jump or call takes
    its destination from the registers `target`, or from memory if `loads_target`. `is_gather` marks a vector gather or
    scatter instruction. `then` is the next step of an instruction that takes several: loading a second register,
    advancing the register that held the address.
    """

    loads: tuple[AddressSum, ...] = ()
    stores: tuple[AddressSum, ...] = ()
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    sum: AddressSum | None = None
    copies: bool = False
    adds: bool = False
    steps: tuple[str, ...] = ()
    varies: bool = False
    stack_bytes: int = 0
    target: tuple[str, ...] = ()
    loads_target: bool = False
    is_gather: bool = False
    then: DataFlow | None = None

    def followed_by(self, then: DataFlow) -> DataFlow:
        """This data flow with `then` as its next step."""
        return msgspec.structs.replace(self, then=then)


class AccessParts(IntEnum):
    """Form of an engine's report of an access made in parts. Values: enum ft_parts (tracer/reader/reader.h)."""

    ADJACENT = 0
    """The whole access, in adjacent parts."""
    MASKED = 1
    """The lanes that a mask has on."""
    STATE = 2
    """Some of the processor's state, in any order."""


class Isa(Protocol):
    """An instruction set. Instructions are handed over as bytes, together with the address they run at."""

    stack_pointer: str
    return_address: str
    """The register that a call leaves the address to return to in; "" where that is on the stack."""
    call_clobbered: frozenset[str]
    """Registers whose values a called function may change."""
    arguments: frozenset[str]
    """Registers that may carry values into a function: its arguments, and registers that its caller shares."""
    results: frozenset[str]
    """Registers that a function may return something in."""

    def access_bytes(self, code: bytes, address: int, is_store: bool) -> int:
        """Size of each load (or store) that the instruction makes, in bytes; 0 if unknown or not fixed.

        A masked access counts with all its lanes.
        """
        ...

    def access_parts(self, code: bytes) -> AccessParts:
        """The form of the engine's report of the instruction's access, if made in parts."""
        ...

    def classify(self, codes: Sequence[bytes]) -> list[InstructionClass]:
        """Class of each instruction, given by its bytes: it does not depend on where the instruction is."""
        ...

    def data_flow(self, code: bytes, address: int, loads: bool, stores: bool) -> DataFlow:
        """Data flow of one instruction that was seen to load and to store, or not to."""
        ...

    def likeness(self, code: bytes) -> Hashable:
        """A key that instructions share only if they agree in data flow and flags, apart from numbers in them."""
        ...

    def flags(self, code: bytes, address: int) -> tuple[bool, bool]:
        """Whether an instruction reads condition flags, and whether it writes them."""
        ...

    def combines(self, code: bytes) -> str:
        """The associative operation (rounding aside) by which an instruction combines its inputs: "add" (or subtract),
        "multiply", "min", "max", "and", "or" or "xor"; "" for all others."""
        ...

    def multiplied(self, code: bytes) -> frozenset[str]:
        """Registers that an instruction multiplies or shifts before it combines the product with others; `LOADED`
        stands for a loaded value. Empty for all other instructions."""
        ...

    def shifts(self, code: bytes) -> int | None:
        """Places by which an instruction shifts the bits of a value to the left, dropping the high ones: 0 for sign and
        zero extensions, and for a mask of the lowest bits. None for all other instructions."""
        ...

    def extension(self, code: bytes) -> str:
        """The extension of the instruction set that an instruction belongs to, as far as programs choose their code by
        it: named as in Linux's /proc/cpuinfo; empty: none, or not known."""
        ...

    def selects(self, code: bytes) -> bool:
        """Whether an instruction's result is one of its inputs, as flags or a mask say."""
        ...

    def is_atomic(self, code: bytes) -> bool:
        """Whether an instruction is an atomic read-modify-write. The engine reports its access as a store."""
        ...

    def stack_use(self, code: bytes) -> StackUse | None:
        """An instruction's use of a register stack; None if it uses none."""
        ...
