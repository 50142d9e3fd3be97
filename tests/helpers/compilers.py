"""Compilers for the architectures that can be traced."""

from __future__ import annotations

import platform
import shutil

import pytest


def compiler_for(target: str) -> str:
    """The C compiler that makes programs for an architecture, named as by QEMU. Skips where it cannot be used."""
    compiler = "gcc" if target == platform.machine() else f"{target}-linux-gnu-gcc"
    for tool, package in ((compiler, f"gcc-{target}-linux-gnu"), (f"qemu-{target}", "qemu-user")):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed (Debian: {package})")
    return compiler
