"""The C core against the reference, hand-worked cases, and closed forms."""

import gc
import subprocess
import sys
import threading
from collections.abc import Sequence

import cache_reference as reference
import numpy as np
import numpy.typing as npt
import pytest
from cache_reference import Access
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from foretrace.base.errors import ForetraceError
from foretrace.cache_sim.base.hierarchy import Hierarchy, Level
from foretrace.cache_sim.base.results import OperationStatistics
from foretrace.cache_sim.simulator import Simulator

PATTERNS = ("repeated", "unit_stride", "strided", "irregular")


def fed(hierarchies: Sequence[Hierarchy], accesses: Sequence[Access], **options: object) -> Simulator:
    simulator = Simulator(hierarchies, **options)  # type: ignore[arg-type]
    simulator.feed(
        np.array([access.address for access in accesses], dtype=np.uint64),
        [access.size_bytes for access in accesses] or 1,
        [access.operation for access in accesses] or 0,
    )
    return simulator


def level(name: str, num_sets: int, ways: int, line_bytes: int = 64) -> Level:
    return Level(name, num_sets * ways * line_bytes, ways, line_bytes)


def misses(hierarchy: Hierarchy, addresses: npt.ArrayLike, size_bytes: int = 8) -> list[int]:
    simulator = Simulator([hierarchy], reuse_rate=None)
    simulator.feed(addresses, size_bytes, 0)
    return [int(count) for count in simulator.simulated()[0].misses[0]]


@st.composite
def levels(draw: st.DrawFn, line_shift: int) -> Level:
    ways = draw(st.sampled_from([1, 2, 3, 6, 8, 9, 12, 16, 17, 24, 64, 65, 200]))
    num_sets = draw(st.sampled_from([1, 2, 3, 4, 5, 7, 8, 12, 100]))
    return level("L", num_sets, ways, 1 << line_shift)


@st.composite
def hierarchy_lists(draw: st.DrawFn) -> list[Hierarchy]:
    """A few hierarchies, some of which begin like one before."""
    result: list[Hierarchy] = []
    for number in range(draw(st.integers(1, 3))):
        chosen: list[Level] = []
        if len(result) > 0 and draw(st.booleans()):
            shared = draw(st.sampled_from(result)).levels
            chosen.extend(shared[: draw(st.integers(0, min(5, len(shared))))])
        shift = chosen[-1].line_bytes.bit_length() - 1 if chosen else draw(st.sampled_from([0, 2, 5, 6]))
        for _ in range(draw(st.integers(0 if chosen else 1, 3))):
            chosen.append(draw(levels(shift)))
            shift = min(16, shift + draw(st.sampled_from([0, 0, 1, 2])))
        named = tuple(Level(f"L{i}", v.size_bytes, v.ways, v.line_bytes) for i, v in enumerate(chosen, start=1))
        result.append(Hierarchy(f"h{number}", named))
    return result


@st.composite
def streams(draw: st.DrawFn) -> list[Access]:
    """Accesses with locality: a walk with steps of many kinds, over a few regions of the whole address space."""
    bases = [0, 1 << 20, 0x7FFF_FFFF_F000, (1 << 64) - (1 << 20)]
    seed = draw(st.integers(0, 2**32 - 1))
    footprint = draw(st.sampled_from([64, 1000, 20_000, 500_000]))
    largest = draw(st.sampled_from([1, 8, 64, 300]))
    random = np.random.default_rng(seed)
    position = 0
    stream = []
    for _ in range(draw(st.integers(0, 600))):
        kind = random.integers(5)
        if kind == 0:
            position = int(random.integers(footprint))
        elif kind <= 2:
            position = (position + int(random.choice([0, 1, 8, 8, -8, 64, -64, 256, 4096]))) % footprint
        size_bytes = int(random.integers(1, largest + 1)) if kind == 4 else min(8, largest)
        operation = int(random.integers(4))
        stream.append(Access(bases[operation] + position, size_bytes, operation))
    return stream


@settings(max_examples=examples(150))
@given(hierarchy_lists(), streams(), st.sampled_from([None, 1 / 64]))
def test_every_counter_is_the_references(
    hierarchies: list[Hierarchy], stream: list[Access], reuse_rate: float | None
) -> None:
    simulator = fed(hierarchies, stream, reuse_rate=reuse_rate)
    num_operations = max((access.operation for access in stream), default=-1) + 1
    assert simulator.num_operations == num_operations
    for simulated, hierarchy in zip(simulator.simulated(), hierarchies, strict=True):
        assert simulated.hierarchy is hierarchy
        assert simulated.misses.shape == (num_operations, len(hierarchy.levels))
        expected = reference.simulate(hierarchy, stream)
        for index, counter in enumerate(expected):
            assert simulated.misses[:, index].tolist() == [counter[op] for op in range(num_operations)]
    totals = simulator.statistics()
    for operation, expected_totals in enumerate(reference.statistics(stream, num_operations)):
        assert {name: int(getattr(totals, name)[operation]) for name in expected_totals} == expected_totals


@settings(max_examples=examples(40))
@given(st.integers(1, 70), st.integers(1, 40), st.integers(0, 2**32 - 1), st.integers(1, 3000))
def test_long_streams_in_one_level(ways: int, num_sets: int, seed: int, footprint_lines: int) -> None:
    """Enough accesses to fill sets and to cross the boundaries of internal lists."""
    random = np.random.default_rng(seed)
    addresses = (random.integers(0, footprint_lines, 5000) << 6) + random.integers(0, 64, 5000)
    one_level = Hierarchy("h", (level("L1", num_sets, ways),))
    accesses = [Access(int(address), 8, 0) for address in addresses]
    assert misses(one_level, addresses) == [reference.simulate(one_level, accesses)[0][0]]


@pytest.mark.parametrize("ways", [1, 4, 7, 8, 9, 12, 13, 16])
@pytest.mark.parametrize("num_sets", [1, 12, 64])
def test_lines_that_need_longer_keys_come_among_others(ways: int, num_sets: int) -> None:
    """Levels have keys of 32 bits until such a line comes; what was there before it is to be found behind it."""
    random = np.random.default_rng(ways)
    near = random.integers(0, 3 * ways * num_sets, 4000) << 6
    far = near + random.choice([0, 1 << 38, 1 << 44, 1 << 62], 4000)
    spanning = random.integers(0, 3 * ways * num_sets, 50) * 64 + (1 << 50) + 60
    two_levels = Hierarchy("h", (level("L1", num_sets, ways), level("L2", 2 * num_sets, ways)))
    for late in (far, spanning):
        addresses = np.concatenate([near, late, near])
        accesses = [Access(int(address), 8, 0) for address in addresses]
        assert misses(two_levels, addresses) == [counter[0] for counter in reference.simulate(two_levels, accesses)]


def test_huge_accesses_over_tiny_lines() -> None:
    """An access of 65535 lines is spread over many internal lists, and is still one access."""
    tiny = Hierarchy("h", (level("L1", 16, 2, 1), level("L2", 3, 100, 4), level("L3", 5, 3, 128)))
    accesses = [Access(0, 65535, 0), Access(64, 65535, 1), Access(65535, 1, 2), Access(65534, 8, 1)]
    simulated = fed([tiny], accesses).simulated()[0].misses
    for index, counter in enumerate(reference.simulate(tiny, accesses)):
        assert simulated[:, index].tolist() == [counter[op] for op in range(3)]


@pytest.mark.parametrize("num_small", [0, 20, 100, 900])
def test_huge_accesses_between_small_ones(num_small: int) -> None:
    """Internal lists have room for what follows an access of many lines, wherever it stops filling them."""
    tiny = Hierarchy("h", (level("L1", 16, 2, 1), level("L2", 64, 2, 2)))
    sizes_bytes = [1000, *[1] * num_small, 3000, *[1] * num_small, 1023, *[1] * num_small, 2047]
    starts = np.random.default_rng(0).integers(0, 100_000, len(sizes_bytes))
    accesses = [Access(int(start), size_bytes, 0) for start, size_bytes in zip(starts, sizes_bytes, strict=True)]
    simulator = fed([tiny], accesses, reuse_rate=1)
    expected = [counter[0] for counter in reference.simulate(tiny, accesses)]
    assert simulator.simulated()[0].misses.tolist() == [expected]
    reuse = simulator.reuse()
    assert reuse is not None
    assert reuse.accesses == reuse.burst_accesses == len(accesses)


def test_hand_worked() -> None:
    """One set of two ways of 16 bytes: a, b, a, c (evicts b), b (evicts a), c."""
    hierarchy = Hierarchy("h", (level("L1", 1, 2, 16), level("L2", 1, 3, 16)))
    accesses = [Access(16 * "abc".index(letter), 4, 0) for letter in "abacbc"]
    simulator = fed([hierarchy], accesses)
    assert simulator.simulated()[0].misses.tolist() == [[4, 3]]
    assert reference.simulate(hierarchy, accesses) == [{0: 4}, {0: 3}]


def test_straddling_access_misses_once_and_sends_on_only_missing_lines() -> None:
    hierarchy = Hierarchy("h", (level("L1", 1, 4, 16), level("L2", 1, 4, 16)))
    # Line 0 is loaded; the second access misses line 1 only; the third hits both; the fourth misses lines 2 and 3.
    simulator = fed([hierarchy], [Access(0, 4, 0), Access(12, 8, 1), Access(14, 4, 1), Access(40, 16, 2)])
    assert simulator.simulated()[0].misses.tolist() == [[1, 1], [1, 1], [1, 1]]
    accesses = [*(Access(16 * line, 1, 0) for line in (0, 1, 2, 3)), Access(12, 8, 1)]
    assert fed([hierarchy], accesses).simulated()[0].misses.tolist() == [[4, 4], [0, 0]]


@pytest.mark.parametrize("ways", [1, 4, 8, 12, 16, 20, 24, 64, 100, 4096])
@pytest.mark.parametrize("num_sets", [1, 8, 12])
def test_closed_forms(ways: int, num_sets: int) -> None:
    hierarchy = Hierarchy("h", (level("L1", num_sets, ways),))
    capacity_lines = ways * num_sets
    # A stream misses once a line; a second pass over what fits misses nothing.
    once = np.arange(0, capacity_lines * 64, 8)
    assert misses(hierarchy, np.tile(once, 2)) == [capacity_lines]
    # Cyclic access to one line too many, all in one set, never hits under LRU; to as many as there are ways, always.
    stride = num_sets * 64
    assert misses(hierarchy, np.tile(np.arange(ways + 1) * stride, 3)) == [3 * (ways + 1)]
    assert misses(hierarchy, np.tile(np.arange(ways) * stride, 3)) == [ways]


@pytest.mark.parametrize("num_sets", [3, 7, 12, 100, 1000, 12_345, (1 << 20) - 1])
def test_set_index_is_exact_for_the_whole_address_space(num_sets: int) -> None:
    """A direct-mapped cache hits the second of two lines in one set only if they are equal, so it shows the index."""
    random = np.random.default_rng(num_sets)
    lines = np.concatenate([random.integers(1, 1 << 57, 200) * 2, (1 << 58) - 1 - 2 * np.arange(200)]).astype(np.uint64)
    assert len(np.unique(lines // np.uint64(2))) == len(lines)  # none is in the cache before its turn
    same_set = np.where(lines >= num_sets, lines - np.uint64(num_sets), lines + np.uint64(num_sets))
    next_set = lines - np.uint64(1)
    hierarchy = Hierarchy("h", (level("L1", num_sets, 1),))
    for between, misses_each in ((same_set, 3), (next_set, 2)):
        addresses = np.stack([lines, between, lines], axis=1).ravel() * np.uint64(64)
        assert misses(hierarchy, addresses) == [misses_each * len(lines)]


def test_patterns_by_hand() -> None:
    addresses = [100, 108, 116, 116, 108, 100, 200, 300, 400, 400, 500, 600, 7]
    expected = {
        "unit_stride": 4,  # 108, 116 and, downwards, 108, 100
        "repeated": 2,  # 116, 400
        "strided": 3,  # 300, 400 after 200; 600 after 500
        "irregular": 3,  # 200, 500, 7
    }
    totals = fed([], [Access(address, 8, 0) for address in addresses]).statistics()
    assert {name: int(getattr(totals, name)[0]) for name in PATTERNS} == expected
    assert (totals.first[0], totals.last_exclusive[0], totals.total_bytes[0]) == (7, 608, 8 * len(addresses))


def test_operations_never_fed_are_zero() -> None:
    simulator = fed([], [Access(4096, 2, 5)])
    totals = simulator.statistics()
    assert totals.executions.tolist() == [0, 0, 0, 0, 0, 1]
    assert totals.first.tolist() == [0, 0, 0, 0, 0, 4096]
    assert totals.size_bytes.tolist() == [0, 0, 0, 0, 0, 2]


@st.composite
def walks(draw: st.DrawFn) -> list[tuple[int, int, int, int, bool]]:
    """Loops of one operation each: first address, stride, number of accesses, size, whether they store."""
    strides = st.sampled_from([0, 1, 4, 8, -8, 64, 72, 4096])
    sizes = st.sampled_from([1, 8, 100])
    return draw(
        st.lists(
            st.tuples(st.integers(1 << 16, 1 << 17), strides, st.integers(1, 3000), sizes, st.booleans()), max_size=8
        )
    )


@settings(max_examples=examples(30))
@given(walks())
def test_one_value_for_all_is_the_same_value_for_each(loops: list[tuple[int, int, int, int, bool]]) -> None:
    """One operation's accesses go another way through the simulator than those of several."""
    hierarchies = [Hierarchy.parse(text) for text in ("L1=1K/2/64,L2=8K/8/64", "L1=1K/2/64/plru")]
    short, long = (Simulator(hierarchies, reuse_rate=1) for _ in range(2))
    for operation, (first, stride, number, size, stores) in enumerate(loops):
        addresses = np.uint64(first + (8 << 20)) + (np.arange(number) * stride).astype(np.uint64)
        short.feed(addresses, size, operation, stores)
        long.feed(addresses, *(np.full(number, value) for value in (size, operation, stores)))
    for name in OperationStatistics.__dataclass_fields__:
        assert getattr(short.statistics(), name).tolist() == getattr(long.statistics(), name).tolist(), name
    for one, other in zip(short.simulated(), long.simulated(), strict=True):
        assert one.misses.tolist() == other.misses.tolist()
    reuse, other_reuse = short.reuse(), long.reuse()
    assert (reuse is None) == (other_reuse is None)
    if reuse is not None and other_reuse is not None:
        for name in ("operation", "line_bytes", "way", "bin", "count"):
            assert getattr(reuse, name).tolist() == getattr(other_reuse, name).tolist(), name


def test_nothing_fed() -> None:
    simulator = Simulator([Hierarchy("h", (level("L1", 1, 1),))])
    assert simulator.num_operations == 0
    assert simulator.statistics().num_operations == 0
    assert simulator.simulated()[0].misses.shape == (0, 1)


def test_many_operations() -> None:
    """Room for operations is made as they come, and earlier counts are kept."""
    operations = np.arange(100_000)
    simulator = Simulator([Hierarchy("h", (level("L1", 4, 2),))])
    simulator.feed(operations * 64, 8, operations)
    simulator.feed(operations * 64, 4, operations[::-1].copy())
    assert simulator.statistics().executions.tolist() == [2] * 100_000
    assert simulator.statistics().total_bytes.tolist() == [12] * 100_000
    assert int(simulator.simulated()[0].misses.sum()) == 200_000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([-1], 8, 0), "addresses has values from -1"),
        (([1.5], 8, 0), "addresses has shape"),
        (([1], 0, 0), "sizes_bytes has values from 0"),
        (([1], 65536, 0), "sizes_bytes has values from 65536"),
        (([1], 8, -1), "operations has values from -1"),
        (([1, 2], [8, 8, 8], 0), "sizes_bytes has shape"),
        (([(1 << 64) - 4], 8, 0), "beyond the end"),
    ],
)
def test_bad_accesses_are_refused(arguments: tuple[object, object, object], message: str) -> None:
    simulator = Simulator([])
    with pytest.raises(ForetraceError, match=message):
        simulator.feed(*arguments)  # type: ignore[arg-type]
    assert simulator.num_operations == 0


@pytest.mark.parametrize("options", [{"reuse_rate": 0.3}, {"reuse_rate": 2}])
def test_bad_options_are_refused(options: dict[str, float]) -> None:
    name, value = next(iter(options.items()))
    with pytest.raises(ForetraceError, match=f"{name} is {value}"):
        Simulator([], **options)  # type: ignore[arg-type]


def test_sink_keeps_its_simulator() -> None:
    sink = Simulator([]).sink
    gc.collect()
    assert "foretrace.cache_sim.sink" in repr(sink)


def test_results_can_be_asked_for_while_another_thread_feeds() -> None:
    simulator = Simulator([Hierarchy("h", (level("L1", 64, 8),))])
    addresses = np.arange(1 << 20) * 8
    feeder = threading.Thread(target=lambda: simulator.feed(addresses, 8, 0))
    feeder.start()
    while feeder.is_alive():
        totals = simulator.statistics()
        if totals.num_operations:
            assert totals.last_exclusive[0] == totals.executions[0] * 8
    feeder.join()
    assert int(simulator.simulated()[0].misses[0, 0]) == (1 << 20) // 8


OUT_OF_MEMORY = """
import resource
from foretrace.cache_sim.base.hierarchy import Hierarchy
from foretrace.cache_sim.base.results import OperationStatistics
from foretrace.cache_sim.simulator import Simulator
from foretrace.base.errors import ForetraceError
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, resource.RLIM_INFINITY))
for spec in (
    "L1=32K/8/64,LL=64G/16/64", "L1=64G/65536/64", "L1=64G/65536/1", "L1=32K/8/64/plru,LL=64G/16/64",
):
    try:
        Simulator([Hierarchy.parse(spec)])
    except ForetraceError as error:
        print(error)
simulator = Simulator([Hierarchy.parse("L1=32K/8/64")])
for _ in range(2):
    try:
        simulator.feed(0, 8, 2**32 - 1)
    except ForetraceError as error:
        print(error)
try:
    simulator.statistics()
except ForetraceError as error:
    print(error)
"""


def test_memory_that_runs_out_is_an_error_of_one_line() -> None:
    """In a process of its own, with too little address space. Counts are refused once a batch could not be counted."""
    done = subprocess.run([sys.executable, "-P", "-c", OUT_OF_MEMORY], capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert len(lines) == 7
    assert all("memory cannot hold" in line and f"={1 << 36}/" in line for line in lines[:4])
    assert all("memory ran out" in line for line in lines[4:])
