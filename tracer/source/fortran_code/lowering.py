"""Fortran files lowered to the source form: program units, statements, loops."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from foretrace.base.errors import SourceError
from foretrace.tracer.source.form import records as form
from foretrace.tracer.source.form.walk import expressions, statements, within

from .declarations import SPECIFICATIONS, Declarations
from .expressions import text_of
from .layout import is_fixed
from .scope import Scope, modules_of

if TYPE_CHECKING:
    from tree_sitter import Node
from .parsing import INCLUDES, MOST_INCLUDES, NOT_PARSED, SourceFile, lines_of, parsed, parsed_include, place_of
from .statements import IGNORED, Statements

_UNITS = frozenset({"program", "module", "submodule", "subroutine", "function", "block_data", "module_procedure"})
_INSIDE = frozenset({"internal_procedures"})


def lower_file(path: Path, defined: Mapping[str, str] | None = None) -> form.Unit:
    """A Fortran file's form.

    Args:
        path: of the file; fixed form by its suffix, free form otherwise.
        defined: preprocessor symbols.

    Raises:
        SourceError: the file cannot be read.
        ModuleNotFoundError: tree-sitter or its Fortran grammar is not installed.
    """
    import tree_sitter
    import tree_sitter_fortran

    parser = tree_sitter.Parser(tree_sitter.Language(tree_sitter_fortran.language()))
    file = SourceFile(path, parser, defined or {}, [str(path)])
    lines = lines_of(path)
    file.fixed = is_fixed(path, lines)
    root = parsed(file, lines, 0)
    try:
        _units(file, root, None, "")
    except RecursionError:
        file.skip(form.Place(1), "file", "nested too deeply")
    return form.Unit(
        str(path), form.Language.FORTRAN, tuple(file.files), len(lines), tuple(file.functions), tuple(file.skipped)
    )


def _units(file: SourceFile, node: Node, host: Scope | None, prefix: str, number: int = 0) -> None:
    """Lower the program units directly inside a node, and in files that it includes. Modules come first: others use
    them."""
    for child in node.named_children:
        if child.type in INCLUDES:
            included = parsed_include(file, child, number, wrapped=False)
            if included is not None:
                _units(file, included[0], host, prefix, included[1])
                file.including.pop()
    units = [child for child in node.named_children if child.type in _UNITS]
    for child in node.named_children:
        if child.type not in _UNITS and child.type not in IGNORED and (child.type == "ERROR" or child.is_missing):
            file.skip(place_of(child, number), "statement", NOT_PARSED)
    loose = [child for child in node.named_children if child.type not in _UNITS | IGNORED | {"ERROR"}]
    for unit in sorted(units, key=lambda one: one.type != "module"):
        try:
            _unit(file, unit, host, prefix, number)
        except RecursionError:
            file.skip(place_of(unit, number), "function", "nested too deeply")
    if loose and host is None and not file.including:  # a main program without a PROGRAM statement
        _unit(file, node, host, prefix, number)


def _unit(file: SourceFile, node: Node, host: Scope | None, prefix: str, number: int) -> None:
    head = node.named_children[0] if node.named_children else node
    name = next((text_of(child).lower() for child in head.named_children if child.type == "name"), "")
    parameters = _parameters(head)
    is_module = node.type in ("module", "submodule")
    scope = Scope(host=host, open_modules=host is not None and host.open_modules)
    _declare_siblings(node, scope)
    _assigned(node, scope)
    declarations = Declarations(scope, parameters, is_module)
    lowering = Statements(file, scope, number)
    _specify(file, node, scope, declarations, lowering, number)
    result = _result(node, head, name, scope, declarations)
    if is_module:
        file.modules[name] = scope
    full = f"{prefix}{name}" if name else "main"
    if node.type not in ("module", "submodule", "block_data"):
        body = lowering.block([child for child in node.children if child.type not in _UNITS | _INSIDE])
        variables = _used(body, scope, parameters)
        file.functions.append(form.Function(full, place_of(node, number), parameters, variables, body, result))
    for child in node.named_children:
        if child.type in _INSIDE:
            _units(file, child, scope, f"{full}::", number)


def _parameters(head: Node) -> tuple[str, ...]:
    listed = next((child for child in head.named_children if child.type == "parameters"), None)
    if listed is None:
        return ()
    return tuple(text_of(child).lower() for child in listed.named_children if child.type == "identifier")


def _result(node: Node, head: Node, name: str, scope: Scope, declarations: Declarations) -> form.Type | None:
    """Declares a function's result, and says its type."""
    if node.type != "function":
        return None
    named = next((child for child in head.named_children if child.type == "function_result"), None)
    result = text_of(named.named_children[0]).lower() if named is not None and named.named_children else name
    type_node = head.child_by_field_name("type")
    if type_node is not None:
        scope.variables.setdefault(result, form.Variable(declarations.type_of(type_node)))
    kind = scope.variables[result].type if result in scope.variables else scope.implicit_type(result)
    scope.variables[result] = form.Variable(kind, form.Storage.REFERENCE)
    return kind


def _declare_siblings(node: Node, scope: Scope) -> None:
    """Declare the functions that the unit contains, and those next to it in its parent."""
    around = [child for child in node.named_children if child.type in _INSIDE]
    if node.parent is not None:
        around.append(node.parent)
    for group in around:
        for child in group.named_children:
            if child.type == "function" and child != node:
                head = child.named_children[0]
                for one in head.named_children:
                    if one.type == "name":
                        scope.functions.add(text_of(one).lower())
                        if re.search(r"\b(pure|elemental)\b", text_of(head), re.IGNORECASE):
                            scope.pure.add(text_of(one).lower())


def _assigned(node: Node, scope: Scope) -> None:
    """Names with indices left of "="."""
    pending = [child for child in node.named_children if child.type not in _INSIDE]
    while pending:
        current = pending.pop()
        if current.type == "assignment_statement":
            left = current.child_by_field_name("left")
            if left is not None and left.type == "call_expression" and left.named_children[0].type == "identifier":
                scope.assigned.add(text_of(left.named_children[0]).lower())
        elif current.type not in ("math_expression", "call_expression", "argument_list"):
            pending.extend(current.named_children)


def _specify(
    file: SourceFile, node: Node, scope: Scope, declarations: Declarations, lowering: Statements, number: int
) -> None:
    """Enter the specifications of a unit, and of the files it includes, into its scope."""
    for child in node.named_children:
        if child.type in SPECIFICATIONS:
            declarations.declare(child, lambda module: _module(file, module))
        elif child.type in INCLUDES:
            included = parsed_include(file, child, number)
            if included is not None:
                root, inner = included
                _specify(file, root, scope, declarations, lowering, inner)
                file.including.pop()
        elif child.type == "assignment_statement":
            lowering.statement_function(child)


def _module(file: SourceFile, name: str) -> Scope | None:
    """A module's scope: from this file, or from another file of its folder."""
    if name not in file.modules:
        file.modules[name] = None  # for modules that use one another
        path = modules_of(file.path.parent).get(name)
        if path is not None and path != file.path:
            file.modules[name] = _read_module(file, name, path)
    return file.modules[name]


def _read_module(file: SourceFile, name: str, path: Path) -> Scope | None:
    """The declarations of a module in another file, which thereby becomes one of those this one depends on."""
    if len(file.including) >= MOST_INCLUDES:
        return None
    try:
        lines = lines_of(path)
    except SourceError:
        return None
    if str(path) not in file.files:
        file.files.append(str(path))
    other = SourceFile(
        path, file.parser, file.defined, [str(path)], modules=file.modules, including=[*file.including, path]
    )
    other.fixed = is_fixed(path, lines)
    for child in parsed(other, lines, 0).named_children:
        if child.type == "module" and child.named_children:
            found = next((text_of(one).lower() for one in child.named_children[0].named_children), "")
            if found == name:
                scope = Scope()
                _declare_siblings(child, scope)
                lowering = Statements(other, scope, 0)
                _specify(other, child, scope, Declarations(scope, (), True), lowering, 0)
                return scope
    return None


def _used(body: Sequence[form.Statement], scope: Scope, parameters: Sequence[str]) -> dict[str, form.Variable]:
    """The variables that statements use, and those that their types mention."""
    found: dict[str, form.Variable] = {}
    pending = [
        part.name
        for statement in statements(body)
        for expression in expressions(statement)
        for part in within(expression)
        if isinstance(part, form.Name)
    ]
    pending += [
        part.name
        for statement in statements(body)
        for expression in expressions(statement)
        for member in within(expression)
        if isinstance(member, form.Member) and member.type is not None
        for extent in _extents(member.type)
        for part in within(extent)
        if isinstance(part, form.Name)
    ]
    pending += [statement.variable for statement in statements(body) if isinstance(statement, form.Loop)]
    pending += parameters
    while pending:
        name = pending.pop()
        known = scope.find(name)
        if name in found or not name or (known is None and name.startswith("%")):
            continue
        if known is None:
            storage = form.Storage.REFERENCE if name in parameters else form.Storage.LOCAL
            known = form.Variable(scope.implicit_type(name), storage)
        found[name] = known
        mentioned = [known.value] if known.value is not None else []
        mentioned += _extents(known.type)
        pending += [part.name for one in mentioned for part in within(one) if isinstance(part, form.Name)]
    return found


def _extents(kind: form.Type) -> list[form.Expression]:
    if not isinstance(kind, form.ArrayType):
        return []
    return [extent for extent in (*kind.shape, *kind.lower) if extent is not None]
