"""Events of Fortran programs, in the registry of the C library."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from foretrace.tracer.events import linking
from foretrace.tracer.events.board_file import read_board
from foretrace.tracer.signature.event_records import EventKind

PROGRAM = """
program krylov
  use foretrace_events
  implicit none
  type(c_ptr) :: library, products, norms, sizes
  integer(c_long_long), target, save :: iterations
  real(c_double), target :: residual
  integer(c_long_long), target :: size
  integer(c_int) :: errors(9)
  library = sde_init('krylov   ')
  errors(1) = sde_register_counter(library, 'iterations', sde_ro + sde_instant, sde_long_long, c_loc(iterations))
  errors(2) = sde_create_counter(library, 'products', sde_ro + sde_delta, products)
  errors(3) = sde_describe_counter(library, 'products', 'sparse products [calls]')
  errors(4) = sde_create_recorder(library, 'norms', 8_c_size_t, c_funloc(sde_compare_double), norms)
  errors(5) = sde_create_counting_set(library, 'sizes', sizes)
  errors(6) = sde_add_counter_to_group(library, 'products', 'work', sde_sum)
  errors(7) = sde_register_counter(library, 'absent', 99, sde_double, c_loc(residual))
  residual = 1
  do iterations = 1, 10
    residual = residual / 2
    size = mod(iterations, 3_c_long_long)
    errors(8) = sde_inc_counter(products, 2_c_long_long) + sde_record(norms, 8_c_size_t, c_loc(residual))
    errors(9) = sde_counting_set_insert(sizes, 8_c_size_t, 8_c_size_t, c_loc(size), 0)
  end do
  print '(9(i0, 1x))', errors
end program krylov
"""


def test_a_fortran_program_has_events(tmp_path: Path) -> None:
    if not shutil.which("gfortran"):
        pytest.skip("needs gfortran")
    folder = linking.library().parent
    (tmp_path / "program.f90").write_text(PROGRAM)
    module = folder / "include" / "foretrace_events.f90"
    command = [
        "gfortran",
        "-std=f2008",
        "-Wall",
        "-Werror",
        "-Wl,--fatal-warnings",
        module,
        "program.f90",
        *linking.linker_flags().split(),
    ]
    subprocess.run([*command, "-o", "program"], cwd=tmp_path, check=True)
    boards = tmp_path / "boards"
    boards.mkdir()
    environment = os.environ | {"FORETRACE_EVENTS_DIRECTORY": str(boards), "FORETRACE_EVENTS_KEEP": "1"}
    done = subprocess.run([tmp_path / "program"], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0", "0", "0", "0", "0", "0", "-4", "0", "0"]
    (path,) = boards.iterdir()
    iterations, products, norms, sizes, work = read_board(path).events
    assert (iterations.library, iterations.name, iterations.value) == ("krylov", "iterations", 11)
    assert (products.value, products.unit) == (20, "calls")
    assert norms.values is not None
    assert np.array_equal(norms.values.kept, 0.5 ** np.arange(1, 11))
    assert sorted(element.count for element in sizes.elements) == [3, 3, 4]
    assert work.kind is EventKind.GROUP
