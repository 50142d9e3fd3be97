"""The kernels of arithmetic, traced: they execute the instructions that their names say, on every instruction set."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from effort import sweep

from foretrace.benchmarks.calibration.window_suite import KINDS
from foretrace.tracer.analysis.machine_code import binary_analysis
from foretrace.tracer.qemu.binary import QemuEngine
from foretrace.tracer.session.session import Session
from foretrace.tracer.signature.records import OperationKind

KERNELS = Path(__file__).parents[2] / "benchmarks" / "kernels"
ROUNDS = 7
RUN_ALL = rf"""
#include <inttypes.h>
#include <stdio.h>
#include "kernels.h"
int main(void)
{{
    const struct ft_kernel *kernel;
    for (size_t i = 0; (kernel = ft_kernel_at(i)); i++) {{
        struct ft_work work = {{.repeats = {ROUNDS}}};
        if (ft_kernel_fits(kernel, &work))
            printf("%s %" PRIu64 "\n", kernel->name, kernel->run(&work));
    }}
    _Alignas(FT_LINE_BYTES) char lines[2][FT_LINE_BYTES]; /* each with a chain of itself alone */
    for (size_t i = 0; i < 2; i++)
        *(char **)lines[i] = lines[i];
    for (kernel = ft_window_kernels; kernel->name; kernel++) {{
        struct ft_work work = {{.data = lines, .bytes = sizeof lines, .repeats = {ROUNDS}}};
        if (ft_kernel_fits(kernel, &work))
            printf("%s %" PRIu64 "\n", kernel->name, kernel->run(&work));
    }}
    return 0;
}}
"""


def kind_of(name: str, lanes: int, target: str) -> OperationKind:
    if lanes > 1 and name.startswith("int_"):
        return OperationKind.VECTOR_MUL if name == "int_mul" else OperationKind.VECTOR_INT
    if name == "fp_shuffle":  # AArch64 has one instruction for vectors of both
        return OperationKind.FP_OTHER if target == "x86_64" else OperationKind.VECTOR_INT
    return OperationKind.INT_ALU if name == "int_add" else OperationKind(name)


@sweep("target", ["x86_64", "aarch64", "riscv64"], ["x86_64"])  # the others' code is read in test_cross_binaries.py
def test_kernels_execute_what_they_count(
    compile_c: Callable[..., Path], target: str, capfd: pytest.CaptureFixture[str]
) -> None:
    sources = [
        str(KERNELS / f"{part}.c")
        for part in (
            *("kernels", "memory_kernels", "window_kernels", "core_kernels"),
            *("code_kernels", "fp_kernels", "special_kernels"),
        )
    ]
    program = compile_c(RUN_ALL, "-O2", "-static", "-I", str(KERNELS), *sources, target=target)
    recording = Session(QemuEngine([str(program)])).run()
    assert recording.problem == ""
    analysis = binary_analysis.analyse(recording.raw, recording.statistics, target)
    executed: Counter[tuple[str, OperationKind, int, int]] = Counter()
    functions = {}
    for block in analysis.blocks:
        functions[block.block_id] = block.function.partition(".")[0]
        for operation in block.operations:
            key = (functions[block.block_id], operation.kind, operation.element_bits, operation.lanes)
            executed[key] += block.executions * operation.count
    stores: Counter[str] = Counter()
    for access in analysis.operations:
        if access.is_store:
            stores[functions[access.block_id]] += access.executions
    counted = {name: int(count) for name, count in (line.split() for line in capfd.readouterr().out.splitlines())}
    check_windows(counted, executed, stores, target)
    added, kind = sum(count for name, count in counted.items() if name.startswith("code_")), vector_kind(target)
    assert executed["run_code", *kind] == added // 2 > 10000
    assert added // 2 <= executed["run_code", OperationKind.INT_ALU, 64, 1] <= 1.01 * added // 2
    names = [match for name in counted if (match := re.fullmatch(r"(\w+)_(\d+)x(\d+)_(?:chain|free)", name))]
    assert len(names) >= 16
    for match in names:
        operation, bits, lanes = match[1], int(match[2]), int(match[3])
        if operation == "fp_control" and target == "x86_64":
            bits = 32  # of its register
        kind = kind_of(operation, lanes, target)
        found = executed[match[0], kind, bits, lanes]
        control = 4 * ROUNDS + 4  # of the loop around it
        assert counted[match[0]] <= found <= counted[match[0]] + control, (match[0], found, counted[match[0]])


def vector_kind(target: str) -> tuple[OperationKind, int, int]:
    """Of the kernels that do something with vectors, or with floating point where there are none."""
    return (OperationKind.FP_OTHER, 64, 1) if target == "riscv64" else (OperationKind.VECTOR_INT, 64, 2)


def check_windows(
    counted: Mapping[str, int],
    executed: Mapping[tuple[str, OperationKind, int, int], int],
    stores: Mapping[str, int],
    target: str,
) -> None:
    """Between one load and the next stand as many instructions as the name says, of the kind that it says."""
    names = [match for name in counted if (match := re.fullmatch(rf"({'|'.join(KINDS)})_(\d+)", name))]
    assert {match[1] for match in names} == set(KINDS)
    for match in names:
        wanted = 2 * ROUNDS * int(match[2])
        integers, vectors, empty = (
            executed[match[0], *kind]
            for kind in ((OperationKind.INT_ALU, 64, 1), vector_kind(target), (OperationKind.OTHER, 0, 1))
        )
        found = {
            "window": integers + vectors + empty,
            "storing": stores[match[0]],
        }[match[1]]
        assert wanted <= found <= wanted + 4 * ROUNDS + 4, (match[0], found, wanted)
        if match[1] == "window":
            assert vectors == wanted * 3 // 8
            assert empty >= wanted // 4
