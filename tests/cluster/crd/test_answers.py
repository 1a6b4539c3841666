"""Values and definitions get the answers that a real kube-apiserver 1.36 gave; see `cases` and `answers.json`."""

import copy
import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from steersman_cluster.crd import CustomStrategy, DefinitionStrategy
from steersman_cluster.errors import FieldError
from steersman_cluster.objects import Object
from steersman_cluster.strategy import User, WriteContext

HERE = Path(__file__).parent
spec = importlib.util.spec_from_file_location("crd_cases", HERE / "cases.py")
assert spec is not None
assert spec.loader is not None
cases = importlib.util.module_from_spec(spec)
spec.loader.exec_module(cases)
ANSWERS = json.loads((HERE / "answers.json").read_text())


class NoReader:
    def get(self, *_: str) -> None:
        return None

    def list(self, *_: str) -> list[Object]:
        return []


CONTEXT = WriteContext(User("tester"), "2024-01-01T00:00:00Z", NoReader(), lambda count: "x" * count)


def causes(errors: list[FieldError]) -> list[tuple[str, str, str]]:
    return sorted({(str(error.path), str(error.type), error.body) for error in errors})


def recorded(answer: Object) -> list[tuple[str, str, str]]:
    return sorted({(field, reason, message) for field, reason, message in answer["causes"]})


@pytest.mark.parametrize("name", sorted(cases.VALUES))
def test_a_value_is_taken_or_refused_as_the_real_server_does(name: str) -> None:
    schema, values = cases.VALUES[name]
    definition = cases.definition(cases.obj({name: schema}))
    strategy = CustomStrategy(definition, definition["spec"]["versions"][0])
    for value, answer in zip(values, ANSWERS["values"][name], strict=True):
        sent: Any = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "x"}}
        sent["spec"] = {name: copy.deepcopy(value)}
        strategy.default(sent)
        if answer["code"] == 400:
            continue  # Refused while it was decoded.
        errors = strategy.validate_create(sent, CONTEXT)
        assert causes(errors) == recorded(answer), value
        if answer["code"] == 201:
            assert (sent.get("spec") or {}).get(name) == (answer["spec"] or {}).get(name), value


@pytest.mark.parametrize("name", sorted(cases.DEFINITIONS))
def test_a_definition_is_taken_or_refused_as_the_real_server_does(name: str) -> None:
    answer = ANSWERS["definitions"][name]
    sent = copy.deepcopy(cases.DEFINITIONS[name])
    strategy = DefinitionStrategy()
    strategy.default(sent)
    strategy.prepare_create(sent, CONTEXT)
    assert causes(strategy.validate_create(sent, CONTEXT)) == recorded(answer)
    warnings = [f'299 - "{text}"'.replace('"nope"', '\\"nope\\"') for text in strategy.warnings(sent, None, CONTEXT)]
    assert warnings == answer["warnings"]
