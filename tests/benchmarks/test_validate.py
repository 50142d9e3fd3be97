"""The comparisons' own arithmetic; what they compare is tested where it belongs."""

import pytest

from foretrace.base.errors import EngineError
from foretrace.benchmarks.harness import tools
from foretrace.benchmarks.peers import exactness, tracing_cost
from foretrace.benchmarks.validation import validate

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


def comparison(program="x", **costs):
    return tracing_cost.Comparison(program, ("./x",), {name: tools.Cost(*cost) for name, cost in costs.items()})


def test_ratios():
    x = comparison(native=(2, 1), cachegrind=(20, 10), foretrace=(5, 4))
    assert x.ratio("foretrace", "cachegrind", "wall_s") == 0.25
    assert x.ratio("foretrace", "native", "cpu_s") == 4


def test_a_tool_that_is_not_installed_leaves_gaps():
    x = comparison(native=(2, 1), foretrace=(5, 4))
    assert x.ratio("foretrace", "cachegrind") is None
    assert tracing_cost.summary([x], "cpu_s") is None


def test_the_summary_is_of_the_ratios_to_cachegrind():
    found = [comparison(cachegrind=(2, 1), foretrace=(1, 2)), comparison(cachegrind=(1, 1), foretrace=(8, 2))]
    assert tracing_cost.summary(found, "wall_s") == {"geometric_mean": pytest.approx(2), "worst": 8}


def test_further_targets_are_told_as_a_share_of_the_first():
    costs = tuple(tools.Cost(wall_s, 1) for wall_s in (2, 2.2, 2.4, 3.2))
    assert tracing_cost.FurtherTargets("x", costs).per_target("wall_s") == pytest.approx(0.2)


def test_differences_are_relative_to_cachegrind():
    x = exactness.Exactness("x", tools.CacheMisses(1000, 0), tools.CacheMisses(1001, 0))
    assert x.difference("d1") == pytest.approx(0.001)
    assert x.difference("ll") is None  # relative to no misses at all


def test_further_machines_are_all_simulated(tmp_path):
    command = tools.trace_machines_command(["/bin/true"], tmp_path, tracing_cost.MACHINES)
    tools.measure(command)
    names = [one["name"] for one in tools.foretrace_json("info", str(tmp_path / "machines.sig"))["hierarchies"]]
    assert len(set(names)) == len(tracing_cost.MACHINES)


def test_a_command_that_fails_is_an_error_with_its_last_words():
    with pytest.raises(EngineError, match=r"ended with 3: no luck"):
        tools.measure(["sh", "-c", "echo no luck >&2; exit 3"])


def test_the_cost_of_a_command_includes_its_children():
    busy = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"
    assert tools.measure(["sh", "-c", f"sh -c '{busy}'; true"]).cpu_s > tools.measure(["sh", "-c", "true"]).cpu_s
