"""Sealed streams: a read returns the written bytes, and every change of a stored byte is detected."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mysqlcluster.backup.archive import Archive, from_bytes
from mysqlcluster.backup.catalog import BackupManifest
from mysqlcluster.backup.dialects import dialect_of
from mysqlcluster.backup.sealing import SealError, seal, unseal
from mysqlcluster.backup.stores import DirectoryStore, MissingObjectError, collected

KEY = bytes(range(32))


async def sealed(content: bytes, key: bytes | None) -> bytes:
    return b"".join([chunk async for chunk in seal(from_bytes(content), key)])


async def opened(content: bytes, key: bytes | None, size: int = 1000) -> bytes:
    async def chunks():
        for start in range(0, len(content), size):
            yield content[start : start + size]

    return b"".join([chunk async for chunk in unseal(chunks(), key)])


@pytest.mark.parametrize("key", [None, KEY])
@pytest.mark.parametrize("size", [0, 1, 65_536, 300_000])
async def test_a_stream_is_read_as_it_was_written(key: bytes | None, size: int):
    content = os.urandom(size)
    assert await opened(await sealed(content, key), key) == content


@given(st.integers(min_value=0), st.integers(min_value=1, max_value=255))
async def test_a_changed_byte_of_an_encrypted_stream_is_found(place: int, change: int):
    stored = bytearray(await sealed(b"content" * 20_000, KEY))
    stored[place % len(stored)] ^= change
    with pytest.raises(SealError):
        await opened(bytes(stored), KEY)


@pytest.mark.parametrize("key", [None, KEY])
async def test_a_stream_that_is_cut_off_is_found(key: bytes | None):
    stored = await sealed(os.urandom(200_000), key)
    for size in (0, 10, 65_576, len(stored) - 1):
        with pytest.raises(SealError):
            await opened(stored[:size], key)


async def test_another_key_opens_nothing():
    with pytest.raises(SealError, match="another key"):
        await opened(await sealed(b"secret", KEY), bytes(32))
    assert b"secret" not in await sealed(b"secret", KEY)


async def test_an_interrupted_write_leaves_the_object_before(tmp_path: Path):
    store = DirectoryStore(tmp_path)
    await store.put("a/b", from_bytes(b"first"))

    async def broken():
        yield b"second"
        raise RuntimeError("lost")

    with pytest.raises(RuntimeError):
        await store.put("a/b", broken())
    assert await collected(store.get("a/b"), 100) == b"first"
    assert await store.keys("a/") == ["a/b"]
    await store.delete("a/b")
    with pytest.raises(MissingObjectError):
        await collected(store.get("a/b"), 100)


async def test_data_that_does_not_match_its_manifest_is_refused(tmp_path: Path):
    archive = Archive(DirectoryStore(tmp_path), None, dialect_of("mariadb"))
    measured = await archive.write_data("one", from_bytes(b"content"))
    manifest = BackupManifest("one", "db-0", 1.0, 2.0, "", measured.size, measured.sha256)
    assert b"".join([chunk async for chunk in archive.read_data(manifest)]) == b"content"
    await archive.write_data("one", from_bytes(b"other content"))
    with pytest.raises(SealError, match="does not have the checksum"):
        async for _ in archive.read_data(manifest):
            pass
