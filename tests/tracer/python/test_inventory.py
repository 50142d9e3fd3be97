"""Nothing that NumPy and SciPy sparse offer works on arrays in silence."""

from __future__ import annotations

from collections import Counter

import pytest

pytest.importorskip("scipy")

from array_inventory import NOT_CALLED, SILENT, take_inventory


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return take_inventory(tmp_path_factory.mktemp("inventory"))


def test_what_leaves_no_trace_is_known(classes: dict[str, str]) -> None:
    known = {name for names in SILENT.values() for name in names.split()}
    silent = {name for name, found in classes.items() if found == "nothing"}
    assert sorted(silent - known) == []


def test_everything_was_called(classes: dict[str, str]) -> None:
    assert {name for name, found in classes.items() if found == "not called"} <= NOT_CALLED


def test_most_of_it_is_recorded(classes: dict[str, str]) -> None:
    counts = Counter(classes.values())
    assert counts["recorded"] > 500
    for name in ("numpy.add", "numpy.take", "numpy.cumsum", "numpy.concatenate", "numpy.bincount", "numpy.ndarray.sum",
                 "numpy:get list", "numpy:set mask", "scipy.sparse.csr:@ vector",
                 "scipy.sparse.coo:@ vector", "scipy.sparse.dia:@ vector", "scipy.sparse.coo.tocsr",
                 "scipy.sparse.csr.tocsc", "scipy.sparse.csr.toarray"):  # fmt: skip
        assert classes[name] == "recorded", name
