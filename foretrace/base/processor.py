"""Name of this machine's processor."""

from __future__ import annotations

import platform
from pathlib import Path


def cpu_model() -> str:
    """Name of the processor."""
    try:
        text = Path("/proc/cpuinfo").read_text(errors="replace")
    except OSError:
        text = ""
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if key.strip() in ("model name", "cpu") and value.strip():
            return value.strip()
    return platform.processor() or platform.machine()
