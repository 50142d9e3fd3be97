"""Code that a program chose by the features of the processor that it ran on."""

from __future__ import annotations

import msgspec

DEDICATED = frozenset({
    "aes", "pclmulqdq", "vaes", "vpclmulqdq", "sha_ni", "gfni", "sse4_2", "amx_tile", "amx_int8", "amx_bf16",
    "amx_fp16", "sha2", "sha3", "crc32", "dotprod", "i8mm", "bf16",
})  # fmt: skip
"""Features whose instructions are made for one purpose (SSE4.2: CRC-32C), not just wider ones of a kind."""


class Question(msgspec.Struct, frozen=True):
    """A module that asked what the processor has, and how: "cpuid", "xgetbv", "ID registers" or "getauxval"."""

    module: str
    how: str


class SelectedFunction(msgspec.Struct, frozen=True):
    """A function that ran as the processor's features made the program choose it.

    `how` is "ifunc", or "question" where the program asked itself. `share` is of the run's instructions.
    """

    module: str
    function: str
    how: str
    share: float


class SelectedWork(msgspec.Struct, frozen=True):
    """Chosen code whose functions use the same extensions of the instruction set: how it was chosen, and its share of
    the run's instructions."""

    how: str
    extensions: tuple[str, ...]
    share: float


class Selection(msgspec.Struct, frozen=True):
    """Questions about features, and the code that ran by the answers: the 20 `functions` of most instructions.

    `ifunc_share` and `question_share`, from 0 to 1, are of the run's instructions. `engine_features` are those of the
    processor that the engine emulates, `host_features` those of the machine that traced, both named as in Linux's
    /proc/cpuinfo (AArch64: as by GCC); empty: unknown. `contained` are the features whose instructions are in the
    modules that asked, whether they ran or not, as far as they are looked for: those of `DEDICATED`, "avx_vnni" and
    "avx512f" (any of AVX-512); `contained_by_ifuncs`, of modules whose code IFUNCs chose. `work` is all of the chosen
    code. It is None where extensions of instructions are not known: on AArch64, and in older signatures, whose
    `contained` has none but those of `DEDICATED`.
    """

    questions: tuple[Question, ...] = ()
    functions: tuple[SelectedFunction, ...] = ()
    ifunc_share: float = 0.0
    question_share: float = 0.0
    engine_features: tuple[str, ...] = ()
    host_features: tuple[str, ...] = ()
    contained: tuple[str, ...] = ()
    contained_by_ifuncs: tuple[str, ...] = ()
    work: tuple[SelectedWork, ...] | None = None

    @property
    def share(self) -> float:
        """The share of the run's instructions in chosen code."""
        return min(1.0, self.ifunc_share + self.question_share)

    @property
    def lacking(self) -> tuple[str, ...]:
        """Features that the tracing machine has and the engine did not offer."""
        return tuple(sorted(set(self.host_features) - set(self.engine_features)))
