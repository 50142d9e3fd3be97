from typing import TypedDict

from typing_extensions import Buffer

IDLE: int
EXEC: int
MORE: int
WIDTH: int
MARK: int
MARK_COUNT: int
MARK_WARM: int
MARK_MEASURE: int
MARK_NEW_CODE: int
CHUNK_WORDS: int
MAX_RARE_EDGES: int

class Header(TypedDict):
    attached: bool
    finished: bool
    replaced: bool
    forks: int
    edges_full: bool
    side_full: int
    maps: int
    threads: int
    threads_untraced: int
    side_offset: int
    side_bytes: int
    guest_base: int
    unseen_calls: int
    waited_ns: int
    processor_ns: int
    native_threads_ns: int
    native_threads_rounds: int
    children_ns: int
    clock_reads: int
    departures: bytes
    whole_masked_loads: int
    has_events: bool
    executions: int
    accesses: int
    message: bytes
    exception: bytes

class DependenceRows(TypedDict):
    rows: bytes
    loops: bytes
    share: float
    in_windows: bool

class TreeRows(TypedDict):
    nodes: bytes
    counts: bytes
    loops: bytes
    histograms: bytes
    threads: bytes
    edges: bytes
    stretches: bytes
    places: bytes
    merged_contexts: int
    unwound: int
    resumed: int
    signals: int
    overflows: int
    unplaced_waits: int

class EventSampleRows(TypedDict):
    positions: bytes
    values: bytes
    are_real: bytes
    are_known: bytes
    work: bytes

class FlowRows(TypedDict):
    places: bytes
    sets: bytes
    versions: bytes
    touched: bytes
    left: bytes
    objects: bytes
    log_weight: int
    ended: bool
    overflowed: bool

class StreamReader:
    def __init__(self, memory: Buffer, sink: object) -> None: ...
    def expect(self, pid: int, mmap_call: int, mprotect_call: int, /) -> None: ...
    def run(self, max_chunks: int, timeout_ms: int, /) -> int: ...
    def salvage(self) -> int: ...
    def asked(self) -> tuple[int, int]: ...
    def set_width(self, width_bytes: int, parts: int = 0, /) -> None: ...
    def block_executions(self) -> bytes: ...
    def operations(self) -> bytes: ...
    def longest_ranges(self) -> bytes: ...
    def arrays(self) -> bytes: ...
    def last_blocks(self) -> tuple[int, ...]: ...
    def edges(self) -> bytes: ...
    def rank_work(self) -> bytes: ...
    def event_samples(self) -> EventSampleRows | None: ...
    def samples(self) -> list[tuple[int, int, bytes]]: ...
    def make_tree(self, guest: str, max_nodes: int, /) -> None: ...
    def tree(self) -> TreeRows | None: ...
    def follow_data(self) -> None: ...
    def set_owners(self, ranges: Buffer, /) -> None: ...
    def data_flow(self) -> FlowRows | None: ...
    def find_dependences(self, max_bytes: int, has_windows: bool = False, /) -> None: ...
    def dependences(self) -> DependenceRows | None: ...
    def header(self) -> Header: ...
    def limit(self, max_blocks: int, /) -> None: ...
    def schedule(
        self, seed: int, first_chunks: int, period_chunks: int, warm_chunks: int, measured_chunks: int, /
    ) -> None: ...
    def sample(
        self, seed: int, first_chunks: int, period_chunks: int, warm_chunks: int, measured_chunks: int, /
    ) -> None: ...
    def mark(self) -> int: ...
    def follow(self, execve_call: int, elf_machine: int, process: int, own_fd: int, exchange_fd: int, /) -> None: ...
    def request(self) -> tuple[int, int, bytes] | None: ...
    def answer(self, fd: int, /) -> None: ...
    def detach(self) -> None: ...

def layout() -> dict[str, int]: ...
def catch_signals(bits: int, /) -> None: ...
def catch_ignored_signals(bits: int, /) -> None: ...
def release_signals() -> None: ...
def take_signals() -> int: ...
def interrupts() -> int: ...
