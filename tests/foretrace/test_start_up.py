"""What is done before a traced program starts: as little as can be."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

WATCH = """
import json, os, sys
real, told = os.posix_spawn, sys.argv.pop(1)
def spawn(*arguments, **options):
    with open(told, "w") as file:
        json.dump(sorted(sys.modules), file)
    return real(*arguments, **options)
os.posix_spawn = spawn
from foretrace.cli import main
main()
"""
LATER = {
    "numpy",
    "capstone",
    "elftools",
    "sqlite3",
    "foretrace.tracer.signature.records",
    "foretrace.cache_sim.base.results",
}


@pytest.mark.parametrize("program", [("--", "/bin/true"), ("empty.py",)])
def test_what_takes_long_to_import_is_imported_while_the_program_runs(program: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "empty.py").write_text("")
    command = [sys.executable, "-P", "-c", WATCH, "imported.json", "trace", "-o", "s.sig", *program]
    subprocess.run(command, cwd=tmp_path, check=True)
    imported = set(json.loads((tmp_path / "imported.json").read_text()))
    assert "foretrace.tracer.session.session" in imported
    assert not imported & LATER
    assert (tmp_path / "s.sig").stat().st_size > 0


def test_what_reads_lines_is_imported_for_programs_that_have_any(
    compile_c: Callable[..., Path], tmp_path: Path
) -> None:
    program = "int main(void) { return 0; }"
    files = {"with": compile_c(program, "-g"), "without": compile_c(program, "-s"), "damaged": tmp_path / "damaged"}
    files["damaged"].write_bytes(files["with"].read_bytes()[:100])
    script = (
        "import sys; from foretrace.tracer.debug_info.symbols import import_for_lines; "
        "import_for_lines(sys.argv[1]); print('elftools.dwarf.dwarfinfo' in sys.modules)"
    )
    for name, path in files.items():
        command = [sys.executable, "-P", "-c", script, str(path)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        assert done.stdout == f"{name == 'with'}\n", name


def test_an_interrupt_while_modules_are_read_ends_us_as_it_ends_any_program(tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    command = [sys.executable, "-P", "-m", "foretrace", "--help"]
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


ROOT = Path(__file__).parents[2]


def test_the_root_of_a_checkout_holds_a_package_that_works() -> None:
    script = "import foretrace; from foretrace.tracer.reader import _reader; print(foretrace.__file__)"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True, capture_output=True, text=True)
    assert Path(done.stdout.strip()) == ROOT / "foretrace" / "__init__.py"


def test_a_checkout_that_is_not_built_says_what_to_run(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "foretrace", tmp_path / "foretrace")
    done = subprocess.run([sys.executable, "-c", "import foretrace"], cwd=tmp_path, capture_output=True, text=True)
    assert done.stderr.splitlines()[-1] == (
        f"ImportError: foretrace is not built in {tmp_path}: run `make dev` there, then {tmp_path}/.venv/bin/python"
    )
