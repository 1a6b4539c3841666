"""The kustomize tree of an operator: `config/`, with the folders of kubebuilder.

`config/default` is the whole installation; monitoring and network policies are components that an overlay can add.
Kustomize adds no prefix to names, because the operator's code uses them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from steersman.manifests.crd import Check
from steersman.manifests.deployment import metrics_patch
from steersman.manifests.packaging import Package
from steersman.manifests.parts import Parts, parts_of
from steersman.manifests.template_values import Tree, resolved
from steersman.manifests.webhooks import INJECT
from steersman.manifests.yaml import to_yaml

__all__ = ["crd_file", "kustomization", "kustomize_files"]

_API: Final = "kustomize.config.k8s.io/v1beta1"
_COMPONENT: Final = "kustomize.config.k8s.io/v1alpha1"
_WORD_START: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")


def kustomize_files(package: Package, *, check: Check | None = None, split: bool = False) -> dict[str, str]:
    """Return the files by path below `config/`; with `split`, one file per object. Raises `ManifestError`."""
    parts = parts_of(package, check=check)
    files: dict[str, str] = {}
    folders = [folder for folder in (_crd(parts, files), _rbac(parts, files, split=split)) if folder]
    if package.install_crds:
        folders = [folder for folder in folders if folder != "crd"]  # the operator installs the CRDs itself
    manager = _place(files, "manager", "manager.yaml", _without_monitoring(package, parts), split=split)
    tag = package.reference.removeprefix(package.repository)
    image = {"name": package.repository, "newName": package.repository}
    image |= {"digest": tag.partition("@")[2]} if "@" in tag else {"newTag": tag[1:]}
    files["manager/kustomization.yaml"] = kustomization(manager, images=[image])
    folders.append("manager")
    if parts.webhook:
        names = _place(files, "webhook", "manifests.yaml", parts.webhook, split=split)
        files["webhook/kustomization.yaml"] = kustomization(names)
        folders.append("webhook")
    if parts.certmanager:
        names = _place(files, "certmanager", "certificates.yaml", parts.certmanager, split=split)
        files["certmanager/kustomization.yaml"] = kustomization(names)
        if package.cert_manager or package.monitoring:
            folders.append("certmanager")
    files |= _components(package, parts, split=split)
    wanted = ["network-policy"] if package.network_policies else []
    wanted += ["prometheus"] if package.monitoring and parts.monitoring else []
    more: dict[str, Any] = {"components": [f"../{name}" for name in wanted]} if wanted else {}
    if "crd" in folders and (patches := [patch for tree in parts.crds for patch in _conversion_patches(tree)]):
        more["patches"] = patches
    files["default/kustomization.yaml"] = kustomization([f"../{name}" for name in folders], **more)
    return dict(sorted(files.items()))


def _place(files: dict[str, str], folder: str, name: str, trees: Iterable[Tree], *, split: bool) -> list[str]:
    """Add documents to a folder, in one file or one file each; return the names of the files."""
    documents = [resolved(tree) for tree in trees]
    if not split or len(documents) < 2:
        files[f"{folder}/{name}"] = to_yaml(documents)
        return [name]
    names: list[str] = []
    for document in documents:
        # Names of RBAC objects may have colons, which some file systems do not support.
        words = [_WORD_START.sub("_", document["kind"]).lower(), str(document["metadata"]["name"]).replace(":", "_")]
        if "_".join(words) + ".yaml" in names:
            words.insert(1, str(document["metadata"]["namespace"]))
        names.append("_".join(words) + ".yaml")
        files[f"{folder}/{names[-1]}"] = to_yaml(document)
    return names


def _crd(parts: Parts, files: dict[str, str]) -> str:
    """Add the CRDs without conversions, which need the Service of the whole tree."""
    if not parts.crds:
        return ""
    names: list[str] = []
    for tree in parts.crds:
        crd = _without_conversion(resolved(tree))
        names.append(crd_file(crd))
        files[f"crd/{names[-1]}"] = to_yaml(crd)
    files["crd/kustomization.yaml"] = kustomization(sorted(names))
    return "crd"


def _without_conversion(crd: Mapping[str, Any]) -> dict[str, Any]:
    """Return the CRD without `spec.conversion` and cert-manager's annotation for it."""
    metadata: dict[str, Any] = dict(crd["metadata"])
    given: dict[str, str] = metadata.pop("annotations", None) or {}
    if annotations := {key: value for key, value in given.items() if key != INJECT}:
        metadata["annotations"] = annotations
    spec = {key: value for key, value in crd["spec"].items() if key != "conversion"}
    return {**crd, "metadata": metadata, "spec": spec}


def _conversion_patches(tree: Tree) -> Iterator[dict[str, Any]]:
    """Yield the patch of `config/default` that adds the conversion to a CRD."""
    crd = resolved(tree)
    conversion = crd["spec"].get("conversion")
    if conversion is None:
        return
    name = crd["metadata"]["name"]
    metadata: dict[str, Any] = {"name": name}
    annotations: dict[str, str] = crd["metadata"].get("annotations") or {}
    if INJECT in annotations:
        metadata["annotations"] = {INJECT: annotations[INJECT]}
    patch = {
        "apiVersion": crd["apiVersion"],
        "kind": crd["kind"],
        "metadata": metadata,
        "spec": {"conversion": conversion},
    }
    yield {"patch": to_yaml(patch), "target": {"kind": crd["kind"], "name": name}}


def crd_file(crd: Mapping[str, Any]) -> str:
    """Return the path of a CRD's file below `config/crd`: its folder has no kustomization, for `kubectl apply -f`."""
    return f"bases/{crd['spec']['group']}_{crd['spec']['names']['plural']}.yaml"


def _rbac(parts: Parts, files: dict[str, str], *, split: bool) -> str:
    names = _place(files, "rbac", "role.yaml", parts.rbac, split=split)
    if parts.user_roles:
        names += _place(files, "rbac", "user_roles.yaml", parts.user_roles, split=split)
    files["rbac/kustomization.yaml"] = kustomization(names)
    return "rbac"


def _without_monitoring(package: Package, parts: Parts) -> Iterable[Tree]:
    """Return the manager before the component for monitoring is added."""
    from dataclasses import replace

    return parts_of(replace(package, monitoring=False)).manager if package.monitoring else parts.manager


def _components(package: Package, parts: Parts, *, split: bool) -> dict[str, str]:
    files: dict[str, str] = {}
    policies = _place(files, "network-policy", "policies.yaml", parts.network, split=split)
    files["network-policy/kustomization.yaml"] = kustomization(policies, component=True)
    if parts.monitoring:
        files["prometheus/kustomization.yaml"] = kustomization(
            _place(files, "prometheus", "monitoring.yaml", parts.monitoring, split=split),
            component=True,
            patches=[{"patch": to_yaml_list(metrics_patch(package)), "target": {"kind": "Deployment"}}],
        )
    return files


def to_yaml_list(operations: list[dict[str, Any]]) -> str:
    """Return a JSON Patch as YAML."""
    import yaml

    return yaml.safe_dump(operations, sort_keys=True, default_flow_style=False)


def kustomization(resources: list[str], *, component: bool = False, **more: Any) -> str:
    """Return the text of a kustomization, or of a component."""
    document: Mapping[str, Any] = {
        "apiVersion": _COMPONENT if component else _API,
        "kind": "Component" if component else "Kustomization",
        "resources": resources,
        **more,
    }
    return to_yaml(document)
