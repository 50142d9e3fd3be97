"""JSON of our own files. Text that is not UTF-8 (an argument, the name of a file) is kept, byte for byte.

In memory such bytes are lone surrogates, U+DC80 to U+DCFF, as `os.fsdecode` makes them; in a file they are the escapes
"\\udc80" to "\\udcff", which Python's `json` reads and writes as well.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

_Decoded = TypeVar("_Decoded")


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
        msgspec.DecodeError, UnicodeDecodeError, RecursionError: it is not JSON.
        msgspec.ValidationError: it is no such object.
    """
    try:
        return msgspec.json.decode(data, type=kind, strict=True)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError as error:
        if "surrogate" not in str(error):
            raise
    import json

    try:
        content = json.loads(data)
    except json.JSONDecodeError as error:
        raise msgspec.DecodeError(str(error)) from error
    return msgspec.convert(content, type=kind, strict=True)
