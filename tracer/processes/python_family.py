"""A Python program and the Python processes that descend from it, summed up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from foretrace.tracer.recording.recording import Recording
from foretrace.tracer.signature.records import ProcessRecord

from .family import Ends, Member, parent_positions, records, with_endings, with_members
from .python_combination import combine_python


def summed_up(
    command: tuple[str, ...], recording: Recording, members: Sequence[Member]
) -> tuple[Recording, tuple[ProcessRecord, ...]]:
    """The recording that holds for all processes, and a record of each; of none if there is only one."""
    ends = Ends(recording, members)
    members = with_endings(members, ends)
    if recording.end_unknown and (became := [child for number, child in ends.others if number == 0 and child.became]):
        recording = replace(recording, problem=f"it replaced itself by {became[-1].command[0]}, which is not followed")
    processes = records(command, recording, members, ends) if members or ends.others else ()
    if not members:
        return recording, processes
    recording = replace(with_members(recording, members), waiting=None)  # the first program waited for the others
    numbers = [0, *(member.number for member in members)]
    recordings = [recording, *(member.recording for member in members)]
    return combine_python(recordings, parent_positions(members), numbers), processes
