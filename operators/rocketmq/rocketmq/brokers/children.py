"""The Kubernetes objects of a Broker: PreConfig creates the ConfigMaps, Sync the Services and StatefulSets."""

from __future__ import annotations

from collections.abc import Mapping

from steersman import LabelSelector, ObjectMeta, replace
from steersman.k8s import ConfigMap, PodDisruptionBudget, PodDisruptionBudgetSpec, PodSpec, Service, StatefulSet
from steersman.models import to_dict

from rocketmq import pods
from rocketmq.api.v1.broker_types import Broker
from rocketmq.brokers.names import Member, group_name, labels_for, members_of, service_name
from rocketmq.brokers.settings import Endpoints, restart_hash, settings_of
from rocketmq.pods import CONFIG_DIRECTORY, POD_NAME, config, container, data, headless, pod_spec
from rocketmq.remoting.properties import write_properties

__all__ = ["RESTART_HASH", "budget", "config_map", "service", "stateful_set"]

RESTART_HASH = "rocketmq.daocloud.io/restart-hash"
"""The annotation of a StatefulSet and its Pod with the hash of the settings that need a restart."""
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
    """Return the headless Service, which gives every member a stable DNS name."""
    name, ports = broker.metadata.name, broker.spec.ports
    listed = {"broker": ports.listen, "ha": ports.ha, "dledger": ports.dledger, "metrics": ports.metrics}
    return headless(_metadata(broker, service_name(name), labels_for(name)), listed)


def budget(broker: Broker, group: int) -> PodDisruptionBudget:
    """Return the PodDisruptionBudget of a group: one member at a time, or none if the group has only one."""
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
    """Return the StatefulSet of a member; it has one Pod, and the operator decides when to update it."""
    name, pod = broker.metadata.name, _pod(broker, member)
    hashed = {RESTART_HASH: restart_hash(settings_of(broker, member, endpoints), to_dict(pod))}
    metadata = _metadata(broker, member.stateful_set(name), labels_for(name, member))
    return pods.stateful_set(
        replace(metadata, annotations=hashed), service_name(name), pod, stored=broker.spec, annotations=hashed
    )


def _pod(broker: Broker, member: Member) -> PodSpec:
    spec, name = broker.spec, broker.metadata.name
    ports = {"broker": spec.ports.listen, "ha": spec.ports.ha, "metrics": spec.ports.metrics}
    if spec.cluster_mode == "DLEDGER":
        ports["dledger"] = spec.ports.dledger
    files, files_mount = config(group_name(name, member.group))
    volumes, mount = data(spec)
    server = container(
        spec,
        "broker",
        spec.broker_image,
        ports,
        command=("sh", "mqbroker", "-c", f"{CONFIG_DIRECTORY}/{member.pod(name)}.conf"),
        env=(POD_NAME,),
        mounts=(files_mount, mount),
    )
    return pod_spec(spec, server, volumes=(files, *volumes), grace_seconds=GRACE_SECONDS)
