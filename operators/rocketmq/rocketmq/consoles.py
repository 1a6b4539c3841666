"""The stages of a Console as pure functions: Sync and Status. A Console has no configuration file and no data."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from steersman import Condition, LabelSelector, ObjectMeta
from steersman.k8s import (
    Deployment,
    DeploymentSpec,
    EnvVar,
    PodSpec,
    PodTemplateSpec,
    Service,
    ServicePort,
    ServiceSpec,
)
from steersman.models import merge_conditions

from rocketmq.api.v1.console_types import Console, ConsoleStatus
from rocketmq.pods import container, pod_spec

__all__ = ["LABEL", "child_name", "status", "sync"]

LABEL = "rocketmq.daocloud.io/console"
"""The label with the name of the Console of a Pod."""
NAME_SERVERS_VARIABLE = "NAMESRV_ADDR"
"""The environment variable from which clients of RocketMQ read the addresses of name servers."""


def child_name(console: Console) -> str:
    """Return the name of the Service and the Deployment."""
    return f"{console.metadata.name}-console"


def _labels(console: Console) -> Mapping[str, str]:
    return {LABEL: console.metadata.name}


def sync(console: Console, name_servers: tuple[str, ...]) -> tuple[Service, Deployment]:
    """Return the Service and the Deployment of a Console that connects to these name servers."""
    labels = _labels(console)
    metadata = ObjectMeta(name=child_name(console), namespace=console.metadata.namespace, labels=labels)
    port = ServicePort(name="http", port=console.spec.port, target_port="http", protocol="TCP")
    template = PodTemplateSpec(metadata=ObjectMeta(labels=labels), spec=_pod(console, name_servers))
    return (
        Service(metadata=metadata, spec=ServiceSpec(selector=labels, ports=(port,))),
        Deployment(
            metadata=metadata,
            spec=DeploymentSpec(
                replicas=console.spec.size, selector=LabelSelector(match_labels=labels), template=template
            ),
        ),
    )


def _pod(console: Console, name_servers: tuple[str, ...]) -> PodSpec:
    spec = console.spec
    variable = EnvVar(name=NAME_SERVERS_VARIABLE, value=";".join(name_servers))
    return pod_spec(spec, container(spec, "console", spec.console_image, {"http": spec.port}, env=(variable,)))


def status(console: Console, child: Deployment, name_servers: tuple[str, ...], now: datetime) -> ConsoleStatus:
    """Return the status: the name servers of the console, and whether a Pod is available."""
    ready = (child.status.ready_replicas or 0) if child.status else 0
    found = (
        Condition(
            type="Available",
            status="True" if ready and name_servers else "False",
            reason="PodsReady" if ready and name_servers else "NoPodReady" if name_servers else "NoNameServers",
            message=f"{ready} of {console.spec.size} Pods are ready",
        ),
    )
    return ConsoleStatus(
        observed_generation=console.metadata.generation,
        name_servers=name_servers,
        size=(child.status.replicas or 0) if child.status else 0,
        selector=f"{LABEL}={console.metadata.name}",
        conditions=merge_conditions(console.status.conditions, found, now, console.metadata.generation),
    )
