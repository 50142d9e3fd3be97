"""Names as the source has them, against binutils' c++filt where it has the same scheme."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from foretrace.base.names import brief_name, demangle, place_text, short_name

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


@pytest.mark.parametrize(
    ("mangled", "name"),
    [
        (
            "_ZN4core3ptr85drop_in_place$LT$std..rt..lang_start$LT$$LP$$RP$$GT$..$u7b$$u7b$closure$u7d$$u7d$$GT$"
            "17h0123456789abcdefE",
            "core::ptr::drop_in_place<std::rt::lang_start<()>::{{closure}}>",
        ),
        (
            "_ZN50_$LT$T$u20$as$u20$core..convert..Into$LT$U$GT$$GT$4into17hd5f6a7b8c9e0f1a2E",
            "<T as core::convert::Into<U>>::into",
        ),
        ("_ZN3foo3bar17h05af221e174051e9E.llvm.123", "foo::bar"),
        ("_ZN3foo17h_is_no_hash_hereE", "foo::h_is_no_hash_here"),
        ("_ZN9a$u20ac$b3bar17h05af221e174051e9E", "a\u20acb::bar"),
    ],
)
def test_rusts_legacy_names_have_no_hash(mangled: str, name: str) -> None:
    assert demangle(mangled) == name


@pytest.mark.parametrize(
    ("mangled", "name"),
    [
        ("_ZNSt6vectorIiSaIiEEixEm", "std::vector::operator[]"),
        ("_ZStlsISt11char_traitsIcEERSt13basic_ostreamIcT_ES5_PKc", "std::operator<<"),
        ("_ZNSt10shared_ptrIiEptEv", "std::shared_ptr::operator->"),
        ("_ZNKSt14default_deleteIiEclEPi", "std::default_delete::operator()"),
        (
            "_RNvXs_NtNtCs5yQl9D_4core5slice4iterINtB4_4IterhENtNtNtNtB8_4iter6traits8iterator8Iterator4nextCs_1a",
            "core::slice::iter::Iter::next",
        ),
        ("transform<double*, main()::<lambda(double)> >", "transform"),
        ("main", "main"),
    ],
)
def test_brief_names_have_no_arguments(mangled: str, name: str) -> None:
    assert brief_name(mangled) == name


def test_places() -> None:
    assert place_text("/a/b.c", 12, "/lib/libc.so.6") == "b.c:12"
    assert place_text("", 0, "/lib/libc.so.6") == "libc.so.6"
    assert place_text("/a/b.c", 12, "/lib/libc.so.6", "main") == "from b.c:12"
    assert place_text("", 0, "/lib/libc.so.6", "main") == "from main"
    assert place_text("/a/b.c", 12, "/a/p", "", "std::sort at stl_algo.h:9") == "b.c:12 (std::sort at stl_algo.h:9)"
