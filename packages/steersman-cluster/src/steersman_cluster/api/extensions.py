"""Paths of the embedded cluster that a kube-apiserver does not have, served below `/steersman.dev/`."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any, Final, cast

from steersman_cluster.api.requests.messages import Request, Response, json_response
from steersman_cluster.errors import APIError, bad_request
from steersman_cluster.objects import Object

__all__ = ["PREFIX", "Extension", "extended", "object_of"]

PREFIX: Final = "/steersman.dev/"
Extension = Callable[[str, str, Object], Awaitable[Object]]
"""Takes the method, the rest of the path and the decoded body; returns the response body. Raises `APIError`."""
_METHODS: Final = ("GET", "POST", "DELETE")


async def extended(extensions: dict[str, Extension], request: Request) -> Response:
    """Answer a request below the prefix. The caller has checked that the user may make it."""
    name, _, rest = request.path.removeprefix(PREFIX).partition("/")
    extension = extensions.get(name)
    if extension is None:
        raise APIError(404, "NotFound", "the server could not find the requested resource")
    if request.method not in _METHODS:
        raise APIError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
    return json_response(await extension(request.method, rest, object_of(request.body)))


def object_of(body: bytes) -> Object:
    """Return the JSON object of a body; an empty one without a body. Raises `APIError` (400)."""
    if not body:
        return {}
    try:
        decoded: Any = json.loads(body)
    except (ValueError, RecursionError):
        raise bad_request("the body is not JSON") from None
    if not isinstance(decoded, dict):
        raise bad_request("the body is not a JSON object")
    return cast(Object, decoded)
