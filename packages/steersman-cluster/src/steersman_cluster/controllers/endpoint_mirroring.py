"""EndpointSlices that mirror the Endpoints of Services without a selector.

The rules are those of kube-controller-manager's EndpointSlice mirroring controller: one slice for each set of ports
and address family of a subset, with at most `MAX_PER_SUBSET` addresses.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from steersman.client import Conflict, Forbidden, NotFound
from steersman.controller import RequeueError
from steersman.k8s import Endpoints, EndpointSlice, Service
from steersman.k8s.core_v1 import EndpointAddress, EndpointSubset
from steersman.k8s.discovery_v1 import Endpoint, EndpointConditions, EndpointPort
from steersman.models import MergePatch, ObjectMeta, key_of, to_dict
from steersman.operator import Context, Operator, Watch
from steersman_cluster.controllers.creation import create_seen
from steersman_cluster.controllers.terminating_namespaces import is_namespace_terminating

__all__ = ["MANAGER", "Mirror", "mirrors_of", "register"]

MANAGER: Final = "endpointslicemirroring-controller.k8s.io"
MAX_PER_SUBSET: Final = 1000
_SERVICE: Final = "kubernetes.io/service-name"
_MANAGED: Final = "endpointslice.kubernetes.io/managed-by"
_SKIP: Final = "endpointslice.kubernetes.io/skip-mirror"
_LEADER: Final = "control-plane.alpha.kubernetes.io/leader"
_NOT_COPIED: Final = frozenset(
    {"endpoints.kubernetes.io/last-change-trigger-time", "kubectl.kubernetes.io/last-applied-configuration"}
)


class Mirror(NamedTuple):
    """The desired content of one slice."""

    family: str
    ports: tuple[EndpointPort, ...]
    endpoints: tuple[Endpoint, ...]


def register(operator: Operator) -> None:
    """Declare the controller."""
    operator.controller(
        name="endpointslice-mirroring",
        owns=[EndpointSlice],
        watches=[Watch(Service, to=key_of)],
    )(reconcile)


def _is_mirrored(endpoints: Endpoints, service: Service | None) -> bool:
    metadata = endpoints.metadata
    if metadata.labels.get(_SKIP) == "true" or _LEADER in metadata.annotations:
        return False
    return service is not None and not service.spec.selector


def mirrors_of(subsets: Iterable[EndpointSubset]) -> list[Mirror]:
    """Return the slices that mirror subsets; addresses that are not IP addresses are left out."""
    found: dict[tuple[str, tuple[EndpointPort, ...]], list[Endpoint]] = {}
    for subset in subsets:
        ports = tuple(
            EndpointPort(name=p.name or "", port=p.port, protocol=p.protocol or "TCP", app_protocol=p.app_protocol)
            for p in subset.ports
        )
        both = [(address, True) for address in subset.addresses]
        both += [(address, False) for address in subset.not_ready_addresses]
        count = 0
        for address, ready in both:
            made = _endpoint(address, ready=ready)
            if made is None or count >= MAX_PER_SUBSET:
                continue
            family, endpoint = made
            found.setdefault((family, ports), []).append(endpoint)
            count += 1
    return [Mirror(family, ports, tuple(endpoints)) for (family, ports), endpoints in found.items()]


def _endpoint(address: EndpointAddress, *, ready: bool) -> tuple[str, Endpoint] | None:
    try:
        ip = ipaddress.ip_address(address.ip)
    except ValueError:
        return None
    endpoint = Endpoint(
        addresses=(str(ip),),
        conditions=EndpointConditions(ready=ready),
        target_ref=address.target_ref,
        node_name=address.node_name,
        hostname=address.hostname or None,
    )
    return f"IPv{ip.version}", endpoint


async def reconcile(endpoints: Endpoints, ctx: Context) -> None:
    """Make the mirrored slices of Endpoints agree with their addresses."""
    mine = [s for s in ctx.list(EndpointSlice, owned=True) if s.metadata.labels.get(_MANAGED) == MANAGER]
    service = ctx.get(Service, endpoints.metadata.name)
    mirrors = mirrors_of(endpoints.subsets) if _is_mirrored(endpoints, service) else []
    free = sorted(mine, key=key_of)
    for mirror in mirrors:
        known = next(
            (s for s in free if (s.address_type, _ports(s.ports)) == (mirror.family, _ports(mirror.ports))), None
        )
        if known is not None:
            free.remove(known)
        await _write(endpoints, known, mirror, ctx)
    for surplus in free:
        await ctx.delete(surplus)


def _ports(ports: Sequence[EndpointPort]) -> frozenset[tuple[str | None, int | None, str | None, str | None]]:
    return frozenset((p.name, p.port, p.protocol, p.app_protocol) for p in ports)


async def _write(endpoints: Endpoints, known: EndpointSlice | None, mirror: Mirror, ctx: Context) -> None:
    name = endpoints.metadata.name
    labels = {**endpoints.metadata.labels, _SERVICE: name, _MANAGED: MANAGER}
    annotations = {k: v for k, v in endpoints.metadata.annotations.items() if k not in _NOT_COPIED}
    try:
        if known is None:
            if endpoints.metadata.deletion_timestamp is not None:
                return
            metadata = ObjectMeta(
                generate_name=f"{name}-",
                namespace=endpoints.metadata.namespace,
                labels=labels,
                annotations=annotations,
            )
            made = EndpointSlice(
                metadata=metadata, address_type=mirror.family, ports=mirror.ports, endpoints=mirror.endpoints
            )
            await create_seen(ctx, made)
            return
        same = (known.metadata.labels, known.metadata.annotations) == (labels, annotations)
        if same and set(map(repr, known.endpoints)) == set(map(repr, mirror.endpoints)):
            return
        metadata_patch = {
            "uid": known.metadata.uid,
            "labels": _replaced(known.metadata.labels, labels),
            "annotations": _replaced(known.metadata.annotations, annotations),
        }
        body = {"metadata": metadata_patch, "endpoints": [*map(to_dict, mirror.endpoints)]}
        await ctx.patch(known, MergePatch(body))
    except (NotFound, Conflict) as problem:
        raise RequeueError(str(problem), after=0.1) from None
    except Forbidden as problem:
        if not is_namespace_terminating(problem):
            raise


def _replaced(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, str | None]:
    """Return a merge patch that replaces a map."""
    return {**after, **{key: None for key in before if key not in after}}
