"""The notation of patterns: what it takes, and one clear line for what it does not."""

from __future__ import annotations

from pathlib import Path

import pytest

import foretrace
from foretrace.base.errors import SourceError
from foretrace.tracer.source.idioms.patterns import as_text, built_in, definition, from_file, parsed

HEAD = '[mine]\nsummary = "one of mine"\n'


def of(pattern: str, more: str = "") -> str:
    return f'{HEAD}patterns = ["""{pattern}"""]\n{more}'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[mine", "mine.toml: it is not TOML: Expected ']'"),
        ("\n".join(f"[x{k}]\n{'.'.join('a' * 2000)} = 1" for k in range(20)), "a key of more than 16 parts (at line 2"),
        (".".join("a" * 40_000) + " = 1", "longer than 4096 bytes (at line 1"),
        ("mine = " + "[\n" * 10_000, "its values are nested too deeply"),
        ("mine.confidence = " + "9" * 3000, "mine.toml: "),
        (of("A[i] = _", f"confidence = {'9' * 3000}"), "mine.toml: "),
        (of("s = s + " + "-" * 3000 + "s"), "maximum recursion depth"),
        (of("s = s +" + "\n" * 20_000 + "s"), "too long"),
        ("mine = 3", "mine.toml: Expected `object`, got `int`"),
        (HEAD, "missing required field `patterns`"),
        (HEAD + "patterns = []", "it needs at least one pattern"),
        (of("A[i] = _").replace("mine]", "Mine]"), "a name has 1 to 64 lower-case letters, digits and hyphens"),
        (of("A[i] = _", 'wher = "updates(A)"'), "unknown field `wher`"),
        (of("A[i] = _", "confidence = 2.0"), "confidence lies above 0 and at most at 1, not at 2.0"),
        (of("A[i] = _", 'parts = ["gathering"]'), "parts: there is no idiom 'gathering'"),
        (of("A[i] ="), "'A[i] =': invalid syntax"),
        (of("A[i]"), "patterns have =, for i in _, while and if; not 'A[i]'"),
        (of("A[i] += _"), "patterns have =, for i in _, while and if"),
        (of("for x in _:\n    A[i] = _"), "patterns have =, for i in _, while and if"),
        (of("while _(A[i]):\n    s = s + 1\nelse:\n    s = 0"), "patterns have =, for i in _, while and if"),
        (of("for i in range(3):\n    A[i] = _"), "loops run over _ or span(P), not 'range(3)'"),
        (of("A = _"), "a statement assigns an element or a scalar, not 'A'"),
        (of("i = _"), "a statement assigns an element or a scalar, not 'i'"),
        (of("s = A"), "'A' is an array: it needs a subscript"),
        (of("s = d"), "'d' is a distance"),
        (of("A[i] = f(B[i])"), "'f(B[i])': of functions, values have _, abs, exp, max, min, sqrt"),
        (of("A[i] = B[i] if s else _"), "values have no ifexp"),
        (of("A[i] = (B[i], 3)"), "values have no tuple"),
        (of("A[i] = 'text'"), "constants are numbers, not \"'text'\""),
        (of("A[i] = B[1 < i < 3]"), "subscripts are i, i - d, i + 1, I[i], _(I[i]), p, s, _ and ..."),
        (of("A[i:3] = _"), "subscripts are"),
        (of("A[i + j] = _"), "not 'i + j'"),
        (of("A[i - s] = _"), "not 'i - s'"),
        (of("A[i] = _", 'where = "same(A)"'), "same takes 2 names of the pattern"),
        (of("A[i] = _", 'where = "same(A, B)"'), "no pattern has 'B'"),
        (of("A[i] = _", 'where = "wrong()"'), "conditions are made of behind, carried"),
        (of("A[i] = _", 'where = "A"'), "conditions are made of"),
        (of("A[i] = _", 'where = "x = 3"'), "it is one expression"),
    ],
)
def test_a_bad_pattern_has_one_clear_line(text: str, message: str) -> None:
    with pytest.raises(SourceError) as caught:
        parsed(text.encode(), "mine.toml")
    assert message in str(caught.value)
    assert str(caught.value).startswith("mine.toml: ")
    assert "\n" not in str(caught.value)


def test_what_is_too_much_is_refused() -> None:
    with pytest.raises(SourceError, match="too long"):
        parsed(of("A[i] = " + " + ".join(["B[i]"] * 200)).encode(), "mine.toml")
    with pytest.raises(SourceError, match="more than 200 patterns"):
        parsed(f"{HEAD}patterns = {['A[i] = _'] * 201}".encode(), "mine.toml")
    with pytest.raises(SourceError):
        parsed(of("s = " + "(" * 5000 + "s" + ")" * 5000).encode(), "mine.toml")


def test_a_file_that_is_none_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"none\.toml: cannot be read"):
        from_file(tmp_path / "none.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SourceError, match=r"bytes\.toml"):
        from_file(tmp_path / "bytes.toml")


def test_the_built_in_idioms_are_written_in_the_notation_and_named_in_the_docs() -> None:
    names = [one.name for one in built_in()]
    assert len(names) == len(set(names)) == 19
    docs = (Path(__file__).parents[4] / "docs" / "idioms.md").read_text(encoding="utf-8")
    table = docs.split("## The idioms")[1].split("## Idioms of your own")[0]
    assert [name for name in names if name not in table and not name.startswith("sparse-product")] == []


def test_patterns_keep_their_loops_guards_and_scalars() -> None:
    (pattern,) = definition("mine", ["for k in span(P):\n    if _(A[k]):\n        s = s + V[k] * t"], "").patterns
    (statement,) = pattern.statements
    assert [(loop.variable, loop.span) for loop in statement.loops] == [("k", "P")]
    assert len(statement.guards) == 1
    assert pattern.scalars == {"s", "t"}


def test_definitions_that_differ_have_different_texts() -> None:
    one = definition("mine", ["A[i] = _"], "")
    others = [
        definition("mine", ["A[i] = _(B[i])"], ""),
        definition("mine", ["A[i] = _"], "", where="updates(A)"),
        definition("mine", ["A[i] = _"], "", parts=["gather"]),
        definition("mine", ["A[i] = _"], "", confidence=0.5),
    ]
    assert as_text(one) not in {as_text(other) for other in others}


SOURCE = "def axpy(y, x, a, n):\n    for i in range(n):\n        y[i] = y[i] + a * x[i]\n"


def test_a_users_idiom_comes_first_from_python_and_from_a_file(tmp_path: Path) -> None:
    source = tmp_path / "axpy.py"
    source.write_text(SOURCE)
    axpy = foretrace.idiom("axpy", "Y[i] = Y[i] + _(X[i])", where="not same(X, Y)")
    assert foretrace.idioms(source, patterns=[axpy], cache=False).counts() == {"axpy": 1}
    assert foretrace.idioms(source, cache=False).counts() == {"stream": 1}
    (tmp_path / "mine.toml").write_text(
        '[axpy]\nsummary = "a vector plus a multiple of another"\n'
        'patterns = ["Y[i] = Y[i] + _(X[i])"]\nwhere = "not same(X, Y)"\n'
    )
    found = foretrace.idioms(source, patterns=tmp_path / "mine.toml", only=("axpy",), cache=False)
    (one,) = found.findings
    assert (one.idiom, one.first_line, {use.role: use.name for use in one.arrays}) == ("axpy", 3, {"Y": "y", "X": "x"})


def test_a_bad_idiom_of_python_is_an_error_where_it_is_made() -> None:
    with pytest.raises(SourceError, match="it needs a subscript"):
        foretrace.idiom("mine", "A[i] = B")
