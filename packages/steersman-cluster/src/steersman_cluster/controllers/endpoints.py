"""EndpointSlices and Endpoints: where the Pods of a Service are reached.

Both are written from one list of ready and unready Pods, as full intent by server-side apply or as one replaced
list, and only when something differs. Services without a selector are their owner's own business.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from steersman.client import AlreadyExists, Conflict, Forbidden, NotFound
from steersman.controller import RequeueError
from steersman.k8s import Endpoints, EndpointSlice, Node, Pod, Service
from steersman.k8s.core_v1 import EndpointAddress, EndpointSubset, ObjectReference, ServicePort
from steersman.k8s.core_v1 import EndpointPort as LegacyPort
from steersman.k8s.discovery_v1 import Endpoint, EndpointConditions, EndpointPort
from steersman.models import Key, MergePatch, ObjectMeta, key_of, to_dict
from steersman.operator import Context, Operator, Watch
from steersman_cluster.controllers.creation import create_seen
from steersman_cluster.controllers.pods import is_ready, phase_of
from steersman_cluster.controllers.terminating_namespaces import is_namespace_terminating

__all__ = ["endpoint_of", "port_number", "register", "slices_for", "subsets_for"]

MANAGER = "endpointslice-controller.k8s.io"
_SERVICE = "kubernetes.io/service-name"
_MANAGED = "endpointslice.kubernetes.io/managed-by"
_ENDPOINTS_MANAGED = "endpoints.kubernetes.io/managed-by"
_ENDPOINTS_MANAGER = "endpoint-controller"
_HEADLESS = "service.kubernetes.io/headless"
_ZONE = "topology.kubernetes.io/zone"
_PER_SLICE = 100


def register(operator: Operator) -> None:
    """Declare the controllers."""
    operator.controller(
        name="endpointslice",
        owns=[EndpointSlice],
        reads=[Service, Node],
        watches=[Watch(Pod, to=_to_services)],
    )(reconcile_slices)
    operator.controller(
        name="endpoints",
        reads=[Service, Endpoints],
        watches=[Watch(Pod, to=_to_services), Watch(Endpoints, to=key_of)],
    )(reconcile_endpoints)
    operator.controller(name="endpoints-cleanup", watches=[Watch(Service, to=key_of)])(delete_endpoints_without_service)


def _to_services(pod: Pod, ctx: Context) -> list[Key]:
    labels = pod.metadata.labels.items()
    services = ctx.list(Service, namespace=pod.metadata.namespace)
    return [key_of(s) for s in services if s.spec.selector and s.spec.selector.items() <= labels]


def _selected(service: Service, ctx: Context) -> list[Pod]:
    pods = ctx.list(Pod, labels=service.spec.selector)
    able = (p for p in pods if p.status.pod_ips and phase_of(p) not in ("Succeeded", "Failed"))
    return sorted(able, key=key_of)


def port_number(port: ServicePort, pod: Pod) -> int | None:
    """The container's port that a Service's port leads to; `None` when the Pod has no port of that name."""
    target = port.target_port if port.target_port not in (None, 0, "") else port.port
    if isinstance(target, int):
        return target
    for container in pod.spec.containers:
        for candidate in container.ports:
            if candidate.name == target and (candidate.protocol or "TCP") == (port.protocol or "TCP"):
                return candidate.container_port
    return None


def endpoint_of(service: Service, pod: Pod, zone: str | None, family: str) -> Endpoint | None:
    """One Pod as an endpoint; `None` where it has no address of the family."""
    addresses = tuple(ip.ip for ip in pod.status.pod_ips if (":" in ip.ip) == (family == "IPv6"))
    if not addresses:
        return None
    serving, terminating = is_ready(pod), pod.metadata.deletion_timestamp is not None
    ready = bool(service.spec.publish_not_ready_addresses) or (serving and not terminating)
    return Endpoint(
        addresses=addresses,
        conditions=EndpointConditions(ready=ready, serving=serving, terminating=terminating),
        target_ref=_reference(pod),
        node_name=pod.spec.node_name,
        zone=zone,
        hostname=pod.spec.hostname if pod.spec.subdomain == service.metadata.name else None,
    )


def _reference(pod: Pod) -> ObjectReference:
    metadata = pod.metadata
    return ObjectReference(kind="Pod", namespace=metadata.namespace, name=metadata.name, uid=metadata.uid)


def _headless(service: Service) -> bool:
    return service.spec.cluster_ip in (None, "", "None")


def slices_for(
    service: Service, pods: Sequence[Pod], zones: Mapping[str, str], family: str
) -> list[tuple[tuple[EndpointPort, ...], tuple[Endpoint, ...]]]:
    """Return the content of the slices of one address family: Pods with equal port numbers share slices."""
    groups: dict[tuple[EndpointPort, ...], list[Endpoint]] = {}
    for pod in pods:
        zone = zones.get(pod.spec.node_name or "")
        endpoint = endpoint_of(service, pod, zone, family)
        if endpoint is None:
            continue
        numbers = ((port, port_number(port, pod)) for port in service.spec.ports)
        ports = tuple(
            EndpointPort(name=p.name or "", port=n, protocol=p.protocol or "TCP", app_protocol=p.app_protocol)
            for p, n in numbers
            if n is not None
        )
        groups.setdefault(ports, []).append(endpoint)
    chunks = [
        (ports, tuple(endpoints[start : start + _PER_SLICE]))
        for ports, endpoints in groups.items()
        for start in range(0, len(endpoints), _PER_SLICE)
    ]
    return chunks or [((), ())]


async def reconcile_slices(service: Service, ctx: Context) -> None:
    """Make the slices of a Service hold its Pods."""
    spec = service.spec
    if not spec.selector or spec.type == "ExternalName":
        return
    pods = _selected(service, ctx)
    zones = {n.metadata.name: n.metadata.labels[_ZONE] for n in ctx.list(Node) if _ZONE in n.metadata.labels}
    labels = {**service.metadata.labels, _SERVICE: service.metadata.name, _MANAGED: MANAGER}
    if _headless(service):
        labels[_HEADLESS] = ""
    mine = [s for s in ctx.list(EndpointSlice, owned=True) if s.metadata.labels.get(_MANAGED) == MANAGER]
    for family in spec.ip_families or ("IPv4",):
        free = sorted((s for s in mine if s.address_type == family), key=key_of)
        for ports, endpoints in slices_for(service, pods, zones, family):
            known = next((s for s in free if _same_ports(s.ports, ports)), free[0] if free else None)
            if known is not None:
                free.remove(known)
            await _put_slice(service, known, family, labels, ports, endpoints, ctx)
        for surplus in free:
            await ctx.delete(surplus)


def _same_ports(one: Iterable[EndpointPort], other: Iterable[EndpointPort]) -> bool:
    return {(p.name, p.port, p.protocol) for p in one} == {(p.name, p.port, p.protocol) for p in other}


async def _put_slice(
    service: Service,
    known: EndpointSlice | None,
    family: str,
    labels: Mapping[str, str],
    ports: tuple[EndpointPort, ...],
    endpoints: tuple[Endpoint, ...],
    ctx: Context,
) -> None:
    if known is None:
        metadata = ObjectMeta(
            generate_name=f"{service.metadata.name}-", namespace=service.metadata.namespace, labels=labels
        )
        made = EndpointSlice(metadata=metadata, address_type=family, ports=ports, endpoints=endpoints)
        await _ignore_conflict(create_seen(ctx, made))
    elif (known.endpoints, known.metadata.labels) != (endpoints, labels) or not _same_ports(known.ports, ports):
        removed = {key: None for key in known.metadata.labels if key not in labels}
        body = {
            "metadata": {"uid": known.metadata.uid, "labels": {**labels, **removed}},
            "endpoints": [*map(to_dict, endpoints)],
            "ports": [*map(to_dict, ports)],
        }
        await _ignore_conflict(ctx.patch(known, MergePatch(body)))


async def _ignore_conflict(write: Any) -> None:
    """Await a write; ignore a conflict, and a refusal because the Service is terminating."""
    try:
        await write
    except (NotFound, AlreadyExists):
        return
    except Conflict as problem:
        raise RequeueError(str(problem), after=0.1) from None
    except Forbidden as problem:
        if not is_namespace_terminating(problem):
            raise


def subsets_for(service: Service, pods: Sequence[Pod]) -> tuple[EndpointSubset, ...]:
    """The same in the older form: addresses that share ports, ready and not ready apart."""
    groups: dict[tuple[LegacyPort, ...], tuple[list[EndpointAddress], list[EndpointAddress]]] = {}
    for pod in pods:
        if pod.metadata.deletion_timestamp is not None or not pod.status or not pod.status.pod_ip or not pod.spec:
            continue
        numbers = ((port, port_number(port, pod)) for port in service.spec.ports)
        ports = tuple(
            LegacyPort(name=p.name, port=n, protocol=p.protocol or "TCP", app_protocol=p.app_protocol)
            for p, n in numbers
            if n is not None
        )
        if service.spec.ports and not ports:
            continue
        address = EndpointAddress(
            ip=pod.status.pod_ip,
            node_name=pod.spec.node_name,
            target_ref=_reference(pod),
            hostname=pod.spec.hostname if pod.spec.subdomain == service.metadata.name else None,
        )
        ready = is_ready(pod) or bool(service.spec.publish_not_ready_addresses)
        groups.setdefault(ports, ([], []))[0 if ready else 1].append(address)
    return tuple(
        EndpointSubset(
            addresses=tuple(sorted(ready, key=lambda a: a.ip)),
            not_ready_addresses=tuple(sorted(unready, key=lambda a: a.ip)),
            ports=ports,
        )
        for ports, (ready, unready) in groups.items()
    )


async def reconcile_endpoints(service: Service, ctx: Context) -> None:
    """Make the Endpoints of a Service hold its Pods."""
    if not service.spec.selector or service.spec.type == "ExternalName":
        return
    subsets = subsets_for(service, _selected(service, ctx))
    labels = {**service.metadata.labels, _ENDPOINTS_MANAGED: _ENDPOINTS_MANAGER}
    if _headless(service):
        labels[_HEADLESS] = ""
    known = ctx.get(Endpoints, service.metadata.name)
    if known is None:
        metadata = ObjectMeta(name=service.metadata.name, namespace=service.metadata.namespace, labels=labels)
        await _ignore_conflict(ctx.create(Endpoints(metadata=metadata, subsets=subsets), owned=False))
    elif known.subsets != subsets or known.metadata.labels != labels:
        removed = {key: None for key in known.metadata.labels if key not in labels}
        body = {
            "metadata": {"uid": known.metadata.uid, "labels": {**labels, **removed}},
            "subsets": [*map(to_dict, subsets)],
        }
        await _ignore_conflict(ctx.patch(known, MergePatch(body)))


async def delete_endpoints_without_service(endpoints: Endpoints, ctx: Context) -> None:
    """Delete Endpoints of this controller without a Service.

    The API server deletes them with their Service, but a reconcile that started before may write them again.
    """
    metadata = endpoints.metadata
    if metadata.labels.get(_ENDPOINTS_MANAGED) != _ENDPOINTS_MANAGER or ctx.get(Service, metadata.name) is not None:
        return
    if await ctx.fetch(Service, metadata.name) is None:
        await ctx.delete(endpoints)
