r"""The record format: one cached object as one `bytes` value, a small header and then the JSON, usually compressed.

    codec u8 | flags u8 | owners u16 | text length u32 | plain size u32 | generation i64 | uid \0 rv \0 owner … | JSON

A record is a single allocation that the garbage collector does not track. This module does not decode objects.
"""

from __future__ import annotations

import struct
from typing import Final, TypeAlias

from steersman.cache.wire import Body, Meta, Spliced

__all__ = [
    "DELETING",
    "FLAGS",
    "UNDECODABLE",
    "Header",
    "assemble_record",
    "decode_header",
    "encode_header",
    "encode_simple_record",
    "encoded_payload",
    "has_owners",
    "plain_size",
    "same_object",
    "same_version",
]

Header: TypeAlias = tuple[int, int, int, tuple[str, ...]]
"""Flags, size of the JSON in bytes, generation, and the texts: uid, resourceVersion, uids of the owners."""

_HEAD: Final = struct.Struct("<BBHIIq")
_SIZE: Final = _HEAD.size
_pack, _unpack = _HEAD.pack, _HEAD.unpack_from

FLAGS: Final = 1
"""The offset of the flags in a record."""
DELETING: Final = 1
"""Flag: the object has a deletionTimestamp."""
UNDECODABLE: Final = 2
"""Flag: the metadata has unexpected types, and its values were guessed (W9)."""

_I64: Final = 2**63 - 1


def encode_header(meta: Meta, size: int, codec: int, *, guessed: bool) -> tuple[bytes, Header]:
    """Encode the header of a record whose JSON has `size` bytes and is encoded by `codec`; also return its values."""
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
    except struct.error:  # the generation does not fit into 64 bits
        generation = max(-_I64, min(generation, _I64))
        head = _pack(codec, flags, len(texts) - 2, len(header), size, generation)
    return head + header, (flags, size, generation, texts)


def encode_simple_record(meta: Meta, size: int, codec: int, payload: bytes) -> bytes:
    """Encode the record of an object without owners and flags, as most are."""
    header = f"{meta.uid}\0{meta.resource_version}".encode()
    try:
        return _pack(codec, 0, 0, len(header), size, meta.generation) + header + payload
    except struct.error:
        return encode_header(meta, size, codec, guessed=False)[0] + payload


def assemble_record(head: bytes, body: Body) -> bytes:
    """Join a header and JSON that may be in pieces, with one copy."""
    return b"".join((head, *body.pieces)) if isinstance(body, Spliced) else head + body


def decode_header(record: bytes) -> Header:
    """Decode the header of a record."""
    _codec, flags, _owners, length, size, generation = _unpack(record)
    return flags, size, generation, tuple(record[_SIZE : _SIZE + length].decode().split("\0"))


def encoded_payload(record: bytes) -> tuple[int, bytes]:
    """Return the number of the codec, and the encoded JSON."""
    head = _unpack(record)
    return head[0], record[_SIZE + head[3] :]


def plain_size(record: bytes) -> int:
    """Return the size of the JSON in bytes, without decoding the header."""
    return int.from_bytes(record[8:12], "little")


def has_owners(record: bytes) -> bool:
    """Return whether the object has owner references."""
    return record[2] != 0 or record[3] != 0


def same_object(record: bytes, meta: Meta) -> bool:
    """Return whether record and metadata have the same uid."""
    return record.startswith(b"%s\0" % meta.uid.encode(), _SIZE)


def same_version(record: bytes, meta: Meta) -> bool:
    """Return whether record and metadata have the same uid and resourceVersion."""
    if not record.startswith(f"{meta.uid}\0{meta.resource_version}".encode(), _SIZE):
        return False
    return decode_header(record)[3][1] == meta.resource_version
