"""The structural types of built-in kinds and of custom resources."""

import pytest

from steersman_cluster.schema import ANY, builtin, custom, definition, from_openapi, kinds


def test_every_builtin_kind_has_a_type():
    for group, version, kind in kinds():
        assert builtin(group, version, kind).name.endswith(f".{kind}")


def test_an_unknown_kind_has_none():
    with pytest.raises(KeyError):
        builtin("apps", "v1", "Deplyoment")


def test_containers_are_a_list_by_name():
    containers = builtin("", "v1", "Pod").fields["spec"].fields["containers"]
    assert (containers.form, containers.list_type, containers.keys) == ("list", "map", ("name",))
    assert (containers.merge, containers.merge_key, containers.name) == (True, "name", "[]v1.Container")


def test_ports_have_two_keys_of_which_one_has_a_default():
    ports = builtin("", "v1", "Pod").fields["spec"].fields["containers"].item.fields["ports"]
    assert ports.keys == ("containerPort", "protocol")
    assert ports.item.defaults["protocol"] == "TCP"


def test_finalizers_are_a_set_and_selectors_are_atomic():
    deployment = builtin("apps", "v1", "Deployment")
    assert deployment.fields["metadata"].fields["finalizers"].list_type == "set"
    assert deployment.fields["spec"].fields["selector"].atomic


def test_volume_sources_remember_the_struct_they_are_embedded_in():
    assert definition("io.k8s.api.core.v1.Volume").fields["hostPath"].embedded == "VolumeSource"


def test_scalars_know_what_they_are():
    container = definition("io.k8s.api.core.v1.Container")
    meta = definition("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")
    limits = container.fields["resources"].fields["limits"]
    assert limits.element is not None
    assert limits.element.scalar == "quantity"
    assert meta.fields["creationTimestamp"].scalar == "time"
    assert meta.fields["generation"].scalar == "int64"
    port = definition("io.k8s.api.core.v1.HTTPGetAction").fields["port"]
    assert port.scalar == "int-or-string"
    secret = builtin("", "v1", "Secret").fields["data"]
    assert secret.element is not None
    assert secret.element.scalar == "bytes"


def test_types_may_contain_themselves():
    schema = builtin("apiextensions.k8s.io", "v1", "CustomResourceDefinition").fields["spec"].fields["versions"].item
    props = schema.fields["schema"].fields["openAPIV3Schema"]
    below = props.fields["properties"].element
    assert below is not None
    assert below.fields["properties"].element is below


def test_a_type_is_made_once():
    assert builtin("", "v1", "Pod") is builtin("", "v1", "Pod")


def test_custom_resources_have_the_metadata_of_all():
    foo = custom({"type": "object", "properties": {"metadata": {"type": "object"}, "spec": {"type": "object"}}})
    assert foo.fields["metadata"].fields["labels"].form == "map"
    assert foo.fields["kind"].scalar == "string"
    assert foo.child("other") is None


def test_preserved_fields_may_be_anything():
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"a": {"type": "string"}}}
    preserved = from_openapi(schema)
    assert preserved.child("a") is preserved.fields["a"]
    assert preserved.child("b") is ANY


def test_a_resource_without_a_schema_takes_anything():
    assert custom(None).child("spec") is ANY


def test_maps_have_one_type_for_all_values():
    numbers = from_openapi({"type": "object", "additionalProperties": {"type": "integer"}})
    assert numbers.child("x") is numbers.element
    assert not numbers.fields


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        ({"type": "array", "items": {}}, ("atomic", ())),
        ({"type": "array", "items": {}, "x-kubernetes-list-type": "set"}, ("set", ())),
        ({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"]}, ("map", ("a",))),
        (
            {"type": "array", "x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "n"},
            ("map", ("n",)),
        ),
        ({"type": "array", "x-kubernetes-patch-strategy": "merge"}, ("set", ())),
    ],
)
def test_list_types_come_from_their_extensions(node, expected):
    found = from_openapi(node)
    assert (found.list_type, found.keys) == expected
