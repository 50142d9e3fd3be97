"""How `foretrace trace` finds what a command line runs, and where its own options end."""

from __future__ import annotations

import json
import os
import pwd
import re
import shlex
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from foretrace.base.errors import EngineError, ProgramError
from foretrace.cli import VERBS, group
from foretrace.tracer.session.launch import (
    CompiledProgram,
    PythonProgram,
    find_program,
    first_line,
    launch_of,
    python_program_behind,
)

Run = Callable[..., "subprocess.CompletedProcess[str]"]

needs_qemu = pytest.mark.skipif(shutil.which("qemu-x86_64") is None, reason="qemu-x86_64 is not installed")


def script(path: Path, text: str, mode: int = 0o755) -> Path:
    path.write_text(text)
    path.chmod(mode)
    return path


def info(foretrace: Run, path: Path) -> dict[str, object]:
    return json.loads(foretrace("info", path, "--json").stdout)  # type: ignore[no-any-return]


PRINTS = "import sys\nfor i in range(1000):\n    i += 1\nprint(sys.argv)\nraise SystemExit(3)\n"


# ---- where options end ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [["-m", "mypkg"], ["-mmypkg"]])
def test_all_behind_a_module_is_the_modules_own(form: list[str], foretrace: Run, tmp_path: Path) -> None:
    (tmp_path / "mypkg.py").write_text(PRINTS)
    results = tmp_path / "results.txt"
    results.write_text("precious")
    own = ["-o", "results.txt", "--seed", "7", "--help", "-m", "slow", "--force", "--", "-c", "--machine", "x"]
    here = {"cwd": tmp_path, "env": os.environ | {"PYTHONPATH": "."}}
    plain = subprocess.run([sys.executable, "-P", *form, *own], capture_output=True, text=True, **here)  # type: ignore[call-overload]
    traced = foretrace("trace", "--force", "-o", "x.sig", *form, *own, **here)
    assert (traced.returncode, traced.stdout, traced.stderr) == (3, plain.stdout, "")
    assert results.read_text() == "precious"
    assert info(foretrace, tmp_path / "x.sig")["command"] == ["-m", "mypkg", *own]


@pytest.mark.parametrize("form", [["-c", PRINTS], [f"-c{PRINTS}"]], ids=["apart", "attached"])
def test_code_is_traced_line_by_line_with_its_own_arguments(form: list[str], foretrace: Run, tmp_path: Path) -> None:
    own = ["-o", "x", "--force", "-m", "--"]
    traced = foretrace("trace", "-o", tmp_path / "x.sig", *form, *own)
    assert (traced.returncode, traced.stdout, traced.stderr) == (3, f"{['-c', *own]}\n", "")
    document = info(foretrace, tmp_path / "x.sig")
    assert document["command"] == ["-c", PRINTS, *own]
    [loop] = document["loops"]  # type: ignore[misc]
    assert (loop["file"], loop["line"], loop["executions"]) == ("<string>", 2, 1000)


def leaves(command: click.Command, words: tuple[str, ...]) -> list[tuple[tuple[str, ...], click.Command]]:
    if not isinstance(command, click.Group):
        return [(words, command)]
    found = [leaf for name, sub in command.commands.items() for leaf in leaves(sub, (*words, name))]
    return [(words, command), *found]


ALL = [leaf for verb in VERBS for leaf in leaves(group.get_command(click.Context(group), verb), (verb,))]  # type: ignore[arg-type]
NAMES = [" ".join(words) for words, _ in ALL]


@pytest.mark.parametrize(("words", "command"), ALL, ids=NAMES)
def test_options_with_one_value_are_given_once(words: tuple[str, ...], command: click.Command) -> None:
    options = [p for p in command.params if isinstance(p, click.Option) and not p.is_flag and not p.multiple]
    for option in options:
        if words[0] == "trace" and option.name in ("module", "code"):
            continue  # what follows the first one is the program's
        for name in option.opts:
            attached = [f"{name}=1" if name.startswith("--") else f"{name}1"]
            for first in ([name, "1"], attached):
                with pytest.raises(click.UsageError, match=rf"^{name} is given twice \('1' and '1'\)"):
                    command.make_context(words[-1], [*first, name, "1"])


@pytest.mark.parametrize("words", [words for words, _ in ALL], ids=NAMES)
def test_an_unknown_option_is_no_program_but_a_usage_error_with_a_hint(words: tuple[str, ...], foretrace: Run) -> None:
    mistyped, meant = ("--forse", "--force") if words[0] in ("trace", "time") else ("--jsno", "--json")
    result = foretrace(*words, mistyped)
    assert result.returncode == 2
    [line] = [line for line in result.stderr.splitlines() if line.startswith("foretrace: error: ")]
    assert mistyped in line
    assert meant in line
    assert "no such program" not in line


# ---- first lines ----------------------------------------------------------------------------------------------------


def test_a_script_in_python_is_traced_as_python_whatever_its_name(foretrace: Run, tmp_path: Path) -> None:
    script(tmp_path / "tool", f"#!{sys.executable} -E\n{PRINTS}")
    path = {"env": os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}, "cwd": tmp_path}
    for number, name in enumerate(("./tool", "tool", str(tmp_path / "tool"))):
        plain = subprocess.run([name, "-o", "x"], capture_output=True, text=True, **path)  # type: ignore[call-overload]
        traced = foretrace("trace", "-o", f"{number}.sig", name, "-o", "x", **path)
        assert (traced.returncode, traced.stdout, traced.stderr) == (3, plain.stdout, plain.stderr)
        document = info(foretrace, tmp_path / f"{number}.sig")
        assert document["provenance"]["guest"] == "python"  # type: ignore[index]
        [loop] = document["loops"]  # type: ignore[misc]
        assert (loop["line"], loop["executions"]) == (3, 1000)
    time = foretrace("time", "-o", "x.timing", "./tool", **path)
    assert (time.returncode, time.stdout) == (3, "['./tool']\n")
    assert json.loads((tmp_path / "x.timing").read_text())["command"] == [sys.executable, "-E", "./tool"]


def test_a_script_of_another_environment_runs_in_its_own(foretrace: Run, tmp_path: Path) -> None:
    venv.create(tmp_path / "other env", symlinks=True)
    python = tmp_path / "other env" / "bin" / "python"
    body = "import sys\nprint(sys.executable, sys.prefix, sys.argv)\n"
    long_line = f"#!/bin/sh\n'''exec' {shlex.quote(str(python))} \"$0\" \"$@\"\n' '''\n"  # as pip writes it
    script(tmp_path / "tool", long_line + body)
    plain = subprocess.run(["./tool", "x"], cwd=tmp_path, capture_output=True, text=True)
    assert str(tmp_path / "other env") in plain.stdout
    traced = foretrace("trace", "-o", "x.sig", "./tool", "x", cwd=tmp_path)
    assert (traced.returncode, traced.stdout, traced.stderr) == (0, plain.stdout, "")


def test_a_python_that_the_agent_was_not_built_for_is_refused(tmp_path: Path) -> None:
    other = script(tmp_path / "python3", "#!/bin/sh\nprintf 'cpython-310\\n3.10.9\\n/opt/python3.10\\n'\n")
    tool = script(tmp_path / "tool", f"#!{other}\nprint()\n")
    with pytest.raises(EngineError, match=r"tool: runs in Python 3\.10\.9 \(/opt/python3\.10\).* -m pip install"):
        launch_of([str(tool)])
    script(other, "#!/bin/sh\nexit 1\n")
    with pytest.raises(ProgramError, match=r"its interpreter .*python3 does not run"):
        launch_of([str(tool)])


@needs_qemu
def test_another_script_is_traced_as_its_interpreter(foretrace: Run, tmp_path: Path) -> None:
    script(tmp_path / "s", '#!/bin/sh -e\nfor i in 1 2 3; do echo $i; done; echo "$0" "$@"; exit 4\n')
    plain = subprocess.run(["./s", "a b"], cwd=tmp_path, capture_output=True, text=True)
    traced = foretrace("trace", "-o", "x.sig", "./s", "a b", cwd=tmp_path)
    assert (traced.returncode, traced.stdout, traced.stderr) == (4, plain.stdout, plain.stderr)
    document = info(foretrace, tmp_path / "x.sig")
    assert document["command"] == ["/bin/sh", "-e", "./s", "a b"]
    assert document["totals"]["instructions"] > 10_000  # type: ignore[index]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("#!/bin/sh", ["/bin/sh"]),
        ("#! \t/bin/sh -e -x \n", ["/bin/sh", "-e -x"]),
        ("#!/usr/bin/env python3\n", ["python3"]),
        ("#!/usr/bin/env -S awk -f 'a b'\n", ["awk", "-f", "a b"]),
        ("#!/usr/bin/env -S A=1 sh\n", ["/usr/bin/env", "-S A=1 sh"]),
        ("#!/usr/bin/env\n", ["/usr/bin/env"]),
        ("#!\n", []),
        ("echo\n", []),
        ("", []),
    ],
)
def test_first_lines(line: str, words: list[str], tmp_path: Path) -> None:
    assert first_line(script(tmp_path / "s", line)) == words


def test_first_lines_are_followed_up_to_a_point(tmp_path: Path) -> None:
    shell = shutil.which("sh")
    assert shell is not None
    one = script(tmp_path / "one", "#!/usr/bin/env sh\n")
    two = script(tmp_path / "two", f"#!{one} x y\n")
    assert launch_of([str(two), "z"]) == CompiledProgram((shell, str(one), "x y", str(two), "z"))
    circle = script(tmp_path / "circle", f"#!{tmp_path / 'circle'}\n")
    with pytest.raises(ProgramError, match="more than 5 times"):
        launch_of([str(circle)])
    assert launch_of(["x.py", "y"]) == PythonProgram("x.py", ("y",))


@pytest.mark.parametrize(
    ("command", "better"),
    [
        (["python", "script.py", "x"], ("script.py", "x")),
        (["/usr/bin/python3.11", "-E", "-X", "dev", "script.py"], ("script.py",)),
        (["python3", "-W", "error", "-m", "json.tool", "x"], ("-m", "json.tool", "x")),
        (["python3", "-c", "pass"], ("-c", "pass")),
        (["python3"], ()),
        (["python3", "-V"], ()),
        (["./pythonic", "script.py"], ()),
    ],
)
def test_what_an_interpreter_is_given_to_run(command: list[str], better: tuple[str, ...]) -> None:
    assert python_program_behind(command) == better


@needs_qemu
def test_an_interpreter_as_a_compiled_program_hints_at_the_script(
    compile_c: Callable[..., Path], foretrace: Run, tmp_path: Path
) -> None:
    (tmp_path / "python3").symlink_to(compile_c('#include <stdio.h>\nint main(void) { puts("hello"); return 0; }'))
    interpreter = ("./python3", "-I", "-S")
    traced = foretrace("trace", "-o", "x.sig", "--no-tree", "--", *interpreter, "a script.py", "y", cwd=tmp_path)
    assert (traced.returncode, traced.stdout) == (0, "hello\n")
    [line] = traced.stderr.splitlines()
    assert line.startswith("foretrace: hint: ")
    assert line.endswith("foretrace trace -o x.sig 'a script.py' y")


# ---- programs that may not be run -----------------------------------------------------------------------------------


@pytest.fixture
def as_nobody() -> Callable[[Callable[[], object]], str]:
    """A function that says which ProgramError a call by another user ends with."""
    if os.geteuid():
        pytest.skip("taking on another user needs root")

    def run(call: Callable[[], object]) -> str:
        read, write = os.pipe()
        pid = os.fork()
        if not pid:
            os.setgroups([])
            os.setresgid(65534, 65534, 65534)
            os.setresuid(65534, 65534, 65534)
            try:
                call()
                os.write(write, b"ran")
            except ProgramError as error:
                os.write(write, str(error).encode())
            finally:
                os._exit(0)
        os.close(write)
        with os.fdopen(read) as said:
            text = said.read()
        os.waitpid(pid, 0)
        return text

    return run


def test_somebody_elses_program_is_not_to_be_made_executable(
    as_nobody: Callable[..., str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    directory = tmp_path_factory.mktemp("public")
    for above in (directory, *directory.parents[: directory.parents.index(Path("/tmp"))]):
        above.chmod(0o755)
    owner = pwd.getpwuid(os.geteuid()).pw_name
    for mode in (0o700, 0o600):
        theirs = script(directory / "theirs", "#!/bin/sh\n", mode)
        words = f"belongs to {owner}, and its mode {mode:04o} does not let you execute it; ask its owner"
        assert as_nobody(lambda path=theirs: find_program(str(path))) == f"{theirs}: {words}"
    mine = script(directory / "mine", "#!/bin/sh\n", 0o600)
    os.chown(mine, 65534, 65534)
    assert "is not executable; if it is a program, make it so with chmod +x" in as_nobody(
        lambda: find_program(str(mine))
    )
    hidden = directory / "hidden"
    hidden.mkdir(mode=0o700)
    words = "cannot be looked at: Permission denied"
    assert as_nobody(lambda: find_program(str(hidden / "x"))) == f"{hidden / 'x'}: {words}"


# ---- ends -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "ended"),
    [
        ("pass", "with exit code 0"),
        ("raise ValueError", r"with exit code 1 \(uncaught ValueError\)"),
        ("raise SystemExit(75)", "with exit code 75"),
        ("import os; os.kill(os.getpid(), 15)", "by SIGTERM"),
    ],
)
def test_info_shows_how_a_program_ended(code: str, ended: str, foretrace: Run, tmp_path: Path) -> None:
    traced = foretrace("trace", "-o", tmp_path / "x.sig", "-c", code)
    assert "foretrace:" not in traced.stderr
    assert re.search(rf"^ended +{ended}$", foretrace("info", tmp_path / "x.sig").stdout, re.MULTILINE)
