"""The instructions of blocks as columns: of many instructions few have a form of their own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from .records import Instruction, InstructionForm

Ints = npt.NDArray[np.int64]

NO_OPERATION = -1


class InstructionTable(Mapping[int, tuple[Instruction, ...]]):
    """The instructions of blocks, by block id.

    `blocks` int64 [blocks]: ids of the blocks; `first` int64 [blocks + 1]: the first instruction of each, and their
    number. Per instruction, int64: `form`, its position in `forms`; `load` and `store`, the memory operations that it
    makes, or NO_OPERATION.
    """

    def __init__(
        self, forms: Sequence[InstructionForm], blocks: Ints, first: Ints, form: Ints, load: Ints, store: Ints
    ) -> None:
        """The columns are not checked."""
        self.forms, self.blocks, self.first = forms, blocks, first
        self.form, self.load, self.store = form, load, store
        self._row = {block: row for row, block in enumerate(blocks.tolist())}
        self._made: dict[int, tuple[Instruction, ...]] = {}

    @classmethod
    def of(cls, instructions: Mapping[int, Sequence[Instruction]]) -> InstructionTable:
        """The instructions as such a table."""
        if isinstance(instructions, cls):
            return instructions
        numbers: dict[InstructionForm, int] = {}
        every = [one for block in instructions.values() for one in block]
        names = InstructionForm.__struct_fields__
        operations = [(one.load_operation, one.store_operation) for one in every]
        loads, stores = zip(*operations, strict=True) if operations else ((), ())
        return cls(
            form=np.array(
                [numbers.setdefault(InstructionForm(*(getattr(one, n) for n in names)), len(numbers)) for one in every],
                np.int64,
            ),
            forms=tuple(numbers),
            blocks=np.array(list(instructions), np.int64),
            first=np.cumsum([0, *map(len, instructions.values())], dtype=np.int64),
            load=np.array([NO_OPERATION if number is None else number for number in loads], np.int64),
            store=np.array([NO_OPERATION if number is None else number for number in stores], np.int64),
        )

    def __getitem__(self, block: int) -> tuple[Instruction, ...]:
        """The instructions of a block, in order."""
        if block not in self._made:
            row = self._row[block]
            inside = slice(int(self.first[row]), int(self.first[row + 1]))
            columns = (self.form[inside].tolist(), self.load[inside].tolist(), self.store[inside].tolist())
            self._made[block] = tuple(
                self._instruction(self.forms[form], load, store) for form, load, store in zip(*columns, strict=True)
            )
        return self._made[block]

    @staticmethod
    def _instruction(form: InstructionForm, load: int, store: int) -> Instruction:
        operations = (None if number == NO_OPERATION else number for number in (load, store))
        return Instruction(*msgspec.structs.astuple(form), *operations)

    def __iter__(self) -> Iterator[int]:
        """The ids of the blocks."""
        return iter(self._row)

    def __len__(self) -> int:
        """Number of blocks."""
        return len(self._row)
