"""Instruction sets: decoding, operation kinds and registers of x86-64, AArch64 and RISC-V."""
