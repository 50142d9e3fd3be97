"""The library's face: every name is there, and results show themselves shortly and safely."""

from __future__ import annotations

import ast
import html.parser
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import matplotlib
import msgspec
import pandas
import pytest
from matplotlib import pyplot

import foretrace
from foretrace.api.predictions import Prediction, Predictions
from foretrace.api.views import ShownTable, as_html, as_text, shown_as
from foretrace.reports.prediction_documents import document
from foretrace.tracer.signature.records import Signature

ROOT = Path(__file__).parents[2]
SCRIPT = """
import numpy as np
table = np.arange(20000.0)
index = np.random.default_rng(1).integers(0, 20000, 20000)
def walk(total):
    for step in range(300):
        total += step
    return total
for _ in range(5):
    gathered = table[index]
walk(0)
"""
LONGEST_REPR = 300


@pytest.fixture(autouse=True)
def no_window() -> Iterator[None]:
    before = matplotlib.get_backend()
    matplotlib.use("agg")
    yield
    pyplot.close("all")
    matplotlib.use(before)


@pytest.fixture(scope="module")
def signature(tmp_path_factory: pytest.TempPathFactory) -> foretrace.Signature:
    from traces import trace_python

    script = tmp_path_factory.mktemp("api") / "gather.py"
    script.write_text(SCRIPT)
    return shown_as(foretrace.Signature, trace_python(str(script)).signature)


def test_every_name_is_there_and_completes() -> None:
    assert dir(foretrace) == sorted(foretrace.__all__)
    for name in foretrace.__all__:
        assert getattr(foretrace, name) is not None
    verbs = {"machines", "trace", "predict", "triage", "simulate", "curve", "calibrate", "time", "info", "replay"}
    assert verbs <= set(dir(foretrace))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        foretrace.nothing  # noqa: B018


def test_the_readmes_example(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(compile(example, "README.md", "exec"), {})
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("AMD EPYC 9755")
    assert [line.split()[0] for line in lines if " s, " in line] == ["jaguar-xt4", "bluegene-q"]
    assert any("gather/scatter loop" in line for line in lines) and (tmp_path / "ls.sig").exists()


def test_editors_see_the_names_that_there_are() -> None:
    tree = ast.parse((ROOT / "foretrace" / "__init__.py").read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    named = {alias.asname for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert named | {"__version__"} == set(foretrace.__all__)


def test_importing_it_imports_nothing_large() -> None:
    script = (
        "import sys, foretrace; print(*sorted(m for m in sys.modules if '.' not in m or m.startswith('foretrace')))"
    )
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "foretrace" in loaded
    assert not loaded & {"numpy", "pandas", "matplotlib", "click", "rich", "msgspec", "foretrace.api"}


def test_reprs_are_short(signature: foretrace.Signature, tmp_path: Path) -> None:
    machine = foretrace.find_machine("epyc-turin-vm")
    prediction = foretrace.predict(signature, machine)
    results = [
        signature, shown_as(Signature, signature), machine, foretrace.machines(), prediction,
        foretrace.predict(signature, "grace", "power6"), foretrace.triage(signature, "jaguar-xt4", "convey-hc1-fpga"),
        foretrace.curve(signature), foretrace.info(signature), foretrace.replay(signature, machine, copies=2),
    ]  # fmt: skip
    for result in results:
        assert len(repr(result)) < LONGEST_REPR and "\n" not in repr(result), repr(result)
    assert "epyc-turin-vm" in repr(machine) and prediction.machine in repr(prediction)


def test_machines_are_found_by_name_number_and_kind() -> None:
    machines = foretrace.machines()
    assert len(machines) == len(machines.names) == len(list(machines))
    assert machines["epyc-9755"] is machines[machines.names.index("epyc-9755")]
    assert sorted((*machines.hosts.names, *machines.accelerators.names)) == list(machines.names)
    assert "epyc-9755" in machines.hosts and "convey-hc1-fpga" in machines.accelerators
    frame = machines.to_dataframe()
    assert list(frame["name"]) == list(machines.names)
    assert {"clock_hz", "memory_latency_s", "memory_size_bytes"} <= set(frame.columns)
    assert isinstance(machines[:2], foretrace.Machines) and len(machines[:2]) == 2


def test_a_machine_shows_its_figures() -> None:
    machine = foretrace.find_machine("epyc-turin-vm")
    frame = machine.to_dataframe()
    (clock,) = frame[(frame.part == "core") & (frame.figure == "clock_hz")].value
    assert machine.core is not None and clock == machine.core.clock_hz
    assert len(machine.plot()) > 1
    with pytest.raises(foretrace.ForetraceError, match="no latency, bandwidth or gather/scatter curve"):
        msgspec.structs.replace(machine, latency=(), bandwidth=(), surface=(), gather_scatter=(), thread_bandwidth=(),
                                caches=(), memory=None).plot()  # fmt: skip


@pytest.mark.parametrize("ask", [foretrace.find_machine, lambda name: foretrace.machines()[name]])
def test_a_mistyped_machine_is_a_foretrace_error_with_a_hint(ask: object) -> None:
    assert callable(ask)
    with pytest.raises(foretrace.ForetraceError, match="did you mean 'epyc-9755'"):
        ask("epyc-975")


def test_signatures_and_machines_are_taken_by_path(signature: foretrace.Signature, tmp_path: Path) -> None:
    path, profile = tmp_path / "gather.sig", tmp_path / "mine.toml"
    signature.save(path)
    foretrace.find_machine("grace").save(profile)
    by_record = foretrace.predict(signature, "grace")
    assert isinstance(by_record, foretrace.Prediction)
    for given in (path, str(path), foretrace.read_signature(path)):
        assert foretrace.predict(given, "grace").time_s == by_record.time_s
    assert foretrace.predict(path, profile).time_s == by_record.time_s
    assert foretrace.predict(path, foretrace.machines()["grace"]).time_s == by_record.time_s
    with pytest.raises(foretrace.ForetraceError, match="exists"):
        signature.save(path)
    signature.save(path, force=True)
    with pytest.raises(foretrace.ForetraceError, match=r"nowhere\.sig"):
        foretrace.predict(tmp_path / "nowhere.sig", "grace")
    with pytest.raises(TypeError, match="a signature is wanted"):
        foretrace.predict(3, "grace")  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="a machine is wanted"):
        foretrace.predict(path, 3)  # type: ignore[call-overload]


def test_one_machine_gives_a_prediction_and_several_a_comparison(signature: foretrace.Signature) -> None:
    several = foretrace.predict(signature, "power6", "grace")
    assert isinstance(several, Predictions) and len(several) == 2
    assert several[0].time_s <= several[1].time_s
    assert several["grace"].machine == "grace"
    assert isinstance(foretrace.predict(signature, ["grace"]), Predictions)
    assert isinstance(foretrace.predict(signature, foretrace.machines().hosts[:2]), Predictions)
    hosts = foretrace.predict(signature)
    assert {*hosts.machines, *hosts.refused} == set(foretrace.machines().hosts.names)
    with pytest.raises(foretrace.ForetraceError, match="did you mean 'grace'"):
        several["gracee"]
    with pytest.raises(foretrace.ForetraceError, match="accelerator"):
        foretrace.predict(signature, "grace", "convey-hc1-fpga")
    slow = foretrace.predict(signature, "grace", clock_ghz=1)
    assert slow.time_s > several["grace"].time_s


def test_columns_of_loops_are_the_keys_of_json(signature: foretrace.Signature) -> None:
    prediction = foretrace.predict(signature, "grace")
    frame = prediction.to_dataframe()
    (found,) = document((prediction,), {})["predictions"]
    assert list(frame.columns) == [*found["loops"][0], "label"]
    assert frame.time_s.sum() == pytest.approx(prediction.time_s)
    assert list(frame.time_s) == sorted(frame.time_s, reverse=True)
    by_line = prediction.to_dataframe("line")
    assert by_line.time_s.sum() == pytest.approx(prediction.time_s) and len(by_line) <= len(frame)
    empty = replace(prediction, loops=())
    assert list(empty.to_dataframe().columns) == list(frame.columns) and not len(empty.to_dataframe())
    assert isinstance(empty._repr_html_(), str)


def test_every_result_is_a_data_frame_with_units(signature: foretrace.Signature) -> None:
    comparison = foretrace.predict(signature, "grace", "power6").to_dataframe()
    assert {"machine", "time_s", "low_s", "high_s", "best_rank"} <= set(comparison.columns) and len(comparison) == 2
    triage = foretrace.triage(signature, "jaguar-xt4", "convey-hc1-fpga")
    gathers = triage.to_dataframe()
    assert len(gathers) == len(triage.instances) >= 1
    assert {"port", "range_bytes", "host_s", "accelerator_s", "gain_s"} <= set(gathers.columns)
    curve = foretrace.curve(signature, ways=[1, "full"], sizes_bytes=[4096, 65536]).to_dataframe()
    assert list(curve.size_bytes) == [4096, 65536] * 2 and list(curve.ways) == [1, 1, "full", "full"]
    assert curve.miss_ratio.between(0, 1).all()
    info = foretrace.info(signature).to_dataframe()
    assert len(info) == len(signature.loops) and {"loads", "largest_range_bytes"} <= set(info.columns)
    assert isinstance(signature.to_dataframe(), pandas.DataFrame)


def test_pictures_have_what_they_show(signature: foretrace.Signature) -> None:
    prediction = foretrace.predict(signature, "grace")
    axes = prediction.plot(top=3)
    assert len(axes.get_yticklabels()) == 3
    several = foretrace.predict(signature, "grace", "power6")
    assert [text.get_text() for text in several.plot().get_yticklabels()] == list(several.machines)
    assert len(foretrace.curve(signature).plot().get_lines()) >= 3
    own = pyplot.figure().add_subplot()
    assert foretrace.triage(signature, "jaguar-xt4", "convey-hc1-fpga").plot(own) is own
    replace(prediction, loops=()).plot()


class Tags(html.parser.HTMLParser):
    """Collects what a browser would see as tags and as text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def test_hostile_names_are_text_in_html_and_harmless_in_a_terminal(signature: foretrace.Signature) -> None:
    hostile = "<script>alert(1)</script>\x1b[31m&amp;"
    prediction = foretrace.predict(signature, "grace")
    place = replace(prediction.loops[0].place, function=hostile, file=f"/{hostile}.py")
    loops = (replace(prediction.loops[0], place=place), *prediction.loops[1:])
    made: Prediction = replace(prediction, loops=loops, title=hostile, warnings=(hostile,))
    seen = Tags()
    seen.feed(made._repr_html_())
    assert seen.tags <= {"div", "b", "table", "thead", "tbody", "tr", "th", "td"}
    assert "<script>" in seen.text and "\x1b" not in seen.text
    assert "\x1b" not in str(made) and "\x1b" not in repr(made) and "\x1b" not in repr(replace(made, machine=hostile))
    made.plot()


def test_tables_are_small_and_say_what_they_leave_out() -> None:
    table = ShownTable("many", ("name", "time"), [("a" * 200, "1 s")], total=5)
    assert "4 more: to_dataframe() has all 5" in as_text(table) and "4 more" in as_html(table)
    assert max(map(len, as_text(table).splitlines())) < 100


def test_curves_of_a_part(signature: foretrace.Signature) -> None:
    with pytest.raises(foretrace.ForetraceError, match="not both"):
        foretrace.curve(signature, function="walk", line="gather.py:5")
    with pytest.raises(foretrace.ForetraceError, match="no memory access there"):
        foretrace.curve(signature, function="nowhere")
    with pytest.raises(foretrace.ForetraceError, match="number of ways"):
        foretrace.curve(signature, ways="half")
    assert "gather.py:10" in foretrace.curve(signature, line="gather.py:10").part


def test_a_trace_by_another_tool_is_simulated(tmp_path: Path) -> None:
    path = tmp_path / "two.din"
    path.write_text("0 1000\n1 2000\n0 1000\n")
    simulation = foretrace.simulate(path, "L1=4K/4/64", access_bytes=4)
    assert (simulation.loads, simulation.stores) == (2, 1)
    frame = simulation.to_dataframe()
    assert list(frame.misses) == [2] and list(frame.accesses) == [3] and list(frame.size_bytes) == [4096]
    assert len(simulation.operations_to_dataframe()) >= 1
    assert len(repr(simulation)) < LONGEST_REPR and "miss ratio" in str(simulation)
    several = foretrace.simulate(path, ["L1=4K/4/64"], machines=["grace"])
    assert set(several.to_dataframe().hierarchy) >= {"grace"}


def test_a_program_is_timed(tmp_path: Path) -> None:
    timing = foretrace.time(sys.executable, "-c", "sum(range(300000))", runs=2)
    frame = timing.to_dataframe()
    assert len(frame) == 2 and (frame.cpu_s > 0).all() and timing.time_s > 0
    assert len(repr(timing)) < LONGEST_REPR and "<table>" in timing._repr_html_()
    timing.save(tmp_path / "sum.timing")
    with pytest.raises(foretrace.ForetraceError, match="no such program"):
        foretrace.time("no-such-program-here")


def test_a_replay_shows_its_threads_and_its_timeline(signature: foretrace.Signature, tmp_path: Path) -> None:
    replay = foretrace.replay(signature, "epyc-milan-vm", copies=2)
    assert isinstance(replay, foretrace.Replay)
    assert "2 copies with 1 thread on 2 cores" in repr(replay)
    assert "critical path: " in str(replay) and "twice the cores" in str(replay)
    assert replay._repr_html_().count("<tr>") == 3
    entities = replay.to_dataframe()
    assert list(entities["name"]) == ["job 0 thread 0", "job 1 thread 0"]
    assert entities["end_s"].max() == replay.makespan_s
    assert {"utilisation", "amount", "unit"} <= set(replay.to_dataframe("resources").columns)
    assert replay.to_dataframe("timeline")["end_s"].max() == replay.makespan_s
    with pytest.raises(ValueError, match="entities, resources, timeline"):
        replay.to_dataframe("loops")
    axes = replay.plot()
    assert [label.get_text() for label in axes.get_yticklabels()] == ["job 0-1 thread 0  x2"]
    for name in ("timeline.json.gz", "timeline.svg"):
        replay.save(tmp_path / name)
        assert (tmp_path / name).stat().st_size > 0
        with pytest.raises(foretrace.ForetraceError, match="exists"):
            replay.save(tmp_path / name)
    with pytest.raises(foretrace.ForetraceError, match="model 'guess' is not known"):
        foretrace.replay(signature, "epyc-milan-vm", model="guess")


def test_predictions_with_threads_and_cores(signature: foretrace.Signature) -> None:
    alone = foretrace.predict(signature, "epyc-milan-vm")
    assert (alone.threads, alone.cores, alone.scaling) == (1, 1, None)
    assert foretrace.predict(signature, "epyc-milan-vm", cores=1) == alone
    one = foretrace.predict(signature, "epyc-milan-vm", threads=1)
    assert one.time_s == alone.time_s and one.scaling is not None
    several = foretrace.predict(signature, "epyc-milan-vm", threads=[1])
    assert isinstance(several, Predictions) and len(several) == 1
    frame = several.to_dataframe()
    assert list(frame[["threads", "cores", "speedup"]].iloc[0]) == [1, 1, 1.0]
    with pytest.raises(foretrace.ForetraceError, match="--threads 2: the signature does not say"):
        foretrace.predict(signature, "epyc-milan-vm", threads=2)
    with pytest.raises(foretrace.ForetraceError, match="has 2 cores, not 3"):
        foretrace.predict(signature, "epyc-milan-vm", cores=3)
