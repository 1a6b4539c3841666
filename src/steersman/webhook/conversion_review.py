"""Responds to ConversionReviews (apiextensions.k8s.io/v1) with the functions that an operator declares.

The API server calls the webhook for every read and write of a version other than the storage version, so a failure
here makes objects unreadable: the response is a Status with the object and the reason, and has no converted objects.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from time import perf_counter
from typing import Any, Final

import msgspec
from msgspec import Raw

from steersman.models import DecodeError, encode
from steersman.telemetry.log import get_logger
from steersman.webhook.admission_review import failure
from steersman.webhook.conversion import Conversion, ConversionError, ConversionPath, conversion_paths, convert, missing
from steersman.webhook.denials import AdmissionRefusedError
from steersman.webhook.http_messages import WebhookRequest, WebhookResponse
from steersman.webhook.metrics import IN_FLIGHT, LATENCY, PANICS, REQUESTS
from steersman.webhook.review_timeout import response_timeout

__all__ = ["PATH", "Conversion", "ConversionError", "ConversionRoute", "missing"]

log = get_logger("webhook")

PATH: Final = "/convert"
_API_VERSION: Final = "apiextensions.k8s.io/v1"
_DEFAULT_TIMEOUT_SECONDS: Final = 30.0
"""The time that the API server waits for a conversion by default."""
_OBJECTS_BETWEEN_YIELDS: Final = 64
"""After this number of objects, other tasks of the event loop run."""


class _Request(msgspec.Struct, rename={"desired": "desiredAPIVersion"}, frozen=True):
    uid: str = ""
    desired: str = ""
    objects: tuple[Raw, ...] = ()


class _Review(msgspec.Struct, rename="camel", frozen=True):
    api_version: str = ""
    kind: str = ""
    request: _Request | None = None


class _Meta(msgspec.Struct, frozen=True):
    name: str = ""
    namespace: str = ""


class _Head(msgspec.Struct, rename="camel", frozen=True):
    api_version: str = ""
    kind: str = ""
    metadata: _Meta = _Meta()

    def __str__(self) -> str:
        space = f"{self.metadata.namespace}/" if self.metadata.namespace else ""
        return f"{self.kind} {space}{self.metadata.name}".rstrip()


_read = msgspec.json.Decoder(_Review).decode
_head = msgspec.json.Decoder(_Head).decode


class _InvalidReviewError(ValueError):
    """A body is not a ConversionReview of the supported version."""


class ConversionRoute:
    """The conversions of an operator, as the route `/convert`."""

    def __init__(self, conversions: Sequence[Conversion]) -> None:
        self._paths = conversion_paths(conversions)
        self._kinds = {c.source.info.kind for c in conversions}

    async def handle(self, request: WebhookRequest) -> WebhookResponse:
        """Return the response to one request; raises only cancellation."""
        started = perf_counter()
        code = 500
        IN_FLIGHT.labels(PATH).inc()
        try:
            response = await self._answer(request)
            code = response.status
            return response
        finally:
            IN_FLIGHT.labels(PATH).dec()
            LATENCY.labels(PATH).observe(perf_counter() - started)
            REQUESTS.labels(PATH, str(code)).inc()

    async def _answer(self, request: WebhookRequest) -> WebhookResponse:
        try:
            review = _request(request.body)
        except _InvalidReviewError as problem:
            return WebhookResponse(400, failure(400, "BadRequest", str(problem)))
        seconds = response_timeout(request.query, _DEFAULT_TIMEOUT_SECONDS)
        deadline = asyncio.timeout(seconds)
        try:
            async with deadline:
                return WebhookResponse(200, await self.convert(review.uid, review.desired, review.objects))
        except TimeoutError:
            text = f"the conversion of {len(review.objects)} objects did not finish within {seconds:.3g} s"
            log.error("conversion_timed_out", request=review.uid, objects=len(review.objects))
            return WebhookResponse(200, _failed(review.uid, text))

    async def convert(self, uid: str, desired: str, objects: Sequence[Raw | bytes]) -> bytes:
        """Return a ConversionReview response with all objects in order, or with a failure and no objects."""
        converted: list[Raw] = []
        for position, raw in enumerate(objects, 1):
            head = _Head()
            try:
                head = _head(raw)
                path = self._way(head, desired)
                converted.append(Raw(await convert(bytes(raw), path)) if path else Raw(bytes(raw)))
            except (AdmissionRefusedError, ConversionError, DecodeError, msgspec.DecodeError) as problem:
                log.warning("conversion_refused", error=str(problem), **_log_fields(uid, head, desired))
                return _failed(uid, f"{head} cannot be converted to {desired}: {problem}")
            except Exception as problem:
                PANICS.labels(PATH).inc()
                error = str(problem) or type(problem).__name__
                log.error("conversion_failed", error=error, exc_info=problem, **_log_fields(uid, head, desired))
                text = (
                    f"the conversion of {head} from {head.api_version} to {desired} failed;"
                    " the reason is in the operator's log"
                )
                return _failed(uid, text)
            if position % _OBJECTS_BETWEEN_YIELDS == 0:
                await asyncio.sleep(0)
        result = {"status": "Success"}
        return _reviewed({"uid": uid, "convertedObjects": converted, "result": result})

    def _way(self, head: _Head, desired: str) -> ConversionPath:
        if head.api_version == desired:
            return ()
        path = self._paths.get((head.kind, head.api_version, desired))
        if path is None:
            if head.kind not in self._kinds:
                raise ConversionError("the operator declares no converter for this kind")
            raise ConversionError(f"the operator declares no converter from {head.api_version} to {desired}")
        return path


def _request(body: bytes) -> _Request:
    try:
        review = _read(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise _InvalidReviewError(f"the body is not a ConversionReview: {problem}") from None
    if review.kind != "ConversionReview" or review.api_version != _API_VERSION:
        found = f"{review.api_version or 'no apiVersion'}, {review.kind or 'no kind'}"
        raise _InvalidReviewError(f"expected {_API_VERSION}, ConversionReview, not {found}")
    if review.request is None:
        raise _InvalidReviewError("the ConversionReview has no request")
    for name, value in (("uid", review.request.uid), ("desiredAPIVersion", review.request.desired)):
        if not value:
            raise _InvalidReviewError(f"request.{name} is empty")
    return review.request


def _reviewed(response: dict[str, Any]) -> bytes:
    return encode({"apiVersion": _API_VERSION, "kind": "ConversionReview", "response": response})


def _failed(uid: str, message: str) -> bytes:
    return _reviewed({"uid": uid, "convertedObjects": [], "result": {"status": "Failure", "message": message}})


def _log_fields(uid: str, head: _Head, desired: str) -> dict[str, Any]:
    return {
        "request": uid,
        "kind": head.kind,
        "namespace": head.metadata.namespace,
        "name": head.metadata.name,
        "source": head.api_version,
        "target": desired,
    }
