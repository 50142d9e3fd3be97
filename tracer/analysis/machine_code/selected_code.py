"""Code selected by processor features: the queries, the variables that hold the answers, and the code that ran by them.

A program queries features by CPUID or XGETBV, on AArch64 by reading ID registers or by getauxval(), and keeps answers
in static variables. Code that reads an answer, and functions called right after the read, were selected by it, as were
the functions that an IFUNC chose. Programs derive function pointers and flags from answers: a value stored right after
a read is an answer too. The queries of the dynamic linker, and of a static program's startup, are left out: every
program makes them, for IFUNCs.

Answers on the heap or the stack leave no such trace. But where a module that queries is built for every processor, as
its other vector functions show, a function that uses AVX, or special-purpose instructions, was selected as well.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import numpy.typing as npt

from foretrace.cache_sim.base.results import OperationStatistics
from foretrace.tracer.isa import registry as isa
from foretrace.tracer.signature.selection import DEDICATED, Question, SelectedFunction, SelectedWork, Selection

from .basic_blocks import BasicBlocks

_CPUID, _XGETBV = b"\x0f\xa2", b"\x0f\x01\xd0"
_ASKS_SYSTEM = frozenset({"getauxval", "__getauxval", "elf_aux_info"})
_STARTUP = frozenset({
    "__libc_start_main", "__libc_start_main_impl", "init_cpu_features", "get_common_indices", "get_extended_indices",
    "update_active", "dl_init_cacheinfo", "init_cacheinfo", "handle_amd", "handle_intel", "handle_zhaoxin",
    "intel_check_word", "get_common_cache_info",
})  # fmt: skip
"""Functions of glibc that query features in a static program before main, for IFUNCs (sysdeps/x86/cpu-features.c and
dl-cacheinfo.h)."""
_MOST_EXECUTIONS = 64
"""Largest number of executions of a store that keeps an answer: programs ask once."""
_MOST_KEPT_BYTES = 256
_NEAR_QUESTION, _NEAR_READING, _NEAR_CALL = 64, 8, 3
"""Largest numbers of blocks from a question or a reading to the store of an answer, and from a reading to a call."""
_LEVELS = 3
"""Levels of functions that return an answer to their callers, and of answers made from answers."""
_MOST_FUNCTIONS = 20
_TESTS = (b"\x85\xc0", b"\x84\xc0", b"\xa9", b"\xa8", b"\x3d", b"\x3c", b"\x83\xf8", b"\x0f\xba\xe0")
"""First bytes of x86-64 tests of a function's result: test, cmp or bt of eax or al."""
_FIRST_INSTRUCTIONS = 4


def _any_byte(mask: int, value: int) -> bytes:
    """A pattern for bytes with certain bits."""
    return b"[" + b"".join(re.escape(bytes([byte])) for byte in range(256) if byte & mask == value) + b"]"


def _encoded(opcode_map: int, opcodes: bytes, lengths: tuple[int, int] = (4, 4)) -> bytes:
    """A pattern for VEX and EVEX instructions with the prefix 66 (Intel SDM, volume 2, sections 2.3.5 and 2.7.1).

    `lengths` are mask and value of the third byte's bit for 256-bit vectors.
    """
    payload = _any_byte(3 | lengths[0], 1 | lengths[1])
    vex = b"\xc4" + _any_byte(31, opcode_map) + payload + opcodes
    evex = b"\x62" + _any_byte(15, opcode_map) + _any_byte(7, 5) + b"[\x20-\x5f]" + opcodes
    return vex + b"|" + evex


_EVEX = rb"\x62" + _any_byte(12, 0) + _any_byte(4, 4) + b"[\x00-\x5f\x80-\xdf]"
_MEMORY_OR_REGISTER = (
    rb"(?:[\xc0-\xff]"
    + b"|" + _any_byte(0xC4, 0) + b"|" + _any_byte(0xC7, 4) + b".|" + _any_byte(0xC7, 5) + b".{4}"
    + b"|" + _any_byte(0xC0, 0x40) + b"..?|" + _any_byte(0xC0, 0x80) + b".{4,5})"
)  # fmt: skip
"""ModRM, SIB and displacement (Intel SDM, volume 2, section 2.1.5)."""

_INSTRUCTIONS = {
    "sha_ni": rb"\x0f\x38[\xc8-\xcd]",
    "aes": rb"\x66[\x40-\x4f]?\x0f\x38[\xdb-\xdf]",
    "pclmulqdq": rb"\x66[\x40-\x4f]?\x0f\x3a\x44",
    "sse4_2": rb"\xf2[\x40-\x4f]?\x0f\x38[\xf0\xf1]",
    "gfni": rb"\x66[\x40-\x4f]?\x0f(\x38\xcf|\x3a[\xce\xcf])|" + _encoded(3, rb"[\xce\xcf]", (0, 0)),
    "vaes": _encoded(2, rb"[\xdc-\xdf]"),
    "vpclmulqdq": _encoded(3, rb"\x44"),
    "avx_vnni": rb"\xc4" + _any_byte(31, 2) + _any_byte(3, 1) + rb"[\x50-\x53]",
    "amx_tile": rb"\xc4" + _any_byte(31, 2) + _any_byte(0x86, 2) + rb"\x4b",
    "amx_int8": rb"\xc4" + _any_byte(31, 2) + _any_byte(0x84, 0) + rb"\x5e[\xc0-\xff]",
    "amx_bf16": rb"\xc4" + _any_byte(31, 2) + _any_byte(0x87, 2) + rb"\x5c[\xc0-\xff]",
    "avx512f": _EVEX + b"." + _MEMORY_OR_REGISTER + b".?(?=" + _EVEX + b")",
}
"""Patterns of x86-64 instructions of a feature (Intel SDM, volume 2). Of AVX-512, two instructions in a row: the first
bytes of one are no rare ones."""
_LEAST_FOUND = 8
"""Least number of matches: the patterns' bytes occur by chance, too, once in some million."""
_MOST_SCANNED_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Ran:
    """Places of blocks. `modules`, `names` and `functions` (numbers) are of each block, `chosen` says whether an IFUNC
    chose it.

    `static` are the ranges of static variables [n, 2], sorted and without overlaps.
    """

    modules: Sequence[str]
    names: Sequence[str]
    functions: Sequence[int]
    chosen: Sequence[bool]
    static: npt.NDArray[np.uint64]
    is_loader: Callable[[str], bool]
    code_of: Callable[[str], Sequence[bytes]]
    """The code of a module, as its file has it."""


def find_selected(blocks: BasicBlocks, statistics: OperationStatistics, ran: Ran, arch: str) -> Selection | None:
    """Blocks that ran and were chosen by processor features; None if nothing was asked or chosen."""
    return _Finder(blocks, statistics, ran, arch).find()


_VECTORS = frozenset({"avx", "avx2", "fma", "f16c", "avx512f", "avx_vnni"})
_LEAST_PLAIN_SHARE = 0.1
"""Least share of functions without AVX, among those with vectors, in a module built for every processor."""
_BEYOND_BASELINE = _VECTORS | (DEDICATED - {"sse4_2"})
"""Extensions that programs for every x86-64 processor, or every x86-64-v2 one (SSE4.2), do not use unconditionally."""


class _Finder:
    def __init__(self, blocks: BasicBlocks, statistics: OperationStatistics, ran: Ran, arch: str) -> None:
        self._blocks, self._statistics, self._ran, self._arch = blocks, statistics, ran, arch
        self._next: dict[int, list[int]] = defaultdict(list)
        self._entered: dict[int, list[int]] = defaultdict(list)
        """Return points by function: blocks of other functions that follow one of its own."""
        functions = ran.functions
        for source, target, _ in blocks.edges.tolist():
            self._next[source].append(target)
            if functions[source] != functions[target]:
                self._entered[functions[source]].append(target)
        self._operation_block = blocks.block_of[blocks.operation_instruction]
        first, last = statistics.first, statistics.last_exclusive
        at = np.searchsorted(ran.static[:, 0], first, side="right").astype(np.int64) - 1
        inside = at >= 0
        if len(ran.static):
            inside &= last <= ran.static[np.maximum(at, 0), 1]
        self._is_static = inside & (statistics.executions > 0)

    def find(self) -> Selection | None:
        questions = self._questions()
        own = {
            block
            for block in questions
            if not self._ran.is_loader(self._ran.modules[block])
            and self._ran.names[block].partition(".")[0] not in _STARTUP
        }
        readings = self._readings(self._behind_questions(own)) | self._tested(own)
        selected = {block for block, chosen in enumerate(self._ran.chosen) if chosen}
        executions = self._blocks.executions
        asking = {
            block for block in self._near(own, _NEAR_QUESTION, across=False) if executions[block] <= _MOST_EXECUTIONS
        }
        extensions = self._extensions()
        by_question = (self._chosen_by(readings) - asking) | self._beyond_baseline(own, extensions)
        if not own and not selected and not by_question:
            return None
        return self._described(questions, own, selected, by_question - selected, extensions)

    def _questions(self) -> dict[int, str]:
        """Blocks that query processor features, with the way of the query."""
        found: dict[int, str] = {}
        codes, block_of = self._blocks.codes, self._blocks.block_of
        if self._arch == "x86_64":
            for at, code in enumerate(codes):
                if code == _CPUID or (code == _XGETBV and int(block_of[at]) not in found):
                    found[int(block_of[at])] = "cpuid" if code == _CPUID else "xgetbv"
        elif self._arch == "aarch64":
            for at, code in enumerate(codes):  # mrs of op1 = 0, CRn = 0: Arm ARM (DDI 0487), table D22-2, ID registers
                if len(code) == 4 and int.from_bytes(code, "little") & 0xFFFFF000 == 0xD5380000:
                    found[int(block_of[at])] = "ID registers"
        for block, following in self._next.items():
            is_own = not self._asks_system(block) and "libc." not in self._ran.modules[block]
            if is_own and any(map(self._asks_system, following)):
                found.setdefault(block, "getauxval")
        return found

    def _asks_system(self, block: int) -> bool:
        return self._ran.names[block].partition("@")[0] in _ASKS_SYSTEM

    def _near(self, starts: Iterable[int], depth: int, *, across: bool) -> set[int]:
        """Blocks of the same function within a number of steps after some blocks, these included.

        Calls are stepped over, to their return points. With `across` the first blocks of functions called on the way
        are included, and the targets of the linker's stubs.
        """
        functions, names, modules = self._ran.functions, self._ran.names, self._ran.modules
        reached: set[int] = set()
        entered: set[int] = set()
        for start in starts:
            if start in reached and not across:
                continue
            edge, seen = {start}, {start}
            for _ in range(depth):
                following: set[int] = set()
                for block in edge:
                    for target in self._next[block]:
                        if functions[target] == functions[start]:
                            following.add(target)
                            continue
                        if across and modules[target] == modules[start]:
                            entered.add(target)
                            if names[target].endswith("@plt"):
                                entered.update(t for t in self._next[target] if modules[t] == modules[start])
                        following.update(
                            t for t in self._entered[functions[target]] if functions[t] == functions[start]
                        )
                edge = following - seen
                seen |= edge
                if not edge:
                    break
            reached |= seen
        return entered if across else reached

    def _behind_questions(self, own: Collection[int]) -> set[int]:
        """Blocks after which answers are stored: querying blocks, and the return points of querying functions."""
        functions, modules = self._ran.functions, self._ran.modules
        level = set(own)
        found = set(own)
        for _ in range(_LEVELS):
            callers = {
                target
                for number, module in {(functions[block], modules[block]) for block in level}
                for target in self._entered[number]
                if modules[target] == module and int(self._blocks.executions[target]) <= _MOST_EXECUTIONS
            }
            level = callers - found
            found |= level
        return self._near(found, _NEAR_QUESTION, across=False)

    def _tested(self, own: Collection[int]) -> set[int]:
        """Return points of querying functions, of which the code tests the returned value."""
        functions = self._ran.functions
        asking = {functions[block] for block in own}
        found = set()
        for block in {block for number in asking for block in self._entered[number]}:
            inside = self._blocks.instructions(block)[:_FIRST_INSTRUCTIONS]
            if self._arch == "x86_64" and any(self._blocks.codes[at].startswith(_TESTS) for at in inside):
                found.add(block)
        return found

    def _extensions(self) -> dict[int, frozenset[str]]:
        """Instruction set extensions of the executed instructions, by function."""
        if self._arch != "x86_64":
            return {}
        instruction_set = isa.load(self._arch)
        of_code = {code: instruction_set.extension(code) for code in set(self._blocks.codes)}
        found: dict[int, set[str]] = defaultdict(set)
        for code, block in zip(self._blocks.codes, self._blocks.block_of.tolist(), strict=True):
            extension = of_code[code]
            if extension and self._blocks.executions[block]:
                found[self._ran.functions[block]].add(extension)
        return {function: frozenset(used) for function, used in found.items()}

    def _beyond_baseline(self, own: Collection[int], extensions: dict[int, frozenset[str]]) -> set[int]:
        """Blocks of functions that use extensions for which the rest of their querying module is not built."""
        modules, functions = self._ran.modules, self._ran.functions
        asking = {modules[block] for block in own}
        plain: Counter[str] = Counter()
        wide: Counter[str] = Counter()
        for number, module in set(zip(functions, modules, strict=True)):
            used = extensions.get(number, frozenset())
            wide[module] += bool(used & _VECTORS)
            plain[module] += "sse2" in used and not used & _VECTORS
        built_for_all = {module for module in asking if plain[module] > _LEAST_PLAIN_SHARE * (plain + wide)[module]}
        beyond = {number for number, used in extensions.items() if used & _BEYOND_BASELINE}
        return {block for block, number in enumerate(functions) if number in beyond and modules[block] in built_for_all}

    def _contained(self, modules: Iterable[str]) -> tuple[str, ...]:
        """Features that modules have instructions of; all, where that is not known."""
        if self._arch != "x86_64":
            return tuple(sorted(DEDICATED))
        found = set()
        for module in modules:
            for code in self._ran.code_of(module):
                for feature, pattern in _INSTRUCTIONS.items():
                    matches = re.finditer(pattern, code[:_MOST_SCANNED_BYTES], re.DOTALL)
                    if sum(1 for _ in islice(matches, _LEAST_FOUND)) == _LEAST_FOUND:
                        found.add(feature)
        return tuple(sorted(found))

    def _readings(self, behind: set[int]) -> set[int]:
        """Blocks that read answers stored after some blocks."""
        statistics = self._statistics
        is_store, executions = self._blocks.operation_is_store, statistics.executions
        length = statistics.last_exclusive - statistics.first
        may_keep = self._is_static & is_store & (executions <= _MOST_EXECUTIONS) & (length <= _MOST_KEPT_BYTES)
        may_read = np.flatnonzero(self._is_static & ~is_store & (length <= _MOST_KEPT_BYTES))
        readings: set[int] = set()
        for _ in range(_LEVELS):
            kept = np.flatnonzero(may_keep & np.isin(self._operation_block, list(behind)))
            pairs = zip(statistics.first[kept].tolist(), statistics.last_exclusive[kept].tolist(), strict=True)
            words = joined(pairs)
            if not len(words):
                break
            at = np.searchsorted(words[:, 0], statistics.first[may_read], side="right").astype(np.int64) - 1
            reads = (at >= 0) & (statistics.last_exclusive[may_read] <= words[np.maximum(at, 0), 1])
            found = set(self._operation_block[may_read[reads]].tolist())
            if found <= readings:
                break
            readings |= found
            seldom = {block for block in found if int(self._blocks.executions[block]) <= _MOST_EXECUTIONS}
            behind = behind | self._near(seldom, _NEAR_READING, across=False)
        return readings

    def _chosen_by(self, readings: set[int]) -> set[int]:
        """Blocks that run after a reading in its function, and functions called right after it."""
        functions = self._ran.functions
        entered = self._near(readings, _NEAR_CALL, across=True)
        called = {functions[block] for block in entered}
        behind = self._near(readings, len(self._blocks.executions), across=False)
        return behind | {block for block, number in enumerate(functions) if number in called}

    def _described(
        self,
        questions: dict[int, str],
        own: Collection[int],
        selected: Collection[int],
        by_question: Collection[int],
        extensions: dict[int, frozenset[str]],
    ) -> Selection:
        ran = self._ran
        instructions = (self._blocks.executions * np.diff(self._blocks.first).astype(np.uint64)).tolist()
        total = max(sum(instructions), 1)
        counts: Counter[tuple[str, str, str]] = Counter()
        work: Counter[tuple[str, tuple[str, ...]]] = Counter()
        for how, chosen in (("ifunc", selected), ("question", by_question)):
            for block in chosen:
                counts[ran.modules[block], ran.names[block], how] += instructions[block]
                work[how, tuple(sorted(extensions.get(ran.functions[block], ())))] += instructions[block]
        shares = {how: sum(count for (by, _), count in work.items() if by == how) / total for how, _ in work}
        asked = sorted({(ran.modules[block], questions[block]) for block in own})
        return Selection(
            questions=tuple(Question(module, how) for module, how in asked),
            functions=tuple(
                SelectedFunction(module, name, how, count / total)
                for (module, name, how), count in counts.most_common(_MOST_FUNCTIONS)
            ),
            ifunc_share=shares.get("ifunc", 0.0),
            question_share=shares.get("question", 0.0),
            contained=self._contained(sorted({ran.modules[block] for block in by_question})),
            contained_by_ifuncs=self._contained(sorted({ran.modules[block] for block in selected})),
            work=tuple(SelectedWork(how, used, count / total) for (how, used), count in work.most_common())
            if self._arch == "x86_64"
            else None,
        )


def joined(ranges: Iterable[tuple[int, int]]) -> npt.NDArray[np.uint64]:
    """Ranges [n, 2], sorted, with those that touch made one."""
    found: list[list[int]] = []
    for begin, end in sorted(ranges):
        if found and begin <= found[-1][1]:
            found[-1][1] = max(found[-1][1], end)
        else:
            found.append([begin, end])
    return np.array([pair for pair in found if pair[1] < 1 << 64], np.uint64).reshape(-1, 2)
