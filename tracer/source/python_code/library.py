"""Python's and NumPy's functions, expressed in the source form."""

from __future__ import annotations

import ast

_ELEMENTWISE = {
    "absolute": "abs", "fabs": "abs", "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arctan2": "atan2",
    "minimum": "min", "maximum": "max", "fmin": "min", "fmax": "max", "rint": "round", "around": "round",
    "fix": "trunc", "conjugate": "conj",
}  # fmt: skip
_ARRAYS = {
    "prod": "product", "min": "minval", "amin": "minval", "max": "maxval", "amax": "maxval", "argmin": "minloc",
    "argmax": "maxloc", "count_nonzero": "count", "vdot": "dot", "inner": "dot", "asarray": "copy", "array": "copy",
    "ascontiguousarray": "copy", "asfortranarray": "copy", "permute_dims": "transpose",
}  # fmt: skip
_SAME = [
    "abs",
    "sqrt",
    "exp",
    "log",
    "log2",
    "log10",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "atan2",
    "sinh",
    "cosh",
    "tanh",
    "floor",
    "ceil",
    "round",
    "trunc",
    "sign",
    "conj",
    "real",
    "imag",
    "sum",
    "any",
    "all",
    "dot",
    "matmul",
    "where",
    "transpose",
    "cumsum",
    "cumprod",
    "sort",
    "argsort",
    "bincount",
    "take",
    "zeros",
    "ones",
    "empty",
    "arange",
    "copy",
]

NUMPY = {name: name for name in _SAME} | _ELEMENTWISE | _ARRAYS
"""NumPy's functions by the form's intrinsics."""

NUMPY_OPERATORS = {
    "add": "+", "subtract": "-", "multiply": "*", "divide": "/", "true_divide": "/", "floor_divide": "//",
    "remainder": "%", "mod": "%", "power": "**", "negative": "neg", "greater": ">", "greater_equal": ">=", "less": "<",
    "less_equal": "<=", "equal": "==", "not_equal": "!=", "logical_and": "and", "logical_or": "or",
    "logical_not": "not", "bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^", "invert": "~",
    "left_shift": "<<", "right_shift": ">>",
}  # fmt: skip
"""NumPy's functions that are operators."""

EXTREMES = {"minimum": "min", "maximum": "max", "fmin": "min", "fmax": "max"}
"""NumPy's functions of two values that are the form's `min` and `max`."""

FUNCTIONS = {
    "operator.add": "+", "operator.mul": "*", "operator.and_": "&", "operator.or_": "|", "operator.xor": "^",
    "operator.sub": "-", "operator.concat": "+",
}  # fmt: skip
"""Functions of two values that are operators."""

NUMPY_EFFECTS = ("random", "save", "load", "put", "copyto", "fromfile", "seterr", "testing", "place", "fill_diagonal")
"""NumPy's functions that are not pure."""

METHODS = {
    name: NUMPY[name]
    for name in [
        "sum",
        "prod",
        "min",
        "max",
        "argmin",
        "argmax",
        "any",
        "all",
        "dot",
        "cumsum",
        "copy",
        "take",
        "argsort",
        "conj",
        "transpose",
    ]
}
"""Methods of arrays by the form's intrinsics."""

AXIS = frozenset({"sum", "product", "minval", "maxval", "minloc", "maxloc", "any", "all", "count", "cumsum"})
"""Intrinsics that take a dimension as their second argument."""

MATH = {
    "sqrt": "sqrt", "exp": "exp", "log": "log", "log2": "log2", "log10": "log10", "sin": "sin", "cos": "cos",
    "tan": "tan", "asin": "asin", "acos": "acos", "atan": "atan", "atan2": "atan2", "sinh": "sinh", "cosh": "cosh",
    "tanh": "tanh", "floor": "floor", "ceil": "ceil", "trunc": "trunc", "pow": "pow", "fma": "fma", "fabs": "abs",
    "fmod": "mod",
}  # fmt: skip
"""Functions of `math` and `cmath` by the form's intrinsics."""

PURE_BUILTINS = frozenset(
    [
        "isinstance",
        "issubclass",
        "callable",
        "hasattr",
        "ord",
        "chr",
        "hash",
        "type",
        "id",
        "repr",
        "str",
        "bytes",
        "bin",
        "hex",
        "oct",
        "divmod",
        "hash",
        "frozenset",
        "slice",
        "super",
    ]
)
"""Built-in functions without effects that mean nothing to the form."""

PURE_METHODS = frozenset(
    [
        "format",
        "join",
        "split",
        "rsplit",
        "strip",
        "lstrip",
        "rstrip",
        "startswith",
        "endswith",
        "lower",
        "upper",
        "replace",
        "encode",
        "decode",
        "get",
        "keys",
        "values",
        "items",
        "index",
        "find",
        "isdigit",
        "isalpha",
        "bit_length",
        "item",
        "tobytes",
        "nonzero",
        "zfill",
        "ljust",
        "rjust",
    ]
)
"""Methods of strings, dictionaries and numbers without effects."""

OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.LShift: "<<", ast.RShift: ">>", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^",
    ast.USub: "neg", ast.Invert: "~", ast.Not: "not", ast.And: "and", ast.Or: "or",
    ast.Lt: "<", ast.LtE: "<=", ast.Eq: "==", ast.NotEq: "!=", ast.Gt: ">", ast.GtE: ">=", ast.Is: "is", ast.In: "in",
}  # fmt: skip
"""Python's operators by the form's."""


class Imports:
    """Imported names of a module: `np` is "numpy", `at` after `from numpy.add import at` is "numpy.add.at"."""

    def __init__(self, tree: ast.Module) -> None:
        """Reads all imports of a file, those inside functions too."""
        self.names: dict[str, str] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    root = alias.name.split(".")[0]
                    self.names[alias.asname or root] = alias.name if alias.asname else root
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                for alias in node.names:
                    if alias.name == "*" and node.module == "numpy":
                        self.names |= {name: f"numpy.{name}" for name in (*NUMPY, *NUMPY_OPERATORS)}
                    else:
                        self.names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
        self.numpy = any(path.split(".")[0] in ("numpy", "cupy", "scipy") for path in self.names.values())

    def path(self, node: ast.expr) -> str:
        """The dotted path of an imported function, with aliases resolved; "" for other expressions."""
        attributes: list[str] = []
        while isinstance(node, ast.Attribute):
            attributes.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id not in self.names:
            return ""
        path = ".".join([self.names[node.id], *reversed(attributes)])
        return "numpy" + path[4:] if path.startswith("cupy.") else path
