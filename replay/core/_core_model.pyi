CORE_BYTES: int
CORE_FIGURES: tuple[tuple[str, str, int], ...]  # name, format and offset of each member of struct ft_core
INSTRUCTION_BYTES: int
BLOCK_BYTES: int
OPERATION_BYTES: int
BRANCH_BYTES: int
NUM_CAUSES: int
NUM_REGISTERS: int
MAX_LEVELS: int
DECODED_SETS: int
MAX_DECODED_WAYS: int

# Arrays are taken by their bytes (core_model.h and branches.h have the layouts); the last one is written to.
def run(core: object, /, *arrays: object) -> None: ...
def predict_branches(branches: bytes, missed: object, /) -> None: ...
