"""metrics.k8s.io/v1beta1: NodeMetrics and PodMetrics, as the metrics server of a real cluster serves them.

Nothing is stored: each request asks the nodes. The API is there once the cluster has nodes, as it is on a real cluster
once the metrics server is installed. It has `get` and `list`, and label and field selectors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any, Final

from steersman.models import Quantity
from steersman.models.quantity import QuantityFormat
from steersman_cluster import schema
from steersman_cluster.api.interfaces import ResourceType, Server
from steersman_cluster.api.requests.messages import Response, encode
from steersman_cluster.api.requests.negotiation import Form
from steersman_cluster.api.requests.options import ListOptions
from steersman_cluster.errors import not_found
from steersman_cluster.kinds import columns
from steersman_cluster.kubelet import Usage
from steersman_cluster.objects import Object, dig, meta, name_of, namespace_of
from steersman_cluster.storage import Item
from steersman_cluster.strategy import Column, Strategy, User

__all__ = ["GROUP", "PodMetrics"]

GROUP: Final = "metrics.k8s.io"
_VERSION: Final = "v1beta1"
_KINDS: Final = {"nodes": "NodeMetrics", "pods": "PodMetrics"}
_NANO: Final = 10**9
_WINDOW_SECONDS: Final = 15.0
"""The window of a node without Pods."""
_READER: Final[Object] = {
    "kind": "ClusterRole",
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "metadata": {
        "name": "system:aggregated-metrics-reader",
        "labels": {f"rbac.authorization.k8s.io/aggregate-to-{role}": "true" for role in ("admin", "edit", "view")},
    },
    "rules": [{"apiGroups": [GROUP], "resources": ["pods", "nodes"], "verbs": ["get", "list", "watch"]}],
}
_SERVICE: Final[Object] = {
    "kind": "APIService",
    "apiVersion": "apiregistration.k8s.io/v1",
    "metadata": {"name": f"{_VERSION}.{GROUP}"},
    "spec": {"group": GROUP, "version": _VERSION, "groupPriorityMinimum": 100, "versionPriority": 100},
}


class _Metrics(Strategy):
    """The columns of both kinds."""

    columns = (
        columns.NAME,
        Column("cpu", description="CPU time per second, in cores."),
        Column("memory", description="Memory."),
        Column("Window", description="The time over which CPU time is averaged."),
    )

    def row(self, obj: Object, now: float) -> list[Any]:
        """The cells; those of a Pod are the sums of its containers."""
        used: list[Object] = [c["usage"] for c in obj["containers"]] if "containers" in obj else [obj["usage"]]
        cores = sum((Quantity(each["cpu"]).as_fraction() for each in used), Fraction(0))
        total = _written(cores, sum(int(Quantity(each["memory"])) for each in used))
        return [columns.name(obj), total["cpu"], total["memory"], obj["window"]]


class PodMetrics:
    """The metrics API of one API server."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def serve(self) -> None:
        """Serve the API from now on; safe to call again."""
        if self._server.registry.find(GROUP, _VERSION, "pods") is not None:
            return
        server = self._server
        for plural, kind in _KINDS.items():
            server.registry.register(
                ResourceType(
                    group=GROUP,
                    version=_VERSION,
                    plural=plural,
                    singular="",
                    kind=kind,
                    namespaced=plural == "pods",
                    verbs=frozenset(("get", "list")),
                    strategy=_Metrics(),
                    type=schema.ANY,
                )
            )
        now = server.context(User("system:apiserver")).now
        condition = {"type": "Available", "status": "True", "reason": "Local", "lastTransitionTime": now}
        service = {**_SERVICE, "status": {"conditions": [{**condition, "message": "Local APIServices are available"}]}}
        for place, obj in (
            (("rbac.authorization.k8s.io", "clusterroles"), _READER),
            (("apiregistration.k8s.io", "apiservices"), service),
        ):
            name = name_of(obj)
            if server.storage.get(place, "", name) is None:
                made = {"uid": server.new_uid(), "creationTimestamp": now}
                server.storage.put(place, "", name, {**obj, "metadata": {**meta(obj), **made}})

    def serves(self, resource: ResourceType) -> bool:
        """Return whether a resource is of this API, and not of a definition of the same group."""
        return resource.group == GROUP and resource.definition is None

    def read(
        self, resource: ResourceType, namespace: str, name: str, options: ListOptions, form: Form, include: str
    ) -> Response:
        """Return the metrics of the object `name`, or a list of those that the selectors match if it is empty.

        Raises a 404 for an object without metrics.
        """
        reads = self._server.reads
        reads.check_fields(resource, options)
        items = list(self._nodes(resource) if resource.plural == "nodes" else self._pods(resource, namespace))
        if name:
            for item in items:
                if item.name == name:
                    return reads.shaped(resource, item.object(), form, include)
            called = f"{namespace}/{name}" if namespace else name
            raise not_found(GROUP, _KINDS[resource.plural].lower(), called)
        return reads.listed(resource, reads.selected(resource, items, options), {}, form, include)

    def _measured(self, namespace: str = "") -> Iterator[tuple[Object, Mapping[str, Usage]]]:
        """Return the running Pods with known usage of all containers."""
        for pod in self._server.reader.list("", "pods", namespace):
            kubelet = self._server.kubelets.find(dig(pod, "spec", "nodeName") or "")
            if kubelet is None or dig(pod, "status", "phase") != "Running":
                continue
            used = kubelet.usage(namespace_of(pod), name_of(pod))
            if used and all(u.cpu_cores is not None and not u.assumed for u in used.values()):
                yield pod, used

    def _pods(self, resource: ResourceType, namespace: str) -> Iterator[Item]:
        for pod, used in self._measured(namespace):
            containers = [{"name": name, "usage": _written(*_amounts([u]))} for name, u in used.items()]
            yield self._item(resource, pod, used.values(), {"containers": containers})

    def _nodes(self, resource: ResourceType) -> Iterator[Item]:
        """Return the usage of each node: the sum of its Pods."""
        used: dict[str, list[Usage]] = {}
        for pod, containers in self._measured():
            used.setdefault(pod["spec"]["nodeName"], []).extend(containers.values())
        for node in self._server.reader.list("", "nodes"):
            if self._server.kubelets.find(name_of(node)) is not None:
                on = used.get(name_of(node), [])
                yield self._item(resource, node, on, {"usage": _written(*_amounts(on))})

    def _item(self, resource: ResourceType, about: Object, used: Iterable[Usage], body: Object) -> Item:
        """The metrics of a Node or Pod, with its labels."""
        name, namespace = name_of(about), namespace_of(about)
        now = _stamp(self._server.now())
        metadata: Object = {"name": name, **({"namespace": namespace} if namespace else {}), "creationTimestamp": now}
        if labels := dig(about, "metadata", "labels"):
            metadata["labels"] = labels
        head = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}
        window = max((u.window_seconds for u in used), default=_WINDOW_SECONDS)
        return Item(namespace, name, 0, encode({**head, "timestamp": now, "window": _duration(window), **body}))


def _amounts(used: Iterable[Usage]) -> tuple[Fraction, int]:
    """Cores and bytes of several containers together."""
    used = list(used)
    nanos = sum(round((u.cpu_cores or 0.0) * _NANO) for u in used)
    return Fraction(nanos, _NANO), sum(u.memory_bytes for u in used)


def _written(cores: Fraction, memory: int) -> dict[str, str]:
    return {"cpu": str(Quantity(cores)), "memory": str(Quantity(memory).with_format(QuantityFormat.BINARY_SI))}


def _stamp(at: float) -> str:
    return datetime.fromtimestamp(int(at), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _duration(seconds: float) -> str:
    """A duration as Go writes it, to the millisecond."""
    minutes, rest = divmod(round(seconds, 3), 60)
    return f"{int(minutes)}m{rest:g}s" if minutes else f"{rest:g}s"
