"""The objects of the cluster's DNS: CoreDNS as a Deployment, and a Service with the nameserver address of Pods."""

from __future__ import annotations

from typing import Any, Final

from steersman.testing.real_node.configuration import DNS_ADDRESS

__all__ = ["IMAGE", "NAME", "NAMESPACE", "objects"]

NAME: Final = "coredns"
NAMESPACE: Final = "kube-system"
IMAGE: Final = "steersman.test/coredns:1"

_COREFILE: Final = """\
.:53 {
    errors
    health
    ready
    kubernetes cluster.local in-addr.arpa ip6.arpa {
        pods insecure
    }
    cache 30
}
"""
_LABELS: Final = {"k8s-app": "kube-dns"}


def objects() -> tuple[dict[str, Any], ...]:
    """Return the ServiceAccount, its permissions, the configuration, the Deployment and the Service."""
    return (
        {**_kind("v1", "ServiceAccount"), "metadata": _metadata()},
        {
            **_kind("rbac.authorization.k8s.io/v1", "ClusterRole"),
            "metadata": {"name": "system:coredns"},
            "rules": [
                {"apiGroups": [""], "resources": ["services", "pods", "namespaces"], "verbs": ["list", "watch"]},
                {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
            ],
        },
        {
            **_kind("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"),
            "metadata": {"name": "system:coredns"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:coredns"},
            "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": NAMESPACE}],
        },
        {**_kind("v1", "ConfigMap"), "metadata": _metadata(), "data": {"Corefile": _COREFILE}},
        {**_kind("apps/v1", "Deployment"), "metadata": _metadata(), "spec": _deployment()},
        {
            **_kind("v1", "Service"),
            "metadata": {**_metadata(), "name": "kube-dns"},
            "spec": {
                "clusterIP": DNS_ADDRESS,
                "selector": _LABELS,
                "ports": [
                    {"name": "dns", "port": 53, "protocol": "UDP"},
                    {"name": "dns-tcp", "port": 53, "protocol": "TCP"},
                ],
            },
        },
    )


def _deployment() -> dict[str, Any]:
    return {
        "selector": {"matchLabels": _LABELS},
        "template": {
            "metadata": {"labels": _LABELS},
            "spec": {
                "serviceAccountName": NAME,
                "dnsPolicy": "Default",
                "priorityClassName": "system-cluster-critical",
                "containers": [
                    {
                        "name": NAME,
                        "image": IMAGE,
                        "imagePullPolicy": "Never",
                        "args": ["-conf", "/etc/coredns/Corefile"],
                        "volumeMounts": [{"name": "config", "mountPath": "/etc/coredns"}],
                        "readinessProbe": {"httpGet": {"path": "/ready", "port": 8181}, "periodSeconds": 1},
                    }
                ],
                "volumes": [{"name": "config", "configMap": {"name": NAME}}],
            },
        },
    }


def _kind(api_version: str, kind: str) -> dict[str, str]:
    return {"apiVersion": api_version, "kind": kind}


def _metadata() -> dict[str, Any]:
    return {"name": NAME, "namespace": NAMESPACE}
