"""Parallel regions inside of parallel regions, as an execution tree has them.

A tree folds a recursion into one node: of a region inside of another one, the runtime's call is the outer one's node
again, so that its function stands beside the outer region's function, and not within it. The place of the call is a
node without anything below, where the program calls shared libraries through a linkage table.
"""

from __future__ import annotations

from dataclasses import replace

from foretrace.tracer.signature.tree_records import ExecutionTree, TreeNodeKind

from .runtimes import FORK, function_name, is_loader, is_region, is_runtime


def unfolded(tree: ExecutionTree) -> ExecutionTree:
    """A tree with each nested region below the region around it.

    It goes to the call that it belongs to, by the source line of both, or else to the outermost region.
    """
    below, parent, keys = tree.children(), tree.parent.copy(), list(tree.keys)
    for fork in range(len(tree)):
        if not _is_fork(tree, fork) or not is_runtime(tree, fork) or not tree.recursive_entries[fork]:
            continue
        around, *others = _regions_below(tree, below, fork) or [fork]
        function = tree.keys[around].function
        for region in others:
            if tree.keys[region].function != function:
                call = parent[region] = _call_of(tree, below, around, region)
                if call != around:  # as where the runtime is called directly
                    keys[call] = replace(keys[call], module=tree.keys[fork].module)
                below = replace(tree, parent=parent).children()
    return tree if (parent == tree.parent).all() else replace(tree, parent=parent, keys=tuple(keys))


def _is_fork(tree: ExecutionTree, node: int) -> bool:
    return tree.kind[node] == TreeNodeKind.CALL and FORK.match(function_name(tree, node)) is not None


def _regions_below(tree: ExecutionTree, below: list[list[int]], fork: int) -> list[int]:
    """Functions of regions that a fork leads to through the runtime and the loader alone, in order."""
    found: list[int] = []
    pending = [fork]
    while pending:
        for child in below[pending.pop()]:
            if is_region(tree, child):
                found.append(child)
            elif is_runtime(tree, child) or is_loader(tree, child):
                pending.append(child)
    return sorted(found)


def _call_of(tree: ExecutionTree, below: list[list[int]], around: int, region: int) -> int:
    """The call below a region that begins another one, or the region."""
    pending = [around]
    while pending:
        node = pending.pop()
        is_call = _is_fork(tree, node) and not below[node] and tree.entries[node] <= tree.entries[region]
        if is_call and tree.keys[node].site_line == tree.keys[region].line and node < region:
            return node
        pending += reversed(below[node])
    return around
