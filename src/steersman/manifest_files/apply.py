"""Manifests from files into a cluster: read, put in an order that works, applied on the server's side, one by one.

Namespaces and CustomResourceDefinitions go first, and are waited for; webhooks go last, since they may stand in the
way of the rest. Each object has an outcome of its own: one that fails keeps none of the others from being applied.
Works on any API server. It never deletes anything.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, cast
from urllib.parse import quote

from steersman.client import Client
from steersman.client.errors import ApiError, ClientError, Forbidden, NotFound
from steersman.manifest_files.files import Manifest

__all__ = ["Action", "Outcome", "load", "ordered"]

Action = Literal["created", "configured", "unchanged", "failed"]

_FIRST: Final = (
    "Namespace",
    "CustomResourceDefinition",
    "PriorityClass",
    "RuntimeClass",
    "StorageClass",
    "ServiceAccount",
    "Secret",
    "ConfigMap",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "ResourceQuota",
    "LimitRange",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "Service",
)
_LAST: Final = ("APIService", "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration")
_RANK: Final = {kind: n for n, kind in enumerate(_FIRST)} | {kind: 1000 + n for n, kind in enumerate(_LAST)}
_BETWEEN: Final = 100
_ACCOUNT_WAIT: Final = 5.0
_ESTABLISHED_WAIT: Final = 15.0
_APPLY: Final = "application/apply-patch+yaml"
_METADATA: Final = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1, application/json"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result for one manifest."""

    manifest: Manifest
    action: Action
    resource: str
    """`deployments.apps`, or the kind where the server does not know it."""
    namespace: str
    name: str
    error: str = ""

    @property
    def reference(self) -> str:
        """The object as kubectl writes it: `deployment.apps/web`."""
        return f"{self.resource}/{self.name}"


@dataclass(frozen=True, slots=True)
class _Kind:
    path: str
    plural: str
    shown: str
    namespaced: bool


def ordered(manifests: Iterable[Manifest]) -> list[Manifest]:
    """Return the documents in an order in which the dependencies of each come first; otherwise as given."""
    return sorted(manifests, key=lambda manifest: _RANK.get(manifest.kind, _BETWEEN))


async def load(
    client: Client,
    manifests: Sequence[Manifest],
    *,
    namespace: str = "default",
    field_manager: str = "steersman-load",
    force: bool = False,
) -> AsyncGenerator[Outcome]:
    """Apply manifests in the order of their dependencies; yields the outcome of each as soon as it is known.

    `namespace` is for objects without one. `force` takes over fields of other managers; without it such a conflict is
    the outcome. API errors become outcomes; an unreachable server raises `ClientError`.
    """
    loader = _Loader(client, namespace, field_manager, force=force)
    waiting: list[Manifest] = []
    for manifest in ordered(manifests):
        if manifest.kind != "CustomResourceDefinition" and waiting:
            for definition in waiting:
                await loader.established(definition)
            waiting.clear()
        outcome = await loader.apply(manifest)
        yield outcome
        if manifest.kind == "CustomResourceDefinition" and outcome.action != "failed":
            waiting.append(manifest)
    for definition in waiting:
        await loader.established(definition)


class _Loader:
    def __init__(self, client: Client, namespace: str, field_manager: str, *, force: bool) -> None:
        self._client = client
        self._namespace = namespace
        self._query = (("fieldManager", field_manager), ("force", "true" if force else "false"))
        self._kinds: dict[str, dict[str, _Kind]] = {}

    async def apply(self, manifest: Manifest) -> Outcome:
        kind = None
        namespace = manifest.namespace
        try:
            kind = await self._kind(manifest)
            namespace = (namespace or self._namespace) if kind.namespaced else ""
            action, name = await self._write(manifest, kind, namespace)
        except ApiError as problem:
            shown = kind.shown if kind is not None else manifest.kind.lower()
            return Outcome(manifest, "failed", shown, namespace, manifest.name, _error_text(problem))
        return Outcome(manifest, action, kind.shown, namespace, name)

    async def established(self, definition: Manifest) -> None:
        """Wait until what a CustomResourceDefinition defines is served; in vain is no error, the rest tells."""
        raw, path = self._client.raw, f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{definition.name}"
        spec = cast("dict[str, Any]", definition.body.get("spec") or {})
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _ESTABLISHED_WAIT
        while loop.time() < deadline:
            answer: dict[str, Any] = json.loads((await raw.request("GET", path)).body)
            status: dict[str, list[dict[str, str]]] = answer.get("status") or {}
            found = status.get("conditions") or []
            conditions = {condition["type"]: condition["status"] for condition in found}
            if conditions.get("Established") == "True" or conditions.get("NamesAccepted") == "False":
                break
            await asyncio.sleep(0.02)
        for version in spec.get("versions") or ():
            self._kinds.pop(f"{spec.get('group')}/{version.get('name')}", None)

    async def _write(self, manifest: Manifest, kind: _Kind, namespace: str) -> tuple[Action, str]:
        collection = (
            f"{kind.path}/namespaces/{quote(namespace, safe='')}/{kind.plural}"
            if namespace
            else f"{kind.path}/{kind.plural}"
        )
        body = json.dumps(_at(manifest.body, namespace)).encode()
        if not manifest.name:
            answer = await self._send_with_retries("POST", collection, self._query[:1], body, "application/json")
            return "created", str(answer["metadata"]["name"])
        path = f"{collection}/{quote(manifest.name, safe='')}"
        before = await self._version(path)
        answer = await self._send_with_retries("PATCH", path, self._query, body, _APPLY)
        if before is None:
            return "created", manifest.name
        unchanged = answer["metadata"].get("resourceVersion") == before
        return "unchanged" if unchanged else "configured", manifest.name

    async def _version(self, path: str) -> str | None:
        try:
            answer = await self._client.raw.request("GET", path, accept=_METADATA)
        except NotFound:
            return None
        return str(json.loads(answer.body)["metadata"].get("resourceVersion", ""))

    async def _send_with_retries(
        self, method: str, path: str, query: Sequence[tuple[str, str]], body: bytes, content_type: str
    ) -> dict[str, Any]:
        """Send a request; retry a Pod whose namespace has no default ServiceAccount yet."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _ACCOUNT_WAIT
        while True:
            try:
                answer = await self._client.raw.request(method, path, query=query, body=body, content_type=content_type)
            except Forbidden as problem:
                if "service account" not in str(problem) or loop.time() > deadline:
                    raise
                await asyncio.sleep(0.05)
                continue
            return cast("dict[str, Any]", json.loads(answer.body))

    async def _kind(self, manifest: Manifest) -> _Kind:
        served = self._kinds.get(manifest.api_version)
        if served is None:
            try:
                found = await self._client.discover(manifest.api_version)
            except NotFound:
                raise _unknown(manifest) from None
            path = f"/apis/{manifest.api_version}" if "/" in manifest.api_version else f"/api/{manifest.api_version}"
            group = manifest.api_version.partition("/")[0] if "/" in manifest.api_version else ""
            served = self._kinds[manifest.api_version] = {
                r.kind: _Kind(
                    path, r.name, ".".join(filter(None, (r.singular_name or r.kind.lower(), group))), r.namespaced
                )
                for r in found
                if "/" not in r.name
            }
        if manifest.kind not in served:
            raise _unknown(manifest)
        return served[manifest.kind]


def _unknown(manifest: Manifest) -> ApiError:
    from steersman.client.status import Status

    message = (
        f'no matches for kind "{manifest.kind}" in version "{manifest.api_version}"; '
        "is its CustomResourceDefinition installed?"
    )
    return NotFound(Status(code=404, reason="NotFound", message=message))


def _at(body: Mapping[str, Any], namespace: str) -> dict[str, Any]:
    given: dict[str, Any] = body.get("metadata") or {}
    metadata = {key: value for key, value in given.items() if key not in ("managedFields", "resourceVersion")}
    if namespace:
        metadata["namespace"] = namespace
    return {**body, "metadata": metadata}


def _error_text(problem: ClientError) -> str:
    """Return the message of the API server."""
    if isinstance(problem, ApiError) and problem.status.message:
        return problem.status.message
    return str(problem)
