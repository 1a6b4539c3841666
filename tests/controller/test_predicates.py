"""Predicates are values: what passes them, and how they compose."""

from dataclasses import replace

import pytest

from steersman.k8s import ConfigMap
from steersman.models import Key, ObjectMeta, metadata_of
from steersman.predicates import (
    annotations_changed,
    created,
    generation_changed,
    labelled,
    labels_changed,
    namespace,
    resource_version_changed,
    updated,
    where,
)
from steersman.predicates import deleted as deleted_

from .fakes import FakeEntry, added, deleted
from .fakes import updated as updated_to

WEB = FakeEntry(Key("prod", "web"), meta=ObjectMeta(labels={"app": "web"}), value={"paused": False})
PAUSED = replace(WEB, resource_version="2", value={"paused": True})
VIEW = metadata_of(ConfigMap)


def paused(obj) -> bool:
    return obj["paused"]


@pytest.mark.parametrize(
    ("predicate", "add", "update", "delete"),
    [(created, True, False, False), (updated, False, True, False), (deleted_, False, False, True)],
)
def test_the_sort_of_change(predicate, add, update, delete):
    assert predicate(added(WEB)) is add
    assert predicate(updated_to(WEB, PAUSED)) is update
    assert predicate(deleted(WEB)) is delete


@pytest.mark.parametrize(
    ("predicate", "change"),
    [
        (generation_changed, {"generation": 2}),
        (generation_changed, {"deleting": True}),
        (labels_changed, {"meta": ObjectMeta(labels={"app": "db"})}),
        (annotations_changed, {"meta": ObjectMeta(labels={"app": "web"}, annotations={"x": "y"})}),
        (resource_version_changed, {"resource_version": "9"}),
    ],
)
def test_what_changed(predicate, change):
    assert predicate(updated_to(WEB, replace(WEB, **change)))
    assert not predicate(updated_to(WEB, replace(WEB)))
    assert predicate(added(WEB))
    assert predicate(deleted(WEB))


def test_namespace_and_labels_select_objects():
    assert namespace("dev", "prod")(added(WEB))
    assert not namespace("dev")(added(WEB))
    assert labelled("app in (web,db)")(added(WEB))
    assert not labelled("app!=web")(added(WEB))


def test_an_object_that_leaves_the_selection_is_seen_once_more():
    gone = replace(WEB, meta=ObjectMeta(labels={"app": "db"}))
    assert labelled("app=web")(updated_to(WEB, gone))
    assert not labelled("app=web")(updated_to(gone, replace(gone)))


def test_a_negated_state_passes_when_the_object_enters_or_leaves_it():
    awake = (namespace("prod") & ~where(paused)).compile(VIEW)
    assert awake(updated_to(PAUSED, WEB))
    assert awake(updated_to(WEB, PAUSED))
    assert not awake(updated_to(PAUSED, replace(PAUSED)))


def test_predicates_compose_with_plain_functions_of_the_object():
    both = (generation_changed & paused).compile(VIEW)
    assert both(updated_to(PAUSED, replace(PAUSED, generation=2)))
    assert not both(updated_to(PAUSED, replace(PAUSED)))
    either = (paused | generation_changed).compile(VIEW)
    assert either(updated_to(WEB, replace(WEB, generation=2)))
    assert either(updated_to(WEB, PAUSED))
    assert not either(updated_to(WEB, replace(WEB)))


def test_objects_are_decoded_only_when_a_cheaper_predicate_lets_them_through():
    def never(obj):
        raise AssertionError("decoded")

    assert not (namespace("dev") & where(never)).compile(VIEW)(added(WEB))


def test_the_names_say_what_is_composed():
    predicate = (generation_changed | labels_changed) & ~where(paused)
    assert repr(predicate) == "((generation_changed | labels_changed) & ~where(paused))"


def test_misuse_is_told_with_the_way_out():
    with pytest.raises(TypeError, match="compose predicates with"):
        bool(created and updated)
    with pytest.raises(TypeError, match="needs a kind"):
        where(paused)(added(WEB))
    with pytest.raises(TypeError, match="not a predicate"):
        created & "app=web"
    with pytest.raises(ValueError, match="app"):
        labelled("app==(")
