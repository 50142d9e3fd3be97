"""What of a run's structure goes into its signature, beside the sums."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Structure:
    """Which parts are recorded.

    Attributes:
        has_tree: the execution tree. The other two need it.
        has_data_flow: which of its nodes uses whose data.
        has_dependences: what its loops carry from one iteration to the next. All accesses are recorded, and reading
            them takes several times as long.
        has_windows: the same of a binary's run in windows, where it has a data flow and not all dependences.
        has_recorded_values: all values that recorders of software-defined events have, not only some.
    """

    has_tree: bool = True
    has_data_flow: bool = True
    has_dependences: bool = False
    has_windows: bool = True
    has_recorded_values: bool = False


ALL_BUT_DEPENDENCES = Structure()
