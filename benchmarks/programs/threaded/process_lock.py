"""usage: process_lock.py [PROCESSES]

Numbers that processes work out on their own and, for twice as long, under a lock that they share: bound by the lock.
"""

import multiprocessing
import sys
from multiprocessing.synchronize import Lock

TASKS, OWN, SHARED = 24, 9_000, 18_000


def mixed(state: int, steps: int) -> int:
    """The state after some steps of a generator of numbers."""
    for _ in range(steps):
        state = (state * 1103515245 + 12345) % 2147483648
    return state


def work(first: int, step: int, lock: Lock) -> None:
    """Every task of one process."""
    for task in range(first, TASKS, step):
        state = mixed(task, OWN)
        with lock:
            state = mixed(state, SHARED)


def workers() -> int:
    """The argument, 1 if there is none."""
    given = sys.argv[1:] or ["1"]
    if len(given) > 1 or not given[0].isdecimal() or not 1 <= int(given[0]) <= 64:
        print(f"usage: {sys.argv[0]} [PROCESSES], from 1 to 64", file=sys.stderr)
        sys.exit(2)
    return int(given[0])


def main() -> None:
    """Begin the processes, and wait for their ends."""
    context, number = multiprocessing.get_context("fork"), workers()
    lock = context.Lock()
    processes = [context.Process(target=work, args=(first, number, lock)) for first in range(number)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    print(sum(process.exitcode or 0 for process in processes))


if __name__ == "__main__":
    main()
