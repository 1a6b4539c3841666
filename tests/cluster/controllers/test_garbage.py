"""Owners and dependents: which objects the garbage collector deletes."""

import pytest

from steersman.k8s import ConfigMap, Deployment, Pod, ReplicaSet, Secret, ServiceAccount

from .test_deployments import deployment, rolled_out

NOBODY = "00000000-0000-0000-0000-000000000000"


def owned(name, owner, *, blocks=False, finalizers=()):
    info = type(owner).__resource__
    reference = {
        "apiVersion": info.api_version,
        "kind": info.kind,
        "name": owner.metadata.name,
        "uid": owner.metadata.uid,
        "blockOwnerDeletion": blocks,
    }
    return {"metadata": {"name": name, "ownerReferences": [reference], "finalizers": list(finalizers)}}


async def gone(lab, kind, name):
    async def look():
        return await lab.find(kind, name) is None

    await lab.eventually(look, f"{kind.__name__} {name} is gone")


async def collector_has_seen(lab, owner):
    """Wait until the collector has seen every Secret so far: events are in order, and this one is deleted at once."""
    stray = owned("stray", owner)
    stray["metadata"]["ownerReferences"][0]["uid"] = NOBODY
    await lab.create(Secret, stray)
    await gone(lab, Secret, "stray")


async def test_everything_goes_with_a_deployment(lab):
    await lab.create(Deployment, deployment())
    await lab.until(Deployment, "web", rolled_out())
    await lab.delete(Deployment, "web")

    async def empty():
        return not await lab.list(ReplicaSet) and not await lab.list(Pod)

    await lab.eventually(empty, "nothing is left")


async def test_an_orphaned_dependent_stays(lab):
    owner = await lab.create(ConfigMap, {"metadata": {"name": "owner"}})
    await lab.create(Secret, owned("child", owner))
    await collector_has_seen(lab, owner)
    await lab.delete(ConfigMap, "owner", propagation="Orphan")
    await gone(lab, ConfigMap, "owner")
    await lab.until(Secret, "child", lambda s: not s.metadata.owner_references)


async def test_a_foreground_deletion_waits_for_dependents_that_block_it(lab):
    owner = await lab.create(ConfigMap, {"metadata": {"name": "owner"}})
    await lab.create(Secret, owned("child", owner, blocks=True, finalizers=["example.com/wait"]))
    await collector_has_seen(lab, owner)
    await lab.delete(ConfigMap, "owner", propagation="Foreground")
    await lab.until(Secret, "child", lambda s: s.metadata.deletion_timestamp)
    assert (await lab.get(ConfigMap, "owner")).metadata.finalizers == ("foregroundDeletion",)
    await lab.patch(Secret, "child", {"metadata": {"finalizers": None}})
    await gone(lab, ConfigMap, "owner")
    await gone(lab, Secret, "child")


async def test_a_dependent_with_another_owner_is_only_cut_loose(lab):
    one = await lab.create(ConfigMap, {"metadata": {"name": "one"}})
    two = await lab.create(ConfigMap, {"metadata": {"name": "two"}})
    child = owned("child", one)
    child["metadata"]["ownerReferences"] += owned("child", two)["metadata"]["ownerReferences"]
    await lab.create(Secret, child)
    await lab.delete(ConfigMap, "one")
    left = await lab.until(Secret, "child", lambda s: len(s.metadata.owner_references) == 1)
    assert left.metadata.owner_references[0].uid == two.metadata.uid


async def test_what_names_an_owner_that_never_was_is_deleted(lab):
    owner = await lab.create(ConfigMap, {"metadata": {"name": "owner"}})
    child = owned("child", owner)
    child["metadata"]["ownerReferences"][0]["uid"] = NOBODY
    await lab.create(Secret, child)
    await gone(lab, Secret, "child")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["Thing", "thing", "my-Thing"])
async def test_custom_resources_are_collected_too(lab, kind):
    group = f"g{lab.namespace.replace('-', '')}.example.com"
    names = {"plural": "things", "singular": "thing", "kind": kind}
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"things.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]},
    }
    await lab.client.create(definition)
    path = f"/apis/{group}/v1/namespaces/{lab.namespace}/things"

    async def made():
        try:
            return await lab.client.raw.request("POST", path, body=_thing(group, kind, "owner"))
        except Exception:
            return None

    import json

    answer = await lab.eventually(made, "the kind is served")
    uid = json.loads(answer.body)["metadata"]["uid"]
    reference = {"apiVersion": f"{group}/v1", "kind": kind, "name": "owner", "uid": uid}
    await lab.create(Secret, {"metadata": {"name": "child", "ownerReferences": [reference]}})
    await lab.client.raw.request("POST", path, body=_thing(group, kind, "part", [reference]))
    await lab.client.raw.request("DELETE", f"{path}/owner")
    await gone(lab, Secret, "child")

    async def empty():
        return not json.loads((await lab.client.raw.request("GET", path)).body)["items"]

    await lab.eventually(empty, "no things are left")
    await lab.client.raw.request("DELETE", f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.{group}")


def _thing(group, kind, name, owners=()):
    import json

    metadata = {"name": name, "ownerReferences": list(owners)}
    return json.dumps({"apiVersion": f"{group}/v1", "kind": kind, "metadata": metadata}).encode()


async def test_a_namespace_gets_its_service_account_and_certificate(lab):
    await lab.until(ServiceAccount, "default", lambda s: True)
    await lab.until(ConfigMap, "kube-root-ca.crt", lambda c: c.data["ca.crt"].startswith("-----BEGIN"))
    await lab.delete(ServiceAccount, "default")
    await lab.until(ServiceAccount, "default", lambda s: True)
