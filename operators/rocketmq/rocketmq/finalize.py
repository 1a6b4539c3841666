"""The effects of the stage Finalize: Jobs that delete the directories of members on their nodes."""

from __future__ import annotations

from collections.abc import Mapping

from steersman import Context, MergePatch, ObjectMeta, Result
from steersman.client import ApiError
from steersman.controller import Finalizer, FinalizerState, remove_finalizer, run_finalizers
from steersman.k8s import Job, Pod, StatefulSet

from rocketmq.api.v1.broker_types import Broker
from rocketmq.api.v1.controller_types import Controller
from rocketmq.directories import FINALIZER, Cleanup, cleanup, job, must_delete

__all__ = ["finalize"]

RETRY_SECONDS = 1.0


async def finalize(obj: Broker | Controller, image: str, labels: Mapping[str, str], ctx: Context) -> Result | None:
    """Perform the stage Finalize of one reconcile; returns `None` if the other stages follow.

    An object has the finalizer while `storageMode` is `HostPath` and `storageReclaimPolicy` is `Delete`.

    Args:
        obj: the object.
        image: the image of its servers.
        labels: the labels of its StatefulSets and Pods.
        ctx: the context of the reconcile.
    """
    deleted = obj.metadata.deletion_timestamp is not None
    if not must_delete(obj.spec):
        # The policy may have changed while Jobs waited.
        for each in ctx.list(Job, labels=labels):
            await ctx.delete(each)
        await remove_finalizer(ctx.client, obj, FINALIZER)
        return Result() if deleted else None

    async def clean_up(_: Broker | Controller) -> Result | None:
        return await _clean_up(obj, image, labels, ctx)

    outcome = await run_finalizers(ctx.client, obj, (Finalizer(FINALIZER, clean_up),))
    if outcome.state is FinalizerState.READY:
        return None
    return Result(requeue_after=0.0 if outcome.state is FinalizerState.ADDED else outcome.requeue_after)


async def _clean_up(obj: Broker | Controller, image: str, labels: Mapping[str, str], ctx: Context) -> Result | None:
    todo = cleanup(ctx.list(StatefulSet, labels=labels), ctx.list(Pod, labels=labels), ctx.list(Job, labels=labels))
    try:
        await _create(todo, obj, image, labels, ctx)
    except ApiError as problem:
        if not problem.namespace_terminating:
            raise
        # No Job can run in a namespace that is being deleted.
        ctx.log.warning("directories_kept", reason="namespace_terminating", path=obj.spec.host_path)
        return None
    for child in todo.stop:
        await ctx.delete(child)
        ctx.log.info("members_stopped", stateful_set=child.metadata.name, reason="deletion")
    for each in todo.run:
        await ctx.patch(each, MergePatch({"spec": {"suspend": False}}))
    for each in todo.remove:
        await ctx.delete(each)
        ctx.log.info("directory_deleted", job=each.metadata.name, path=obj.spec.host_path)
    if todo.failed:
        ctx.event("DirectoriesNotDeleted", todo.waiting, type="Warning")
    return None if todo.done else Result(requeue_after=RETRY_SECONDS)


async def _create(todo: Cleanup, obj: Broker | Controller, image: str, labels: Mapping[str, str], ctx: Context) -> None:
    metadata = ObjectMeta(namespace=obj.metadata.namespace, labels=labels)
    for pod in todo.suspend:
        node = pod.spec.node_name or ""
        # With an owner, a foreground deletion of the object would also delete the Jobs.
        await ctx.apply(job(obj.spec, image, pod.metadata.name, node, metadata), owned=False)
        ctx.log.info("cleanup_created", member=pod.metadata.name, node=node, path=obj.spec.host_path)
