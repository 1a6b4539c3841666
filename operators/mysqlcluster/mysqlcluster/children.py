"""The Kubernetes objects of a cluster, as the operator applies them. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from steersman import IntOrString, LabelSelector, ObjectMeta
from steersman.k8s import (
    ConfigMap,
    ConfigMapVolumeSource,
    Container,
    ContainerPort,
    EnvVar,
    EnvVarSource,
    HTTPGetAction,
    ObjectFieldSelector,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodSpec,
    PodTemplateSpec,
    Probe,
    Secret,
    SecretVolumeSource,
    Service,
    ServicePort,
    ServiceSpec,
    StatefulSet,
    StatefulSetSpec,
    StatefulSetUpdateStrategy,
    Volume,
    VolumeMount,
    VolumeResourceRequirements,
)

from mysqlcluster import names, pod_security
from mysqlcluster.desired import Desired
from mysqlcluster.settings_text import settings_text

__all__ = [
    "FOLLOWED_SPEC",
    "agent_settings",
    "budget",
    "config_map",
    "secret",
    "services",
    "stateful_set",
    "tls_secret",
]

DATA = "/var/lib/mysql"
SETTINGS = "/etc/mysqlcluster/agents"
SECRETS = "/etc/mysqlcluster/secrets"
TLS = "/etc/mysqlcluster/tls"
FOLLOWED_SPEC = "followed-spec"
"""Key in the ConfigMap for the last valid spec; the agents do not read it."""
GRACE_SECONDS = 60
"""Grace period of the Pods. A primary that is stopped after a switchover needs much less."""
START_SECONDS = 600
"""Time in which the agent must answer after a start."""


def _metadata(want: Desired, name: str) -> ObjectMeta:
    return ObjectMeta(name=name, namespace=want.key.namespace, labels=names.labels(want.key.name))


def secret(want: Desired, data: Mapping[str, bytes]) -> Secret:
    """Return the Secret with generated passwords."""
    return Secret(metadata=_metadata(want, want.secret), data=data)


def tls_secret(want: Desired, data: Mapping[str, bytes]) -> Secret:
    """Return the Secret with the certificate."""
    return Secret(metadata=_metadata(want, names.tls_name(want.key.name)), type="kubernetes.io/tls", data=data)


def agent_settings(want: Desired, member: str) -> Mapping[str, Any]:
    """Return the settings of one agent."""
    return {
        "member": member,
        "serverId": names.ordinal(member) + 1,
        "flavor": want.flavor,
        "dataDirectory": DATA,
        "secretsDirectory": SECRETS,
        "tlsDirectory": TLS,
        "address": "0.0.0.0",
        "serverPort": want.port,
        "agentPort": names.AGENT_PORT,
        "metricsPort": names.METRICS_PORT if want.metrics.enabled else 0,
        "serverSettings": dict(want.config),
        "archiverUrl": names.archiver_url(want.key),
        "peerUrl": f"https://{{member}}{names.domain(want.key)}:{names.AGENT_PORT}",
    }


def config_map(want: Desired, size: int, spec: str = "") -> ConfigMap:
    """Return the ConfigMap with the settings of every agent, a file for each.

    Args:
        want: The cluster.
        size: The number of members that have a file.
        spec: The spec in force as JSON; the operator continues with it if a later spec is invalid.
    """
    files = {
        f"{member}.json": settings_text(agent_settings(want, member)) for member in names.members(want.key.name, size)
    }
    kept = {FOLLOWED_SPEC: spec} if spec else {}
    return ConfigMap(metadata=_metadata(want, names.config_name(want.key.name)), data={**files, **kept})


def services(want: Desired) -> tuple[Service, Service, Service]:
    """Return the Service of the members, that of the primary, and that of the replicas."""
    name = want.key.name
    port = ServicePort(name="mysql", port=want.port, target_port="mysql", protocol="TCP")
    agent = ServicePort(name="agent", port=names.AGENT_PORT, target_port="agent", protocol="TCP")
    headless = Service(
        metadata=_metadata(want, name),
        spec=ServiceSpec(
            cluster_ip="None",
            selector=names.labels(name),
            ports=(port, agent),
            publish_not_ready_addresses=True,
        ),
    )
    by_role = [
        Service(
            metadata=_metadata(want, service),
            spec=ServiceSpec(selector={**names.labels(name), names.ROLE_LABEL: role}, ports=(port,)),
        )
        for service, role in ((names.primary_service(name), "primary"), (names.replicas_service(name), "replica"))
    ]
    return (headless, by_role[0], by_role[1])


def budget(want: Desired) -> PodDisruptionBudget:
    """Return the PodDisruptionBudget: at most one member at a time, or none if the cluster cannot lose a member."""
    return PodDisruptionBudget(
        metadata=_metadata(want, names.budget_name(want.key.name)),
        spec=PodDisruptionBudgetSpec(
            max_unavailable=1 if want.size > 1 else 0,
            selector=LabelSelector(match_labels=names.labels(want.key.name)),
        ),
    )


def stateful_set(want: Desired, size: int) -> StatefulSet:
    """Return the StatefulSet with strategy `OnDelete`: the operator itself deletes the Pods that must be replaced."""
    name = want.key.name
    labels = names.labels(name)
    claim = PersistentVolumeClaim(
        metadata=ObjectMeta(name="data", labels=labels),
        spec=PersistentVolumeClaimSpec(
            access_modes=("ReadWriteOnce",),
            storage_class_name=want.storage.class_name or None,
            resources=VolumeResourceRequirements(requests={"storage": want.storage.size}),
        ),
    )
    return StatefulSet(
        metadata=_metadata(want, name),
        spec=StatefulSetSpec(
            replicas=size,
            service_name=name,
            pod_management_policy="Parallel",
            update_strategy=StatefulSetUpdateStrategy(type="OnDelete"),
            selector=LabelSelector(match_labels=labels),
            template=PodTemplateSpec(metadata=ObjectMeta(labels=labels), spec=_pod(want)),
            volume_claim_templates=(claim,),
        ),
    )


def _pod(want: Desired) -> PodSpec:
    name = want.key.name
    return PodSpec(
        containers=(_server(want),),
        termination_grace_period_seconds=GRACE_SECONDS,
        automount_service_account_token=False,
        enable_service_links=False,
        security_context=pod_security.POD,
        volumes=(
            Volume(name="agents", config_map=ConfigMapVolumeSource(name=names.config_name(name))),
            Volume(name="secrets", secret=SecretVolumeSource(secret_name=want.secret)),
            Volume(name="tls", secret=SecretVolumeSource(secret_name=names.tls_name(name))),
            pod_security.TEMPORARY,
        ),
    )


def _server(want: Desired) -> Container:
    by_name = EnvVarSource(field_ref=ObjectFieldSelector(field_path="metadata.name"))
    return Container(
        name="mysql",
        image=want.image,
        command=("python3", "-m", "mysqlcluster.agent", f"{SETTINGS}/$(POD_NAME).json"),
        security_context=pod_security.CONTAINER,
        env=(EnvVar(name="POD_NAME", value_from=by_name),),
        ports=(
            ContainerPort(name="mysql", container_port=want.port),
            ContainerPort(name="agent", container_port=names.AGENT_PORT),
            *([ContainerPort(name="metrics", container_port=names.METRICS_PORT)] if want.metrics.enabled else []),
        ),
        startup_probe=_probe("/healthz", failures=START_SECONDS // 2, period=2),
        liveness_probe=_probe("/healthz", failures=6, period=10),
        readiness_probe=_probe("/readyz", failures=2, period=2),
        volume_mounts=(
            VolumeMount(name="data", mount_path=DATA),
            VolumeMount(name="agents", mount_path=SETTINGS, read_only=True),
            VolumeMount(name="secrets", mount_path=SECRETS, read_only=True),
            VolumeMount(name="tls", mount_path=TLS, read_only=True),
            pod_security.TEMPORARY_MOUNT,
        ),
    )


def _probe(path: str, *, failures: int, period: int) -> Probe:
    port: IntOrString = "agent"
    action = HTTPGetAction(path=path, port=port, scheme="HTTPS")
    return Probe(http_get=action, failure_threshold=failures, period_seconds=period, timeout_seconds=2)
