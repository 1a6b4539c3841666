"""Applies documents as one set: server-side apply, and pruning of members that an older version of the set left.

The set is an ApplySet of kubectl (KEP-3659): its parent is a ConfigMap, and every member has its label. The parent
lists the kinds of the members before anything is applied, so that the next run finds every member after an
interruption. CustomResourceDefinitions and Namespaces are never pruned, because their objects would go with them.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, cast
from urllib.parse import quote

from steersman.client import Client
from steersman.client.errors import ApiError, NotFound
from steersman.version import __version__
from steersman.webhook.local_conversion import is_diverted, restore_all

__all__ = [
    "FIELD_MANAGER",
    "Action",
    "ApplySet",
    "ObjectOutcome",
    "Reference",
    "comparable",
    "reference_of",
    "refusal",
    "set_id",
]

FIELD_MANAGER: Final = "steersman"
_PART_OF: Final = "applyset.kubernetes.io/part-of"
_ID: Final = "applyset.kubernetes.io/id"
_KINDS: Final = "applyset.kubernetes.io/contains-group-kinds"
_NAMESPACES: Final = "applyset.kubernetes.io/additional-namespaces"
_TOOL: Final = "applyset.kubernetes.io/tooling"
_APPLY: Final = "application/apply-patch+yaml"
_METADATA: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1, application/json"
_NEVER_PRUNED: Final = ("CustomResourceDefinition", "Namespace")
_ESTABLISHED_TIMEOUT_SECONDS: Final = 30.0
_DELETION_TIMEOUT_SECONDS: Final = 60.0

Action = Literal["created", "configured", "unchanged", "pruned", "deleted", "left", "unchecked"]


@dataclass(frozen=True, slots=True, order=True)
class Reference:
    """The identity of an object without its version, which may differ between releases."""

    group: str
    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        what = f"{self.kind.lower()}.{self.group}" if self.group else self.kind.lower()
        return f"{what}/{self.name}" + (f" in {self.namespace}" if self.namespace else "")


@dataclass(frozen=True, slots=True)
class ObjectOutcome:
    """The outcome of one object; with a dry run, the expected outcome."""

    reference: Reference
    action: Action
    before: dict[str, Any] | None = field(default=None, repr=False)
    after: dict[str, Any] | None = field(default=None, repr=False)
    note: str = ""


@dataclass(frozen=True, slots=True)
class _Kind:
    path: str
    plural: str
    namespaced: bool


def reference_of(document: Mapping[str, Any]) -> Reference:
    """Return the reference of a document."""
    group = str(document["apiVersion"]).rpartition("/")[0]
    found = document["metadata"]
    return Reference(group, str(document["kind"]), str(found.get("namespace") or ""), str(found["name"]))


def set_id(name: str, namespace: str) -> str:
    """Return the identity of the set, derived from its parent as in KEP-3659."""
    digest = hashlib.sha256(f"{name}.{namespace}.ConfigMap.".encode()).digest()
    return f"applyset-{base64.urlsafe_b64encode(digest).rstrip(b'=').decode()}-v1"


class ApplySet:
    """Return the set of an operator, whose parent is the ConfigMap `name` in `namespace`."""

    def __init__(
        self, client: Client, name: str, namespace: str, *, dry_run: bool = False, force: bool = False
    ) -> None:
        self._raw = client.raw
        self._client = client
        self.name = name
        self.namespace = namespace
        self.id = set_id(name, namespace)
        self._dry_run = dry_run
        self._query = (("fieldManager", FIELD_MANAGER), ("force", "true" if force else "false"))
        self._dry = (("dryRun", "All"),) if dry_run else ()
        self._kinds: dict[str, dict[str, _Kind]] = {}
        self._new_namespaces: set[str] = set()

    async def apply(self, documents: Sequence[Mapping[str, Any]]) -> AsyncGenerator[ObjectOutcome]:
        """Apply in the given order, then prune.

        Waits for CustomResourceDefinitions until they are served. The Namespace of the set may be a document.

        Raises:
            ApiError: A request failed. Earlier changes are not rolled back.
        """
        wanted = [reference_of(document) for document in documents]
        before = await self._contained()
        told = False
        established: list[str] = []
        for document in documents:
            kind = document["kind"]
            if kind not in ("Namespace", "CustomResourceDefinition"):
                if not told:
                    await self._record_kinds(before | {(r.group, r.kind) for r in wanted}, wanted)
                    told = True
                for name in established:
                    await self._established(name)
                established.clear()
            yield await self._one(document)
            if kind == "CustomResourceDefinition" and not self._dry_run:
                established.append(document["metadata"]["name"])
        for name in established:
            await self._established(name)
        async for outcome in self._prune(before, set(wanted)):
            yield outcome
        await self._record_kinds({(r.group, r.kind) for r in wanted}, wanted)

    async def apply_loosely(self, documents: Sequence[Mapping[str, Any]]) -> AsyncGenerator[ObjectOutcome]:
        """Apply without a parent, labels and pruning; waits until CustomResourceDefinitions are served."""
        for document in documents:
            yield await self._one(document, labelled=False)
        for document in documents:
            if document["kind"] == "CustomResourceDefinition" and not self._dry_run:
                await self._established(document["metadata"]["name"])

    async def members(self, kinds: Iterable[tuple[str, str]] | None = None) -> list[Reference]:
        """Return all objects with the label of the set, of the kinds that the parent lists; sorted."""
        found: list[Reference] = []
        for group, kind in sorted(kinds if kinds is not None else await self._contained()):
            where = await self._any_version(group, kind)
            if where is None:
                continue
            query = (("labelSelector", f"{_PART_OF}={self.id}"),)
            try:
                answer = await self._raw.request("GET", f"{where.path}/{where.plural}", query=query, accept=_METADATA)
            except NotFound:
                continue
            for item in json.loads(answer.body)["items"] or ():
                meta = item["metadata"]
                found.append(Reference(group, kind, meta.get("namespace", ""), meta["name"]))
        return sorted(found)

    async def delete(
        self, references: Iterable[Reference], action: Action = "deleted"
    ) -> AsyncGenerator[ObjectOutcome]:
        """Delete in the given order, and wait for objects whose deletion takes time (CRDs)."""
        for reference in references:
            path = await self._path(reference)
            if path is None:
                continue
            try:
                options = {"propagationPolicy": "Background"}
                body = json.dumps({**options, **({"dryRun": ["All"]} if self._dry_run else {})}).encode()
                await self._raw.request("DELETE", path, body=body)
                if reference.kind == "CustomResourceDefinition" and not self._dry_run:
                    await self._wait_until_deleted(path)
            except NotFound:
                continue
            yield ObjectOutcome(reference, action)

    async def forget(self) -> None:
        """Delete the parent."""
        async for _ in self.delete([Reference("", "ConfigMap", self.namespace, self.name)]):
            pass

    async def _one(self, document: Mapping[str, Any], *, labelled: bool = True) -> ObjectOutcome:
        reference = reference_of(document)
        body = self._labelled(document) if labelled else dict(document)
        path = await self._path(reference, str(document["apiVersion"]))
        if path is None:
            return self._unknown(reference, document)
        before = await self._read(path)
        if before is not None and reference.kind == "Namespace" and not self._is_member(before):
            return ObjectOutcome(reference, "unchanged", before, before, "it existed before and is not deleted")
        if before is not None and reference.kind == "CustomResourceDefinition" and "conversion" in document["spec"]:
            if is_diverted(before) and self._dry_run:
                return ObjectOutcome(
                    reference, "unchecked", before, body, "a local run converts for it, which would end"
                )
            if is_diverted(before):
                await restore_all(self._client, reference.name)
                before = await self._read(path)
        if self._dry_run and reference.namespace in self._new_namespaces:
            return ObjectOutcome(reference, "unchecked", None, body, "its namespace does not exist yet")
        answer = await self._raw.request(
            "PATCH", path, query=(*self._query, *self._dry), body=json.dumps(body).encode(), content_type=_APPLY
        )
        after: dict[str, Any] = json.loads(answer.body)
        if before is None:
            if reference.kind == "Namespace":
                self._new_namespaces.add(reference.name)
            return ObjectOutcome(reference, "created", None, after)
        same = comparable(before) == comparable(after)
        return ObjectOutcome(reference, "unchanged" if same else "configured", before, after)

    def _is_member(self, live: dict[str, Any]) -> bool:
        labels: dict[str, str] = live["metadata"].get("labels") or {}
        return labels.get(_PART_OF) == self.id

    def _unknown(self, reference: Reference, document: Mapping[str, Any]) -> ObjectOutcome:
        if self._dry_run:
            return ObjectOutcome(reference, "unchecked", None, dict(document), "its kind is not served yet")
        what = f"{document['apiVersion']}, {reference.kind}"
        raise LookupError(
            f"{reference}: the cluster does not know the kind {what}; install its CustomResourceDefinition first"
        )

    def _labelled(self, document: Mapping[str, Any]) -> dict[str, Any]:
        metadata = dict(document["metadata"])
        metadata["labels"] = {**(metadata.get("labels") or {}), _PART_OF: self.id}
        return {**document, "metadata": metadata}

    async def _prune(self, before: set[tuple[str, str]], wanted: set[Reference]) -> AsyncGenerator[ObjectOutcome]:
        stale = [r for r in await self.members(before) if r not in wanted] if before else []
        for reference in stale:
            if reference.kind in _NEVER_PRUNED:
                yield ObjectOutcome(
                    reference,
                    "left",
                    note="this version does not contain it; delete it with kubectl if it is not needed",
                )
        async for outcome in self.delete([r for r in stale if r.kind not in _NEVER_PRUNED], "pruned"):
            yield outcome

    async def _contained(self) -> set[tuple[str, str]]:
        """Return the groups and kinds in the parent. Raises `LookupError` for a parent of another tool."""
        parent = await self._read(self._parent_path)
        if parent is None:
            return set()
        metadata: dict[str, Any] = parent["metadata"]
        annotations: dict[str, str] = metadata.get("annotations") or {}
        labels: dict[str, str] = metadata.get("labels") or {}
        tool = annotations.get(_TOOL, "")
        if labels.get(_ID) != self.id or not tool.startswith("steersman/"):
            raise LookupError(
                f"configmap/{self.name} in {self.namespace} is not the parent of an "
                "ApplySet of steersman: delete or rename it"
            )
        found: set[tuple[str, str]] = set()
        for one in annotations.get(_KINDS, "").split(","):
            kind, _, group = one.partition(".")
            if kind:
                found.add((group, kind))
        return found

    @property
    def _parent_path(self) -> str:
        return f"/api/v1/namespaces/{quote(self.namespace, safe='')}/configmaps/{quote(self.name, safe='')}"

    async def _record_kinds(self, kinds: Iterable[tuple[str, str]], wanted: Iterable[Reference]) -> None:
        if self._dry_run:
            return
        namespaces = sorted({r.namespace for r in wanted} - {"", self.namespace})
        annotations = {
            _TOOL: f"steersman/{__version__}",
            _KINDS: ",".join(sorted(f"{kind}.{group}" if group else kind for group, kind in kinds)),
            _NAMESPACES: ",".join(namespaces),
        }
        parent = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": self.name,
                "namespace": self.namespace,
                "labels": {_ID: self.id},
                "annotations": annotations,
            },
        }
        query = (*self._query[:1], ("force", "true"))
        body = json.dumps(parent).encode()
        await self._raw.request("PATCH", self._parent_path, query=query, body=body, content_type=_APPLY)

    async def _read(self, path: str) -> dict[str, Any] | None:
        try:
            return cast("dict[str, Any]", json.loads((await self._raw.request("GET", path)).body))
        except NotFound:
            return None

    async def _path(self, reference: Reference, api_version: str = "") -> str | None:
        kind = (
            (await self._served(api_version)).get(reference.kind)
            if api_version
            else await self._any_version(reference.group, reference.kind)
        )
        if kind is None:
            return None
        where = f"/namespaces/{quote(reference.namespace, safe='')}" if kind.namespaced else ""
        return f"{kind.path}{where}/{kind.plural}/{quote(reference.name, safe='')}"

    async def _any_version(self, group: str, kind: str) -> _Kind | None:
        if not group:
            return (await self._served("v1")).get(kind)
        try:
            answer = json.loads((await self._raw.request("GET", f"/apis/{quote(group, safe='')}")).body)
        except NotFound:
            return None
        for version in answer["versions"]:
            found = (await self._served(version["groupVersion"])).get(kind)
            if found is not None:
                return found
        return None

    async def _served(self, api_version: str) -> dict[str, _Kind]:
        known = self._kinds.get(api_version)
        if known:
            return known
        try:
            resources = await self._client.discover(api_version)
        except NotFound:
            return {}
        path = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
        known = {r.kind: _Kind(path, r.name, r.namespaced) for r in resources if "/" not in r.name}
        self._kinds[api_version] = known
        return known

    async def _established(self, name: str) -> None:
        path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{quote(name, safe='')}"
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _ESTABLISHED_TIMEOUT_SECONDS
        while True:
            status: dict[str, Any] = (await self._read(path) or {}).get("status") or {}
            conditions: list[dict[str, str]] = status.get("conditions") or []
            if any(c["type"] == "Established" and c["status"] == "True" for c in conditions):
                return
            refused = [c for c in conditions if c["type"] == "NamesAccepted" and c["status"] == "False"]
            if refused:
                raise LookupError(f"customresourcedefinition/{name} is not served: {refused[0].get('message')}")
            if loop.time() > deadline:
                raise LookupError(
                    f"customresourcedefinition/{name} is not served after {_ESTABLISHED_TIMEOUT_SECONDS:g} s"
                )
            await asyncio.sleep(0.05)

    async def _wait_until_deleted(self, path: str) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _DELETION_TIMEOUT_SECONDS
        while True:
            found = await self._read(path)
            if found is None:
                return
            if loop.time() > deadline:
                raise LookupError(
                    f"{path.rpartition('/')[2]} is not deleted: its objects have finalizers that no controller removes"
                )
            await asyncio.sleep(0.1)


def comparable(body: dict[str, Any]) -> dict[str, Any]:
    """Return the object without its status and the metadata that the server sets."""
    hidden = ("managedFields", "resourceVersion", "generation", "uid", "creationTimestamp")
    metadata = {key: value for key, value in body["metadata"].items() if key not in hidden}
    return {**{key: value for key, value in body.items() if key != "status"}, "metadata": metadata}


def refusal(problem: ApiError) -> str:
    """Return the message of the server."""
    return problem.status.message or str(problem)
