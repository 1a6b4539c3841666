"""The kinds of the benchmarks by the plurals that the driver says, in the form that a peer is told to read them in."""

from __future__ import annotations

import importlib
from typing import Any

from benchmarks.peers.widget import Widget
from steersman.models import dynamic, info_of, metadata_of

_BUILT_IN = {
    "pods": ("steersman.k8s", "Pod"),
    "configmaps": ("steersman.k8s", "ConfigMap"),
    "secrets": ("steersman.k8s", "Secret"),
    "services": ("steersman.k8s", "Service"),
    "serviceaccounts": ("steersman.k8s", "ServiceAccount"),
    "deployments": ("steersman.k8s", "Deployment"),
    "replicasets": ("steersman.k8s", "ReplicaSet"),
    "jobs": ("steersman.k8s", "Job"),
    "ingresses": ("steersman.k8s", "Ingress"),
    "roles": ("steersman.k8s", "Role"),
}
MIXED = ("widgets", *_BUILT_IN)
"""The kinds that `--kind mixed` watches, the same for every peer."""
FORMS = ("typed", "unstructured", "metadata")


def kind_of(plural: str, form: str) -> Any:
    """The class or view for a kind in a form; raises KeyError for a kind that the benchmarks do not have."""
    if plural == "widgets":
        kind: Any = Widget
    else:
        module, name = _BUILT_IN[plural]
        kind = getattr(importlib.import_module(module), name)
    if form == "typed":
        return kind
    if form == "metadata":
        return metadata_of(kind)
    info = info_of(kind)
    return dynamic(info.api_version, info.kind, plural=info.plural, namespaced=info.namespaced)
