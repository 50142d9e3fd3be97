"""Runs inside the traced program's interpreter, before the program: loads the agent, then gets out of the way.

    python main.py --fd N --agent PATH --core NAME -- SCRIPT ARGS...
    python main.py --fd N --agent PATH --core NAME -m MODULE ARGS...
    python main.py --fd N --agent PATH --core NAME -c CODE ARGS...

In a child of a traced program, in place of N, stands where to ask for a stream; without one it runs alone.

It leaves `sys` as the program alone would find it, and runs the program with no frame of ours above its first.
"""

import sys

TYPE_CHECKING = False  # and no `import typing`, which the program might never have asked for
if TYPE_CHECKING:
    from types import ModuleType

_SCRIPT, _MODULE, _CODE = range(3)  # see run() in _agent.c
_ARGUMENTS = 7  # this file, --fd, N, --agent, PATH, --core, NAME


def _load_agent(path: str) -> "ModuleType":
    import _frozen_importlib
    import _imp

    agent = _imp.create_dynamic(_frozen_importlib.ModuleSpec("_foretrace._agent", None, origin=path))
    _imp.exec_dynamic(agent)
    return agent


def _forget_ourselves() -> None:
    """Remove our arguments, our directory and the traces of its import from `sys`."""
    skipped = _ARGUMENTS + (sys.argv[_ARGUMENTS] == "--")
    position = len(sys.orig_argv) - len(sys.argv)
    del sys.orig_argv[position : position + skipped]
    sys.path_importer_cache.pop(sys.argv[0], None)
    if not sys.flags.safe_path:
        del sys.path[0]
    del sys.argv[:skipped]


def _absolute(path: str) -> str:
    """A script's path as the interpreter writes it."""
    import posix

    return path if path.startswith("/") else f"{posix.getcwd()}/{path}"


def _exists(path: str) -> bool:
    import posix

    try:
        posix.stat(path)
    except (OSError, ValueError):
        return False
    return True


def _run_alone() -> None:
    """Become the program as it was to be run."""
    import posix

    posix.execv(sys.executable or "/proc/self/exe", sys.orig_argv)


def _set_first_path(agent: "ModuleType", name: str, kind: int) -> bool:
    """Set sys.path[0] as the interpreter does; returns whether `name` is a directory or an archive with a program."""
    import posix

    if kind == _SCRIPT and agent.importable(name):
        sys.path.insert(0, name)
        return True
    if sys.flags.safe_path:
        return False
    if kind == _SCRIPT:
        from posixpath import dirname, realpath

        sys.path.insert(0, dirname(realpath(name)))
    else:
        sys.path.insert(0, posix.getcwd() if kind == _MODULE else "")
    return False


def _main() -> None:
    bootstrap, stream, agent_path, core = sys.argv[0], sys.argv[2], sys.argv[4], sys.argv[6]
    modules = set(sys.modules)
    agent = _load_agent(agent_path)
    kind = {"-m": _MODULE, "-c": _CODE}.get(sys.argv[_ARGUMENTS], _SCRIPT)
    _forget_ourselves()
    name = _absolute(sys.argv[0]) if kind == _SCRIPT else sys.argv.pop(1)
    if ":" in stream and kind == _SCRIPT and not _exists(name):
        _run_alone()
    is_package = _set_first_path(agent, name, kind)
    for module in set(sys.modules) - modules:
        del sys.modules[module]
    try:
        agent.attach(stream, core, bootstrap, agent_path, sys.orig_argv)
    except OSError:
        if ":" not in stream:
            raise
        _run_alone()
    agent.run("__main__" if is_package else name, _MODULE if is_package else kind, not is_package)


_main()
