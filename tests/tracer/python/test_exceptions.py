"""The exception that ended a program is named, and no other."""

from __future__ import annotations

from pathlib import Path

import pytest
from traces import trace_python

OWN = "class Mistake(ValueError):\n    pass\nraise Mistake('x')"
CAUGHT = "try:\n    raise ValueError\nexcept ValueError:\n    pass"


@pytest.mark.parametrize(
    ("source", "code", "name"),
    [
        (OWN, 1, "Mistake"),
        ("1 / 0", 1, "ZeroDivisionError"),
        ("import threading\nt = threading.Thread(target=lambda: 1 / 0)\nt.start()\nt.join()", 0, ""),
        (CAUGHT, 0, ""),
        ("raise SystemExit(1)", 1, ""),
        ("a = (", 1, "SyntaxError"),
    ],
)
def test_the_signature_names_it(source: str, code: int, name: str, tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text(source)
    provenance = trace_python(str(tmp_path / "p.py")).signature.provenance
    assert (provenance.exit_code, provenance.exception) == (code, name)
