"""Validation of CRDs with the embedded cluster, if `steersman-cluster` is installed.

Loaded on demand, because the runtime image does not contain it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from steersman.extras import is_installed

if TYPE_CHECKING:
    from steersman.manifests import Check

__all__ = ["embedded_check"]


def embedded_check() -> Check | None:
    """Return the validator, or `None` without `steersman-cluster`."""
    return _check if is_installed("steersman_cluster") else None


def _check(crd: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    from steersman_cluster.crd.definition_rules import validate_definition

    spec = dict(crd["spec"])
    spec.setdefault("conversion", {"strategy": "None"})
    stored = [v["name"] for v in spec["versions"] if v.get("storage")]
    for found in validate_definition({**crd, "spec": spec, "status": {"storedVersions": stored}}):
        yield found.path, found.body
