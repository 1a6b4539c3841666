"""Checks whether the API server calls the webhooks of a local run, and if not, why.

Each configuration of a local run has an additional webhook for ConfigMaps with a unique label, which denies them with
a known message. If a dry run of such a ConfigMap fails with this message, the API server has the configuration, reaches
the URL and trusts the certificate. Nothing is stored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, Final

from steersman.client import ApiError, Client
from steersman.models import Dynamic, dynamic
from steersman.webhook.admission_review import InvalidReviewError, failure, read_review, refused
from steersman.webhook.configuration import ClientConfig
from steersman.webhook.denials import DeniedError
from steersman.webhook.http_messages import WebhookRequest, WebhookResponse

__all__ = [
    "PATH",
    "WebhookUnreachableError",
    "answer_probe",
    "probe_webhook",
    "wait_until_called",
    "wait_until_not_called",
    "without_probe_objects",
]

PATH: Final = "/probe"
LABEL: Final = "steersman.dev/webhook-probe"
_PROBE_MESSAGE: Final = "the webhook probe was called"
_CALL_FAILED_MESSAGE: Final = "failed calling webhook"
_MAP: Final = dynamic("v1", "ConfigMap")
_RETRY_SECONDS: Final = 0.05
_MAX_FAILED_CALLS: Final = 3
"""Failed calls before the webhook counts as unreachable: an API server that has just started needs some time."""


class WebhookUnreachableError(Exception):
    """The API server cannot call the webhooks; the message is that of the API server."""


def probe_webhook(value: str, config: ClientConfig) -> dict[str, Any]:
    """Return a probe webhook for a configuration; it matches only ConfigMaps with the label value."""
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


def without_probe_objects(selector: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return an object selector without the objects of probes, which handlers must not see."""
    before = dict(selector or {})
    rules = [*(before.get("matchExpressions") or ()), {"key": LABEL, "operator": "DoesNotExist"}]
    return {**before, "matchExpressions": rules}


async def answer_probe(request: WebhookRequest) -> WebhookResponse:
    """Respond to a probe; the response is always a denial."""
    try:
        review = read_review(request.body)
    except InvalidReviewError as problem:
        return WebhookResponse(400, failure(400, "BadRequest", str(problem)))
    return WebhookResponse(200, refused(review, DeniedError(_PROBE_MESSAGE)))


async def wait_until_called(client: Client, namespace: str, values: Iterable[str], within: float = 10.0) -> bool:
    """Wait until the API server calls the probe of each configuration.

    Returns:
        False if the check is not possible, because the user may not create ConfigMaps in the namespace.

    Raises:
        WebhookUnreachableError: The calls fail, or did not start `within` seconds.
    """
    for value in values:
        try:
            async with asyncio.timeout(within):
                if not await _is_called(client, namespace, value):
                    return False
        except TimeoutError:
            raise WebhookUnreachableError(f"the API server does not call the webhooks after {within:g} s") from None
    return True


async def wait_until_not_called(client: Client, namespace: str, values: Iterable[str], within: float = 2.0) -> bool:
    """Wait until the API server no longer calls the webhooks, so that the server can stop without failing a request.

    Returns False if that is not certain.
    """
    try:
        async with asyncio.timeout(within):
            for value in values:
                while True:
                    if not (error := await _dry_run_error(client, namespace, value)):
                        break
                    if _PROBE_MESSAGE not in error:
                        return False
                    await asyncio.sleep(_RETRY_SECONDS)
    except TimeoutError:
        return False
    return True


async def _is_called(client: Client, namespace: str, value: str) -> bool:
    failed = 0
    while True:
        error = await _dry_run_error(client, namespace, value)
        if _PROBE_MESSAGE in error:
            return True
        if error and _CALL_FAILED_MESSAGE not in error:
            return False  # the user may not create a ConfigMap
        if error:
            failed += 1
            if failed == _MAX_FAILED_CALLS:
                raise WebhookUnreachableError(error)
        await asyncio.sleep(_RETRY_SECONDS)


async def _dry_run_error(client: Client, namespace: str, value: str) -> str:
    """Return the API server's error about a ConfigMap with the label; empty if there is none."""
    metadata = {"name": "steersman-webhook-probe", "namespace": namespace, "labels": {LABEL: value}}
    body: Mapping[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    try:
        await client.create(Dynamic(body), kind=_MAP, dry_run=True)
    except ApiError as problem:
        return problem.status.message or str(problem)
    return ""
