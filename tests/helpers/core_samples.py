"""Programs of a few instructions with a path each, for the tests of the core model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from replay_samples import Program, measured_host, with_changes

from foretrace.profiles.profile import Profile
from foretrace.tracer.signature.records import Instruction, OperationKind, Paths, Signature

ITERATIONS = 4000
WIDTH = 4.0


def machine(**core) -> Profile:
    """The measured host, with four instructions a cycle, two loads and a store, and no figure of a core left out."""
    figures = {
        "issue_width_instructions_per_cycle": WIDTH,
        "scalar_flops_per_cycle": 4.0,
        "peak_flops_per_cycle": 16.0,
        "loads_per_cycle": 2.0,
        "stores_per_cycle": 1.0,
        "fp_mul_latency_cycles": 4.0,
        "fp_fma_latency_cycles": 5.0,
        "fp_div_latency_cycles": 15.0,
        "fp_sqrt_latency_cycles": 20.0,
        "int_mul_latency_cycles": 3.0,
        "int_div_latency_cycles": 25.0,
        "int_adds_per_cycle": 4.0,
        "taken_branches_per_cycle": 1.0,
        "store_forward_latency_cycles": 6.0,
    } | core
    host = measured_host()
    return with_changes(host, core=with_changes(host.core, **figures))


def instruction(kind: str, reads: str = "", writes: str = "", addresses: str = "", **other) -> Instruction:
    """An instruction with registers as in "r1 r2"."""
    facts = {
        "element_bits": 64,
        "lanes": 1,
        "length_bytes": 2,
        "flow": "",
        "scaled": False,
        "load_operation": None,
        "store_operation": None,
    }
    return Instruction(
        kind=OperationKind(kind), reads=tuple(reads.split()), writes=tuple(writes.split()),
        addresses=tuple(addresses.split()), **(facts | other),
    )  # fmt: skip


def loop_of(
    *instructions: Instruction,
    accesses: Sequence[dict] = (),
    store_distances: Sequence[int] = (),
    seen_lines: bool = False,
) -> Signature:
    """A loop of one block with these instructions and, in the order of their use, memory operations.

    `accesses` are arguments of `Program.access`; `seen_lines`: each access finds its line touched by the one before.
    """
    program = Program()
    block = program.loop(ITERATIONS, instructions=len(instructions))
    for one in accesses:
        program.access(block, ITERATIONS, **one)
    distances = np.tile(np.array(store_distances or [0] * len(accesses), np.uint16), ITERATIONS)
    distances[: 2 * len(accesses)] = 0
    lines = np.full(len(distances), 1 if seen_lines else 0, np.uint16)
    return with_path(program.signature(), [block] * ITERATIONS, {block: instructions}, distances, lines)


def with_path(signature: Signature, path: Sequence[int], instructions, store_distances, line_distances) -> Signature:
    """A signature with one path."""
    paths = Paths(
        np.array([0, len(path)]), np.array(path, np.uint32), np.array(store_distances, np.uint16),
        np.array(line_distances, np.uint16), instructions,
    )  # fmt: skip
    return replace(signature, paths=paths)
