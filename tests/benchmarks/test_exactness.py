"""Simulated misses against an independent simulator, cachegrind, and address ranges against what a program prints.

cachegrind differs from us in known ways. It counts an instruction that reads and then writes the same place as one
read; the write hits what the read has just brought in, so accesses differ but misses do not. Its last level also holds
instructions: a program's few code lines take some of the places that we give to data. And a dynamic program starts
differently under each tool (cachegrind preloads a library; the loader chooses string functions by the CPU it sees),
which matters where a program misses the last level a few thousand times in all: gzip is compared without its start.
"""

import re
import shutil
import subprocess

import pytest
from effort import sweep

from foretrace.benchmarks.harness import programs, tools
from foretrace.benchmarks.peers import exactness

RANGE_BYTES = [20_480, 65_536, 1 << 18, 1 << 20, 4 << 20, 8 << 20, 16 << 20, 32 << 20]


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return tmp_path_factory.mktemp("exactness")


@pytest.fixture(scope="module")
def workloads(directory):
    five, further = programs.five_workloads(directory, quick=True), programs.further_workloads(directory, quick=True)
    return {workload.name: workload for workload in (*five, *further)}


def need(executable, package):
    if shutil.which(executable) is None:
        pytest.skip(f"needs {executable} (Debian package {package})")


def test_cachegrind_summary_is_read_by_the_names_of_its_events():
    text = ["desc: x\n", "events: Ir Dr D1mr DLmr Dw D1mw DLmw\n", "1 2 3\n", "summary: 100 50 7 3 20 5 2\n"]
    assert tools.read_cachegrind(text) == tools.CacheMisses(d1=12, ll=5)
    with pytest.raises(tools.EngineError, match="cache simulation"):
        tools.read_cachegrind(["events: Ir\n", "summary: 100\n"])


ELEVEN = (
    "spmv", "triad", "updates", "mergesort", "gzip -6", "lu", "stencil2d", "fft", "multigrid", "heat3d", "kmeans",
)  # fmt: skip
SHORT = ("triad", "updates", "heat3d")
"""A stream, accesses at random, and a program in Fortran."""


def test_all_programs_are_compared(workloads):
    assert sorted(workloads) == sorted(ELEVEN)


def test_the_stack_begins_in_the_same_place_wherever_the_program_lies(monkeypatch):
    def strings_bytes(*command):
        environment = exactness.environment_for(command)
        return len(command[0]) + sum(map(len, (*command, *environment.values())))

    before = strings_bytes("/tmp/a/lu", "360")
    assert strings_bytes("/tmp/another/place/lu", "360") == before
    monkeypatch.setenv("PATH", "/usr/bin:/somewhere")
    assert strings_bytes("/tmp/a/lu", "360") == before


@sweep("name", ELEVEN, SHORT)
def test_misses_are_those_of_cachegrind(name, workloads, directory):
    need("valgrind", "valgrind")
    need("qemu-x86_64", "qemu-user")
    compared = exactness.compare(workloads[name], directory)
    assert compared.reference.d1 >= compared.reference.ll > 0
    assert compared.found.d1 == pytest.approx(compared.reference.d1, rel=exactness.TOLERANCE)
    assert compared.found.ll == pytest.approx(compared.reference.ll, rel=exactness.TOLERANCE)


@sweep("range_bytes", RANGE_BYTES, RANGE_BYTES[:2])
def test_ranges_of_scatter_and_gather_loops_are_exact(range_bytes, directory):
    """Carrington et al., ICS'11, table 2, has the scatter loop within 1 %; both loops are exact here."""
    need("qemu-x86_64", "qemu-user")
    sgbench = programs.build("sgbench", directory, programs.Linking.FIXED)
    signature = directory / "ranges.sig"
    result = subprocess.run(
        tools.trace_command([str(sgbench), str(range_bytes)], signature), capture_output=True, text=True, check=True
    )
    actual = {
        (int(address, 16), int(address, 16) + int(size_bytes))
        for address, size_bytes in re.findall(r"^\w+ +(0x[0-9a-f]+) +(\d+)$", result.stdout, re.MULTILINE)
    }
    assert sorted(last - first for first, last in actual) == [range_bytes // 8, range_bytes // 4, range_bytes]
    loops = {loop["function"]: loop for loop in tools.foretrace_json("info", str(signature))["loops"]}
    for function in ("scatter_8", "gather_8"):
        measured = {(found["first"], found["last_exclusive"]) for found in loops[function]["ranges"]}
        assert measured == actual
        assert loops[function]["executions"] == range_bytes // 32
