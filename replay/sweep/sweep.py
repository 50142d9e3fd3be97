"""Sweeps: points that a journal has are taken from there, the others are worked out by workers."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import closing, nullcontext
from dataclasses import dataclass
from pathlib import Path

from foretrace.base.errors import SweepError

from .dask_workers import DaskWorkers
from .fields import ERROR, Field, Row
from .journal import Journal
from .plan import Plan, Point
from .processes import Processes, number_of_cores
from .workers import Answer

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, eq=False)
class SweepResult:
    """Results of a sweep.

    Attributes:
        fields: its columns.
        rows: of all points, in the order of the plan: the first axis varies slowest.
        from_journal: how many of them a journal had.
        notes: what was left out, and why.
    """

    fields: tuple[Field, ...]
    rows: tuple[Row, ...]
    from_journal: int = 0
    notes: tuple[str, ...] = ()

    @property
    def failed(self) -> tuple[Row, ...]:
        """Points without a result; the field `error` says why."""
        return tuple(row for row in self.rows if row.get(ERROR.name) is not None)


def run_sweep(
    plan: Plan,
    *,
    jobs: int | None = None,
    dask: str | None = None,
    journal: Path | None = None,
    progress: Progress = lambda done, total: None,
) -> SweepResult:
    """Work out all points of a plan.

    Args:
        plan: of the points.
        jobs: worker processes on this machine; as many as there are cores if not given.
        dask: address of a Dask scheduler whose workers are used instead.
        journal: where finished points are written down; those that it has already are not worked out again.
        progress: called with the numbers of points done and of all.

    Raises:
        SweepError: a number is out of range, or there are no workers.
        OutputError: the journal cannot be written, or is none.
    """
    if jobs is not None and jobs < 1:
        raise SweepError(f"--jobs {jobs}: must be at least 1")
    if jobs is not None and dask is not None:
        raise SweepError("--jobs is about this machine, --dask about another: they exclude one another")
    results: list[Row | None] = [None] * len(plan)
    notes = list(plan.notes)
    with Journal(journal) if journal is not None else nullcontext() as book:
        if book is not None and book.damaged:
            notes.append(f"{book.damaged} lines of {book.path} are damaged, and their points were worked out again")
        known = 0
        if book is not None and len(book):
            for point in plan:
                results[point.number] = book.get(point.key)
            known = sum(result is not None for result in results)
        progress(known, len(plan))
        if known < len(plan):
            keys: dict[int, str] = {}
            with closing(_answers(plan, results, keys, jobs, dask)) as answers:
                for done, answer in enumerate(answers, known + 1):
                    results[answer.number] = answer.result
                    if book is not None and answer.is_final:
                        book.put(keys.pop(answer.number), answer.result)
                    progress(done, len(plan))
    rows = []
    for point in plan:
        result = results[point.number]
        assert result is not None, "every point has an answer"
        rows.append(point.row(result))
    return SweepResult(plan.fields, tuple(rows), known, tuple(notes))


def _answers(
    plan: Plan, results: list[Row | None], keys: dict[int, str], jobs: int | None, dask: str | None
) -> Generator[Answer, None, None]:
    def missing() -> Iterator[Point]:
        for point in plan:
            if results[point.number] is None:
                keys[point.number] = point.key
                yield point

    workers = DaskWorkers(dask) if dask is not None else Processes(jobs or number_of_cores())
    return workers.answers(missing())
