"""Loops in the text of C and C++: a scanner of tokens that knows comments, strings, directives and braces."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from .branches import Branches
from .records import LoopText, TextLoop

_TOKEN = re.compile(
    r"""
    (?P<skipped>//(?:\\\r?\n|[^\n])*|/\*.*?(?:\*/|\Z)
        |(?:u8|[uUL])?R"(?P<mark>[^\s()\\"]{0,16})\(.*?(?:\)(?P=mark)"|\Z)
        |(?:u8|[uUL])?"(?:\\.|[^"\\\n])*"?|(?:u8|[uUL])?'(?:\\.|[^'\\\n])*'?)
    |(?P<splice>\\\r?\n)
    |(?P<newline>\n)
    |(?P<word>[A-Za-z_$][\w$]*)
    |(?P<number>\.?\d(?:[\w.]|'(?=\w))*)
    |(?P<mark_>[^\s])
    """,
    re.DOTALL | re.VERBOSE,
)
_DIRECTIVE = re.compile(r"[ \t]*(\w*)")
_LINE_END = re.compile(r"(?:\\\r?\n|/\*.*?(?:\*/|\Z)|//(?:\\\r?\n|[^\n])*|[^\n\\]|\\)*?(?=\n|\Z)", re.DOTALL)
_MACRO = re.compile(r"[ \t]*([A-Za-z_]\w*)(\([^)\n]*\))?")
_NEVER_AGAIN = re.compile(r"\s*\(\s*(?:0|false)\s*\)")


@dataclass
class _Do:
    """A `do` whose `while` has not come yet."""

    line: int
    column: int
    braces: int
    parentheses: int
    state: str = "start"
    """"start": its body comes; "block" and "simple": inside the body; "behind": the body has ended."""
    place: int = 0
    """Number of loops found before it."""
    branches: tuple[tuple[int, str], ...] = ()


@dataclass
class _State:
    braces: int = 0
    parentheses: int = 0
    open: list[_Do] = field(default_factory=list)

    def copy(self) -> _State:
        return _State(self.braces, self.parentheses, list(self.open))


def loops_in(text: str) -> LoopText:
    """The loops of a file of C or C++."""
    return _Scanner(text).run()


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.loops: list[tuple[int, TextLoop]] = []
        self.macros: dict[str, dict[str, None]] = {}
        self.branches = Branches()
        self.state = _State()
        self.saved: list[_State] = []
        self.line, self.counted = 1, 0

    def run(self) -> LoopText:
        self.part(0, len(self.text), "")
        kept = tuple((name, tuple(words)) for name, words in self.macros.items() if words)
        loops = sorted((loop for _, loop in self.loops), key=lambda loop: (loop.line, loop.column))
        return LoopText(tuple(loops), tuple(self.branches.includes), kept)

    def place(self, position: int) -> tuple[int, int]:
        """Line and column of a position; positions only grow."""
        self.line += self.text.count("\n", self.counted, position)
        self.counted = position
        return self.line, position - self.text.rfind("\n", 0, position)

    def part(self, first: int, end: int, macro: str) -> None:
        """The tokens from `first` on; those of a macro's definition have no directives."""
        at_start, position = True, first
        state = self.state
        while position < end:
            found = _TOKEN.search(self.text, position, end)
            if found is None:
                break
            position = found.end()
            kind = found.lastgroup
            if kind == "newline":
                at_start = True
                continue
            if kind in ("skipped", "splice", "mark"):
                continue
            token = found[0]
            if token == "#" and at_start and not macro:
                position = self.directive(position)
                state = self.state
                continue
            at_start = False
            if kind == "word" and macro:
                self.macros[macro].setdefault(token)
            self.token(token, found.start(), position, macro, state)

    def token(self, token: str, start: int, end: int, macro: str, state: _State) -> None:
        waiting = state.open[-1] if state.open else None
        if waiting is not None and waiting.state == "behind":
            if token == "while":
                state.open.pop()
                once = _NEVER_AGAIN.match(self.text, end) is not None
                loop = TextLoop(waiting.line, waiting.column, waiting.branches, macro, once)
                self.loops.append((waiting.place, loop))
                return
            if token == "else":
                waiting.state = "simple"
                return
            state.open.pop()
            waiting = None
        if waiting is not None and waiting.state == "start":
            waiting.state = "block" if token == "{" else "simple"
        match token:
            case "for" | "while":
                if _opens(self.text, end):
                    line, column = self.place(start)
                    self.loops.append((len(self.loops), TextLoop(line, column, self.branches.around(), macro)))
            case "do":
                line, column = self.place(start)
                state.open.append(_Do(line, column, state.braces, state.parentheses, place=len(self.loops),
                                      branches=self.branches.around()))  # fmt: skip
            case "(":
                state.parentheses += 1
            case ")":
                state.parentheses = max(0, state.parentheses - 1)
            case "{":
                state.braces += 1
            case "}":
                state.braces -= 1
                self.ended(state, "block")
            case ";":
                self.ended(state, "simple")

    def ended(self, state: _State, kind: str) -> None:
        """A statement ended here: perhaps the body of a `do`."""
        while state.open and state.braces < state.open[-1].braces:
            state.open.pop()  # its block ended without a `while`
        if state.open:
            last = state.open[-1]
            level = (state.braces, state.parentheses) == (last.braces, last.parentheses)
            if level and (last.state == kind or (last.state == "simple" and kind == "block")):
                last.state = "behind"

    def directive(self, position: int) -> int:
        """Takes a directive from after its "#" on; returns the position of its end."""
        found = _DIRECTIVE.match(self.text, position)
        assert found is not None
        word, start = found[1], found.end()
        line, _ = self.place(position)
        ending = _LINE_END.match(self.text, start)
        end = ending.end() if ending else len(self.text)
        if word in ("if", "ifdef", "ifndef"):
            self.saved.append(self.state.copy())
        elif word in ("else", "elif", "elifdef", "elifndef") and self.saved:
            self.state = self.saved[-1].copy()
        elif word == "endif" and self.saved:
            self.saved.pop()
        self.branches.directive(word, self.text[start:end], line)
        if word == "define":
            self.define(start, end)
        return end

    def define(self, start: int, end: int) -> None:
        found = _MACRO.match(self.text, start, end)
        if found is None:
            return
        self.macros.setdefault(found[1], {})
        outer, self.state = self.state, _State()
        self.part(found.end(), end, found[1])
        self.state = outer


def _opens(text: str, position: int) -> bool:
    """Whether a parenthesis follows, comments and line ends left out."""
    while True:
        found = _TOKEN.search(text, position)
        if found is None:
            return False
        if found.lastgroup in ("skipped", "splice", "newline", "mark"):
            position = found.end()
            continue
        return found[0] == "(" or found[0] in ("constexpr", "each", "__extension__")
