"""The operator in the README works as it stands."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path
from typing import Any, Final

README: Final = Path(__file__).parents[2] / "README.md"


def test_the_operator_of_the_readme_runs_an_application(cluster: Any, operator: Any) -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```", README.read_text(), re.MULTILINE | re.DOTALL)
    assert len([line for line in code.splitlines() if line]) <= 35
    module = types.ModuleType("readme_operator")
    sys.modules[module.__name__] = module  # where the annotations of its classes are resolved
    exec(compile(code, str(README), "exec"), module.__dict__)
    operator(module)
    cluster.apply({
        "apiVersion": "apps.example.com/v1",
        "kind": "HelloApp",
        "metadata": {"name": "hello"},
        "spec": {"image": "hello:1", "size": 2},
    })  # fmt: skip
    cluster.wait("helloapp", "hello", "Ready")
    assert len(cluster.list("pods", labels="app=hello")) == 2
