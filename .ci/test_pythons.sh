#!/bin/bash
# usage: test_pythons.sh [PYTHON...]
#
# Runs the tests of Python tracing under other Pythons: those named, or python3.11, python3.12 and python3.13 as far as
# they are on the PATH or in pyenv. Each gets a virtual environment of its own below build/, with foretrace built for it.
set -uo pipefail
cd "$(dirname "$0")/.."

# The interpreter that a name stands for; fails where there is none.
resolve() {
    local path
    for path in "$1" "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"${1#python}"*/bin/"$1"; do
        if "$path" -c '' 2>/dev/null; then
            "$path" -c 'import sys; print(sys.executable)'
            return
        fi
    done
    return 1
}

# Test files as arguments: the folder foretrace/ must not be taken for the installed package, so pytest is not run by -m.
run_under() {
    local venv="build/$1"
    "$2" -m venv --clear "$venv" &&
        "$venv/bin/python" -m pip install --quiet --disable-pip-version-check 'setuptools>=77' &&
        "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-build-isolation '.[test]' &&
        "$venv/bin/pytest" -q tests/tracer/python tests/foretrace/test_api_tracing.py tests/foretrace/test_notebook.py
}

failed=()
ran=0
[ $# -gt 0 ] || set -- python3.11 python3.12 python3.13
for name in "$@"; do
    python=$(resolve "$name") || { echo "==> $name: not found, left out"; continue; }
    echo "==> $name: $python"
    ran=$((ran + 1))
    run_under "$(basename "$name")" "$python" || failed+=("$name")
done
[ $ran -gt 0 ] || { echo "No Python found to run the tests with." >&2; exit 1; }
[ ${#failed[@]} = 0 ] || { echo "Failed under: ${failed[*]}" >&2; exit 1; }
