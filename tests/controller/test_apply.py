"""The requests of `Applier`, and the requests that it omits."""

import pytest

from steersman.client.errors import Conflict
from steersman.client.status import Status, StatusCause, StatusDetails
from steersman.controller import (
    Applier,
    FieldConflictError,
    OwnershipError,
    RequeueError,
    is_controlled_by,
    owner_reference,
)
from steersman.controller.intent import differences
from steersman.k8s import (
    ConfigMap,
    Container,
    Deployment,
    DeploymentSpec,
    Namespace,
    PersistentVolumeClaim,
    PodSpec,
    PodTemplateSpec,
)
from steersman.models import Dynamic, LabelSelector, ObjectMeta, OwnerReference, from_dict, replace

from .api import Api
from .kinds import App

LABELS = {"app": "web"}
OWNER = App(metadata=ObjectMeta(name="web", namespace="prod", uid="owner-1"))


def deployment(image: str = "nginx:1", **meta) -> Deployment:
    return Deployment(
        metadata=ObjectMeta(name="web", namespace="prod", labels=LABELS, **meta),
        spec=DeploymentSpec(
            replicas=2,
            selector=LabelSelector(match_labels=LABELS),
            template=PodTemplateSpec(
                metadata=ObjectMeta(labels=LABELS),
                spec=PodSpec(containers=(Container(name="app", image=image),)),
            ),
        ),
    )


def applier(api: Api) -> Applier:
    return Applier(api, api, "hello-operator")


async def test_the_full_intent_leaves_once_with_owner_and_without_status():
    """A1: apply is server-side apply of the full intent; status and the server's fields are never applied."""
    api = Api()
    live = await applier(api).apply(deployment(uid="x", resource_version="7"), owner=OWNER)
    (sent,) = api.sent("apply")
    assert "status" not in sent
    assert set(sent["metadata"]) == {"name", "namespace", "labels", "ownerReferences"}
    assert sent["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "tests.steersman.dev/v1",
            "kind": "App",
            "name": "web",
            "uid": "owner-1",
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
    assert sent["spec"]["replicas"] == 2
    assert isinstance(live, Deployment)
    assert is_controlled_by(live, OWNER)


async def test_applying_what_the_cluster_has_sends_nothing():
    """A1: applying what the cluster already has sends nothing."""
    api = Api()
    a = applier(api)
    first = await a.apply(deployment(), owner=OWNER)
    for _ in range(5):
        assert await a.apply(deployment(), owner=OWNER) == first
    assert len(api.requests) == 1
    assert (a.sent, a.skipped) == (1, 5)


async def test_a_kind_of_which_only_metadata_is_cached_is_applied_each_time():
    """A1: what cannot be compared, nor returned, is left to the server; another's child is refused all the same."""

    class OnlyMetadata(Api):
        async def entry(self, view, key):
            found = await super().entry(view, key)
            if found is not None:
                object.__setattr__(found, "whole", False)
            return found

    api = OnlyMetadata()
    a = applier(api)
    assert [await a.apply(deployment(), owner=OWNER) for _ in range(2)] == [api.read(Deployment, "web")] * 2
    assert (a.sent, a.skipped) == (2, 0)
    with pytest.raises(FieldConflictError, match="is controlled by App 'web'"):
        await a.apply(deployment(), owner=App(metadata=ObjectMeta(name="other", namespace="prod", uid="owner-2")))
    assert len(api.requests) == 2


async def test_changes_by_others_beside_the_intent_send_nothing():
    """A1: a controller's status, and labels and fields of others, do not make us apply again."""
    api = Api()
    a = applier(api)
    await a.apply(deployment(), owner=OWNER)
    body = api.objects["web"]
    body["status"] = {"readyReplicas": 2}
    body["metadata"]["annotations"] = {"deployment.kubernetes.io/revision": "1"}
    body["metadata"]["labels"]["team"] = "blue"
    api.put(body)
    live = await a.apply(deployment(), owner=OWNER)
    body["spec"]["template"]["spec"]["containers"][0]["imagePullPolicy"] = "Always"
    body["metadata"]["generation"] += 1
    api.put(body)
    await a.apply(deployment(), owner=OWNER)
    assert len(api.requests) == 1
    assert live.status.ready_replicas == 2


@pytest.mark.parametrize(
    "tamper",
    [
        lambda body: body["spec"].update(replicas=9),
        lambda body: body["spec"]["template"]["spec"]["containers"][0].update(image="evil"),
        lambda body: body["spec"]["template"]["spec"]["containers"].append({"name": "extra"}),
        lambda body: body["spec"]["selector"]["matchLabels"].update(more="x"),
        lambda body: body["metadata"]["labels"].pop("app"),
        lambda body: body["metadata"].pop("ownerReferences"),
    ],
    ids=["scalar", "in a list", "list grew", "atomic map grew", "label", "owner"],
)
async def test_what_others_changed_is_corrected(tamper):
    """A1: the cluster is brought back to the intent, whatever of it was changed."""
    api = Api()
    a = applier(api)
    await a.apply(deployment(), owner=OWNER)
    body = api.objects["web"]
    before = repr(body["spec"])
    tamper(body)
    if repr(body["spec"]) != before:
        body["metadata"]["generation"] += 1
    api.put(body)
    await a.apply(deployment(), owner=OWNER)
    assert len(api.requests) == 2


async def test_a_changed_intent_is_sent_even_when_the_cluster_contains_it():
    """A1: a field that is no longer wanted is given up, which only the server can do."""
    api = Api()
    a = applier(api)
    with_replicas = deployment()
    without = replace(with_replicas, spec=replace(with_replicas.spec, replicas=None))
    await a.apply(with_replicas)
    await a.apply(without)
    await a.apply(without)
    assert len(api.requests) == 2
    assert "replicas" not in api.sent("apply")[1]["spec"]


async def test_an_object_that_vanished_or_was_recreated_is_applied_again():
    """A1: a namesake is another object."""
    api = Api()
    a = applier(api)
    await a.apply(deployment())
    del api.objects["web"]
    await a.apply(deployment())
    body = api.objects["web"]
    body["metadata"]["uid"] = "another"
    api.put(body)
    await a.apply(deployment())
    assert len(api.requests) == 3


async def test_the_first_apply_of_a_process_is_always_sent():
    """A1: only the server knows what an earlier version of the operator left behind."""
    api = Api()
    await applier(api).apply(deployment())
    await applier(api).apply(deployment())
    assert len(api.requests) == 2


class Normalising(Api):
    """Writes quantities in canonical form, as the server does."""

    def normalised(self, body):
        claim = body["spec"].get("resources", {}).get("requests", {})
        if claim.get("storage") == "1024Mi":
            claim["storage"] = "1Gi"
        if "cpu" in body["spec"]:
            body["spec"]["cpu"] = "1"
        return body


async def test_a_value_that_the_server_writes_in_another_way_is_not_sent_for_ever():
    """A1: the differences that remain after an apply are accepted, and the next apply sends nothing."""
    api = Normalising()
    a = applier(api)
    claim = from_dict(
        PersistentVolumeClaim,
        {"metadata": {"name": "data", "generation": 0}, "spec": {"resources": {"requests": {"storage": "1024Mi"}}}},
    )
    await a.apply(claim)
    for n in range(3):
        body = api.objects["data"]
        body["metadata"]["generation"] = 0
        body["metadata"]["annotations"] = {"n": str(n)}
        api.put(body)
        await a.apply(claim)
    assert len(api.requests) <= 2


async def test_a_normalised_value_of_a_kind_with_generations_is_sent_at_most_once_more():
    """A1: nor is it when the generation moves for another reason."""
    api = Normalising()
    a = applier(api)
    thing = {"apiVersion": "x.dev/v1", "kind": "Thing", "metadata": {"name": "t"}, "spec": {"cpu": "1000m"}}
    await a.apply(thing)
    body = api.objects["t"]
    for n in range(4):
        body["status"] = {"n": n}
        api.put(body)
        await a.apply(thing)
    assert len(api.requests) == 1
    for n in range(4):
        body["spec"]["other"] = n
        body["metadata"]["generation"] += 1
        api.put(body)
        await a.apply(thing)
    assert len(api.requests) == 2
    body["spec"]["cpu"] = "7"
    body["metadata"]["generation"] += 1
    api.put(body)
    await a.apply(thing)
    assert len(api.requests) == 3


async def test_plain_mappings_are_applied_and_come_back_dynamic():
    api = Api()
    a = applier(api)
    thing = {"apiVersion": "x.dev/v1", "kind": "Thing", "metadata": {"name": "t"}, "spec": {"a": [1, 2]}}
    for _ in range(2):
        live = await a.apply(thing, owner=replace(OWNER, metadata=ObjectMeta(name="o", uid="u")))
    assert isinstance(live, Dynamic)
    assert live["spec"] == {"a": [1, 2]}
    assert len(api.requests) == 1
    assert "ownerReferences" not in thing["metadata"]


async def test_fields_of_another_manager_are_told_by_name_when_not_forced():
    """A1: without force, another manager's field is an error that names it, not a quiet retry for ever."""
    api = Api()
    cause = StatusCause(field=".spec.replicas", message='conflict with "hpa"')
    api.refuse = Conflict(Status(code=409, reason="Conflict", details=StatusDetails(causes=(cause,))))
    with pytest.raises(FieldConflictError, match=r"Deployment prod/web: .*\.spec\.replicas.*hpa.*force=True") as caught:
        await applier(api).apply(deployment(), force=False)
    assert not isinstance(caught.value, Conflict)


async def test_a_child_of_another_controller_is_left_alone():
    """A4: one controller, and its uid is what counts."""
    api = Api()
    a = applier(api)
    await a.apply(deployment(), owner=OWNER)
    other_controller = replace(OWNER, metadata=ObjectMeta(name="other", namespace="prod", uid="owner-2"))
    with pytest.raises(FieldConflictError, match="controlled by App 'web'"):
        await a.apply(deployment(), owner=other_controller)
    assert len(api.requests) == 1


async def test_a_child_of_a_deleted_namesake_is_waited_for():
    """A4: the previous owner's child is the garbage collector's; ours comes after it."""
    api = Api()
    a = applier(api)
    await a.apply(deployment(), owner=OWNER)
    again = replace(OWNER, metadata=replace(OWNER.metadata, uid="owner-2"))
    with pytest.raises(RequeueError, match="still belongs to the previous App web") as caught:
        await a.apply(deployment(), owner=again)
    assert caught.value.after == 1.0
    assert len(api.requests) == 1


async def test_owners_must_be_in_the_same_namespace_or_cluster_scoped():
    """A4: same namespace or cluster-scoped owner."""
    a = applier(Api())
    with pytest.raises(OwnershipError, match="in namespace 'prod' cannot own it"):
        await a.apply(ConfigMap(metadata=ObjectMeta(name="c", namespace="dev")), owner=OWNER)
    with pytest.raises(OwnershipError, match="cluster-scoped"):
        await a.apply(Namespace(metadata=ObjectMeta(name="n")), owner=OWNER)
    unborn = replace(OWNER, metadata=ObjectMeta(name="web", namespace="prod"))
    with pytest.raises(OwnershipError, match=r"has no metadata\.uid"):
        await a.apply(deployment(), owner=unborn)
    named = deployment(
        owner_references=(OwnerReference(api_version="v1", kind="Pod", name="p", uid="p1", controller=True),)
    )
    with pytest.raises(OwnershipError, match="names Pod 'p' as its controller"):
        await a.apply(named, owner=OWNER)


async def test_a_child_without_a_namespace_gets_its_owners():
    """A4: same namespace."""
    api = Api()
    await applier(api).apply(ConfigMap(metadata=ObjectMeta(name="c")), owner=OWNER)
    assert api.sent("apply")[0]["metadata"]["namespace"] == "prod"


def test_an_owner_reference_says_what_the_garbage_collector_needs():
    """A4: an owner is identified by its uid."""
    reference = owner_reference(OWNER, controller=False, block_owner_deletion=False)
    assert (reference.uid, reference.controller, reference.block_owner_deletion) == ("owner-1", None, None)


@pytest.mark.parametrize(
    ("intent", "live", "expected"),
    [
        ({"a": 1}, {"a": 1, "b": 2}, {}),
        ({"a": True}, {"a": 1}, {("a",): 1}),
        ({"a": {}}, {}, {}),
        ({"a": []}, {}, {}),
        ({"a": []}, {"a": [1]}, {("a",): [1]}),
        ({"a": [{"n": "x"}]}, {"a": [{"n": "x", "d": 1}]}, {}),
        ({"a": [{"n": "x"}]}, {"a": [{"n": "y"}]}, {("a", 0, "n"): "y"}),
        ({"a": {"b": 1}}, {"a": "text"}, {("a",): "text"}),
        (
            {"spec": {"nodeSelector": {"x": "1"}}},
            {"spec": {"nodeSelector": {"x": "1", "y": "2"}}},
            {("spec", "nodeSelector"): {"x": "1", "y": "2"}},
        ),
    ],
)
def test_where_the_live_object_differs(intent, live, expected):
    assert differences(intent, live) == expected


async def test_apply_needs_a_name():
    with pytest.raises(ValueError, match=r"metadata\.name is missing"):
        await applier(Api()).apply(ConfigMap(metadata=ObjectMeta(generate_name="x-")))
