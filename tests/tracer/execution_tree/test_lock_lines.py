"""On which lines Python programs give locks back."""

from pathlib import Path

import pytest
from tree_samples import Tree

from foretrace.tracer.analysis.execution_tree.lock_lines import with_lines_of_release
from foretrace.tracer.signature.tree_records import NodeKey, SynchronisationKind

LOCK, WAKE = SynchronisationKind.LOCK, SynchronisationKind.WAKE
SOURCE = """\
with lock:
    a = 1
    b = 2
with (
    one,
    other,
):
    c = 3

lock.acquire()
d = 4
lock.release()
queue.put(5)
with lock: e = 6
"""


def line_of_release(file, line, kind=LOCK, target_line=1):
    tree = Tree()
    root = tree.call(tree.thread(), "<module>")
    what, parent, _, entries, iterations = tree.nodes[root]
    tree.nodes[root] = (what, parent, NodeKey(str(file), "<module>", str(file), 1, 0, 0), entries, iterations)
    tree.waits(kind, 0, 0, source_node=root, target_node=root, lines=(line, target_line))
    (edge,) = with_lines_of_release(tree.signature(guest="python").tree).synchronisation
    return edge.source_line


@pytest.mark.parametrize(("line", "last"), [(1, 3), (4, 8), (5, 8), (6, 8), (12, 12), (13, 0), (14, 14), (2, 0)])
def test_the_end_of_the_block_is_found(tmp_path, line, last):
    (tmp_path / "program.py").write_text(SOURCE)
    assert line_of_release(tmp_path / "program.py", line) == last


def test_a_semaphore_is_a_block_only_where_a_line_waits_for_itself(tmp_path):
    (tmp_path / "program.py").write_text(SOURCE)
    assert line_of_release(tmp_path / "program.py", 1, WAKE) == 3
    assert line_of_release(tmp_path / "program.py", 4, WAKE) == 4
    assert line_of_release(tmp_path / "program.py", 13, WAKE, 13) == 13


@pytest.mark.parametrize("text", [b"with lock:\n", b"\xff\xfe\x00", b"a" * 5_000_000, None])
def test_what_cannot_be_read_stays(tmp_path: Path, text: bytes | None):
    if text is not None:
        (tmp_path / "program.py").write_bytes(text)
    assert line_of_release(tmp_path / "program.py", 1) == 1
