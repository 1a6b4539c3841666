"""The options of a package as one frozen value: image, replicas, namespaces, optional parts.

All outputs (a kustomize tree, one file, a chart, a bundle) are generated from it and from the operator.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from steersman.manifests.errors import ManifestError
from steersman.operator.operator import Operator

__all__ = ["CERTIFICATES", "METRICS_PORT", "PROBE_PORT", "WEBHOOK_PORT", "Package", "labels", "metadata", "selector"]

PROBE_PORT: Final = 8081
METRICS_PORT: Final = 8443
WEBHOOK_PORT: Final = 9443
CERTIFICATES: Final = "/run/steersman/webhook-certificates"
"""The mount path of cert-manager's Secret."""

_SEMVER: Final = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?"
)
_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_IMAGE: Final = re.compile(
    r"(?P<repository>[a-zA-Z0-9]([-a-zA-Z0-9._:/]*[a-zA-Z0-9])?)(:(?P<tag>\w[\w.-]{0,127}))?(@(?P<digest>sha256:[0-9a-f]{64}))?"
)


def _resources() -> dict[str, Any]:
    # An idle operator needs about 60 MB (measured). No CPU limit, because a throttled leader loses its lease. The
    # request is the share of a busy node: with 10m, a leader lost its lease while five Java servers started.
    return {"limits": {"memory": "256Mi"}, "requests": {"cpu": "100m", "memory": "96Mi"}}


@dataclass(frozen=True, slots=True)
class Package:
    """The installation of an operator. Raises `ManifestError` for values that no cluster accepts."""

    operator: Operator
    target: str
    """`module:attribute`, the argument of `steersman run` in the container."""
    image: str = ""
    """`<name>:<version>` by default."""
    version: str = "0.1.0"
    """The version of the package (semver.org)."""
    namespace: str = ""
    """The namespace of the operator; `<name>-system` by default."""
    namespaces: tuple[str, ...] = ()
    """The namespaces that the operator watches; all if empty."""
    replicas: int = 1
    certificates: Literal["self-managed", "cert-manager"] = "self-managed"
    """The creator of the webhooks' certificates."""
    metrics: bool = True
    """Serve metrics over TLS to authorized clients."""
    monitoring: bool = False
    """Install a ServiceMonitor and alerts; their files are written in any case."""
    network_policies: bool = False
    """Install NetworkPolicies; their files are written in any case."""
    install_crds: bool = False
    """Let the operator install its CRDs at its start, with permission for it; the package then installs none."""
    resources: dict[str, Any] = field(default_factory=_resources)
    max_description: int | None = None
    description: str = ""

    def __post_init__(self) -> None:
        problems: list[str] = []
        if not self.target:
            problems.append("the operator's module is unknown: pass it as MODULE:OPERATOR")
        if _SEMVER.fullmatch(self.version) is None:
            problems.append(f"version {self.version!r}: write three numbers, as in 1.2.0 (semver.org)")
        if self.image and _IMAGE.fullmatch(self.image) is None:
            problems.append(f"image {self.image!r} is not the name of an image, such as registry.example.com/app:1.0")
        problems += [
            f"namespace {name!r}: lower-case letters, digits and '-', at most 63, a letter or digit at both ends"
            for name in (self.namespace, *self.namespaces)
            if name and _LABEL.fullmatch(name) is None
        ]
        if self.replicas < 0:
            problems.append(f"replicas={self.replicas}: must not be negative")
        if problems:
            raise ManifestError(problems)

    @property
    def name(self) -> str:
        """The operator's name."""
        return self.operator.name

    @property
    def home(self) -> str:
        """The namespace that the operator runs in."""
        return self.namespace or f"{self.name}-system"

    @property
    def reference(self) -> str:
        """The image with its tag or digest."""
        image = self.image or f"{self.name}:{self.version.replace('+', '_')}"
        return image if "@" in image or ":" in image.rpartition("/")[2] else f"{image}:latest"

    @property
    def repository(self) -> str:
        """The image without tag and digest."""
        name = self.reference.partition("@")[0]
        head, _, last = name.rpartition("/")
        return (f"{head}/" if head else "") + last.partition(":")[0]

    @property
    def serves_webhooks(self) -> bool:
        """Whether the operator has webhooks."""
        return bool(self.operator.webhooks)

    @property
    def serves_conversions(self) -> bool:
        """Whether the operator has converters."""
        return any(webhook.purpose == "converter" for webhook in self.operator.webhooks)

    @property
    def cert_manager(self) -> bool:
        """Whether cert-manager creates the webhooks' certificates."""
        return self.serves_webhooks and self.certificates == "cert-manager"

    @property
    def metrics_service(self) -> str:
        """The name of the metrics Service."""
        return f"{self.name}-metrics"

    @property
    def webhook_service(self) -> str:
        """The name of the webhooks' Service."""
        return f"{self.name}-webhook"


def labels(package: Package) -> dict[str, str]:
    """Return the recommended labels of every document of the package."""
    return {"app.kubernetes.io/managed-by": "steersman", "app.kubernetes.io/name": package.name}


def selector(package: Package) -> dict[str, str]:
    """Return the selector of the operator's Pods, which is immutable in a Deployment."""
    return {"app.kubernetes.io/component": "manager", "app.kubernetes.io/name": package.name}


def metadata(package: Package, name: str, *, namespaced: bool = True) -> dict[str, Any]:
    """Return the name, the labels, and the namespace of the operator."""
    found: dict[str, Any] = {"name": name, "labels": labels(package)}
    if namespaced:
        found["namespace"] = package.home
    return found
