"""Operators on a real API server: reconciles, children, status, finalizers, timers, hooks, and what can go wrong."""

import asyncio
import json
import threading

import pytest

from steersman import (
    ALL_NAMESPACES,
    Conditions,
    Context,
    LabelSelector,
    Model,
    NotCachedError,
    ObjectMeta,
    Operator,
    RequeueError,
    Resource,
    Result,
    SyncContext,
    TerminalError,
    Watch,
    dynamic,
    ready_when,
    to_label,
)
from steersman.client import NotFound
from steersman.k8s import ConfigMap, Container, Deployment, DeploymentSpec, Namespace, PodSpec, PodTemplateSpec
from steersman.k8s.events_v1 import Event
from steersman.models import MergePatch

pytestmark = pytest.mark.realcluster

GROUP = "operator-tests.steersman.dev"


class ThingSpec(Model):
    size: int = 1


class ThingStatus(Model):
    observed_generation: int = 0
    size: int = 0
    note: str = ""
    conditions: Conditions = ()


class Thing(Resource, group=GROUP, version="v1"):
    spec: ThingSpec = ThingSpec()
    status: ThingStatus = ThingStatus()


class Bare(Resource, group=GROUP, version="v1"):
    """Its class has a status, its CRD in the cluster has none."""

    spec: ThingSpec = ThingSpec()
    status: ThingStatus = ThingStatus()


class Late(Resource, group=GROUP, version="v1"):
    """Its CRD comes after the operator."""

    spec: ThingSpec = ThingSpec()
    status: ThingStatus = ThingStatus()


def thing(env, name="one", size=1, kind=Thing):
    return kind(metadata=ObjectMeta(name=name, namespace=env.namespace), spec=ThingSpec(size=size))


async def current(env, name="one", kind=Thing):
    return await env.client.get(kind, name, namespace=env.namespace)


def deployment_for(obj: Thing) -> Deployment:
    labels = {"thing": obj.metadata.name}
    return Deployment(
        metadata=ObjectMeta(name=obj.metadata.name),
        spec=DeploymentSpec(
            replicas=obj.spec.size,
            selector=LabelSelector(match_labels=labels),
            template=PodTemplateSpec(
                metadata=ObjectMeta(labels=labels), spec=PodSpec(containers=(Container(name="c", image="x"),))
            ),
        ),
    )


async def test_a_child_follows_its_owner_and_drift_is_corrected(env):
    """A1: the child is applied with an owner reference, and applied again only when it differs."""
    await env.install(Thing)
    operator = Operator("follows")

    @operator.controller(owns=[Deployment])
    async def reconcile(obj: Thing, ctx: Context) -> ThingStatus:
        child = await ctx.apply(deployment_for(obj))
        assert ctx.get(Deployment, obj.metadata.name) is not None, "a read after a write sees the write"
        return ThingStatus(size=child.spec.replicas or 0, conditions=ready_when(True))

    async with env.running(operator):
        await env.client.create(thing(env))
        await env.eventually(lambda: size(env, 1), "status.size is 1")
        child = await env.client.get(Deployment, "one", namespace=env.namespace)
        (owner,) = child.metadata.owner_references
        assert (owner.kind, owner.controller) == ("Thing", True)
        seen = await current(env)
        assert seen.status.observed_generation == 1
        assert seen.status.conditions[0].last_transition_time is not None

        await env.client.patch(Thing, "one", MergePatch({"spec": {"size": 3}}), namespace=env.namespace)
        await env.eventually(lambda: replicas(env, 3), "the Deployment follows")
        await env.client.patch(Deployment, "one", MergePatch({"spec": {"replicas": 7}}), namespace=env.namespace)
        await env.eventually(lambda: replicas(env, 3), "drift is corrected")
        await env.client.delete(Deployment, "one", namespace=env.namespace)
        await env.eventually(lambda: returned(env, child.metadata.uid), "a deleted child returns")


async def size(env, wanted):
    return (await current(env)).status.size == wanted


async def replicas(env, wanted):
    return (await env.client.get(Deployment, "one", namespace=env.namespace)).spec.replicas == wanted


async def returned(env, uid):
    try:
        return (await env.client.get(Deployment, "one", namespace=env.namespace)).metadata.uid != uid
    except NotFound:
        return False


async def test_reads_after_own_writes_are_never_older(env):
    """C2: get and list show what this reconcile has just created, changed and deleted."""
    await env.install(Thing)
    operator = Operator("reads-own-writes")
    problems, rounds = [], []

    @operator.controller(owns=[ConfigMap])
    async def reconcile(obj: Thing, ctx: Context) -> None:
        for n in range(5):
            name = f"{obj.metadata.name}-{n}"
            made = await ctx.apply(ConfigMap(metadata=ObjectMeta(name=name), data={"n": "1"}))
            changed = await ctx.patch(made, MergePatch({"data": {"n": "2"}}))
            seen = ctx.get(ConfigMap, name)
            if seen is None or seen.data["n"] != "2" or seen != changed:
                problems.append(("get", n, seen))
            if name not in {c.metadata.name for c in ctx.list(ConfigMap, owned=True)}:
                problems.append(("list", n))
            await ctx.delete(made)
            if ctx.get(ConfigMap, name) is not None:
                problems.append(("deleted", n))
            assert not await ctx.delete(ConfigMap, name), "there is none any more"
        rounds.append(ctx.request)

    async with env.running(operator):
        await env.client.create(thing(env))
        await env.eventually(lambda: rounds, "a whole round")
    assert not problems


async def test_undeclared_kinds_are_read_from_the_server_and_never_watched(env):
    """C6: `get` refuses with the way out, `fetch` asks the server; no watch begins."""
    await env.install(Thing)
    operator = Operator("undeclared")
    found = {}

    @operator.controller
    async def reconcile(obj: Thing, ctx: Context) -> None:
        with pytest.raises(
            NotCachedError, match=r"does not declare that it reads ConfigMap: add it to reads=.*await ctx\.fetch"
        ):
            ctx.get(ConfigMap, "settings")
        with pytest.raises(NotCachedError):
            ctx.list(ConfigMap)
        with pytest.raises(NotCachedError, match=r"that it reads Thing: add it to reads="):
            ctx.list(Thing)
        found["one"] = await ctx.fetch(ConfigMap, "settings")
        found["none"] = await ctx.fetch(ConfigMap, "nothing")
        found["all"] = await ctx.fetch_list(ConfigMap, labels={"a": "b"})

    settings = ConfigMap(metadata=ObjectMeta(name="settings", namespace=env.namespace, labels={"a": "b"}))
    await env.client.create(settings)
    async with env.running(operator):
        await env.client.create(thing(env))
        await env.eventually(lambda: "all" in found, "a reconcile")
    assert found["one"].metadata.name == "settings"
    assert found["none"] is None
    assert [c.metadata.name for c in found["all"]] == ["settings"]
    watched = env.plane.audit_events(verbs=("watch",), resource="configmaps", namespace=env.namespace)
    assert not [e for e in watched if "steersman" in str(e.raw.get("userAgent"))]


async def test_mapped_kinds_lead_to_reconciles_with_their_reason(env):
    await env.install(Thing)
    operator = Operator("mapped")
    reasons = []

    @operator.controller(watches=[Watch(ConfigMap, to=to_label("for-thing"))])
    async def reconcile(obj: Thing, ctx: Context) -> None:
        reasons.append(ctx.request.reasons)

    async with env.running(operator):
        await env.client.create(thing(env))
        await env.eventually(lambda: reasons, "the first reconcile")
        await env.client.create(
            ConfigMap(metadata=ObjectMeta(name="c", namespace=env.namespace, labels={"for-thing": "one"}))
        )
        await env.eventually(lambda: any("ConfigMap add" in r for r in reasons), "the mapped reconcile")


async def test_finalizers_come_before_the_first_reconcile_and_run_in_order(env):
    """A5: added in a pass of their own, run in order of declaration over several passes, then the object goes."""
    await env.install(Thing)
    operator = Operator("finalizes")
    said = []

    @operator.controller
    async def reconcile(obj: Thing, ctx: Context) -> None:
        assert len(obj.metadata.finalizers) == 2
        said.append("reconcile")

    @operator.finalizer(f"{GROUP}/first")
    async def first(obj: Thing, ctx: Context) -> Result | None:
        said.append("first")
        return Result(requeue_after=0.05, status=ThingStatus(note="cleaning")) if said.count("first") < 3 else None

    @operator.finalizer(f"{GROUP}/second")
    def second(obj: Thing, ctx: SyncContext) -> None:
        said.append("second")
        if said.count("second") == 1:
            raise RequeueError("not yet", after=0.05)

    async with env.running(operator):
        await env.client.create(thing(env))
        await env.eventually(lambda: "reconcile" in said, "a reconcile")
        await env.client.delete(Thing, "one", namespace=env.namespace)
        await env.eventually(lambda: gone(env), "the object goes")
    ends = [word for word in said if word != "reconcile"]
    assert ends == ["first", "first", "first", "second", "second"]


async def gone(env, name="one", kind=Thing):
    try:
        await current(env, name, kind)
    except NotFound:
        return True
    return False


async def test_a_plain_function_works_in_a_thread_with_a_blocking_context(env):
    """R6: a blocking reconcile leaves the event loop alone and can do everything an async one can."""
    await env.install(Thing)
    operator = Operator("threads")
    threads = set()

    @operator.controller(owns=[ConfigMap])
    def reconcile(obj: Thing, ctx: SyncContext) -> ThingStatus:
        threads.add(threading.current_thread())
        ctx.apply(ConfigMap(metadata=ObjectMeta(name="from-thread"), data={"a": "1"}))
        assert ctx.get(ConfigMap, "from-thread") is not None
        assert ctx.fetch(Namespace, env.namespace) is not None
        ctx.event("Worked", "in a thread")
        return ThingStatus(size=len(ctx.list(ConfigMap, owned=True)))

    async with env.running(operator):
        await env.client.create(thing(env))
        await env.eventually(lambda: size(env, 1), "status from a thread")
    assert threading.main_thread() not in threads


async def test_events_timers_and_hooks(env):
    await env.install(Thing)
    operator = Operator("hooks")
    said = []

    @operator.on_startup
    async def begin(ctx: Context) -> None:
        said.append("startup")
        await ctx.client.create(ConfigMap(metadata=ObjectMeta(name="made-at-startup", namespace=env.namespace)))

    @operator.on_shutdown
    async def end() -> None:
        said.append("shutdown")

    @operator.timer(0.1, reads=[Thing])
    async def tick(ctx: Context) -> None:
        said.append(("tick", len(ctx.list(Thing, namespace=ALL_NAMESPACES))))

    @operator.controller
    async def reconcile(obj: Thing, ctx: Context) -> None:
        said.append("reconcile")
        ctx.event("Seen", "the thing was seen")

    async with env.running(operator):
        await env.client.create(thing(env))
        await env.eventually(lambda: ("tick", 1) in said, "the timer sees the thing")
        await env.eventually(lambda: events(env, "Seen"), "the Event")
    assert said[0] == "startup"
    assert said[-1] == "shutdown"


async def events(env, reason):
    return [e for e in (await env.client.list(Event, namespace=env.namespace)).items if e.reason == reason]


async def test_a_terminal_error_is_told_by_an_event_and_not_retried(env):
    await env.install(Thing)
    operator = Operator("terminal")
    attempts = []

    @operator.controller
    async def reconcile(obj: Thing, ctx: Context) -> None:
        attempts.append(obj.spec.size)
        if obj.spec.size > 5:
            raise TerminalError("size must be at most 5", reason="TooBig")

    async with env.running(operator):
        await env.client.create(thing(env, size=9))
        (event,) = await env.eventually(lambda: events(env, "TooBig"), "the Event")
        assert "at most 5" in event.note
        await env.client.patch(Thing, "one", MergePatch({"spec": {"size": 2}}), namespace=env.namespace)
        await env.eventually(lambda: 2 in attempts, "a change is tried again")
    assert attempts.count(9) <= 2


async def test_an_object_that_does_not_decode_is_reported_and_stops_nobody(env):
    """W9: it becomes an Event on the object; other objects go on, and so does it when it is mended."""
    await env.install(Thing)
    operator = Operator("undecodable")
    seen = []

    @operator.controller
    async def reconcile(obj: Thing, ctx: Context) -> None:
        seen.append(obj.metadata.name)

    await env.client.create(
        {
            "apiVersion": f"{GROUP}/v1",
            "kind": "Thing",
            "metadata": {"name": "bad", "namespace": env.namespace},
            "spec": {"size": "many"},
        }
    )
    async with env.running(operator):
        await env.client.create(thing(env, "good"))
        await env.eventually(lambda: "good" in seen, "the good one")
        (event,) = await env.eventually(lambda: events(env, "Undecodable"), "the Event")
        assert "$.spec.size" in event.note
        mended = {"spec": {"size": 3}}
        await env.client.patch(dynamic(f"{GROUP}/v1", "Thing"), "bad", MergePatch(mended), namespace=env.namespace)
        await env.eventually(lambda: "bad" in seen, "the mended one")


async def test_a_crd_without_status_is_one_clear_error_and_no_loop(env):
    await env.install(Bare, status=False)
    operator = Operator("no-status")
    calls = []

    @operator.controller
    async def reconcile(obj: Bare, ctx: Context) -> ThingStatus:
        calls.append(obj.metadata.name)
        return ThingStatus(size=1)

    async with env.running(operator):
        await env.client.create(thing(env, kind=Bare))
        (event,) = await env.eventually(lambda: events(env, "NoStatusSubresource"), "the Event")
        assert "subresources: {status: {}}" in event.note
    assert len(calls) == 1


async def test_a_missing_crd_is_waited_for_and_keeps_nobody_else_waiting(env):
    """W10: the other controllers work; the one whose kind is missing starts by itself when the CRD comes."""
    await env.install(Thing)
    operator = Operator("late")
    seen = []

    @operator.controller
    async def things(obj: Thing, ctx: Context) -> None:
        seen.append("thing")

    @operator.controller
    async def lates(obj: Late, ctx: Context) -> None:
        seen.append("late")

    async with env.running(operator):
        await env.client.create(thing(env))
        await env.eventually(lambda: "thing" in seen, "the other controller")
        await env.install(Late)
        await env.client.create(thing(env, kind=Late))
        await env.eventually(lambda: "late" in seen, "the late one", within=45)
    await asyncio.to_thread(env.plane.kubectl, "delete", "crd", f"lates.{GROUP}")
    assert "Late" in env.log.getvalue()


async def test_a_forbidden_kind_is_named_and_the_rest_works(env):
    await env.install(Thing)
    rules = [
        {"apiGroups": [GROUP], "resources": ["things", "things/status"], "verbs": ["*"]},
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["*"]},
        {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["*"]},
    ]
    kubeconfig = await asyncio.to_thread(
        env.plane.service_account_kubeconfig, "limited", namespace=env.namespace, rules=rules
    )
    operator = Operator("forbidden")
    seen = []

    @operator.controller
    async def things(obj: Thing, ctx: Context) -> None:
        seen.append("thing")

    @operator.controller(name="maps")
    async def maps(obj: ConfigMap, ctx: Context) -> None:
        seen.append("map")

    async with env.running(operator, kubeconfig=kubeconfig):
        await env.client.create(thing(env))
        await env.eventually(lambda: "thing" in seen, "the allowed one")
    log = env.log.getvalue()
    assert "configmaps is forbidden" in log
    assert "map" not in seen


async def test_a_wrong_return_value_is_named_with_its_place(env):
    await env.install(Thing)
    operator = Operator("wrong-return")

    @operator.controller
    async def reconcile(obj: Thing, ctx: Context):
        return 42

    async with env.running(operator):
        await env.client.create(thing(env))
        await env.eventually(
            lambda: "returned a int; expected ThingStatus, Result or None" in env.log.getvalue(), "the error"
        )


async def test_a_dry_run_changes_nothing(env):
    await env.install(Thing)
    operator = Operator("dry")
    ran = []

    @operator.controller(owns=[ConfigMap])
    async def reconcile(obj: Thing, ctx: Context) -> ThingStatus:
        await ctx.apply(ConfigMap(metadata=ObjectMeta(name="dry"), data={"a": "1"}))
        ran.append(obj)
        return ThingStatus(size=5)

    async with env.running(operator, dry_run=True):
        await env.client.create(thing(env))
        await env.eventually(lambda: ran, "a reconcile")
    assert (await current(env)).status.size == 0
    with pytest.raises(NotFound):
        await env.client.get(ConfigMap, "dry", namespace=env.namespace)
    leases = await asyncio.to_thread(
        env.plane.call, "GET", f"/apis/coordination.k8s.io/v1/namespaces/{env.namespace}/leases"
    )
    assert not leases["items"]


async def test_what_a_reconcile_logs_carries_the_object_and_the_reconcile_id(env):
    """R5: lines logged in a reconcile, in a thread too, name the object and the reconcile; so does its Event."""
    await env.install(Thing)
    operator = Operator("logs")

    @operator.controller
    async def reconcile(obj: Thing, ctx: Context) -> None:
        ctx.log.info("from the loop")
        ctx.event("Logged", "an Event of this reconcile")

    @operator.controller(name="threaded")
    def threaded(obj: Thing, ctx: SyncContext) -> None:
        ctx.log.info("from a thread")

    async with env.running(operator):
        await env.client.create(thing(env))
        await env.eventually(lambda: "from a thread" in env.log.getvalue(), "the thread's line")
        (event,) = await env.eventually(lambda: events(env, "Logged"), "the Event")
    lines = [json.loads(line) for line in env.log.getvalue().splitlines()]
    for text, controller in (("from the loop", "thing"), ("from a thread", "threaded")):
        line = next(line for line in lines if line["event"] == text)
        assert (line["namespace"], line["name"], line["kind"]) == (env.namespace, "one", "Thing")
        assert line["controller"] == controller
        assert line["reconcile_id"]
        assert line["reasons"] == ["Thing add"]
    first = next(line for line in lines if line["event"] == "from the loop")
    assert event.metadata.annotations["steersman.dev/reconcile-id"] == first["reconcile_id"]
