"""Costs of assumed figures equal the change of the interval when the profile gives the typical value."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec import structs
from replay_samples import Program, published_host

from foretrace.commands.machines import check
from foretrace.commands.predict import command as predict_command
from foretrace.profiles.profile import Memory
from foretrace.profiles.profile_file import format_profile
from foretrace.replay.base.records import Model, Prediction
from foretrace.replay.node.assumption_costs import assumption_costs
from foretrace.replay.node.predictions import predict_each
from foretrace.replay.prediction.predict import predict
from foretrace.replay.workload.workload import Workload
from foretrace.reports.assumption_costs import unknown_costs_sections
from foretrace.reports.model import Text
from foretrace.tracer.signature.file import write_signature
from foretrace.tracer.signature.records import Signature

PEAK = {"peak_bandwidth_bytes_per_s": 20e9}
PUBLISHED = published_host(memory=Memory(source=dict.fromkeys(PEAK, "here"), **PEAK))
CITED = dict.fromkeys(("size_bytes", "ways", "line_bytes"), "here")
HOST = structs.replace(
    PUBLISHED,
    core=structs.replace(PUBLISHED.core, source={"clock_hz": "here"}),
    caches=tuple(structs.replace(cache, source=CITED) for cache in PUBLISHED.caches),
)


@pytest.fixture(scope="module")
def scattered() -> Signature:
    """A loop that loads from main memory, anywhere in 16 GiB."""
    program = Program()
    block = program.loop(1 << 20, instructions=8)
    program.access(block, 1 << 20, (1 << 20, 1 << 20), size=8, first=1 << 40, length=1 << 34)
    return program.signature()


def interval(prediction: Prediction) -> tuple[float, float]:
    return prediction.low_s, prediction.high_s


def test_a_figure_costs_what_giving_it_would_save(scattered: Signature) -> None:
    """The oracle: a profile that gives the typical value, through the reader of given figures."""
    now = predict(scattered, HOST)
    costs = {one.name: one for one in assumption_costs(Workload.of(scattered), HOST)}
    cost = costs["memory latency_s"]
    assert HOST.memory is not None
    given = predict(scattered, structs.replace(HOST, memory=structs.replace(HOST.memory, latency_s=90e-9)))
    assert given.time_s == pytest.approx(now.time_s, rel=1e-12)
    assert (cost.low_s, cost.high_s) == pytest.approx(interval(given), rel=1e-12)
    width = (given.high_s - given.low_s) / (now.high_s - now.low_s)
    assert cost.width_share == pytest.approx(1 - width, rel=1e-9)
    assert cost.width_share > 0.2


def test_no_interval_gets_wider_and_each_holds_the_time(scattered: Signature) -> None:
    now = predict(scattered, HOST)
    costs = assumption_costs(Workload.of(scattered), HOST)
    ranged = {one.name for one in now.assumptions if one.range is not None and one.range.factor > 1}
    assert {one.name for one in costs} == ranged
    assert [one.width_share for one in costs] == sorted((one.width_share for one in costs), reverse=True)
    for one in costs:
        assert now.low_s <= one.low_s * (1 + 1e-12)
        assert one.low_s <= now.time_s <= one.high_s <= now.high_s * (1 + 1e-12)


def test_costs_are_there_where_they_are_asked_for(scattered: Signature) -> None:
    (plain,), _ = predict_each(scattered, [HOST])
    (asked,), _ = predict_each(scattered, [HOST], costs=True)
    assert not plain.assumption_costs
    assert unknown_costs_sections([asked]) == []
    (text,) = unknown_costs_sections([asked, plain])
    assert text == Text(
        [
            "",
            "costs of assumptions are worked out for the traced run, on one core, of named machines: "
            "--machine M --cores 1",
        ]
    )
    assert asked.assumption_costs == assumption_costs(Workload.of(scattered), HOST)
    (published,), _ = predict_each(scattered, [HOST], model=Model.CONVOLUTION, costs=True)
    assert published.assumption_costs == assumption_costs(Workload.of(scattered), HOST, Model.CONVOLUTION)


def test_predict_and_check_say_it(scattered: Signature, tmp_path: Path) -> None:
    signature, profile = tmp_path / "scattered.sig", tmp_path / "mine.toml"
    write_signature(scattered, signature)
    profile.write_text(format_profile(HOST))
    runner = CliRunner()
    asked = [str(signature), "--machine", str(profile)]
    costs = assumption_costs(Workload.of(scattered), HOST)
    text = runner.invoke(predict_command, [*asked, "--assumptions"]).output
    assert "of the width of the interval on published, " in text
    assert f"{costs[0].name} {costs[0].width_share:.0%}: give it and it is " in text
    assert "of the width" not in runner.invoke(predict_command, asked).output
    (found,) = json.loads(runner.invoke(predict_command, [*asked, "--assumptions", "--json"]).output)["predictions"]
    assert [one["name"] for one in found["assumption_costs"]] == [one.name for one in costs]
    (found,) = json.loads(runner.invoke(predict_command, [*asked, "--json"]).output)["predictions"]
    assert "assumption_costs" not in found
    checked = runner.invoke(check, [str(profile), "--signature", str(signature)]).output
    assert "ranges of what is assumed, widest first: " in checked
    assert ", memory latency_s x4, " in checked
    assert f"{costs[0].name} {costs[0].width_share:.0%}: give it and it is " in checked
    found = json.loads(runner.invoke(check, [str(profile), "--signature", str(signature), "--json"]).output)
    assert found["assumed_factors"]["memory latency_s"] == 4.0
    assert [one["name"] for one in found["assumption_costs"]] == [one.name for one in costs]
    assert "assumption_costs" not in json.loads(runner.invoke(check, [str(profile), "--json"]).output)


def test_all_machines_at_once_are_not_costed(scattered: Signature, tmp_path: Path) -> None:
    """Each figure of each machine would take as long as a prediction."""
    signature, profile = tmp_path / "scattered.sig", tmp_path / "mine.toml"
    write_signature(scattered, signature)
    profile.write_text(format_profile(HOST))
    asked = [str(signature), "--all", "--machine", str(profile), "--assumptions", "--json"]
    found = json.loads(CliRunner().invoke(predict_command, asked).output)["predictions"]
    assert [one["machine"] for one in found] == ["published"]
    assert "assumption_costs" not in found[0]
