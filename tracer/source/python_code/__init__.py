"""Python's front end: source files lowered to the source form with the standard library's `ast`."""

from .files import lower_file, lower_text

__all__ = ["lower_file", "lower_text"]
