"""Operators whose processes share no memory: each process imports the modules of the operator's package again."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from steersman.operator.operator import Operator

__all__ = ["reimporting"]


def reimporting(target: str) -> Callable[[], Operator]:
    """Return a factory of an operator: the first call returns the imported operator, each later call imports it again.

    A new import includes all modules of the top-level package of the target, and no others.

    Args:
        target: `module:attribute`; without an attribute, the only operator of the module.
    """
    from steersman.testing.running import operator_of

    first: list[Operator] = [operator_of(target)]

    def make() -> Operator:
        if first:
            return first.pop()
        name = target.partition(":")[0]
        package = name.partition(".")[0]
        before = {key: sys.modules[key] for key in _modules_of(package)}
        for key in before:
            del sys.modules[key]
        try:
            importlib.import_module(name)
            return operator_of(target)
        finally:
            _restore(before, package)

    return make


def _restore(before: Mapping[str, ModuleType], package: str) -> None:
    """Restore the modules that the test has imported."""
    modules: dict[str, Any] = sys.modules
    for key in _modules_of(package):
        del modules[key]
    modules.update(before)


def _modules_of(package: str) -> list[str]:
    below = f"{package}."
    return [key for key in list(sys.modules) if key == package or key.startswith(below)]
