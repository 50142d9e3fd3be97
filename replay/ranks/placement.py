"""Placement of ranks on nodes: in blocks, in turn, or as a file says."""

from __future__ import annotations

from pathlib import Path

from foretrace.base.errors import PredictionError, TraceFileError

PLACEMENTS = ("block", "round-robin")
_MOST_FILE_BYTES = 16 << 20


def nodes_of(placement: str, ranks: int, nodes: int, ranks_per_node: int) -> tuple[int, ...]:
    """The node of each rank.

    Args:
        placement: `block`: ranks fill the nodes one after the other; `round-robin`: rank by rank to the next node, over
            as many nodes as are needed; else a file with the number of the node of each rank, from 0, rank by rank.
        ranks: to place.
        nodes: that there are.
        ranks_per_node: that share a node; a file may put any number on one.

    Raises:
        PredictionError: there are too few nodes, or no such node.
        TraceFileError: the file cannot be read.
    """
    if ranks_per_node < 1:
        raise PredictionError(f"replay: {ranks_per_node} ranks per node, must be at least 1")
    if placement not in PLACEMENTS:
        return _of_file(Path(placement), ranks, nodes)
    needed = -(-ranks // ranks_per_node)
    if needed > nodes:
        raise PredictionError(
            f"replay: {ranks} ranks, {ranks_per_node} per node, need {needed} nodes; there are {nodes}"
        )
    if placement == "block":
        return tuple(rank // ranks_per_node for rank in range(ranks))
    return tuple(rank % needed for rank in range(ranks))


def _of_file(path: Path, ranks: int, nodes: int) -> tuple[int, ...]:
    try:
        if path.is_file() and path.stat().st_size > _MOST_FILE_BYTES:
            raise TraceFileError(f"{path}: more than the {_MOST_FILE_BYTES} bytes that are read")
        words = path.read_bytes().split()
    except OSError as error:
        raise TraceFileError(f"placement {path}: neither {' nor '.join(PLACEMENTS)}, and {error.strerror}") from None
    if len(words) != ranks:
        raise PredictionError(f"{path}: {len(words)} nodes for {ranks} ranks")
    for rank, word in enumerate(words):
        if not word.isdigit() or len(word) > 9 or int(word) >= nodes:
            shown = word[:20].decode("ascii", "replace")
            raise PredictionError(f"{path}: rank {rank}: there is no node {shown!r}; there are {nodes}, from 0")
    return tuple(map(int, words))
