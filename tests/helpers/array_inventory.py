"""What becomes of each function and method that NumPy and SciPy sparse offer: recorded, counted as unseen, or silent.

    python tests/helpers/array_inventory.py

A traced program calls every public name with the first of some sample arguments that it accepts, each name on a line of
its own. What the stream has for that line is the name's class:

    recorded    all it touches is recorded
    partly      some is recorded, some counts as unseen
    unseen      it counts as unseen, and is recorded as one pass over each array if at all
    nothing     neither: it touches no elements (SILENT says why that is right)
    not called  none of the samples fits (NOT_CALLED says why that is right)

It prints the table of docs/array-operations.md.
"""

from __future__ import annotations

import inspect
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import scipy.sparse as sp
from python_runs import trace

PRELUDE = """\
import contextlib, io, os, sys, warnings
import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg, scipy.sparse.csgraph
import numpy.ma, numpy.polynomial
warnings.simplefilter("ignore")
np.seterr(all="ignore")
rng = np.random.default_rng(0)
a = np.arange(1.0, 17.0).reshape(4, 4) + 3 * np.eye(4)
b = a[::-1] + 1.0
v = np.array([3.0, 1.0, 2.0, 2.0])
w = np.array([1.0, 2.0, 3.0, 4.0])
i = np.array([2, 0, 1, 3])
k = np.array([[1, 0], [2, 1]])
m = a > 5
along = a.argsort(axis=1)
u = np.arange(8, dtype=np.uint8)
s = np.array(["one", "two"])
d = np.array(["2020-01-01", "2020-01-02"], "M8[D]")
S = sp.csr_array(a)
formats = ("bsr", "coo", "csc", "csr", "dia", "dok", "lil")
sparse = {f: (sp.csr_array(a).asformat(f), sp.csr_array(b).asformat(f)) for f in formats}
SAMPLES = [
    (a,), (v,), (i,), (a, b), (v, w), (i, i), (m,), (a, 1), (v, 1), (a, i), (v, i), (v, i, w), (m, a, b), ((a, b),),
    ([v, w],), (a, (4, 4)), (a, 2, 0), (a, m), (a, m, v), (i, a), (v, w, w), (v, v, i), (a, 0, 1), (a, [1, 2]), (k,),
    (u,), (u, u), (s,), (s, s), (d,), (d, d), (S,), (S, S), (S, v), ("ij,jk", a, b), (3,), (4, a), (np.ones, (3,)),
    (np.sum, 0, a), (np.sum, a), (lambda x: x, a), (a, v), (a, "f4"), (m, m), (v, 2, 3), (v, v, v, v), (i, (4, 4)),
    (3, 3), (S, 1), (S, (4, 4)), (1, 2, 3), (s, "e"), (s, 5), ("<f8",), (a, [v]), (a, [1], [0]),
]
SAMPLES = [x for x in SAMPLES if any(isinstance(p, (np.ndarray, list, tuple)) or sp.issparse(p) for p in x)] + [
    (), *(x for x in SAMPLES if not any(isinstance(p, (np.ndarray, list, tuple)) or sp.issparse(p) for p in x))]
called = open(sys.argv[1], "w")
sys.stdout = sys.stderr = open(os.devnull, "w")
def fresh(value):
    return value.copy() if hasattr(value, "copy") else value
def call(name, function, samples=SAMPLES):
    fits = 0
    for arguments in samples:
        try:
            function(*[fresh(x) for x in arguments])
        except Exception:
            continue
        fits = 1
        break
    called.write(f"{name}\\t{fits}\\n")
    called.flush()
"""

EXPLICIT: dict[str, str] = {
    "numpy.save": "lambda *p: np.save(io.BytesIO(), a), [(a,)]",
    "numpy.savez": "lambda *p: np.savez(io.BytesIO(), a), [(a,)]",
    "numpy.savez_compressed": "lambda *p: np.savez_compressed(io.BytesIO(), a), [(a,)]",
    "numpy.savetxt": "lambda *p: np.savetxt(io.StringIO(), a), [(a,)]",
    "numpy.loadtxt": "lambda *p: np.loadtxt(io.StringIO('1 2 3')), [(a,)]",
    "numpy.genfromtxt": "lambda *p: np.genfromtxt(io.StringIO('1 2 3')), [(a,)]",
    "numpy.fromfile": "lambda *p: np.fromfile('/dev/zero', count=5), [(a,)]",
    "numpy.fromstring": "lambda *p: np.fromstring('1 2', sep=' '), [(a,)]",
    "numpy.frombuffer": "lambda *p: np.frombuffer(b'12345678'), [(a,)]",
    "numpy.fromiter": "lambda *p: np.fromiter(range(5), float), [(a,)]",
    "numpy.copyto": "lambda *p: np.copyto(a.copy(), b), [(a,)]",
    "numpy.place": "lambda *p: np.place(a.copy(), m, v), [(a,)]",
    "numpy.putmask": "lambda *p: np.putmask(a.copy(), m, b), [(a,)]",
    "numpy.put_along_axis": "lambda *p: np.put_along_axis(a.copy(), along, 1.0, 1), [(a,)]",
    "numpy.take_along_axis": "lambda *p: np.take_along_axis(a, along, 1), [(a,)]",
    "numpy.choose": "lambda *p: np.choose(i % 2, [v, w]), [(a,)]",
    "numpy.select": "lambda *p: np.select([m, ~m], [a, b]), [(a,)]",
    "numpy.piecewise": "lambda *p: np.piecewise(v, [v < 2, v >= 2], [-1, lambda x: x]), [(a,)]",
    "numpy.interp": "lambda *p: np.interp(v, w, v), [(a,)]",
    "numpy.apply_over_axes": "lambda *p: np.apply_over_axes(np.sum, a, 0), [(a,)]",
    "numpy.apply_along_axis": "lambda *p: np.apply_along_axis(np.sum, 0, a), [(a,)]",
    "numpy.busday_count": "lambda *p: np.busday_count(d, d), [(a,)]",
    "numpy.busday_offset": "lambda *p: np.busday_offset(d, 1, roll='forward'), [(a,)]",
    "numpy.block": "lambda *p: np.block([[a, b], [b, a]]), [(a,)]",
    "numpy.ndarray.setfield": "lambda *p: a.copy().setfield(1.0, 'f8'), [(a,)]",
    "numpy.ndarray.resize": "lambda *p: np.arange(5).resize(8), [(a,)]",
    "numpy.ndarray.fill": "lambda *p: a.copy().fill(1.0), [(a,)]",
    "numpy.ndarray.tofile": "lambda *p: a.tofile(os.devnull), [(a,)]",
    "numpy.ndarray.dump": "lambda *p: a.dump(os.devnull), [(a,)]",
    "numpy.ndarray.item": "lambda *p: a.item(3), [(a,)]",
    "numpy.ndarray.itemset": "lambda *p: a.copy().itemset(3, 1.0), [(a,)]",
    "scipy.sparse.save_npz": "lambda *p: sp.save_npz(io.BytesIO(), S), [(a,)]",
    "numpy.concatenate": "lambda *p: np.concatenate([a, b]), [()]",
    "numpy.concat": "lambda *p: np.concat([a, b]), [()]",
    "numpy.arange": "lambda *p: np.arange(5), [()]",
    "numpy.eye": "lambda *p: np.eye(5), [()]",
    "numpy.identity": "lambda *p: np.identity(5), [()]",
    "numpy.cross": "lambda *p: np.cross(v[:3], w[:3]), [()]",
    "numpy.linalg.cross": "lambda *p: np.linalg.cross(v[:3], w[:3]), [()]",
    "numpy.linalg.cholesky": "lambda *p: np.linalg.cholesky(np.eye(3)), [()]",
    "numpy.linalg.matrix_power": "lambda *p: np.linalg.matrix_power(a, 3), [()]",
    "numpy.dsplit": "lambda *p: np.dsplit(np.ones((2, 2, 2)), 2), [()]",
    "numpy.fromfunction": "lambda *p: np.fromfunction(lambda x, y: x + y, (3, 3)), [()]",
    "numpy.mask_indices": "lambda *p: np.mask_indices(3, np.triu), [()]",
    "numpy.polyfit": "lambda *p: np.polyfit(v, w, 1), [()]",
    "numpy.ravel_multi_index": "lambda *p: np.ravel_multi_index((i % 2, i % 3), (2, 3)), [()]",
    "numpy.where": "lambda *p: np.where(m, a, b), [()]",
    "numpy.take": "lambda *p: np.take(a, i, axis=0), [()]",
    "numpy.ndarray.take": "lambda *p: a.take(i, axis=0), [()]",
    "numpy.put": "lambda *p: np.put(a.copy(), i, w), [()]",
    "numpy.ndarray.put": "lambda *p: a.copy().put(i, w), [()]",
    "numpy.ndarray.conj": "lambda *p: (a * 1j).conj(), [()]",
    "numpy.ndarray.conjugate": "lambda *p: (a * 1j).conjugate(), [()]",
    "numpy.iscomplex": "lambda *p: np.iscomplex(a * 1j), [()]",
    "numpy.random.hypergeometric": "lambda *p: np.random.hypergeometric(9, 9, 9, 5), [()]",
    "numpy.random.Generator.hypergeometric": "lambda *p: rng.hypergeometric(9, 9, 9, 5), [()]",
    "numpy.random.geometric": "lambda *p: np.random.geometric(0.5, 5), [()]",
    "numpy.random.Generator.geometric": "lambda *p: rng.geometric(0.5, 5), [()]",
    "numpy.random.logseries": "lambda *p: np.random.logseries(0.5, 5), [()]",
    "numpy.random.Generator.logseries": "lambda *p: rng.logseries(0.5, 5), [()]",
    "numpy.random.multinomial": "lambda *p: np.random.multinomial(5, [0.5, 0.5]), [()]",
    "numpy.random.Generator.multinomial": "lambda *p: rng.multinomial(5, [0.5, 0.5]), [()]",
    "numpy.random.Generator.multivariate_hypergeometric": "lambda *p: rng.multivariate_hypergeometric(i, 3), [()]",
    "numpy.random.rand": "lambda *p: np.random.rand(5), [()]",
    "numpy.random.randn": "lambda *p: np.random.randn(5), [()]",
    "numpy.char.compare_chararrays": "lambda *p: np.char.compare_chararrays(s, s, '<', True), [()]",
    "numpy.char.decode": "lambda *p: np.char.decode(s.astype('S5')), [()]",
    "numpy.char.replace": "lambda *p: np.char.replace(s, 'o', 'u'), [()]",
    **{f"scipy.sparse.{name}": f"lambda *p: sp.{name}([[S, S]]), [()]" for name in ("block_array", "bmat")},
    **{f"scipy.sparse.{name}": f"lambda *p: sp.{name}([S, S]), [()]" for name in ("hstack", "vstack")},
    "scipy.sparse.rand": "lambda *p: sp.rand(4, 4, 0.5), [()]",
    "scipy.sparse.random": "lambda *p: sp.random(4, 4, 0.5), [()]",
    "scipy.sparse.random_array": "lambda *p: sp.random_array((4, 4), density=0.5), [()]",
    "scipy.sparse.swapaxes": "lambda *p: sp.swapaxes(sparse['coo'][0], 0, 1), [()]",
}
NO_INTERFACE = {
    *("array_function_dispatch", "set_module", "add_docstring", "add_newdoc", "add_newdoc_ufunc", "get_array_wrap"),
    *("compare_chararrays", "fastCopyAndTranspose", "recfromcsv", "recfromtxt", "deprecate_with_doc", "alltrue"),
    *("sometrue", "cumproduct", "product", "geterrobj", "seterrobj", "asfarray", "msort", "nested_iters"),
    *("find_common_type", "tracemalloc_domain", "getrefcount"),
    *("asfptype", "get_shape", "set_shape", "getformat", "getmaxprint"),
}
"""Names in the modules that are their own tools, not an interface of theirs, or gone from newer versions."""

SKIPPED = {
    "numpy.test", "numpy.info", "numpy.show_config", "numpy.show_runtime", "numpy.lookfor", "numpy.source",
    "numpy.seterr", "numpy.seterrcall", "numpy.setbufsize", "numpy.set_printoptions", "numpy.printoptions",
    "numpy.errstate", "numpy.load", "numpy.memmap", "numpy.fromregex", "numpy.DataSource", "numpy.get_include",
    "numpy.set_numeric_ops", "numpy.set_string_function", "numpy.disp", "numpy.deprecate", "numpy.safe_eval",
    "numpy.fft.test", "numpy.linalg.test", "numpy.random.test", "numpy.ma.test", "scipy.sparse.test",
    "numpy.random.seed", "numpy.frompyfunc", "numpy.nested_iters", "scipy.sparse.load_npz", "numpy.ndarray.to_device",
    "numpy.datetime_data", "numpy.isdtype", "numpy.typename",
    "numpy.random.set_state", "numpy.random.get_state", "numpy.random.set_bit_generator", "numpy.who",
    "numpy.byte_bounds",
}  # fmt: skip

for _format in ("bsr", "coo", "csc", "csr", "dia", "dok", "lil"):
    _fresh = f"fresh(sparse[{_format!r}][0])"
    EXPLICIT |= {
        f"scipy.sparse.{_format}.asformat": f"lambda *p: {_fresh}.asformat('coo'), [()]",
        f"scipy.sparse.{_format}.reshape": f"lambda *p: {_fresh}.reshape((2, 8)), [()]",
        f"scipy.sparse.{_format}.resize": f"lambda *p: {_fresh}.resize((4, 4)), [()]",
        f"scipy.sparse.{_format}.setdiag": f"lambda *p: {_fresh}.setdiag(w), [()]",
        f"scipy.sparse.{_format}.get": f"lambda *p: {_fresh}.get((0, 0)), [()]",
    }

SILENT = {
    "it makes a view, or gives back what it was given": """
        numpy.array_split numpy.asanyarray numpy.asarray numpy.ascontiguousarray numpy.asfortranarray numpy.asmatrix
        numpy.atleast_1d numpy.atleast_2d numpy.atleast_3d numpy.broadcast_arrays numpy.broadcast_to numpy.diag
        numpy.diagonal numpy.dsplit numpy.expand_dims numpy.flip numpy.fliplr numpy.flipud numpy.from_dlpack
        numpy.frombuffer numpy.hsplit numpy.imag numpy.ix_ numpy.linalg.diagonal numpy.linalg.matrix_transpose
        numpy.matrix_transpose numpy.moveaxis numpy.permute_dims numpy.ravel numpy.real numpy.real_if_close
        numpy.require
        numpy.reshape numpy.rollaxis numpy.rot90 numpy.split numpy.squeeze numpy.swapaxes numpy.transpose numpy.unstack
        numpy.mat numpy.vsplit scipy.sparse.matrix_transpose numpy.char.asnarray numpy.ndarray.diagonal
        numpy.ndarray.getfield numpy.ndarray.newbyteorder numpy.ndarray.ravel
        numpy.ndarray.reshape numpy.ndarray.squeeze numpy.ndarray.swapaxes numpy.ndarray.transpose
        numpy.ndarray.view""",
    "it looks at types and shapes only, or at numbers that are no arrays": """
        numpy.base_repr numpy.binary_repr numpy.broadcast_shapes numpy.can_cast numpy.common_type
        numpy.format_float_positional numpy.format_float_scientific
        numpy.get_printoptions numpy.getbufsize numpy.geterr numpy.geterrcall numpy.iscomplexobj numpy.isfortran
        numpy.isrealobj numpy.isscalar numpy.issubdtype numpy.issubclass_ numpy.issubsctype numpy.iterable
        numpy.may_share_memory numpy.maximum_sctype numpy.min_scalar_type numpy.mintypecode numpy.ndim numpy.obj2sctype
        numpy.promote_types numpy.result_type numpy.sctype2char numpy.shape numpy.shares_memory numpy.size
        numpy.issctype
        numpy.ndarray.setflags numpy.random.get_bit_generator numpy.random.bytes numpy.random.Generator.bytes
        scipy.sparse.get_index_dtype scipy.sparse.issparse scipy.sparse.isspmatrix scipy.sparse.isspmatrix_bsr
        scipy.sparse.isspmatrix_coo scipy.sparse.isspmatrix_csc scipy.sparse.isspmatrix_csr scipy.sparse.isspmatrix_dia
        scipy.sparse.isspmatrix_dok scipy.sparse.isspmatrix_lil""",
    "its memory comes from the system, cleared or not": """
        numpy.empty numpy.empty_like numpy.zeros""",
    "it works on a dictionary of numbers": """
        scipy.sparse.dok.getnnz scipy.sparse.dok.clear
        scipy.sparse.dok.count_nonzero scipy.sparse.dok.get scipy.sparse.dok.items
        scipy.sparse.dok.keys scipy.sparse.dok.pop scipy.sparse.dok.popitem scipy.sparse.dok.resize
        scipy.sparse.dok.setdefault scipy.sparse.dok.update scipy.sparse.dok.values scipy.sparse.dok.fromkeys""",
    "it is charged to a line of the standard library": "numpy:copy.copy",
    "the interpreter reads through the buffer protocol": "numpy:bytes numpy:memoryview",
    "the sample needs nothing done": """
        scipy.sparse.coo.asformat
        scipy.sparse.bsr.resize scipy.sparse.coo.resize scipy.sparse.csc.resize scipy.sparse.csr.resize
        scipy.sparse.dia.resize scipy.sparse.lil.resize""",
}
"""Names of which nothing is recorded or counted, by why that is right."""

NOT_CALLED = {"scipy.sparse.bsr.setdiag", "scipy.sparse.dok.update"}  # both refuse all arguments

FORMATS = ("bsr", "coo", "csc", "csr", "dia", "dok", "lil")


def _names(module: ModuleType) -> Iterator[str]:
    for name in sorted(n for n in {*getattr(module, "__all__", ()), *dir(module)} if not n.startswith("_")):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", DeprecationWarning)
                value = getattr(module, name)
        except (AttributeError, DeprecationWarning):
            continue
        if callable(value) and not inspect.isclass(value) and not inspect.ismodule(value) and name not in NO_INTERFACE:
            yield name


def _methods(kind: type) -> Iterator[str]:
    for name in sorted(n for n in dir(kind) if not n.startswith("_") and n not in NO_INTERFACE):
        if callable(getattr(kind, name, None)):
            yield name


def cases() -> Iterator[tuple[str, str]]:
    """Each public name, and the expression that makes what is called."""
    modules = {"numpy": (np, "np"), "numpy.fft": (np.fft, "np.fft"), "numpy.linalg": (np.linalg, "np.linalg"),
               "numpy.random": (np.random, "np.random"), "numpy.char": (np.char, "np.char"),
               "scipy.sparse": (sp, "sp")}  # fmt: skip
    for module, (object_, short) in modules.items():
        for name in _names(object_):
            yield f"{module}.{name}", f"lambda *p: {short}.{name}(*p)"
    for name in _methods(np.ndarray):
        yield f"numpy.ndarray.{name}", f"lambda o, *p: o.{name}(*p)"
    for name in _methods(np.random.Generator):
        yield f"numpy.random.Generator.{name}", f"lambda *p: rng.{name}(*p)"
    for name in ("accumulate", "at", "outer", "reduce", "reduceat"):
        yield f"numpy.ufunc.{name}", f"lambda *p: np.add.{name}(*p)"
    for format_ in FORMATS:
        for name in _methods(getattr(sp, f"{format_}_array")):
            yield f"scipy.sparse.{format_}.{name}", f"lambda *p: fresh(sparse[{format_!r}][0]).{name}(*p)"


OPERATORS = {
    "+": "x + y", "-": "x - y", "*": "x * y", "/": "x / y", "//": "x // y", "%": "x % y", "**": "x ** 2",
    "@": "x @ y", "<": "x < y", "==": "x == y", "abs": "abs(x)", "neg": "-x", "in": "3.0 in x", "bool": "bool(x[0, 0])",
    "+=": "x.__iadd__(y)", "divmod": "divmod(x, y)", "get int": "x[1, 2]", "get slice": "x[1:3].copy()",
    "get list": "x[[0, 2]]", "get mask": "x[m]", "set slice": "x.__setitem__(slice(0, 2), 1.0)",
    "set list": "x.__setitem__([0, 2], 1.0)", "set mask": "x.__setitem__(m, 1.0)", "iterate": "[r.sum() for r in x]",
    "flat get": "x.flat[3]", "flat set": "x.flat.__setitem__(3, 1.0)", "flat iterate": "list(x.flat)",
    "nditer": "[float(z) for z in np.nditer(x)]", "copy.copy": "__import__('copy').copy(x)", "bytes": "bytes(x)",
    "pickle": "__import__('pickle').dumps(x, 2)", "float": "float(x[0, 0])", "memoryview": "memoryview(x).tolist()",
}  # fmt: skip
SPARSE_OPERATORS = {
    "+": "x + y", "-": "x - y", "*": "x * y", "@ vector": "x @ v", "@ dense": "x @ a", "@": "x @ y", "scale": "x * 2.0",
    "T @ vector": "x.T @ v", "get rows": "x.tocsr()[1:3]", "get item": "x.tocsr()[1, 2]", "get mask": "x.tocsr()[m]",
    "get list": "x.tocsr()[[0, 2]]", "set item": "x.tolil().__setitem__((1, 2), 3.0)", "==": "x == y", "abs": "abs(x)",
}  # fmt: skip


def operator_cases() -> Iterator[tuple[str, str]]:
    """Operators and subscripts, as expressions of their own."""
    for name, expression in OPERATORS.items():
        yield f"numpy:{name}", f"lambda x, y: {expression}, [(a, b)]"
    for format_ in FORMATS:
        for name, expression in SPARSE_OPERATORS.items():
            yield f"scipy.sparse.{format_}:{name}", f"lambda x, y: {expression}, [sparse[{format_!r}]]"


def program() -> tuple[str, dict[int, str]]:
    """The program to be traced, and the name that each of its lines calls."""
    lines, line_of = PRELUDE.splitlines(), {}
    for name, expression in [*cases(), *operator_cases()]:
        if name not in SKIPPED:
            lines.append(f"call({name!r}, {EXPLICIT.get(name, expression)})")
            line_of[len(lines)] = name
    return "\n".join(lines) + "\n", line_of


def take_inventory(directory: Path) -> dict[str, str]:
    """Each name's class."""
    source, line_of = program()
    run = trace(directory, source, str(directory / "called"))
    fits = dict(line.split("\t") for line in (directory / "called").read_text().splitlines())
    lines = {b.block_id: b.line for b in run.recording.raw.python_blocks if b.file == str(run.script)}
    unseen = {(lines.get(u.block_id), u.name) for u in run.recording.raw.unseen}
    recorded = {(lines.get(o.block_id), o.name.partition(" ")[0]) for o in run.recording.raw.array_operations}
    classes = {}
    for line, name in line_of.items():
        seen = {n for at, n in recorded - unseen if at == line}
        not_seen = {n for at, n in unseen if at == line}
        if fits[name] == "0":
            classes[name] = "not called"
        elif not_seen:
            classes[name] = "partly" if seen else "unseen"
        else:
            classes[name] = "recorded" if seen else "nothing"
    return classes


def main() -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as directory:
        classes = take_inventory(Path(directory))
    for kind in ("recorded", "partly", "unseen", "nothing", "not called"):
        names = [name for name, found in classes.items() if found == kind]
        print(f"\n## {kind} ({len(names)})\n\n" + ", ".join(names))


if __name__ == "__main__":
    main()
