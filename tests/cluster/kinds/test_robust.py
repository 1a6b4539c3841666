"""Every built-in kind processes any JSON of the right types, and raises nothing but APIError."""

import base64
import copy
import random
import string
from collections.abc import Iterable
from typing import Any

import pytest

from steersman_cluster.errors import APIError
from steersman_cluster.kinds import registry
from steersman_cluster.kinds.meta import keep_system_fields, validate_metadata, validate_metadata_update
from steersman_cluster.objects import Object, Path
from steersman_cluster.schema import builtin, decode
from steersman_cluster.schema.types import Type
from steersman_cluster.strategy import User, WriteContext

FAMILIES = (
    "core", "services", "storage", "cluster", "policy", "events", "autoscaling", "rbac", "coordination", "networking",
    "scheduling", "webhooks", "aggregation", "resources",
)  # fmt: skip
KINDS = sorted({kind for family in FAMILIES for kind in registry._family(family)})
WORDS = (
    "", "a", "A_b", "..", "a.b/c", "x y", "1.2.3.4", "10.0.0.0/8", "::1", "None", "IPv4", "NodePort", "LoadBalancer",
    "ExternalName", "Local", "Resource", "Object", "Container", "Pod", "kubernetes.io/tls", "https://x/y", "é", "*",
    "Namespace", "ServiceAccount", "User", "Limited", "Bound", "ReadWriteOnce", "{", "system-x", "-", "%",
)  # fmt: skip
METRICS = ("[1]", "{", '[{"type":"Pods","pods":{}}]')
SCALARS: dict[str, Any] = {
    "string": WORDS,
    "boolean": (True, False),
    "bytes": ("", base64.b64encode(b"x").decode()),
    "time": ("2020-01-01T00:00:00Z", None),
    "micro-time": ("2020-01-01T00:00:00.000000Z", None),
    "quantity": ("0", "-1", "1500m", "1Gi"),
    "int-or-string": (0, -1, 5, "10%", "200%", "x", ""),
    "number": (0, 1.5),
}


class Nothing:
    def get(self, group: str, resource: str, namespace: str, name: str) -> Object | None:
        return None

    def list(self, group: str, resource: str, namespace: str = "") -> Iterable[Object]:
        return ()


def some(type: Type, chance: random.Random, depth: int = 0) -> Any:
    """A random value of a type; sparse and shallow enough to stay small."""
    if type.form == "scalar":
        return chance.choice(SCALARS.get(type.scalar, (0, 1, -1, 80, 70000)))
    if type.form == "list":
        return [some(type.item, chance, depth + 1) for _ in range(chance.randint(0, 3))]
    if type.form == "any" or (not type.fields and type.element is None):
        return {}
    if type.fields:
        share = 0.6 if depth < 3 else 0.35 if depth < 8 else 0.0
        return {name: some(field, chance, depth + 1) for name, field in type.fields.items() if chance.random() < share}
    assert type.element is not None
    return {chance.choice(WORDS): some(type.element, chance, depth + 1) for _ in range(chance.randint(0, 2))}


def make(kind: registry.Kind, chance: random.Random, name: str) -> Object:
    group, version, title = kind
    obj = some(builtin(group, version, title), chance)
    obj |= {"apiVersion": f"{group}/{version}" if group else version, "kind": title}
    obj["metadata"] = {
        "name": name, "namespace": "t", "uid": "u", "resourceVersion": "1",
        "labels": {chance.choice(WORDS): chance.choice(WORDS)},
        "annotations": {"autoscaling.alpha.kubernetes.io/metrics": chance.choice(METRICS)},
    }  # fmt: skip
    found = decode(obj, builtin(group, version, title))
    assert not found.mismatch, found.mismatch
    return obj


@pytest.mark.parametrize("kind", KINDS, ids="-".join)
@pytest.mark.parametrize("seed", range(25))
def test_a_strategy_takes_whatever_decodes(kind: registry.Kind, seed: int):
    chance = random.Random(f"{kind}{seed}")
    strategy = registry.strategy_for(*kind)
    old = make(kind, chance, "x")
    strategy.default(old)
    refusals: list[int] = []
    for subresource in ("", "status", "finalize"):
        context = WriteContext(User("u"), "2026-01-01T00:00:00Z", Nothing(), lambda n: "b" * n, subresource)
        obj = make(kind, chance, "x")
        created = copy.deepcopy(obj)
        before = copy.deepcopy(old)
        try:
            strategy.default(created)
            strategy.prepare_create(created, context)
            found = validate_metadata(created) + strategy.validate_create(created, context)
            strategy.default(obj)
            keep_system_fields(obj, old)
            strategy.prepare_update(obj, old, context)
            found += validate_metadata_update(obj, old, Path("metadata")) + strategy.validate_update(obj, old, context)
            assert all(error.message for error in found)
        except APIError as error:
            refusals.append(error.code)
        assert old == before
        strategy.warnings(obj, old, context)
        assert set(strategy.fields(obj)) == set(strategy.selectable)
        assert len(strategy.row(obj, 0.0)) >= len(strategy.columns)
        assert strategy.from_storage(strategy.to_storage(obj))["kind"] == kind[2]
    assert set(refusals) <= {422}


def test_every_kind_of_the_room_is_one_the_schema_knows():
    from steersman_cluster.schema.builtin import kinds

    assert set(KINDS) <= set(kinds())


def test_an_unknown_kind_is_plain():
    assert type(registry.strategy_for("x.y", "v1", "Z")).__name__ == "Plain"


def test_a_strategy_is_the_same_on_every_call():
    assert registry.strategy_for("", "v1", "Service") is registry.strategy_for("", "v1", "Service")


def test_names_of_columns_are_unique():
    for kind in KINDS:
        names = [column.name for column in registry.strategy_for(*kind).columns]
        assert len(names) == len(set(names)), kind
        assert not set("".join(names)) - set(string.ascii_letters + "-() ")
