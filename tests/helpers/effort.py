"""Effort of a test run: short for every change, full before a release."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from typing import Any

import pytest

IS_FULL = bool(os.environ.get("FORETRACE_TEST_ALL"))
"""`make test-full` sets it."""


def examples(full: int) -> int:
    """Examples of a property test that tries `full` in a full run: a quarter of them, at least 10, in a short one."""
    return full if IS_FULL else min(full, max(10, full // 4))


def sweep(
    names: str | tuple[str, ...], values: Iterable[Any], short: Collection[Any], **options: Any
) -> pytest.MarkDecorator:
    """`pytest.mark.parametrize`: a full run tries all `values`, a short one those in `short`."""
    values = list(values)
    assert all(value in values for value in short)
    is_one = isinstance(names, str)
    sets = [
        value if value in short else pytest.param(*([value] if is_one else value), marks=pytest.mark.full)
        for value in values
    ]
    return pytest.mark.parametrize(names, sets, **options)
