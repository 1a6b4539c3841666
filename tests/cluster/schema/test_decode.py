"""Decoding as Go does it. The texts are those of kube-apiserver 1.36."""

import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steersman_cluster.schema import builtin, decode, decode_errors, duplicate_fields, loads, strict_errors

DEPLOYMENT = builtin("apps", "v1", "Deployment")
SPEC = ("spec", "template", "spec")


def deployment(**container):
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "labels": {"app": "web"}},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "web", **container}]},
            },
        },
    }


def put(obj, path, value):
    *steps, last = path
    for step in steps:
        obj = obj[step]
    obj[last] = value


def test_what_go_always_writes_is_filled_in():
    obj = deployment()
    assert decode(obj, DEPLOYMENT).unknown == ()
    assert obj["status"] == {}
    assert obj["spec"]["strategy"] == {}
    assert obj["spec"]["template"]["spec"]["containers"][0]["resources"] == {}


def test_empty_optional_fields_vanish_but_pointers_to_zero_stay():
    obj = deployment(command=[], env=None, stdin=False, workingDir="")
    obj["spec"]["replicas"] = 0
    decode(obj, DEPLOYMENT)
    assert set(obj["spec"]["template"]["spec"]["containers"][0]) == {"name", "image", "resources"}
    assert obj["spec"]["replicas"] == 0


def test_quantities_get_their_canonical_form():
    obj = deployment(resources={"limits": {"cpu": "1000m", "memory": 1024, "x/y": "1.5Gi"}})
    decode(obj, DEPLOYMENT)
    limits = obj["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]
    assert limits == {"cpu": "1", "memory": "1024", "x/y": "1536Mi"}


@pytest.mark.parametrize(
    ("kind", "field", "value", "expected"),
    [
        ("Event", "firstTimestamp", "2020-01-01T00:00:00.5+01:00", "2019-12-31T23:00:00Z"),
        ("Event", "eventTime", "2020-01-01T00:00:00.500000+02:00", "2019-12-31T22:00:00.500000Z"),
    ],
)
def test_times_are_written_in_utc(kind, field, value, expected):
    obj = {"metadata": {"name": "x"}, "involvedObject": {}, field: value}
    decode(obj, builtin("", "v1", kind))
    assert obj[field] == expected


def test_base64_may_have_line_breaks():
    obj = {"data": {"a": "YWFh\nYWFh", "b": None, "c": ""}}
    decode(obj, builtin("", "v1", "Secret"))
    assert obj["data"] == {"a": "YWFhYWFh", "b": "", "c": ""}


def test_null_in_a_map_of_strings_is_the_empty_string():
    obj = {"metadata": {"labels": {"a": None}}, "data": {"b": None}}
    decode(obj, builtin("", "v1", "ConfigMap"))
    assert obj == {"metadata": {"labels": {"a": ""}}, "data": {"b": ""}}


def test_lists_at_the_top_of_an_object_are_null_when_missing_and_stay_when_empty():
    for rules in ({}, {"rules": []}, {"rules": None}):
        obj = {"metadata": {"name": "x"}, **rules}
        decode(obj, builtin("rbac.authorization.k8s.io", "v1", "Role"))
        assert obj["rules"] == rules.get("rules")


def test_an_empty_list_of_managed_fields_stays_because_it_is_a_request():
    obj = {"metadata": {"managedFields": []}}
    decode(obj, builtin("", "v1", "ConfigMap"))
    assert obj["metadata"] == {"managedFields": []}


def test_unknown_fields_are_named_and_removed():
    obj = deployment(foo=1)
    obj["spec"]["bar"] = {"a": 1}
    obj["metadata"]["baz"] = 1
    found = decode(obj, DEPLOYMENT)
    assert found.unknown == (
        'unknown field "metadata.baz"',
        'unknown field "spec.template.spec.containers[0].foo"',
        'unknown field "spec.bar"',
    )
    assert "foo" not in obj["spec"]["template"]["spec"]["containers"][0]
    assert "bar" not in obj["spec"]


CONTAINER = (*SPEC, "containers", 0)


@pytest.mark.parametrize(
    ("path", "value", "text"),
    [
        (("spec", "replicas"), "x", "string into Go struct field DeploymentSpec.spec.replicas of type int32"),
        (("spec", "replicas"), 1.5, "number 1.5 into Go struct field DeploymentSpec.spec.replicas of type int32"),
        (
            ("spec", "replicas"),
            1 << 40,
            f"number {1 << 40} into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
        (("metadata", "labels"), {"a": 1}, "number into Go struct field ObjectMeta.metadata.labels of type string"),
        (
            ("metadata", "labels"),
            [1],
            "array into Go struct field ObjectMeta.metadata.labels of type map[string]string",
        ),
        (
            (*SPEC, "containers"),
            {},
            "object into Go struct field PodSpec.spec.template.spec.containers of type []v1.Container",
        ),
        (
            (*CONTAINER, "ports"),
            [{"protocol": 5}],
            "number into Go struct field ContainerPort.spec.template.spec.containers.ports.protocol"
            " of type v1.Protocol",
        ),
        (
            (*SPEC, "volumes"),
            [{"hostPath": 4}],
            "number into Go struct field Volume.spec.template.spec.volumes.VolumeSource.hostPath"
            " of type v1.HostPathVolumeSource",
        ),
        (
            ("metadata", "creationTimestamp"),
            4,
            "number into Go struct field ObjectMeta.metadata.creationTimestamp of type string",
        ),
        (("spec",), [], "array into Go struct field Deployment.spec of type v1.DeploymentSpec"),
        (("metadata",), "x", "string into Go struct field Deployment.metadata of type v1.ObjectMeta"),
    ],
)
def test_a_mismatch_has_the_text_of_gos_decoder(path, value, text):
    obj = deployment()
    put(obj, path, value)
    assert decode(obj, DEPLOYMENT).mismatch == f"json: cannot unmarshal {text}"


@pytest.mark.parametrize(
    ("path", "value", "text"),
    [
        (
            ("metadata", "creationTimestamp"),
            "x",
            'parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006"',
        ),
        (
            ("metadata", "creationTimestamp"),
            "2020-01-01T00:00:00",
            'parsing time "2020-01-01T00:00:00" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "Z07:00"',
        ),
        (
            ("metadata", "creationTimestamp"),
            "2020-13-01T00:00:00Z",
            'parsing time "2020-13-01T00:00:00Z": month out of range',
        ),
        (
            (*CONTAINER, "resources"),
            {"limits": {"cpu": "abc"}},
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        ((*CONTAINER, "resources"), {"limits": {"cpu": "1kk"}}, "unable to parse quantity's suffix"),
    ],
)
def test_scalars_with_a_form_say_what_is_wrong_with_it(path, value, text):
    obj = deployment()
    put(obj, path, value)
    assert decode(obj, DEPLOYMENT).mismatch == text


@pytest.mark.parametrize(
    ("text", "position"),
    [("!!", 0), ("YQ=", 3), ("YWFh!", 4), ("Y", 0), ("YQ==x", 4), ("YWFhYQ", 4), ("=", 0), ("YQ=a", 2)],
)
def test_bad_base64_is_located(text, position):
    found = decode({"data": {"a": text}}, builtin("", "v1", "Secret"))
    assert found.mismatch == f"illegal base64 data at input byte {position}"


def test_decode_errors_leaves_the_object_alone():
    obj = deployment(foo=1)
    before = copy.deepcopy(obj)
    assert decode_errors(obj, DEPLOYMENT) == (['unknown field "spec.template.spec.containers[0].foo"'], None)
    assert obj == before


def test_decoding_twice_changes_nothing_more():
    obj = deployment(resources={"limits": {"cpu": "0.5"}}, ports=[{"containerPort": 80}])
    decode(obj, DEPLOYMENT)
    before = copy.deepcopy(obj)
    decode(obj, DEPLOYMENT)
    assert obj == before


@pytest.mark.parametrize(
    "body",
    [
        b'{"a":{"b":1},"c":[true,null,"d"]}',
        b'{"a":1,"a":2}',
        b'{"a":[{"b":1,"b":1}]}',
        b'{"a":1.0,"b":1e3}',
        b'{"a":-0}',
        b'{"a":9223372036854775807,"b":9223372036854775808,"c":18446744073709551616}',
        b'{"a":"\\u003c\\ud800\\/"}',
        '{"é":"\N{SNOWMAN}"}'.encode(),
        b"[]",
        b"1",
    ],
)
@pytest.mark.parametrize("options", [{}, {"literal": True}, {"unstructured": True}])
def test_compact_json_is_read_as_the_same_json_with_space(body, options):
    value, repeated = loads(body, **options)
    spaced, repeated_there = loads(body + b" ", **options)
    assert repr(value) == repr(spaced)
    assert repeated == repeated_there


def test_parsing_tells_of_repeated_keys():
    assert loads(b'{"a": {"b": 1}}') == ({"a": {"b": 1}}, False)
    assert loads(b'{"a": {"b": 1, "b": 2}}') == ({"a": {"b": 2}}, True)
    with pytest.raises(ValueError, match="Expecting"):
        loads(b"{")


def test_repeated_keys_are_located():
    data = b'{"a":1,"a":2,"b":[{"c":1,"c":2}]}'
    assert duplicate_fields(data) == ['duplicate field "a"', 'duplicate field "b[0].c"']


def test_strict_errors_come_in_the_order_of_the_document():
    data = b'{"metadata":{"x":1,"x":2,"name":"a","name":"b"},"zz":1,"spec":{"replicas":1,"replicas":2,"foo":1}}'
    assert strict_errors(data, DEPLOYMENT) == [
        'unknown field "metadata.x"',
        'duplicate field "metadata.name"',
        'unknown field "zz"',
        'duplicate field "spec.replicas"',
        'unknown field "spec.foo"',
    ]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3) | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["name", "spec", "a", "env"]), inner),
    max_leaves=12,
)


@given(JSON, JSON)
def test_any_json_is_decoded_or_refused(spec, metadata):
    obj = {"spec": {"template": {"spec": spec}}, "metadata": metadata}
    found = decode(obj, DEPLOYMENT)
    if not found.mismatch:
        again = copy.deepcopy(obj)
        assert decode(again, DEPLOYMENT).unknown == ()
        assert again == obj
        json.dumps(obj)


@pytest.mark.parametrize(
    ("path", "value", "text"),
    [
        (("spec", "replicas"), "x", "unrecognized type: int32"),
        (("spec", "replicas"), 1.5, "cannot convert float64 to int32"),
        (("metadata", "labels"), {"a": 1}, "cannot convert int64 to string"),
        (("metadata", "labels"), {"a": 1.5}, "unrecognized type: string"),
        (("metadata", "labels"), "x", "cannot restore map from string"),
        ((*SPEC, "containers"), {}, "cannot restore slice from map"),
        (("spec",), 5, "cannot restore struct from: int64"),
        (("metadata", "creationTimestamp"), 5, "json: cannot unmarshal number into Go value of type string"),
    ],
)
def test_gos_converter_has_texts_of_its_own(path, value, text):
    obj = deployment()
    put(obj, path, value)
    assert decode(obj, DEPLOYMENT).converted == text
