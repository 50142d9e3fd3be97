"""The validation's programs: what each prints at its small size, and that it is right where that is known otherwise."""

import hashlib
import re
import shutil
import subprocess
import zlib
from pathlib import Path

import pytest

from foretrace.base.errors import EngineError
from foretrace.benchmarks.harness import programs, suite

NUMBER = re.compile(r"[-+]?[0-9.]+(?:e[-+]?[0-9]+)?")
HEXADECIMAL = re.compile(r"[0-9a-f]{16,}")

EXPECTED = {
    "bfs": "2068550",
    "cg": "11.3916377363",
    "compress": "154e263b5ddd97d9",
    "fft": "-8.40134163",
    "hash_join": "91cd1fc9e7d5b6e7",
    "histogram": "00000000022f847f",
    "interpreter": "871",
    "lattice_boltzmann": "0.1104773493",
    "lu": "-512.761158",
    "mandelbrot": "62395",
    "mergesort": "3b9ae3c704372c07",
    "multigrid": "0.2961977654",
    "nbody": "-0.8698958368",
    "photons": "0.71993393",
    "queens": "2057",
    "quicksort": "6e48aecba2b2d53e",
    "sha256": "42b7474b6933f1f8f7f5517519632575bc1ce78805160e389c9eb539175bdce2",
    "smith_waterman": "6a6e7d6b3dacb1cd",
    "spmm": "2.2907186757",
    "spmv": "4.3051689387",
    "stencil2d": "4.8792695101",
    "triad": "2249.5000000000",
    "updates": "1c7e6904681be92a",
    "euler": "346.12351224",
    "json": "38606605.833764",
    "kmeans": "4138.4706",
    "molecules": "-1519.251615",
    "ordered_map": "120d40cfe8084eb1",
    "shortest_paths": "4067731",
    "word_count": "55b01e1723bdcc38",
    "heat3d": "725.04243238",
    "matrix_product": "134.68717018",
    "particles": "119.364344",
    "shallow_water": "519.6947372484",
    "speckle": ".2356265294",
    "edit_distance": "19783",
    "gray_scott": "63.14938699",
    "orbits": "-5.232264294966e-05",
    "pagerank": "1.000000000000",
    "rotation": "1634.800620",
    "word_index": "313181",
    "all_pairs": "994f0b14a0a39b2d",
    "knapsack": "0000000000006a2d",
    "union_find": "eb038bf70e55ccce",
    "ledger": "-10947233",
    "scheduler": "154230",
    "spectrum": "3664.28141512",
    "advection": "350.524319",
    "checksum": "741746611",
    "radix_sort": "0000000aa26ea88c",
    "transpose": "20752149",
    "tree_search": "0d56e387e300592c",
    "atax": "14071.760836125586",
    "column_sums": "3638.307452601467",
    "syrk": "32540.260191810441",
    "cholesky": "1782.6948254832962",
    "gram_schmidt": "42.771120568316846",
    "forward_substitution": "44.080580349660238",
    "covariance": "973.65010977162012",
    "durbin": "-0.049173499544821531",
    "seidel": "1886.0921921663833",
    "jacobi3d": "4388.8227882498913",
    "fdtd": "1943.5292289825745",
    "adi": "351.52168689678979",
    "convolve": "17998.600729814563",
    "life": "323",
    "fft2": "1.7498100814890305",
    "prefix_compact": "240619.02168759349",
    "palindrome": "25",
    "sieve": "168",
    "heap_sort": "988.71925343957616",
    "bitonic_sort": "133.35143214333729",
}
"""What follows `checksum` (for pagerank.py `sum`) in the last line."""


@pytest.fixture
def output(programs_directory):
    """The last line that a program prints at its small size, or with other arguments."""

    def run(name, *arguments):
        (program,) = suite.choose(name)
        command = program.command(programs_directory, small=True)
        if arguments:
            command = [*command[: -len(program.small)], *arguments]
        result = subprocess.run(command, capture_output=True, text=True)
        assert result.returncode == 0, result.stderr
        return result.stdout.splitlines()[-1]

    return run


@pytest.mark.parametrize("name", [program.name for program in suite.SUITE])
def test_a_program_prints_its_checksum(output, name):
    printed = re.split(r"\b(?:checksum|sum) ", output(name))[1]
    if HEXADECIMAL.fullmatch(EXPECTED[name]):
        assert printed == EXPECTED[name]
    else:  # libraries of mathematical functions differ in the last digit
        assert float(printed) == pytest.approx(float(EXPECTED[name]), rel=1e-6)


def test_the_sieve_counts_the_primes_below_a_million(output):
    assert output("sieve", "sieve", "1000000", "1").endswith("checksum 78498")


def test_sha256_is_that_of_the_library(output):
    data = bytearray(i % 251 for i in range(1000))
    for _ in range(4):
        digest = hashlib.sha256(data).digest()
        data[:32] = digest
    assert output("sha256", "1000", "4").endswith(digest.hex())


def test_the_cyclic_redundancy_check_is_that_of_the_library(output):
    data, rest = bytes(i % 251 for i in range(1000)), 0
    for _ in range(4):
        rest = zlib.crc32(data, rest)
    assert output("checksum", "1000", "4").endswith(f"checksum {rest}")


def test_a_matrix_transposed_twice_is_what_it_was_but_for_what_was_added(output):
    """One is added to the first element after the first time, which is on the diagonal, and to the second one then."""
    matrix = list(range(25))
    matrix[0] += 1
    matrix[1] += 1
    expected = sum(value * (i % 7) for i, value in enumerate(matrix))
    assert float(output("transpose", "5", "2").split("checksum ")[1]) == expected


@pytest.mark.parametrize(("side", "solutions"), [("1", 1), ("4", 2), ("6", 4), ("8", 92), ("10", 724)])
def test_queens_are_counted(output, side, solutions):  # OEIS A000170
    assert f"solutions {solutions} " in output("queens", side)


@pytest.mark.parametrize("points", ["1", "2", "3", "5", "8", "45", "1000"])
def test_a_fourier_transform_and_its_inverse_give_what_was(output, points):
    assert float(output("fft", points, "2").split("worst error")[1].split()[0]) < 1e-12


def test_multigrid_cycles_gain_at_least_a_digit_each(output):
    first, second = (float(output("multigrid", "3", "5", n).split("residual")[1].split()[0]) for n in ("3", "6"))
    assert second < 1e-3 * first


@pytest.mark.parametrize("size", ["1", "3", "4", "100", "70001"])
def test_what_was_compressed_expands_to_what_it_was(output, size):
    assert "same again" in output("compress", size)


def test_the_longest_collatz_sequence_is_found(output):  # OEIS A006877, A006878, steps of 3n + 1 and half in one
    assert output("interpreter", "1000").endswith("checksum 871")


@pytest.mark.parametrize("name", ["lu", "euler", "molecules", "nbody", "shallow_water", "matrix_product"])
def test_a_program_that_checks_itself_is_content_at_another_size(output, name):  # else it ends with status 1
    output(name, {"lu": "130", "euler": "31", "molecules": "9", "nbody": "57"}.get(name, "91"))


def test_compiled_programs_are_in_three_languages_and_well_over_twenty():
    suffixes = [program.source.suffix for program in suite.SUITE]
    assert {suffix: suffixes.count(suffix) >= 4 for suffix in (".c", ".cpp", ".f90", ".py")} == dict.fromkeys(
        (".c", ".cpp", ".f90", ".py"), True
    )


def test_every_program_of_the_suite_has_two_sizes_and_its_own_title():
    assert len({program.title for program in suite.SUITE}) == len({program.name for program in suite.SUITE})
    assert all(program.small != program.full for program in suite.SUITE)


def test_programs_are_chosen_by_name_in_the_order_of_the_suite():
    assert [program.name for program in suite.choose("fft, bfs")] == ["bfs", "fft"]
    assert suite.choose("") == (*suite.SUITE, *suite.INSTALLED)
    with pytest.raises(EngineError, match=r"'ftf' is no program of the suite; these are: bfs, "):
        suite.choose("fft,ftf")


@pytest.mark.parametrize("program", [p for p in suite.INSTALLED if shutil.which(p.name)], ids=lambda p: p.name)
def test_a_program_of_the_system_works_on_its_text(program, programs_directory):
    command = program.command(programs_directory, small=True)
    assert Path(command[-1]).stat().st_size >> 10 == 16
    result = subprocess.run(command, capture_output=True)
    assert (result.returncode, result.stderr) == (0, b"")
    assert result.stdout


def test_a_program_that_is_not_installed_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EngineError, match="xz is not on PATH"):
        suite.choose("xz")[0].command(tmp_path, small=True)


def test_python_programs_start_with_what_they_import():
    (program,) = suite.choose("pagerank")
    assert program.start_up()[-1] == "import sys, numpy, scipy.sparse"
    assert program.source == programs.SOURCES / "pagerank.py"
    assert suite.choose("fft")[0].start_up() is None
