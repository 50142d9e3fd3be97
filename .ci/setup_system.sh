#!/bin/bash
# usage: setup_system.sh [--print-python | PROGRAM...]
#
# Installs the Debian packages that foretrace needs and this machine lacks: QEMU's user mode, a C compiler, what a Python
# virtual environment and extensions need, and the PROGRAMs named. With --print-python, prints the Python to use.
set -euo pipefail

# Python 3.11 to 3.13 is supported; the machine's default comes first.
supported_python() {
    local name path
    for name in python3 /usr/bin/python3 python3.13 python3.12 python3.11; do
        path=$(command -v "$name") || continue
        if "$path" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; then
            echo "$path"
            return
        fi
    done
    return 1
}

# What a found Python lacks, as Debian packages.
missing_for_python() {
    "$1" - <<'PYTHON'
import importlib.util
import os
import sys
import sysconfig

name = "python%d.%d" % sys.version_info[:2]
if not importlib.util.find_spec("ensurepip"):
    print(name + "-venv")
if not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")):
    print(name + "-dev")
PYTHON
}

# The Debian packages with a program, where its name is not theirs.
packages_of() {
    case "$1" in
        aarch64-linux-gnu-gcc) printf '%s\n' gcc-aarch64-linux-gnu libc6-dev-arm64-cross ;;
        riscv64-linux-gnu-gcc) printf '%s\n' gcc-riscv64-linux-gnu libc6-dev-riscv64-cross ;;
        smpirun) echo libsimgrid-dev ;;
        mpirun.openmpi) printf '%s\n' openmpi-bin libopenmpi-dev ;;
        mpirun.mpich) printf '%s\n' mpich libmpich-dev ;;
        mpi4py) echo python3-mpi4py ;;
        papi_avail) printf '%s\n' papi-tools libpapi-dev ;;
        *) echo "$1" ;;
    esac
}

# Whether a program is there, or a module of the system's Python.
has() {
    case "$1" in
        mpi4py) /usr/bin/python3 -c 'import mpi4py' 2>/dev/null ;;
        *) command -v "$1" >/dev/null ;;
    esac
}

no_python="foretrace needs Python 3.11, 3.12 or 3.13, and this system has none of them: install one, then try again."

if [ "${1-}" = --print-python ]; then
    supported_python || { echo "$no_python" >&2; exit 1; }
    exit
fi

missing=()
if python=$(supported_python); then
    mapfile -t missing < <(missing_for_python "$python")
elif command -v python3 >/dev/null; then
    echo "$no_python" >&2
    exit 1
else
    missing+=(python3 python3-venv python3-dev)
fi
gcc -E - >/dev/null 2>&1 <<<'#include <stdio.h>' || missing+=(gcc libc6-dev)
command -v qemu-x86_64 >/dev/null || missing+=(qemu-user)
for program in "$@"; do
    has "$program" || mapfile -t -O ${#missing[@]} missing < <(packages_of "$program")
done
[ ${#missing[@]} -gt 0 ] || exit 0

packages="${missing[*]}"
if ! command -v apt-get >/dev/null; then
    echo "Missing: $packages (names of Debian packages). Install them with this system's package manager, then try again." >&2
    exit 1
fi
as_root=()
if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
        echo "Missing: $packages. You are not root and there is no sudo: have them installed (apt-get install $packages), then try again." >&2
        exit 1
    fi
    as_root=(sudo)
fi
echo "==> Installing Debian packages: $packages"
apt_get=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq)
install=("${apt_get[@]}" install -y --no-install-recommends "${missing[@]}")
# The lists of packages may be old or empty: bring them up to date only then.
if ! "${install[@]}" >/dev/null 2>&1 </dev/null; then
    "${apt_get[@]}" update </dev/null
    "${install[@]}" >/dev/null </dev/null
fi
supported_python >/dev/null || { echo "$no_python" >&2; exit 1; }
