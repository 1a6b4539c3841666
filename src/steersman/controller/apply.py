"""`Applier`: applies the desired objects of a reconcile, and sends nothing if nothing would change (A1).

Each call has the full intent, which the server applies under one stable field manager (KEP-555). The applier skips the
request if the intent equals the last one and the cached object still contains it. The first apply of a process is
always sent, because only the server knows which fields an earlier version of the operator has set. There are no PUTs
and no reads before writes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, Final, Protocol, TypeVar, cast, overload

import msgspec

from steersman.client.errors import ClientError, Conflict
from steersman.controller.intent import Differences, differences, intent_of
from steersman.controller.ownership import check_scope, owner_reference
from steersman.controller.protocols import Entry
from steersman.controller.request import RequeueError
from steersman.models import (
    Dynamic,
    Key,
    KindLike,
    ObjectMeta,
    OwnerReference,
    Resource,
    View,
    dynamic,
    encode,
    info_of,
    lookup,
    to_dict,
    view_of,
)
from steersman.models.resource import view_of_object

__all__ = ["Applier", "ApplyClient", "FieldConflictError", "LiveState"]

R = TypeVar("R", bound=Resource)

_MAX_REMEMBERED: Final = 200_000
"""Objects of which the last intent is remembered; others are applied again, which changes nothing."""


class ApplyClient(Protocol):
    """The part of a client that an applier uses."""

    async def apply(
        self, obj: Any, *, kind: KindLike[Any] | None = None, field_manager: str | None = None, force: bool = False
    ) -> Any:
        """Apply one object on the server."""
        ...


class LiveState(Protocol):
    """The part of a cache that an applier uses."""

    async def entry(self, kind: View[Any], key: Key) -> Entry | None:
        """Return the cached object, which includes this client's writes; `None` if it is not cached."""
        ...


class FieldConflictError(ClientError):
    """An apply without force has fields that another manager owns; a retry does not help."""


class _Applied(msgspec.Struct, gc=False):
    fingerprint: bytes
    uid: str
    resource_version: str
    generation: int
    accepted: Differences | None
    """Differences that remain after the apply, where the server stores a value in another form."""


class Applier:
    """Applies objects for one field manager, whose name must not change between releases of an operator."""

    def __init__(self, client: ApplyClient, live: LiveState | None, field_manager: str) -> None:
        if not field_manager or len(field_manager) > 128:
            raise ValueError(f"field manager {field_manager!r}: use 1 to 128 characters")
        self._client = client
        self._live = live
        self._manager = field_manager
        self._applied: OrderedDict[tuple[Any, Key], _Applied] = OrderedDict()
        self.sent = 0
        self.skipped = 0

    @overload
    async def apply(
        self, obj: R, *, owner: Any = None, controller: bool = True, force: bool = True, kind: None = None
    ) -> R: ...
    @overload
    async def apply(
        self,
        obj: Mapping[str, Any] | Dynamic,
        *,
        owner: Any = None,
        controller: bool = True,
        force: bool = True,
        kind: KindLike[Any] | None = None,
    ) -> Any: ...
    async def apply(
        self,
        obj: Any,
        *,
        owner: Any = None,
        controller: bool = True,
        force: bool = True,
        kind: KindLike[Any] | None = None,
    ) -> Any:
        """Apply `obj` and return the resulting object; sends nothing if the cache shows that nothing would change.

        Args:
            obj: The full intent, without status. Fields of an earlier apply that it lacks are removed.
            owner: Becomes an owner of the object, in the same namespace or cluster-scoped.
            controller: Whether `owner` becomes the controller.
            force: Take over fields that other managers own.
            kind: The kind, if it does not follow from `obj`.

        Raises:
            FieldConflictError: Without `force`, another manager owns a field; or the object has another controller.
            OwnershipError: `owner` cannot own the object.
            RequeueError: The object still belongs to a deleted owner of the same name.
            ApiError: The API server rejects the request.
            TransportError: The request fails.
        """
        view, namespace, name = _address(obj, kind)
        reference = None
        if owner is not None:
            reference = owner_reference(owner, controller=controller)
            if view.info.namespaced and not namespace:
                namespace = owner.metadata.namespace
            check_scope(owner, view.info.kind, namespace, name)
        key = Key(namespace, name)
        fingerprint = _fingerprint(obj, reference)
        entry = await self._live.entry(view, key) if self._live is not None else None
        if entry is not None and reference is not None:
            _check_controller(entry, reference, view, key)
        left: Differences | None = None
        memory = self._applied.get((view.info.gvk, key))
        # An entry with metadata only cannot be returned as the object.
        if memory is not None and entry is not None and entry.whole and _same_intent(memory, entry, fingerprint):
            if memory.resource_version != entry.resource_version:
                left = _remaining_differences(_wire(obj, reference, view, key), entry, memory)
            if not left:
                memory.resource_version = entry.resource_version
                self.skipped += 1
                return entry.object(view)
        answer = await self._send(_wire(obj, reference, view, key), view, key, fingerprint, force=force)
        if left and entry is not None and answer.metadata.resource_version == entry.resource_version:
            self._applied[view.info.gvk, key].accepted = left  # the server has changed nothing
        return answer

    async def _send(self, intent: dict[str, Any], view: View[Any], key: Key, fingerprint: bytes, *, force: bool) -> Any:
        self._applied.pop((view.info.gvk, key), None)
        self.sent += 1
        try:
            answer = await self._client.apply(intent, kind=view, field_manager=self._manager, force=force)
        except Conflict as problem:
            if force or not problem.causes:
                raise
            fields = ", ".join(f"{c.field} ({c.message})" for c in problem.causes)
            raise FieldConflictError(
                f"{view.info.kind} {key}: other field managers own {fields}: leave these fields out, or apply with "
                "force=True to take them over"
            ) from problem
        metadata: ObjectMeta = answer.metadata
        # The generation tells whether the spec has changed; a kind without generations needs a comparison.
        accepted = None if metadata.generation else differences(intent, to_dict(answer)) or None
        self._applied[view.info.gvk, key] = _Applied(
            fingerprint, metadata.uid, metadata.resource_version, metadata.generation, accepted
        )
        if len(self._applied) > _MAX_REMEMBERED:
            self._applied.popitem(last=False)
        return answer

    def forget(self, kind: KindLike[Any], key: Key) -> None:
        """Forget the last intent of an object, for example because it was deleted."""
        self._applied.pop((info_of(kind).gvk, key), None)


def _address(obj: Any, kind: KindLike[Any] | None) -> tuple[View[Any], str, str]:
    if isinstance(obj, Mapping):
        obj = Dynamic(cast("Mapping[str, Any]", obj))
    if kind is not None:
        view: View[Any] = view_of(kind)
    elif isinstance(obj, Dynamic):
        known = lookup(obj.api_version, obj.kind)
        if not obj.api_version or not obj.kind:
            raise ValueError("apply: the object has no apiVersion or no kind: add them")
        view = dynamic(obj.api_version, obj.kind) if known is None else View(info_of(known), Dynamic, "dynamic")
    else:
        view = view_of_object(obj)
    metadata = obj.metadata
    if not metadata.name:
        raise ValueError(f"apply {view.info.kind}: metadata.name is missing; a generated name cannot be applied")
    return view, metadata.namespace if view.info.namespaced else "", metadata.name


def _fingerprint(obj: Any, reference: OwnerReference | None) -> bytes:
    digest = blake2b(encode(obj), digest_size=16)
    if reference is not None:
        digest.update(f"\0{reference.uid}\0{reference.controller}".encode())
    return digest.digest()


def _wire(obj: Any, reference: OwnerReference | None, view: View[Any], key: Key) -> dict[str, Any]:
    wire = intent_of(msgspec.json.decode(encode(obj)) if not isinstance(obj, Resource) else to_dict(obj), reference)
    wire["apiVersion"], wire["kind"] = view.info.api_version, view.info.kind
    if key.namespace:
        wire["metadata"]["namespace"] = key.namespace
    return wire


def _check_controller(entry: Entry, reference: OwnerReference, view: View[Any], key: Key) -> None:
    """Raise an error if another owner controls the object (A4)."""
    current = next((o for o in entry.owners if o.controller and o.uid != reference.uid), None)
    if current is None or not reference.controller:
        return
    if current.name == reference.name and current.kind == reference.kind:
        raise RequeueError(
            f"{view.info.kind} {key} still belongs to the previous {current.kind} {current.name}",
            after=1.0,
        )
    raise FieldConflictError(
        f"{view.info.kind} {key} is controlled by {current.kind} {current.name!r} (uid {current.uid}), not by "
        f"{reference.kind} {reference.name!r}: choose another name, or delete it"
    )


def _same_intent(memory: _Applied, entry: Entry, fingerprint: bytes) -> bool:
    return memory.uid == entry.uid and memory.fingerprint == fingerprint


def _remaining_differences(intent: dict[str, Any], entry: Entry, memory: _Applied) -> Differences:
    """Return the differences of the live object from the intent, without the accepted ones."""
    if memory.generation and memory.generation == entry.generation:
        metadata: dict[str, Any] = {"metadata": to_dict(entry.metadata())}
        return differences({"metadata": intent["metadata"]}, metadata)
    found = differences(intent, msgspec.json.decode(entry.raw()))
    accepted = memory.accepted or {}
    if all(path in accepted and accepted[path] == value for path, value in found.items()):
        return {}
    return found
