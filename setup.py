"""Builds the C cores: Python extensions, and the plugin that QEMU loads.

Everything else is declared in pyproject.toml.
"""

from __future__ import annotations

import os

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

WARNINGS = ["-std=c11", "-O3", "-Wall", "-Wextra", "-Werror", "-fvisibility=hidden"]

SIMULATORS = [
    "array_lines",
    "array_streams",
    "array_walk",
    "cache",
    "memory_feed",
    "memory_system",
    "recency",
    "repeats",
    "reuse",
    "set_order",
    "simulation",
    "statistics",
    "tags",
    "workers",
]
SIMULATOR_HEADERS = ["access", "aged_sets", "lanes", "recent_lines", "reuse_samples", "sets", "wide_sets"]
REUSE_PARTS = [f"reuse_{part}" for part in ("arrays", "bursts", "classes", "counts", "replays", "tracks")]
WRITER_SOURCES = ["tracer/transport/writer.c", "tracer/processes/children.c", "tracer/transport/waiting.c"]
WRITER_HEADERS = [
    "tracer/transport/stream.h",
    "tracer/transport/futex.h",
    "tracer/transport/writer.h",
    "tracer/processes/children.h",
    "tracer/transport/waiting.h",
]
AGENT_PARTS = [
    *(
        "blocks",
        "buffers",
        "bytecode",
        "code",
        "conversions",
        "cython",
        "exec",
        "flat",
        "hooks",
        "index",
        "key",
        "linear",
    ),
    *("lines", "list", "markers", "numpy", "other", "processes", "record", "search", "settrace", "sparse"),
    *("templates", "timing", "ufunc", "unseen"),
]
AGENT_HEADERS = [
    *("agent", "blocks", "buffers", "bytecode", "code", "frames"),
    *("hooks", "key", "lines", "markers", "numpy", "processes", "sparse", "timing"),
]

READER_PARTS = ("reader", "block_path", "samples", "signals")
READER_OWN_PARTS = ("side_table", "edges", "learning", "arrays")
STREAM_PARTS = ["block_queue", "foreign", "foreign_binary", "foreign_text", "stored_reader", "stored_writer"]
STREAM_HEADERS = ["block_queue", "foreign", "stored"]
KERNEL_PARTS = ["kernels", "memory_kernels", "window_kernels", "core_kernels", "code_kernels", "fp_kernels", "together"]
PLUGIN_HEADERS = ["bursts", "plain_access", "qemu_api", "store_exclusive"]


KERNEL_FLAGS = [*WARNINGS, "-falign-functions=64", "-falign-loops=64"]
"""What is measured begins with a line of code, and so does each loop: where these lay by accident of what is linked
before them, some took half as long again in one build as in another."""


class SharedObject(Extension):
    """A shared object without Python in it, loaded by another program (QEMU) and not imported."""


class BuildNative(build_ext):
    """build_ext that also makes plain shared objects, under their own name and without PyInit."""

    def get_ext_filename(self, fullname: str) -> str:
        """Keep `name.so` for what QEMU loads; Python's own suffix for the rest."""
        if isinstance(self._named(fullname), SharedObject):
            return os.path.join(*fullname.split(".")) + ".so"  # noqa: PTH118 - setuptools works on str paths
        return super().get_ext_filename(fullname)

    def get_export_symbols(self, ext: Extension) -> list[str]:
        """No PyInit in what QEMU loads."""
        return [] if isinstance(ext, SharedObject) else super().get_export_symbols(ext)

    def _named(self, fullname: str) -> Extension | None:
        last = fullname.rpartition(".")[2]
        return next((e for e in self.extensions if e.name.rpartition(".")[2] == last), None)


setup(
    cmdclass={"build_ext": BuildNative},
    ext_modules=[
        Extension(
            "foretrace.cache_sim.simulation._core",
            sources=[f"cache_sim/{n}.c" for n in ("_core", *SIMULATORS, *REUSE_PARTS)],
            depends=[f"cache_sim/{n}.h" for n in (*SIMULATOR_HEADERS, *SIMULATORS)],
            extra_compile_args=[*WARNINGS, "-pthread"],
        ),
        Extension(
            "foretrace.tracer.reader._reader",
            sources=[
                *(f"tracer/{part}.c" for part in ("_reader", *READER_PARTS)),
                *(f"tracer/reader_{part}.c" for part in READER_OWN_PARTS),
            ],
            depends=[
                *(f"tracer/{part}.h" for part in ("stream", "futex", "reader_parts", *READER_PARTS)),
                *(f"cache_sim/{part}.h" for part in ("access", "lanes")),
            ],
            include_dirs=["."],
            extra_compile_args=WARNINGS,
        ),
        Extension(
            "foretrace.tracer.machine_code._distances",
            sources=[f"tracer/machine_code/{part}.c" for part in ("_distances", "distances")],
            depends=["tracer/machine_code/distances.h"],
            extra_compile_args=WARNINGS,
        ),
        Extension(
            "foretrace.tracer.stored._streams",
            sources=[f"tracer/streams/{part}.c" for part in ("_streams", *STREAM_PARTS)],
            depends=[
                *(f"tracer/streams/{part}.h" for part in ("block_queue", "foreign", "stored")),
                "cache_sim/simulation/access.h",
            ],
            include_dirs=["."],
            extra_compile_args=[*WARNINGS, "-pthread"],
        ),
        Extension(
            "foretrace.tracer.python._agent",
            sources=[*WRITER_SOURCES, *(f"tracer/python/{part}.c" for part in ("_agent", *AGENT_PARTS))],
            depends=[*WRITER_HEADERS, *(f"tracer/python/{part}.h" for part in AGENT_HEADERS)],
            include_dirs=["."],
            extra_compile_args=WARNINGS,
        ),
        Extension(
            "foretrace.benchmarks.kernels._kernels",
            sources=[f"benchmarks/{part}.c" for part in ("_kernels", *KERNEL_PARTS)],
            depends=[f"benchmarks/{part}.h" for part in ("kernels", "kernel_parts", "together")],
            define_macros=[("FT_COMPILER_FLAGS", f'"{" ".join(KERNEL_FLAGS)}"')],  # for the metadata of a profile
            extra_compile_args=[*KERNEL_FLAGS, "-pthread"],
        ),
        Extension(
            "foretrace.replay.core._core_model",
            sources=[f"replay/{part}.c" for part in ("_core_model", "core_model", "branches")],
            depends=[f"replay/{part}.h" for part in ("core_model", "branches")],
            extra_compile_args=WARNINGS,
            libraries=["m"],
        ),
        SharedObject(
            "foretrace.tracer.qemu.plugin",
            sources=[*(f"tracer/qemu/{part}.c" for part in ("plugin", "bursts", "plain_access")), *WRITER_SOURCES],
            depends=[
                *WRITER_HEADERS,
                *(f"tracer/qemu/{part}.h" for part in PLUGIN_HEADERS),
            ],
            include_dirs=["."],
            extra_compile_args=WARNINGS,
        ),
    ],
)
