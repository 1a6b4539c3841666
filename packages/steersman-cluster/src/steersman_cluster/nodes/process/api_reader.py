"""Reads ConfigMaps, Secrets, Services, claims and tokens from the API server for a process node.

Objects are read when they are needed. A watch of the metadata of ConfigMaps and Secrets reports changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from steersman.cache import Cache, Change
from steersman.client import Client, NotFound
from steersman.k8s import ConfigMap, Secret
from steersman_cluster.nodes.process.payload import TokenRequest
from steersman_cluster.objects import Object, dig, name_of, namespace_of, uid_of

__all__ = ["ApiReader"]

_PLURALS: Final = {"configmap": ("configmaps", "ConfigMap"), "secret": ("secrets", "Secret")}


class ApiReader:
    """Reads as the client of the node; calls `on_change(kind, namespace, name)` for changed ConfigMaps and Secrets."""

    def __init__(self, client: Client, on_change: Callable[[str, str, str], None]) -> None:
        self._raw = client.raw
        self._server = client.config.server
        self._cache = Cache(client)
        for kind, model in (("configmap", ConfigMap), ("secret", Secret)):
            self._cache.informer(model).add_handler(_change_handler(kind, on_change))

    async def start(self) -> None:
        """Start to watch ConfigMaps and Secrets."""
        await self._cache.start()

    async def close(self) -> None:
        """End the session: kill its own process, or detach from a shared one."""
        await self._cache.close()

    async def objects(self, namespace: str, wanted: Iterable[tuple[str, str]]) -> dict[tuple[str, str], Object | None]:
        """Return ConfigMaps and Secrets by (kind, name); `None` for objects that do not exist."""
        return {(kind, name): await self._object(kind, namespace, name) for kind, name in wanted}

    async def _object(self, kind: str, namespace: str, name: str) -> Object | None:
        plural, shown = _PLURALS[kind]
        found = await self.get(f"/api/v1/namespaces/{namespace}/{plural}/{name}") if name else None
        return {**found, "kind": shown} if found is not None else None

    async def get(self, path: str) -> Object | None:
        """Return the object at a path, or `None` if it does not exist."""
        try:
            return msgspec.json.decode((await self._raw.request("GET", path, timeout=10.0)).body)
        except NotFound:
            return None

    async def services(self, pod: Object) -> list[Object]:
        """Return the Services for the environment variables of a Pod."""
        if dig(pod, "spec", "enableServiceLinks", default=True) is False:
            return []
        found = await self.get(f"/api/v1/namespaces/{namespace_of(pod)}/services")
        return [s for s in (found or {}).get("items") or () if name_of(s) != "kubernetes"]

    def api_server(self) -> tuple[str, int]:
        """Return the host and port of the API server of this node."""
        parts = urlsplit(self._server)
        return parts.hostname or "127.0.0.1", parts.port or (443 if parts.scheme == "https" else 80)

    async def token(self, pod: Object, request: TokenRequest) -> str:
        """Return a ServiceAccount token that is bound to the Pod (TokenRequest)."""
        account = dig(pod, "spec", "serviceAccountName", default="default")
        spec: dict[str, Any] = {
            "audiences": [request.audience] if request.audience else [],
            "expirationSeconds": request.seconds,
            "boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": name_of(pod), "uid": uid_of(pod)},
        }
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        path = f"/api/v1/namespaces/{namespace_of(pod)}/serviceaccounts/{account}/token"
        answer = await self._raw.request("POST", path, body=msgspec.json.encode(body), timeout=10.0, idempotent=True)
        return msgspec.json.decode(answer.body)["status"]["token"]


def _change_handler(kind: str, tell: Callable[[str, str, str], None]) -> Callable[[Change], None]:
    def handler(change: Change) -> None:
        if not change.initial:
            tell(kind, change.key.namespace, change.key.name)

    return handler
