"""Six classes of bugs, each as a minimal operator, and the operators that do the same correctly."""

from __future__ import annotations

import base64
from collections.abc import Callable

from steersman import (
    Context,
    LabelSelector,
    MergePatch,
    Model,
    ObjectMeta,
    Operator,
    Quantity,
    Resource,
    Watch,
    to_label,
)
from steersman.k8s import (
    ConfigMap,
    Container,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    Pod,
    PodSpec,
    PodTemplateSpec,
    Secret,
    StatefulSet,
    StatefulSetSpec,
    VolumeResourceRequirements,
)

GROUP = "planted.steersman.dev"
SLOW_STOP = {"simulate.steersman.dev/stop-after": "2s"}
"""Pods take time to stop, as real ones do; otherwise no claim can be deleted before its Pod."""


class AppSpec(Model):
    replicas: int = 1


class AppStatus(Model):
    child: str = ""
    initialised: bool = False


class App(Resource, group=GROUP, version="v1"):
    """An application."""

    spec: AppSpec = AppSpec()
    status: AppStatus = AppStatus()


def app(replicas: int = 1, *, finalizers: tuple[str, ...] = ()) -> dict[str, object]:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "App",
        "metadata": {"name": "a", "finalizers": list(finalizers)},
        "spec": {"replicas": replicas},
    }


class Cloud:
    """Disks outside of the cluster. A disk that does not exist cannot be deleted."""

    def __init__(self) -> None:
        self.disks: set[str] = set()

    def reset(self) -> None:
        self.disks.clear()

    def create(self, name: str) -> None:
        self.disks.add(name)

    def delete(self, name: str) -> None:
        self.disks.remove(name)


CLOUD = Cloud()


def generate_name(correct: bool) -> Operator:
    """Creates a child with a generated name, then records the name in the status."""
    operator = Operator("generate-name")

    @operator.controller(owns=[ConfigMap])
    async def reconcile(app: App, ctx: Context) -> AppStatus:
        if app.status.child:
            return app.status
        if correct and (found := await ctx.fetch_list(ConfigMap, labels={"app": str(app.metadata.name)})):
            return AppStatus(child=str(found[0].metadata.name))
        labels = {"app": str(app.metadata.name)}
        child = await ctx.create(ConfigMap(metadata=ObjectMeta(generate_name="child-", labels=labels), data={"a": "b"}))
        return AppStatus(child=str(child.metadata.name))

    return operator


def flag_order(correct: bool) -> Operator:
    """Creates a Secret once, and remembers in the status that it has; the bug records it first."""
    operator = Operator("flag-order")
    data = {"password": base64.b64encode(b"secret").decode()}

    @operator.controller(owns=[Secret])
    async def reconcile(app: App, ctx: Context) -> None:
        if app.status.initialised:
            return
        secret = Secret(metadata=ObjectMeta(name=f"{app.metadata.name}-password"), data=data)
        if correct:
            await ctx.apply(secret)
        await ctx.patch(app, MergePatch({"status": {"initialised": True}}), subresource="status")
        if not correct:
            await ctx.apply(secret)

    return operator


def two_copies() -> Operator:
    """Writes the wanted number into two ConfigMaps, one after the other."""
    operator = Operator("two-copies")

    @operator.controller(owns=[ConfigMap])
    async def reconcile(app: App, ctx: Context) -> None:
        data = {"replicas": str(app.spec.replicas)}
        for name in ("first", "second"):
            await ctx.apply(ConfigMap(metadata=ObjectMeta(name=f"{app.metadata.name}-{name}"), data=data))

    return operator


def stale_pods(correct: bool) -> Operator:
    """Deletes the claims of Pods that a StatefulSet has removed; the bug trusts its cache of Pods."""
    operator = Operator("stale-pods")

    @operator.controller(
        owns=[StatefulSet, PersistentVolumeClaim], reads=[Pod], watches=[Watch(Pod, to=to_label("app"))]
    )
    async def reconcile(app: App, ctx: Context) -> None:
        wanted = {f"{app.metadata.name}-{n}" for n in range(app.spec.replicas)}
        resources = VolumeResourceRequirements(requests={"storage": Quantity("1Gi")})
        for name in sorted(wanted):
            spec = PersistentVolumeClaimSpec(access_modes=("ReadWriteOnce",), resources=resources)
            await ctx.apply(PersistentVolumeClaim(metadata=ObjectMeta(name=name), spec=spec))
        labels = {"app": str(app.metadata.name)}
        pod = PodSpec(containers=(Container(name="main", image="app"),))
        await ctx.apply(
            StatefulSet(
                metadata=ObjectMeta(name=app.metadata.name),
                spec=StatefulSetSpec(
                    replicas=app.spec.replicas,
                    selector=LabelSelector(match_labels=labels),
                    service_name="a",
                    template=PodTemplateSpec(metadata=ObjectMeta(labels=labels, annotations=SLOW_STOP), spec=pod),
                ),
            )
        )
        live = await ctx.fetch_list(Pod) if correct else ctx.list(Pod)
        names = {str(pod.metadata.name) for pod in live}
        for claim in ctx.list(PersistentVolumeClaim, owned=True):
            if claim.metadata.name not in wanted | names:
                await ctx.delete(claim)

    return operator


def deletion_seen(correct: bool) -> Operator:
    """Deletes what an App left when the App is deleted; the bug relies on seeing the deletionTimestamp."""
    operator = Operator("deletion-seen")

    async def clean(app: App, ctx: Context) -> None:
        await ctx.delete(ConfigMap, f"{app.metadata.name}-registration")

    @operator.controller(reads=[ConfigMap], terminating=True)
    async def reconcile(app: App, ctx: Context) -> None:
        if app.metadata.deletion_timestamp is not None:
            await clean(app, ctx)
            return
        name = f"{app.metadata.name}-registration"
        await ctx.apply(ConfigMap(metadata=ObjectMeta(name=name), data={"a": "b"}), owned=False)

    operator.permit("create patch delete", ConfigMap)
    if correct:

        @operator.finalizer(f"{GROUP}/clean")
        async def finalize(app: App, ctx: Context) -> None:
            await clean(app, ctx)

    return operator


def finalizer_once(correct: bool) -> Operator:
    """Deletes a disk outside of the cluster in its finalizer; the bug fails if the disk is gone already."""
    operator = Operator("finalizer-once")

    @operator.controller
    async def reconcile(app: App, ctx: Context) -> AppStatus:
        CLOUD.create(str(app.metadata.name))
        return AppStatus(initialised=True)

    @operator.finalizer(f"{GROUP}/disk")
    async def finalize(app: App, ctx: Context) -> None:
        if not correct or str(app.metadata.name) in CLOUD.disks:
            CLOUD.delete(str(app.metadata.name))

    return operator


def timestamp_name(correct: bool) -> Operator:
    """Creates one child with a name that contains the time; the twin records the name before it creates the child."""
    operator = Operator("timestamp-name")

    @operator.controller(owns=[ConfigMap])
    async def reconcile(app: App, ctx: Context) -> AppStatus:
        if app.status.child and not correct:
            return app.status
        name = app.status.child or f"backup-{int(ctx.now().timestamp())}"
        if correct and not app.status.child:
            version = {"resourceVersion": app.metadata.resource_version}  # a stale cache must not choose another name
            await ctx.patch(app, MergePatch({"metadata": version, "status": {"child": name}}), subresource="status")
        await ctx.apply(ConfigMap(metadata=ObjectMeta(name=name), data={"a": "b"}))
        return AppStatus(child=name)

    return operator


CLASSES: dict[str, Callable[[bool], Operator]] = {
    "generate_name": generate_name,
    "flag_order": flag_order,
    "stale_pods": stale_pods,
    "deletion_seen": deletion_seen,
    "finalizer_once": finalizer_once,
    "timestamp_name": timestamp_name,
}
