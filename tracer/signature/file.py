"""Signatures on disk: an SQLite database that any tool can query.

Version history (PRAGMA user_version): 17, with synchronisation, phases and rounds of the execution tree
(`tree_tables.py`), data flow by allocation and dependences (`data_flow_tables.py`, `dependence_tables.py`) and
software-defined events (`event_tables.py`), library code (`library_tables.py`), the nodes that the data flow is
counted for, and times and types of array operations, is what is written. 16 and 15 are read, too: 16 had no times of
array operations; 15 had no table of those nodes either, whose data flow all counted for themselves, up to 8,192 sets of
readers, and no library code at first. Older ones are not: 14 had no events, 13 no
rounds of loops, 12 no allocations, and no overwritten bytes of loops.

A record type has a table; its fields are the columns, in their order. What is nested in a record has its own table.
`block_ranges` repeats, for queries, what follows from `memory_operations`: the merged address ranges of each block.
A name that is not UTF-8 is a BLOB with its bytes; within `provenance`, which is JSON, see `foretrace.base.json_text`.

A signature may come from anyone: its checksum must be that of its content, it is opened read-only, its schema must be
ours to the letter (no views or triggers), and every value is checked against its record's types.
"""

from __future__ import annotations

import itertools
import math
import os
import sqlite3
import stat
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec
import numpy as np

from foretrace.base import json_text
from foretrace.base.errors import HierarchyError, SignatureError
from foretrace.base.file_kinds import SIGNATURE, SIGNATURE_APPLICATION_ID, instead
from foretrace.base.files import write_atomically
from foretrace.cache_sim.base.hierarchy import Hierarchy
from foretrace.cache_sim.base.results import Event, MemoryEvents

from . import checksum as signature_checksum
from . import data_flow_tables as signature_flow
from . import dependence_tables as signature_dependences
from . import event_tables as signature_events
from . import library_tables as signature_library
from . import path_tables as signature_paths
from . import reuse_tables as signature_reuse
from . import tree_tables as signature_tree
from .instruction_table import InstructionTable
from .packed_arrays import bounded, take_bytes
from .records import (
    AddressRange,
    ArrayTime,
    Block,
    Idiom,
    InterpreterTime,
    LinearAlgebra,
    Loop,
    MemoryOperation,
    Provenance,
    Signature,
    SimulatedHierarchy,
    merge_ranges,
)

VERSION = 17
_READABLE = (15, 16, VERSION)
_SINCE_NODES = 16
MAX_FILE_BYTES = 8 << 30
_HEADER_BYTES = 100

_SCHEMA = {
    "checksum": signature_checksum.SCHEMA,  # the first: see there
    "provenance": "CREATE TABLE provenance (record TEXT NOT NULL)",
    "blocks": (
        "CREATE TABLE blocks (block_id INTEGER PRIMARY KEY, module TEXT NOT NULL, offset INTEGER NOT NULL, "
        "function TEXT NOT NULL, file TEXT NOT NULL, line INTEGER NOT NULL, loop_id INTEGER, "
        "executions INTEGER NOT NULL, instructions INTEGER NOT NULL)"
    ),
    "block_operations": (
        "CREATE TABLE block_operations (block_id INTEGER NOT NULL, kind TEXT NOT NULL, element_bits INTEGER NOT NULL, "
        "lanes INTEGER NOT NULL, count INTEGER NOT NULL)"
    ),
    "block_ranges": (
        "CREATE TABLE block_ranges (block_id INTEGER NOT NULL, first INTEGER NOT NULL, last_exclusive INTEGER NOT NULL)"
    ),
    "memory_operations": (
        "CREATE TABLE memory_operations (operation_id INTEGER PRIMARY KEY, block_id INTEGER NOT NULL, "
        "offset INTEGER NOT NULL, file TEXT NOT NULL, line INTEGER NOT NULL, is_store INTEGER NOT NULL, "
        "size_bytes INTEGER NOT NULL, executions INTEGER NOT NULL, total_bytes INTEGER NOT NULL, "
        "first INTEGER NOT NULL, last_exclusive INTEGER NOT NULL, repeated INTEGER NOT NULL, "
        "unit_stride INTEGER NOT NULL, strided INTEGER NOT NULL, irregular INTEGER NOT NULL, "
        "index_operation INTEGER, self_dependent INTEGER NOT NULL, array_operation TEXT NOT NULL, "
        "execution_range_bytes INTEGER)"
    ),
    "loops": (
        "CREATE TABLE loops (loop_id INTEGER PRIMARY KEY, parent_id INTEGER, header_block_id INTEGER NOT NULL, "
        "module TEXT NOT NULL, function TEXT NOT NULL, file TEXT NOT NULL, line INTEGER NOT NULL, "
        "depth INTEGER NOT NULL, entries INTEGER NOT NULL, iterations INTEGER NOT NULL, "
        '"order" INTEGER NOT NULL, kind TEXT NOT NULL)'
    ),
    "idioms": (
        "CREATE TABLE idioms (idiom_id INTEGER PRIMARY KEY, loop_id INTEGER NOT NULL, kind TEXT NOT NULL, "
        "file TEXT NOT NULL, line INTEGER NOT NULL)"
    ),
    "idiom_operations": (
        "CREATE TABLE idiom_operations (idiom_id INTEGER NOT NULL, operation_id INTEGER NOT NULL, "
        "is_index INTEGER NOT NULL)"
    ),
    "edges": (
        "CREATE TABLE edges (source_block_id INTEGER NOT NULL, destination_block_id INTEGER NOT NULL, "
        "count INTEGER NOT NULL)"
    ),
    "instruction_forms": (
        "CREATE TABLE instruction_forms (form_id INTEGER PRIMARY KEY, kind TEXT NOT NULL, "
        "element_bits INTEGER NOT NULL, lanes INTEGER NOT NULL, length_bytes INTEGER NOT NULL, flow TEXT NOT NULL, "
        "reads TEXT NOT NULL, addresses TEXT NOT NULL, writes TEXT NOT NULL, scaled INTEGER NOT NULL)"
    ),
    "instructions": (
        "CREATE TABLE instructions (block_id INTEGER PRIMARY KEY, forms BLOB NOT NULL, load_operations BLOB NOT NULL, "
        "store_operations BLOB NOT NULL)"
    ),
    "paths": (
        "CREATE TABLE paths (path_id INTEGER PRIMARY KEY, executions INTEGER NOT NULL, blocks BLOB NOT NULL, "
        "store_distances BLOB NOT NULL, line_distances BLOB NOT NULL)"
    ),
    "interpreter_times": (
        "CREATE TABLE interpreter_times (block_id INTEGER PRIMARY KEY, lines REAL NOT NULL, "
        "recording_lines REAL NOT NULL, array_faults REAL NOT NULL)"
    ),
    "array_times": (
        "CREATE TABLE array_times (block_id INTEGER PRIMARY KEY, operand_types TEXT NOT NULL, lines REAL NOT NULL, "
        "faults REAL NOT NULL, kept_calls INTEGER NOT NULL)"
    ),
    "linear_algebra": (
        "CREATE TABLE linear_algebra (loop_id INTEGER NOT NULL, routine TEXT NOT NULL, element_type TEXT NOT NULL, "
        "m INTEGER NOT NULL, n INTEGER NOT NULL, k INTEGER NOT NULL, batch INTEGER NOT NULL, calls INTEGER NOT NULL, "
        "flops REAL NOT NULL)"
    ),
    "hierarchies": (
        "CREATE TABLE hierarchies (hierarchy_id INTEGER PRIMARY KEY, name TEXT NOT NULL, spec TEXT NOT NULL)"
    ),
    "levels": (
        "CREATE TABLE levels (hierarchy_id INTEGER NOT NULL, hierarchy TEXT NOT NULL, level INTEGER NOT NULL, "
        "name TEXT NOT NULL, size_bytes INTEGER NOT NULL, ways INTEGER NOT NULL, line_bytes INTEGER NOT NULL)"
    ),
    "misses": (
        "CREATE TABLE misses (operation_id INTEGER NOT NULL, hierarchy_id INTEGER NOT NULL, level INTEGER NOT NULL, "
        "misses INTEGER NOT NULL)"
    ),
    "memory_events": (
        "CREATE TABLE memory_events (hierarchy_id INTEGER NOT NULL, part TEXT NOT NULL, event TEXT NOT NULL, "
        "operation_id INTEGER, block_id INTEGER, count INTEGER NOT NULL)"
    ),
    "reuse": (
        "CREATE TABLE reuse (accesses INTEGER NOT NULL, bursts INTEGER NOT NULL, burst_accesses INTEGER NOT NULL, "
        "sampling_rate REAL NOT NULL, sampled_blocks INTEGER NOT NULL)"
    ),
    "reuse_bins": "CREATE TABLE reuse_bins (bin INTEGER PRIMARY KEY, lower_edge_lines REAL NOT NULL)",
    "reuse_counts": (
        "CREATE TABLE reuse_counts (rows INTEGER NOT NULL, operation_id BLOB NOT NULL, line_bytes BLOB NOT NULL, "
        "way BLOB NOT NULL, bin BLOB NOT NULL, accesses BLOB NOT NULL)"
    ),
    "reuse_errors": "CREATE TABLE reuse_errors (standard_error BLOB NOT NULL)",
    **signature_tree.SCHEMA,
    **signature_flow.SCHEMA,
    **signature_dependences.SCHEMA,
    **signature_events.SCHEMA,
    **signature_library.SCHEMA,
}
_ADDED = {
    16: frozenset(("array_times",)),
    15: frozenset(("array_times", *signature_library.SCHEMA, *signature_flow.SINCE_16)),
}
"""Tables that signatures of older versions may lack."""

Record = TypeVar("Record", ArrayTime, Block, InterpreterTime, LinearAlgebra, MemoryOperation, Loop)
_ROWS_AT_ONCE = 64  # inserted by one statement: few take longer to run, many longer to prepare for small tables


# ---- writing --------------------------------------------------------------------------------------------------------


def write_signature(signature: Signature, path: str | Path, *, force: bool = False) -> None:
    """Write a signature as one file, atomically.

    Raises:
        OutputError: the file exists (and `force` is False), is no signature or cannot be written; the disk is full.
    """
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute(f"PRAGMA application_id = {SIGNATURE_APPLICATION_ID}")
        database.execute(f"PRAGMA user_version = {VERSION}")
        for statement in _SCHEMA.values():
            database.execute(statement)
        _fill(database, signature)
        database.commit()
        data = database.serialize()
    write_atomically(Path(path), signature_checksum.sealed(data), SIGNATURE, force=force)


def _fill(database: sqlite3.Connection, signature: Signature) -> None:
    def insert(table: str, rows: Iterable[tuple[Any, ...]]) -> None:
        width = database.execute(f"SELECT count(*) FROM pragma_table_info('{table}')").fetchone()[0]
        places = f"({', '.join('?' * width)})"
        remaining = iter(rows)
        while batch := list(itertools.islice(remaining, _ROWS_AT_ONCE)):
            statement = f"INSERT INTO {table} VALUES {', '.join([places] * len(batch))}"
            values = list(itertools.chain.from_iterable(batch))
            try:
                database.execute(statement, values)
            except UnicodeEncodeError:
                database.execute(statement, list(map(_as_bytes, values)))

    insert("checksum", [(signature_checksum.PLACEHOLDER,)])
    insert("provenance", [(json_text.encode(signature.provenance).decode(),)])
    insert("blocks", _rows(Block, signature.blocks, skip=("operations", "caller")))
    insert("memory_operations", _rows(MemoryOperation, signature.operations))
    insert("loops", _rows(Loop, signature.loops, skip=("calls", "frames")))
    signature_library.insert_library_code(signature, insert)
    insert("block_operations", _block_operation_rows(signature))
    insert("block_ranges", _block_range_rows(signature))
    insert("idioms", ((i.idiom_id, i.loop_id, str(i.kind), i.file, i.line) for i in signature.idioms))
    insert("idiom_operations", _idiom_operation_rows(signature))
    insert("edges", signature.edges.tolist())
    signature_tree.insert_tree(signature.tree, insert)
    signature_flow.insert_data_flow(signature.data_flow, insert)
    signature_dependences.insert_dependences(signature.dependences, signature.examined_loops, insert)
    signature_events.insert_events(signature.events, insert)
    instructions = InstructionTable.of(signature.paths.instructions)
    insert("instruction_forms", signature_paths.form_rows(instructions))
    insert("instructions", signature_paths.instruction_rows(instructions))
    insert("paths", signature_paths.path_rows(signature))
    insert("interpreter_times", _rows(InterpreterTime, signature.interpreter_times))
    insert("array_times", _rows(ArrayTime, signature.array_times))
    insert("linear_algebra", _rows(LinearAlgebra, signature.linear_algebra))
    insert("hierarchies", ((i, s.hierarchy.name, s.hierarchy.spec) for i, s in enumerate(signature.hierarchies)))
    insert("levels", _level_rows(signature))
    insert("misses", _miss_rows(signature))
    insert("memory_events", _memory_event_rows(signature))
    if signature.reuse is not None:
        for name, rows in signature_reuse.rows(signature.reuse):
            insert(name, rows)


def _as_bytes(value: Any) -> Any:
    """Text that is not UTF-8 as its bytes; anything else as it is."""
    is_text = not isinstance(value, str) or not any("\udc80" <= letter <= "\udcff" for letter in value)
    return value if is_text else value.encode("utf-8", "surrogateescape")


def _as_text(value: Any) -> Any:
    """What `_as_bytes` was given."""
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value


def _rows(kind: type[Record], records: Iterable[Record], skip: Sequence[str] = ()) -> Iterator[tuple[Any, ...]]:
    """The fields of each record; an `offset` of 2^63 and more wraps to negative, as SQLite's integers are signed."""
    names = [name for name in kind.__struct_fields__ if name not in skip]
    offset: int = names.index("offset") if "offset" in names else -1
    fields = attrgetter(*names)
    for record in records:
        row: tuple[Any, ...] = fields(record)
        if offset >= 0 and row[offset] >= 1 << 63:
            row = (*row[:offset], row[offset] - (1 << 64), *row[offset + 1 :])
        yield row


def _block_operation_rows(signature: Signature) -> Iterator[tuple[Any, ...]]:
    for block in signature.blocks:
        for operation in block.operations:
            yield block.block_id, str(operation.kind), operation.element_bits, operation.lanes, operation.count


def _block_range_rows(signature: Signature) -> Iterator[tuple[int, int, int]]:
    ranges = defaultdict(list)
    for operation in signature.operations:
        ranges[operation.block_id].append(AddressRange(operation.first, operation.last_exclusive))
    for block_id, block_ranges in ranges.items():
        for merged in merge_ranges(block_ranges):
            yield block_id, merged.first, merged.last_exclusive


def _idiom_operation_rows(signature: Signature) -> Iterator[tuple[int, int, bool]]:
    for idiom in signature.idioms:
        for operation in idiom.operations:
            yield idiom.idiom_id, operation, False
        for operation in idiom.index_operations:
            yield idiom.idiom_id, operation, True


def _level_rows(signature: Signature) -> Iterator[tuple[Any, ...]]:
    for number, simulated in enumerate(signature.hierarchies):
        for level_number, level in enumerate(simulated.hierarchy.levels):
            name = simulated.hierarchy.name
            yield number, name, level_number, level.name, level.size_bytes, level.ways, level.line_bytes


def _miss_rows(signature: Signature) -> Iterator[tuple[int, int, int, int]]:
    for number, simulated in enumerate(signature.hierarchies):
        operations, levels = np.nonzero(simulated.misses)
        counts = simulated.misses[operations, levels]
        for operation, level, count in zip(operations.tolist(), levels.tolist(), counts.tolist(), strict=True):
            yield operation, number, level, count


def _memory_event_rows(signature: Signature) -> Iterator[tuple[int, str, str, int | None, int | None, int]]:
    """What an operation caused, or the fetches of a block."""
    names = [str(event) for event in Event]
    for number, simulated in enumerate(signature.hierarchies):
        events = simulated.events
        for table, is_block in () if events is None else ((events.by_operation, False), (events.by_block, True)):
            where = np.nonzero(table)
            for row, part, event, count in zip(*(i.tolist() for i in where), table[where].tolist(), strict=True):
                ids = (None, row) if is_block else (row, None)
                yield number, simulated.hierarchy.parts[part].name, names[event], *ids, count


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
                return _read(database)
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
    """That it is a signature of this version, and whole."""
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
    found = dict(rows)
    may_lack = _ADDED.get(_version(database), ())
    if {**{name: _SCHEMA[name] for name in may_lack}, **found} != _SCHEMA:
        raise SignatureError(f"{path}: its tables are not those of a signature; trace the program again")


def _version(database: sqlite3.Connection) -> int:
    return int(database.execute("PRAGMA user_version").fetchone()[0])


def _read(database: sqlite3.Connection) -> Signature:
    rows = database.execute("SELECT record FROM provenance").fetchall()
    if len(rows) != 1:
        raise ValueError("it has no provenance")
    provenance = json_text.decode(rows[0][0], Provenance)
    mixes = defaultdict(list)
    for block_id, kind, bits, lanes, count in database.execute("SELECT * FROM block_operations"):
        mixes[block_id].append({"kind": kind, "element_bits": bits, "lanes": lanes, "count": count})
    blocks = _records(database, "blocks", Block, mixes)
    operations = _records(database, "memory_operations", MemoryOperation)
    loops = _records(database, "loops", Loop)
    tree = signature_tree.read_tree(database, len(blocks), len(loops), _as_text)
    dependences, examined = signature_dependences.read_dependences(
        database, 0 if tree is None else len(tree), len(operations), _as_text
    )
    signature = Signature(
        provenance=provenance,
        blocks=blocks,
        operations=operations,
        loops=loops,
        idioms=_read_idioms(database),
        edges=np.array(database.execute("SELECT * FROM edges").fetchall(), np.uint64).reshape(-1, 3),
        hierarchies=_read_hierarchies(database, len(operations), len(blocks)),
        reuse=signature_reuse.read(database, len(operations)),
        paths=signature_paths.read(database, operations, len(blocks)),
        interpreter_times=_read_interpreter_times(database, len(blocks)),
        array_times=_read_array_times(database, len(blocks)),
        linear_algebra=_read_linear_algebra(database),
        tree=tree,
        data_flow=signature_flow.read_data_flow(
            database, 0 if tree is None else len(tree), _as_text, has_nodes=_version(database) >= _SINCE_NODES
        ),
        dependences=dependences,
        examined_loops=examined,
        events=signature_events.read_events(
            database, _process_numbers(provenance), 0 if tree is None else len(tree), _as_text
        ),
    )
    signature = signature_library.with_library_code(signature, database, _as_text)
    _check_references(signature)
    return signature


def _process_numbers(provenance: Provenance) -> set[int]:
    """Of a single process, which has no record, it is 0."""
    return {0, *(process.number for process in provenance.processes)}


def _records(
    database: sqlite3.Connection, table: str, kind: type[Record], mixes: dict[int, list[Any]] | None = None
) -> tuple[Record, ...]:
    cursor = database.execute(f"SELECT * FROM {table} ORDER BY 1")
    names = [column[0] for column in cursor.description]
    flags = {name for name, hint in kind.__annotations__.items() if hint == "bool"}
    records: list[Record] = []
    for row in cursor:
        texts = map(_as_text, row) if bytes in map(type, row) else row
        values = dict(zip(names, texts, strict=True))
        for name in flags.intersection(names):
            values[name] = bool(values[name])
        if mixes is not None:
            values["operations"] = mixes.get(row[0], [])
        if values.get("offset", 0) < 0:
            values["offset"] += 1 << 64
        if row[0] != len(records):
            raise ValueError(f"the ids in {table} are not 0, 1, 2, ...")
        if any(isinstance(v, int) and v < 0 for v in values.values()):
            raise ValueError(f"a count in {table} is negative")
        records.append(msgspec.convert(values, type=kind, strict=True))
    return tuple(records)


def _read_interpreter_times(database: sqlite3.Connection, num_blocks: int) -> tuple[InterpreterTime, ...]:
    times = []
    names = InterpreterTime.__struct_fields__
    for row in database.execute("SELECT * FROM interpreter_times ORDER BY 1"):
        time = msgspec.convert(dict(zip(names, row, strict=True)), type=InterpreterTime, strict=True)
        possible = all(0 <= value < math.inf for value in (time.lines, time.recording_lines, time.array_faults))
        if not 0 <= time.block_id < num_blocks or not possible:
            raise ValueError("the interpreter's time of a block is impossible")
        times.append(time)
    return tuple(times)


def _read_array_times(database: sqlite3.Connection, num_blocks: int) -> tuple[ArrayTime, ...]:
    if _version(database) < VERSION:
        return ()
    times = []
    names = ArrayTime.__struct_fields__
    for row in database.execute("SELECT * FROM array_times ORDER BY 1"):
        time = msgspec.convert(dict(zip(names, row, strict=True)), type=ArrayTime, strict=True)
        possible = all(0 <= value < math.inf for value in (time.lines, time.faults, time.kept_calls))
        if not 0 <= time.block_id < num_blocks or not possible:
            raise ValueError("the time of an array operation is impossible")
        times.append(time)
    return tuple(times)


def _read_linear_algebra(database: sqlite3.Connection) -> tuple[LinearAlgebra, ...]:
    names = LinearAlgebra.__struct_fields__
    records = []
    for row in database.execute("SELECT * FROM linear_algebra ORDER BY rowid"):
        record = msgspec.convert(dict(zip(names, row, strict=True)), type=LinearAlgebra, strict=True)
        if not 0 <= record.flops < math.inf or min(record.m, record.n, record.k, record.batch, record.calls) < 0:
            raise ValueError("the work of a routine of linear algebra is impossible")
        records.append(record)
    return tuple(records)


def _read_idioms(database: sqlite3.Connection) -> tuple[Idiom, ...]:
    members: dict[tuple[int, int], list[int]] = defaultdict(list)
    for idiom_id, operation_id, is_index in database.execute("SELECT * FROM idiom_operations"):
        members[idiom_id, is_index].append(operation_id)
    idioms = []
    for idiom_id, loop_id, kind, file, line in database.execute("SELECT * FROM idioms ORDER BY 1"):
        values = {
            "idiom_id": idiom_id, "loop_id": loop_id, "kind": kind, "file": _as_text(file), "line": line,
            "operations": members[idiom_id, 0], "index_operations": members[idiom_id, 1],
        }  # fmt: skip
        idioms.append(msgspec.convert(values, type=Idiom, strict=True))
    return tuple(idioms)


def _read_hierarchies(
    database: sqlite3.Connection, num_operations: int, num_blocks: int
) -> tuple[SimulatedHierarchy, ...]:
    rows = database.execute("SELECT * FROM hierarchies ORDER BY hierarchy_id").fetchall()
    rows = msgspec.convert(rows, type=list[tuple[int, str, str]], strict=True)
    if [row[0] for row in rows] != list(range(len(rows))):
        raise ValueError("the ids in hierarchies are not 0, 1, 2, ...")
    hierarchies = [Hierarchy.parse(spec, name) for _, name, spec in rows]
    for hierarchy in hierarchies:
        cells = num_operations * len(hierarchy.levels)
        if not hierarchy.is_plain:
            cells += (num_operations + num_blocks) * len(hierarchy.parts) * len(Event)
        take_bytes(cells * np.dtype(np.uint64).itemsize)
    misses = [np.zeros((num_operations, len(hierarchy.levels)), np.uint64) for hierarchy in hierarchies]
    for operation, number, level, count in database.execute("SELECT * FROM misses"):
        known = 0 <= operation < num_operations and 0 <= number < len(rows)
        if not (known and 0 <= level < len(hierarchies[number].levels)):
            raise ValueError("misses are given for an operation or level that does not exist")
        misses[number][operation, level] = count
    events = [_no_events(hierarchy, num_operations, num_blocks) for hierarchy in hierarchies]
    names = {str(event): number for number, event in enumerate(Event)}
    for number, part, event, operation, block, count in database.execute("SELECT * FROM memory_events"):
        recorded = events[number] if 0 <= number < len(rows) else None
        if (
            recorded is None
            or part not in recorded.parts
            or event not in names
            or (operation is None) == (block is None)
        ):
            raise ValueError("events are given for a part of a hierarchy that does not exist")
        table, row = (recorded.by_block, block) if operation is None else (recorded.by_operation, operation)
        if not 0 <= row < len(table):
            raise ValueError("events are given for an operation or block that does not exist")
        table[row, recorded.parts.index(part), names[event]] = count
    return tuple(map(SimulatedHierarchy, hierarchies, misses, events))


def _no_events(hierarchy: Hierarchy, num_operations: int, num_blocks: int) -> MemoryEvents | None:
    if hierarchy.is_plain:
        return None
    shape = (len(hierarchy.parts), len(Event))
    tables = (np.zeros((num_rows, *shape), np.uint64) for num_rows in (num_operations, num_blocks))
    return MemoryEvents(tuple(part.name for part in hierarchy.parts), *tables)


def _check_references(signature: Signature) -> None:
    """Refuse ids that point nowhere, so that nobody who reads a signature has to look."""
    blocks, operations, loops = len(signature.blocks), len(signature.operations), len(signature.loops)
    good = (
        all(block.loop_id is None or block.loop_id < loops for block in signature.blocks)
        and all(op.block_id < blocks and op.first <= op.last_exclusive for op in signature.operations)
        and all(op.index_operation is None or op.index_operation < operations for op in signature.operations)
        and all(loop.header_block_id < blocks for loop in signature.loops)
        and all(
            loop.parent_id is None or (loop.parent_id < loops and signature.loops[loop.parent_id].depth < loop.depth)
            for loop in signature.loops
        )
        and all(
            0 <= idiom.loop_id < loops
            and all(0 <= i < operations for i in (*idiom.operations, *idiom.index_operations))
            for idiom in signature.idioms
        )
        and all(0 <= linear.loop_id < loops for linear in signature.linear_algebra)
        and bool(np.all(signature.edges[:, :2] < blocks))
    )
    if not good:
        raise ValueError("a block, operation or loop it refers to does not exist")
