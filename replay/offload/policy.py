"""Names of the policies by which nodes go to an accelerator."""

from __future__ import annotations

from enum import StrEnum


class Policy(StrEnum):
    """Who goes to an accelerator."""

    NEVER = "never"
    ALWAYS = "always"
    THRESHOLD = "threshold"
    GREEDY = "greedy"
    PLAN = "plan"
