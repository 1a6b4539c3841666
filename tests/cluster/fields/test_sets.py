"""Sets of fields, as they are written in managed fields."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steersman_cluster.fields.elements import ElementError, element, shown
from steersman_cluster.fields.sets import (
    InvalidFieldsError,
    difference,
    has_any,
    intersection,
    is_subset,
    parse,
    paths,
    recursive_difference,
    sort,
    union,
    with_named,
)
from steersman_cluster.schema import builtin

ELEMENTS = st.sampled_from(["f:a", "f:b", 'k:{"name":"x"}', "v:1"])
PATHS = st.frozensets(st.lists(ELEMENTS, min_size=1, max_size=3).map(tuple), max_size=6)


def made(members):
    """The set that has just these paths as members."""
    fields = {}
    for path in sorted(members, key=len, reverse=True):
        node = fields
        for step in path[:-1]:
            below = node.setdefault(step, {})
            if not below:
                below["."] = {}
            node = below
        last = node.setdefault(path[-1], {})
        if last:
            last["."] = {}
    for above in {path[:length] for path in members for length in range(1, len(path))} - members:
        node = fields
        for step in above:
            node = node[step]
        node.pop(".", None)
    return fields


@given(PATHS)
def test_paths_are_what_a_set_was_made_of(left):
    assert set(paths(made(left))) == left


@given(PATHS, PATHS)
def test_set_operations_are_those_of_sets_of_paths(left, right):
    a, b = made(left), made(right)
    assert set(paths(union(a, b))) == left | right
    assert set(paths(intersection(a, b))) == left & right
    assert set(paths(difference(a, b))) == left - right
    assert has_any(a, b) == bool(left & right)
    assert is_subset(a, b) == (left <= right)


@given(PATHS, PATHS)
def test_a_recursive_difference_takes_what_is_below_too(left, right):
    expected = {path for path in left if not any(path[:length] in right for length in range(1, len(path) + 1))}
    assert set(paths(recursive_difference(made(left), made(right)))) == expected


@given(PATHS, PATHS)
def test_operations_never_change_their_arguments_and_give_canonical_sets(left, right):
    a, b = made(left), made(right)
    for operation in (union, intersection, difference, recursive_difference):
        found = operation(a, b)
        assert (a, b) == (made(left), made(right))
        assert found == made(set(paths(found)))


@given(PATHS)
def test_a_written_set_reads_as_itself(left):
    fields = made(left)
    assert parse(fields) == fields
    assert sort(fields) == fields


def test_elements_are_written_in_the_servers_order():
    fields = {
        "i:2": {}, "v:10": {}, "v:9": {}, 'k:{"p":443}': {}, 'k:{"p":80}': {}, "f:b": {"f:x": {}, ".": {}}, "f:a": {},
    }  # fmt: skip
    written = sort(fields)
    assert list(written) == ["f:a", "f:b", 'k:{"p":80}', 'k:{"p":443}', "v:9", "v:10", "i:2"]
    assert list(written["f:b"]) == [".", "f:x"]


def test_reading_brings_keys_into_their_canonical_form():
    assert parse({'k:{"b": 1, "a": "x"}': {}}) == {'k:{"a":"x","b":1}': {}}


@pytest.mark.parametrize("raw", [{"x:a": {}}, {"a": {}}, {"k:x": {}}, {"k:[]": {}}, {"f:a": 1}, [], {".": {"f:a": {}}}])
def test_what_is_no_set_is_refused(raw):
    with pytest.raises(InvalidFieldsError):
        parse(raw)


def test_items_are_named_by_their_keys_with_defaults():
    ports = builtin("", "v1", "Pod").fields["spec"].fields["containers"].item.fields["ports"]
    assert element({"containerPort": 80}, ports) == 'k:{"containerPort":80,"protocol":"TCP"}'
    assert element({"containerPort": 80, "protocol": "UDP"}, ports) == 'k:{"containerPort":80,"protocol":"UDP"}'
    finalizers = builtin("", "v1", "Pod").fields["metadata"].fields["finalizers"]
    assert element('a"b', finalizers) == 'v:"a\\"b"'


def test_items_without_any_key_cannot_be_named():
    conditions = builtin("apps", "v1", "Deployment").fields["status"].fields["conditions"]
    env = builtin("", "v1", "Pod").fields["spec"].fields["tolerations"]
    assert conditions.keys == ("type",)
    assert env.atomic
    with pytest.raises(ElementError, match="may not have a null element"):
        element(None, conditions)
    with pytest.raises(ElementError, match="may not have non-map elements"):
        element("x", conditions)


def test_paths_read_as_in_errors():
    path = ("f:spec", "f:containers", 'k:{"name":"web"}', "f:args", "v:1", "i:0")
    assert shown(path) == '.spec.containers[name="web"].args[=1][0]'


def test_struct_fields_become_members_by_their_children():
    pod = builtin("", "v1", "Pod")
    fields = {"f:spec": {"f:containers": {'k:{"name":"x"}': {"f:image": {}}}}, "f:metadata": {"f:labels": {"f:a": {}}}}
    assert with_named(fields, pod) == {
        "f:spec": {".": {}, "f:containers": {".": {}, 'k:{"name":"x"}': {"f:image": {}}}},
        "f:metadata": {".": {}, "f:labels": {".": {}, "f:a": {}}},
    }
