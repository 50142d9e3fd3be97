"""What is installed: a wheel, built by the package's own build, holds all that is needed and nothing bare."""

import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("tracer", "cache_sim", "replay", "profiles", "benchmarks")


def reuse_built(directory):
    """Copy what was compiled for an editable install to where the build looks for it; all else is compiled anew."""
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*.so"):
            target = directory / path.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Names of the files in a wheel built from this checkout."""
    pytest.importorskip("setuptools", reason="building a wheel needs setuptools")
    directory = tmp_path_factory.mktemp("wheel")
    source = directory / "source"
    source.mkdir()
    for entry in ("pyproject.toml", "setup.py", "README.md", "LICENSE", "foretrace", *FOLDERS):
        (source / entry).symlink_to(ROOT / entry)
    reuse_built(source / "build" / f"lib.{sysconfig.get_platform()}-{sys.implementation.cache_tag}" / "foretrace")
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    result = subprocess.run([*build, "--wheel-dir", directory, source], capture_output=True, text=True, cwd=directory)
    assert result.returncode == 0, result.stderr
    (path,) = directory.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        return archive.namelist()


def test_everything_is_below_one_name(wheel):
    tops = {name.split("/")[0] for name in wheel}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"foretrace"}


def test_every_module_profile_and_program_is_there(wheel):
    expected = {f"foretrace/{path.relative_to(ROOT / 'foretrace')}" for path in (ROOT / "foretrace").rglob("*.py")}
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*"):
            if path.suffix == ".py" or (path.parent.name in ("machines", "programs") and path.is_file()):
                expected.add(f"foretrace/{path.relative_to(ROOT)}")
    assert expected <= set(wheel), sorted(expected - set(wheel))
    assert "foretrace/py.typed" in wheel


def test_every_native_part_is_there(wheel):
    built = {Path(name).name.split(".")[0] for name in wheel if name.endswith(".so")}
    declared = re.findall(r'native\(\s*"[\w.]+\.(\w+)"', (ROOT / "setup.py").read_text())
    assert declared
    assert built >= set(declared)


def make(*arguments):
    return subprocess.run(["make", "-C", str(ROOT), *arguments], capture_output=True, text=True)


def test_make_help_lists_every_target():
    (phony,) = re.findall(r"^\.PHONY: (.*)$", make("--print-data-base", "--question", "help").stdout, re.MULTILINE)
    described = re.findall(r"^([a-z-]+) +\S", make("--no-print-directory", "help").stdout, re.MULTILINE)
    assert set(described) == set(phony.split()) - {"system"}
    assert "help" in described


def test_ci_runs_the_test_command_of_the_readme():
    commands = (ROOT / ".ci" / "run").read_text().splitlines()
    assert "make test" in commands
    assert "export FORETRACE_FORBID_SKIPS=1" in commands
    assert re.search(r"^\$ make test$", (ROOT / "README.md").read_text(), re.MULTILINE)


def test_the_version_has_an_entry_in_the_changelog():
    import foretrace

    assert re.search(rf"^## \[?{re.escape(foretrace.__version__)}\b", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
