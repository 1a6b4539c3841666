"""ResourceQuotas: the usage in the status. Admission refuses writes that exceed a quota.

All counted kinds are listed, custom ones included. Changes of Pods, Services and claims reconcile the quotas of their
namespace at once; other kinds are counted every few seconds.
"""

from __future__ import annotations

import json
from typing import Any

from steersman.client import NotFound
from steersman.controller import Result
from steersman.k8s import PersistentVolumeClaim, Pod, ResourceQuota, Service
from steersman.k8s.core_v1 import ResourceQuotaStatus
from steersman.models import Key, encode, key_of
from steersman.operator import Context, Operator, Watch
from steersman_cluster.quota import (
    CLAIMS,
    NO_DEVICES,
    PODS,
    Amounts,
    Devices,
    applies,
    counts_extended_resources,
    devices_of,
    names_of,
    quantities,
    resource_of,
    usage,
)

__all__ = ["register"]

_RECOUNT_SECONDS = 3.0
"""Seconds until kinds that are not watched are counted again."""
_WATCHED = {("", "pods"), ("", "services"), ("", "persistentvolumeclaims")}


def register(operator: Operator) -> None:
    """Declare the controller."""
    watches = [Watch(kind, to=_to_quotas) for kind in (Pod, Service, PersistentVolumeClaim)]
    operator.controller(name="resourcequota", reads=[ResourceQuota], watches=watches)(reconcile)


def _to_quotas(obj: Any, ctx: Context) -> list[Key]:
    return [key_of(quota) for quota in ctx.list(ResourceQuota, namespace=obj.metadata.namespace)]


async def reconcile(quota: ResourceQuota, ctx: Context) -> Result:
    """Count the usage, and write the status if it changed."""
    hard = dict(quota.spec.hard)
    body = json.loads(encode(quota))
    used: Amounts = {name: amount - amount for name, amount in quantities(hard).items()}
    counted = {resource_of(name) for name in hard} - {("", "")}
    devices = await _devices(quota.metadata.namespace, ctx) if counts_extended_resources(hard) else NO_DEVICES
    if devices.counted() & hard.keys():
        counted |= {PODS, CLAIMS}
    for group, resource in sorted(counted):
        for obj in await _all(group, resource, quota.metadata.namespace, ctx):
            if not applies(body, obj):
                continue
            amounts = usage(group, resource, obj, devices)
            for name in names_of(used, group, resource, devices):
                if name in amounts:
                    used[name] = amounts[name] + used[name]
    status = ResourceQuotaStatus(hard=hard, used=used)
    return Result(status=status, requeue_after=None if counted <= _WATCHED else _RECOUNT_SECONDS)


async def _devices(namespace: str, ctx: Context) -> Devices:
    classes = await _all("resource.k8s.io", "deviceclasses", "", ctx)
    pods, claims = await _all(*PODS, namespace, ctx), await _all(*CLAIMS, namespace, ctx)
    return devices_of(classes, pods, claims)


async def _all(group: str, resource: str, namespace: str, ctx: Context) -> list[dict[str, Any]]:
    """Return all objects of a resource, of one namespace or in the cluster; none if there is no such resource."""
    version = await _version(group, ctx) if group else ""
    if version is None:
        return []
    base = f"/apis/{group}/{version}" if group else "/api/v1"
    try:
        place = f"namespaces/{namespace}/{resource}" if namespace else resource
        answer = await ctx.client.raw.request("GET", f"{base}/{place}")
    except NotFound:
        return []
    listed = json.loads(answer.body)
    # Items of lists do not name their kind, and scopes depend on it.
    return [{**item, "kind": listed["kind"].removesuffix("List")} for item in listed["items"]]


async def _version(group: str, ctx: Context) -> str | None:
    """The preferred version of a group; `None` where there is no such group."""
    try:
        answer = await ctx.client.raw.request("GET", f"/apis/{group}")
    except NotFound:
        return None
    return json.loads(answer.body)["preferredVersion"]["version"]
