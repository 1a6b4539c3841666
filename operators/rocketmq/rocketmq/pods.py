"""The common parts of the Services, StatefulSets and Pods of all servers."""

from __future__ import annotations

from collections.abc import Mapping

from steersman import EMPTY, LabelSelector, ObjectMeta, replace
from steersman.k8s import (
    ConfigMapVolumeSource,
    Container,
    ContainerPort,
    EmptyDirVolumeSource,
    EnvVar,
    EnvVarSource,
    HostPathVolumeSource,
    ObjectFieldSelector,
    PodSpec,
    PodTemplateSpec,
    Probe,
    ResourceRequirements,
    Service,
    ServicePort,
    ServiceSpec,
    StatefulSet,
    StatefulSetPersistentVolumeClaimRetentionPolicy,
    StatefulSetSpec,
    TCPSocketAction,
    Volume,
    VolumeMount,
)

from rocketmq import pod_security
from rocketmq.api.v1.pods import PodFields, StoredFields

__all__ = [
    "CONFIG_DIRECTORY",
    "POD_NAME",
    "STORE",
    "config",
    "container",
    "data",
    "headless",
    "pod_spec",
    "stateful_set",
]

CONFIG_DIRECTORY = "/etc/rocketmq"
"""The mount path of the configuration files."""
STORE = "/var/lib/rocketmq"
"""The mount path of the data of a member."""
POD_NAME = EnvVar(name="POD_NAME", value_from=EnvVarSource(field_ref=ObjectFieldSelector(field_path="metadata.name")))
"""The environment variable with the name of the Pod, which names the Pod's directory on its node."""


def headless(metadata: ObjectMeta, ports: Mapping[str, int]) -> Service:
    """Return a headless Service, which gives every Pod with its labels a stable DNS name, even if it is not ready."""
    return Service(
        metadata=metadata,
        spec=ServiceSpec(
            cluster_ip="None",
            selector=metadata.labels,
            ports=tuple(
                ServicePort(name=name, port=number, target_port=number, protocol="TCP")
                for name, number in ports.items()
            ),
            publish_not_ready_addresses=True,
        ),
    )


def config(name: str) -> tuple[Volume, VolumeMount]:
    """Return the volume of a ConfigMap with configuration files, and its mount."""
    volume = Volume(name="config", config_map=ConfigMapVolumeSource(name=name))
    return volume, VolumeMount(name="config", mount_path=CONFIG_DIRECTORY, read_only=True)


def data(fields: StoredFields) -> tuple[tuple[Volume, ...], VolumeMount]:
    """Return the volume of the data, unless a claim provides it, and its mount; the container needs `POD_NAME`."""
    mount = VolumeMount(name="data", mount_path=STORE)
    if fields.storage_mode == "EmptyDir":
        return (Volume(name="data", empty_dir=EmptyDirVolumeSource()),), mount
    if fields.storage_mode == "HostPath":
        source = HostPathVolumeSource(path=fields.host_path, type="DirectoryOrCreate")
        return (Volume(name="data", host_path=source),), replace(mount, sub_path_expr="$(POD_NAME)")
    return (), replace(mount, name=fields.volume_claim_templates[0].metadata.name)


def container(
    fields: PodFields,
    name: str,
    image: str,
    ports: Mapping[str, int],
    *,
    command: tuple[str, ...] = (),
    env: tuple[EnvVar, ...] = (),
    mounts: tuple[VolumeMount, ...] = (),
) -> Container:
    """Return the container of a server, which is ready when it accepts connections at its first port.

    Args:
        fields: The spec of the kind.
        name: The name of the container.
        image: The image.
        ports: The numbers of the ports by name.
        command: The command; by default that of the image.
        env: Environment variables before those of the spec.
        mounts: The mounts of volumes.
    """
    probe = TCPSocketAction(port=next(iter(ports)))
    return Container(
        name=name,
        image=image,
        image_pull_policy=fields.image_pull_policy,
        command=command,
        env=(*env, *fields.env),
        resources=fields.resources or ResourceRequirements(),
        security_context=fields.container_security_context or pod_security.CONTAINER,
        ports=tuple(ContainerPort(name=port, container_port=number) for port, number in ports.items()),
        readiness_probe=Probe(tcp_socket=probe, period_seconds=2, failure_threshold=2),
        volume_mounts=(*mounts, pod_security.TEMPORARY_MOUNT),
    )


def pod_spec(
    fields: PodFields, container: Container, *, volumes: tuple[Volume, ...] = (), grace_seconds: int | None = None
) -> PodSpec:
    """Return a Pod with one container.

    Args:
        fields: The spec of the kind.
        container: The container.
        volumes: The volumes of the container.
        grace_seconds: Seconds between SIGTERM and SIGKILL; by default those of Kubernetes.
    """
    return PodSpec(
        containers=(container,),
        volumes=(*volumes, pod_security.TEMPORARY),
        automount_service_account_token=None if fields.service_account_name else False,
        enable_service_links=False,
        termination_grace_period_seconds=grace_seconds,
        host_network=fields.host_network or None,
        dns_policy=fields.dns_policy,
        node_selector=fields.node_selector,
        affinity=fields.affinity,
        tolerations=fields.tolerations,
        image_pull_secrets=fields.image_pull_secrets,
        priority_class_name=fields.priority_class_name or None,
        service_account_name=fields.service_account_name or None,
        security_context=fields.security_context or pod_security.POD,
    )


def stateful_set(
    metadata: ObjectMeta,
    service: str,
    pod: PodSpec,
    *,
    stored: StoredFields | None = None,
    replicas: int = 1,
    annotations: Mapping[str, str] = EMPTY,
    min_ready_seconds: int | None = None,
) -> StatefulSet:
    """Return a StatefulSet; its Pods have its labels and start at the same time.

    Args:
        metadata: Its metadata.
        service: The name of the headless Service.
        pod: Its Pods.
        stored: The fields of the storage, if the Pods have data.
        replicas: The number of Pods.
        annotations: The annotations of the Pods.
        min_ready_seconds: Seconds that a Pod must be ready before the next one restarts.
    """
    policy = None
    if stored is not None:
        policy = StatefulSetPersistentVolumeClaimRetentionPolicy(
            when_deleted=stored.storage_reclaim_policy, when_scaled="Retain"
        )
    claims = stored.volume_claim_templates if stored is not None and stored.storage_mode == "StorageClass" else ()
    return StatefulSet(
        metadata=metadata,
        spec=StatefulSetSpec(
            replicas=replicas,
            service_name=service,
            pod_management_policy="Parallel",
            min_ready_seconds=min_ready_seconds,
            persistent_volume_claim_retention_policy=policy,
            selector=LabelSelector(match_labels=metadata.labels),
            template=PodTemplateSpec(metadata=ObjectMeta(labels=metadata.labels, annotations=annotations), spec=pod),
            volume_claim_templates=claims,
        ),
    )
