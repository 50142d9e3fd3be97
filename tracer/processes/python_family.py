"""A Python program and the Python processes that descend from it, summed up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from foretrace.tracer.recording.part import Part
from foretrace.tracer.recording.recording import Recording
from foretrace.tracer.signature.records import ProcessRecord

from .family import Ends, Member, records, with_endings, with_members
from .python_combination import combine_python


def summed_up(
    command: tuple[str, ...], recording: Recording, part: Part, members: Sequence[Member]
) -> tuple[Recording, Part, tuple[ProcessRecord, ...]]:
    """The recording and the part that hold for all processes, and a record of each; of none if there is only one."""
    ends = Ends(recording, members)
    members = with_endings(members, ends)
    if recording.end_unknown and (became := [child for number, child in ends.others if number == 0 and child.became]):
        recording = replace(recording, problem=f"it replaced itself by {became[-1].command[0]}, which is not followed")
    processes = records(command, recording, part, members, ends) if members or ends.others else ()
    if not members:
        return recording, part, processes
    recording = replace(with_members(recording, members), waiting=None)  # the first program waited for the others
    position = {0: 0} | {member.number: place for place, member in enumerate(members, 1)}
    parents = [0, *(position.get(member.parent, place) for place, member in enumerate(members, 1))]
    numbers = [0, *(member.number for member in members)]
    return recording, combine_python([part, *(member.part for member in members)], parents, numbers), processes
