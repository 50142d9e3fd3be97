"""Sorts, searches and calls whose work was not seen: their time on a device, each call once."""

from __future__ import annotations

import numpy as np
import pytest
from offload_samples import gpu
from replay_samples import measured_host
from traces import trace_python

from foretrace.profiles.library import find
from foretrace.replay.base.records import Answer, Instance, Triage
from foretrace.replay.base.spread import TYPICAL
from foretrace.replay.offload.devices.algorithms import SortWork, is_known, sort_s
from foretrace.replay.offload.devices.device import Device
from foretrace.replay.offload.triage import triage
from foretrace.tracer.signature.records import Signature

N = 1_000_000
PROGRAM = f"""\
import numpy as np
rng = np.random.default_rng(1)
a = rng.random({N})
order = np.argsort(a)
s = np.sort(a)
at = np.searchsorted(s, a)
b = a * 2.0
"""


@pytest.fixture(scope="module")
def signature(tmp_path_factory: pytest.TempPathFactory) -> Signature:
    pytest.importorskip("numpy")
    script = tmp_path_factory.mktemp("sorts") / "sorts.py"
    script.write_text(PROGRAM)
    return trace_python(str(script)).signature


@pytest.fixture(scope="module")
def report(signature: Signature) -> Triage:
    return triage(signature, measured_host(), gpu())


def row(report: Triage, operation: str) -> Instance:
    [one] = [one for one in report.instances if one.array_operation.endswith(f".{operation}")]
    return one


@pytest.mark.parametrize(("operation", "value_bytes"), [("argsort", 8), ("sort", 0)])
def test_a_sort_takes_a_pass_for_each_8_bits(report: Triage, operation: str, value_bytes: int) -> None:
    """Keys of 8 bytes: one pass counts, eight read and write keys and indices, at 0.6 of the bandwidth."""
    one = row(report, operation)
    rates = Device.of(gpu()).rates
    assert rates is not None
    assert one.cost is not None
    assert one.entries == 8 + 2  # kernels
    moved_bytes = N * (8 + 8 * 2 * (8 + value_bytes))
    assert one.cost.kernel_s == pytest.approx(moved_bytes / (0.6 * rates.memory_bytes_per_s[TYPICAL]), rel=1e-6)
    assert "passes" in " ".join(one.explanation)


def test_the_published_rate_of_a_sort_is_met() -> None:
    """Onesweep (arXiv:2206.01784): 29.4 G keys of 32 bits a second on an A100 of 1,935 GB/s."""
    rates = Device.of(find("a100-sxm-80gb")).rates
    assert rates is not None
    sort = SortWork(elements=2.0**28, key_bytes=4.0, value_bytes=0.0, passes=4, least_passes=4)
    low_s, time_s, high_s = sort_s(sort, rates)
    assert 2**28 / time_s == pytest.approx(29.4e9, rel=0.15)
    assert low_s < 2**28 / 29.4e9 < high_s


def test_a_selection_may_read_the_keys_a_few_times() -> None:
    rates = Device.of(gpu()).rates
    assert rates is not None
    sort = SortWork(1e8, 8.0, 0.0, 8, 8)
    partition = SortWork(1e8, 8.0, 0.0, 8, 3)
    assert sort_s(partition, rates)[0] == pytest.approx(3 * 8e8 / (0.75 * rates.memory_bytes_per_s[0]))
    assert np.all(sort_s(partition, rates)[1:] == sort_s(sort, rates)[1:])


def test_a_search_is_loads_that_follow_on_one_another(report: Triage) -> None:
    """Some 20 for each of a million values; the time on the host is that of its line."""
    one = row(report, "searchsorted")
    assert one.refs > 15 * N
    assert one.threads == N
    assert one.host_s > 0


def test_each_call_has_one_row(report: Triage) -> None:
    calls = [(one.place.line, one.array_operation) for one in report.instances if one.place.line in (4, 5, 6)]
    assert len(calls) == len(set(calls))
    assert not [one for one in report.instances if one.kind == "compiled" and one.place.line in (3, 4, 5, 6)]


def test_what_is_not_known_of_a_device_is_left(report: Triage) -> None:
    one = row(report, "random")
    assert one.answer is Answer.LEAVE
    assert one.accelerator_s is None
    assert one.reason.startswith("no device algorithm known: most of what numpy.random.Generator.random does")
    assert not is_known("numpy.lexsort")  # whose keys are not seen
