"""Builds the C cores: Python extensions, the plugin that QEMU loads, and the library that programs link with.

Sources, headers and packages are found by globs: a new file needs no entry here. All else is in pyproject.toml.
"""

from __future__ import annotations

import os
from pathlib import Path

from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext

FOLDERS = ("tracer", "cache_sim", "replay", "profiles", "benchmarks")
"""Installed as `foretrace.tracer` and so on: names this general must not land bare in site-packages."""

WARNINGS = ["-std=c11", "-O3", "-Wall", "-Wextra", "-Werror", "-fvisibility=hidden"]
KERNEL_FLAGS = [*WARNINGS, "-falign-functions=64", "-falign-loops=64"]
"""Kernels and their loops start at a cache line: elsewhere some took half as long again."""

HEADERS = sorted(str(path) for folder in ("foretrace", *FOLDERS) for path in Path(folder).rglob("*.h"))
WRITER = ["tracer/transport/*.c"]
"""The writing side of the address stream, compiled into each producer."""


class SharedObject(Extension):
    """A shared object without Python in it, loaded by other programs and not imported."""


class BuildNative(build_ext):
    """build_ext that also makes plain shared objects, under their own name and without PyInit."""

    def get_ext_filename(self, fullname: str) -> str:
        """Keep `name.so` for what other programs load; Python's own suffix for the rest."""
        if isinstance(self._named(fullname), SharedObject):
            return os.path.join(*fullname.split(".")) + ".so"  # noqa: PTH118 - setuptools works on str paths
        return super().get_ext_filename(fullname)

    def get_export_symbols(self, ext: Extension) -> list[str]:
        """No PyInit in what other programs load."""
        return [] if isinstance(ext, SharedObject) else super().get_export_symbols(ext)

    def _named(self, fullname: str) -> Extension | None:
        last = fullname.rpartition(".")[2]
        return next((e for e in self.extensions if e.name.rpartition(".")[2] == last), None)


def native(
    name: str,
    *sources: str,
    kind: type[Extension] = Extension,
    flags: list[str] = WARNINGS,
    threads: bool = False,
    **options: list[str] | list[tuple[str, str | None]],
) -> Extension:
    """The extension `foretrace.<name>` of C files that match the globs `sources`; includes are relative to the root."""
    return kind(
        f"foretrace.{name}",
        sources=sorted(str(path) for pattern in sources for path in Path().glob(pattern)),
        depends=HEADERS,
        include_dirs=["."],
        extra_compile_args=[*flags, *(["-pthread"] if threads else [])],
        **options,
    )


setup(
    cmdclass={"build_ext": BuildNative},
    packages=[
        *find_packages(include=["foretrace*"]),
        *(f"foretrace.{folder}" for folder in FOLDERS),
        *(f"foretrace.{folder}.{package}" for folder in FOLDERS for package in find_packages(folder)),
    ],
    package_dir={"foretrace": "foretrace", **{f"foretrace.{folder}": folder for folder in FOLDERS}},
    ext_modules=[
        native("cache_sim.simulation._core", "cache_sim/*/*.c", threads=True),
        native(
            "tracer.reader._reader",
            "tracer/reader/*.c",
            "tracer/reader/*/*.c",
        ),
        native("tracer.analysis.machine_code._distances", "tracer/analysis/machine_code/*.c"),
        native("tracer.source.c_code._syntax", "tracer/source/c_code/*.c", libraries=["dl"]),
        native("tracer.stored._streams", "tracer/stored/*.c", threads=True),
        native("tracer.python._agent", "tracer/python/**/*.c", *WRITER),
        native("tracer.events.libforetrace_events", "tracer/events/*.c", kind=SharedObject, threads=True),
        native("tracer.qemu.plugin", "tracer/qemu/*.c", *WRITER, kind=SharedObject),
        native("replay.core._core_model", "replay/core/*.c", libraries=["m"]),
        native("replay.engine._engine", "replay/engine/*.c", libraries=["m"]),
        native("replay.ranks._time_independent", "replay/ranks/*.c"),
        native(
            "benchmarks.kernels._kernels",
            "benchmarks/kernels/*.c",
            flags=KERNEL_FLAGS,
            threads=True,
            define_macros=[("FT_COMPILER_FLAGS", f'"{" ".join(KERNEL_FLAGS)}"')],  # for the metadata of a profile
        ),
    ],
)
