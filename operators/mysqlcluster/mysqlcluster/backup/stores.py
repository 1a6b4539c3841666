"""Targets of backups: keys with bytes, in a directory or in S3. Writes are atomic."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Protocol

__all__ = ["DirectoryStore", "ExistingObjectError", "MissingObjectError", "Store", "StoreError", "collected"]

CHUNK_BYTES = 1 << 18
PART_SUFFIX = ".part"


class StoreError(RuntimeError):
    """A target refused or was unreachable; the message names the target and the object, without credentials."""


class MissingObjectError(StoreError):
    """The target has no object with this key."""


class ExistingObjectError(StoreError):
    """The target already has an object with this key."""


class Store(Protocol):
    """One target."""

    async def put(self, key: str, chunks: AsyncIterator[bytes], *, new: bool = False) -> None:
        """Write an object atomically: until all chunks are written, the previous object stays.

        Args:
            key: The key.
            chunks: The content; with `new` it is kept in memory.
            new: Refuse to replace an object. If two processes write concurrently, one succeeds.

        Raises:
            ExistingObjectError: The object exists, and `new` is set.
            StoreError: The target refused or was unreachable.
        """
        ...

    def get(self, key: str) -> AsyncIterator[bytes]:
        """Yield an object's bytes; raises `MissingObjectError` or `StoreError` when it is read."""
        ...

    async def start_of(self, key: str, size: int) -> bytes:
        """Return at most the first `size` bytes of an object; raises the errors of `get`."""
        ...

    async def keys(self, prefix: str) -> list[str]:
        """Return the sorted keys that start with a prefix ending in `/`; raises `StoreError`."""
        ...

    async def delete(self, key: str) -> None:
        """Delete an object, if it exists; raises `StoreError`."""
        ...


class DirectoryStore:
    """A directory, such as the mount of a PersistentVolumeClaim."""

    def __init__(self, directory: Path) -> None:
        """Use a directory, which the first write creates."""
        self._directory = directory

    async def put(self, key: str, chunks: AsyncIterator[bytes], *, new: bool = False) -> None:
        """Write an object through a temporary file that is synced and renamed, or linked with `new`."""
        target = self._directory / key
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=".", suffix=PART_SUFFIX)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    async for chunk in chunks:
                        await asyncio.to_thread(file.write, chunk)
                    file.flush()
                    await asyncio.to_thread(os.fsync, file.fileno())
                if new:
                    os.link(name, target)
                    os.unlink(name)
                else:
                    os.replace(name, target)
            except BaseException:
                await asyncio.to_thread(Path(name).unlink, missing_ok=True)
                raise
            await asyncio.to_thread(_sync_directory, target.parent)
        except FileExistsError:
            raise ExistingObjectError(f"{target} exists already") from None
        except OSError as problem:
            raise StoreError(f"{target}: {problem.strerror or problem}") from None

    async def get(self, key: str) -> AsyncGenerator[bytes]:
        """Yield the file's bytes."""
        try:
            with await asyncio.to_thread(open, self._directory / key, "rb") as file:
                while chunk := await asyncio.to_thread(file.read, CHUNK_BYTES):
                    yield chunk
        except FileNotFoundError:
            raise MissingObjectError(f"{self._directory / key} is missing") from None
        except OSError as problem:
            raise StoreError(f"{self._directory / key}: {problem.strerror or problem}") from None

    async def start_of(self, key: str, size: int) -> bytes:
        """Return the first bytes of the file."""
        async for chunk in self.get(key):
            return chunk[:size]
        return b""

    async def keys(self, prefix: str) -> list[str]:
        """Return the keys of the finished files below a directory."""
        base = self._directory / prefix
        found = await asyncio.to_thread(lambda: [each for each in base.rglob("*") if each.is_file()])
        return sorted(
            each.relative_to(self._directory).as_posix() for each in found if not each.name.endswith(PART_SUFFIX)
        )

    async def delete(self, key: str) -> None:
        """Delete the file, and its directory if it is then empty."""
        path = self._directory / key
        try:
            path.unlink(missing_ok=True)
            if path.parent != self._directory and path.parent.exists() and not any(path.parent.iterdir()):
                path.parent.rmdir()
        except OSError as problem:
            raise StoreError(f"{path}: {problem.strerror or problem}") from None

    def clean(self) -> None:
        """Remove unfinished files that a killed process has left."""
        for part in self._directory.rglob(f".*{PART_SUFFIX}"):
            part.unlink(missing_ok=True)

    def free_bytes(self) -> int:
        """Return the free space."""
        return shutil.disk_usage(self._directory).free


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


async def collected(chunks: AsyncIterator[bytes], limit: int) -> bytes:
    """Return a whole object.

    Raises:
        StoreError: The object is larger than `limit` bytes.
    """
    content = bytearray()
    async for chunk in chunks:
        content += chunk
        if len(content) > limit:
            raise StoreError(f"the object is larger than {limit} bytes")
    return bytes(content)
