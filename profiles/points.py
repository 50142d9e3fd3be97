"""Measured points of a machine: one figure each, with what it was measured at.

`source` is a key of the profile's sources. `noise` is how far apart repeated passes came out;
None where unknown.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from msgspec import Struct

from .figure import Figure


class Operation(StrEnum):
    """An arithmetic instruction."""

    INT_ADD = "int_add"
    INT_SHIFT = "int_shift"
    INT_SELECT = "int_select"
    INT_SHIFT_ADD = "int_shift_add"
    INT_BIT_COUNT = "int_bit_count"
    INT_MUL = "int_mul"
    INT_DIV = "int_div"
    FP_ADD = "fp_add"
    FP_MUL = "fp_mul"
    FP_FMA = "fp_fma"
    FP_DIV = "fp_div"
    FP_SQRT = "fp_sqrt"
    FP_SHUFFLE = "fp_shuffle"  # of vectors; what else moves or combines their bits is taken to be as fast
    FP_COMPARE = "fp_compare"
    FP_CONVERT = "fp_convert"  # from an integer register to floating point, or back
    FP_CONTROL = "fp_control"  # the control register read; its interval is what nothing else is dispatched for
    VECTOR_MUL = "vector_mul"  # of 16-bit and, in pairs, 32-bit integers; of 32-bit ones int_mul of several elements
    GATHER = "gather"  # its interval is that of an element
    AES = "aes"  # a round
    SHA_ROUND = "sha_round"
    SHA_SCHEDULE = "sha_schedule"
    CRC32 = "crc32"
    CARRYLESS_MUL = "carryless_mul"
    GALOIS = "galois"
    BIT_DEPOSIT = "bit_deposit"
    ATOMIC = "atomic"  # read, changed and written, beside its load
    FENCE = "fence"
    X87_FUNCTION = "x87_function"
    TIMER = "timer"


_FLOATS, _NUMBERS = ("float64", "float32"), ("float64", "float32", "int64")
ARRAY_OPERATIONS = {
    **dict.fromkeys(("add", "less", "add.reduce", "maximum.reduce"), _NUMBERS),
    **dict.fromkeys(("divide", "sqrt", "exp", "log", "sin"), _FLOATS),
    **dict.fromkeys(("power", "remainder", "stretch", "multiply.reduce"), _FLOATS[:1]),
    **dict.fromkeys(("add.reduce.row", "maximum.reduce.row"), _FLOATS[:1]),
    **dict.fromkeys(("int_remainder", "int_floor_divide", "bincount"), ("int64",)),
    "logical_and": ("bool",),
    **dict.fromkeys(("add.accumulate", "add.at", "copy", "astype", "take", "put", "csr_matvec"), _FLOATS[:1]),
    **dict.fromkeys(("take_mask", "put_mask", "where", "nonzero"), _FLOATS[:1]),
}
"""Array operations of Python that are measured, and on which types of elements. A `stretch` is what each point of an
addition takes longer for each operand that is not one run of memory, a `row` what each result of a reduction takes
beside its points. Half of a mask is set, in one run. `power` and `remainder` have two arrays, `int_remainder`
and `int_floor_divide` one; `astype` makes int64; what moves elements is the same for all of their size."""
ARRAY_KEYS = tuple((operation, kind) for operation, kinds in ARRAY_OPERATIONS.items() for kind in kinds)


LINEAR_ROUTINES = (
    *("gemm", "gemv", "dot", "einsum", "no_blas"),
    *("solve", "inverse", "cholesky", "qr", "least_squares"),
    *("eigenvalues_symmetric", "eigenvectors_symmetric", "eigenvalues", "eigenvectors"),
    *("singular_values", "singular_vectors"),
)
"""Linear algebra that is measured: `gemm` and `gemv` are products of matrices, and of a matrix and a vector; `einsum`
and `no_blas` products of matrices in NumPy's own loops; `solve` has one right-hand side."""
LINEAR_TYPES = ("float32", "float64", "complex64", "complex128", "int64")


class Movement(StrEnum):
    """Direction of a loop over memory: read it, write it, or read one array and write another."""

    LOAD = "load"
    STORE = "store"
    COPY = "copy"


class IndexMode(StrEnum):
    """Order in which an index array runs through its range (Carrington et al., ICS'11, section 3.1 and Figure 4)."""

    STRIDE_1 = "stride-1"  # one element after the other
    RANDOM = "random"  # anywhere in the range
    CLUSTERED = "clustered"  # at random within a section of the range, section after section
    SPREAD = "spread"  # in constant strides, several of them in turns, each over a part of the range


class OperationCost(Struct, frozen=True, forbid_unknown_fields=True):
    """Cost of an arithmetic instruction on `elements` elements (1: scalar) of `element_bits` bits each.

    `latency_cycles`: until a dependent instruction can start. `interval_cycles`: between the starts of independent
    ones, 0.5 where two start in each cycle. Both are of the whole instruction, not of one element.
    """

    operation: Operation
    element_bits: int
    elements: int
    source: str
    latency_cycles: float | None = None
    interval_cycles: float | None = None
    noise: float | None = None


class ArrayCost(Struct, frozen=True, forbid_unknown_fields=True):
    """Time per point of a Python array operation with its arrays in near caches, without the call's fixed cost.

    `operation` is one of ARRAY_OPERATIONS, and `element_type` of its types; None: the first of these.
    """

    operation: str
    point_s: float
    source: str
    noise: float | None = None
    element_type: str | None = None

    @property
    def key(self) -> tuple[str, str]:
        """The operation and its type of elements."""
        return self.operation, self.element_type or ARRAY_OPERATIONS[self.operation][0]

    @property
    def name(self) -> str:
        """For people: "add", "add (float32)"."""
        return self.operation if self.element_type is None else f"{self.operation} ({self.element_type})"


class LinearCost(Struct, frozen=True, forbid_unknown_fields=True):
    """Time of a linear-algebra routine on square matrices of `size` rows (vectors of that length), on one thread.

    `routine` is one of LINEAR_ROUTINES, `element_type` one of LINEAR_TYPES. Without the cost of a call from Python.
    """

    routine: str
    element_type: str
    size: int
    time_s: float
    source: str
    noise: float | None = None


class SurfacePoint(Struct, frozen=True, forbid_unknown_fields=True):
    """A point of the MultiMAPS surface (Tikir et al., SC'07; Carrington et al., ICS'11, Figure 8), one core.

    Accesses of `access_bytes`, `stride_bytes` from one's start to the next's, go through the working set again and
    again; those of a copy go through two arrays of half of it each. `hit_rates` are cumulative: the share of the
    accesses that find their line in the first cache, in one of the first two, and so on, as our simulator has them for
    the profile's caches. `bandwidth_bytes_per_s` counts the bytes accessed (of a copy, those loaded and those stored),
    not the lines moved.
    """

    movement: Movement
    working_set_bytes: int
    stride_bytes: int
    access_bytes: int
    hit_rates: tuple[float, ...]
    bandwidth_bytes_per_s: float
    source: str
    noise: float | None = None


class PrefetchPoint(Struct, frozen=True, forbid_unknown_fields=True):
    """Share of a main-memory stream's lines that a core's prefetchers fetch ahead.

    `misses_per_line`: lines of streams out of the second cache, for each line of the stream. `fetched_ahead`: share of
    its lines, above 0 and up to 1; the others are waited for.
    """

    misses_per_line: float
    fetched_ahead: float
    source: str
    noise: float | None = None


class ThreadPoint(Struct, frozen=True, forbid_unknown_fields=True):
    """Bandwidth of several threads together, each on a core of its own and sequentially through an array of its own.

    `working_set_bytes` is that of one thread.
    """

    movement: Movement
    threads: int
    working_set_bytes: int
    bandwidth_bytes_per_s: float
    source: str
    noise: float | None = None


class MessagePoint(Struct, frozen=True, forbid_unknown_fields=True):
    """Half of the time that a message takes to go from one process to another and back (ping-pong)."""

    message_bytes: int
    time_s: float
    source: str
    noise: float | None = None


class IdiomRate(Struct, frozen=True, forbid_unknown_fields=True):
    """Bandwidth of a whole accelerator at an idiom over arrays that do not fit its caches: bytes read and written.

    `idiom`: "stream" (a[i] = b[i] + s * c[i]) or "reduction" (a sum of all elements).
    """

    idiom: str
    bandwidth_bytes_per_s: float
    source: str
    noise: float | None = None


class Tlb(Struct, frozen=True, forbid_unknown_fields=True):
    """One level of the data TLB, for pages of one size. `source` names each figure's entry in the profile's sources."""

    name: str
    page_bytes: int
    source: dict[str, str]
    entries: Annotated[int | None, Figure("pages it holds; measured: up to which loads do not slow down")] = None
    ways: Annotated[int | None, Figure("associativity")] = None
    miss_s: Annotated[
        float | None,
        Figure(
            "a dependent load's delay by a miss that hits the next level; in the last level, by a page walk in caches"
        ),
    ] = None
    noise: dict[str, float] | None = None
