"""Where a HorizontalPodAutoscaler's numbers come from: a protocol, and a source that tests and demos set by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from steersman.models import Key, Quantity, Selector

__all__ = ["MetricsSource", "MetricsUnavailableError", "SetMetrics"]


class MetricsUnavailableError(LookupError):
    """The source has no such metric now; the message is what the autoscaler tells its users."""


class MetricsSource(Protocol):
    """What an autoscaler asks. Each may raise `MetricsUnavailableError`."""

    async def resource(self, namespace: str, selector: Selector, resource: str) -> Mapping[str, Quantity]:
        """The use of a resource (`cpu`, `memory`) by Pods, by the name of the Pod."""
        ...

    async def pods(self, namespace: str, selector: Selector, metric: str) -> Mapping[str, Quantity]:
        """A metric of Pods, by the name of the Pod."""
        ...

    async def object(self, namespace: str, kind: str, name: str, metric: str) -> Quantity:
        """A metric of one object."""
        ...

    async def external(self, namespace: str, metric: str) -> Quantity:
        """A metric of something outside the cluster, summed over what matches."""
        ...


class SetMetrics:
    """A source that says what it was told: `source.set_usage("default", "web-1", cpu="250m")`."""

    def __init__(self) -> None:
        self._usage: dict[tuple[Key, str], Quantity] = {}
        self._pods: dict[tuple[Key, str], Quantity] = {}
        self._objects: dict[tuple[str, Key, str], Quantity] = {}
        self._external: dict[tuple[str, str], Quantity] = {}

    def set_usage(self, namespace: str, pod: str, **usage: str | int) -> None:
        """What a Pod uses of resources."""
        for resource, amount in usage.items():
            self._usage[Key(namespace, pod), resource] = Quantity(amount)

    def set_pod(self, namespace: str, pod: str, metric: str, amount: str | int) -> None:
        """A custom metric of a Pod."""
        self._pods[Key(namespace, pod), metric] = Quantity(amount)

    def set_object(self, namespace: str, kind: str, name: str, metric: str, amount: str | int) -> None:
        """A custom metric of an object."""
        self._objects[kind, Key(namespace, name), metric] = Quantity(amount)

    def set_external(self, namespace: str, metric: str, amount: str | int) -> None:
        """An external metric."""
        self._external[namespace, metric] = Quantity(amount)

    async def resource(self, namespace: str, selector: Selector, resource: str) -> Mapping[str, Quantity]:
        """See `MetricsSource`; the selector is not looked at, the caller knows its Pods."""
        return _named(self._usage, namespace, resource, "no metrics returned from resource metrics API")

    async def pods(self, namespace: str, selector: Selector, metric: str) -> Mapping[str, Quantity]:
        """See `MetricsSource`."""
        return _named(self._pods, namespace, metric, "no metrics returned from custom metrics API")

    async def object(self, namespace: str, kind: str, name: str, metric: str) -> Quantity:
        """See `MetricsSource`."""
        found = self._objects.get((kind, Key(namespace, name), metric))
        if found is None:
            raise MetricsUnavailableError("no metrics returned from custom metrics API")
        return found

    async def external(self, namespace: str, metric: str) -> Quantity:
        """See `MetricsSource`."""
        found = self._external.get((namespace, metric))
        if found is None:
            raise MetricsUnavailableError("no metrics returned from external metrics API")
        return found


def _named(known: Mapping[tuple[Key, str], Quantity], namespace: str, metric: str, none: str) -> Mapping[str, Quantity]:
    found = {key.name: amount for (key, of), amount in known.items() if key.namespace == namespace and of == metric}
    if not found:
        raise MetricsUnavailableError(none)
    return found
