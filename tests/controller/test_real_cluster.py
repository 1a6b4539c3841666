"""Writers on a real API server: its responses, and its audit log."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from steersman.cache import Cache
from steersman.client import Client, NotFound
from steersman.client.config import load_config
from steersman.controller import (
    Applier,
    CachedState,
    Controller,
    EventRecorder,
    FieldConflictError,
    Finalizer,
    FinalizerState,
    NoStatusSubresourceError,
    Request,
    RequeueError,
    Result,
    Source,
    add_finalizers,
    patch_status,
    run_finalizers,
    to_controller,
)
from steersman.k8s import (
    ConfigMap,
    Container,
    Deployment,
    DeploymentSpec,
    PersistentVolumeClaim,
    PodSpec,
    PodTemplateSpec,
    ResourceRequirements,
)
from steersman.models import Key, LabelSelector, ObjectMeta, from_dict, replace
from steersman.models.conditions import ready_when

from .kinds import App, AppStatus, Plain

pytestmark = pytest.mark.realcluster

MANAGER = "controller-tests"


def crd(kind: str, plural: str, *, status: bool) -> str:
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
    }
    if status:
        version["subresources"] = {"status": {}}
    return json.dumps(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.tests.steersman.dev"},
            "spec": {
                "group": "tests.steersman.dev",
                "names": {"kind": kind, "plural": plural},
                "scope": "Namespaced",
                "versions": [version],
            },
        }
    )


@pytest.fixture(scope="module")
def kinds(control_plane):
    """The CustomResourceDefinitions of `kinds.py`; that of Plain has no status subresource."""
    for text in (crd("App", "apps", status=True), crd("Plain", "plains", status=False)):
        control_plane.kubectl("apply", "-f", "-", input=text)
    names = ["crd/apps.tests.steersman.dev", "crd/plains.tests.steersman.dev"]
    control_plane.kubectl("wait", "--for=condition=Established", *names, "--timeout=30s")


@asynccontextmanager
async def client_of(control_plane, agent: str) -> AsyncIterator[Client]:
    async with Client(load_config(control_plane.kubeconfig), user_agent=agent) as client:
        yield client


@asynccontextmanager
async def cached(client: Client, namespace: str, *kinds: type) -> AsyncIterator[Cache]:
    cache = Cache(client)
    for kind in kinds:
        cache.informer(kind, namespace=namespace)
    await cache.start()
    try:
        await cache.wait_synced(30)
        yield cache
    finally:
        await cache.close()


async def until(condition: Callable[[], object], what: str) -> None:
    async with asyncio.timeout(90):
        while not condition():  # noqa: ASYNC110 - the condition is another process's doing
            await asyncio.sleep(0.02)
    assert condition(), what


async def kubectl(control_plane, *args: str) -> str:
    return await asyncio.to_thread(control_plane.kubectl, *args)


def labelled(informer, key: Key, name: str, value: object) -> Callable[[], bool]:
    def is_seen() -> bool:
        entry = informer.get(key)
        return entry is not None and entry.metadata().labels.get(name) == str(value)

    return is_seen


def writes(control_plane, agent: str, resource: str) -> list[str]:
    events = control_plane.audit_events(resource=resource, user_agent=agent, stage="ResponseComplete")
    return [e.verb for e in events if e.is_write]


def deployment(namespace: str, *, cpu: str = "1000m", replicas: int | None = 0) -> Deployment:
    labels = {"app": "web"}
    container = Container(
        name="app",
        image="nginx:1",
        resources=from_dict(ResourceRequirements, {"limits": {"cpu": cpu, "memory": "1024Mi"}}),
    )
    return Deployment(
        metadata=ObjectMeta(name="web", namespace=namespace, labels=labels),
        spec=DeploymentSpec(
            replicas=replicas,
            selector=LabelSelector(match_labels=labels),
            template=PodTemplateSpec(metadata=ObjectMeta(labels=labels), spec=PodSpec(containers=(container,))),
        ),
    )


async def create_app(client: Client, namespace: str, kind: type = App, name: str = "web"):
    return await client.create(kind(metadata=ObjectMeta(name=name, namespace=namespace)))


async def test_applying_what_the_server_has_sends_nothing(control_plane, namespace, kinds):
    """A1: applying what the cluster already has sends nothing, quantities in other notation included."""
    agent = f"a1-noop-{namespace}"
    async with client_of(control_plane, agent) as client, cached(client, namespace, Deployment) as cache:
        owner = await create_app(client, namespace)
        applier = Applier(client, CachedState(cache), MANAGER)
        live = await applier.apply(deployment(namespace), owner=owner)
        for _ in range(10):
            live = await applier.apply(deployment(namespace), owner=owner)
        assert applier.sent == 1
        # The deployment controller writes status and annotations now and then; that is not ours.
        await kubectl(control_plane, "annotate", "deployment", "web", "note=x", "-n", namespace)
        informer = cache.informer(Deployment, namespace=namespace)
        key = Key(namespace, "web")
        await until(lambda: informer.get(key).metadata().annotations.get("note") == "x", "the annotation is seen")
        await applier.apply(deployment(namespace), owner=owner)
        assert applier.sent == 1
        assert live.metadata.owner_references[0].uid == owner.metadata.uid

        await kubectl(control_plane, "scale", "deployment", "web", "--replicas=2", "-n", namespace)
        await until(lambda: informer.get(key).object(Deployment).spec.replicas == 2, "the scaling is seen")
        live = await applier.apply(deployment(namespace), owner=owner)
        assert live.spec.replicas == 0
        for n in range(3):
            await kubectl(control_plane, "label", "deployment", "web", f"n={n}", "--overwrite", "-n", namespace)
            await until(labelled(informer, key, "n", n), "the label is seen")
            await applier.apply(deployment(namespace), owner=owner)
        assert applier.sent == 2
    assert writes(control_plane, agent, "deployments") == ["patch"] * 2


async def test_a_generationless_kind_with_normalised_values_settles(control_plane, namespace):
    """A1: a claim for 1024Mi is stored as 1Gi, and that is not sent for ever."""
    agent = f"a1-claim-{namespace}"
    claim = from_dict(
        PersistentVolumeClaim,
        {
            "metadata": {"name": "data", "namespace": namespace},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "none",
                "resources": {"requests": {"storage": "1024Mi"}},
            },
        },
    )
    async with client_of(control_plane, agent) as client, cached(client, namespace, PersistentVolumeClaim) as cache:
        applier = Applier(client, CachedState(cache), MANAGER)
        informer, key = cache.informer(PersistentVolumeClaim, namespace=namespace), Key(namespace, "data")
        for n in range(4):
            await applier.apply(claim)
            await kubectl(control_plane, "label", "pvc", "data", f"n={n}", "--overwrite", "-n", namespace)
            await until(labelled(informer, key, "n", n), "the label is seen")
        assert applier.sent <= 2


async def test_fields_of_another_manager_are_taken_only_by_force(control_plane, namespace):
    """A1: force only for what we own; without it the other manager is named."""
    async with client_of(control_plane, "a1-conflict") as client:
        config = ConfigMap(metadata=ObjectMeta(name="c", namespace=namespace), data={"a": "theirs"})
        await client.apply(config, field_manager="somebody-else")
        applier = Applier(client, None, MANAGER)
        mine = replace(config, data={"a": "mine"})
        with pytest.raises(FieldConflictError, match=r"somebody-else.*force=True"):
            await applier.apply(mine, force=False)
        assert (await applier.apply(mine)).data == {"a": "mine"}
        assert (await applier.apply(replace(config, data={"b": "only"}))).data == {"b": "only"}


async def test_status_is_written_once(control_plane, namespace, kinds):
    """A2: status is written only when it changes, in one request; a stale list is a conflict."""
    agent = f"a2-{namespace}"
    async with client_of(control_plane, agent) as client:
        app = stale = await create_app(client, namespace)
        status = AppStatus(ready=1, pods=("a",), conditions=ready_when(True))
        for _ in range(5):
            app = await patch_status(client, app, status)
        live = await client.get(App, "web", namespace=namespace)
        assert live.status == app.status
        assert live.metadata.resource_version == app.metadata.resource_version
        assert live.status.observed_generation == live.metadata.generation == 1
        assert live.status.conditions[0].last_transition_time is not None
        with pytest.raises(Exception, match="409 Conflict"):
            await patch_status(client, stale, AppStatus(pods=("b",)))
        await client.delete(live)
        assert await patch_status(client, app, AppStatus(ready=9)) is None
        await create_app(client, namespace)
        with pytest.raises(Exception, match="409 Conflict"):
            await patch_status(client, app, AppStatus(ready=9))
    assert writes(control_plane, agent, "apps") == ["create", "patch", "patch", "delete", "patch", "create", "patch"]


async def test_a_crd_without_status_is_a_clear_terminal_error(control_plane, namespace, kinds):
    """A2: a CustomResourceDefinition without status sub-resource."""

    class Plain2(App, group="tests.steersman.dev", version="v1", kind="Plain", plural="plains"):
        """The class believes in a status, the cluster does not."""

    async with client_of(control_plane, "a2-plain") as client:
        plain = await create_app(client, namespace, Plain)
        believed = Plain2(metadata=plain.metadata)
        with pytest.raises(NoStatusSubresourceError, match="add `subresources"):
            await patch_status(client, believed, AppStatus(ready=1))


async def test_finalizers_on_a_real_server(control_plane, namespace, kinds):
    """A5: added in a pass of their own, removed by a tested patch, never added to a terminating object."""
    passes = []

    def cleanup(app: App) -> Result | None:
        passes.append(app.metadata.name)
        return Result(requeue_after=1) if len(passes) == 1 else None

    finalizers = [Finalizer("tests.steersman.dev/one", cleanup), Finalizer("tests.steersman.dev/two", cleanup)]
    async with client_of(control_plane, "a5") as client:
        app = stale = await create_app(client, namespace)
        assert (await run_finalizers(client, app, finalizers)).state is FinalizerState.ADDED
        app = await client.get(App, "web", namespace=namespace)
        assert app.metadata.finalizers == ("tests.steersman.dev/one", "tests.steersman.dev/two")
        assert (await run_finalizers(client, app, finalizers)).state is FinalizerState.READY
        with pytest.raises(RequeueError):
            await add_finalizers(client, stale, ["tests.steersman.dev/three"])
        assert not await client.delete(app)
        with pytest.raises(RequeueError):
            await add_finalizers(client, app, ["tests.steersman.dev/three"])
        app = await client.get(App, "web", namespace=namespace)
        await add_finalizers(client, app, ["tests.steersman.dev/three"])
        assert (await run_finalizers(client, app, finalizers)).state is FinalizerState.PENDING
        assert (await run_finalizers(client, app, finalizers)).state is FinalizerState.DONE
        with pytest.raises(NotFound):
            await client.get(App, "web", namespace=namespace)
        await create_app(client, namespace)
        with pytest.raises(RequeueError):
            await run_finalizers(client, app, finalizers)


async def test_events_are_shown_to_people(control_plane, namespace, kinds):
    """R5: Events arrive, and repetitions become a series."""
    async with client_of(control_plane, "events") as client:
        app = await create_app(client, namespace)
        recorder = EventRecorder(client, "tests.steersman.dev/app", "app-0")
        task = asyncio.create_task(recorder.run())
        for _ in range(3):
            recorder.event(app, "Scaled", "from 1 to 3", type="Warning")
        assert await recorder.drain()
        task.cancel()
    listed = control_plane.call("GET", f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")["items"]
    (event,) = [e for e in listed if e["regarding"]["kind"] == "App"]
    assert event["note"] == "from 1 to 3"
    assert event["series"]["count"] == 2  # the third waits for the next heartbeat of the series
    shown = await kubectl(control_plane, "describe", "apps.tests.steersman.dev", "web", "-n", namespace)
    assert "from 1 to 3" in shown


async def test_a_controller_keeps_children_as_they_should_be(control_plane, namespace, kinds):
    """A1: level-triggered from end to end: create, drift, deletion of a child, and one write for each."""
    agent = f"loop-{namespace}"
    async with client_of(control_plane, agent) as client:
        cache = Cache(client)
        apps = cache.informer(App, namespace=namespace)
        configs = cache.informer(ConfigMap, namespace=namespace)
        applier = Applier(client, CachedState(cache), MANAGER)

        async def reconcile(request: Request) -> Result | None:
            await cache.read_barrier(App, request.key)
            app = cache.get(App, request.key)
            if app is None:
                return None
            config = await applier.apply(
                ConfigMap(metadata=ObjectMeta(name=app.metadata.name), data={"size": str(app.spec.size)}), owner=app
            )
            await patch_status(client, app, AppStatus(ready=int(config.data["size"])))
            return None

        controller = Controller(
            "app",
            reconcile,
            kind="App",
            workers=2,
            sources=[
                Source(apps, name="App"),
                Source(configs, name="ConfigMap", to=to_controller(App)),
            ],
        )
        await cache.start()
        task = asyncio.create_task(controller.run(synced=lambda: cache.wait_synced(30)))
        try:
            app = await create_app(client, namespace)
            key = Key(namespace, "web")
            await until(lambda: (a := cache.get(App, key)) and a.status.ready == 1, "the status is written")
            child = cache.get(ConfigMap, key)
            assert child is not None
            assert child.metadata.owner_references[0].uid == app.metadata.uid

            drift = '{"data":{"size":"9"}}'
            await kubectl(control_plane, "patch", "cm", "web", "-n", namespace, "--type=merge", "-p", drift)
            await until(
                lambda: applier.sent == 2 and cache.get(ConfigMap, key).data == {"size": "1"}, "drift is corrected"
            )
            await kubectl(control_plane, "delete", "cm", "web", "-n", namespace)
            await until(lambda: (c := cache.get(ConfigMap, key)) and c.metadata.uid != child.metadata.uid, "it returns")
            await until(lambda: not controller.busy and not len(controller.queue), "all is quiet")
            assert controller.stats.error == 0
        finally:
            await controller.stop()
            await task
            await cache.close()
    assert writes(control_plane, agent, "configmaps") == ["patch"] * 3
    assert writes(control_plane, agent, "apps") == ["create", "patch"]
