"""Every verb against a real API server, through both transports."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest

from steersman.client import (
    AlreadyExists,
    BadRequest,
    Client,
    Conflict,
    Expired,
    Forbidden,
    Invalid,
    NotFound,
    Preconditions,
    TooManyRequests,
    Unauthorized,
    UnsupportedMediaType,
    WaitTimeoutError,
    condition_true,
    deleted,
    exists,
)
from steersman.client.config import Config, load_config
from steersman.client.transport import AiohttpTransport, NativeTransport, PyreqwestTransport
from steersman.k8s import ConfigMap, Container, Deployment, DeploymentSpec, Namespace, Pod, PodSpec, PodTemplateSpec
from steersman.models import LabelSelector, ObjectMeta, dynamic, metadata_of, replace
from steersman.models.patches import ApplyPatch, JsonPatch, MergePatch, StrategicMergePatch
from steersman.testing import ControlPlane

pytestmark = pytest.mark.realcluster


@pytest.fixture(params=["native", "pyreqwest", "pyreqwest-h2", "aiohttp"])
async def client(request, control_plane, namespace) -> AsyncIterator[Client]:
    config = load_config(control_plane.kubeconfig)
    config = Config(server=config.server, tls=config.tls, auth=config.auth, namespace=namespace)
    transport = {
        "native": lambda: NativeTransport(config),
        "pyreqwest": lambda: PyreqwestTransport(config),
        "pyreqwest-h2": lambda: PyreqwestTransport(config, http2=True),
        "aiohttp": lambda: AiohttpTransport(config),
    }[request.param]()
    warned: list[str] = []
    async with Client(config, transport=transport, on_warning=lambda text, _: warned.append(text)) as client:
        client.warned = warned  # type: ignore[attr-defined]
        yield client


def config_map(name: str, **data: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, labels={"app": "test"}), data=data)


def deployment(name: str, replicas: int = 1) -> Deployment:
    labels = {"app": name}
    return Deployment(
        metadata=ObjectMeta(name=name),
        spec=DeploymentSpec(
            replicas=replicas,
            selector=LabelSelector(match_labels=labels),
            template=PodTemplateSpec(
                metadata=ObjectMeta(labels=labels),
                spec=PodSpec(containers=(Container(name="app", image="registry.example/app:1"),)),
            ),
        ),
    )


async def test_an_object_is_created_read_and_deleted(client):
    made = await client.create(config_map("one", key="value"))
    assert made.metadata.uid
    assert made.metadata.namespace == client.config.namespace

    read = await client.get(ConfigMap, "one")
    assert read == made
    assert await client.exists(ConfigMap, "one")

    assert await client.delete(ConfigMap, "one") is True
    with pytest.raises(NotFound) as missing:
        await client.get(ConfigMap, "one")
    assert not missing.value.kind_is_missing
    assert missing.value.status.details.name == "one"
    assert not await client.exists(ConfigMap, "one")
    assert await client.delete(ConfigMap, "one", missing_ok=True)


async def test_typed_dynamic_and_metadata_views_read_the_same_object(client):
    await client.create(config_map("one", key="value"))

    plain = await client.get(dynamic("v1", "ConfigMap"), "one")
    metadata = await client.get(metadata_of(ConfigMap), "one")

    assert plain["data"] == {"key": "value"}
    assert metadata.kind == "PartialObjectMetadata"
    assert metadata.metadata.labels == {"app": "test"}
    page = await client.list(dynamic("v1", "ConfigMap"), namespace=client.config.namespace, labels={"app": "test"})
    assert [(i.kind, i.metadata.name) for i in page] == [("ConfigMap", "one")]
    page = await client.list(metadata_of(ConfigMap), namespace=client.config.namespace, labels="app in (test)")
    assert [i.metadata.name for i in page] == ["one"]


async def test_lists_are_read_in_pages_that_show_one_state(client):
    for number in range(7):
        await client.create(config_map(f"cm-{number}"), want="metadata")

    page = await client.list(ConfigMap, namespace=client.config.namespace, labels={"app": "test"}, limit=3)
    assert len(page) == 3
    assert page.continue_
    names = [
        o.metadata.name
        async for o in client.iterate(ConfigMap, namespace=client.config.namespace, labels={"app": "test"}, limit=3)
    ]
    assert names == [f"cm-{n}" for n in range(7)]


async def test_a_mangled_continue_token_is_refused(client):
    with pytest.raises(BadRequest, match="continue"):
        await client.list(ConfigMap, namespace=client.config.namespace, continue_="nonsense")


async def test_an_old_resource_version_expires():
    """W4: a version that the server has forgotten is `Expired`, whether it watches or lists."""
    with ControlPlane.start(controller_manager=False, scheduler=False) as plane:
        async with Client(load_config(plane.kubeconfig)) as client:
            await client.create(config_map("one"), want="metadata")
            # A fresh API server's watch cache begins where the store stands: everything before is too old.
            await asyncio.to_thread(plane.restart_apiserver)
            with pytest.raises(Expired):
                async for _ in client.watch(ConfigMap, resource_version="1", timeout=5):
                    pass


async def test_a_watch_delivers_what_happens(client):
    start = (await client.list(ConfigMap, namespace=client.config.namespace)).resource_version
    seen = []

    async def act() -> None:
        made = await client.create(config_map("one", text="line\u0085next\u2028end"))
        await client.replace(replace(made, data={"a": "b"}))
        await client.delete(ConfigMap, "one")

    async with aclosing(client.watch(ConfigMap, namespace=client.config.namespace, resource_version=start)) as events:
        acting = asyncio.create_task(act())
        async for event in events:
            if event.key.name == "one":
                seen.append((event.type, dict(event.object.data)))
            if event.type == "DELETED":
                break
        await acting

    assert seen == [
        ("ADDED", {"text": "line\u0085next\u2028end"}),
        ("MODIFIED", {"a": "b"}),
        ("DELETED", {"a": "b"}),
    ]


async def test_a_watch_with_initial_events_ends_them_with_a_bookmark(client):
    await client.create(config_map("one"))
    names = []
    async with aclosing(client.watch(ConfigMap, namespace=client.config.namespace, initial_events=True)) as events:
        async for event in events:
            if event.initial_events_end:
                assert event.resource_version
                break
            names.append(event.key.name)
    assert "one" in names


async def test_a_metadata_watch_decodes_metadata_only(client):
    await client.create(config_map("one", key="value"))
    async with aclosing(
        client.watch(metadata_of(ConfigMap), namespace=client.config.namespace, fields="metadata.name=one")
    ) as events:
        async for event in events:
            assert event.object.metadata.labels == {"app": "test"}
            assert b'"data"' not in event.raw
            break


async def test_three_megabytes_arrive_whole(client):
    big = "".join(random.Random(1).choices("abcdefghijklmnopqrstuvwxyz\u0085\u2028", k=700_000))
    await client.create(config_map("big", text=big))
    start = (await client.list(ConfigMap, namespace=client.config.namespace)).resource_version
    read = await client.get(ConfigMap, "big")
    assert read.data["text"] == big
    await client.patch(ConfigMap, "big", MergePatch({"metadata": {"labels": {"touched": "yes"}}}), want="metadata")
    async with aclosing(client.watch(ConfigMap, namespace=client.config.namespace, resource_version=start)) as events:
        async for event in events:
            if event.key.name == "big":
                assert event.object.data["text"] == big
                break


async def test_an_object_that_is_too_large_is_refused_with_a_way_out(client):
    with pytest.raises(Exception, match=r"(?i)too large|limit|more than") as refused:
        await client.create(config_map("huge", text="x" * 4_000_000), timeout=20)
    assert "huge" not in repr(refused.value) or "xxxx" not in repr(refused.value)


async def test_apply_creates_changes_and_removes_fields(client):
    base = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}}
    await client.apply({**base, "data": {"a": "1", "b": "2"}}, field_manager="left")
    again = await client.apply({**base, "data": {"a": "1"}}, field_manager="left")
    assert again["data"] == {"a": "1"}

    with pytest.raises(Conflict) as clash:
        await client.apply({**base, "data": {"a": "9"}}, field_manager="right")
    assert [c.field for c in clash.value.causes] == [".data.a"]
    assert "force=True" in str(clash.value)
    forced = await client.apply({**base, "data": {"a": "9"}}, kind=ConfigMap, field_manager="right", force=True)
    assert forced.data == {"a": "9"}


async def test_apply_keeps_the_characters_that_yaml_would_fold(client):
    """W8: U+0085 and its kin are ordinary characters; the API server reads applies as YAML, which folds them."""
    text = "a\u0085b\u2028c\u2029d\ufeffe\u007ff\u009fg\nh\U0001f600"
    applied = await client.apply(config_map("folds", text=text), field_manager="left")
    assert applied.data == {"text": text}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "folds"}, "data": {"text": text * 2}}
    patched = await client.patch(ConfigMap, "folds", ApplyPatch(body), field_manager="left", force=True)
    assert patched.data == {"text": text * 2}
    assert (await client.get(ConfigMap, "folds")).data == {"text": text * 2}


async def test_apply_of_a_typed_object_can_answer_with_metadata_alone(client):
    answer = await client.apply(config_map("one", a="1"), want="metadata")
    assert answer.metadata.uid
    same = await client.apply(config_map("one", a="1"), want="metadata")
    assert same.metadata.resource_version == answer.metadata.resource_version


async def test_the_four_kinds_of_patch(client):
    await client.create(deployment("web"))
    merged = await client.patch(Deployment, "web", MergePatch({"spec": {"paused": True}}))
    assert merged.spec.paused is True
    jsoned = await client.patch(Deployment, "web", JsonPatch().test("/spec/replicas", 1).replace("/spec/replicas", 2))
    assert jsoned.spec.replicas == 2
    strategic = StrategicMergePatch(
        {"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "registry.example/side:1"}]}}}}
    )
    merged = await client.patch(Deployment, "web", strategic)
    assert {c.name for c in merged.spec.template.spec.containers} == {"app", "side"}
    applied = await client.patch(
        Deployment,
        "web",
        ApplyPatch({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "labels": {"x": "y"}}}),
        field_manager="labeller",
        force=True,
    )
    assert applied.metadata.labels["x"] == "y"


async def test_a_failed_test_of_a_json_patch_is_invalid(client):
    await client.create(config_map("one", a="1"))
    with pytest.raises(Invalid):
        await client.patch(ConfigMap, "one", JsonPatch().test("/data/a", "2").replace("/data/a", "3"))


async def test_replacing_an_object_that_changed_is_a_conflict(client):
    made = await client.create(config_map("one"))
    await client.patch(ConfigMap, "one", MergePatch({"data": {"a": "1"}}))
    with pytest.raises(Conflict, match="modified"):
        await client.replace(replace(made, data={"b": "2"}))


async def test_creating_twice_already_exists(client):
    await client.create(config_map("one"))
    with pytest.raises(AlreadyExists):
        await client.create(config_map("one"))


async def test_an_invalid_object_says_what_and_where(client):
    with pytest.raises(Invalid) as invalid:
        await client.create(deployment("Not_A_Name"))
    assert "metadata.name" in [c.field for c in invalid.value.causes]
    assert "metadata.name" in str(invalid.value)


async def test_dry_run_stores_nothing(client):
    made = await client.create(config_map("one"), dry_run=True)
    assert made.metadata.uid
    assert not await client.exists(ConfigMap, "one")
    await client.create(config_map("one", a="1"))
    assert (await client.patch(ConfigMap, "one", MergePatch({"data": {"a": "2"}}), dry_run=True)).data == {"a": "2"}
    assert (await client.get(ConfigMap, "one")).data == {"a": "1"}
    await client.delete(ConfigMap, "one", dry_run=True)
    assert await client.exists(ConfigMap, "one")


async def test_field_validation_is_strict_or_warns(client):
    odd = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "odd"}, "dta": {"a": "1"}}
    with pytest.raises(BadRequest, match="unknown field"):
        await client.create(odd, field_validation="Strict")
    await client.create(odd, field_validation="Warn", dry_run=True)
    await client.create(odd, field_validation="Warn", dry_run=True)
    assert client.warned == ['unknown field "dta"']
    await client.create(odd, field_validation="Ignore")


async def test_deleting_an_object_spares_its_namesake(client):
    first = await client.create(config_map("one"))
    await client.delete(first)
    await client.create(config_map("one"))
    with pytest.raises(Conflict):
        await client.delete(first)
    with pytest.raises(Conflict):
        await client.delete(ConfigMap, "one", preconditions=Preconditions(resource_version="1"))
    assert await client.exists(ConfigMap, "one")


async def test_a_finalizer_holds_a_deleted_object(client):
    held = await client.create(
        ConfigMap(metadata=ObjectMeta(name="held", finalizers=("example.com/hold",), labels={"app": "test"}))
    )
    assert await client.delete(held) is False
    waiting = asyncio.create_task(client.wait_for(held, deleted, 90))
    await client.patch(ConfigMap, "held", JsonPatch().remove("/metadata/finalizers"))
    assert await waiting is None


async def test_a_collection_is_deleted_by_label(client):
    for number in range(3):
        await client.create(config_map(f"cm-{number}"))
    other = ConfigMap(metadata=ObjectMeta(name="other"))
    await client.create(other)
    await client.delete_collection(ConfigMap, labels={"app": "test"})
    names = {o.metadata.name for o in await client.list(ConfigMap, namespace=client.config.namespace)}
    assert "other" in names
    assert not names & {"cm-0", "cm-1", "cm-2"}


async def test_status_scale_and_propagation(client):
    await client.create(deployment("web"))
    scale = await client.get_scale(Deployment, "web")
    assert scale.replicas == 1
    assert "app=web" in scale.selector or scale.selector == ""
    assert (await client.set_scale(Deployment, "web", 3)).replicas == 3
    with pytest.raises(Conflict):
        await client.set_scale(Deployment, "web", 4, resource_version="1")
    patched = await client.patch(Deployment, "web", MergePatch({"status": {"replicas": 7}}), subresource="status")
    assert patched.spec.replicas == 3
    await client.delete(Deployment, "web", propagation="Orphan")
    with pytest.raises(NotFound):
        await client.get_scale(ConfigMap, "web")


async def discovered(client, api_version, kind):
    """The kind as discovery has it, which follows a definition's being established by some moments."""
    async with asyncio.timeout(90):
        while True:
            with contextlib.suppress(NotFound):
                return await client.resolve(api_version, kind)
            await asyncio.sleep(0.05)


async def test_a_strategic_patch_of_a_custom_kind_is_an_unsupported_media_type(client):
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.client.example.com"},
        "spec": {
            "group": "client.example.com",
            "names": {"kind": "Gadget", "plural": "gadgets", "singular": "gadget", "listKind": "GadgetList"},
            "scope": "Namespaced",
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "properties": {
                                "spec": {"type": "object", "properties": {"size": {"type": "integer", "maximum": 9}}}
                            },
                        }
                    },
                }
            ],
        },
    }
    crds = dynamic("apiextensions.k8s.io/v1", "CustomResourceDefinition", namespaced=False)
    await client.apply(crd, force=True)
    await client.wait_for(crds, condition_true("Established"), 90, name="gadgets.client.example.com")
    gadget = await discovered(client, "client.example.com/v1", "Gadget")
    assert gadget.info.plural == "gadgets"
    assert gadget.info.namespaced
    body = {"apiVersion": "client.example.com/v1", "kind": "Gadget", "metadata": {"name": "g"}, "spec": {"size": 1}}
    await client.apply(body)
    with pytest.raises(UnsupportedMediaType, match="merge patch"):
        await client.patch(gadget, "g", StrategicMergePatch({"spec": {"size": 2}}))
    with pytest.raises(Invalid) as invalid:
        await client.patch(gadget, "g", MergePatch({"spec": {"size": 10}}))
    assert [c.field for c in invalid.value.causes] == ["spec.size"]
    await client.delete(gadget, "g")


async def test_a_kind_that_is_not_served_says_so(client):
    with pytest.raises(NotFound, match="CustomResourceDefinition") as missing:
        await client.list(dynamic("nobody.example.com/v1", "Nothing"))
    assert missing.value.kind_is_missing
    with pytest.raises(NotFound, match="no kind 'Pdo'"):
        await client.resolve("v1", "Pdo")


async def test_discovery_and_version(client):
    version = await client.server_version()
    assert version.git_version.startswith("v1.")
    names = {r.name for r in await client.discover("apps/v1")}
    assert {"deployments", "deployments/scale"} <= names
    pods = await client.resolve("v1", "Pod")
    assert (pods.info.plural, pods.info.short_names) == ("pods", ("po",))


async def test_a_token_authenticates_and_does_not_show(client, control_plane):
    token = await client.create_token("default", expires_in=600)
    assert token.token not in repr(token)
    assert token.expires_at is not None

    class Bearer:
        fresh_until = float("-inf")

        async def headers(self, *, refresh: bool = False):
            return headers

        def client_certificate(self):
            return None

    headers = {"Authorization": f"Bearer {token.token}"}
    own = Config(server=client.config.server, tls=client.config.tls, auth=Bearer(), namespace="default")
    async with Client(own) as bot:
        with pytest.raises(Forbidden, match="system:serviceaccount") as forbidden:
            await bot.list(ConfigMap, namespace="default")
        assert token.token not in str(forbidden.value)


async def test_credentials_that_nobody_knows_are_unauthorized(client):
    class Bearer:
        fresh_until = float("-inf")

        async def headers(self, *, refresh: bool = False):
            return headers

        def client_certificate(self):
            return None

    headers = {"Authorization": "Bearer not-a-real-token"}
    own = Config(server=client.config.server, tls=client.config.tls, auth=Bearer())
    async with Client(own) as nobody:
        with pytest.raises(Unauthorized, match="expired or revoked") as refused:
            await nobody.get(Namespace, "default")
        assert "not-a-real-token" not in str(refused.value)


async def test_eviction_respects_a_disruption_budget(client):
    pod = Pod(
        metadata=ObjectMeta(name="pod", labels={"app": "evict"}),
        spec=PodSpec(containers=(Container(name="app", image="registry.example/app:1"),)),
    )
    await client.create(pod)
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "all"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "evict"}}},
    }
    ready = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    await client.patch(Pod, "pod", StrategicMergePatch(ready), subresource="status")
    await client.create(budget)
    with pytest.raises(TooManyRequests, match="budget"):
        await client.evict("pod")
    await client.delete(dynamic("policy/v1", "PodDisruptionBudget"), "all")
    await client.evict("pod", grace_period=0)
    assert await client.wait_for(Pod, deleted, 90, name="pod") is None


async def test_the_log_of_a_pod_without_a_node_is_refused(client):
    pod = Pod(
        metadata=ObjectMeta(name="unbound"),
        spec=PodSpec(
            containers=(Container(name="app", image="registry.example/app:1"),), node_selector={"no": "where"}
        ),
    )
    await client.create(pod)
    with pytest.raises((BadRequest, NotFound)):
        async for _ in client.logs("nobody"):
            pass
    with pytest.raises(BadRequest):
        await client.exec("unbound", ["true"])
    await client.delete(Pod, "unbound", grace_period=0)


async def test_waiting_sees_what_comes_and_says_what_was_seen(client):
    waiting = asyncio.create_task(client.wait_for(ConfigMap, exists, 90, name="late"))
    await client.create(config_map("late"))
    found = await waiting
    assert found is not None
    assert found.metadata.name == "late"
    with pytest.raises(
        WaitTimeoutError, match=r"ConfigMap .*/late: waited 0.2 s for deleted; last seen: resourceVersion"
    ):
        await client.wait_for(found, deleted, 0.2)


async def test_impersonation_acts_as_somebody_else(client, control_plane):
    from steersman.client.config import Impersonation

    config = client.config
    other = Config(
        server=config.server,
        tls=config.tls,
        auth=config.auth,
        impersonate=Impersonation(user="jane", groups=("dev", "system:masters")),
    )
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    view = dynamic("authentication.k8s.io/v1", "SelfSubjectReview", namespaced=False)
    for transport in (NativeTransport(other), PyreqwestTransport(other), AiohttpTransport(other)):
        async with Client(other, transport=transport) as jane:
            answer = await jane.create(review, kind=view)
            assert answer.get("status", "userInfo", "username") == "jane"
            assert "dev" in answer.get("status", "userInfo", "groups")
