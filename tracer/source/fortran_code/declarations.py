"""The specification part of a Fortran program unit: types, arrays, PARAMETERs, modules in use."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import msgspec

from foretrace.tracer.source.form import records as form

from .expressions import ONE, Expressions, text_of
from .scope import Scope

if TYPE_CHECKING:
    from tree_sitter import Node

SPECIFICATIONS = frozenset({
    "variable_declaration", "variable_modification", "parameter_statement", "common_statement", "implicit_statement",
    "use_statement", "derived_type_definition", "interface", "external_statement", "save_statement",
    "equivalence_statement", "data_statement", "namelist_statement", "public_statement", "private_statement",
    "import_statement", "enumeration", "enum",
})  # fmt: skip
"""Nodes that declare and do nothing."""

_KINDS = {
    "integer": (form.Kind.INTEGER, 4), "real": (form.Kind.FLOAT, 4), "doubleprecision": (form.Kind.FLOAT, 8),
    "complex": (form.Kind.COMPLEX, 8), "doublecomplex": (form.Kind.COMPLEX, 16), "logical": (form.Kind.BOOLEAN, 4),
    "character": (form.Kind.CHARACTER, 1),
}  # fmt: skip


class Declarations:
    """Fills a scope from declarations."""

    def __init__(self, scope: Scope, parameters: tuple[str, ...], module: bool) -> None:
        """`parameters` are the dummy arguments; `module`: variables are a module's."""
        self._scope = scope
        self._expressions = Expressions(scope)
        self._parameters = frozenset(parameters)
        self._storage = form.Storage.GLOBAL if module else form.Storage.LOCAL

    def declare(self, node: Node, used: Callable[[str], Scope | None]) -> None:
        """Take one specification into the scope. `used` finds a module's scope by its name."""
        match node.type:
            case "variable_declaration":
                self._variables(node)
            case "variable_modification":
                self._modified(node)
            case "parameter_statement":
                for one in _children(node, "parameter_assignment"):
                    self._constant(text_of(one.named_children[0]).lower(), one.named_children[-1])
            case "common_statement":
                self._common(node)
            case "implicit_statement":
                self._implicit(node)
            case "use_statement":
                self._use(node, used)
            case "derived_type_definition":
                self._derived(node)
            case "interface":
                self._interface(node)

    # Types

    def type_of(self, node: Node) -> form.Type:
        """A type from `real(8)`, `type(grid)`, `character(len=80)`."""
        text = text_of(node).lower().replace(" ", "")
        if node.type == "derived_type":
            name = next((text_of(child).lower() for child in node.named_children if child.type == "type_name"), "")
            return form.StructType(name)
        base = text.split("(")[0].split("*")[0]
        kind, size = _KINDS.get(base, (form.Kind.UNKNOWN, 0))
        inner = next(iter(_children(node, "kind")), None)
        if inner is not None and kind is not form.Kind.CHARACTER:
            text = text_of(inner).strip("()* ").lower().removeprefix("kind").strip("= ")
            size = self._scope.kind_bytes(text, size)
            if kind is form.Kind.COMPLEX and "*" not in text_of(inner):
                size *= 2
        return form.ScalarType(kind, size)

    def _variables(self, node: Node) -> None:
        type_node = node.child_by_field_name("type")
        if type_node is None:
            return
        kind = self.type_of(type_node)
        words: set[str] = set()
        shape: Node | None = None
        for attribute in _children(node, "type_qualifier"):
            word = text_of(attribute).lower().replace(" ", "")
            words.add(word.split("(")[0])
            if word.startswith("intent"):
                words.add(word)
            if word.startswith("dimension"):
                shape = next(iter(_children(attribute, "argument_list")), None)
        for declarator in node.children_by_field_name("declarator"):
            self._declarator(declarator, kind, words, shape)

    def _declarator(self, node: Node, kind: form.Type, words: set[str], shape: Node | None) -> None:
        value: Node | None = None
        if node.type in ("init_declarator", "data_declarator", "pointer_init_declarator"):
            value = node.child_by_field_name("right")
            left = node.child_by_field_name("left")
            if left is None:
                return
            node = left
        name = _declared_name(node)
        if not name:
            return
        size = next(iter(_children(node, "size")), shape)
        if size is not None:
            kind = self._array(kind, size, words, name)
        elif "pointer" in words:
            kind = form.PointerType(kind)
        constant = "parameter" in words or "intent(in)" in words
        if "external" in words:
            self._scope.functions.add(name)
            return
        self._scope.variables[name] = form.Variable(
            kind,
            self._storage_of(name, words),
            constant,
            self._expressions.lower(value) if value is not None and "parameter" in words else None,
        )

    def _storage_of(self, name: str, words: set[str]) -> form.Storage:
        if name in self._parameters:
            return form.Storage.PARAMETER if "value" in words else form.Storage.REFERENCE
        if "save" in words and self._storage is form.Storage.LOCAL:
            return form.Storage.STATIC
        return self._storage

    def _array(self, element: form.Type, size: Node, words: set[str], name: str) -> form.Type:
        shape: list[form.Expression | None] = []
        lower: list[form.Expression] = []
        assumed = False
        for extent in size.named_children:
            first: form.Expression = ONE
            length: form.Expression | None = None
            if extent.type == "extent_specifier":
                bounds = self._expressions.section(extent)
                first = bounds.first or ONE
                if bounds.last is not None:
                    last = bounds.last
                    length = last if first == ONE else form.Operation("+", (form.Operation("-", (last, first)), ONE))
                else:
                    assumed = True
            elif extent.type == "comment":
                continue
            elif extent.type != "assumed_size" and text_of(extent) != "*":
                length = self._expressions.lower(extent)
            shape.append(length)
            lower.append(first)
        pointer = bool(words & {"pointer", "target"})
        strided = assumed and "allocatable" not in words and "contiguous" not in words
        return form.ArrayType(
            element, tuple(shape), tuple(lower), first_contiguous=True, strided=(strided and name in self._parameters)
            or "pointer" in words, alias=pointer,
        )  # fmt: skip

    # Other specifications

    def _modified(self, node: Node) -> None:
        """DIMENSION, EXTERNAL, SAVE, TARGET and the like for names declared elsewhere."""
        words = {text_of(child).lower().split("(")[0] for child in _children(node, "type_qualifier")}
        for declarator in node.children_by_field_name("declarator"):
            name = _declared_name(declarator)
            if "external" in words:
                self._scope.functions.add(name)
                self._scope.variables.pop(name, None)
                continue
            known = self._scope.variables.get(name)
            kind = known.type if known is not None else self._scope.implicit_type(name)
            size = next(iter(_children(declarator, "size")), None)
            if size is not None:
                kind = self._array(kind, size, words, name)
            elif isinstance(kind, form.ArrayType) and words & {"target", "pointer"}:
                kind = msgspec.structs.replace(kind, alias=True)
            elif "pointer" in words:
                kind = form.PointerType(kind)
            self._scope.variables[name] = form.Variable(kind, self._storage_of(name, words))

    def _constant(self, name: str, value: Node) -> None:
        known = self._scope.variables.get(name)
        kind = known.type if known is not None else self._scope.implicit_type(name)
        self._scope.variables[name] = form.Variable(kind, self._storage, True, self._expressions.lower(value))

    def _common(self, node: Node) -> None:
        for group in _children(node, "variable_group"):
            for child in group.named_children:
                name = _declared_name(child)
                if child.type == "name" or not name:
                    continue
                known = self._scope.variables.get(name)
                kind = known.type if known is not None else self._scope.implicit_type(name)
                size = next(iter(_children(child, "size")), None)
                if size is not None:
                    kind = self._array(kind, size, set(), name)
                self._scope.variables[name] = form.Variable(kind, form.Storage.GLOBAL)

    def _implicit(self, node: Node) -> None:
        if any(child.type == "none" for child in node.named_children):
            self._scope.explicit = True
            return
        kind: form.Type | None = None
        for child in node.named_children:
            if child.type in ("intrinsic_type", "derived_type"):
                kind = self.type_of(child)
            elif child.type == "implicit_range" and kind is not None:
                letters = text_of(child).lower().replace(" ", "")
                first, last = letters[:1], letters[-1:]
                for code in range(ord(first), min(ord(last), ord("z")) + 1):
                    self._scope.implicit[chr(code)] = kind

    def _use(self, node: Node, used: Callable[[str], Scope | None]) -> None:
        name = next((text_of(child).lower() for child in _children(node, "module_name")), "")
        module = used(name)
        if module is None:
            self._scope.open_modules = self._scope.open_modules or not name.startswith(("iso_", "ieee_", "omp_lib"))
            return
        self._scope.open_modules = self._scope.open_modules or module.open_modules
        only = next(iter(_children(node, "included_items")), None)
        renamed = {
            text_of(alias.named_children[-1]).lower(): text_of(alias.named_children[0]).lower()
            for group in (node, only)
            if group is not None
            for alias in _children(group, "use_alias")
        }
        wanted = None
        if only is not None:
            wanted = {text_of(child).lower() for child in _children(only, "identifier")} | set(renamed)
        for known, variable in module.variables.items():
            if wanted is None or known in wanted:
                self._scope.variables.setdefault(renamed.get(known, known), variable)
        self._scope.functions |= {one for one in module.functions if wanted is None or one in wanted}
        self._scope.pure |= {one for one in module.pure if wanted is None or one in wanted}
        self._scope.types.update(module.types)

    def _derived(self, node: Node) -> None:
        members: dict[str, form.Type] = {}
        inner = Scope(host=self._scope)
        declared = Declarations(inner, (), True)
        name = ""
        for child in node.named_children:
            if child.type == "derived_type_statement":
                name = next((text_of(one).lower() for one in child.named_children if one.type == "type_name"), "")
            elif child.type == "variable_declaration":
                declared.declare(child, lambda module: None)
        members.update((member, variable.type) for member, variable in inner.variables.items())
        self._scope.types[name] = members

    def _interface(self, node: Node) -> None:
        for kind in ("function", "function_statement"):
            for function in _descendants(node, kind):
                name = next((text_of(one).lower() for one in function.named_children if one.type == "name"), "")
                if name:
                    self._scope.functions.add(name)
        for statement in _descendants(node, "interface_statement"):
            for child in statement.named_children:
                if child.type == "name":
                    self._scope.functions.add(text_of(child).lower())


def _declared_name(node: Node) -> str:
    if node.type in ("identifier", "name"):
        return text_of(node).lower()
    return next((text_of(child).lower() for child in node.named_children if child.type == "identifier"), "")


def _children(node: Node, kind: str) -> Iterator[Node]:
    return (child for child in node.named_children if child.type == kind)


def _descendants(node: Node, kind: str) -> Iterator[Node]:
    pending = list(node.named_children)
    while pending:
        current = pending.pop()
        if current.type == kind:
            yield current
        pending.extend(current.named_children)
