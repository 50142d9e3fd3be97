"""Sweeps on a Dask cluster: real schedulers and workers, in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from polling import wait_until
from sweep_samples import write_machines, write_parallel_run, write_run

import foretrace as api
from foretrace.base.errors import SweepError

Run = Callable[..., "subprocess.CompletedProcess[str]"]

pytest.importorskip("distributed", reason="sweeps on clusters need distributed")

CLUSTER = """
import sys
from distributed import LocalCluster
if __name__ == "__main__":
    options = dict(n_workers=2, threads_per_worker=1, dashboard_address=None)
    with LocalCluster(**options, local_directory=sys.argv[1]) as cluster:
        print(cluster.scheduler_address, flush=True)
        sys.stdin.read()
"""


class Cluster:
    """A scheduler and two workers, which run in another folder."""

    def __init__(self, folder: Path, script: str = CLUSTER) -> None:
        folder.mkdir()
        (folder / "cluster.py").write_text(script)
        self.process = subprocess.Popen(
            [sys.executable, "-P", "cluster.py", str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True, cwd=folder, start_new_session=True,
        )  # fmt: skip
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().strip()

    def end(self) -> None:
        self.process.communicate()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = Cluster(tmp_path_factory.mktemp("dask") / "cluster")
    yield made
    made.end()


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sweep")
    write_run(folder / "a.sig")
    write_run(folder / "b.sig", 1 << 18)
    write_machines(folder / "machines", 6)
    write_parallel_run(folder / "ranks")
    return folder


def test_results_are_those_of_processes_here(cluster: Cluster, inputs: Path, tmp_path: Path, foretrace: Run) -> None:
    (tmp_path / "broken.sig").write_bytes((inputs / "a.sig").read_bytes()[:5000])
    files = [tmp_path / "here.csv", tmp_path / "there.csv"]
    for file, where in zip(files, (("--jobs", "2"), ("--dask", cluster.address)), strict=True):
        runs = ("a.sig", tmp_path / "broken.sig", "b.sig", "ranks/trace.txt")
        grid = ("--machine", "machines", "--clock", "1,2,3", "--platform", "ranks/platform.xml", "--latency", "1x,2x")
        result = foretrace("sweep", *runs, *grid, *where, "-o", file, cwd=inputs)
        assert result.returncode == 80, result.stderr
        assert "18 of 56 points failed" in result.stderr
        assert "broken.sig: is damaged" in result.stderr
    assert files[0].read_bytes() == files[1].read_bytes()


def test_it_goes_on_from_the_journal_of_another(cluster: Cluster, inputs: Path, tmp_path: Path) -> None:
    machines, journal = inputs / "machines", tmp_path / "journal"
    first = api.sweep(inputs / "a.sig", machine=machines, clock=1, jobs=1, journal=journal)
    second = api.sweep(inputs / "a.sig", machine=machines, clock=[1, 2], dask=cluster.address, journal=journal)
    assert second.from_journal == 6
    assert second.rows[::2] == first.rows
    assert api.sweep(inputs / "a.sig", machine=machines, clock=[1, 2], jobs=1, journal=journal).rows == second.rows


LOSES = CLUSTER.replace(
    "sys.stdin.read()",
    "sys.stdin.readline(); import os, signal; os.kill(cluster.workers[0].process.pid, signal.SIGKILL);sys.stdin.read()",
)


def test_points_of_a_lost_worker_are_worked_out_by_others(inputs: Path, tmp_path: Path) -> None:
    cluster, journal = Cluster(tmp_path / "cluster", LOSES), tmp_path / "journal"
    clocks = [1 + step / 30 for step in range(30)]
    process = subprocess.Popen(
        [
            sys.executable, "-P", "-m", "foretrace", "sweep", "a.sig", "--machine", "machines", "--clock",
            ",".join(map(str, clocks)), "--dask", cluster.address, "-o", tmp_path / "r.csv", "--journal", journal,
        ],
        cwd=inputs, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    wait_until(lambda: journal.exists() and journal.read_bytes().count(b"\n") > 5)
    assert cluster.process.stdin is not None
    cluster.process.stdin.write("lose\n")
    cluster.process.stdin.flush()
    _, said = process.communicate()
    assert process.returncode == 0, said
    cluster.end()
    assert len((tmp_path / "r.csv").read_text().splitlines()) == 181


def test_a_scheduler_that_goes_away_is_one_line(inputs: Path, tmp_path: Path) -> None:
    cluster, journal = Cluster(tmp_path / "cluster"), tmp_path / "journal"
    clocks = [1 + step / 100 for step in range(200)]
    process = subprocess.Popen(
        [
            sys.executable, "-P", "-m", "foretrace", "sweep", "a.sig", "--machine", "machines", "--clock",
            ",".join(map(str, clocks)), "--dask", cluster.address, "--journal", journal,
        ],
        cwd=inputs, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    wait_until(lambda: journal.exists() and journal.read_bytes().count(b"\n") > 5)
    os.killpg(cluster.process.pid, 9)
    cluster.process.communicate()
    _, said = process.communicate()
    assert process.returncode == 80
    assert said.count("\n") == 1
    assert said.startswith(f"foretrace: error: --dask {cluster.address}: ")
    assert journal.read_bytes().count(b"\n") > 5


def test_a_cluster_without_foretrace_is_refused(inputs: Path, tmp_path: Path) -> None:
    hidden = CLUSTER.replace("    with Local", "    os.environ['PYTHONPATH'] = sys.argv[1]\n    with Local")
    (tmp_path / "cluster").mkdir()
    blocked = "import sys\nsys.modules['foretrace'] = None\n"
    folder = tmp_path / "cluster" / "inside"
    folder.parent.joinpath("sitecustomize.py").write_text(blocked)
    script = hidden.replace("import sys\n", "import os, sys\n").replace("sys.argv[1]\n", f"{str(folder.parent)!r}\n")
    cluster = Cluster(folder, script)
    with pytest.raises(SweepError, match=r"its workers cannot run foretrace .* install it there"):
        api.sweep(inputs / "a.sig", machine=inputs / "machines", dask=cluster.address)
    cluster.end()


def test_nobody_there_is_one_line(inputs: Path, foretrace: Run) -> None:
    for address, words in (("tcp://127.0.0.1:1", "no scheduler can be reached there"), ("nowhere", "missing port")):
        result = foretrace("sweep", "a.sig", "--machine", "machines", "--dask", address, cwd=inputs)
        assert (result.returncode, result.stderr.count("foretrace: error:")) == (80, 1)
        assert words in result.stderr


def test_without_distributed_a_line_says_what_to_install(inputs: Path) -> None:
    code = "import sys; sys.modules['distributed'] = None; from foretrace.cli import main; main()"
    command = [sys.executable, "-P", "-c", code, "sweep", "a.sig", "--machine", "machines", "--dask", "tcp://x:1"]
    result = subprocess.run(command, capture_output=True, text=True, cwd=inputs)
    assert result.returncode == 80
    assert result.stderr == (
        "foretrace: error: --dask needs distributed; install it with: pip install 'foretrace[sweep]'\n"
    )
