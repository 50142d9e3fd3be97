"""Which part may import which. The direction keeps every part usable, and testable, without those above it."""

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

ALLOWED = {
    "leaves": set(),
    "cache_sim": {"leaves"},
    "profiles": {"leaves", "cache_sim"},  # a profile's caches are a hierarchy
    "tracer": {"leaves", "cache_sim"},
    "benchmarks": {"leaves", "cache_sim", "profiles", "replay"},  # whose event loop is measured next to SimPy's
    "replay": {"leaves", "cache_sim", "tracer", "profiles"},
    "validation": {
        "leaves",
        "cache_sim",
        "tracer",
        "profiles",
        "benchmarks",
        "replay",
    },  # the model beside measurements
    "face": {"leaves", "cache_sim", "tracer", "profiles", "benchmarks", "replay", "validation"},
}
FOLDERS = ("cache_sim", "profiles", "tracer", "benchmarks", "replay")


def part_of(module):
    """The part that `foretrace.x.y` belongs to."""
    if module.startswith("foretrace.benchmarks.validation"):
        return "validation"
    name = [*module.split("."), ""][1]
    return name if name in FOLDERS else "leaves" if name == "base" else "face"


def module_of(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    parts = parts if parts[0] == "foretrace" else ("foretrace", *parts)
    return ".".join(parts)


def imported_modules(path):
    """(module, line) of every import in a file, also those inside functions, relative ones made absolute."""
    package = module_of(path).rsplit(".", 1)[0]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            source = ".".join([*above, *filter(None, [node.module])])
            for alias in node.names:
                # `from foretrace import units` imports a module, `from foretrace.base.units import x` a name in one
                yield (f"{source}.{alias.name}" if source == "foretrace" else source), node.lineno


def sources():
    found = [*(ROOT / "foretrace").rglob("*.py")]
    for folder in FOLDERS:
        found += (ROOT / folder).rglob("*.py")
    programs = ROOT / "benchmarks" / "programs"  # what is traced: users of foretrace, if anything
    return sorted(path for path in found if programs not in path.parents)


def test_imports_point_downwards():
    wrong = [
        f"{path}:{line}: {part_of(module_of(path))} imports {module}"
        for path in sources()
        for module, line in imported_modules(path)
        if module.split(".")[0] == "foretrace"
        and part_of(module) not in ALLOWED[part_of(module_of(path))] | {part_of(module_of(path))}
    ]
    assert not wrong, "\n".join(wrong)


def test_imports_name_the_installed_package_or_are_relative():
    bare = [
        f"{path}:{line}: imports {module}, write foretrace.{module}"
        for path in sources()
        for module, line in imported_modules(path)
        if module.split(".")[0] in FOLDERS
    ]
    assert not bare, "\n".join(bare)


def test_the_scan_sees_imports_of_every_form(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    path = tmp_path / "tracer" / "x.py"
    path.parent.mkdir()
    path.write_text(
        "import foretrace.replay\nfrom foretrace import cli\ndef f():\n from ..profiles import y\n from . import z\n"
    )
    assert [part_of(module) for module, _ in imported_modules(path)] == ["replay", "face", "profiles", "tracer"]


def test_c_cores_compile_without_python():
    """One binding file per extension has Python.h: the one whose name starts with an underscore."""
    for folder in FOLDERS:
        for path in [*(ROOT / folder).rglob("*.c"), *(ROOT / folder).rglob("*.h")]:
            includes_python = "#include <Python.h>" in path.read_text()
            assert not includes_python or path.name.startswith("_") or (ROOT / "tracer" / "python") in path.parents, (
                path
            )
