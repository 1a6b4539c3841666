from collections.abc import Mapping
from typing import Annotated

import pytest

from steersman.models import EMPTY, DecodeError, Model, decode
from steersman.models.markers import (
    CEL,
    Format,
    Ge,
    Gt,
    Immutable,
    Le,
    ListMap,
    Lt,
    MaxItems,
    MaxLength,
    MaxProperties,
    MinItems,
    MinLength,
    MinProperties,
    MultipleOf,
    Nullable,
    Pattern,
    Selectable,
    markers_of,
)


class Bounded(Model):
    size: Annotated[int, Ge(0), Le(10)] = 0
    share: Annotated[float, Gt(0), Lt(1)] = 0.5
    even: Annotated[int, MultipleOf(2)] = 0
    name: Annotated[str, MinLength(1), MaxLength(3), Pattern("^[a-z]*$")] = "a"
    items: Annotated[tuple[Annotated[int, Ge(1)], ...], MinItems(1), MaxItems(2)] = (1,)
    labels: Annotated[Mapping[str, str], MinProperties(1), MaxProperties(1)] = EMPTY
    mode: Annotated[str, Immutable, Selectable, Format("uuid"), CEL("self != ''", message="empty")] = ""
    peers: Annotated[tuple[str, ...], ListMap("host", "port")] = ()
    note: Nullable[str] = None


@pytest.mark.parametrize(
    ("data", "path"),
    [
        (b'{"size":-1}', "$.size"),
        (b'{"size":11}', "$.size"),
        (b'{"share":0}', "$.share"),
        (b'{"share":1}', "$.share"),
        (b'{"even":3}', "$.even"),
        (b'{"name":""}', "$.name"),
        (b'{"name":"abcd"}', "$.name"),
        (b'{"name":"A"}', "$.name"),
        (b'{"items":[]}', "$.items"),
        (b'{"items":[1,2,3]}', "$.items"),
        (b'{"items":[0]}', "$.items[0]"),
        (b'{"labels":{}}', "$.labels"),
        (b'{"labels":{"a":"","b":""}}', "$.labels"),
    ],
)
def test_bounds_hold_when_an_object_is_read(data: bytes, path: str):
    with pytest.raises(DecodeError) as caught:
        decode(Bounded, data)

    assert caught.value.path == path


def test_what_is_within_bounds_is_read():
    assert decode(Bounded, b'{"size":10,"share":0.1,"even":4,"name":"abc","items":[1,2],"note":null}').size == 10


def test_markers_are_found_again_by_either_name():
    assert markers_of(Bounded, "mode") == (Immutable, Selectable, Format("uuid"), CEL("self != ''", message="empty"))
    assert markers_of(Bounded, "peers") == (ListMap("host", "port"),)
    with pytest.raises(AttributeError, match="Bounded has no field 'other'"):
        markers_of(Bounded, "other")


def test_a_list_map_needs_a_key():
    with pytest.raises(TypeError, match="at least one key"):
        ListMap()
