"""Processes of an operator that is named by its module share no memory."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from steersman.testing.explore.reimport import reimporting

MANAGER = """
from steersman import Operator
operator = Operator("reimported")
seen = []
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "reimported").mkdir()
    (tmp_path / "reimported" / "__init__.py").write_text("from reimported.manager import operator\n")
    (tmp_path / "reimported" / "manager.py").write_text(MANAGER)
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("reimported", "reimported.manager"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return "reimported:operator"


def test_the_first_process_has_the_imported_operator_and_the_next_one_a_new_one(package: str) -> None:
    make: Callable[[], Any] = reimporting(package)
    imported = importlib.import_module("reimported")
    first, second, third = make(), make(), make()
    assert first is imported.operator
    assert len({id(first), id(second), id(third)}) == 3


def test_the_test_goes_on_with_the_modules_that_it_has_imported(package: str) -> None:
    make = reimporting(package)
    manager = importlib.import_module("reimported.manager")
    make()
    make()
    assert sys.modules["reimported.manager"] is manager
