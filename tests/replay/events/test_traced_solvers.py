"""Solvers traced with few iterations, predicted for more: against traces of the longer runs. Events are sampled by a
clock that the traced programs move, so as often each time."""

import json

import pytest
from command_line import run
from effort import sweep
from fake_clock import fake_clock
from traces import trace_binary, trace_python

from foretrace.benchmarks.validation.events import SOURCES, build
from foretrace.tracer.signature.file import write_signature

MACHINE = "epyc-milan-vm"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("solvers")


@pytest.fixture(scope="module")
def executable(folder):
    return build(folder)


def traced(folder, name, program, *arguments):
    path, arguments = folder / f"{name}.sig", [str(argument) for argument in arguments]
    with fake_clock(folder, large_blocks_wait=True):
        if program.suffix == ".py":
            signature = trace_python(str(program), arguments).signature
        else:
            signature = trace_binary([str(program), *arguments]).signature
    write_signature(signature, path, force=True)
    return path


def predicted(signature, *options):
    document = json.loads(run("predict", signature, "--machine", MACHINE, "--json", *options).output)
    return document["predictions"][0]


SOLVERS = [("CG+ILU", ("120", "cg", "ilu"), 12), ("GMRES", ("60", "gmres", "none"), 150)]


@sweep(("name", "arguments", "iterations"), SOLVERS, SOLVERS[:1])
def test_more_iterations(folder, executable, name, arguments, iterations):
    few = traced(folder, name, executable, *arguments, iterations)
    many = traced(folder, f"{name}-many", executable, *arguments, 4 * iterations)
    event = f"{name}::numiter_I"
    found = predicted(few, "--set", f"{event}={4 * iterations}")
    true_s = predicted(many)["time_s"]
    assert predicted(many, "--per", event)["event"]["traced"] == 4 * iterations
    assert found["time_s"] == pytest.approx(true_s, rel=0.1)
    parts = found["event"]["traced_parts"]
    assert parts["proportional_s"] > 0.5 * found["event"]["traced_s"]
    assert parts["unrecognised_s"] < 0.02 * found["event"]["traced_s"]
    (set_up,) = {node["fixed_s"] == node["time_s"] for node in parts["nodes"] if node["function"] == "matrix_of_grid"}
    assert set_up


def test_array_operations(folder):
    pytest.importorskip("numpy")
    signature = traced(folder, "poisson", SOURCES / "poisson.py", 400, 40)  # each new array is waited for
    event = predicted(signature, "--set", "Poisson::iterations=80")["event"]
    assert event["traced"] == 40
    in_loop = [node for node in event["traced_parts"]["nodes"] if node["function"] == "apply" and node["time_s"] > 1e-4]
    assert in_loop
    assert all(node["proportional_s"] > 0.6 * node["time_s"] for node in in_loop)
    assert 1.5 < event["ratio"] <= 2
