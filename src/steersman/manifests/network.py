"""Who may connect to an operator's Pods: NetworkPolicies on the ports that the container really listens on.

A policy sees the Pod's port, never the Service's. Webhooks are called by the API server, which no selector matches on
most clusters, so their port is open to all; the TLS and the content of reviews protect it. Kubelets are always let in.
"""

from __future__ import annotations

from typing import Any

from steersman.manifests.packaging import METRICS_PORT, WEBHOOK_PORT, Package, metadata, selector

__all__ = ["network_policies"]


def network_policies(package: Package) -> list[dict[str, Any]]:
    """Everything is closed but metrics, for namespaces labelled `metrics: enabled`, and webhooks."""
    ingress: list[dict[str, Any]] = []
    if package.metrics:
        enabled = {"matchLabels": {"metrics": "enabled"}}
        ingress.append({"from": [{"namespaceSelector": enabled}], "ports": [_port(METRICS_PORT)]})
    found = [_policy(package, f"{package.name}-metrics", ingress)]
    if package.serves_webhooks:
        found.append(_policy(package, f"{package.name}-webhook", [{"ports": [_port(WEBHOOK_PORT)]}]))
    return found


def _port(number: int) -> dict[str, Any]:
    return {"port": number, "protocol": "TCP"}


def _policy(package: Package, name: str, ingress: list[dict[str, Any]]) -> dict[str, Any]:
    spec: dict[str, Any] = {"podSelector": {"matchLabels": selector(package)}, "policyTypes": ["Ingress"]}
    if ingress:
        spec["ingress"] = ingress
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(package, name),
        "spec": spec,
    }
