"""Compression, checksums and encryption of the objects in a target, as streams with bounded memory.

A sealed stream is compressed with zstd. If there is a key, the stream is encrypted in records of 64 KiB with
AES-256-GCM. HKDF derives the key of each stream from the cluster's key and a random salt. The nonce contains the number
of the record and marks the last one, so that records cannot be omitted, exchanged or truncated.

Source: https://eprint.iacr.org/2015/189 (online authenticated encryption, the construction STREAM)
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import AsyncGenerator, AsyncIterator

import zstandard
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

__all__ = ["KEY_BYTES", "Measured", "SealError", "seal", "unseal"]

KEY_BYTES = 32
RECORD_BYTES = 1 << 16
TAG_BYTES = 16
SALT_BYTES = 16
MAGIC = b"STMYENC1"
LEVEL = 3
MAX_WINDOW_BYTES = 1 << 27
_INFO = b"steersman mysqlcluster backup"


class SealError(ValueError):
    """A stream is damaged, truncated, or was sealed with another key."""


class Measured:
    """Counts the bytes of a stream, and computes their SHA-256."""

    def __init__(self) -> None:
        self.size = 0
        self._digest = hashlib.sha256()

    @property
    def sha256(self) -> str:
        """The checksum of the bytes so far, in hexadecimal."""
        return self._digest.hexdigest()

    async def through(self, chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
        """Yield the chunks unchanged, and add them to the size and the checksum."""
        async for chunk in chunks:
            self.size += len(chunk)
            self._digest.update(chunk)
            yield chunk


def seal(chunks: AsyncIterator[bytes], key: bytes | None) -> AsyncIterator[bytes]:
    """Compress a stream, and encrypt it if there is a key of 32 bytes."""
    compressed = _compress(chunks)
    return compressed if key is None else _encrypt(compressed, key)


def unseal(chunks: AsyncIterator[bytes], key: bytes | None) -> AsyncIterator[bytes]:
    """Return the stream that was sealed; a damaged one raises `SealError` when it is read."""
    return _decompress(chunks if key is None else _decrypt(chunks, key))


async def _compress(chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
    compressor = zstandard.ZstdCompressor(level=LEVEL, write_checksum=True).compressobj()
    async for chunk in chunks:
        if made := compressor.compress(chunk):
            yield made
    yield compressor.flush()


async def _decompress(chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
    decompressor = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW_BYTES).decompressobj()
    try:
        async for chunk in chunks:
            # zstd can expand a few bytes to megabytes; small pieces of input bound the memory.
            for start in range(0, len(chunk), 1 << 12):
                if made := decompressor.decompress(chunk[start : start + (1 << 12)]):
                    yield made
    except zstandard.ZstdError as problem:
        raise SealError(f"the stream is damaged: {problem}") from None
    if not decompressor.eof:
        raise SealError("the stream is cut off")


def _cipher(key: bytes, salt: bytes) -> AESGCM:
    if len(key) != KEY_BYTES:
        raise SealError(f"the key has {len(key)} bytes; it must have {KEY_BYTES}")
    return AESGCM(HKDF(hashes.SHA256(), KEY_BYTES, salt, _INFO).derive(key))


def _nonce(number: int, *, last: bool) -> bytes:
    return number.to_bytes(11) + (b"\1" if last else b"\0")


async def _encrypt(chunks: AsyncIterator[bytes], key: bytes) -> AsyncGenerator[bytes]:
    salt = os.urandom(SALT_BYTES)
    cipher = _cipher(key, salt)
    yield MAGIC + salt
    number = 0
    async for record, last in _records(chunks, RECORD_BYTES):
        yield cipher.encrypt(_nonce(number, last=last), record, MAGIC)
        number += 1


async def _decrypt(chunks: AsyncIterator[bytes], key: bytes) -> AsyncGenerator[bytes]:
    start = bytearray()
    async for chunk in chunks:
        start += chunk
        if len(start) >= len(MAGIC) + SALT_BYTES:
            break
    if not start.startswith(MAGIC) or len(start) < len(MAGIC) + SALT_BYTES:
        raise SealError("the stream is not encrypted, or is cut off")
    cipher = _cipher(key, bytes(start[len(MAGIC) : len(MAGIC) + SALT_BYTES]))

    async def rest() -> AsyncGenerator[bytes]:
        yield bytes(start[len(MAGIC) + SALT_BYTES :])
        async for chunk in chunks:
            yield chunk

    number = 0
    async for record, last in _records(rest(), RECORD_BYTES + TAG_BYTES):
        try:
            yield cipher.decrypt(_nonce(number, last=last), record, MAGIC)
        except InvalidTag:
            raise SealError("the stream is damaged, cut off, or was encrypted with another key") from None
        number += 1


async def _records(chunks: AsyncIterator[bytes], size: int) -> AsyncGenerator[tuple[bytes, bool]]:
    """Yield records of `size` bytes, and whether each is the last; the last record may be shorter or empty."""
    buffer = bytearray()
    async for chunk in chunks:
        buffer += chunk
        start = 0
        while len(buffer) - start > size:
            yield bytes(buffer[start : start + size]), False
            start += size
        del buffer[:start]
    yield bytes(buffer), True
