"""Minimum cuts of directed graphs, by Dinic's algorithm (Soviet Math. Doklady 11, 1970), on whole-number capacities."""

from __future__ import annotations

from collections import deque

INFINITE = 1 << 62


class Network:
    """A graph with a source and a sink. Capacities are whole numbers: sums are exact."""

    SOURCE, SINK = 0, 1

    def __init__(self, nodes: int) -> None:
        """With `nodes` nodes besides source and sink; their numbers begin at 2."""
        self.edges: list[list[int]] = [[] for _ in range(nodes + 2)]
        self.head: list[int] = []
        self.room: list[int] = []

    def node(self) -> int:
        """One more node."""
        self.edges.append([])
        return len(self.edges) - 1

    def edge(self, source: int, target: int, capacity: int) -> None:
        """An edge; cutting it, source on the source's side and target on the sink's, costs its capacity."""
        if capacity <= 0 or source == target:
            return
        for end, other, room in ((source, target, capacity), (target, source, 0)):
            self.edges[end].append(len(self.head))
            self.head.append(other)
            self.room.append(room)

    def source_side(self) -> tuple[int, list[bool]]:
        """The cost of a minimum cut, and for each node whether it is on the source's side.

        Of several minimum cuts, that with the fewest nodes on the source's side.
        """
        total = 0
        while True:
            level = self._levels()
            if level[self.SINK] < 0:
                return total, [one >= 0 for one in level]
            total += self._blocking_flow(level)

    def _levels(self) -> list[int]:
        level = [-1] * len(self.edges)
        level[self.SOURCE] = 0
        pending = deque([self.SOURCE])
        while pending:
            node = pending.popleft()
            for edge in self.edges[node]:
                target = self.head[edge]
                if self.room[edge] > 0 and level[target] < 0:
                    level[target] = level[node] + 1
                    pending.append(target)
        return level

    def _blocking_flow(self, level: list[int]) -> int:
        place = [0] * len(self.edges)
        total = 0
        path: list[int] = []  # edges from the source on
        node = self.SOURCE
        while True:
            if node == self.SINK:
                pushed = min(self.room[edge] for edge in path)
                total += pushed
                for edge in path:
                    self.room[edge] -= pushed
                    self.room[edge ^ 1] += pushed
                first = next(at for at, edge in enumerate(path) if not self.room[edge])
                node = self.head[path[first] ^ 1]
                del path[first:]
                continue
            edges = self.edges[node]
            while place[node] < len(edges):
                edge = edges[place[node]]
                if self.room[edge] > 0 and level[self.head[edge]] == level[node] + 1:
                    break
                place[node] += 1
            if place[node] < len(edges):
                path.append(edges[place[node]])
                node = self.head[path[-1]]
            elif not path:
                return total
            else:
                level[node] = -1
                node = self.head[path.pop() ^ 1]
                place[node] += 1
