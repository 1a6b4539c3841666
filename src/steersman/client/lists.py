"""Lists: decoding of pages of objects, in which an invalid item does not affect the others.

A page is split into the bytes of its items, and each item is decoded separately. Items that do not fit their type
become an `UndecodableItem` with the key and the path of the field. No item is dropped silently.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

import msgspec

from steersman.client.errors import ResponseError
from steersman.models import DecodeError, Dynamic, Key, ListMeta, View, decode

__all__ = ["Page", "UndecodableItem", "decode_item", "read_page"]

T = TypeVar("T")


class UndecodableItem(msgspec.Struct, frozen=True, kw_only=True):
    """An object that does not fit its type, with its key and the error. The bytes are not part of the `repr`."""

    key: Key
    resource_version: str
    error: DecodeError
    raw: bytes

    def __repr__(self) -> str:
        return f"<undecodable {self.key}: {self.error}>"


class Page(Generic[T]):
    """One page of a list. Iterating yields its items.

    Attributes:
        items: The objects of this page.
        resource_version: The version of the whole list, the same for all its pages, from which a watch can start.
        continue_: The token of the next page; `""` on the last page.
        remaining: The number of objects on later pages, if the server tells.
        undecodable: The objects of this page that do not fit the type.
    """

    __slots__ = ("continue_", "items", "remaining", "resource_version", "undecodable")

    def __init__(
        self,
        items: tuple[T, ...],
        resource_version: str,
        continue_: str = "",
        remaining: int | None = None,
        undecodable: tuple[UndecodableItem, ...] = (),
    ) -> None:
        self.items = items
        self.resource_version = resource_version
        self.continue_ = continue_
        self.remaining = remaining
        self.undecodable = undecodable

    def __iter__(self) -> Iterator[T]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def __repr__(self) -> str:
        more = ", more follow" if self.continue_ else ""
        return f"<page of {len(self.items)} items at {self.resource_version}{more}>"


class _Envelope(msgspec.Struct, frozen=True, gc=False):
    metadata: ListMeta = ListMeta()
    items: list[msgspec.Raw] | None = None


class _Name(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class Named(msgspec.Struct, frozen=True, gc=False):
    """The part of an object that identifies it. The decoder skips the rest."""

    metadata: _Name = _Name()


_envelope = msgspec.json.Decoder(_Envelope)
_named = msgspec.json.Decoder(Named)


def name_of(raw: bytes | memoryview) -> _Name:
    """Return name, namespace, uid and version of an object, even if other parts of it are invalid."""
    try:
        return _named.decode(raw).metadata
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _Name()


def split_page(body: bytes, request: str) -> tuple[ListMeta, list[msgspec.Raw]]:
    """Return the list's metadata and the bytes of its items. Raises `ResponseError` for an invalid list."""
    try:
        envelope = _envelope.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise ResponseError(f"{request}: the response is not a valid list: {problem}") from None
    return envelope.metadata, envelope.items or []


def decode_item(view: View[T], raw: bytes | memoryview) -> T:
    """Decode one item of a list. Items have no apiVersion and kind, so dynamic objects get them from the view."""
    obj = view.decode(raw)
    if isinstance(obj, Dynamic) and "kind" not in obj.body:
        return obj.with_kind(view.info.api_version, view.info.kind)
    return obj


def read_page(view: View[T], body: bytes, request: str) -> Page[T]:
    """Decode a page of a list. Raises `ResponseError` if the response is not a list."""
    metadata, raws = split_page(body, request)
    items: list[T] = []
    bad: list[UndecodableItem] = []
    for raw in raws:
        try:
            items.append(decode_item(view, memoryview(raw)))
        except DecodeError as problem:
            bad.append(undecodable(bytes(raw), problem))
    return Page(
        tuple(items),
        metadata.resource_version,
        metadata.continue_,
        metadata.remaining_item_count,
        tuple(bad),
    )


def undecodable(raw: bytes, problem: DecodeError) -> UndecodableItem:
    """Return an undecodable item with its key, as far as the bytes have one."""
    name = name_of(raw)
    return UndecodableItem(
        key=Key(name.namespace, name.name), resource_version=name.resource_version, error=problem, raw=raw
    )


def read_object(view: View[T], body: bytes, request: str) -> T:
    """Decode the object of a response. Raises `ResponseError` with the request and the field."""
    try:
        return decode_item(view, body)
    except DecodeError as problem:
        raise ResponseError(
            f"{request}: the response does not fit the class of {view.info.kind}: {problem}. "
            "Read it with dynamic(…) or metadata_of(…), or correct the class"
        ) from problem


def read_as(kind: type[T], body: bytes, request: str) -> T:
    """Decode a model from the body of a response. Raises `ResponseError`."""
    try:
        return decode(kind, body)
    except DecodeError as problem:
        raise ResponseError(f"{request}: the response does not fit {kind.__name__}: {problem}") from problem
