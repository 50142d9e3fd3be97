"""The application signature: what a program did, as typed records. It knows of no machine.

Ids are dense and count from 0: `blocks[i].block_id == i`, and likewise for operations and loops. `signature_file` keeps
these records on disk.

The module is long for a list: it declares all records of the file that have no module of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import msgspec
import numpy as np
import numpy.typing as npt

from foretrace.base.names import brief_name
from foretrace.cache_sim.base.results import SimulatedHierarchy as SimulatedHierarchy
from foretrace.cache_sim.reuse.results import ReuseHistograms as ReuseHistograms

from . import schema
from .data_flow_records import DataFlow, Dependence, ExaminedLoop
from .event_records import NO_EVENTS, Events
from .linear_algebra import LinearRoutine
from .rank_records import RankRun
from .selection import Selection
from .tree_records import ExecutionTree
from .waiting import Waiting


class OperationKind(StrEnum):
    """Kind of computation of an instruction, as far as its cost depends on it."""

    INT_ALU = "int_alu"  # what every integer unit does in a cycle: sums, comparisons, bits by bits, extensions
    INT_SHIFT = "int_shift"  # shifts, rotates, bit fields
    INT_SELECT = "int_select"  # by a condition: moves, and 0 or 1
    INT_SHIFT_ADD = "int_shift_add"  # sums of three parts, or with a register that is shifted or extended first
    INT_BIT_COUNT = "int_bit_count"  # how many bits are set, or lead, or trail
    INT_MUL = "int_mul"
    INT_DIV = "int_div"
    FP_ADD = "fp_add"
    FP_MUL = "fp_mul"
    FP_FMA = "fp_fma"
    FP_DIV = "fp_div"
    FP_SQRT = "fp_sqrt"
    FP_COMPARE = "fp_compare"
    FP_CONVERT = "fp_convert"  # between formats or with integers, and to whole numbers
    FP_OTHER = "fp_other"  # min/max, bitwise, shuffles on floating-point registers: no flop
    FP_CONTROL = "fp_control"  # the register of rounding mode and exceptions read or written
    VECTOR_INT = "vector_int"
    VECTOR_MUL = "vector_mul"  # products of integer vectors, and sums of such
    GATHER = "gather"  # loads, or stores, of elements at addresses that a vector holds
    AES = "aes"  # a round, or a step of the key schedule
    AES_MIX = "aes_mix"  # the part of a round that AArch64 has an instruction of its own for: fused with the one before
    SHA_ROUND = "sha_round"  # rounds of SHA-1, SHA-2, SM3 and SM4
    SHA_SCHEDULE = "sha_schedule"  # words of their message schedule
    CRC32 = "crc32"
    CARRYLESS_MUL = "carryless_mul"
    GALOIS = "galois"  # products and affine maps of bytes in GF(2^8)
    BIT_DEPOSIT = "bit_deposit"  # bits spread or gathered by a mask
    ATOMIC = "atomic"  # a place in memory read and written at once
    FENCE = "fence"  # loads and stores kept in order
    X87_FUNCTION = "x87_function"  # sines, logarithms and the like in microcode
    TIMER = "timer"  # the time-stamp counter read
    MOVE = "move"  # between registers, loads and stores included
    BRANCH = "branch"
    CALL = "call"
    RETURN = "return"
    OTHER = "other"
    UNKNOWN = "unknown"  # could not be decoded
    BYTECODE = "bytecode"  # an instruction of the Python interpreter


WIDER_KIND = {
    OperationKind.VECTOR_MUL: OperationKind.VECTOR_INT,
    OperationKind.GATHER: OperationKind.MOVE,
    OperationKind.AES: OperationKind.VECTOR_INT,
    OperationKind.AES_MIX: OperationKind.VECTOR_INT,
    OperationKind.SHA_ROUND: OperationKind.VECTOR_INT,
    OperationKind.SHA_SCHEDULE: OperationKind.VECTOR_INT,
    OperationKind.CRC32: OperationKind.INT_ALU,
    OperationKind.CARRYLESS_MUL: OperationKind.VECTOR_INT,
    OperationKind.GALOIS: OperationKind.VECTOR_INT,
    OperationKind.BIT_DEPOSIT: OperationKind.INT_ALU,
    OperationKind.ATOMIC: OperationKind.INT_ALU,
    OperationKind.FENCE: OperationKind.OTHER,
    OperationKind.X87_FUNCTION: OperationKind.FP_OTHER,
    OperationKind.TIMER: OperationKind.OTHER,
}
"""Kinds that only their cost tells apart from the kind that they are of."""


FLOPS_PER_LANE = {
    OperationKind.FP_ADD: 1,
    OperationKind.FP_MUL: 1,
    OperationKind.FP_FMA: 2,
    OperationKind.FP_DIV: 1,
    OperationKind.FP_SQRT: 1,
}


class OperationCount(msgspec.Struct, frozen=True):
    """So many instructions of one kind in one execution of a block; `lanes` elements of `element_bits` each."""

    kind: OperationKind
    element_bits: int
    lanes: int
    count: int

    @property
    def flops(self) -> int:
        """Floating-point operations of these instructions together."""
        return FLOPS_PER_LANE.get(self.kind, 0) * self.lanes * self.count


class Block(msgspec.Struct, frozen=True):
    """A basic block: it runs from its first instruction to its last whenever it is entered.

    `offset` is the address within `module` (its link-time virtual address; for Python the bytecode offset). `file` and
    `line` are empty and 0 where the program does not tell; of a library's code that was expanded in line, they are the
    program's own line that called it. `loop_id` is the innermost loop, or None. `caller`, of a library's block, is
    the function of the program for whose call it ran most, and `file` and `line` are those of that call.
    """

    block_id: schema.Identity
    module: str
    offset: schema.Offset
    function: str
    file: str
    line: int
    loop_id: schema.LoopId | None
    executions: schema.Count
    instructions: int
    operations: tuple[OperationCount, ...]
    caller: str = ""

    @property
    def flops(self) -> int:
        """Floating-point operations of one execution."""
        return sum(operation.flops for operation in self.operations)


class InterpreterTime(msgspec.Struct, frozen=True):
    """Time of the interpreter for an execution of a block, with the compiled code and the foreign Python code called.

    It was timed while the program ran, and is told in lines: by how long a line of `foretrace/base/python_line.py` took
    on the same machine. Array operations whose accesses were seen are not in it. `recording_lines` is what recording
    the block was taken to add, and has been taken off. `array_faults` is how often array operations whose accesses were
    seen came to a page that had to be mapped.
    """

    block_id: schema.OfBlock
    lines: schema.MeanLines
    recording_lines: schema.MeanLines
    array_faults: schema.Faults = 0.0


class ArrayTime(msgspec.Struct, frozen=True):
    """Traced time of a block of array operations, and the types of its elements.

    `operand_types` are NumPy's names, of the block's memory operations in their order, with commas between; "-" where
    one is not known. `lines` is the time of all calls that have their time here, in lines as in `InterpreterTime`; a
    call that is recorded as several blocks has it at one of them. `faults` is how often these came to a page that had
    to be mapped. `kept_calls` are those whose time is in that of the line that called, or in a compiled function's.
    """

    block_id: schema.OfBlock
    operand_types: str
    lines: schema.Lines
    faults: schema.Faults
    kept_calls: schema.Count


class LinearAlgebra(msgspec.Struct, frozen=True):
    """Calls of a routine of linear algebra on operands of the same sizes, in one loop of array operations.

    For m, n and k see `LinearRoutine`. Each call does `batch` times `flops` floating-point operations (those of its
    elements where they are integers). `element_type` is NumPy's name; "integer" or "other" where BLAS has no such type.
    Its memory operations are one pass over each operand.
    """

    loop_id: schema.OfLoop
    routine: LinearRoutine
    element_type: str
    m: int
    n: int
    k: int
    batch: int
    calls: schema.Count
    flops: float


class MemoryOperation(msgspec.Struct, frozen=True):
    """One instruction's load or store (or one operand of an array operation), over the whole run.

    `first` and `last_exclusive` bound the bytes touched. Each access but the first is classed by its distance from the
    one before: `repeated` (same address), `unit_stride` (the next element), `strided` (the same distance again, another
    than those), `irregular`. The four sum to `executions` - 1 (or 0). `size_bytes` is the largest access's.

    `index_operation` is the load that its address is computed from (in the same loop), None if there is none;
    `self_dependent` says that its address depends on a value it loaded itself before (pointer chasing).
    `array_operation` names the array operation, for Python ("numpy.add"), and is empty for instructions. Its arrays may
    lie elsewhere each time: `execution_range_bytes` is, for the operand that indices lead to, the longest range of a
    single execution (None for all others).
    """

    operation_id: schema.Identity
    block_id: schema.OfBlock
    offset: schema.Offset
    file: str
    line: int
    is_store: bool
    size_bytes: schema.MostBytes
    executions: schema.Count
    total_bytes: schema.Bytes
    first: schema.Lowest
    last_exclusive: schema.Highest
    repeated: schema.Count
    unit_stride: schema.Count
    strided: schema.Count
    irregular: schema.Count
    index_operation: schema.OperationId | None = None
    self_dependent: schema.Flag = False
    array_operation: str = ""
    execution_range_bytes: schema.MostBytes | None = None

    @property
    def range_bytes(self) -> int:
        """Length of the address range."""
        return self.last_exclusive - self.first


class Frame(msgspec.Struct, frozen=True):
    """A function, and the place in it that runs, or calls what is behind it; "" and 0 where that is not known."""

    function: str
    file: str
    line: int


class LibraryCall(msgspec.Struct, frozen=True):
    """A call of a library by the program: `called`, in line `line` of `file`, in `function`.

    `share`, from 0 to 1, is the part of the instructions of a piece of library code that ran for it. Where all four are
    empty, it is that of all other places.
    """

    called: str
    function: str
    file: str
    line: int
    share: schema.Share


class Loop(msgspec.Struct, frozen=True):
    """A natural loop of one function. Of Python, also an array operation's own loop (`kind` "array"), or the calls of a
    compiled function whose accesses were not seen ("compiled"): `module` names the operation or function.

    `entries` counts the times it was entered from outside, `iterations` the executions of its header. `order` is its
    rank in the order in which loops first ran.

    `calls`, of a loop of a library, are the program's calls for which it ran, most instructions first. `function`,
    `file` and `line` are then those of the first: the library's function that the program calls, and where.

    `frames`, where calls were expanded in line at the loop, or a function that the program does not call itself has it:
    the chain of functions, innermost first. One of them is at the loop's place; libraries' come before it.
    """

    loop_id: schema.Identity
    parent_id: schema.LoopId | None
    header_block_id: schema.OfBlock
    module: str
    function: str
    file: str
    line: int
    depth: int
    entries: schema.Count
    iterations: schema.Count
    order: schema.Lowest
    kind: str = "code"
    calls: tuple[LibraryCall, ...] = ()
    frames: tuple[Frame, ...] = ()

    @property
    def caller(self) -> str:
        """The function of the program that calls a library's loop, whose place is that of the call; else empty."""
        return self.calls[0].function if self.calls else ""

    @property
    def is_library(self) -> bool:
        """Whether it is a library's, which is called or was expanded in line at its place."""
        return bool(self.calls) or (
            bool(self.frames) and (self.frames[0].file, self.frames[0].line) != (self.file, self.line)
        )

    @property
    def inlined(self) -> str:
        """The code behind the loop's place, and the calls around it, that were expanded in line; empty if none were."""
        return inlined_text(self.frames, self.file, self.line)


def inlined_text(frames: Sequence[Frame], file: str, line: int) -> str:
    """Text on the inlining at a place, which is one of the frames, innermost first: the function of a library that it
    calls and the line there, such as "std::vector::operator[] at stl_vector.h:1046"; and the place where its own
    function was expanded, such as "dot, inlined at main.c:12"."""
    at = next((at for at, frame in enumerate(frames) if (frame.file, frame.line) == (file, line)), None)
    if at is None:
        return ""
    parts = []
    if at:
        frame = frames[at - 1]
        where = f" at {frame.file.rpartition('/')[2]}:{frame.line}" if frame.file else ""
        parts.append(f"{brief_name(frame.function)}{where}")
    if at + 1 < len(frames):
        around = frames[at + 1]
        parts.append(f"{brief_name(frames[at].function)}, inlined at {around.file.rpartition('/')[2]}:{around.line}")
    return "; ".join(parts)


class IdiomKind(StrEnum):
    """Idioms that the trace itself shows, without source: of paper 002, section 2, and more."""

    GATHER = "gather"  # B[i] = A[index[i]]
    SCATTER = "scatter"  # A[index[i]] = B[i]
    GATHER_MODIFY_SCATTER = "gather-modify-scatter"  # A[index[i]] += B[i]
    TABLE_LOOKUP = "table-lookup"  # a gather from a small array
    POINTER_CHASE = "pointer-chase"  # p = p->next
    STREAM = "stream"  # A[i] = f(B[i]): one element after the other
    STRIDED = "strided"  # the same distance from each access to the next, which is not that of the next element
    TRANSPOSE = "transpose"  # A[i][j] = B[j][i]
    STENCIL = "stencil"  # A[i] = B[i - 1] + B[i + 1]
    REDUCTION = "reduction"  # s += A[i]
    RECURRENCE = "recurrence"  # A[i] = f(A[i - 1]), s = a * s + A[i]
    MATRIX_PRODUCT = "matrix-product"  # an array operation that computes one (Python), as all that follow
    MATRIX_VECTOR_PRODUCT = "matrix-vector-product"
    SPARSE_PRODUCT = "sparse-product-csr"
    PREFIX_SCAN = "prefix-scan"
    COMPACTION = "compaction"
    SORT = "sort"
    FFT = "fft-butterfly"

    @property
    def is_indirect(self) -> bool:
        """Whether it is a gather or scatter itself, of which models have figures; others may go with it."""
        return self in (IdiomKind.GATHER, IdiomKind.SCATTER)


_PARTS = {
    IdiomKind.GATHER_MODIFY_SCATTER: {IdiomKind.GATHER, IdiomKind.SCATTER},
    IdiomKind.TABLE_LOOKUP: {IdiomKind.GATHER},
    IdiomKind.COMPACTION: {IdiomKind.GATHER},
}


def told_apart(kinds: Iterable[IdiomKind]) -> tuple[IdiomKind, ...]:
    """Kinds of idioms, each once, without those that are parts of others: the gather of a gather-modify-scatter."""
    found = tuple(dict.fromkeys(kinds))
    parts = set[IdiomKind]().union(*(_PARTS.get(kind, set()) for kind in found))
    return tuple(kind for kind in found if kind not in parts)


class Idiom(msgspec.Struct, frozen=True):
    """An idiom in a loop.

    Of a gather or scatter, `operations` are the indirect accesses to one array A (several if the compiler unrolled the
    loop), `index_operations` the loads their addresses come from. Of others, `operations` are the accesses that make
    it; a reduction in a register may have none.
    """

    idiom_id: schema.Identity
    loop_id: schema.OfLoop
    kind: IdiomKind
    file: str
    line: int
    operations: tuple[int, ...]
    index_operations: tuple[int, ...]


class AddressRange(msgspec.Struct, frozen=True):
    """Bytes [first, last_exclusive)."""

    first: int
    last_exclusive: int

    @property
    def range_bytes(self) -> int:
        """Length."""
        return self.last_exclusive - self.first


def merge_ranges(ranges: Iterable[AddressRange]) -> tuple[AddressRange, ...]:
    """The fewest ranges that cover the given ones: sorted by first address, overlapping ones merged.

    Paper 002, section 3.2.2.
    """
    merged: list[AddressRange] = []
    for new in sorted(ranges, key=lambda r: r.first):
        if merged and new.first < merged[-1].last_exclusive:
            if new.last_exclusive > merged[-1].last_exclusive:
                merged[-1] = AddressRange(merged[-1].first, new.last_exclusive)
        else:
            merged.append(new)
    return tuple(merged)


class InstructionForm(msgspec.Struct, frozen=True):
    """An instruction as a core sees it: what it computes, and the registers by which it waits for others.

    `flow` says where control goes after it ("branch", "jump", "indirect_jump", "call", "return", "syscall"; empty: on).
    An instruction's result, `writes`, needs `reads` and what it loads; the address it loads from or stores to needs
    `addresses`, and if `scaled` a multiple of one of them. Condition flags are a register, "flags"; the stack pointer
    is left out, as cores keep it apart.
    """

    kind: OperationKind
    element_bits: int
    lanes: int
    length_bytes: int
    flow: str
    reads: tuple[str, ...]
    addresses: tuple[str, ...]
    writes: tuple[str, ...]
    scaled: bool


class Instruction(InstructionForm, frozen=True):
    """An instruction of a block, with the memory operations that it makes."""

    load_operation: int | None
    store_operation: int | None


class Paths(msgspec.Struct, frozen=True, eq=False):
    """Stretches of a run as they went, evenly spread over it.

    `starts` int64 [paths + 1]: the first execution of each path, and their number. `blocks` uint32 [executions]: ids of
    blocks. For each memory operation of each execution, in the order of their ids, uint16 [accesses], counted in such
    accesses: `store_distances`, how long ago the last store was to any of the bytes that it touches,
    `line_distances`, how long ago its line (64 bytes) was touched; 0 where it was not in that path, or longer ago than
    can be said.
    `instructions` are those of the blocks in the paths, by block id.
    """

    starts: npt.NDArray[np.int64]
    blocks: npt.NDArray[np.uint32]
    store_distances: npt.NDArray[np.uint16]
    line_distances: npt.NDArray[np.uint16]
    instructions: Mapping[int, tuple[Instruction, ...]]


NO_PATHS = Paths(np.zeros(1, np.int64), np.zeros(0, np.uint32), np.zeros(0, np.uint16), np.zeros(0, np.uint16), {})


NATIVE_THREADS = "native threads"
"""Names the threads that compiled code of a Python program started, in place of a function's name."""


class UnseenOperation(msgspec.Struct, frozen=True):
    """An array operation of a Python program whose accesses were not seen.

    `bytes` are those of one pass over the arrays of all `calls`; `one_pass_calls` of them are recorded as such a pass.
    """

    name: str
    calls: int
    bytes: int
    one_pass_calls: int


class Unseen(msgspec.Struct, frozen=True):
    """Work of a Python program that was not seen, besides the number of unseen array operations.

    `calls_share` and `bytes_share`, from 0 to 1, are of the calls and of the bytes of all array operations.
    `operations` are those with the most bytes, at most 30.

    `time_share`, from 0 to 1, is the share of compiled code whose accesses were not seen in the time of all of the
    program while it was traced; None: it was not timed. `functions` names that code, most time first: functions called
    from Python, and `NATIVE_THREADS`, the threads that compiled code started.

    `native_threads_s` is the processor time of those threads, `native_threads_share` its share of the process's
    processor time, tracing included.
    """

    calls_share: float = 0.0
    bytes: int = 0
    bytes_share: float = 0.0
    operations: tuple[UnseenOperation, ...] = ()
    time_share: float | None = None
    functions: tuple[str, ...] = ()
    native_threads_s: float = 0.0
    native_threads_share: float = 0.0


class ProcessRecord(msgspec.Struct, frozen=True):
    """One of several processes that a signature sums up, or what a process was until it replaced itself.

    `number` counts from 0, the first program. `command` is empty for a forked child, which goes on with its `parent`'s
    program. `problem` says why it was not recorded to its end, and is empty if it was. `exit_code` or `signal` says how
    it ended, where a process that is followed waited for it; else both are None. One that is not `followed` ran beside
    the trace, and nothing of it is in the signature.
    """

    number: int
    parent: int
    command: tuple[str, ...]
    instructions: int
    accesses: int
    threads: int
    problem: str = ""
    pid: int = 0
    exit_code: int | None = None
    signal: int | None = None
    followed: bool = True


class EstimatedMisses(msgspec.Struct, frozen=True):
    """Misses of a level of a simulated hierarchy, summed over the program, that were estimated from bursts.

    They lie from `low` to `high` with 95 % confidence.
    """

    hierarchy: str
    level: str
    misses: int
    low: int
    high: int

    @property
    def standard_error(self) -> float:
        """Standard error of a normal distribution whose 95 % interval reaches as far as the farther end of the
        interval."""
        return max(self.high - self.misses, self.misses - self.low) / 1.96


class Sampling(msgspec.Struct, frozen=True):
    """Record of how accesses were sampled: they were recorded in `bursts` that were due, at places that `seed` decides,
    and in `early_bursts` for new code. The first `exact_accesses` were all recorded, before the first gap between
    bursts.

    What blocks tell is exact: how often they ran, control flow, instructions, floating-point operations, and loads and
    stores by instructions that make as many accesses each time. `recorded_share` of the accesses were recorded; where
    they go is known of these alone: ranges hold what was seen, patterns are scaled, and misses estimated.
    `unmeasured_share` of the accesses are by `unmeasured_operations` that ran in no burst that was due, nor before the
    first gap: how often they miss is guessed from a few of their first accesses.
    """

    accuracy: str
    seed: int
    bursts: int
    early_bursts: int
    exact_accesses: int
    recorded_share: float
    unmeasured_operations: int
    unmeasured_share: float
    misses: tuple[EstimatedMisses, ...]


THREAD_SETTINGS = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME", "KMP_LIBRARY")
"""Environment variables that rule whether the threads of a runtime spin or sleep while they wait."""


class Provenance(msgspec.Struct, frozen=True):
    """Origin of a signature. `complete` is False when the run was cut short; `incomplete_reason` says why.

    `exception` is the type of the exception that ended a Python program, empty where none did.
    """

    command: tuple[str, ...]
    engine: str
    guest: str
    foretrace_version: str
    host: str
    started: str
    wall_s: float
    exit_code: int | None
    signal: int | None
    complete: bool
    incomplete_reason: str = ""
    decoded_share: float = 1.0
    unseen_calls: int = 0
    unseen: Unseen = Unseen()
    untraced_children: int = 0
    untraced_threads: int = 0
    threads: int = 1
    libraries: dict[str, str] = msgspec.field(default_factory=dict)
    notes: tuple[str, ...] = ()
    processes: tuple[ProcessRecord, ...] = ()
    """All processes, where children were followed and there were some."""
    sampling: Sampling | None = None
    """Sampling of accesses, where they were recorded in bursts, and some were not."""
    waiting: Waiting | None = None
    """None: not known."""
    most_lines: float | None = None
    """Time that the traced run took of a processor, in lines (foretrace/base/python_line.py), of a Python program of
    which nothing was timed. The program alone takes no more."""
    exception: str = ""
    mapped: tuple[AddressRange, ...] = ()
    """Memory that had been touched before the run began: of a fork, the largest ranges."""
    source_digests: dict[str, str] = msgspec.field(default_factory=dict)
    """SHA-256 of source files that hold loops, as they were when the program was traced. Not of all files."""
    thread_settings: dict[str, str] | None = None
    """Variables of `THREAD_SETTINGS` that were set; None: not known."""
    selection: Selection | None = None
    """Code of a compiled program chosen by processor features; None: none, or not known."""


class Totals(msgspec.Struct, frozen=True):
    """Sums over a whole run, as `foretrace info` prints them."""

    instructions: int
    loads: int
    stores: int
    load_bytes: int
    store_bytes: int
    flops: int


@dataclass(frozen=True, slots=True, eq=False)
class AnalysedCode:
    """Code of a program, and its work: the part of a signature that the analysis of a recording finds.

    `edges`: uint64 [edges, 3], source block, destination block, count, in the order executed at run time (calls and
    returns included).
    """

    blocks: Sequence[Block]
    operations: Sequence[MemoryOperation]
    loops: Sequence[Loop]
    idioms: Sequence[Idiom]
    edges: npt.NDArray[np.uint64]
    paths: Paths = NO_PATHS
    interpreter_times: Sequence[InterpreterTime] = ()
    """Times of blocks of Python; not of all of them."""
    array_times: Sequence[ArrayTime] = ()
    """Traced times of all blocks of array operations of Python; none if nothing was timed."""
    linear_algebra: Sequence[LinearAlgebra] = ()
    tree: ExecutionTree | None = None
    """Tree of what ran inside what; None where the engine did not tell, as for streams of other tools."""
    data_flow: DataFlow | None = None
    """Record of which of the tree's nodes uses whose data; None where it was not followed."""
    dependences: tuple[Dependence, ...] = ()
    examined_loops: tuple[ExaminedLoop, ...] = ()
    """The tree's loops whose dependences were looked for; empty where none were."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Signature(AnalysedCode):
    """Record of a program's run. `reuse` is None when the run took no samples."""

    provenance: Provenance
    hierarchies: Sequence[SimulatedHierarchy]
    reuse: ReuseHistograms | None
    events: Events = NO_EVENTS
    """Software-defined events; none where no library of the program has any."""
    ranks: RankRun | None = None
    """Calls of the ranks of a parallel run; None of any other."""

    def __repr__(self) -> str:
        """One line, not all that it holds."""
        return (
            f"<{type(self).__name__} of {' '.join(self.provenance.command)[:60]!r}: {len(self.blocks)} blocks, "
            f"{len(self.loops)} loops, {len(self.operations)} memory operations>"
        )

    @property
    def totals(self) -> Totals:
        """Sums over all blocks and operations."""
        loads = [op for op in self.operations if not op.is_store]
        stores = [op for op in self.operations if op.is_store]
        return Totals(
            instructions=sum(block.executions * block.instructions for block in self.blocks),
            loads=sum(op.executions for op in loads),
            stores=sum(op.executions for op in stores),
            load_bytes=sum(op.total_bytes for op in loads),
            store_bytes=sum(op.total_bytes for op in stores),
            flops=sum(block.executions * block.flops for block in self.blocks),
        )
