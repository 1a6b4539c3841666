"""prometheus-operator, and its Prometheus and Alertmanager, which run as Pods on the node.

Alertmanager is Debian's. Debian builds Prometheus without the discovery of targets in Kubernetes, so Prometheus is
built from its Go module.
"""

from __future__ import annotations

import gzip
import json
from base64 import b64decode
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import yaml

from steersman.testing.real_node import RealNode
from steersman.testing.waiting import eventually
from tests.node.debian_images import debian_image, upstream_version
from tests.node.programs import module_directory, start_program, tool

NAMESPACE = "monitoring"
RULES = "prometheusrules.monitoring.coreos.com"

_MODULE = ("github.com/prometheus-operator/prometheus-operator", "v0.85.0")
_API = "monitoring.coreos.com/v1"
_NAME = "main"
_PROMETHEUS_VERSION = "3.5.0"
_PROMETHEUS_IMAGE = f"docker.io/library/prometheus:v{_PROMETHEUS_VERSION}"
_ALERTMANAGER = "prometheus-alertmanager"
_DISCOVERY_ROLE = "prometheus-discovery"
_WITHIN = 180.0
"""Seconds until the Pods of a busy machine are expected to be ready."""
_UNPRIVILEGED = {"runAsNonRoot": True, "runAsUser": 65534, "runAsGroup": 65534, "fsGroup": 65534}


class Monitoring:
    """Prometheus and Alertmanager, which prometheus-operator has configured from the objects of the cluster."""

    def __init__(self, node: RealNode, directory: Path, scraped_roles: Iterable[str]) -> None:
        """Start prometheus-operator and create both servers.

        Args:
            node: The cluster, which has the definitions of prometheus-operator.
            directory: A directory for logs.
            scraped_roles: The ClusterRoles that Prometheus needs for its scrapes.
        """
        self._node = node
        self._roles = (_DISCOVERY_ROLE, *scraped_roles)
        programs = (tool("prometheus"), tool("prometheus-config-reloader"))
        version = upstream_version(_ALERTMANAGER)
        image = f"docker.io/library/{_ALERTMANAGER}:v{version}"
        node.import_images(
            debian_image(_PROMETHEUS_IMAGE, "/usr/bin/prometheus", programs=programs),
            debian_image(image, f"/usr/bin/{_ALERTMANAGER}", packages=(_ALERTMANAGER,)),
        )
        command = [tool("prometheus-operator"), f"--prometheus-config-reloader={_PROMETHEUS_IMAGE}"]
        self._operator = start_program(node, "prometheus-operator", command, directory)
        node.apply(
            *_discovery(self._roles),
            _object("Prometheus", {**_server(_PROMETHEUS_IMAGE, _PROMETHEUS_VERSION), **_scraping()}),
            _object("Alertmanager", _server(image, version)),
        )

    def close(self) -> None:
        """Delete the servers, and end prometheus-operator."""
        self._node.kubectl("delete", "namespace", NAMESPACE, "--wait=true", timeout=120)
        self._operator.kill()
        for role in self._roles:
            self._node.delete("clusterrolebinding", f"prometheus-{role}")
        self._node.delete("clusterrole", _DISCOVERY_ROLE)

    def wait_ready(self) -> None:
        """Wait until both Pods are ready."""
        for kind in ("prometheus", "alertmanager"):
            self._node.wait("pod", f"{kind}-{_NAME}-0", "Ready", namespace=NAMESPACE, within=_WITHIN)

    def configuration(self) -> dict[str, Any]:
        """Return the configuration of Prometheus that prometheus-operator has written."""
        secret = self._node.get("secret", f"prometheus-{_NAME}", namespace=NAMESPACE)
        assert secret is not None, "no configuration"
        return yaml.safe_load(gzip.decompress(b64decode(secret["data"]["prometheus.yaml.gz"])))

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Return the result of a PromQL expression now."""
        return self._prometheus(f"query?query={quote(expression)}")["result"]

    def targets(self, job: str) -> list[dict[str, Any]]:
        """Return the targets of a job."""
        return [one for one in self._prometheus("targets?state=active")["activeTargets"] if one["labels"]["job"] == job]

    def rules(self) -> dict[str, dict[str, Any]]:
        """Return the alert rules by name, with their state and health."""
        return {
            rule["name"]: rule for group in self._prometheus("rules?type=alert")["groups"] for rule in group["rules"]
        }

    def alerts(self) -> dict[str, dict[str, str]]:
        """Return the labels of the active alerts in Alertmanager, by name."""
        found = self._call("alertmanager", 9093, "api/v2/alerts?active=true")
        return {alert["labels"]["alertname"]: alert["labels"] for alert in found}

    def _prometheus(self, path: str) -> Any:
        return self._call("prometheus", 9090, f"api/v1/{path}")["data"]

    def _call(self, kind: str, port: int, path: str) -> Any:
        pod = f"/api/v1/namespaces/{NAMESPACE}/pods/{kind}-{_NAME}-0:{port}"
        return json.loads(self._node.kubectl("get", "--raw", f"{pod}/proxy/{path}"))


def install_definitions(node: RealNode) -> Path:
    """Create the CustomResourceDefinitions of prometheus-operator and the namespace; return the definitions' path."""
    definitions = module_directory(*_MODULE) / "example" / "prometheus-operator-crd"
    node.kubectl("apply", "--server-side", "-f", str(definitions))
    node.create_namespace(NAMESPACE)
    eventually(lambda: node.kind(RULES), within=30, what="the kinds of monitoring")
    return definitions


def _discovery(roles: Iterable[str]) -> list[dict[str, Any]]:
    """Return the ServiceAccount of Prometheus and its roles."""
    rbac = "rbac.authorization.k8s.io"
    verbs = ["get", "list", "watch"]
    account = {"name": "prometheus", "namespace": NAMESPACE}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account},
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": _DISCOVERY_ROLE},
            "rules": [
                {"apiGroups": [""], "resources": ["services", "endpoints", "pods"], "verbs": verbs},
                {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": verbs},
            ],
        },
        *(
            {
                "apiVersion": f"{rbac}/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": f"prometheus-{role}"},
                "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": role},
                "subjects": [{"kind": "ServiceAccount", **account}],
            }
            for role in roles
        ),
    ]


def _server(image: str, version: str) -> dict[str, Any]:
    return {"image": image, "version": version, "imagePullPolicy": "Never", "securityContext": _UNPRIVILEGED}


def _scraping() -> dict[str, Any]:
    """Return what makes Prometheus use all ServiceMonitors and PrometheusRules, every second."""
    everything: dict[str, Any] = {}
    alertmanager = {"name": "alertmanager-operated", "namespace": NAMESPACE, "port": "web"}
    return {
        "serviceAccountName": "prometheus",
        "scrapeInterval": "1s",
        "evaluationInterval": "1s",
        "serviceMonitorSelector": everything,
        "serviceMonitorNamespaceSelector": everything,
        "ruleSelector": everything,
        "ruleNamespaceSelector": everything,
        "alerting": {"alertmanagers": [alertmanager]},
    }


def _object(kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": _API, "kind": kind, "metadata": {"name": _NAME, "namespace": NAMESPACE}, "spec": spec}
