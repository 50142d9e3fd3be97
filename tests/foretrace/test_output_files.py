"""Files that are written: whole, or not there, and never over what foretrace did not write."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from warm_command_line import warm_command_line

from foretrace.base import files
from foretrace.base.errors import OutputError
from foretrace.base.file_kinds import PICTURE, PROFILE, SIGNATURE, STREAM, TIMING, VALIDATION, FileKind, kind_of

WRITES_AND_IS_KILLED = """
import os, signal, sys
from pathlib import Path
from foretrace.base.file_kinds import TIMING
from foretrace.base.files import open_atomically
with open_atomically(Path(sys.argv[1]), TIMING, force=False) as file:
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
    with files.open_atomically(path, TIMING, force=False) as file:
        file.write(b"content")
        assert not path.exists()
    assert path.read_bytes() == b"content"
    assert path.stat().st_mode == usual.stat().st_mode
    assert sorted(tmp_path.iterdir()) == [path, usual]


@pytest.mark.usefixtures("way")
def test_a_file_is_replaced_only_if_asked(tmp_path: Path) -> None:
    path = tmp_path / "file"
    before, after = b'{"schema": "foretrace.timing/2", "n": 1}', b'{"schema": "foretrace.timing/1", "n": 2}'
    files.write_atomically(path, before, TIMING, force=False)
    with pytest.raises(OutputError, match=r"exists already.*--force"):
        files.write_atomically(path, after, TIMING, force=False)
    assert path.read_bytes() == before
    files.write_atomically(path, after, TIMING, force=True)
    assert path.read_bytes() == after
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.usefixtures("way")
def test_a_file_that_somebody_else_makes_meanwhile_stays(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with pytest.raises(OutputError, match="exists already"), files.open_atomically(path, TIMING, force=False) as file:
        file.write(b"ours")
        path.write_bytes(b"theirs")
    assert path.read_bytes() == b"theirs"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.usefixtures("way")
def test_nothing_is_left_of_a_failure(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), files.open_atomically(tmp_path / "file", TIMING, force=True) as file:
        file.write(b"half")
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_left_of_a_process_that_is_killed(tmp_path: Path) -> None:
    skip_unless_unnamed(tmp_path)
    command = [sys.executable, "-P", "-c", WRITES_AND_IS_KILLED, str(tmp_path / "file")]
    done = subprocess.run(command, check=False, env=dict(os.environ))
    assert done.returncode == -signal.SIGKILL
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("way")
def test_what_somebody_else_writes_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "results.txt"
    with pytest.raises(OutputError, match="nothing that foretrace wrote"):  # noqa: SIM117
        with files.open_atomically(path, TIMING, force=True) as file:
            file.write(b"ours")
            path.write_bytes(b"the program's own results")
    assert path.read_bytes() == b"the program's own results"
    assert list(tmp_path.iterdir()) == [path]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[FileKind, Path]:
    """A file of each kind that foretrace writes, written by the command line."""
    if shutil.which("qemu-x86_64") is None:
        pytest.skip("needs qemu-x86_64 (Debian package qemu-user)")
    pytest.importorskip("matplotlib", reason="draws pictures")
    directory = tmp_path_factory.mktemp("made")
    trace = ["trace", "-o", "a.sig", "--keep-stream", "a.fts", "--", "/bin/true"]
    time = ["time", "-o", "a.timing", "--", "/bin/true"]
    for command in (trace, time, *(["curve", "a.sig", "-o", f"a.{kind}"] for kind in ("svg", "png", "pdf"))):
        assert warm_command_line().run(command, directory).returncode == 0
    profile = Path(__file__).parents[2] / "profiles" / "machines" / "power6.toml"
    (directory / "a.toml").write_bytes(profile.read_bytes())
    measured = Path(__file__).parents[2] / "benchmarks" / "measured" / "epyc-turin-vm.json"
    (directory / "a.json").write_bytes(measured.read_bytes())
    names = {SIGNATURE: "a.sig", STREAM: "a.fts", TIMING: "a.timing", PROFILE: "a.toml", VALIDATION: "a.json"}
    return {kind: directory / name for kind, name in (names | {PICTURE: "a.svg"}).items()}


def test_each_kind_of_file_is_recognised(made: dict[FileKind, Path]) -> None:
    assert {kind: kind_of(path) for kind, path in made.items()} == {kind: kind for kind in made}
    for suffix in (".png", ".pdf"):
        assert kind_of(made[PICTURE].with_suffix(suffix)) is PICTURE


def test_force_replaces_files_of_the_same_kind_and_no_others(made: dict[FileKind, Path], tmp_path: Path) -> None:
    others = {
        "precious.f90": b"program precious\nend\n",
        "database.sqlite": made[SIGNATURE].read_bytes()[:68] + bytes(4) + made[SIGNATURE].read_bytes()[72:],
        "picture.svg": b'<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg"/>',
        "data.json": b'{"schema": "somebody.timing/1"}',
    }
    for kind in made:
        for name, content in others.items():
            path = tmp_path / name
            path.write_bytes(content)
            for force in (False, True):
                with pytest.raises(OutputError, match=r"nothing that foretrace wrote.*choose another name"):
                    files.write_atomically(path, b"ours", kind, force=force)
            assert path.read_bytes() == content
        for other, path in made.items():
            copy = tmp_path / f"copy{path.suffix}"
            shutil.copyfile(path, copy)
            if other is kind:
                files.write_atomically(copy, b"ours", kind, force=True)
                assert copy.read_bytes() == b"ours"
            else:
                with pytest.raises(OutputError, match=f"is {other.title}: --force replaces only {kind.title}"):
                    files.write_atomically(copy, b"ours", kind, force=True)
                assert copy.read_bytes() == path.read_bytes()


def test_an_empty_file_is_replaced_with_force_as_mktemp_makes_it(tmp_path: Path) -> None:
    path = tmp_path / "empty"
    path.touch()
    with pytest.raises(OutputError, match="--force"):
        files.write_atomically(path, b"ours", SIGNATURE, force=False)
    files.write_atomically(path, b"ours", SIGNATURE, force=True)
    assert path.read_bytes() == b"ours"


@pytest.mark.parametrize("force", [False, True])
def test_symbolic_links_are_followed(force: bool, made: dict[FileKind, Path], tmp_path: Path) -> None:
    link, there = tmp_path / "link", tmp_path / "there"
    link.symlink_to("there")
    files.write_atomically(link, made[SIGNATURE].read_bytes(), SIGNATURE, force=force)  # it leads to no file yet
    if force:
        files.write_atomically(link, made[SIGNATURE].read_bytes(), SIGNATURE, force=True)
        there.write_bytes(b"precious")
    with pytest.raises(OutputError, match=r"link: .*--force"):
        files.write_atomically(link, b"ours", SIGNATURE, force=force)
    assert link.is_symlink()
    assert there.read_bytes() == (b"precious" if force else made[SIGNATURE].read_bytes())
    circle = tmp_path / "circle"
    circle.symlink_to("circle")
    with pytest.raises(OutputError, match="lead nowhere"):
        files.write_atomically(circle, b"ours", SIGNATURE, force=force)


@pytest.mark.parametrize("force", [[], ["--force"]])
@pytest.mark.parametrize(
    "command",
    [
        ["trace", "-o", "{}", "--", "/bin/true"],
        ["trace", "-o", "x.sig", "--keep-stream", "{}", "--", "/bin/true"],
        ["time", "-o", "{}", "--", "/bin/true"],
        ["calibrate", "-o", "{}"],
        ["simulate", "a.fts", "--convert", "{}"],
        ["simulate", "a.fts", "--convert", "{}", "--to", "din"],
        ["validate", "--machine", "a.toml", "-o", "{}.json"],
        ["validate", "--compare", "a.json", "--compare", "a.json", "--directory", ".", "-o", "{}.json"],
        ["validate", "--machine", "a.toml", "-o", "{}.svg"],
        ["curve", "a.sig", "-o", "{}.svg"],
        ["sgbench", "-o", "{}.svg"],
        ["machines", "show", "power6", "-o", "{}.svg"],
    ],
    ids=" ".join,
)
def test_no_writer_replaces_what_is_no_file_of_its_own(
    command: list[str],
    force: list[str],
    made: dict[FileKind, Path],
    foretrace: Callable[..., subprocess.CompletedProcess[str]],
    tmp_path: Path,
) -> None:
    suffix = next((word[2:] for word in command if word.startswith("{}")), "")
    targets = {name: tmp_path / f"{name}{suffix}" for name in ("pipe", "precious", "device", "terminal")}
    os.mkfifo(targets["pipe"])
    targets["precious"].write_text("precious")
    targets["device"].symlink_to("/dev/null")
    targets["terminal"].symlink_to("/dev/stderr")
    verb, *rest = command
    if verb == "machines":
        verb, *rest = "machines", "show", *force, *rest[1:]
    else:
        rest = [*force, *rest]
    tried = list(targets) if force else ["pipe", "precious"]
    messages = ""
    for name in tried:
        target = targets[name]
        arguments = [str(target) if word.startswith("{}") else word for word in rest]
        result = foretrace(verb, *arguments, cwd=made[SIGNATURE].parent)  # its standard error output is a file
        assert result.returncode == 75, name
        messages += result.stderr
    assert targets["precious"].read_text() == "precious"
    assert targets["pipe"].is_fifo()
    assert targets["device"].is_symlink()
    assert Path("/dev/null").is_char_device()
    lines = messages.splitlines()
    expected = ["is a pipe", "nothing that foretrace wrote", "is a device", "a name of an open file"]
    for line, words in zip(lines, expected[: len(tried)], strict=True):
        assert line.startswith("foretrace: error: ")
        assert words in line


def test_a_file_of_another_kind_is_not_advised_to_be_overwritten(
    made: dict[FileKind, Path], foretrace: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    (tmp_path / "notes").write_text("precious")
    signature, timing = made[SIGNATURE], made[TIMING]
    for command, words in (
        (["info", timing], f"is a timing, not a signature; it is for: foretrace predict SIGNATURE --timing {timing}"),
        (["info", made[PROFILE]], "is a machine profile, not a signature; it is for: foretrace machines show "),
        (["info", "notes"], "is not a signature; make one, in a file of another name, with: foretrace trace -o FILE"),
        (["predict", signature, "--machine", "power6", "--timing", signature], "is a signature, not a timing; it is"),
        (["machines", "show", signature], "is a signature, not a machine profile; it is for: foretrace info "),
        (["predict", signature, "--machine", timing], "is a timing, not a machine profile; it is for: foretrace pred"),
        (["predict", signature, "--machine", "power6", "--timing", "notes"], "is not a timing; make one, in a file of"),
    ):
        result = foretrace(*command, cwd=tmp_path)
        assert result.returncode in (73, 74, 82)
        assert words in result.stderr
    assert not list(tmp_path.glob("*.sig"))


def test_standard_output_is_said_to_be_for_text_only(
    made: dict[FileKind, Path], foretrace: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    for name in ("-", "/dev/stdout"):
        for options in (("-o", name), ("-o", "x.sig", "--keep-stream", name)):
            result = foretrace("trace", *options, "--", "/bin/echo", "hello", cwd=tmp_path)
            assert (result.returncode, result.stdout) == (75, "")
            assert "cannot be written to standard output; name a file" in result.stderr
        result = foretrace("time", "-o", name, "--", "/bin/echo", "hello", cwd=tmp_path)
        assert result.returncode == 0
        assert result.stdout.startswith('hello\n{\n "schema": "foretrace.timing/2"')
    assert list(tmp_path.iterdir()) == []
