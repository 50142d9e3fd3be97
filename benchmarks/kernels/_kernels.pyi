import mmap
from typing import Any

import numpy.typing as npt

COMPILER: str
COMPILER_FLAGS: str
LINE_BYTES: int

def run(
    kernel: str,
    *,
    repeats: int = 1,
    data: mmap.mmap | memoryview | None = None,
    stride: int = 0,
    index: npt.NDArray[Any] | None = None,
    dense: npt.NDArray[Any] | None = None,
    state: int = 0,
) -> tuple[float, int, int]: ...
def run_together(
    kernel: str,
    repeats: int,
    works: tuple[tuple[int, mmap.mmap | memoryview, npt.NDArray[Any] | None, npt.NDArray[Any] | None, int], ...],
    /,
) -> tuple[float, int, tuple[int, ...]]: ...
def take_turns(cpus: tuple[int, int], repeats: int, work_s: float, sleeps: bool, /) -> tuple[float, float]: ...
def link_chain(data: mmap.mmap | memoryview, order: npt.NDArray[Any]) -> None: ...
def available() -> list[str]: ...
