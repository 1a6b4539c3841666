"""Documents of the server: versions, health, discovery, OpenAPI, keys of the token issuer."""

from __future__ import annotations

import base64
import hashlib
import re
from typing import Any, Final

from steersman_cluster.api.aggregation import discovered
from steersman_cluster.api.builtins import facts, groups
from steersman_cluster.api.discovery.health import HEALTH_PATHS, is_health, serve_health
from steersman_cluster.api.discovery.openapi import OpenAPI
from steersman_cluster.api.interfaces import ResourceType, Server
from steersman_cluster.api.reads import present
from steersman_cluster.api.requests.messages import Request, Response, encode, json_response
from steersman_cluster.api.requests.negotiation import form_of
from steersman_cluster.api.verbs import not_allowed
from steersman_cluster.errors import APIError, not_acceptable, unknown_path
from steersman_cluster.objects import Object

__all__ = ["Documents"]

_AGGREGATED: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_ADDRESS: Final = {"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1:6443"}


class Documents:
    """Serves every path that is no resource."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._openapi = OpenAPI(server)
        self._kept: dict[str, tuple[tuple[int, int], bytes]] = {}

    async def serve(self, request: Request) -> Response:  # noqa: C901 - one path after the other
        """Answer, with a 404 for unknown paths."""
        path = request.path.rstrip("/") or "/"
        if not path.startswith("/"):
            return _page_not_found()
        if is_health(path):
            return serve_health(path, request)
        parts = path.split("/")[1:]
        whole_group = parts[0] == "apis" and len(parts) == 2
        if request.method != "GET" and not whole_group:
            if self._is_known(path, parts):
                raise not_allowed()
            return _page_not_found()
        if path == "/version":
            return json_response(dict(facts()["version"]))
        if path in ("/api", "/apis") and _accepts_aggregated(request):
            return self._aggregated(core=path == "/api")
        if path == "/api":
            return self._shown(
                request, {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": [self._address()]}
            )
        if path == "/apis":
            listed = [self._group(name) for name in self._groups() if name]
            return self._shown(request, {"kind": "APIGroupList", "apiVersion": "v1", "groups": listed})
        if parts[0] == "api" and len(parts) == 2:
            return self._resources(request, "", parts[1])
        if parts[0] == "apis" and len(parts) == 2:
            if parts[1] not in self._groups():
                return _page_not_found()
            return self._shown(request, {"kind": "APIGroup", "apiVersion": "v1", **self._group(parts[1])})
        if parts[0] == "apis" and len(parts) == 3:
            return self._resources(request, parts[1], parts[2])
        if path.startswith("/openapi/"):
            return await self._openapi.serve(path, request)
        if path == "/.well-known/openid-configuration":
            address = self._server.key_set_address or self._server.address
            return json_response(self._server.auth.openid_configuration(address))
        if path == "/openid/v1/jwks":
            return Response(200, encode(self._server.auth.key_set()), "application/jwk-set+json")
        if path == "/":
            return json_response({"paths": self._paths()})
        return _page_not_found()

    def _is_known(self, path: str, parts: list[str]) -> bool:
        if path in ("/version", "/api", "/apis", "/openid/v1/jwks", "/.well-known/openid-configuration"):
            return True
        if parts[0] == "api" and len(parts) == 2:
            return parts[1] == "v1"
        return parts[0] == "apis" and len(parts) == 3 and parts[1] in groups() and bool(self._types(*parts[1:]))

    def _address(self) -> Object:
        return {**_ADDRESS, "serverAddress": self._server.address.removeprefix("https://")}

    def _groups(self) -> list[str]:
        """Groups in the order of the real server, custom ones after them by name."""
        known = [group["metadata"].get("name", "") for group in facts()["groups"]]
        custom = {t.group for t in self._server.registry.all()} | set(self._server.aggregation.groups())
        return [*known, *sorted(custom - set(known))]

    def _versions(self, group: str) -> list[str]:
        found = {t.version for t in self._server.registry.all() if t.group == group}
        found.update(self._server.aggregation.versions(group))
        return sorted(found, key=_priority, reverse=True)

    def _group(self, name: str) -> Object:
        versions = [{"groupVersion": f"{name}/{v}", "version": v} for v in self._versions(name)]
        return {"name": name, "versions": versions, "preferredVersion": versions[0]}

    def _types(self, group: str, version: str) -> list[ResourceType]:
        found = [t for t in self._server.registry.all() if t.group == group and t.version == version]
        return sorted(found, key=lambda t: t.plural)

    def _shown(self, request: Request, obj: Object) -> Response:
        """A document in the media type that was asked for. Raises a 406."""
        form = form_of(request.headers.get("Accept") or "")
        if isinstance(form, APIError) or form.shape:
            offered = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
            raise not_acceptable(f"only the following media types are accepted: {offered}")
        return present(obj, form)

    def _resources(self, request: Request, group: str, version: str) -> Response:
        types = self._types(group, version)
        if not types:
            if group in groups():
                raise unknown_path()
            return _page_not_found()
        listed: list[Object] = []
        for t in types:
            listed.append(_legacy(t))
            for name, subresource in sorted(t.subresources.items()):
                entry: Object = {
                    "name": f"{t.plural}/{name}",
                    "singularName": "",
                    "namespaced": t.namespaced,
                    "kind": _subresource_kind(t, name)[2],
                    "verbs": sorted(subresource.verbs),
                }
                kind = _subresource_kind(t, name)
                if (kind[0], kind[1]) != (t.group, t.version):
                    entry = {
                        "name": entry.pop("name"),
                        "singularName": "",
                        "namespaced": t.namespaced,
                        **({"group": kind[0]} if kind[0] else {}),
                        **({"version": kind[1]} if kind[1] else {}),
                        **entry,
                    }
                listed.append(entry)
        listed.sort(key=lambda entry: entry["name"])
        body: Object = {"kind": "APIResourceList"}
        if group:
            body["apiVersion"] = "v1"
        body["groupVersion"] = f"{group}/{version}" if group else version
        body["resources"] = listed
        return self._shown(request, body)

    def _aggregated(self, *, core: bool) -> Response:
        serial = (self._server.registry.serial, self._server.aggregation.serial)
        kept = self._kept.get("core" if core else "groups")
        if kept is None or kept[0] != serial:
            names = [name for name in self._groups() if (name == "") is core]
            items = [self._discovered(name) for name in names]
            body = encode(
                {
                    "kind": "APIGroupDiscoveryList",
                    "apiVersion": "apidiscovery.k8s.io/v2",
                    "metadata": {},
                    "items": items,
                }
            )
            kept = self._kept["core" if core else "groups"] = (serial, body)
        etag = f'"{hashlib.sha256(kept[1]).hexdigest().upper()}"'
        return Response(200, kept[1], _AGGREGATED, (("ETag", etag), ("Vary", "Accept")))

    def _discovered(self, group: str) -> Object:
        metadata: Object = {"name": group} if group else {}
        versions = [
            {
                "version": version,
                "resources": discovered(self._server.aggregation.resources(group, version))
                or [_discovered(t) for t in self._types(group, version)],
                "freshness": "Current",
            }
            for version in self._versions(group)
        ]
        return {"metadata": metadata, "versions": versions}

    def _paths(self) -> list[str]:
        paths = ["/.well-known/openid-configuration", "/api", "/api/v1", "/apis", "/apis/"]
        for group in self._groups():
            if group:
                paths.append(f"/apis/{group}")
                paths += [f"/apis/{group}/{version}" for version in self._versions(group)]
        paths += ["/openapi/v2", "/openapi/v3", "/openapi/v3/", "/openid/v1/jwks", "/version"]
        return sorted({*paths, *HEALTH_PATHS})


def _legacy(t: ResourceType) -> Object:
    entry: Object = {
        "name": t.plural,
        "singularName": t.singular,
        "namespaced": t.namespaced,
        "kind": t.kind,
        "verbs": sorted(t.verbs),
    }
    if t.short_names:
        entry["shortNames"] = list(t.short_names)
    if t.categories:
        entry["categories"] = list(t.categories)
    if "list" in t.verbs:
        digest = hashlib.sha256(f"{t.group}/{t.storage_version or t.version}/{t.kind}".encode()).digest()[:8]
        entry["storageVersionHash"] = base64.b64encode(digest).decode()
    return entry


def _subresource_kind(t: ResourceType, name: str) -> tuple[str, str, str]:
    subresource = t.subresources[name]
    if subresource.kind is not None:
        return subresource.group or "", subresource.version or "", subresource.kind
    if name == "scale":
        return "autoscaling", "v1", "Scale"
    return t.group, t.version, t.kind


def _discovered(t: ResourceType) -> Object:
    entry: Object = {
        "resource": t.plural,
        # Group and version are left out where they are those of the list.
        "responseKind": {"group": "", "version": "", "kind": t.kind},
        "scope": "Namespaced" if t.namespaced else "Cluster",
        "singularResource": t.singular,
        "verbs": sorted(t.verbs),
    }
    if t.short_names:
        entry["shortNames"] = list(t.short_names)
    if t.categories:
        entry["categories"] = list(t.categories)
    subresources: list[Object] = []
    for name, subresource in sorted(t.subresources.items()):
        group, version, kind = _subresource_kind(t, name)
        if (group, version) == (t.group, t.version):
            group = version = ""
        subresources.append(
            {
                "subresource": name,
                "responseKind": {"group": group, "version": version, "kind": kind},
                "verbs": sorted(subresource.verbs),
            }
        )
    if subresources:
        entry["subresources"] = subresources
    return entry


def _priority(version: str) -> tuple[Any, ...]:
    """Kubernetes' order of versions: v2, v1, v1beta2, v1beta1, v1alpha1, then the rest (as `version.Compare`)."""
    found = re.fullmatch(r"v(\d+)(?:(alpha|beta)(\d+))?", version)
    if found is None:
        return (0, tuple(-ord(c) for c in version))
    stability = {None: 3, "beta": 2, "alpha": 1}[found[2]]
    return (1, stability, int(found[1]), int(found[3] or 0))


def _accepts_aggregated(request: Request) -> bool:
    accept = (request.headers.get("Accept") or "").replace(" ", "")
    return "as=APIGroupDiscoveryList" in accept and "v=v2;" in f"{accept};".replace(",", ";")


def _page_not_found() -> Response:
    return Response(404, b"404 page not found\n", "text/plain; charset=utf-8")
