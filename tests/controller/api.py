"""A very small API server in memory: what writers ask of a client, with the server's answers to it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from steersman.client.errors import Conflict, Invalid, NotFound
from steersman.client.hooks import WriteOutcome
from steersman.client.status import Status, StatusDetails
from steersman.models import Key, from_dict, to_dict, view_of
from steersman.models.patches import JsonPatch, MergePatch, PatchError

from .fakes import FakeEntry


def _error(kind: type, code: int, message: str, name: str = "") -> Exception:
    return kind(Status(code=code, reason=kind.__name__, message=message, details=StatusDetails(name=name)))


class Api:
    """Objects by name, one resourceVersion per change, and a list of all requests."""

    def __init__(self, *, status_subresource: bool = True) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.requests: list[tuple[str, str, Any]] = []
        self.version = 0
        self.status_subresource = status_subresource
        self.refuse: Exception | None = None

    def put(self, obj: Any) -> Any:
        """Store an object as the server would, and return it as read."""
        body = obj if isinstance(obj, dict) else to_dict(obj)
        meta = body.setdefault("metadata", {})
        meta.setdefault("uid", f"uid-{meta['name']}")
        meta.setdefault("generation", 1)
        self.version += 1
        meta["resourceVersion"] = str(self.version)
        self.objects[meta["name"]] = body
        return obj if isinstance(obj, dict) else from_dict(type(obj), body)

    def read(self, kind: type[Any], name: str) -> Any:
        return from_dict(kind, self.objects[name])

    def sent(self, verb: str) -> list[Any]:
        return [body for v, _, body in self.requests if v == verb]

    async def entry(self, view: Any, key: Key) -> FakeEntry | None:
        """The cache, always up to date."""
        body = self.objects.get(key.name)
        if body is None:
            return None
        obj = view.decode(json.dumps(body))
        meta = obj.metadata
        return CachedEntry(key, meta.uid, meta.resource_version, meta.generation, False, meta, obj, body)

    async def apply(self, obj: Any, *, kind: Any = None, field_manager: str | None = None, force: bool = False) -> Any:
        name = obj["metadata"]["name"]
        self.requests.append(("apply", name, json.loads(json.dumps(obj))))
        if self.refuse is not None:
            raise self.refuse
        before = self.objects.get(name)
        after = self.normalised(MergePatch(obj).apply(before or {"metadata": {"generation": 1}}))
        if before is None or after != before:
            if before is not None and after.get("spec") != before.get("spec"):
                after["metadata"]["generation"] = before["metadata"]["generation"] + 1
            self.put(after)
        return view_of(kind).decode(json.dumps(self.objects[name]))

    def normalised(self, body: dict[str, Any]) -> dict[str, Any]:
        return body

    async def get(self, kind: Any, name: str, namespace: str | None = None) -> Any:
        if name not in self.objects:
            raise _error(NotFound, 404, f"{name} not found", name)
        return view_of(kind).decode(json.dumps(self.objects[name]))

    async def patch(
        self,
        kind: Any,
        name: str,
        patch: Any,
        namespace: str | None = None,
        *,
        subresource: str | None = None,
        want: Any = "object",
        field_manager: str | None = None,
        timeout: float = 30.0,
    ) -> Any:
        self.requests.append((f"patch {subresource or ''}".strip(), name, json.loads(patch.encode())))
        if self.refuse is not None:
            raise self.refuse
        if name not in self.objects or (subresource == "status" and not self.status_subresource):
            raise _error(NotFound, 404, f"{name} not found", name)
        before = self.objects[name]
        if isinstance(patch, JsonPatch):
            try:
                after = patch.apply(before)
            except PatchError as problem:
                raise _error(Invalid, 422, str(problem)) from None
        else:
            patch = MergePatch(json.loads(patch.encode()))
            _check_preconditions(before, patch.body)
            after = patch.apply(before)
        after = json.loads(json.dumps(after))
        self.put(after)
        meta = after["metadata"]
        if meta.get("deletionTimestamp") and not meta.get("finalizers"):
            del self.objects[name]
        if want == "version":
            return WriteOutcome(meta.get("uid", ""), meta["resourceVersion"])
        return from_dict(view_of(kind).type, after)


def _check_preconditions(before: Mapping[str, Any], body: Mapping[str, Any]) -> None:
    for field in ("uid", "resourceVersion"):
        wanted = (body.get("metadata") or {}).get(field)
        if wanted is not None and wanted != before["metadata"][field]:
            raise _error(Conflict, 409, "the object has been modified", before["metadata"]["name"])


class CachedEntry(FakeEntry):
    """An entry of the in-memory server's objects."""

    def __init__(self, key: Key, uid: str, rv: str, generation: int, deleting: bool, meta: Any, value: Any, body: Any):
        super().__init__(key, uid, rv, generation, deleting, meta, value)
        object.__setattr__(self, "body", body)

    def raw(self) -> bytes:
        return json.dumps(self.body).encode()
