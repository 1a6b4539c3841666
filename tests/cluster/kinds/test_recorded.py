"""The strategies against what a real API server said: the same object, or the same errors."""

import copy
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from steersman_cluster.errors import APIError, invalid
from steersman_cluster.kinds import strategy_for
from steersman_cluster.kinds.meta import keep_system_fields, validate_metadata, validate_metadata_update
from steersman_cluster.objects import Object, dig, meta, name_of
from steersman_cluster.objects import Path as FieldPath
from steersman_cluster.schema import builtin, decode
from steersman_cluster.strategy import Strategy, User, WriteContext

TABLES: list[dict[str, Any]] = json.loads((Path(__file__).parent / "recorded_tables.json").read_text())
RECORDS: list[dict[str, Any]] = json.loads((Path(__file__).parent / "recorded.json").read_text())
KINDS = {
    "configmaps": "ConfigMap", "secrets": "Secret", "serviceaccounts": "ServiceAccount", "namespaces": "Namespace",
    "services": "Service", "endpoints": "Endpoints", "endpointslices": "EndpointSlice", "events": "Event",
    "leases": "Lease", "persistentvolumes": "PersistentVolume", "persistentvolumeclaims": "PersistentVolumeClaim",
    "storageclasses": "StorageClass", "csidrivers": "CSIDriver", "csinodes": "CSINode",
    "volumeattachments": "VolumeAttachment", "csistoragecapacities": "CSIStorageCapacity",
    "poddisruptionbudgets": "PodDisruptionBudget", "horizontalpodautoscalers": "HorizontalPodAutoscaler",
    "limitranges": "LimitRange", "resourcequotas": "ResourceQuota", "roles": "Role", "clusterroles": "ClusterRole",
    "rolebindings": "RoleBinding", "clusterrolebindings": "ClusterRoleBinding",
    "validatingwebhookconfigurations": "ValidatingWebhookConfiguration",
    "mutatingwebhookconfigurations": "MutatingWebhookConfiguration",
    "validatingadmissionpolicies": "ValidatingAdmissionPolicy",
    "validatingadmissionpolicybindings": "ValidatingAdmissionPolicyBinding", "ingresses": "Ingress",
    "ingressclasses": "IngressClass", "networkpolicies": "NetworkPolicy", "priorityclasses": "PriorityClass",
    "runtimeclasses": "RuntimeClass", "nodes": "Node", "apiservices": "APIService",
    "certificatesigningrequests": "CertificateSigningRequest", "flowschemas": "FlowSchema",
    "prioritylevelconfigurations": "PriorityLevelConfiguration", "deviceclasses": "DeviceClass",
    "resourceclaims": "ResourceClaim", "servicecidrs": "ServiceCIDR", "ipaddresses": "IPAddress",
}  # fmt: skip
PROTECTION = ("kubernetes.io/pv-protection", "kubernetes.io/pvc-protection")
NOT_READY = "node.kubernetes.io/not-ready"
AGES = ("Age", "Last Seen", "First Seen", "Created At")
NOW = "2026-01-01T00:00:00Z"


def _restored(value: Any) -> Any:
    if isinstance(value, dict):
        if "repeat" in value and len(value) == 1:
            letter, count = value["repeat"]
            return letter * count
        return {key: _restored(item) for key, item in value.items()}
    return [_restored(item) for item in value] if isinstance(value, list) else value


class Stored:
    """The Services that the records before this one left behind."""

    def __init__(self, upto: int) -> None:
        self.services: dict[str, Object] = {}
        for record in RECORDS[:upto]:
            if "/services" in record["path"] and record["code"] < 300:
                found = copy.deepcopy(record["answer"])
                found["metadata"]["uid"] = found["metadata"]["name"]
                self.services[found["metadata"]["name"]] = found

    def get(self, group: str, resource: str, namespace: str, name: str) -> Object | None:
        return self.services.get(name) if resource == "services" else None

    def list(self, group: str, resource: str, namespace: str = "") -> Iterable[Object]:
        return list(self.services.values()) if resource == "services" else []


def _split(path: str) -> tuple[str, str, bool, list[str]]:
    """Group, version, whether namespaced, and resource, name and sub-resource."""
    parts = path.strip("/").split("/")
    group, version = ("", parts[1]) if parts[0] == "api" else (parts[1], parts[2])
    rest = parts[2:] if parts[0] == "api" else parts[3:]
    namespaced = rest[0] == "namespaces" and len(rest) > 2 and rest[1] == "t"
    return group, version, namespaced, rest[2:] if namespaced else rest


def _strategy(path: str) -> Strategy:
    group, version, _, rest = _split(path)
    return strategy_for(group, version, KINDS[rest[0]])


class Replay:
    """One record, played to the strategies."""

    def __init__(self, index: int) -> None:
        self.record = _restored(RECORDS[index])
        self.group, self.version, self.namespaced, rest = _split(self.record["path"])
        self.kind, self.subresource = KINDS[rest[0]], rest[2] if len(rest) > 2 else ""
        self.strategy = strategy_for(self.group, self.version, self.kind)
        self.context = WriteContext(
            User("kubernetes-admin", groups=("system:masters", "system:authenticated")),
            NOW,
            Stored(index),
            lambda count: "bcdfghjk"[:count].ljust(count, "x"),
            self.subresource,
        )

    def decoded(self, obj: Object) -> Object:
        obj = copy.deepcopy(obj)
        obj.setdefault("apiVersion", f"{self.group}/{self.version}" if self.group else self.version)
        obj.setdefault("kind", self.kind)
        found = decode(obj, builtin(self.group, self.version, self.kind))
        assert not found.mismatch, found.mismatch
        return obj

    @property
    def error_group(self) -> str:
        group = self.strategy.status_group
        return self.group if group is None else group

    def play(self) -> Object:
        """The object as it would be stored, or the Status of the refusal."""
        try:
            return self._create() if self.record["method"] == "POST" else self._update()
        except APIError as error:
            return error.status

    def _create(self) -> Object:
        obj = self.decoded(self.record["sent"])
        self.strategy.default(obj)
        metadata = meta(obj)
        metadata |= {"uid": name_of(obj), "creationTimestamp": NOW}
        if self.namespaced:
            metadata["namespace"] = "t"
        else:
            metadata.pop("namespace", None)
        self.strategy.prepare_create(obj, self.context)
        qualified = self.strategy.qualified_finalizers
        rule, path = self.strategy.name_rule, FieldPath("metadata")
        errors = validate_metadata(obj, path, rule, namespaced=self.namespaced, builtin=qualified)
        errors += self.strategy.validate_create(obj, self.context)
        if errors:
            raise invalid(self.error_group, self.kind, name_of(obj), errors)
        return obj

    def _update(self) -> Object:
        old, obj = self.decoded(self.record["old"]), self.decoded(self.record["sent"])
        self.strategy.default(obj)
        for one in (old, obj):
            meta(one)["uid"] = name_of(old)
        before = copy.deepcopy(old)
        keep_system_fields(obj, old)
        self.strategy.prepare_update(obj, old, self.context)
        errors = validate_metadata_update(obj, old, FieldPath("metadata"), namespaced=self.namespaced)
        errors += self.strategy.validate_update(obj, old, self.context)
        assert old == before, "the old object was changed"
        if errors:
            raise invalid(self.error_group, self.kind, name_of(obj), errors)
        return obj


def _plain(obj: Object) -> Object:
    """An object without the additions of admission and storage, and without allocated addresses."""
    obj = copy.deepcopy(obj)
    metadata = meta(obj)
    for field in ("uid", "resourceVersion"):
        metadata.pop(field, None)
    if finalizers := [item for item in metadata.pop("finalizers", []) if item not in PROTECTION]:
        metadata["finalizers"] = finalizers
    spec = obj.get("spec")
    if obj["kind"] == "Node" and spec.get("taints"):
        spec["taints"] = [taint for taint in spec["taints"] if taint["key"] != NOT_READY]
        if not spec["taints"]:
            del spec["taints"]
    return obj


def _unallocated(obj: Object, asked: Object) -> None:
    if obj.get("kind") != "Service" or "spec" not in obj:
        return
    spec, wanted = obj["spec"], asked.get("spec", {})
    if not wanted.get("clusterIP"):
        spec["clusterIP"] = "<given>" if "clusterIP" in spec else None
        spec["clusterIPs"] = ["<given>"] if "clusterIPs" in spec else None
    ports = [port.get("nodePort") for port in wanted.get("ports") or []]
    for port, number in zip(spec.get("ports") or [], ports, strict=True):
        if number is None and "nodePort" in port:
            port["nodePort"] = "<given>"


def _causes(status: Object) -> list[tuple[str, str]]:
    causes = dig(status, "details", "causes", default=[])
    return sorted((cause["field"], cause["message"]) for cause in causes)


def _title(record: dict[str, Any]) -> str:
    return f"{record['method']} {record['path'].split('/', 3)[-1]} {record['sent']['metadata'].get('name', '')[:20]}"


@pytest.mark.parametrize("index", range(len(RECORDS)), ids=lambda index: f"{index} {_title(RECORDS[index])}")
def test_a_strategy_says_what_the_api_server_says(index: int):
    replay = Replay(index)
    found, expected = replay.play(), replay.record["answer"]
    if replay.record["code"] == 422:
        assert found["status"] == "Failure", "taken, but the API server refuses it"
        assert _causes(found) == _causes(expected)
        assert found["message"].split(":")[0] == expected["message"].split(":")[0]
        return
    assert found.get("status") != "Failure", found["message"]
    found, expected = _plain(found), _plain(expected)
    _unallocated(found, replay.record["sent"])
    _unallocated(expected, replay.record["sent"])
    assert found == expected


@pytest.mark.parametrize("index", range(len(RECORDS)), ids=lambda index: f"{index} {_title(RECORDS[index])}")
def test_a_warning_is_the_api_servers(index: int):
    replay = Replay(index)
    if replay.record["code"] >= 300:
        return
    old = replay.decoded(replay.record["old"]) if "old" in replay.record else None
    always = replay.strategy.deprecation
    found = [*([always] if always else []), *replay.strategy.warnings(replay.record["answer"], old, replay.context)]
    assert [f'299 - "{text}"'.replace('"', "") for text in found] == [
        text.replace('\\"', "").replace('"', "") for text in replay.record["warnings"]
    ]


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table["path"].split("/", 2)[-1])
def test_a_table_is_the_api_servers(table: dict[str, Any]):
    strategy = _strategy(table["path"])
    shown = [{"name": c.name, "type": c.type, "format": c.format, "priority": c.priority} for c in strategy.columns]
    assert shown == table["columns"]
    for row in _restored(table["rows"]):
        found = strategy.row(row["object"], 1767225600.0)
        assert len(found) == len(row["cells"])
        for column, cell, expected in zip(strategy.columns, found, row["cells"], strict=False):
            if column.name not in AGES:
                assert (column.name, cell) == (column.name, expected)


@pytest.mark.parametrize("index", range(len(RECORDS)), ids=lambda index: f"{index} {_title(RECORDS[index])}")
def test_a_row_has_a_cell_for_each_column(index: int):
    replay = Replay(index)
    if replay.record["code"] < 300:
        row = replay.strategy.row(replay.record["answer"], 1767225660.0)
        assert len(row) == len(replay.strategy.columns)
        assert name_of(replay.record["answer"]) in " ".join(map(str, row))
