"""Sweeps: rows equal single predictions whatever works them out, faults stay in their rows, kills lose nothing."""

from __future__ import annotations

import csv
import json
import os
import pty
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import mpi_runs
import pandas
import pytest
from polling import wait_until
from sweep_samples import swept_host, write_accelerator, write_machines, write_parallel_run, write_run

import foretrace as api
from foretrace.base.errors import OutputError
from foretrace.profiles.profile_file import format_profile
from foretrace.replay.sweep.axes import AXES, BY_NAME
from foretrace.replay.sweep.methods import METHODS
from foretrace.replay.sweep.plan import Plan

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sweep")
    write_run(folder / "a.sig")
    write_run(folder / "b.sig", 1 << 18)
    write_machines(folder / "machines", 6)
    write_parallel_run(folder / "ranks")
    return folder


def rows_of(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text().splitlines()))


def test_each_point_is_what_predict_says(inputs: Path, tmp_path: Path, foretrace: Run) -> None:
    out = tmp_path / "results.csv"
    grid = ("--machine", "machines", "--model", "core,convolution", "--clock", "1,2")
    result = foretrace("sweep", "a.sig", "b.sig", *grid, "-o", out, cwd=inputs)
    assert result.returncode == 0, result.stderr
    rows = rows_of(out)
    assert len(rows) == 2 * 6 * 2 * 2
    assert len({(row["run"], row["machine"], row["model"], row["clock"]) for row in rows}) == len(rows)
    for row in rows[::5]:
        options = ("--machine", row["machine_file"], "--model", row["model"], "--clock", row["clock"], "--json")
        (said,) = json.loads(foretrace("predict", row["run"], *options, cwd=inputs).stdout)["predictions"]
        assert [float(row[key]) for key in ("time_s", "low_s", "high_s")] == [
            said["time_s"], said["low_s"], said["high_s"],
        ]  # fmt: skip
        assert row["bound_by"] == said["bound_by"]
        assert float(row["unseen_s"]) == said["unseen_s"]
        parts = {f"by_{name.replace(' ', '_')}_s": time_s for name, time_s in said["time_by_bound_s"].items() if time_s}
        assert {key: float(row[key]) for key in row if key.startswith("by_") and float(row[key])} == parts
        assert row["error"] == ""


def test_the_first_axis_varies_slowest(inputs: Path) -> None:
    plan = Plan.of([inputs / "a.sig"], {"machine": str(inputs / "machines"), "clock": "1,2", "cores": [1]})
    assert len(plan) == 12
    points = [(Path(point.values["machine"].name).stem, point.values["clock"]) for point in plan]
    assert points[:3] == [("m000", 1.0), ("m000", 2.0), ("m001", 1.0)]
    assert [point.number for point in plan] == list(range(12))


def test_results_do_not_depend_on_the_number_of_processes(inputs: Path) -> None:
    def swept(jobs: int) -> object:
        machines = [str(inputs / "machines"), inputs / "machines" / "m001.toml"]
        return api.sweep([inputs / "a.sig", inputs / "b.sig"], machine=machines, threads=[1], jobs=jobs).rows

    assert swept(1) == swept(2) == swept(5)


def test_copies_are_replayed(inputs: Path, foretrace: Run) -> None:
    found = api.sweep(inputs / "a.sig", machine=f"{inputs}/machines/m00[01].toml", copies="1,4", cores=8, jobs=2)
    assert [row["method"] for row in found.rows] == ["replay"] * 4
    for row in found.rows:
        one = api.replay(inputs / "a.sig", row["machine_file"], copies=row["copies"], cores=8)
        assert (row["time_s"], row["low_s"], row["high_s"]) == (one.makespan_s, one.low_s, one.high_s)
    unit = write_accelerator(inputs / "unit.toml")
    offloaded = api.sweep(
        inputs / "a.sig", machine=inputs / "machines" / "m000.toml", accelerator=unit, policy="never,always", jobs=1
    )
    assert offloaded.failed == ()
    assert [row["policy"] for row in offloaded.rows] == ["never", "always"]
    assert all(row["accelerator"] == "unit" for row in offloaded.rows)


def test_ranks_are_replayed(inputs: Path, foretrace: Run) -> None:
    trace, platform = inputs / "ranks" / "trace.txt", inputs / "ranks" / "platform.xml"
    options = ("--latency", "1x,4x", "--algorithm", "allreduce=ring,binomial", "--algorithm", "bcast=binomial")
    document = json.loads(foretrace("sweep", trace, "--platform", platform, *options, "--json").stdout)
    assert len(document["points"]) == 4
    for point in document["points"]:
        algorithms = [word for one in point["algorithm"].split() for word in ("--algorithm", one)]
        said = foretrace("replay", trace, "--platform", platform, "--latency", point["latency"], *algorithms, "--json")
        alone = json.loads(said.stdout)
        assert point["time_s"] == alone["makespan_s"]
        assert point["messages"] == alone["messages"]
        assert point["compute_s"] == pytest.approx(sum(rank["compute_s"] for rank in alone["ranks"]))
    assert document["points"][0]["time_s"] < document["points"][1]["time_s"]


def test_recorded_parallel_runs_are_replayed(tmp_path: Path, foretrace: Run) -> None:
    program = mpi_runs.compiled(mpi_runs.PROGRAMS / "halo2d.c", "openmpi")
    mpi_runs.captured("openmpi", 2, tmp_path / "run.sig", program, "64", "3")
    grid = ("--machine", "grace", "--ranks-per-node", "1,2", "--network", "2us,12.5GB/s", "--latency", "1x,50x")
    result = foretrace("sweep", tmp_path / "run.sig", *grid, "--json")
    assert result.returncode == 0, result.stderr
    points = json.loads(result.stdout)["points"]
    assert [(point["nodes"], point["latency"]) for point in points] == [(2, 1.0), (2, 50.0), (1, 1.0), (1, 50.0)]
    for point in points:
        options = ("--ranks-per-node", point["ranks_per_node"], "--latency", point["latency"], *grid[:2], *grid[4:6])
        said = json.loads(foretrace("replay", tmp_path / "run.sig", *options, "--json").stdout)
        assert (point["time_s"], point["messages"]) == (said["makespan_s"], said["messages"])
        assert point["low_s"] <= point["time_s"] <= point["high_s"]
    assert points[0]["time_s"] < points[1]["time_s"]


def test_parquet_and_csv_hold_the_same(inputs: Path, tmp_path: Path, foretrace: Run) -> None:
    pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    files = [tmp_path / name for name in ("r.parquet", "r.csv", "r.json", "r.md")]
    outputs = [word for file in files for word in ("-o", file)]
    command = ("sweep", inputs / "a.sig", "--machine", inputs / "machines", "--threads", "1,7", *outputs)
    assert foretrace(*command).returncode == 80  # the signature has no tree: no 7 threads
    frame, from_csv = pandas.read_parquet(files[0]), pandas.read_csv(files[1])
    assert frame.columns.tolist() == from_csv.columns.tolist()
    assert frame["time_s"].tolist()[::2] == from_csv["time_s"].tolist()[::2]
    assert str(frame["threads"].dtype).lower() == "int64" and frame["threads"].tolist() == [1, 7] * 6
    assert str(frame["clock"].dtype) == "float64" and frame["clock"].isna().all()
    assert frame["error"].isna().tolist() == [True, False] * 6
    assert foretrace(*command).returncode == 75
    assert "exists already" in foretrace(*command).stderr
    assert foretrace(*command, "--force").returncode == 80
    files[0].write_bytes(b"PAR1 of somebody else")
    assert "nothing that foretrace wrote" in foretrace(*command, "--force").stderr


def test_without_pyarrow_a_line_says_what_to_install(inputs: Path, tmp_path: Path) -> None:
    code = "import sys; sys.modules['pyarrow'] = None; from foretrace.cli import main; main()"
    command = [sys.executable, "-P", "-c", code, "sweep", inputs / "a.sig", "--machine", "grace", "-o", "r.parquet"]
    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert result.returncode == 75
    assert result.stderr.strip().endswith("Parquet needs pyarrow; install it with: pip install 'foretrace[parquet]'")


def test_points_that_fail_do_not_end_the_sweep(inputs: Path, tmp_path: Path, foretrace: Run) -> None:
    machines = write_machines(tmp_path / "machines", 2)
    (machines / "broken.toml").write_text('schema = "foretrace.profile/1"\nname = ')
    (machines / "unknown_key.toml").write_text((machines / "m000.toml").read_text() + "\n[memory_]\nsize = 1\n")
    (machines / "large.toml").write_bytes(b"#" * (17 << 20))
    damaged = tmp_path / "damaged.sig"
    damaged.write_bytes((inputs / "a.sig").read_bytes()[:5000])
    out = tmp_path / "r.csv"
    options = ("--machine", machines, "--machine", "a100-sxm-80gb", "-o", out)
    result = foretrace("sweep", damaged, inputs / "a.sig", *options)
    assert result.returncode == 80
    assert result.stderr.startswith("foretrace: error: 10 of 12 points failed: the column `error` says why; ")
    rows = rows_of(out)
    assert all("damaged.sig" in row["error"] for row in rows[:6])
    errors = {Path(row["machine_file"] or row["machine"]).stem: row["error"] for row in rows[6:]}
    assert errors["m000"] == errors["m001"] == ""
    assert "broken.toml: is not a profile: it is not TOML" in errors["broken"]
    assert "memory_" in errors["unknown_key"]
    assert "larger than 16 MiB" in errors["large"]
    assert "is an accelerator" in errors["a100-sxm-80gb"]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("a.sig",), 2, "a.sig: is a signature: name what it runs on with --machine"),
        (("--machine", "grace"), 2, "name a run"),
        (("missing.sig", "--machine", "grace"), 73, "missing.sig: cannot be read: No such file"),
        (("machines", "--machine", "grace"), 73, "machines: is not a file"),
        (("machines/m000.toml", "--machine", "grace"), 73, "name it, or its folder, with --machine"),
        (("a.sig", "--machine", "gracee"), 74, "did you mean 'grace'?"),
        (("a.sig", "--machine", "none/"), 74, "none/: there is no such file"),
        (("a.sig", "--machine", "none*.toml"), 74, "no file has such a name"),
        (("a.sig", "--machine", "ranks"), 74, "ranks: has no TOML files"),
        (("a.sig", "--machine", "grace", "--threads", "1,x"), 2, "--threads 'x': must be numbers from 1 to 10,000"),
        (("a.sig", "--machine", "grace", "--threads", "0"), 2, "--threads '0'"),
        (("a.sig", "--machine", "grace", "--threads", "1,,2"), 2, "--threads ''"),
        (("a.sig", "--machine", "grace", "--clock", "nan"), 2, "--clock 'nan'"),
        (("a.sig", "--machine", "grace", "--model", "best"), 2, "must be of core, convolution"),
        (("a.sig", "--machine", "grace", "--set", "iterations"), 2, "such as solver::iterations=100,200"),
        (("a.sig", "--machine", "grace", "--set", "a::b=1", "--copies", "2"), 2, "--copies does not go with --set"),
        (("a.sig", "--machine", "grace", "--latency", "2x"), 2, "--latency goes with none of the runs"),
        (("a.sig", "--machine", "grace", "--jobs", "1", "--dask", "x:1"), 2, "exclude one another"),
        (("a.sig", "--machine", "grace", "-o", "r.txt"), 75, "must end in .json, .csv, .md or .parquet"),
        (("a.sig", "--machine", "grace", "-o", "none/r.csv"), 75, "there is no directory none"),
        (("a.sig", "--machine", "grace", "--journal", "a.sig"), 75, "is not a journal of foretrace sweep"),
        (("a.sig", "--machine", "grace", "--journal", "/proc/journal"), 75, "cannot be written"),
    ],
)  # fmt: skip
def test_what_cannot_be_swept_is_one_line(
    arguments: tuple[str, ...], code: int, words: str, inputs: Path, foretrace: Run
) -> None:
    before = (inputs / "a.sig").read_bytes()
    result = foretrace("sweep", *arguments, cwd=inputs)
    assert (result.returncode, words in result.stderr) == (code, True), result.stderr
    assert result.stderr.count("foretrace: error:") == 1
    assert (inputs / "a.sig").read_bytes() == before
    assert not list(inputs.glob("*.journal"))


def test_inputs_that_are_named_twice_are_swept_once(inputs: Path) -> None:
    found = api.sweep([inputs / "a.sig"] * 2, machine=["grace", "grace", "all"], clock="1,1.0", jobs=1)
    assert len(found.rows) == len(api.machines().hosts)
    assert found.notes == (
        f"2 of {len(found.rows) + 2} given as machine were named twice, and are swept once",
        "1 of 2 given as run were named twice, and are swept once",
    )


def test_machines_of_one_name_are_told_apart(inputs: Path, tmp_path: Path) -> None:
    for number in (1, 2):
        (tmp_path / f"{number}.toml").write_text(format_profile(swept_host("twin", 1e9 * number)))
    rows = api.sweep(inputs / "a.sig", machine=tmp_path, jobs=1).rows
    assert [row["machine"] for row in rows] == ["twin", "twin"]
    assert [Path(str(row["machine_file"])).name for row in rows] == ["1.toml", "2.toml"]
    assert rows[0]["time_s"] > rows[1]["time_s"]


def test_every_axis_has_an_option_and_a_method(foretrace: Run) -> None:
    text = foretrace("sweep", "--help").stdout
    assert all(f"{axis.option} {axis.metavar}" in text for axis in AXES)
    assert set(BY_NAME) == {axis.name for axis in AXES}


def test_progress_and_the_time_left_are_shown_on_a_terminal(inputs: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-P", "-m", "foretrace", "sweep", "a.sig", "--machine", "machines", "--clock"]
    clocks = ",".join(f"{1 + step / 10:g}" for step in range(10))
    terminal, theirs = pty.openpty()
    process = subprocess.Popen([*command, clocks], cwd=inputs, stdout=subprocess.PIPE, stderr=theirs)
    os.close(theirs)
    shown = b""
    with suppress(OSError):  # the end of a terminal
        while part := os.read(terminal, 4096):
            shown += part
    os.close(terminal)
    process.communicate()
    assert process.returncode == 0
    text = re.sub(rb"\x1b\[[0-9;?]*[a-zA-Z]", b"", shown).decode()
    assert re.search(r"Sweeping 60 points .*\d+% \d+:\d\d:\d\d left (-:--:--|\d+:\d\d:\d\d)", text)


# ---- resuming --------------------------------------------------------------------------------------------------------


def started(inputs: Path, out: Path, *options: str) -> subprocess.Popen[str]:
    command = [
        sys.executable, "-P", "-m", "foretrace", "sweep", "a.sig", "b.sig", "--machine", "machines", "--clock",
        ",".join(f"{1 + step / 25:g}" for step in range(25)), "--jobs", "2", "-o", str(out), *options,
    ]  # fmt: skip
    return subprocess.Popen(command, cwd=inputs, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def lines_of(journal: Path) -> int:
    return journal.read_bytes().count(b"\n") if journal.exists() else 0


def workers_of(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.fixture(scope="module")
def whole(inputs: Path, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    out = tmp_path_factory.mktemp("whole") / "r.csv"
    process = started(inputs, out)
    assert process.communicate()[1] == ""
    assert [path.name for path in out.parent.iterdir()] == ["r.csv"]
    return out.read_bytes()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_a_sweep_that_was_ended_goes_on_where_it_was(
    number: signal.Signals, inputs: Path, whole: bytes, tmp_path: Path
) -> None:
    out, journal = tmp_path / "r.csv", tmp_path / "r.csv.journal"
    process = started(inputs, out)
    wait_until(lambda: lines_of(journal) > 20)
    workers = workers_of(process.pid)
    process.send_signal(number)
    _, said = process.communicate()
    assert process.returncode == -number
    assert not out.exists()
    if number == signal.SIGINT:
        assert said.rstrip("\n") == f"foretrace: finished points are in {journal}: the same command goes on from there"
    wait_until(lambda: all(is_gone(worker) for worker in workers))
    kept = lines_of(journal) - 1
    assert 20 <= kept < 300
    again = started(inputs, out)
    shown, _ = again.communicate()
    assert f"300 points, {kept} taken from the journal" in shown
    assert out.read_bytes() == whole
    assert not journal.exists()


def test_a_journal_can_be_kept_and_added_to(inputs: Path, tmp_path: Path, foretrace: Run) -> None:
    journal = tmp_path / "journal"
    options = ("--machine", "machines", "--journal", journal)
    assert foretrace("sweep", "a.sig", *options, "-o", tmp_path / "1.csv", cwd=inputs).returncode == 0
    more = foretrace("sweep", "b.sig", "a.sig", *options, "-o", tmp_path / "2.csv", cwd=inputs)
    assert "12 points, 6 taken from the journal" in more.stdout
    assert lines_of(journal) == 13
    assert rows_of(tmp_path / "2.csv")[6:] == rows_of(tmp_path / "1.csv")


def test_damaged_lines_are_counted_and_worked_out_again(inputs: Path, tmp_path: Path, foretrace: Run) -> None:
    journal = tmp_path / "journal"
    command = ("sweep", "a.sig", "--machine", "machines", "--journal", journal)
    first = json.loads(foretrace(*command, "--json", cwd=inputs).stdout)
    lines = journal.read_bytes().splitlines(keepends=True)
    lines[2] = lines[2].replace(b'"time_s":', b'"time_s":1', 1)  # a digit more: the checksum tells
    lines[3] = b"\xff\x00 nothing of ours\n"
    lines[4] = b'{"key":"x","sum":0,"result":{"time_s":"late","row":[1]}}\n'
    journal.write_bytes(b"".join(lines)[:-7])  # the last one was being written
    again = json.loads(foretrace(*command, "--json", cwd=inputs).stdout)
    assert again["points"] == first["points"]
    assert again["from_journal"] == 2
    assert again["notes"] == [f"3 lines of {journal} are damaged, and their points were worked out again"]
    assert json.loads(foretrace(*command, "--json", cwd=inputs).stdout)["from_journal"] == 6


@pytest.mark.parametrize("content", [b"", b'{"schema":"foretrace.swe'])
def test_a_journal_that_was_hardly_begun_is_begun_again(content: bytes, inputs: Path, tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    journal.write_bytes(content)
    assert (
        api.sweep(inputs / "a.sig", machine=inputs / "machines" / "m000.toml", jobs=1, journal=journal).from_journal
        == 0
    )
    assert (
        api.sweep(inputs / "a.sig", machine=inputs / "machines" / "m000.toml", jobs=1, journal=journal).from_journal
        == 1
    )


def test_changed_inputs_are_not_taken_from_a_journal(inputs: Path, tmp_path: Path) -> None:
    machines, run = write_machines(tmp_path / "machines", 2), write_run(tmp_path / "run.sig")
    journal = tmp_path / "journal"
    first = api.sweep(run, machine=machines, journal=journal, jobs=1)
    (machines / "m000.toml").write_text((machines / "m000.toml").read_text().replace("1000000000.0", "1200000000.0"))
    second = api.sweep(run, machine=machines, journal=journal, jobs=1)
    assert (second.from_journal, second.rows[1]) == (1, first.rows[1])
    assert second.rows[0]["time_s"] < first.rows[0]["time_s"]
    write_run(tmp_path / "other.sig", 1 << 17).replace(run)
    assert api.sweep(run, machine=machines, journal=journal, jobs=1).from_journal == 0


def test_two_sweeps_do_not_write_one_journal(inputs: Path, tmp_path: Path) -> None:
    out, journal = tmp_path / "r.csv", tmp_path / "r.csv.journal"
    process = started(inputs, out)
    wait_until(lambda: lines_of(journal) > 1)
    with pytest.raises(OutputError, match="another sweep is writing it"):
        api.sweep(inputs / "a.sig", machine="grace", journal=journal, jobs=1)
    process.kill()
    process.communicate()


def test_a_worker_that_dies_is_replaced(inputs: Path, whole: bytes, tmp_path: Path) -> None:
    out, journal = tmp_path / "r.csv", tmp_path / "r.csv.journal"
    process = started(inputs, out)
    wait_until(lambda: lines_of(journal) > 5)
    os.kill(workers_of(process.pid)[0], signal.SIGKILL)
    assert process.communicate()[1] == ""
    assert process.returncode == 0
    assert out.read_bytes() == whole


def test_a_full_disk_is_one_line(inputs: Path, tmp_path: Path) -> None:
    code = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000)); from foretrace.cli import main; main()"
    )
    command = [sys.executable, "-P", "-c", code, "sweep", "a.sig", "--machine", "machines", "-o", tmp_path / "r.csv"]
    result = subprocess.run(command, capture_output=True, text=True, cwd=inputs)
    assert result.returncode == 75
    assert result.stderr == f"foretrace: error: {tmp_path / 'r.csv.journal'}: cannot be written: File too large\n"


DOCUMENTED = (Path(__file__).parents[3] / "docs" / "sweeps.md").read_text()


def test_the_documented_examples_run(
    inputs: Path, tmp_path: Path, foretrace: Run, compile_c: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which("qemu-x86_64") is None:
        pytest.skip("qemu-x86_64 is not installed")
    pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    program = compile_c("static double a[99999]; int main(void) { for (int i = 1; i < 99999; i++) a[i] += a[i - 1]; }")
    assert foretrace("trace", "-o", "app.sig", "--", program, cwd=tmp_path).returncode == 0
    for path in (inputs / "ranks").iterdir():
        shutil.copy(path, tmp_path)
    (tmp_path / "platform.xml").rename(tmp_path / "cluster.xml")
    commands = re.findall(r"^\$ foretrace (.*)$", DOCUMENTED, re.MULTILINE)
    assert len(commands) == 4
    for command in commands:
        result = foretrace(*shlex.split(command), cwd=tmp_path)
        assert result.returncode == 0, f"{command}\n{result.stderr}"
    monkeypatch.chdir(tmp_path)
    (script,) = re.findall(r"^```python\n(.*?)^```", DOCUMENTED, re.MULTILINE | re.DOTALL)
    exec(script, {})
    assert len(rows_of(tmp_path / "sweep.csv")) == 4


def test_it_documents_every_option_and_column(foretrace: Run) -> None:
    assert all(f"`{axis.option}`" in DOCUMENTED for axis in AXES)
    fields = {field.name for method in METHODS for field in method.fields if not field.name.startswith("by_")}
    assert {name for name in fields if f"`{name}`" not in DOCUMENTED} == set()
