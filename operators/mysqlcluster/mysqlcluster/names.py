"""Names of the objects of a cluster, and the labels that select them."""

from __future__ import annotations

from collections.abc import Mapping

from steersman import Key

__all__ = [
    "AGENT_PORT",
    "ARCHIVER_PORT",
    "CLUSTER_LABEL",
    "METRICS_PORT",
    "ROLE_LABEL",
    "agent_url",
    "archiver",
    "archiver_url",
    "budget_name",
    "config_name",
    "dns_names",
    "domain",
    "labels",
    "member",
    "members",
    "ordinal",
    "primary_service",
    "replicas_service",
    "selector",
    "tls_name",
]

CLUSTER_LABEL = "mysqlcluster_cr"
ROLE_LABEL = "mysqlcluster_role"
AGENT_PORT = 8443
ARCHIVER_PORT = 8444
METRICS_PORT = 9104
"""The port of the metrics of a server, as of mysqld_exporter."""


def labels(cluster: str) -> Mapping[str, str]:
    """Return the labels of all objects of a cluster."""
    return {"app": "mysqlcluster", CLUSTER_LABEL: cluster}


def selector(cluster: str) -> str:
    """Return the labels as a label selector."""
    return ",".join(f"{name}={value}" for name, value in labels(cluster).items())


def member(cluster: str, number: int) -> str:
    """Return the name of a Pod."""
    return f"{cluster}-{number}"


def members(cluster: str, size: int) -> tuple[str, ...]:
    """Return the names of the Pods of a cluster of that size."""
    return tuple(member(cluster, number) for number in range(size))


def ordinal(pod: str) -> int:
    """Return the number at the end of a Pod's name."""
    return int(pod.rpartition("-")[2])


def domain(key: Key) -> str:
    """Return the DNS suffix of the Pods of a cluster, with the leading dot."""
    return f".{key.name}.{key.namespace}.svc"


def agent_url(key: Key, pod: str) -> str:
    """Return the URL of a member's agent."""
    return f"https://{pod}{domain(key)}:{AGENT_PORT}"


def primary_service(cluster: str) -> str:
    """Return the name of the Service of the primary."""
    return f"{cluster}-primary"


def replicas_service(cluster: str) -> str:
    """Return the name of the Service of the replicas."""
    return f"{cluster}-replicas"


def config_name(cluster: str) -> str:
    """Return the name of the ConfigMap with the agents' settings."""
    return f"{cluster}-agents"


def tls_name(cluster: str) -> str:
    """Return the name of the Secret with the certificate of servers and agents."""
    return f"{cluster}-tls"


def archiver(cluster: str) -> str:
    """Return the common name of the StatefulSet, the Service and the ConfigMap of the archiver."""
    return f"{cluster}-archiver"


def archiver_url(key: Key) -> str:
    """Return the URL of a cluster's archiver."""
    return f"https://{archiver(key.name)}.{key.namespace}.svc:{ARCHIVER_PORT}"


def budget_name(cluster: str) -> str:
    """Return the name of the PodDisruptionBudget."""
    return cluster


def dns_names(key: Key) -> tuple[str, ...]:
    """Return the names that clients, members and the operator use."""
    services = (primary_service(key.name), replicas_service(key.name), archiver(key.name))
    suffixes = (key.namespace, f"{key.namespace}.svc", f"{key.namespace}.svc.cluster.local")
    members = [f"*.{key.name}", *(f"*.{key.name}.{suffix}" for suffix in suffixes)]
    reached = [name for service in services for name in (service, *(f"{service}.{suffix}" for suffix in suffixes))]
    return (*members, *reached, "localhost")
