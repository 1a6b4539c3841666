"""The stages of a NameService as pure functions: PreConfig, Sync and Status.

Finalize is not needed: name servers have no data, and garbage collection deletes the children.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from steersman import Condition, ObjectMeta
from steersman.k8s import ConfigMap, Pod, PodSpec, Service, StatefulSet
from steersman.models import is_true, merge_conditions

from rocketmq.api.v1.nameservice_types import NameService, NameServiceStatus
from rocketmq.pods import CONFIG_DIRECTORY, config, container, headless, pod_spec, stateful_set

__all__ = [
    "LABEL",
    "addresses",
    "child_name",
    "is_rolled_out",
    "labels_for",
    "pre_config",
    "stable_addresses",
    "status",
    "sync",
]

LABEL = "rocketmq.daocloud.io/nameservice"
"""The label with the name of the NameService of a Pod."""
CONFIG_FILE = "namesrv.conf"
REGISTRATION_SECONDS = 15
"""Time that a name server must be ready before the next one restarts, because brokers register with it every 10
seconds, and it has no routes before."""


def child_name(service: NameService) -> str:
    """Return the name of the ConfigMap, the Service and the StatefulSet."""
    return f"{service.metadata.name}-namesrv"


def labels_for(service: NameService) -> Mapping[str, str]:
    """Return the labels that select the Pods of a NameService."""
    return {LABEL: service.metadata.name}


def _metadata(service: NameService) -> ObjectMeta:
    return ObjectMeta(name=child_name(service), namespace=service.metadata.namespace, labels=labels_for(service))


def pre_config(service: NameService) -> ConfigMap:
    """Return the ConfigMap with the configuration file of the name servers."""
    return ConfigMap(metadata=_metadata(service), data={CONFIG_FILE: f"listenPort={service.spec.port}\n"})


def sync(service: NameService) -> tuple[Service, StatefulSet]:
    """Return the headless Service, which gives every Pod a stable DNS name, and the StatefulSet."""
    metadata, spec = _metadata(service), service.spec
    servers = stateful_set(
        metadata, child_name(service), _pod(service), replicas=spec.size, min_ready_seconds=REGISTRATION_SECONDS
    )
    return headless(metadata, {"namesrv": spec.port}), servers


def _pod(service: NameService) -> PodSpec:
    spec = service.spec
    # The port is the only setting in the file, so each change of the file also changes the Pod and restarts it.
    volume, mount = config(child_name(service))
    server = container(
        spec,
        "namesrv",
        spec.name_service_image,
        {"namesrv": spec.port},
        command=("sh", "mqnamesrv", "-c", f"{CONFIG_DIRECTORY}/{CONFIG_FILE}"),
        mounts=(mount,),
    )
    return pod_spec(spec, server, volumes=(volume,))


def addresses(service: NameService, pods: Iterable[Pod]) -> tuple[str, ...]:
    """Return the stable addresses of the ready Pods, sorted."""
    domain = f"{child_name(service)}.{service.metadata.namespace}.svc"
    return tuple(
        sorted(
            f"{pod.metadata.name}.{domain}:{service.spec.port}"
            for pod in pods
            if pod.metadata.deletion_timestamp is None and pod.status and is_true(pod.status.conditions or (), "Ready")
        )
    )


def stable_addresses(service: NameService) -> tuple[str, ...]:
    """Return the addresses of all Pods of the spec, ready or not."""
    domain = f"{child_name(service)}.{service.metadata.namespace}.svc"
    return tuple(f"{child_name(service)}-{each}.{domain}:{service.spec.port}" for each in range(service.spec.size))


def is_rolled_out(servers: StatefulSet) -> bool:
    """Return whether all Pods of a StatefulSet have its newest template."""
    found = servers.status
    current = (found.observed_generation or 0) >= servers.metadata.generation
    return current and found.updated_replicas == found.replicas == servers.spec.replicas


def status(service: NameService, servers: StatefulSet, pods: Iterable[Pod], now: datetime) -> NameServiceStatus:
    """Return the status: the ready name servers, and the conditions Available and Progressing.

    Args:
        service: the NameService.
        servers: its StatefulSet in the cluster.
        pods: its Pods.
        now: the time.
    """
    present = [pod for pod in pods if pod.metadata.deletion_timestamp is None]
    ready = addresses(service, present)
    message = f"{len(ready)} of {service.spec.size} name servers are ready"
    complete = len(ready) == len(present) == service.spec.size and is_rolled_out(servers)
    new = (
        Condition(
            type="Available",
            status="True" if ready else "False",
            reason="NameServersReady" if ready else "NoNameServerReady",
            message=message,
        ),
        Condition(
            type="Progressing",
            status="False" if complete else "True",
            reason="Complete" if complete else "WaitingForPods",
            message=message,
        ),
    )
    return NameServiceStatus(
        observed_generation=service.metadata.generation,
        name_servers=ready,
        size=len(present),
        selector=f"{LABEL}={service.metadata.name}",
        conditions=merge_conditions(service.status.conditions, new, now, service.metadata.generation),
    )
