"""The programs of `programs/offload`: they compile without a warning, compute what they say, refuse bad arguments."""

import re
import subprocess

import pytest

from foretrace.benchmarks.harness import programs
from foretrace.benchmarks.harness.programs import SOURCES, build, offload_programs

NAMES = sorted(offload_programs())


def run(name, directory, *arguments):
    command = [str(part) for part in (build(name, directory), *arguments)]
    return subprocess.run(command, capture_output=True, text=True)


def figures(name, directory, *arguments):
    """The numbers that a run prints, by the words before them."""
    result = run(name, directory, *arguments)
    assert result.returncode == 0, result.stderr
    return {word: float(value) for word, value in re.findall(r"(\w+) (-?[\d.]+(?:e[+-]?\d+)?)", result.stdout)}


def test_their_names_are_their_own():
    assert not set(NAMES) & set(programs.compiled_programs())


@pytest.mark.parametrize("name", NAMES)
def test_each_compiles_without_a_warning(name, tmp_path):
    command = ["gcc", "-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", f"-I{SOURCES}", "-o", str(tmp_path / name)]
    result = subprocess.run([*command, str(offload_programs()[name]), "-lm"], capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize("name", NAMES)
def test_each_is_deterministic_and_says_how_it_is_used(name, programs_directory):
    first = run(name, programs_directory)
    assert first.returncode == 0
    assert "checksum" in first.stdout
    assert run(name, programs_directory).stdout == first.stdout
    usage = run(name, programs_directory, "--help")
    assert usage.returncode == 0
    first_line = offload_programs()[name].read_text().splitlines(keepends=True)[0]
    assert first_line.lstrip("/* ") == usage.stdout


@pytest.mark.parametrize("name", NAMES)
def test_bad_arguments_get_one_line_and_status_2(name, programs_directory):
    for arguments in (("-1",), ("1e3",), ("",), ("1", "2", "3", "4", "5", "6")):
        result = run(name, programs_directory, *arguments)
        assert (result.returncode, result.stdout) == (2, "")
        assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize("colours", [1, 8])
@pytest.mark.parametrize("points", [2, 3, 12])
def test_conjugate_gradients_converge_to_ones(points, colours, programs_directory):
    residuals = []
    for iterations in (1, 8, 40):
        found = figures("cg_gauss_seidel", programs_directory, points, iterations, colours)
        residuals.append(found["residual"])
    assert found["nonzeros"] == (3 * points - 2) ** 3
    assert residuals[0] > residuals[1] or residuals[0] < 1e-13
    assert residuals[2] < 1e-12
    assert found["error"] < 1e-10
    assert found["checksum"] == pytest.approx(points**3, rel=1e-10)


def test_other_numbers_of_colours_are_refused(programs_directory):
    result = run("cg_gauss_seidel", programs_directory, 8, 1, 4)
    assert (result.returncode, result.stderr) == (2, "4 colours: must be 1 or 8\n")


@pytest.mark.parametrize(
    ("matrix", "rows", "nonzeros"),
    [
        ((0, 1000, 1000, 1), 1_000_000, 4_996_000),  # SuiteSparse: McRae/ecology1
        ((0, 148, 148, 58), 1_270_432, 8_814_880),  # Bourchtein/atmosmodd
        ((20,), 1_048_576, 4_194_298),  # AG-Monien/debr
        ((0, 1, 1, 1), 1, 1),
        ((1,), 2, 2),
        ((2,), 4, 10),
    ],
)
def test_matrices_have_the_nonzeros_of_those_published(matrix, rows, nonzeros, programs_directory):
    by_rows, by_columns = (figures("sparse_product", programs_directory, layout, *matrix) for layout in (0, 1))
    assert (by_rows["rows"], by_rows["nonzeros"]) == (rows, nonzeros)
    assert by_rows["checksum"] == by_columns["checksum"]


@pytest.mark.parametrize("points", [4, 8, 32])
def test_a_transform_and_back_is_the_same(points, programs_directory):
    found = figures("fft_3d", programs_directory, points)
    assert found["power"] == pytest.approx(1, abs=1e-9), "Parseval's theorem"
    assert found["error"] < 1e-13


def test_a_shear_wave_decays_as_the_viscosity_says(programs_directory):
    found = figures("lattice", programs_directory, 16, 50)
    viscosity, wave_number = (1 / 1.25 - 0.5) / 3, 2 * 3.141592653589793 / 16
    assert found["speed"] == pytest.approx(0.05 * 2.718281828459045 ** (-viscosity * wave_number**2 * 50), rel=0.02)
    assert found["mass"] == pytest.approx(1, abs=1e-5)
    assert abs(found["momentum"]) < 1e-6


def test_sums_of_the_others(programs_directory):
    assert figures("single_product", programs_directory, 128)["error"] == 0
    assert figures("bodies", programs_directory, 300, 300, 3)["momentum"] < 1e-12
    assert figures("bins", programs_directory, 10000, 64, 50)["counted"] == 10000
    one_bin = figures("bins", programs_directory, 1000, 64, 100)
    assert one_bin["checksum"] == 1000, "all in the first of the bins"
    triad = figures("stream_triad", programs_directory, 1000, 1)
    assert triad["checksum"] == pytest.approx(0.5 + 0.4 * 0.25)
