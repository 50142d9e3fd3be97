"""Loops of source text counted by keywords, which shares nothing with `loop_text`.

Comments and quoted texts are blanked first, with one regular expression for each language.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

_C_BLANK = re.compile(r'R"(\w*)\((?:.|\n)*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'|//.*|/\*(?:.|\n)*?\*/')
_FORTRAN_BLANK = re.compile(r"'[^'\n]*'|\"[^\"\n]*\"|!.*")
_FORTRAN = re.compile(
    r"(?:^|;)[ \t]*(?:\d+[ \t]+)?(?:\w+[ \t]*:[ \t]*)?"
    r"(?:do[ \t]*(?:$|\d+[ \t]*,?[ \t]*\w+[ \t]*=|\d+,?[ \t]*while|,?[ \t]*\w+[ \t]*=.*,|while\b|concurrent\b)"
    r"|forall\b(?![ \t]*=))",
    re.IGNORECASE | re.MULTILINE,
)
_FORTRAN_HEADER = re.compile(
    r"^[ \t]*(?:end[ \t]*do|(?:end[ \t]*)?subroutine|implicit[ \t]+none)\b", re.IGNORECASE | re.MULTILINE
)


def keywords_in(path: Path) -> int:
    """The number of loops in a file's text."""
    text = path.read_text(errors="replace")
    if path.suffix == ".py":
        try:
            return sum(isinstance(node, ast.For | ast.While | ast.AsyncFor) for node in ast.walk(ast.parse(text)))
        except SyntaxError:  # of Python 2
            return len(re.findall(r"^[ \t]*(?:for\b.*\bin\b|while\b).*:", text, re.MULTILINE))
    is_header = path.suffix.lower() in (".h", ".inc") and _FORTRAN_HEADER.search(text)
    if path.suffix.lower() in (".f", ".f90") or is_header:
        if path.suffix.lower() == ".f":
            text = "\n".join("" if line[:1] in "cC*!" else line[:72] for line in text.splitlines())
            text = re.sub(r"\n     [^ 0\n]", "", text)
        text = re.sub(r"&[ \t]*\n[ \t]*&?", " ", _FORTRAN_BLANK.sub(" ", text))
        nested = None
        while nested != text:  # commas between parentheses divide no bounds: `dofz = min(a, b)`
            nested, text = text, re.sub(r"\([^()\n]*\)", "", text)
        return len(_FORTRAN.findall(text))
    text = _C_BLANK.sub(" ", text)
    text = re.sub(r"(?m)^[ \t]*#[ \t]*(?!define)\w+.*", " ", text.replace("\\\n", " "))
    # The `while` that ends a `do` stands for it.
    return len(re.findall(r"\bfor\s*(?:constexpr\s*)?\(", text)) + len(re.findall(r"\bwhile\s*\(", text))
