"""Imports structlog without rich and colorama.

structlog imports both when they are installed, for tracebacks that show local variables and for consoles of Windows.
Steersman configures plain tracebacks, because local variables may contain Secrets and tokens. The two imports would
cost a starting operator more time and memory than structlog itself.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from types import ModuleType
from typing import cast

__all__ = ["structlog"]


@contextmanager
def _hidden(*names: str) -> Generator[None]:
    """Make the import of modules that are not loaded yet fail, as if they were not installed."""
    absent = [name for name in names if name not in sys.modules]
    for name in absent:
        sys.modules[name] = cast(ModuleType, None)  # importlib takes None for "cannot be imported"
    try:
        yield
    finally:
        for name in absent:
            sys.modules.pop(name, None)


if "structlog" in sys.modules:
    import structlog
else:
    with _hidden("rich", "colorama"):
        import structlog
