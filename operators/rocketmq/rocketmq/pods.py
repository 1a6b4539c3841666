"""The Pod of a server from the fields that all kinds with Pods share."""

from __future__ import annotations

from steersman.k8s import Container, PodSpec, Volume

from rocketmq.api.v1.pods import PodFields

__all__ = ["pod_spec"]


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
        volumes=volumes,
        termination_grace_period_seconds=grace_seconds,
        host_network=fields.host_network or None,
        dns_policy=fields.dns_policy,
        node_selector=fields.node_selector,
        affinity=fields.affinity,
        tolerations=fields.tolerations,
        image_pull_secrets=fields.image_pull_secrets,
        priority_class_name=fields.priority_class_name or None,
        service_account_name=fields.service_account_name or None,
        security_context=fields.security_context,
    )
