"""The runner of the benchmarks, and the records that their results are made of."""

import json
import signal
import subprocess
import sys

import import_graph
import pytest

from foretrace.base.errors import EngineError
from foretrace.benchmarks import __main__ as runner
from foretrace.benchmarks.harness.results import (
    LabelCount,
    MeasuredPrediction,
    ResultTable,
    label_table,
    prediction_table,
    summary,
    total,
)

FAST = MeasuredPrediction(name="fast", predicted=1.0, low=0.5, high=2.0, measured=1.25)
SLOW = MeasuredPrediction(name="slow", predicted=4.0, low=3.5, high=5.0, measured=1.0, notes={"bound by": "memory"})
NEVER = MeasuredPrediction(name="never", predicted=3.0, measured=None, problem="the cores were not free")


def test_predictions_are_compared_with_what_was_measured():
    assert (FAST.ratio, FAST.is_inside, FAST.is_within(2.0)) == (0.8, True, True)
    assert (SLOW.ratio, SLOW.is_inside, SLOW.is_within(2.0)) == (4.0, False, False)
    assert (NEVER.ratio, NEVER.error, NEVER.is_inside) == (None, None, None)
    text = summary([FAST, SLOW, NEVER], 2.0)
    assert text == (
        "2 of 3 compared: mean absolute error 160.0%, median ratio 1.79, 1 within a factor of 2, "
        "1 of 2 inside their interval"
    )
    assert summary([NEVER]) == "1 rows, none of them compared"


def test_a_table_of_predictions_has_the_columns_that_some_row_has():
    table = prediction_table("times", [FAST, SLOW, NEVER])
    assert table.headings == ["name", "predicted", "interval", "measured", "ratio", "bound by", ""]
    assert list(table.rows) == [
        ["fast", "1 s", "500 ms to 2 s", "1.25 s", "0.80", "", ""],
        ["slow", "4 s", "3.5 s to 5 s", "1 s", "4.00", "memory", "outside"],
        ["never", "3 s", "-", "-", "-", "", "the cores were not free"],
    ]
    (fast, slow, never) = table.as_json()["predictions"]
    assert (fast["ratio"], slow["bound by"], never["measured"]) == (0.8, "memory", None)


def test_labels_have_precision_and_recall():
    counts = {"gather": LabelCount(4, 2, 1), "scatter": LabelCount(0, 1, 0)}
    table = label_table("idioms", counts | {"all": total(counts.values())})
    assert list(table.rows) == [
        ["gather", "4", "2", "1", "0.500", "0.250"],
        ["scatter", "0", "1", "0", "0.000", "-"],
        ["all", "4", "3", "1", "0.333", "0.250"],
    ]
    assert table.as_json()["labels"]["scatter"]["recall"] is None


def test_every_benchmark_has_options_and_a_line_of_description(capsys):
    assert runner.main([]) == 0
    listed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in listed] == list(runner.BENCHMARKS)
    for name in runner.BENCHMARKS:
        with pytest.raises(SystemExit) as ended:
            runner.main([name, "--help"])
        assert ended.value.code == 0
        assert f"python -m foretrace.benchmarks {name}" in capsys.readouterr().out
    assert runner.main(["nothing"]) == 2
    assert "there is no benchmark 'nothing', but ablate" in capsys.readouterr().err


def test_it_ends_quietly_if_whoever_reads_the_list_goes_away():
    command = [sys.executable, "-P", "-m", "foretrace.benchmarks"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
        run.stdout.close()
        assert run.stderr.read() == b""
    assert run.returncode == 128 + signal.SIGPIPE


def test_calibration_needs_no_measurement_of_foretrace():
    """Rooms that `foretrace calibrate` runs import no comparison."""
    rooms = import_graph.imports()
    reached, ahead = set(), ["benchmarks.calibration"]
    while ahead:
        room = ahead.pop()
        reached.add(room)
        ahead += [one for one in rooms[room] if one.startswith("benchmarks.") and one not in reached]
    assert reached == {"benchmarks.calibration", "benchmarks.harness", "benchmarks.kernels"}


class Counting:
    """A benchmark whose table grows, and that fails at last."""

    def add_options(self, parser):
        parser.add_argument("--fails", action="store_true")

    def run(self, options, _scratch):
        for number in (1, 2):
            yield ResultTable(
                "counts", ("number", "text"), [[str(n), "a|b"] for n in range(number)], list(range(number))
            )
        if options.fails:
            raise EngineError("no more")
        yield "done"


@pytest.fixture
def counting(monkeypatch):
    monkeypatch.setitem(runner.BENCHMARKS, "counting", "demo")
    monkeypatch.setattr(runner.importlib, "import_module", lambda _name: Counting())


@pytest.mark.usefixtures("counting")
def test_a_result_is_shown_and_written_in_two_forms(tmp_path, capsys):
    paths = [tmp_path / "new" / "out.json", tmp_path / "out.md"]
    assert runner.main(["counting", *(f"-o{path}" for path in paths)]) == 0
    shown = capsys.readouterr().out
    assert shown.count("counts") == 1, "a table that grew is shown once"
    assert shown.endswith("done\n")
    document = json.loads(paths[0].read_text())
    assert document["benchmark"] == "counting"
    assert document["parts"] == [{"title": "counts", "rows": [0, 1]}, {"text": "done"}]
    assert "| 1 | a\\|b |" in paths[1].read_text()
    assert runner.main(["counting", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["parts"] == document["parts"]


@pytest.mark.usefixtures("counting")
def test_what_was_known_before_a_failure_is_shown_and_kept(tmp_path, capsys):
    path = tmp_path / "out.md"
    assert runner.main(["counting", "--fails", f"-o{path}"]) == EngineError.exit_code
    said = capsys.readouterr()
    assert said.out.count("counts") == 1
    assert said.err == "counting: error: no more\n"
    assert "| 1 | a\\|b |" in path.read_text()
