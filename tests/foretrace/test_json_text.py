"""JSON from anyone: it is decoded, or refused with one kind of error, whatever is in it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from foretrace.base import json_text

DIGITS = "9" * 5000
DEEP = "[" * 3000 + "]" * 3000


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        '{"a": NaN}',
        '{"a": 1e999}',
        f'{{"a": {DIGITS}}}',
        f'{{"a": -{DIGITS}}}',
        f'{{"a": {DIGITS[:4000]}}}',
        f'{{"a": {DEEP}}}',
        '{"a": "\\ud800"}',
        '{"a": "\\ud800."}',
        '{"\\udfff": 1}',
        '{"a": "\\udc80", "b": NaN}',
        '{"a": "\\udc80", "b": 1e999}',
        f'{{"a": "\\udc80", "b": {DIGITS}}}',
        f'{{"a": "\\udc80", "b": {DIGITS[:30]}}}',
        f'{{"a": "\\udc80", "b": {DEEP}}}',
        '{"a": "\\udc80", "b": "\\udcff\\udfff"}',
    ],
)
@pytest.mark.parametrize("as_bytes", [False, True])
def test_what_is_refused(text: str, as_bytes: bool) -> None:
    with pytest.raises(msgspec.DecodeError):
        json_text.decode(text.encode() if as_bytes else text, dict[str, Any])


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(msgspec.DecodeError):
        json_text.decode(b'{"a": "\xff"}', dict[str, Any])


def test_numbers_of_64_bits_and_names_that_are_not_utf_8_are_kept() -> None:
    content = {"a": 2**64 - 1, "b": "\udc80\udcff", "c": DIGITS}
    assert json_text.decode(json_text.encode(content), dict[str, Any]) == content
