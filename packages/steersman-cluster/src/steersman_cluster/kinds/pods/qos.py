"""The quality of service of a Pod: Guaranteed, Burstable or BestEffort, from its requests and limits.

Pure; follows pkg/apis/core/v1/helper/qos. Resources of the Pod itself, if set, decide alone.
"""

from __future__ import annotations

from collections.abc import Iterable

from steersman.models import Quantity
from steersman_cluster.json_access import get_list
from steersman_cluster.objects import Object

__all__ = ["qos_class"]

_COUNTED = ("cpu", "memory")


def qos_class(spec: Object) -> str:
    """The class of a Pod with this spec, after defaulting."""
    requests: dict[str, Quantity] = {}
    limits: dict[str, Quantity] = {}
    guaranteed = True
    if "resources" in spec:
        whole: Object = spec["resources"]
        _count(requests, whole.get("requests"))
        if given := whole.get("limits"):
            guaranteed = len(_count(limits, given)) == len(_COUNTED)
    else:
        for container in _containers(spec):
            resources = container.get("resources")
            if not resources:
                guaranteed = False
                continue
            _count(requests, resources.get("requests"))
            if len(_count(limits, resources.get("limits"))) != len(_COUNTED):
                guaranteed = False
    if not requests and not limits:
        return "BestEffort"
    return "Guaranteed" if guaranteed and requests == limits else "Burstable"


def _containers(spec: Object) -> Iterable[Object]:
    yield from get_list(spec, "containers")
    yield from get_list(spec, "initContainers")


def _count(total: dict[str, Quantity], amounts: Object | None) -> set[str]:
    """Add the positive amounts and return the names of their resources."""
    found: set[str] = set()
    for name in _COUNTED:
        if amounts and name in amounts and (amount := Quantity(amounts[name])) > 0:
            total[name] = total[name] + amount if name in total else amount
            found.add(name)
    return found
