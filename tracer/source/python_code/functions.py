"""The functions of a Python module, each lowered with its own names."""

from __future__ import annotations

import ast
import builtins

from foretrace.tracer.source.form import records as form
from foretrace.tracer.source.form.types import UNKNOWN
from foretrace.tracer.source.form.walk import expressions, statements, within

from .expressions import TooDeepError
from .library import Imports
from .scope import FunctionNode, Shape, parameters
from .statements import Statements


def lower_module(tree: ast.Module, text: str) -> tuple[tuple[form.Function, ...], tuple[form.Skipped, ...]]:
    """The form of a module's functions, its top level last, and what was skipped."""
    imports = Imports(tree)
    functions: list[form.Function] = []
    skipped: list[form.Skipped] = []
    defined = frozenset(
        node.name for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
    )
    module_shape = Shape(tree, tree.body)
    module_names = frozenset(module_shape.assigned) - defined
    for name, node in _functions(tree):
        body: list[ast.stmt]
        if isinstance(node, ast.Lambda):
            body = [ast.Return(node.body, lineno=node.lineno, col_offset=node.col_offset)]
        else:
            body = node.body
        shape = Shape(node, body)
        lowering = Statements(imports, defined, shape, form.Storage.LOCAL)
        place = form.Place(node.lineno, node.col_offset + 1, node.end_lineno or 0)
        for argument in parameters(node):
            lowering.variables[argument.arg] = form.Variable(
                shape.type_of(argument.arg), form.Storage.PARAMETER, address_taken=argument.arg in shape.captured
            )
        listed = tuple(argument.arg for argument in parameters(node))
        functions.append(_finished(name, place, listed, lowering, body, module_names, skipped))
    lowering = Statements(imports, defined, module_shape, form.Storage.GLOBAL)
    place = form.Place(1, 1, max(text.count("\n"), 1))
    functions.append(_finished("<module>", place, (), lowering, tree.body, module_names, skipped))
    return tuple(functions), tuple(skipped)


def _functions(tree: ast.Module) -> list[tuple[str, FunctionNode]]:
    """All functions, methods and named lambdas with their qualified names, in the order of the source."""
    found: list[tuple[str, FunctionNode]] = []
    pending: list[tuple[str, ast.AST]] = [("", node) for node in reversed(tree.body)]
    while pending:
        around, node = pending.pop()
        inside = around
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                found.append((around + name, node))
                inside = f"{around}{name}.<locals>."
            case ast.ClassDef(name=name):
                inside = f"{around}{name}."
            case ast.Lambda():
                found.append((f"{around}<lambda>", node))
                inside = f"{around}<lambda>.<locals>."
        pending.extend((inside, child) for child in reversed(list(ast.iter_child_nodes(node))))
    return found


def _finished(
    name: str,
    place: form.Place,
    listed: tuple[str, ...],
    lowering: Statements,
    body: list[ast.stmt],
    module_names: frozenset[str],
    skipped: list[form.Skipped],
) -> form.Function:
    lowering.place = place
    try:
        lowering.statements(body)
    except TooDeepError:
        lowering.out[:] = [form.Opaque(place, name[: form.MOST_TEXT], "nested too deep", anything=True)]
        lowering.skipped.append(form.Skipped(place, "function", "nested too deep"))
    skipped.extend(lowering.skipped)
    variables = lowering.variables
    for statement in statements(lowering.out):
        for whole in expressions(statement):
            for part in within(whole):
                if isinstance(part, form.Name) and part.name not in variables:
                    known = part.name in lowering.shape.assigned and part.name not in lowering.shape.foreign
                    if known or part.name in module_names or part.name in lowering.shape.arrays:
                        storage = lowering.storage if known else form.Storage.GLOBAL
                        variables[part.name] = form.Variable(lowering.shape.type_of(part.name), storage)
                    elif not hasattr(builtins, part.name):
                        variables[part.name] = form.Variable(UNKNOWN, form.Storage.GLOBAL)
    return form.Function(name, place, listed, variables, tuple(lowering.out))
