"""`Converters`: answers ConversionReviews (apiextensions.k8s.io/v1) with the functions that an operator declares.

The API server asks on every read and write of a version that is not the stored one, so a failure here makes objects
unreadable: it is told as a Status that names the object and the reason, and converts none of the review's objects.
Nothing is stored, and nothing is looked up.
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
from steersman.webhook.converting import Conversion, ConversionError, Way, convert, missing, ways
from steersman.webhook.errors import AdmissionRefusedError
from steersman.webhook.http import WebhookRequest, WebhookResponse
from steersman.webhook.metrics import IN_FLIGHT, LATENCY, PANICS, REQUESTS
from steersman.webhook.patience import time_to_answer
from steersman.webhook.review import failure

__all__ = ["PATH", "Conversion", "ConversionError", "Converters", "missing"]

log = get_logger("webhook")

PATH: Final = "/convert"
_API_VERSION: Final = "apiextensions.k8s.io/v1"
_PATIENCE: Final = 30.0
"""What the API server waits for a conversion unless it says otherwise."""
_BREATH: Final = 64
"""After so many objects of a review, other requests have their turn."""


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
    """A body that is no ConversionReview of a version that is spoken here."""


class Converters:
    """The conversions of an operator, as the route `/convert`."""

    def __init__(self, conversions: Sequence[Conversion]) -> None:
        self._ways = ways(conversions)
        self._kinds = {c.source.info.kind for c in conversions}

    async def handle(self, request: WebhookRequest) -> WebhookResponse:
        """Answer one request; raises nothing but cancellation."""
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
            asked = _request(request.body)
        except _InvalidReviewError as problem:
            return WebhookResponse(400, failure(400, "BadRequest", str(problem)))
        seconds = time_to_answer(request.query, _PATIENCE)
        deadline = asyncio.timeout(seconds)
        try:
            async with deadline:
                return WebhookResponse(200, await self.convert(asked.uid, asked.desired, asked.objects))
        except TimeoutError:
            text = f"the conversion of {len(asked.objects)} objects did not finish within {seconds:.3g} s"
            log.error("a conversion did not finish in time", request=asked.uid, objects=len(asked.objects))
            return WebhookResponse(200, _failed(asked.uid, text))

    async def convert(self, uid: str, desired: str, objects: Sequence[Raw | bytes]) -> bytes:
        """The ConversionReview that answers; all of `objects` in their order, or a failure and none of them."""
        converted: list[Raw] = []
        for position, raw in enumerate(objects, 1):
            head = _Head()
            try:
                head = _head(raw)
                way = self._way(head, desired)
                converted.append(Raw(await convert(bytes(raw), way)) if way else Raw(bytes(raw)))
            except (AdmissionRefusedError, ConversionError, DecodeError, msgspec.DecodeError) as problem:
                log.warning("an object cannot be converted", problem=str(problem), **_facts(uid, head, desired))
                return _failed(uid, f"{head} cannot be converted to {desired}: {problem}")
            except Exception as problem:
                PANICS.labels(PATH).inc()
                error = str(problem) or type(problem).__name__
                log.error("a conversion failed", error=error, exc_info=problem, **_facts(uid, head, desired))
                text = (
                    f"the conversion of {head} from {head.api_version} to {desired} failed; the operator's log says why"
                )
                return _failed(uid, text)
            if position % _BREATH == 0:
                await asyncio.sleep(0)
        result = {"status": "Success"}
        return _reviewed({"uid": uid, "convertedObjects": converted, "result": result})

    def _way(self, head: _Head, desired: str) -> Way:
        if head.api_version == desired:
            return ()
        way = self._ways.get((head.kind, head.api_version, desired))
        if way is None:
            if head.kind not in self._kinds:
                raise ConversionError("this operator converts no such kind")
            raise ConversionError(f"no conversions lead from {head.api_version} to {desired}")
        return way


def _request(body: bytes) -> _Request:
    try:
        review = _read(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise _InvalidReviewError(f"the body is no ConversionReview: {problem}") from None
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


def _facts(uid: str, head: _Head, desired: str) -> dict[str, Any]:
    return {
        "request": uid,
        "kind": head.kind,
        "namespace": head.metadata.namespace,
        "name": head.metadata.name,
        "source": head.api_version,
        "target": desired,
    }
