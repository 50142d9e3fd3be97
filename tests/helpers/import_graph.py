"""Which room imports which: read off the sources, and kept in docs/architecture.md.

`python tests/helpers/import_graph.py` writes the table there anew.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("cache_sim", "tracer", "profiles", "benchmarks", "replay", "foretrace")
PAGE = ROOT / "docs" / "architecture.md"
BEGIN, END = "<!-- rooms: begin -->\n", "<!-- rooms: end -->\n"


def rooms() -> dict[str, str]:
    """Each package of the tree, as `tracer.reader`, and the first line of its docstring."""
    found = {}
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("__init__.py")):
            name = ".".join(path.parent.relative_to(ROOT).parts)
            found[name] = (ast.get_docstring(ast.parse(path.read_text())) or "").splitlines()[0]
    return found


def imported_names(path: Path, package: str) -> Iterator[str]:
    """Absolute names that a file of `package` imports from foretrace, relative ones made absolute."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            source = ".".join([*above, *filter(None, [node.module])])
            yield from (f"{source}.{alias.name}" for alias in node.names)


def room_of(name: str, known: set[str]) -> str | None:
    """The room that holds a module or name, `foretrace.tracer.reader.raw_trace.RawTrace`; None for others' modules."""
    parts = name.split(".")
    if parts[0] != "foretrace":
        return None
    inner = parts[1:] if len(parts) > 1 and parts[1] in FOLDERS else parts
    while inner and ".".join(inner) not in known:
        inner = inner[:-1]
    return ".".join(inner) or None


def imports() -> dict[str, set[str]]:
    """Room -> the other rooms that its files import."""
    known = set(rooms())
    found: dict[str, set[str]] = defaultdict(set)
    for room in known:
        package = room if room.split(".")[0] == "foretrace" else f"foretrace.{room}"
        for path in (ROOT / room.replace(".", "/")).glob("*.py"):
            targets = {room_of(name, known) for name in imported_names(path, package)}
            found[room] |= {target for target in targets if target} - {room}
    return found


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Rooms that import each other, directly or through others, a list for each circle."""
    import networkx

    found = networkx.strongly_connected_components(networkx.DiGraph(graph))
    return sorted(sorted(circle) for circle in found if len(circle) > 1)


def table() -> str:
    """The rooms as a Markdown table."""
    graph = imports()
    rows = ["| room | what lives there | imports |", "| --- | --- | --- |"]
    for room, what in rooms().items():
        shown = ", ".join(f"`{name}`" for name in sorted(graph[room]))
        rows.append(f"| `{room.replace('.', '/')}/` | {what} | {shown} |")
    return "\n".join(rows) + "\n"


def page() -> str:
    """The page with its table as it should be."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    return before + BEGIN + table() + END + rest.partition(END)[2]


if __name__ == "__main__":
    PAGE.write_text(page())
