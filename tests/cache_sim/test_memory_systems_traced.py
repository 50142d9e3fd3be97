"""Memory systems of programs that are really traced: threads on cores, fetched instructions, and what the docs show."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

from traces import trace_binary, trace_python

from foretrace.cache_sim.base.hierarchy import Hierarchy

DOCS = (Path(__file__).parents[2] / "docs" / "cache-simulation.md").read_text()

# Two threads add to counters that share a line, or lie four pages apart.
SHARING = r"""
#include <pthread.h>
#include <stdlib.h>
static volatile char *counters;
static long distance;
static pthread_barrier_t both; /* one that ended before the other began would leave it its core */
static void *count(void *number) {
    pthread_barrier_wait(&both);
    volatile long *counter = (volatile long *)(counters + (long)number * distance);
    for (long i = 0; i < 200000; i++) *counter += i;
    return NULL;
}
int main(int argc, char **argv) {
    pthread_t threads[2];
    counters = aligned_alloc(4096, 1 << 16);
    distance = atol(argv[1]);
    pthread_barrier_init(&both, NULL, 2);
    for (long i = 0; i < 2; i++) pthread_create(&threads[i], NULL, count, (void *)i);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    return argc < 0;
}"""


def test_threads_take_a_shared_line_from_each_other(compile_c: Callable[..., Path]) -> None:
    program = str(compile_c(SHARING, "-O1", "-pthread"))
    hierarchy = Hierarchy.parse("L1=32K/8/64,LL=1M/16/64/shared,cores=4")
    taken = {}
    for distance in ("8", "16384"):
        signature = trace_binary([program, distance], [hierarchy]).signature
        (store,) = (
            op
            for op in signature.operations
            if op.is_store and op.executions == 400_000 and signature.blocks[op.block_id].function == "count"
        )
        events = signature.hierarchies[0].events
        assert events is not None
        taken[distance] = int(events.by_operation[store.operation_id, 0, 6])
        assert events.by_operation[store.operation_id, 0, 0] == 400_000
    assert taken["8"] >= 1  # when one thread comes after the other; mostly many times
    assert taken["16384"] == 0


def test_small_code_stays_in_the_instruction_cache(compile_c: Callable[..., Path]) -> None:
    """A loop whose body is larger than the cache misses a line each time it is there again; one that fits does not."""
    body = "\n".join(f'x = x * 3 + {i}; __asm__ volatile("");' for i in range(2000))
    program = compile_c(
        f"int main(int n, char **v) {{ unsigned x = n; for (int i = 0; i < 50; i++) {{ {body} }} return x == 7; }}",
        "-O1",
    )
    small, large = (Hierarchy.parse(f"L1=32K/8/64,I1={size}/8/64/instructions") for size in ("4K", "64K"))
    signature = trace_binary([str(program)], [small, large]).signature
    blocks = [b.block_id for b in signature.blocks if b.function == "main"]
    code_bytes = 2000 * 5  # each statement is two instructions of two or three bytes at least
    misses = []
    for simulated in signature.hierarchies:
        assert simulated.events is not None
        misses.append(int(simulated.events.by_block[blocks, 1, 1].sum()))
    assert misses[0] > 50 * code_bytes / 64 / 10
    assert misses[1] < misses[0] / 20


def test_python_programs_have_no_code_to_fetch(tmp_path: Path) -> None:
    script = tmp_path / "sum.py"
    script.write_text("import numpy as np\na = np.arange(100000.0)\nb = a + a\n")
    hierarchy = Hierarchy.parse("L1=32K/8/64,LL=1M/16/64,I1=4K/4/64/instructions,TLB=16/4/4K/tlb")
    (simulated,) = trace_python(str(script), hierarchies=[hierarchy]).signature.hierarchies
    assert simulated.events is not None
    totals = simulated.events.totals()
    assert totals["I1"]["accesses"] == 0
    assert totals["L1"]["accesses"] >= 300_000
    assert totals["TLB"]["misses"] >= 3 * 800_000 // 4096
    assert totals["LL"]["write_backs"] > 0


def test_what_the_docs_show_runs(
    compile_c: Callable[..., Path], tmp_path: Path, foretrace: Callable[..., object]
) -> None:
    program = compile_c("int main(void) { static int a[9999]; for (int i = 0; i < 9999; i++) a[i] = i; return 0; }")
    (tmp_path / "app").write_bytes(program.read_bytes())
    (tmp_path / "app").chmod(0o755)
    commands = re.findall(r"^\$ foretrace (.*)$", DOCS, re.MULTILINE)
    assert len(commands) == 4
    for command in commands:
        result = foretrace(*shlex.split(command), cwd=tmp_path)
        assert isinstance(result, subprocess.CompletedProcess)
        assert result.returncode == 0, result.stderr
    assert "I1" in result.stdout
    shown = foretrace("info", "app.sig", "--json", cwd=tmp_path)
    assert isinstance(shown, subprocess.CompletedProcess)
    (hierarchy,) = json.loads(shown.stdout)["hierarchies"]
    assert hierarchy["levels"][0]["useful_prefetches"] > 0
    assert hierarchy["instruction"]["accesses"] > 9999
    (example,) = re.findall(r"^```python\n(.*?)^```", DOCS, re.MULTILINE | re.DOTALL)
    exec(compile(example, "docs/cache-simulation.md", "exec"), {})
