import mmap
from typing import Any

import numpy.typing as npt

COMPILER: str
LINE_BYTES: int

def run(
    kernel: str,
    *,
    repeats: int = 1,
    data: mmap.mmap | None = None,
    index: npt.NDArray[Any] | None = None,
    dense: npt.NDArray[Any] | None = None,
    state: int = 0,
) -> tuple[float, int, int]: ...
def link_chain(data: mmap.mmap, order: npt.NDArray[Any]) -> None: ...
def available() -> list[str]: ...
