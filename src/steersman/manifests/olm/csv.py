"""The ClusterServiceVersion: the description of an operator for OLM, derived from the same documents as all others.

OLM creates ServiceAccount, roles, webhook configurations and certificates from it. An annotation has the namespaces in
which the operator works; an environment variable passes them to `steersman run`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from steersman.manifests.packaging import WEBHOOK_PORT, Package, selector
from steersman.manifests.parts import Parts, parts_of
from steersman.manifests.samples import examples
from steersman.manifests.template_values import resolved
from steersman.manifests.webhooks import reviews_builtin_kinds

__all__ = ["CAPABILITIES", "Listing", "csv_name", "service_version"]

Capability = Literal["Basic Install", "Seamless Upgrades", "Full Lifecycle", "Deep Insights", "Auto Pilot"]
CAPABILITIES: Final[tuple[Capability, ...]] = (
    "Basic Install",
    "Seamless Upgrades",
    "Full Lifecycle",
    "Deep Insights",
    "Auto Pilot",
)
_CERTIFICATES: Final = "/tmp/k8s-webhook-server/serving-certs"  # noqa: S108 - where OLM mounts them
_NAME_LABEL: Final = "app.kubernetes.io/name"
_NAMESPACES: Final = {
    "name": "STEERSMAN_NAMESPACES",
    "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['olm.targetNamespaces']"}},
}


@dataclass(frozen=True, slots=True)
class Listing:
    """The data of a catalog about an operator: descriptions, links, channels."""

    display_name: str = ""
    provider: str = ""
    provider_url: str = ""
    maintainers: tuple[tuple[str, str], ...] = ()
    """Names and e-mail addresses."""
    links: tuple[tuple[str, str], ...] = ()
    """Names and URLs."""
    keywords: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    capability: Capability = "Basic Install"
    channels: tuple[str, ...] = ("alpha",)
    default_channel: str = ""
    replaces: str = ""
    icon: tuple[str, str] | None = None
    """Base64 and media type."""
    related_images: tuple[tuple[str, str], ...] = ()
    """Names and images that the operator runs."""
    license: str = ""


def csv_name(package: Package) -> str:
    """Return the name of the version in catalogs."""
    return f"{package.name}.v{package.version}"


def service_version(package: Package, listing: Listing, given: Iterable[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """Return the ClusterServiceVersion; `given` are hand-written examples, which replace generated ones."""
    # With one namespace, the roles for namespaced and cluster-scoped resources are separate.
    there = replace(package, namespaces=(package.home,), certificates="self-managed", monitoring=False)
    there = replace(there, install_crds=False)  # OLM installs them from the bundle
    parts = parts_of(there)
    # OLM creates the webhooks' certificates, so the permissions for self-managed ones are left out.
    parts = replace(parts, rbac=parts_of(replace(there, certificates="cert-manager")).rbac)
    converts = any(w.purpose == "converter" for w in package.operator.webhooks)
    annotations = {
        "alm-examples": json.dumps(examples(parts, given), indent=2, sort_keys=True),
        "capabilities": listing.capability,
        "containerImage": package.reference,
        "description": package.description or f"The operator {package.name}.",
    }
    if listing.categories:
        annotations["categories"] = ", ".join(listing.categories)
    spec: dict[str, Any] = {
        "displayName": listing.display_name or " ".join(word.capitalize() for word in package.name.split("-")),
        "description": package.description or f"The operator {package.name}.",
        "version": package.version,
        "minKubeVersion": "1.29.0",
        "maturity": "alpha",
        "provider": {"name": listing.provider, **({"url": listing.provider_url} if listing.provider_url else {})},
        "customresourcedefinitions": {"owned": list(_owned(parts))},
        "install": {"strategy": "deployment", "spec": _install(there, parts)},
        "installModes": [
            {"type": mode, "supported": mode == "AllNamespaces" or not converts}
            for mode in ("OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces")
        ],
        "relatedImages": [
            {"name": "manager", "image": package.reference},
            *({"name": name, "image": image} for name, image in listing.related_images),
        ],
    }
    if listing.maintainers:
        spec["maintainers"] = [{"name": name, "email": email} for name, email in listing.maintainers]
    if listing.links:
        spec["links"] = [{"name": name, "url": url} for name, url in listing.links]
    if listing.keywords:
        spec["keywords"] = list(listing.keywords)
    if listing.icon is not None:
        spec["icon"] = [{"base64data": listing.icon[0], "mediatype": listing.icon[1]}]
    if listing.replaces:
        spec["replaces"] = listing.replaces
    webhooks = list(_webhooks(package, parts))
    if webhooks:
        spec["webhookdefinitions"] = webhooks
    return {
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": {"annotations": annotations, "name": csv_name(package)},
        "spec": spec,
    }


def _owned(parts: Parts) -> Iterable[dict[str, Any]]:
    for tree in parts.crds:
        crd = resolved(tree)
        for version in crd["spec"]["versions"]:
            if version["served"]:
                schema = version["schema"]["openAPIV3Schema"]
                yield {
                    "name": crd["metadata"]["name"],
                    "kind": crd["spec"]["names"]["kind"],
                    "version": version["name"],
                    "displayName": crd["spec"]["names"]["kind"],
                    "description": schema.get("description") or f"A {crd['spec']['names']['kind']}.",
                }


def _install(package: Package, parts: Parts) -> dict[str, Any]:
    deployment = resolved(parts.manager[0])
    pod = deployment["spec"]["template"]["spec"]
    container = pod["containers"][0]
    container["args"] = [word for word in container["args"] if not word.startswith("--namespace=")]
    container["env"] = [*container.get("env", ()), _NAMESPACES]
    if package.serves_webhooks:
        container["args"].append(f"--webhook-cert-dir={_CERTIFICATES}")
    name = package.name
    found: dict[str, Any] = {
        "deployments": [{"name": name, "label": deployment["metadata"]["labels"], "spec": deployment["spec"]}]
    }
    bound = {one["roleRef"]["name"] for one in parts.rbac if one["kind"].endswith("Binding") and one.get("subjects")}
    for kind, key in (("ClusterRole", "clusterPermissions"), ("Role", "permissions")):
        rules = [
            r for one in parts.rbac if one["kind"] == kind and one["metadata"]["name"] in bound for r in one["rules"]
        ]
        if rules:
            found[key] = [{"serviceAccountName": name, "rules": rules}]
    return found


def _webhooks(package: Package, parts: Parts) -> Iterable[dict[str, Any]]:
    common = {"admissionReviewVersions": ["v1"], "containerPort": 443, "deploymentName": package.name}
    for tree in parts.webhook[1:]:
        configuration = resolved(tree)
        kind = str(configuration["kind"]).removesuffix("WebhookConfiguration")
        for webhook in configuration["webhooks"]:
            _exclude_own_pods(package, webhook)
            kept = ("failurePolicy", "matchPolicy", "objectSelector", "reinvocationPolicy", "rules", "sideEffects")
            yield {
                **common,
                **{key: webhook[key] for key in (*kept, "timeoutSeconds") if key in webhook},
                "generateName": webhook["name"],
                "targetPort": WEBHOOK_PORT,
                "type": f"{kind}AdmissionWebhook",
                "webhookPath": webhook["clientConfig"]["service"]["path"],
            }
    converted = sorted(
        crd["metadata"]["name"]
        for crd in map(resolved, parts.crds)
        if "webhook" in (crd["spec"].get("conversion") or {})
    )
    if converted:
        yield {
            **common,
            "conversionCRDs": converted,
            "generateName": f"conversion.{package.name}.steersman.dev",
            "sideEffects": "None",
            "targetPort": WEBHOOK_PORT,
            "type": "ConversionWebhook",
            "webhookPath": "/convert",
        }


def _exclude_own_pods(package: Package, webhook: dict[str, Any]) -> None:
    """Exclude the operator's own Pods by label: a ClusterServiceVersion has no selector of namespaces.

    OLM creates the webhooks before a replica serves them, so that the API server would refuse the first Pod.
    """
    if reviews_builtin_kinds(webhook):
        given: dict[str, Any] = dict(webhook.get("objectSelector") or {})
        own = {"key": _NAME_LABEL, "operator": "NotIn", "values": [selector(package)[_NAME_LABEL]]}
        given["matchExpressions"] = [*(given.get("matchExpressions") or ()), own]
        webhook["objectSelector"] = given
