"""Docstrings whose first words hint at a thing and do not name it, and a sample of docstrings to be read.

`python tests/helpers/prose.py [SEED]`, or `make prose ARGS=SEED`.
"""

from __future__ import annotations

import ast
import random
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from import_graph import FOLDERS, ROOT

HINT = re.compile(r"(What|Of|The same|Where|How|Which|Those|That|As|Such)\b")
SAMPLED = 20


def docstrings() -> Iterator[tuple[Path, int, str, str]]:
    """File, line, name and first line of each docstring of the package."""
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if "programs" in path.parts:
                continue
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                    text = ast.get_docstring(node)
                    if text:
                        name = path.stem if isinstance(node, ast.Module) else node.name
                        yield path.relative_to(ROOT), getattr(node, "lineno", 1), name, text.splitlines()[0]


def main() -> None:
    """Print the hints by room, then the sample."""
    found = list(docstrings())
    hints = [one for one in found if HINT.match(one[3])]
    for path, line, name, text in hints:
        print(f"{path}:{line}: {name}: {text}")
    rooms = Counter(str(path.parent) for path, *_ in hints)
    print("\n" + ", ".join(f"{room} {count}" for room, count in rooms.most_common()))
    print(f"{len(hints)} of {len(found)} docstrings begin with a hint\n")
    for path, line, name, text in random.Random(sys.argv[1] if len(sys.argv) > 1 else "0").sample(found, SAMPLED):
        print(f"{path}:{line}: {name}: {text}")


if __name__ == "__main__":
    main()
