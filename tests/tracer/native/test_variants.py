"""Variants of library functions that the processor here runs are those that were traced."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from binary_runs import run_traced
from timing_samples import TIMING

from foretrace.tracer.native.chosen_variants import chosen_variants
from foretrace.tracer.native.sampled_blocks import samples_per_block
from foretrace.tracer.native.timing import SampledPosition

# Where the C library has its memcpy, as the offset in its file, and its path.
WHERE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
int main(void)
{
    void *(*volatile copy)(void *, const void *, size_t) = memcpy;
    Dl_info info;
    if (!dladdr((void *)copy, &info))
        return 1;
    printf("%lx %s\n", (unsigned long)((char *)copy - (char *)info.dli_fbase), info.dli_fname);
    return 0;
}
"""
COPIES = r"""
#include <stdlib.h>
#include <string.h>
int main(int argc, char **argv)
{
    size_t n = 50000;
    char *a = calloc(n, 1), *b = malloc(n);
    for (int i = 0; i < 5; i++)
        memcpy(b, a, n - i * argc);
    return b[n / 2];
}
"""


def _built(directory: Path, name: str, source: str) -> Path:
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    (directory / f"{name}.c").write_text(source)
    subprocess.run(["gcc", "-O2", "-g", "-o", directory / name, directory / f"{name}.c"], check=True)
    return directory / name


def _memcpy(directory: Path) -> tuple[int, str]:
    text = subprocess.run([_built(directory, "where", WHERE)], capture_output=True, text=True, check=True).stdout
    offset, path = text.split()
    return int(offset, 16), str(Path(path).resolve())


def test_the_code_that_this_processor_runs_is_known_by_its_public_name(tmp_path: Path) -> None:
    offset, path = _memcpy(tmp_path)
    variants = chosen_variants({path, "/bin/no-such-module"})
    if path not in variants:
        pytest.skip("the C library has no variants here")
    assert "memcpy" in variants[path].names(offset)
    assert "memcpy" in variants[path].names(offset + 2)
    assert set(variants) == {path}


def test_samples_of_another_variant_are_those_of_the_one_that_was_traced(tmp_path: Path) -> None:
    signature = run_traced(tmp_path, _built(tmp_path, "copies", COPIES)).signature
    blocks = [block for block in signature.blocks if block.function == "memcpy"]
    hottest = max(blocks, key=lambda block: block.executions * block.instructions)
    elsewhere = max(block.offset for block in signature.blocks if block.module == hottest.module) + (1 << 16)
    positions = (
        SampledPosition(hottest.module, elsewhere, 9, 0, ("memcpy", "memmove")),
        SampledPosition(hottest.module, elsewhere + 64, 4, 0, ("strlen_that_never_ran",)),
        SampledPosition(hottest.module, hottest.offset, 2, 0),
    )
    timing = replace(TIMING, command=signature.provenance.command, positions=positions, elsewhere=1)
    counts, outside = samples_per_block(signature, timing)
    assert counts[hottest.block_id] == 9 + 2
    assert (counts.sum(), outside) == (11, 4 + 1)
