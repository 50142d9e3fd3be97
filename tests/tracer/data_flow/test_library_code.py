"""Whose code the data flow of library code counts for."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
from traces import trace_binary
from tree_samples import Tree

from foretrace.tracer.analysis.data_flow.library_code import Owner, code_ranges, owner_of, places_of
from foretrace.tracer.signature.data_flow_records import OUTSIDE
from foretrace.tracer.signature.tree_records import TreeNodeKind

LIBC, LOADER = "/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2"


@pytest.mark.parametrize(
    ("path", "owner"),
    [
        (LIBC, Owner.LIBRARY),
        ("/usr/lib64/libstdc++.so.6.0.30", Owner.LIBRARY),
        ("/usr/aarch64-linux-gnu/lib/libm.so.6", Owner.LIBRARY),
        ("[vdso]", Owner.LIBRARY),
        (LOADER, Owner.LOADER),
        ("/opt/own/lib/ld-musl-x86_64.so.1", Owner.LOADER),
        ("/usr/lib/git-core/git", Owner.PROGRAM),
        ("/usr/bin/gzip", Owner.PROGRAM),
        ("/home/me/lib/libsolver.so", Owner.PROGRAM),
        ("[anonymous]", Owner.PROGRAM),
    ],
)
def test_owners(path: str, owner: Owner) -> None:
    assert owner_of(path) is owner


def test_ranges_of_libraries() -> None:
    maps = f"""\
10000-20000 r-xp 00000000 00:00 1 /home/me/app
40000-50000 r-xp 00000000 00:00 2 {LIBC}
60000-70000 r-xp 00000000 00:00 3 {LOADER}
"""
    later = "44000-46000 r-xp 00000000 00:00 4 /home/me/plugin.so\n"
    assert code_ranges([maps, later], 0x10000).tolist() == [
        [0x30000, 0x34000, Owner.LIBRARY],
        [0x36000, 0x40000, Owner.LIBRARY],
        [0x50000, 0x60000, Owner.LOADER],
    ]


def test_places_of_calls_into_libraries() -> None:
    """A call's inside is one place, but for what it calls back; most of its work being in a loop, the loop is it."""
    tree = Tree()
    root = tree.thread()
    loader = tree.call(root, "_dl_start", module=LOADER)
    start = tree.call(root, "_start")
    init = tree.call(start, "__libc_start_main", module=LIBC)
    main = tree.call(init, "main")
    own = tree.loop(main, 10)
    sort = tree.call(own, "qsort", module=LIBC)
    merge = tree.call(sort, "msort", module=LIBC)
    compare = tree.call(merge, "compare")
    copy = tree.call(own, "memcpy", module=LIBC)
    over = tree.loop(copy, 100)
    inner = tree.loop(over, 100)
    again = tree.loop(copy, 3)
    resolve = tree.call(own, "_dl_runtime_resolve", module=LOADER)
    bound = tree.call(resolve, "puts", module=LIBC)
    below = tree.call(bound, "fwrite", module=LIBC)
    plugin = tree.call(main, "plugin", module="/home/me/plugin.so")
    for node, executions in ((copy, 5), (over, 10), (inner, 90), (again, 20), (merge, 10), (own, 1)):
        tree.does(node, executions)
    signature = tree.signature()
    assert signature.tree is not None
    places = places_of(signature.tree, [block.instructions for block in signature.blocks]).tolist()
    assert [places[node] for node in (root, loader, start, init)] == [root] * 4
    assert [places[node] for node in (main, own, compare, plugin)] == [main, own, compare, plugin]
    assert [places[node] for node in (sort, merge)] == [sort, sort]
    assert [places[node] for node in (copy, over, inner, again)] == [over] * 4
    assert places[resolve] == places[loader]
    assert [places[node] for node in (bound, below)] == [bound, bound], "a lazily bound call is the program's"
    assert all(places[place] == place for place in places)


PRINTS = r"""
#include <cstdio>
#include <cstring>
#include <iostream>
#include <string>
#include <vector>
static double a[4096], b[4096];
int main() {
    for (int i = 0; i < 4096; i++) a[i] = i;                       /* line 9 */
    for (int r = 0; r < 4; r++) {
        std::memcpy(b, a, sizeof b);                               /* line 11 */
        double sum = 0;
        for (int i = 0; i < 4096; i++) sum += b[i] + r;            /* line 13 */
        std::cout << "round " << r << ": " << sum << std::endl;
        std::printf("%g %s\n", sum, std::to_string(r).c_str());
    }
    return 0;
}
"""


def test_a_program_that_prints_has_few_places(tmp_path: Path) -> None:
    """Hundreds of functions of the C++ library and the loader run in ever new contexts; 4096 doubles go from one loop
    through a copy to another."""
    (tmp_path / "prints.cpp").write_text(PRINTS)
    subprocess.run(["g++", "-O1", "-g", "-o", tmp_path / "prints", tmp_path / "prints.cpp"], check=True)
    signature = trace_binary([str(tmp_path / "prints")]).signature
    tree, flow = signature.tree, signature.data_flow
    assert tree is not None
    assert flow is not None
    assert flow.merged_bytes == 0
    assert len(tree) > 1000
    used = np.unique(np.concatenate([flow.set_nodes, flow.flow_writer[flow.flow_writer != OUTSIDE]]))
    assert len(used) < 120, "of the calls of main, and the rest of the program"
    assert np.array_equal(flow.node_place[used], used)
    loops = {tree.keys[node].line: node for node in range(len(tree)) if tree.kind[node] == TreeNodeKind.LOOP}

    def between(writer: int, reader: int) -> float:
        reads = flow.sets_with(np.arange(len(tree)) == reader)[flow.flow_readers]
        return float(flow.flow_bytes[reads & (flow.flow_writer == writer)].sum())

    (copier,) = {writer for writer in used.tolist() if between(writer, loops[13]) >= 4 * 4096 * 8}
    assert between(loops[9], copier) == 4096 * 8, "a version that is read four times"
    around = copier
    while tree.kind[around] != TreeNodeKind.CALL:
        around = int(tree.parent[around])
    assert "mem" in tree.keys[around].function
