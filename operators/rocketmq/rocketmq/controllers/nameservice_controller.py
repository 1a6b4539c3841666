"""Reconciles every NameService: runs its name servers and reports the addresses of the ready ones."""

from typing import TypeVar

from steersman import Context, Result, Watch, replace, to_label
from steersman.client import ApiError
from steersman.k8s import ConfigMap, Pod, Service, StatefulSet
from steersman.models import set_condition

from rocketmq import nameservers
from rocketmq.api.v1.nameservice_types import NameService, NameServiceStatus
from rocketmq.manager import operator

REFUSED_RETRY_SECONDS = 30.0
"""Time until children that the API server refused are applied again."""


@operator.controller(owns=[ConfigMap, Service, StatefulSet], watches=[Watch(Pod, to=to_label(nameservers.LABEL))])
async def reconcile(nameservice: NameService, ctx: Context) -> NameServiceStatus | Result:
    """Apply the children of the stages PreConfig and Sync, then report the status."""
    try:
        service, stateful_set = nameservers.sync(nameservice)
        await _apply(nameservers.pre_config(nameservice), ctx)
        await _apply(service, ctx)
        running = await _apply(stateful_set, ctx)
    except ApiError as problem:
        if not problem.is_refusal:
            raise
        return _refused(nameservice, ctx, str(problem))
    pods = ctx.list(Pod, labels=nameservers.labels_for(nameservice))
    after = nameservers.status(nameservice, running, pods, ctx.now())
    before = nameservice.status.name_servers
    if after.name_servers != before:
        ready = ", ".join(after.name_servers) or "none"
        ctx.log.info("name_servers_changed", before=before, after=after.name_servers)
        ctx.event("NameServersChanged", f"Name servers that are ready: {ready}")
    return after


Child = TypeVar("Child", ConfigMap, Service, StatefulSet)


async def _apply(child: Child, ctx: Context) -> Child:
    before = ctx.get(type(child), child.metadata.name)
    after = await ctx.apply(child)
    kind = type(child).__name__
    if before is None:
        ctx.log.info("child_created", kind=kind, name=child.metadata.name)
        ctx.event("Created", f"{kind} {child.metadata.name} created")
    elif _revision(before) != _revision(after):
        ctx.log.info("child_updated", kind=kind, name=child.metadata.name, reason="spec_changed_or_drift")
        ctx.event("Updated", f"{kind} {child.metadata.name} updated")
    return after


def _revision(child: ConfigMap | Service | StatefulSet) -> object:
    """Return a value that changes with the desired state of a child but not with its status."""
    return child.metadata.generation if isinstance(child, StatefulSet) else child.metadata.resource_version


def _refused(nameservice: NameService, ctx: Context, message: str) -> Result:
    ctx.event("ChildRefused", message, type="Warning")
    ctx.log.warning("child_refused", error=message)
    generation = nameservice.metadata.generation
    conditions = set_condition(
        nameservice.status.conditions,
        "Progressing",
        False,
        reason="ChildRefused",
        message=message,
        now=ctx.now(),
        observed_generation=generation,
    )
    status = replace(nameservice.status, observed_generation=generation, conditions=conditions)
    return Result(requeue_after=REFUSED_RETRY_SECONDS, status=status)
