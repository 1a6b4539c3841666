"""`steersman diff`: what a new CRD would break, and nothing else."""

from __future__ import annotations

import copy
import json
import sys
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from steersman.cli.dispatch import run
from steersman.manifests import crds
from steersman.manifests.compat import changes_between
from steersman_cluster.crd.schema_validation import compile_check
from tests.manifests import broad, golden_types


@pytest.fixture
def command(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("COLUMNS", "200")

    def call(*words):
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            run(["diff", *map(str, words)])
        out, err = capsys.readouterr()
        return ended.value.code or 0, out, err

    return call


def crd(properties: dict[str, Any], *, required: tuple[str, ...] = (), **changes: Any) -> dict[str, Any]:
    spec: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        spec["required"] = list(required)
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
        "subresources": {"status": {}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.x.io"},
        "spec": {
            "group": "x.io",
            "scope": "Namespaced",
            "names": {"kind": "Thing", "plural": "things", "shortNames": ["th"]},
            "versions": [{**version, **changes}],
        },
    }


def said(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    return [f"{change.severity} {change}" for change in changes_between([old], [new])]


TEXT, NUMBER = {"type": "string"}, {"type": "integer"}
RULE = {"x-kubernetes-validations": [{"rule": "self > 1"}]}
LIST = {"type": "array", "items": TEXT}


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (TEXT, NUMBER, "was string, is integer"),
        (TEXT, None, "was removed; values are pruned"),
        (TEXT, {**TEXT, "enum": ["a"]}, "only 'a' are allowed now"),
        ({**TEXT, "enum": ["a", "b"]}, {**TEXT, "enum": ["b", "c"]}, "'a' is not allowed any more"),
        (TEXT, {**TEXT, "pattern": "^a"}, "pattern is '^a'"),
        ({**TEXT, "pattern": "a"}, {**TEXT, "pattern": "b"}, "pattern was 'a', is 'b'"),
        (TEXT, {**TEXT, "maxLength": 3}, "maxLength is 3"),
        ({**TEXT, "maxLength": 5}, {**TEXT, "maxLength": 3}, "maxLength was 5, is 3"),
        ({**TEXT, "minLength": 1}, {**TEXT, "minLength": 2}, "minLength was 1, is 2"),
        (TEXT, {**TEXT, "format": "uuid"}, "format is uuid"),
        ({**NUMBER, "format": "int64"}, {**NUMBER, "format": "int32"}, "format was int64, is int32"),
        (NUMBER, {**NUMBER, "minimum": 0}, "minimum is 0"),
        ({**NUMBER, "maximum": 3}, {**NUMBER, "maximum": 3, "exclusiveMaximum": True}, "maximum 3 itself is refused"),
        ({**NUMBER, "multipleOf": 4}, {**NUMBER, "multipleOf": 3}, "must be a multiple of 3, was of 4"),
        (NUMBER, {**NUMBER, **RULE}, "a new rule: self > 1"),
        ({**TEXT, "nullable": True}, TEXT, "null is refused now"),
        (LIST, {**LIST, "x-kubernetes-list-type": "set"}, "items may not be repeated now"),
        (LIST, {**LIST, "maxItems": 2}, "maxItems is 2"),
        (LIST, {**LIST, "items": NUMBER}, "spec.value[]: was string, is integer"),
        (
            {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            {"type": "object"},
            "unknown fields are pruned now",
        ),
        (
            {"type": "object", "additionalProperties": TEXT},
            {"type": "object", "additionalProperties": {**TEXT, "maxLength": 2}},
            "spec.value{}: maxLength is 2",
        ),
        ({"type": "object", "additionalProperties": TEXT}, {"type": "object"}, "was map, is object"),
        ({"x-kubernetes-int-or-string": True}, NUMBER, "was integer or string, is integer"),
        (TEXT, {**TEXT, "anyOf": [{"maxLength": 1}]}, "anyOf is new"),
    ],
)
def test_what_breaks_is_named(old, new, words):
    found = said(crd({"value": old}), crd({} if new is None else {"value": new}))
    assert [line for line in found if line.startswith("breaking things.x.io v1 spec.value")], found
    assert words in found[0]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (NUMBER, {"type": "number"}),
        (TEXT, {"x-kubernetes-int-or-string": True}),
        ({**NUMBER, "format": "int32"}, {**NUMBER, "format": "int64"}),
        ({**TEXT, "enum": ["a"]}, {**TEXT, "enum": ["a", "b"]}),
        ({**TEXT, "enum": ["a"]}, TEXT),
        ({**TEXT, "maxLength": 3, "pattern": "a"}, {**TEXT, "maxLength": 4}),
        ({**NUMBER, **RULE}, NUMBER),
        ({**NUMBER, "multipleOf": 4}, {**NUMBER, "multipleOf": 2}),
        (
            {"type": "object", "properties": {"a": TEXT}},
            {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        ),
        (TEXT, {**TEXT, "nullable": True, "description": "new words"}),
        (TEXT, {"x-kubernetes-preserve-unknown-fields": True}),
    ],
)
def test_what_is_wider_is_compatible(old, new):
    assert said(crd({"value": old}), crd({"value": new})) == []


def test_required_fields_break_unless_they_have_a_default():
    old = crd({"a": TEXT})
    assert said(old, crd({"a": TEXT}, required=("a",))) == ["breaking things.x.io v1 spec.a: is required now"]
    assert said(old, crd({"a": TEXT, "b": TEXT}, required=("b",))) == [
        "breaking things.x.io v1 spec.b: is new, and required"
    ]
    assert said(old, crd({"a": {**TEXT, "default": "x"}}, required=("a",))) == []
    lost = said(crd({"a": {**TEXT, "default": "x"}}, required=("a",)), crd({"a": TEXT}, required=("a",)))
    assert lost[0] == "breaking things.x.io v1 spec.a: has lost its default, and is required"


def test_a_stored_version_must_not_go():
    old = crd({})
    old["spec"]["versions"].append({**old["spec"]["versions"][0], "name": "v2", "storage": False})
    new = copy.deepcopy(old)
    del new["spec"]["versions"][0]
    new["spec"]["versions"][0]["storage"] = True
    assert "was removed, but objects are stored in it" in said(old, new)[0]

    old["spec"]["versions"][0] |= {"storage": False, "served": False}
    old["spec"]["versions"][1]["storage"] = True
    assert said(old, new) == [
        "compatible things.x.io version v1: was removed; it was not served and no object is stored in it"
    ]
    old["status"] = {"storedVersions": ["v1", "v2"]}
    assert said(old, new)[0].startswith("breaking")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"subresources": {}}, "breaking things.x.io v1 subresources.status: was removed"),
        ({"served": False}, "breaking things.x.io v1: is not served any more"),
        ({"name": "v2"}, "breaking things.x.io version v1: was removed, but objects are stored"),
        ({"deprecated": True}, "note things.x.io v1: is deprecated"),
    ],
)
def test_versions_and_sub_resources_are_compared(change, words):
    assert any(line.startswith(words) for line in said(crd({}), crd({}, **change)))


def test_names_scope_and_whole_crds_are_compared():
    new = crd({})
    new["spec"]["scope"] = "Cluster"
    new["spec"]["names"] = {"kind": "Thing", "plural": "things"}
    found = said(crd({}), new)
    assert found == [
        "breaking things.x.io spec.scope: was 'Namespaced', is 'Cluster'",
        "note things.x.io spec.names.shortNames: 'th' was removed; commands that use it fail",
    ]
    assert "all its objects would be deleted" in str(changes_between([crd({})], [])[0])
    assert [change.severity for change in changes_between([], [crd({})])] == ["compatible"]


def test_a_real_crd_is_compatible_with_itself():
    every = crds([broad.Broad, *golden_types.KINDS])
    assert changes_between(every, copy.deepcopy(every)) == []


def test_the_command_tells_and_fails(command, tmp_path):
    (tmp_path / "old.yaml").write_text(yaml.safe_dump(crd({"a": TEXT})))
    (tmp_path / "new.yaml").write_text(yaml.safe_dump(crd({"b": TEXT})))

    code, out, _ = command("old.yaml", "new.yaml")
    assert code == 1
    assert out == (
        "breaking   things.x.io v1 spec.a: was removed; values are pruned, and strict requests with it fail\n"
        "1 breaking change; 1 compatible (--all shows them)\n"
    )
    assert "compatible things.x.io v1 spec.b: is new" in command("old.yaml", "new.yaml", "--all")[1]
    code, out, _ = command("old.yaml", "old.yaml")
    assert (code, out) == (0, "no breaking changes\n")
    code, out, _ = command("old.yaml", "new.yaml", "-o", "json")
    assert code == 1
    assert json.loads(out)[0] == {
        "severity": "breaking", "crd": "things.x.io", "version": "v1", "path": "spec.a",
        "text": "was removed; values are pruned, and strict requests with it fail",
    }  # fmt: skip


def test_a_file_is_compared_with_the_cluster(command, cluster, tmp_path):
    installed = crds([golden_types.Memcached])[0]
    cluster.apply(copy.deepcopy(installed))
    (tmp_path / "new.yaml").write_text(yaml.safe_dump(installed))
    code, out, err = command("--cluster", "new.yaml", "--kubeconfig", cluster.kubeconfig)
    assert (code, out.splitlines()[-1]) == (0, "no breaking changes"), out + err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["a.yaml"], "OLD NEW"),
        (["missing.yaml", "old.yaml"], "missing.yaml: there is no such file"),
        (["old.yaml", "empty.yaml"], "there is no CustomResourceDefinition in empty.yaml"),
        (["old.yaml", "partial.yaml"], "a CRD is not complete"),
    ],
)
def test_bad_input_is_one_clear_message(command, tmp_path, words, message):
    (tmp_path / "old.yaml").write_text(yaml.safe_dump(crd({})))
    (tmp_path / "empty.yaml").write_text("")
    (tmp_path / "partial.yaml").write_text("kind: CustomResourceDefinition\nmetadata: {name: things.x.io}\n")
    code, _, err = command(*words)
    assert code == 2
    assert message in err


BOUNDS = st.fixed_dictionaries(
    {},
    optional={
        "minLength": st.integers(0, 3),
        "maxLength": st.integers(2, 5),
        "enum": st.lists(st.sampled_from(["", "a", "bb", "ccc"]), min_size=1, max_size=3, unique=True),
        "pattern": st.sampled_from(["^a?$", "b"]),
        "nullable": st.booleans(),
    },
).map(lambda k: {"type": "string", **k})
NUMBERS = st.fixed_dictionaries(
    {"type": st.sampled_from(["integer", "number"])},
    optional={
        "minimum": st.integers(-2, 2),
        "maximum": st.integers(1, 4),
        "exclusiveMinimum": st.booleans(),
        "multipleOf": st.sampled_from([1, 2, 4]),
        "enum": st.lists(st.integers(-1, 4), min_size=1, max_size=3, unique=True),
    },
)


def nested(children: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    lists = st.fixed_dictionaries(
        {"type": st.just("array"), "items": children},
        optional={"minItems": st.integers(0, 2), "maxItems": st.integers(1, 3)},
    )
    maps = st.fixed_dictionaries(
        {"type": st.just("object"), "additionalProperties": children}, optional={"maxProperties": st.integers(0, 2)}
    )
    return lists | maps


def records(children: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(
        {"type": st.just("object"), "properties": st.dictionaries(st.sampled_from("xyz"), children, max_size=2)},
        optional={"required": st.lists(st.sampled_from("xyz"), max_size=2, unique=True)},
    )


SCHEMAS = st.recursive(BOUNDS | NUMBERS, lambda children: nested(children) | records(children), max_leaves=3)
VALUES = st.recursive(
    st.sampled_from(["", "a", "bb", "ccc", "dddd", -1, 0, 1, 2, 3, 4, 1.5, None]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("xyz"), inner, max_size=3),
    max_leaves=4,
)


@st.composite
def changed(draw: st.DrawFn, schema: dict[str, Any]) -> dict[str, Any]:
    """A schema like another one, with a keyword or two that differ, here or below."""
    new = copy.deepcopy(schema)
    below = [key for key in ("items", "additionalProperties") if key in new]
    if new.get("properties") and draw(st.booleans()):
        name = draw(st.sampled_from(sorted(new["properties"])))
        new["properties"][name] = draw(changed(new["properties"][name]))
        return new
    if below and draw(st.booleans()):
        new[below[0]] = draw(changed(new[below[0]]))
        return new
    other = draw(BOUNDS if new["type"] == "string" else NUMBERS)
    for key in draw(st.lists(st.sampled_from(sorted({*new, *other} - {"type"}) or ["nullable"]), max_size=2)):
        match draw(st.integers(0, 2)):
            case 0:
                new.pop(key, None) if key not in ("items", "additionalProperties", "properties") else None
            case 1 if key in other and new["type"] in ("string", other["type"]):
                new[key] = other[key]
            case _ if isinstance(new.get(key), int) and not isinstance(new[key], bool):
                new[key] = max(0, new[key] + draw(st.sampled_from([-1, 1]))) if key != "multipleOf" else new[key]
            case _:
                pass
    if draw(st.booleans()) and new["type"] == "object" and new.get("required"):
        new["required"] = new["required"][1:]
    return new


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data(), SCHEMAS, st.lists(VALUES, min_size=1, max_size=20))
def test_what_is_called_compatible_takes_every_value_that_was_fine(data, old, values):
    new = data.draw(changed(old))
    assume(not any(change.severity == "breaking" for change in changes_between([crd({"v": old})], [crd({"v": new})])))
    before, after = compile_check(old), compile_check(new)
    for value in values:
        assert not before(value) or after(value)
