"""Runs of ranks written row by row, and their timeline programs by a slow, obvious translation."""

import numpy as np

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
