"""The URLs of webhooks as Go's HTTP client requests them: clean paths, and redirects."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, unquote, urljoin, urlsplit, urlunsplit

__all__ = ["MAX_REDIRECTS", "Call", "RedirectError", "cleaned", "redirected"]

MAX_REDIRECTS: Final = 10
_KEEPS_METHOD: Final = frozenset({307, 308})
_BECOMES_GET: Final = frozenset({301, 302, 303})
_UNESCAPED: Final = "$&+,/:;=@-_.~"


class RedirectError(Exception):
    """A redirect that cannot be followed; the text is that of Go's HTTP client, which names `url`."""

    def __init__(self, url: str, text: str) -> None:
        super().__init__(text)
        self.url = url


@dataclass(frozen=True, slots=True)
class Call:
    """One HTTP request: method, URL and body."""

    method: str
    url: str
    data: bytes | None


def cleaned(url: str) -> str:
    """The URL with its path cleaned as `path.Join` of Go does it, without query and fragment."""
    split = urlsplit(url)
    kept: list[str] = []
    for segment in unquote(split.path).split("/"):
        if segment == "..":
            del kept[-1:]
        elif segment not in ("", "."):
            kept.append(segment)
    return urlunsplit((split.scheme, split.netloc, "/" + quote("/".join(kept), safe=_UNESCAPED), "", ""))


def redirected(call: Call, status: int, location: str, followed: int) -> Call | None:
    """The request that follows an answer; None where the answer is not a redirect that is followed.

    Args:
        call: The request that was answered.
        status: The status code of the answer.
        location: Its Location header; empty without one.
        followed: The number of redirects that were followed before.

    Raises:
        RedirectError: The location is not a URL of HTTP, or too many redirects were followed.
    """
    if not location or status not in _KEEPS_METHOD | _BECOMES_GET:
        return None
    try:
        split = urlsplit(urljoin(call.url, location))
    except ValueError:
        shown = json.dumps(location)
        text = f"failed to parse Location header {shown}: parse {shown}: missing ']' in host"
        raise RedirectError(call.url, text) from None
    if followed == MAX_REDIRECTS - 1:
        raise RedirectError(location, f"stopped after {MAX_REDIRECTS} redirects")
    url = urlunsplit((split.scheme, split.netloc, split.path, split.query, ""))
    if split.scheme not in ("http", "https"):
        raise RedirectError(url, f"unsupported protocol scheme {json.dumps(split.scheme)}")
    if status in _KEEPS_METHOD:
        return Call(call.method, url, call.data)
    return Call("GET", url, None)
