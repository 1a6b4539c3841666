"""Controllers of whole clusters against kube-controller-manager: namespaces, owners, endpoints.

Each case runs in two clusters, one with the controllers of Kubernetes and one with ours.
"""

from __future__ import annotations

import asyncio
import re
from typing import Any

import msgspec

from steersman.client import Client, NotFound
from steersman.models import Dynamic, MergePatch, dynamic

from .harness import _differences
from .pairs import VIEWS, Pair, _plain

FINALIZER = "example.com/hold"
SKIP = {"endpointslice.kubernetes.io/skip-mirror": "true"}
NAMESPACE = dynamic("v1", "Namespace", namespaced=False)
CONFIG_MAP = VIEWS["configmaps"]
POD = VIEWS["pods"]


async def eventually(pair: Pair, look: Any) -> list[Any]:
    """Wait in both clusters until `look(client)` returns something; return both."""
    return await pair.each(lambda client: pair.eventually(client, look))


async def find(client: Client, kind: Any, name: str, namespace: str | None = None) -> Dynamic | None:
    try:
        return await client.get(kind, name, namespace=namespace)
    except NotFound:
        return None


def conditions(namespace: Dynamic) -> dict[str, Any]:
    return {c["type"]: (c["status"], c["reason"], c["message"]) for c in namespace["status"].get("conditions", ())}


async def test_a_namespace_loses_its_pods_before_anything_else(pair: Pair) -> None:
    name = f"{pair.namespace}-x"
    await pair.each(lambda c: c.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}))
    spec = {"containers": [{"name": "main", "image": "web:1"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "held", "namespace": name}, "spec": spec}
    pod["metadata"]["finalizers"] = [FINALIZER]
    await eventually(pair, lambda c: find(c, VIEWS["serviceaccounts"], "default", name))
    await pair.each(lambda c: c.create(pod))
    kept = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kept", "namespace": name}}
    await pair.each(lambda c: c.create(kept))
    await pair.each(lambda c: c.delete(NAMESPACE, name))

    async def pod_is_deleted(client: Client) -> bool:
        found = await find(client, POD, "held", name)
        return found is not None and found.metadata.deletion_timestamp is not None

    async def has_conditions(client: Client) -> dict[str, Any] | None:
        found = await find(client, NAMESPACE, name)
        return conditions(found) if found is not None else None

    await eventually(pair, pod_is_deleted)
    ours, real = await eventually(pair, has_conditions)
    assert not list(_differences(ours, real, "endpointslices"))
    maps = await pair.each(lambda c: find(c, CONFIG_MAP, "kept", name))
    assert [m is not None and m.metadata.deletion_timestamp for m in maps] == [None, None]
    await pair.each(lambda c: c.patch(POD, "held", MergePatch({"metadata": {"finalizers": None}}), namespace=name))

    async def gone(client: Client) -> bool:
        return await find(client, NAMESPACE, name) is None

    await eventually(pair, gone)


def reference(owner: Dynamic, *, blocks: bool) -> dict[str, Any]:
    identity = {"apiVersion": owner.api_version, "kind": owner.kind, "name": owner.metadata.name}
    return {**identity, "uid": owner.metadata.uid, "blockOwnerDeletion": blocks}


async def test_owners_that_own_each_other_are_deleted_in_the_foreground(pair: Pair) -> None:
    for name in ("a", "b"):
        await pair.create("configmaps", {"metadata": {"name": name}})

    async def tie(client: Client) -> None:
        for name, owner in (("a", "b"), ("b", "a")):
            body = {"metadata": {"ownerReferences": [
                reference(await client.get(CONFIG_MAP, owner, namespace=pair.namespace), blocks=True)
            ]}}  # fmt: skip
            await client.patch(CONFIG_MAP, name, MergePatch(body), namespace=pair.namespace)

    await pair.each(tie)
    await pair.each(lambda c: c.delete(CONFIG_MAP, "a", namespace=pair.namespace, propagation="Foreground"))

    async def both_gone(client: Client) -> bool:
        return not [name for name in "ab" if await find(client, CONFIG_MAP, name, pair.namespace)]

    await eventually(pair, both_gone)


async def test_endpoints_are_deleted_with_their_service(pair: Pair) -> None:
    ports = [{"port": 80}]
    await pair.create("services", {"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": ports}})
    await eventually(pair, lambda c: find(c, VIEWS["endpoints"], "web", pair.namespace))
    await pair.delete("services", "web")

    async def gone(client: Client) -> bool:
        return await find(client, VIEWS["endpoints"], "web", pair.namespace) is None

    await eventually(pair, gone)


async def slices(client: Client, namespace: str) -> list[Any]:
    """The EndpointSlices without what differs between two runs, in a fixed order."""
    page = await client.list(VIEWS["endpointslices"], namespace=namespace)
    plain = [_plain(item.body, ()) for item in page.items]
    for one in plain:
        one["endpoints"] = sorted(one["endpoints"] or [], key=str)
        del one["metadata"]["name"]
        one["metadata"].pop("generateName", None)  # an update without it removes it
    return sorted(plain, key=lambda one: one["addressType"])


async def same_slices(pair: Pair, count: int) -> None:
    """Wait until both clusters have the same slices, `count` of them."""
    for _ in range(300):
        ours, real = await pair.each(lambda client: slices(client, pair.namespace))
        if len(real) == count and ours == real:
            return
        await asyncio.sleep(0.1)
    assert not list(_differences(ours, real, "endpointslices"))
    assert len(real) == count


ADDRESSES = {
    "addresses": [{"ip": "10.9.0.1", "hostname": "one"}, {"ip": "10.9.0.2", "nodeName": "node-1"}],
    "notReadyAddresses": [{"ip": "10.9.0.3"}],
    "ports": [{"name": "web", "port": 8080, "protocol": "TCP"}],
}


async def test_endpoints_of_a_service_without_selector_are_mirrored(pair: Pair) -> None:
    await pair.create("services", {"metadata": {"name": "outside"}, "spec": {"ports": [{"name": "web", "port": 80}]}})
    metadata = {"name": "outside", "labels": {"team": "a"}, "annotations": {"example.com/note": "x"}}
    await pair.create("endpoints", {"metadata": metadata, "subsets": [ADDRESSES]})
    await same_slices(pair, 1)
    six = {"addresses": [{"ip": "2001:db8::1"}], "ports": [{"port": 9}]}
    await pair.patch("endpoints", "outside", {"subsets": [{**ADDRESSES, "notReadyAddresses": None}, six]})
    await same_slices(pair, 2)
    await pair.patch(
        "endpoints", "outside", {"metadata": {"labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}}}
    )
    await same_slices(pair, 0)


async def test_endpoints_that_must_not_be_mirrored_have_no_slices(pair: Pair) -> None:
    for name, labels in (("plain", {}), ("skipped", SKIP)):
        await pair.create("services", {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}})
        await pair.create("endpoints", {"metadata": {"name": name, "labels": labels}, "subsets": [ADDRESSES]})
    await pair.create("endpoints", {"metadata": {"name": "alone"}, "subsets": [ADDRESSES]})
    await same_slices(pair, 1)


ATTRIBUTES_CLASS = dynamic(
    "storage.k8s.io/v1", "VolumeAttributesClass", plural="volumeattributesclasses", namespaced=False
)


async def test_an_unused_volume_attributes_class_is_deleted_and_a_used_one_stays(pair: Pair) -> None:
    free, used = f"{pair.namespace}-free", f"{pair.namespace}-used"
    for name in (free, used):
        body = {"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttributesClass", "metadata": {"name": name}}
        body |= {"driverName": "csi.example.com", "parameters": {"iops": "100"}}
        await pair.each(lambda c, body=body: c.create(body, kind=ATTRIBUTES_CLASS))
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": ""}
    spec["volumeAttributesClassName"] = used
    await pair.create("persistentvolumeclaims", {"metadata": {"name": "data"}, "spec": spec})

    async def claim_is_seen(client: Client) -> bool:
        claim = await client.get(VIEWS["persistentvolumeclaims"], "data", namespace=pair.namespace)
        return claim["status"].get("phase") == "Pending"

    await eventually(pair, claim_is_seen)
    for name in (used, free):
        await pair.each(lambda c, name=name: c.delete(ATTRIBUTES_CLASS, name))

    def gone(name: str) -> Any:
        async def look(client: Client) -> bool:
            return await find(client, ATTRIBUTES_CLASS, name) is None

        return look

    await eventually(pair, gone(free))
    kept = await pair.each(lambda c: find(c, ATTRIBUTES_CLASS, used))
    assert [k is not None and k.metadata.finalizers for k in kept] == [("kubernetes.io/vac-protection",)] * 2
    await pair.delete("persistentvolumeclaims", "data")
    await eventually(pair, gone(used))


POD_NAME = re.compile(r'"web-[a-z0-9]{5}"')


async def test_pods_that_are_refused_are_a_condition_of_their_controller(pair: Pair) -> None:
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none", "namespace": pair.namespace}}
    quota |= {"spec": {"hard": {"pods": "0"}}, "status": {"hard": {"pods": "0"}, "used": {"pods": "0"}}}
    await pair.each(lambda c: c.create(quota))

    async def counted(client: Client) -> bool:
        found = await client.get(dynamic("v1", "ResourceQuota"), "none", namespace=pair.namespace)
        return bool(found.get("status", default={}).get("hard"))

    await eventually(pair, counted)
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "web:1"}]}}
    for plural, selector in (("replicationcontrollers", labels), ("replicasets", {"matchLabels": labels})):
        spec = {"replicas": 1, "selector": selector, "template": template}
        await pair.create(plural, {"metadata": {"name": "web"}, "spec": spec})
    for plural in ("replicationcontrollers", "replicasets"):

        async def failure(client: Client, plural: str = plural) -> Any:
            found = await client.get(VIEWS[plural], "web", namespace=pair.namespace)
            conditions = found["status"].get("conditions", ())
            return [{**c, "lastTransitionTime": "", "message": POD_NAME.sub("<pod>", c["message"])} for c in conditions]

        ours, real = await eventually(pair, failure)
        assert ours == real
    raised = MergePatch({"spec": {"hard": {"pods": "5"}}})
    await pair.each(lambda c: c.patch(dynamic("v1", "ResourceQuota"), "none", raised, namespace=pair.namespace))
    for plural in ("replicationcontrollers", "replicasets"):
        await pair.settle(plural, "web", lambda found: found["status"].get("replicas") == 1)
        await pair.settle(plural, "web", lambda found: not found["status"].get("conditions"))


async def test_revisions_have_the_same_names_and_bytes(pair: Pair) -> None:
    env, ports = [{"name": "B", "value": "2"}], [{"containerPort": 80}]
    pods = {
        "containers": [{"name": "main", "image": "db:1", "env": env, "ports": ports}],
        "nodeSelector": {"z": "1", "a": "2"},
    }
    labels, selector = {"b": "2", "app": "db"}, {"matchLabels": {"app": "db"}}
    spec = {"serviceName": "db", "replicas": 0, "template": {"metadata": {"labels": labels}, "spec": pods}}
    await pair.create("statefulsets", {"metadata": {"name": "db"}, "spec": {**spec, "selector": selector}})
    elsewhere = {**pods, "nodeSelector": {"no": "node"}}
    spec = {"selector": selector, "template": {"metadata": {"labels": labels}, "spec": elsewhere}}
    await pair.create("daemonsets", {"metadata": {"name": "db"}, "spec": spec})

    async def revisions(client: Client) -> Any:
        path = f"/apis/apps/v1/namespaces/{pair.namespace}/controllerrevisions"
        body = (await client.raw.request("GET", path)).body
        items = msgspec.json.decode(body, type=_Revisions).items
        found = {item.metadata["name"]: bytes(item.data) for item in items}
        return found if len(found) == 2 else None

    ours, real = await eventually(pair, revisions)
    assert set(ours.values()) == set(real.values())
    assert {n for n in ours if ours[n].count(b'"z"')} == {n for n in real if real[n].count(b'"z"')}


class _Revision(msgspec.Struct):
    metadata: dict[str, Any]
    data: msgspec.Raw


class _Revisions(msgspec.Struct):
    items: list[_Revision]
