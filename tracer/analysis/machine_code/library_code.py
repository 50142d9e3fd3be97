"""Library code: names of its functions, and the lines of the program that call it.

A stripped library has names of exported functions alone, and even those may lead to unnamed functions: an exported
IFUNC is a resolver, which chooses among variants for different processors. So a function is also named by the way it is
reached: through a stub of a procedure linkage table or a slot of a global offset table, whose relocation has its name.
All variants then have one name.

A library's work is attributed to the program's line that calls it. That line is the innermost one of the program's own
source: an inlined call counts as made at its caller's place.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

import msgspec

from foretrace.tracer.analysis.execution_tree.code_tree import CodeTree
from foretrace.tracer.signature.records import Block, Frame, LibraryCall, Loop
from foretrace.tracer.signature.tree_records import ExecutionTree, NodeKey, TreeNodeKind

MOST_CALLS = 8
"""Most callers of a loop that are distinguished."""
_LIBRARY_SOURCE = re.compile(
    r"/usr/(?:local/)?(?:include|lib|lib32|lib64|libexec|share)/|/usr/src/debug/|/rustc/|/rust/deps/|/nix/store/"
    r"|.*/(?:include/c\+\+|lib/gcc|lib64/gcc|lib/rustlib|\.?cargo/registry|\.?cargo/git|site-packages)/"
)
"""Source files of compilers, of system installations, and of packages."""
_UNNAMED = re.compile(r".+\+0x[0-9a-f]+$")
_PLT = "@plt"


def is_library_source(path: str) -> bool:
    """Whether a source file is no program's own: a system's header, a compiler's library, a package."""
    return _LIBRARY_SOURCE.match(path) is not None


def is_own_source(path: str) -> bool:
    """Whether a source file is known, and a program's own."""
    return bool(path) and not is_library_source(path)


def is_unnamed(function: str) -> bool:
    """Whether a function is called by its module and start, as it has no symbol."""
    return _UNNAMED.match(function) is not None


# ---- names ----------------------------------------------------------------------------------------------------------

FunctionKey = tuple[str, int]
"""A module and the link-time address at which a function starts."""


class Arrival(msgspec.Struct, frozen=True):
    """A function that was entered `count` times: at its start through a symbol of that name, or from another function
    by a jump (`jumped_from`) or a call (neither)."""

    function: FunctionKey
    count: int
    symbol: str = ""
    jumped_from: FunctionKey | None = None


def names_by_arrival(
    arrivals: Sequence[Arrival], name_of: Mapping[FunctionKey, str], is_chosen: Callable[[FunctionKey, str], bool]
) -> dict[FunctionKey, str]:
    """Names of functions by the symbols that lead to them.

    A function that has a name of its own keeps it, unless it is a variant that an IFUNC of another name chose
    (`is_chosen`). One without a name that is entered by jumps alone is a part of the function that jumps there most.
    """
    by_symbol: dict[FunctionKey, Counter[str]] = defaultdict(Counter)
    by_jump: dict[FunctionKey, Counter[FunctionKey]] = defaultdict(Counter)
    called: set[FunctionKey] = set()
    for one in arrivals:
        if one.symbol:
            by_symbol[one.function][one.symbol] += one.count
        elif one.jumped_from is not None:
            by_jump[one.function][one.jumped_from] += one.count
        else:
            called.add(one.function)
    found: dict[FunctionKey, str] = {}
    for function, symbols in by_symbol.items():
        name = min(symbols, key=lambda symbol: (-symbols[symbol], symbol))
        own = name_of.get(function, "")
        if not own or is_unnamed(own) or is_chosen(function, name):
            found[function] = name
    pending = True
    while pending:
        pending = False
        for function, sources in by_jump.items():
            own = name_of.get(function, "")
            if function in found or function in called or not is_unnamed(own):
                continue
            named = [source for source in sources if source in found and source[0] == function[0]]
            if named:
                found[function] = found[max(named, key=lambda source: (sources[source], -source[1]))]
                pending = True
    return found


# ---- callers --------------------------------------------------------------------------------------------------------


class Caller(msgspec.Struct, frozen=True):
    """A call of a library by the program: the callee, the calling function, and the place.

    `module` is the callee's; empty for a stub.
    """

    called: str
    function: str
    file: str
    line: int
    module: str = ""

    def named(self, module: str, function: str) -> str:
        """A function's name. An unnamed function is named as a part of the callee, if that is in its module."""
        return self.called if is_unnamed(function) and self.module in ("", module) else function


@dataclass(frozen=True, slots=True, eq=False)
class OwnedCode:
    """Blocks, loops and tree in which library code has the lines of the program that call it."""

    blocks: tuple[Block, ...]
    loops: tuple[Loop, ...]
    tree: ExecutionTree


def owned_code(
    maker: CodeTree,
    tree: ExecutionTree,
    edges: Iterable[Sequence[int]],
    is_library: Sequence[bool],
    frames_at_call: Callable[[int], tuple[Frame, ...]],
) -> OwnedCode:
    """Attribute library code to its callers.

    Args:
        maker: the builder of the tree.
        tree: the tree.
        edges: source, target and count of the steps between blocks.
        is_library: of each block, whether its function is a library's.
        frames_at_call: the chain of functions, innermost first, at the end of a block.
    """
    callers = _callers_of_nodes(maker, tree, _Jumps(maker.blocks, edges), is_library, frames_at_call)
    weights = _weights(maker.blocks, tree, callers)
    inner = _names_of_the_unnamed(maker.blocks, weights)
    blocks = tuple(_owned_block(block, weights[block.block_id], inner) for block in maker.blocks)
    return OwnedCode(blocks, _owned_loops(maker, weights), replace(tree, keys=_owned_keys(tree, callers)))


class _Jumps:
    """Blocks at which control leaves functions for others, by the names of both."""

    def __init__(self, blocks: Sequence[Block], edges: Iterable[Sequence[int]]) -> None:
        counts: Counter[tuple[tuple[str, str], tuple[str, str], int]] = Counter()
        names = [(block.module, block.function.removesuffix(".cold")) for block in blocks]
        for source, target, count in edges:
            if names[source] != names[target]:
                counts[names[source], names[target], source] += count
                counts[names[source], ("", names[target][1].removesuffix(_PLT)), source] += count
        self._most: dict[tuple[tuple[str, str], tuple[str, str]], int] = {}
        for (left, entered, source), _ in sorted(counts.items(), key=lambda item: (item[1], -item[0][2])):
            self._most[left, entered] = source

    def site(self, left: NodeKey, entered: NodeKey) -> int:
        """Block at whose end control most often leaves a function for another one, or its stub; -1 if unknown."""
        source = (left.module, left.function)
        direct = self._most.get((source, (entered.module, entered.function)), -1)
        return direct if direct >= 0 else self._most.get((source, ("", entered.function)), -1)


def _callers_of_nodes(
    maker: CodeTree,
    tree: ExecutionTree,
    jumps: _Jumps,
    is_library: Sequence[bool],
    frames_at_call: Callable[[int], tuple[Frame, ...]],
) -> list[Caller | None]:
    """The program's call of each node of library code; None for other nodes, and for code it does not call."""
    drafts = {node: maker.builder.drafts[number] for number, node in maker.builder.final.items()}
    library_functions = {
        (block.module, block.function.removesuffix(".cold")) for block in maker.blocks if is_library[block.block_id]
    }
    is_program = [False] * len(tree)
    callers: list[Caller | None] = [None] * len(tree)
    for node, (kind, parent, key) in enumerate(zip(tree.kind.tolist(), tree.parent.tolist(), tree.keys, strict=True)):
        if kind == TreeNodeKind.THREAD:
            continue
        if kind == TreeNodeKind.LOOP:
            is_program[node], callers[node] = is_program[parent], callers[parent]
        elif (key.module, key.function) not in library_functions:
            is_program[node] = True
        elif callers[parent] is not None:
            callers[node] = callers[parent]
        elif is_program[parent]:
            above = tree.keys[parent]
            site = drafts[node].place if kind == TreeNodeKind.CALL else -1
            site = site if site >= 0 else jumps.site(above, key)
            callers[node] = _caller(key, above, frames_at_call(site) if site >= 0 else ())
    return callers


def _caller(key: NodeKey, above: NodeKey, frames: Sequence[Frame]) -> Caller:
    """The program's caller of a function, from the chain of functions at the call, innermost first."""
    called = key.function.removesuffix(_PLT) or PurePosixPath(key.module).name
    module = "" if key.function.endswith(_PLT) else key.module
    function = above.function or "?"
    for frame in frames:
        if is_own_source(frame.file):
            return Caller(called, frame.function or function, frame.file, frame.line, module)
        if frame.file and frame is not frames[-1]:
            called = frame.function or called
    return Caller(called, function, "", 0, module)


Weights = list[Counter[Caller | None]]
"""Executed instructions of each block by caller; None stands for code outside of calls by the program."""


def _weights(blocks: Sequence[Block], tree: ExecutionTree, callers: Sequence[Caller | None]) -> Weights:
    weights: Weights = [Counter() for _ in blocks]
    rows = zip(tree.work_node.tolist(), tree.work_block.tolist(), tree.work_executions.tolist(), strict=True)
    for node, block, executions in rows:
        weights[block][callers[node]] += executions * blocks[block].instructions
    return weights


def _most(weights: Mapping[Caller | None, int]) -> Caller | None:
    """The caller with the most instructions."""
    found = max(weights, key=lambda one: (weights[one], one is not None, str(one)), default=None)
    return found if found is not None and weights[found] else None


def _names_of_the_unnamed(blocks: Sequence[Block], weights: Weights) -> dict[tuple[str, str], str]:
    """Names of unnamed functions, after the library call of the program in which they run most."""
    of_function: dict[tuple[str, str], Counter[Caller | None]] = defaultdict(Counter)
    for block in blocks:
        if is_unnamed(block.function):
            of_function[block.module, block.function].update(weights[block.block_id])
    return {key: caller.named(*key) for key, of_all in of_function.items() if (caller := _most(of_all))}


def _owned_block(block: Block, weights: Mapping[Caller | None, int], names: Mapping[tuple[str, str], str]) -> Block:
    owner = _most(weights)
    name = names.get((block.module, block.function))
    if owner is None or is_own_source(block.file):
        return block if name is None else msgspec.structs.replace(block, function=name)
    return msgspec.structs.replace(
        block, function=name or block.function, file=owner.file, line=owner.line, caller=owner.function
    )


def _owned_loops(maker: CodeTree, weights: Weights) -> tuple[Loop, ...]:
    """The loops, those of libraries at the lines that call them."""
    of_loop: list[Counter[Caller | None]] = [Counter() for _ in maker.loops]
    for block in maker.blocks:
        loop_id = block.loop_id
        while loop_id is not None:
            of_loop[loop_id].update(weights[block.block_id])
            loop_id = maker.loops[loop_id].parent_id
    return tuple(_owned_loop(loop, of_loop[loop.loop_id]) for loop in maker.loops)


def _owned_loop(loop: Loop, weights: Mapping[Caller | None, int]) -> Loop:
    owner = _most(weights)
    if owner is None or is_own_source(loop.file):
        return loop
    total = sum(weights.values())
    ranked = sorted((one for one in weights if one), key=lambda one: (-weights[one], one is not owner, str(one)))
    calls = [LibraryCall(one.called, one.function, one.file, one.line, weights[one] / total) for one in ranked]
    rest = 1.0 - sum(call.share for call in calls[:MOST_CALLS])
    if len(calls) > MOST_CALLS or weights.get(None):
        calls[MOST_CALLS:] = [LibraryCall("", "", "", 0, max(rest, 0.0))]
    inner = [*loop.frames] or [Frame(loop.function, loop.file, loop.line)]
    is_said = (
        len(inner) > 1 or inner[0].file or not (is_unnamed(inner[0].function) or inner[0].function == owner.called)
    )
    frames = (*inner, Frame(owner.function, owner.file, owner.line)) if is_said else ()
    return msgspec.structs.replace(
        loop, function=owner.called, file=owner.file, line=owner.line, calls=tuple(calls), frames=frames
    )


def _owned_keys(tree: ExecutionTree, callers: Sequence[Caller | None]) -> tuple[NodeKey, ...]:
    """The keys of nodes, those of library code with the line that calls it."""
    keys: list[NodeKey] = []
    seen: set[tuple[int, int, NodeKey]] = set()
    for kind, parent, key, caller in zip(tree.kind.tolist(), tree.parent.tolist(), tree.keys, callers, strict=True):
        if caller is not None and not (kind == TreeNodeKind.LOOP and is_own_source(key.file)):
            name = key.function
            if callers[parent] is None:
                name = caller.called
            elif is_unnamed(name) and tree.keys[parent].module == key.module:
                name = keys[parent].function  # a part of it
            site_line = 0 if callers[parent] is not None else caller.line
            key = replace(
                key, function=name, file=caller.file, line=caller.line, site_line=site_line, position=0,
                caller=caller.function,
            )  # fmt: skip
            while (kind, parent, key) in seen:
                key = replace(key, position=key.position + 1)
            seen.add((kind, parent, key))
        elif parent >= 0 and callers[parent] is not None:
            key = replace(key, site_line=0)  # a line of the library's
        keys.append(key)
    return tuple(keys)
