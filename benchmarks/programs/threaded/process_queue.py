"""usage: process_queue.py [PROCESSES]

Primes below limits from a queue, which processes take one by one. Large and small limits alternate, and the last is as
long as several others: the processes do not end together.
"""

import multiprocessing
import sys
from multiprocessing.queues import Queue, SimpleQueue

LIMITS = [*[12_000, 2_500] * 8, 40_000]


def primes_below(limit: int) -> int:
    """How many there are, by trial division."""
    found = 0
    for number in range(2, limit):
        divisor = 2
        while divisor * divisor <= number and number % divisor:
            divisor += 1
        found += divisor * divisor > number
    return found


def work(limits: "Queue[int]", results: "SimpleQueue[int]") -> None:
    """Take limits until one is negative."""
    while True:
        limit = limits.get()
        if limit < 0:
            break
        results.put(primes_below(limit))


def workers() -> int:
    """The argument, 1 if there is none."""
    given = sys.argv[1:] or ["1"]
    if len(given) > 1 or not given[0].isdecimal() or not 1 <= int(given[0]) <= 64:
        print(f"usage: {sys.argv[0]} [PROCESSES], from 1 to 64", file=sys.stderr)
        sys.exit(2)
    return int(given[0])


def main() -> None:
    """Begin the processes, hand out the limits, and add up the results."""
    context, number = multiprocessing.get_context("fork"), workers()
    limits, results = context.Queue(), context.SimpleQueue()
    processes = [context.Process(target=work, args=(limits, results)) for _ in range(number)]
    for process in processes:
        process.start()
    for limit in [*LIMITS, *[-1] * number]:
        limits.put(limit)
    print(sum(results.get() for _ in LIMITS))
    for process in processes:
        process.join()


if __name__ == "__main__":
    main()
