"""Places of machine code: the module, function, source line and inlined calls of each instruction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import PurePosixPath

import msgspec
import numpy as np

from foretrace.tracer.analysis.data_flow.node_flow import Site
from foretrace.tracer.analysis.modules import UNMAPPED, ModuleMap
from foretrace.tracer.debug_info.inlined_calls import NONE, InlinedCalls
from foretrace.tracer.debug_info.line_table import EMPTY, LineTable
from foretrace.tracer.debug_info.perf_map import MODULE, PerfMap
from foretrace.tracer.debug_info.symbols import Function, Symbols, Variable
from foretrace.tracer.isa.instruction_set import Flow
from foretrace.tracer.reader.raw_trace import RawTrace
from foretrace.tracer.reader.raw_tree import CallKind
from foretrace.tracer.signature.records import Frame

from .basic_blocks import BasicBlocks, Counts, Ints
from .library_code import Arrival, FunctionKey, is_library_source, is_own_source, names_by_arrival
from .selected_code import Ran, joined

_MAX_NOTES = 20

_ADDRESS_MASK = (1 << 64) - 1
_NEARLY_ALL, _MOST = 0.9, 0.6
"""Least shares of a loop's instructions in the inlined function that has the loop: any, and where no line of the
function around it is in the loop."""
_PLT = "@plt"


def _is_loader(module: str) -> bool:
    return PurePosixPath(module).name.startswith(("ld-", "ld.", "ld64"))


def _is_no_file(path: str) -> bool:
    """Whether a mapping's path names memory without a file, such as that of generated code."""
    return not path.startswith("/") or path.startswith(("/memfd:", "/dev/zero"))


def _own_frame(frames: Sequence[Frame]) -> int:
    """Position of the innermost frame in the program's own source; that of the innermost frame if none is."""
    own = (at for at, frame in enumerate(frames) if is_own_source(frame.file))
    return next(own, 0)


class Places:
    """Origin of each instruction and block: module, link-time address, function, file and line."""

    def __init__(self, raw: RawTrace, blocks: BasicBlocks, arch: str, compiled: PerfMap) -> None:
        """Reads the symbols of all modules that ran; `compiled` names code that the program itself made."""
        self._blocks, self._is_x86 = blocks, arch == "x86_64"
        self._compiled = compiled
        self._map = ModuleMap(raw.maps, raw.guest_base, raw.files)
        self._symbols: dict[str, Symbols] = {}
        self.module_paths: list[str] = []
        self.module_of, self.offsets = self._locate(blocks.addresses)
        starts = blocks.first[:-1]
        self.functions = list(map(self._function, self.modules(starts), self.offsets[starts].tolist()))
        self._name_by_arrival(raw)
        self.paths: list[str] = []
        self.files = np.full(len(self.offsets), -1, np.int32)
        self.lines = np.zeros(len(self.offsets), np.int32)
        self._raw_files, self._raw_lines = self.files.copy(), self.lines.copy()
        self._innermost = np.full(len(self.offsets), -1, np.int64)
        """Innermost inlined call of each instruction, an index into `_inlined` of its module, or -1."""
        self._is_own_function = np.zeros(len(self.offsets), bool)
        """Whether the outermost function of each instruction is in the program's own source."""
        self._inlined: dict[str, InlinedCalls] = {}
        self._paths_known: dict[str, int] = {}
        self._first_lines: dict[tuple[str, int], tuple[int, int]] = {}
        self._tables: dict[str, tuple[int, LineTable]] = {}
        self._find_lines()

    def variables(self) -> list[Variable]:
        """Static variables of all modules with executed code, by guest address. A variable without a mapping, such as
        zero-initialised memory, is placed at its file distance from the module's code."""
        found: list[Variable] = []
        for path, symbols in self._symbols.items():
            mapping = self._map.first_of(path)
            link_address = symbols.link_address(mapping.file_offset) if mapping else None
            if mapping is None or link_address is None:
                continue
            moved = mapping.start - link_address
            found += [Variable(one.name, one.start + moved, one.end + moved) for one in symbols.variables()]
        return found

    def ran(self) -> Ran:
        """Places of blocks, for finding the code that selected them."""
        static: list[tuple[int, int]] = []
        for path, symbols in self._symbols.items():
            mapping = self._map.first_of(path)
            link_address = symbols.link_address(mapping.file_offset) if mapping else None
            if mapping is not None and link_address is not None:
                moved = mapping.start - link_address
                static += [(max(begin + moved, 0), end + moved) for begin, end in symbols.writable()]
        modules = self.modules(self._blocks.first[:-1])
        names = [function.name if function else "" for function in self.functions]
        chosen = [
            self._is_variant((module, 0), name) and not _is_loader(module)
            for module, name in zip(modules, names, strict=True)
        ]
        return Ran(modules, names, self.function_numbers(), chosen, joined(static), _is_loader, self._code_of)

    def _code_of(self, module: str) -> list[bytes]:
        symbols = self._symbols.get(module)
        return symbols.code() if symbols else []

    def call_sites(self, returns: Sequence[int]) -> list[Site]:
        """Sites of the calls that return to the given addresses."""
        addresses = np.array(returns, np.uint64)
        calls = addresses - np.minimum(addresses, np.uint64(1))
        found = [Site("", "", 0)] * len(returns)
        for mapping, indices in self._map.find_all(calls):
            symbols = self._symbols.get(mapping.path) if mapping is not None else None
            if mapping is None or symbols is None:
                continue
            offsets = symbols.link_addresses(calls[indices] - np.uint64(mapping.start) + np.uint64(mapping.file_offset))
            _, table = self._tables.get(mapping.path, (0, EMPTY))
            files, lines = table.find(offsets)
            for at, offset, file, line in zip(
                indices.tolist(), offsets.tolist(), files.tolist(), lines.tolist(), strict=True
            ):
                function = symbols.function(offset)
                name = function.name if function else ""
                frames = self._chain(mapping.path, offset, table.paths[file] if file >= 0 else "", line, name)
                own = frames[_own_frame(frames)]
                found[at] = Site(name, own.file, own.line) if own.file and own.line > 0 else Site(name, "", 0)
        return found

    def _locate(self, addresses: Counts) -> tuple[Ints, Counts]:
        """Module (position in `module_paths`) and link-time address of each address."""
        numbers: dict[str, int] = {}
        module_of, offsets = np.zeros(len(addresses), np.int64), addresses.copy()
        for mapping, indices in self._map.find_all(addresses):
            path = UNMAPPED if mapping is None else mapping.path
            module_of[indices] = numbers.setdefault(path, len(numbers))
            if mapping is None:
                continue
            in_file = addresses[indices] - np.uint64(mapping.start) + np.uint64(mapping.file_offset)
            if path.startswith("/"):
                if path not in self._symbols:
                    self._symbols[path] = Symbols(path, self._map.copies.get(path))
                in_file = self._symbols[path].link_addresses(in_file)
            offsets[indices] = in_file
            if self._compiled.functions and _is_no_file(path):
                named = [at for at in indices.tolist() if self._compiled.function(int(addresses[at]))]
                module_of[named] = numbers.setdefault(MODULE, len(numbers))
                offsets[named] = addresses[named]
        self.module_paths.extend(numbers)
        return module_of, offsets

    def modules(self, instructions: Ints) -> list[str]:
        """Path, or name, of the module of each instruction."""
        return [self.module_paths[number] for number in self.module_of[instructions].tolist()]

    def _function(self, module: str, offset: int) -> Function | None:
        if module == MODULE:
            return self._compiled.function(offset)
        symbols = self._symbols.get(module)
        return symbols.function(offset) if symbols else None

    def _name_by_arrival(self, raw: RawTrace) -> None:
        """Name functions without a symbol, and the variants that an IFUNC chooses from, by how they are called."""
        blocks = self._blocks
        starts, lasts = blocks.first[:-1], blocks.first[1:] - 1
        modules, offsets = self.modules(starts), self.offsets[starts].tolist()
        keys: list[FunctionKey | None] = [
            (module, function.start) if function else None
            for module, function in zip(modules, self.functions, strict=True)
        ]
        flows = blocks.flows()
        symbols = [
            self._symbol_at(block, last) if flow in (Flow.CALL, Flow.INDIRECT_JUMP) else ""
            for block, (last, flow) in enumerate(zip(lasts.tolist(), flows, strict=True))
        ]
        arrivals = []
        for source, target, count in blocks.edges.tolist():
            key = keys[target]
            if key is None or keys[source] == key or flows[source] is Flow.RETURN:
                continue
            is_start = key[1] == offsets[target]
            if symbols[source] and is_start:
                if not modules[target].rpartition("/")[2].startswith("ld-"):  # it may resolve the symbol first
                    arrivals.append(Arrival(key, count, symbol=symbols[source]))
            elif flows[source] is Flow.CALL or flows[source] is Flow.INDIRECT_JUMP:
                arrivals.append(Arrival(key, count))
            else:
                arrivals.append(Arrival(key, count, jumped_from=keys[source]))
        arrivals += self._first_calls(raw, keys, symbols, offsets)
        names = {key: function.name for key, function in zip(keys, self.functions, strict=True) if key and function}
        found = names_by_arrival(arrivals, names, self._is_variant)
        self.functions = [
            msgspec.structs.replace(function, name=found[key]) if function and key in found else function
            for key, function in zip(keys, self.functions, strict=True)
        ]

    def _is_variant(self, key: FunctionKey, name: str) -> bool:
        symbols = self._symbols.get(key[0])
        return symbols is not None and name in symbols.ifuncs

    def _symbol_at(self, block: int, last: int) -> str:
        """The symbol through which a block calls or jumps at its end: it is a stub, or reads a slot."""
        symbols = self._symbols.get(self.module_paths[int(self.module_of[last])])
        if symbols is None:
            return ""
        code = self._blocks.codes[last].removeprefix(b"\xf2").removeprefix(b"\x3e").removeprefix(b"\x40")
        if len(code) == 6 and code[:2] in (b"\xff\x15", b"\xff\x25") and self._is_x86:  # call or jmp *slot(%rip)
            after = int(self.offsets[last]) + len(self._blocks.codes[last])
            return symbols.slot((after + int.from_bytes(code[2:], "little", signed=True)) & _ADDRESS_MASK)
        function = self.functions[block]
        is_stub = function is not None and function.name.endswith(_PLT)
        return function.name.removesuffix(_PLT) if function and is_stub else ""

    def _first_calls(
        self, raw: RawTrace, keys: Sequence[FunctionKey | None], symbols: Sequence[str], offsets: Sequence[int]
    ) -> list[Arrival]:
        """Functions that the dynamic linker jumped to after it had resolved the symbol of a stub."""
        if raw.tree is None:
            return []
        nodes = raw.tree.nodes.astype(np.int64)
        block_map = self._blocks.block_map
        entry = [int(block_map[block]) if 0 < block < len(block_map) else -1 for block in nodes[:, 1].tolist()]
        parent, kind = nodes[:, 0].tolist(), nodes[:, 3].tolist()
        found = []
        for node, block in enumerate(entry):
            key = keys[block] if block >= 0 else None
            above = parent[node]
            if key is None or kind[node] != CallKind.TAIL_CALL or key[1] != offsets[block]:
                continue
            while (
                above >= 0 and kind[above] == CallKind.TAIL_CALL and not (entry[above] >= 0 and symbols[entry[above]])
            ):
                above = parent[above]
            if above >= 0 and entry[above] >= 0 and symbols[entry[above]] and not _is_loader(key[0]):
                found.append(Arrival(key, int(nodes[node, 4]), symbol=symbols[entry[above]]))
        return found

    def _find_lines(self) -> None:
        """Look up the lines of all instructions, and of the functions' first ones, module by module. Where a library's
        code was expanded in line, they are those of the program's call."""
        entries: dict[str, set[int]] = {}
        for module, function in zip(self.modules(self._blocks.first[:-1]), self.functions, strict=True):
            if function is not None:
                entries.setdefault(module, set()).add(function.start)
        for number, module in enumerate(self.module_paths):
            symbols = self._symbols.get(module)
            if symbols is None:
                continue
            here = np.flatnonzero(self.module_of == number)
            starts = np.array(sorted(entries.get(module, ())), np.uint64)
            table = symbols.lines(np.concatenate([self.offsets[here], starts]))
            base = len(self.paths)
            self._tables[module] = (base, table)
            self.paths.extend(table.paths)
            files, lines = table.find(self.offsets[here])
            self._raw_files[here] = self.files[here] = np.where(files >= 0, files + base, -1)
            self._raw_lines[here] = self.lines[here] = lines
            if table.paths:
                calls = self._inlined[module] = symbols.inlined(self.offsets[here])
                if len(calls.addresses):
                    self._innermost[here] = calls.innermost[np.searchsorted(calls.addresses, self.offsets[here])]
                self._climb(module, here)
            for start in starts.tolist():
                file, line = table.find_first(start)
                if file >= 0:
                    self._first_lines[module, start] = (file + base, line)

    def _climb(self, module: str, here: Ints) -> None:
        """Give instructions of libraries that were expanded in line the place of the program's call."""
        is_library = [is_library_source(path) for path in self.paths]
        calls = self._inlined[module]
        outermost = calls.outermost_files()
        known: dict[tuple[int, int, int], tuple[int, int]] = {}
        for at in here.tolist():
            file, line = int(self.files[at]), int(self.lines[at])
            if file < 0:
                continue
            call = int(self._innermost[at])
            self._is_own_function[at] = is_own_source(outermost[call]) if call >= 0 else not is_library[file]
            if not is_library[file]:
                continue
            key = call, file, line
            if key not in known:
                known[key] = self._own_place(module, int(self.offsets[at]), file, line)
            self.files[at], self.lines[at] = known[key]

    def _own_place(self, module: str, offset: int, file: int, line: int) -> tuple[int, int]:
        """The innermost place of the program's own source at an address; the given place if none is."""
        frames = self._chain(module, offset, self.paths[file], line, "")
        own = frames[_own_frame(frames)]
        if is_library_source(own.file):
            return file, line
        return self._path_number(own.file), own.line

    def _path_number(self, path: str) -> int:
        for number in range(len(self._paths_known), len(self.paths)):
            self._paths_known.setdefault(self.paths[number], number)
        if path not in self._paths_known:
            self._paths_known[path] = len(self.paths)
            self.paths.append(path)
        return self._paths_known[path]

    def _chain(self, module: str, offset: int, file: str, line: int, function: str) -> tuple[Frame, ...]:
        """The functions at an address, innermost first; `file` and `line` are those of the line table."""
        calls = self._inlined.get(module, NONE)
        return tuple(Frame(*one) for one in calls.chain(calls.at(offset), file, line, function))

    def _frames(self, instruction: int, function: str) -> tuple[Frame, ...]:
        file = int(self._raw_files[instruction])
        module = self.module_paths[int(self.module_of[instruction])]
        path, line = (self.paths[file], int(self._raw_lines[instruction])) if file >= 0 else ("", 0)
        return self._chain(module, int(self.offsets[instruction]), path, line, function)

    def frames_at_end(self, block: int) -> tuple[Frame, ...]:
        """The chain of functions at a block's last instruction, innermost first."""
        return self._frames(int(self._blocks.first[block + 1]) - 1, self.function_name(block))

    def frames_of_loop(self, header: int, members: Sequence[int], place: tuple[str, int]) -> tuple[Frame, ...]:
        """The chain of functions at a loop's place: where its header begins, else where most of it is expanded code of
        libraries; none if all of it is the code of one function."""
        name = self.function_name(header)
        chains = [self._frames(int(self._blocks.first[header]), name)]
        others: Counter[tuple[Frame, ...]] = Counter()
        for block in members:
            for at in self._blocks.instructions(block):
                if self.files[at] != self._raw_files[at] or self.lines[at] != self._raw_lines[at]:
                    others[self._frames(at, name)] += 1
        chains += [chain for chain, _ in sorted(others.items(), key=lambda item: (-item[1], str(item[0])))]
        for chain in chains:
            own = next((at for at, frame in enumerate(chain) if (frame.file, frame.line) == place), _own_frame(chain))
            is_at_place = chain[own].line == place[1] if own else chain is chains[0]
            if len(chain) > 1 and chain[own].file == place[0] and is_at_place:
                ahead = [frame for frame in chain[:own] if is_library_source(frame.file)]
                around = [frame for frame in chain[own + 1 :] if is_own_source(frame.file)]
                found = (*ahead, Frame(chain[own].function, *place), *around)
                return found if len(found) > 1 else ()
        return ()

    def library_blocks(self) -> list[bool]:
        """Whether each block's function is a library's: no line of it, apart from inlined calls, is in the program's
        own source.

        Where the program itself has no lines, all of its file is the program's.
        """
        functions = self.function_numbers()
        modules = self.module_of[self._blocks.first[:-1]].tolist()
        block_of = self._blocks.block_of.tolist()
        own_functions = {
            functions[block] for block, is_own in zip(block_of, self._is_own_function.tolist(), strict=True) if is_own
        }
        with_lines = {modules[block] for block, number in enumerate(functions) if number in own_functions}
        programs = {number for number, path in enumerate(self.module_paths) if self._is_program(number, path)}
        return [
            number not in own_functions and (module in with_lines or module not in programs)
            for number, module in zip(functions, modules, strict=True)
        ]

    def _is_program(self, number: int, path: str) -> bool:
        """Whether a module is the started program, not a library: its entry point has run. Code without a file, such
        as generated code, counts as the program's."""
        symbols = self._symbols.get(path)
        if symbols is None:
            return True
        return not _is_loader(path) and bool(np.any(self.offsets[self.module_of == number] == symbols.entry))

    def sites(self, instructions: Ints) -> list[tuple[str, int]]:
        """File and line of each instruction; empty and 0 if unknown."""
        files, lines = self.files[instructions].tolist(), self.lines[instructions].tolist()
        pairs = zip(files, lines, strict=True)
        return [(self.paths[file], line) if file >= 0 and line > 0 else ("", 0) for file, line in pairs]

    def function_name(self, block: int) -> str:
        """Name of a block's function; empty if unknown."""
        function = self.functions[block]
        return function.name if function else ""

    def function_numbers(self) -> list[int]:
        """A number for the function of each block. The part that a compiler moved out of its way has the same."""
        numbers: dict[tuple[str, str], int] = {}
        keys = [
            (module, self.function_name(block).removesuffix(".cold"))
            for block, module in enumerate(self.modules(self._blocks.first[:-1]))
        ]
        return [numbers.setdefault(key, len(numbers)) for key in keys]

    def loop_site(self, header: int, members: Sequence[int]) -> tuple[str, int]:
        """File and line at which a reader of the source looks for a loop: where its statement begins.

        That is the smallest line among the loop's instructions, in the file of its function and after the function's
        own line: lines before that belong to functions expanded in line.
        """
        start = int(self._blocks.first[header])
        file, line = int(self.files[start]), int(self.lines[start])
        module = self.module_paths[int(self.module_of[start])]
        table = self._tables.get(module)
        if table is None:
            return "", 0
        expanded = self._expanded_site(module, header, members, _NEARLY_ALL)
        if expanded is not None:
            return expanded
        base, rows = table
        candidates: set[tuple[int, int]] = set()
        with_code: set[tuple[int, int]] = set()
        for block in members:
            begin, last = int(self.offsets[self._blocks.first[block]]), int(self._blocks.first[block + 1]) - 1
            end = int(self.offsets[last]) + len(self._blocks.codes[last])
            candidates.update(
                self._own_statement(module, number + base, at, address)
                for number, at, address in rows.statements(begin, end, from_code=block == header)
            )
            inside = slice(int(self._blocks.first[block]), last + 1)
            with_code.update(zip(self.files[inside].tolist(), self.lines[inside].tolist(), strict=True))
        # Statements without code at the header's very start may come before the loop, but not if it has code of them.
        begin = int(self.offsets[start])
        at_start = rows.statements(begin, begin + 1)
        candidates.update(with_code.intersection((number + base, at) for number, at, _ in at_start))
        function = self.functions[header]
        own = self._first_lines.get((module, function.start)) if function else None
        if own is not None and is_library_source(self.paths[own[0]]):  # its own lines are those of what was given to it
            candidates = {one for one in candidates if is_own_source(self.paths[one[0]])} or candidates
            own = None
        if own is not None:
            lines = [at for number, at in candidates if number == own[0] and at >= own[1]]
            if lines:
                return self.paths[own[0]], min(lines, key=lambda at: (at == own[1], at))
        expanded = self._expanded_site(module, header, members, _MOST)
        if expanded is not None:
            return expanded
        if candidates and file not in {number for number, _ in candidates}:
            file = min(candidates)[0]
        lines = [at for number, at in candidates if number == file and at > 0]
        if file < 0:
            return "", 0
        return self.paths[file], min(lines, default=line)

    def _expanded_site(
        self, module: str, header: int, members: Sequence[int], least_share: float
    ) -> tuple[str, int] | None:
        """Place of a loop in an inlined function of the program: its smallest line in that function. None if the loop
        is in no inlined function.

        The function is the innermost inlined call with `least_share` of the loop's instructions, as compilers move
        instructions into loops.
        """
        calls = self._inlined.get(module, NONE)
        inside = [at for block in members for at in self._blocks.instructions(block)]
        innermost = Counter(self._innermost[inside].tolist())
        covered: Counter[int] = Counter()
        for call, count in innermost.items():
            covered.update(dict.fromkeys(calls.around_all(call), count))
        enough = [call for call, count in covered.items() if count >= least_share * len(inside)]
        for call in sorted(enough, key=lambda call: -len(calls.around_all(call))):
            places = Counter(self._place_in(calls, call, at) for at in inside)
            own = {place: count for place, count in places.items() if place is not None and is_own_source(place[0])}
            if own:
                _, rows = self._tables[module]
                begin = int(self.offsets[self._blocks.first[header]])
                file = Counter({path: count for (path, _), count in own.items()}).most_common(1)[0][0]
                lines = [line for path, line in own if path == file and line > 0]
                if int(self._innermost[self._blocks.first[header]]) == call:
                    lines += [line for at, line, _ in rows.statements(begin, begin + 1) if rows.paths[at] == file]
                return file, min(lines, default=0)
        return None

    def _place_in(self, calls: InlinedCalls, call: int, instruction: int) -> tuple[str, int] | None:
        """An instruction's place in the function of an expanded call that it is part of; None if it is not."""
        at, file = int(self._innermost[instruction]), int(self._raw_files[instruction])
        place = (self.paths[file], int(self._raw_lines[instruction])) if file >= 0 else None
        while at >= 0 and at != call:
            place, at = (calls.files[at], calls.lines[at]), calls.around[at]
        return place if at == call else None

    def _own_statement(self, module: str, file: int, line: int, address: int) -> tuple[int, int]:
        """The place of the program's own source that a statement belongs to."""
        if file < 0 or not is_library_source(self.paths[file]):
            return file, line
        return self._own_place(module, address, file, line)

    def notes(self) -> tuple[str, ...]:
        """Notes for the signature on symbols and mappings that could not be read."""
        notes = [*self._compiled.notes]
        notes += [note for path, symbols in self._symbols.items() for note in symbols.notes if not _is_no_file(path)]
        if self._map.damaged_lines:
            notes.append(f"memory map: {self._map.damaged_lines} lines could not be read")
        if len(notes) > _MAX_NOTES:
            notes[_MAX_NOTES:] = [f"{len(notes) - _MAX_NOTES} more such notes"]
        return tuple(notes)
