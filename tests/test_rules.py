"""Every promise of docs/semantics.md has a test that names it."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def promised() -> list[str]:
    text = (ROOT / "docs" / "semantics.md").read_text()
    return re.findall(r"^- \*\*([A-Z]\d{1,2})\*\* ", text, re.MULTILINE)


@cache
def named_in_tests() -> set[str]:
    names: set[str] = set()
    for path in [*ROOT.glob("tests/**/test_*.py"), *ROOT.glob("operators/*/tests/**/test_*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                start = (ast.get_docstring(node) or "").split(":")[0]
                names.update(re.findall(r"\b[A-Z]\d{1,2}\b", start))
    return names


def test_the_rules_are_found():
    assert len(promised()) == 45


@pytest.mark.parametrize("rule", promised())
def test_a_rule_has_a_test_whose_docstring_starts_with_its_id(rule):
    assert rule in named_in_tests(), f'{rule} is promised in docs/semantics.md, but no test starts with """{rule}: …"""'
