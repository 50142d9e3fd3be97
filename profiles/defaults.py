"""Ranges of core and memory figures that a profile does not give, by class of core, each with its source.

Each range is `fast, typical, slow`. What is published of well-known cores is cited from here alone; where several
agree, their range is a class's. Figures marked (m) are cited from memory: their source could not be opened.
"""

from __future__ import annotations

from math import inf

from .figure import Default

_UOPS = "uops.info (Abel and Reineke, ASPLOS 2019) and OSACA's machine models, over the cores of each class"
_ARM = "Arm: software optimization guides of Cortex-A76, Neoverse N1, V1 and V2 (m)"
_FOG = "Agner Fog: The microarchitecture of Intel, AMD and VIA CPUs; Instruction tables (m)"
_INTEL = "Intel 64 and IA-32 Architectures Optimization Reference Manual (m)"
_HP = "Hennessy and Patterson, Computer Architecture, 5th ed., figures 2.1 and 2.10 to 2.21"
_LLVM = "LLVM, scheduling models of the PowerPC A2, POWER6 and Cortex-A53 (m)"
_ZEN = "foretrace calibrate on Zen 3 and Zen 5"
_DISCLOSED = "makers' guides, Chips and Cheese and D. Johnson's measurements (m)"
_GENERAL = "the range over cores of about 2006 to 2024 (Agner Fog, uops.info; m)"

WIDTH = (
    Default(2, 2, 1, _LLVM, in_order=True),
    Default(6, 4, 3, _DISCLOSED, in_order=False, year=2015),
    Default(4, 2, 1, _GENERAL),
)
REACHED = (Default(1.0, 0.8, 0.5, "Zen 3 reached 0.8 of it, Zen 5 0.91 (foretrace calibrate)", of="the rate"),)
LOADS = (
    Default(2, 1, 1, _LLVM, in_order=True),
    Default(
        3, 2, 2, "Zen 3 to 5, Golden Cove, Neoverse V1 and V2, Firestorm: 3 or more; N1, A76, Skylake: 2 (m)", year=2015
    ),
    Default(2, 1, 1, _GENERAL),
)
STORES = (Default(2, 1, 1, "Zen 3 to 5, Golden Cove, Neoverse V1 and V2, Firestorm: 2; Skylake and before: 1 (m)"),)
LINE_TRANSFER = (
    Default(
        20e-9,
        60e-9,
        200e-9,
        "Chips and Cheese: bounces between cores of Zen 2 to 5, Skylake to Golden Cove, Graviton (m)",
    ),
)
FP_ADD = (Default(4, 6, 7, _LLVM, in_order=True), Default(2, 4, 6, _UOPS))
FP_MULTIPLY = (Default(4, 6, 7, _LLVM, in_order=True), Default(3, 4, 6, _UOPS))
FP_DIVIDE_LATENCY = (
    Default(15, 30, 45, _LLVM, in_order=True),
    Default(7, 13, 20, _UOPS, year=2015),
    Default(10, 15, 35, _UOPS),
)
FP_DIVIDE = (
    Default(15, 29, 45, _LLVM, in_order=True),
    Default(1, 5, 12, _UOPS, year=2015),
    Default(4, 15, 40, _FOG),
)
INT_MULTIPLY = (Default(3, 5, 16, _LLVM, in_order=True), Default(3, 3, 5, _UOPS))
INT_DIVIDE_LATENCY = (
    Default(12, 35, 70, _LLVM, in_order=True),
    Default(7, 12, 20, _UOPS, year=2019),
    Default(8, 18, 95, _FOG),
)
INT_DIVIDE = (
    Default(10, 35, 70, _LLVM, in_order=True),
    Default(2, 10, 20, _UOPS, year=2019),
    Default(6, 22, 85, _FOG),
)
VECTOR_INT = (
    Default(2, 2, 4, _ARM, instruction_sets=("aarch64",)),
    Default(1, 1, 3, _UOPS),
)
FP_OTHER = Default(1, 1, 4, _UOPS)
"""Latency of a shuffle or comparison of vectors."""
CROSSING = (Default(1, 3, 5, _UOPS),)
BRANCH_MISS = (
    Default(5, 8, 20, _LLVM, in_order=True),
    Default(
        11, 14, 22, "11 (Neoverse) to 17 (Golden Cove) by their makers, 13 to 22 by foretrace calibrate (m)", year=2015
    ),
    Default(5, 12, 20, _FOG),
)
TAKEN_BRANCHES = (Default(2, 1, 0.5, _FOG),)
SEVERAL_TARGETS = (Default(1, 3, 4, "3.1 measured on Zen 5 (foretrace calibrate)"),)
INT_ADDS = (
    Default(1.0, 0.75, 0.5, "three of four that are issued, no more than four (vendors' guides; m)", of="the width"),
)
FORWARD = (Default(4, 6, 13, _FOG),)
VECTOR_LOAD = (Default(0, 2, 3, _FOG, beyond="the nearest cache's latency"),)
SCALED_LOAD = (Default(0, 1, 1, _ZEN + "; Intel's since Sandy Bridge", beyond="the nearest cache's latency"),)
BLOCKED_FORWARD = (Default(10, 14, 18, _FOG, beyond="the nearest cache's latency"),)

WINDOW = (
    Default(1024, 1024, 1024, "the first use of a value that is missing is the limit", in_order=True),
    Default(630, 384, 224, f"Zen 5 448, Neoverse V2 320, Firestorm 630: {_DISCLOSED}", width=7),
    Default(448, 224, 112, "Skylake, Zen 2 and Sunny Cove 224 to 352", width=5),
    Default(336, 168, 84, "Nehalem 128, Haswell 192, Cortex-A72 128, N1 128", width=4),
    Default(144, 72, 36, "AMD K10 72", width=3),
    Default(64, 32, 16, "PowerPC 750 and ARM11-class cores", width=2),
    Default(16, 8, 4, "PowerPC 450 (LLVM, PPCSchedule440.td)"),
)


def _shares(narrow: tuple[float, float, float], wide: tuple[float, float, float], cores: str) -> tuple[Default, ...]:
    """Of the instructions in flight: wide cores have room for more of these than for such that wait."""
    return (
        Default(1024, 1024, 1024, "no limit: what waits stops all behind it", in_order=True),
        Default(*wide, f"{cores}: {_DISCLOSED}", of="window_instructions", width=7),
        Default(*narrow, "measured on Zen 3 (AMD publication 56665, sections 2.9 to 2.12)", of="window_instructions"),
    )


INT_WAITING = _shares(
    (0.8, 0.4, 0.2), (0.45, 0.25, 0.15), "Golden Cove 97 of 512, Firestorm about 160 of 630, Zen 5 88 of 448"
)
VECTOR_WAITING = _shares(
    (1.0, 0.5, 0.25), (0.5, 0.3, 0.15), "Golden Cove 97 of 512, Firestorm 144 of 630, Zen 5 210 of 448"
)
ADDRESS_WAITING = _shares(
    (0.4, 0.2, 0.1), (0.25, 0.13, 0.07), "Golden Cove 108 of 512, Zen 5 56 of 448, Firestorm 48 of 630"
)
INT_WRITING = _shares(
    (1.4, 0.7, 0.35), (0.8, 0.55, 0.35), "Golden Cove 280 of 512, Zen 5 240 of 448, Firestorm 380 of 630"
)
VECTOR_WRITING = _shares(
    (1.2, 0.6, 0.3), (0.95, 0.65, 0.4), "Golden Cove 332 of 512, Zen 5 384 of 448, Firestorm 430 of 630"
)
STORING = (
    Default(16, 8, 4, _LLVM, in_order=True),
    Default(0.3, 0.22, 0.1, f"Golden Cove 112 of 512, Zen 5 104 of 448, Firestorm 60 of 630: {_DISCLOSED}",
            of="window_instructions", width=7),
    Default(0.5, 0.25, 0.125, "measured on Zen 3: 48 to 64 of 256", of="window_instructions"),
)  # fmt: skip
SCHEDULED = (Default(0.5, 0.5, 0.5, "measured on Zen 3", of="vector_waiting_instructions"),)

FIXED_LENGTH = ("aarch64", "ppc", "ppc64", "riscv64")
ZEN = ("zen", "zen2", "zen3", "zen4", "zen5")
DECODE = (
    Default(inf, inf, inf, "instructions of one length need no such decoders", instruction_sets=FIXED_LENGTH),
    Default(inf, 4, 4, "Zen to Zen 5: four a cycle (AMD publication 56665, section 2.9)",
            microarchitectures=ZEN, width=5),
    Default(inf, inf, 6, "Golden Cove and its successors: six a cycle (Intel, Architecture Day 2021; cpunews.net)",
            microarchitectures=("golden-cove", "raptor-cove", "redwood-cove")),
    Default(inf, inf, 4, "unknown: no limit, or four a cycle as Zen and Intel's cores up to Skylake", width=5),
    Default(inf, inf, inf, "cores that decode as many as they issue"),
)  # fmt: skip
KEPT_DECODED = (
    Default(6750, 6144, 6144, "Zen 4 6750, Zen 5 6144 (AMD; m)", microarchitectures=("zen4", "zen5")),
    Default(4096, 4096, 4096, "Zen 2 and 3 (AMD publication 56665, section 2.9), Golden Cove 4096"),
)

MISSES = (
    Default(8, 2, 1, "blocking (PowerPC 450) to a few: the A2 of Blue Gene/Q 8, Cortex-A53 3 (m)", in_order=True),
    Default(64, 24, 16, "22 (Zen 2) and 24 (Zen 3) miss address buffers (AMD; m); with what second caches ask for "
            "ahead 17 measured on Zen 3, 51 on Zen 5 (foretrace calibrate)", microarchitectures=ZEN),
    Default(48, 16, 12, "16 fill buffers (Intel, Architecture Day 2021, after cpunews.net), 48 misses of the second "
            "cache (m)", microarchitectures=("golden-cove", "raptor-cove", "redwood-cove")),
    Default(16, 12, 10, "12 fill buffers of Sunny Cove (Intel, Architecture Day 2021, after cpunews.net)",
            microarchitectures=("sunny-cove",)),
    Default(12, 10, 6, "10 lanes measured on Skylake (D. Lemire, 2018); 10 fill buffers since Nehalem (" + _INTEL + ")",
            microarchitectures=("nehalem", "sandy-bridge", "ivy-bridge", "haswell", "broadwell", "skylake")),
    Default(48, 28, 20, "28 measured on the M1 (D. Lemire: Memory access on the Apple M1 processor, 2021)",
            microarchitectures=("firestorm",)),
    Default(48, 24, 12, "between Golden Cove's 16 and the M1's 28 where nobody published them; second caches of "
            "Neoverse take 46 to 96 requests (m)", in_order=False, width=7, year=2015),
    Default(24, 12, 8, "Skylake 10, Sunny Cove 12, Neoverse N1 20, A64FX 12 (m)", in_order=False, year=2015),
    Default(12, 8, 4, "Nehalem to Haswell 10, K10 8, Core 2 8 (m)", in_order=False, year=2006),
    Default(10, 4, 1, "from one (blocking) to ten fill buffers (" + _INTEL + ")"),
)  # fmt: skip

CACHE_LATENCY = (
    Default(2, 4, 5, _HP, of="cycles", level="first"),
    Default(25, 40, 80, _HP, of="cycles", level="last"),
    Default(8, 14, 30, _HP, of="cycles", level="middle"),
)
MEMORY_LATENCY = (
    Default(
        70e-9, 110e-9, 180e-9, "of those shipped: Graviton4 110, EPYC (Milan, Turin) 139 and 152", year=2017, width=4
    ),
    Default(50e-9, 90e-9, 200e-9, _HP),
)
CORE_BANDWIDTH = (
    Default(1.0, 0.5, 0.25, "a Xeon E5462 drew 0.28 of its bus (Narayanan, Norris, Hovland, ICPP Workshops 2010)",
            of="peak_bandwidth_bytes_per_s"),
)  # fmt: skip
LINES_IN_FLIGHT = Default(48, 24, 12, "45 on an AMD EPYC: 19.7 GB/s at 146 ns (foretrace calibrate)")
"""Lines of streams that a core and its prefetchers have in flight at most, where only a socket's peak is known."""
FIRST_TOUCH = (
    Default(0.1e-6, 0.5e-6, 2.5e-6, "a fault takes 0.1 to 0.25 us on bare metal and clearing the page as long "
            "again; in virtual machines whose host must find the memory 2 to 3 us (an EPYC under KVM)",
            of="4 KiB of page"),
)  # fmt: skip
LAUNCH = (
    Default(4e-6, 9e-6, 20e-6, "3 us and more of an empty kernel, 11 us until many blocks are done (NVIDIA's "
            "developer forum, threads 233645 and 221413), 20 us from PyTorch (NVIDIA: Understanding the Visualization "
            "of Overhead and Latency in Nsight Systems)"),
)  # fmt: skip
