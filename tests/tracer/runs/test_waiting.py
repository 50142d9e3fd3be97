"""What a program waits for: told beside its time, and not a part of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from fake_clock import fake_clock
from replay_samples import measured_host
from traces import trace_binary, trace_python

from foretrace.cli import group
from foretrace.replay.prediction.predict import predict
from foretrace.tracer.signature.file import write_signature
from foretrace.tracer.signature.records import Signature
from foretrace.tracer.signature.waiting import Waiting

WAYS = {
    "sleep": "import time\ntime.sleep(0.3)\n",
    "asyncio": "import asyncio\nasyncio.run(asyncio.sleep(0.3))\n",
    "select": "import select\nselect.select([], [], [], 0.3)\n",
    "lock": "import threading\nlock = threading.Lock()\nlock.acquire()\nlock.acquire(timeout=0.3)\n",
    "pipe": "import os, threading, time\nr, w = os.pipe()\n"
    "threading.Timer(0.3, os.write, (w, b'x')).start()\nos.read(r, 1)\n",
}


def traced(tmp_path: Path, source: str) -> Signature:
    script = tmp_path / "script.py"
    script.write_text(source)
    return trace_python(str(script)).signature


def waiting_of(signature: Signature) -> Waiting:
    if signature.provenance.waiting is None:
        pytest.skip("the system does not say when threads were ready (no /proc/self/schedstat)")
    return signature.provenance.waiting


@pytest.mark.parametrize("way", WAYS)
def test_waiting_is_told_and_is_in_no_time(tmp_path: Path, way: str) -> None:
    signature = traced(tmp_path, WAYS[way])
    waiting = waiting_of(signature)
    prediction = predict(signature, measured_host())
    assert waiting.waited_s >= 0.2
    assert prediction.waiting == waiting
    if way == "sleep":  # the others import what takes its time
        assert prediction.time_s < waiting.waited_s


def test_working_is_no_waiting_nor_is_waiting_for_the_reader(tmp_path: Path) -> None:
    """A million accesses to a list take the reader longer than the program."""
    with fake_clock(tmp_path):
        signature = traced(tmp_path, "a = [0] * 100\nfor i in range(1_000_000):\n    a[i % 100] = i\n")
    assert waiting_of(signature).waited_s == pytest.approx(0, abs=1e-3)


def test_child_processes_are_told_apart(tmp_path: Path) -> None:
    """A child may run before its parent begins to wait, but no longer than the run."""
    source = "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'for i in range(3_000_000): pass'])\n"
    signature = traced(tmp_path, source)
    assert 0 < waiting_of(signature).children_s <= signature.provenance.wall_s


def test_compiled_programs_wait_too() -> None:
    assert waiting_of(trace_binary(["sleep", "0.3"]).signature).waited_s >= 0.2


def test_it_stands_beside_the_prediction(tmp_path: Path) -> None:
    signature = traced(tmp_path, WAYS["sleep"])
    waiting_of(signature)
    write_signature(signature, tmp_path / "a.sig")
    arguments = ["predict", str(tmp_path / "a.sig"), "--machine", "power6"]
    assert "of waiting (sleep, I/O, locks), which no machine shortens\n" in CliRunner().invoke(group, arguments).stdout
    (prediction,) = json.loads(CliRunner().invoke(group, [*arguments, "--json"]).stdout)["predictions"]
    assert prediction["waiting_s"] >= 0.2
