"""The kustomize tree of an operator: `config/`, with folders as kubebuilder has them.

`config/default` is the whole; monitoring and network policies are components, so that an overlay can add them. Names
are final: no prefix is added by kustomize, since the operator's own code knows them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from steersman.manifests.crd import Check
from steersman.manifests.deployment import metrics_patch
from steersman.manifests.packaging import Package
from steersman.manifests.parts import Parts, parts_of
from steersman.manifests.shapes import Tree, resolved
from steersman.manifests.yaml import to_yaml

__all__ = ["kustomization", "kustomize_files"]

_API: Final = "kustomize.config.k8s.io/v1beta1"
_COMPONENT: Final = "kustomize.config.k8s.io/v1alpha1"


def kustomize_files(package: Package, *, check: Check | None = None) -> dict[str, str]:
    """The text of every file by its path below `config/`. Raises `ManifestError`."""
    parts = parts_of(package, check=check)
    files: dict[str, str] = {}
    folders = [folder for folder in (_crd(parts, files), _rbac(parts, files)) if folder]
    if package.install_crds:
        folders = [folder for folder in folders if folder != "crd"]  # the operator installs what stands there
    files["manager/manager.yaml"] = _text(_without_monitoring(package, parts))
    tag = package.reference.removeprefix(package.repository)
    image = {"name": package.repository, "newName": package.repository}
    image |= {"digest": tag.partition("@")[2]} if "@" in tag else {"newTag": tag[1:]}
    files["manager/kustomization.yaml"] = kustomization(["manager.yaml"], images=[image])
    folders.append("manager")
    if parts.webhook:
        files["webhook/manifests.yaml"] = _text(parts.webhook)
        files["webhook/kustomization.yaml"] = kustomization(["manifests.yaml"])
        folders.append("webhook")
    if parts.certmanager:
        files["certmanager/certificates.yaml"] = _text(parts.certmanager)
        files["certmanager/kustomization.yaml"] = kustomization(["certificates.yaml"])
        if package.cert_manager or package.monitoring:
            folders.append("certmanager")
    files |= _components(package, parts)
    wanted = ["network-policy"] if package.network_policies else []
    wanted += ["prometheus"] if package.monitoring and parts.monitoring else []
    more: dict[str, Any] = {"components": [f"../{name}" for name in wanted]} if wanted else {}
    files["default/kustomization.yaml"] = kustomization([f"../{name}" for name in folders], **more)
    return dict(sorted(files.items()))


def _crd(parts: Parts, files: dict[str, str]) -> str:
    if not parts.crds:
        return ""
    names: list[str] = []
    for tree in parts.crds:
        crd = resolved(tree)
        names.append(f"{crd['spec']['group']}_{crd['spec']['names']['plural']}.yaml")
        files[f"crd/{names[-1]}"] = to_yaml(crd)
    files["crd/kustomization.yaml"] = kustomization(sorted(names))
    return "crd"


def _rbac(parts: Parts, files: dict[str, str]) -> str:
    names = ["role.yaml"]
    files["rbac/role.yaml"] = to_yaml(parts.rbac)
    if parts.user_roles:
        names.append("user_roles.yaml")
        files["rbac/user_roles.yaml"] = to_yaml(parts.user_roles)
    files["rbac/kustomization.yaml"] = kustomization(names)
    return "rbac"


def _without_monitoring(package: Package, parts: Parts) -> Iterable[Tree]:
    """The manager as it is before the component for monitoring is added to it."""
    from dataclasses import replace

    return parts_of(replace(package, monitoring=False)).manager if package.monitoring else parts.manager


def _components(package: Package, parts: Parts) -> dict[str, str]:
    files: dict[str, str] = {
        "network-policy/policies.yaml": _text(parts.network),
        "network-policy/kustomization.yaml": kustomization(["policies.yaml"], component=True),
    }
    if parts.monitoring:
        files["prometheus/monitoring.yaml"] = _text(parts.monitoring)
        files["prometheus/kustomization.yaml"] = kustomization(
            ["monitoring.yaml"],
            component=True,
            patches=[{"patch": to_yaml_list(metrics_patch(package)), "target": {"kind": "Deployment"}}],
        )
    return files


def to_yaml_list(operations: list[dict[str, Any]]) -> str:
    """A JSON Patch as YAML."""
    import yaml

    return yaml.safe_dump(operations, sort_keys=True, default_flow_style=False)


def _text(trees: Iterable[Tree]) -> str:
    return to_yaml([resolved(tree) for tree in trees])


def kustomization(resources: list[str], *, component: bool = False, **more: Any) -> str:
    """The text of a kustomization, or of a component."""
    document: Mapping[str, Any] = {
        "apiVersion": _COMPONENT if component else _API,
        "kind": "Component" if component else "Kustomization",
        "resources": resources,
        **more,
    }
    return to_yaml(document)
