"""The built-in resources: registration from the packed description, with the strategies of their kinds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final, cast

from steersman_cluster import schema
from steersman_cluster.api.connect import proxy, streams
from steersman_cluster.api.interfaces import Call, Handler, ResourceType, Server, Subresource
from steersman_cluster.api.subresources import bindings, evictions
from steersman_cluster.crd import DefinitionStrategy
from steersman_cluster.kinds.registry import strategy_for
from steersman_cluster.objects import Object
from steersman_cluster.strategy import Strategy, User

__all__ = ["Builtins", "facts", "groups"]

_STORED_ELSEWHERE: Final = {("events.k8s.io", "events"): ("", "events")}
_STORED_AS: Final = {("autoscaling", "horizontalpodautoscalers"): "v2"}
_PLAIN_SUBRESOURCES: Final = frozenset(("status", "ephemeralcontainers", "resize", "finalize", "approval"))
_HANDLERS: Final[Mapping[tuple[str, str], Handler]] = {
    ("pods", "binding"): bindings.bind,
    ("pods", "eviction"): evictions.evict,
    ("pods", "log"): streams.log,
    ("pods", "exec"): streams.execute,
    ("pods", "attach"): streams.attach,
    ("pods", "portforward"): streams.portforward,
    ("pods", "proxy"): proxy.to_pod,
    ("services", "proxy"): proxy.to_service,
    ("nodes", "proxy"): proxy.to_node,
}


@cache
def facts() -> Mapping[str, Any]:
    """Return the version and the discovery documents of the supported Kubernetes release."""
    return json.loads(files("steersman_cluster").joinpath("data", "discovery.json").read_text())


@cache
def groups() -> frozenset[str]:
    """The API groups that are built in."""
    return frozenset(group["metadata"].get("name", "") for group in facts()["groups"])


def _strategy(group: str, version: str, kind: str) -> Strategy:
    if (group, kind) == ("apiextensions.k8s.io", "CustomResourceDefinition"):
        return DefinitionStrategy()
    return strategy_for(group, version, kind)


class _Builtin(ResourceType):
    """A built-in resource whose strategy and type are created at their first use."""

    __slots__ = ()

    @classmethod
    def of(cls, **known: Any) -> ResourceType:
        made = cls(strategy=cast(Any, None), type=cast(Any, None), **known)
        object.__delattr__(made, "strategy")
        object.__delattr__(made, "type")
        return made

    def __getattr__(self, name: str) -> Any:
        match name:
            case "strategy":
                found: Any = _strategy(self.group, self.version, self.kind)
            case "type":
                found = schema.builtin(self.group, self.version, self.kind)
            case _:
                raise AttributeError(name)
        object.__setattr__(self, name, found)
        return found


class Builtins:
    """Registers the built-in kinds with one API server."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def register(self) -> None:
        """Make the registry know all built-in resources."""
        for group in facts()["groups"]:
            name: str = group["metadata"].get("name", "")
            for version in group["versions"]:
                for resource in version["resources"]:
                    self._server.registry.register(self._type(name, version["version"], resource))

    def _type(self, group: str, version: str, described: Mapping[str, Any]) -> ResourceType:
        plural, kind = described["resource"], described["responseKind"]["kind"]
        verbs = frozenset(cast("list[str]", described["verbs"]))
        handler = self._server.auth.reviews.get((group, plural))
        if (group, plural) == ("", "bindings"):
            handler = bindings.bind
        return _Builtin.of(
            group=group,
            version=version,
            plural=plural,
            singular=described.get("singularResource", ""),
            kind=kind,
            namespaced=described["scope"] == "Namespaced",
            verbs=verbs,
            short_names=tuple(described.get("shortNames", ())),
            categories=tuple(described.get("categories", ())),
            subresources={
                sub["subresource"]: self._subresource(plural, sub) for sub in described.get("subresources", ())
            },
            storage_version=_STORED_AS.get((group, plural), ""),
            storage_name=_STORED_ELSEWHERE.get((group, plural)),
            handler=handler,
        )

    def _subresource(self, plural: str, described: Mapping[str, Any]) -> Subresource:
        name = described["subresource"]
        handler: Handler | None = None
        if (plural, name) == ("serviceaccounts", "token"):
            handler = self._server.auth.token_request
        elif name not in _PLAIN_SUBRESOURCES and name != "scale":
            handler = _HANDLERS.get((plural, name), _not_supported)
        kind: Mapping[str, str] = described.get("responseKind") or {}
        verbs = frozenset(cast("list[str]", described["verbs"]))
        return Subresource(verbs, handler, kind.get("group"), kind.get("version"), kind.get("kind"))

    def bootstrap(self, *, aggregated: bool) -> None:
        """Store what a new cluster has: namespaces, roles and bindings, priorities, the Service `kubernetes`."""
        from steersman_cluster.auth import bootstrap_objects

        server = self._server
        now = server.context(User("system:apiserver")).now
        for made in bootstrap_objects(now, aggregated=aggregated):
            place = (made.group, made.resource)
            if server.storage.get(place, made.namespace, made.name) is None:
                server.storage.put(place, made.namespace, made.name, made.object)
        server.kubernetes.store()


async def _not_supported(call: Call) -> Object:
    from steersman_cluster.errors import method_not_supported

    raise method_not_supported(call.resource.group, f"{call.resource.plural}/{call.subresource}", call.verb)
