"""State that all verbs share, and the rules by which they address objects.

Each module of verbs (`reads`, `writes`, `subresources`, …) derives from `Verbs`, and `Client` derives from them. A kind
is given as a `Resource` class or a `View`, an object as itself or as a mapping of JSON names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, TypeVar, cast

import msgspec

from steersman.client.config import Config
from steersman.client.hooks import WriteEnded, WriteObserver, WriteOutcome
from steersman.client.raw import Raw
from steersman.models import (
    Dynamic,
    Key,
    KindLike,
    ResourceInfo,
    View,
    dynamic,
    encode,
    info_of,
    lookup,
    view_of,
)
from steersman.models.resource import view_of_object

__all__ = ["METADATA", "AnyObject", "Target", "Verbs", "accept_for", "accept_list_for", "outcome_of", "target_of"]

T = TypeVar("T")

AnyObject: TypeAlias = "Mapping[str, Any] | Any"
"""An object to send: a `Resource`, a `Dynamic`, or a mapping of JSON names."""

METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
"""The `Accept` header for the metadata of an object, with the whole object as alternative."""
_METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"


def accept_for(view: View[Any]) -> str:
    """Return the `Accept` header for one object, or watch events, of a view."""
    return METADATA if view.form == "metadata" else "application/json"


def accept_list_for(view: View[Any]) -> str:
    """Return the `Accept` header for a list of a view."""
    return _METADATA_LIST if view.form == "metadata" else "application/json"


class Verbs:
    """Base class of the verbs, with the state that they share."""

    def __init__(self, raw: Raw, config: Config, *, field_manager: str, observers: list[WriteObserver]) -> None:
        self.raw = raw
        """Requests to the same server as bytes, with authentication, retries, metrics and errors."""
        self.config = config
        self.field_manager = field_manager
        """The default field manager of writes."""
        self.observers = observers
        """Called before and after each write; the cache registers itself here."""

    def namespace_for(self, info: ResourceInfo, namespace: str | None) -> str:
        """Return the namespace of one object: as given, else the configuration's; `""` for cluster-scoped kinds."""
        return info.object_namespace(namespace, self.config.namespace)

    def list_namespace(self, info: ResourceInfo, namespace: str | None) -> str:
        """Return the namespace of a read or deletion of many objects; `""` for `ALL_NAMESPACES`."""
        return info.list_namespace(namespace, self.config.namespace)

    def announce(self, info: ResourceInfo, key: Key, verb: str, *, dry_run: bool) -> Sequence[WriteEnded]:
        """Call the observers before a write. Pass the returned functions to `report` in any case."""
        ended: Sequence[WriteEnded] = ()
        if not dry_run:
            for observer in self.observers:
                more = observer.before_write(info, key, verb)
                ended = (*ended, *more) if ended else more
        return ended

    def report(self, ended: Sequence[WriteEnded], outcome: WriteOutcome | None) -> None:
        """Call the observers after a write; `outcome` is None if the write changed nothing or its result is unknown."""
        for tell in ended:
            tell(outcome)


class _Answer(msgspec.Struct, frozen=True, gc=False):
    metadata: WriteOutcome = WriteOutcome()


_answer = msgspec.json.Decoder(_Answer)


def outcome_of(body: bytes) -> WriteOutcome:
    """Return the uid and resourceVersion from the response of a write, without decoding the rest."""
    try:
        return _answer.decode(body).metadata
    except (msgspec.DecodeError, UnicodeDecodeError):
        return WriteOutcome()


class Target:
    """One object to send: its view, its key and its bytes."""

    __slots__ = ("_body", "key", "labels", "resource_version", "uid", "view")

    def __init__(self, view: View[Any], key: Key, uid: str, resource_version: str, body: Any) -> None:
        self.view = view
        self.key = key
        self.uid = uid
        self.resource_version = resource_version
        self._body = body

    def encode(self) -> bytes:
        """Return the object as JSON."""
        return encode(self._body)


def target_of(obj: AnyObject, kind: KindLike[T] | None, default_namespace: str) -> Target:
    """Return the target of a write of `obj`. `kind` is needed for mappings of kinds that have no class.

    Raises:
        TypeError: `obj` is not an object.
        ValueError: A mapping has no apiVersion or kind.
    """
    if isinstance(obj, Dynamic):
        obj = obj.body
    if isinstance(obj, Mapping):
        return _target_of_mapping(cast("Mapping[str, Any]", obj), kind, default_namespace)
    view = view_of(kind) if kind is not None else view_of_object(obj)
    metadata = obj.metadata
    namespace = (metadata.namespace or default_namespace) if view.info.namespaced else ""
    return Target(view, Key(namespace, metadata.name), metadata.uid, metadata.resource_version, obj)


def _target_of_mapping(body: Mapping[str, Any], kind: KindLike[Any] | None, default_namespace: str) -> Target:
    metadata = cast("Mapping[str, Any]", body.get("metadata") or {})
    if kind is not None:
        view: View[Any] = view_of(kind)
    else:
        api_version, name = str(body.get("apiVersion") or ""), str(body.get("kind") or "")
        if not api_version or not name:
            raise ValueError("the object has no apiVersion or no kind: add them, or pass kind=dynamic(…)")
        known = lookup(api_version, name)
        view = dynamic(api_version, name) if known is None else _dynamic_view(info_of(known))
    namespace = str(metadata.get("namespace") or default_namespace) if view.info.namespaced else ""
    key = Key(namespace, str(metadata.get("name") or ""))
    return Target(view, key, str(metadata.get("uid") or ""), str(metadata.get("resourceVersion") or ""), body)


def _dynamic_view(info: ResourceInfo) -> View[Dynamic]:
    return View(info, Dynamic, "dynamic")
