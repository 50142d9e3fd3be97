"""Timeline programs (trees of sequences, loops and activities) of entities, and the system that entities share.

An entity is a thread or a rank. Its program is a tuple of parts, executed in order. Names of locks, barriers and
devices are those of the `System`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from foretrace.base.errors import PredictionError

from .network import Network


@dataclass(frozen=True, slots=True)
class Sharing:
    """The resources that an activity shares with others while it runs.

    Attributes:
        cores: a group of cores of the system, None for an activity that needs none (a copy).
        cache: a cache that jobs divide, None for none.
        resources: bandwidth resources, each once.
        conditions: (speed, demand in bytes/s of each resource at that speed) with 1, 2, ... jobs in the cache. Speed is
            relative to the time that the activity takes alone.
    """

    cores: str | None = None
    cache: str | None = None
    resources: tuple[str, ...] = ()
    conditions: tuple[tuple[float, float], ...] = ((1.0, 0.0),)


@dataclass(frozen=True, slots=True)
class Run:
    """Work that takes `time_s` seconds alone."""

    label: str
    time_s: float
    sharing: Sharing


@dataclass(frozen=True, slots=True)
class Repeat:
    """A body that runs `count` times."""

    count: int
    body: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Barrier:
    """Wait until all entities of a barrier have arrived. One that `sleeps` is woken by the system (see `Waking`)."""

    name: str
    sleeps: bool = False


@dataclass(frozen=True, slots=True)
class Lock:
    """Acquire a lock.

    Entities that spin while they wait get it first come, first served. Those that sleep are woken in that order, one
    each time it is given back, and try again: a running entity may take it before. All locks of a name wait alike.
    """

    name: str
    sleeps: bool = False


@dataclass(frozen=True, slots=True)
class Unlock:
    """Release a lock."""

    name: str


@dataclass(frozen=True, slots=True)
class Post:
    """Add units to a semaphore."""

    name: str
    units: int = 1


@dataclass(frozen=True, slots=True)
class Wait:
    """Take units from a semaphore once enough are posted: a happens-before edge from the entity that posts them."""

    name: str
    units: int = 1
    sleeps: bool = False


@dataclass(frozen=True, slots=True)
class Broadcast:
    """Wake all entities that wait for a semaphore at this moment."""

    name: str


@dataclass(frozen=True, slots=True)
class Spawn:
    """Start an entity that does not start at time 0 (`born`), on a core that is `asleep` until it is woken."""

    entity: str
    asleep: bool = False


@dataclass(frozen=True, slots=True)
class Join:
    """Wait until an entity is done."""

    entity: str
    sleeps: bool = False


@dataclass(frozen=True, slots=True)
class Sleep:
    """Let time pass without a core."""

    label: str
    time_s: float


@dataclass(frozen=True, slots=True)
class Use:
    """Occupy one unit of a device for a time, first come, first served: a kernel on an accelerator, a copy engine."""

    device: str
    label: str
    time_s: float


@dataclass(frozen=True, slots=True)
class Offer:
    """A choice made when the entity gets here: `decide(token, ...)` returns i, and `choices[i]` runs."""

    token: int
    choices: tuple[tuple[Part, ...], ...]


@dataclass(frozen=True, slots=True)
class Timed:
    """`Use`, or `Sleep` where `device` is None, for the time number `slot` that the preceding `Offer` returned."""

    device: str | None
    label: str
    slot: int


@dataclass(frozen=True, slots=True)
class Send:
    """Send a message to an entity.

    Attributes:
        to: name of the receiver.
        size_bytes: of the message.
        tag: by which it is matched, with the communicator.
        request: 0 to wait until the message is out of hand, else the number of the request that `Await` names.
        synchronous: whether it is out of hand only when it has arrived, whatever its size.
    """

    to: str
    size_bytes: float
    label: str = "send"
    tag: int = 0
    communicator: str = "world"
    request: int = 0
    synchronous: bool = False


@dataclass(frozen=True, slots=True)
class Receive:
    """Receive a message; None for any sender or any tag, or for `room_bytes` of any size. `request` as of `Send`."""

    sender: str | None
    label: str = "receive"
    tag: int | None = 0
    communicator: str = "world"
    request: int = 0
    room_bytes: float | None = None


@dataclass(frozen=True, slots=True)
class Await:
    """Wait for requests: for all of those named, for `any_one` of them, or for all that are open if none is named."""

    requests: tuple[int, ...] = ()
    any_one: bool = False
    label: str = "wait"


@dataclass(frozen=True, slots=True)
class Collective:
    """A collective operation by one algorithm (`ALGORITHMS`), in which all members of a communicator take part.

    Attributes:
        algorithm: what is sent to whom, step by step.
        size_bytes: of each message, or of each rank's part; see collectives.c.
        root: rank from or to which it goes.
        counts: bytes of each rank, or of each rank for each other, instead of `size_bytes`.
    """

    algorithm: str
    size_bytes: float
    label: str = "collective"
    communicator: str = "world"
    root: int = 0
    counts: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Started:
    """A non-blocking collective: steps on one communicator, in sequence, while the entity goes on. `request` ends with
    the last.
    """

    steps: tuple[Collective, ...]
    request: int


ALGORITHMS = (
    "linear-gather", "linear-scatter", "linear-exchange", "linear-scan", "binomial-bcast", "binomial-reduce",
    "binomial-scatter", "binomial-gather", "recursive-doubling", "doubling-gather", "halving-scatter", "rabenseifner",
    "ring", "pairwise", "exclusive-or", "bruck", "bruck-gather", "dissemination", "chain",
)  # fmt: skip
"""Algorithms of collectives, in the order of `enum ft_algorithm`."""

Part = (
    Run | Repeat | Barrier | Lock | Unlock | Post | Wait | Broadcast | Spawn | Join | Sleep | Use | Offer | Timed
    | Send | Receive | Await | Collective | Started
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Entity:
    """Runs a program. Entities of one `job` share memory; those that are `born` start at time 0, others by `Spawn`.

    `names` says what names of the program stand for in the system, where that is not the same: so copies of a job run
    one program, each with barriers and locks of its own. `node` is its place in the network.
    """

    name: str
    program: tuple[Part, ...]
    kind: str = "thread"
    job: int = 0
    born: bool = True
    node: int = 0
    names: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Waking:
    """Wake-up latencies: from another entity's release until a waiting one goes on.

    Attributes:
        transfer_s: for an entity that spins: transfer of a cache line to its core.
        latency_s: for an entity that sleeps in the system: from the system call that wakes it.
        call_s: duration of that call, during which the waker is busy; once for each entity woken, in sequence.
    """

    transfer_s: float = 0.0
    latency_s: float = 0.0
    call_s: float = 0.0


@dataclass(frozen=True, slots=True)
class System:
    """The resources that entities share.

    Attributes:
        cores: number of cores of each group, by name; entities of a group share them evenly.
        caches: names of caches that jobs divide.
        bandwidths: by resource, the total bytes/s that 1, 2, ... entities get. The last figure holds for more entities.
        devices: by name, the number of entities that can use it at once.
        barriers: by name, the number of entities that must arrive.
        semaphores: by name, the units at the start; 0 for those not named.
        waking: how long it takes until waiting entities go on.
        network: over which messages are sent; None for none.
        communicators: by name, the entities that are its ranks, in order.
    """

    cores: dict[str, float] = field(default_factory=dict)
    caches: tuple[str, ...] = ()
    bandwidths: dict[str, tuple[float, ...]] = field(default_factory=dict)
    devices: dict[str, int] = field(default_factory=dict)
    barriers: dict[str, int] = field(default_factory=dict)
    semaphores: dict[str, int] = field(default_factory=dict)
    waking: Waking = Waking()
    network: Network | None = None
    communicators: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check the figures.

        Raises:
            PredictionError: a number of cores or units, or a bandwidth, is not positive.
        """
        for what, counts in (("cores", self.cores), ("device", self.devices), ("barrier", self.barriers)):
            for name, count in counts.items():
                if count <= 0:
                    raise PredictionError(f"replay: {what} {name} has {count}, must be at least 1")
        for name, points in self.bandwidths.items():
            if not points or min(points) <= 0:
                raise PredictionError(f"replay: bandwidth {name} must be positive for any number of users")


def parts_of(program: Sequence[Part]) -> list[Part]:
    """All parts of a program, those inside repetitions and choices as well."""
    found: list[Part] = []
    for part in program:
        found.append(part)
        if isinstance(part, Repeat):
            found += parts_of(part.body)
        elif isinstance(part, Offer):
            found += [inner for choice in part.choices for inner in parts_of(choice)]
    return found
