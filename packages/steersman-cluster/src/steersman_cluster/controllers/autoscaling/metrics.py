"""Sources of metrics for HorizontalPodAutoscalers: metrics.k8s.io, or fixed values for tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import msgspec

from steersman.client import ApiError, Client, NotFound
from steersman.models import Key, Quantity, Selector

__all__ = ["MetricsApi", "MetricsSource", "MetricsUnavailableError", "SetMetrics"]


class MetricsUnavailableError(LookupError):
    """The source lacks the metric; the message becomes part of the autoscaler's condition."""


class _Name(msgspec.Struct):
    name: str


class _ContainerMetrics(msgspec.Struct):
    name: str
    usage: dict[str, str]


class _PodMetrics(msgspec.Struct):
    metadata: _Name
    containers: list[_ContainerMetrics]


class _PodMetricsList(msgspec.Struct):
    items: list[_PodMetrics]


class MetricsSource(Protocol):
    """A source of metrics. Each method may raise `MetricsUnavailableError`."""

    async def resource(
        self, namespace: str, selector: Selector, resource: str, container: str = ""
    ) -> Mapping[str, Quantity]:
        """The use of a resource (`cpu`, `memory`) by Pods, or by one container of each, by the name of the Pod."""
        ...

    async def pods(self, namespace: str, selector: Selector, metric: str) -> Mapping[str, Quantity]:
        """Return a custom metric of the selected Pods, by the name of the Pod."""
        ...

    async def object(self, namespace: str, kind: str, name: str, metric: str) -> Quantity:
        """Return a custom metric that describes one object, such as a queue."""
        ...

    async def external(self, namespace: str, metric: str) -> Quantity:
        """Return a metric from outside the cluster, summed over all matches."""
        ...


class MetricsApi:
    """The metrics API of the cluster, which knows what Pods use; there is none for other metrics."""

    def __init__(self, client: Client) -> None:
        self._raw = client.raw

    async def resource(
        self, namespace: str, selector: Selector, resource: str, container: str = ""
    ) -> Mapping[str, Quantity]:
        """See `MetricsSource`."""
        path = f"/apis/metrics.k8s.io/v1beta1/namespaces/{namespace}/pods"
        try:
            answer = await self._raw.request("GET", path, query=(("labelSelector", str(selector)),))
        except ApiError as problem:
            none = "the server could not find the requested resource (get pods.metrics.k8s.io)"
            why = none if isinstance(problem, NotFound) else problem.status.message
            raise MetricsUnavailableError(
                f"failed to get {resource} utilization: unable to get metrics for resource {resource}: unable to fetch"
                f" metrics from resource metrics API: {why}"
            ) from None
        found: dict[str, Quantity] = {}
        for pod in msgspec.json.decode(answer.body, type=_PodMetricsList).items:
            used = [c.usage[resource] for c in pod.containers if container in ("", c.name) and resource in c.usage]
            if used:
                found[pod.metadata.name] = sum((Quantity(amount) for amount in used), Quantity(0))
        if not found:
            raise MetricsUnavailableError(
                f"failed to get {resource} utilization: unable to get metrics for resource {resource}: no metrics"
                " returned from resource metrics API"
            )
        return found

    async def pods(self, namespace: str, selector: Selector, metric: str) -> Mapping[str, Quantity]:
        """See `MetricsSource`."""
        raise MetricsUnavailableError("no metrics returned from custom metrics API")

    async def object(self, namespace: str, kind: str, name: str, metric: str) -> Quantity:
        """See `MetricsSource`."""
        raise MetricsUnavailableError("no metrics returned from custom metrics API")

    async def external(self, namespace: str, metric: str) -> Quantity:
        """See `MetricsSource`."""
        raise MetricsUnavailableError("no metrics returned from external metrics API")


class SetMetrics:
    """A metrics source with fixed values: `source.set_usage("default", "web-1", cpu="250m")`."""

    def __init__(self) -> None:
        self._usage: dict[tuple[Key, str], Quantity] = {}
        self._pods: dict[tuple[Key, str], Quantity] = {}
        self._objects: dict[tuple[str, Key, str], Quantity] = {}
        self._external: dict[tuple[str, str], Quantity] = {}

    def set_usage(self, namespace: str, pod: str, **usage: str | int) -> None:
        """Set the use of resources by a Pod: `set_usage("default", "web-0", cpu="100m")`."""
        for resource, amount in usage.items():
            self._usage[Key(namespace, pod), resource] = Quantity(amount)

    def set_pod(self, namespace: str, pod: str, metric: str, amount: str | int) -> None:
        """Set a custom metric of a Pod."""
        self._pods[Key(namespace, pod), metric] = Quantity(amount)

    def set_object(self, namespace: str, kind: str, name: str, metric: str, amount: str | int) -> None:
        """Set a custom metric that describes one object."""
        self._objects[kind, Key(namespace, name), metric] = Quantity(amount)

    def set_external(self, namespace: str, metric: str, amount: str | int) -> None:
        """Set a metric from outside the cluster."""
        self._external[namespace, metric] = Quantity(amount)

    async def resource(
        self, namespace: str, selector: Selector, resource: str, container: str = ""
    ) -> Mapping[str, Quantity]:
        """See `MetricsSource`; selector and container are not looked at, the caller knows its Pods."""
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
