"""The plugin tells each QEMU the interface version that it wants to hear, judged by what that QEMU offers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import foretrace.tracer

PLUGIN = Path(foretrace.tracer.__path__[0]) / "qemu" / "plugin.so"
ASK = (
    "import ctypes, os, sys; print(ctypes.c_int.in_dll(ctypes.CDLL(sys.argv[1], os.RTLD_LAZY), 'qemu_plugin_version'))"
)


@pytest.mark.parametrize(("offers_old_interface", "version"), [(False, 2), (True, 1)])
def test_interface_version(offers_old_interface: bool, version: int, tmp_path: Path) -> None:
    library, source = tmp_path / "old.so", tmp_path / "old.c"
    source.write_text("int qemu_plugin_n_vcpus(void) { return 1; }")
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source], check=True)
    environment = {"LD_PRELOAD": str(library)} if offers_old_interface else {}
    command = [sys.executable, "-I", "-c", ASK, str(PLUGIN)]
    result = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert result.stdout == f"c_int({version})\n"
