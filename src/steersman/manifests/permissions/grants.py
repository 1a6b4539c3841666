"""The permissions of roles and bindings, as single permissions that can be compared with requests.

The input are RBAC objects, generated or from a cluster. The matching is that of Kubernetes: wildcards, resource names,
subresources and URL prefixes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

__all__ = ["DEFAULT_GRANTS", "Grant", "Request", "grants_of"]


@dataclass(frozen=True, slots=True, order=True)
class Request:
    """One request: a verb on a resource (`deployments/scale`), or on the path of a URL."""

    verb: str
    group: str = ""
    resource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    def __str__(self) -> str:
        if self.path:
            return f"{self.verb} {self.path}"
        name, _, subresource = self.resource.partition("/")
        what = ".".join(filter(None, (name, self.group)))
        where = f" in {self.namespace}" if self.namespace else ""
        return f"{self.verb} " + "/".join(filter(None, (what, subresource))) + where


@dataclass(frozen=True, slots=True, order=True)
class Grant:
    """One verb on one resource, or on one URL pattern; `namespace` is empty for all namespaces."""

    verb: str
    group: str = ""
    resource: str = ""
    namespace: str = ""
    names: tuple[str, ...] = ()
    path: str = ""
    role: str = ""

    def allows(self, request: Request) -> bool:
        """Return whether this permission alone allows the request; a list of all namespaces needs all namespaces."""
        if self.verb not in ("*", request.verb):
            return False
        if self.path or request.path:
            return bool(self.path and request.path) and _path_matches(self.path, request.path)
        return (
            self.group in ("*", request.group)
            and _resource_matches(self.resource, request.resource)
            and self.namespace in ("", request.namespace)
            and (not self.names or request.name in self.names)
        )

    def __str__(self) -> str:
        text = str(Request(self.verb, self.group, self.resource, self.namespace, path=self.path))
        return f"{text} named {', '.join(self.names)}" if self.names else text


def _resource_matches(pattern: str, resource: str) -> bool:
    if pattern in ("*", resource):
        return True
    return pattern.startswith("*/") and pattern[2:] == resource.partition("/")[2]


def _path_matches(pattern: str, path: str) -> bool:
    return pattern == path or (pattern.endswith("*") and path.startswith(pattern.rstrip("*")))


_DISCOVERY: Final = ("/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*", "/version", "/version/")
_HEALTH: Final = ("/healthz", "/livez", "/readyz", "/healthz/*", "/livez/*", "/readyz/*")
DEFAULT_GRANTS: Final = (
    *(Grant("get", path=path, role="system:discovery") for path in (*_DISCOVERY, *_HEALTH)),
    *(
        Grant("create", "authorization.k8s.io", resource, role="system:basic-user")
        for resource in ("selfsubjectaccessreviews", "selfsubjectrulesreviews")
    ),
    Grant("create", "authentication.k8s.io", "selfsubjectreviews", role="system:basic-user"),
)
"""The permissions of every authenticated user in every cluster."""


def grants_of(objects: Iterable[Mapping[str, Any]], subject: tuple[str, str]) -> list[Grant]:
    """Return the permissions of the ServiceAccount `subject` (namespace, name) by the bindings in `objects`; sorted.

    A binding to a role that is not among the objects grants nothing.
    """
    found = list(objects)
    roles = {
        (o["kind"], o["metadata"].get("namespace", ""), o["metadata"]["name"]): o.get("rules") or ()
        for o in found
        if o.get("kind") in ("Role", "ClusterRole")
    }
    grants: set[Grant] = set()
    for binding in found:
        if binding.get("kind") not in ("RoleBinding", "ClusterRoleBinding") or not _binds(binding, subject):
            continue
        namespace = binding["metadata"].get("namespace", "") if binding["kind"] == "RoleBinding" else ""
        ref = binding["roleRef"]
        home = namespace if ref["kind"] == "Role" else ""
        for rule in roles.get((ref["kind"], home, ref["name"]), ()):
            grants.update(_of_rule(rule, namespace, ref["name"]))
    return sorted(grants)


def _binds(binding: Mapping[str, Any], subject: tuple[str, str]) -> bool:
    namespace, name = subject
    groups = {"system:authenticated", "system:serviceaccounts", f"system:serviceaccounts:{namespace}"}
    for entry in binding.get("subjects") or ():
        match entry.get("kind"):
            case "ServiceAccount" if (entry.get("namespace"), entry.get("name")) == subject:
                return True
            case "User" if entry.get("name") == f"system:serviceaccount:{namespace}:{name}":
                return True
            case "Group" if entry.get("name") in groups:
                return True
            case _:
                continue
    return False


def _of_rule(rule: Mapping[str, Any], namespace: str, role: str) -> Iterable[Grant]:
    names = tuple(sorted(rule.get("resourceNames") or ()))
    for verb in rule.get("verbs") or ():
        for path in rule.get("nonResourceURLs") or ():
            yield Grant(verb, path=path, role=role)
        for group in rule.get("apiGroups") or ():
            for resource in rule.get("resources") or ():
                yield Grant(verb, group, resource, namespace, names, role=role)
