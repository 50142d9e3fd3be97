"""Where to note the time in a run of a Python script: where functions of its interpreter begin.

The script's signature has lines of Python, not the interpreter's code. But the interpreter calls functions of its own
for whatever it does, and compiled packages call them too, several for each array operation. How often it calls each is
counted in three runs. Functions that are not called as often in each, as those are that look into tables ordered by
addresses, are no places.
"""

from __future__ import annotations

import ast
import bisect
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from foretrace.tracer.analysis.modules import parse_maps
from foretrace.tracer.debug_info.elf_file import SHF_EXECINSTR, ElfFile
from foretrace.tracer.debug_info.symbols import Symbols

from .stamp_code import JUMP_BYTES, LONGEST_PERIOD, Place, displaced_at, size_bytes
from .stamp_points import COUNTING_S, LONGEST_INSTRUCTION_BYTES, MOST_PLACES, Candidate

_DISPLACED_BYTES = JUMP_BYTES - 1 + LONGEST_INSTRUCTION_BYTES


def start_up(script: str) -> tuple[str, ...]:
    """The command that only starts Python and imports what the script imports, outside functions, from elsewhere.

    Raises:
        OSError, SyntaxError, ValueError: the script cannot be read.
    """
    beside = {path.stem for path in Path(script).parent.iterdir()}
    statements = _imports(ast.parse(Path(script).read_bytes()), beside)
    return sys.executable, "-c", "\n".join(["import sys", *map(ast.unparse, statements)])


def _imports(tree: ast.Module, beside: set[str]) -> Iterator[ast.stmt]:
    """What is imported from elsewhere, as it is told: of a package also its modules that are named."""
    for statement in tree.body:
        if isinstance(statement, ast.Import):
            aliases = [alias for alias in statement.names if alias.name.partition(".")[0] not in beside]
            if aliases:
                yield ast.Import(aliases)
        elif isinstance(statement, ast.ImportFrom) and statement.module and not statement.level:
            package = statement.module.partition(".")[0]
            if package not in beside:
                yield statement


def find_functions() -> list[Place]:
    """Each function of the interpreter that runs us, and of its library, that a jump can be written over; each to be
    counted, without a record."""
    return [place for module in _modules() for place in _functions_of(module)]


def _modules() -> list[str]:
    """Files: the executable, and the library of the interpreter where that is one of its own."""
    mappings, _ = parse_maps(Path("/proc/self/maps").read_text(errors="surrogateescape"), 0)
    libraries = {one.path for one in mappings if Path(one.path).name.startswith("libpython")}
    return [str(Path(sys.executable).resolve()), *sorted(libraries)]


def _functions_of(module: str) -> Iterator[Place]:
    import capstone

    elf = ElfFile(module)
    decoder = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    decoder.detail = True
    targets = _jump_targets(elf)
    for function in Symbols(module).functions():
        code = elf.loaded_at(function.start, min(_DISPLACED_BYTES, function.end - function.start))
        displaced = displaced_at(code, function.start, _DISPLACED_BYTES, decoder)
        if displaced is None:
            continue
        after = bisect.bisect_right(targets, function.start)
        if after == len(targets) or targets[after] >= function.start + size_bytes(displaced):
            yield Place(module, function.start, LONGEST_PERIOD, displaced)


def _jump_targets(elf: ElfFile) -> list[int]:
    """Sorted: where jumps lead that tell their target. Who enters the middle of what is displaced runs half of it."""
    import capstone

    decoder = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    decoder.skipdata = True
    targets = set()
    for section in elf.sections:
        if not section.flags & SHF_EXECINSTR:
            continue
        for _, _, mnemonic, operands in decoder.disasm_lite(elf.data(section), section.address):
            if mnemonic.startswith("j") and operands.startswith("0x"):
                targets.add(int(operands, 16))
    return sorted(targets)


def counted(places: Sequence[Place], executions: Sequence[npt.NDArray[np.int64]]) -> list[Candidate]:
    """Those that were called, in each run as often; the most frequent first.

    Args:
        places: all.
        executions: int64 [places] of each run.
    """
    alike = np.all([run == executions[0] for run in executions], axis=0)
    order = np.argsort(-executions[0], kind="stable")
    return [
        Candidate(places[number].module, places[number].address, int(executions[0][number]), places[number].displaced)
        for number in order.tolist()
        if alike[number] and executions[0][number] > 0
    ]


def affordable(candidates: Sequence[Candidate], time_s: float, counting_share: float) -> list[Candidate]:
    """Those of them that may be counted in a program that takes so long: see `stamp_points.find_candidates`."""
    most = counting_share * time_s / COUNTING_S
    return [candidate for candidate in candidates if candidate.executions <= most][:MOST_PLACES]
