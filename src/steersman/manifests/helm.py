"""A Helm chart of an operator: the documents of the kustomize tree, with values that users can set.

With default values the chart gives the same objects as `config/default`, except the Namespace, which is that of the
release. CRDs are templates, so upgrades update them; they stay after an uninstall unless `crds.keep` is false.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final, cast

import yaml

from steersman.manifests.config_directory import HEADER
from steersman.manifests.crd import Check
from steersman.manifests.packaging import Package
from steersman.manifests.parts import Parts, parts_of
from steersman.manifests.samples import examples
from steersman.manifests.template_values import HOME, Each, Tree, When, resolved, templated
from steersman.manifests.values import schema_text, values_text
from steersman.manifests.yaml import to_yaml

__all__ = ["CHART_FOLDERS", "chart_files"]

CHART_FOLDERS: Final = ("templates", "templates/crds")
_WATCHED: Final = "steersman-watched-namespace"
"""Placeholder for each namespace that the operator watches."""

_HELPERS: Final = """\
{{/* The image, by digest where one is given. */}}
{{- define "image" -}}
{{- if .Values.image.digest -}}
{{ printf "%s@%s" .Values.image.repository .Values.image.digest }}
{{- else -}}
{{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) }}
{{- end -}}
{{- end -}}
"""
_NOTES: Final = """\
{{ .Chart.Name }} {{ .Chart.AppVersion }} runs in {{ .Release.Namespace }}.

  kubectl -n {{ .Release.Namespace }} rollout status deployment/%(name)s
  kubectl -n {{ .Release.Namespace }} logs -f deployment/%(name)s
"""


def chart_files(package: Package, *, check: Check | None = None) -> dict[str, str]:
    """Return the text of every file by its path below the chart's directory. Raises `ManifestError`."""
    # All documents that a value can enable; a condition guards those that are not in the defaults.
    widest = replace(package, namespace=HOME, namespaces=(), metrics=True, certificates="cert-manager")
    parts = parts_of(widest, check=check)
    files: dict[str, str] = {
        "Chart.yaml": HEADER + to_yaml(_chart(package)),
        "values.yaml": HEADER + values_text(package),
        "values.schema.json": schema_text(package),
        ".helmignore": ".*\n*.tgz\n",
        "templates/_helpers.tpl": _HELPERS,
        "templates/NOTES.txt": _NOTES % {"name": package.name},
    }
    for crd in parts.crds:
        spec = crd["spec"]
        files[f"templates/crds/{spec['group']}_{spec['names']['plural']}.yaml"] = HEADER + _if(
            "and .Values.crds.enabled (not .Values.crds.installedByOperator)", templated(_kept(crd))
        )
    files["templates/rbac.yaml"] = HEADER + _rbac(package)
    if parts.user_roles:
        files["templates/user_roles.yaml"] = HEADER + _if(
            ".Values.userRoles.enabled", templated(list(parts.user_roles))
        )
    files |= _manager(parts)
    if parts.webhook:
        service, *configurations = parts.webhook
        narrowed = [_narrowed(one) for one in configurations]
        files["templates/webhooks.yaml"] = HEADER + templated([service, *narrowed])
    monitored = [one for one in parts.monitoring if one["kind"] == "Certificate"]
    needed = ".Values.certManager.enabled"
    if not package.serves_webhooks:
        needed = "and .Values.certManager.enabled .Values.monitoring.enabled"
    text = _if(needed, templated(list(parts.certmanager)))
    also = _if("and .Values.certManager.enabled .Values.monitoring.enabled", templated(monitored))
    files["templates/certificates.yaml"] = HEADER + text + "---\n" + also
    rest = [one for one in parts.monitoring if one["kind"] != "Certificate"]
    files["templates/monitoring.yaml"] = HEADER + _if(".Values.monitoring.enabled", templated(rest))
    files["templates/network_policies.yaml"] = HEADER + _if(
        ".Values.networkPolicies.enabled", templated([_guarded(one) for one in parts.network])
    )
    return dict(sorted(files.items()))


def _chart(package: Package) -> dict[str, Any]:
    return {
        "apiVersion": "v2",
        "name": package.name,
        "description": package.description or f"The operator {package.name}.",
        "type": "application",
        "version": package.version,
        "appVersion": _tag(package),
        "kubeVersion": ">=1.29.0-0",
        "annotations": _artifact_hub(package),
    }


def _artifact_hub(package: Package) -> dict[str, str]:
    """Return the annotations that Artifact Hub shows (artifacthub.io/docs/topics/annotations/helm)."""
    plain = parts_of(replace(package, certificates="self-managed"))
    crds = [resolved(tree)["spec"] for tree in plain.crds]
    shown = [
        {
            "kind": spec["names"]["kind"],
            "version": version["name"],
            "name": f"{spec['names']['plural']}.{spec['group']}",
            "displayName": spec["names"]["kind"],
            "description": version["schema"]["openAPIV3Schema"].get("description") or f"A {spec['names']['kind']}.",
        }
        for spec in crds
        for version in spec["versions"]
        if version["served"]
    ]
    found = {
        "artifacthub.io/images": _list([{"name": "manager", "image": package.reference}]),
        "artifacthub.io/operator": "true",
        "artifacthub.io/operatorCapabilities": "Basic Install",
    }
    if shown:
        found["artifacthub.io/crds"] = _list(shown)
        found["artifacthub.io/crdsExamples"] = _list(examples(plain, ()))
    return found


def _list(items: list[dict[str, Any]]) -> str:
    return yaml.safe_dump(items, sort_keys=True, default_flow_style=False)


def _tag(package: Package) -> str:
    """Return the tag of the image, which is the chart's default."""
    _, _, tag = package.reference.partition("@")[0].removeprefix(package.repository).partition(":")
    return tag or package.version


def _if(condition: str, text: str) -> str:
    return f"{{{{- if {condition} }}}}\n{text}{{{{- end }}}}\n"


def _kept(crd: Tree) -> Tree:
    """Return the CRD with Helm's annotation that keeps it after an uninstall."""
    found: dict[str, Any] = dict(crd["metadata"])
    annotations: dict[str, Any] = {"helm.sh/resource-policy": When(".Values.crds.keep", holds=True, value="keep")}
    condition = ".Values.crds.keep"
    match found.get("annotations"):
        case When() as given:
            annotations |= {key: When(given.condition, given.holds, value) for key, value in given.value.items()}
            condition = f"or {condition} {given.condition}"
        case given:
            annotations |= cast("dict[str, Any]", given or {})
    found["annotations"] = When(condition, holds=True, value=annotations)
    return {**crd, "metadata": found}


def _manager(parts: Parts) -> dict[str, str]:
    deployment, budget, service = parts.manager
    return {
        "templates/deployment.yaml": HEADER + templated(deployment),
        "templates/pod_disruption_budget.yaml": HEADER + _if(".Values.podDisruptionBudget.enabled", templated(budget)),
        "templates/metrics_service.yaml": HEADER + _if(".Values.metrics.enabled", templated(service)),
    }


def _guarded(policy: dict[str, Any]) -> Tree:
    """Return the policy for metrics without ingress if metrics are disabled."""
    if not policy["metadata"]["name"].endswith("-metrics"):
        return policy
    spec = dict(policy["spec"])
    spec["ingress"] = When(".Values.metrics.enabled", holds=True, value=spec["ingress"])
    return {**policy, "spec": spec}


def _narrowed(configuration: dict[str, Any]) -> Tree:
    webhooks: list[Any] = []
    for webhook in configuration["webhooks"]:
        inside = {
            "key": "kubernetes.io/metadata.name",
            "operator": "In",
            "values": [Each(".Values.watchNamespaces", "{}")],
        }
        selector: dict[str, Any] = dict(webhook.get("namespaceSelector") or {})
        expressions: Any = list(selector.get("matchExpressions") or ())
        if expressions or selector:
            selector["matchExpressions"] = [*expressions, When(".Values.watchNamespaces", holds=False, value=[inside])]
            if not expressions:
                selector["matchExpressions"] = When(".Values.watchNamespaces", holds=False, value=[inside])
            webhooks.append({**webhook, "namespaceSelector": selector})
        else:
            narrow = When(".Values.watchNamespaces", holds=False, value={"matchExpressions": [inside]})
            webhooks.append({**webhook, "namespaceSelector": narrow})
    return {**configuration, "webhooks": webhooks}


def _rbac(package: Package) -> str:
    """Return roles for all namespaces, or one for each; roles for metrics only with metrics."""

    def of(
        namespaces: tuple[str, ...], *, metrics: bool, own_certificates: bool = False, install_crds: bool = False
    ) -> list[dict[str, Any]]:
        # From the parts, so that the chart has all their permissions.
        certificates = "self-managed" if own_certificates else "cert-manager"
        asked = replace(package, namespace=HOME, namespaces=namespaces, metrics=metrics, certificates=certificates)
        asked = replace(asked, install_crds=install_crds)
        return [one for one in parts_of(asked).rbac if one["kind"] != "Namespace"]

    wide, narrow = of((), metrics=False), of((_WATCHED,), metrics=False)
    metrics = [one for one in of((), metrics=True) if one not in wide]
    certificates = [one for one in of((), metrics=False, own_certificates=True) if one not in wide]
    definitions = [one for one in of((), metrics=False, install_crds=True) if one not in wide]
    always = [one for one in wide if one in narrow]
    everywhere = [one for one in wide if one not in narrow]
    watched = [one for one in narrow if one not in wide and one["metadata"].get("namespace") == _WATCHED]
    also = [one for one in narrow if one not in wide and one not in watched]
    text = templated(always) + "---\n"
    text += "{{- if .Values.watchNamespaces }}\n"
    if also:
        text += templated(also) + "---\n"
    text += "{{- range .Values.watchNamespaces }}\n" + _several(watched).replace(_WATCHED, "{{ . }}") + "{{- end }}\n"
    text += "{{- else }}\n" + templated(everywhere) + "{{- end }}\n"
    if certificates:
        text += _if("not .Values.certManager.enabled", "---\n" + templated(certificates))
    if definitions:
        text += _if(".Values.crds.installedByOperator", "---\n" + templated(definitions))
    return text + _if(".Values.metrics.enabled", "---\n" + templated(metrics))


def _several(documents: Sequence[dict[str, Any]]) -> str:
    return "".join("---\n" + templated(one) for one in cast("Iterable[Any]", documents))
