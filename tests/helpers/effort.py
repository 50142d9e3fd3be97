"""Effort of a test run: short for every change, full before a release."""

import os

IS_FULL = bool(os.environ.get("FORETRACE_TEST_ALL"))
"""`make test-full` sets it."""


def examples(full: int) -> int:
    """Examples of a property test that tries `full` in a full run: a quarter of them, at least 10, in a short one."""
    return full if IS_FULL else min(full, max(10, full // 4))
