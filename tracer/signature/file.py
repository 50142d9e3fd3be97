"""Signatures on disk: an SQLite database that any tool can query.

Version history (PRAGMA user_version): 18, with synchronisation, phases and rounds of the execution tree
(`tree_tables.py`), data flow by allocation and dependences (`data_flow_tables.py`, `dependence_tables.py`) and
software-defined events (`event_tables.py`), library code (`library_tables.py`), the nodes that the data flow is
counted for, times and types of array operations, and ranks (`rank_tables.py`), is what is written. 17, 16 and 15 are
read, too: 17 had no ranks; 16 had no times of array operations; 15 had no table of those nodes either, whose data flow
all counted for themselves, up to 8,192 sets of readers, and no library code at first. Older ones are not: 14 had no
events, 13 no rounds of loops, 12 no allocations, and no overwritten bytes of loops.

A record type has a table; its fields are the columns, in their order. What is nested in a record has its own table.
`block_ranges` repeats, for queries, what follows from `memory_operations`: the merged address ranges of each block.
A name that is not UTF-8 is a BLOB with its bytes; within `provenance`, which is JSON, see `foretrace.base.json_text`.

A signature may come from anyone: its checksum must be that of its content, it is opened read-only, its schema must be
ours to the letter (no views or triggers), and every value is checked against its record's types.
"""

from __future__ import annotations

import itertools
import os
import sqlite3
import stat
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from foretrace.base import json_text
from foretrace.base.errors import HierarchyError, SignatureError
from foretrace.base.file_kinds import SIGNATURE, SIGNATURE_APPLICATION_ID, instead
from foretrace.base.files import write_atomically

from . import checksum as signature_checksum
from .cache_tables import CACHE_TABLES, read_hierarchies, read_reuse
from .code_tables import CODE_TABLES, LIBRARY_TABLES, TIME_TABLES, read_code
from .data_flow_tables import DEPENDENCE_TABLES, FLOW_TABLES, read_data_flow, read_dependences
from .event_tables import EVENT_TABLES, read_events
from .packed_arrays import bounded
from .path_tables import PATH_TABLES, read_paths
from .rank_tables import RANK_TABLES, read_ranks
from .records import Provenance, Signature
from .schema import StoredTables, Table, columns
from .tree_tables import TREE_TABLES, read_tree

VERSION = 18
_READABLE = (15, 16, 17, VERSION)
MAX_FILE_BYTES = 8 << 30
_HEADER_BYTES = 100

TABLES = {
    table.name: table
    for table in (
        Table(
            "provenance",
            "How the signature was obtained: a `Provenance` as JSON.",
            columns(record=str),
            lambda signature: ([json_text.encode(signature.provenance).decode()],),
        ),
        *CODE_TABLES,
        *PATH_TABLES,
        *TIME_TABLES,
        *CACHE_TABLES,
        *TREE_TABLES,
        *FLOW_TABLES,
        *DEPENDENCE_TABLES,
        *EVENT_TABLES,
        *LIBRARY_TABLES,
        *RANK_TABLES,
    )
}
"""All but that of the checksum, which comes first."""
_ROWS_AT_ONCE = 64  # inserted by one statement: few take longer to run, many longer to prepare for small tables


# ---- writing --------------------------------------------------------------------------------------------------------


def write_signature(signature: Signature, path: str | Path, *, force: bool = False) -> None:
    """Write a signature as one file, atomically.

    Raises:
        OutputError: the file exists (and `force` is False), is no signature or cannot be written; the disk is full.
    """
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute(f"PRAGMA application_id = {SIGNATURE_APPLICATION_ID}")
        write_tables(signature, database)
        data = database.serialize()
    write_atomically(Path(path), signature_checksum.sealed(data), SIGNATURE, force=force)


def write_tables(signature: Signature, database: sqlite3.Connection) -> None:
    """Write a signature as the tables of an empty database."""
    for statement in _statements(VERSION).values():
        database.execute(statement)
    database.execute(f"PRAGMA user_version = {VERSION}")
    database.execute("INSERT INTO checksum VALUES (?)", (signature_checksum.PLACEHOLDER,))
    for table in TABLES.values():
        places = f"({', '.join('?' * len(table.columns))})"
        remaining = iter(table.rows(signature))
        while batch := list(itertools.islice(remaining, _ROWS_AT_ONCE)):
            statement = f"INSERT INTO {table.name} VALUES {', '.join([places] * len(batch))}"
            values = list(itertools.chain.from_iterable(batch))
            try:
                database.execute(statement, values)
            except UnicodeEncodeError:
                database.execute(statement, list(map(_as_bytes, values)))
    database.commit()


def check_tables(signature: Signature, tables: Iterable[Table]) -> None:
    """Refuse a signature whose tables could not be read back.

    Raises:
        ValueError: names the column.
    """

    def count(name: str) -> int:
        return next((len(list(values)) for _, values in TABLES[name].pairs(signature)), 0)

    for table in tables:
        table.check(signature, count)


def _statements(version: int) -> dict[str, str]:
    return {"checksum": signature_checksum.SCHEMA, **{name: table.sql(version) for name, table in TABLES.items()}}


def _as_bytes(value: Any) -> Any:
    """Text that is not UTF-8 as its bytes; anything else as it is."""
    is_text = not isinstance(value, str) or not any("\udc80" <= letter <= "\udcff" for letter in value)
    return value if is_text else value.encode("utf-8", "surrogateescape")


# ---- reading --------------------------------------------------------------------------------------------------------


def read_signature(path: str | Path) -> Signature:
    """Read a signature.

    Raises:
        SignatureError: the file is missing, empty, truncated, not a signature, of another version, or damaged.
    """
    path = Path(path)
    _check_file(path)
    try:
        with closing(sqlite3.connect(f"file:{quote(os.fsencode(path))}?mode=ro&immutable=1", uri=True)) as database:
            database.execute("PRAGMA trusted_schema = OFF")
            database.execute("PRAGMA query_only = ON")
            _check_schema(database, path)
            with bounded():
                return read_tables(database)
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise SignatureError(f"{path}: is damaged or truncated ({error}); trace the program again") from error
    except MemoryError as error:  # SQLite says so, too, where a text goes on in a page that there is not
        raise SignatureError(f"{path}: is damaged, or more than the memory holds; trace the program again") from error
    except (
        msgspec.ValidationError,
        msgspec.DecodeError,
        HierarchyError,
        ValueError,
        OverflowError,
        TypeError,
    ) as error:
        raise SignatureError(f"{path}: holds an impossible value ({error}); trace the program again") from error


def _check_file(path: Path) -> None:
    """Check that a file is a signature of this version, and whole."""
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise SignatureError(f"{path}: is not a file; name a signature")
        with path.open("rb") as file:
            header = file.read(_HEADER_BYTES)
            _check_header(header, found.st_size, path)
            file.seek(0)
            if not signature_checksum.is_whole(file, header):
                raise SignatureError(
                    f"{path}: is damaged or truncated (its checksum is another content's); trace the program again"
                )
    except OSError as error:
        raise SignatureError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError:
        raise SignatureError(f"{path}: cannot be read: its name has a NUL character") from None


def _check_header(header: bytes, size_bytes: int, path: Path) -> None:
    if size_bytes == 0:
        raise SignatureError(f"{path}: is empty; trace the program again")
    if size_bytes > MAX_FILE_BYTES:
        raise SignatureError(f"{path}: is {size_bytes} bytes long, more than a signature can be")
    if not SIGNATURE.matches(header):
        raise SignatureError(f"{path}: {instead(path, SIGNATURE, 'foretrace trace -o FILE -- PROGRAM')}")
    version = int.from_bytes(header[60:64], "big")
    if version not in _READABLE:
        raise SignatureError(
            f"{path}: is a signature of version {version}, and this release reads versions {_READABLE[0]} to {VERSION}"
            "; trace the program again"
        )


def _check_schema(database: sqlite3.Connection, path: Path) -> None:
    rows = database.execute("SELECT name, sql FROM sqlite_master WHERE type <> 'index' OR sql IS NOT NULL").fetchall()
    (version,) = database.execute("PRAGMA user_version").fetchone()
    expected = _statements(version)
    may_lack = {table.name: expected[table.name] for table in TABLES.values() if table.since > version}
    if {**may_lack, **dict(rows)} != expected:
        raise SignatureError(f"{path}: its tables are not those of a signature; trace the program again")


def read_tables(database: sqlite3.Connection) -> Signature:
    """Read a signature from the tables of a database.

    Raises:
        ValueError, HierarchyError, msgspec.ValidationError, msgspec.DecodeError: they hold an impossible value.
    """
    stored = StoredTables(database, TABLES)
    provenance = json_text.decode(stored.part("provenance")["record"], Provenance)
    code = read_code(stored)
    tree = read_tree(stored, code.pop("callers"))
    dependences, examined = read_dependences(stored)
    return Signature(
        provenance=provenance,
        **code,
        hierarchies=read_hierarchies(stored),
        reuse=read_reuse(stored),
        paths=read_paths(stored, code["operations"]),
        tree=tree,
        data_flow=read_data_flow(stored),
        dependences=dependences,
        examined_loops=examined,
        events=read_events(stored, process_numbers(provenance)),
        ranks=read_ranks(stored),
    )


def process_numbers(provenance: Provenance) -> set[int]:
    """The numbers of a signature's processes; that of a single one, which has no record, is 0."""
    return {0, *(process.number for process in provenance.processes)}
