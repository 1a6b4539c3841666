"""Configures structlog when the program imports it, without rich and colorama.

An operator that logs through Steersman alone writes JSON lines without structlog, and starts faster. In a program that
imports structlog, lines of both have the same form.

structlog imports rich and colorama when they are installed, for tracebacks that show local variables and for consoles
of Windows. Steersman configures plain tracebacks, because local variables may contain Secrets and tokens.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType
from typing import cast

__all__ = ["on_import", "without_rich"]

_STRUCTLOG = "structlog"


@contextmanager
def without_rich() -> Generator[None]:
    """Make the import of rich and colorama fail, as if they were not installed, unless they are loaded."""
    absent = [name for name in ("rich", "colorama") if name not in sys.modules]
    for name in absent:
        sys.modules[name] = cast(ModuleType, None)  # importlib takes None for "cannot be imported"
    try:
        yield
    finally:
        for name in absent:
            sys.modules.pop(name, None)


def on_import(configure: Callable[[], None]) -> None:
    """Call `configure` after the program has imported structlog; at once if it is loaded."""
    if _STRUCTLOG in sys.modules:
        configure()
    else:
        sys.meta_path.insert(0, _Finder(configure))


class _Finder:
    """Finds structlog once, with a loader that configures it."""

    def __init__(self, configure: Callable[[], None]) -> None:
        self._configure = configure

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None, /
    ) -> ModuleSpec | None:
        """Return the spec of structlog, and None for all other modules."""
        if fullname != _STRUCTLOG:
            return None
        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(fullname, path)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(spec.loader.name, spec.loader.path, self._configure)
        return spec


class _Loader(SourceFileLoader):
    def __init__(self, name: str, path: str, configure: Callable[[], None]) -> None:
        super().__init__(name, path)
        self._configure = configure

    def exec_module(self, module: ModuleType) -> None:
        with without_rich():
            super().exec_module(module)
        self._configure()
