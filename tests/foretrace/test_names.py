"""Names as the source has them, against binutils' c++filt where it has the same scheme."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from foretrace.names import demangle, short_name

NAMES = {
    "_ZNSt6vectorIiSaIiEE9push_backERKi": (
        "std::vector<int, std::allocator<int>>::push_back(int const&)",
        "std::vector<int, std::allocator<int>>::push_back",
    ),
    "_Z3mulILi4EEvPKdS1_Pd": ("void mul<4>(double const*, double const*, double*)", "mul<4>"),
    "_ZN3FoocvbEv": ("Foo::operator bool()", "Foo::operator bool"),
    "_ZN3FooclEv": ("Foo::operator()()", "Foo::operator()"),
    "_ZN12_GLOBAL__N_14stepEi": ("(anonymous namespace)::step(int)", "(anonymous namespace)::step"),
    "_ZN4core3fmt9Formatter3pad17h9b2b3a0e5b4d1b31E": ("core::fmt::Formatter::pad",) * 2,
    "_RNvNtCs1234_7mycrate3foo3bar": ("mycrate::foo::bar",) * 2,
    "__solver_MOD_jacobi": ("solver::jacobi",) * 2,
    "_QMsolverPjacobi": ("solver::jacobi",) * 2,
}


@pytest.mark.parametrize("mangled", NAMES)
def test_names_are_demangled(mangled: str) -> None:
    assert (demangle(mangled), short_name(mangled)) == NAMES[mangled]


@pytest.mark.parametrize(
    "name", ["main", "daxpy_", "_start", "__libc_start_main", "_Z", "_Rubbish", "__x", "libc+0x12", ""]
)
def test_other_names_stay(name: str) -> None:
    assert demangle(name) == short_name(name) == name


@pytest.mark.skipif(shutil.which("c++filt") is None, reason="no c++filt of binutils")
def test_as_binutils_does() -> None:
    names = [name for name in NAMES if name.startswith("_ZN") and "17h" not in name]
    said = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True).stdout
    assert [line.replace("> >", ">>") for line in said.splitlines()] == [demangle(name) for name in names]
