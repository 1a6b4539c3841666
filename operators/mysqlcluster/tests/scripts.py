"""The scripts of the directory `hack`, as modules."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

DIRECTORY = Path(__file__).parents[1] / "hack"


def script(name: str) -> ModuleType:
    """Return a script as a module; it finds its neighbours as it does when it runs."""
    if str(DIRECTORY) not in sys.path:
        sys.path.insert(0, str(DIRECTORY))
    return importlib.import_module(name)
