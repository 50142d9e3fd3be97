"""Offload decisions and the triage of a program."""

from dataclasses import replace

import msgspec
import pytest
from effort import sweep
from offload_samples import gpu, nest
from replay_samples import (
    PROVENANCE,
    Program,
    accelerator,
    gather_into,
    gather_program,
    measured_host,
    piece,
    with_changes,
)
from traces import trace_binary

from foretrace.base.errors import PredictionError
from foretrace.profiles.library import find
from foretrace.profiles.profile import Memory
from foretrace.replay.base.records import Instance, Place
from foretrace.replay.node.machine_run import Offloading
from foretrace.replay.node.replay import replay_on
from foretrace.replay.offload.devices.gather_scatter import LOADERS_CODE, is_loader
from foretrace.replay.offload.policy import Policy
from foretrace.replay.offload.triage import program_gain, triage
from foretrace.replay.prediction.predict import predict
from foretrace.tracer.signature.records import IdiomKind

KIB, MIB = 1 << 10, 1 << 20
CONVEY = find("convey-hc1-fpga")


def only_instance(signature, device=CONVEY):
    (instance,) = triage(signature, measured_host(), device).instances
    return instance


@pytest.mark.parametrize(
    ("range_bytes", "gb_per_s"),
    [(193 * KIB, 1e-5 * 193 * KIB + 12.6), (1_000_000, 22.6), (3 * MIB - 8, 44.0571998), (3 * MIB, 48), (64 * MIB, 48)],
)
def test_equations_2_to_4(range_bytes, gb_per_s):
    """Carrington et al., ICS'11, section 3.3.2: 8 + 8 + 4 bytes an iteration over the bandwidth at the range of A."""
    instance = only_instance(gather_program(range_bytes, iterations=1 << 20))
    assert instance.range_bytes == range_bytes
    assert instance.refs == 3 << 20
    assert instance.accelerator_s == pytest.approx((20 << 20) / (gb_per_s * 1e9), rel=1e-6)
    assert instance.offload


def test_decision_flips_at_192_kb():
    below = only_instance(gather_program(191 * KIB))
    assert not below.offload
    assert below.accelerator_s is None
    assert below.gain_s == 0
    assert below.reason.startswith("range 191 KiB is below the 192 KiB at which Convey HC-1")
    assert "Carrington et al., ICS'11, section 3.3.2" in below.reason
    assert only_instance(gather_program(193 * KIB)).offload
    assert not only_instance(gather_program(192 * KIB)).offload  # "larger than 192 KB"


def test_range_is_that_of_the_indirect_accesses_merged():
    program = Program()
    block = program.loop(1000)
    first = program.access(block, 500, (500, 500), first=0, length=600, pattern="irregular")
    second = program.access(block, 500, (500, 500), first=400, length=600, pattern="irregular")
    apart = program.access(block, 500, (500, 500), first=5000, length=10, pattern="irregular")
    program.access(block, 1000, first=1 << 20, length=8000)
    program.idiom(block, IdiomKind.GATHER, [first, second])
    program.idiom(block, IdiomKind.SCATTER, [apart])
    instance = only_instance(program.signature(), accelerator())
    assert instance.range_bytes == 1010
    assert instance.idiom == "gather+scatter"


def test_faster_host_keeps_the_loop():
    instance = only_instance(gather_program(MIB), accelerator(gb_per_s=0.01))
    assert not instance.offload
    assert instance.reason.startswith("host is faster")
    assert instance.accelerator_s > instance.host_s
    assert instance.gain_s == 0


def test_launches_are_paid_at_every_entry():
    cheap = only_instance(gather_program(MIB, entries=1000), accelerator(launch_latency_s=1e-6))
    dear = only_instance(gather_program(MIB, entries=1000), accelerator(launch_latency_s=1e-3))
    assert cheap.cost.launch_s == pytest.approx(1e-3)
    assert (cheap.offload, dear.offload) == (True, False)
    assert "1,000 launches" in dear.reason


def test_unknown_launch_cost_is_said_with_the_most_it_may_be():
    report = triage(gather_program(MIB, entries=10), measured_host(), CONVEY)
    (instance,) = report.instances
    assert "launch" in {assumption.name for assumption in report.assumptions}
    assert "pays while a launch costs less than" in instance.reason


def test_arithmetic_stays_on_the_host():
    without = only_instance(gather_program(MIB))
    instance = only_instance(gather_program(MIB, flops=3))
    assert without.cost.arithmetic_s == 0
    assert instance.cost.arithmetic_s == pytest.approx((1 << 20) * 3e-9)
    assert instance.accelerator_s == pytest.approx(without.accelerator_s + instance.cost.arithmetic_s)


def test_break_even_is_where_the_two_curves_cross():
    device = accelerator(gb_per_s=0.5)
    crossing = only_instance(gather_program(MIB), device).break_even_bytes
    assert 8 * KIB < crossing < MIB  # from inside the second cache to main memory
    assert only_instance(gather_program(MIB), accelerator(gb_per_s=1.0, minimum=2 * MIB)).break_even_bytes == 2 * MIB
    assert only_instance(gather_program(MIB), accelerator(gb_per_s=0.001)).break_even_bytes is None
    assert only_instance(gather_program(MIB)).break_even_bytes == 192 * KIB + 1


def test_break_even_comes_sooner_on_a_faster_accelerator():
    crossings = [
        only_instance(gather_program(MIB), accelerator(gb_per_s=rate)).break_even_bytes for rate in (0.4, 0.5, 0.6)
    ]
    assert crossings == sorted(crossings, reverse=True)


def test_no_bandwidth_at_a_range_or_for_an_operation_is_a_reason():
    device = accelerator()
    (curve,) = device.gather_scatter
    up_to = with_changes(curve, pieces=(piece(0, MIB, 1.0),))
    instance = only_instance(gather_program(2 * MIB), with_changes(device, gather_scatter=(up_to,)))
    assert "no bandwidth of Device is known at a range of 2 MiB" in instance.reason
    scatter = with_changes(curve, operations=("scatter",))
    instance = only_instance(gather_program(2 * MIB), with_changes(device, gather_scatter=(scatter,)))
    assert "no bandwidth published for gather" in instance.reason


def test_curves_alone_make_a_gather_scatter_unit_and_say_so():
    (warning,) = (
        text for text in triage(gather_program(MIB), measured_host(), accelerator()).warnings if "[core]" in text
    )
    assert "profile device: gives gather/scatter curves and neither [core] nor [accelerator]" in warning
    assert "core.peak_flops_per_cycle" in warning
    assert not any("[core]" in text for text in triage(gather_program(MIB), measured_host(), CONVEY).warnings)


def test_without_data_flow_spans_move_as_often_as_the_host_writes():
    """A and the indices once, what the update writes of A at each of its entries, results to nobody."""
    program = Program()
    gather_into(program, program.loop(1000, entries=10, function="gather"), 1000, MIB)
    update = program.loop(1000, entries=4, function="update")
    program.access(update, 1000, first=1 << 32, length=100, is_store=True)  # writes into A
    link = {
        "shared_memory": False, "to_device_bytes_per_s": 1e9, "from_device_bytes_per_s": 1e9, "transfer_latency_s": 0.0
    }  # fmt: skip
    instance = only_instance(program.signature(), accelerator(**link))
    touched = min(1000 * 8 / MIB, 1.0) * MIB  # of A no more than is accessed
    assert instance.cost.transfer_s == pytest.approx((touched + 4000 + 4 * 100) / 1e9, rel=0.01)


def test_own_memory_without_link_speed_is_refused():
    with pytest.raises(PredictionError, match=r"link\.to_device_bytes_per_s is missing"):
        triage(gather_program(MIB), measured_host(), accelerator(shared_memory=False))


def test_program_of_several_loops():
    program = Program()
    for number, iterations in enumerate((1000, 100_000, 10)):
        gather_into(program, program.loop(iterations, function=f"gather{number}"), iterations, MIB, number << 44)
    rest = program.loop(1000, instructions=5, function="rest")
    program.access(rest, 1000)
    signature = program.signature()
    report = triage(signature, measured_host(), CONVEY)
    assert [i.place.function for i in report.instances] == ["gather1", "gather0", "gather2"]
    gain = report.program
    assert gain.host_s == pytest.approx(predict(signature, measured_host()).time_s)
    assert gain.after_s == pytest.approx(gain.host_s - sum(i.gain_s for i in report.instances))
    assert gain.speedup == pytest.approx(gain.host_s / gain.after_s)
    assert (gain.loops, gain.loops_offloaded, gain.loops_for_95_percent) == (3, 3, 1)


def test_program_without_gathers():
    program = Program()
    program.loop(1000, instructions=5)
    report = triage(program.signature(), measured_host(), CONVEY)
    assert report.instances == ()
    assert report.program.speedup == 1
    assert report.program.loops_for_95_percent == 0


def test_host_and_accelerator_are_not_taken_for_each_other():
    with pytest.raises(PredictionError, match="convey-hc1-fpga: is an accelerator"):
        triage(gather_program(MIB), CONVEY, CONVEY)
    with pytest.raises(PredictionError, match="measured: is a host, not an accelerator"):
        triage(gather_program(MIB), measured_host(), measured_host())
    with pytest.raises(PredictionError, match="is an accelerator"):
        predict(gather_program(MIB), CONVEY)


def test_incomplete_run_is_said():
    signature = replace(gather_program(MIB), provenance=msgspec.structs.replace(PROVENANCE, complete=False))
    report = triage(signature, measured_host(), CONVEY)
    assert not report.complete
    assert "incomplete" in report.warnings[0]


def instance_with(gain_s):
    return Instance(Place("m", "f", "f.c", 1), "gather", MIB, 1, 8, 1, 1.0, 0.1, None, gain_s, gain_s > 0, "", None)


def test_loops_for_most_of_the_gain():
    gains = [50.0, 40.0, 5.0, 4.0, 1.0, 0.0]
    gain = program_gain(250.0, 150.0, [instance_with(g) for g in gains])
    assert gain.loops_for_95_percent == 3
    assert gain.loops_offloaded == 5


GATHERS = """
#include <stdio.h>
#include <stdlib.h>
#define N 400000
static double a[N];
static unsigned index_of[N];
__attribute__((noinline)) static double first(void)
{
    double sum = 0;
    for (int i = 0; i < N; i++)
        sum += a[index_of[i]];
    return sum;
}
__attribute__((noinline)) static double second(void)
{
    double sum = 1;
    for (int i = N - 1; i >= 0; i--)
        sum += a[index_of[i]];
    return sum;
}
__attribute__((noinline)) static void change(void)
{
    for (int i = 0; i < CHANGED; i++)
        a[i] += 1.0;
}
int main(void)
{
    unsigned state = 1;
    for (int i = 0; i < N; i++) {
        state = state * 1664525u + 1013904223u;
        a[i] = i;
        index_of[i] = state % N;
    }
    double sum = first();
    change();
    printf("%f\\n", sum + second());
    return 0;
}
"""


@sweep("changed", [0, 200_000, 400_000], [0, 200_000])
def test_what_the_host_changes_between_two_loops_is_transferred_again(compile_c, changed):
    """The second gather finds its indices where the first one left them, and of the values what is still right.

    Of the values those move that are read at all, not the span between the first and the last.
    """
    state, read = 1, set()
    for _ in range(400_000):
        state = (state * 1664525 + 1013904223) % (1 << 32)
        read.add(state % 400_000)
    signature = trace_binary([str(compile_c(GATHERS, "-O1", f"-DCHANGED={changed}"))]).signature
    device = accelerator(shared_memory=False, to_device_bytes_per_s=1e10, from_device_bytes_per_s=1e10)
    slow = with_changes(measured_host(), latency=(), bandwidth=())  # so that both loops pay
    slow = with_changes(slow, memory=Memory(source={}, core_read_bandwidth_bytes_per_s=1e8, latency_s=1e-6))
    moved = {i.place.function: i.to_device_bytes for i in triage(signature, slow, device).instances}
    assert moved["first"] == pytest.approx(4 * 400_000 + 8 * len(read), rel=0.02)
    assert moved["second"] == pytest.approx(8 * sum(index < changed for index in read), rel=0.02, abs=1e3)


def test_the_dynamic_loaders_loops_stay(compile_c):
    """It gathers from unrelated libraries: the range between them is not that of an array."""
    program = compile_c('#include <stdio.h>\nint main(void) { return puts("x") < 0; }', loaded=True)
    signature = trace_binary([str(program)]).signature
    report = triage(signature, find("jaguar-xt4"), find("convey-hc1-fpga"))
    of_loader = [i for i in report.instances if is_loader(i.place.module)]
    assert any(i.range_bytes > 192 << 10 and i.host_s > 1e-3 * report.program.host_s for i in of_loader)
    assert {i.reason for i in of_loader} == {LOADERS_CODE}
    assert not any(i.offload for i in of_loader)


def test_the_loader_is_known_by_its_files_name():
    for loader in ("ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1", "ld-linux-riscv64-lp64d.so.1", "ld-2.31.so"):
        assert is_loader(f"/lib/{loader}")
    assert is_loader("/lib/ld-musl-x86_64.so.1")
    for other in ("/usr/bin/ld", "/lib/libld.so.2", "/home/ld.so.d/program", "ld-linux", "/lib/libc.so.6"):
        assert not is_loader(other)


def test_the_library_leaves_out_what_takes_less_than_a_thousandth(compile_c):
    signature = trace_binary([str(compile_c(GATHERS, "-O1", "-DCHANGED=0"))]).signature
    report = triage(signature, find("jaguar-xt4"), find("convey-hc1-fpga"))
    left_out = set(report.instances) - set(report.notable_instances)
    assert left_out
    assert {"first", "second"} <= {i.place.function for i in report.notable_instances}
    assert all(max(i.host_s, i.gain_s) < 1e-3 * report.program.host_s for i in left_out)
    prediction = predict(signature, find("jaguar-xt4"))
    small = [loop for loop in prediction.loops if loop not in prediction.notable_loops]
    assert small
    assert max(loop.share for loop in small) < 1e-3 <= min(loop.share for loop in prediction.notable_loops)


LINK = {"shared_memory": False, "to_device_bytes_per_s": 1e10, "from_device_bytes_per_s": 1e10}


@pytest.mark.parametrize("options", [{}, LINK])
def test_a_triage_ends_when_a_replay_of_its_plan_does(options):
    """Both run on the same machine model."""
    tree, _, _ = nest(outer=100, inner=1 << 16)
    signature, device = tree.signature(), gpu(**options)
    found = triage(signature, measured_host(), device)
    replayed = replay_on(signature, measured_host(), cores=1, offloading=Offloading(device, 1, Policy.PLAN))
    assert found.program.loops_offloaded == 1
    assert replayed.makespan_s == pytest.approx(found.program.after_s, rel=1e-9)
    assert [one.offload for one in replayed.decisions if one.offload] == [True]
