"""Links in responses that pass through the API server's proxy: links to the server's own paths lead through the proxy.

Source: k8s.io/apimachinery/pkg/util/proxy (Transport).
"""

from __future__ import annotations

import asyncio
import html
import posixpath
import zlib
from collections.abc import AsyncIterator, Collection
from html.parser import HTMLParser
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from steersman_cluster.api.requests.messages import Response

__all__ = ["MAX_PAGE_BYTES", "rewrite_html", "rewrite_link", "rewrite_response"]

MAX_PAGE_BYTES: Final = 1024 * 1024
"""The length up to which pages are rewritten; longer ones pass as they are."""

_ATTRIBUTES: Final = {
    "a": {"href"}, "applet": {"codebase"}, "area": {"href"}, "audio": {"src"}, "base": {"href"},
    "blockquote": {"cite"}, "body": {"background"}, "button": {"formaction"}, "command": {"icon"}, "del": {"cite"},
    "embed": {"src"}, "form": {"action"}, "frame": {"longdesc", "src"}, "head": {"profile"}, "html": {"manifest"},
    "iframe": {"longdesc", "src"}, "img": {"longdesc", "src", "usemap"}, "input": {"src", "usemap", "formaction"},
    "ins": {"cite"}, "link": {"href"}, "object": {"classid", "codebase", "data", "usemap"}, "q": {"cite"},
    "script": {"src"}, "source": {"src"}, "video": {"poster", "src"},
}  # fmt: skip
"""The attributes of HTML elements that hold URLs."""
_WINDOW_BITS: Final = {"gzip": 31, "deflate": -15}


def rewrite_link(link: str, prefix: str, hosts: Collection[str]) -> str:
    """Return a link with the proxy's prefix; links to other hosts and relative links stay as they are.

    Args:
        link: The URL.
        prefix: The path of the proxy, without a slash at its end.
        hosts: The names under which the page's server is known, with their ports.
    """
    try:
        parts = urlsplit(link)
    except ValueError:
        return link
    if (parts.netloc and parts.netloc not in hosts) or not parts.path.startswith("/"):
        return link
    path = parts.path
    if not path.startswith(prefix):
        path = prefix + posixpath.normpath(f"/{path.lstrip('/')}")
        if parts.path.endswith("/") and not path.endswith("/"):
            path += "/"
    return urlunsplit(("", "", path, parts.query, parts.fragment))


def rewrite_html(page: str, prefix: str, hosts: Collection[str]) -> str:
    """Return a page whose links are rewritten; everything else stays as it is."""
    rewriter = _Rewriter(page, prefix, hosts)
    rewriter.feed(page)
    rewriter.close()
    return rewriter.text()


async def rewrite_response(response: Response, prefix: str, hosts: Collection[str]) -> Response:
    """Return a response whose `Location` and, in HTML, whose links lead through the proxy.

    Args:
        response: The response of the server behind the proxy.
        prefix: The path of the proxy, without a slash at its end.
        hosts: The names under which that server is known, with their ports.
    """
    if response.serve is not None:
        return response
    if _header(response, "location"):
        response.headers = tuple(
            (name, rewrite_link(value, prefix, hosts) if name.lower() == "location" else value)
            for name, value in response.headers
        )
        return response
    encoding = _header(response, "content-encoding")
    kind = response.content_type.partition(";")[0].strip()
    if kind != "text/html" or (encoding and encoding not in _WINDOW_BITS):
        return response
    body, rest = bytearray(response.body), response.stream
    if rest is not None:
        async for chunk in rest:
            body += chunk
            if len(body) > MAX_PAGE_BYTES:
                response.stream = _joined(bytes(body), rest)
                return response
    response.body, response.stream = await asyncio.to_thread(_rewritten, bytes(body), encoding, prefix, hosts), None
    return response


def _header(response: Response, name: str) -> str:
    return next((value for known, value in response.headers if known.lower() == name), "")


async def _joined(begin: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield begin
    async for chunk in rest:
        yield chunk


def _rewritten(body: bytes, encoding: str, prefix: str, hosts: Collection[str]) -> bytes:
    plain = body
    if encoding:
        try:
            decoder = zlib.decompressobj(_WINDOW_BITS[encoding])
            plain = decoder.decompress(body, MAX_PAGE_BYTES)
        except zlib.error:
            return body
        if decoder.unconsumed_tail or not decoder.eof:
            return body
    if len(plain) > MAX_PAGE_BYTES:
        return body
    # Bytes that are no UTF-8 survive: the page may have another encoding.
    text = rewrite_html(plain.decode("utf-8", "surrogateescape"), prefix, hosts)
    page = text.encode("utf-8", "surrogateescape")
    if not encoding:
        return page
    coder = zlib.compressobj(wbits=_WINDOW_BITS[encoding])
    return coder.compress(page) + coder.flush()


class _Rewriter(HTMLParser):
    """Finds the tags with links, and puts the page together again with others in their places."""

    def __init__(self, page: str, prefix: str, hosts: Collection[str]) -> None:
        super().__init__(convert_charrefs=False)
        self._page = page
        self._prefix, self._hosts = prefix, hosts
        self._lines = [0]
        for line in page.split("\n"):
            self._lines.append(self._lines[-1] + len(line) + 1)
        self._parts: list[str] = []
        self._copied = 0

    def text(self) -> str:
        """Return the page."""
        return "".join([*self._parts, self._page[self._copied :]])

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Rewrite the tag if one of its links changes."""
        wanted = _ATTRIBUTES.get(tag, set[str]())
        new = [
            (name, rewrite_link(value, self._prefix, self._hosts) if value and name in wanted else value)
            for name, value in attrs
        ]
        raw = self.get_starttag_text()
        if new == attrs or raw is None:
            return
        line, column = self.getpos()
        begin = self._lines[line - 1] + column
        words = [name if value is None else f'{name}="{html.escape(value)}"' for name, value in new]
        self._parts += [self._page[self._copied : begin], f"<{' '.join([tag, *words])}{'/' * raw.endswith('/>')}>"]
        self._copied = begin + len(raw)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Rewrite a tag that ends itself."""
        self.handle_starttag(tag, attrs)
