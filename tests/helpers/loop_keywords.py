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
    r"(?:^|;)[ ]*(?:\d+[ ]+)?(?:\w+[ ]*:[ ]*)?"
    r"(?:do[ ]*(?:$|\d+[ ]+\w+[ ]*=|\d+,?[ ]*while|\w+[ ]*=.*,|while\b|concurrent\b)|forall[ ]*\()",
    re.IGNORECASE | re.MULTILINE,
)


def keywords_in(path: Path) -> int:
    """How many loops a file's text has."""
    text = path.read_text(errors="replace")
    if path.suffix == ".py":
        return sum(isinstance(node, ast.For | ast.While | ast.AsyncFor) for node in ast.walk(ast.parse(text)))
    if path.suffix.lower() in (".f", ".f90"):
        if path.suffix.lower() == ".f":
            text = "\n".join("" if line[:1] in "cC*!" else line[:72] for line in text.splitlines())
            text = re.sub(r"\n     [^ 0\n]", "", text)
        text = re.sub(r"&[ \t]*\n[ \t]*&?", " ", _FORTRAN_BLANK.sub(" ", text))
        return len(_FORTRAN.findall(text))
    text = _C_BLANK.sub(" ", text)
    text = re.sub(r"#[ \t]*(?!define)\w+.*", " ", text.replace("\\\n", " "))
    # The `while` that ends a `do` stands for it.
    return len(re.findall(r"\bfor\s*(?:constexpr\s*)?\(", text)) + len(re.findall(r"\bwhile\s*\(", text))
