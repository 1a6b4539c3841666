"""The decision whether and when a request is retried (rule A6), as a pure function of the error.

All requests are retried if the server did not process them (429) or the connection could not be opened. Other errors
are retried only for idempotent requests. Time and randomness are arguments.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from steersman.client.errors import (
    ApiError,
    ClientError,
    ConnectError,
    ConnectionLostError,
    ServiceUnavailable,
    TransportTimeoutError,
)

__all__ = ["NO_RETRIES", "RetryPolicy", "is_idempotent", "retry_delay"]

_IDEMPOTENT_PATCHES = frozenset(
    {"application/merge-patch+json", "application/strategic-merge-patch+json", "application/apply-patch+yaml"}
)


@dataclass(frozen=True)
class RetryPolicy:
    """The number and the duration of retries of requests.

    The delay doubles from `base` to `cap`, and half of it is random. A `Retry-After` is respected, with up to a quarter
    more. If the next attempt would start after `deadline`, the error is raised at once.

    Attributes:
        attempts: Attempts of a request.
        connect_attempts: Attempts if the connection cannot be opened; fewer, because callers have a backoff of their
            own.
        base: Seconds before the second attempt.
        cap: The longest delay in seconds.
        deadline: Seconds after the first attempt at which the last one may start.
    """

    attempts: int = 6
    connect_attempts: int = 4
    base: float = 0.25
    cap: float = 8.0
    deadline: float = 60.0


NO_RETRIES = RetryPolicy(attempts=1, connect_attempts=1)


def is_idempotent(method: str, content_type: str = "") -> bool:
    """Return whether sending a request twice has the same effect as sending it once.

    A PUT has a resourceVersion, and merge and apply patches describe the desired state. A JSON patch may append, a POST
    creates, and a DELETE by name may delete a new object of the same name, unless the caller sets a uid precondition.
    """
    if method == "PATCH":
        return content_type in _IDEMPOTENT_PATCHES
    return method in ("GET", "HEAD", "OPTIONS", "PUT")


def retry_delay(
    policy: RetryPolicy, problem: ClientError, *, attempt: int, elapsed: float, idempotent: bool, rng: random.Random
) -> float | None:
    """Return the seconds until the next attempt, or `None` if the request is not retried.

    `attempt` is the number of attempts made, `elapsed` the seconds since the first one began.
    """
    if not _may_repeat(policy, problem, attempt, idempotent=idempotent):
        return None
    asked = problem.retry_after if isinstance(problem, ApiError) else None
    if asked is not None:
        delay = asked * (1 + rng.random() / 4)
    else:
        ceiling = min(policy.cap, policy.base * 2 ** (attempt - 1))
        delay = ceiling * (0.5 + rng.random() / 2)
    return delay if elapsed + delay < policy.deadline else None


def _may_repeat(policy: RetryPolicy, problem: ClientError, attempt: int, *, idempotent: bool) -> bool:
    if attempt >= policy.attempts:
        return False
    match problem:
        case ConnectError():
            return attempt < policy.connect_attempts
        case ConnectionLostError() | TransportTimeoutError():
            return idempotent
        case ApiError(code=429):
            return True
        case ServiceUnavailable(retry_after=after) if after is not None:
            return True
        case ApiError(code=code, retry_after=after):
            return idempotent and (code in (503, 504) or (code >= 500 and after is not None))
        case _:
            return False
