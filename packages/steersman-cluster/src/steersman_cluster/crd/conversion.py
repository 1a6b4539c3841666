"""Conversion of custom resources between versions: by apiVersion alone, or by the webhook of the definition.

A webhook is called over HTTPS with ConversionReview v1, or v1beta1 if it supports nothing newer, and must keep all
metadata but labels and annotations. Follows apiextensions' `webhook_converter.go`.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias, cast

from steersman_cluster.errors import APIError
from steersman_cluster.objects import Object, dig

__all__ = ["Caller", "convert", "needs_webhook"]

Caller: TypeAlias = Callable[[Object, Object, float], Awaitable[Any]]
"""Sends a body to a `clientConfig` within some seconds and returns the decoded answer, as admission's does."""

_TIMEOUT = 30.0
_KEPT = ("labels", "annotations")


def needs_webhook(definition: Object) -> bool:
    """Return whether objects must go through a webhook to change their version."""
    return dig(definition, "spec", "conversion", "strategy") == "Webhook"


async def convert(definition: Object, objects: Sequence[Object], api_version: str, call: Caller) -> list[Object]:
    """The objects in another version. Their own version is returned as it is; nothing given is changed.

    `call` is how webhooks are reached. Raises a 500 where one fails or answers nonsense, as the API server does.
    """
    if not needs_webhook(definition):
        return [{**obj, "apiVersion": api_version} for obj in objects]
    waiting = [obj for obj in objects if obj.get("apiVersion") != api_version]
    if not waiting:
        return list(objects)
    webhook = cast(Object, definition["spec"]["conversion"]["webhook"])
    converted = iter(await _ask(webhook, waiting, api_version, call))
    return [obj if obj.get("apiVersion") == api_version else next(converted) for obj in objects]


async def _ask(webhook: Object, objects: list[Object], api_version: str, call: Caller) -> list[Object]:
    first = objects[0]
    versions = cast("list[str]", webhook.get("conversionReviewVersions") or [])
    review = next((version for version in versions if version in ("v1", "v1beta1")), "v1")
    uid = str(uuid.uuid4())
    body: Object = {
        "kind": "ConversionReview",
        "apiVersion": f"apiextensions.k8s.io/{review}",
        "request": {"uid": uid, "desiredAPIVersion": api_version, "objects": objects},
    }
    what = f"conversion webhook for {first.get('apiVersion')}, Kind={first.get('kind')}"
    try:
        answer = await call(cast(Object, webhook.get("clientConfig") or {}), body, _TIMEOUT)
        converted = _results(answer, uid, review)
    except APIError:
        raise
    except Exception as error:
        raise APIError(500, "", f"{what} failed: {error}") from error
    try:
        if len(converted) != len(objects):
            raise ValueError(f"returned {len(converted)} objects, expected {len(objects)}")
        return [_checked(obj, objects[index], index, api_version) for index, obj in enumerate(converted)]
    except ValueError as error:
        raise APIError(500, "", f"{what} {error}") from error


def _results(answer: Any, uid: str, review: str) -> list[Any]:
    review_of = cast(Object, answer) if isinstance(answer, dict) else {}
    response = cast("Object | None", review_of.get("response"))
    if response is None:
        raise ValueError("no response provided")
    if response.get("uid") != uid:
        raise ValueError(f"expected response.uid={json.dumps(uid)}, got {json.dumps(response.get('uid') or '')}")
    wanted = f"apiextensions.k8s.io/{review}"
    if review_of.get("apiVersion") != wanted or review_of.get("kind") != "ConversionReview":
        got = f"{review_of.get('apiVersion')}, Kind={review_of.get('kind')}"
        raise ValueError(f"expected webhook response of {wanted}, Kind=ConversionReview, got {got}")
    result = cast(Object, response.get("result") or {})
    if result.get("status") != "Success":
        raise ValueError(
            result.get("message") or f"response.result.status was '{result.get('status') or ''}', not 'Success'"
        )
    return cast("list[Any]", response.get("convertedObjects") or [])


def _checked(obj: Any, old: Object, index: int, api_version: str) -> Object:
    if not isinstance(obj, dict):
        raise ValueError(f"invalid converted object at index {index}: not an object")
    made = cast(Object, obj)
    if made.get("apiVersion") != api_version:
        text = f"invalid groupVersion (expected {api_version}, received {made.get('apiVersion')})"
        raise ValueError(f"returned invalid converted object at index {index}: {text}")
    if made.get("kind") != old.get("kind"):
        text = f"invalid kind (expected {old.get('kind')}, received {made.get('kind')})"
        raise ValueError(f"returned invalid converted object at index {index}: {text}")
    metadata = made.get("metadata")
    if not isinstance(metadata, dict):
        raise ValueError(f"returned invalid metadata in object at index {index}: missing metadata in converted object")
    new, before = cast(Object, metadata), cast(Object, old.get("metadata") or {})
    for name in ("name", "namespace", "uid"):
        if (new.get(name) or "") != (before.get(name) or ""):
            shown = name.upper() if name == "uid" else name
            text = f"must have the same {shown}: {before.get(name) or ''} != {new.get(name) or ''}"
            raise ValueError(f"returned invalid converted object at index {index}: {text}")
    kept = {name: value for name, value in before.items() if name not in _KEPT}
    made["metadata"] = {**kept, **{name: new[name] for name in _KEPT if new.get(name)}}
    return made
