"""Between an AdmissionReview and a user's function: decode, call within the deadline, answer.

A refusal is an answer (`allowed: false`, with a Status). Whatever else goes wrong is not: it leaves as an HTTP error
with a Status that says so without saying what, so that the API server does as the webhook's failure policy says, and is
logged once with the request's uid (H3). Nothing of an object is logged.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Final, Literal, Protocol, TypeVar, cast

import msgspec

from steersman.controller.blocking import run_in_loop
from steersman.models import DecodeError, Key, KindLike, View, to_dict, view_of
from steersman.telemetry.log import get_logger
from steersman.webhook.errors import AdmissionRefusedError
from steersman.webhook.http import WebhookRequest, WebhookResponse
from steersman.webhook.metrics import IN_FLIGHT, LATENCY, PANICS, REQUESTS
from steersman.webhook.patching import patch_of
from steersman.webhook.patience import time_to_answer
from steersman.webhook.review import (
    InvalidReviewError,
    Operation,
    Review,
    UserInfo,
    allowed,
    failure,
    read_review,
    refused,
)

__all__ = ["Admission", "AdmissionRoute", "Hook", "Purpose", "Reads"]

T = TypeVar("T")
Purpose = Literal["defaulter", "validator", "mutator"]

log = get_logger("webhook")

_PATIENCE: Final = 10.0
"""Seconds that the API server waits for a review unless it says otherwise."""
MOST: Final = 128
"""Reviews of one webhook at a time; more are asked to come again."""

_FIXED: Final = (
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
    """What handlers may read while they decide: the operator's cache."""

    def get(self, view: View[Any], key: Key) -> Any: ...
    def list(self, view: View[Any], namespace: str, labels: Any, owner: str | None) -> tuple[Any, ...]: ...
    async def ready(self) -> None: ...


class Admission:
    """What a handler knows of the request beside the object."""

    __slots__ = ("_loop", "_reads", "_review", "_view", "warnings")

    def __init__(self, review: Review, view: View[Any], reads: Reads | None) -> None:
        self._review = review
        self._view = view
        self._reads = reads
        self._loop: asyncio.AbstractEventLoop | None = None
        self.warnings: list[str] = []

    @property
    def uid(self) -> str:
        """What tells this request from others, in logs of the API server too."""
        return self._review.uid

    @property
    def operation(self) -> Operation:
        return self._review.operation

    @property
    def user(self) -> UserInfo:
        """Who asks: name, uid, groups."""
        return self._review.user_info

    @property
    def dry_run(self) -> bool:
        """Whether nothing will be stored: then a handler must have no effect outside of its answer (H5)."""
        return bool(self._review.dry_run)

    @property
    def name(self) -> str:
        """The object's name; empty where the server has yet to generate it."""
        return self._review.name

    @property
    def namespace(self) -> str:
        """The namespace of the request; objects that are being created may not say theirs."""
        return self._review.namespace

    @property
    def subresource(self) -> str:
        """Such as `status`, `scale` or `eviction`; empty for the object itself."""
        return self._review.sub_resource

    @property
    def old(self) -> Any:
        """The object as it is stored, in the view of the handler; `None` for creates. Raises `DecodeError`."""
        data = self._review.old
        return None if data is None else self._view.decode(data)

    @property
    def options(self) -> dict[str, Any]:
        """The request's CreateOptions, UpdateOptions, DeleteOptions or PatchOptions, in wire names."""
        return msgspec.json.decode(self._review.options) or {}

    def warn(self, text: str) -> None:
        """Show a line to whoever made the request (`kubectl` prints it); at most 256 characters are kept."""
        self.warnings.append(text[:256])

    def get(self, kind: KindLike[T], name: str, *, namespace: str | None = None) -> T | None:
        """An object from the operator's cache; the kind stands in `reads=` of the webhook. Raises `NotCachedError`."""
        view = view_of(kind)
        space = view.info.object_namespace(namespace, self.namespace)
        reads = self._cache()
        return cast("T | None", self._read(lambda: reads.get(view, Key(space, name))))

    def list(
        self,
        kind: KindLike[T],
        *,
        namespace: str | None = None,
        labels: Any = None,
    ) -> tuple[T, ...]:
        """Objects from the operator's cache: of the request's namespace by default."""
        view = view_of(kind)
        space = view.info.list_namespace(namespace, self.namespace)
        reads = self._cache()
        return cast("tuple[T, ...]", self._read(lambda: reads.list(view, space, labels, None)))

    def for_thread(self, loop: asyncio.AbstractEventLoop) -> Admission:
        """The same, for a handler that runs in a thread: its reads are done in the loop's."""
        self._loop = loop
        return self

    def _read(self, read: Callable[[], Any]) -> Any:
        if self._loop is None:
            return read()

        async def in_loop() -> Any:
            return read()

        return run_in_loop(self._loop, in_loop())

    def _cache(self) -> Reads:
        if self._reads is None:
            raise LookupError("this webhook reads nothing: name the kind in reads=[…] of its decorator")
        return self._reads

    def __repr__(self) -> str:
        return f"<admission {self.operation} {self._review.kind.kind} {self.namespace}/{self.name}>"


Call = Callable[[Any, Admission], Awaitable[Any]]
"""Calls the user's function with what it takes."""


@dataclass(frozen=True, slots=True)
class Hook:
    """One declared webhook as the server needs it."""

    name: str
    purpose: Purpose
    path: str
    view: View[Any]
    call: Call
    place: str
    reads: Reads | None = None


class _InvalidResultError(Exception):
    """A handler did what no handler may; the text is for the log."""


Spans = Callable[[Hook, Review], AbstractContextManager[Any]]


class AdmissionRoute:
    """Answers the reviews of one path."""

    def __init__(
        self,
        hook: Hook,
        *,
        most: int = MOST,
        spans: Spans = lambda _hook, _review: nullcontext(),
    ) -> None:
        self._hook = hook
        self._most = most
        self._spans = spans
        self._busy = 0
        self._latency = LATENCY.labels(hook.path)
        self._in_flight = IN_FLIGHT.labels(hook.path)
        self._codes = {200: REQUESTS.labels(hook.path, "200"), 500: REQUESTS.labels(hook.path, "500")}
        self._panics = PANICS.labels(hook.path)

    async def __call__(self, request: WebhookRequest) -> WebhookResponse:
        """Answer one request; raises nothing but cancellation."""
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
        if self._busy > self._most:
            text = f"the webhook answers {self._most} requests at a time: try again"
            return WebhookResponse(429, failure(429, "TooManyRequests", text), retry_after=1)
        try:
            review = read_review(request.body)
        except InvalidReviewError as problem:
            return WebhookResponse(400, failure(400, "BadRequest", str(problem)))
        hook = self._hook
        seconds = time_to_answer(request.query, _PATIENCE)
        deadline = asyncio.timeout(seconds)
        try:
            async with deadline:
                with self._spans(hook, review):
                    return WebhookResponse(200, await self._decide(review))
        except TimeoutError as problem:
            if not deadline.expired():
                return self._crashed(review, problem)
            log.error("a webhook did not finish in time", seconds=round(seconds, 3), **self._facts(review))
            text = f"the webhook {hook.name} did not finish within {seconds:.3g} s"
            return WebhookResponse(504, failure(504, "Timeout", text))
        except _InvalidResultError as problem:
            log.error("a webhook did what it must not", problem=str(problem), **self._facts(review))
            return self._failed()
        except Exception as problem:  # noqa: BLE001 - H3: told without details, logged with them
            return self._crashed(review, problem)

    def _crashed(self, review: Review, problem: Exception) -> WebhookResponse:
        self._panics.inc()
        error = str(problem) or type(problem).__name__
        log.error("a webhook failed", error=error, exc_info=problem, **self._facts(review))
        return self._failed()

    def _failed(self) -> WebhookResponse:
        text = f"the webhook {self._hook.name} failed; the operator's log says why"
        return WebhookResponse(500, failure(500, "InternalError", text))

    def _facts(self, review: Review) -> dict[str, Any]:
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
            raise _InvalidResultError("the review has no object: which operations and sub-resources are registered?")
        try:
            obj = hook.view.decode(raw)
        except DecodeError as problem:
            # The schema of the kind lets pass what its class does not: the client cannot be helped by a crash.
            return refused(review, _unreadable(hook, problem))
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
        changed = _fixed(before, after)
        if changed:
            raise _InvalidResultError(f"it changed {changed}, which no webhook may")
        patch = patch_of(msgspec.json.decode(raw), before, after)
        return patch.encode() if patch else None


_MISSING: Final = re.compile("Object missing required field `([^`]+)`")


def _unreadable(hook: Hook, problem: DecodeError) -> AdmissionRefusedError:
    from steersman.webhook.errors import FieldError, Invalid

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
    raise _InvalidResultError(f"it returned a {kind}; a validation returns nothing, or warnings as texts")


def _fixed(before: dict[str, Any], after: dict[str, Any]) -> str:
    """What of an object's identity differs, as a path; empty when nothing does."""
    for name in ("apiVersion", "kind"):
        if before.get(name) != after.get(name):
            return name
    old: dict[str, Any] = before.get("metadata") or {}
    new: dict[str, Any] = after.get("metadata") or {}
    return next((f"metadata.{name}" for name in _FIXED if old.get(name) != new.get(name)), "")
