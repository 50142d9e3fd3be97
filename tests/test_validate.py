"""The comparisons' own arithmetic; what they compare is tested where it belongs."""

import pytest

from foretrace.benchmarks import peers, tools, validate
from foretrace.errors import EngineError

KIB, MIB = 1 << 10, 1 << 20


@pytest.mark.parametrize(
    ("range_bytes", "expected"),
    [
        (191 * KIB, ("not offloaded", None)),
        (192 * KIB, ("not offloaded", None)),
        (193 * KIB, ("3", 14.57632e9)),
        (1 * MIB, ("3", 23.08576e9)),
        (3 * MIB - 1, ("3", 44.05727e9)),
        (3 * MIB, ("4", 48e9)),
        (1 << 40, ("4", 48e9)),
    ],
)
def test_equations_of_the_paper(range_bytes, expected):
    name, bandwidth = validate.equation(range_bytes)
    assert name == expected[0]
    assert bandwidth == (None if expected[1] is None else pytest.approx(expected[1], rel=1e-9))


ARRAYS = {"A": (1000, 640), "B": (2000, 160)}


def info(*ranges):
    found = [{"first": first, "last_exclusive": last, "bytes": last - first} for first, last in ranges]
    return {"loops": [{"function": "scatter_8", "ranges": found}]}


def test_a_range_is_matched_to_the_array_it_begins_in():
    rows = validate.measured_ranges(info((1000, 1640), (2000, 2152)), "scatter_8", ARRAYS)
    assert [(row.array, row.actual_bytes, row.measured_bytes) for row in rows] == [("A", 640, 640), ("B", 160, 152)]


def test_an_array_that_no_range_lies_in_was_not_measured():
    rows = validate.measured_ranges(info((900, 1640)), "scatter_8", ARRAYS)
    assert [row.measured_bytes for row in rows] == [0, 0]


def test_a_loop_that_is_not_there_is_an_error():
    with pytest.raises(EngineError, match="gather_8 has 0 loops"):
        list(validate.measured_ranges(info(), "gather_8", ARRAYS))


def test_arrays_are_read_from_what_sgbench_prints():
    output = (
        "array         address        bytes\nA            0x4ab000        20480\nindex        0x4b3400         2560\n"
    )
    assert validate.read_arrays(output) == {"A": (0x4AB000, 20480), "index": (0x4B3400, 2560)}


def test_table_2_has_the_proportions_of_its_arrays():
    sizes = [actual for array, actual in validate.TABLE_2 if array == "A"]
    assert set(sizes) <= set(validate.TABLE_2_RANGES)
    assert all(("B", a // 4) in validate.TABLE_2 and ("index", a // 8) in validate.TABLE_2 for a in sizes)


def comparison(**changes):
    fields = {
        "program": "x",
        "command": ("./x",),
        "costs": {"native": tools.Cost(2, 1), "cachegrind": tools.Cost(20, 10), "foretrace": tools.Cost(5, 4)},
        "misses": {"cachegrind": tools.CacheMisses(1000, 0), "foretrace": tools.CacheMisses(1001, 0)},
        "start_up_misses": {},
    }
    return peers.Comparison(**(fields | changes))


def test_ratios_and_differences():
    x = comparison()
    assert x.ratio("foretrace", "cachegrind", "wall_s") == 0.25
    assert x.ratio("foretrace", "native", "cpu_s") == 4
    assert x.difference("d1") == pytest.approx(0.001)
    assert x.difference("ll") is None  # relative to no misses at all


def test_misses_of_the_start_are_taken_off():
    x = comparison(start_up_misses={"cachegrind": tools.CacheMisses(500, 0), "foretrace": tools.CacheMisses(490, 0)})
    assert x.difference("d1") == pytest.approx(511 / 500 - 1)


def test_a_tool_that_is_not_installed_leaves_gaps():
    x = comparison(
        costs={"native": tools.Cost(2, 1), "foretrace": tools.Cost(5, 4)}, misses={"foretrace": tools.CacheMisses(1, 1)}
    )
    assert x.ratio("foretrace", "cachegrind") is None
    assert x.difference("d1") is None
    document = peers.as_json([x], ["cachegrind"], 1)
    assert document["not_installed"] == ["cachegrind"]
    assert document["programs"][0]["cpu_ratio_to_native"] == 4


def test_a_command_that_fails_is_an_error_with_its_last_words():
    with pytest.raises(EngineError, match=r"ended with 3: no luck"):
        tools.measure(["sh", "-c", "echo no luck >&2; exit 3"])


def test_the_cost_of_a_command_includes_its_children():
    busy = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"
    assert tools.measure(["sh", "-c", f"sh -c '{busy}'; true"]).cpu_s > tools.measure(["sh", "-c", "true"]).cpu_s
