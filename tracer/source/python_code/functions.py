"""The functions of a Python module, each lowered with its own names."""

from __future__ import annotations

import ast
import builtins

from foretrace.tracer.source.form import records as form
from foretrace.tracer.source.form.types import UNKNOWN
from foretrace.tracer.source.form.walk import expressions, statements, within

from .expressions import TooDeepError
from .library import Imports
from .scope import MUTATING, FunctionNode, Shape, parameters
from .statements import Statements


def lower_module(tree: ast.Module, text: str) -> tuple[tuple[form.Function, ...], tuple[form.Skipped, ...]]:
    """The form of a module's functions, its top level last, and the skipped parts."""
    imports = Imports(tree)
    functions: list[form.Function] = []
    skipped: list[form.Skipped] = []
    defined = frozenset(
        node.name for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
    )
    module_shape = Shape(tree, tree.body)
    module_names = frozenset(module_shape.assigned) - defined
    constants = _constants(tree, module_shape)
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
        for constant, variable in constants.items():
            if constant in shape.read and constant not in shape.assigned and constant not in lowering.variables:
                lowering.variables[constant] = variable
        listed = tuple(argument.arg for argument in parameters(node))
        functions.append(_finished(name, place, listed, lowering, body, module_names, skipped))
    lowering = Statements(imports, defined, module_shape, form.Storage.GLOBAL)
    place = form.Place(1, 1, max(text.count("\n"), 1))
    functions.append(_finished("<module>", place, (), lowering, tree.body, module_names, skipped))
    return tuple(functions), tuple(skipped)


def _constants(tree: ast.Module, shape: Shape) -> dict[str, form.Variable]:
    """Arrays of numbers that the module binds once and that no function assigns: `WEIGHTS = np.array([...])`."""
    bound: dict[str, int] = {}
    changed: set[str] = set()
    for part in ast.walk(tree):
        match part:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                bound[name] = bound.get(name, 0) + 1
            case ast.Subscript(value=ast.Name(id=name), ctx=ast.Store() | ast.Del()):
                changed.add(name)
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method)) if method in MUTATING:
                changed.add(name)
    found: dict[str, form.Variable] = {}
    for node in tree.body:
        match node:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ):
                elements = _elements(value)
                if elements and bound[name] == 1 and name not in changed:
                    kind = form.ScalarType(form.Kind.FLOAT if any(map(_floating, elements)) else form.Kind.INTEGER, 8)
                    array = form.ArrayType(kind, (form.Constant(len(elements)),), alias=False)
                    found[name] = form.Variable(array, form.Storage.GLOBAL, constant=True)
    return found


def _elements(value: ast.expr) -> list[ast.expr]:
    """The numbers of a list, of a tuple, or of an array made from either; [] for other expressions."""
    match value:
        case ast.Call(func=ast.Attribute(attr="array" | "asarray"), args=[inner, *_]):
            return _elements(inner)
        case ast.List(elts=elements) | ast.Tuple(elts=elements) if all(map(_number, elements)):
            return elements
        case ast.Constant(value=bytes() as data):
            return [ast.Constant(one) for one in data]
    return []


def _number(node: ast.expr) -> bool:
    match node:
        case ast.Constant(value=value):
            return isinstance(value, (int, float))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _number(operand)
    return False


def _floating(node: ast.expr) -> bool:
    return any(isinstance(part, ast.Constant) and isinstance(part.value, float) for part in ast.walk(node))


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
