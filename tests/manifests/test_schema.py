"""The schemas of types: the parts that a single sample cannot show."""

from __future__ import annotations

import dataclasses
import importlib
import json
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

import pydantic
import pydantic.alias_generators
import pytest
import yaml

from steersman import Model, Operator, Resource
from steersman.cli.crds.validation import embedded_check
from steersman.k8s import Pod, PodTemplateSpec
from steersman.manifests import MAX_BYTES, Conversion, classes_of, crds, definitions, schema_of, to_yaml
from steersman.manifests.schemas.node import trimmed
from steersman.manifests.schemas.source import ClassSource, FieldSource, source_of
from steersman.models.markers import CEL, Ge, Immutable, MaxLength, Selectable
from tests.manifests.broad import V1, V2

T = TypeVar("T")


class Base(Model):
    __rules__ = (CEL("self.size > 0"),)

    size: int = 1
    """Of the base."""


class Derived(Base):
    """A derived spec."""

    __rules__ = (CEL("self.size < 9"),)

    name: str
    """Of the derived.

    In two paragraphs.
    """
    plain: str | None = None


class Box(Model, Generic[T]):
    value: T
    values: tuple[T, ...] = ()


class Boxes(Model):
    text: Box[str]
    number: Box[Annotated[int, Ge(1)]] | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Data:
    snake_name: Annotated[str, MaxLength(3)]
    count: int = 2
    items: list[str] = dataclasses.field(default_factory=list)


class Pyd(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(
        alias_generator=lambda n: "".join(w.title() if i else w for i, w in enumerate(n.split("_")))
    )

    max_size: int = pydantic.Field(default=3, ge=1, le=5, description="How large.")
    name: str = pydantic.Field(min_length=2, pattern="^[a-z]+$")
    note: str | None = None


def spec_of(kind: Any) -> dict[str, Any]:
    body = {"__annotations__": {"spec": kind}, "__module__": __name__}
    cls = type(Resource)("Thing", (Resource,), body, group="schema.example.com", version="v1")
    crds([cls], check=embedded_check())
    return schema_of(cls)["properties"]["spec"]


def test_attribute_docstrings_are_descriptions_of_bases_too() -> None:
    schema = spec_of(Derived)
    assert schema["description"] == "A derived spec."
    assert schema["properties"]["size"]["description"] == "Of the base."
    assert schema["properties"]["name"]["description"] == "Of the derived.\n\nIn two paragraphs."
    assert "description" not in schema["properties"]["plain"]
    assert schema["required"] == ["name"]


def test_rules_of_bases_come_first() -> None:
    assert [r["rule"] for r in spec_of(Derived)["x-kubernetes-validations"]] == ["self.size > 0", "self.size < 9"]


def test_a_class_without_source_has_no_descriptions() -> None:
    namespace: dict[str, Any] = {}
    exec("from steersman import Model\nclass Made(Model):\n    x: int = 1\n    'Lost.'\n", namespace)
    assert spec_of(namespace["Made"])["properties"]["x"] == {"type": "integer", "format": "int64", "default": 1}


def test_generic_models_are_read_with_their_arguments() -> None:
    schema = spec_of(Boxes)
    assert schema["properties"]["text"]["properties"]["value"] == {"type": "string"}
    assert schema["properties"]["number"]["properties"]["values"]["items"]["minimum"] == 1


def test_dataclasses_keep_their_names() -> None:
    schema = spec_of(Data)
    assert schema == {
        "type": "object",
        "required": ["snake_name"],
        "properties": {
            "snake_name": {"type": "string", "maxLength": 3},
            "count": {"type": "integer", "format": "int64", "default": 2},
            "items": {"type": "array", "items": {"type": "string"}},
        },
    }


def test_pydantic_models_bring_their_constraints_and_aliases() -> None:
    schema = spec_of(Pyd)
    assert schema["required"] == ["name"]
    assert schema["properties"]["maxSize"] == {
        "type": "integer", "format": "int64", "default": 3, "minimum": 1, "maximum": 5, "description": "How large.",
    }  # fmt: skip
    assert schema["properties"]["name"] == {"type": "string", "minLength": 2, "pattern": "^[a-z]+$"}


def test_versions_of_a_kind_are_one_definition_newest_first() -> None:
    (crd,) = definitions(
        [V1, V2], conversions={("conv.example.com", "Conv"): Conversion("hook", "ops")}, check=embedded_check()
    )
    one, two = crd["spec"]["versions"][1], crd["spec"]["versions"][0]
    assert (two["name"], two["storage"], one["name"], one["storage"]) == ("v2", True, "v1", False)
    assert (one["deprecated"], one["deprecationWarning"]) == (True, "use v2")
    assert "deprecated" not in two
    assert [c["name"] for c in two["additionalPrinterColumns"]] == ["Size", "Age"]
    assert "additionalPrinterColumns" not in one
    assert crd["spec"]["conversion"]["webhook"]["clientConfig"]["service"]["namespace"] == "ops"


def test_an_operator_s_definitions_have_all_versions_and_the_conversion() -> None:
    operator = Operator("conv")

    @operator.controller(owns=[Pod])
    async def reconcile(obj: V2, ctx: Any) -> None: ...

    assert classes_of(operator) == [V2, V1]
    assert "conversion" not in crds(operator)[0]["spec"]

    @operator.converter
    def up(obj: V1) -> V2: ...

    assert crds(operator)[0]["spec"]["conversion"]["webhook"]["clientConfig"]["service"]["name"] == "conv-webhook"


class Theirs(Resource, group="their.example.com", version="v1", external=True):
    spec: Base = Base()


def test_built_in_and_external_kinds_are_somebody_else_s() -> None:
    operator = Operator("other")

    @operator.controller(name="a")
    async def pods(obj: Pod, ctx: Any) -> None: ...

    @operator.controller(name="b")
    async def theirs(obj: Theirs, ctx: Any) -> None: ...

    assert classes_of(operator) == []


def test_selectable_fields_are_listed() -> None:
    class Sel(Model):
        team: Annotated[str, Selectable] = ""
        tier: Annotated[int, Selectable] = 0

    body = {"__annotations__": {"spec": Sel}, "__module__": __name__}
    cls = type(Resource)("Sel", (Resource,), body, group="schema.example.com", version="v1")
    fields = crds([cls], check=embedded_check())[0]["spec"]["versions"][0]["selectableFields"]
    assert fields == [{"jsonPath": ".spec.team"}, {"jsonPath": ".spec.tier"}]


@pytest.mark.slow
def test_a_large_definition_loses_as_much_of_its_descriptions_as_it_must() -> None:
    class Big(Model):
        template: PodTemplateSpec | None = None

    body = {"__annotations__": {"spec": Big}, "__module__": __name__}
    cls = type(Resource)("Big", (Resource,), body, group="schema.example.com", version="v1")
    text = to_yaml(crds([cls], check=embedded_check()))
    assert "description:" in text
    assert len(json.dumps(yaml.safe_load(text), separators=(",", ":")).encode()) <= MAX_BYTES
    assert "description:" not in to_yaml(crds([cls], max_description=0))


@pytest.mark.parametrize(
    ("limit", "short"),
    [
        (None, "One. Two three. Four"),
        (100, "One. Two three. Four"),
        (19, "One. Two three."),
        (15, "One. Two three."),
        (14, "One."),
        (3, "On…"),
        (0, ""),
    ],
)
def test_descriptions_end_with_a_sentence(limit: int | None, short: str) -> None:
    assert trimmed("One. Two three. Four", limit) == short


def test_a_first_sentence_that_is_too_long_ends_with_a_word() -> None:
    assert trimmed("A rather long sentence without an end", 16) == "A rather long…"


def test_words_of_cel_are_escaped_in_generated_rules() -> None:
    class Words(Model):
        namespace: Annotated[str, Immutable] | None = None

    rules = [r["rule"] for r in spec_of(Words)["x-kubernetes-validations"]]
    assert rules == ["!has(oldSelf.__namespace__) || has(self.__namespace__)"]


def test_classes_are_found_wherever_they_stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "scattered.py").write_text(
        "from dataclasses import dataclass\nfrom steersman import Model\n"
        'class Outer(Model):\n    class Inner(Model):\n        a: int\n        "An a."\n    b: int = 1\n'
        "def made():\n    class Local(Model):\n        c: int\n    return Local\n"
        "try:\n    @dataclass\n    class Tried:\n        d: int\nexcept Exception:\n    pass\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    scattered = importlib.import_module("scattered")
    assert source_of(scattered.Outer).fields["b"].line == 7
    assert source_of(scattered.Outer.Inner).fields["a"] == FieldSource(5, "An a.")
    assert source_of(scattered.made()).line == 9
    assert (source_of(scattered.Tried).line, source_of(scattered.Tried).fields["d"].line) == (13, 15)
    assert source_of(type("Made", (), {})) == ClassSource()
