"""Fortran computes what gfortran computes: as it is lowered, and in normal shape."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pytest
from effort import examples
from form_interpreter import run
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("tree_sitter_fortran")

from foretrace.tracer.source.flow.normal import normal
from foretrace.tracer.source.form import records as form
from foretrace.tracer.source.form.walk import statements
from foretrace.tracer.source.fortran_code.lowering import lower_file

pytestmark = pytest.mark.skipif(shutil.which("gfortran") is None, reason="needs gfortran")

BODIES = {
    "sections": "a(1:n - 1) = a(2:n) + b(1:n - 1); b(n:1:-1) = a; m(:, 1) = m(1, :)",
    "strides": "a(1:n:2) = b(1:n:2) * 2; m(1:n:2, :) = 1",
    "vectors": "a(k) = b; b = a(k) + b(k(1))",
    "masked": "where (a > b) a = a - b",
    "chosen": """where (a > 2)
        a = b
        b = -a
      elsewhere (b > a)
        a = a + 10
      elsewhere
        b = b + 1
        a = 0
      end where""",
    "masked_matrix": "where (m > 1) m = transpose(m)",
    "forall_mask": "forall (i = 1:n, k(i) > 1) a(i) = b(k(i)) * 2",
    "concurrent": """do concurrent (i = 1:n, j = 1:n, i /= j)
        m(i, j) = a(i) * b(j)
      end do""",
    "intrinsics": """a(1) = sum(b) + dot_product(a, b)
      a(2) = maxval(b(2:n)) - minval(m)
      a(3) = count(a > b) + maxloc(b, dim=1)
      b = sum(m, dim=2)
      if (any(a > 3) .and. .not. all(b < 2)) b(1) = product(a(1:2))""",
    "sums_with_masks": "a(1) = sum(b, mask=b > 1); a(2) = sum(b, b < a)",
    "products": "m = matmul(m, transpose(m)); a = matmul(m, b)",
    "turned": "a = cshift(b, 1) - cshift(b, -2); b = merge(a, b, a > b)",
    "packed": "a = 0; a(1:count(b > 1)) = pack(b, b > 1)",
    "constructed": "a = [(i * 2.0d0, i = 1, n)]; b(2:n) = [(b(i) + i, i = 1, n - 1)]",
    "associated_names": """associate (row => m(2, :), x => b(1))
        row = row + x
        x = row(1)
      end associate""",
    "countdown": """do i = n, 2, -2
        a(i) = a(i - 1) + b(i)
      end do
      a(1) = i""",
    "no_iterations": """do i = 5, 1
        a(1) = 99
      end do
      a(2) = i""",
    "while_loops": """i = 1
      do while (i <= n .and. a(min(i, n)) < 100)
        a(i) = a(i) + i
        i = i + 2
      end do
      b(1) = i""",
    "left_early": """outer: do i = 1, n
        do j = 1, n
          if (k(j) == i) cycle outer
          if (m(i, j) > 4) exit outer
          m(i, j) = m(i, j) + 1
        end do
        a(i) = -1
      end do outer
      b(1) = i""",
    "cases": """do i = 1, n
        select case (k(i))
        case (:1)
          a(i) = 1
        case (2, 4:5)
          a(i) = 2
        case default
          a(i) = 3
        end select
      end do""",
    "jumps_back": """i = 1
   10 continue
      a(i) = a(i) * 2
      i = i + 1
      if (i <= n) goto 10
      b(1) = i""",
    "jumps_around": """do i = 1, n
        if (a(i) > 1) goto 20
        if (b(i) > 1) goto 30
        a(i) = 7
        goto 40
   20   a(i) = 8
        if (k(i) > 2) goto 40
   30   b(i) = 9
   40   continue
        b(i) = b(i) + 1
      end do""",
    "jumps_in_nests": """do i = 1, n
        j = 0
   50   j = j + 1
        if (j > n) goto 60
        if (k(j) == i) goto 50
        m(i, j) = 0
        if (j < 3) goto 50
        a(i) = j
   60   continue
      end do""",
    "arithmetic_ifs": """do i = 1, n
        if (k(i) - 2) 70, 80, 90
   70   a(i) = -1
        goto 90
   80   a(i) = 0
   90   continue
      end do""",
    "computed_jumps": """do i = 1, n
        goto (91, 92, 92), k(i)
        a(i) = -1
   91   a(i) = a(i) + 10
   92   b(i) = b(i) + 1
      end do""",
    "scalars": """x = a(1)
      do i = 2, n
        if (a(i) <= x) cycle
        x = a(i)
        j = i
      end do
      b(1) = x; b(2) = real(mod(k(1), 3), 8) + k(2) / 2 + 2**k(3)""",
}
"""Statements over vectors a and b, a matrix m and indices k, all of n elements, n from 3 on."""

ARRAY_SYNTAX = {"masked", "chosen", "masked_matrix", "intrinsics", "turned", "packed"}
"""Those that the interpreter runs in normal shape alone."""

SOURCE = "\n".join(
    f"""subroutine {name}(n, a, b, m, k)
      implicit none
      integer, intent(in) :: n, k(n)
      real(8), intent(inout) :: a(n), b(n), m(n, n)
      integer :: i, j
      real(8) :: x
      i = 0; j = 0; x = 0
      {text}
end subroutine
"""
    for name, text in BODIES.items()
)


class Programs:
    """The subroutines, compiled and lowered."""

    def __init__(self, folder: Path) -> None:
        source, library = folder / "values.f90", folder / "values.so"
        source.write_text(SOURCE)
        options = ["-w", "-O0", "-shared", "-fPIC", "-J", str(folder)]
        subprocess.run(["gfortran", *options, "-o", str(library), str(source)], check=True)
        self.compiled = ctypes.CDLL(str(library))
        self.unit = lower_file(source)
        self.normal = msgspec.structs.replace(self.unit, functions=tuple(map(normal, self.unit.functions)))


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Programs:
    return Programs(tmp_path_factory.mktemp("values"))


@st.composite
def inputs(draw: st.DrawFn) -> tuple[npt.NDArray[Any], ...]:
    n = draw(st.integers(3, 6))
    numbers = st.integers(-2, 5)
    a, b = (np.array(draw(st.lists(numbers, min_size=n, max_size=n)), float) for _ in range(2))
    m = np.array(draw(st.lists(numbers, min_size=n * n, max_size=n * n)), float).reshape(n, n, order="F")
    return a, b, m, np.array(draw(st.permutations(range(1, n + 1))), np.int32)


def computed(unit: form.Unit, name: str, given: tuple[npt.NDArray[Any], ...]) -> list[npt.NDArray[Any]]:
    copies = [np.array(one, order="F") for one in given]
    run(unit, name, len(copies[0]), *copies)
    return copies


@pytest.mark.parametrize("name", BODIES)
def test_lowered_fortran_computes_what_gfortran_computes(name: str, programs: Programs) -> None:
    @settings(max_examples=examples(15))
    @given(inputs())
    def check(given: tuple[npt.NDArray[Any], ...]) -> None:
        expected = [np.array(one, order="F") for one in given]
        n = ctypes.c_int(len(expected[0]))
        getattr(programs.compiled, f"{name}_")(
            ctypes.byref(n), *[one.ctypes.data_as(ctypes.c_void_p) for one in expected]
        )
        for unit in (programs.normal,) if name in ARRAY_SYNTAX else (programs.unit, programs.normal):
            for one, other in zip(computed(unit, name, given), expected, strict=True):
                np.testing.assert_array_equal(one, other)

    check()


def test_nothing_is_left_of_jumps_that_nest(programs: Programs) -> None:
    jumping = {"jumps_back", "jumps_around", "jumps_in_nests", "arithmetic_ifs"}
    left = {
        function.name
        for function in programs.normal.functions
        for part in statements(function.body)
        if isinstance(part, form.Target) or (isinstance(part, form.Jump) and part.kind is form.JumpKind.GOTO)
    }
    assert jumping & left == {"jumps_around"}, "two ways lead to one label there"
