"""Deep execution trees: timeline programs are made recursively, and a program may nest its calls more deeply than the
interpreter's own limit allows.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

from foretrace.base.errors import PredictionError
from foretrace.replay.tree.timed_tree import NodeTree
from foretrace.replay.workload.workload import Workload
from foretrace.tracer.signature.records import Signature

_Given = TypeVar("_Given", Signature, Signature | Workload)
_P = ParamSpec("_P")
_R = TypeVar("_R")

MOST_LEVELS = 2000
"""Calls and loops within one another that are replayed. Recursion is one level (`ExecutionTree`)."""
_FRAMES_A_LEVEL = 6


def with_room(run: Callable[Concatenate[_Given, _P], _R]) -> Callable[Concatenate[_Given, _P], _R]:
    """A function of a signature, or of what was asked of one, that may recurse as deeply as its tree does.

    Raises (when called):
        PredictionError: the tree has more than `MOST_LEVELS`.
    """

    @functools.wraps(run)
    def with_more(given: _Given, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        signature = given.signature if isinstance(given, Workload) else given
        levels = 0 if signature.tree is None else max(NodeTree(signature.tree.parent).levels)
        if levels > MOST_LEVELS:
            raise PredictionError(
                f"the signature's calls and loops are nested {levels} deep, and {MOST_LEVELS} are replayed at most; "
                "trace again with --no-tree"
            )
        before = sys.getrecursionlimit()
        sys.setrecursionlimit(before + _FRAMES_A_LEVEL * levels)
        try:
            return run(given, *args, **kwargs)
        finally:
            sys.setrecursionlimit(before)

    return with_more
