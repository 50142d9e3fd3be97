from typing import Any

import numpy.typing as npt

def distances(
    addresses: npt.NDArray[Any],
    part_bytes: npt.NDArray[Any],
    is_store: npt.NDArray[Any],
    times: npt.NDArray[Any],
    stores: npt.NDArray[Any],
    lines: npt.NDArray[Any],
    /,
) -> None: ...
