"""All documents of an operator, by the folders of the kustomize tree.

Files, charts, bundles and `steersman install` use these documents, which may have template values (see `resolved`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from steersman.manifests.crd import Check, Conversion, definitions
from steersman.manifests.deployment import budget, deployment, metrics_service
from steersman.manifests.kinds import classes_of
from steersman.manifests.monitoring import alerts, service_monitor
from steersman.manifests.network import network_policies
from steersman.manifests.packaging import Package
from steersman.manifests.permissions.roles import rbac, user_roles
from steersman.manifests.template_values import Tree, resolved
from steersman.manifests.webhooks import (
    certificate_documents,
    injected,
    metrics_certificate,
    webhook_configurations,
    webhook_service,
)

__all__ = ["Parts", "everything", "ordered", "parts_of"]


@dataclass(frozen=True, slots=True)
class Parts:
    """The documents by purpose."""

    crds: tuple[Tree, ...]
    rbac: tuple[dict[str, Any], ...]
    user_roles: tuple[dict[str, Any], ...]
    manager: tuple[Tree, ...]
    webhook: tuple[Tree, ...]
    certmanager: tuple[Tree, ...]
    """The certificates of the webhooks; empty if the operator creates them itself."""
    network: tuple[Tree, ...]
    monitoring: tuple[Tree, ...]


def parts_of(package: Package, *, check: Check | None = None) -> Parts:
    """Return all documents of a package, also those that it does not install. Raises `ManifestError`."""
    operator = package.operator
    converted = {(w.kind.info.group, w.kind.info.kind) for w in operator.webhooks if w.purpose == "converter"}
    service = Conversion(package.webhook_service, package.home)
    made = definitions(
        classes_of(operator),
        max_description=package.max_description,
        conversions=dict.fromkeys(converted, service),
        check=check,
    )
    crds = [
        injected(package, crd) if (crd["spec"]["group"], crd["spec"]["names"]["kind"]) in converted else crd
        for crd in made
    ]
    manager: list[Tree] = [deployment(package), budget(package)]
    if package.metrics:
        manager.append(metrics_service(package))
    webhook = [webhook_service(package), *webhook_configurations(package)] if package.serves_webhooks else []
    monitoring: list[Tree] = []
    if package.metrics:
        monitoring = [service_monitor(package), alerts(package)]
        if package.certificates == "cert-manager":
            monitoring.append(metrics_certificate(package))
    return Parts(
        crds=tuple(crds),
        rbac=tuple(
            rbac(
                operator,
                namespace=package.home,
                namespaces=package.namespaces,
                secure_metrics=package.metrics,
                webhook_certificates=package.serves_webhooks and package.certificates == "self-managed",
                install_crds=package.install_crds,
            )
        ),
        user_roles=tuple(user_roles(operator)) if made else (),
        manager=tuple(manager),
        webhook=tuple(webhook),
        certmanager=tuple(certificate_documents(package)) if package.certificates == "cert-manager" else (),
        network=tuple(network_policies(package)),
        monitoring=tuple(monitoring),
    )


def everything(package: Package, *, check: Check | None = None) -> list[dict[str, Any]]:
    """Return the installed documents with all values, in order of their dependencies."""
    parts = parts_of(package, check=check)
    crds = () if package.install_crds else parts.crds  # two field managers of one CRD would conflict at each upgrade
    found: list[Tree] = [*crds, *parts.rbac, *parts.user_roles, *parts.manager, *parts.webhook]
    if package.cert_manager or (package.monitoring and parts.certmanager):
        found += parts.certmanager
    if package.network_policies:
        found += parts.network
    if package.monitoring:
        found += parts.monitoring
    return ordered(resolved(one) for one in found)


_ORDER: Final = {
    kind: rank
    for rank, kind in enumerate(
        (
            "Namespace",
            "CustomResourceDefinition",
            "ServiceAccount",
            "ClusterRole",
            "ClusterRoleBinding",
            "Role",
            "RoleBinding",
            "Service",
            "NetworkPolicy",
            "PodDisruptionBudget",
            "Issuer",
            "Certificate",
            "Deployment",
            "ServiceMonitor",
            "PrometheusRule",
            "MutatingWebhookConfiguration",
            "ValidatingWebhookConfiguration",
        )
    )
}


def ordered(documents: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Sort documents by dependency of their kinds and by name; webhooks are last, because they may refuse others."""
    return sorted(
        (dict(one) for one in documents),
        key=lambda d: (_ORDER.get(d["kind"], 99), d["metadata"].get("namespace", ""), d["metadata"]["name"]),
    )
