"""The operator's requests to archivers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec
from steersman import Key
from steersman.client import NativeTransport, TransportError
from steersman.client.config import Config, TlsConfig

from mysqlcluster import names
from mysqlcluster.backup.protocol import ArchiverState, Job

__all__ = ["ArchiverClient", "ArchiverError", "use_archivers"]

REQUEST_SECONDS = 5.0
MAX_STATE_BYTES = 16 << 20

_urls: list[Callable[[Key], str]] = [names.archiver_url]


def use_archivers(url_of: Callable[[Key], str] = names.archiver_url) -> None:
    """Replace the function that returns the URLs of archivers in this process."""
    _urls[:] = [url_of]


class ArchiverError(RuntimeError):
    """An archiver refused a request or did not answer."""


class ArchiverClient:
    """Requests to the archiver of one cluster."""

    def __init__(self, key: Key, token: str, authority: str) -> None:
        """Store the URL of the archiver and the credentials.

        Args:
            key: Namespace and name of the cluster.
            token: The bearer token of its agents and its archiver.
            authority: The certificate authority of its archiver, in PEM.
        """
        self._config = Config(_urls[0](key), TlsConfig(ca_pem=authority.encode()))
        self._headers = {"Authorization": f"Bearer {token}"}

    async def state(self) -> ArchiverState | None:
        """Return the report; `None` if the archiver does not answer."""
        try:
            return msgspec.json.decode(await self._request("GET", "/v1/state", None), type=ArchiverState)
        except (ArchiverError, msgspec.DecodeError):
            return None

    async def send(self, job: Job) -> None:
        """Start a job; raises `ArchiverError`."""
        await self._request("POST", "/v1/jobs", msgspec.json.encode(job))

    async def _request(self, method: str, path: str, body: bytes | None) -> bytes:
        transport = NativeTransport(self._config)
        try:
            async with (
                asyncio.timeout(REQUEST_SECONDS),
                transport.stream(
                    method,
                    path,
                    headers=self._headers,
                    body=body,
                    connect_timeout=REQUEST_SECONDS,
                    idle_timeout=REQUEST_SECONDS,
                ) as response,
            ):
                content = bytearray()
                async for chunk in response.chunks:
                    content += chunk
                    if len(content) > MAX_STATE_BYTES:
                        raise ArchiverError(f"the answer is larger than {MAX_STATE_BYTES} bytes")
                if response.status >= 300:
                    raise ArchiverError(f"status {response.status}: {content[:300].decode(errors='replace')}")
                return bytes(content)
        except (TimeoutError, TransportError) as problem:
            raise ArchiverError(f"no answer: {problem or type(problem).__name__}") from None
        finally:
            await transport.close()
