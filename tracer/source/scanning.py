"""Reading source trees: finds the files, analyses each in a process of its own, and combines the results.

A file that crashes its front end, takes too long or too much memory is skipped with the reason; the rest goes on.
"""

from __future__ import annotations

import os
import resource
import stat
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, TimeoutError, as_completed
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from foretrace.base.errors import SourceError, shortened

from .c_code.scratch_folder import shared_folder, use_folder
from .counting import accounted, options_of_includes, text_of
from .form.records import Opaque, Place, Unit
from .form.walk import statements
from .idioms.patterns import IdiomDefinition, as_text
from .idioms.recognition import recognised
from .idioms.records import Finding, Findings, LoopReport, SkippedPart
from .languages import HEADER_SUFFIXES, MissingPackageError, language_of, lower
from .loop_text.records import LoopText
from .result_cache import FileResult, ResultCache, digest_of

MOST_FILE_BYTES = 16 << 20
MOST_VARIANTS = 12
"""Times that a file is read again for branches of its preprocessor."""
FILE_SECONDS = 120
"""Time that one file may take."""
FILE_MEMORY_BYTES = 4 << 30
"""Address space of a process that reads files."""
TOO_MANY_WAYS = "it matches idioms in more ways than are tried"
_SKIPPED_FOLDERS = {"__pycache__", "node_modules", "CMakeFiles"}


def source_files(paths: Iterable[Path]) -> tuple[list[Path], list[SkippedPart]]:
    """Source files that paths name or contain, each once, sorted; and named paths that cannot be read.

    Folders that start with a dot are left out. Links to folders are not followed, so that no loop can arise.

    Raises:
        SourceError: a path does not exist, or is a file of no language that is read.
    """
    found: dict[Path, None] = {}
    skipped: list[SkippedPart] = []
    for path in paths:
        if path.is_dir():
            for one in _below(path, skipped):
                found.setdefault(one)
        elif not os.path.lexists(path):
            raise SourceError(f"{path}: there is no such file or folder")
        elif language_of(path) is None:
            raise SourceError(f"{path}: no source of C, C++, Fortran or Python, by its name")
        else:
            found.setdefault(path)
    return list(found), skipped


def header_files(paths: Iterable[Path]) -> list[Path]:
    """Files in folders that are read where they are included, each once, sorted."""
    found = (header for path in paths if path.is_dir() for header in _below(path, [], HEADER_SUFFIXES))
    return [path for path in dict.fromkeys(found) if not _obstacle(path)]


def _below(folder: Path, skipped: list[SkippedPart], suffixes: frozenset[str] = frozenset()) -> Iterator[Path]:
    """Source files in a folder; with `suffixes`, the files that end so instead."""

    def unreadable(error: OSError) -> None:
        skipped.append(SkippedPart(str(error.filename), 0, "folder", error.strerror or "cannot be read"))

    for root, folders, names in os.walk(folder, onerror=unreadable):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in _SKIPPED_FOLDERS)
        for name in sorted(names):
            path = Path(root, name)
            if path.suffix.lower() in suffixes if suffixes else language_of(path) is not None:
                yield path


def _obstacle(path: Path) -> str:
    """Reason why a file cannot be read; "" if none is known. Opens nothing, as a FIFO would block."""
    try:
        status = path.stat()
    except OSError as error:
        return _reason(error)
    if not stat.S_ISREG(status.st_mode):
        return "no regular file"
    if status.st_size > MOST_FILE_BYTES:
        return f"larger than {MOST_FILE_BYTES >> 20} MiB"
    return ""


def _reason(error: BaseException) -> str:
    """An exception in a few words."""
    if isinstance(error, OSError):
        return shortened(error.strerror or str(error))
    if isinstance(error, RecursionError):
        return "nested too deeply"
    if isinstance(error, MemoryError):
        return f"reading it took more than {FILE_MEMORY_BYTES >> 30} GiB"
    return shortened(str(error))


def scanned(
    paths: Iterable[Path],
    definitions: Sequence[IdiomDefinition],
    *,
    cache_folder: Path | None = None,
    processes: int | None = None,
    defines: Sequence[str] = (),
    branches: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Findings:
    """The idioms and loops of source trees, and the share of the text's loops that was read.

    Args:
        paths: files and folders.
        definitions: the idioms to look for, most specific first.
        cache_folder: where results are kept; None: nowhere.
        processes: that read files side by side; None: one for each processor.
        defines: symbols of the preprocessor, `NAME` or `NAME=value`.
        branches: whether branches of the preprocessor that are not taken are read, too: each file again, with the
            symbols that choose them.
        progress: called with the number of files done and of all.

    Raises:
        SourceError: a path does not exist or is no source file, or a package is missing.
    """
    paths = list(paths)
    files, skipped = source_files(paths)
    headers = header_files(paths)
    roots = [path for path in paths if path.is_dir()]
    job = Job(tuple(definitions), tuple(roots), tuple(defines), branches)
    cache = ResultCache(cache_folder, job.text())
    results: dict[Path, FileResult] = {}
    for path in (*files, *headers):
        obstacle = _obstacle(path)
        known = _skipped(path, obstacle) if obstacle else cache.find(path)
        if known is not None:
            results[path] = known
    number = len(files) + len(headers)
    missing = [path for path in (*files, *headers) if path not in results]
    progress(len(results), number)
    for path, result in _read(missing, job, processes or os.cpu_count() or 1):
        results[path] = result
        cache.keep(path, result)
        progress(len(results), number)
    if missing:
        cache.trim()
    found = _joined([results[path] for path in files], skipped)
    loops_read, unread = accounted([(path, results[path]) for path in (*files, *headers)], found.loops)
    return replace(found, loops_read=loops_read, unread=tuple(unread))


@dataclass(frozen=True, slots=True)
class Job:
    """The work to do on each file."""

    definitions: tuple[IdiomDefinition, ...]
    """The idioms to look for."""
    roots: tuple[Path, ...] = ()
    """Folders below which headers are searched, besides those of the file's project."""
    defines: tuple[str, ...] = ()
    branches: bool = False

    def text(self) -> str:
        """The inputs of results besides the files."""
        roots = (str(root.resolve()) for root in self.roots)
        return "\n".join([*map(as_text, self.definitions), *roots, *self.defines, str(self.branches)])


def _fault(error: Exception) -> str:
    return f"foretrace failed on it, please report this: {shortened(f'{type(error).__name__}: {error}')}"


def _read(files: Sequence[Path], job: Job, processes: int) -> Iterator[tuple[Path, FileResult]]:
    """Results of files as they come."""
    if not files:
        return
    try:
        from pebble import ProcessExpired, ProcessPool
    except ModuleNotFoundError:
        raise SourceError("reading source needs pebble; install it with: pip install 'foretrace[source]'") from None
    largest_first = sorted(files, key=_bytes_of, reverse=True)
    workers = min(processes, len(files))
    with (
        shared_folder() as scratch,
        ProcessPool(max_workers=workers, initializer=_prepared, initargs=(scratch,)) as pool,
    ):
        started: dict[Future[FileResult], Path] = {
            pool.schedule(_result, args=(path, job), timeout=FILE_SECONDS): path for path in largest_first
        }
        try:
            for future in as_completed(started):
                path = started[future]
                try:
                    yield path, future.result()
                except TimeoutError:
                    yield path, _skipped(path, f"reading it took more than {FILE_SECONDS} s; --no-cache tries again")
                except ProcessExpired:
                    reasons = f"nested too deeply, or more than {FILE_MEMORY_BYTES >> 30} GiB"
                    yield path, _skipped(path, f"reading it ended the process: {reasons}")
                except SourceError:
                    raise
                except Exception as error:  # a fault of ours in one file must not cost the others
                    yield path, _skipped(path, _fault(error))
        except BaseException:
            pool.stop()  # type: ignore[no-untyped-call]
            raise


def _bytes_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _prepared(scratch: Path) -> None:
    use_folder(scratch)
    _bounded()


def _bounded() -> None:
    """Limits of a process that reads files. What parsers print there, when they crash, is not for the user."""
    silent = os.open(os.devnull, os.O_RDWR)
    for stream in (1, 2):
        os.dup2(silent, stream)
    os.close(silent)
    warnings.simplefilter("ignore")
    # On top of what this process, a copy of its parent, has reserved already.
    reserved_bytes = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    most_bytes = resource.getrlimit(resource.RLIMIT_AS)[1]
    wanted_bytes = reserved_bytes + FILE_MEMORY_BYTES
    soft = wanted_bytes if most_bytes == resource.RLIM_INFINITY else min(wanted_bytes, most_bytes)
    resource.setrlimit(resource.RLIMIT_AS, (soft, most_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def file_result(path: Path, definitions: Sequence[IdiomDefinition], roots: tuple[Path, ...] = ()) -> FileResult:
    """Analysis result of one file. A failure is recorded as the reason why the file was skipped.

    Args:
        path: the file.
        definitions: the idioms to look for.
        roots: folders below which headers are searched, besides those of the file's project.

    Raises:
        SourceError: the package that reads its language is not installed.
    """
    return _result(path, Job(tuple(definitions), roots))


def _result(path: Path, job: Job) -> FileResult:
    obstacle = _obstacle(path)
    if obstacle:
        return _skipped(path, obstacle)
    text = LoopText()
    try:
        data = path.read_bytes()
        text = text_of(path, data)
        if language_of(path) is None:
            return FileResult((), (), (), 0, text=text)
        source = data.decode("utf-8", "replace").splitlines()
        made = _lowered(path, job, source, job.defines, ())
        result = msgspec.structs.replace(made, text=text)
        return _with_branches(path, job, source, result) if job.branches else result
    except MissingPackageError:
        raise
    except (OSError, RecursionError, MemoryError) as error:
        reason = _reason(error)
    except SourceError as error:
        reason = shortened(str(error).removeprefix(f"{path}: "))
    except Exception as error:  # a fault of ours costs this file, not the others
        reason = _fault(error)
    return msgspec.structs.replace(_skipped(path, reason), text=text)


def _lowered(
    path: Path, job: Job, source: Sequence[str], defines: Sequence[str], undefines: Sequence[str]
) -> FileResult:
    """A file's result with certain symbols of the preprocessor."""
    symbols = (tuple(defines), tuple(undefines)) if defines or undefines else ()
    unit = lower(path, job.roots, *symbols)
    findings, loops, unfinished = recognised(unit, job.definitions, source)
    skipped = [_part(unit, part.place, part.what, part.reason) for part in unit.skipped]
    skipped += [_part(unit, place, "statement", TOO_MANY_WAYS) for place in dict.fromkeys(unfinished)]
    opaque = [
        _part(unit, part.place, "statement", part.reason)
        for function in unit.functions for part in statements(function.body)
        if isinstance(part, Opaque) and part.place.last > part.place.line
    ]  # fmt: skip
    includes = tuple((name, digest_of(Path(name))) for name in unit.files[1:])
    return FileResult(tuple(findings), tuple(loops), tuple(skipped), unit.lines, includes, opaque=tuple(opaque))


def _part(unit: Unit, place: Place, what: str, reason: str) -> SkippedPart:
    return SkippedPart(unit.files[place.file], place.line, what, reason, place.last_line)


def _with_branches(path: Path, job: Job, source: Sequence[str], result: FileResult) -> FileResult:
    """A file's result including branches that are not taken: the file read again with symbols that choose them."""
    loops, findings, skipped = list(result.loops), list(result.findings), list(result.skipped)
    includes = dict(result.includes)
    tried: set[str] = set()
    for _ in range(MOST_VARIANTS):
        known = msgspec.structs.replace(result, skipped=tuple(skipped))
        others = [(Path(name), FileResult((), (), (), 0, text=_text_now(name))) for name in includes]
        _, unread = accounted([(path, known), *others], loops)
        wanted = [*(one.options for one in unread), *options_of_includes(result.text, includes)]
        options = next((one for one in wanted if one and one not in tried), "")
        if not options:
            break
        tried.add(options)
        words = options.split()
        defines = (*job.defines, *(word[2:] for word in words if word.startswith("-D")))
        try:
            other = _lowered(path, job, source, defines, [word[2:] for word in words if word.startswith("-U")])
        except (SourceError, RecursionError, MemoryError):
            continue
        places = {(loop.file, loop.line, loop.column) for loop in loops}
        fresh = [loop for loop in other.loops if (loop.file, loop.line, loop.column) not in places]
        lines = {(loop.file, loop.line) for loop in fresh}
        moved: dict[int, int] = {}
        for position, one in enumerate(other.findings):
            if (one.file, one.loop_line) in lines:
                moved[position] = len(findings)
                findings.append(one.with_parent(None if one.parent is None else moved.get(one.parent)))
        loops += [replace(loop, options=options) for loop in fresh]
        skipped += [part for part in other.skipped if part.file not in includes and part.file != str(path)]
        includes |= dict(other.includes)
    return msgspec.structs.replace(
        result, loops=tuple(loops), findings=tuple(findings), skipped=tuple(skipped), includes=tuple(includes.items())
    )


def _text_now(name: str) -> LoopText:
    try:
        return text_of(Path(name), Path(name).read_bytes())
    except OSError:
        return LoopText()


def _skipped(path: Path, reason: str) -> FileResult:
    return FileResult((), (), (SkippedPart(str(path), 0, "file", reason),), 0)


def _joined(results: Sequence[FileResult], skipped: Sequence[SkippedPart]) -> Findings:
    """Combined results of all files. Contents of headers count once, however many files include them."""
    findings: list[Finding] = []
    places: dict[tuple[str, int, int, str], int] = {}
    loops: dict[tuple[str, int, int, str], LoopReport] = {}
    for result in results:
        moved: dict[int, int] = {}
        for position, one in enumerate(result.findings):
            key = (one.file, one.first_line, one.last_line, one.idiom)
            if key in places:
                moved[position] = places[key]
                continue
            places[key] = moved[position] = len(findings)
            findings.append(one.with_parent(None if one.parent is None else moved[one.parent]))
        for loop in result.loops:
            loops.setdefault((loop.file, loop.line, loop.column, loop.function), loop)
    parts = [*skipped, *(part for result in results for part in result.skipped)]
    lines = sum(result.lines for result in results)
    return Findings(tuple(findings), tuple(loops.values()), len(results), lines, tuple(parts))
