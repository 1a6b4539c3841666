"""The backups and the archive of one cluster in a target."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path

import msgspec

from mysqlcluster.backup import catalog
from mysqlcluster.backup.catalog import ArchiveMark, BackupManifest, SegmentHeader
from mysqlcluster.backup.dialects import Dialect
from mysqlcluster.backup.plan import RestorePlan, Target
from mysqlcluster.backup.sealing import Measured, SealError, seal, unseal
from mysqlcluster.backup.stores import MissingObjectError, Store, collected

__all__ = ["Archive", "from_bytes", "from_file"]

CONCURRENT_READS = 8
CHUNK_BYTES = 1 << 18


class Archive:
    """Reads and writes the objects of one cluster, sealed with its key."""

    def __init__(self, store: Store, key: bytes | None, dialect: Dialect) -> None:
        """Use a target.

        Args:
            store: The target, below the location of the cluster.
            key: The key of 32 bytes, or `None` to write without encryption.
            dialect: The flavor of the cluster.
        """
        self.store = store
        self.dialect = dialect
        self._key = key
        self._headers: dict[int, SegmentHeader] = {}
        self._own: set[int] = set()
        """The segments that this process has created; it replaces only these."""

    @property
    def encrypted(self) -> bool:
        """Whether new objects are encrypted."""
        return self._key is not None

    # Full backups.

    async def write_data(self, name: str, chunks: AsyncIterator[bytes]) -> Measured:
        """Write a full copy, and return its size and checksum."""
        measured = Measured()
        await self.store.put(catalog.data_key(name), measured.through(seal(chunks, self._key)))
        return measured

    async def write_manifest(self, manifest: BackupManifest) -> None:
        """Write the manifest of a full copy."""
        await self.store.put(catalog.manifest_key(manifest.name), from_bytes(msgspec.json.encode(manifest)))

    async def manifest(self, name: str) -> BackupManifest | None:
        """Return the manifest of a backup; `None` if there is none."""
        key = catalog.manifest_key(name)
        try:
            content = await collected(self.store.get(key), catalog.MAX_MANIFEST_BYTES)
        except MissingObjectError:
            return None
        return catalog.decode(key, content, BackupManifest)

    async def manifests(self) -> list[BackupManifest]:
        """Return the manifests of all backups, oldest first."""
        names = [key.split("/")[1] for key in await self.store.keys("backups/") if key.endswith("/manifest.json")]
        found = [each for each in await asyncio.gather(*map(self.manifest, names)) if each is not None]
        return sorted(found, key=lambda each: each.ended)

    async def read_data(self, manifest: BackupManifest) -> AsyncGenerator[bytes]:
        """Yield the copy as the member sent it.

        Raises:
            SealError: The data is damaged.
        """
        measured = Measured()
        stored = measured.through(self.store.get(catalog.data_key(manifest.name)))
        async for chunk in unseal(stored, self._key_for(manifest.encrypted)):
            yield chunk
        if (measured.size, measured.sha256) != (manifest.size, manifest.sha256):
            raise SealError(f"the data of backup {manifest.name} does not have the checksum of its manifest")

    async def delete_backup(self, name: str) -> None:
        """Delete a backup, manifest first, so that the remains of an interrupted deletion do not count as a backup."""
        await self.store.delete(catalog.manifest_key(name))
        await self.store.delete(catalog.data_key(name))

    # Segments.

    @property
    def headers(self) -> list[SegmentHeader]:
        """The headers that this process has read or written, in order."""
        return [self._headers[number] for number in sorted(self._headers)]

    async def write_segment(self, header: SegmentHeader, file: Path, size: int) -> SegmentHeader:
        """Write the first `size` bytes of a file as a segment, and return the header with size and checksum.

        Raises:
            ExistingObjectError: Another process has created the segment.
            StoreError: The target refuses or cannot be reached.
        """
        measured = Measured()
        sealed = bytearray()
        async for chunk in measured.through(seal(from_file(file, size), self._key)):
            sealed += chunk
        full = msgspec.structs.replace(
            header, size=measured.size, sha256=measured.sha256, encrypted=self._key is not None
        )
        content = from_bytes(catalog.encode_header(full) + sealed)
        await self.store.put(catalog.segment_key(full.number), content, new=full.number not in self._own)
        self._own.add(full.number)
        self._headers[full.number] = full
        return full

    async def segments(self, *, fresh: bool = False) -> list[SegmentHeader]:
        """Return the headers of all segments in order.

        Args:
            fresh: Read all segments again; needed if another process writes.
        """
        numbers = [catalog.segment_number(key) for key in await self.store.keys("binlog/")]
        wanted = {number for number in numbers if number is not None}
        self._headers = {} if fresh else {n: each for n, each in self._headers.items() if n in wanted}
        limit = asyncio.Semaphore(CONCURRENT_READS)

        async def read(number: int) -> None:
            key = catalog.segment_key(number)
            async with limit:
                start = await self.store.start_of(key, catalog.HEADER_BYTES)
            self._headers[number] = catalog.split_header(key, start)[0]

        await asyncio.gather(*(read(number) for number in sorted(wanted - self._headers.keys())))
        return self.headers

    async def read_segment(self, number: int) -> AsyncGenerator[bytes]:
        """Yield the events of a segment, as a binary log.

        Raises:
            CatalogError: The segment has no header.
            SealError: The events are damaged.
        """
        key = catalog.segment_key(number)
        stored = self.store.get(key)
        start = b""
        async for chunk in stored:
            start += chunk
            if b"\n" in start or len(start) > catalog.HEADER_BYTES:
                break
        header, rest = catalog.split_header(key, start)

        async def body() -> AsyncGenerator[bytes]:
            yield rest
            async for chunk in stored:
                yield chunk

        measured = Measured()
        async for chunk in unseal(measured.through(body()), self._key_for(header.encrypted)):
            yield chunk
        if (measured.size, measured.sha256) != (header.size, header.sha256):
            raise SealError(f"segment {number} does not have the checksum of its header")

    async def delete_segments(self, numbers: tuple[int, ...]) -> None:
        """Delete segments, oldest first, so that an interruption leaves no gap."""
        for number in numbers:
            await self.store.delete(catalog.segment_key(number))
            self._headers.pop(number, None)

    async def write_mark(self, mark: ArchiveMark) -> None:
        """Write the time until which the archive is complete."""
        await self.store.put(catalog.MARK, from_bytes(msgspec.json.encode(mark)))

    async def mark(self) -> ArchiveMark | None:
        """Return the time until which the archive is complete; `None` before the first write."""
        try:
            content = await collected(self.store.get(catalog.MARK), catalog.MAX_MANIFEST_BYTES)
        except MissingObjectError:
            return None
        return catalog.decode(catalog.MARK, content, ArchiveMark)

    async def plan(self, target: Target) -> RestorePlan:
        """Return the plan of a restore to a target; raises `PlanError`."""
        # The mark is read first, so that the segments contain at least the transactions that it covers.
        mark = await self.mark()
        return self.dialect.plan(target, await self.manifests(), await self.segments(fresh=True), mark)

    def _key_for(self, encrypted: bool) -> bytes | None:
        if encrypted and self._key is None:
            raise SealError("the object is encrypted, and no key is configured: set encryptionSecret")
        return self._key if encrypted else None


async def from_bytes(content: bytes) -> AsyncGenerator[bytes]:
    """Yield bytes that are in memory."""
    yield content


async def from_file(file: Path, size: int) -> AsyncGenerator[bytes]:
    """Yield the first `size` bytes of a file."""
    with await asyncio.to_thread(open, file, "rb") as source:
        while size > 0 and (chunk := await asyncio.to_thread(source.read, min(size, CHUNK_BYTES))):
            size -= len(chunk)
            yield chunk
