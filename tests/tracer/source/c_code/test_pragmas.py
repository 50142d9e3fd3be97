"""What pragmas promise of the statement behind them."""

from __future__ import annotations

from foretrace.tracer.source.c_code.pragmas import Promise, promises


def test_the_last_pragma_before_a_statement_counts_and_comments_are_skipped() -> None:
    text = b"""int f(void) {
#pragma omp parallel for collapse(2)
// a comment
#pragma GCC unroll 4
  /* another */ for (;;) {}
#pragma omp atomic
  x++;
/*
#pragma omp simd
*/
  for (;;) {}
}
"""
    assert promises(text) == {5: Promise(2), 7: Promise(atomic=True), 10: Promise(1)}


def test_thousands_in_a_row_are_read_once() -> None:
    """Read again from each of them, these took minutes."""
    many = 100_000
    assert promises(b"#pragma omp simd\n" * many + b"for (;;) {}\n") == {many + 1: Promise(1)}
    assert promises(b"#pragma omp simd\n/*\n" * many) == {2 * many + 1: Promise(1)}  # the comment does not end


def test_numbers_of_thousands_of_digits() -> None:
    assert promises(b"#pragma omp for collapse(" + b"9" * 5000 + b")\nfor (;;) {}\n") == {2: Promise(1)}
