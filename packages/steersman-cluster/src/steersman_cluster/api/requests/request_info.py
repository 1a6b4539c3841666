"""The attributes of a request from its method and path, as in the API server's RequestInfoResolver."""

from __future__ import annotations

from typing import NamedTuple

from steersman_cluster.api.requests.messages import Params
from steersman_cluster.api.requests.options import truth

__all__ = ["RequestInfo", "resolve"]

_VERBS = {"POST": "create", "GET": "get", "HEAD": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_NAMESPACE_SUBRESOURCES = ("status", "finalize")


class RequestInfo(NamedTuple):
    """Verb and target; `resource` is empty where the path is no resource."""

    verb: str
    path: str
    group: str = ""
    version: str = ""
    namespace: str = ""
    resource: str = ""
    subresource: str = ""
    name: str = ""
    rest: str = ""
    """The path after the subresource, which `proxy` has."""
    item: bool = False
    """Whether the path is that of one object; lists of one name have a name, too."""

    @property
    def is_resource(self) -> bool:
        """Whether the path is below `/api` or `/apis` and names a resource, for authorization."""
        return bool(self.resource)


def resolve(method: str, path: str, params: Params) -> RequestInfo:
    """Work out the target; never fails, an unknown path is simply no resource."""
    parts = path.strip("/").split("/")
    if len(parts) >= 3 and parts[0] == "api":
        group, version, parts = "", parts[1], parts[2:]
    elif len(parts) >= 4 and parts[0] == "apis":
        group, version, parts = parts[1], parts[2], parts[3:]
    else:
        return RequestInfo(method.lower(), path)
    verb = _VERBS.get(method, method.lower())
    old_watch = parts[0] == "watch" and len(parts) > 1 and method == "GET"
    if old_watch:
        verb, parts = "watch", parts[1:]
    namespace = ""
    if parts[0] == "namespaces" and len(parts) > 1:
        namespace = parts[1]
        if len(parts) > 2 and parts[2] not in _NAMESPACE_SUBRESOURCES:
            parts = parts[2:]
    resource = parts[0]
    name = parts[1] if len(parts) > 1 else ""
    subresource = parts[2] if len(parts) > 2 else ""
    if not name and verb == "get":
        watching = "watch" in params and truth(params.get("watch"))
        verb = "watch" if watching else "list"
        name = _single(params.get("fieldSelector")) if "fieldSelector" in params else ""
    elif not name and verb == "delete":
        verb = "deletecollection"
    item = len(parts) > 1 and not old_watch
    return RequestInfo(verb, path, group, version, namespace, resource, subresource, name, "/".join(parts[3:]), item)


def _single(selector: str) -> str:
    """A list of one name is authorised like a get of it."""
    for term in selector.split(","):
        field, _, value = term.partition("=")
        if field == "metadata.name" and value:
            return value.removeprefix("=")
    return ""
