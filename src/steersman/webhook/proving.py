"""Finds out whether an API server asks us, and if not, in which words it says why.

Each configuration of a local run carries one webhook more, which is asked about ConfigMaps of a label that nobody else
has, and refuses. A dry run of such a ConfigMap that is refused in our words has proved all of the way: the API server
knows of the configuration, reaches the URL, and trusts the certificate. Nothing is stored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, Final

from steersman.client import ApiError, Client
from steersman.models import Dynamic, dynamic
from steersman.webhook.configuration import ClientConfig
from steersman.webhook.errors import DeniedError
from steersman.webhook.http import WebhookRequest, WebhookResponse
from steersman.webhook.review import InvalidReviewError, failure, read_review, refused

__all__ = ["PATH", "WebhookUnreachableError", "answer", "forgotten", "probe", "prove", "unproved"]

PATH: Final = "/probe"
LABEL: Final = "steersman.dev/webhook-probe"
_WORDS: Final = "this webhook is asked, and answers"
_FAILED: Final = "failed calling webhook"
_MAP: Final = dynamic("v1", "ConfigMap")
_WAIT: Final = 0.05
_OFTEN: Final = 3
"""How often a call must fail before that is believed: a server that has just started may need a moment."""


class WebhookUnreachableError(Exception):
    """The API server does not ask us; the message is what it said of that."""


def probe(value: str, config: ClientConfig) -> dict[str, Any]:
    """One more webhook for a configuration, in no request's way but ours."""
    return {
        "name": "probe.webhook.steersman.dev",
        "admissionReviewVersions": ["v1"],
        "clientConfig": config.at(PATH),
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "timeoutSeconds": 5,
        "objectSelector": {"matchLabels": {LABEL: value}},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}],
    }


def unproved(selector: Mapping[str, Any] | None) -> dict[str, Any]:
    """An object selector that leaves out what is made for a probe: no handler is to see those."""
    before = dict(selector or {})
    rules = [*(before.get("matchExpressions") or ()), {"key": LABEL, "operator": "DoesNotExist"}]
    return {**before, "matchExpressions": rules}


async def answer(request: WebhookRequest) -> WebhookResponse:
    """The route of probes: refuses whatever is asked."""
    try:
        review = read_review(request.body)
    except InvalidReviewError as problem:
        return WebhookResponse(400, failure(400, "BadRequest", str(problem)))
    return WebhookResponse(200, refused(review, DeniedError(_WORDS)))


async def prove(client: Client, namespace: str, values: Iterable[str], within: float = 10.0) -> bool:
    """Wait until the API server asks us by each of the configurations with these probes.

    Returns false where that cannot be found out, because we may not make ConfigMaps there. Raises
    `WebhookUnreachableError` where it asks in vain, or not at all `within` so many seconds.
    """
    for value in values:
        try:
            async with asyncio.timeout(within):
                if not await _asked(client, namespace, value):
                    return False
        except TimeoutError:
            raise WebhookUnreachableError(f"it does not know of the webhooks after {within:g} s") from None
    return True


async def forgotten(client: Client, namespace: str, values: Iterable[str], within: float = 2.0) -> bool:
    """Wait until the API server no longer asks us, so that a server can go without dropping a request.

    Returns false where that is not certain.
    """
    try:
        async with asyncio.timeout(within):
            for value in values:
                while True:
                    if not (said := await _said(client, namespace, value)):
                        break
                    if _WORDS not in said:
                        return False
                    await asyncio.sleep(_WAIT)
    except TimeoutError:
        return False
    return True


async def _asked(client: Client, namespace: str, value: str) -> bool:
    failed = 0
    while True:
        said = await _said(client, namespace, value)
        if _WORDS in said:
            return True
        if said and _FAILED not in said:
            return False  # it would not let us make one, whoever asks
        if said:
            failed += 1
            if failed == _OFTEN:
                raise WebhookUnreachableError(said)
        await asyncio.sleep(_WAIT)


async def _said(client: Client, namespace: str, value: str) -> str:
    """What the API server has against a ConfigMap of that label; empty when nothing."""
    metadata = {"name": "steersman-webhook-probe", "namespace": namespace, "labels": {LABEL: value}}
    body: Mapping[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    try:
        await client.create(Dynamic(body), kind=_MAP, dry_run=True)
    except ApiError as problem:
        return problem.status.message or str(problem)
    return ""
