"""The embedded cluster's own validation as a judge of CRDs, where its CEL library is installed.

Loaded on demand: the runtime image has neither.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from steersman.manifests import Check

__all__ = ["judge"]


def judge() -> Check | None:
    """The checker, or `None` without the `dev` extra."""
    return _check if find_spec("cel_expr_python") is not None else None


def _check(crd: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    from steersman.devcluster.crd.definition_rules import validate_definition

    spec = dict(crd["spec"])
    spec.setdefault("conversion", {"strategy": "None"})
    stored = [v["name"] for v in spec["versions"] if v.get("storage")]
    for found in validate_definition({**crd, "spec": spec, "status": {"storedVersions": stored}}):
        yield found.path, found.body
