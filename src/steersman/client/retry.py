"""Whether and when a request is repeated (rule A6), as a pure function of what went wrong.

The server's word that it has not acted (429) and a connection that never came about allow a repetition of anything.
All else is repeated only when repeating cannot do twice what was asked once. Time and randomness come in as arguments.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from steersman.client.errors import (
    ApiError,
    ClientError,
    ConnectError,
    ConnectionLost,
    ServiceUnavailable,
    TransportTimeout,
)

__all__ = ["NO_RETRIES", "RetryPolicy", "is_idempotent", "retry_delay"]

_IDEMPOTENT_PATCHES = frozenset(
    {"application/merge-patch+json", "application/strategic-merge-patch+json", "application/apply-patch+yaml"}
)


@dataclass(frozen=True)
class RetryPolicy:
    """How patiently requests are repeated; times in seconds.

    The wait doubles from `base` to `cap`, half of it random. A `Retry-After` is kept to, with up to a quarter more. No
    wait ends after `deadline`, counted from the first attempt: the error is raised at once instead. Refused
    connections are given up sooner (`connect_attempts`), because whoever waits can do better.
    """

    attempts: int = 6
    connect_attempts: int = 4
    base: float = 0.25
    cap: float = 8.0
    deadline: float = 60.0


NO_RETRIES = RetryPolicy(attempts=1, connect_attempts=1)


def is_idempotent(method: str, content_type: str = "") -> bool:
    """Whether doing a request twice leaves what doing it once leaves.

    A PUT carries a resourceVersion and a merge or apply patch says what shall be; a JSON patch may append, a POST
    creates, and a DELETE by name may hit the namesake that came after (callers with a uid precondition know better).
    """
    if method == "PATCH":
        return content_type in _IDEMPOTENT_PATCHES
    return method in ("GET", "HEAD", "OPTIONS", "PUT")


def retry_delay(
    policy: RetryPolicy, problem: ClientError, *, attempt: int, elapsed: float, idempotent: bool, rng: random.Random
) -> float | None:
    """Seconds to wait before the next attempt, or `None` to give up.

    `attempt` is the number of attempts made, `elapsed` the seconds since the first began.
    """
    if not _may_repeat(policy, problem, attempt, idempotent):
        return None
    asked = problem.retry_after if isinstance(problem, ApiError) else None
    if asked is not None:
        delay = asked * (1 + rng.random() / 4)
    else:
        ceiling = min(policy.cap, policy.base * 2 ** (attempt - 1))
        delay = ceiling * (0.5 + rng.random() / 2)
    return delay if elapsed + delay < policy.deadline else None


def _may_repeat(policy: RetryPolicy, problem: ClientError, attempt: int, idempotent: bool) -> bool:
    if attempt >= policy.attempts:
        return False
    match problem:
        case ConnectError():
            return attempt < policy.connect_attempts
        case ConnectionLost() | TransportTimeout():
            return idempotent
        case ApiError(code=429):
            return True
        case ServiceUnavailable(retry_after=after) if after is not None:
            return True
        case ApiError(code=code, retry_after=after):
            return idempotent and (code in (503, 504) or (code >= 500 and after is not None))
        case _:
            return False
