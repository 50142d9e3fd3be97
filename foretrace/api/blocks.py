"""Blocks of code: taking the body of a `with` statement from its source, and not running it here.

Python has no way to skip the body of a `with` statement but an exception that is raised at its first line. It is raised
by a trace function, which is there for that line alone, and ends at the statement.
"""

from __future__ import annotations

import ast
import dis
import inspect
import linecache
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

from foretrace.base.errors import ForetraceError

from .views import cell_name

_HINT = "put the code into a function, and trace that: foretrace.trace(function)"

_MOST_CODE_FLAG = 0xFFFF
"""Flags of `__future__` lie above those of code objects; some names of old share those."""


class SkipBlock(BaseException):
    """Raised at a block's first line: it has run elsewhere."""


class Block:
    """The body of the `with` statement that a frame has come to."""

    def __init__(self, frame: types.FrameType) -> None:
        """Find it in the source.

        Raises:
            ForetraceError: there is no such statement, its source is not at hand, or its body cannot run by itself.
        """
        self._frame = frame
        self._code = frame.f_code
        self.node = self._statement()
        file = self._code.co_filename
        self.name = f"{cell_name(file) or Path(file).name}:{self.node.lineno}"

    def _statement(self) -> ast.With:
        lines = linecache.getlines(self._code.co_filename, self._frame.f_globals)
        line = self._frame.f_lineno
        if not lines:
            raise ForetraceError(f"the source of this block ({self._code.co_filename}) is not at hand; {_HINT}")
        try:
            tree = ast.parse("".join(lines))
        except SyntaxError as error:
            raise ForetraceError(f"the source of this block cannot be read again ({error}); {_HINT}") from None
        node, item = self._item(tree)
        if node.body[0].lineno == line:
            raise ForetraceError("the block to trace stands on the line of its `with`: put it on lines of its own")
        if item is not node.items[-1]:
            raise ForetraceError("foretrace.trace() must be the last item of its `with` statement")
        return node

    def _item(self, tree: ast.Module) -> tuple[ast.With, ast.withitem]:
        """The statement, and its item that the frame is about to enter.

        The instruction that enters has the place of the item's expression from Python 3.13 on, of the statement before.
        """
        places = [*self._code.co_positions()]
        here = places[self._frame.f_lasti // 2]
        entered = [
            one.offset
            for one in dis.get_instructions(self._code)
            if one.opname == "BEFORE_WITH" and places[one.offset // 2] == here
        ]
        if self._frame.f_lasti in entered:
            for node in (node for node in ast.walk(tree) if isinstance(node, ast.With)):
                for item in node.items:
                    if here == _place(item.context_expr):
                        return node, item
                if here == _place(node):
                    return node, node.items[entered.index(self._frame.f_lasti) % len(node.items)]
        raise ForetraceError("foretrace.trace() without a program is for a `with` statement of its own")

    def function(self) -> Callable[[], object]:
        """The body as a function to call in a fork of this interpreter.

        Raises:
            ForetraceError: it cannot run by itself: it has a `yield`, an `await`, or a `break` of a loop around it.
        """
        is_module = self._frame.f_locals is self._frame.f_globals
        try:
            return self._of_module() if is_module else self._of_function()
        except SyntaxError as error:
            raise ForetraceError(f"this block cannot run by itself: {error.msg}; {_HINT}") from None

    def _of_module(self) -> Callable[[], object]:
        code = compile(ast.Module(self.node.body, []), self._code.co_filename, "exec", self._flags, True)
        variables = self._frame.f_globals

        def run() -> None:
            exec(code, variables)

        return run

    def _of_function(self) -> Callable[[], object]:
        """A function of the enclosing one's name, whose parameters are the enclosing one's variables."""
        values = {name: value for name, value in self._frame.f_locals.items() if name.isidentifier()}
        # Names that the enclosing function declares global are not among its variables: they stay global.
        parameters = ast.arguments([], [ast.arg(name) for name in values], None, [], [], None, [])
        made = ast.FunctionDef(self._code.co_name, parameters, self.node.body, [], None, None)
        module = ast.fix_missing_locations(ast.Module([ast.copy_location(made, self.node)], []))
        outer = compile(module, self._code.co_filename, "exec", self._flags, True)
        code = next(constant for constant in outer.co_consts if isinstance(constant, types.CodeType))
        if code.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
            raise SyntaxError("it has a yield")
        code = code.replace(co_name=self._code.co_name, co_qualname=self._code.co_qualname)
        function = types.FunctionType(code, self._frame.f_globals)
        return lambda: function(**values)

    @property
    def _flags(self) -> int:
        """Compiler flags of the `from __future__` imports."""
        import __future__

        every: list[int] = [getattr(__future__, name).compiler_flag for name in __future__.all_feature_names]
        return self._code.co_flags & sum(flag for flag in set(every) if flag > _MOST_CODE_FLAG)

    def skip(self) -> None:
        """Have `SkipBlock` raised at the body's first line in this frame."""
        frame, first, last = self._frame, self.node.body[0].lineno, self.node.end_lineno or 0
        first = min([first, *(one.lineno for one in getattr(self.node.body[0], "decorator_list", []))])
        self._before, self._before_here = sys.gettrace(), frame.f_trace

        def at_line(reached: types.FrameType, event: str, argument: Any) -> Any:
            if reached is frame and event == "line" and first <= frame.f_lineno <= last:
                raise SkipBlock
            return at_line if reached is frame else None

        frame.f_trace = at_line
        sys.settrace(lambda reached, event, argument: None)

    def restore(self) -> None:
        """Give tracing back to whoever had it: an exception in a trace function takes it away."""
        sys.settrace(self._before)
        self._frame.f_trace = self._before_here


def _place(node: ast.expr | ast.stmt) -> tuple[int, int | None, int, int | None]:
    return node.lineno, node.end_lineno, node.col_offset, node.end_col_offset
