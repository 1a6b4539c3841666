"""The Kubernetes objects of a Broker: PreConfig makes the ConfigMaps, Sync the Services and StatefulSets."""

from __future__ import annotations

from collections.abc import Mapping

from steersman import LabelSelector, ObjectMeta, replace
from steersman.k8s import (
    ConfigMap,
    ConfigMapVolumeSource,
    Container,
    ContainerPort,
    EmptyDirVolumeSource,
    HostPathVolumeSource,
    PersistentVolumeClaim,
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
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
from steersman.models import to_dict

from rocketmq.api.v1.broker_types import Broker
from rocketmq.brokers.names import Member, group_name, labels_for, members_of, service_name
from rocketmq.brokers.settings import STORE, Endpoints, restart_hash, settings_of
from rocketmq.pods import pod_spec
from rocketmq.remoting.properties import write_properties

__all__ = ["RESTART_HASH", "budget", "config_map", "service", "stateful_set"]

RESTART_HASH = "rocketmq.daocloud.io/restart-hash"
"""The annotation of a StatefulSet and of its Pod with the hash of what needs a restart."""
CONFIG_DIRECTORY = "/etc/rocketmq"
GRACE_SECONDS = 60


def _metadata(broker: Broker, name: str, labels: Mapping[str, str]) -> ObjectMeta:
    return ObjectMeta(name=name, namespace=broker.metadata.namespace, labels=labels)


def config_map(broker: Broker, group: int, endpoints: Endpoints, *, writable: bool = True) -> ConfigMap:
    """Return the ConfigMap of a group, which has a configuration file for each member."""
    name = broker.metadata.name
    files = {
        f"{member.pod(name)}.conf": write_properties(settings_of(broker, member, endpoints, writable=writable)).decode()
        for member in members_of(broker, group)
    }
    labels = {**labels_for(name), "rocketmq.daocloud.io/group": str(group)}
    return ConfigMap(metadata=_metadata(broker, group_name(name, group), labels), data=files)


def service(broker: Broker) -> Service:
    """Return the headless Service, which gives every member a stable name."""
    name, ports = broker.metadata.name, broker.spec.ports
    listed = [("broker", ports.listen), ("ha", ports.ha), ("dledger", ports.dledger), ("metrics", ports.metrics)]
    return Service(
        metadata=_metadata(broker, service_name(name), labels_for(name)),
        spec=ServiceSpec(
            cluster_ip="None",
            selector=labels_for(name),
            ports=tuple(
                ServicePort(name=port, port=number, target_port=number, protocol="TCP") for port, number in listed
            ),
            publish_not_ready_addresses=True,
        ),
    )


def budget(broker: Broker, group: int) -> PodDisruptionBudget:
    """Return the budget of a group: evictions take one member at a time, and none of a group that has one."""
    name = broker.metadata.name
    labels = {**labels_for(name), "rocketmq.daocloud.io/group": str(group)}
    return PodDisruptionBudget(
        metadata=_metadata(broker, group_name(name, group), labels),
        spec=PodDisruptionBudgetSpec(
            max_unavailable=1 if broker.spec.replica_per_group else 0,
            selector=LabelSelector(match_labels=labels),
        ),
    )


def stateful_set(broker: Broker, member: Member, endpoints: Endpoints) -> StatefulSet:
    """Return the StatefulSet of a member; it has one Pod, and the operator decides when to change it."""
    name, spec = broker.metadata.name, broker.spec
    labels = labels_for(name, member)
    pod = _pod(broker, member)
    hashed = {RESTART_HASH: restart_hash(settings_of(broker, member, endpoints), to_dict(pod))}
    policy = StatefulSetPersistentVolumeClaimRetentionPolicy(
        when_deleted=spec.storage_reclaim_policy, when_scaled="Retain"
    )
    claims = spec.volume_claim_templates if spec.storage_mode == "StorageClass" else ()
    metadata = _metadata(broker, member.stateful_set(name), labels)
    return StatefulSet(
        metadata=replace(metadata, annotations=hashed),
        spec=StatefulSetSpec(
            replicas=1,
            service_name=service_name(name),
            pod_management_policy="Parallel",
            persistent_volume_claim_retention_policy=policy,
            selector=LabelSelector(match_labels=labels),
            template=PodTemplateSpec(metadata=ObjectMeta(labels=labels, annotations=hashed), spec=pod),
            volume_claim_templates=claims,
        ),
    )


def _pod(broker: Broker, member: Member) -> PodSpec:
    spec = broker.spec
    ports = [("broker", spec.ports.listen), ("ha", spec.ports.ha), ("metrics", spec.ports.metrics)]
    if spec.cluster_mode == "DLEDGER":
        ports.append(("dledger", spec.ports.dledger))
    file = f"{CONFIG_DIRECTORY}/{member.pod(broker.metadata.name)}.conf"
    data = _data_volume(broker, member)
    container = Container(
        name="broker",
        image=spec.broker_image,
        image_pull_policy=spec.image_pull_policy,
        command=("sh", "mqbroker", "-c", file),
        env=spec.env,
        resources=spec.resources or ResourceRequirements(),
        security_context=spec.container_security_context,
        ports=tuple(ContainerPort(name=port, container_port=number) for port, number in ports),
        readiness_probe=Probe(tcp_socket=TCPSocketAction(port="broker"), period_seconds=2, failure_threshold=2),
        volume_mounts=(
            VolumeMount(name="config", mount_path=CONFIG_DIRECTORY, read_only=True),
            VolumeMount(name=_data_name(spec.volume_claim_templates if data is None else ()), mount_path=STORE),
        ),
    )
    config = Volume(
        name="config", config_map=ConfigMapVolumeSource(name=group_name(broker.metadata.name, member.group))
    )
    volumes = (config,) if data is None else (config, data)
    return pod_spec(spec, container, volumes=volumes, grace_seconds=GRACE_SECONDS)


def _data_name(claims: tuple[PersistentVolumeClaim, ...]) -> str:
    return claims[0].metadata.name if claims else "data"


def _data_volume(broker: Broker, member: Member) -> Volume | None:
    """Return the volume of the data, or `None` when a claim provides it."""
    spec = broker.spec
    if spec.storage_mode == "EmptyDir":
        return Volume(name="data", empty_dir=EmptyDirVolumeSource())
    if spec.storage_mode == "HostPath":
        path = f"{spec.host_path.rstrip('/')}/{member.pod(broker.metadata.name)}"
        return Volume(name="data", host_path=HostPathVolumeSource(path=path, type="DirectoryOrCreate"))
    return None
