"""What the tests of runs share."""

from process_programs import nothing_is_left

__all__ = ["nothing_is_left"]
