"""Array operations that are not seen: counted by name, with their share of calls and bytes."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from python_runs import trace

from foretrace.tracer.analysis.unseen import unseen_of
from foretrace.tracer.reader.raw_trace import RawUnseen

pytest.importorskip("numpy")


def counts(unseen: tuple[RawUnseen, ...]) -> dict[str, tuple[int, int, int, int]]:
    return {u.name: (u.calls, u.bytes, u.one_pass_calls, u.one_pass_bytes) for u in unseen}


def test_calls_are_counted_by_name_with_the_bytes_of_one_pass(tmp_path: Path) -> None:
    run = trace(
        tmp_path,
        "import numpy as np\n"
        "a, words = np.ones(1000), np.ones(10).astype(object)\n"
        "for i in range(3):\n"
        "    a.sort()\n"
        "words + words\n"
        "b = a + a\n",
    )
    unseen = counts(run.recording.raw.unseen)
    assert unseen["numpy.ndarray.sort"] == (3, 24_000, 3, 24_000)
    assert unseen["numpy.add"] == (1, 240, 0, 0)
    (sort,) = [u for u in run.recording.raw.unseen if u.name == "numpy.ndarray.sort"]
    assert sort.block_id in {b.block_id for b in run.blocks() if b.line == 4}
    assert run.recording.unseen_calls == sum(u.calls for u in run.recording.raw.unseen)


def test_shares_are_of_all_calls_and_bytes(tmp_path: Path) -> None:
    run = trace(
        tmp_path,
        "import numpy as np\na = np.arange(1000.0)\nb = a + a\na.sort()\nw = a[:100].astype(object)\nw + w\n",
    )
    own = [a for line in range(2, 7) for a in run.arrays(line)]  # NumPy works on arrays when it is imported
    lines = {b.block_id for b in run.blocks()}
    not_seen = tuple(
        u for u in run.recording.raw.unseen if u.block_id in lines and u.name in ("numpy.ndarray.sort", "numpy.add")
    )
    unseen = unseen_of(replace(run.recording.raw, array_operations=tuple(own), unseen=not_seen), len(not_seen))
    # Seen: arange, a + a, astype. Unseen: the sort, recorded as a pass, and w + w.
    seen_calls = 3
    assert unseen.calls_share == pytest.approx(2 / (seen_calls + 2))
    assert [(o.name, o.calls, o.bytes, o.one_pass_calls) for o in unseen.operations] == [
        ("numpy.ndarray.sort", 1, 8000, 1),
        ("numpy.add", 1, 2400, 0),
    ]
    arange, add, astype = 8000, 24_000, 1600
    sort_pass = 16_000  # each element loaded and stored
    recorded = arange + add + astype + sort_pass
    assert unseen.bytes == 10_400
    assert unseen.bytes_share == pytest.approx(10_400 / (recorded + 10_400 - 8000))


def test_compiled_code_is_counted_wherever_it_comes_from(tmp_path: Path) -> None:
    pytest.importorskip("scipy")
    run = trace(
        tmp_path,
        "import numpy as np, scipy.fft, scipy.linalg, scipy.linalg.blas, scipy.sparse as sp\n"
        "a = np.ones((20, 20)) + np.eye(20)\n"
        "np.linalg.solve(a, a)\n"
        "np.fft.fft(a)\n"
        "scipy.fft.fft(a)\n"
        "scipy.linalg.blas.dgemm(1.0, a, a)\n"
        "np.random.default_rng(0).random(100)\n"
        "sp.csr_array(a) @ sp.csr_array(a)\n"
        "np.unravel_index(np.arange(5), (3, 4))\n",
    )
    by_line = {b.block_id: b.line for b in run.recording.raw.python_blocks if b.file == str(run.script)}
    found = {(by_line.get(u.block_id), u.name) for u in run.recording.raw.unseen}
    names = {line: {name for at, name in found if at == line} for line in range(3, 10)}
    assert names[3] == set()  # linear algebra is counted by its shapes
    assert any("fft" in name for name in names[4])
    assert any(name.startswith("scipy.fft.") for name in names[5])
    assert names[6] == set()
    assert "numpy.random.Generator.random" in names[7]
    assert "scipy.sparse.csr_matmat" in names[8]
    assert names[9] == {"numpy.unravel_index"}


def test_info_and_the_signature_tell_it(
    foretrace: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    script, signature = tmp_path / "program.py", tmp_path / "program.sig"
    script.write_text("import numpy as np\na = np.ones(1000)\na.sort()\n")
    assert foretrace("trace", "-o", signature, script).returncode == 0
    assert "numpy.ndarray.sort 1" in foretrace("info", signature).stdout
    unseen = json.loads(foretrace("info", signature, "--json").stdout)["provenance"]["unseen"]
    assert unseen["bytes"] >= 8000
    assert 0 < unseen["bytes_share"] < 1
    assert unseen["operations"][:1] == [{"name": "numpy.ndarray.sort", "calls": 1, "bytes": 8000, "one_pass_calls": 1}]
