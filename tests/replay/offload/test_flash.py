"""Section 4.3 of Carrington et al., ICS'11, as a replay: 140 gather/scatter loops of FLASH and the rest of it.

The paper publishes sums: 262 s, 69 s of it in gathers and scatters, 3.5 s on the FPGAs; the 33 largest loops have 95 %
of the loops' time. The loops here have a geometric series of sizes with these aggregates. What the program takes with
all loops ported, and with the top 33, then follows from equations 2 to 4 and the replay.
"""

import pytest
from replay_samples import Program, gather_into, measured_host, with_changes

from foretrace.profiles.library import find
from foretrace.profiles.profile import BandwidthPoint, Pattern
from foretrace.replay.offload.decisions import decided_beforehand
from foretrace.replay.offload.devices.device import Device
from foretrace.replay.offload.devices.kernels import Offers
from foretrace.replay.offload.host_threads import HostTimes
from foretrace.replay.offload.plan import Planner
from foretrace.replay.offload.program import node_names, work_for
from foretrace.replay.offload.ranks import activities, replay
from foretrace.replay.offload.triage import triage
from foretrace.replay.prediction.predict import HostRun
from foretrace.replay.workload.workload import Workload

CONVEY = find("convey-hc1-fpga")
MIB = 1 << 20
LOOPS, TOP = 140, 33
FULL_S, LOOPS_S = 262.0, 69.0
RATIO = 0.05 ** (1 / TOP)
"""Of the sizes of two loops that follow each other: 95 % of their sum is in the first 33."""


def jaguar():
    """A core on which a gather takes 69 / 3.5 times as long as by equation 4: 8.2 ns."""
    speed = 27.9 / (69 / 3.5)  # a gather of the loops below takes 11.6 ns on the host of 1 GHz
    host = measured_host()
    speeds = ((512, 8e9, 8e9), (4096, 6.4e9, 8 / 3.25e-9), (1 << 20, 8e9, 8 / 2e-9))
    points = [
        BandwidthPoint(size, pattern, 8, bandwidth * speed, "here")
        for size, *bandwidths in speeds
        for pattern, bandwidth in zip((Pattern.SEQUENTIAL, Pattern.RANDOM), bandwidths, strict=True)
    ]
    core = with_changes(host.core, clock_hz=1e9 * speed)
    return with_changes(host, core=core, bandwidth=tuple(points), latency=())


@pytest.fixture(scope="module")
def flash():
    """The signature, on a scale of 1 to 1000."""
    of_iteration_s = LOOPS_S / 3.5 * 20 / 48e9  # equation 4: 20 bytes at 48 GB/s
    sizes = [RATIO**number for number in range(LOOPS)]
    program = Program()
    for number, size in enumerate(sizes):
        iterations = round(LOOPS_S / 1000 * size / sum(sizes) / of_iteration_s)
        block = program.loop(max(iterations, 16), instructions=4, function=f"loop {number}")
        gather_into(program, block, max(iterations, 16), 64 * MIB, number << 44)
    rest = (FULL_S - LOOPS_S) / 1000
    speed = jaguar().core.clock_hz
    program.loop(1000, instructions=round(rest * speed / 1000), function="the rest")
    return program.signature()


def test_the_program_has_the_published_aggregates(flash):
    report = triage(flash, jaguar(), CONVEY)
    assert report.program.host_s == pytest.approx(FULL_S / 1000, rel=0.01)
    assert sum(one.host_s for one in report.instances) == pytest.approx(LOOPS_S / 1000, rel=0.01)
    assert sum(one.accelerator_s for one in report.instances) == pytest.approx(3.5 / 1000, rel=0.01)


def test_all_and_the_top_33_take_what_was_published(flash):
    """197.2 s with all, 198.7 s with the top 33, which have 95 % of the gain."""
    report = triage(flash, jaguar(), CONVEY)
    assert report.program.after_s == pytest.approx(0.1972, rel=0.01)
    assert report.program.loops_for_95_percent == pytest.approx(TOP, abs=1)
    device = Device.of(CONVEY)
    work = work_for(HostRun.of(Workload.of(flash), jaguar()), device)
    planner = Planner(Offers.of(work, device), HostTimes.of(work, 1, None, None))
    top = sorted(planner.able, key=lambda node: -planner.able[node].host_s)[:TOP]
    made = activities(planner, top)
    names, pays = node_names(work), decided_beforehand(frozenset(top))
    found = replay([made], planner.versions, names, way=device.way, accelerators=1, pays=pays)
    assert found.makespan_s == pytest.approx(0.1987, rel=0.01)
    assert 1 - report.program.after_s / 0.250 == pytest.approx(
        0.21, abs=0.01
    )  # "speed up of 21 %" of the 250 s measured
