"""Bindings, matching, parameters and variables of validating and mutating admission policies.

Follows the API server's `admission/plugin/policy/generic`. Expressions have no `authorizer.requestResource`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from steersman_cluster.admission.access import Access
from steersman_cluster.admission.lookups import Lookups
from steersman_cluster.admission.matching import (
    Equivalent,
    Equivalents,
    converted,
    is_exempt,
    matches_objects,
    matching_resource,
)
from steersman_cluster.admission.review import question
from steersman_cluster.admission.write import Write
from steersman_cluster.auth.rbac import Authorizer
from steersman_cluster.auth.rules import selects
from steersman_cluster.json_access import get_object, get_objects
from steersman_cluster.objects import Object, labels_of, name_of
from steersman_cluster.strategy import Reader

__all__ = ["BoundPolicies", "ConfigurationError", "is_own_version"]

_GROUP = "admissionregistration.k8s.io"


class ConfigurationError(Exception):
    """A binding names parameters that do not exist, or not where it looks for them."""


class BoundPolicies:
    """The policies of one kind and their bindings; read once, then following changes.

    Args:
        reader: Reads policies, bindings and parameters.
        lookups: Knows namespaces.
        resources: The resource of the policies and that of their bindings.
        equivalents: The versions that are served; without it, every rule is exact.
        authorizer: Answers the variable `authorizer`.
    """

    def __init__(
        self,
        reader: Reader,
        lookups: Lookups,
        resources: tuple[str, str],
        equivalents: Equivalents | None = None,
        authorizer: Authorizer | None = None,
    ) -> None:
        self._reader = reader
        self._lookups = lookups
        self._policies, self._bindings = resources
        self._equivalents = equivalents
        self._authorizer = authorizer
        self._known: list[tuple[Object, list[Object]]] | None = None

    def changed(self, resource: str) -> None:
        """A policy or binding was written or deleted."""
        if resource in (self._policies, self._bindings):
            self._known = None

    @property
    def any(self) -> bool:
        """Whether there is a policy with a binding."""
        return bool(self._all())

    def matching(self, write: Write) -> Iterator[tuple[Object, Object, Equivalent]]:
        """Yield the policies that match a write, each with a binding and the version in which the policy sees it."""
        known = self._all()
        if not known or is_exempt(write):
            return
        for policy, bindings in known:
            seen = self._matching(get_object(get_object(policy, "spec"), "matchConstraints"), write)
            if seen is None:
                continue
            for binding in bindings:
                resources = get_object(get_object(binding, "spec"), "matchResources")
                if not resources or self._matching(resources, write) is not None:
                    yield policy, binding, seen

    def needs_webhook(self, write: Write) -> bool:
        """Return whether a policy matches another version of the object that only a webhook converts to."""
        return any(True for _ in self._versions_by_webhook(write))

    async def prepare(self, write: Write) -> None:
        """Convert the object for the policies that match versions that only a webhook converts to."""
        for seen in self._versions_by_webhook(write):
            key = (seen.group, seen.version, seen.resource)
            if key not in write.converted and self._equivalents is not None:
                write.converted[key] = await converted(write, seen, self._equivalents)

    def _versions_by_webhook(self, write: Write) -> Iterator[Equivalent]:
        known = self._all()
        if not known or self._equivalents is None or is_exempt(write):
            return
        for policy, _ in known:
            seen = self._matching(get_object(get_object(policy, "spec"), "matchConstraints"), write)
            if seen is not None and not is_own_version(seen, write) and self._equivalents.needs_webhook(seen):
                yield seen

    def _all(self) -> list[tuple[Object, list[Object]]]:
        if self._known is None:
            bound: dict[str, list[Object]] = {}
            for binding in sorted(self._reader.list(_GROUP, self._bindings), key=name_of):
                bound.setdefault(get_object(binding, "spec").get("policyName") or "", []).append(binding)
            self._known = [
                (policy, bound[name_of(policy)])
                for policy in sorted(self._reader.list(_GROUP, self._policies), key=name_of)
                if name_of(policy) in bound
            ]
        return self._known

    def _matching(self, criteria: Object, write: Write) -> Equivalent | None:
        """Return the version in which the criteria match a write; `None` if they do not match."""
        policy = criteria.get("matchPolicy")
        excluded = {"rules": _named(criteria, "excludeResourceRules", write), "matchPolicy": policy}
        if matching_resource(excluded, write, self._equivalents) is not None:
            return None
        if get_objects(criteria, "resourceRules"):
            wanted = {"rules": _named(criteria, "resourceRules", write), "matchPolicy": policy}
            seen = matching_resource(wanted, write, self._equivalents)
        else:
            seen = Equivalent(write.group, write.version, write.resource, write.kind)
        if seen is None or not matches_objects(criteria, write, self._namespace_labels(criteria, write)):
            return None
        return seen

    def _namespace_labels(self, criteria: Object, write: Write) -> dict[str, str] | None:
        if not criteria.get("namespaceSelector") or not write.effective_namespace:
            return None
        if write.resource == "namespaces" and not write.group:
            return dict(labels_of(write.obj or write.old or {}))
        return self._lookups.namespace_labels(write.namespace)

    def variables(
        self,
        param: Object | None,
        seen: Equivalent,
        write: Write,
        versions: tuple[Object | None, Object | None] | None = None,
    ) -> dict[str, Any]:
        """Return the variables of expressions; `versions` are object and old object, where they are known."""
        request: Object = question("", write, seen, None, None)["request"]
        for field in ("uid", "object", "oldObject"):
            request.pop(field, None)
        obj, old = versions or self.versioned(seen, write)
        in_namespace = write.namespace and not (write.resource == "namespaces" and not write.group)
        bound: dict[str, Any] = {
            "object": obj,
            "oldObject": old,
            "request": request,
            "params": param,
            "namespaceObject": self._lookups.namespace(write.namespace) if in_namespace else None,
        }
        if self._authorizer is not None:
            bound["authorizer"] = Access(self._authorizer, write.user)
        return bound

    def versioned(self, seen: Equivalent, write: Write) -> tuple[Object | None, Object | None]:
        """Object and old object in the version that the policy matches."""
        if is_own_version(seen, write) or self._equivalents is None:
            return write.obj, write.old
        if known := write.converted.get((seen.group, seen.version, seen.resource)):
            return known
        convert = self._equivalents.convert_now
        obj, old = write.obj, write.old
        return None if obj is None else convert(obj, seen), None if old is None else convert(old, seen)

    def params(self, spec: Object, reference: Object, write: Write) -> list[Object | None]:
        """Return the parameters of a binding, `[None]` without any. Raises `ConfigurationError`."""
        kind = get_object(spec, "paramKind")
        if not kind or not reference:
            return [None]
        group, _, version = (kind.get("apiVersion") or "").rpartition("/")
        resource, namespaced = self._resource_of(group, version, kind.get("kind") or "")
        namespace = ""
        if namespaced:
            namespace = reference.get("namespace") or write.effective_namespace
            if not namespace:
                text = "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
                raise ConfigurationError(text)
        elif reference.get("namespace"):
            raise ConfigurationError("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
        if name := reference.get("name"):
            one = self._reader.get(group, resource, namespace, name)
            found = [] if one is None else [one]
        else:
            selector = get_object(reference, "selector")
            found = [
                item for item in self._reader.list(group, resource, namespace) if selects(selector, labels_of(item))
            ]
        if not found and reference.get("parameterNotFoundAction") == "Deny":
            raise ConfigurationError("no params found for policy binding with `Deny` parameterNotFoundAction")
        return list(found)

    def _resource_of(self, group: str, version: str, kind: str) -> tuple[str, bool]:
        """Return the stored resource of a kind, and whether it is namespaced."""
        if (group, kind) in (("", "ConfigMap"), ("", "Secret")):
            return f"{kind.lower()}s", True
        for definition in self._reader.list("apiextensions.k8s.io", "customresourcedefinitions"):
            spec = get_object(definition, "spec")
            names = get_object(spec, "names")
            if spec.get("group") == group and names.get("kind") == kind:
                return names.get("plural") or "", spec.get("scope") == "Namespaced"
        raise ConfigurationError(f"paramKind kind `{group}/{version}, Kind={kind}` not known")


def is_own_version(seen: Equivalent, write: Write) -> bool:
    """Return whether a policy sees a write in the version of the request."""
    return (seen.group, seen.version) == (write.group, write.version)


def _named(criteria: Object, field: str, write: Write) -> list[Object]:
    """The rules that have no `resourceNames`, or have this object's."""
    name = write.shown_name()
    return [
        rule for rule in get_objects(criteria, field) if not rule.get("resourceNames") or name in rule["resourceNames"]
    ]
