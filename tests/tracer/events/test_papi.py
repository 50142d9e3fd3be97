"""One program with PAPI's library for software-defined events and with ours, both read by PAPI.

Debian 12 has PAPI 7.0. It differs from PAPI's current source, and from ours, where the program does not go: it does not
empty counting sets when they are reset or started, its minimum of a group starts at 0, and ending a group of groups, or
a set of 4-byte elements, reads memory that is not its own.
"""

from __future__ import annotations

import ctypes.util
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from foretrace.tracer.events import linking

PROGRAM = Path(__file__).with_name("papi_program.c").read_text()


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program against PAPI's headers, not linked yet."""
    if not shutil.which("papi_avail") or not ctypes.util.find_library("papi"):
        pytest.skip("needs PAPI (Debian packages papi-tools and libpapi-dev)")
    folder = tmp_path_factory.mktemp("papi")
    (folder / "program.c").write_text(PROGRAM)
    subprocess.run(["gcc", "-O1", "-c", "program.c", "-o", "program.o"], cwd=folder, check=True)
    return folder / "program.o"


def printed_with(compiled: Path, library: str, **environment: str) -> str:
    program = compiled.with_suffix("")
    command = ["gcc", "-rdynamic", compiled, "-o", program, "-Wl,--no-as-needed", "-l:libsde.so.1", "-lpapi"]
    subprocess.run([*command, *([f"-L{library}"] if library else [])], check=True)
    done = subprocess.run([program], capture_output=True, text=True, env=os.environ | environment, check=True)
    return done.stdout


def test_papi_reads_the_same_values_of_both(compiled: Path) -> None:
    """Linked with PAPI's library; run with it, and with ours found first."""
    theirs = printed_with(compiled, "")
    ours = printed_with(compiled, "", LD_LIBRARY_PATH=str(linking.drop_in()))
    assert theirs.count("\n") > 60
    assert "sde:::l::recorder:MED 2500" in theirs
    assert ours == theirs


def test_a_program_built_with_ours_runs_with_papis(compiled: Path) -> None:
    assert printed_with(compiled, str(linking.drop_in())) == printed_with(compiled, "")


def test_papis_tool_lists_events_with_either_library(compiled: Path, tmp_path: Path) -> None:
    source = PROGRAM[PROGRAM.index("papi_handle_t papi_sde_hook") : PROGRAM.index("int main")]
    library = tmp_path / "listed.so"
    header = "#include <sde_lib.h>\nstatic long long whole;\n"
    (tmp_path / "listed.c").write_text(header + source)
    subprocess.run(["gcc", "-shared", "-fPIC", tmp_path / "listed.c", "-o", library], check=True)

    def listed(**environment: str) -> str:
        command = ["papi_native_avail", "-sde", library]
        return subprocess.run(command, capture_output=True, text=True, env=os.environ | environment, check=True).stdout

    ours = listed(LD_LIBRARY_PATH=str(linking.drop_in()))
    assert "sde:::listed::iterations" in ours
    assert "iterations of the solver" in ours
    assert ours == listed()
