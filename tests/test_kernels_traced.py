"""The kernels of arithmetic, traced: they execute the instructions that their names say, on every instruction set."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from foretrace.cache_sim.hierarchy import DEFAULT_HIERARCHY
from foretrace.tracer.machine_code import binary_analysis
from foretrace.tracer.qemu.binary import QemuEngine
from foretrace.tracer.session import Session
from foretrace.tracer.signature import OperationKind

KERNELS = Path(__file__).parents[1] / "benchmarks"
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
    return 0;
}}
"""


def kind_of(name: str, lanes: int) -> OperationKind:
    if lanes > 1 and name.startswith("int_"):
        return OperationKind.VECTOR_INT
    return OperationKind.INT_ALU if name == "int_add" else OperationKind(name)


@pytest.mark.parametrize("target", ["x86_64", "aarch64", "riscv64"])
def test_kernels_execute_what_they_count(
    compile_c: Callable[..., Path], target: str, capfd: pytest.CaptureFixture[str]
) -> None:
    sources = [str(KERNELS / f"{part}.c") for part in ("kernels", "memory_kernels", "core_kernels", "fp_kernels")]
    program = compile_c(RUN_ALL, "-O2", "-static", "-I", str(KERNELS), *sources, target=target)
    recording = Session(QemuEngine([str(program)]), [DEFAULT_HIERARCHY]).run()
    assert recording.problem == ""
    analysis = binary_analysis.analyse(recording.raw, recording.simulator.statistics(), target)
    executed: Counter[tuple[str, OperationKind, int, int]] = Counter()
    for block in analysis.blocks:
        for operation in block.operations:
            key = (block.function, operation.kind, operation.element_bits, operation.lanes)
            executed[key] += block.executions * operation.count
    counted = {name: int(count) for name, count in (line.split() for line in capfd.readouterr().out.splitlines())}
    names = [match for name in counted if (match := re.fullmatch(r"(\w+)_(\d+)x(\d+)_(?:chain|free)", name))]
    assert len(names) >= 16
    for match in names:
        operation, bits, lanes = match[1], int(match[2]), int(match[3])
        if operation == "fp_control" and target == "x86_64":
            bits = 32  # of its register
        kind = kind_of(operation, lanes)
        found = executed[match[0], kind, bits, lanes]
        control = 4 * ROUNDS + 4  # of the loop around it
        assert counted[match[0]] <= found <= counted[match[0]] + control, (match[0], found, counted[match[0]])
