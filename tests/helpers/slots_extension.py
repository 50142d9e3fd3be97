"""An extension type whose functions take time by the fake clock, and a program that calls each on its own line."""

from __future__ import annotations

import subprocess
import sysconfig
from pathlib import Path

SPENT_NS = 40_000_000

SOURCE = """
#define PY_SSIZE_T_CLEAN
#include <Python.h>

void advance_ns(unsigned long); /* of the fake clock */

static PyObject *spent(void) { advance_ns(SPENT_NS); Py_RETURN_NONE; }
static int done(void) { advance_ns(SPENT_NS); return 0; }

static PyObject *of_one(PyObject *a) { (void)a; return spent(); }
static PyObject *of_two(PyObject *a, PyObject *b) { (void)a; (void)b; return spent(); }
static PyObject *of_three(PyObject *a, PyObject *b, PyObject *c) { (void)a; (void)b; (void)c; return spent(); }
static PyObject *fast(PyObject *a, PyObject *const *b, Py_ssize_t n) { (void)a; (void)b; (void)n; return spent(); }
static PyObject *fast_names(PyObject *a, PyObject *const *b, Py_ssize_t n, PyObject *k)
{ (void)a; (void)b; (void)n; (void)k; return spent(); }
static PyObject *of_class(PyObject *a, PyTypeObject *t, PyObject *const *b, Py_ssize_t n, PyObject *k)
{ (void)a; (void)t; (void)b; (void)n; (void)k; return spent(); }
static PyObject *text(PyObject *a) { (void)a; done(); return PyUnicode_FromString("text"); }
static PyObject *itself(PyObject *a) { done(); return Py_NewRef(a); }
static PyObject *compared(PyObject *a, PyObject *b, int how) { (void)a; (void)b; (void)how; return spent(); }
static PyObject *item(PyObject *a, Py_ssize_t i) { (void)a; (void)i; return spent(); }
static int is_true(PyObject *a) { (void)a; return done() + 1; }
static int contains(PyObject *a, PyObject *b) { (void)a; (void)b; return done(); }
static int assign(PyObject *a, PyObject *b, PyObject *c) { (void)a; (void)b; (void)c; return done(); }
static Py_ssize_t length(PyObject *a) { (void)a; return done() + 3; }
static PyObject *number(PyObject *a) { (void)a; done(); return PyLong_FromLong(1); }
static PyObject *real(PyObject *a) { (void)a; done(); return PyFloat_FromDouble(1); }
static PyObject *get(PyObject *a, void *b) { (void)a; (void)b; return spent(); }
static int set(PyObject *a, PyObject *b, void *c) { (void)a; (void)b; (void)c; return done(); }
static PyObject *made(PyTypeObject *t, PyObject *a, PyObject *k) { (void)a; (void)k; done(); return t->tp_alloc(t, 0); }
static PyObject *never_ends(PyObject *a) { return of_one(a); }

static PyObject *of_itself(PyObject *a, PyObject *b) { (void)b; return itself(a); }
#define AS(f) (PyCFunction)(void (*)(void))f
static PyMethodDef methods[] = {
    {"none", of_two, METH_NOARGS, ""}, {"one", of_two, METH_O, ""}, {"several", of_two, METH_VARARGS, ""},
    {"names", AS(of_three), METH_VARARGS | METH_KEYWORDS, ""}, {"fast", AS(fast), METH_FASTCALL, ""},
    {"fast_names", AS(fast_names), METH_FASTCALL | METH_KEYWORDS, ""},
    {"of_class", AS(of_class), METH_METHOD | METH_FASTCALL | METH_KEYWORDS, ""},
    {"by_class", of_two, METH_O | METH_CLASS, ""}, {"static", of_two, METH_O | METH_STATIC, ""},
    {"__enter__", of_itself, METH_NOARGS, ""}, {"__exit__", of_two, METH_VARARGS, ""}, {0}};
static PyGetSetDef properties[] = {{"value", get, set, "", NULL}, {0}};
static PyNumberMethods numbers = {
    .nb_add = of_two, .nb_power = of_three, .nb_negative = of_one, .nb_bool = is_true, .nb_int = number,
    .nb_float = real, .nb_inplace_multiply = of_two, .nb_matrix_multiply = of_two};
static const PyMappingMethods mapping = {.mp_length = length, .mp_subscript = of_two, .mp_ass_subscript = assign};
static PySequenceMethods sequence = {.sq_item = item, .sq_contains = contains};
static PyTypeObject type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "slots.T", .tp_basicsize = sizeof(PyObject),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, .tp_new = made, .tp_init = assign, .tp_methods = methods,
    .tp_getset = properties, .tp_call = of_three, .tp_repr = text, .tp_str = text, .tp_iter = itself,
    .tp_iternext = never_ends, .tp_hash = length, .tp_richcompare = compared, .tp_as_number = &numbers,
    .tp_as_sequence = &sequence, .tp_as_mapping = (PyMappingMethods *)&mapping};
static PyTypeObject derived = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "slots.D", .tp_basicsize = sizeof(PyObject), .tp_base = &type,
    .tp_flags = Py_TPFLAGS_DEFAULT};
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "slots", "", -1, NULL, NULL, NULL, NULL, NULL};
PyMODINIT_FUNC PyInit_slots(void)
{
    PyObject *m = PyModule_Create(&module);
    const int failed = !m || PyModule_AddType(m, &type) < 0 || PyModule_AddType(m, &derived) < 0;
    return failed ? NULL : m;
}
"""

CALLS = {
    "t = T()": "__new__",
    "t.none()": "none",
    "t.one(1)": "one",
    "t.several(1, 2)": "several",
    "t.names(1, a=2)": "names",
    "t.fast(1)": "fast",
    "t.fast_names(1, a=2)": "fast_names",
    "t.of_class(1)": "of_class",
    "T.by_class(1)": "by_class",
    "T.static(1)": "static",
    "bound(1)": "one",
    "t()": "__call__",
    "t.value": "value",
    "t.value = 1": "value",
    "t + t": "__add__",
    "t ** 2": "__pow__",
    "-t": "__neg__",
    "t @ t": "__matmul__",
    "bool(t)": "__bool__",
    "int(t)": "__int__",
    "float(t)": "__float__",
    "len(t)": "__len__",
    "t[1]": "__getitem__",
    "t[1] = 2": "__setitem__",
    "1 in t": "__contains__",
    "t == 1": "__eq__",
    "hash(t)": "__hash__",
    "repr(t)": "__repr__",
    "str(t)": "__str__",
    "iter(t)": "__iter__",
    "next(t)": "__next__",
    "d()": "__call__",
    "p + 1": "__add__",
    "p.one(1)": "one",
    "late + 1": "__add__",
}
"""What is called, on a line each, and the name of what takes the time: of the type itself, of a type that derives from
it in C, and of classes of Python, made before its first use and after."""

FIRST_LINE = 11
PROGRAM = "\n".join(
    [
        "import slots",
        "from slots import T",
        "class P(T):",
        "    pass",
        "d = slots.D()",
        "p = P()",
        "t = T()",
        "bound = t.one",
        "class Late(P): pass",
        "late = Late()",
        *CALLS,
        "with t:",
        "    pass",
        "t *= 2",
        "",
    ]
)


def build(directory: Path) -> None:
    """Make the extension module `slots` there."""
    source = directory / "slots.c"
    source.write_text(SOURCE)
    target = directory / f"slots{sysconfig.get_config_var('EXT_SUFFIX')}"
    flags = [
        "-std=c11",
        "-O2",
        "-Wall",
        "-Werror",
        f"-DSPENT_NS={SPENT_NS}",
        "-shared",
        "-fPIC",
        f"-I{sysconfig.get_paths()['include']}",
    ]
    subprocess.run(["gcc", *flags, "-o", str(target), str(source)], check=True)
