"""Program that a command line runs, compiled or Python, found as a shell and the kernel would find it.

The first line of a script is followed (execve(2), "Interpreter scripts"), also through env(1), so that a Python script
is traced as Python whatever its name, and another script as the interpreter that runs it.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from foretrace.base.errors import EngineError, ProgramError, quoted

PYTHON_SUFFIXES = (".py", ".pyw", ".pyz")
_MOST_INTERPRETERS = 5  # in a row, as Linux has it (BINPRM recursion)
_FIRST_LINE_BYTES = 4096
_PYTHON = re.compile(r"python(\d+(\.\d+)*)?t?d?")
_LONG_FIRST_LINE = re.compile(rb"#!/bin/sh\n'''exec' ([^\n]+) \"\$0\" \"\$@\"\n")
"""First line as pip and distlib write it, if it is too long for the kernel or has a space."""
_ASK = (
    "import sys; print(sys.implementation.cache_tag + sys.abiflags, sys.version.split()[0], sys.executable, sep='\\n')"
)


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python interpreter that our agent runs in: its path, version, and the options that a script's first line has.

    `options` are None where it is given those that foretrace's own interpreter was started with.
    """

    path: str
    version: str
    options: tuple[str, ...] | None = None


class Target(StrEnum):
    """Kind of Python target. The values are the arguments that select it in foretrace's bootstrap."""

    SCRIPT = "--"
    MODULE = "-m"
    CODE = "-c"


@dataclass(frozen=True, slots=True)
class PythonProgram:
    """A Python program: a script, by its path, a module or code. Without `interpreter`, the one that runs foretrace."""

    target: str
    arguments: tuple[str, ...] = ()
    kind: Target = Target.SCRIPT
    interpreter: Interpreter | None = None

    @property
    def command(self) -> tuple[str, ...]:
        """Command line that runs it without foretrace."""
        interpreter = self.interpreter or Interpreter(sys.executable, "")
        kind = () if self.kind is Target.SCRIPT else (self.kind.value,)
        return interpreter.path, *(interpreter.options or ()), *kind, self.target, *self.arguments


@dataclass(frozen=True, slots=True)
class CompiledProgram:
    """A program with its arguments; of a script in another language, its interpreter with the script.

    `environment` holds variables that it is given beside its own, and `preloads` libraries that are loaded before any
    other.
    """

    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    preloads: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PythonCall:
    """A function of this interpreter, to be called in a fork of it. `name` stands for the command in the signature."""

    function: Callable[[], object]
    name: str


def launch_of(program: Sequence[str]) -> PythonProgram | CompiledProgram:
    """The program that a name and arguments run.

    Raises:
        ProgramError: the program does not exist, may not be run, or its interpreter is missing.
        EngineError: its interpreter is a Python that the agent was not built for.
    """
    if program[0].endswith(PYTHON_SUFFIXES):
        return PythonProgram(program[0], tuple(program[1:]))
    command = tuple(program)
    for _ in range(_MOST_INTERPRETERS):
        path = find_program(command[0])
        name = command[0] if "/" in command[0] else str(path)  # as the kernel passes it on
        words = first_line(path)
        if not words:
            return CompiledProgram(command)
        interpreter, *options = words
        try:
            found = find_program(interpreter)
        except ProgramError as error:
            raise ProgramError(f"{name}: is a script, whose first line names its interpreter: {error}") from None
        if _PYTHON.fullmatch(found.name):
            return PythonProgram(name, command[1:], interpreter=_interpreter(name, found, tuple(options)))
        command = (str(found), *options, name, *command[1:])
    raise ProgramError(f"{program[0]}: its first line names a script, and so on, more than {_MOST_INTERPRETERS} times")


def python_program_behind(command: Sequence[str]) -> tuple[str, ...]:
    """Target and arguments of a Python command, as `foretrace trace` takes them; empty for other commands.

    `python -E script.py x` gives `script.py x`, `python -m module` gives `-m module`.
    """
    if not _PYTHON.fullmatch(Path(command[0]).name):
        return ()
    for number, word in enumerate(command[1:], 1):
        if not word.startswith("-"):
            is_value = command[number - 1] in ("-X", "-W")
            if not is_value:
                return tuple(command[number:])
        elif word in ("-m", "-c"):
            return tuple(command[number:])
    return ()


def first_line(path: Path) -> list[str]:
    """The interpreter that a script's first line names, and its option, if it has one; empty for no script.

    What env(1) would start is named in its place.
    """
    try:
        with path.open("rb") as file:
            content = file.read(_FIRST_LINE_BYTES)
    except OSError:
        return []
    if not content.startswith(b"#!"):
        return []
    if found := _LONG_FIRST_LINE.match(content):
        return _words(os.fsdecode(found[1]))
    line = os.fsdecode(content[2:].split(b"\n", 1)[0]).strip(" \t")
    interpreter, _, rest = line.replace("\t", " ").partition(" ")
    option = rest.strip(" ")
    if Path(interpreter).name == "env" and option:
        words = _words(option.removeprefix("-S")) if option.startswith("-S") else [option]
        if words and not words[0].startswith("-") and "=" not in words[0]:
            return words
    return [interpreter, *([option] if option else [])] if interpreter else []


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:  # a quotation that does not end
        return text.split()


def _interpreter(script: str, path: Path, options: tuple[str, ...]) -> Interpreter:
    """A script's Python, if our agent runs in it.

    Raises:
        ProgramError: it does not run.
        EngineError: it is another Python than the one the agent was built for.
    """
    version = sys.version.split()[0]
    if is_own_python(path):
        return Interpreter(str(path), version, options)
    try:
        done = subprocess.run([path, "-c", _ASK], capture_output=True, text=True, timeout=20, stdin=subprocess.DEVNULL)
        tag, version, executable = done.stdout.splitlines()
    except (OSError, ValueError, subprocess.TimeoutExpired):
        raise ProgramError(f"{script}: its interpreter {path} does not run") from None
    if tag != f"{sys.implementation.cache_tag}{sys.abiflags}":
        raise EngineError(
            f"{script}: runs in Python {version} ({executable}), this foretrace in {sys.version.split()[0]}; install "
            f"foretrace there and trace with it: {executable} -m pip install foretrace"
        )
    return Interpreter(executable, version, options)


def is_own_python(path: Path) -> bool:
    """Whether this is the interpreter that runs us, by one of its names in one directory: `python`, `python3`."""
    own = Path(sys.executable)
    return path.absolute().parent == own.parent and path.samefile(own)


def find_program(name: str) -> Path:
    """The file that `name` runs, looked up as a shell would.

    Raises:
        ProgramError: the file does not exist, or may not be executed.
    """
    if not name:
        raise ProgramError("the program's name is empty; name a program, e.g. ls")
    if "/" not in name:
        found = shutil.which(name)
        if found:
            return Path(found)
        if Path(name).is_file():
            raise ProgramError(f"{name}: no such program in PATH; for the file in this directory write ./{name}")
        raise ProgramError(f"{name}: no such program in PATH")
    path = Path(name)
    status = status_of(name)
    if stat.S_ISDIR(status.st_mode):
        raise ProgramError(f"{name}: is a directory, not a program")
    if not os.access(path, os.X_OK):
        raise ProgramError(f"{name}: {_why_not_executable(name, status)}")
    return path


def status_of(name: str) -> os.stat_result:
    """Status of a program's file.

    Raises:
        ProgramError: the file does not exist, or may not be looked at.
    """
    try:
        return Path(name).stat()
    except (FileNotFoundError, NotADirectoryError):
        raise ProgramError(f"{name}: no such file") from None
    except OSError as error:
        raise ProgramError(f"{name}: cannot be looked at: {error.strerror}") from None
    except ValueError:  # a NUL in the name
        raise ProgramError(f"{quoted(name)}: no such file") from None


def _why_not_executable(name: str, status: os.stat_result) -> str:
    is_ours = os.geteuid() in (0, status.st_uid)
    mode = f"{stat.S_IMODE(status.st_mode):04o}"
    if is_ours and not status.st_mode & (stat.S_IXUSR if os.geteuid() else 0o111):
        return f"is not executable; if it is a program, make it so with chmod +x {shlex.quote(name)}"
    if os.statvfs(name).f_flag & os.ST_NOEXEC:
        return "lies on a file system that is mounted noexec; copy it to another one"
    return f"belongs to {_user_name(status.st_uid)}, and its mode {mode} does not let you execute it; ask its owner"


def _user_name(number: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"
