"""The stages of a Controller as pure functions: PreConfig, Sync and Status."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from steersman import Condition, ObjectMeta
from steersman.k8s import ConfigMap, Pod, PodSpec, Service, StatefulSet
from steersman.models import is_true, merge_conditions

from rocketmq.api.v1.controller_types import Controller, ControllerStatus
from rocketmq.brokers.settings import digest
from rocketmq.pods import CONFIG_DIRECTORY, POD_NAME, STORE, config, container, data, headless, pod_spec, stateful_set
from rocketmq.remoting.properties import write_properties

__all__ = ["LABEL", "child_name", "labels_for", "pre_config", "stable_addresses", "status", "sync"]

LABEL = "rocketmq.daocloud.io/controller"
"""The label with the name of the Controller of a Pod."""
CONFIG_HASH = "rocketmq.daocloud.io/restart-hash"
DEFAULTS = {
    "scanNotActiveBrokerInterval": "1000",
    "scanInactiveMasterInterval": "1000",
}
"""Settings that the spec may change: the interval in which controllers check the heartbeats of masters, in
milliseconds."""
STABLE_SECONDS = 10
"""Time that a member must be ready before the next one restarts."""


def child_name(controller: Controller) -> str:
    """Return the name of the ConfigMap, the Service and the StatefulSet."""
    return f"{controller.metadata.name}-controller"


def labels_for(controller: Controller) -> Mapping[str, str]:
    """Return the labels that select the Pods of a Controller."""
    return {LABEL: controller.metadata.name}


def stable_addresses(controller: Controller) -> tuple[str, ...]:
    """Return the addresses of all members, ready or not."""
    name = child_name(controller)
    domain = f"{name}.{controller.metadata.namespace}.svc:{controller.spec.port}"
    return tuple(f"{name}-{index}.{domain}" for index in range(controller.spec.size))


def _metadata(controller: Controller) -> ObjectMeta:
    return ObjectMeta(
        name=child_name(controller), namespace=controller.metadata.namespace, labels=labels_for(controller)
    )


def settings_of(controller: Controller, index: int) -> dict[str, str]:
    """Return the settings of one member."""
    peers = ";".join(f"n{number}-{address}" for number, address in enumerate(stable_addresses(controller)))
    return {
        **DEFAULTS,
        **controller.spec.config,
        "controllerDLegerGroup": controller.metadata.name,
        "controllerDLegerPeers": peers,
        "controllerDLegerSelfId": f"n{index}",
        "controllerStorePath": f"{STORE}/controller",
        "listenPort": str(controller.spec.port),
        # An unclean election makes a member the master that lacks acknowledged messages.
        "enableElectUncleanMaster": "false",
        "notifyBrokerRoleChanged": "true",
    }


def pre_config(controller: Controller) -> ConfigMap:
    """Return the ConfigMap, which has a configuration file for each member."""
    files = {
        f"{child_name(controller)}-{index}.conf": write_properties(settings_of(controller, index)).decode()
        for index in range(controller.spec.size)
    }
    return ConfigMap(metadata=_metadata(controller), data=files)


def sync(controller: Controller) -> tuple[Service, StatefulSet]:
    """Return the headless Service, which gives every member a stable DNS name, and the StatefulSet."""
    name, spec, metadata = child_name(controller), controller.spec, _metadata(controller)
    configuration = [settings_of(controller, index) for index in range(spec.size)]
    members = stateful_set(
        metadata,
        name,
        _pod(controller),
        stored=spec,
        replicas=spec.size,
        annotations={CONFIG_HASH: digest(configuration)},
        min_ready_seconds=STABLE_SECONDS,
    )
    return headless(metadata, {"controller": spec.port}), members


def _pod(controller: Controller) -> PodSpec:
    spec = controller.spec
    files, files_mount = config(child_name(controller))
    volumes, mount = data(spec)
    server = container(
        spec,
        "controller",
        spec.controller_image,
        {"controller": spec.port},
        command=("sh", "mqcontroller", "-c", f"{CONFIG_DIRECTORY}/$(POD_NAME).conf"),
        env=(POD_NAME,),
        mounts=(files_mount, mount),
    )
    return pod_spec(spec, server, volumes=(files, *volumes))


def status(controller: Controller, pods: Iterable[Pod], leader: str, now: datetime) -> ControllerStatus:
    """Return the status.

    Args:
        controller: the Controller.
        pods: its Pods.
        leader: the address of the leader; empty if there is none.
        now: the time.
    """
    present = sorted(pod.metadata.name for pod in pods if pod.metadata.deletion_timestamp is None)
    ready = [
        pod.metadata.name
        for pod in pods
        if pod.metadata.deletion_timestamp is None and pod.status and is_true(pod.status.conditions or (), "Ready")
    ]
    quorum = controller.spec.size // 2 + 1
    message = f"{len(ready)} of {controller.spec.size} members are ready"
    found = (
        _condition("Available", len(ready) >= quorum and bool(leader), "QuorumServes", "NoQuorum", message),
        _condition("LeaderElected", bool(leader), "Elected", "NoLeader", leader or "no member leads"),
    )
    return ControllerStatus(
        observed_generation=controller.metadata.generation,
        leader=leader.split(".")[0],
        nodes=tuple(present),
        size=len(present),
        selector=f"{LABEL}={controller.metadata.name}",
        conditions=merge_conditions(controller.status.conditions, found, now, controller.metadata.generation),
    )


def _condition(kind: str, holds: bool, yes: str, no: str, message: str) -> Condition:
    return Condition(type=kind, status="True" if holds else "False", reason=yes if holds else no, message=message)
