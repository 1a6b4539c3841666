"""Restarts the Pods that a ConfigMonitor selects when its ConfigMap changes: `steersman run monitors:operator`."""

import hashlib
from collections.abc import Mapping
from typing import Annotated

from steersman import (
    Column,
    Context,
    Key,
    MinLength,
    MinProperties,
    Model,
    Operator,
    Resource,
    Result,
    Watch,
    key_of,
    replace,
)
from steersman.k8s import ConfigMap, Pod


class ConfigMonitorSpec(Model):
    config_map: Annotated[str, MinLength(1)]
    """Name of the ConfigMap, in the namespace of this object."""
    pod_selector: Annotated[Mapping[str, str], MinProperties(1)]
    """Pods with all of these labels are restarted."""


class ConfigMonitorStatus(Model):
    observed_hash: str = ""
    """Hash of the data that the Pods have."""
    pending: tuple[str, ...] = ()
    """The uids of the Pods that are still to be restarted."""
    restarted: int = 0
    """Number of Pods that were restarted for the last change."""


class ConfigMonitor(
    Resource,
    group="monitors.example.com",
    version="v1",
    columns=(Column("ConfigMap", "spec.config_map"), Column("Restarted", "status.restarted")),
):
    """Restarts Pods when a ConfigMap changes."""

    spec: ConfigMonitorSpec
    status: ConfigMonitorStatus = ConfigMonitorStatus()


operator = Operator("monitors")
operator.permit("list", Pod)
operator.permit("create", Pod, subresource="eviction")

SETTLE_SECONDS = 1.0
"""Seconds between a change and the first restart, so that changes which are applied together cause one restart."""


def monitors_of(held: ConfigMap, ctx: Context) -> list[Key]:
    """Return the ConfigMonitors of a ConfigMap."""
    monitors = ctx.list(ConfigMonitor, namespace=held.metadata.namespace)
    return [key_of(monitor) for monitor in monitors if monitor.spec.config_map == held.metadata.name]


def hash_of(held: ConfigMap) -> str:
    data = repr((sorted(held.data.items()), sorted(held.binary_data.items())))
    return hashlib.sha256(data.encode()).hexdigest()


@operator.controller(reads=[ConfigMonitor], watches=[Watch(ConfigMap, to=monitors_of)])
async def reconcile(monitor: ConfigMonitor, ctx: Context) -> Result:
    status, held = monitor.status, ctx.get(ConfigMap, monitor.spec.config_map)
    if held is None:
        return Result(status=status)
    found = hash_of(held)
    if not status.observed_hash:  # the first data is not a change
        return Result(status=replace(status, observed_hash=found))

    pods = await ctx.fetch_list(Pod, labels=monitor.spec.pod_selector)
    if found != status.observed_hash:
        uids = tuple(sorted(pod.metadata.uid or "" for pod in pods))
        ctx.event("ConfigChanged", f"{len(uids)} Pods are to be restarted")
        status = ConfigMonitorStatus(observed_hash=found, pending=uids, restarted=len(uids))
        return Result(status=status, requeue_after=SETTLE_SECONDS)

    for pod in pods:
        if pod.metadata.uid in status.pending:
            await ctx.evict(pod)
    return Result(status=replace(status, pending=()))
