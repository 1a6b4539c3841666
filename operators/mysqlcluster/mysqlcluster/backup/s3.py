"""S3 as a target, through obstore."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator
from datetime import timedelta
from typing import TYPE_CHECKING

from mysqlcluster.backup.stores import ExistingObjectError, MissingObjectError, StoreError

if TYPE_CHECKING:
    from obstore.store import S3Store as Client

__all__ = ["S3Store"]

PART_BYTES = 8 << 20
CONCURRENT_PARTS = 2
CONNECT_SECONDS = 5
REQUEST_SECONDS = 60
RETRIES = 4
RETRY_SECONDS = 30
MAX_PROBLEM_CHARACTERS = 300


class S3Store:
    """One prefix of a bucket."""

    def __init__(
        self, *, endpoint: str, bucket: str, prefix: str, region: str, access_key: str, secret_key: str
    ) -> None:
        """Create the client, without a request.

        Args:
            endpoint: URL of the server; empty for Amazon S3.
            bucket: Name of the bucket, which must exist.
            prefix: Prefix of all keys.
            region: Name of the region.
            access_key: Access key ID.
            secret_key: Secret access key.

        Raises:
            StoreError: The settings are invalid.
        """
        from obstore.store import S3Store as Client  # an import of 16 MB, which only this target needs

        self._name = f"s3://{bucket}/{prefix}"
        self._hidden = (access_key, secret_key)
        try:
            self._client: Client = Client(
                bucket,
                prefix=prefix or None,
                region=region,
                access_key_id=access_key,
                secret_access_key=secret_key,
                virtual_hosted_style_request=False,
                client_options={
                    "allow_http": endpoint.startswith("http://"),
                    "connect_timeout": timedelta(seconds=CONNECT_SECONDS),
                    "timeout": timedelta(seconds=REQUEST_SECONDS),
                },
                retry_config={"max_retries": RETRIES, "retry_timeout": timedelta(seconds=RETRY_SECONDS)},
                endpoint=endpoint or f"https://s3.{region}.amazonaws.com",
            )
        except Exception as problem:
            raise StoreError(f"{self._name}: {self._text(problem)}") from None

    def _text(self, problem: Exception) -> str:
        """Return the first line of an error, without credentials."""
        text = re.sub(r"\s+", " ", str(problem) or type(problem).__name__)
        for secret in self._hidden:
            text = text.replace(secret, "…") if secret else text
        return text[:MAX_PROBLEM_CHARACTERS]

    def _error(self, key: str, problem: Exception) -> StoreError:
        if isinstance(problem, FileNotFoundError):
            return MissingObjectError(f"{self._name}/{key} is missing")
        return StoreError(f"{self._name}/{key}: {self._text(problem)}")

    async def put(self, key: str, chunks: AsyncIterator[bytes], *, new: bool = False) -> None:
        """Write an object by multipart upload, or in one conditional request with `new`."""
        if new:
            await self._create(key, b"".join([chunk async for chunk in chunks]))
            return
        from obstore import put_async

        failed: list[BaseException] = []

        async def guarded() -> AsyncGenerator[bytes]:
            # The client reports an error of the stream as text, but the caller needs the exception.
            try:
                async for chunk in chunks:
                    yield chunk
            except BaseException as problem:
                failed.append(problem)
                raise

        try:
            await put_async(
                self._client,
                key,
                guarded(),
                chunk_size=PART_BYTES,
                max_concurrency=CONCURRENT_PARTS,
                use_multipart=True,
            )
        except Exception as problem:
            if failed:
                raise failed[0] from None
            raise self._error(key, problem) from None

    async def _create(self, key: str, content: bytes) -> None:
        from obstore import put_async
        from obstore.exceptions import AlreadyExistsError

        try:
            await put_async(self._client, key, content, mode="create", use_multipart=False)
        except AlreadyExistsError:
            raise ExistingObjectError(f"{self._name}/{key} exists already") from None
        except Exception as problem:
            raise self._error(key, problem) from None

    async def get(self, key: str) -> AsyncGenerator[bytes]:
        """Yield the object's bytes."""
        from obstore import get_async

        try:
            found = await get_async(self._client, key)
            async for chunk in found:
                yield bytes(chunk)
        except Exception as problem:
            raise self._error(key, problem) from None

    async def start_of(self, key: str, size: int) -> bytes:
        """Return the first bytes of the object."""
        from obstore import get_range_async

        try:
            return bytes(await get_range_async(self._client, key, start=0, length=size))
        except Exception as problem:
            raise self._error(key, problem) from None

    async def keys(self, prefix: str) -> list[str]:
        """Return the keys below a prefix."""

        try:
            stream = self._client.list(prefix, chunk_size=1000)  # pyright: ignore[reportUnknownMemberType]
            return sorted([each["path"] async for batch in stream for each in batch])
        except Exception as problem:
            raise self._error(prefix, problem) from None

    async def delete(self, key: str) -> None:
        """Delete the object."""
        from obstore import delete_async

        try:
            await delete_async(self._client, key)
        except Exception as problem:
            known = self._error(key, problem)
            if not isinstance(known, MissingObjectError):
                raise known from None
