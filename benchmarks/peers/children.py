"""The children of a Widget in mode `apply`: ConfigMap, Service and Deployment, the same in all peers."""

from __future__ import annotations

from typing import Any

from benchmarks.peers.widget import Widget
from steersman.k8s import (
    ConfigMap,
    Container,
    ContainerPort,
    Deployment,
    DeploymentSpec,
    EnvVar,
    LabelSelector,
    PodSpec,
    PodTemplateSpec,
    ResourceRequirements,
    Service,
    ServicePort,
    ServiceSpec,
)
from steersman.models import ObjectMeta, Quantity

KINDS: tuple[type[Any], ...] = (ConfigMap, Service, Deployment)


def config_of(widget: Widget) -> ConfigMap:
    name = widget.metadata.name
    return ConfigMap(
        metadata=ObjectMeta(name=f"{name}-config", labels=_labels(name)),
        data={"image": widget.spec.image, "schedule": widget.spec.schedule},
    )


def service_of(widget: Widget) -> Service:
    name = widget.metadata.name
    return Service(
        metadata=ObjectMeta(name=name, labels=_labels(name)),
        spec=ServiceSpec(
            selector=_labels(name), ports=(ServicePort(name="http", port=80, target_port=widget.spec.port),)
        ),
    )


def deployment_of(widget: Widget) -> Deployment:
    name, spec = widget.metadata.name, widget.spec
    container = Container(
        name="widget",
        image=spec.image,
        env=tuple(EnvVar(name=e.name, value=e.value) for e in spec.env),
        ports=(ContainerPort(name="http", container_port=spec.port),),
        resources=ResourceRequirements(
            requests={"cpu": Quantity(spec.resources.cpu), "memory": Quantity(spec.resources.memory)}
        ),
    )
    return Deployment(
        metadata=ObjectMeta(name=name, labels=_labels(name)),
        spec=DeploymentSpec(
            replicas=spec.replicas,
            selector=LabelSelector(match_labels=_labels(name)),
            template=PodTemplateSpec(metadata=ObjectMeta(labels=_labels(name)), spec=PodSpec(containers=(container,))),
        ),
    )


def _labels(name: str) -> dict[str, str]:
    return {"app.kubernetes.io/name": name}
