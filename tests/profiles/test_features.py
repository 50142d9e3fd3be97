"""The extensions of shipped machines' cores, against what compilers know of the same processors."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from foretrace.profiles.features import features_of
from foretrace.profiles.library import find

MACHINES = {
    "convey-hc1-host": "core2",
    "xeon-e5462": "penryn",
    "jaguar-xt4": "amdfam10",
    "xeon-e5-2420": "sandybridge",
    "xeon-platinum-8360y": "icelake-server",
    "xeon-platinum-8480": "sapphirerapids",
    "xeon-6980p": "graniterapids",
    "epyc-7763": "znver3",
    "epyc-9654": "znver4",
    "epyc-9755": "znver5",
    "raspberry-pi-5": "cortex-a76",
    "apple-m1-pro": "apple-m1",
    "graviton3": "neoverse-v1",
    "grace": "neoverse-v2",
    "a64fx": "a64fx",
}
"""A machine of each kind of core, and the processor by the name that compilers have for it."""
ON_X86 = {
    "sse3": "sse3", "ssse3": "ssse3", "sse4_1": "sse4.1", "sse4_2": "sse4.2", "sse4a": "sse4a", "popcnt": "popcnt",
    "abm": "lzcnt", "movbe": "movbe", "aes": "aes", "pclmulqdq": "pclmul", "avx": "avx", "avx2": "avx2", "fma": "fma",
    "f16c": "f16c", "bmi1": "bmi", "bmi2": "bmi2", "adx": "adx", "sha_ni": "sha", "vaes": "vaes",
    "vpclmulqdq": "vpclmulqdq", "gfni": "gfni", "avx512f": "avx512f", "avx512cd": "avx512cd", "avx512bw": "avx512bw",
    "avx512dq": "avx512dq", "avx512vl": "avx512vl", "avx512ifma": "avx512ifma", "avx512vbmi": "avx512vbmi",
    "avx512_vbmi2": "avx512vbmi2", "avx512_vnni": "avx512vnni", "avx512_bitalg": "avx512bitalg",
    "avx512_vpopcntdq": "avx512vpopcntdq", "avx512_bf16": "avx512bf16", "avx512_fp16": "avx512fp16",
    "avx512_vp2intersect": "avx512vp2intersect", "avx_vnni": "avxvnni", "amx_tile": "amx-tile", "amx_int8": "amx-int8",
    "amx_bf16": "amx-bf16", "amx_fp16": "amx-fp16", "movdiri": "movdiri", "movdir64b": "movdir64b",
}  # fmt: skip
ON_ARM = {
    "crc32": "crc", "lse": "lse", "fp16": "fullfp16", "aes": "aes", "sha2": "sha2", "sha3": "sha3",
    "dotprod": "dotprod", "i8mm": "i8mm", "bf16": "bf16", "sve": "sve", "sve2": "sve2",
}  # fmt: skip
"""Our names, and the compilers'."""
NOT_ASKED = {"erms", "fsrm"}
"""Fast copies, which compilers tune for and do not list as extensions."""
OTHERWISE = {
    "sandybridge": ({"aes"}, set()),
    "neoverse-v2": ({"aes", "sha2", "sha3"}, set()),
    "a64fx": (set(), {"aes"}),
}
"""Features that a machine has beyond the compiler's processor, and that it lacks, as in profiles/features.py."""
WRONG_IN_OLD_ONES = {"sapphirerapids": {"avx512_vp2intersect"}}
"""Features that older compilers give a processor wrongly (GCC 12, clang 14; not clang 19)."""
LEAST_CLANG_OF_ARM = 19
"""Clang 14 leaves out extensions of AArch64 that its successors give the same processors."""


def test_what_differs_between_generations() -> None:
    def gained(new: str, old: str) -> tuple[set[str], set[str]]:
        has, had = features_of(find(new)), features_of(find(old))
        assert has is not None
        assert had is not None
        return set(has - had), set(had - has)

    assert gained("xeon-e5462", "convey-hc1-host") == ({"sse4_1"}, set())
    assert gained("xeon-6980p", "xeon-platinum-8480") == ({"amx_fp16"}, set())
    direct = {"movdiri", "movdir64b"}
    assert gained("epyc-9755", "epyc-9654") == ({"avx_vnni", "avx512_vp2intersect", *direct}, set())
    assert gained("graviton4", "graviton3") == ({"sve2"}, set())
    assert direct <= gained("xeon-platinum-8480", "xeon-platinum-8360y")[0]
    assert features_of(find("xeon-granite-vm")) == features_of(find("xeon-6980p"))
    assert "aes" not in (features_of(find("a64fx")) or ())
    assert "avx512_vp2intersect" not in (features_of(find("xeon-6980p")) or ())
    assert all("sha3" in (features_of(find(name)) or ()) for name in ("graviton3", "apple-m1-pro"))
    assert features_of(find("power6")) is None


def _version(clang: str) -> int:
    text = subprocess.run([clang, "-dumpversion"], capture_output=True, text=True, check=True).stdout
    return int(text.partition(".")[0])


def _of_clang(processor: str) -> frozenset[str] | None:
    """Features of a processor, by the newest installed clang that knows it; None: none does."""
    arm = processor in {MACHINES[name] for name in MACHINES if find(name).instruction_set == "aarch64"}
    chosen = ["--target=aarch64-linux-gnu", f"-mcpu={processor}"] if arm else ["--target=x86_64-linux-gnu"]
    chosen += [] if arm else [f"-march={processor}"]
    for name in (*(f"clang-{version}" for version in range(30, 10, -1)), "clang"):
        if shutil.which(name) and not (arm and _version(name) < LEAST_CLANG_OF_ARM):
            command = [name, *chosen, "-S", "-emit-llvm", "-x", "c", "-", "-o", "-"]
            run = subprocess.run(command, input="void f(void) {}", capture_output=True, text=True, check=False)
            found = re.search(r'"target-features"="([^"]*)"', run.stdout)
            if run.returncode == 0 and found:
                return frozenset(one[1:] for one in found[1].split(",") if one.startswith("+"))
    return None


def _of_gcc(processor: str) -> frozenset[str] | None:
    command = ["gcc", f"-march={processor}", "-Q", "--help=target"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode:
        return None
    return frozenset(re.findall(r"^\s*-m(\S+)\s+\[enabled\]", run.stdout, re.MULTILINE))


def _compare(machine: str, said: frozenset[str]) -> None:
    profile = find(machine)
    known = features_of(profile)
    assert known is not None
    names = ON_ARM if profile.instruction_set == "aarch64" else ON_X86
    assert known <= names.keys() | NOT_ASKED, "an extension that no compiler was asked for"
    more, fewer = OTHERWISE.get(MACHINES[machine], (set(), set()))
    theirs = {ours for ours, name in names.items() if name in said}
    differing = ((known - NOT_ASKED) ^ theirs) - WRONG_IN_OLD_ONES.get(MACHINES[machine], set())
    assert differing == more | fewer, machine
    assert more <= known
    assert not fewer & known


@pytest.mark.skipif(shutil.which("clang") is None, reason="needs clang")
def test_clang_says_the_same() -> None:
    compared = set()
    for machine, processor in MACHINES.items():
        said = _of_clang(processor)
        if said is not None:
            _compare(machine, said)
            compared.add(machine)
    assert {"xeon-e5462", "epyc-7763", "xeon-platinum-8480"} <= compared


def test_gcc_says_the_same() -> None:
    if shutil.which("gcc") is None or "x86-64" not in subprocess.run(
        ["gcc", "-dumpmachine"], capture_output=True, text=True, check=True
    ).stdout.replace("_", "-"):
        pytest.skip("needs a gcc for x86-64")
    compared = set()
    for machine, processor in MACHINES.items():
        said = _of_gcc(processor) if find(machine).instruction_set == "x86_64" else None
        if said is not None and processor != "penryn":
            _compare(machine, said)
            compared.add(machine)
    assert {"convey-hc1-host", "xeon-e5-2420", "xeon-platinum-8480", "epyc-7763"} <= compared
