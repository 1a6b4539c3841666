"""Controllers of whole clusters against kube-controller-manager: namespaces, owners, endpoints.

Each case runs in two clusters, one with the controllers of Kubernetes and one with ours.
"""

from __future__ import annotations

import asyncio
from typing import Any

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
        return await client.get(kind, name, namespace)
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
    await pair.each(lambda c: c.patch(POD, "held", MergePatch({"metadata": {"finalizers": None}}), name))

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
                reference(await client.get(CONFIG_MAP, owner, pair.namespace), blocks=True)
            ]}}  # fmt: skip
            await client.patch(CONFIG_MAP, name, MergePatch(body), pair.namespace)

    await pair.each(tie)
    await pair.each(lambda c: c.delete(CONFIG_MAP, "a", pair.namespace, propagation="Foreground"))

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
    page = await client.list(VIEWS["endpointslices"], namespace)
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
