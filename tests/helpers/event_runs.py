"""Runs made by hand whose events are sampled as the tracer samples them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from tree_samples import Tree

from foretrace.tracer.signature.event_records import EventKind, Events, EventSamples, RecordedEvent


class EventRun:
    """Runs nodes of a tree in order, counts an event, and takes samples; `signature()` is what the tracer would make.

    Args:
        every: executions between two samples.
    """

    def __init__(self, every: int) -> None:
        self.tree = Tree()
        self.every = every
        self.done: dict[int, int] = {}
        self.value = 0.0
        self.position = 0
        self.samples: list[tuple[int, float, dict[int, int]]] = []

    def runs(self, node, executions):
        """Work of a node, which is sampled in the middle where a sample is due."""
        while executions > 0:
            now = min(executions, self.every - self.position % self.every)
            self.position += now
            self.done[node] = self.done.get(node, 0) + now
            executions -= now
            if self.position % self.every == 0:
                self.sample()

    def counts(self, units=1.0):
        self.value += units

    def sample(self):
        self.samples.append((self.position, self.value, dict(self.done)))

    def event(self, **changes):
        made = RecordedEvent(
            process=0, library="solver", name="iterations", kind=EventKind.REGISTERED, type="long long",
            is_instant=True, description="iterations of the solver [iteration]", value=self.value,
        )  # fmt: skip
        return replace(made, **changes)

    def signature(self, event=None, is_sampled=True, unsampled=(), **provenance):
        """The signature. `unsampled` are nodes too small to be sampled."""
        for node, executions in sorted(self.done.items()):
            self.tree.does(node, executions)
        if not self.samples or self.samples[-1][0] != self.position:
            self.sample()
        nodes = [node for node in range(len(self.tree.nodes)) if node not in unsampled]
        found = EventSamples(
            process=0,
            events=np.array([0], np.int64),
            position=np.array([position for position, _, _ in self.samples], np.int64),
            values=np.array([[value] for _, value, _ in self.samples], np.float64),
            nodes=np.array(nodes, np.int64),
            executions=np.array([[done.get(node, 0) for node in nodes] for _, _, done in self.samples], np.int64),
        )
        events = Events((event or self.event(),), (found,) if is_sampled else ())
        return replace(self.tree.signature(**provenance), events=events)


def solver_run(iterations, *, set_up=5000, of_loop=300, every=None, first=0, tail=0):
    """Set-up, then a loop that counts an iteration each time: (run, nodes by name)."""
    run = EventRun(every or max((set_up + of_loop * iterations) // 200, 1))
    main = run.tree.call(run.tree.thread(), "main")
    nodes = {"main": main, "set_up": run.tree.call(main, "set_up"), "solve": run.tree.call(main, "solve")}
    nodes["loop"] = run.tree.loop(nodes["solve"], iterations)
    nodes["dot"] = run.tree.call(nodes["loop"], "dot")
    run.runs(main, 10)
    run.runs(nodes["set_up"], set_up)
    run.runs(nodes["dot"], first)
    for _ in range(iterations):
        run.runs(nodes["loop"], of_loop * 2 // 3)
        run.runs(nodes["dot"], of_loop - of_loop * 2 // 3)
        run.counts()
    run.runs(nodes["solve"], tail)
    return run, nodes
