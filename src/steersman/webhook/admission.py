"""Calls the functions of admission webhooks: decodes an AdmissionReview, calls the function and builds the response.

A denial is a response with `allowed: false` and a Status. All other errors are HTTP errors whose Status has no details,
so that the API server applies the failure policy; they are logged once with the request's uid (rule H3). The content of
objects is never logged.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Final, Protocol, TypeVar, cast

import msgspec

from steersman.controller.blocking import run_in_loop
from steersman.models import DecodeError, Key, KindLike, View, to_dict, view_of
from steersman.telemetry.log import get_logger
from steersman.webhook.admission_review import (
    InvalidReviewError,
    Operation,
    Review,
    UserInfo,
    allowed,
    failure,
    read_review,
    refused,
)
from steersman.webhook.configuration import Purpose
from steersman.webhook.denials import AdmissionRefusedError
from steersman.webhook.http_messages import WebhookRequest, WebhookResponse
from steersman.webhook.metrics import IN_FLIGHT, LATENCY, PANICS, REQUESTS
from steersman.webhook.review_timeout import response_timeout
from steersman.webhook.view_patch import patch_of

__all__ = ["Admission", "AdmissionRoute", "Hook", "Reads"]

T = TypeVar("T")
R = TypeVar("R")

log = get_logger("webhook")

_DEFAULT_TIMEOUT_SECONDS: Final = 10.0
"""The time that the API server waits for a review by default."""
MAX_CONCURRENT_REQUESTS: Final = 128
"""Reviews of one webhook at a time; others are refused with a 429."""

_IDENTITY_FIELDS: Final = (
    "name",
    "generateName",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
)


class Reads(Protocol):
    """The reads of a handler: from the operator's cache."""

    def get(self, view: View[Any], key: Key) -> Any:
        """Return an object or None."""
        ...

    def list(self, view: View[Any], namespace: str, labels: Any, owner: str | None) -> tuple[Any, ...]:
        """Return the objects that match."""
        ...

    async def ready(self) -> None:
        """Wait until the cache has its initial objects."""
        ...


class Admission:
    """The admission request that a handler decides on, apart from the object."""

    __slots__ = ("_loop", "_reads", "_review", "_view", "warnings")

    def __init__(self, review: Review, view: View[Any], reads: Reads | None) -> None:
        self._review = review
        self._view = view
        self._reads = reads
        self._loop: asyncio.AbstractEventLoop | None = None
        self.warnings: list[str] = []

    @property
    def uid(self) -> str:
        """The unique ID of this request, which the API server logs too."""
        return self._review.uid

    @property
    def operation(self) -> Operation:
        """The operation: CREATE, UPDATE, DELETE or CONNECT."""
        return self._review.operation

    @property
    def user(self) -> UserInfo:
        """The user that made the request: name, uid, groups."""
        return self._review.user_info

    @property
    def dry_run(self) -> bool:
        """Whether nothing will be stored: then a handler must have no side effects (rule H5)."""
        return bool(self._review.dry_run)

    @property
    def name(self) -> str:
        """The object's name; empty if the server has not generated it yet."""
        return self._review.name

    @property
    def namespace(self) -> str:
        """The namespace of the request; an object that is being created may have none in its metadata."""
        return self._review.namespace

    @property
    def subresource(self) -> str:
        """The subresource, such as `status`, `scale` or `eviction`; empty for the object itself."""
        return self._review.sub_resource

    @property
    def old(self) -> Any:
        """The stored object, in the view of the handler; `None` for creates. Raises `DecodeError`."""
        data = self._review.old
        return None if data is None else self._view.decode(data)

    @property
    def options(self) -> dict[str, Any]:
        """The request's CreateOptions, UpdateOptions, DeleteOptions or PatchOptions as JSON values."""
        return msgspec.json.decode(self._review.options) or {}

    def warn(self, text: str) -> None:
        """Return a warning to the client (`kubectl` prints it); at most 256 characters are kept."""
        self.warnings.append(text[:256])

    def get(self, kind: KindLike[T], name: str, *, namespace: str | None = None) -> T | None:
        """Return an object from the operator's cache. Raises `NotCachedError` for kinds that are not in `reads=`."""
        view = view_of(kind)
        space = view.info.object_namespace(namespace, self.namespace)
        reads = self._cache()
        return self._read(lambda: reads.get(view, Key(space, name)))

    def list(
        self,
        kind: KindLike[T],
        *,
        namespace: str | None = None,
        labels: Any = None,
    ) -> tuple[T, ...]:
        """Return objects from the operator's cache; the default namespace is that of the request."""
        view = view_of(kind)
        space = view.info.list_namespace(namespace, self.namespace)
        reads = self._cache()
        return self._read(lambda: reads.list(view, space, labels, None))

    def for_thread(self, loop: asyncio.AbstractEventLoop) -> Admission:
        """Return the request for a handler that runs in a thread: its reads run in the event loop's thread."""
        self._loop = loop
        return self

    def _read(self, read: Callable[[], R]) -> R:
        if self._loop is None:
            return read()

        async def in_loop() -> R:
            return read()

        return run_in_loop(self._loop, in_loop())

    def _cache(self) -> Reads:
        if self._reads is None:
            raise LookupError("this webhook has no cached kinds: name the kind in reads=[…] of its decorator")
        return self._reads

    def __repr__(self) -> str:
        return f"<admission {self.operation} {self._review.kind.kind} {self.namespace}/{self.name}>"


Call = Callable[[Any, Admission], Awaitable[Any]]
"""Calls the user's function with the arguments that it declares."""


@dataclass(frozen=True, slots=True)
class Hook:
    """One declared webhook, as the server needs it."""

    name: str
    purpose: Purpose
    path: str
    view: View[Any]
    call: Call
    place: str
    reads: Reads | None = None


class _InvalidResultError(Exception):
    """A handler returned an invalid result; the text is for the log."""


Spans = Callable[[Hook, Review], AbstractContextManager[Any]]


class AdmissionRoute:
    """Responds to the reviews of one path."""

    def __init__(
        self,
        hook: Hook,
        *,
        max_requests: int = MAX_CONCURRENT_REQUESTS,
        spans: Spans = lambda _hook, _review: nullcontext(),
    ) -> None:
        self._hook = hook
        self._max_requests = max_requests
        self._spans = spans
        self._busy = 0
        self._latency = LATENCY.labels(hook.path)
        self._in_flight = IN_FLIGHT.labels(hook.path)
        self._codes = {200: REQUESTS.labels(hook.path, "200"), 500: REQUESTS.labels(hook.path, "500")}
        self._panics = PANICS.labels(hook.path)

    async def __call__(self, request: WebhookRequest) -> WebhookResponse:
        """Return the response to one request; raises only cancellation."""
        started = perf_counter()
        self._in_flight.inc()
        self._busy += 1
        code = 500
        try:
            response = await self._answer(request)
            code = response.status
            return response
        finally:
            self._busy -= 1
            self._in_flight.dec()
            self._latency.observe(perf_counter() - started)
            counted = self._codes.get(code)
            if counted is None:
                counted = self._codes[code] = REQUESTS.labels(self._hook.path, str(code))
            counted.inc()

    async def _answer(self, request: WebhookRequest) -> WebhookResponse:
        if self._busy > self._max_requests:
            text = f"the webhook processes {self._max_requests} requests at a time: retry later"
            return WebhookResponse(429, failure(429, "TooManyRequests", text), retry_after=1)
        try:
            review = read_review(request.body)
        except InvalidReviewError as problem:
            return WebhookResponse(400, failure(400, "BadRequest", str(problem)))
        hook = self._hook
        seconds = response_timeout(request.query, _DEFAULT_TIMEOUT_SECONDS)
        deadline = asyncio.timeout(seconds)
        try:
            async with deadline:
                with self._spans(hook, review):
                    return WebhookResponse(200, await self._decide(review))
        except TimeoutError as problem:
            if not deadline.expired():
                return self._handler_failed(review, problem)
            log.error("webhook_timed_out", timeout_seconds=round(seconds, 3), **self._log_fields(review))
            text = f"the webhook {hook.name} did not finish within {seconds:.3g} s"
            return WebhookResponse(504, failure(504, "Timeout", text))
        except _InvalidResultError as problem:
            log.error("webhook_returned_invalid_result", error=str(problem), **self._log_fields(review))
            return self._failed()
        except Exception as problem:  # noqa: BLE001 - rule H3: the client gets no details, the log does
            return self._handler_failed(review, problem)

    def _handler_failed(self, review: Review, problem: Exception) -> WebhookResponse:
        self._panics.inc()
        error = str(problem) or type(problem).__name__
        log.error("webhook_failed", error=error, exc_info=problem, **self._log_fields(review))
        return self._failed()

    def _failed(self) -> WebhookResponse:
        text = f"the webhook {self._hook.name} failed; the reason is in the operator's log"
        return WebhookResponse(500, failure(500, "InternalError", text))

    def _log_fields(self, review: Review) -> dict[str, Any]:
        return {
            "webhook": self._hook.name,
            "declared": self._hook.place,
            "request": review.uid,
            "operation": review.operation,
            "kind": review.kind.kind,
            "namespace": review.namespace,
            "name": review.name,
        }

    async def _decide(self, review: Review) -> bytes:
        hook = self._hook
        raw = review.new if review.new is not None else review.old
        admission = Admission(review, hook.view, hook.reads)
        if raw is None:
            raise _InvalidResultError("the review has no object: check the operations and subresources of the webhook")
        try:
            obj = hook.view.decode(raw)
        except DecodeError as problem:
            # The schema of the kind allows a value that its class does not: the client gets an error of the field.
            return refused(review, _decode_denial(hook, problem))
        if hook.reads is not None:
            await hook.reads.ready()
        try:
            returned = await hook.call(obj, admission)
        except AdmissionRefusedError as refusal:
            return refused(review, refusal, admission.warnings)
        if hook.purpose == "validator":
            return allowed(review.uid, warnings=[*admission.warnings, *_warnings(hook, returned)])
        return allowed(review.uid, patch=self._patch(raw, obj, returned), warnings=admission.warnings)

    def _patch(self, raw: bytes, obj: Any, returned: Any) -> bytes | None:
        hook = self._hook
        if returned is None or (returned is obj and hook.view.form != "dynamic"):
            return None
        if not isinstance(returned, hook.view.type):
            raise _InvalidResultError(
                f"it returned a {type(returned).__name__}, not a {hook.view.type.__name__} or None"
            )
        before = to_dict(hook.view.decode(raw) if hook.view.form == "dynamic" else obj)
        after = to_dict(returned)
        changed = _changed_identity_field(before, after)
        if changed:
            raise _InvalidResultError(f"it changed {changed}, which webhooks must not change")
        patch = patch_of(msgspec.json.decode(raw), before, after)
        return patch.encode() if patch else None


_MISSING: Final = re.compile("Object missing required field `([^`]+)`")


def _decode_denial(hook: Hook, problem: DecodeError) -> AdmissionRefusedError:
    from steersman.webhook.denials import FieldError, Invalid

    field = problem.path.removeprefix("$").removeprefix(".")
    if (missing := _MISSING.fullmatch(problem.message)) is not None:
        return Invalid(FieldError.required(f"{field}.{missing[1]}" if field else missing[1]))
    if problem.unsupported is not None:
        return Invalid(FieldError.not_supported(field, *problem.unsupported))
    return Invalid(FieldError(field, "FieldValueTypeInvalid", f"Invalid value: {problem.message}"))


def _warnings(hook: Hook, returned: Any) -> Iterable[str]:
    if returned is None:
        return ()
    if isinstance(returned, str):
        return (returned[:256],)
    if isinstance(returned, list | tuple):
        items = cast("list[Any]", returned)
        if all(isinstance(item, str) for item in items):
            return [item[:256] for item in items]
    kind = type(cast("Any", returned)).__name__
    raise _InvalidResultError(f"it returned a {kind}; a validator returns None, or warnings as strings")


def _changed_identity_field(before: dict[str, Any], after: dict[str, Any]) -> str:
    """Return the path of a field of the object's identity that differs; empty if none does."""
    for name in ("apiVersion", "kind"):
        if before.get(name) != after.get(name):
            return name
    old: dict[str, Any] = before.get("metadata") or {}
    new: dict[str, Any] = after.get("metadata") or {}
    return next((f"metadata.{name}" for name in _IDENTITY_FIELDS if old.get(name) != new.get(name)), "")
