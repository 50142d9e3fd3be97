"""The cell magic of IPython and notebooks: `%load_ext foretrace`, then `%%foretrace`."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .predictions import Prediction, Predictions, predict
from .tracing import Trace, trace

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


def register(shell: InteractiveShell) -> None:
    """Give an IPython shell the magic."""
    magic: Any = importlib.import_module("IPython.core.magic_arguments")

    def foretrace(line: str, cell: str) -> Trace | Prediction | Predictions:
        """Trace this cell in a fork of the kernel. Its assignments do not come back; what it prints appears."""
        given = magic.parse_argstring(described, line)
        run = trace_cell(shell, cell)
        if given.output:
            shell.user_ns[given.output] = run
        return predict(run, *given.machines) if given.machines else run

    described: Any = foretrace
    for option in (
        magic.argument("-o", "--output", metavar="NAME", help="Keep the traced run in this variable."),
        magic.argument("machines", nargs="*", help="Show the prediction for these machines, not the traced run."),
        magic.magic_arguments(),
    ):
        described = option(described)
    shell.register_magic_function(described, "cell", "foretrace")


def trace_cell(shell: InteractiveShell, cell: str) -> Trace:
    """Trace the code of a cell in a fork of the kernel.

    Args:
        shell: whose variables the code has.
        cell: the code, as typed.

    Raises:
        SyntaxError: it is no code.
        TracedFunctionError: it raised an exception.
    """
    source: str = shell.transform_cell(cell)  # type: ignore[no-untyped-call]
    name = shell.compile.cache(source, shell.execution_count, raw_code=cell)
    code = compile(source, name, "exec")
    variables = shell.user_ns

    def this_cell() -> None:
        exec(code, variables)

    this_cell.__qualname__ = f"cell {shell.execution_count}"
    this_cell.__module__ = "notebook"
    return trace(this_cell)
