"""A traced Python program sees, says and does what it does without us."""

from __future__ import annotations

import itertools
import re
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from effort import IS_FULL, sweep
from polling import wait_until
from python_runs import RUNNER, run_plain, run_traced

from foretrace.base.errors import ProgramError
from foretrace.tracer.python.program import PythonCore, PythonEngine, interpreter_options

SCRIPTS = {
    "interpreter.py": """
        import sys
        print(sorted(sys.modules), sys.path, sys.argv, sys.orig_argv[1:], sys.flags, sep="\\n")
        print(sorted(vars(sys.modules["__main__"]).items(), key=str), sorted(sys.path_importer_cache), sep="\\n")
        print(sys.gettrace(), sys.getprofile(), sys._getframe().f_back, __annotations__)
        import inspect, os, traceback
        print(len(inspect.stack()), len(traceback.extract_stack()), sorted(os.listdir("/proc/self/fd")))
        print({name: value for name, value in os.environ.items() if name != "_"})
        print(sys.stdin.read(), open(__file__).read() == inspect.getsource(sys.modules["__main__"]))
    """,
    "raises.py": """
        import atexit, sys, threading, warnings
        atexit.register(lambda: print("goodbye"))
        warnings.warn("careful")
        def fail(): raise ValueError("a reason")
        thread = threading.Thread(target=fail, name="worker")
        thread.start(); thread.join()
        sys.stdout.write("not a line")
        try: fail()
        except ValueError as error: raise KeyError("another") from error
    """,
    "excepthook.py": """
        import sys
        sys.excepthook = lambda kind, value, tb: print("hooked", kind, value, tb.tb_lineno, tb.tb_frame.f_back)
        1 / 0
    """,
    "syntax.py": "x = 1\ndef f(:\n",
    "exit_text.py": 'raise SystemExit("gone")',
    "exit_3.py": "import sys; sys.exit(3)",
    "exit_none.py": "raise SystemExit",
    "hard_exit.py": 'import os; print("now", flush=True); os._exit(5)',
    "interrupted.py": "raise KeyboardInterrupt",
    "killed.py": "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
    "recursion.py": """
        import sys
        def down(n): return down(n + 1)
        try: down(0)
        except RecursionError as error: print(error, sys.getrecursionlimit())
    """,
    "processes.py": """
        import multiprocessing, os, pickle, sys
        class Item:
            def __init__(self, x): self.x = x
        def double(item): return Item(item.x * 2)
        if __name__ == "__main__":
            pid = os.fork()
            if not pid: os._exit(7)
            print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
            for method in ("fork", "spawn"):
                with multiprocessing.get_context(method).Pool(2) as pool:
                    print([item.x for item in pool.map(double, [Item(1), Item(2)])])
            print(pickle.loads(pickle.dumps(Item(3))).x, Item.__module__)
    """,
    "tracer.py": """
        import _thread, cProfile, sys, threading
        events = []
        def note(frame, event, argument):
            if frame.f_code.co_name == "traced": events.append((event, frame.f_lineno))
            return note
        def traced(x):
            y = x + 1
            return y
        sys.settrace(note); traced(1); print(sys.gettrace() is note); sys.settrace(None); traced(2)
        threading.settrace(note)
        thread = threading.Thread(target=traced, args=(1,)); thread.start(); thread.join()
        print(events, sys.gettrace())
        profile = cProfile.Profile(); profile.runcall(traced, 3); print(profile.getstats()[0].callcount)
        done = threading.Event()
        def bad():
            try: raise RuntimeError("in a bare thread")
            finally: done.set()
        _thread.start_new_thread(bad, ()); done.wait()
        import time; time.sleep(0.1)
    """,
    "generators.py": """
        import asyncio, contextlib, traceback
        def squares():
            try:
                while True: (yield 1)
            except GeneratorExit: print("closed")
        it = squares(); next(it); it.send(2); it.close()
        async def later(n):
            await asyncio.sleep(0)
            return [i async for i in counted(n)]
        async def counted(n):
            for i in range(n): yield i
        print(asyncio.run(later(3)))
        @contextlib.contextmanager
        def translated():
            try: yield
            except ValueError as error: raise KeyError("k") from error
        try:
            with translated(): raise ValueError("v")
        except KeyError: traceback.print_exc()
        exec(compile("for i in range(3):\\n  last = i\\n", "<made up>", "exec")); print(last)
        class Dying:
            def __del__(self): print("deleted")
        kept = Dying()
    """,
    "package/__main__.py": 'import sys; print(__name__, __package__, __spec__.name, sys.argv, sys.path[0])',
    "package/__init__.py": "",
    "package/bad.py": "raise ValueError(1)",
    "bare/__main__.py": """
        import sys
        print(__name__, repr(__package__), __spec__ and __spec__.name, sys.argv, sys.path[0], __file__)
        raise SystemExit(4)
    """,
}  # fmt: skip

COMMANDS = [
    *(name for name in SCRIPTS if "/" not in name),
    "./raises.py",
    "../{here}/syntax.py one two",
    "link.py",
    "bare",
    "bare.zip one",
    "-m package one",
    "-m package.bad",
    "-m nowhere",
    "-m interrupted",
    "-m exit_3",
]


def dedent(source: str) -> str:
    lines = source.strip("\n").splitlines()
    indent = len(lines[0]) - len(lines[0].lstrip()) if lines else 0
    return "\n".join(line[indent:] for line in lines) + "\n"


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("scripts")
    for name, source in SCRIPTS.items():
        path = directory / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(dedent(source))
    (directory / "link.py").symlink_to("raises.py")
    with zipfile.ZipFile(directory / "bare.zip", "w") as archive:
        archive.write(directory / "bare" / "__main__.py", "__main__.py")
    return directory


def scrubbed(result: subprocess.CompletedProcess[str]) -> tuple[int, str, str]:
    """Without what differs from run to run: addresses."""
    return result.returncode, *(re.sub(r"0x[0-9a-f]{6,}", "0x", text) for text in (result.stdout, result.stderr))


# In short: the core that is taken without being asked for, and for one script of each way to end the other one too.
@sweep(
    ("command", "core"), list(itertools.product(COMMANDS, PythonCore)),
    [*((command, PythonCore.MARKERS) for command in COMMANDS), ("./raises.py", PythonCore.SETTRACE),
     ("-m exit_3", PythonCore.SETTRACE), ("-m interrupted", PythonCore.SETTRACE)],
)  # fmt: skip
def test_same_behaviour(scripts: Path, command: str, core: PythonCore) -> None:
    arguments = command.format(here=scripts.name).split()
    plain = scrubbed(run_plain(scripts, *arguments))
    assert scrubbed(run_traced(scripts, *arguments, core=core)) == plain


CODES = {
    "interpreter": """if True:
        import os, sys
        print(sorted(sys.modules), sys.path, sys.argv, sys.orig_argv[1:], sys.flags, sep="\\n")
        print(sorted(vars(sys.modules["__main__"]).items(), key=str), sorted(sys.path_importer_cache), sep="\\n")
        print(sys.gettrace(), sys._getframe().f_back, sorted(os.listdir("/proc/self/fd")), "__file__" in globals())
    """,
    "imports from here": "import empty; print(empty.__file__)",
    "raises": "import sys\nsys.stdout.write('no line')\nsys.stderr.write('error')\n1 / 0",
    "exits": "raise SystemExit(5)",
    "interrupted": "raise KeyboardInterrupt",
    "syntax": "x = = 1",
    "not ASCII": "print('\N{GREEK SMALL LETTER PI}')",
    "empty": "",
}


# In short: all codes with the core that is taken without being asked for, one with the other one.
@sweep(
    ("name", "core"), list(itertools.product(CODES, PythonCore)),
    [*((name, PythonCore.MARKERS) for name in CODES), ("interpreter", PythonCore.SETTRACE)],
)  # fmt: skip
def test_code_behaves_the_same(scripts: Path, name: str, core: PythonCore) -> None:
    (scripts / "empty.py").touch()
    for arguments in ((), ("-c", "--", "x")) if IS_FULL or name == "interpreter" else ((),):
        plain = scrubbed(run_plain(scripts, "-c", CODES[name], *arguments))
        assert scrubbed(run_traced(scripts, "-c", CODES[name], *arguments, core=core)) == plain


@pytest.mark.parametrize("options", [("-I",), ("-P", "-Wignore"), ("-X", "dev"), ("-O", "-W", "error")])
def test_options_of_the_interpreter_are_kept(scripts: Path, options: tuple[str, ...]) -> None:
    for script in ("raises.py", "interpreter.py"):
        plain = scrubbed(run_plain(scripts, script, options=options))
        assert scrubbed(run_traced(scripts, script, options=options)) == plain


def test_arguments_that_end_the_options() -> None:
    assert interpreter_options(["-X", "dev", "-Wd", "-m", "foretrace", "-X"]) == ["-X", "dev", "-Wd"]
    assert interpreter_options(["-Im", "foretrace"]) == ["-I"]
    assert interpreter_options(["-BW", "error", "/bin/foretrace", "-I"]) == ["-BW", "error"]
    assert interpreter_options(["--check-hash-based-pycs", "never", "x.py"]) == ["--check-hash-based-pycs", "never"]
    assert interpreter_options(["-c", "pass"]) == []
    assert interpreter_options([]) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_reaches_the_program_and_its_handler(tmp_path: Path, number: signal.Signals) -> None:
    script = tmp_path / "waits.py"
    script.write_text(
        "import signal, sys, time\n"
        "def handler(number, frame):\n"
        "    print('got', number, frame.f_code.co_name)\n"
        "    sys.exit(9)\n"
        f"signal.signal({int(number)}, handler)\n"
        "print('ready', flush=True)\n"
        "while True: time.sleep(0.01)\n"
    )
    command = [sys.executable, "-P", "-c", RUNNER, "markers", str(script)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        assert process.stdout.read() == f"got {int(number)} <module>\n"
    assert process.returncode == 9


def test_what_a_handler_raises_is_raised_in_the_program(tmp_path: Path) -> None:
    """Wherever the signal arrives: in the middle of the lines that are timed now and then, too."""
    script = tmp_path / "alarms.py"
    script.write_text(
        "import signal, time\n"
        "def handler(number, frame):\n"
        "    raise KeyError(frame.f_code.co_name)\n"
        "signal.signal(signal.SIGALRM, handler)\n"
        "caught = []\n"
        "for _ in range(200):\n"
        "    try:\n"
        "        signal.setitimer(signal.ITIMER_REAL, 0.003)\n"
        "        for _ in range(500):\n"
        "            time.sleep(0.0005)\n"
        "    except KeyError as error:\n"
        "        caught.append(error.args)\n"
        "print(len(caught), set(caught))\n"
    )
    command = [sys.executable, "-P", "-c", RUNNER, "markers", str(script)]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout == "200 {('<module>',)}\n"


def test_the_program_outlives_its_tracer(tmp_path: Path) -> None:
    script, finished = tmp_path / "lasting.py", tmp_path / "finished"
    script.write_text(
        "import os, pathlib, sys\n"
        "print(os.getpid(), flush=True)\n"
        "sys.stdin.readline()\n"
        "total = 0\n"
        "for i in range(2_000_000): total += i\n"
        f"pathlib.Path({str(finished)!r}).write_text(str(total))\n"
    )
    command = [sys.executable, "-P", "-c", RUNNER, "markers", str(script)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        process.stdout.readline()
        process.kill()
        process.wait()
        process.stdin.write("go\n")
        process.stdin.close()
        process.stdout.read()  # until the program, which has it too, has ended
    wait_until(lambda: finished.exists() and finished.read_text())
    assert finished.read_text() == str(sum(range(2_000_000)))


def test_what_is_no_script_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(ProgramError, match="no such file"):
        PythonEngine(str(tmp_path / "missing.py"), [])
    with pytest.raises(ProgramError, match="directory without a __main__"):
        PythonEngine(str(tmp_path / "empty"), [])
