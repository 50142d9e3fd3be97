"""The page on the source form shows what happens to Fortran."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("tree_sitter_fortran", reason="the extra 'source' is not installed")

PAGE = Path(__file__).parents[4] / "docs" / "source-form.md"


def test_its_example_prints_what_it_shows(tmp_path: Path) -> None:
    section = PAGE.read_text().split("\n## Fortran\n")[1].split("\n## ")[0]
    found = re.search(r"```python\n(.*?)```\n\n```text\n(.*?)```", section, re.DOTALL)
    assert found is not None
    done = subprocess.run(
        [sys.executable, "-c", found[1]], cwd=tmp_path, env=dict(os.environ), capture_output=True, text=True, check=True
    )
    assert done.stdout.rstrip() == found[2].rstrip()
