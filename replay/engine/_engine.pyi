END: int
RUN: int
LOOP: int
NEXT: int
BARRIER: int
LOCK: int
UNLOCK: int
POST: int
WAIT: int
BROADCAST: int
SPAWN: int
JOIN: int
SLEEP: int
USE: int
CALL: int
JUMP: int
SEND: int
RECEIVE: int
AWAIT: int
COLLECTIVE: int

RAN: int
DEVICE: int
SLEPT: int
AT_BARRIER: int
AT_LOCK: int
AT_WAIT: int
AT_JOIN: int
AT_QUEUE: int
AT_CALL: int
AT_PARTNER: int
AT_TRANSFER: int
NUM_KINDS: int
FOLDED: int

READY: int
RUNNING: int
TIMED: int
QUEUED: int
CALLING: int
UNBORN: int
DONE: int

FINISHED: int
PAUSED: int
CALLED: int
DEADLOCK: int
NOT_OWNED: int
TOO_DEEP: int
NO_MEMBER: int
DISAGREE: int
TRUNCATED: int
REQUEST_OPEN: int
NO_REQUEST: int
TOO_MANY: int

COUNTS_FROM: int
COUNTS_OF_PAIRS: int
COUNTS_TO: int

CROSSBAR: int
TORUS: int
FAT_TREE: int

MAX_NESTING: int
REGISTERS: int
OPERATION_BYTES: int
START_BYTES: int
CLASS_BYTES: int
RESOURCE_BYTES: int
OBJECT_BYTES: int
SEGMENT_BYTES: int

class Engine:
    now: float
    called: int
    call: int
    segments_left_out: int
    events: int
    periods_folded: int
    periods_estimated: int
    estimated_s: float
    # Arrays are taken by their bytes (engine.h has the layouts) and must not change while the engine lives.
    def __init__(
        self,
        operations: object,
        starts: object,
        classes: object,
        uses: object,
        resources: object,
        objects: object,
        cores: object,
        conditions: object,
        points: object,
        messages: object,
        communicators: object,
        members: object,
        collectives: object,
        counts: object,
        slot_lists: object,
        regimes: object,
        network: object,
        labels: int,
        path_labels: int,
        path_bins: int,
        caches: int,
        jobs: int,
        most_segments: int,
        most_events: int,
        folding: bool,
        transfer_s: float,
        wake_latency_s: float,
        wake_call_s: float,
    ) -> None: ...
    def advance(self, until: float, /) -> int: ...
    def resume(self, entity: int, operation: int, registers: tuple[float, float, float, float], /) -> None: ...
    def next(self) -> float: ...
    def sums(self) -> tuple[bytes, bytes, bytes, bytes, bytes, bytes, bytes, bytes]: ...
    def pairs(self) -> tuple[bytes, bytes]: ...
    def segments(self) -> bytes: ...
    def entity(self, number: int, /) -> tuple[int, int, int, int, int, float, int]: ...
    def pending(self, entity: int, /) -> list[tuple[bool, int, int, int, float, int]]: ...
    def truncation(self) -> tuple[int, int, float, int, int, float]: ...
    def leftovers(self) -> tuple[int, int]: ...
    def disagreement(self) -> tuple[int, int, int, int]: ...

def max_min(
    counts: object, asked: object, penalties: object, ties: object, weights: object, capacity: object, /
) -> bytes: ...
