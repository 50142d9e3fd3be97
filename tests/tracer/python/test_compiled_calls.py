"""Compiled code called from Python: charged to the line that called, by name, and not taken for the interpreter's."""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from fake_clock import fake_clock
from python_runs import run_traced, trace
from traces import trace_python

from foretrace.profiles.library import find
from foretrace.replay.base.records import Bound, LoopKind, LoopTime, Prediction
from foretrace.replay.offload.triage import triage
from foretrace.replay.prediction.predict import predict
from foretrace.reports import unseen_report
from foretrace.tracer.signature.records import Signature

EXTENSION = """
#define PY_SSIZE_T_CLEAN
#include <Python.h>

void advance_ns(unsigned long); /* of the fake clock */

/* Takes so many nanoseconds. */
static PyObject *spin(PyObject *self, PyObject *number)
{
    (void)self;
    advance_ns(PyLong_AsUnsignedLong(number));
    return PyLong_FromUnsignedLong(1);
}

/* The same, with a call back in between. */
static PyObject *spin_around(PyObject *self, PyObject *function)
{
    PyObject *number = PyLong_FromLong(20000000), *sum = spin(self, number);
    Py_XDECREF(sum);
    PyObject *result = PyObject_CallNoArgs(function);
    sum = spin(self, number);
    Py_XDECREF(sum);
    Py_DECREF(number);
    return result;
}

static PyMethodDef methods[] = {
    {"spin", spin, METH_O, ""}, {"spin_around", spin_around, METH_O, ""}, {NULL, NULL, 0, NULL}};
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "spinning", "", 0, methods, NULL, NULL, NULL, NULL};
PyMODINIT_FUNC PyInit_spinning(void) { return PyModuleDef_Init(&module); }
"""

PROGRAM = """\
from dataclasses import dataclass
import spinning, time
@dataclass
class Point:
    x: int
def work(n):
    p = Point(n)
    return spinning.spin(p.x)
def least():
    return 1
x = work(40_000_000)
y = spinning.spin(40_000_000)
z = spinning.spin_around(least)
t = time.clock_getres(40_000_000) + len([i for i in range(3)])
"""


@dataclass(frozen=True)
class Traced:
    directory: Path
    signature: Signature
    prediction: Prediction

    def region(self, line: int, kind: LoopKind) -> LoopTime:
        return next(r for r in self.prediction.loops if r.place.line == line and r.kind is kind)


def build(directory: Path, name: str = "spinning", text: str = EXTENSION) -> None:
    """An extension module."""
    source = directory / f"{name}.c"
    source.write_text(text)
    target = directory / f"{name}{sysconfig.get_config_var('EXT_SUFFIX')}"
    include = sysconfig.get_paths()["include"]
    subprocess.run(["gcc", "-O2", "-shared", "-fPIC", f"-I{include}", "-o", str(target), str(source)], check=True)


LIKE_CYTHON = """
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

void advance_ns(unsigned long); /* of the fake clock */

/* As in modules that Cython makes: functions are objects of a type of its own, which shared types of that name have. */
struct function { PyObject_HEAD vectorcallfunc call; PyObject *qualname, *module; };

static PyObject *spin(PyObject *self, PyObject *const *args, size_t n, PyObject *names)
{
    advance_ns(40000000);
    return PyLong_FromLong(1);
}
static PyMemberDef members[] = {
    {"__qualname__", T_OBJECT, offsetof(struct function, qualname), READONLY, ""},
    {"__module__", T_OBJECT, offsetof(struct function, module), READONLY, ""}, {NULL, 0, 0, 0, NULL}};
static PyTypeObject function_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "_cython_3_9.cython_function_or_method", .tp_flags = Py_TPFLAGS_DEFAULT |
    Py_TPFLAGS_HAVE_VECTORCALL, .tp_basicsize = sizeof(struct function), .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(struct function, call), .tp_members = members};

struct generator { PyObject_HEAD int left; };

static PyObject *next(PyObject *self)
{
    struct generator *generator = (struct generator *)self;
    advance_ns(20000000);
    return generator->left-- ? PyLong_FromLong(1) : NULL;
}
static PyTypeObject generator_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "_cython_3_9.generator", .tp_flags = Py_TPFLAGS_DEFAULT, .tp_basicsize =
    sizeof(struct generator), .tp_iter = PyObject_SelfIter, .tp_iternext = next};
static PyTypeObject own_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "shaped.Own", .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_basicsize = sizeof(PyObject)};

static PyObject *twice(PyObject *self, PyObject *none)
{
    struct generator *generator = PyObject_New(struct generator, &generator_type);
    generator->left = 2;
    return (PyObject *)generator;
}
static PyMethodDef methods[] = {{"twice", twice, METH_NOARGS, ""}, {NULL, NULL, 0, NULL}};
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "shaped", "", -1, methods, NULL, NULL, NULL, NULL};

static void add(const char *name, PyObject *(*wrap)(PyObject *))
{
    struct function *function = PyObject_New(struct function, &function_type);
    function->call = spin;
    function->qualname = PyUnicode_FromFormat("Own.%s", name);
    function->module = PyUnicode_FromString("shaped");
    PyDict_SetItemString(own_type.tp_dict, name, wrap((PyObject *)function));
}
PyMODINIT_FUNC PyInit_shaped(void)
{
    if (PyType_Ready(&function_type) || PyType_Ready(&generator_type) || PyType_Ready(&own_type))
        return NULL;
    add("fixed", PyStaticMethod_New);
    add("made", PyClassMethod_New);
    PyType_Modified(&own_type);
    PyObject *made = PyModule_Create(&module);
    PyModule_AddObjectRef(made, "Own", (PyObject *)&own_type);
    return made;
}
"""


def test_static_and_class_methods_and_generators_of_cython(tmp_path: Path) -> None:
    build(tmp_path, "shaped", LIKE_CYTHON)
    (tmp_path / "program.py").write_text(
        "import shaped\nx = shaped.Own.fixed()\ny = shaped.Own.made()\nz = sum(shaped.twice())\n"
    )
    made = trace_python(str(tmp_path / "program.py"), [])
    regions = predict(made.signature, find("epyc-turin-vm")).loops
    for line, name in ((2, "shaped.Own.fixed"), (3, "shaped.Own.made"), (4, "cython.generator.__next__")):
        at_line = [region for region in regions if region.place.line == line]
        [compiled] = [region for region in at_line if region.kind is LoopKind.COMPILED]
        assert name in compiled.label
        assert compiled.time_s > 0.98 * sum(region.time_s for region in at_line)


@pytest.fixture(scope="module", autouse=True)
def clock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Time is what the programs say it is."""
    with fake_clock(tmp_path_factory.mktemp("clock")):
        yield


@pytest.fixture(scope="module")
def traced(clock: None, tmp_path_factory: pytest.TempPathFactory) -> Traced:
    directory = tmp_path_factory.mktemp("compiled")
    build(directory)
    (directory / "program.py").write_text(PROGRAM)
    made = trace_python(str(directory / "program.py"), [])
    return Traced(directory, made.signature, predict(made.signature, find("epyc-turin-vm")))


def test_the_time_belongs_to_the_line_that_called_and_has_the_functions_name(traced: Traced) -> None:
    for line in (8, 12):
        region = traced.region(line, LoopKind.COMPILED)
        assert region.label == "compiled: spinning.spin" or region.label == "compiled: spinning.spin (first call)"
        assert region.bound_by is Bound.UNSEEN
        assert region.share > 0.1


def test_both_sides_of_a_call_back_are_the_compiled_functions(traced: Traced) -> None:
    """Neither the line that calls nor the function that is called back has what runs before or behind it."""
    there = [r for r in traced.prediction.loops if r.place.line == 13 or r.place.function == "least"]
    compiled_s = sum(r.time_s for r in there if r.kind is LoopKind.COMPILED)
    assert compiled_s > 0.98 * sum(r.time_s for r in there)
    for line in (12, 13):
        at_line = [r for r in traced.prediction.loops if r.place.line == line and r.kind is LoopKind.COMPILED]
        assert sum(r.time_s for r in at_line) == pytest.approx(traced.region(8, LoopKind.COMPILED).time_s, rel=0.01)


def test_generated_code_has_no_rows_of_its_own(traced: Traced) -> None:
    assert not [r for r in traced.prediction.loops if r.place.file.startswith("<")]


def test_what_follows_a_return_is_the_callers(traced: Traced) -> None:
    """What takes time runs before the comprehension returns, `len` behind it, both on one line."""
    at_line = [r for r in traced.prediction.loops if r.place.line == 14]
    assert sum(r.time_s for r in at_line if r.kind is LoopKind.LINE) > 0.98 * sum(r.time_s for r in at_line)


def test_its_share_is_in_the_warnings_and_its_interval_is_wide(traced: Traced) -> None:
    prediction = traced.prediction
    assert 0.5 * prediction.time_s < prediction.unseen_s < prediction.time_s
    assert any("compiled code that was not seen (spinning.spin" in warning for warning in prediction.warnings)
    region = traced.region(12, LoopKind.COMPILED)
    assert region.low_s <= 0.51 * region.time_s
    assert region.high_s >= 1.9 * region.time_s


def test_a_signature_has_its_share_of_the_traced_run(traced: Traced) -> None:
    unseen = traced.signature.provenance.unseen
    assert unseen.time_share is not None
    assert 0.5 < unseen.time_share < 1
    assert unseen.functions[0] == "spinning.spin"
    said = unseen_report.line(unseen)
    assert said.startswith(f"{unseen.time_share:.1%} of the run is compiled code that was not seen (spinning.spin")


def test_array_operations_that_were_seen_are_part_of_the_run(tmp_path: Path) -> None:
    (tmp_path / "arrays.py").write_text(
        "import numpy as np\na = np.ones(3_000_000)\nfor _ in range(20):\n    a += 1.0\n    b = a * 2.0\n"
    )
    unseen = trace_python(str(tmp_path / "arrays.py")).signature.provenance.unseen
    assert unseen.time_share is not None
    assert unseen.time_share < 0.4  # np.ones alone is not seen
    untimed = trace_python(str(tmp_path / "arrays.py"), core="settrace").signature.provenance.unseen
    assert untimed.time_share is None


def test_triage_does_not_call_it_nothing_to_offload(traced: Traced) -> None:
    report = triage(traced.signature, find("jaguar-xt4"), find("convey-hc1-fpga"))
    assert not report.instances
    assert report.unseen[0] == "spinning.spin"
    assert report.unseen_s > 0.5 * report.program.host_s


def test_triage_says_what_share_was_not_seen(traced: Traced, tmp_path: Path) -> None:
    signature = tmp_path / "p.sig"
    foretrace = [sys.executable, "-m", "foretrace"]  # in a directory without one
    subprocess.run(
        [*foretrace, "trace", "-o", str(signature), str(traced.directory / "program.py")], check=True, cwd=tmp_path
    )
    ask = [*foretrace, "triage", str(signature), "--host", "jaguar-xt4", "--accelerator", "convey-hc1-fpga"]
    said = subprocess.run(ask, check=True, cwd=tmp_path, capture_output=True, text=True).stdout
    assert "nothing to offload" not in said
    assert "in compiled code that was not seen (spinning.spin" in said
    document = json.loads(
        subprocess.run([*ask, "--json"], check=True, cwd=tmp_path, capture_output=True, text=True).stdout
    )
    assert document["unseen_share"] > 0.5
    shown = subprocess.run(
        [*foretrace, "info", str(signature)], check=True, cwd=tmp_path, capture_output=True, text=True
    ).stdout
    assert "of the run is compiled code that was not seen (spinning.spin" in shown
    ask = [*foretrace, "predict", str(signature), "--machine", "epyc-turin-vm", "--json"]
    document = json.loads(subprocess.run(ask, check=True, cwd=tmp_path, capture_output=True, text=True).stdout)
    assert document["predictions"][0]["unseen_share"] > 0.5


def test_element_accesses_of_a_library_do_not_lose_its_time(tmp_path: Path) -> None:
    """They fill chunks of the stream while a single block runs; its timing is kept all the same."""
    run = trace(
        tmp_path,
        "import numpy as np\nclass Odd(np.ndarray):\n    pass\na = np.zeros(1000)\n"
        "def f(i):\n    return a[i % 1000]\nv = np.frompyfunc(f, 1, 1)\nx = v(np.arange(200_000))\ny = 1\n",
    )
    block = max((b for b in run.blocks() if b.line == 8 and b.instructions), key=lambda b: b.executions)
    assert block.timed or block.long_rounds


def test_return_markers_change_no_result(tmp_path: Path) -> None:
    program = (
        "def g(n):\n    for i in range(n):\n        yield i\n    return 7\n"
        "def h(n):\n    x = yield from g(n)\n    return x\n"
        "def f(n):\n    try:\n        return [*h(n)]\n    finally:\n        print('out')\n"
        "class A:\n    def __enter__(self):\n        return self\n    def __exit__(self, *a):\n        return True\n"
        "def w():\n    with A():\n        raise ValueError\n    return 'after'\n"
        "print(f(3), w(), (lambda: None)(), sum(i for i in range(4)))\n"
    )
    (tmp_path / "p.py").write_text(program)
    found = run_traced(tmp_path, "p.py")
    assert (found.returncode, found.stdout) == (0, "out\n[0, 1, 2] after None 6\n")


def test_what_is_recorded_within_a_call_does_not_end_it(tmp_path: Path) -> None:
    """Library code called back takes a part of an array: neither the call's time nor its pages end there."""
    build(tmp_path)
    library = tmp_path / "site-packages"
    library.mkdir()
    (library / "cutting.py").write_text("data = bytearray(10)\ndef cut():\n    return data[2:5]\n")
    run = trace(
        tmp_path,
        f"import sys\nsys.path[:0] = [{str(tmp_path)!r}, {str(library)!r}]\nimport spinning\nimport cutting\n"
        "x = spinning.spin(40_000_000)\ny = spinning.spin_around(cutting.cut)\nz = 1\n",
    )
    once, around = (
        sum(block.timed_rounds + block.long_rounds for block in run.blocks() if block.line == line) for line in (5, 6)
    )
    assert around == pytest.approx(once, rel=0.01)
    named = {called.name for called in run.recording.raw.compiled}
    assert "spinning.spin_around" in named
    assert all(operation.faults < 1_000_000 for operation in run.recording.raw.array_operations)
