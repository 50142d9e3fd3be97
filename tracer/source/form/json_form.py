"""The form as JSON: one object a file, checked when it is read."""

from __future__ import annotations

import msgspec

from foretrace.base import json_text
from foretrace.base.errors import SourceError, shortened

from .records import Unit

FORM_VERSION = 1
"""Raised when a record changes its fields or their meaning. 1: the first one."""


class _Document(msgspec.Struct, forbid_unknown_fields=True):
    version: int
    unit: msgspec.Raw


def to_json(unit: Unit) -> bytes:
    """A file's form as JSON."""
    return json_text.encode({"version": FORM_VERSION, "unit": unit})


def from_json(data: bytes) -> Unit:
    """A file's form from JSON.

    Raises:
        SourceError: it is no form, or one of another version.
    """
    try:
        document = json_text.decode(data, _Document)
        if document.version != FORM_VERSION:
            raise SourceError(f"The form has version {document.version}, not {FORM_VERSION}: lower the source again")
        return json_text.decode(bytes(document.unit), Unit)
    except msgspec.DecodeError as error:
        raise SourceError(f"No source form: {shortened(str(error))}") from error
