import dataclasses
import json
import subprocess
import sys
from typing import Any

import pytest

from steersman.models import DecodeError, Dynamic, Model, Resource, decode, encode, from_dict, to_dict


class Rule(Model):
    verbs: tuple[str, ...] = ()
    size: int = 1


class Holder(Model):
    rules: tuple[Rule, ...] = ()
    anything: Any = None


def test_null_means_absent_everywhere():
    assert decode(Holder, b'{"rules":null}') == Holder()
    assert decode(Holder, b'{"rules":[{"verbs":null,"size":null}]}') == Holder(rules=(Rule(),))
    assert from_dict(Holder, {"rules": None}) == Holder()


def test_unknown_fields_are_passed_over():
    assert decode(Rule, b'{"size":2,"tomorrow":{}}') == Rule(size=2)


@pytest.mark.parametrize(
    ("data", "path", "message"),
    [
        (b'{"rules":[{"size":"two"}]}', "$.rules[0].size", "Expected `int`, got `str`"),
        (b'{"rules":{}}', "$.rules", "Expected `array`, got `object`"),
        (b'{"rules":[', "$", "truncated"),
        (b"", "$", "truncated"),
        (b"nonsense", "$", "malformed"),
        (b'{"rules":[],"anything":"\xff"}', "$", "utf-8"),
    ],
)
def test_what_cannot_be_read_names_the_field(data: bytes, path: str, message: str):
    with pytest.raises(DecodeError) as caught:
        decode(Holder, data)

    assert caught.value.path == path
    assert message in caught.value.message


def test_every_line_separator_of_unicode_survives():
    text = "a\u0085b\u2028c\u2029d"

    assert decode(Holder, encode(Holder(anything=text))).anything == text


def test_to_dict_is_plain_and_fresh():
    holder = Holder(rules=(Rule(verbs=("get",)),))

    plain = to_dict(holder)
    plain["rules"][0]["verbs"].append("list")

    assert holder.rules[0].verbs == ("get",)
    assert to_dict(holder) == {"rules": [{"verbs": ["get"], "size": 1}]}


def test_a_type_without_a_wire_form_says_what_it_lacks():
    with pytest.raises(NotImplementedError, match="object has no wire form"):
        encode(object())


def test_dynamic_objects_are_their_bodies():
    body = {"apiVersion": "v1", "kind": "X", "metadata": {"name": "a"}, "spec": {"n": None}}

    obj = decode(Dynamic, json.dumps(body).encode())

    assert json.loads(encode(obj)) == body
    assert obj.metadata.name == "a"
    assert obj.get("spec", "m", default=3) == 3


@dataclasses.dataclass(frozen=True, slots=True)
class PlainSpec:
    image: str
    size: int = 1


class Plain(Resource, group="apps.example.com", version="v1"):
    spec: PlainSpec


def test_a_spec_may_be_a_dataclass():
    obj = decode(Plain, b'{"metadata":{"name":"a"},"spec":{"image":"nginx"}}')

    assert obj.spec == PlainSpec(image="nginx")
    assert json.loads(encode(obj))["spec"] == {"image": "nginx", "size": 1}
    with pytest.raises(DecodeError, match=r"\$\.spec\.size"):
        decode(Plain, b'{"spec":{"image":"nginx","size":"x"}}')


def test_a_spec_may_be_a_pydantic_model():
    pydantic = pytest.importorskip("pydantic")
    alias_generators = pytest.importorskip("pydantic.alias_generators")

    class Spec(pydantic.BaseModel):  # type: ignore[name-defined,misc]
        model_config = pydantic.ConfigDict(
            alias_generator=alias_generators.to_camel, populate_by_name=True, frozen=True
        )
        image: str
        max_size: int = 1
        note: str | None = None

    class App(Resource, group="apps.example.com", version="v1"):
        spec: Spec  # type: ignore[valid-type]

        __annotations__ = {"spec": Spec}

    obj = decode(App, b'{"metadata":{"name":"a"},"spec":{"image":"nginx","maxSize":3}}')

    assert obj.spec == Spec(image="nginx", max_size=3)
    assert json.loads(encode(obj))["spec"] == {"image": "nginx", "maxSize": 3}
    with pytest.raises(DecodeError, match=r"\$\.spec"):
        decode(App, b'{"spec":{"image":[]}}')


def test_pydantic_is_never_imported_by_us():
    code = "import sys, steersman.models, steersman.k8s.core_v1; sys.exit('pydantic' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
