"""All cores of a host in triage: what a team costs, what its caches hold, and what a port has to beat."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from offload_samples import gpu, nest, with_flow
from replay_samples import measured_host, with_changes

from foretrace.cache_sim.base.hierarchy import Hierarchy
from foretrace.cache_sim.simulator import Simulator
from foretrace.profiles.library import find
from foretrace.replay.base.records import Answer
from foretrace.replay.base.spread import FAST, SLOW, TYPICAL
from foretrace.replay.offload.team_costs import TeamCosts
from foretrace.replay.offload.triage import triage
from foretrace.tracer.signature.data_flow_records import OUTSIDE

OWN_MEMORY = {"shared_memory": False, "to_device_bytes_per_s": 1e9, "from_device_bytes_per_s": 1e9}


def host(cores=8, **waking):
    base = measured_host()
    return with_changes(base, core=with_changes(base.core, cores=cores, **waking))


def computing(*, outer=1, inner=1 << 20):
    tree, _, loop = nest(outer=outer, inner=inner, flops=100)
    return with_flow(tree, [(OUTSIDE, [loop], 8 * inner)])


def test_a_team_is_started_once_and_forks_by_lines_that_go_from_core_to_core():
    """Eight threads: two barriers of three steps as a tree, of eight updates of one counter."""
    waking = {"line_transfer_latency_s": 100e-9, "thread_wake_latency_s": 10e-6, "thread_wake_call_s": 3e-6}
    costs = TeamCosts.of(host(8, **waking), 8)
    assert costs.fork_s == pytest.approx([600e-9, 1100e-9, 1600e-9])
    assert costs.start_s == pytest.approx([10e-6 + 7 * 3e-6] * 3)
    assumed = TeamCosts.of(find("epyc-9654"), 96)
    assert 2e-6 < assumed.fork_s[TYPICAL] < 20e-6
    assert assumed.fork_s[FAST] < assumed.fork_s[TYPICAL] < assumed.fork_s[SLOW]


def test_starting_and_forking_are_in_the_time_of_the_programs_threads():
    """One core takes 8 ways of a second; a start of 1 ms and a fork of 0.1 ms come to an eighth of it."""
    signature = computing()
    free = triage(signature, host(), gpu(**OWN_MEMORY), host_cores=8).program
    waking = {"line_transfer_latency_s": 1e-4 / 11, "thread_wake_latency_s": 1e-3 - 7e-9, "thread_wake_call_s": 1e-9}
    paid = triage(signature, host(**waking), gpu(**OWN_MEMORY), host_cores=8).program
    assert paid.threads_s - free.threads_s == pytest.approx(1e-3 + 1e-4, rel=1e-3)
    assert paid.threads_low_s <= paid.threads_s <= paid.threads_high_s


def test_what_does_not_pay_for_its_team_stays_on_one_core():
    signature = computing(inner=256)
    report = triage(signature, host(thread_wake_latency_s=1.0), gpu(**OWN_MEMORY), host_cores=8)
    assert report.program.threads_s == report.program.host_s == report.program.best_host_s
    assert all(one.answer is not Answer.THREAD for one in report.instances)


def test_gains_and_times_as_fast_are_over_the_best_host_answer():
    """Of eight cores: a port is worth what it is over all of them, one core comes second."""
    signature = computing()
    one, all_cores = (triage(signature, host(), gpu(), host_cores=cores) for cores in (1, 8))
    assert one.program.best_host_s == one.program.host_s
    program = all_cores.program
    assert program.best_host_s == pytest.approx(program.threads_s)
    assert program.threads_s == pytest.approx(program.host_s / 8, rel=0.01)
    assert program.speedup == pytest.approx(program.best_host_s / program.after_s)
    assert program.one_core_speedup == pytest.approx(program.host_s / program.after_s)
    assert program.one_core_speedup == pytest.approx(one.program.speedup)
    assert program.speedup == pytest.approx(one.program.speedup / 8, rel=0.01)
    assert program.speedup_low <= program.speedup <= program.speedup_high
    (ported,) = (row for row in all_cores.instances if row.offload)
    assert ported.best_host_s == pytest.approx(ported.thread_s)
    assert ported.gain_s == pytest.approx(ported.thread_s - ported.accelerator_s)
    policies = {policy.policy: policy for policy in all_cores.policies}
    assert policies["never"].speedup == pytest.approx(1.0)
    assert policies["plan"].speedup == pytest.approx(program.speedup)


def test_a_loop_around_threaded_ones_is_worth_what_they_take_together():
    """The loop around goes with one launch: it is compared with the inner loop on all cores, not with one."""
    signature = computing(outer=4, inner=1 << 18)
    report = triage(signature, host(), gpu(), host_cores=8)
    for row in report.instances:
        assert row.best_host_s <= row.host_s
        if row.offload:
            assert row.gain_s == pytest.approx(row.best_host_s - row.accelerator_s)


def test_caches_of_all_dies_hold_what_one_does_not():
    """Four sweeps over two arrays of 16 KiB on caches of 8 KiB: eight cores with one each read from memory once."""
    inner, outer = 2048, 4
    tree, _, loop = nest(outer=outer, inner=inner, flops=1)
    signature = with_flow(tree, [(OUTSIDE, [loop], 8 * inner)])
    simulator = Simulator((Hierarchy.parse("L1=1K/2/64"),), reuse_rate=1.0)
    sweep = np.arange(inner, dtype=np.int64) * 8
    addresses = np.stack([(1 << 40) + sweep, (1 << 41) + sweep], axis=1).ravel()
    simulator.feed(np.tile(addresses, outer), 8, np.tile([0, 1], inner * outer))
    signature = replace(signature, hierarchies=(), reuse=simulator.reuse())
    shared, own = (
        with_changes(
            profile := host(8),
            caches=(
                *profile.caches[:-1],
                with_changes(
                    profile.caches[-1], shared_by_cores=cores,
                    source=profile.caches[-1].source | {"shared_by_cores": "here"},
                ),
            ),
        )
        for cores in (8, 1)
    )  # fmt: skip
    one_s, all_s = (triage(signature, profile, gpu(), host_cores=8).program.threads_s for profile in (shared, own))
    assert all_s < 0.8 * one_s
