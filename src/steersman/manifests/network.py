"""NetworkPolicies for an operator's Pods on the container ports.

A policy applies to the Pod's port, not to the Service's. The API server calls webhooks, and on most clusters no
selector matches it, so the webhook port is open; TLS and the validation of reviews protect it. Kubelets always have
access.
"""

from __future__ import annotations

from typing import Any

from steersman.manifests.packaging import METRICS_PORT, WEBHOOK_PORT, Package, metadata, selector

__all__ = ["network_policies"]


def network_policies(package: Package) -> list[dict[str, Any]]:
    """Return policies that allow metrics for namespaces labelled `metrics: enabled`, and webhooks, and nothing else."""
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
