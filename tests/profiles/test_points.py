"""The measured points of a profile: they survive the file, and what no machine can have is refused."""

import itertools

import pytest

from foretrace.base.errors import ProfileError
from foretrace.profiles.points import (
    ArrayCost,
    IdiomRate,
    IndexMode,
    MessagePoint,
    Movement,
    Operation,
    OperationCost,
    PrefetchPoint,
    SurfacePoint,
    ThreadPoint,
    Tlb,
)
from foretrace.profiles.profile import (
    SCHEMA,
    CacheLevel,
    Core,
    CurvePoint,
    GatherScatterCurve,
    LatencyPoint,
    MachineKind,
    Memory,
    Network,
    Profile,
    Source,
    SourceKind,
)
from foretrace.profiles.profile_file import format_profile, parse_profile

KIB, MIB = 1 << 10, 1 << 20


def profile(**changes):
    curve = (CurvePoint(KIB, 8e9), CurvePoint(4 * KIB, 2e9, noise=0.1))
    fields = {
        "schema": SCHEMA,
        "name": "here",
        "title": "Here",
        "kind": MachineKind.HOST,
        "date": "2026",
        "sources": {"s": Source(SourceKind.MEASURED, "here", "2026")},
        "core": Core({"branch_miss_cycles": "s"}, branch_miss_cycles=14.0, noise={"branch_miss_cycles": 0.02}),
        "caches": (
            CacheLevel("L1", MIB, dict.fromkeys(("size_bytes", "effective_size_bytes"), "s"), effective_size_bytes=KIB),
        ),
        "memory": Memory(
            dict.fromkeys(("page_bytes", "huge_page_bytes", "default_page_bytes", "first_touch_page_s"), "s"),
            page_bytes=4096,
            huge_page_bytes=2 * MIB,
            default_page_bytes=4096,
            first_touch_page_s=5e-7,
        ),
        "latency": tuple(LatencyPoint(MIB, t, "s", page_bytes=p) for t, p in ((2e-8, None), (1e-8, 2 * MIB))),
        "gather_scatter": tuple(
            GatherScatterCurve(("update",), "s", points=curve, index_mode=mode, element_bytes=4, threads=2)
            for mode in IndexMode
        ),
        "operations": (OperationCost(Operation.FP_FMA, 64, 4, "s", latency_cycles=4.0, interval_cycles=0.5),),
        "array_costs": (ArrayCost("add", 1e-10, "s", 0.02),),
        "surface": (SurfacePoint(Movement.COPY, MIB, 64, 8, (0.25,), 1e10, "s", 0.01),),
        "tlbs": (Tlb("L1", 4096, {"entries": "s", "miss_s": "s"}, entries=64, miss_s=2e-9, noise={"miss_s": 0.1}),),
        "prefetch": (
            PrefetchPoint(0.5, 0.99, "s", 0.01),
            PrefetchPoint(2.0, 0.95, "s"),
        ),
        "thread_bandwidth": (ThreadPoint(Movement.LOAD, 2, MIB, 2e10, "s"),),
        "idiom_rates": (IdiomRate("reduction", 3e12, "s"),),
        "network": Network({"latency_s": "s"}, latency_s=1e-6),
        "messages": (MessagePoint(8, 1e-6, "s"),),
        "partial": True,
    }  # fmt: skip
    return Profile(**(fields | changes))


def test_every_point_survives_the_file():
    assert parse_profile(format_profile(profile()).encode()) == profile()


def test_points_are_written_one_a_line():
    lines = format_profile(profile()).splitlines()
    assert (
        '    { movement = "copy", working_set_bytes = 1048576, stride_bytes = 64, access_bytes = 8, '
        'hit_rates = [0.25], bandwidth_bytes_per_s = 10000000000.0, source = "s", noise = 0.01 },'
    ) in lines
    assert lines.index("surface = [") < lines.index("[sources.s]"), "what is in no table comes before all tables"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"operations": (OperationCost(Operation.INT_MUL, 64, 1, "s"),)}, "operations entry 1: neither latency_cycles"),
        ({"operations": (OperationCost(Operation.INT_MUL, 60, 1, "s", 3.0),)}, "element_bits is 60, must be one of"),
        ({"operations": (OperationCost(Operation.INT_MUL, 64, 1, "s", 3.0),) * 2}, "operations entry 2: a second"),
        ({"surface": (SurfacePoint(Movement.LOAD, KIB, 8, 8, (0.5, 0.6), 1e9, "s"),)}, "hit_rates has 2 numbers, must"),
        ({"surface": (SurfacePoint(Movement.LOAD, KIB, 8, 8, (1.5,), 1e9, "s"),)}, r"hit_rates is \[1.5\], must be a"),
        ({"surface": (SurfacePoint(Movement.LOAD, KIB, 8, 8, (float("nan"),), 1e9, "s"),)}, "hit_rates is .nan., must"),
        ({"surface": (SurfacePoint(Movement.LOAD, 4, 8, 8, (1.0,), 1e9, "s"),)}, "access_bytes is 8, more than its"),
        ({"tlbs": (Tlb("L1", 4096, {}, entries=64),)}, "tlbs entry 1: entries has no source"),
        ({"tlbs": (Tlb("L1", 4096, {}), Tlb("L1", 4096, {}))}, "tlbs entry 2: a second point"),
        ({"prefetch": (PrefetchPoint(1.0, 1.01, "s"),)}, "prefetch entry 1: fetched_ahead is 1.01, must be at most 1"),
        ({"prefetch": (PrefetchPoint(1.0, 0.9, "s"),) * 2}, "prefetch entry 2: a second point"),
        ({"thread_bandwidth": (ThreadPoint(Movement.LOAD, 0, MIB, 2e10, "s"),)}, "threads is 0, must be positive"),
        ({"idiom_rates": (IdiomRate("reductions", 3e12, "s"),)}, "idiom is 'reductions', must be .* mean 'reduc"),
        ({"array_costs": (ArrayCost("ad", 1e-10, "s"),)}, "entry 1: operation is 'ad', must be .* mean 'add"),
        ({"messages": (MessagePoint(8, 0.0, "s"),)}, "messages entry 1: time_s is 0.0, must be positive"),
        ({"network": Network({}, latency_s=1e-6)}, "network: latency_s has no source"),
        ({"core": Core({}, noise={"clock_hz": 0.1})}, "core: noise names 'clock_hz', which is not given"),
        ({"core": Core({"cores": "s"}, cores=1, noise={"cores": -0.1})}, "core: noise of cores: noise is -0.1, must"),
        ({"memory": Memory({"default_page_bytes": "s"}, default_page_bytes=4096)}, "default_page_bytes is 4096, mu"),
        (
            {"caches": (CacheLevel("L1", KIB, {"size_bytes": "s"}, effective_size_bytes=2 * KIB),)},
            "effective_size_bytes has no source",
        ),
        (
            {"caches": (CacheLevel("L1", KIB, dict.fromkeys(("size_bytes", "effective_size_bytes"), "s"),
                                   effective_size_bytes=2 * KIB),)},
            "effective_size_bytes is 2048, must be at most size_bytes, 1024",
        ),
        (
            {"caches": (CacheLevel("L1", MIB, dict.fromkeys(("size_bytes", "effective_size_bytes",
                                                            "effective_stream_size_bytes"), "s"),
                                   effective_size_bytes=2 * KIB, effective_stream_size_bytes=KIB),)},
            "effective_stream_size_bytes is 1024, must be from effective_size_bytes, 2048, to size_bytes, 1048576",
        ),
        ({"gather_scatter": (GatherScatterCurve(("gather",), "s"),)}, "pieces is empty, must have at least one, or"),
        (
            {"gather_scatter": (GatherScatterCurve(("gather",), "s", points=(CurvePoint(8, 1e9),)),)},
            "has one point, must have at least two",
        ),
        (
            {"gather_scatter": (GatherScatterCurve(("gather",), "s", points=(CurvePoint(8, 1e9),) * 2),)},
            "point 2: range_bytes is 8, must be above that of the point before",
        ),
    ],
)  # fmt: skip
def test_what_no_machine_can_have_is_refused(changes, message):
    if "caches" in changes:
        changes = changes | {"surface": ()}
    with pytest.raises(ProfileError, match=message):
        parse_profile(format_profile(profile(**changes)).encode())


def test_a_curve_of_points_is_straight_between_them():
    points = tuple(CurvePoint(size, rate) for size, rate in ((4096, 8e9), (8192, 4e9), (16384, 5e9)))
    curve = GatherScatterCurve(("gather",), "s", points=points)
    for size, rate in ((4096, 8e9), (8192, 4e9), (16384, 5e9), (6144, 6e9)):
        assert curve.bandwidth_bytes_per_s(size) == pytest.approx(rate)
    assert curve.bandwidth_bytes_per_s(4095) is None
    assert curve.bandwidth_bytes_per_s(16385) is None
    for left, right in itertools.pairwise(curve.segments):
        assert left.to_bytes == right.from_bytes


def test_a_curve_is_found_by_operation_mode_element_and_threads():
    points = (CurvePoint(8, 1e9), CurvePoint(16, 1e9))
    anything = GatherScatterCurve(("gather", "scatter"), "s", points=points)
    spread = GatherScatterCurve(("gather",), "s", points=points, index_mode=IndexMode.SPREAD)
    small = GatherScatterCurve(("gather",), "s", points=points, index_mode=IndexMode.SPREAD, element_bytes=4, threads=2)
    machine = profile(gather_scatter=(small, anything, spread))
    assert machine.gather_scatter_curve("gather") is anything
    assert machine.gather_scatter_curve("gather", IndexMode.SPREAD) is spread
    assert machine.gather_scatter_curve("gather", IndexMode.SPREAD, element_bytes=4, threads=2) is small
    assert machine.gather_scatter_curve("update") is None
    assert machine.gather_scatter_curve("scatter", element_bytes=4) is None


def test_latencies_are_those_of_the_pages_asked_for():
    machine = profile()
    assert [p.latency_s for p in machine.latencies()] == [2e-8]
    assert [p.latency_s for p in machine.latencies(2 * MIB)] == [1e-8]
    assert machine.latencies(1 << 30) == ()
    both = tuple(LatencyPoint(MIB, t, "s", page_bytes=p) for t, p in ((2e-8, 4096), (1e-8, 2 * MIB)))
    assert [p.latency_s for p in profile(memory=None, latency=both).latencies()] == [2e-8], "the smaller, unless told"
