"""ObjectMeta: what creation and change allow."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steersman_cluster.kinds import formats
from steersman_cluster.kinds.meta import keep_system_fields, validate_metadata, validate_metadata_update
from steersman_cluster.objects import Object, Path


def obj(**metadata: Any) -> Object:
    return {"metadata": {"name": "a", "namespace": "b", "resourceVersion": "1", **metadata}}


def texts(found: list[Any]) -> list[str]:
    return [error.message for error in found]


def test_a_small_object_is_fine():
    assert not validate_metadata(
        obj(labels={"a": "b"}, annotations={"X/y": "any"}, finalizers=["x.y/z"]), Path("metadata")
    )


def test_a_missing_name_is_required():
    found = validate_metadata({"metadata": {"namespace": "b"}})
    assert texts(found) == ["metadata.name: Required value: name or generateName is required"]


def test_a_cluster_scoped_object_has_no_namespace():
    found = validate_metadata(obj(), Path("metadata"), namespaced=False)
    assert texts(found) == ["metadata.namespace: Forbidden: not allowed on this type"]


def test_a_generated_names_prefix_may_end_in_a_dash():
    assert not validate_metadata(obj(generateName="a-", name="a-x"))
    assert texts(validate_metadata(obj(generateName="A_-", name="a-x")))[0].startswith("metadata.generateName")


@pytest.mark.parametrize("name", [".", "..", "a/b", "a%b"])
def test_a_path_segment_is_safe_in_urls(name: str):
    assert validate_metadata(obj(name=name), Path("metadata"), "path", namespaced=True)


def test_a_path_segment_may_be_any_other_name():
    assert not validate_metadata(obj(name="system:A_b"), Path("metadata"), "path", namespaced=True)


def test_a_custom_resource_may_have_bare_finalizers():
    assert not validate_metadata(obj(finalizers=["bare"]), builtin=False)
    (text,) = texts(validate_metadata(obj(finalizers=["bare"])))
    assert text.endswith("name is neither a standard finalizer name nor is it fully qualified")


def test_annotations_are_measured_in_bytes():
    assert not validate_metadata(obj(annotations={"a": "x" * 262143}))
    assert texts(validate_metadata(obj(annotations={"a": "é" * 131072}))) == [
        "metadata.annotations: Too long: may not be more than 262144 bytes"
    ]


def test_a_deleted_object_takes_no_new_finalizers():
    old = obj(deletionTimestamp="2020-01-01T00:00:00Z", finalizers=["a.b/c"])
    new = obj(deletionTimestamp="2020-01-01T00:00:00Z", finalizers=["a.b/c", "x.y/z", "d.e/f"])
    assert texts(validate_metadata_update(new, old)) == [
        "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, "
        'found new finalizers []string{"d.e/f", "x.y/z"}'
    ]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"uid": "2"}, 'metadata.uid: Invalid value: "2": field is immutable'),
        ({"generation": 1}, "metadata.generation: Invalid value: 1: must not be decremented"),
        (
            {"deletionGracePeriodSeconds": 5},
            "metadata.deletionGracePeriodSeconds: Invalid value: 5: field is immutable",
        ),
        ({"resourceVersion": ""}, 'metadata.resourceVersion: Invalid value: "": must be specified for an update'),
    ],
)
def test_what_no_update_changes(change: Object, text: str):
    old = obj(uid="1", generation=2)
    assert texts(validate_metadata_update(obj(**{"uid": "1", "generation": 2, **change}), old)) == [text]


def test_a_name_that_is_no_longer_allowed_may_stay():
    old = obj(name="Old_name")
    assert not validate_metadata_update(obj(name="Old_name", labels={"a": "b"}), old)


def test_an_update_keeps_what_the_client_left_out():
    old = obj(uid="1", creationTimestamp="2020-01-01T00:00:00Z", deletionGracePeriodSeconds=3)
    new = obj(creationTimestamp="2021-01-01T00:00:00Z")
    keep_system_fields(new, old)
    assert not validate_metadata_update(new, old)


def test_a_wrong_label_of_a_change_is_told_twice():
    assert len(validate_metadata_update(obj(labels={"a": "-"}), obj())) == 2


@given(st.text(max_size=80))
def test_a_rule_takes_any_text(text: str):
    for rule in (
        formats.dns_label, formats.dns_subdomain, formats.dns1035_label, formats.label_key, formats.label_value,
        formats.config_map_key, formats.env_var_name, formats.port_name, formats.path_segment, formats.percent,
        formats.ip_address, formats.cidr, formats.c_identifier, formats.wildcard_subdomain,
    ):  # fmt: skip
        assert all(isinstance(error, str) for error in rule(text))


@given(st.from_regex(r"[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?){0,3}", fullmatch=True))
def test_a_subdomain_is_a_label_key_too(name: str):
    assert not formats.dns_subdomain(name)
    assert not formats.label_key(f"{name}/name")


@given(st.ip_addresses())
def test_an_address_is_an_address(address: Any):
    mapped = getattr(address, "ipv4_mapped", None)
    assert bool(formats.ip_address(str(address))) == (mapped is not None)
