"""Files that are written: whole, or not there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from foretrace import files
from foretrace.errors import OutputError

WRITES_AND_IS_KILLED = """
import os, signal, sys
from pathlib import Path
from foretrace.files import open_atomically
with open_atomically(Path(sys.argv[1]), force=False) as file:
    file.write(b"half")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def skip_unless_unnamed(directory: Path) -> None:
    file = files._unnamed_file(directory)
    if file is None:
        pytest.skip("needs a file system with O_TMPFILE")
    file.close()


@pytest.fixture(params=["unnamed", "hidden"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """Of writing: in a file that has no name yet, or where the system has no such files."""
    if request.param == "hidden":
        monkeypatch.setattr(files, "_unnamed_file", lambda directory: None)
    else:
        skip_unless_unnamed(tmp_path)
    return str(request.param)


@pytest.mark.usefixtures("way")
def test_a_file_comes_into_being_whole_with_the_usual_rights(tmp_path: Path) -> None:
    path, usual = tmp_path / "new", tmp_path / "usual"
    usual.touch()
    with files.open_atomically(path, force=False) as file:
        file.write(b"content")
        assert not path.exists()
    assert path.read_bytes() == b"content"
    assert path.stat().st_mode == usual.stat().st_mode
    assert sorted(tmp_path.iterdir()) == [path, usual]


@pytest.mark.usefixtures("way")
def test_a_file_is_replaced_only_if_asked(tmp_path: Path) -> None:
    path = tmp_path / "file"
    files.write_atomically(path, b"before", force=False)
    with pytest.raises(OutputError, match="exists already"):
        files.write_atomically(path, b"after", force=False)
    assert path.read_bytes() == b"before"
    files.write_atomically(path, b"after", force=True)
    assert path.read_bytes() == b"after"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.usefixtures("way")
def test_a_file_that_somebody_else_makes_meanwhile_stays(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with pytest.raises(OutputError, match="exists already"), files.open_atomically(path, force=False) as file:
        file.write(b"ours")
        path.write_bytes(b"theirs")
    assert path.read_bytes() == b"theirs"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.usefixtures("way")
def test_nothing_is_left_of_a_failure(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), files.open_atomically(tmp_path / "file", force=True) as file:
        file.write(b"half")
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_left_of_a_process_that_is_killed(tmp_path: Path) -> None:
    skip_unless_unnamed(tmp_path)
    command = [sys.executable, "-P", "-c", WRITES_AND_IS_KILLED, str(tmp_path / "file")]
    done = subprocess.run(command, check=False, env=dict(os.environ), timeout=60)
    assert done.returncode == -signal.SIGKILL
    assert list(tmp_path.iterdir()) == []
