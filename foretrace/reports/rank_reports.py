"""A replay of ranks as a report: what each rank did, what the time went to, the links."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from foretrace.base.units import format_bytes, format_seconds
from foretrace.replay.ranks.programs import MOST_PLACES
from foretrace.replay.ranks.records import PathPart, RankReplay

from .assumed_figures import assumed_figures
from .model import BYTES, INTEGER, RATIO, SECONDS, SHARE, Column, Report, Section, Table, Text, document_of
from .replay_groups import groups_of

_MOST_RANKS, _MOST_LINKS, _MOST_ACTIONS, _MOST_PARTS = 16, 8, 8, 4
_TIMES = (
    Column("times", "times", INTEGER),
    Column("time_s", "of all ranks", SECONDS),
    Column("late_sender_s", "late sender", SECONDS),
    Column("late_receiver_s", "late receiver", SECONDS),
    Column("transfer_s", "transfer", SECONDS),
    Column("path_s", "critical path", SECONDS),
)
_ACTIONS = (Column("action", "action"), *_TIMES)
_PLACES = (Column("place", "place"), *_ACTIONS)
_PAIRS = (
    Column("sender", "from rank", INTEGER),
    Column("receiver", "to rank", INTEGER),
    Column("messages", "messages", INTEGER),
    Column("size_bytes", "bytes", BYTES),
)
_IMBALANCES = (
    Column("place", "computes before"),
    Column("time_s", "all ranks", SECONDS),
    Column("rank", "most: rank", INTEGER),
    Column("most_s", "computes", SECONDS),
    Column("over_mean", "over the mean", RATIO),
)
_PATH = (
    Column("first_rank", "first rank", INTEGER),
    Column("last_rank", "last rank", INTEGER),
    Column("time_s", "critical path", SECONDS),
)
_LINKS = (
    Column("name", "link"),
    Column("size_bytes", "bytes", BYTES),
    Column("utilisation", "used", SHARE),
    Column("full_s", "full for", SECONDS),
)


def rank_report(replay: RankReplay, *, assumptions: bool = False) -> Report:
    """Report of `foretrace replay` of ranks, with all assumptions or only their number."""
    links, actions = link_table(replay), action_table(replay)
    sections: list[Section] = [Text(_title_lines(replay)), *_rank_sections(replay)]
    sections += [Text([""]), replace(actions, shown=_MOST_ACTIONS)]
    for table in (place_table(replay), imbalance_table(replay), pair_table(replay), links):
        more = len(table.records) - _MOST_LINKS
        rest = f"and {more} more: --json has all" if more > 0 else ""
        if table.records:
            sections += [Text([""]), replace(table, shown=_MOST_LINKS, rest=rest)]
    if replay.warnings:
        sections.append(Text(["", *(f"warning: {warning}" for warning in replay.warnings)]))
    sections += assumed_figures(replay.assumptions, in_full=assumptions)
    return Report("Replay of ranks", sections, rank_table(replay), lambda: document(replay))


def action_table(replay: RankReplay) -> Table:
    """Kinds of actions, longest part of the critical path first."""
    return Table(_ACTIONS, replay.by_action)


def place_table(replay: RankReplay) -> Table:
    """Actions by place, longest part of the critical path first."""
    return Table(_PLACES, replay.by_place)


def pair_table(replay: RankReplay) -> Table:
    """Messages from rank to rank, most bytes first."""
    return Table(_PAIRS, replay.pairs)


def imbalance_table(replay: RankReplay) -> Table:
    """Computation before each place, and how evenly ranks share it."""
    return Table(_IMBALANCES, replay.imbalances)


def path_table(replay: RankReplay) -> Table:
    """Ranks on the critical path, longest part first."""
    return Table(_PATH, replay.path)


def link_table(replay: RankReplay) -> Table:
    """Links, the fullest first."""
    return Table(_LINKS, replay.links)


def rank_table(replay: RankReplay) -> Table:
    """Ranks by their numbers."""
    outcome = replay.outcome
    columns = (
        Column("rank", "rank", INTEGER, int),
        Column("node", "node", INTEGER, lambda rank: replay.hosts.node_of[rank]),
        Column("compute_s", "computes", SECONDS, lambda rank: float(replay.compute_s[rank])),
        Column("partner_s", "waits for partners", SECONDS, lambda rank: float(replay.partner_s[rank])),
        Column("transfer_s", "waits for transfers", SECONDS, lambda rank: float(replay.transfer_s[rank])),
        Column("late_sender_s", "for late senders", SECONDS, lambda rank: float(outcome.late_s[rank, 0]), drop=1),
        Column("late_receiver_s", "for late receivers", SECONDS, lambda rank: float(outcome.late_s[rank, 1]), drop=1),
        Column("as_late_sender_s", None, SECONDS, lambda rank: float(outcome.late_s[rank, 2])),
        Column("as_late_receiver_s", None, SECONDS, lambda rank: float(outcome.late_s[rank, 3])),
        Column("end_s", "ends", SECONDS, lambda rank: float(outcome.end_s[rank])),
    )
    return Table(columns, range(len(replay.hosts.node_of)))


def _rank_sections(replay: RankReplay) -> list[Section]:
    """Ranks, those that are alike in one row."""
    table = rank_table(replay)
    name, _, *times = table.headed
    groups = groups_of(
        [f"rank {name.text(one)}" for one in table.records], lambda one: tuple(of.text(one) for of in times)
    )
    columns = (
        Column("", "rank", value=lambda group: group.title),
        *(of.within(lambda group: group.members[0]) for of in times),
    )
    left = sum(len(group.members) for group in groups[_MOST_RANKS:])
    rest = f"and {left} more: --json has all" if left else ""
    return [Text([""]), Table(columns, groups, shown=_MOST_RANKS, rest=rest)]


def _title_lines(replay: RankReplay) -> list[str]:
    outcome = replay.outcome
    ranks = len(replay.hosts.node_of)
    lines = [
        f"{ranks} ranks{_nodes(replay)} on {replay.platform.name}: "
        f"{format_seconds(replay.makespan_s)}{_interval(replay)}",
        *([] if replay.recorded_s is None else [f"it took {format_seconds(replay.recorded_s)} when it was recorded"]),
        f"{outcome.messages:,.0f} messages, {format_bytes(outcome.sent_bytes)} in all; collectives as "
        f"{replay.library} does them{_named(replay)}",
        f"the rank that computes most computes {replay.imbalance:.2f} times the mean",
    ]
    path = replay.path
    if path and ranks > 1:
        parts = [f"{_ranks(one)} {format_seconds(one.time_s)}" for one in path[:_MOST_PARTS]]
        rest = f" and {len(path) - _MOST_PARTS} more" if len(path) > _MOST_PARTS else ""
        lines.append(f"critical path: {', '.join(parts)}{rest}; it changes rank {outcome.path_hops:,.0f} times")
    if replay.left_out_pairs:
        lines.append(f"{format_bytes(replay.left_out_pairs.size_bytes)} are of pairs of ranks too many to tell apart")
    if replay.labels.merged:
        lines.append(
            f"{replay.labels.merged:,} kinds of calls at source lines are more than the {MOST_PLACES} that are told "
            "apart: times are by kind alone"
        )
    if outcome.periods_estimated:
        lines.append(f"{format_seconds(outcome.estimated_s)} of it are estimated from a window of many iterations")
    for name, times in replay.left_out.items():
        on_all = ": all actions are on the communicator of all ranks" if name.startswith("comm_") else ""
        lines.append(f"{times:,} calls of {name} are left out{on_all}")
    if replay.unfinished:
        lines.append(f"{len(replay.unfinished):,} ranks do not finalize, the first is rank {replay.unfinished[0]}")
    if outcome.unreceived:
        lines.append(f"{outcome.unreceived:,} messages are sent and never received")
    if outcome.open_requests:
        lines.append(f"{outcome.open_requests:,} requests are never waited for")
    return lines


def _nodes(replay: RankReplay) -> str:
    used = len(set(replay.hosts.node_of))
    return f" on {used} nodes" if used > 1 and replay.title else ""


def _interval(replay: RankReplay) -> str:
    return f" ({format_seconds(replay.low_s)} to {format_seconds(replay.high_s)})" if replay.ends_s else ""


def _ranks(part: PathPart) -> str:
    if part.first_rank == part.last_rank:
        return f"rank {part.first_rank}"
    return f"ranks {part.first_rank} to {part.last_rank}"


def _named(replay: RankReplay) -> str:
    named = ", ".join(f"{name} by {algorithm}" for name, algorithm in replay.algorithms.items())
    return f", but {named}" if named else ""


def document(replay: RankReplay) -> dict[str, Any]:
    """The JSON face. Units are in the key names."""
    outcome, table = replay.outcome, rank_table(replay)
    return {
        "schema": "foretrace.rank-replay/1",
        "origin": replay.origin,
        "platform": replay.platform.name,
        "library": replay.library,
        "algorithms": replay.algorithms,
        "title": replay.title,
        "makespan_s": replay.makespan_s,
        "low_s": replay.low_s,
        "recorded_s": replay.recorded_s,
        "high_s": replay.high_s,
        "assumptions": list(map(str, replay.assumptions)),
        "warnings": list(replay.warnings),
        "imbalance": replay.imbalance,
        "actions": replay.actions,
        "tests_left_out": replay.left_out.get("test", 0),
        "left_out": replay.left_out,
        "unfinished_ranks": list(replay.unfinished),
        "unreceived_messages": outcome.unreceived,
        "open_requests": outcome.open_requests,
        "messages": outcome.messages,
        "sent_bytes": outcome.sent_bytes,
        "moved_bytes": outcome.moved_bytes,
        "estimated_s": outcome.estimated_s,
        "ranks": [document_of(rank, *table.keyed) for rank in table.records],
        "by_action": [document_of(one, *_ACTIONS) for one in replay.by_action],
        "by_place": [document_of(one, *_PLACES) for one in replay.by_place],
        "merged_places": replay.labels.merged,
        "imbalances": [document_of(one, *_IMBALANCES) for one in replay.imbalances],
        "critical_path": [document_of(one, *_PATH) for one in replay.path],
        "critical_path_hops": outcome.path_hops,
        "pairs": [document_of(one, *_PAIRS) for one in replay.pairs],
        "bytes_of_pairs_left_out": replay.left_out_pairs.size_bytes if replay.left_out_pairs else 0.0,
        "links": [document_of(link, *_LINKS) for link in replay.links],
    }
