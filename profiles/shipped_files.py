"""TOML files that come with foretrace, in a folder of this package: machines, interconnects."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable


@dataclass(frozen=True, slots=True)
class ShippedFiles:
    """The TOML files of a folder.

    Attributes:
        folder: name of the folder.
    """

    folder: str

    def names(self) -> tuple[str, ...]:
        """Names of the files without their endings, sorted."""
        files = (entry.name for entry in self._place().iterdir())
        return tuple(sorted(name.removesuffix(".toml") for name in files if name.endswith(".toml")))

    def content(self, name: str) -> bytes:
        """The file of this name."""
        return (self._place() / f"{name}.toml").read_bytes()

    def _place(self) -> Traversable:
        return resources.files(__package__) / self.folder
