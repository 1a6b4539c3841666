"""Continue tokens: where a list goes on, and at which revision. Opaque to clients, readable to us."""

from __future__ import annotations

import base64
import json
import string
from typing import Any, Final, cast

from steersman_cluster.api.requests.go_json import json_error
from steersman_cluster.errors import APIError, bad_request
from steersman_cluster.objects import Object, from_json
from steersman_cluster.storage import Item

__all__ = ["PageExpiredError", "key_of", "read_token", "token", "too_large"]

_NS_SEP: Final = "\0"
_VERSION: Final = "meta.k8s.io/v1"
_ALPHABET: Final = frozenset(string.ascii_letters + string.digits + "-_")


_TOO_OLD: Final = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)


class PageExpiredError(APIError):
    """The 410 for a token of a compacted revision; it contains a token that continues with the present revision."""

    def __init__(self, following: str) -> None:
        super().__init__(410, "Expired", _TOO_OLD)
        self._following = following

    @property
    def status(self) -> Object:
        """The body of the answer."""
        return {**super().status, "metadata": {"continue": self._following}}


def key_of(item: Item) -> str:
    """Return the position of an item in a list."""
    return f"{item.namespace}{_NS_SEP}{item.name}"


def token(revision: int, start: str) -> str:
    """Return a continue token for a revision and the key after which the list continues."""
    body = json.dumps({"v": _VERSION, "rv": revision, "start": start}, separators=(",", ":"))
    return base64.urlsafe_b64encode(body.encode()).decode().rstrip("=")


def read_token(text: str) -> tuple[int, str]:
    """Revision and first key; -1 for whatever is there now. Raises a 400."""
    illegal = next((at for at, char in enumerate(text) if char not in _ALPHABET), -1)
    if illegal < 0 and len(text) % 4 == 1:
        illegal = len(text) - 1
    if illegal >= 0:
        raise _refused(f"illegal base64 data at input byte {illegal}")
    data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    try:
        body: Any = from_json(data)
    except ValueError:
        raise _refused(json_error(data) or "no JSON") from None
    if not isinstance(body, dict):
        kind = {str: "string", list: "array", bool: "bool"}.get(cast("type[Any]", type(body)), "number")
        raise _refused(f"json: cannot unmarshal {kind} into Go value of type storage.continueToken")
    found = cast(Object, body)
    revision, start = found.get("rv"), found.get("start")
    if found.get("v") != _VERSION:
        raise _refused(f"server does not recognize this encoded version {found.get('v') or ''}")
    if type(revision) is not int or revision == 0:
        raise _refused(f"incorrect encoded start resourceVersion (version {_VERSION})")
    if not isinstance(start, str) or not start:
        raise _refused(f"encoded start key empty (version {_VERSION})")
    return revision, start


def _refused(why: str) -> APIError:
    return bad_request(f"invalid continue token: continue key is not valid: {why}")


def too_large(asked: int, current: int) -> APIError:
    """Return the 504 for a resourceVersion of the future."""
    message = f"Timeout: Too large resource version: {asked}, current: {current}"
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    return APIError(504, "Timeout", message, {"causes": [cause], "retryAfterSeconds": 1}, (("Retry-After", "1"),))
