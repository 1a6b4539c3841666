"""One cached object as one `bytes` value: a small header, then the object's JSON, usually compressed.

    codec u8 | flags u8 | owners u16 | text length u32 | plain size u32 | generation i64 | uid \\0 rv \\0 owner … | JSON

A record is a single allocation that the garbage collector never looks at, and a collection of records is a plain
dict of strings and bytes. Nothing here decodes objects.
"""

from __future__ import annotations

import struct
from typing import Final, TypeAlias

from steersman.cache.wire import Body, Meta, Spliced

__all__ = [
    "DELETING",
    "FLAGS",
    "UNDECODABLE",
    "Facts",
    "has_owners",
    "head_of",
    "header_of",
    "long_record",
    "payload_of",
    "same_object",
    "same_version",
    "simple_record",
    "size_of",
]

Facts: TypeAlias = tuple[int, int, int, tuple[str, ...]]
"""Flags, size of the JSON, generation, and the texts: uid, resourceVersion, owners' uids."""

_HEAD: Final = struct.Struct("<BBHIIq")
_SIZE: Final = _HEAD.size
_pack, _unpack = _HEAD.pack, _HEAD.unpack_from

FLAGS: Final = 1
"""Which byte of a record holds its flags."""
DELETING: Final = 1
"""Flag: the object has a deletionTimestamp."""
UNDECODABLE: Final = 2
"""Flag: even the metadata has unexpected types; what is known of it was guessed (W9)."""

_I64: Final = 2**63 - 1


def head_of(meta: Meta, size: int, guessed: bool, codec: int) -> tuple[bytes, Facts]:
    """The start of an object's record, and the facts in it: its JSON of `size` bytes follows, encoded by `codec`."""
    flags = DELETING if meta.deletion_timestamp else 0
    if guessed:
        flags |= UNDECODABLE
    generation, owners = meta.generation, meta.owner_references
    texts: tuple[str, ...] = (meta.uid, meta.resource_version)
    if owners:
        texts += tuple([owner.uid for owner in owners[:65535]])
    header = "\0".join(texts).encode()
    try:
        head = _pack(codec, flags, len(texts) - 2, len(header), size, generation)
    except struct.error:  # a generation that no server counts to
        generation = max(-_I64, min(generation, _I64))
        head = _pack(codec, flags, len(texts) - 2, len(header), size, generation)
    return head + header, (flags, size, generation, texts)


def simple_record(meta: Meta, size: int, codec: int, payload: bytes) -> bytes:
    """The record of an object that has neither owners nor flags: of most of them."""
    header = f"{meta.uid}\0{meta.resource_version}".encode()
    try:
        return _pack(codec, 0, 0, len(header), size, meta.generation) + header + payload
    except struct.error:
        return head_of(meta, size, False, codec)[0] + payload


def long_record(head: bytes, body: Body) -> bytes:
    """The record of an object whose JSON may be in pieces: they are copied once."""
    return b"".join((head, *body.pieces)) if isinstance(body, Spliced) else head + body


def header_of(record: bytes) -> Facts:
    """The facts that the record was packed with."""
    _codec, flags, _owners, length, size, generation = _unpack(record)
    return flags, size, generation, tuple(record[_SIZE : _SIZE + length].decode().split("\0"))


def payload_of(record: bytes) -> tuple[int, bytes]:
    """The codec, and the JSON as that left it."""
    head = _unpack(record)
    return head[0], record[_SIZE + head[3] :]


def size_of(record: bytes) -> int:
    """The size of the JSON, without taking the record apart."""
    return int.from_bytes(record[8:12], "little")


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
