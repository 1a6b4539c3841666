"""The compiled modules of a wheel: constructs that they may not use, and that the compiled form is imported."""

import ast
import importlib
import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
HOOK = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]
MODULES = HOOK["custom"]["modules"]
PLAIN = {"NamedTuple", "Protocol", "Exception", "ValueError"}
ORDINARY = {"PairedHeaders", "TerminalError"}
"""Bases that are not compiled: their classes stay ordinary ones, of which only the functions are."""


def tree_of(name):
    return ast.parse((ROOT / "src" / f"{name.replace('.', '/')}.py").read_text())


COMPILED = {node.name for name in MODULES for node in ast.walk(tree_of(name)) if isinstance(node, ast.ClassDef)}


@pytest.mark.parametrize("name", MODULES)
def test_a_module_that_is_compiled_uses_nothing_that_mypyc_would_change(name):
    """It drops the options of msgspec's classes, gives no class a `__dict__`, and makes generators of comprehensions
    into lists, which only shows at a call of `next`.
    """
    for node in ast.walk(tree_of(name)):
        match node:
            case ast.ClassDef():
                assert not node.keywords, f"{name}.{node.name} has options, which are dropped: define it elsewhere"
                bases = {ast.unparse(base).partition("[")[0] for base in node.bases}
                assert bases <= COMPILED | PLAIN | ORDINARY | {"Generic"}, f"{name}.{node.name}: {bases}"
            case ast.Return(value=ast.GeneratorExp()):
                pytest.fail(f"{name}, line {node.lineno}: a generator would be returned as a list: use yield")
            case ast.Name(id="cached_property"):
                pytest.fail(f"{name}, line {node.lineno}: cached_property needs a __dict__")


@pytest.mark.skipif("STEERSMAN_COMPILED" not in os.environ, reason="runs on a compiled wheel: hack/compiled.sh")
@pytest.mark.parametrize("name", MODULES)
def test_of_a_compiled_wheel_the_compiled_module_runs(name):
    file = Path(importlib.import_module(name).__file__)
    assert file.is_relative_to(os.environ["STEERSMAN_COMPILED"])
    assert file.suffix == ".so"


def test_a_wheel_is_plain_python_unless_it_is_asked_for_otherwise(tmp_path):
    """`pip install` of the sources needs no compiler."""
    environment = {name: value for name, value in os.environ.items() if name != "STEERSMAN_COMPILE"}
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True)
    (wheel,) = tmp_path.iterdir()
    assert wheel.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as packed:
        assert "steersman/cache/store.py" in packed.namelist()
        assert not [name for name in packed.namelist() if name.endswith(".so")]
