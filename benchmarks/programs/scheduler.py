"""usage: scheduler.py [TASKS [MACHINES]]

A workshop in discrete time steps: tasks that arrive, wait, and are done by machines, some of them twice. Objects with
methods, and a heap of events.
"""

import heapq
import sys


class Task:
    """What is to be done, and when it came."""

    __slots__ = ("arrived", "length", "number", "rounds")

    def __init__(self, number, arrived, length, rounds):
        self.number, self.arrived, self.length, self.rounds = number, arrived, length, rounds

    def __lt__(self, other):
        return (self.length, self.number) < (other.length, other.number)


class Machine:
    def __init__(self):
        self.task, self.busy = None, 0

    def take(self, task, time):
        self.task = task
        self.busy += task.length
        return time + task.length

    def finish(self):
        task, self.task = self.task, None
        task.rounds -= 1
        return task


class Workshop:
    def __init__(self, machines):
        self.machines = [Machine() for _ in range(machines)]
        self.free = list(range(machines))
        self.waiting, self.events = [], []
        self.time = self.done = self.waited = 0

    def arrive(self, task):
        heapq.heappush(self.waiting, task)
        self.start()

    def start(self):
        while self.free and self.waiting:
            number, task = self.free.pop(), heapq.heappop(self.waiting)
            heapq.heappush(self.events, (self.machines[number].take(task, self.time), number))

    def leave(self):
        self.time, number = heapq.heappop(self.events)
        task = self.machines[number].finish()
        self.free.append(number)
        if task.rounds:
            heapq.heappush(self.waiting, task)
        else:
            self.done += 1
            self.waited += self.time - task.arrived
        self.start()


def arrivals(count, machines):
    """Tasks in the order of their arrival, from a linear congruential generator (constants of POSIX's drand48)."""
    state, time = 53, 0
    for number in range(count):
        state = (state * 25214903917 + 11) % (1 << 48)
        time += (state >> 20) % (2 * 97 // machines)
        yield Task(number, time, 1 + (state >> 30) % 131, 1 + (state >> 40) % 2)


def main():
    tasks = int(sys.argv[1]) if len(sys.argv) > 1 else 70001
    machines = int(sys.argv[2]) if len(sys.argv) > 2 else 7
    workshop = Workshop(machines)
    for task in arrivals(tasks, machines):
        while workshop.events and workshop.events[0][0] <= task.arrived:
            workshop.leave()
        workshop.time = task.arrived
        workshop.arrive(task)
    while workshop.events:
        workshop.leave()
    busy = sum(machine.busy for machine in workshop.machines)
    print(f"tasks {workshop.done}  time {workshop.time}  busy {busy}  checksum {workshop.waited}")


if __name__ == "__main__":
    main()
