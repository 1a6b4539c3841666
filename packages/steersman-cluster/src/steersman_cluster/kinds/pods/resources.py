"""Validation of the resource requests and limits of containers."""

from __future__ import annotations

from collections.abc import Collection

from steersman.models import Quantity
from steersman_cluster.errors import ErrorType, FieldError, field_forbidden, field_invalid, required
from steersman_cluster.json_access import get_list
from steersman_cluster.kinds import names as check
from steersman_cluster.objects import Object, Path

__all__ = ["is_extended", "is_overcommittable", "quantity_errors", "resource_errors", "resource_name_errors"]

_CONTAINER = frozenset(("cpu", "memory", "ephemeral-storage"))
_STANDARD = frozenset((
    "cpu", "memory", "ephemeral-storage", "requests.cpu", "requests.memory", "requests.ephemeral-storage",
    "limits.cpu", "limits.memory", "limits.ephemeral-storage", "pods", "resourcequotas", "services",
    "replicationcontrollers", "secrets", "configmaps", "persistentvolumeclaims", "storage", "requests.storage",
    "services.nodeports", "services.loadbalancers",
))  # fmt: skip
_COUNTED = frozenset((
    "pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "configmaps", "persistentvolumeclaims",
    "services.nodeports", "services.loadbalancers",
))  # fmt: skip
_INTEGER = "must be an integer"


def is_overcommittable(name: str) -> bool:
    """Return whether limits may be above requests: Kubernetes' own resources but for huge pages."""
    return _is_native(name) and not name.startswith("hugepages-")


def _is_native(name: str) -> bool:
    return "/" not in name or "kubernetes.io/" in name


def is_extended(name: str) -> bool:
    """Return whether it is an extended resource, which is counted in whole units."""
    return not _is_native(name) and not name.startswith("requests.")


def resource_errors(found: list[FieldError], resources: Object, path: Path, claims: Collection[str]) -> None:
    """Limits, requests, and claims by name."""
    limits: dict[str, str] = resources.get("limits") or {}
    requests: dict[str, str] = resources.get("requests") or {}
    for name, amount in limits.items():
        if name in _CONTAINER and amount[0] != "-":
            continue
        at = (path / "limits").key(name)
        resource_name_errors(found, name, at)
        quantity_errors(found, name, amount, at)
    for name, amount in requests.items():
        limit = limits.get(name)
        if name in _CONTAINER and amount[0] != "-" and (limit is None or limit == amount):
            continue
        at = (path / "requests").key(name)
        resource_name_errors(found, name, at)
        quantity_errors(found, name, amount, at)
        if limit is not None:
            _compare(found, name, amount, limit, path / "requests")
        elif not is_overcommittable(name):
            found.append(required(path / "limits", "Limit must be set for non overcommitable resources"))
    if any(name.startswith("hugepages-") for name in (*limits, *requests)) and not any(
        name in ("cpu", "memory") for name in (*limits, *requests)
    ):
        found.append(field_forbidden(path, "HugePages require cpu or memory"))
    _claims(found, resources, path / "claims", claims)


def _compare(found: list[FieldError], name: str, amount: str, limit: str, path: Path) -> None:
    asked, most = Quantity(amount), Quantity(limit)
    if asked != most and not is_overcommittable(name):
        found.append(field_invalid(path, amount, f"must be equal to {name} limit of {limit}"))
    elif asked > most:
        found.append(field_invalid(path, amount, f"must be less than or equal to {name} limit of {limit}"))


def _claims(found: list[FieldError], resources: Object, path: Path, claims: Collection[str]) -> None:
    seen: set[str] = set()
    for index, claim in enumerate(get_list(resources, "claims")):
        at, name = path.at(index), claim.get("name") or ""
        if not name:
            found.append(required(at))
            continue
        request = claim.get("request") or ""
        key = f"{name}/{request}" if request else name
        if key in seen:
            found.append(check.duplicates(at, (key, key))[0])
        seen.add(key)
        if name not in claims:
            text = "must be one of the names in pod.spec.resourceClaims"
            text = f"{text}: {', '.join(sorted(claims))}" if claims else f"{text} which is empty"
            found.append(FieldError(ErrorType.NOT_FOUND, at, name, text))


def resource_name_errors(found: list[FieldError], name: str, path: Path) -> None:
    """The name of a resource that containers may have."""
    before = len(found)
    found += check.qualified_name(path, name)
    if "/" not in name:
        if (
            len(found) == before
            and name not in _STANDARD
            and not name.startswith(("hugepages-", "requests.hugepages-"))
        ):
            found.append(field_invalid(path, name, "must be a standard resource type or fully qualified"))
        if name not in _CONTAINER and not name.startswith("hugepages-"):
            found.append(field_invalid(path, name, "must be a standard resource for containers"))
    elif not _is_native(name) and not is_extended(name):
        found.append(field_invalid(path, name, "doesn't follow extended resource name standard"))


def quantity_errors(found: list[FieldError], name: str, amount: str, path: Path) -> None:
    """No less than nothing; whole where the resource is counted."""
    found += check.quantity(path, amount)
    if (name in _COUNTED or is_extended(name)) and Quantity(amount).milli() % 1000:
        found.append(field_invalid(path, amount, _INTEGER))
