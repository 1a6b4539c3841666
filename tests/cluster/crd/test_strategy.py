"""Updates, status, scale, columns and selectable fields of custom resources."""

import copy
from typing import Any

import pytest

from steersman_cluster.crd import CustomStrategy, accept, convert, deleting, established, published_schemas
from steersman_cluster.errors import APIError
from steersman_cluster.objects import Object
from steersman_cluster.strategy import User, WriteContext

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "size": {"type": "integer", "maximum": 10},
                "name": {
                    "type": "string",
                    "maxLength": 3,
                    "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "is immutable"}],
                },
                "ports": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": {
                        "type": "object",
                        "required": ["name"],
                        "properties": {"name": {"type": "string"}, "port": {"type": "integer", "maximum": 10}},
                        "x-kubernetes-validations": [{"rule": "self.port >= oldSelf.port", "message": "never falls"}],
                    },
                },
                "list": {"type": "array", "items": {"type": "integer", "maximum": 10}},
                "mode": {
                    "type": "string",
                    "x-kubernetes-validations": [
                        {
                            "rule": "!oldSelf.hasValue() || oldSelf.value() == self",
                            "optionalOldSelf": True,
                            "message": "set once",
                        }
                    ],
                },
                "when": {"type": "string"},
            },
        },
        "status": {
            "type": "object",
            "properties": {"ready": {"type": "integer", "minimum": 0}, "selector": {"type": "string"}},
        },
    },
}
VERSION: dict[str, Any] = {
    "name": "v1",
    "served": True,
    "storage": True,
    "schema": {"openAPIV3Schema": SCHEMA},
    "subresources": {
        "status": {},
        "scale": {
            "specReplicasPath": ".spec.size",
            "statusReplicasPath": ".status.ready",
            "labelSelectorPath": ".status.selector",
        },
    },
    "selectableFields": [{"jsonPath": ".spec.name"}, {"jsonPath": ".spec.size"}],
    "additionalPrinterColumns": [
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "Port", "type": "string", "jsonPath": ".spec.ports[?(@.name=='b')].port"},
        {"name": "When", "type": "date", "jsonPath": ".spec.when"},
        {"name": "None", "type": "string", "jsonPath": ".spec.nope"},
    ],
}
DEFINITION: dict[str, Any] = {
    "metadata": {"name": "apps.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "apps", "singular": "app", "kind": "App", "listKind": "AppList", "shortNames": ["ap"]},
        "versions": [VERSION],
    },
}


class Nothing:
    def get(self, *_: str) -> None:
        return None

    def list(self, *_: str) -> list[Object]:
        return []


def context(subresource: str = "") -> WriteContext:
    return WriteContext(User("u"), "2024-01-01T00:00:00Z", Nothing(), lambda count: "x" * count, subresource)


def app(**spec: Any) -> Object:
    return {"apiVersion": "example.com/v1", "kind": "App", "metadata": {"name": "a", "generation": 1}, "spec": spec}


STRATEGY = CustomStrategy(DEFINITION, VERSION)


def update(old: Object, new: Object, subresource: str = "") -> list[str]:
    return [error.message for error in STRATEGY.validate_update(new, old, context(subresource))]


def test_an_unchanged_bad_value_is_forgiven_and_a_changed_one_is_not() -> None:
    assert update(app(size=99, name="a"), app(size=99, name="a")) == []
    assert update(app(size=99), app(size=98)) == [
        "spec.size: Invalid value: 98: spec.size in body should be less than or equal to 10"
    ]


def test_items_of_list_maps_are_found_again_by_their_keys() -> None:
    old = app(ports=[{"name": "a", "port": 99}, {"name": "b", "port": 5}])
    assert update(old, app(ports=[{"name": "b", "port": 6}, {"name": "a", "port": 99}])) == []
    assert update(old, app(ports=[{"name": "b", "port": 4}])) == ["spec.ports[0]: Invalid value: never falls"]


def test_items_of_atomic_lists_are_not_found_again() -> None:
    assert update(app(list=[99]), app(list=[99, 1])) == [
        "spec.list[0]: Invalid value: 99: spec.list[0] in body should be less than or equal to 10"
    ]


def test_a_transition_rule_needs_an_old_value() -> None:
    assert STRATEGY.validate_create(app(name="a"), context()) == []
    assert update(app(), app(name="a")) == []
    assert update(app(name="a"), app(name="b")) == ['spec.name: Invalid value: "b": is immutable']


def test_an_optional_old_value_is_seen_by_rules_that_ask_for_it() -> None:
    assert STRATEGY.validate_create(app(mode="x"), context()) == []
    assert update(app(mode="x"), app(mode="y")) == ['spec.mode: Invalid value: "y": set once']


def test_a_status_write_changes_status_alone() -> None:
    old = {**app(size=1), "status": {"ready": 1}}
    new: Object = {**app(size=5), "metadata": {"name": "a", "labels": {"x": "y"}}, "status": {"ready": 2}}
    STRATEGY.prepare_update(new, old, context("status"))
    assert new == {**old, "status": {"ready": 2}}
    new["status"] = {"ready": -1}
    assert update(old, new, "status") == [
        "status.ready: Invalid value: -1: ready in body should be greater than or equal to 0",
        ".status.ready: Invalid value: -1: should be a non-negative integer",
    ]


def test_generation_counts_changes_of_the_spec() -> None:
    old = {**app(size=1), "status": {"ready": 1}}
    same = copy.deepcopy(old)
    same["metadata"]["labels"] = {"a": "b"}
    STRATEGY.prepare_update(same, old, context())
    assert same["metadata"]["generation"] == 1
    other = app(size=2)
    STRATEGY.prepare_update(other, old, context())
    assert other["metadata"]["generation"] == 2
    assert other["status"] == {"ready": 1}


def test_the_scale_is_read_and_written_by_its_paths() -> None:
    scale = STRATEGY.scale
    assert scale is not None
    obj = {**app(size=3), "status": {"ready": 2, "selector": "a=b"}}
    assert scale.read(obj)["spec"] == {"replicas": 3}
    assert scale.read(obj)["status"] == {"replicas": 2, "selector": "a=b"}
    scale.write(obj, {"spec": {"replicas": 7}})
    assert obj["spec"]["size"] == 7
    with pytest.raises(APIError, match=r'the spec replicas field ".spec.size" does not exist'):
        scale.read(app())


def test_columns_show_what_their_paths_find() -> None:
    obj = app(size=3, ports=[{"name": "a", "port": 1}, {"name": "b", "port": 2}], when="2024-01-01T00:00:00Z")
    assert STRATEGY.row(obj, 1704067200.0 + 90) == ["a", 3, "2", "90s", None]
    assert [column.name for column in STRATEGY.columns] == ["Name", "Size", "Port", "When", "None"]


def test_selectable_fields_are_texts() -> None:
    assert STRATEGY.fields(app(name="x", size=3)) == {"spec.name": "x", "spec.size": "3"}
    assert STRATEGY.fields(app()) == {"spec.name": "", "spec.size": ""}


def test_finalizers_without_a_domain_are_warned_of() -> None:
    obj = app()
    obj["metadata"]["finalizers"] = ["a.b/c", "mine"]
    assert list(STRATEGY.warnings(obj, None, context())) == [
        'metadata.finalizers: "mine": prefer a domain-qualified finalizer name '
        "to avoid accidental conflicts with other finalizer writers"
    ]


def test_names_are_accepted_once_and_conflicts_are_told() -> None:
    first = copy.deepcopy(DEFINITION)
    first["status"] = accept(first, [first], "2024-01-01T00:00:00Z")
    assert established(first)
    assert accept(first, [first], "2025-01-01T00:00:00Z") is None
    second = copy.deepcopy(DEFINITION)
    second["metadata"]["name"] = "bpps.example.com"
    second["spec"]["names"]["plural"] = "bpps"
    status = accept(second, [first, second], "2024-01-01T00:00:00Z")
    assert status is not None
    assert [(item["type"], item["status"], item["reason"]) for item in status["conditions"]] == [
        ("NamesAccepted", "False", "ListKindConflict"),
        ("Established", "False", "NotAccepted"),
    ]
    assert status["acceptedNames"] == {"plural": "bpps"}


def test_a_deleted_definition_waits_for_its_objects() -> None:
    definition = copy.deepcopy(DEFINITION)
    deleting(definition, "2024-01-01T00:00:00Z")
    assert definition["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]
    assert definition["status"]["conditions"][0]["reason"] == "InstanceDeletionPending"


def test_the_published_schema_names_its_kind_and_refers_to_object_meta() -> None:
    schemas = published_schemas(DEFINITION, VERSION)
    assert sorted(schemas) == ["com.example.v1.App", "com.example.v1.AppList"]
    own = schemas["com.example.v1.App"]
    assert own["x-kubernetes-group-version-kind"] == [{"group": "example.com", "version": "v1", "kind": "App"}]
    assert own["properties"]["metadata"]["allOf"] == [
        {"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}
    ]


async def test_a_webhook_converts_and_keeps_metadata() -> None:
    definition = {
        "spec": {
            "conversion": {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": {}}}
        }
    }

    async def call(config: Object, body: Object, timeout: float) -> Any:
        converted = [{**obj, "apiVersion": body["request"]["desiredAPIVersion"]} for obj in body["request"]["objects"]]
        converted[0]["metadata"] = {"name": "a", "labels": {"x": "y"}, "generation": 9}
        return {
            **body,
            "response": {"uid": body["request"]["uid"], "result": {"status": "Success"}, "convertedObjects": converted},
        }

    found = await convert(definition, [app(size=1)], "example.com/v2", call)
    assert found[0]["apiVersion"] == "example.com/v2"
    assert found[0]["metadata"] == {"name": "a", "generation": 1, "labels": {"x": "y"}}


async def test_a_webhook_that_fails_is_told_of() -> None:
    definition = {"spec": {"conversion": {"strategy": "Webhook", "webhook": {"clientConfig": {}}}}}

    async def call(config: Object, body: Object, timeout: float) -> Any:
        result = {"status": "Failed", "message": "no way"}
        return {**body, "response": {"uid": body["request"]["uid"], "result": result}}

    with pytest.raises(APIError, match=r"conversion webhook for example\.com/v1, Kind=App failed: no way"):
        await convert(definition, [app()], "example.com/v2", call)
