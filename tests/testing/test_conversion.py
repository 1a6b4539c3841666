"""Tests made for users: conversions that lose something are found, with the smallest object that shows it."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steersman import (
    Duration,
    Ge,
    IntOrString,
    Le,
    MaxLength,
    MinItems,
    Model,
    Operator,
    Pattern,
    Quantity,
    Resource,
)
from steersman.models import decode, encode
from steersman.testing.conversion import objects, round_trip, round_trips

GROUP = "round-trips.example.com"


class Part(Model):
    name: str
    parts: "tuple[Part, ...]" = ()


class Spec(Model):
    size: Annotated[int, Ge(1), Le(5)] = 1
    code: Annotated[str, Pattern("^[a-f]{2}$")] = "aa"
    tag: Annotated[str, MaxLength(8), Pattern("^[a-z]+$"), Pattern("^.{2,5}$")] | None = None
    title: Annotated[str, MaxLength(3)] | None = None
    mode: Literal["fast", "safe"] = "safe"
    port: IntOrString = 80
    memory: Quantity | None = None
    wait: Duration | None = None
    when: datetime | None = None
    names: Annotated[tuple[str, ...], MinItems(1)] = ("x",)
    parts: tuple[Part, ...] = ()


class Old(Resource, group=GROUP, version="v1beta1", kind="Thing", storage=False):
    spec: Spec = Spec()


class New(Resource, group=GROUP, version="v1", kind="Thing"):
    spec: Spec = Spec()


def things(loses=False):
    app = Operator("things")

    @app.converter
    def forth(obj: Old) -> New:
        return New(metadata=obj.metadata, spec=obj.spec)

    @app.converter
    async def back(obj: New) -> Old:
        return Old(metadata=obj.metadata, spec=Spec() if loses and obj.spec.size > 2 else obj.spec)

    return app


@given(objects(New))
@settings(max_examples=50, deadline=None)
def test_random_objects_keep_to_their_types(obj):
    assert decode(New, encode(obj)) == obj
    assert 1 <= obj.spec.size <= 5
    assert len(obj.spec.names) >= 1


class Named(Model):
    first_name: str = ""
    labels: Mapping[str, str] = {}
    named: "tuple[Named, ...]" = ()


class Person(Resource, group=GROUP, version="v1"):
    spec: Named = Named()


@pytest.mark.parametrize("path", ["spec.firstName", "spec.first_name"])
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_an_override_names_its_field_as_the_wire_or_as_python_does(path, data):
    made = data.draw(objects(Person, {path: st.just("Ada")}))
    assert made.spec.first_name in ("", "Ada")


@settings(max_examples=30, deadline=None)
@given(
    objects(
        Person,
        {"metadata.name": st.just("ada"), "spec.labels{}": st.just("v"), "spec.named[].first_name": st.just("Ada")},
    )
)
def test_overrides_reach_names_of_objects_items_of_lists_and_values_of_maps(made):
    assert made.metadata.name == "ada"
    assert set(made.spec.labels.values()) <= {"v"}
    assert {each.first_name for each in made.spec.named} <= {"", "Ada"}


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("spec.fristName", "Person has no field 'spec.fristName'; did you mean 'firstName'?"),
        ("spec.firstName.x", "'spec.firstName' has no fields"),
        ("spec.firstName[]", r"has no \[\] at 'spec.firstName'"),
        ("spec.labels[]", r"has no \[\] at 'spec.labels'"),
        ("spec.named.firstName", "has no fields"),
        ("status.phase", "'status.phase' of Person is never generated"),
        ("metadata.labels{}", "is never generated"),
        ("", "Person has no field ''"),
    ],
)
def test_an_override_of_no_field_is_refused(path, told):
    with pytest.raises(ValueError, match=told):
        objects(Person, {path: st.just("x")})


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        ({New: {"spec.seize": st.just(1)}}, "New has no field 'spec.seize'; did you mean 'size'?"),
        ({Person: {}}, "this operator does not convert Person, but New, Old"),
    ],
)
def test_overrides_of_what_is_not_converted_are_refused_when_the_test_is_made(overrides, told):
    with pytest.raises(ValueError, match=told):
        round_trips(things(), overrides=overrides)


test_conversions_lose_nothing = round_trips(things(), examples=20)


def test_a_conversion_that_loses_something_is_found():
    test = round_trips(things(loses=True), examples=100)
    one, two = (case.values for case in test.pytestmark[0].args[1])
    for source, through in (one, two):
        with pytest.raises(AssertionError, match="it was"):
            test(source, through)


def test_an_object_is_shown_as_it_was_in_between():
    seen, again = round_trip(things(), Old(spec=Spec(size=3)), New)
    assert (seen["apiVersion"], seen["spec"]["size"]) == (f"{GROUP}/v1", 3)
    assert again["apiVersion"] == f"{GROUP}/v1beta1"


def test_operators_that_cannot_be_tested_are_refused():
    with pytest.raises(ValueError, match="declares no conversions"):
        round_trips(Operator("none"))
    half = Operator("half")

    @half.converter
    def forth(obj: Old) -> New:
        return New(spec=obj.spec)

    with pytest.raises(ValueError, match="v1 → v1beta1"):
        round_trips(half)


def test_a_pattern_that_only_re2_reads_asks_for_a_strategy():
    class Letters(Model):
        text: Annotated[str, Pattern(r"^\pL+\z")]

    class Lettered(Resource, group=GROUP, version="v1"):
        spec: Letters

    with pytest.raises(TypeError, match=r"spec\.text: no random values .* give a strategy in overrides="):
        objects(Lettered).validate()
