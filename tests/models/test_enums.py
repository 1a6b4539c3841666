"""An error about an enum lists the values that are allowed, wherever the enum stands in a type."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from enum import IntEnum, StrEnum
from typing import Annotated, Any, Literal

import msgspec
import pytest

from steersman.models import DecodeError, Model, decode, from_dict


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Square(Model, tag="square", tag_field="shape"):
    paint: Literal["oil"] = "oil"


class Circle(Model, tag="circle", tag_field="shape"):
    paint: Literal["water"] = "water"


@dataclasses.dataclass(slots=True)
class Frame:
    wood: Literal["oak", "pine"] = "oak"


class Picture(Model):
    colour: Colour = Colour.RED
    main_style: Literal["flat", "glossy"] | None = None
    level: Level = Level.LOW
    named: Mapping[str, Annotated[Colour, "a marker"]] = msgspec.field(default_factory=dict)
    by_colour: Mapping[Colour, int] = msgspec.field(default_factory=dict)
    parts: tuple[Picture, ...] = ()
    pair: tuple[int, Colour] | None = None
    shape: Square | Circle | None = None
    frame: Frame | None = None


RED_OR_BLUE = ': supported values: "red", "blue"'
CASES: list[tuple[dict[str, Any], str, str]] = [
    ({"colour": "green"}, "$.colour", '"green"' + RED_OR_BLUE),
    ({"mainStyle": "matt"}, "$.mainStyle", '"matt": supported values: "flat", "glossy"'),
    ({"level": 3}, "$.level", "3: supported values: 1, 2"),
    ({"named": {"a": "it's \"x\""}}, "$.named[...]", json.dumps("it's \"x\"") + RED_OR_BLUE),
    ({"byColour": {"green": 1}}, "$.byColour", '"green"' + RED_OR_BLUE),
    ({"parts": [{}, {"parts": [{"colour": "x"}]}]}, "$.parts[1].parts[0].colour", '"x"' + RED_OR_BLUE),
    ({"pair": [1, "x"]}, "$.pair[1]", '"x"' + RED_OR_BLUE),
    ({"shape": {"shape": "cube"}}, "$.shape.shape", '"cube": supported values: "square", "circle"'),
    ({"frame": {"wood": "ash"}}, "$.frame.wood", '"ash": supported values: "oak", "pine"'),
]  # fmt: skip


@pytest.mark.parametrize(("data", "path", "words"), CASES)
def test_an_error_about_an_enum_lists_the_allowed_values(data, path, words):
    for read in (lambda: decode(Picture, msgspec.json.encode(data)), lambda: from_dict(Picture, data)):
        with pytest.raises(DecodeError) as caught:
            read()
        assert caught.value.path == path
        assert caught.value.message == f"Unsupported value: {words}"


@pytest.mark.parametrize("data", [{"colour": 3}, {"shape": {}}, {"parts": {}}])
def test_errors_about_anything_else_list_nothing(data):
    with pytest.raises(DecodeError) as caught:
        from_dict(Picture, data)
    assert caught.value.unsupported is None
    assert "supported values" not in str(caught.value)
