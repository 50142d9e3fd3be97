"""NumPy's and SciPy's own tests, alone and traced: prints the tests whose outcomes differ, and fails if there are any.

    python tests/helpers/library_suites.py [--quick] [FILE ...]

A FILE is a test module such as numpy._core.tests.test_ufunc. Without any, it is those named below (--quick: the
first of each library). The libraries' tests are in their wheels.
"""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from pathlib import Path

NUMPY = ["test_indexing", "test_ufunc", "test_multiarray", "test_item_selection", "test_einsum", "test_nditer",
         "test_numeric", "test_shape_base", "test_mem_overlap"]  # fmt: skip
SCIPY = ["test_csr", "test_coo", "test_csc", "test_base", "test_common1d", "test_construct"]
TIMEOUT_S = 3600


def _numpy_package() -> str:
    return "numpy._core" if importlib.util.find_spec("numpy._core") else "numpy.core"


def _modules(quick: bool) -> list[str]:
    count = 1 if quick else None
    numpy_tests = [f"{_numpy_package()}.tests.{name}" for name in NUMPY[:count]]
    return numpy_tests + [f"scipy.sparse.tests.{name}" for name in SCIPY[:count]]


def _file(module: str) -> Path | None:
    try:
        spec = importlib.util.find_spec(module)
    except ImportError:
        return None
    return Path(spec.origin) if spec and spec.origin else None


def _outcomes(report: Path) -> dict[str, str]:
    """Each test's outcome; of several of one name, in their order."""
    found: dict[str, str] = {}
    for case in ET.parse(report).iter("testcase"):
        name = f"{case.get('classname')}::{case.get('name')}"
        while name in found:
            name += "'"
        found[name] = next((child.tag for child in case if child.tag in ("failure", "error", "skipped")), "passed")
    return found


def _run(file: Path, directory: Path, traced: bool) -> tuple[dict[str, str], float]:
    """The outcomes of one test module, and how long its tests took."""
    report, signature = directory / "report.xml", directory / "run.sig"
    report.unlink(missing_ok=True)
    pytest = ["pytest", "-q", "-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir", str(file.parent)]
    tests = [*pytest, f"--junitxml={report}", str(file)]
    trace = ["-P", "-m", "foretrace", "trace", "--force", "-o", str(signature)]
    command = [sys.executable, *(trace if traced else []), "-m", *tests]
    started = time.monotonic()
    ended = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    took_s = time.monotonic() - started
    if not report.exists():
        sys.exit(f"{file}: no report{' (traced)' if traced else ''}\n{ended.stdout[-2000:]}{ended.stderr[-2000:]}")
    return _outcomes(report), took_s


def _compare(module: str, file: Path, directory: Path) -> int:
    plain, plain_s = _run(file, directory, traced=False)
    traced, traced_s = _run(file, directory, traced=True)
    different = sorted(name for name in plain.keys() | traced.keys() if plain.get(name) != traced.get(name))
    print(f"{module}: {len(plain)} tests, {len(different)} differ, {plain_s:.1f} s alone, {traced_s:.1f} s traced")
    for name in different:
        print(f"    {name}: {plain.get(name, 'not run')} alone, {traced.get(name, 'not run')} traced")
    sys.stdout.flush()
    return len(different)


def main() -> int:
    """Compare every module asked for. The exit code is 1 if any test's outcome differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one module of each library")
    parser.add_argument("module", nargs="*")
    options = parser.parse_args()
    differences = 0
    with tempfile.TemporaryDirectory() as directory:
        for module in options.module or _modules(options.quick):
            file = _file(module)
            if file is None:
                print(f"{module}: not installed")
            else:
                differences += _compare(module, file, Path(directory))
    print(f"{differences} differences")
    return differences > 0


if __name__ == "__main__":
    sys.exit(main())
