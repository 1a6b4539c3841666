"""The objects that run an operator: Deployment, PodDisruptionBudget, and the Service of its metrics.

The defaults satisfy the restricted Pod Security Standard. Values that users of a chart can set are template values.
"""

from __future__ import annotations

from typing import Any, Final

from steersman.manifests.packaging import (
    CERTIFICATES,
    METRICS_PORT,
    PROBE_PORT,
    WEBHOOK_PORT,
    Package,
    labels,
    metadata,
    selector,
)
from steersman.manifests.template_values import Block, Each, More, Text, Tree, When

__all__ = ["METRICS_CERTIFICATES", "budget", "deployment", "metrics_patch", "metrics_secret", "metrics_service"]

METRICS_CERTIFICATES: Final = "/run/steersman/metrics-certificates"
_CONTAINER: Final = "manager"


def deployment(package: Package) -> Tree:
    """Return the Deployment; a rolling update starts the new replica, as standby, before the old one stops."""
    pod: dict[str, Any] = {
        "metadata": {
            "annotations": {"kubectl.kubernetes.io/default-container": _CONTAINER},
            "labels": {**selector(package), "app.kubernetes.io/managed-by": "steersman"},
        },
        "spec": {
            "serviceAccountName": package.name,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": 45,  # 30 s for running reconciles, and some for the release of the lease
            "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
            "nodeSelector": Block(".Values.nodeSelector", {"kubernetes.io/os": "linux"}),
            "tolerations": Block(".Values.tolerations", []),
            "affinity": Block(".Values.affinity", {}),
            "imagePullSecrets": Block(".Values.imagePullSecrets", []),
            "topologySpreadConstraints": [
                {
                    "labelSelector": {"matchLabels": selector(package)},
                    "maxSkew": 1,
                    "topologyKey": "kubernetes.io/hostname",
                    "whenUnsatisfiable": "ScheduleAnyway",
                }
            ],
            "containers": [_container(package)],
            "volumes": _volumes(package),
        },
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(package, package.name),
        "spec": {
            "replicas": Text(".Values.replicas", package.replicas),
            "selector": {"matchLabels": selector(package)},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "template": pod,
        },
    }


def _container(package: Package) -> dict[str, Any]:
    args: list[Any] = ["run", package.target, f"--health-probe-bind-address=:{PROBE_PORT}"]
    args.append(Each(".Values.watchNamespaces", "--namespace={}", package.namespaces))
    args.append(_metrics(package, [f"--metrics-bind-address=:{METRICS_PORT}", "--metrics-secure"]))
    args.append(When("not .Values.metrics.enabled", not package.metrics, ["--metrics-bind-address=0"]))
    ports: list[Any] = [{"name": "probes", "containerPort": PROBE_PORT, "protocol": "TCP"}]
    ports.append(_metrics(package, [{"name": "metrics", "containerPort": METRICS_PORT, "protocol": "TCP"}]))
    mounts: list[Any] = [{"name": "tmp", "mountPath": "/tmp"}]  # noqa: S108 - of the container, which is read-only
    args.append(When(".Values.crds.installedByOperator", package.install_crds, ["--install-crds"]))
    if package.serves_webhooks:
        args.append(f"--webhook-bind-address=:{WEBHOOK_PORT}")
        args.append(_cert_manager(package, [f"--webhook-cert-dir={CERTIFICATES}"]))
        ports.append({"name": "webhook", "containerPort": WEBHOOK_PORT, "protocol": "TCP"})
        mount = {"name": "webhook-certificates", "mountPath": CERTIFICATES, "readOnly": True}
        mounts.append(_cert_manager(package, [mount]))
    args.append(_monitoring(package, [f"--metrics-cert-dir={METRICS_CERTIFICATES}"]))
    mounts.append(_monitoring(package, [_metrics_mount()]))
    args.append(Each(".Values.extraArgs", "{}"))
    return {
        "name": _CONTAINER,
        "image": Text('include "image" .', package.reference),
        "imagePullPolicy": Text(".Values.image.pullPolicy", "IfNotPresent"),
        "command": ["steersman"],
        "args": args,
        "env": [
            _downward("POD_NAME", "name"),
            _downward("POD_NAMESPACE", "namespace"),
            _downward("STEERSMAN_POD_UID", "uid"),  # a restarted container acquires its own lease at once
            More(".Values.env"),
        ],
        "ports": ports,
        # The kubelet runs the readiness probe directly after the startup probe has succeeded: a Pod is ready within two
        # seconds of its replica, and a slow machine has a minute for the start.
        "startupProbe": _probe("/healthz", periodSeconds=1, failureThreshold=60),
        "livenessProbe": _probe("/healthz", periodSeconds=20, failureThreshold=3),
        "readinessProbe": _probe("/readyz", periodSeconds=2, failureThreshold=3),
        "resources": Block(".Values.resources", package.resources),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": mounts,
    }


def _downward(name: str, field: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": f"metadata.{field}"}}}


def _probe(path: str, **more: int) -> dict[str, Any]:
    return {"httpGet": {"path": path, "port": "probes"}, **more}


def _volumes(package: Package) -> list[Any]:
    volumes: list[Any] = [{"name": "tmp", "emptyDir": {"sizeLimit": "64Mi"}}]
    if package.serves_webhooks:
        secret = {"secretName": f"{package.name}-webhook-cert", "defaultMode": 0o440}
        volumes.append(_cert_manager(package, [{"name": "webhook-certificates", "secret": secret}]))
    volumes.append(_monitoring(package, [_metrics_volume(package)]))
    return volumes


def _metrics(package: Package, items: list[Any]) -> When:
    return When(".Values.metrics.enabled", package.metrics, items)


def _cert_manager(package: Package, items: list[Any]) -> When:
    return When(".Values.certManager.enabled", package.cert_manager, items)


def _monitoring(package: Package, items: list[Any]) -> When:
    return When(".Values.monitoring.enabled", package.monitoring, items)


def metrics_secret(package: Package) -> str:
    """Return the name of the Secret with the certificate of the metrics endpoint."""
    return f"{package.name}-metrics-cert"


def _metrics_volume(package: Package) -> dict[str, Any]:
    return {
        "name": "metrics-certificates",
        "secret": {"secretName": metrics_secret(package), "defaultMode": 0o440},
    }


def _metrics_mount() -> dict[str, Any]:
    return {"name": "metrics-certificates", "mountPath": METRICS_CERTIFICATES, "readOnly": True}


def metrics_patch(package: Package) -> list[dict[str, Any]]:
    """Return the JSON Patch that adds the metrics certificate to a Deployment without monitoring."""
    container = "/spec/template/spec/containers/0"
    return [
        {"op": "add", "path": f"{container}/args/-", "value": f"--metrics-cert-dir={METRICS_CERTIFICATES}"},
        {"op": "add", "path": f"{container}/volumeMounts/-", "value": _metrics_mount()},
        {"op": "add", "path": "/spec/template/spec/volumes/-", "value": _metrics_volume(package)},
    ]


def budget(package: Package) -> Tree:
    """Return a budget of one unavailable replica, so that a single replica does not block a node drain."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata(package, package.name),
        "spec": {
            "maxUnavailable": 1,
            "selector": {"matchLabels": selector(package)},
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    }


def metrics_service(package: Package) -> Tree:
    """Return the Service of the metrics endpoint."""
    found = metadata(package, package.metrics_service)
    found["labels"] = {**labels(package), "app.kubernetes.io/component": "metrics"}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": found,
        "spec": {
            "ports": [{"name": "metrics", "port": METRICS_PORT, "protocol": "TCP", "targetPort": "metrics"}],
            "selector": selector(package),
        },
    }
