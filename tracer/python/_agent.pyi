from collections.abc import Callable
from typing import TypeVar

_Result = TypeVar("_Result")

def attach(stream: str, core: str) -> None: ...

# For functions that were made before attach(): whether they have markers now.
def adopt(function: object) -> bool: ...

# Calls the program, and ends the stream.
def call(function: Callable[[], _Result]) -> _Result: ...

# Nanoseconds that some lines of Python take which are always the same; 0 if they cannot be run.
def lines_round_ns() -> float: ...
