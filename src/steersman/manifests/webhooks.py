"""Documents for webhooks: configurations, their Service, and cert-manager's documents.

With self-managed certificates the operator writes the CA into the configurations; with cert-manager an annotation
requests it from cert-manager's injector.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from steersman.manifests.deployment import metrics_secret
from steersman.manifests.packaging import Package, labels, metadata, selector
from steersman.manifests.template_values import Tree, When
from steersman.webhook.configuration import ClientConfig, configurations

__all__ = [
    "INJECT",
    "certificate_documents",
    "injected",
    "metrics_certificate",
    "reviews_builtin_kinds",
    "webhook_configurations",
    "webhook_service",
]

INJECT: Final = "cert-manager.io/inject-ca-from"
_API: Final = "cert-manager.io/v1"
_CA_DURATION: Final = "87600h"  # ten years
_NAME: Final = "kubernetes.io/metadata.name"


def injected(package: Package, document: dict[str, Any]) -> Tree:
    """Return the document with the annotation for cert-manager's CA injector, if cert-manager is used."""
    source = {INJECT: f"{package.home}/{package.name}-webhook"}
    found: dict[str, Any] = dict(document["metadata"])
    given: dict[str, Any] = found.get("annotations") or {}
    if given and package.cert_manager:
        found["annotations"] = {**given, **source}
    elif not given:
        found["annotations"] = When(".Values.certManager.enabled", package.cert_manager, source)
    return {**document, "metadata": found}


def webhook_configurations(package: Package) -> list[Tree]:
    """Return the mutating and validating configurations; empty without admission webhooks."""
    made = configurations(
        package.operator.webhook_rules,
        name=package.name,
        client_config=ClientConfig(service=(package.home, package.webhook_service, 443)),
        labels=labels(package),
    )
    for configuration in made:
        for webhook in configuration["webhooks"]:
            _narrow(package, webhook)
    return [injected(package, one) for one in made]


def _narrow(package: Package, webhook: dict[str, Any]) -> None:
    """Exclude namespaces in which the operator must not refuse requests.

    An operator that watches some namespaces gets only their requests. If it has webhooks for Kubernetes' own kinds, its
    own namespace is excluded: while no replica serves, the API server would refuse its Pods, its Secret and its Lease.
    """
    expressions: list[dict[str, Any]] = []
    if reviews_builtin_kinds(webhook):
        expressions.append({"key": _NAME, "operator": "NotIn", "values": [package.home]})
    if package.namespaces:
        expressions.append({"key": _NAME, "operator": "In", "values": sorted(set(package.namespaces))})
    if expressions:
        given = dict(webhook.get("namespaceSelector") or {})
        given["matchExpressions"] = [*(given.get("matchExpressions") or ()), *expressions]
        webhook["namespaceSelector"] = given


def reviews_builtin_kinds(webhook: Mapping[str, Any]) -> bool:
    """Whether the rules of a webhook name API groups of Kubernetes itself."""
    groups = {group for rule in webhook["rules"] for group in rule["apiGroups"]}
    return any("." not in group or group.endswith(".k8s.io") for group in groups)


def webhook_service(package: Package) -> Tree:
    """Return the Service of the webhooks; with converters it publishes addresses of Pods that are not ready, too.

    The API server may need a conversion for the list that fills a replica's caches, and the replica is not ready
    before. Only ready replicas get admission reviews.
    """
    spec: Tree = {
        "ports": [{"name": "webhook", "port": 443, "protocol": "TCP", "targetPort": "webhook"}],
        "selector": selector(package),
    }
    if package.serves_conversions:
        spec["publishNotReadyAddresses"] = True
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(package, package.webhook_service),
        "spec": spec,
    }


def certificate_documents(package: Package) -> list[Tree]:
    """Return cert-manager's documents: an Issuer with a CA of the operator, and the Certificate for the webhooks.

    The CA keeps its key when cert-manager renews it, and outlives the certificates that it signs. So a replica with
    the old certificate and a replica with the new one both match the bundle, and a renewal refuses no request.
    """
    found = [_issuer(package, _self_signed(package), {"selfSigned": {}}), _authority(package)]
    found.append(_issuer(package, _ca(package), {"ca": {"secretName": _ca(package)}}))
    if package.serves_webhooks:
        found.append(
            _certificate(package, f"{package.name}-webhook", f"{package.name}-webhook-cert", package.webhook_service)
        )
    return found


def metrics_certificate(package: Package) -> Tree:
    """Return cert-manager's Certificate for the metrics, which a ServiceMonitor verifies."""
    return _certificate(package, f"{package.name}-metrics", metrics_secret(package), package.metrics_service)


def _self_signed(package: Package) -> str:
    return f"{package.name}-selfsigned"


def _ca(package: Package) -> str:
    """Return the name of the CA's Certificate, of its Secret, and of the Issuer that signs with it."""
    return f"{package.name}-ca"


def _issuer(package: Package, name: str, spec: dict[str, Any]) -> Tree:
    return {"apiVersion": _API, "kind": "Issuer", "metadata": metadata(package, name), "spec": spec}


def _authority(package: Package) -> Tree:
    return {
        "apiVersion": _API,
        "kind": "Certificate",
        "metadata": metadata(package, _ca(package)),
        "spec": {
            "commonName": _ca(package),
            "duration": _CA_DURATION,
            "isCA": True,
            "issuerRef": {"kind": "Issuer", "name": _self_signed(package)},
            "privateKey": {"algorithm": "ECDSA", "rotationPolicy": "Never", "size": 256},
            "secretName": _ca(package),
        },
    }


def _certificate(package: Package, name: str, secret: str, service: str) -> Tree:
    host = f"{service}.{package.home}.svc"
    return {
        "apiVersion": _API,
        "kind": "Certificate",
        "metadata": metadata(package, name),
        "spec": {
            "dnsNames": [host, f"{host}.cluster.local"],
            "issuerRef": {"kind": "Issuer", "name": _ca(package)},
            "privateKey": {"algorithm": "ECDSA", "rotationPolicy": "Always", "size": 256},
            "secretName": secret,
        },
    }
