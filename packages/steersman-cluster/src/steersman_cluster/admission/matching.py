"""Matching of webhooks and writes: rules, scopes and selectors. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from steersman_cluster.admission.write import Write
from steersman_cluster.auth.rules import selects
from steersman_cluster.json_access import get_object, get_objects, get_strings
from steersman_cluster.objects import Object, labels_of
from steersman_cluster.schema import Type

__all__ = [
    "Equivalent",
    "Equivalents",
    "converted",
    "is_exempt",
    "matches_objects",
    "matching_resource",
    "rule_matches",
]

_EXEMPT = {
    "validatingwebhookconfigurations",
    "mutatingwebhookconfigurations",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
}


@dataclass(frozen=True, slots=True)
class Equivalent:
    """One group and version in which a resource is served, with the kind of its objects there."""

    group: str
    version: str
    resource: str
    kind: str
    kind_group: str | None = None
    """Group of the kind, where it is not the resource's (Scale)."""
    kind_version: str | None = None

    @property
    def api_version(self) -> str:
        """The apiVersion of the objects."""
        group = self.group if self.kind_group is None else self.kind_group
        version = self.version if self.kind_version is None else self.kind_version
        return f"{group}/{version}" if group else version


class Equivalents(Protocol):
    """The groups and versions that serve the same objects, and conversion between them."""

    def equivalents(self, group: str, version: str, resource: str, subresource: str) -> Iterable[Equivalent]:
        """Return the resources that serve the same objects, the given one included."""
        ...

    def needs_webhook(self, seen: Equivalent) -> bool:
        """Return whether conversion to a version calls a conversion webhook."""
        ...

    def structure(self, seen: Equivalent) -> Type | None:
        """Return the structure of the objects of a version; `None` where it is not served."""
        ...

    async def convert(self, obj: Object, seen: Equivalent) -> Object:
        """Return an object in another version. Raises `APIError`."""
        ...

    def convert_now(self, obj: Object, seen: Equivalent) -> Object:
        """Return an object in another version that needs no webhook. Raises `APIError`."""
        ...


async def converted(write: Write, seen: Equivalent, equivalents: Equivalents) -> tuple[Object | None, Object | None]:
    """Return the object and the old object of a write in another version. Raises `APIError`."""
    obj, old = write.obj, write.old
    return (
        None if obj is None else await equivalents.convert(obj, seen),
        None if old is None else await equivalents.convert(old, seen),
    )


def is_exempt(write: Write) -> bool:
    """Return whether no webhook may see a write, so that a bad one can be removed."""
    return write.group == "admissionregistration.k8s.io" and write.resource in _EXEMPT


def rule_matches(rule: Object, write: Write, group: str, version: str, resource: str) -> bool:
    """Return whether a rule concerns a write of `resource` as it is served in `group` and `version`."""
    return (
        _listed(rule, "operations", write.operation)
        and _listed(rule, "apiGroups", group)
        and _listed(rule, "apiVersions", version)
        and any(_resource_matches(item, resource, write.subresource) for item in get_strings(rule, "resources"))
        and _scope_matches(rule.get("scope"), write)
    )


def _listed(rule: Object, field: str, wanted: str) -> bool:
    values = get_strings(rule, field)
    return wanted in values or "*" in values


def _resource_matches(item: str, resource: str, subresource: str) -> bool:
    head, _, tail = item.partition("/")
    return head in ("*", resource) and tail in ("*", subresource)


def _scope_matches(scope: str | None, write: Write) -> bool:
    is_namespace = write.resource == "namespaces" and not write.group
    match scope:
        case "Namespaced":
            return not is_namespace and bool(write.namespace)
        case "Cluster":
            return is_namespace or not write.namespace
        case _:
            return True


def matching_resource(webhook: Object, write: Write, equivalents: Equivalents | None) -> Equivalent | None:
    """Return the group and version in which a webhook receives a write; `None` if no rule matches."""
    rules = get_objects(webhook, "rules")
    for rule in rules:
        if rule_matches(rule, write, write.group, write.version, write.resource):
            return Equivalent(write.group, write.version, write.resource, write.kind)
    if equivalents is None or (webhook.get("matchPolicy") or "Equivalent") != "Equivalent":
        return None
    others = [
        item
        for item in equivalents.equivalents(write.group, write.version, write.resource, write.subresource)
        if (item.group, item.version, item.resource) != (write.group, write.version, write.resource)
    ]
    for rule in rules:
        for other in others:
            if rule_matches(rule, write, other.group, other.version, other.resource):
                return other
    return None


def matches_objects(webhook: Object, write: Write, namespace_labels: Mapping[str, str] | None) -> bool:
    """Return whether the selectors of a webhook match the old or the new object, and the labels of its namespace.

    `namespace_labels` is `None` for an object without a namespace, which matches every namespace selector.
    """
    namespaces = get_object(webhook, "namespaceSelector")
    if namespaces and namespace_labels is not None and not selects(namespaces, namespace_labels):
        return False
    objects = get_object(webhook, "objectSelector")
    if not objects:
        return True
    return any(selects(objects, labels_of(item)) for item in (write.obj, write.old) if item is not None)
