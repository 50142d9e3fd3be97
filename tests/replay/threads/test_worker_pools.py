"""Pools of worker threads in Python programs: tasks divided among workers, and the interpreter's lock."""

import pytest
from replay_samples import measured_host, with_changes
from tree_samples import Tree

from foretrace.base.errors import PredictionError
from foretrace.replay.base.records import Limit
from foretrace.replay.engine.program import Join, Post, Repeat, Run, Sharing, Spawn, Wait
from foretrace.replay.node.machine_run import cores_of
from foretrace.replay.node.predictions import predict_on
from foretrace.replay.node.replay import replay_on
from foretrace.replay.threads.tree_programs import JobPrograms, ThreadProgram
from foretrace.replay.threads.worker_pools import Pool, Tasks
from foretrace.tracer.signature.tree_records import NodeKey

STEP_S = 1000e-9
"""Of a thousand instructions at one a cycle of 1 GHz."""
POOL_FILE = "/usr/lib/python3.11/concurrent/futures/thread.py"


def host(cores=8):
    base = measured_host()
    return with_changes(base, core=with_changes(base.core, cores=cores, source={**base.core.source, "cores": "here"}))


def pool(tasks, work, *, function="task", frames=False):
    """A first thread, and workers that ran `tasks` calls each, of `work` steps."""
    tree = Tree()
    tree.call(tree.thread(), "<module>")
    block = None
    for number, calls in enumerate(tasks, 1):
        above = tree.thread(number)
        if frames:
            above = tree.call(above, "_worker")
            kind, parent, _, entries, iterations = tree.nodes[above]
            tree.nodes[above] = (kind, parent, NodeKey("", "_worker", POOL_FILE, 1, 0, 0), entries, iterations)
        name = function if isinstance(function, str) else function[number - 1]
        if calls:
            block = tree.does(tree.call(above, name, entries=calls), calls * work, block)
    return tree.signature(guest="python")


def test_interpreter_work_takes_turns():
    for threads in (1, 2, 4):
        (one,) = predict_on(pool((3, 5), 10), host(), [threads])
        assert one.time_s == pytest.approx(80 * STEP_S)
        assert threads == 1 or one.scaling.limit is Limit.SYNCHRONISATION


def test_threads_are_the_workers():
    (one,) = predict_on(pool((3, 5), 10), host())
    assert (one.threads, one.cores) == (2, 2)
    (one,) = predict_on(pool((8,), 10, frames=True), host(), [4])
    assert one.threads == 4


@pytest.mark.parametrize("frames", [False, True])
def test_tasks_are_divided_one_by_one(frames):
    """Of an odd number of tasks a worker has one more; with fewer tasks than workers, some have none."""
    found = Pool.of(work_of(pool((3, 5), 10, frames=frames)))
    (tasks,) = found.tasks
    assert (found.workers, tasks.calls) == ((1, 2), 8)
    for size, counts in ((2, [4, 4]), (3, [2, 3, 3]), (16, [0, 1] * 8)):
        made = found.divided(JobPrograms((), {}, ()), size, ["task"], [Sharing("cores")])
        repeats = [thread.program for thread in made.threads]
        assert [program[0].count if program else 0 for program in repeats] == counts
        assert all(program == () or program[0].body[0].time_s == pytest.approx(10 * STEP_S) for program in repeats)


def test_threads_that_each_ran_one_call_stay_as_they_were():
    tree = Tree()
    tree.call(tree.thread(), "<module>")
    block = tree.does(tree.call(tree.thread(1), "work"), 30)
    tree.does(tree.call(tree.thread(2), "work"), 10, block)
    replayed = replay_on(tree.signature(guest="python"), host())
    assert replayed.outcome.busy_s.tolist()[1:] == pytest.approx([30 * STEP_S + 10 * STEP_S, 20 * STEP_S])


def test_threads_that_ran_different_functions_are_no_pool():
    signature = pool((3, 5), 10, function=("read", "write"))
    assert Pool.of(work_of(signature)) is None
    with pytest.raises(PredictionError, match="neither OpenMP regions nor a pool"):
        predict_on(signature, host(), [5])
    assert Pool.of(work_of(pool((3,), 10))) is None, "one thread may be anything"
    assert Pool.of(work_of(pool((3,), 10, frames=True))).workers == (1,)


def test_who_began_and_awaited_the_workers_does_so_with_the_new_ones():
    body = (Spawn("thread 1"), Spawn("thread 2"), Wait("queue"), Post("queue"))
    first = (Run("main", 1.0, Sharing("cores")), Repeat(2, body), Join("thread 1"), Join("thread 2"))
    job = JobPrograms(
        (
            ThreadProgram("thread 0", first, True),
            ThreadProgram("thread 1", (), False),
            ThreadProgram("thread 2", (), False),
        ),
        {},
        (),
    )
    made = Pool((1, 2), (Tasks(4, {0: 4.0}),), {}).divided(job, 3, ["task"], [Sharing("cores")])
    workers = [f"worker {number}" for number in range(3)]
    assert [thread.name for thread in made.threads] == ["thread 0", *workers]
    assert not any(thread.is_born for thread in made.threads[1:])
    _, again, *joins = made.threads[0].program
    assert again == Repeat(2, tuple(map(Spawn, workers)))
    assert joins == list(map(Join, workers))


def work_of(signature):
    from foretrace.replay.prediction.conditions import Conditions
    from foretrace.replay.threads.tree_work import TreeWork
    from foretrace.replay.workload.workload import Workload

    workload = Workload.of(signature)
    conditions = Conditions.of(workload, host(), jobs=1, cores=cores_of(host(), None, 1, None))
    return TreeWork.of(workload, signature.tree, conditions.time_s[0])
