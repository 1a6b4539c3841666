"""The kinds that an operator defines: those it reconciles or has webhooks for, in all versions.

Kubernetes' kinds and those declared `external` are not included. Kinds that are only owned, read or watched are
included only if the operator has a controller for them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from steersman.manifests.errors import ManifestError
from steersman.models import Resource, View
from steersman.models.resource import versions_of
from steersman.operator.operator import Operator

__all__ = ["classes_of"]


def classes_of(source: Operator | Iterable[type[Resource]]) -> list[type[Resource]]:
    """Return the classes for which CRDs are generated: the given ones, or those of an operator.

    Other versions of a kind are included if they are in the same top-level package as the class that the operator uses.
    Raises `ManifestError` for a class that is not a kind.
    """
    if not isinstance(source, Operator):
        found_classes = list(dict.fromkeys(source))
        wrong = [cls for cls in found_classes if getattr(cls, "__resource__", None) is None]
        if wrong:
            raise ManifestError(f"{cls!r} is not a kind: pass Resource classes with a version=" for cls in wrong)
        return found_classes
    found: dict[type[Resource], None] = {}
    for view in _views(source):
        cls: Any = view.type
        if view.form != "typed" or not isinstance(cls, type) or not issubclass(cls, Resource):
            continue
        if view.info.external or cls.__module__.startswith("steersman.k8s"):
            continue
        found[cls] = None
        package = cls.__module__.partition(".")[0]
        for other in versions_of(view.info.group, view.info.kind):
            same = other.__resource__.version in {c.__resource__.version for c in found if _kind(c) == _kind(other)}
            if not same and other.__module__.partition(".")[0] == package:
                found[other] = None
    return list(found)


def _kind(cls: type[Resource]) -> tuple[str, str]:
    return cls.__resource__.group, cls.__resource__.kind


def _views(operator: Operator) -> Iterable[View[Any]]:
    for controller in operator.controllers:
        yield controller.kind
    for webhook in operator.webhooks:
        yield webhook.kind
        if webhook.to is not None:
            yield webhook.to
