"""Runtimes of parallel regions in an execution tree, by the names of their libraries and functions: libgomp, libomp."""

from __future__ import annotations

import re

from foretrace.tracer.signature.tree_records import ExecutionTree, TreeNodeKind

LIBGOMP, LIBOMP = re.compile(r"^libgomp[.-]"), re.compile(r"^lib(omp|iomp5)[.-]")
FORK = re.compile(r"^GOMP_parallel|^__kmpc_fork_call")
"""Calls that begin a parallel region."""
SECTIONS = re.compile(r"^GOMP_sections2?_(start|next)")
"""Calls that hand out sections."""
_LOADER = re.compile(r"^ld[-.]")
_REGION = re.compile(r"(\._omp_fn\.\d+$)|(\.omp_outlined)|(^__omp_outlined)|(\.omp_task_entry\.)")
"""Functions that compilers make of parallel regions and tasks: GCC's and Clang's names."""


def module_name(tree: ExecutionTree, node: int) -> str:
    """A node's module, without its folder."""
    return tree.keys[node].module.rpartition("/")[2]


def function_name(tree: ExecutionTree, node: int) -> str:
    """A node's function, without the version of its symbol."""
    return tree.keys[node].function.partition("@")[0]


def is_runtime(tree: ExecutionTree, node: int) -> bool:
    """Whether a node is code of a runtime of parallel regions."""
    name = module_name(tree, node)
    return bool(LIBGOMP.match(name) or LIBOMP.match(name))


def is_loader(tree: ExecutionTree, node: int) -> bool:
    """Whether a node is code of the dynamic loader, which resolves a function at its first call, and calls it."""
    return _LOADER.match(module_name(tree, node)) is not None


def is_region(tree: ExecutionTree, node: int) -> bool:
    """Whether a node is the function of a parallel region, or of a task."""
    return tree.kind[node] == TreeNodeKind.CALL and _REGION.search(tree.keys[node].function) is not None


def caller(tree: ExecutionTree, node: int) -> int:
    """The call that a node was called from, loops and the loader left out; -1 if there is none."""
    above = int(tree.parent[node])
    while above >= 0 and (tree.kind[above] != TreeNodeKind.CALL or is_loader(tree, above)):
        above = int(tree.parent[above])
    return above
