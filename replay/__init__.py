"""The model: a signature on a machine profile gives a prediction.

The package can be called: `foretrace.replay(signature, machine, ...)` is the verb, `foretrace.api.replays.replay`.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any


class _CallablePackage(ModuleType):
    """A package that is a verb as well: there is one name for both. The verb is part of the face, above this part."""

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """Call `foretrace.api.replays.replay`."""
        return importlib.import_module("foretrace.api.replays").replay(*arguments, **options)


sys.modules[__name__].__class__ = _CallablePackage
