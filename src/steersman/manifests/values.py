"""The values of a Helm chart: defaults, descriptions, and the schema with which Helm validates them."""

from __future__ import annotations

import json
import textwrap
from typing import Any, Final

from steersman.manifests.packaging import Package
from steersman.manifests.yaml import to_yaml

__all__ = ["schema_text", "values_text"]

_MEANING: Final = {
    "image": "The operator's image. The default tag is the chart's appVersion; a digest takes precedence over the tag.",
    "imagePullSecrets": "Names of Secrets with credentials for the registry: [{name: …}].",
    "replicas": "One replica is the leader, the others are standbys; all replicas serve webhooks.",
    "watchNamespaces": "Namespaces to watch; all if empty. The permissions are restricted to these namespaces.",
    "resources": "An idle operator takes about 60 MB, and more with the objects that it caches. There is no limit on "
    "CPU, since a throttled leader may lose its lease.",
    "metrics": "Metrics are served over TLS, to clients with the permission to get the path /metrics.",
    "monitoring": "A ServiceMonitor and alerts for the Prometheus operator. The certificate of the metrics is in the "
    "Secret {name}-metrics-cert, which cert-manager creates if certManager is enabled, and otherwise the user.",
    "certManager": "cert-manager creates the certificates; if disabled, the operator creates those of its webhooks.",
    "networkPolicies": "Allow only the ports of metrics (for namespaces labelled metrics: enabled) and webhooks.",
    "podDisruptionBudget": "Evict one replica at a time.",
    "crds": "Install the CRDs with the chart, and keep them and their objects when it is uninstalled. "
    "With installedByOperator the operator installs them at its start, its role allows it, and the chart has none.",
    "userRoles": "Roles for the users of the operator's kinds, aggregated into admin, edit and view.",
    "extraArgs": "Additional arguments of `steersman run`.",
    "env": "Additional environment variables of the container: [{name: …, value: …}].",
    "nodeSelector": "", "tolerations": "", "affinity": "",
}  # fmt: skip


def _values(package: Package) -> dict[str, Any]:
    digest = package.reference.partition("@")[2]
    tag = package.reference.partition("@")[0].removeprefix(package.repository).removeprefix(":")
    image = {"repository": package.repository, "tag": tag, "digest": digest, "pullPolicy": "IfNotPresent"}
    return {
        "image": image,
        "imagePullSecrets": [],
        "replicas": package.replicas,
        "watchNamespaces": list(package.namespaces),
        "resources": package.resources,
        "metrics": {"enabled": package.metrics},
        "monitoring": {"enabled": package.monitoring},
        "certManager": {"enabled": package.certificates == "cert-manager"},
        "networkPolicies": {"enabled": package.network_policies},
        "podDisruptionBudget": {"enabled": True},
        "crds": {"enabled": True, "keep": True, "installedByOperator": package.install_crds},
        "userRoles": {"enabled": True},
        "extraArgs": [],
        "env": [],
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [],
        "affinity": {},
    }


def values_text(package: Package) -> str:
    """Return values.yaml, with a comment for each value."""
    lines: list[str] = []
    for key, value in _values(package).items():
        meaning = _MEANING[key].replace("{name}", package.name)
        lines += [f"# {line}" for line in textwrap.wrap(meaning, 100)]
        lines.append(to_yaml({key: value}))
    return "\n".join(line.rstrip("\n") for line in lines) + "\n"


def schema_text(package: Package) -> str:
    """Return values.schema.json; it refuses unknown values, so that typing errors are not ignored."""
    text, texts = {"type": "string"}, {"type": "array", "items": {"type": "string", "minLength": 1}}
    switch = _object({"enabled": {"type": "boolean"}})
    properties: dict[str, Any] = {
        "image": _object(
            {
                "repository": {"type": "string", "minLength": 1},
                "tag": {"type": "string", "pattern": r"^(\w[\w.-]{0,127})?$"},
                "digest": {"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"},
                "pullPolicy": {"enum": ["Always", "IfNotPresent", "Never"]},
            }
        ),
        "imagePullSecrets": {"type": "array", "items": _object({"name": text})},
        "replicas": {"type": "integer", "minimum": 0},
        "watchNamespaces": {
            **texts,
            "uniqueItems": True,
            "items": {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"},
        },
        "resources": {"type": "object"},
        **dict.fromkeys(
            ("metrics", "monitoring", "certManager", "networkPolicies", "podDisruptionBudget", "userRoles"), switch
        ),
        "crds": _object({key: {"type": "boolean"} for key in ("enabled", "keep", "installedByOperator")}),
        "extraArgs": texts,
        "env": {"type": "array", "items": {"type": "object", "required": ["name"]}},
        "nodeSelector": {"type": "object", "additionalProperties": text},
        "tolerations": {"type": "array", "items": {"type": "object"}},
        "affinity": {"type": "object"},
        "global": {"type": "object"},
    }
    schema = {"$schema": "http://json-schema.org/draft-07/schema#", "title": f"Values of {package.name}"}
    return json.dumps({**schema, **_object(properties)}, indent=2) + "\n"


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False}
