"""Results of the stream reader at the end of a program: counts per translated block and per operation, not yet related
to functions, loops or lines."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from foretrace.tracer.reader.raw_events import RawEventSamples

    from .raw_dependences import RawDependences
    from .raw_flow import RawFlow
    from .raw_tree import RawTree


class RawBlock(msgspec.Struct, frozen=True):
    """A block of machine code as the engine translated it.

    It starts at guest address `address` and holds the instructions whose lengths are `lengths` and whose bytes are
    `code`. An engine may translate the same instruction into several blocks (a jump into the middle of one starts
    another that shares its tail), so these are not yet basic blocks. One that `is_counted` ran between the bursts in
    which accesses were recorded: its memory operations are unknown. For `first_access` see struct ft_side_block.
    """

    block_id: int
    address: int
    lengths: tuple[int, ...]
    code: bytes
    executions: int = 0
    is_counted: bool = False
    first_access: int = 0


class RawPythonBlock(msgspec.Struct, frozen=True):
    """A run of bytecode that belongs to one line, from `offset_bytes` of its function's code.

    `timed` of its executions took `timed_rounds` millionths of a round (tracer/python/blocks/lines.c) together, and had
    `timed_faults` page faults in recorded array operations: few were timed, each stands for some. `long_rounds` is what
    single executions took that lasted long, and is not in the others. `array_rounds` is what recorded array operations
    took in those `timed`, recording included; it is in none of the others.
    """

    block_id: int
    code_id: int
    file: str
    function: str
    line: int
    first_line: int
    offset_bytes: int
    instructions: int
    executions: int = 0
    timed: int = 0
    timed_rounds: int = 0
    long_rounds: int = 0
    array_rounds: int = 0


class RawOperand(msgspec.Struct, frozen=True):
    """One operand of an array operation.

    One that `is_indexed` is gathered or scattered, through the indices that those which are an `is_index` load. `kind`
    is NumPy's character for its kind of elements, "" if not known.
    """

    size_bytes: int
    is_store: bool
    is_indexed: bool
    is_index: bool
    kind: str


class RawArrayOperation(msgspec.Struct, frozen=True):
    """An array operation of a Python program, called at byte `site` of the code of its block.

    `rounds` and `faults` are what timed executions of the block spent in calls that it is the last part of, in
    millionths of a round, and the page faults in them; `kept_calls` are those whose time is in the block's own, or in a
    compiled function's.
    """

    array_operation_id: int
    block_id: int
    name: str
    site: int
    flops_per_point: int
    int_ops_per_point: int
    operands: tuple[RawOperand, ...]
    executions: int = 0
    points: int = 0
    rounds: int = 0
    faults: int = 0
    kept_calls: int = 0


class RawUnseen(msgspec.Struct, frozen=True):
    """Calls of an array operation whose accesses are not in the stream, or are there as one pass over each array.

    `bytes` are those of one pass over the arrays; of calls and bytes, `one_pass_` are those in the stream as such.
    """

    block_id: int
    name: str
    calls: int
    bytes: int
    one_pass_calls: int
    one_pass_bytes: int


class RawLinear(msgspec.Struct, frozen=True):
    """Calls of a routine of linear algebra on operands of the same shapes, at byte `site` of the code of its block.

    `kind` and `item_bytes` are those of the elements it computes with. Shapes are rows and columns of the first and the
    second operand, and of the largest result: a vector has 0 columns, what there is not 0 rows. `symmetric`: a matrix
    times its own transpose. Each call does `batch` times that.
    """

    block_id: int
    site: int
    name: str
    kind: str
    item_bytes: int
    symmetric: bool
    first: tuple[int, int]
    second: tuple[int, int]
    result: tuple[int, int]
    batch: int
    calls: int


class RawObject(msgspec.Struct, frozen=True):
    """Memory that was declared or allocated at one place of the program: see struct ft_side_object."""

    kind: int
    site: int
    name: str


class RawFile(msgspec.Struct, frozen=True):
    """A copy of a file with code, whose name was gone before the run ended. `inode` 0: not known."""

    path: str
    inode: int
    content: bytes


class RawCompiled(msgspec.Struct, frozen=True):
    """Time that a block of bytecode spent in a compiled function whose accesses were not seen.

    `rounds` are millionths of a round (tracer/python/blocks/lines.c), of all executions: part of the block's own.
    """

    block_id: int
    name: str
    rounds: int


class RawPath(msgspec.Struct, frozen=True, eq=False):
    """A stretch of a thread's run, in order: executions of blocks, and the accesses of each of them.

    `blocks` int64 [executions]: block ids. Per access: `execution` int64, the position of its block in `blocks`; `slot`
    int64, as in `RawTrace.operation_slot`; `address` uint64.
    """

    blocks: npt.NDArray[np.int64]
    execution: npt.NDArray[np.int64]
    slot: npt.NDArray[np.int64]
    address: npt.NDArray[np.uint64]


class RawChild(msgspec.Struct, frozen=True):
    """A child process that was begun and is not followed, or whose end the program waited for (`status`, as waitpid).

    Or, `became`, the program that a process became, which is not followed. `pid` is 0 where it is not known.
    """

    pid: int
    status: int | None
    command: tuple[str, ...]
    became: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class RawTrace:
    """All that the stream told. Operation ids are the simulator's: dense, in order of first use.

    Per operation: `operation_block` uint32 [operations] is its block id; `operation_slot` uint32 [operations] is
    2 x instruction + is_store for machine code, and for an array operation its operand number.
    `operation_array` uint32 [operations] is the array operation id, 0 for none. `operation_longest_range` uint64
    [operations] is, for an indexed operand, the longest address range of a single execution; 0 for others.
    `edges` uint64 [edges, 3]: source block id, destination block id, count.
    `landings`: pairs of addresses, where a call returns to and where an exception that leaves it continues.
    `whole_masked_loads`: masked vector loads that were recorded with all lanes, as their mask was not known.
    `maps` are copies of the program's memory map as text, `guest_base` the host address of guest address 0.
    `native_threads_rounds` is the time of native threads (`signature.Unseen`), in millionths of a round.
    """

    blocks: tuple[RawBlock, ...]
    python_blocks: tuple[RawPythonBlock, ...]
    array_operations: tuple[RawArrayOperation, ...]
    operation_block: npt.NDArray[np.uint32]
    operation_slot: npt.NDArray[np.uint32]
    operation_array: npt.NDArray[np.uint32]
    operation_longest_range: npt.NDArray[np.uint64]
    edges: npt.NDArray[np.uint64]
    maps: tuple[str, ...]
    guest_base: int
    unseen: tuple[RawUnseen, ...] = ()
    linear: tuple[RawLinear, ...] = ()
    compiled: tuple[RawCompiled, ...] = ()
    native_threads_rounds: int = 0
    paths: tuple[RawPath, ...] = ()
    tree: RawTree | None = None
    flow: RawFlow | None = None
    dependences: RawDependences | None = None
    event_samples: tuple[RawEventSamples, ...] = ()
    rank_work: npt.NDArray[np.int64] | None = None
    """Of a rank of a parallel run: [rows, 4] (call, node of the raw tree, block, executions) before each of its calls
    of the MPI library; None of a program that is no rank."""
    landings: tuple[tuple[int, int], ...] = ()
    whole_masked_loads: int = 0
    files: tuple[RawFile, ...] = ()

    def executed(self) -> RawTrace:
        """The trace without the blocks that never ran, which a forked child has from its parent."""
        used = set(self.operation_block.tolist())
        return replace(self, blocks=tuple(b for b in self.blocks if b.executions or b.block_id in used))
