"""The table of instruction costs: consistent, with sources, and what it tells of cores."""

from __future__ import annotations

import pytest

from foretrace.profiles.figure import CoreClass
from foretrace.profiles.instruction_costs import SOURCES, listed_cost, listed_costs
from foretrace.profiles.points import Operation


def test_each_entry_has_a_source_and_possible_cycles():
    costs = listed_costs()
    keys = [(one.operation, one.element_bits, one.microarchitecture) for one in costs]
    assert len(set(keys)) == len(keys) > 200
    assert {one.source for one in costs} == set(SOURCES)
    assert all(0.1 <= one.interval_cycles <= 200 and 1 <= one.latency_cycles <= 200 for one in costs)
    assert all(one.interval_cycles <= one.latency_cycles * 5 for one in costs), "cycles of one instruction"


@pytest.mark.parametrize(
    ("operation", "core", "latency", "interval"),
    [
        # As InstLatx64 measured them, and LLVM has them of Arm's cores.
        (Operation.AES, "zen4", 4, 0.5),
        (Operation.AES, "skylake", 4, 1),
        (Operation.AES, "neoverse-v1", 2, 0.25),
        (Operation.SHA_ROUND, "zen4", 4, 1),
        (Operation.CRC32, "golden-cove", 3, 1),
        (Operation.CRC32, "neoverse-n1", 2, 1),
        (Operation.CARRYLESS_MUL, "sunny-cove", 6, 1),
        (Operation.BIT_DEPOSIT, "zen2", 21, 20),
        (Operation.BIT_DEPOSIT, "zen3", 3, 1),
    ],
)
def test_a_listed_core_has_its_own_cost(operation, core, latency, interval):
    found = listed_cost(operation, 0, CoreClass(microarchitecture=core))
    assert found is not None and found.is_of_the_core
    assert (found.latency_cycles[1], found.interval_cycles[1]) == (latency, interval)


def test_another_core_has_the_median_and_range_of_its_instruction_set():
    arm = listed_cost(Operation.CRC32, 0, CoreClass(instruction_set="aarch64"))
    assert arm is not None and not arm.is_of_the_core
    assert arm.latency_cycles[0] == 2 and arm.latency_cycles[2] == 20
    assert arm.latency_cycles[0] <= arm.latency_cycles[1] <= arm.latency_cycles[2]
    assert "8 cores of aarch64" in arm.known_of
    risc = listed_cost(Operation.CRC32, 0, CoreClass(instruction_set="riscv64"))
    assert risc is not None and "20 cores of other instruction sets" in risc.known_of


def test_products_of_long_elements_may_cost_more():
    core = CoreClass(microarchitecture="golden-cove")
    long, short = (listed_cost(Operation.VECTOR_MUL, bits, core) for bits in (32, 16))
    assert long is not None and long.latency_cycles[1] == 10
    assert short is not None and short.latency_cycles[1] == 5


def test_what_is_in_no_table_is_not_made_up():
    assert listed_cost(Operation.FP_ADD, 64, CoreClass(microarchitecture="zen4")) is None
