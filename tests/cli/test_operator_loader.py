"""Loading the operator of a module, and the errors of a module that has none."""

import itertools
import sys

import pytest

from steersman.cli.operator_loader import LoadError, load_operator

_names = itertools.count()

GOOD = """
from steersman import Context, Operator, ObjectMeta
from steersman.k8s import Pod
operator = Operator("loaded")
spare = Operator("spare")
number = 42

@operator.controller
async def reconcile(pod: Pod, ctx: Context) -> None: ...
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Write a module of its own name; returns the name."""
    monkeypatch.setattr(sys, "path", list(sys.path))

    def write(text):
        name = f"user_module_{next(_names)}"
        (tmp_path / f"{name}.py").write_text(text)
        return name

    return write


def refused(target, directory):
    with pytest.raises(LoadError) as problem:
        load_operator(target, directory)
    return str(problem.value), problem.value.code


def test_the_operator_is_found_in_the_current_directory(module, tmp_path):
    assert load_operator(f"{module(GOOD)}:operator", tmp_path).name == "loaded"


def test_the_attribute_may_be_left_out(module, tmp_path):
    assert load_operator(module(GOOD), tmp_path).name == "loaded"


def test_a_module_in_a_package_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    package = tmp_path / "user_package"
    package.mkdir()
    (package / "__init__.py").write_text("from user_package.main import operator\n")
    (package / "main.py").write_text(GOOD)
    assert load_operator("user_package:operator", tmp_path).name == "loaded"


def test_a_missing_module_is_named_with_the_directory(tmp_path):
    message, code = refused("nowhere_to_be_found:operator", tmp_path)
    assert f"there is no module 'nowhere_to_be_found' in {tmp_path}" in message
    assert code == 2


def test_a_missing_import_of_the_users_module_is_shown_where_it_is(module, tmp_path):
    name = module("import math\nimport not_installed_anywhere\n")
    message, code = refused(name, tmp_path)
    assert "imports 'not_installed_anywhere', which is not installed" in message
    assert f'{name}.py", line 2' in message
    assert code == 1


def test_a_syntax_error_is_shown_with_its_line(module, tmp_path):
    name = module("x = 1\ndef broken(:\n    pass\n")
    message, code = refused(name, tmp_path)
    assert f'{name}.py", line 2' in message
    assert "def broken(:" in message
    assert "SyntaxError" in message
    assert "importlib" not in message
    assert code == 1


def test_an_exception_at_import_is_shown_with_the_users_frames_only(module, tmp_path):
    name = module("def helper():\n    return 1 / 0\n\nhelper()\n")
    message, _ = refused(name, tmp_path)
    assert "ZeroDivisionError: division by zero" in message
    assert "return 1 / 0" in message
    assert "importlib" not in message
    assert "loading.py" not in message


def test_a_wrong_declaration_is_one_line_with_its_place(module, tmp_path):
    name = module(GOOD.replace("pod: Pod", "pod"))
    message, code = refused(name, tmp_path)
    assert message.startswith(str(tmp_path / f"{name}.py"))
    assert "annotate it" in message
    assert "Traceback" not in message
    assert code == 1


def test_a_module_that_exits_is_no_exit_of_ours(module, tmp_path):
    message, _ = refused(module("raise SystemExit(3)\n"), tmp_path)
    assert "ended the process (exit 3)" in message


def test_a_missing_attribute_is_answered_with_those_there_are(module, tmp_path):
    name = module(GOOD)
    message, _ = refused(f"{name}:app", tmp_path)
    assert f"it has {name}:operator, {name}:spare" in message


def test_an_attribute_that_is_no_operator_is_named_by_its_type(module, tmp_path):
    message, _ = refused(f"{module(GOOD)}:number", tmp_path)
    assert "is a int, not an Operator" in message


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("helloapp/operator.py", "name the module instead: helloapp.operator:operator"),
        ("./app.py:operator", "name the module instead: app:operator"),
        ("hello-app:operator", "expected MODULE:ATTRIBUTE"),
        ("helloapp:", "there is no module"),
        (":operator", "expected MODULE:ATTRIBUTE"),
    ],
)
def test_a_target_that_is_no_module_is_answered_with_one_that_is(target, words, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "helloapp", raising=False)
    assert words in refused(target, tmp_path)[0]
