"""Programs of a few nodes with costs on a device, and devices, made by hand, for the tests of offload."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from flow_samples import flow_of
from replay_samples import SOURCES, accelerator
from tree_samples import Tree

from foretrace.profiles.profile import SCHEMA, CacheLevel, Core, Link, MachineKind, Memory, Profile
from foretrace.replay.base.records import Place
from foretrace.replay.base.spread import exactly
from foretrace.replay.offload.devices.device import Device, Way
from foretrace.replay.offload.devices.kernels import Candidate, Offers
from foretrace.replay.offload.devices.work import NodeKind, Work
from foretrace.replay.offload.host_threads import HostTimes
from foretrace.replay.offload.plan import Planner
from foretrace.tracer.signature.data_flow_records import Dependence, DependenceKind, ExaminedLoop
from foretrace.tracer.signature.records import OperationCount, OperationKind


def work_of(parents: Sequence[int], own_s: Sequence[float], versions, touched=(), entries=None) -> Work:
    """Nodes that are loops of one iteration, with regions of their own."""
    count = len(parents)
    children = [[node for node in range(count) if parents[node] == parent] for parent in range(count)]
    return Work(
        run=None, parent=np.array(parents), children=children, kinds=(NodeKind.LOOP,) * count,
        places=tuple(Place("program", f"f{node}", "f.c", node + 1) for node in range(count)),
        entries=np.array(entries or [1] * count), iterations=np.array(entries or [1] * count),
        tree_node=np.arange(count), own_s=[{node: time_s} for node, time_s in enumerate(own_s)],
        loop_number=np.full(count, -1),
        pages_s=np.zeros(count), row_node=np.zeros(0, np.int64), row_block=np.zeros(0, np.int64),
        row_share=np.zeros(0), flow=flow_of(versions, touched), place=np.arange(count),
        left_out_bytes=0.0, notes=(),
    )  # fmt: skip


def planner_of(work: Work, kernel_s: dict[int, float], way: Way) -> Planner:
    """For candidates with these kernels' seconds; launches are the nodes' entries."""
    device = Device.of(accelerator())
    device = Device(device.profile, way, None, True, ())
    own = work.inclusive_s
    candidates = {
        node: Candidate(
            node=node, nodes=tuple(work.below(node)), host_s=float(own[node]), launches=int(work.entries[node]),
            terms=None, kernel_s=exactly(time_s), launch_s=way.launch_s * int(work.entries[node]),
            arithmetic_s=np.zeros(3), footprint_bytes=0.0,
        )
        for node, time_s in kernel_s.items()
    }  # fmt: skip
    return Planner(Offers(work, device, candidates, None, None, None), HostTimes.of(work, 1, None, None))


def random_planner(seed: int, *, latency_s: float) -> Planner:
    """A program of up to nine nodes with data between them, some of which are candidates."""
    chance = random.Random(seed)
    count = chance.randint(3, 9)
    parents = [-1, *(chance.randrange(max(0, node - 3), node) for node in range(1, count))]
    entries = [1] * count
    for node in range(1, count):
        entries[node] = entries[parents[node]] * chance.choice([1, 1, 1, 10])
    versions = []
    for _ in range(chance.randint(0, 2 * count)):
        readers = chance.sample(range(count), chance.randint(1, 3))
        versions.append((chance.randint(-1, count - 1), readers, 10 ** chance.uniform(1, 7)))
    own_s = [10 ** chance.uniform(-4, 0) for _ in range(count)]
    work = work_of(parents, own_s, versions, entries=entries)
    inclusive = work.inclusive_s
    able = [node for node in range(count) if chance.random() < 0.7]
    kernel_s = {node: float(inclusive[node]) * 10 ** chance.uniform(-2, 0.3) for node in able}
    link = 10 ** chance.uniform(6, 9)
    way = Way(False, exactly(1e-4), exactly(latency_s), exactly(latency_s), link, link)
    return planner_of(work, kernel_s, way)


def divisions(planner: Planner) -> Iterator[tuple[int, ...]]:
    """All sets of kernels in which no kernel is part of another."""
    nodes = sorted(planner.able)
    for size in range(len(nodes) + 1):
        for chosen in itertools.combinations(nodes, size):
            inside = [below for node in chosen for below in planner.able[node].nodes]
            if len(inside) == len(set(inside)):
                yield chosen


def gpu(name="gpu", *, capacity=1 << 40, **link):
    """100 multiprocessors at 1 GHz, 12.8 Tflop/s, 1 TB/s; a shared memory unless `link` says otherwise."""
    return Profile(
        schema=SCHEMA, name=name, title=name.upper(), kind=MachineKind.ACCELERATOR, date="2020", sources=SOURCES,
        core=Core(source={}, cores=100, clock_hz=1e9, peak_flops_per_cycle=128.0),
        caches=tuple(CacheLevel(name=n, size_bytes=b, source={}) for n, b in (("L1", 128 << 10), ("L2", 8 << 20))),
        memory=Memory(source={}, size_bytes=capacity, sustained_bandwidth_bytes_per_s=1e12, latency_s=500e-9),
        link=Link(**({"source": {}, "shared_memory": True, "launch_latency_s": 1e-5} | link)),
    )  # fmt: skip


def nest(*, outer=1, inner=1 << 20, flops=4, size=8, stores=True, called=False):
    """main has a loop of `outer` iterations around one of `inner` that streams and computes, in g if `called`."""
    tree = Tree()
    root = tree.thread()
    main = tree.call(root, "main")
    around = tree.loop(main, outer)
    loop = tree.loop(tree.call(around, "g", entries=outer) if called else around, outer * inner, entries=outer)
    block = tree.does(loop, outer * inner, instructions=2 + flops)
    program = tree.program
    made = program.blocks[block]
    program.blocks[block] = type(made)(
        **{name: getattr(made, name) for name in made.__struct_fields__}
        | {"operations": (OperationCount(OperationKind.FP_MUL, 64, 1, flops),) if flops else ()}
    )
    times = outer * inner
    program.access(block, times, (times // 8,) * 2, size=size, first=1 << 40, length=size * inner)
    if stores:
        program.access(block, times, (times // 8,) * 2, size=size, first=1 << 41, length=size * inner, is_store=True)
    return tree, around, loop


def with_flow(tree, versions, touched=(), **more):
    return replace(tree.signature(), data_flow=flow_of(versions, touched), **more)


def recurrence(node):
    return Dependence(node, DependenceKind.RECURRENCE, -1, -1, 10, 1, 1, where="register xmm0")


def examined(signature, *nodes, dependences=()):
    loops = tuple(ExaminedLoop(node, int(signature.tree.iterations[node])) for node in nodes)
    return replace(signature, examined_loops=loops, dependences=tuple(dependences))
