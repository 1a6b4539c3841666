"""A name that a package loads at its first use is never the name of one of its submodules.

The import of a submodule sets the attribute of that name on its package, so such a name would be the export or the
module, depending on the order of imports.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest


def packages_of(distribution: str) -> Iterator[str]:
    yield distribution
    path = importlib.import_module(distribution).__path__
    yield from (found.name for found in pkgutil.walk_packages(path, f"{distribution}.") if found.ispkg)


def ambiguous_names(package: ModuleType) -> list[str]:
    """The submodules whose names the package also loads as something else than the module."""
    load = vars(package).get("__getattr__")
    found: list[str] = []
    for module in pkgutil.iter_modules(package.__path__) if load else ():
        try:
            value = load(module.name)
        except AttributeError:
            continue
        if value is not importlib.import_module(f"{package.__name__}.{module.name}"):
            found.append(module.name)
    return found


@pytest.mark.parametrize("package", [*packages_of("steersman"), *packages_of("steersman_cluster")])
def test_no_lazy_export_has_the_name_of_a_submodule(package: str) -> None:
    assert ambiguous_names(importlib.import_module(package)) == []


def test_a_lazy_export_with_the_name_of_a_submodule_is_found_whatever_was_imported_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "ambiguous"
    package.mkdir()
    (package / "__init__.py").write_text(
        "from importlib import import_module\n"
        "def __getattr__(name):\n"
        "    if name == 'whole':\n"
        "        return import_module('ambiguous.whole')\n"
        "    if name not in ('taken', 'free'):\n"
        "        raise AttributeError(name)\n"
        "    return object()\n"
    )
    for name in ("taken", "whole", "other"):
        (package / f"{name}.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    try:
        loaded = importlib.import_module("ambiguous")
        assert ambiguous_names(loaded) == ["taken"]
        importlib.import_module("ambiguous.taken")
        assert ambiguous_names(loaded) == ["taken"]
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] == "ambiguous"]:
            del sys.modules[name]
