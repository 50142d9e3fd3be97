"""Runs of ranks written row by row, and their timeline programs by a slow, obvious translation."""

import numpy as np
from hypothesis import strategies as st

from foretrace.replay.engine.program import (
    Await,
    Collective,
    Entity,
    Receive,
    Repeat,
    Run,
    Send,
    Sharing,
    Sleep,
    Started,
)
from foretrace.replay.ranks.actions import ACTION, COLLECTIVES, Kind, RankActions

FREE = Sharing()
SPEED = 1e6
"""Flops per second of the helpers below."""


def action(kind, **fields):
    """One action; no sizes by rank and no list of requests if not given."""
    row = np.zeros((), ACTION)
    row["kind"], row["first_count"] = kind, -1
    for name, value in fields.items():
        row[name] = value
    return row


def repeat(times, *body):
    return [action(Kind.REPEAT, amount=times), *flat(body), action(Kind.END_REPEAT)]


def flat(rows):
    return [one for row in rows for one in (flat(row) if isinstance(row, list) else [row])]


def run_of(*ranks, communicators=(), slots=(), counts=(), requests=None):
    """A run from the actions of each rank. The line of an action is its number within the rank, from 1."""
    rows = [flat(own) for own in ranks]
    for own in rows:
        for line, row in enumerate(own, start=1):
            row["line"] = line
    if requests is None:
        requests = [max([int(r["request"]) for r in own if Kind(r["kind"]) in OPENING], default=0) for own in rows]
    return RankActions(
        actions=np.array([row.item() for own in rows for row in own], ACTION),
        firsts=np.cumsum([0, *map(len, rows)]),
        requests=np.array(requests, np.int64),
        counts=np.array(counts, np.float64),
        origin="run",
        communicators=communicators,
        slots=np.array(slots, np.int32),
    )


OPENING = {Kind.SEND, Kind.ISEND, Kind.SSEND, Kind.ISSEND, Kind.RECEIVE, Kind.IRECEIVE, *COLLECTIVES}
ROOTED = {Kind.BCAST, Kind.REDUCE, Kind.GATHER, Kind.SCATTER, Kind.GATHERV, Kind.SCATTERV}


def entities_of(run, flops_per_s, choose, nodes):
    """The ranks as entities of timeline programs, and the communicators by name."""
    members = run.communicators or (tuple(range(run.num_ranks)),)
    named = {f"c{n}": tuple(f"rank {rank}" for rank in of) for n, of in enumerate(members)}
    entities = []
    for rank in range(run.num_ranks):
        rows = run.actions[run.firsts[rank] : run.firsts[rank + 1]]
        stack = [[]]
        counts = []
        for row in rows:
            kind = Kind(row["kind"])
            if kind is Kind.REPEAT:
                counts.append(int(row["amount"]))
                stack.append([])
            elif kind is Kind.END_REPEAT:
                body = tuple(stack.pop())
                stack[-1].append(Repeat(counts.pop(), body))
            else:
                own = int(run.requests[rank])
                stack[-1] += parts(run, row, kind, own, flops_per_s, choose, len(members[row["communicator"]]))
        entities.append(Entity(f"rank {rank}", tuple(stack[0]), "rank", node=nodes[rank]))
    return entities, named


def parts(run, row, kind, own, flops_per_s, choose, size):
    """The parts of one action."""
    label, communicator, request = kind.name.lower().replace("_", "-"), f"c{row['communicator']}", int(row["request"])
    peer = None if row["peer"] < 0 else f"rank {row['peer']}"
    tag = None if row["tag"] < 0 else int(row["tag"])
    match kind:
        case Kind.COMPUTE:
            return [Run(label, float(row["amount"]) / flops_per_s, FREE)]
        case Kind.SLEEP:
            return [Sleep(label, float(row["amount"]))]
        case Kind.SEND | Kind.ISEND | Kind.SSEND | Kind.ISSEND:
            synchronous = kind in (Kind.SSEND, Kind.ISSEND)
            return [Send(peer, float(row["size_bytes"]), label, tag, communicator, request, synchronous)]
        case Kind.RECEIVE | Kind.IRECEIVE:
            return [Receive(peer, label, tag, communicator, request)]
        case Kind.EXCHANGE:
            sender, second = request - 1, int(row["second_tag"])
            return [
                Send(peer, float(row["size_bytes"]), label, tag, communicator, own + 1),
                Receive(
                    None if sender < 0 else f"rank {sender}",
                    label,
                    None if second < 0 else second,
                    communicator,
                    own + 2,
                ),
                Await((own + 1, own + 2), label=label),
            ]
        case Kind.WAIT | Kind.WAIT_ALL if row["first_count"] >= 0:
            listed = run.slots[row["first_count"] : row["first_count"] + row["peer"]].tolist()
            return [Await(tuple(listed), label=label)] if listed else []
        case Kind.WAIT:
            return [Await((request,), label=label)] if request else []
        case Kind.WAIT_ALL:
            return [Await(label=label)]
        case Kind.FINALIZE | Kind.TEST:
            return []
    recipe = next(recipe for recipe in choose(size)[kind] if row["size_bytes"] <= recipe.up_to_bytes)
    root = int(row["peer"]) if kind in ROOTED else 0
    steps = [
        Collective(step.algorithm, float(row["size_bytes"]) * step.share, label, communicator, root)
        for step in recipe.steps
    ]
    if request:
        steps = [Started(tuple(steps), request)]
    return steps + ([Run("compute", float(row["amount"]) / flops_per_s, FREE)] if row["amount"] > 0 else [])


def send(to, size=128.0, kind=Kind.SEND, **fields):
    return action(kind, peer=to, size_bytes=size, **fields)


def receive(sender, kind=Kind.RECEIVE, **fields):
    return action(kind, peer=sender, **({"size_bytes": -1.0} | fields))


def compute(seconds):
    return action(Kind.COMPUTE, amount=seconds * SPEED)


@st.composite
def rank_runs(draw):
    """A run of 2 to 5 ranks: pieces that fit together, in loops that all ranks go through alike."""
    count = draw(st.integers(2, 5))
    members = draw(st.permutations(range(count)))[: draw(st.integers(1, count))]
    communicators = (tuple(range(count)), tuple(members))
    slots, highest = [], [0] * count
    who, sizes = st.integers(0, count - 1), st.sampled_from([0.0, 1.0, 64.0, 128.0])
    nonblocking = (Kind.ALLREDUCE, Kind.BCAST, Kind.BARRIER, Kind.ALLGATHER)

    def request(rank):
        highest[rank] += 1
        return highest[rank]

    def piece(rows):
        kind = draw(st.sampled_from("mmmmxccn"))
        one, other = draw(who), draw(who)
        number = draw(st.integers(0, 1)) if {one, other} <= set(members) else 0
        if kind == "m":
            sends = draw(st.sampled_from([Kind.SEND, Kind.ISEND, Kind.SSEND, Kind.ISSEND]))
            opens = sends in (Kind.ISEND, Kind.ISSEND)
            if one == other:
                sends, opens = Kind.ISEND, True
            own = request(one) if opens else 0
            tag = draw(st.integers(0, 2))
            rows[one].append(send(other, draw(sizes), sends, tag=tag, communicator=number, request=own))
            its = request(other) if draw(st.booleans()) else 0
            sender, label = draw(st.sampled_from([one, one, -1])), draw(st.sampled_from([tag, tag, -1]))
            receives = Kind.IRECEIVE if its else Kind.RECEIVE
            rows[other].append(receive(sender, receives, tag=label, communicator=number, request=its))
            for rank, open_ in ((one, own), (other, its)):
                if open_ and draw(st.booleans()):
                    slots.append(open_)
                    rows[rank].append(action(Kind.WAIT, first_count=len(slots) - 1, peer=1))
                elif open_ and draw(st.booleans()):
                    rows[rank].append(action(Kind.WAIT, request=open_))
        elif kind == "x":
            for rank in range(count):
                right, left = (rank + 1) % count, (rank - 1) % count
                rows[rank].append(
                    action(Kind.EXCHANGE, peer=right, request=left + 1, tag=3, second_tag=3, size_bytes=64.0)
                )
        elif kind == "c":
            number = draw(st.integers(0, 1))
            its = draw(
                st.sampled_from([k for k in COLLECTIVES if not k.name.endswith("V") and k is not Kind.REDUCE_SCATTER])
            )
            size, root = draw(sizes), draw(st.integers(0, len(communicators[number]) - 1))
            opens = its in nonblocking and draw(st.booleans())
            work = draw(st.sampled_from([0.0, 0.0, 3e5])) if its in (Kind.ALLREDUCE, Kind.REDUCE, Kind.SCAN) else 0.0
            for rank in communicators[number]:
                own = request(rank) if opens else 0
                fields = {"peer": root, "size_bytes": size, "communicator": number, "request": own, "amount": work}
                rows[rank].append(action(its, **fields))
        else:
            rows[one].append(draw(st.sampled_from([compute(0.75), compute(0.0), action(Kind.SLEEP, amount=0.5)])))

    ranks = [[] for _ in range(count)]
    for _ in range(draw(st.integers(1, 4))):
        rows = [[] for _ in range(count)]
        for _ in range(draw(st.integers(1, 4))):
            piece(rows)
        times, inner = draw(st.sampled_from([1, 1, 3])), draw(st.sampled_from([1, 2]))
        for own, body in zip(ranks, rows, strict=True):
            body.append(action(Kind.WAIT_ALL))
            own.append(repeat(times, compute(0.25), repeat(inner, *body)) if times > 1 else body)
    for own in ranks:
        own.append(action(Kind.FINALIZE))
    return run_of(*ranks, communicators=communicators, slots=slots, requests=highest)
