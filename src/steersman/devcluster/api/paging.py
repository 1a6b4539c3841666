"""Continue tokens: where a list goes on, and at which revision. Opaque to clients, readable to us."""

from __future__ import annotations

import base64
import json
from typing import Final

from steersman.devcluster.errors import APIError, bad_request
from steersman.devcluster.objects import Object
from steersman.devcluster.storage import Item

__all__ = ["PageExpiredError", "key_of", "read_token", "token", "too_large"]

_NS_SEP: Final = "\0"


_TOO_OLD: Final = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)


class PageExpiredError(APIError):
    """The 410 for a token whose revision is forgotten; with a token that goes on with what is there now."""

    def __init__(self, following: str) -> None:
        super().__init__(410, "Expired", _TOO_OLD)
        self._following = following

    @property
    def status(self) -> Object:
        """The body of the answer."""
        return {**super().status, "metadata": {"continue": self._following}}


def key_of(item: Item) -> str:
    return f"{item.namespace}{_NS_SEP}{item.name}"


def token(revision: int, start: str) -> str:
    body = json.dumps({"v": "meta.k8s.io/v1", "rv": revision, "start": start}, separators=(",", ":"))
    return base64.urlsafe_b64encode(body.encode()).decode().rstrip("=")


def read_token(text: str) -> tuple[int, str]:
    try:
        body = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        revision, start = body["rv"], body["start"]
        if not isinstance(revision, int) or not isinstance(start, str):
            raise TypeError("not a token")
    except (ValueError, KeyError, TypeError):
        raise bad_request("continue key is not valid: illegal base64 data or JSON") from None
    return revision, start


def too_large(asked: int, current: int) -> APIError:
    message = f"Timeout: Too large resource version: {asked}, current: {current}"
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    return APIError(504, "Timeout", message, {"causes": [cause], "retryAfterSeconds": 1}, (("Retry-After", "1"),))
