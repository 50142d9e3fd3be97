"""Trees of functions as columns."""

from __future__ import annotations

import random

import pytest

from foretrace.tracer.source.c_code.syntax import Tree


def start(tree: Tree, node: int) -> tuple[int, int]:
    """By looking at all nodes inside."""
    part = range(node, tree.end[node])
    return min((tree.line[one], tree.column[one]) for one in part if tree.file[one] == tree.file[node])


@pytest.mark.parametrize("seed", range(20))
def test_the_start_of_a_node_is_the_first_place_in_its_file(seed: int) -> None:
    chance = random.Random(seed)
    count = chance.randint(1, 40)
    parent = [-1, *(chance.randrange(max(0, node - 3), node) for node in range(1, count))]
    order: list[int] = []  # a tree's nodes in preorder
    left = [0]
    end = [0] * count
    while left:
        node = left.pop()
        order.append(node)
        left += [one for one in range(count) if parent[one] == node]
    number = {node: position for position, node in enumerate(order)}
    size = [1] * count
    for node in range(count - 1, 0, -1):
        size[parent[node]] += size[node]
    for node in range(count):
        end[number[node]] = number[node] + size[node]
    line, column, file = ([chance.randint(0, most) for _ in order] for most in (5, 9, 1))
    none = [0] * count
    tree = Tree((none, none, end, none, none, none, line, column, line, column, file, none))
    assert tree.starts() == [start(tree, node) for node in range(count)]
    assert tree.starts() is tree.starts()
