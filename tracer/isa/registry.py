"""The instruction sets that are known, by name."""

from __future__ import annotations

from foretrace.base.errors import ProgramError

from .instruction_set import Isa


def load(arch: str) -> Isa:
    """The instruction set of `arch`, named as by QEMU ("x86_64").

    Raises:
        ProgramError: it is not known.
    """
    if arch == "x86_64":
        from .x86_64 import X8664

        return X8664()
    if arch == "aarch64":
        from .aarch64 import AArch64

        return AArch64()
    if arch == "riscv64":
        from .riscv64 import RiscV64

        return RiscV64()
    raise ProgramError(f"instructions of {arch} cannot be decoded: foretrace knows x86_64, aarch64 and riscv64")
