"""Errors of declarations that cannot become a CRD name the class, the field, the file and the line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest

from steersman import Column, Model, ObjectMeta, Resource, Scale
from steersman.cli.crds.validation import embedded_check
from steersman.manifests import ManifestError, crds
from steersman.models.markers import (
    CEL,
    Atomic,
    Embedded,
    ExactlyOneOf,
    Ge,
    Immutable,
    ListMap,
    MaxLength,
    MinLength,
    Nullable,
    Pattern,
    Selectable,
    Set,
)


class Item(Model):
    name: str | None = None
    key: str = ""


class Ring(Model):
    next: Ring | None = None


class OneTag(Model, tag_field="type", tag="A"):
    x: int


class OtherTag(Model, tag_field="type", tag="B"):
    x: str


class Colour(StrEnum):
    RED = "red"


def kind_of(hint: Any, default: Any = None, **arguments: Any) -> type[Resource]:
    """A kind whose spec has one field, `value`."""
    spec = type(Model)("Spec", (Model,), {"__annotations__": {"value": hint}, "value": default, "__module__": __name__})
    body = {"__annotations__": {"spec": spec}, "__module__": __name__}
    return type(Resource)("Thing", (Resource,), body, group="bad.example.com", version="v1", **arguments)


def refusal(*classes: type[Resource]) -> str:
    with pytest.raises(ManifestError) as caught:
        crds(classes, check=embedded_check())
    return str(caught.value)


@pytest.mark.parametrize(
    ("hint", "default", "words"),
    [
        (float, 1.0, "some clients round floats"),
        (timedelta | None, None, "use Duration"),
        (int | bytes | None, None, "unions are of"),
        (Item | Ring | None, None, "give each of them a tag"),
        (OneTag | OtherTag | None, None, "different schema in another member of the union"),
        (tuple[int, str], (1, "a"), "fixed length"),
        (tuple[int | None, ...], (), "None inside a list"),
        (Mapping[int, str], {}, "keys of a map are str"),
        (Mapping[Annotated[str, MinLength(1)], str], {}, "cannot constrain keys"),
        (Literal["a", 1], "a", "an enum holds"),
        (Annotated[tuple[Item, ...], Set], (), "use ListMap"),
        (Annotated[tuple[Item, ...], ListMap("name")], (), "must be required or have a default"),
        (Annotated[tuple[Item, ...], ListMap("nothing")], (), "no field 'nothing'"),
        (Annotated[tuple[Nullable[str], ...], Set], (), "must not be Nullable"),
        (Annotated[int, Pattern("^x$")], 1, "is for strings"),
        (Annotated[str, Ge(1)], "", "is for numbers"),
        (Annotated[int, MinLength(1)], 1, "is for strings"),
        (Annotated[int, Atomic], 1, "Atomic is for"),
        (Annotated[int, Ge(5)], 1, "the default 1 is not allowed by its own type: less than 5"),
        (
            Annotated[tuple[int, ...], CEL("self.all(x, self.exists_one(y, x == y))", message="m")],
            (),
            "estimated rule cost exceeds budget by factor of more than 100x",
        ),
        (bytes, b"", "not valid base64 for the API server"),
        (Annotated[Item, CEL("self.nothing == 1", message="m")], Item(), "undefined field 'nothing'"),
        (Annotated[Item, CEL("self.key ==")], Item(), "compilation failed"),
        (Annotated[Item, CEL("true", reason="Because")], Item(), "'Because' is none of"),
        (Annotated[Item, CEL("true", field_path="other")], Item(), "field_path 'other'"),
        (Annotated[Item, ExactlyOneOf("name", "nothing")], Item(), "the field 'nothing' does not exist"),
        (Annotated[Item, ExactlyOneOf("name", "key")], Item(), "'key' is always set"),
        (Embedded[Item] | None, None, "an embedded object is a Resource"),
        (Annotated[tuple[Annotated[str, Selectable], ...], Atomic], (), "no path of its own"),
        (Ring | None, None, "circular type Ring -> Ring"),
        (complex, 1j, "JSON has no complex numbers"),
        (Path | None, None, "has no schema"),
    ],
)
def test_types_without_a_schema_are_refused(hint: Any, default: Any, words: str) -> None:
    said = refusal(kind_of(hint, default))
    assert words in said
    assert "Spec.value" in said or "Ring.next" in said or "OtherTag.x" in said


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"columns": (Column("A", "spec.nothing"),)}, "spec (Thing) has no field 'nothing'"),
        ({"columns": (Column("A", "spec.value", type="integer"),)}, "but spec.value is string"),
        ({"columns": (Column("A", "spec.value", type="text"),)}, "type 'text' must be one of"),
        ({"columns": (Column("A", "spec.value"), Column("A", "spec.value"))}, "occurs twice"),
        ({"columns": (Column("A", "metadata.nothing"),)}, "metadata has no field"),
        ({"columns": (Column("A", "spec.value", format="odd"),)}, "format 'odd'"),
        ({"scale": Scale(spec="spec.value", status="spec.value")}, "must be an int"),
        ({"scale": Scale(spec="spec.x", status="spec.value")}, "has no field 'x'"),
        ({"served": False}, "no version is served"),
        ({"storage": False}, "no version is stored"),
        ({"deprecated": "x" * 257}, "more than 256 characters"),
    ],
)
def test_paths_and_versions_are_checked(arguments: dict[str, Any], words: str) -> None:
    assert words in refusal(kind_of(str, "", **arguments))


def test_a_problem_names_file_and_line() -> None:
    class PlacedSpec(Model):
        fine: int = 1
        wrong: complex = 1j

    said = refusal(kind_of(PlacedSpec | None))

    line = next(i for i, text in enumerate(Path(__file__).read_text().split("\n"), 1) if text.endswith("complex = 1j"))
    assert said.startswith(f"{__file__}:{line}: PlacedSpec.wrong: ")


def test_all_problems_are_told_at_once() -> None:
    class Wrongs(Model):
        a: complex = 1j
        b: Annotated[int, Ge(5)] = 1

    assert len(refusal(kind_of(Wrongs | None)).split("\n")) == 2


def test_two_stored_versions_name_both_classes() -> None:
    class First(Resource, group="two.example.com", version="v1", kind="Two"):
        spec: Item = Item()

    class Second(Resource, group="two.example.com", version="v2", kind="Two", plural="twoes"):
        spec: Item = Item()

    said = refusal(First, Second)
    assert re.search(r"more than one version is stored: Second \(v2\), First \(v1\)", said)
    assert "plural='twos', but Second says 'twoes'" in said


def test_names_are_unique_in_a_group() -> None:
    class Alpha(Resource, group="names.example.com", version="v1", short_names=("x",)):
        spec: Item = Item()

    class Beta(Resource, group="names.example.com", version="v1", short_names=("x",)):
        spec: Item = Item()

    assert "the name 'x' is also the name of Alpha" in refusal(Alpha, Beta)


def test_nine_selectable_fields_are_one_too_many() -> None:
    fields = {f"f{i}": Annotated[str, Selectable] for i in range(9)}
    spec = type(Model)("Spec", (Model,), {"__annotations__": fields, "__module__": __name__})
    assert "9 fields are Selectable" in refusal(kind_of(spec | None))


def test_what_is_no_kind_is_said_so() -> None:
    assert "is not a kind" in refusal(Item)  # type: ignore[arg-type]


def test_metadata_is_not_redefined() -> None:
    class Own(Resource, group="meta.example.com", version="v1"):
        metadata: Annotated[ObjectMeta, CEL("true")] = ObjectMeta()
        spec: Item = Item()

    assert "metadata must be ObjectMeta without markers" in refusal(Own)


def test_reserved_fields_are_refused() -> None:
    class Odd(Resource, group="reserved.example.com", version="v1"):
        kind: int = 3  # type: ignore[assignment]
        spec: Item = Item()

    assert "Odd.kind: kind is a field of every object" in refusal(Odd)


def test_kubernetes_own_groups_are_refused() -> None:
    class Mine(Resource, group="apps.k8s.io", version="v1"):
        spec: Item = Item()

    assert "group='apps.k8s.io' is Kubernetes' own" in refusal(Mine)


class Held(Model):
    key: str
    text: Annotated[str, Immutable] | None = None


class Short(Model):
    key: str
    text: Annotated[str, Immutable, MaxLength(16)] | None = None


def test_immutable_texts_in_endless_lists_are_too_expensive() -> None:
    assert "it needs a MaxLength" in refusal(kind_of(Annotated[tuple[Held, ...], ListMap("key")], ()))
    assert crds([kind_of(Annotated[tuple[Short, ...], ListMap("key")], ())], check=embedded_check())


def test_transition_rules_need_a_place_that_can_be_followed() -> None:
    hint = tuple[Annotated[str, CEL("oldSelf != ''")], ...]
    assert "oldSelf" in refusal(kind_of(hint, ()))


def test_patterns_of_a_dataclass_are_refused_as_the_api_server_refuses_them() -> None:
    @dataclass
    class Ahead:
        image: Annotated[str, Pattern("(?=x)")] = "x"

    said = refusal(kind_of(Ahead | None))
    assert "Ahead.image" in said
    assert "Pattern('(?=x)'): invalid or unsupported Perl syntax: `(?=`; patterns are RE2" in said
