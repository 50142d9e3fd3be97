"""Files of ours, changed as somebody who forges their checksums, too, would do it."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from foretrace.base import json_text
from foretrace.tracer.native import timing_file
from foretrace.tracer.signature import checksum as signature_checksum


def change_signature(path: Path, *statements: str | tuple[str, tuple[Any, ...]]) -> None:
    """Execute SQL on a signature, each statement with its values if it has any."""
    with closing(sqlite3.connect(path)) as database:
        for statement in statements:
            sql, values = (statement, ()) if isinstance(statement, str) else statement
            database.execute(sql, values)
        database.commit()
    path.write_bytes(signature_checksum.sealed(path.read_bytes()))


def change_timing(path: Path, changes: dict[str, Any]) -> None:
    """Replace fields of a timing."""
    document = json.loads(path.read_text()) | changes
    del document["crc32"]
    schema = document.pop("schema")
    checksum = timing_file._checksum(document)
    path.write_bytes(json_text.encode({"schema": schema, "crc32": checksum} | document))
