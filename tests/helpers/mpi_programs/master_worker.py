"""A master hands out tasks to whoever is free, by mpi4py: arrays by their buffers, objects pickled."""

import collections
from array import array

from mpi4py import MPI

TASKS, RESULT, TASK, STOP = 40, 1, 2, 3
comm = MPI.COMM_WORLD
tallies = collections.Counter()


def master():
    room = array("d", [0.0])
    status = MPI.Status()
    handed = stopped = 0
    while stopped < comm.size - 1:
        comm.Recv(room, MPI.ANY_SOURCE, RESULT, status)
        tallies["receive", -1, 8] += 1
        length = 16 if handed < TASKS else 0
        comm.Send(array("d", [1.0] * length), status.Get_source(), TASK if length else STOP)
        tallies["send", status.Get_source(), length * 8] += 1
        handed += length != 0
        stopped += length == 0


def worker():
    status = MPI.Status()
    result, task = array("d", [0.0]), array("d", [0.0] * 16)
    while True:
        comm.Send(result, 0, RESULT)
        tallies["send", 0, 8] += 1
        comm.Recv(task, 0, MPI.ANY_TAG, status)
        tallies["receive", 0, 128] += 1
        if status.Get_tag() == STOP:
            return
        result[0] += sum(task)


(worker if comm.rank else master)()
total = comm.allreduce(comm.rank)
assert total == sum(range(comm.size))
lines = [f"tally {comm.rank} {kind} {peer} {size} {times}\n" for (kind, peer, size), times in tallies.items()]
print("".join(lines), end="", flush=True)
