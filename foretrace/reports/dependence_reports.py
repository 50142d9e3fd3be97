"""Report of `foretrace info --dependences`: what each loop carries from one iteration to the next."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from foretrace.base.names import demangle, function_text, place_text, short_name
from foretrace.base.units import format_count
from foretrace.tracer.analysis.data_flow.verdicts import LoopVerdict, verdicts
from foretrace.tracer.signature.data_flow_records import Dependence, DependenceKind
from foretrace.tracer.signature.records import Signature
from foretrace.tracer.signature.tree_records import ExecutionTree

from .left_out import rest_line
from .model import COUNT, Column, Report, Table, Text, document_of


def dependence_report(signature: Signature, tree: ExecutionTree, top: int) -> Report:
    """Report of `foretrace info --dependences`: the loops by iterations, `top` of them on a terminal."""

    def place(loop: LoopVerdict) -> str:
        key = tree.keys[loop.node]
        return place_text(key.file, key.line, key.module, key.caller)

    def function(loop: LoopVerdict) -> str:
        return function_text(tree.keys[loop.node].function, tree.keys[loop.node].caller)

    columns = (
        Column("node"),
        Column("loop", "loop", value=place),
        Column("function", "function", value=function, drop=1),
        Column("iterations", "iterations", COUNT),
        Column("carries", "carries", value=_carries),
        Column("what", "what", value=lambda loop: _what(loop.dependences[0]) if loop.dependences else ""),
        Column("where", "where", value=lambda loop: _where(signature, loop.dependences[0]) if loop.dependences else ""),
    )
    loops = _by_iterations(signature)
    rest = rest_line([loop.iterations for loop in loops], top, "loops", "iterations")
    title = f"what loops carry, by iterations, {min(top, len(loops))} of {len(loops)}"
    rows = Table(columns, loops, title, shown=top, rest=rest)
    evidence = Text(["Evidence of this run and its input, no proof."])
    return Report("Dependences of loops", [rows, evidence], rows, lambda: document(signature, tree))


def _by_iterations(signature: Signature) -> list[LoopVerdict]:
    return sorted(verdicts(signature), key=lambda loop: (-loop.iterations, loop.node))


def _carries(loop: LoopVerdict) -> str:
    if loop.is_repetition:
        return "repetition"
    return loop.verdict.name.lower() if loop.dependences else "none seen"


def _what(one: Dependence) -> str:
    """Description of a dependence: how often it occurs, its kind, and the distance."""
    apart = f"{one.least_distance}"
    if one.most_distance != one.least_distance:
        apart += f" to {one.most_distance}"
    operation = f"{one.operation}, " if one.operation else ""
    if one.kind is DependenceKind.RECURRENCE:
        unit = "iteration" if apart == "1" else "iterations"
        return f"{format_count(one.count)} times, {apart} {unit} apart"
    return f"{operation}{format_count(one.count)} times"


def _where(signature: Signature, one: Dependence) -> str:
    """The name of what is carried, or from which line to which."""
    if one.where:
        return one.where
    ends = [_line(signature, operation) for operation in dict.fromkeys((one.source, one.sink)) if operation >= 0]
    return " to ".join(dict.fromkeys(ends))


def _line(signature: Signature, number: int) -> str:
    operation = signature.operations[number]
    if operation.file:
        return f"{Path(operation.file).name}:{operation.line}"
    block = signature.blocks[operation.block_id]
    return short_name(block.function) or f"{Path(block.module).name}+{operation.offset:#x}"


def document(signature: Signature, tree: ExecutionTree) -> dict[str, Any]:
    """The JSON face."""
    return {
        "schema": "foretrace.dependences/1",
        "loops": [_loop_document(signature, tree, loop) for loop in _by_iterations(signature)],
    }


def _loop_document(signature: Signature, tree: ExecutionTree, loop: LoopVerdict) -> dict[str, Any]:
    key = tree.keys[loop.node]
    return {
        "node": loop.node,
        "module": key.module,
        "function": demangle(key.function),
        "file": key.file,
        "line": key.line,
        "caller": demangle(key.caller) or None,
        "iterations": loop.iterations,
        "verdict": loop.verdict.name.lower(),
        "scale": loop.verdict.on_scale,
        "overwritten_share": loop.overwritten,
        **document_of(loop, "live_bytes is_repetition"),
        "dependences": [_document(signature, one) for one in loop.dependences],
    }


def _document(signature: Signature, one: Dependence) -> dict[str, Any]:
    def end(number: int) -> dict[str, Any] | None:
        return {"operation": number} | document_of(signature.operations[number], "file line") if number >= 0 else None

    return {
        "kind": one.kind.name.lower(),
        "operation": one.operation,
        "count": one.count,
        "least_distance_iterations": one.least_distance,
        "most_distance_iterations": one.most_distance,
        "source": end(one.source),
        "sink": end(one.sink),
        "where": one.where,
    }
