"""Folding of a rank's calls into loops: what is unfolded is what was folded, and loops do fold."""

import subprocess
from itertools import chain
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpi_runs import unfolded

from foretrace.tracer.signature.rank_records import STEP

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="session")
def fold(tmp_path_factory):
    driver = tmp_path_factory.mktemp("folding") / "driver"
    sources = [ROOT / "tests/helpers/folding_driver.c", ROOT / "tracer/mpi/interposer/folding.c"]
    flags = ["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-fsanitize=undefined", f"-I{ROOT}"]
    subprocess.run(["gcc", *flags, "-o", driver, *sources], check=True)

    def folded(numbers):
        text = " ".join(map(str, numbers))
        printed = subprocess.run([driver], input=text, capture_output=True, text=True, check=True).stdout
        return [tuple(map(int, line.split())) for line in printed.splitlines()]

    return folded


def unfold(steps):
    return unfolded(SimpleNamespace(steps=np.array(steps, STEP)))


numbers = st.integers(0, 4)
nests = st.recursive(
    numbers.map(lambda number: [number]),
    lambda inner: st.tuples(st.integers(1, 6), st.lists(inner, min_size=1, max_size=4)).map(
        lambda loop: list(chain.from_iterable(loop[1])) * loop[0]
    ),
    max_leaves=12,
)


@given(st.lists(nests, max_size=8).map(lambda parts: list(chain.from_iterable(parts))))
def test_nests_of_loops_are_unfolded_as_they_were(fold, sequence):
    steps = fold(sequence)
    assert unfold(steps) == sequence
    assert len(steps) <= max(3 * len(sequence), 1)


@given(st.lists(numbers, max_size=300))
def test_any_sequence_is_unfolded_as_it_was(fold, sequence):
    assert unfold(fold(sequence)) == sequence


@pytest.mark.parametrize(
    ("sequence", "most"),
    [
        ([1] * 1000, 3),
        ([1, 2, 3] * 1000, 6),
        (([1] + [2] * 5) * 400, 12),
        (([1] + [2] * 5 + [1] + [2] * 7) * 300, 24),
        ([0, *([1, 2, 2, 3, 2, 2] * 500), 4], 30),
        ((([1, 2] * 10 + [3]) * 8 + [4]) * 50, 60),
        (list(range(3000)) * 4, 6100),
    ],
)
def test_loops_fold(fold, sequence, most):
    steps = fold(sequence)
    assert unfold(steps) == sequence
    assert len(steps) <= most
