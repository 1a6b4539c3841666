"""The operator's requests to archivers."""

from __future__ import annotations

import asyncio
import functools
import ssl
from collections.abc import Callable

import aiohttp
import msgspec
from steersman import Key

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


@functools.lru_cache(maxsize=256)
def _context(authority: str) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=authority)


class ArchiverClient:
    """Requests to the archiver of one cluster."""

    def __init__(self, key: Key, token: str, authority: str) -> None:
        """Store the URL of the archiver and the credentials.

        Args:
            key: Namespace and name of the cluster.
            token: The bearer token of its agents and its archiver.
            authority: The certificate authority of its archiver, in PEM.
        """
        self._url = _urls[0](key)
        self._token = token
        self._authority = authority

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
        headers = {"Authorization": f"Bearer {self._token}"}
        tls = _context(self._authority)
        try:
            async with (
                asyncio.timeout(REQUEST_SECONDS),
                aiohttp.ClientSession() as session,
                session.request(method, self._url + path, data=body, headers=headers, ssl=tls) as response,
            ):
                content = await response.content.read(MAX_STATE_BYTES)
                while not response.content.at_eof() and len(content) < MAX_STATE_BYTES:
                    content += await response.content.read(MAX_STATE_BYTES)
                if response.status >= 300:
                    raise ArchiverError(f"status {response.status}: {content[:300].decode(errors='replace')}")
                return content
        except (TimeoutError, OSError, aiohttp.ClientError) as problem:
            raise ArchiverError(f"no answer: {problem or type(problem).__name__}") from None
