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
_DISCLOSED = "makers' guides, Chips and Cheese and D. Johnson's measurements (m)"
_GENERAL = "the range over cores of about 2006 to 2024 (Agner Fog, uops.info; m)"

WIDTH = (
    Default(2, 2, 1, _LLVM, in_order=True),
    Default(6, 4, 3, _DISCLOSED, in_order=False, year=2015),
    Default(4, 2, 1, _GENERAL),
)
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
THREAD_WAKE = (
    Default(3e-6, 10e-6, 50e-6, "foretrace calibrate, 14 to 18 us on Zen 4 in a virtual machine; else assumed"),
)
THREAD_WAKE_CALL = (
    Default(1e-6, 3e-6, 10e-6, "foretrace calibrate, 7 to 8 us on Zen 4 in a virtual machine; else assumed"),
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
        11,
        17,
        23,
        "11 (Neoverse) to 17 (Golden Cove) by their makers (m), 17.6 (Zen 3), 19.4 (Redwood Cove) and 22.2 (Zen 5) by "
        "foretrace calibrate",
        year=2015,
    ),
    Default(5, 12, 20, _FOG),
)
TAKEN_BRANCHES = (Default(2, 1, 0.5, _FOG),)
INT_ADDS = (
    Default(1.0, 0.75, 0.5, "three of four that are issued, no more than four (vendors' guides; m)", of="the width"),
)
FORWARD = (Default(4, 6, 13, _FOG),)

WINDOW = (
    Default(1024, 1024, 1024, "the first use of a value that is missing is the limit", in_order=True),
    Default(630, 384, 224, f"Zen 5 448, Neoverse V2 320, Firestorm 630: {_DISCLOSED}", width=7),
    Default(448, 224, 112, "Skylake, Zen 2 and Sunny Cove 224 to 352", width=5),
    Default(336, 168, 84, "Nehalem 128, Haswell 192, Cortex-A72 128, N1 128", width=4),
    Default(144, 72, 36, "AMD K10 72", width=3),
    Default(64, 32, 16, "PowerPC 750 and ARM11-class cores", width=2),
    Default(16, 8, 4, "PowerPC 450 (LLVM, PPCSchedule440.td)"),
)


STORING = (
    Default(16, 8, 4, _LLVM, in_order=True),
    Default(0.3, 0.22, 0.1, f"Golden Cove 112 of 512, Zen 5 104 of 448, Firestorm 60 of 630: {_DISCLOSED}",
            of="window_instructions", width=7),
    Default(0.5, 0.25, 0.125, "measured on Zen 3: 48 to 64 of 256", of="window_instructions"),
)  # fmt: skip
SCHEDULED = (
    Default(1024, 1024, 1024, "no limit: what waits stops all behind it", in_order=True),
    Default(0.25, 0.15, 0.075, f"Zen 5 114 of 448, Firestorm 144 and Golden Cove 97 of 630 and 512: {_DISCLOSED}",
            of="window_instructions", width=7),
    Default(0.5, 0.25, 0.125, "Zen 3 64 of 256 (AMD publication 56665, section 2.11)", of="window_instructions"),
)  # fmt: skip

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
    Default(60, 100, 140, "of the mesh: 70 (Ice Lake) to 125 cycles (Sapphire Rapids; Chips and Cheese; m), 139 on "
            "Granite Rapids (foretrace calibrate)", of="cycles", level="last",
            microarchitectures=("sunny-cove", "golden-cove", "redwood-cove")),
    Default(25, 40, 80, _HP, of="cycles", level="last"),
    Default(8, 14, 30, _HP, of="cycles", level="middle"),
)  # fmt: skip
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
_BW_MEM = "lmbench's bw_mem in the cloud (github.com/SpareCores/sc-inspector-data)"
LINES_IN_FLIGHT = (
    Default(58, 44, 34, "a core reads 19.6 GB/s (foretrace calibrate, an EPYC of Zen 3) to 33.5 with its two threads "
            f"(EPYC 7763, {_BW_MEM}): 34 to 58 lines at the 110 ns assumed of memory", microarchitectures=("zen3",)),
    Default(80, 60, 45, f"a core reads 34.6 GB/s at 110 ns (EPYC 9R14 and 9V84, {_BW_MEM})",
            microarchitectures=("zen4",)),
    Default(111, 80, 55, "a core reads 46.8 GB/s: 80 lines at 110 ns, 111 at the 152 ns there (foretrace calibrate, an "
            "EPYC of Zen 5)", microarchitectures=("zen5",)),
    Default(60, 26, 18, "a core reads 15.4 GB/s (8360Y), 14.5 (8470; kerncraft, machine files), 14.9 (Granite Rapids, "
            "foretrace calibrate: 60 lines at 261 ns)",
            microarchitectures=("sunny-cove", "golden-cove", "raptor-cove", "redwood-cove")),
    Default(175, 130, 100, "a core reads 58 GB/s (M1) to 102 GB/s (M1 Max; AnandTech, 2020 and 2021; m)",
            microarchitectures=("firestorm",)),
    Default(75, 53, 40, f"a core reads 30.8 GB/s at 110 ns (Graviton3 and Graviton4, {_BW_MEM})",
            microarchitectures=("neoverse-v1", "neoverse-v2", "neoverse-n2")),
    Default(80, 45, 22, "13 GB/s (8488C) to 47 (Zen 5) at 110 ns, over the cores above and those that read 30 to 35: "
            f"{_BW_MEM}", in_order=False, year=2020, width=5),
    Default(48, 24, 12, "45 on an AMD EPYC: 19.7 GB/s at 146 ns (foretrace calibrate)"),
)  # fmt: skip
STORE_BANDWIDTH = (
    Default(1.07, 0.75, 0.6, f"0.68 (EPYC 7763), 0.78 (9R14), 1.07 (Xeon 8488C), 0.64 (EPYC 9R45): {_BW_MEM}",
            of="the bandwidth of loads", in_order=False, year=2015, instruction_sets=("x86_64",)),
    Default(1.3, 0.67, 0.35, "0.36 (Graviton3) and 0.38 (Graviton4) where a quarter of each line is stored to "
            f"({_BW_MEM}); 1.3 of whole lines (Graviton4, as its copies imply); 0.67 (Raspberry Pi 5)",
            of="the bandwidth of loads", in_order=False, year=2015, instruction_sets=("aarch64",)),
    Default(1.0, 0.5, 0.5, "a line that is stored to is read first", of="the bandwidth of loads"),
)  # fmt: skip
_LEVEL_RATES = "bytes a cycle of a core's stream"
CACHE_RATE = (
    Default(32, 25, 18, "28 (EPYC 9R14), 23 (7763, Xeon 8488C), 26 (Graviton3), 25 (Graviton4) over 256 KiB: "
            f"{_BW_MEM}", of=_LEVEL_RATES, level="middle", in_order=False, year=2017, width=4),
    Default(12, 8.5, 6, "8.5 (Xeon 8488C) over 4 to 16 MiB: " + _BW_MEM, of=_LEVEL_RATES, level="last",
            microarchitectures=("sunny-cove", "golden-cove", "raptor-cove", "redwood-cove")),
    Default(26, 17, 10, "24 (EPYC 9R14), 17 (7763), 19 (Graviton3), 12 to 14 (Graviton4) over 4 to 16 MiB: " + _BW_MEM,
            of=_LEVEL_RATES, level="last", in_order=False, year=2017, width=4),
    Default(64, 16, 8, "a load or two of 8 to 32 bytes", of=_LEVEL_RATES, level="first"),
    Default(24, 10, 4, "Core 2 to Haswell; in-order cores less (m)", of=_LEVEL_RATES, level="middle"),
    Default(14, 6, 2, "Nehalem to Haswell (m)", of=_LEVEL_RATES, level="last"),
)  # fmt: skip
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

# ---- messages ---------------------------------------------------------------------------------------------------

_OSU_WITHIN = (
    "osu_latency of two processes of a node: 0.22 us (an EPYC; libfabric, pull request 8680) to 0.63 us (a Xeon "
    "E5-2699 v3; Open MPI, issue 5490)"
)
MESSAGE_LATENCY = (Default(0.2e-6, 0.5e-6, 2e-6, _OSU_WITHIN),)
MESSAGE_BANDWIDTH = (
    Default(15e9, 7e9, 3e9, "7.3 GB/s of 4 MiB between two processes of a Xeon E5-2699 v3 (Open MPI, issue 5490)"),
)
EAGER_THRESHOLD = (
    Default(65536, 16384, 4096, "Open MPI 4.1: 4096 bytes in shared memory, 65536 over TCP (ompi_info); MPICH 64 KiB "
            "and more (m)"),
)  # fmt: skip
SEND_OVERHEAD = (Default(0.1, 0.25, 0.35, "of which the processors' parts are less than all (m)", of="latency_s"),)
RECEIVE_OVERHEAD = (Default(0.1, 0.25, 0.35, "of which the processors' parts are less than all (m)", of="latency_s"),)
HOP_LATENCY = (
    Default(0.09e-6, 0.15e-6, 0.5e-6, "90 ns of an InfiniBand switch (m), 350 ns of Slingshot's (De Sensi et al., "
            "SC20), with the cable (m)"),
)  # fmt: skip
RENDEZVOUS = Default(
    1.0,
    2.0,
    3.2,
    "a request to send and its answer go ahead of a long message: 1.7 (cray-aries) and 3.2 (aws-efa-hpc6a) by the "
    "steps in their times",
    of="latency_s",
)
"""Latency of a message above the eager threshold, where times of messages were not measured."""
_INTERCONNECTS = "over the interconnects that come with foretrace"
NODE_LATENCY = (Default(0.9e-6, 1.6e-6, 13e-6, _INTERCONNECTS),)
NODE_BANDWIDTH = (Default(24e9, 12e9, 2.8e9, _INTERCONNECTS),)

# ---- accelerators: ranges over GPUs of about 2016 to 2024, `fast, typical, slow` -------------------------------

_CUDA = "NVIDIA: CUDA C++ Programming Guide, compute capabilities and arithmetic throughput (m)"
_CDNA = "AMD: Instinct MI200 and CDNA 3 instruction set architectures (m)"
_SHIPPED = "over the machines that come with foretrace"

AMD_COMPUTE = ("cdna", "cdna2", "cdna3")
NVIDIA_COMPUTE = ("pascal", "volta", "ampere", "hopper", "blackwell")

RESIDENT_THREADS = (
    Default(1024, 1024, 1024, _CUDA, microarchitectures=("turing",)),
    Default(2560, 2048, 1024, f"2048 on most: {_CUDA}; GCN to CDNA 2 8 to 10 waves of 64 on 4 units (m)"),
)
WARP = (
    Default(64, 64, 64, _CDNA, microarchitectures=AMD_COMPUTE),
    Default(32, 32, 64, f"32: {_CUDA}; 64: {_CDNA}"),
)
FP64_RATE = (
    Default(1.0, 0.95, 0.7, "the peak, less what waits for operands and for lower clocks under load",
            of="cores x clock_hz x peak_flops_per_cycle"),
    Default(6e13, 1e13, 3e11, "consumer GPUs to data-centre GPUs"),
)  # fmt: skip
FP32_RATE = (
    Default(2, 2, 1, f"2 by their data sheets; without packed operations 1 on CDNA (m), {_SHIPPED}",
            of="fp64_flops_per_s", microarchitectures=(*NVIDIA_COMPUTE, *AMD_COMPUTE)),
    Default(64, 2, 1, "1 to 2 on data-centre GPUs, 16 to 64 on others (m)", of="fp64_flops_per_s"),
)  # fmt: skip
INTEGER_RATE = (
    Default(0.5, 0.25, 0.2, f"64 additions a clock where 64 (A100) or 128 (H100) fused operations are: {_CUDA}",
            of="fp32_flops_per_s"),
)  # fmt: skip
SPECIAL_RATE = (
    Default(0.125, 0.0625, 0.04, f"16 a clock where 64 (A100) or 128 (H100) fused operations are: {_CUDA}",
            of="fp32_flops_per_s"),
)  # fmt: skip
ATOMICS = (
    Default(1 / 8, 1 / 32, 1 / 256, "an atomic for each 32-byte sector that the second cache moves; more where several "
            "share a sector, less for those that wait for memory", of="l2_bytes_per_s"),
)  # fmt: skip
SAME_ADDRESS = (
    Default(4.0, 0.5, 0.02, "one a clock of integers at one address, combined in a warp more; fractions of it in "
            "floating point (m)", of="clock_hz"),
)  # fmt: skip
_CACHE_PEAKS = (
    "of the peak were measured: 0.71 (MI210), 0.75 (A100), 0.77 (H100), 0.96 (H200) of second caches (D. Ernst: "
    "gpu-benches, gpu-l2-cache, over 128 bytes a clock and slice; m), 0.98 of an Infinity Cache (RX 6900 XT, there), "
    "0.69 of the MI300X's (Chips and Cheese; m)"
)
L2_RATE = (
    Default(0.97, 0.8, 0.65, _CACHE_PEAKS, of="l2_peak_bytes_per_s"),
    Default(4.0, 2.5, 1.2, f"2.5 (H200) to 3.7 (MI210) of near halves: {_SHIPPED}", of="memory_bytes_per_s"),
)
LAST_CACHE_RATE = (Default(0.97, 0.8, 0.65, _CACHE_PEAKS, of="last_cache_peak_bytes_per_s"),)
L1_RATE = (
    Default(1.0, 0.95, 0.8, "0.94 (MI210), 0.98 (A100) and 0.99 (H100) of the peak were measured (D. Ernst: "
            "gpu-benches, gpu-cache)", of="l1_peak_bytes_per_s"),
    Default(128, 100, 50, f"64 bytes (CDNA 2) or 128 bytes a clock and multiprocessor (m): {_CUDA}",
            of="cores x clock_hz"),
)  # fmt: skip
THREAD_RATE = (
    Default(1 / 4, 1 / 5, 1 / 12, "from 4 (Volta and later) to 8 clocks (CDNA) between an instruction and one that "
            "uses its result, more in double precision (m)", of="clock_hz"),
)  # fmt: skip

MULTIPROCESSORS = Default(304, 100, 16, "16 to 304 compute units or multiprocessors: " + _SHIPPED)
DEVICE_CLOCK = Default(2.6e9, 1.6e9, 1.0e9, "1.4 to 2.1 GHz: " + _SHIPPED)
DEVICE_BANDWIDTH = Default(
    0.94, 0.85, 0.6, "0.63 (MI300A) to 0.92 (H100): " + _SHIPPED, of="peak_bandwidth_bytes_per_s"
)
UNKNOWN_BANDWIDTH = Default(4e12, 1e12, 1e11, "DDR of FPGAs and HBM of data-centre GPUs (m)")
DEVICE_LATENCY = Default(350e-9, 500e-9, 1000e-9, "375 ns (H100), 404 (A100), 391 (MI210): " + _SHIPPED)
DEVICE_L1 = Default(262144, 131072, 16384, "16 KiB (CDNA 2) to 256 KiB (H100): " + _SHIPPED)
DEVICE_L2 = Default(268435456, 6291456, 2097152, "4 MiB (P100) and 6 MiB (V100) to 50 MiB (H100), 256 MiB (MI300X); m")
