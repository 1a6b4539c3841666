"""Modules of the tests of an operator, such as the scenarios that it shares with its tests on process nodes."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from types import ModuleType

from tests.node.commands import REPOSITORY


def operator_tests(project: str, module: str) -> ModuleType:
    """Import a module of `operators/PROJECT/tests`, whose package has the name `PROJECT_tests` here.

    The modules import each other relatively, because `tests` is the package of this repository.
    """
    directory = REPOSITORY / "operators" / project
    name = f"{project}_tests"
    if name not in sys.modules:
        sys.path.append(str(directory))
        file = directory / "tests/__init__.py"
        spec = importlib.util.spec_from_file_location(name, file, submodule_search_locations=[str(file.parent)])
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return importlib.import_module(f"{name}.{module}")
