"""A toy machine for the tests of the analysis: an instruction set, and an engine that makes blocks as QEMU does."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from foretrace.tracer.isa.instruction_set import AccessParts, DataFlow, Flow, InstructionClass, StackUse
from foretrace.tracer.reader.raw_trace import RawBlock, RawTrace
from foretrace.tracer.signature.records import OperationKind

LENGTH = 4
NOP, BRANCH, JUMP, CALL, RETURN, LOAD, UPDATE = range(7)
FLOWS = {BRANCH: Flow.BRANCH, JUMP: Flow.JUMP, CALL: Flow.CALL, RETURN: Flow.RETURN}
Program = Sequence[tuple[int, int]]  # operation and target (an instruction's number)


class ToyIsa:
    """Four-byte instructions: an operation code and the number of a target."""

    stack_pointer = "sp"
    return_address = ""
    call_clobbered = frozenset({"r0"})

    def access_bytes(self, code: bytes, address: int, is_store: bool) -> int:
        return 8

    def access_parts(self, code: bytes) -> AccessParts:
        return AccessParts.ADJACENT

    def classify(self, codes: Sequence[bytes]) -> list[InstructionClass]:
        assert all(len(code) == LENGTH for code in codes)
        flows = [FLOWS.get(code[0], Flow.FALLTHROUGH) for code in codes]
        return [InstructionClass(OperationKind.INT_ALU, 64, 1, flow) for flow in flows]

    def data_flow(self, code: bytes, address: int, loads: bool, stores: bool) -> DataFlow:
        return DataFlow()

    def likeness(self, code: bytes) -> bytes:
        return code

    def flags(self, code: bytes, address: int) -> tuple[bool, bool]:
        return False, False

    def stack_use(self, _code: bytes) -> StackUse | None:
        return None


def encode(operation: int, target: int) -> bytes:
    return bytes([operation]) + target.to_bytes(LENGTH - 1, "little")


@dataclass
class Truth:
    """What really ran: executions of each instruction, steps from one to the next, accesses of each operation."""

    executions: Counter[int] = field(default_factory=Counter)
    steps: Counter[tuple[int, int]] = field(default_factory=Counter)
    accesses: Counter[tuple[int, bool]] = field(default_factory=Counter)


class ToyEngine:
    """Runs a program and reports what it translated: blocks end at control transfers, pages and its own limit."""

    def __init__(self, program: Program, page: int, limit: int) -> None:
        self.program = program
        self.page = page
        self.limit = limit
        self.truth = Truth()
        self.block_ids: dict[int, int] = {}
        self.spans: list[tuple[int, int]] = []
        self.executions: Counter[int] = Counter()
        self.edges: Counter[tuple[int, int]] = Counter()
        self.operations: dict[tuple[int, int], int] = {}
        self.operation_executions: Counter[int] = Counter()

    def run(self, choose: Callable[[int], bool], max_blocks: int) -> RawTrace:
        """Run from instruction 0 until it returns there, leaves the program or enough blocks ran."""
        stack: list[int] = []
        at, before = 0, 0
        last_instruction = -1
        for _ in range(max_blocks):
            block = self._translate(at)
            self.executions[block] += 1
            if before:
                self.edges[before, block] += 1
            before = block
            begin, end = self.spans[block - 1]
            for number in range(begin, end):
                self.truth.executions[number] += 1
                if last_instruction >= 0:
                    self.truth.steps[last_instruction, number] += 1
                last_instruction = number
                self._access(block, number, number - begin)
            operation, target = self.program[end - 1]
            at = end
            if operation == JUMP or (operation == BRANCH and choose(end - 1)):
                at = target
            elif operation == CALL:
                stack.append(end)
                at = target
            elif operation == RETURN:
                if not stack:
                    break
                at = stack.pop()
            if not 0 <= at < len(self.program) or len(stack) > 50:
                break
        return self._raw()

    def _translate(self, begin: int) -> int:
        if begin not in self.block_ids:
            end = begin
            while True:
                end += 1
                is_transfer = self.program[end - 1][0] in FLOWS
                if is_transfer or end % self.page == 0 or end - begin == self.limit or end == len(self.program):
                    break
            self.spans.append((begin, end))
            self.block_ids[begin] = len(self.spans)
        return self.block_ids[begin]

    def _access(self, block: int, number: int, position: int) -> None:
        operation = self.program[number][0]
        for is_store in {LOAD: (False,), UPDATE: (False, True)}.get(operation, ()):
            self.truth.accesses[number, is_store] += 1
            raw = self.operations.setdefault((block, 2 * position + is_store), len(self.operations))
            self.operation_executions[raw] += 1

    def _raw(self) -> RawTrace:
        blocks = tuple(
            RawBlock(
                number,
                LENGTH * begin,
                (LENGTH,) * (end - begin),
                b"".join(encode(*self.program[at]) for at in range(begin, end)),
                self.executions[number],
            )
            for number, (begin, end) in enumerate(self.spans, 1)
        )
        edges = [(source, target, count) for (source, target), count in self.edges.items()]
        keys = list(self.operations)
        return RawTrace(
            blocks=blocks,
            python_blocks=(),
            array_operations=(),
            operation_block=np.array([block for block, _ in keys], np.uint32),
            operation_slot=np.array([slot for _, slot in keys], np.uint32),
            operation_array=np.zeros(len(keys), np.uint32),
            operation_longest_range=np.zeros(len(keys), np.uint64),
            edges=np.array(edges, np.uint64).reshape(-1, 3),
            maps=(),
            guest_base=0,
        )


def run(
    program: Program, *, seed: int = 0, page: int = 1 << 30, limit: int = 1 << 30, max_blocks: int = 2000
) -> tuple[RawTrace, ToyEngine]:
    """Run a program with branches taken at random."""
    engine = ToyEngine(program, page, limit)
    generator = random.Random(seed)
    return engine.run(lambda _: generator.random() < 0.6, max_blocks), engine


def run_counted(program: Program, trips: dict[int, int]) -> tuple[RawTrace, ToyEngine]:
    """Run a program whose branch at instruction i is taken `trips[i]` times, then not taken once, and so on."""
    engine = ToyEngine(program, 1 << 30, 1 << 30)
    taken: Counter[int] = Counter()

    def choose(number: int) -> bool:
        taken[number] += 1
        return taken[number] % (trips[number] + 1) != 0

    return engine.run(choose, 100_000), engine
