"""Ping-pong between two ranks: threads with queues stand for the processes; and what is said where there is no MPI."""

import itertools
import json
import queue
import subprocess
import threading

import pytest

from foretrace.benchmarks.calibration import ping_pong
from foretrace.benchmarks.calibration.ping_pong import SAMPLES, network_measurement, network_of


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


def test_the_network_s_figures_are_those_of_the_ends():
    network, points = network_of([(8, [2e-6, 1e-6, 1.5e-6]), (1 << 20, [1e-4, 1e-4, 2e-4])], "s")
    assert network.latency_s == 1e-6
    assert network.bandwidth_bytes_per_s == pytest.approx((1 << 20) / 1e-4, rel=1e-3)
    assert network.noise == {"latency_s": 0.5, "bandwidth_bytes_per_s": 0.0}
    assert [p.message_bytes for p in points] == [8, 1 << 20]


@pytest.fixture
def with_mpi(monkeypatch):
    monkeypatch.setattr(ping_pong.importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(ping_pong.shutil, "which", lambda name: "/bin/mpiexec")


def result(monkeypatch, stdout="", stderr="", code=0):
    done = subprocess.CompletedProcess([], code, stdout, stderr)
    monkeypatch.setattr(ping_pong.subprocess, "run", lambda *a, **k: done)


def test_what_the_ranks_print_is_read(with_mpi, monkeypatch):
    result(monkeypatch, json.dumps([[8, [1e-6, 2e-6]]]))
    assert network_measurement(2) == [(8, [1e-6, 2e-6])]


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
