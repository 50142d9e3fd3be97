"""Results of the model: predictions, decisions of a replay, and the triage of a program for an accelerator."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from foretrace.base.names import function_text, place_text
from foretrace.profiles.ranges import Assumption
from foretrace.tracer.signature.verdicts import LoopVerdict
from foretrace.tracer.signature.waiting import Waiting

if TYPE_CHECKING:
    from .event_times import EventTimes

LEAST_SHOWN_SHARE = 1e-3
"""Share of a program's time, from which on a loop has a row in reports."""


class Bound(StrEnum):
    """The bottleneck that a loop spends most of its time on."""

    ISSUE = "issue"
    COMPUTE = "compute"
    DIVIDE = "divide"
    CHAIN = "dependency chain"
    FORWARD = "store forwarding"
    BRANCH = "branch misses"
    PORTS = "load/store ports"
    CACHE_BANDWIDTH = "cache bandwidth"
    MEMORY_BANDWIDTH = "memory bandwidth"
    CACHE_LATENCY = "cache latency"
    MEMORY_LATENCY = "memory latency"
    PAGES = "page faults"
    PYTHON = "python interpreter"
    UNSEEN = "not seen"  # compiled code called from Python whose work is not known, only its time
    NOTHING = "nothing"  # the loop took no time


class LoopKind(StrEnum):
    """Kind of a prediction's row: a loop's own blocks, or a function's blocks outside loops.

    In Python programs also an array operation, the calls of a compiled function whose accesses were not seen, or a line
    in no loop. All are called loops in the API, in reports and in JSON.
    """

    LOOP = "loop"
    ARRAY = "array"
    COMPILED = "compiled"
    LINE = "line"
    FUNCTION = "function"


class Model(StrEnum):
    """Model of a region's time: the detailed core model, or the convolution as published (equation 1)."""

    CORE = "core"
    CONVOLUTION = "convolution"


class HitSource(StrEnum):
    """Origin of a prediction's hit rates."""

    SIMULATED = "simulated"  # this very cache geometry was simulated while the program ran
    ESTIMATED = "estimated from reuse distances"


@dataclass(frozen=True, slots=True)
class LevelHits:
    """Accesses and misses of a cache level."""

    name: str
    accesses: float
    misses: float

    @property
    def hit_rate(self) -> float:
        """Share of the accesses that came here and hit; 1 where none came."""
        return 1 - self.misses / self.accesses if self.accesses else 1.0


@dataclass(frozen=True, slots=True)
class HitRates:
    """Hit rates of the whole program, how they were obtained, and the standard error of their misses (relative)."""

    source: HitSource
    hierarchy: str
    levels: tuple[LevelHits, ...]
    relative_error: float


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a program.

    `caller`, of a library's code, is the function of the program that calls it, and `file` and `line` are those of the
    call. `inlined` says which code was expanded in line there, and where that was expanded (`Loop.inlined`).
    """

    module: str
    function: str
    file: str
    line: int
    caller: str = ""
    inlined: str = ""

    @property
    def text(self) -> str:
        """`file:line` without directories, with "from" for a library's code, and what was expanded in line there."""
        return place_text(self.file, self.line, self.module, self.caller, self.inlined)

    @property
    def name(self) -> str:
        """The function's name for a table."""
        return function_text(self.function, self.caller)

    def __str__(self) -> str:
        """`file:line`, or what there is in its place."""
        return f"{self.file}:{self.line}" if self.file else self.module or "?"


@dataclass(frozen=True, slots=True)
class ErrorPart:
    """A source of error of a prediction: the true time lies within these factors of it, as far as this source goes."""

    source: str
    low: float
    high: float


def label_of(kind: LoopKind, place: Place) -> str:
    """A kind of region, and the operation or function where that is what it is: "array: add"."""
    is_operation = kind in (LoopKind.ARRAY, LoopKind.COMPILED)
    return f"{kind}: {place.module.removeprefix('numpy.')}" if is_operation else str(kind)


@dataclass(frozen=True, slots=True)
class LoopTime:
    """A loop's time on a machine, within [low_s, high_s].

    time_s = compute_s + memory_s - overlap_s + python_s + pages_s; the last is the first touch of its pages.
    `is_first_call` says that it is the first of several places that call an operation or compiled function, and did so
    once: with what such a call sets up. `as_traced`: array operations that were not calibrated for this machine take as
    long as they were timed while they were traced.
    """

    place: Place
    kind: LoopKind
    loop_id: int | None
    entries: int
    iterations: int
    time_s: float
    low_s: float
    high_s: float
    compute_s: float
    memory_s: float
    overlap_s: float
    python_s: float
    pages_s: float
    share: float
    bound_by: Bound
    is_first_call: bool = False
    as_traced: bool = False

    @property
    def label(self) -> str:
        """Its kind, and the operation or function where that is what it is: "array: add"."""
        notes = (" (as traced)" if self.as_traced else "") + (" (first call)" if self.is_first_call else "")
        return label_of(self.kind, self.place) + notes


@dataclass(frozen=True, slots=True)
class LoopTotal:
    """Loops of one line or function, summed up. `bound_by` and `label` are those of most of the time."""

    place: Place
    label: str
    loops: int
    time_s: float
    low_s: float
    high_s: float
    share: float
    bound_by: Bound


class Limit(StrEnum):
    """Limit on the speed-up by threads."""

    NONE = "nothing"
    SERIAL = "serial part"
    BANDWIDTH = "bandwidth"
    CORES = "cores"
    IMBALANCE = "imbalance"
    SYNCHRONISATION = "synchronisation"


@dataclass(frozen=True, slots=True)
class Scaling:
    """Speed-up by several threads.

    Attributes:
        speedup: over the time of one thread that does all work, within [low, high].
        lost_s: seconds over those of an even division, by what they are lost to.
        limit: most of that; NONE where less than 1 % of the time is lost.
    """

    speedup: float
    low: float
    high: float
    lost_s: dict[Limit, float]
    limit: Limit


@dataclass(frozen=True, slots=True)
class AssumptionCost:
    """An assumed figure's part of a prediction's interval: `width_share` is how much of the width goes once the figure
    is known to be as typical, `low_s` and `high_s` are the ends of the interval then."""

    name: str
    width_share: float
    low_s: float
    high_s: float


@dataclass(frozen=True, slots=True)
class Prediction:
    """A program's time on a machine. `loops` are sorted by time, longest first.

    `warnings` say what of the run is not in the time (a run cut short, code that could not be decoded, calls unseen).
    `time_by_bound_s` sums the loops by what bounds them. `errors` are what the interval is made of. `waiting` is
    how long the program waited when it was traced, which is not in the time; None where that is not known.

    The time is of `threads` on `cores` cores (one each at most); with several, `loops` are the core seconds of all, and
    `scaling` says what they gain. `events` is what an event has to do with the time, if one was asked about; it is
    then the time for that event's `count`. `assumption_costs` are None where they were not worked out.
    """

    machine: str
    title: str
    time_s: float
    low_s: float
    high_s: float
    bound_by: Bound
    complete: bool
    hit_rates: HitRates
    loops: tuple[LoopTime, ...]
    time_by_bound_s: dict[Bound, float]
    errors: tuple[ErrorPart, ...]
    assumptions: tuple[Assumption, ...]
    warnings: tuple[str, ...]
    waiting: Waiting | None = None
    threads: int = 1
    cores: int = 1
    scaling: Scaling | None = None
    events: EventTimes | None = None
    assumption_costs: tuple[AssumptionCost, ...] | None = None

    @property
    def notable_loops(self) -> tuple[LoopTime, ...]:
        """Loops that take 0.1 % of the time and more."""
        return tuple(loop for loop in self.loops if loop.share >= LEAST_SHOWN_SHARE)

    @property
    def unseen_s(self) -> float:
        """Part of the time in compiled code called from Python that was timed, but whose work was not seen."""
        return sum((region.time_s for region in self.loops if region.kind is LoopKind.COMPILED), 0.0)


@dataclass(frozen=True, slots=True)
class OffloadCost:
    """Cost terms of an offloaded node, all its entries together. `arithmetic_s` stays on the host."""

    queue_s: float
    launch_s: float
    transfer_s: float
    kernel_s: float
    arithmetic_s: float

    @property
    def total_s(self) -> float:
        """From the decision to the result."""
        return self.queue_s + self.launch_s + self.transfer_s + self.kernel_s + self.arithmetic_s


@dataclass(frozen=True, slots=True)
class Decision:
    """A rank's decision about one candidate during the replay: a node of its program. `cost` is None where no figure
    covers it."""

    rank: int
    node: int
    time_s: float
    host_s: float
    cost: OffloadCost | None
    offload: bool
    refusal: str = ""  # why it could not be considered, empty if it was


@dataclass(frozen=True, slots=True)
class Replay:
    """Result of replaying ranks that share a host and its accelerators."""

    makespan_s: float
    rank_end_s: tuple[float, ...]
    decisions: tuple[Decision, ...]
    to_device_bytes: float = 0.0
    from_device_bytes: float = 0.0
    transfers: int = 0


class Answer(StrEnum):
    """Triage's answer about a loop."""

    PORT = "port"
    THREAD = "thread"  # divide its iterations among the host's cores
    LEAVE = "leave"


@dataclass(frozen=True, slots=True)
class Instance:
    """A candidate: a loop, call or array operation, what it takes on host and accelerator, and whether to port it.

    `idiom` is "gather", "scatter" or "gather+scatter", "none" where it does neither. `range_bytes` is the merged length
    of the address ranges of its indirect accesses (gather/scatter units), else the bytes it touches. `refs` and
    `moved_bytes` count all its memory references. `gain_s` is that of a port over `best_host_s`, that of threads over
    one core; 0 where it stays on one core of the host.
    `break_even_bytes` is the smallest range (or footprint, its work in proportion) from which the accelerator wins,
    `break_even_launch_s` the most that a launch may take; None where it never does.

    `host_s` is of one core, without the first touch of pages, which the host does either way; `thread_s` of all cores
    that may be used, None where they gain nothing; `best_host_s` is the least that the host takes, with loops inside it
    threaded where that pays. Times lie within `*_low_s` and `*_high_s`. `parallel` says what is known of its
    iterations, `bound_by` what its kernel's time is, `flip` which single figure would change the answer, `explanation`
    holds the arithmetic line by line. `array_operation` names Python's ("numpy.add"). `path` are the calls and loops
    around it, `would_change` what change of the program would change the answer, where it is known.
    """

    place: Place
    idiom: str
    range_bytes: int
    refs: int
    moved_bytes: int
    entries: int
    host_s: float
    accelerator_s: float | None
    cost: OffloadCost | None
    gain_s: float
    offload: bool
    reason: str
    break_even_bytes: int | None
    kind: str = "loop"
    answer: Answer = Answer.LEAVE
    host_low_s: float = 0.0
    host_high_s: float = 0.0
    accelerator_low_s: float | None = None
    accelerator_high_s: float | None = None
    thread_s: float | None = None
    bound_by: str = ""
    parallel: str = ""
    threads: float = 1.0
    to_device_bytes: float = 0.0
    from_device_bytes: float = 0.0
    transfers: int = 0
    footprint_bytes: float = 0.0
    break_even_launch_s: float | None = None
    flip: str = ""
    explanation: tuple[str, ...] = ()
    caller: str = ""
    array_operation: str = ""
    verdict: LoopVerdict | None = None
    path: str = ""
    would_change: str = ""
    best_host_s: float = 0.0

    @property
    def what(self) -> str:
        """Name of the candidate's kind, for people: what is known of a loop's iterations ("parallel", "reduction"),
        which array operation it is, else its kind."""
        if self.kind == "loop":
            return self.parallel or self.kind
        if self.array_operation:
            return self.array_operation.removeprefix("numpy.")
        return {"array": "array operation", "compiled": "compiled code"}.get(self.kind, self.kind)


@dataclass(frozen=True, slots=True)
class LoopCounts:
    """Counts of a program's loops by where triage lists them, arrays and compiled code included; `there`: their sum.

    `listed` have a row, `inside` are parts of kernels or of threaded loops, `library` does its work for callers that
    need the host, or is the loader's, `outside` runs before or after `main`, `once` has a single iteration each time,
    `small` take less than 0.1 % of the time.
    """

    there: int
    listed: int
    inside: int = 0
    library: int = 0
    outside: int = 0
    once: int = 0
    small: int = 0


@dataclass(frozen=True, slots=True)
class PolicyOutcome:
    """The program by one policy of offloading."""

    policy: str
    time_s: float
    speedup: float
    kernels: int
    moved_bytes: float


@dataclass(frozen=True, slots=True)
class ProgramGain:
    """The whole program before and after porting what pays. `speedup` is best_host_s / after_s.

    `host_s` is of one core, `threads_s` of the host's cores alone, within [threads_low_s, threads_high_s], and
    `best_host_s` the less of both: what a port has to beat. `one_core_speedup` is host_s / after_s. `after_s` lies
    within [after_low_s, after_high_s], `speedup` likewise. The plan moves `to_device_bytes` and `from_device_bytes` in
    `transfers` transfers, for `launches` kernels.
    """

    host_s: float
    after_s: float
    speedup: float
    loops: int
    loops_offloaded: int
    loops_for_95_percent: int
    after_low_s: float = 0.0
    after_high_s: float = 0.0
    speedup_low: float = 0.0
    speedup_high: float = 0.0
    threads_s: float = 0.0
    host_cores: int = 1
    to_device_bytes: float = 0.0
    from_device_bytes: float = 0.0
    transfers: int = 0
    launches: int = 0
    best_host_s: float = 0.0
    one_core_speedup: float = 1.0
    threads_low_s: float = 0.0
    threads_high_s: float = 0.0


@dataclass(frozen=True, slots=True)
class MovedArray:
    """Bytes of one allocation that the plan moves to the accelerator and back. `kind` is the name of an
    `ObjectKind`; `name`, `function`, `file` and `line` are those of `Allocation`, "" and 0 where unknown."""

    kind: str
    name: str
    function: str
    file: str
    line: int
    to_device_bytes: float
    from_device_bytes: float


@dataclass(frozen=True, slots=True)
class Triage:
    """Result of a triage: the loops that are worth porting to an accelerator. `instances`: largest gain first.

    `unseen_s` of the host's time is compiled code called from Python whose loops were not seen, `unseen` names the
    functions, most time first. `is_unit`: the accelerator is a gather/scatter unit. `policies` compares policies of
    offloading. `explained` are the candidates that were asked for. `arrays` is what the plan moves of each allocation,
    most first. `loops`: which loops have a row, and where the others are.
    """

    host: str
    host_title: str
    accelerator: str
    accelerator_title: str
    complete: bool
    instances: tuple[Instance, ...]
    program: ProgramGain
    hit_rates: HitRates
    assumptions: tuple[Assumption, ...]
    warnings: tuple[str, ...]
    unseen_s: float = 0.0
    unseen: tuple[str, ...] = ()
    is_unit: bool = False
    policies: tuple[PolicyOutcome, ...] = ()
    explained: tuple[Instance, ...] = ()
    arrays: tuple[MovedArray, ...] = ()
    loops: LoopCounts | None = None

    @property
    def notable_instances(self) -> tuple[Instance, ...]:
        """Instances whose time on the host, or whose gain, is 0.1 % of the program's time and more."""
        least_s = LEAST_SHOWN_SHARE * self.program.host_s
        return tuple(i for i in self.instances if max(i.gain_s, i.host_s) >= least_s)
