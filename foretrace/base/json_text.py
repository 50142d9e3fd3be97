"""JSON of our own files, which may come from anyone. Text that is not UTF-8 (an argument, the name of a file) is kept,
byte for byte.

In memory such bytes are lone surrogates, U+DC80 to U+DCFF, as `os.fsdecode` makes them; in a file they are the escapes
"\\udc80" to "\\udcff", which Python's `json` reads and writes as well. Other lone surrogates are no text.
"""

from __future__ import annotations

import math
import re
from typing import Any, NoReturn, TypeVar

import msgspec

from .errors import shortened

_Decoded = TypeVar("_Decoded")
_MOST_BITS = 64
_MANY_DIGITS = re.compile(rb"[0-9]{20}")


def encode(content: Any, indent: int | None = None) -> bytes:
    """Anything that msgspec encodes, as JSON: on one line without spaces, or indented by `indent` a level."""
    try:
        text = msgspec.json.encode(content)
        return text if indent is None else msgspec.json.format(text, indent=indent)
    except UnicodeEncodeError:
        import json  # needed rarely

        separators = (",", ":") if indent is None else None
        return json.dumps(msgspec.to_builtins(content), indent=indent, separators=separators).encode("ascii")


def decode(data: bytes | str, kind: type[_Decoded]) -> _Decoded:
    """An object of this type from JSON.

    Raises:
        msgspec.DecodeError: it is not JSON, nested too deeply, or has integers of more than 64 bits.
        msgspec.ValidationError: it is an object of another type.
    """
    try:
        decoded = msgspec.json.decode(data, type=kind, strict=True)
        if _MANY_DIGITS.search(data if isinstance(data, bytes) else data.encode()):
            _check_integers(msgspec.json.decode(data))
        return decoded
    except msgspec.ValidationError:
        raise
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        if "surrogate" not in str(error):
            raise msgspec.DecodeError(str(error)) from error
    except RecursionError:
        raise msgspec.DecodeError("it is nested too deeply") from None
    except ValueError as error:  # a number with more digits than Python converts
        raise msgspec.DecodeError(str(error)) from error
    return _with_surrogates(data, kind)


def _with_surrogates(data: bytes | str, kind: type[_Decoded]) -> _Decoded:
    """Decode JSON with lone surrogates, which msgspec refuses."""
    import json

    try:
        content = json.loads(data, parse_constant=_no_number, parse_float=_finite)
        _check_integers(content)
        json.dumps(content, ensure_ascii=False).encode("utf-8", "surrogateescape")
        return msgspec.convert(content, type=kind, strict=True)
    except msgspec.ValidationError:
        raise
    except RecursionError:
        raise msgspec.DecodeError("it is nested too deeply") from None
    except ValueError as error:
        raise msgspec.DecodeError(str(error)) from error


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{shortened(text)} is out of range")
    return number


def _check_integers(content: Any) -> None:
    """Refuse integers that no counter has: arithmetic with floats fails on them.

    Raises:
        ValueError: there is one.
    """
    left = [content]
    while left:
        one = left.pop()
        if isinstance(one, dict):
            left.extend(one.values())
        elif isinstance(one, list):
            left.extend(one)
        elif isinstance(one, int) and one.bit_length() > _MOST_BITS:
            raise ValueError(f"it has an integer of more than {_MOST_BITS} bits")
