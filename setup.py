"""Builds the C cores: Python extensions, and the plugin that QEMU loads.

Everything else is declared in pyproject.toml.
"""

from __future__ import annotations

import os

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

WARNINGS = ["-std=c11", "-O3", "-Wall", "-Wextra", "-Werror", "-fvisibility=hidden"]

SIMULATORS = [
    "cache",
    "memory_feed",
    "memory_system",
    "recency",
    "reuse",
    "set_order",
    "simulation",
    "statistics",
    "tags",
    "workers",
]
WRITER_SOURCES = ["tracer/writer.c", "tracer/children.c"]
WRITER_HEADERS = ["tracer/stream.h", "tracer/writer.h", "tracer/children.h"]
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
        "list",
    ),
    *("markers", "numpy", "other", "record", "search", "settrace", "sparse", "templates", "ufunc", "unseen"),
]
AGENT_HEADERS = [
    *("", "_blocks", "_buffers", "_bytecode", "_code", "_frames"),
    *("_hooks", "_key", "_markers", "_numpy", "_sparse"),
]

STREAM_PARTS = ["block_queue", "foreign", "foreign_binary", "foreign_text", "stored_reader", "stored_writer"]


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
            "foretrace.cache_sim._core",
            sources=[f"cache_sim/{n}.c" for n in ("_core", *SIMULATORS)],
            depends=[f"cache_sim/{n}.h" for n in ("access", "sets", *SIMULATORS)],
            extra_compile_args=[*WARNINGS, "-pthread"],
        ),
        Extension(
            "foretrace.tracer._reader",
            sources=["tracer/_reader.c", "tracer/reader.c", "tracer/signals.c"],
            depends=["tracer/stream.h", "tracer/reader.h", "tracer/signals.h", "cache_sim/access.h"],
            include_dirs=["."],
            extra_compile_args=WARNINGS,
        ),
        Extension(
            "foretrace.tracer._streams",
            sources=["tracer/_streams.c", *(f"tracer/{part}.c" for part in STREAM_PARTS)],
            depends=[*(f"tracer/{header}.h" for header in ("block_queue", "foreign", "stored")), "cache_sim/access.h"],
            include_dirs=["."],
            extra_compile_args=[*WARNINGS, "-pthread"],
        ),
        Extension(
            "foretrace.tracer._pyagent",
            sources=["tracer/_pyagent.c", *WRITER_SOURCES, *(f"tracer/pyagent_{part}.c" for part in AGENT_PARTS)],
            depends=[*WRITER_HEADERS, *(f"tracer/pyagent{part}.h" for part in AGENT_HEADERS)],
            extra_compile_args=WARNINGS,
        ),
        Extension(
            "foretrace.benchmarks._kernels",
            sources=["benchmarks/_kernels.c", "benchmarks/kernels.c"],
            depends=["benchmarks/kernels.h"],
            extra_compile_args=WARNINGS,
        ),
        SharedObject(
            "foretrace.tracer.qemu_plugin",
            sources=["tracer/qemu_plugin.c", "tracer/plain_access.c", *WRITER_SOURCES],
            depends=[*WRITER_HEADERS, "tracer/plain_access.h", "tracer/qemu_api.h"],
            extra_compile_args=WARNINGS,
        ),
    ],
)
