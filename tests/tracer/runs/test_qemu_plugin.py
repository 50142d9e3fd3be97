"""QEMU and the plugin: versions of QEMU, and of the interface between the two."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import foretrace.tracer
from foretrace.tracer.qemu import binary

PLUGIN = Path(foretrace.tracer.__path__[0]) / "qemu" / "plugin.so"
ASK = (
    "import ctypes, os, sys; print(ctypes.c_int.in_dll(ctypes.CDLL(sys.argv[1], os.RTLD_LAZY), 'qemu_plugin_version'))"
)


@pytest.mark.parametrize(("offers_old_interface", "version"), [(False, 2), (True, 1)])
def test_interface_version(offers_old_interface: bool, version: int, tmp_path: Path) -> None:
    """The plugin tells each QEMU the interface version that it wants to hear, judged by what that QEMU offers."""
    library, source = tmp_path / "old.so", tmp_path / "old.c"
    source.write_text("int qemu_plugin_n_vcpus(void) { return 1; }")
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source], check=True)
    environment = {"LD_PRELOAD": str(library)} if offers_old_interface else {}
    command = [sys.executable, "-I", "-c", ASK, str(PLUGIN)]
    result = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert result.stdout == f"c_int({version})\n"


def test_qemus_version_is_read_from_its_file_as_it_tells_it(tmp_path: Path) -> None:
    qemu = shutil.which("qemu-x86_64")
    if qemu is None:
        pytest.skip("needs qemu-x86_64 (qemu-user)")
    told = subprocess.run([qemu, "--version"], capture_output=True, text=True, check=True).stdout
    version = binary._version_in_file(qemu, "qemu-x86_64")
    assert version is not None
    assert told.split()[2] == version
    script = tmp_path / "qemu-x86_64"
    script.write_text(f'#!/bin/sh\nexec {qemu} "$@"\n')
    script.chmod(0o755)
    assert binary._version_in_file(str(script), "qemu-x86_64") is None
    assert binary._version_of(str(script), "qemu-x86_64") == version, "it has to be asked"
