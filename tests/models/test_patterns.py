"""Patterns of models: matched by RE2 when an object is read, refused where the model is declared."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
import pytest

import steersman.k8s
from steersman.models import EMPTY, DecodeError, Model, Resource, decode, encode, field, from_dict
from steersman.models.markers import MaxLength, MinLength, Pattern
from steersman.models.patterns import checker_of

Name = Annotated[str, MinLength(1), Pattern("^[a-z]+$")]
Bad = Annotated[str, Pattern("(?=x)")]


class Part(Model):
    name: Name
    parts: tuple[Part, ...] = ()


@dataclass(slots=True)
class Port:
    protocol: Annotated[str, Pattern("^(TCP|UDP)$")] = "TCP"


class Circle(Model, tag_field="kind", tag="circle"):
    colour: Annotated[str, Pattern("^c")] = "c"


class Square(Model, tag_field="kind", tag="square"):
    colour: Annotated[str, Pattern("^s")] = "s"


class Whole(Model):
    first_name: Name | None = None
    port_or_name: int | Annotated[str, Pattern("^p")] = 0
    names: tuple[Name, ...] = ()
    listed: list[Name] = field(default_factory=list)
    pair: tuple[int, Name] | None = None
    chosen: frozenset[Name] = frozenset()
    by_name: Mapping[Name, Annotated[str, Pattern("^v")]] = EMPTY
    both: Annotated[str, Pattern("a"), Pattern("b"), MaxLength(4)] = "ab"
    maybe: Annotated[str | None, Pattern("^m")] = None
    part: Part | None = None
    shape: Circle | Square | None = None
    port: Port | None = None
    unset: Annotated[str, Pattern("^x$")] = ""
    ways: Mapping[str, tuple[Part, ...]] = EMPTY


@pytest.mark.parametrize(
    ("data", "path"),
    [
        (b'{"firstName":"A"}', "$.firstName"),
        (b'{"portOrName":"q"}', "$.portOrName"),
        (b'{"names":["a","B"]}', "$.names[1]"),
        (b'{"listed":["a","B"]}', "$.listed[1]"),
        (b'{"pair":[1,"B"]}', "$.pair[1]"),
        (b'{"chosen":["B"]}', "$.chosen[...]"),
        (b'{"byName":{"B":"v"}}', "$.byName"),
        (b'{"byName":{"b":"w"}}', "$.byName[...]"),
        (b'{"both":"a"}', "$.both"),
        (b'{"both":"b"}', "$.both"),
        (b'{"maybe":"n"}', "$.maybe"),
        (b'{"part":{"name":"a","parts":[{"name":"B"}]}}', "$.part.parts[0].name"),
        (b'{"shape":{"kind":"square","colour":"c"}}', "$.shape.colour"),
        (b'{"port":{"protocol":"ICMP"}}', "$.port.protocol"),
        (b'{"unset":"y"}', "$.unset"),
        (b'{"ways":{"one":[{"name":"B"}]}}', "$.ways[...][0].name"),
    ],
)
def test_a_text_that_does_not_match_is_refused_with_its_path(data: bytes, path: str):
    for read in (lambda: decode(Whole, data), lambda: from_dict(Whole, msgspec.json.decode(data))):
        with pytest.raises(DecodeError, match="Expected `str` matching regex") as caught:
            read()
        assert caught.value.path == path


def test_what_matches_is_read_as_before():
    data = (
        b'{"firstName":"a","portOrName":"p","names":["a","b"],"listed":["a"],"pair":[1,"b"],"chosen":["b"],'
        b'"byName":{"b":"v"},"both":"ab","maybe":null,"part":{"name":"a","parts":[{"name":"b"}]},'
        b'"shape":{"kind":"square","colour":"s"},"port":{"protocol":"UDP"},"unset":"x"}'
    )
    read = decode(Whole, data)

    assert read.part == Part(name="a", parts=(Part(name="b"),))
    assert decode(Whole, encode(read)) == read
    assert decode(Whole, b'{"portOrName":7}').port_or_name == 7


def test_a_default_that_its_own_pattern_refuses_can_be_read_back():
    assert decode(Whole, encode(Whole())) == Whole()


def test_a_null_means_absent_and_the_rest_is_still_matched():
    assert decode(Part, b'{"name":"a","parts":null}') == Part(name="a")
    with pytest.raises(DecodeError):
        decode(Part, b'{"name":"A","parts":null}')


def test_a_pattern_that_backtracks_reads_a_long_text_in_linear_time():
    class Slow(Model):
        text: Annotated[str, Pattern("^(a|a)*(a|aa)+$")]

    with pytest.raises(DecodeError):
        decode(Slow, b'{"text":"' + b"a" * 5000 + b'!"}')  # 2**5000 steps to an engine that backtracks
    assert len(decode(Slow, b'{"text":"' + b"a" * 5000 + b'"}').text) == 5000


def test_a_dollar_sign_is_the_end_of_the_text_as_on_the_api_server():
    with pytest.raises(DecodeError):
        decode(Part, b'{"name":"a\\n"}')


def test_lengths_count_characters_and_patterns_see_them_whole():
    class Short(Model):
        text: Annotated[str, MaxLength(3), Pattern("^.{1,3}$")]

    assert decode(Short, '{"text":"žšđ"}'.encode()).text == "žšđ"
    assert decode(Short, '{"text":"😀😀😀"}'.encode()).text == "😀😀😀"
    with pytest.raises(DecodeError, match="length"):
        decode(Short, '{"text":"😀😀😀😀"}'.encode())


def test_a_text_that_is_no_unicode_does_not_match():
    with pytest.raises(DecodeError, match="matching regex"):
        from_dict(Part, {"name": "\ud800"})


def test_models_without_patterns_are_read_by_msgspec_alone():
    class Plain(Model):
        name: Annotated[str, MaxLength(5)] = ""
        kind: Literal["a"] | None = None

    assert checker_of(Plain) is None
    assert checker_of(tuple[Plain, ...]) is None
    assert checker_of(Whole) is not None


def test_models_of_the_framework_have_no_patterns_so_that_none_is_searched_for():
    modules = [m.name for m in pkgutil.iter_modules(steersman.k8s.__path__, "steersman.k8s.")]
    kinds = [kind for name in modules for kind in vars(importlib.import_module(name)).values()]
    models = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Model)]
    assert len(models) > 500
    assert [model.__name__ for model in models if "Pattern(" in str(model.__annotations__)] == []


def test_a_pattern_that_re2_refuses_is_refused_where_the_model_is_declared():
    with pytest.raises(TypeError, match=r"class Ahead: field 'image': Pattern\('\(\?=x\)y'\): .*\(\?=") as caught:

        class Ahead(Model):  # pyright: ignore[reportUnusedClass]
            image: Annotated[str, Pattern("(?=x)y")]

    assert "RE2" in str(caught.value)


@pytest.mark.parametrize(
    "annotation",
    [
        Annotated[str, Pattern(r"(a)\1")],
        Annotated[str, Pattern("(?<!a)b")] | None,
        tuple[Annotated[str, Pattern("(?!a)b")], ...],
        Mapping[str, Annotated[str, Pattern("a++")]],
        Annotated[str, Pattern("(a")],
        Annotated[str, Pattern("a{1001}")],
        Annotated[str, Pattern("\ud800")],
        "Annotated[str, Pattern('(?=x)')]",
        "tuple[Annotated[str, Pattern('(?=x)')], ...] | None",
        "Bad",
        "tuple[Bad, ...]",
    ],
)
def test_what_re2_refuses_is_refused_in_any_form_of_annotation(annotation: Any):
    with pytest.raises(TypeError, match=r"class Ahead: field 'image': Pattern\("):
        type(Model)("Ahead", (Model,), {"__annotations__": {"image": annotation}, "__module__": __name__})


def test_a_pattern_behind_a_name_that_is_not_defined_yet_is_refused_when_the_model_is_first_read():
    late = type(Model)("Late", (Model,), {"__annotations__": {"image": "Later"}, "__module__": __name__})
    sys.modules[__name__].Later = Annotated[str, Pattern("(?=x)")]  # type: ignore[attr-defined]

    with pytest.raises(TypeError, match=r"class Late: field 'image': Pattern\('\(\?=x\)'\)"):
        decode(late, b"{}")


def test_a_pattern_of_a_dataclass_is_refused_when_it_is_first_read():
    @dataclass
    class Plain:
        image: Annotated[str, Pattern(r"(a)\1")] = ""

    with pytest.raises(TypeError, match=r"class Plain: field 'image': Pattern"):
        decode(Plain, b"{}")


def test_a_pattern_on_what_is_no_text_is_refused():
    class Number(Model):
        size: Annotated[int, Pattern("^a$")] = 0

    with pytest.raises(TypeError, match=r"class Number: field 'size': Pattern.* is for strings"):
        decode(Number, b"{}")


def test_a_pattern_that_python_would_match_is_refused():
    with pytest.raises(TypeError, match=r"class Own: field 'image': .*write Pattern\('\^a\$'\)"):

        class Own(Model):  # pyright: ignore[reportUnusedClass]
            image: Annotated[str, msgspec.Meta(pattern="^a$")] = ""

    @dataclass
    class Other:
        image: Annotated[str, msgspec.Meta(pattern="^a$")] = ""

    with pytest.raises(TypeError, match=r"class Other: field 'image': .*write Pattern\('\^a\$'\)"):
        decode(Other, b"{}")


def test_a_kind_names_itself_when_its_pattern_is_refused():
    with pytest.raises(TypeError, match="class Refused: field 'status'"):

        class Refused(Resource, group="refused.example.com", version="v1"):  # pyright: ignore[reportUnusedClass]
            status: Annotated[str, Pattern(r"\1")] = ""
