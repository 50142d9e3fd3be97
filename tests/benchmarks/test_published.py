"""Published speeds beside predictions."""

from __future__ import annotations

import shutil

import pytest
from core_samples import instruction, loop_of, machine
from replay_samples import gather_program

from foretrace.base.errors import EngineError
from foretrace.benchmarks.harness.results import MeasuredPrediction
from foretrace.benchmarks.validation import published
from foretrace.benchmarks.validation.published import Program, Traces, compared, order_of, programs, summary
from foretrace.profiles.published import PublishedFigure, read_published
from foretrace.replay.prediction.predict import predict
from foretrace.tracer.signature.file import write_signature


def speed(machine, published_speed, predicted, program="p", low=0.8, high=1.25):
    return MeasuredPrediction(
        name=program, machine=machine, measured=published_speed, predicted=predicted, low=low * predicted,
        high=high * predicted, unit="bytes/s",
    )  # fmt: skip


def test_order_is_asked_where_published_speeds_differ():
    speeds = [speed("a", 100, 100), speed("b", 110, 90), speed("c", 200, 150), speed("a", 100, 10, program="q")]
    order = order_of(speeds)
    assert (order.pairs, order.right) == (2, 2), "a and b differ by less than 20 %"
    assert order.ratio_errors == pytest.approx(sorted(((200 / 110) / (150 / 90), 1.1 / 0.9, 200 / 150)))
    assert order_of([speed("a", 100, 100), speed("b", 150, 90)]).right == 0


def test_the_summary_counts_what_lies_inside():
    found = summary([speed("a", 100, 100), speed("b", 100, 200), speed("c", 100, 110)])
    assert (found["speeds"], found["inside"]) == (3, 2)
    assert found["median_error"] == pytest.approx(0.1)
    assert summary([])["median_error"] is None


def test_a_speed_is_what_lies_between_a_long_and_a_short_run(monkeypatch):
    """A start of any length does not count."""
    signature = loop_of(*[instruction("int_alu", "r1", "r1") for _ in range(4)])
    profile = machine()
    monkeypatch.setattr(published, "find", lambda name: profile)
    figure = PublishedFigure("p", "here", "compress, one thread", 1e9, "bytes/s", "https://example.org")
    start = loop_of(instruction("int_alu", "r1", "r1"))
    traced = {published.LONG_BYTES: signature, published.SHORT_BYTES: start}
    (found,) = compared(
        [Program("p", ("true",), ("true",))], [figure], lambda *arguments: traced[arguments[-1]], pytest.fail
    )
    long = predict(signature, profile).time_s
    short = predict(start, profile).time_s
    assert found.predicted == pytest.approx((published.LONG_BYTES - published.SHORT_BYTES) / (long - short))
    assert found.low < found.predicted < found.high


def test_a_program_that_is_not_installed_is_left_out_and_told(tmp_path):
    traces = Traces(tmp_path, b"", runner=None)  # never runs
    figure = PublishedFigure("p", "epyc-9654", "compress", 1e9, "bytes/s", "s")
    said = []
    assert not list(compared([Program("p", ("no-such-program",), package="none")], [figure], traces.of, said.append))
    assert said == ["p : no-such-program is not installed (Debian package none)"]
    with pytest.raises(EngineError):
        traces.of(Program("p", ("no-such-program",)), "", ("no-such-program",), 1)


def test_each_program_of_the_list_has_published_speeds():
    figures = {one.program for one in read_published(published.SPEEDS)}
    assert {one.program for one in programs()} == figures


@pytest.mark.skipif(shutil.which("gzip") is None, reason="gzip is not installed")
def test_a_program_is_traced_once(tmp_path):
    whole = gather_program(1 << 10)
    text = b"so it goes on and on " * 4000
    commands = []

    class Recorder:
        def trace_with(self, options, program, folder, signature):
            commands.append((options, program))
            write_signature(whole, signature)

    gzip = next(one for one in programs() if one.program == "gzip-5")
    traces = Traces(tmp_path, text, Recorder())
    first = traces.of(gzip, "decompress", gzip.unpack, 65536)
    assert traces.of(gzip, "decompress", gzip.unpack, 65536) == first
    ((options, command),) = commands
    assert command[:3] == ["gzip", "-d", "-c"] and command[3].endswith(".gz")
    assert "--seed" in options
