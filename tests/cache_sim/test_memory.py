"""Memory systems: the C core against the reference, counter by counter, on random configurations and streams."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_reference import ReferenceMemory

from foretrace.base.errors import HierarchyError
from foretrace.cache_sim.base.hierarchy import Hierarchy
from foretrace.cache_sim.base.level import Inclusion, Level, Prefetch, Replacement, Tlb, WritePolicy
from foretrace.cache_sim.base.results import Event, MemoryEvents
from foretrace.cache_sim.simulator import Simulator


@dataclass(frozen=True, slots=True)
class Step:
    """An access of an operation, or the fetch of a block."""

    number: int
    address: int
    size_bytes: int
    is_store: bool = False
    is_fetch: bool = False
    thread: int = 0


def events_of(hierarchies: Sequence[Hierarchy], steps: Sequence[Step]) -> list[MemoryEvents]:
    """What the C core counts."""
    simulator = Simulator(hierarchies, reuse_rate=None)
    for (is_fetch, thread), group in itertools.groupby(steps, lambda step: (step.is_fetch, step.thread)):
        rows = [(s.address, s.size_bytes, s.number, s.is_store) for s in group]
        addresses, sizes_bytes, numbers, stores = (np.array(column) for column in zip(*rows, strict=True))
        if is_fetch:
            simulator.fetch(addresses, sizes_bytes, numbers, thread=thread)
        else:
            simulator.feed(addresses, sizes_bytes, numbers, stores, thread=thread)
    results = [simulated.events for simulated in simulator.simulated()]
    assert all(events is not None for events in results)
    return [events for events in results if events is not None]


def assert_equal_to_reference(hierarchy: Hierarchy, steps: Sequence[Step], events: MemoryEvents) -> None:
    reference = ReferenceMemory(hierarchy)
    for s in steps:
        if s.is_fetch:
            reference.fetch(s.number, s.address, s.size_bytes, thread=s.thread)
        else:
            reference.access(s.number, s.address, s.size_bytes, is_store=s.is_store, thread=s.thread)
    counted = {
        ((kind, row), part, event): int(table[row, p, e])
        for kind, table in (("operation", events.by_operation), ("block", events.by_block))
        for row in range(len(table))
        for p, part in enumerate(events.parts)
        for e, event in enumerate(Event)
        if table[row, p, e]
    }
    assert counted == {key: count for key, count in reference.counts.items() if count}


# ---- random configurations ------------------------------------------------------------------------------------------


@st.composite
def tag_arrays(draw: st.DrawFn) -> tuple[int, int, Replacement]:
    """Sets, ways, replacement."""
    replacement = draw(st.sampled_from(list(Replacement)))
    ways = [1, 2, 4, 8, 16] if replacement is Replacement.PLRU else [1, 2, 3, 4, 7, 8, 9, 16, 17, 24]
    return draw(st.sampled_from([1, 2, 3, 4, 5, 8])), draw(st.sampled_from(ways)), replacement


@st.composite
def caches(draw: st.DrawFn, name: str, line_bytes: int) -> Level:
    num_sets, ways, replacement = draw(tag_arrays())
    prefetch = draw(st.sampled_from([None, None, *Prefetch]))
    return Level(
        name,
        num_sets * ways * line_bytes,
        ways,
        line_bytes,
        replacement=replacement,
        write=draw(st.sampled_from([None, WritePolicy.BACK, WritePolicy.THROUGH])),
        allocate_on_write=draw(st.sampled_from([True, True, False])),
        victim_lines=draw(st.sampled_from([0, 0, 1, 3])),
        prefetch=prefetch,
        prefetch_degree=1 if prefetch is None else draw(st.sampled_from([1, 2, 4])),
    )


@st.composite
def hierarchies(draw: st.DrawFn) -> Hierarchy:
    """Any that can be simulated in full."""
    cores = draw(st.sampled_from([1, 1, 2, 3]))
    num_levels = draw(st.integers(1, 4))
    num_private = draw(st.integers(0, num_levels)) if cores > 1 else num_levels
    line_bytes = draw(st.sampled_from([16, 64]))
    levels: list[Level] = []
    for k in range(num_levels):
        if cores == 1 or k >= num_private:
            line_bytes *= draw(st.sampled_from([1, 1, 1, 2]))
        level = draw(caches(f"L{k + 1}", line_bytes))
        choices = [Inclusion.NON_INCLUSIVE]
        if k:
            choices.append(Inclusion.INCLUSIVE)
            if levels[-1].write is not WritePolicy.THROUGH and levels[-1].line_bytes == line_bytes:
                choices.append(Inclusion.EXCLUSIVE)
        inclusion = draw(st.sampled_from(choices))
        if inclusion is Inclusion.EXCLUSIVE:
            level = replace(level, prefetch=None, prefetch_degree=1, victim_lines=0)
        levels.append(replace(level, inclusion=inclusion, shared=cores > 1 and k >= num_private))
    instruction = None
    if draw(st.booleans()):
        second = levels[0 if cores > 1 else min(1, num_levels - 1)]
        instruction = replace(draw(caches("I1", second.line_bytes)), write=None, allocate_on_write=True)
        if instruction.prefetch is Prefetch.STRIDE:
            instruction = replace(instruction, prefetch=Prefetch.NEXT_LINE)
    tlbs = []
    for name in ("DTLB", "STLB")[: draw(st.integers(0, 2))]:
        num_sets, ways, replacement = draw(tag_arrays())
        tlbs.append(Tlb(name, num_sets * ways, ways, 4096, replacement))
    h = Hierarchy("h", tuple(levels), tuple(tlbs), instruction, cores, draw(st.integers(0, 2**64 - 1)))
    return Hierarchy("h", (replace(h.levels[0], write=WritePolicy.BACK), *h.levels[1:])) if h.is_plain else h


@st.composite
def steps(draw: st.DrawFn) -> list[Step]:
    """Walks over a few small regions, some of them shared by threads, some crossing pages and lines."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    footprint = draw(st.sampled_from([200, 1500, 6000, 40_000]))
    strides = draw(st.sampled_from([[8], [64, -64, 8], [0, 8, 100, 128, -16], [4096, 16]]))
    position, thread = np.zeros(4, dtype=np.int64), 0
    result = []
    for _ in range(draw(st.integers(0, 300))):
        thread = int(random.integers(4)) if random.integers(6) == 0 else thread
        number = int(random.integers(4))
        jump = random.integers(8) == 0
        moved = random.integers(footprint) if jump else position[number] + random.choice(strides)
        position[number] = moved % footprint
        address = int(position[number]) + (1 << 33 if number == 3 else 0)
        size_bytes = int(random.integers(1, 200)) if random.integers(10) == 0 else 8
        kind = random.integers(6)
        result.append(Step(number, address, size_bytes, bool(kind < 2), bool(kind == 5), thread))
    return result


@settings(max_examples=examples(250))
@given(hierarchies(), steps())
def test_every_counter_is_the_references(hierarchy: Hierarchy, stream: list[Step]) -> None:
    (events,) = events_of([hierarchy], stream)
    assert_equal_to_reference(hierarchy, stream, events)


@given(hierarchies())
def test_notation_round_trips(hierarchy: Hierarchy) -> None:
    again = Hierarchy.parse(hierarchy.spec, "h")
    assert (again.levels, again.tlbs, again.instruction, again.cores) == (
        hierarchy.levels, hierarchy.tlbs, hierarchy.instruction, hierarchy.cores,
    )  # fmt: skip
    assert again.spec == hierarchy.spec


# ---- closed forms and hand-worked cases -----------------------------------------------------------------------------


def counted(spec: str, addresses: Sequence[int], *, stores: Sequence[bool] | bool = False) -> dict[str, dict[str, int]]:
    """Totals of 8-byte accesses, C core and reference alike."""
    hierarchy = Hierarchy.parse(spec)
    simulator, reference = Simulator([hierarchy], reuse_rate=None), ReferenceMemory(hierarchy)
    simulator.feed(np.array(addresses, dtype=np.uint64), 8, 0, stores)
    for address, is_store in zip(addresses, np.broadcast_to(stores, len(addresses)).tolist(), strict=True):
        reference.access(0, int(address), 8, is_store=is_store)
    events = simulator.simulated()[0].events
    assert events is not None
    totals = events.totals()
    for part, counts in totals.items():
        assert counts == {str(event): reference.counts[("operation", 0), part, event] for event in Event}
    return totals


def lines(numbers: Sequence[int] | str) -> list[int]:
    """Addresses of lines of 64 bytes; letters count from a."""
    return [64 * (ord(n) - ord("a") if isinstance(n, str) else n) for n in numbers]


def misses(spec: str, numbers: Sequence[int] | str) -> int:
    return counted(spec, lines(numbers))["L1"]["misses"]


def test_plain_caches_with_loads_miss_as_the_fast_simulator_says() -> None:
    """Following stores changes nothing for loads: `cache.c` and the memory system are two simulators of one cache."""
    random = np.random.default_rng(1)
    addresses = np.concatenate([random.integers(0, 1 << 18, 20_000), np.arange(0, 1 << 19, 8)])
    sizes = random.integers(1, 130, len(addresses))
    plain = Hierarchy.parse("L1=4K/4/64,L2=24K/6/64,L3=160K/20/128")
    followed = Hierarchy.parse("L1=4K/4/64/write-back,L2=24K/6/64,L3=160K/20/128")
    simulator = Simulator([plain, followed], reuse_rate=None)
    simulator.feed(addresses, sizes, 0)
    fast, full = simulator.simulated()
    assert fast.misses.tolist() == full.misses.tolist()
    assert fast.events is None
    assert full.events is not None
    assert full.events.totals()["L2"]["accesses"] == int(fast.misses[0, 0])


def test_fifo_misses_more_in_a_larger_cache() -> None:
    """Belady, Nelson and Shedler, CACM 12(6), 1969: 9 faults in 3 frames, 10 in 4. LRU has no such anomaly."""
    anomaly = "abcdabeabcde"
    assert misses("L1=192/3/64/fifo", anomaly) == 9
    assert misses("L1=256/4/64/fifo", anomaly) == 10
    assert misses("L1=192/3/64/write-back", anomaly) == 10
    assert misses("L1=256/4/64/write-back", anomaly) == 8


def test_tree_plru_by_hand() -> None:
    """Four ways hold a, b | c, d. After a's last use the root points right, and there at c, used before d.

    So e replaces c, where LRU would replace b. After b's use the root points right again, there at d: f replaces it.
    """
    assert misses("L1=256/4/64/plru", "abcd") == 4
    assert misses("L1=256/4/64/plru", "abcdae" + "abde") == 5
    assert misses("L1=256/4/64/plru", "abcdae" + "c") == 6
    assert misses("L1=256/4/64/plru", "abcdaebf" + "abef") == 6
    assert misses("L1=256/4/64/write-back", "abcdae" + "b") == 6
    assert misses("L1=128/2/64/plru", "abacbacab") == misses("L1=128/2/64/write-back", "abacbacab")


def test_random_replacement_is_reproducible_and_near_its_expectation() -> None:
    """A line of N + 1 used at random from N ways misses with probability 1 / (N + 1), whatever is replaced."""
    random = np.random.default_rng(5).integers(0, 9, 20_000).tolist()
    first = misses("L1=512/8/64/random", random)
    assert first == misses("L1=512/8/64/random", random)
    assert first != misses("L1=512/8/64/random,seed=7", random)
    assert first / len(random) == pytest.approx(1 / 9, abs=0.01)
    # Cyclic use of N + 1 lines defeats LRU wholly, random replacement not.
    cyclic = list(range(9)) * 200
    assert misses("L1=512/8/64/write-back", cyclic) == len(cyclic)
    assert misses("L1=512/8/64/random", cyclic) < len(cyclic) / 2


@pytest.mark.parametrize("ways", [1, 4, 8, 16, 64])
@pytest.mark.parametrize("replacement", ["lru", "plru", "fifo", "random"])
def test_streams_and_strides(ways: int, replacement: str) -> None:
    """What fits is missed once, a stream once a line; what maps to one set uses one set, whoever is replaced."""
    spec = f"L1={ways * 8 * 64}/{ways}/64/{replacement}/write-back"
    fitting = [*range(8 * ways)] * 2
    assert misses(spec, fitting) == 8 * ways
    assert counted(spec, np.arange(0, 1 << 16, 8).tolist())["L1"]["misses"] == 1 << 10
    assert misses(spec, [8 * i for i in range(ways)] * 3) == ways
    one_too_many = misses(spec, [8 * i for i in range(ways + 1)] * 3)
    if replacement in ("lru", "fifo"):
        assert one_too_many == 3 * (ways + 1)
    assert ways + 1 <= one_too_many <= 3 * (ways + 1)


@pytest.mark.parametrize("levels", ["L1=4K/4/64/write-back", "L1=4K/4/64/write-back,L2=32K/8/64,L3=64K/8/64"])
def test_a_stream_of_stores_is_written_back_once_a_line(levels: str) -> None:
    stream = np.arange(0, 1 << 18, 8).tolist()
    hierarchy = Hierarchy.parse(levels)
    totals = counted(levels, stream, stores=True)
    last = hierarchy.levels[-1]
    assert totals[last.name]["write_backs"] == (1 << 18) // 64 - last.size_bytes // 64, "all but what is still there"
    assert totals["L1"]["write_backs"] == (1 << 18) // 64 - 64
    assert all(counts["write_backs"] == 0 for counts in counted(levels, stream).values())


def test_write_through_sends_every_store_on() -> None:
    through, around = "L1=4K/4/64/write-through,L2=64K/8/64", "L1=4K/4/64/write-through/no-allocate,L2=64K/8/64"
    stores = [*range(0, 2048, 8)] * 4
    for spec in (through, around):
        totals = counted(spec, stores, stores=True)
        assert totals["L2"]["accesses"] == len(stores)
        assert totals["L2"]["misses"] == 2048 // 64
        assert totals["L1"]["write_backs"] == totals["L2"]["write_backs"] == 0
    assert counted(through, stores, stores=True)["L1"]["misses"] == 2048 // 64
    assert counted(around, stores, stores=True)["L1"]["misses"] == len(stores), "nothing ever comes in"


def test_an_exclusive_second_level_adds_its_size() -> None:
    """Cyclic use of as many lines as both levels hold hits after the first round; non-inclusive, LRU hits none."""
    for inclusion, capacity_lines in (("exclusive", 8 + 24), ("non-inclusive", 24)):
        spec = f"L1=512/8/64/write-back,L2=1536/24/64/{inclusion}"
        assert counted(spec, lines([*range(capacity_lines)] * 5))["L2"]["misses"] == capacity_lines
        more = counted(spec, lines([*range(capacity_lines + 1)] * 5))
        assert more["L2"]["misses"] == 5 * (capacity_lines + 1)


def test_an_exclusive_level_takes_over_dirty_lines_and_hands_them_back() -> None:
    spec = "L1=64/1/64/write-back,L2=64/1/64/exclusive"
    totals = counted(spec, lines("abac"), stores=[True, False, False, False])
    # a is stored; b moves it to L2; a comes back, dirty, and b moves; c moves a to L2, where b makes room unwritten.
    assert totals["L1"]["write_backs"] == 2
    assert totals["L2"]["write_backs"] == 0
    assert totals["L2"]["misses"] == 3
    assert counted(spec, lines("abcd"), stores=[True, False, False, False])["L2"]["write_backs"] == 1


def test_an_inclusive_level_takes_lines_from_the_level_inside() -> None:
    """b, c, d, e push a out of the second level, though a is used all the time in the first, where it must go, too."""
    numbers = "ab" + "ac" + "ad" + "ae" + "a"
    assert counted("L1=128/2/64/write-back,L2=256/4/64", lines(numbers))["L1"]["misses"] == 5
    totals = counted("L1=128/2/64/write-back,L2=256/4/64/inclusive", lines(numbers))
    assert totals["L1"]["back_invalidations"] == 1
    assert totals["L1"]["misses"] == 6
    stored = counted("L1=128/2/64/write-back,L2=256/4/64/inclusive", lines(numbers), stores=[True] + [False] * 8)
    assert stored["L2"]["write_backs"] == 1, "what was dirty inside is written with the line"
    assert stored["L1"]["write_backs"] == 0


def test_a_victim_cache_removes_conflict_misses() -> None:
    """Jouppi, ISCA'90: two lines that fight for one set of a direct-mapped cache miss twice, then swap places."""
    assert misses("L1=1K/1/64/write-back", [0, 16] * 50) == 100
    totals = counted("L1=1K/1/64/victim=1", lines([0, 16] * 50))
    assert totals["L1"]["misses"] == 2
    assert totals["L1"]["victim_hits"] == 98
    assert counted("L1=1K/1/64/victim=3", lines([0, 16, 32, 48] * 50))["L1"]["misses"] == 4
    assert counted("L1=1K/1/64/victim=2", lines([0, 16, 32, 48] * 50))["L1"]["misses"] == 200


@pytest.mark.parametrize(("page", "page_bytes"), [("4K", 4096), ("2M", 2 << 20)])
def test_tlb_reach(page: str, page_bytes: int) -> None:
    """As many pages as a level has entries are translated without a miss; one more, in turn, never."""
    spec = f"L1=4K/4/64,DTLB=16/16/{page}/tlb,STLB=64/64/{page}/tlb"
    for num_pages, first, second in ((16, 16, 16), (17, 85, 17), (64, 320, 64), (65, 325, 325)):
        totals = counted(spec, [page_bytes * i for i in range(num_pages)] * 5)
        assert (totals["DTLB"]["misses"], totals["STLB"]["misses"]) == (first, second)
        assert totals["DTLB"]["accesses"] == 5 * num_pages
        assert totals["STLB"]["accesses"] == first


def test_an_access_counts_once_for_each_part() -> None:
    """It spans two lines, two pages, and misses in both."""
    totals = counted("L1=4K/4/64/write-back,L2=16K/4/64,DTLB=16/4/4K/tlb", [4092, 4092])
    assert [totals[part]["accesses"] for part in ("L1", "L2", "DTLB")] == [2, 1, 2]
    assert [totals[part]["misses"] for part in ("L1", "L2", "DTLB")] == [1, 1, 1]


def test_next_line_prefetch_of_a_stream_misses_once_a_page() -> None:
    """Smith, Computing Surveys 14(3), 1982, tagged prefetch: a hit on a prefetched line fetches the next."""
    totals = counted("L1=4K/4/64/prefetch=next-line", np.arange(0, 1 << 16, 8).tolist())
    assert totals["L1"]["misses"] == (1 << 16) // 4096
    assert totals["L1"]["prefetches"] == totals["L1"]["useful_prefetches"] == (1 << 16) // 64 - (1 << 16) // 4096
    assert counted("L1=4K/4/64/prefetch=next-line", [128 * i for i in range(100)])["L1"]["useful_prefetches"] == 0


def test_stride_prefetch_learns_within_three_accesses() -> None:
    """The first gives an address, the second a stride, the third confirms it, and what follows hits."""
    stride = [256 * i for i in range(16)]
    totals = counted("L1=8K/4/64/prefetch=stride", stride)
    assert totals["L1"]["misses"] == 3
    assert totals["L1"]["prefetches"] == totals["L1"]["useful_prefetches"] == 13
    down = counted("L1=8K/4/64/prefetch=stride", stride[::-1])
    assert down["L1"]["misses"] == 3
    assert counted("L1=8K/4/64/prefetch=stride", [0, 256, 1024, 1536, 3072])["L1"]["prefetches"] == 0


def test_false_sharing_moves_a_line_between_cores() -> None:
    """Two threads store to one line in turn: each store but the first takes it from the other core."""
    hierarchy = Hierarchy.parse("L1=4K/4/64,L2=64K/8/64/shared,cores=2")
    apart = [Step(i % 2, 4096 * (i % 2), 8, is_store=True, thread=i % 2) for i in range(20)]
    shared = [Step(i % 2, 8 * (i % 2), 8, is_store=True, thread=i % 2) for i in range(20)]
    for steps, misses, invalidations in ((apart, 2, 0), (shared, 20, 19)):
        (events,) = events_of([hierarchy], steps)
        assert_equal_to_reference(hierarchy, steps, events)
        totals = events.totals()
        assert totals["L1"]["misses"] == misses
        assert totals["L1"]["coherence_invalidations"] == totals["L1"]["write_backs"] == invalidations
    readers = [Step(0, 0, 8, thread=i % 2) for i in range(20)]
    (events,) = events_of([hierarchy], readers)
    assert events.totals()["L1"] == {**dict.fromkeys(map(str, Event), 0), "accesses": 20, "misses": 2}
    assert events.totals()["L2"]["misses"] == 1


def test_a_store_takes_out_a_line_that_an_instruction_cache_handed_on() -> None:
    """Core 0's code leaves its instruction cache for the exclusive level, after core 1 has stored to it."""
    hierarchy = Hierarchy.parse("L1=64/1/64,L2=64/1/64/exclusive,I1=64/1/64/instructions,cores=2")
    store = Step(0, 0, 8, is_store=True, thread=1)
    steps = [Step(0, 0, 8, is_fetch=True), store, Step(1, 64, 8, is_fetch=True), store]
    (events,) = events_of([hierarchy], steps)
    assert_equal_to_reference(hierarchy, steps, events)
    assert events.totals()["L2"]["coherence_invalidations"] == 1


def test_an_instruction_cache_shares_the_second_level() -> None:
    """Two blocks of a loop, and data where the code of one lies: the second level holds both."""
    hierarchy = Hierarchy.parse("L1=128/2/64,L2=4K/4/64,I1=128/2/64/instructions")
    once = [Step(1, 100, 60, is_fetch=True), Step(2, 192, 64, is_fetch=True), Step(0, 128, 8)]
    (events,) = events_of([hierarchy], once * 3)
    assert_equal_to_reference(hierarchy, once * 3, events)
    # Block 1 spans lines 1 and 2, block 2 is line 3: three lines in two ways, round and round.
    assert events.by_block[:, :, :2].tolist() == [
        [[0, 0], [0, 0], [0, 0]],
        [[0, 0], [3, 1], [3, 3]],
        [[0, 0], [3, 1], [3, 3]],
    ]
    assert events.totals()["L1"]["misses"] == 1
    assert events.by_operation[0, 1, :2].tolist() == [1, 0], "the line came with block 1"


# ---- an independent simulator ---------------------------------------------------------------------------------------


PYCACHESIM = {
    ("LRU", 0): ((5437, 10096, 0), (2406, 5437, 0), (512, 2406, 0)),
    ("FIFO", 0): ((5455, 10096, 0), (2372, 5455, 0), (512, 2372, 0)),
    ("FIFO", 3): ((5455, 8670, 2141), (2498, 5571, 1541), (526, 2512, 268)),
}
"""What pycachesim 0.3.1 counted (`MISS_count`, `LOAD_count`, `EVICT_count` of `CacheSimulator.stats()`) on L1=2K/4/64,
L2=8K/8/64 and L3=16K/8/64, of 8 bytes each: by policy, and stores among ten accesses."""


def scattered(count: int) -> Iterator[int]:
    """Numbers of 31 bits: those of Knuth's MMIX (The Art of Computer Programming, 3.3.4, table 1)."""
    state = 4
    for _ in range(count):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        yield state >> 33


@pytest.mark.parametrize(("policy", "stores_of_ten"), PYCACHESIM)
def test_pycachesim_counted_the_same(policy: str, stores_of_ten: int) -> None:
    """Not LRU with stores: pycachesim does not take a store that hits for a use (a, b, store a, c evicts a).

    What pycachesim loads for a line that is written back to a level without it counts as a miss there, and not here.
    """
    expected = PYCACHESIM[policy, stores_of_ten]
    numbers = list(scattered(6000 + 4096))
    addresses = [*(8 * (number % 1500) for number in numbers[:6000]), *range(0, 32768, 8)]
    stores = [number // 1500 % 10 < stores_of_ten for number in numbers]
    word = policy.lower()
    totals = counted(f"L1=2K/4/64/{word}/write-back,L2=8K/8/64/{word},L3=16K/8/64/{word}", addresses, stores=stores)
    assert [totals[part]["write_backs"] for part in totals] == [evicted for _, _, evicted in expected]
    (missed, _, _), (missed_2, loaded_2, _), (missed_3, _, _) = expected
    assert totals["L1"]["misses"] == missed
    loaded_for_write_backs = loaded_2 - missed
    assert totals["L2"]["misses"] == missed_2 - loaded_for_write_backs
    if not stores_of_ten:
        assert totals["L3"]["misses"] == missed_3


# ---- refusals -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("L1=32K/8/64/lrru", "'lrru' is not an option; did you mean 'lru'"),
        ("L1=32K/8/64/victim=x", "'victim=x' is not an option"),
        ("L1=32K/8/64/prefetch=often", "'prefetch=often' is not an option"),
        ("L1=32K/8/64/lru/fifo", "'fifo' contradicts an earlier option for replacement"),
        ("L1=24K/6/64/plru", "ways is 6, must be a power of two up to 64 for plru"),
        ("L1=32K/8/64/victim=5000", "victim_lines is 5000, at most 1024"),
        ("L1=32K/8/64/victim=99999999999", "victim_lines is 99999999999, at most 1024"),
        ("L1=32K/8/64/degree=2", "prefetch_degree is 2, but it has no prefetch"),
        ("L1=32K/8/64/prefetch=stride/degree=17", "prefetch_degree is 17, at most 16"),
        ("L1=32K/8/64/inclusive", "inclusion of L1 is inclusive, but no level is inside it"),
        ("L1=32K/8/64,L2=1M/8/128/exclusive", "line_bytes of L2 is 128, must be that of L1, 64"),
        ("L1=32K/8/64/write-through,L2=1M/8/64/exclusive", "write of L1 is write-through, but L2"),
        ("L1=32K/8/64,L2=1M/8/64/exclusive/victim=4", "victim_lines is 4, but an exclusive level"),
        ("L1=32K/8/64,L2=1M/8/64/exclusive/prefetch=stride", "prefetch is stride, but an exclusive level"),
        ("L1=32K/8/64,L2=1M/8/64/shared", "shared of L2 is True, but the hierarchy has one core"),
        ("L1=32K/8/64/shared,L2=1M/8/64,cores=2", "shared of L2 is False, but L1 inside it is shared"),
        ("L1=32K/8/64,L2=1M/8/128,L3=8M/8/128/shared,cores=2", "line_bytes of L2 is 128, must be that of L1, 64"),
        ("L1=32K/8/64,cores=0", "cores is 0, must be a positive whole number"),
        ("L1=32K/8/64,cores=2000", "cores is 2000, at most 1024"),
        ("L1=32K/8/64,seed=99999999999999999999", "seed is 99999999999999999999, at most"),
        ("L1=32K/8/64,I1=32K/8/64/instructions/write-back", "write of I1 is write-back, but an instruction cache"),
        ("L1=32K/8/64,I1=32K/8/64/instructions/prefetch=stride", "prefetch of I1 is stride, but instructions"),
        ("L1=32K/8/64,L2=1M/8/64,I1=32K/8/128/instructions", "line_bytes of I1 is 128, must be at most that of L2"),
        ("L1=32K/8/64,I1=4K/4/64/instructions,I2=4K/4/64/instructions", "2 instruction caches"),
        ("L1=32K/8/64,TLB=64/4/3K/tlb", "page_bytes is 3072, must be a power of two from 4096"),
        ("L1=32K/8/64,TLB=64/6/4K/tlb", "entries is 64, must be a multiple of ways = 6"),
        ("L1=32K/8/64,TLB=64/4/4K/tlb/victim=4", "victim_lines is 4, but a TLB has no such thing"),
        ("L1=32K/8/64,A=64/4/4K/tlb,B=64/4/2M/tlb", "page_bytes of B is 2097152, must be that of A, 4096"),
        ("L1=32K/8/64,A=64/4/4K/tlb,B=64/4/4K/tlb,C=64/4/4K/tlb", "has 3 TLBs, must have at most 2"),
    ],
)  # fmt: skip
def test_what_cannot_be_simulated_is_refused(spec: str, words: str) -> None:
    with pytest.raises(HierarchyError) as refused:
        Hierarchy.parse(spec)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)
