"""One cached object as one `bytes` value: a small header, then the object's JSON, usually compressed.

    codec u8 | flags u8 | owners u16 | text length u32 | plain size u32 | generation i64 | uid \\0 rv \\0 owner … | JSON

A record is a single allocation that the garbage collector never looks at, and a collection of records is a plain
dict of strings and bytes. Nothing here decodes objects.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from steersman.cache.wire import Meta

__all__ = ["DELETING", "UNDECODABLE", "header_of", "pack", "payload_of", "same_object", "same_version"]

_HEAD: Final = Struct("<BBHIIq")
_SIZE: Final = _HEAD.size

DELETING: Final = 1
"""Flag: the object has a deletionTimestamp."""
UNDECODABLE: Final = 2
"""Flag: even the metadata has unexpected types; what is known of it was guessed (W9)."""

_I64: Final = 2**63 - 1


def pack(meta: Meta, codec: int, payload: bytes, size: int, *, guessed: bool = False) -> bytes:
    """The record of an object: `payload` is its JSON of `size` bytes, encoded by `codec`."""
    flags = (DELETING if meta.deletion_timestamp else 0) | (UNDECODABLE if guessed else 0)
    text = f"{meta.uid}\0{meta.resource_version}"
    owners = meta.owner_references
    if owners:
        text = "\0".join((text, *(o.uid for o in owners[:65535])))
    header = text.encode()
    generation = min(max(meta.generation, -_I64), _I64)
    head = _HEAD.pack(codec, flags, len(owners) if owners else 0, len(header), size, generation)
    return b"".join((head, header, payload))


def header_of(record: bytes) -> tuple[int, int, int, tuple[str, ...]]:
    """Flags, plain size, generation, and the texts: uid, resourceVersion, owners' uids."""
    _codec, flags, _owners, length, size, generation = _HEAD.unpack_from(record)
    return flags, size, generation, tuple(record[_SIZE : _SIZE + length].decode().split("\0"))


def payload_of(record: bytes) -> tuple[int, int, bytes]:
    """Codec, plain size, and the JSON as that codec left it."""
    codec, _flags, _owners, length, size, _generation = _HEAD.unpack_from(record)
    return codec, size, record[_SIZE + length :]


def has_owners(record: bytes) -> bool:
    """Whether the object has owner references."""
    return record[2] != 0 or record[3] != 0


def same_object(record: bytes, meta: Meta) -> bool:
    """Whether record and metadata are of the same object, not of two that had the same name one after the other."""
    return record.startswith(b"%s\0" % meta.uid.encode(), _SIZE)


def same_version(record: bytes, meta: Meta) -> bool:
    """Whether record and metadata are the same version of the same object."""
    if not record.startswith(f"{meta.uid}\0{meta.resource_version}".encode(), _SIZE):
        return False
    return header_of(record)[3][1] == meta.resource_version
