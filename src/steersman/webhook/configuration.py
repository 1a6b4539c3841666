"""Mutating- and ValidatingWebhookConfigurations, derived from the declarations.

The manifests, runs outside of a cluster and the tests share this code. Names and paths are those of kubebuilder. See
admissionregistration.k8s.io/v1.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

import msgspec

from steersman.models import ResourceInfo, View

__all__ = ["ClientConfig", "MatchCondition", "Purpose", "WebhookOptions", "WebhookRule", "configurations", "path_of"]

Purpose: TypeAlias = Literal["defaulter", "validator", "mutator"]

API_VERSION: Final = "admissionregistration.k8s.io/v1"


class MatchCondition(msgspec.Struct, frozen=True):
    """A condition in CEL that a request must meet (`request`, `object`, `oldObject`, `authorizer`)."""

    name: str
    expression: str


class WebhookOptions(msgspec.Struct, frozen=True):
    """The options of a webhook declaration; the defaults are those of the API, except `side_effects`."""

    failure_policy: Literal["Fail", "Ignore"] = "Fail"
    match_policy: Literal["Equivalent", "Exact"] = "Equivalent"
    side_effects: Literal["None", "NoneOnDryRun"] = "None"
    timeout: int = 10
    namespace_selector: Mapping[str, Any] | None = None
    object_selector: Mapping[str, Any] | None = None
    match_conditions: Sequence[MatchCondition] = ()
    reinvocation: Literal["Never", "IfNeeded"] = "Never"
    subresources: tuple[str, ...] = ()
    """Subresources whose requests are reviewed, such as `status`; `""` is the object itself. Empty: the object only."""
    scope: Literal["*", "Namespaced", "Cluster"] = "*"

    def problem(self, *, mutating: bool) -> str:
        """Return the error of these options, or an empty string."""
        if not 1 <= self.timeout <= 30:
            return f"timeout={self.timeout}: must be from 1 to 30 seconds"
        if not mutating and self.reinvocation != "Never":
            return "reinvocation= applies to mutating webhooks only"
        if len(self.match_conditions) > 64:
            return "match_conditions=: at most 64"
        names = [c.name for c in self.match_conditions]
        if len(set(names)) < len(names):
            return "match_conditions=: two conditions have the same name"
        return ""


class WebhookRule(msgspec.Struct, frozen=True):
    """One webhook of a configuration."""

    purpose: Purpose
    view: View[Any]
    operations: tuple[str, ...]
    path: str
    options: WebhookOptions = msgspec.field(default_factory=WebhookOptions)

    @property
    def mutating(self) -> bool:
        """Whether the webhook belongs into a MutatingWebhookConfiguration."""
        return self.purpose != "validator"


class ClientConfig(msgspec.Struct, frozen=True):
    """The address of the webhooks for the API server: a Service, or a URL without a path; and the CA to trust."""

    service: tuple[str, str, int] | None = None
    """Namespace, name and port."""
    url: str = ""
    ca_bundle: bytes = b""
    """PEM; empty if another component injects it."""

    def at(self, path: str) -> dict[str, Any]:
        """Return the `clientConfig` of the webhook at a path."""
        config: dict[str, Any] = {}
        if self.service is not None:
            namespace, name, port = self.service
            config["service"] = {"namespace": namespace, "name": name, "path": path, "port": port}
        else:
            config["url"] = self.url.rstrip("/") + path
        if self.ca_bundle:
            config["caBundle"] = base64.b64encode(self.ca_bundle).decode()
        return config


def path_of(purpose: Purpose, info: ResourceInfo, subresources: Sequence[str] = ()) -> str:
    """Return the path for requests of a kind, such as `/mutate-apps-example-com-v1-helloapp`."""
    verb = "validate" if purpose == "validator" else "mutate"
    group = info.group.replace(".", "-") if info.group else ""
    path = f"/{verb}-{group}-{info.version}-{info.kind.lower()}"
    more = "-".join(s for s in subresources if s)
    return f"{path}-{more}" if more else path


def configurations(
    rules: Iterable[WebhookRule],
    *,
    name: str,
    client_config: ClientConfig,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> list[dict[str, Any]]:
    """Return the webhook configurations of an operator; empty if it declares no webhooks."""
    found: list[dict[str, Any]] = []
    ordered = sorted(rules, key=lambda r: r.path)
    for kind, prefix, mutating in (
        ("MutatingWebhookConfiguration", "m", True),
        ("ValidatingWebhookConfiguration", "v", False),
    ):
        webhooks = [_webhook(rule, prefix, client_config) for rule in ordered if rule.mutating is mutating]
        if not webhooks:
            continue
        metadata: dict[str, Any] = {"name": f"{name}-{'mutating' if mutating else 'validating'}"}
        if labels:
            metadata["labels"] = dict(labels)
        if annotations:
            metadata["annotations"] = dict(annotations)
        found.append({"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "webhooks": webhooks})
    return found


def _webhook(rule: WebhookRule, prefix: str, client_config: ClientConfig) -> dict[str, Any]:
    info, options = rule.view.info, rule.options
    resources = [f"{info.plural}/{s}" if s else info.plural for s in options.subresources or ("",)]
    # A webhook name has at least three segments and is unique in its configuration.
    domain = info.group if "." in info.group else f"{info.group or 'core'}.k8s.io"
    suffix = f"-{info.version}" + "".join(f"-{s}" for s in options.subresources if s)
    suffix += rule.path.removeprefix(path_of(rule.purpose, info, options.subresources))
    webhook: dict[str, Any] = {
        "name": f"{prefix}{info.kind.lower()}{suffix}.{domain}",
        "admissionReviewVersions": ["v1"],
        "clientConfig": client_config.at(rule.path),
        "failurePolicy": options.failure_policy,
        "matchPolicy": options.match_policy,
        "sideEffects": options.side_effects,
        "timeoutSeconds": options.timeout,
        "rules": [
            {
                "apiGroups": [info.group],
                "apiVersions": [info.version],
                "operations": [operation.upper() for operation in rule.operations],
                "resources": resources,
                "scope": options.scope,
            }
        ],
    }
    if rule.mutating:
        webhook["reinvocationPolicy"] = options.reinvocation
    if options.namespace_selector is not None:
        webhook["namespaceSelector"] = dict(options.namespace_selector)
    if options.object_selector is not None:
        webhook["objectSelector"] = dict(options.object_selector)
    if options.match_conditions:
        webhook["matchConditions"] = [{"name": c.name, "expression": c.expression} for c in options.match_conditions]
    return webhook
