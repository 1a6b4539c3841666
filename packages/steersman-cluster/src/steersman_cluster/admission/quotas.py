"""ResourceQuota: refuses writes that would exceed a quota of their namespace.

Usage is counted from the stored objects at each write, so that concurrent writes cannot exceed a quota and a quota
whose status is not written yet applies at once. Texts follow the API server's `plugin/pkg/admission/resourcequota`.
"""

from __future__ import annotations

from steersman_cluster.admission.lookups import Lookups
from steersman_cluster.admission.write import CREATE, UPDATE, Write
from steersman_cluster.objects import Object, dig, name_of
from steersman_cluster.quota import (
    CLAIMS,
    NO_DEVICES,
    PODS,
    Amounts,
    Devices,
    applies,
    counts_extended_resources,
    devices_of,
    missing,
    names_of,
    printed,
    quantities,
    usage,
)

__all__ = ["check_quotas"]


def check_quotas(write: Write, lookups: Lookups) -> None:
    """Refuse a write that exceeds a quota. Raises `APIError` (403)."""
    if write.operation not in (CREATE, UPDATE) or write.subresource or not write.namespace or write.obj is None:
        return
    quotas = lookups.quotas(write.namespace)
    counts_devices = any(counts_extended_resources(dig(each, "spec", "hard", default={})) for each in quotas)
    devices = _devices(write, lookups) if counts_devices else NO_DEVICES
    for quota in quotas:
        _check(write, write.obj, quota, lookups, devices)


def _devices(write: Write, lookups: Lookups) -> Devices:
    if (write.group, write.resource) not in (PODS, CLAIMS):
        return NO_DEVICES
    classes = lookups.reader.list("resource.k8s.io", "deviceclasses", "")
    pods = lookups.reader.list(*PODS, write.namespace)
    return devices_of(classes, pods, list(lookups.reader.list(*CLAIMS, write.namespace)))


def _check(write: Write, obj: Object, quota: Object, lookups: Lookups, devices: Devices) -> None:
    hard = quantities(dig(quota, "status", "hard") or dig(quota, "spec", "hard"))
    names = names_of(hard, write.group, write.resource, devices)
    if not names or not applies(quota, obj):
        return
    if write.is_on("pods") and write.operation == CREATE and (lacking := missing(names, obj)):
        raise write.forbidden(f"failed quota: {name_of(quota)}: {lacking}")
    wants = usage(write.group, write.resource, obj, devices)
    if write.old is not None:
        before = usage(write.group, write.resource, write.old, devices)
        wants = {name: amount - before[name] if name in before else amount for name, amount in wants.items()}
    wants = {name: wants[name] for name in names if name in wants and wants[name] > 0}
    if not wants:
        return
    used = _used(write, quota, list(wants), lookups, devices)
    over = [name for name, amount in wants.items() if used[name] + amount > hard[name]]
    if over:
        asked, now, most = (printed({name: of[name] for name in over}) for of in (wants, used, hard))
        raise write.forbidden(f"exceeded quota: {name_of(quota)}, requested: {asked}, used: {now}, limited: {most}")


def _used(write: Write, quota: Object, names: list[str], lookups: Lookups, devices: Devices) -> Amounts:
    """Return the usage of stored objects; unused amounts are in the notation of the limit.

    Extended resources count Pods and claims of devices together.
    """
    zero = {name: amount - amount for name, amount in quantities(dig(quota, "spec", "hard")).items()}
    total = {name: zero[name] for name in names}
    resource = (write.group, write.resource)
    counted = {resource: names}
    if shared := [name for name in names if name in devices.counted()]:
        counted[PODS if resource == CLAIMS else CLAIMS] = shared
    for (group, plural), of in counted.items():
        for obj in lookups.reader.list(group, plural, write.namespace):
            if applies(quota, obj):
                amounts = usage(group, plural, obj, devices)
                for name in of:
                    if name in amounts:
                        total[name] = amounts[name] + total[name]
    return total
