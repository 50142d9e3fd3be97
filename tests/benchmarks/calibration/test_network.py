"""Ping-pong between two ranks: threads with queues stand for the processes; and what is said where there is no MPI."""

import itertools
import json
import queue
import subprocess
import threading
from dataclasses import asdict

import pytest

from foretrace.base.errors import CalibrationError
from foretrace.benchmarks.calibration import ping_pong
from foretrace.benchmarks.calibration.ping_pong import (
    SAMPLES,
    Messages,
    eager_threshold,
    measure,
    measured_interconnect,
    network_measurement,
    network_of,
)
from foretrace.profiles.interconnect import format_interconnect, parse_named


class Rank:
    """One end of a pair; a message is delivered once, whole, to the other."""

    def __init__(self, rank, boxes):
        self.rank, self.boxes, self.sent = rank, boxes, []

    def Get_rank(self):  # noqa: N802
        return self.rank

    def Get_size(self):  # noqa: N802
        return 2

    def Send(self, buf, dest, tag=0):  # noqa: N802
        self.sent.append(len(buf))
        self.boxes[dest].put(bytes(buf))

    def Recv(self, buf, source, tag=0):  # noqa: N802
        message = self.boxes[self.rank].get()
        assert len(message) == len(buf)
        buf[:] = message


def test_messages_go_there_and_back():
    boxes = (queue.Queue(), queue.Queue())
    ranks = [Rank(i, boxes) for i in (0, 1)]
    seconds = itertools.count()  # each look at the clock is one second later
    found = {}
    other = threading.Thread(target=lambda: found.update({1: ping_pong.ping_pong(ranks[1], (8, 64), lambda: 0.0)}))
    other.start()
    found[0] = ping_pong.ping_pong(ranks[0], (8, 64), lambda: float(next(seconds)))
    other.join()
    assert [size for size, _ in found[0]] == [8, 64]
    for _, samples in found[0]:
        assert samples == [1 / 2 / 2] * SAMPLES, "two turns of a second, each there and back"
    assert ranks[0].sent.count(64) == ranks[1].sent.count(64) == 4 + 2 * SAMPLES
    assert all(box.empty() for box in boxes)


class TimedRank:
    """A rank whose calls take time by its own clock; sends beyond the eager limit wait for their receive.

    Looks at the clock take 1 ns, and twice as long each time while nothing else happens, so that waiting is short.
    """

    CALL_S, SEND_S, RECEIVE_S = 1e-7, 3e-7, 2e-7

    def __init__(self, rank, eager_bytes, changed):
        self.rank, self.eager_bytes, self.changed = rank, eager_bytes, changed
        self.partner, self.clock, self.step = None, 0.0, 1e-9
        self.arrived, self.is_waiting = [], False

    def Get_rank(self):  # noqa: N802
        return self.rank

    def look(self):
        self.clock += self.step
        self.step *= 2
        return self.clock

    def passes(self, seconds):
        self.clock += seconds
        self.step = 1e-9

    def Send(self, buf, dest, tag=0):  # noqa: N802
        self.passes(self.CALL_S + (self.SEND_S if dest >= 0 else 0.0))
        if dest < 0:
            return
        with self.changed:
            message = (tag, bytes(buf), self.clock)
            self.partner.arrived.append(message)
            self.is_waiting = len(buf) > self.eager_bytes
            self.changed.notify_all()
            assert self.changed.wait_for(lambda: not self.is_waiting, 30)

    def Recv(self, buf, source, tag=0):  # noqa: N802
        with self.changed:
            assert self.changed.wait_for(lambda: any(one[0] == tag for one in self.arrived), 30)
            found = next(one for one in self.arrived if one[0] == tag)
            self.arrived.remove(found)
            self.clock = max(self.clock, found[2])
            self.partner.is_waiting = False
            self.changed.notify_all()
        self.passes(self.CALL_S + self.RECEIVE_S)
        assert len(found[1]) == len(buf)
        buf[:] = found[1]

    def Iprobe(self, source, tag=0):  # noqa: N802
        """Once it is known whether the message comes: it is there, or its sender waits for another one."""
        with self.changed:
            assert self.changed.wait_for(lambda: self.partner.is_waiting or any(o[0] == tag for o in self.arrived), 30)
            return any(one[0] == tag for one in self.arrived)


def pair(eager_bytes):
    changed = threading.Condition()
    ranks = [TimedRank(i, eager_bytes, changed) for i in (0, 1)]
    ranks[0].partner, ranks[1].partner = ranks[1], ranks[0]
    return ranks


def both(function, ranks):
    """Result of a function on rank 0 of two."""
    other = threading.Thread(target=function, args=(ranks[1],), daemon=True)
    other.start()
    result = function(ranks[0])
    other.join(30)
    return result


@pytest.mark.parametrize("eager_bytes", [8, 100, 4096, 4097, 65535, 1 << 20])
def test_the_eager_threshold_is_found_to_the_byte(eager_bytes):
    found = both(lambda rank: eager_threshold(rank, 1 << 20, rank.look), pair(eager_bytes))
    assert found == (None if eager_bytes >= 1 << 20 else eager_bytes)


def test_overheads_are_those_of_the_calls_without_mpi4py():
    measured = both(lambda rank: measure(rank, (8, 64), rank.look), pair(1000))
    assert measured.eager_threshold_bytes is None
    assert [size for size, _ in measured.messages] == [8, 64]
    network, _ = network_of(measured, "s")
    assert network.send_overhead_s == pytest.approx(TimedRank.SEND_S, rel=0.02)
    assert network.receive_overhead_s == pytest.approx(TimedRank.RECEIVE_S, rel=0.02)
    assert network.eager_threshold_bytes is None


def messages_of(results, call_s=0.0, threshold=None, hosts="a, b"):
    return Messages(results, [4e-7 + call_s] * 4, [3e-7 + call_s] * 4, [call_s] * 4, threshold, {"hosts": hosts})


RESULTS = [(8, [2e-6, 1e-6, 1.5e-6]), (1 << 20, [1e-4, 1e-4, 2e-4])]


def test_the_network_s_figures_are_those_of_the_ends():
    network, points = network_of(messages_of(RESULTS, threshold=4096), "s")
    assert network.latency_s == 1e-6
    assert network.bandwidth_bytes_per_s == pytest.approx((1 << 20) / 1e-4, rel=1e-3)
    assert network.noise["latency_s"] == 0.5
    assert network.noise["bandwidth_bytes_per_s"] == 0.0
    assert network.send_overhead_s == pytest.approx(4e-7)
    assert network.eager_threshold_bytes == 4096
    assert set(network.source) == {
        "latency_s", "bandwidth_bytes_per_s", "send_overhead_s", "receive_overhead_s", "eager_threshold_bytes",
    }  # fmt: skip
    assert [p.message_bytes for p in points] == [8, 1 << 20]


def test_mpi4py_s_share_is_taken_off_but_never_all():
    network, points = network_of(messages_of(RESULTS, call_s=4e-7), "s")
    assert points[0].time_s == pytest.approx(6e-7)
    assert network.send_overhead_s == pytest.approx(4e-7)
    network, points = network_of(messages_of(RESULTS, call_s=5e-6), "s")
    assert points[0].time_s == pytest.approx(1e-7)


def test_two_hosts_make_an_interconnect():
    one = measured_interconnect("mine", messages_of(RESULTS))
    assert parse_named("mine.toml", format_interconnect(one).encode()) == one
    assert one.network.latency_s == 1e-6
    assert one.metadata["hosts"] == "a, b"
    with pytest.raises(CalibrationError, match="both processes ran on a: name two hosts"):
        measured_interconnect("mine", messages_of(RESULTS, hosts="a, a"))


@pytest.fixture
def with_mpi(monkeypatch):
    monkeypatch.setattr(ping_pong.importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(ping_pong.shutil, "which", lambda name: "/bin/mpiexec")


def result(monkeypatch, stdout="", stderr="", code=0):
    done = subprocess.CompletedProcess([], code, stdout, stderr)
    monkeypatch.setattr(ping_pong.subprocess, "run", lambda *a, **k: done)


def test_what_the_ranks_print_is_read(with_mpi, monkeypatch):
    measured = messages_of([(8, [1e-6, 2e-6])], threshold=4096)
    result(monkeypatch, json.dumps(asdict(measured)))
    assert network_measurement(2) == measured


def test_why_there_is_no_network_is_said(with_mpi, monkeypatch):
    result(monkeypatch, stderr="-----\n  no  slots \nmore\n", code=1)
    assert network_measurement(2) == "/bin/mpiexec ended with 1 and said: no slots"
    result(monkeypatch, stdout="[[1]]")
    assert network_measurement(2).startswith("/bin/mpiexec ended with 0")
    assert network_measurement(1) == "two processes would share the one core"

    def late(*a, **k):
        raise subprocess.TimeoutExpired("mpiexec", 1)

    monkeypatch.setattr(ping_pong.subprocess, "run", late)
    assert "did not end within" in network_measurement(2)
    monkeypatch.setattr(ping_pong.shutil, "which", lambda name: None)
    assert network_measurement(2) == "there is no mpiexec"
    monkeypatch.setattr(ping_pong.importlib.util, "find_spec", lambda name: None)
    assert network_measurement(2) == "mpi4py is not installed"
