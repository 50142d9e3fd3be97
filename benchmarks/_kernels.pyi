from typing_extensions import Buffer

COMPILER: str
LINE_BYTES: int

def run(
    kernel: str,
    *,
    repeats: int = 1,
    data: Buffer | None = None,
    index: Buffer | None = None,
    dense: Buffer | None = None,
    state: int = 0,
) -> tuple[float, int, int]: ...
def link_chain(data: Buffer, order: Buffer) -> None: ...
def available() -> list[str]: ...
